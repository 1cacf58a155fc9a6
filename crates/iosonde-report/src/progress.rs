//! How far a command is, as one JSON object a line.

use serde_json::{Map, Value, json};

use super::json::json_line;

/// Name and version of a line; the version grows with every incompatible change.
pub const SCHEMA: &str = "iosonde.progress/1";

/// Where a running command stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    pub verb: &'static str,
    /// Title of the run at hand.
    pub title: String,
    /// Which run it is, from 0.
    pub cell: usize,
    /// Runs of the whole command.
    pub cells: usize,
    /// Since the start of this run, warm-up included, ns.
    pub elapsed_ns: u64,
    /// Time left for the whole command, ns; `None` where operations are counted.
    pub left_ns: Option<u64>,
    /// Operations completed since the start of this run, warm-up included.
    pub ops: u64,
    /// Operations per second since the last report.
    pub iops: f64,
}

pub fn progress_line(pace: &Pace) -> String {
    let fields: [(&str, Value); 8] = [
        ("verb", json!(pace.verb)),
        ("title", json!(pace.title)),
        ("cell", json!(pace.cell + 1)),
        ("cells", json!(pace.cells)),
        ("elapsed_ns", json!(pace.elapsed_ns)),
        ("left_ns", json!(pace.left_ns)),
        ("ops", json!(pace.ops)),
        ("iops", json!((pace.iops * 1e3).round() / 1e3)),
    ];
    let fields: Map<String, Value> =
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    json_line(SCHEMA, fields)
}

#[cfg(test)]
mod tests {
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
