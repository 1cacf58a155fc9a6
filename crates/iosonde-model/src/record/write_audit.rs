//! What was checked before a target was opened for writing.

use serde::{Deserialize, Serialize};

/// The safety gate's account of one target that is written: enough to judge afterwards whether the
/// write was right.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct WriteAudit {
    /// Path as given.
    pub path: String,
    /// What `--destroy-data` has to name; empty for a file.
    pub identity: String,
    /// Serial number of the disk, where it shows one.
    pub serial: Option<String>,
    /// The kernel's number of this appearance of the disk (`diskseq`).
    pub disk_sequence: Option<u64>,
    /// Each check and its result, in their order.
    pub checks: Vec<WriteCheck>,
    /// What could not be examined, although somebody could be hidden there.
    pub unseen: Vec<String>,
    /// The consents that were needed, as they were typed.
    pub consents: Vec<String>,
    /// Time that all checks took, content included, nanoseconds.
    pub took_ns: u64,
}

/// One check.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct WriteCheck {
    /// What was checked.
    pub check: String,
    /// What it showed.
    pub result: String,
}

impl WriteAudit {
    /// Adds a check and its result.
    pub fn note(&mut self, check: &str, result: impl Into<String>) {
        self.checks.push(WriteCheck { check: check.into(), result: result.into() });
    }

    /// Whether the target is a block device.
    #[must_use]
    pub fn is_of_device(&self) -> bool {
        !self.identity.is_empty()
    }
}
