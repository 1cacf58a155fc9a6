//! Classes of storage with published figures, the reference of a check.

use serde::Deserialize;

/// The built-in classes, in the format of a user's file, embedded in the binary.
const BUILT_IN: &str = include_str!("../../../../references/storage.toml");

/// A class of storage.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReferenceClass {
    /// Name with its article (`a SATA SSD`).
    pub name: String,
    /// Possible kinds of storage: `hdd`, `sata`, `nvme`, `virtual`, `network`; empty for any.
    #[serde(default)]
    pub storage: Vec<String>,
    /// Words of which the device's model must contain at least one; empty for any model.
    #[serde(default)]
    pub model: Vec<String>,
    /// Usual range of random 4 KiB reads per second.
    pub read_iops: [f64; 2],
    /// Usual range of random 4 KiB writes per second.
    pub write_iops: [f64; 2],
    /// Usual range of the bandwidth of large reads, MB/s of 10^6.
    pub read_mb_per_s: [f64; 2],
    /// Usual range of the bandwidth of large writes, MB/s of 10^6.
    pub write_mb_per_s: [f64; 2],
    /// IOPS limits that a service enforces.
    #[serde(default)]
    pub limit_iops: Vec<f64>,
    /// Bandwidth limits that a service enforces, MB/s.
    #[serde(default)]
    pub limit_mb_per_s: Vec<f64>,
    /// Largest usual mean latency of small requests, ms.
    pub usual_ms: f64,
    /// Source of the figures.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    class: Vec<ReferenceClass>,
}

/// Why a file of classes was rejected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReferenceError {
    /// The file is malformed.
    #[error("{0}")]
    Syntax(String),
    /// A range is empty or not positive.
    #[error("class `{class}`: found {key} = [{low}, {high}], expected 0 < first <= second")]
    Range { class: String, key: &'static str, low: f64, high: f64 },
    /// A kind of storage is unknown.
    #[error("class `{class}`: found storage `{found}`, expected {}", KINDS.join(", "))]
    Kind { class: String, found: String },
}

/// The kinds of storage.
pub const KINDS: [&str; 5] = ["hdd", "sata", "nvme", "virtual", "network"];

/// Reads a file of classes.
///
/// # Errors
/// If the file is malformed, a range is empty, or a kind of storage is unknown.
pub fn parse(text: &str) -> Result<Vec<ReferenceClass>, ReferenceError> {
    let file: File =
        toml::from_str(text).map_err(|error| ReferenceError::Syntax(error.to_string()))?;
    for class in &file.class {
        let ranges = [
            ("read-iops", class.read_iops),
            ("write-iops", class.write_iops),
            ("read-mb-per-s", class.read_mb_per_s),
            ("write-mb-per-s", class.write_mb_per_s),
        ];
        let is_none = |[low, high]: [f64; 2]| !(low > 0.0 && low <= high && high.is_finite());
        if let Some((key, [low, high])) = ranges.into_iter().find(|(_, range)| is_none(*range)) {
            return Err(ReferenceError::Range { class: class.name.clone(), key, low, high });
        }
        let unknown = class.storage.iter().find(|word| !KINDS.contains(&word.as_str()));
        if let Some(found) = unknown {
            let (class, found) = (class.name.clone(), found.clone());
            return Err(ReferenceError::Kind { class, found });
        }
    }
    Ok(file.class)
}

/// The built-in classes.
///
/// # Errors
/// Never; a test proves it.
pub fn built_in() -> Result<Vec<ReferenceClass>, ReferenceError> {
    parse(BUILT_IN)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_built_in_class_is_understood_and_has_a_source() {
        let classes = built_in().unwrap();
        assert!(classes.len() >= 15);
        assert!(classes.iter().all(|class| class.source.len() > 20), "{classes:?}");
        for kind in KINDS {
            assert!(classes.iter().any(|class| class.storage.iter().any(|word| word == kind)));
        }
    }

    #[test]
    fn what_is_no_range_or_no_kind_is_refused_by_name() {
        let good = BUILT_IN.split("[[class]]").nth(1).map(|text| format!("[[class]]{text}"));
        let good = good.unwrap();
        assert_eq!(parse(&good).unwrap().len(), 1);
        let wrong = good.replace("[60, 300]", "[300, 60]");
        assert!(parse(&wrong).unwrap_err().to_string().contains("read-iops = [300, 60]"));
        let wrong = good.replace("\"hdd\"", "\"tape\"");
        assert!(parse(&wrong).unwrap_err().to_string().contains("found storage `tape`"));
        assert!(parse("[[class]]\nname = \"x\"\n").is_err());
    }
}
