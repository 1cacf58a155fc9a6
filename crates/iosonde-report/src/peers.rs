//! Devices that differ from their peers, as text and as JSON.

use serde_json::Value;

use super::answer::Answer;
use super::clean::clean;
use super::comparison_json::compare_json;
use super::comparison_text::{figure, percent};
use super::report::Column;
use super::wrap::{Rule, Text, table};
use iosonde_analysis::comparison::peers::{FALSE_DISCOVERIES, FEWEST_PEERS, Group, Peers, Unlike};
use iosonde_model::units::count;

/// Name and version of the document's schema.
pub const PEERS_SCHEMA: &str = "iosonde.peers/1";

/// Most columns of the text.
const COLUMNS: usize = 120;
/// Most lines of one kind.
const SHOWN: usize = 20;

/// The JSON document of a comparison of peers.
pub fn peers_json(peers: &Peers, exit_code: u8) -> Value {
    compare_json(PEERS_SCHEMA, peers, exit_code)
}

/// The answer, the devices that differ from their peers, and the devices that could not be
/// compared, for a screen of `screen` columns.
pub fn peers_text(peers: &Peers, screen: usize) -> String {
    let mut out = Text::new(screen, COLUMNS);
    out.push_str(&answer(peers).text(out.columns));
    let rows: Vec<Vec<String>> = all_unlike(peers).map(row).collect();
    if !rows.is_empty() {
        let words = ["device", "load", "kind", "metric"];
        let columns = Column::all(&words, &["value", "median of peers", "difference", "p"]);
        out.push('\n');
        out.push_str(&table(&columns, &rows, Rule::None, out.columns));
    }
    let tolerance = percent(peers.tolerance);
    let rate = FALSE_DISCOVERIES * 100.0;
    let tolerance = tolerance.trim_start_matches('+');
    out.push('\n');
    out.hanging("  ", &format!(
        "{} groups of {FEWEST_PEERS} devices or more were tested (generalized extreme Studentized \
         deviate on logarithms; false discovery rate {rate:.0} % over groups). Differences within \
         {tolerance} are not shown.",
        peers.groups.len(),
    ));
    list(
        &mut out,
        "too few devices: ",
        peers.too_few.iter().map(|(group, devices)| {
            format!("{}: {devices}, expected {FEWEST_PEERS} or more", clean(group))
        }),
    );
    list(
        &mut out,
        "left out: ",
        peers.left_out.iter().map(|(device, why)| format!("{}: {}", clean(device), clean(why))),
    );
    out.into_string()
}

fn list(out: &mut Text, front: &str, lines: impl ExactSizeIterator<Item = String>) {
    let more = lines.len().saturating_sub(SHOWN);
    lines.take(SHOWN).for_each(|line| out.hanging(&format!("  {front}"), &line));
    if more > 0 {
        out.hanging(&format!("  {front}"), &format!("{more} more"));
    }
}

fn all_unlike(peers: &Peers) -> impl Iterator<Item = (&Group, &Unlike)> {
    peers.groups.iter().flat_map(|group| group.unlike.iter().map(move |each| (group, each)))
}

fn row((group, unlike): (&Group, &Unlike)) -> Vec<String> {
    let p = if unlike.p < 0.0001 { "<0.0001".into() } else { format!("{:.4}", unlike.p) };
    vec![
        clean(&unlike.device),
        clean(&group.load),
        clean(&group.kind),
        clean(&group.metric),
        figure(&group.metric, unlike.value),
        figure(&group.metric, group.median),
        percent(unlike.ratio - 1.0),
        p,
    ]
}

fn answer(peers: &Peers) -> Answer {
    let mut worse: Vec<&str> = all_unlike(peers)
        .filter(|(_, each)| each.is_worse)
        .map(|(_, each)| each.device.as_str())
        .collect();
    worse.sort_unstable();
    worse.dedup();
    let better = all_unlike(peers).filter(|(_, each)| !each.is_worse).count();
    let devices = count::thousands(peers.devices as u64);
    let result = match worse.as_slice() {
        _ if peers.groups.is_empty() => format!("no group of {FEWEST_PEERS} devices or more"),
        [] if better == 0 => format!("none of {devices} devices is unlike its peers"),
        [] => format!(
            "none of {devices} devices is worse than its peers, and {better} figures are better"
        ),
        [one] => format!("{} is worse than its peers, of {devices} devices", clean(one)),
        several => {
            let named: Vec<String> = several.iter().take(3).map(|name| clean(name)).collect();
            let more = several.len().saturating_sub(named.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}{more} are worse than their peers, of {devices} devices", named.join(", "))
        }
    };
    let confidence = match peers.groups.is_empty() {
        true => "none: too few devices".to_owned(),
        false if peers.runs < 2 * peers.devices => {
            "medium: most devices have one run, which may have been disturbed".to_owned()
        }
        false => "high".to_owned(),
    };
    let next = match worse.first() {
        Some(device) => format!("measure {} again, and read its findings", clean(device)),
        None if peers.groups.is_empty() => {
            "add results of the same load on more devices of the same model".to_owned()
        }
        None => "nothing".to_owned(),
    };
    Answer { result, confidence, next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_golden, closed};

    fn peers() -> Peers {
        let unlike = |device: &str, ratio: f64| Unlike {
            device: device.into(),
            value: 10_000.0 * ratio,
            ratio,
            is_worse: ratio < 1.0,
            runs: 3,
            p: 0.00002,
        };
        let group = |load: &str, unlike: Vec<Unlike>| Group {
            load: load.into(),
            kind: "Model X".into(),
            metric: "iops".into(),
            devices: 40,
            median: 10_000.0,
            corrected_p: 0.001,
            unlike,
        };
        Peers {
            devices: 40,
            runs: 120,
            tolerance: 0.05,
            groups: vec![
                group(
                    "Database",
                    vec![unlike("node07 S\u{1b}07", 0.61), unlike("node31 S31", 1.4)],
                ),
                group("Key-value store", Vec::new()),
            ],
            too_few: vec![("Database on Model Y".into(), 3)],
            left_out: vec![("node02 S02".into(), "it did not complete".into())],
        }
    }

    #[test]
    fn devices_unlike_their_peers_are_named_first() {
        let text = peers_text(&peers(), 100);
        assert_golden("peers.txt", &text);
        assert!(text.starts_with("Result: "));
        for columns in [60, 80, 200] {
            let text = peers_text(&peers(), columns);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        }
    }

    #[test]
    fn equal_devices_and_too_few_devices_are_said() {
        let mut equal = peers();
        equal.groups.iter_mut().for_each(|group| group.unlike.clear());
        assert!(peers_text(&equal, 100).contains("none of 40 devices is unlike its peers"));
        equal.groups.clear();
        assert!(peers_text(&equal, 100).contains("no group of 10 devices or more"));
    }

    #[test]
    fn the_document_is_that_of_its_schema() {
        let schema = closed(include_str!("../../../schema/iosonde-peers-1.schema.json"));
        let document = peers_json(&peers(), 0);
        let checked = jsonschema::validate(&schema, &document);
        assert!(checked.is_ok(), "{checked:?}");
    }
}
