//! A comparison of two sets of runs as a JSON document.

use serde::Serialize;
use serde_json::Value;

use super::clean::clean;
use super::json::envelope;
use iosonde_analysis::comparison::Comparison;

/// Name and version of the document's schema.
pub const COMPARISON_SCHEMA: &str = "iosonde.comparison/2";

/// The JSON document of a comparison.
pub fn comparison_json(compared: &Comparison, exit_code: u8) -> Value {
    compare_json(COMPARISON_SCHEMA, compared, exit_code)
}

/// A document of `compare`: the fields of every document, followed by those of the comparison.
pub(crate) fn compare_json(schema: &str, compared: &impl Serialize, exit_code: u8) -> Value {
    let mut document = envelope(schema, "compare", exit_code, compared);
    cleaned(&mut document);
    document
}

/// Escapes control characters in all strings.
fn cleaned(value: &mut Value) {
    match value {
        Value::String(text) => *text = clean(text),
        Value::Array(items) => items.iter_mut().for_each(cleaned),
        Value::Object(fields) => fields.values_mut().for_each(cleaned),
        _ => {}
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::comparison_text;
    use crate::golden::closed;
    use iosonde_analysis::comparison::{Gate, Observation, Request, Side, compare};

    fn side(name: &str, level: f64, runs: u64) -> Side {
        let of = |run: u64| Observation {
            cell: "T\u{1b}[2Jitle".into(),
            started_unix_ns: run + level as u64,
            directions: vec!["read".into()],
            values: [("iops".into(), level + run as f64), ("p50".into(), 1e9 / level)].into(),
            within: [("iops".into(), (level - 1.0, level + 1.0))].into(),
            ..Observation::default()
        };
        Side { name: name.into(), runs: (0..runs).map(of).collect() }
    }

    pub(crate) fn compared(level: f64, runs: u64) -> Comparison {
        let gates = ["iops>-5%", "p99<+10%"].map(|text| Gate::parse(text).unwrap()).to_vec();
        let requested =
            Request { tolerance: 0.05, gates, now_unix_ns: 1 << 60, ..Request::default() };
        compare(&side("before", 1_000.0, runs), &side("after", level, runs), &requested).unwrap()
    }

    #[test]
    fn every_document_fits_the_schema() {
        let schema = closed(include_str!("../../../schema/iosonde-comparison-2.schema.json"));
        let validator = jsonschema::validator_for(&schema).unwrap();
        for compared in [compared(800.0, 10), compared(1_000.5, 6), compared(900.0, 1)] {
            let document = comparison_json(&compared, 3);
            let faults: Vec<String> =
                validator.iter_errors(&document).map(|error| error.to_string()).collect();
            assert_eq!(faults, [] as [&str; 0], "{document:#}");
            assert!(!document.to_string().contains("u001b"), "{document}");
        }
    }

    #[test]
    fn what_is_in_doubt_is_recommended_as_no_baseline() {
        let next = |compared: &Comparison| crate::Answer::of_comparison(compared).next;
        let mut quiet = compared(1_000.0, 12);
        assert!(next(&quiet).starts_with("Keep it as the baseline"), "{}", next(&quiet));
        quiet.sides[1].is_in_doubt = true;
        assert!(next(&quiet).contains("it is no baseline"), "{}", next(&quiet));
    }

    #[test]
    fn the_table_says_how_much_and_how_sure() {
        let text = comparison_text(&compared(800.0, 10), 120);
        assert!(text.contains("  A  before (10 runs)\n  B  after (10 runs)\n"), "{text}");
        assert!(text.contains("\n  T\\x1b[2Jitle\n"), "{text}");
        let row = text.lines().find(|line| line.contains("slower: -19.9 %")).unwrap();
        assert!(row.contains("iops") && row.contains("0.801 [0."), "{row}");
        assert!(text.contains("slower: +25.0 % (large effect)"), "{text}");
        assert!(text.contains("  Gate iops>-5% in T\\x1b[2Jitle: FAILED (-19.9 %)\n"), "{text}");
        assert!(
            text.contains("  Gate p99<+10% in T\\x1b[2Jitle: unknown (no run has this metric)\n"),
            "{text}"
        );
        assert!(text.contains("corrected for all 2 tests (Holm)"), "{text}");
        assert!(text.contains("B is worse: iops -19.9 %, p50 +25.0 %"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn one_run_against_one_has_numbers_and_no_verdict() {
        let text = comparison_text(&compared(900.0, 1), 120);
        assert!(
            text.contains("at least 5 runs of each side, preferably 10 (found 1 and 1)"),
            "{text}"
        );
        assert!(text.contains("within the one run of A: iops [999, 1,001]"), "{text}");
        assert!(!text.contains("slower") && !text.contains("corrected"), "{text}");
    }
}
