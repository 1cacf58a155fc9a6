//! The similarity of a replay and its recording, as text and as JSON.

use serde::Serialize;
use serde_json::Value;

use super::answer::Answer;
use super::clean::clean;
use super::json::envelope;
use super::wrap::Text;
use iosonde_analysis::fidelity::{Fidelity, Latencies, word};
use iosonde_model::units::duration;

/// Name and version of the document's schema.
pub const COMPARE_SCHEMA: &str = "iosonde.compare/1";

/// Most columns of the text.
const COLUMNS: usize = 120;

/// The answer, the table of dimensions and the latencies, for a screen of `screen` columns.
pub fn fidelity_text(fidelity: &Fidelity, screen: usize) -> String {
    let mut out = Text::new(screen, COLUMNS);
    out.push_str(&Answer::of_fidelity(fidelity).text(out.columns));
    out.hanging("", "fidelity of the replay, dimension by dimension (1 is identical)");
    for dimension in &fidelity.dimensions {
        let head = format!("  {:<12} ", dimension.code);
        let Some(score) = dimension.score else {
            out.hanging(&head, &format!("no data ({})", clean(&dimension.no_data)));
            continue;
        };
        let ways: Vec<String> =
            dimension.ways.iter().map(|(op, score)| format!("{} {score:.2}", word(*op))).collect();
        let ways = if ways.len() > 1 { format!(" ({})", ways.join(", ")) } else { String::new() };
        out.hanging(&format!("{head}{score:.2}  "), &format!("{}{ways}", dimension.title));
        let sides = [("recorded", &dimension.recorded), ("regenerated", &dimension.regenerated)];
        for (side, words) in sides {
            out.hanging(&format!("  {:<17} {side:<12} ", ""), words);
        }
    }
    if !fidelity.latencies.is_empty() {
        out.hanging("  ", "latency is the storage's response and is not scored:");
    }
    for latencies in &fidelity.latencies {
        out.hanging("    ", &latency_line(latencies));
    }
    for note in &fidelity.notes {
        out.hanging("  note: ", &clean(note));
    }
    out.into_string()
}

fn latency_line(latencies: &Latencies) -> String {
    let formatted = |ns: Option<u64>| match ns {
        Some(ns) => duration::latency(ns as f64),
        None => "n/a (too few)".into(),
    };
    let [[p50, p99], [other_p50, other_p99]] =
        [latencies.recorded_ns, latencies.regenerated_ns].map(|pair| pair.map(formatted));
    format!(
        "{} p50 {p50} recorded, {other_p50} regenerated; p99 {p99} and {other_p99}",
        word(latencies.op)
    )
}

/// The JSON document of a replay compared with its recording.
pub fn fidelity_json(fidelity: &Fidelity, recorded: &str, regenerated: &str, exit: u8) -> Value {
    #[derive(Serialize)]
    struct Document<'a> {
        recorded: &'a str,
        regenerated: &'a str,
        #[serde(flatten)]
        fidelity: &'a Fidelity,
    }
    envelope(COMPARE_SCHEMA, "compare", exit, Document { recorded, regenerated, fidelity })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_analysis::fidelity::{fidelity, observed::Observed};
    use iosonde_fixtures::profile_model::{profile, row};
    use iosonde_model::record::profile::{Class, Op};
    use iosonde_model::spec::Speed;

    fn compared() -> Fidelity {
        let one = profile(vec![row(Class::Program, Op::Read, 2000)]);
        let mut other = one.clone();
        other.traffic[0].sizes = vec![(4096, 1000), (8192, 1000)];
        let of = Observed::of_profile;
        fidelity(&of(&one), &of(&other), Speed::Times(1.0))
    }

    #[test]
    fn a_failed_replay_is_said_in_the_place_of_the_score() {
        let mut failed = compared();
        (failed.score, failed.failed) = (None, Some("exit code 5".into()));
        let text = fidelity_text(&failed, 120);
        assert!(text.contains("no score: the replay ended with an error: exit code 5\n"), "{text}");
    }

    #[test]
    fn the_text_has_each_dimension_and_the_mean() {
        let text = fidelity_text(&compared(), 120);
        assert!(text.contains("  sizes        0.50  request size\n"), "{text}");
        assert!(text.contains("  working_set  no data (offsets were not recorded)\n"), "{text}");
        assert!(text.contains("read p50 "), "{text}");
        assert!(
            text.contains(
                "fidelity 0.92 of 1, the mean of 6 dimensions; least alike: sizes (0.50)\n"
            ),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }

    #[test]
    fn the_document_fits_its_schema() {
        let schema: Value =
            serde_json::from_str(include_str!("../../../schema/iosonde-compare-1.schema.json"))
                .unwrap();
        jsonschema::meta::validate(&schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let document = fidelity_json(&compared(), "a", "b", 0);
        let faults: Vec<String> =
            validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert_eq!(faults, [] as [&str; 0], "{document:#}");
        assert_eq!(document["fidelity"], 0.916667);
    }
}
