//! The rates of a check or run in few bytes, beside its records: what later ones are compared with.

use serde::{Deserialize, Serialize};

use super::TargetFacts;

/// Name and version of the schema.
pub const SUMMARY_SCHEMA: &str = "iosonde.summary/1";
/// Name of the file in a result folder.
pub const SUMMARY: &str = "summary.json";

/// A check or run in few numbers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Summary {
    /// [`SUMMARY_SCHEMA`].
    pub schema: String,
    /// The storage: the serial number of its device, else its kernel name, else the mount point.
    pub storage: String,
    /// Type of the file system, if there is one.
    pub filesystem: Option<String>,
    /// Size of the test file, bytes.
    pub bytes: u64,
    /// Length of each row, ns; 0 where time does not end it.
    pub length_ns: u64,
    /// What distinguishes the load of a run from others; empty for a check, whose rows have names.
    #[serde(default)]
    pub load: String,
    /// The rows that were measured.
    pub rows: Vec<SummaryRow>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SummaryRow {
    pub title: String,
    /// Operations per second.
    pub iops: f64,
    /// Whether later ones are compared with it.
    #[serde(default = "yes")]
    pub is_reference: bool,
}

fn yes() -> bool {
    true
}

impl Summary {
    /// Of a target, without rows.
    pub fn of(target: &TargetFacts, bytes: u64, length_ns: u64) -> Summary {
        let device = target.device.as_ref();
        let name = device.map(|device| device.serial.as_ref().unwrap_or(&device.name).clone());
        Summary {
            schema: SUMMARY_SCHEMA.into(),
            storage: name.or(target.mount_point.clone()).unwrap_or_default(),
            filesystem: target.filesystem.clone(),
            bytes,
            length_ns,
            load: String::new(),
            rows: Vec::new(),
        }
    }

    /// Whether another one measured the same in the same way.
    pub fn is_like(&self, other: &Summary) -> bool {
        !self.storage.is_empty()
            && Summary { rows: Vec::new(), ..self.clone() }
                == Summary { rows: Vec::new(), ..other.clone() }
    }
}
