//! The tables of profiling overhead.

use std::fmt::Write as _;

use iosonde_stats::ratio::median;

use crate::case::CaseName;
use crate::numbers::{rate, spread};
use crate::rounds::{CaseResult, Sample};
use crate::summary::column;
use crate::tool::Kind;
use crate::watched::{Subject, Watched, Watcher};

const MIB: f64 = (1 << 20) as f64;

fn reads(watcher: Watcher) -> Kind {
    Kind::Watched(watcher, Subject::Reads)
}

fn start(watcher: Watcher) -> Kind {
    Kind::Watched(watcher, Subject::Start)
}

/// Combines a figure of two contenders within each round.
fn in_rounds(
    described: &CaseResult,
    (one, other): (Kind, Kind),
    figure: impl Fn(&Sample) -> Option<f64>,
    together: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    let [one, other] = [one, other].map(|kind| column(described, kind.title(), &figure));
    if one.len() != other.len() {
        return Vec::new();
    }
    one.into_iter().zip(other).map(|(one, other)| together(one, other)).collect()
}

fn of(figure: fn(&Watched) -> f64) -> impl Fn(&Sample) -> Option<f64> {
    move |sample| sample.watched.as_ref().map(figure)
}

/// Share of the rate lost to the profiler, for each round.
fn losses(described: &CaseResult, watcher: Watcher) -> Vec<f64> {
    let pair = (reads(watcher), reads(Watcher::Nobody));
    in_rounds(described, pair, |sample| Some(sample.iops), |watched, bare| 1.0 - watched / bare)
}

/// Extra CPU time of the machine per operation under the profiler, ns, for each round.
fn more_ns(described: &CaseResult, watcher: Watcher) -> Vec<f64> {
    let pair = (reads(watcher), reads(Watcher::Nobody));
    in_rounds(described, pair, of(|watched| watched.machine_ns_per_op), |watched, bare| {
        watched - bare
    })
}

/// Delay of a command's start by the profiler, seconds, for each round.
fn later_s(described: &CaseResult, watcher: Watcher) -> Vec<f64> {
    let pair = (start(watcher), start(Watcher::Nobody));
    in_rounds(described, pair, of(|watched| watched.released_s), |watched, bare| watched - bare)
}

/// Median share of the rate lost to `iosonde profile`.
pub(crate) fn loss(described: &CaseResult) -> Option<f64> {
    median(&losses(described, Watcher::Profile))
}

/// The median loss to `iosonde profile` over that to bpftrace; `None` if bpftrace loses nothing.
pub(crate) fn loss_over_bpftrace(described: &CaseResult) -> Option<f64> {
    let theirs = median(&losses(described, Watcher::Bpftrace)).filter(|&loss| loss > 0.0)?;
    Some(loss(described)? / theirs)
}

/// Median delay of a command's start by `iosonde profile`, seconds.
pub(crate) fn released_later_s(described: &CaseResult) -> Option<f64> {
    median(&later_s(described, Watcher::Profile))
}

/// Memory of the collector after the long run over that after the short one.
pub(crate) fn memory_growth(described: &CaseResult) -> Option<f64> {
    let long = Kind::Watched(Watcher::Profile, Subject::LongReads);
    let bytes = |sample: &Sample| Some(sample.watched?.collector_bytes? as f64);
    median(&in_rounds(described, (long, reads(Watcher::Profile)), bytes, |long, short| {
        long / short
    }))
}

/// Median and range in the given unit.
fn middle_and_range(values: &[f64], unit: f64, decimals: usize) -> (String, String) {
    let (Some(middle), Some((low, high))) = (median(values), spread(values)) else {
        return ("-".to_owned(), "-".to_owned());
    };
    let number = |value: f64| format!("{:.decimals$}", value * unit);
    (number(middle), format!("{} to {}", number(low), number(high)))
}

/// The table of a case.
pub(crate) fn table(case: CaseName, described: &CaseResult) -> String {
    match case {
        CaseName::ProfileStart => start_table(described),
        CaseName::ProfileMemory => memory_table(case, described),
        _ => cost_table(described),
    }
}

fn cost_table(described: &CaseResult) -> String {
    let mut text = "| profiler | IOPS median | lost, % | min to max | CPU ns per I/O, whole \
                    machine | over none, ns | min to max | events lost |\n\
                    | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for watcher in [Watcher::Nobody, Watcher::Profile, Watcher::Bpftrace] {
        let title = reads(watcher).title();
        let Some(iops) = median(&column(described, title, |sample| Some(sample.iops))) else {
            continue;
        };
        let machine = column(described, title, of(|watched| watched.machine_ns_per_op));
        let (lost, lost_range) = middle_and_range(&losses(described, watcher), 100.0, 1);
        let (machine, _) = middle_and_range(&machine, 1.0, 0);
        let (more, more_range) = middle_and_range(&more_ns(described, watcher), 1.0, 0);
        let events = column(described, title, |sample| Some(sample.watched?.lost? as f64));
        let events = spread(&events)
            .map_or_else(|| "-".to_owned(), |(_, most)| format!("{most:.0} at most"));
        let _ = writeln!(
            text,
            "| {title} | {} | {lost} | {lost_range} | {machine} | {more} | {more_range} | \
             {events} |",
            rate(iops)
        );
    }
    text
}

fn start_table(described: &CaseResult) -> String {
    let mut text = "| profiler | command runs after, ms | later than alone, ms | min to max | \
                    all of it, ms |\n| --- | --- | --- | --- | --- |\n"
        .to_owned();
    for watcher in [Watcher::Nobody, Watcher::Profile, Watcher::Bpftrace] {
        let title = start(watcher).title();
        let (released, _) =
            middle_and_range(&column(described, title, of(|watched| watched.released_s)), 1e3, 1);
        let (later, later_range) = middle_and_range(&later_s(described, watcher), 1e3, 1);
        let (all, _) =
            middle_and_range(&column(described, title, |sample| Some(sample.iops.recip())), 1e3, 0);
        let _ = writeln!(text, "| {title} | {released} | {later} | {later_range} | {all} |");
    }
    text
}

fn memory_table(case: CaseName, described: &CaseResult) -> String {
    let mut text = "| run | operations | memory of the collector, MiB | events lost |\n\
                    | --- | --- | --- | --- |\n"
        .to_owned();
    for &kind in case.contenders() {
        for sample in described.samples.iter().filter(|sample| sample.tool == kind.title()) {
            let Some(watched) = sample.watched else { continue };
            let bytes = watched.collector_bytes.unwrap_or(0) as f64 / MIB;
            let (ops, lost) = (sample.ops.unwrap_or(0.0), watched.lost.unwrap_or(0));
            let _ = writeln!(text, "| {} | {ops:.0} | {bytes:.1} | {lost} |", kind.title());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn described(rates: &[(Watcher, [f64; 3])]) -> CaseResult {
        let sample = |watcher, round: u32, iops: f64| {
            let machine_ns_per_op = 1e9 / iops;
            let lost = (watcher == Watcher::Profile).then_some(round.into());
            let watched =
                Watched { released_s: 0.1, machine_ns_per_op, collector_bytes: None, lost };
            Sample { watched: Some(watched), ..Sample::bare(reads(watcher).title(), round, iops) }
        };
        let samples = rates.iter().flat_map(|(watcher, rates)| {
            let rounds = (0..).zip(rates);
            rounds.map(|(round, &iops)| sample(*watcher, round, iops)).collect::<Vec<_>>()
        });
        CaseResult { samples: samples.collect(), ..CaseResult::default() }
    }

    #[test]
    fn losses_are_taken_within_rounds() {
        // The third round is slow for all; its loss is the same.
        let described = described(&[
            (Watcher::Nobody, [100.0, 100.0, 50.0]),
            (Watcher::Profile, [99.0, 98.0, 49.0]),
            (Watcher::Bpftrace, [90.0, 92.0, 45.0]),
        ]);
        assert!((loss(&described).unwrap() - 0.02).abs() < 1e-12);
        assert!((loss_over_bpftrace(&described).unwrap() - 0.2).abs() < 1e-9);
        let text = table(CaseName::ProfileDisk, &described);
        assert!(text.contains("| iosonde profile | 0.1 k | 2.0 | 1.0 to 2.0 |"), "{text}");
        assert!(text.contains("| 2 at most |"), "{text}");
        assert_eq!(memory_growth(&described), None);
    }
}
