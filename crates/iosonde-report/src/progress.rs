//! Progress of a command as one JSON object per line.

use serde::{Serialize, Serializer};
use serde_json::json;

use super::json::json_line;

/// Name and version of a line; the version grows with every incompatible change.
pub const SCHEMA: &str = "iosonde.progress/1";

/// Progress of a running command.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pace {
    pub verb: &'static str,
    /// Title of the current run.
    pub title: String,
    /// Index of the current run, from 0; written from 1.
    #[serde(serialize_with = "from_one")]
    pub cell: usize,
    /// Number of runs of the command.
    pub cells: usize,
    /// Time since the start of this run, including the warm-up, ns.
    pub elapsed_ns: u64,
    /// Time left for the whole command, ns; `None` if a run ends after a number of operations.
    pub left_ns: Option<u64>,
    /// Operations completed since the start of this run, including the warm-up.
    pub ops: u64,
    /// Operations per second since the last report; written with three decimals.
    #[serde(serialize_with = "to_thousandths")]
    pub iops: f64,
}

pub fn progress_line(pace: &Pace) -> String {
    json_line(SCHEMA, &json!(pace))
}

fn from_one<S: Serializer>(index: &usize, to: S) -> Result<S::Ok, S::Error> {
    (index + 1).serialize(to)
}

fn to_thousandths<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64((value * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_line_is_one_object_whatever_the_title() {
        let pace = Pace {
            verb: "run",
            title: "a\n\u{1b}[31m\"b\"\u{202e}".into(),
            cell: 0,
            cells: 1,
            elapsed_ns: 2_000_000_000,
            left_ns: None,
            ops: 20_000,
            iops: 10_000.000_4,
        };
        let line = progress_line(&pace);
        assert_eq!(line.matches('\n').count(), 1);
        assert!(!line.contains(['\u{1b}', '\u{202e}']), "{line}");
        let back: Value = serde_json::from_str(&line).unwrap_or_default();
        assert_eq!(back["title"], pace.title);
        assert_eq!((back["iops"].as_f64(), back["left_ns"].clone()), (Some(10_000.0), Value::Null));
    }
}
