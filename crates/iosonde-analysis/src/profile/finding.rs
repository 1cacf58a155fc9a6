//! Findings of a profile: how a program uses storage, with evidence.
//!
//! One detector per file; [`DETECTORS`] lists them. A detector reports only if its evidence exists:
//! what was not seen is never evidence.

mod buffered_stream;
mod bursty;
mod device_tail;
mod dirty_left;
mod durable_writes;
mod fits_in_memory;
mod hot_spot;
mod io_errors;
mod journal;
mod latency_bound_reads;
mod limited_fidelity;
mod not_visible;
mod other_traffic;
mod overwrites;
mod page_cache;
mod partial_blocks;
mod queue_time;
mod run_delay;
mod strided;
mod sync_bound;
mod sync_small_writes;
mod throttled;
mod written_for_it;

use std::collections::BTreeMap;

use crate::finding::{Detector, Evidence, Finding, Severity, Strength};
use iosonde_model::record::profile::{Class, Op, ProfileRun};
use iosonde_model::units::count;

use super::Figures;
use super::traffic::Tally;

/// Function that examines a profile.
pub type Detect = fn(&ProfileRun, &Figures) -> Option<Finding>;

/// Every detector, by code. To add one: one file, one `mod` line, one line here.
pub const DETECTORS: &[Detector<Detect>] = &[
    buffered_stream::DETECTOR,
    bursty::DETECTOR,
    device_tail::DETECTOR,
    dirty_left::DETECTOR,
    durable_writes::DETECTOR,
    fits_in_memory::DETECTOR,
    hot_spot::DETECTOR,
    io_errors::DETECTOR,
    journal::DETECTOR,
    latency_bound_reads::DETECTOR,
    limited_fidelity::DETECTOR,
    not_visible::DETECTOR,
    other_traffic::DETECTOR,
    overwrites::DETECTOR,
    page_cache::DETECTOR,
    partial_blocks::DETECTOR,
    queue_time::DETECTOR,
    run_delay::DETECTOR,
    strided::DETECTOR,
    sync_bound::DETECTOR,
    sync_small_writes::DETECTOR,
    throttled::DETECTOR,
    written_for_it::DETECTOR,
];

/// Detectors that run even if the consistency checks failed: they report what is wrong.
const ALWAYS: [&str; 3] = ["io_errors", "limited_fidelity", "not_visible"];

/// All findings of a profile, by severity, cost and strength, the highest first. If the consistency
/// checks failed, nothing is diagnosed from the numbers.
pub fn findings(run: &ProfileRun, figures: &Figures) -> Vec<Finding> {
    let mut findings: Vec<Finding> = DETECTORS
        .iter()
        .filter(|detector| figures.consistency.valid() || ALWAYS.contains(&detector.code))
        .filter_map(|detector| (detector.detect)(run, figures))
        .collect();
    findings.sort_by_key(|finding| {
        std::cmp::Reverse((finding.severity, cost(finding), finding.strength))
    });
    findings
}

/// Cost to the program, in thousandths of its time; 0 if unknown.
fn cost(finding: &Finding) -> u64 {
    let shares = finding.evidence.iter().filter(|(name, _)| name.ends_with("time_share"));
    let numbers = shares.filter_map(|(_, value)| match value {
        Evidence::Number(share) => Some(*share),
        Evidence::Text(_) => None,
    });
    let most = numbers.fold(0.0, f64::max);
    (most * 1000.0) as u64
}

/// The finding with the greatest weight; the first of equals.
fn greatest<W: PartialOrd>(found: impl Iterator<Item = (W, Finding)>) -> Option<Finding> {
    let most = found.reduce(|most, next| if next.0 > most.0 { next } else { most });
    most.map(|(_, finding)| finding)
}

/// Requests of one operation that the threads of a group made themselves.
fn own(run: &ProfileRun, group: u32, op: Op) -> Tally {
    Tally::of(run.traffic.iter().filter(|traffic| {
        traffic.class == Class::Program && traffic.group == group && traffic.op == op
    }))
}

/// Thread groups with an index, a name and at least one thread.
fn groups(run: &ProfileRun) -> impl Iterator<Item = (u32, String, u32)> + '_ {
    (0u32..)
        .zip(&run.groups)
        .map(|(index, group)| (index, super::group_name(run, index), group.threads.max(1)))
}

/// The most frequent size, and its share of the requests.
fn commonest(sizes: &BTreeMap<u64, u64>) -> Option<(u64, f64)> {
    let all: u64 = sizes.values().sum();
    let (bytes, requests) = sizes.iter().max_by_key(|(_, requests)| **requests)?;
    (all > 0).then(|| (*bytes, *requests as f64 / all as f64))
}

/// Share of the requests of at most this size.
fn share_up_to(sizes: &BTreeMap<u64, u64>, bytes: u64) -> f64 {
    let all: u64 = sizes.values().sum();
    let small: u64 = sizes.range(..=bytes).map(|(_, requests)| requests).sum();
    small as f64 / all.max(1) as f64
}

/// `91 %` of a share, with at most two digits unless it is close to 100 %.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 9.95 => format!("{percent:.0} %"),
        percent => format!("{} %", count::significant((percent * 10.0).round() / 10.0)),
    }
}

/// `` `name` `` with the number of its threads, if there are several.
fn named(name: &str, threads: u32) -> String {
    if threads > 1 { format!("`{name}` ({threads} threads)") } else { format!("`{name}`") }
}

/// The name of an operation in a sentence.
fn plural(op: Op) -> &'static str {
    match op {
        Op::Read => "reads",
        Op::Write => "writes",
        Op::Discard => "discards",
        Op::Flush => "flushes",
        Op::Other => "other requests",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::figures;
    use iosonde_fixtures::profile::{Flow, database, profile_of};

    /// The finding of a detector for a profile.
    pub(super) fn ask(detect: Detect, run: &ProfileRun) -> Option<Finding> {
        detect(run, &figures(run))
    }

    /// The text of its finding; panics if there is none.
    #[track_caller]
    pub(super) fn words(detect: Detect, run: &ProfileRun) -> String {
        ask(detect, run).map(|finding| finding.words).expect("it speaks")
    }

    #[test]
    fn detectors_are_listed_in_order_and_once() {
        assert!(DETECTORS.windows(2).all(|pair| pair[0].code < pair[1].code));
    }

    #[test]
    fn what_a_detector_says_bears_its_own_code() {
        let run = database();
        let figures = figures(&run);
        assert!(
            figures.consistency.valid(),
            "{:?}",
            figures.consistency.broken().collect::<Vec<_>>()
        );
        for Detector { code, detect, .. } in DETECTORS {
            if let Some(finding) = detect(&run, &figures) {
                assert_eq!(&finding.code, code);
                assert!(!finding.evidence.is_empty(), "{code}");
            }
        }
        assert!(figures.findings.iter().any(|finding| finding.code == "sync_small_writes"));
    }

    #[test]
    fn a_plain_program_has_nothing_to_report() {
        // Random reads by one thread, four in flight, each block once.
        let flow = Flow { requests: 40_000, device_ns: 990_000, ..Flow::default() };
        let run = profile_of(&[flow]);
        assert_eq!(figures(&run).findings, Vec::new());
        assert_eq!(figures(&profile_of(&[])).findings, Vec::new());
    }

    #[test]
    fn nothing_is_diagnosed_from_failed_consistency_checks() {
        let mut run = database();
        run.lost.insert("requests: too many".into(), 70_000);
        run.traffic[0].errors = 3;
        let codes: Vec<&str> = figures(&run).findings.iter().map(|each| each.code).collect();
        assert_eq!(codes, ["io_errors"]);
    }
}
