//! The rates of a check or run in a few bytes, beside its records, for comparison with later ones.

use serde::{Deserialize, Serialize};

use super::TargetFacts;

/// Name and version of the schema.
pub const SUMMARY_SCHEMA: &str = "iosonde.summary/1";
/// Name of the file in a result folder.
pub const SUMMARY: &str = "summary.json";

/// Summary of a check or run.
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
    /// Duration of each row, ns; 0 if it is not limited by time.
    pub length_ns: u64,
    /// Identification of the load of a run; empty for a check, whose rows have names.
    #[serde(default)]
    pub load: String,
    /// Measured rows.
    pub rows: Vec<SummaryRow>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SummaryRow {
    pub title: String,
    /// Operations per second.
    pub iops: f64,
    /// Whether later results are compared with it.
    #[serde(default = "yes")]
    pub is_reference: bool,
}

fn yes() -> bool {
    true
}

impl Summary {
    /// A summary of a target, without rows.
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

    /// Whether the other summary is of the same storage, load and settings.
    pub fn is_like(&self, other: &Summary) -> bool {
        !self.storage.is_empty()
            && Summary { rows: Vec::new(), ..self.clone() }
                == Summary { rows: Vec::new(), ..other.clone() }
    }
}
