//! Does a burst of fast I/O end, after how much, and at which rate does I/O continue?
//!
//! A write cache is exhausted after a number of bytes, a token bucket after a number of operations
//! or bytes. The rate after a token bucket is more constant than any device's (method 4.6).

use super::words::{self, nothing};
use super::{Answer, Point, StageFacts, TrialFigures};
use crate::finding::{Severity, Strength};
use crate::series::Series;
use iosonde_model::plan::chance::mix;
use iosonde_model::units::{bytes, count, duration};
use iosonde_stats::bootstrap::{Interval, Method};
use iosonde_stats::ratio::median;
use iosonde_stats::regimes::{Regimes, Segment, regimes};
use iosonde_stats::summary::Summary;

/// Coefficient of variation below which a rate is too constant for a device: a rate limiter's.
const POLICED_BELOW: f64 = 0.02;
/// Smallest drop that counts as the end of a write cache.
const CACHE_FALL_FROM: f64 = 0.30;
/// Largest relative difference of two figures that count as equal.
const SAME_WITHIN: f64 = 0.10;

/// One drop of one run.
struct Fall<'a> {
    point: &'a Point,
    /// Number of the run within its setting.
    repeat: u32,
    /// Operations per second before and after.
    iops: (f64, f64),
    /// Bytes per second before and after.
    rate: (f64, f64),
    /// Time until the drop, s.
    after_s: f64,
    /// Bytes moved until the drop.
    after_bytes: f64,
    /// Operations of the burst beyond those at the rate after the drop.
    burst_ops: f64,
    /// Coefficient of variation of the rate after the drop.
    scatter: f64,
    writes: bool,
}

/// Detects drops in each run.
pub(super) fn analyse(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let usable: Vec<&TrialFigures> = facts.trials.iter().filter(|t| t.is_usable()).collect();
    if usable.is_empty() {
        return nothing("No run can be used, so cliffs cannot be detected.");
    }
    let mut answer = Answer::default();
    let mut falls: Vec<Fall> = Vec::new();
    let mut bursts: Vec<EarlyBurst> = Vec::new();
    let mut marked: Vec<usize> = Vec::new();
    for trial in usable {
        let Some(point) = facts.points.iter().find(|point| point.cell == trial.cell) else {
            continue;
        };
        let found = regimes(&trial.series.bytes_per_s(), mix(facts.laid_out.order_seed));
        if found.matters && found.segments.len() > 1 && !marked.contains(&point.cell) {
            marked.push(point.cell);
            changes(&mut answer, facts, point, trial, &found);
        }
        match (fall(point, trial, &found), early_burst(point, trial)) {
            (Some(fall), _) => falls.push(fall),
            (None, Some(burst)) => bursts.push(burst),
            (None, None) => even(&mut answer, &words::setting(facts, point), trial, &found),
        }
    }
    for point in &facts.points {
        let name = words::setting(facts, point);
        let own = |of: &Point| of.cell == point.cell;
        let of_point: Vec<&EarlyBurst> = bursts.iter().filter(|burst| own(burst.point)).collect();
        report_bursts(&mut answer, &name, &of_point);
        let of_point: Vec<&Fall> = falls.iter().filter(|fall| own(fall.point)).collect();
        report(&mut answer, &name, &of_point);
    }
    kind(&mut answer, facts, &falls);
    answer
}

/// Multiple of the median rate of later intervals above which the first interval is a burst.
const BURST_FROM: f64 = 3.0;

/// Excess over the usual operations, as a share, above which an interval belongs to a burst.
const IN_BURST_ABOVE: f64 = 0.10;

/// First interval after a burst, `from` or a later one. The interval in which the burst ends still
/// belongs to it: its excess over the usual number of operations is more than chance.
fn burst_end(series: &Series, usual_iops: f64, from: usize) -> usize {
    let usual = usual_iops * series.width_ns as f64 / 1e9;
    let limit = usual + (IN_BURST_ABOVE * usual).max(3.0 * usual.sqrt());
    let after = series.ops.iter().skip(from).take_while(|ops| **ops as f64 > limit);
    from + after.count()
}

/// Operations before interval `end` beyond those at the usual rate, at which a bucket refills.
fn burst_ops(series: &Series, usual_iops: f64, end: usize) -> f64 {
    let done: u64 = series.ops.iter().take(end).sum();
    done as f64 - usual_iops * end as f64 * series.width_ns as f64 / 1e9
}

/// A burst of a few intervals, in one run.
struct EarlyBurst<'a> {
    point: &'a Point,
    /// Number of the run within its setting.
    repeat: u32,
    /// Operations above the later rate.
    ops: f64,
    /// Operations per second after the burst.
    usual_iops: f64,
    /// Times between which the burst ended, ns.
    ended_ns: (u64, u64),
}

/// Detects a burst of a few intervals, which is too short for a regime.
fn early_burst<'a>(point: &'a Point, trial: &TrialFigures) -> Option<EarlyBurst<'a>> {
    let rates = trial.series.iops();
    let (first, rest) = rates.split_first()?;
    let usual_iops = median(rest).filter(|usual| *usual > 0.0 && *first > BURST_FROM * usual)?;
    let end = burst_end(&trial.series, usual_iops, 1);
    let ns = |intervals: usize| intervals as u64 * trial.series.width_ns;
    Some(EarlyBurst {
        point,
        repeat: trial.repeat,
        ops: burst_ops(&trial.series, usual_iops, end),
        usual_iops,
        ended_ns: (ns(end - 1), ns(end)),
    })
}

/// Reports the bursts of a setting, each with its run.
fn report_bursts(answer: &mut Answer, name: &str, bursts: &[&EarlyBurst<'_>]) {
    let of = |value: fn(&EarlyBurst<'_>) -> f64| bursts.iter().map(|burst| value(burst)).collect();
    let (ops, usual): (Vec<f64>, Vec<f64>) = (of(|burst| burst.ops), of(|burst| burst.usual_iops));
    let starts = bursts.iter().map(|burst| burst.ended_ns.0).min();
    let ends = bursts.iter().map(|burst| burst.ended_ns.1).max();
    let (Some(start_ns), Some(end_ns)) = (starts, ends) else { return };
    find_range(answer, &format!("burst-ops-{}", words::slug(name)), &ops);
    find_range(answer, &format!("sustained-iops-{}", words::slug(name)), &usual);
    let each = bursts.iter().map(|burst| {
        format!("{} (run {})", count::significant_or_whole(burst.ops), burst.repeat + 1)
    });
    let over = match start_ns {
        0 => format!("within the first {}", duration::latency(end_ns as f64)),
        ns => {
            let [start, end] = [ns, end_ns].map(|ns| duration::latency(ns as f64));
            format!("after {start} to {end}")
        }
    };
    answer.say(format!(
        "{name}: a burst above the later rate was over {over}, of about {} operations; after \
         that it does {} IOPS. The mean over a run mixes both and describes neither.",
        each.collect::<Vec<String>>().join(", "),
        ranged(&usual, count::significant_or_whole),
    ));
}

/// Minimum and maximum over the runs of a setting; `None` for one run.
fn range(values: &[f64]) -> Option<Interval> {
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    (values.len() > 1).then_some(Interval { low, high, level: None, method: Method::Range })
}

/// Adds the mean over the runs of a setting, with minimum and maximum.
fn find_range(answer: &mut Answer, name: &str, values: &[f64]) {
    if let Some(summary) = Summary::of(values) {
        answer.find_between(name, summary.mean, range(values));
    }
}

/// `5,000 (4,990 to 5,010 in 2 runs)`; for one run `5,000 (one run)`.
fn ranged(values: &[f64], formatted: impl Fn(f64) -> String) -> String {
    let mean = Summary::of(values).map_or("n/a".into(), |summary| formatted(summary.mean));
    match range(values) {
        Some(Interval { low, high, .. }) => {
            let (low, high) = (formatted(low), formatted(high));
            format!("{mean} ({low} to {high} in {} runs)", values.len())
        }
        None => format!("{mean} (one run)"),
    }
}

/// Adds the times of the changes of a run, in seconds from its start, for charts: `change-1`, with
/// the name of the setting (`change-1-reads`) if there are several settings.
fn changes(
    answer: &mut Answer,
    facts: &StageFacts,
    point: &Point,
    trial: &TrialFigures,
    found: &Regimes,
) {
    let cell = |word: String| match facts.points.len() {
        1 => word,
        _ => format!("{word}-{}", words::slug(&point.name())),
    };
    for (number, segment) in found.segments.iter().enumerate().skip(1) {
        let after_s = segment.start as f64 * trial.series.width_ns as f64 / 1e9;
        answer.find(&cell(format!("change-{number}")), after_s);
    }
}

fn even(answer: &mut Answer, name: &str, trial: &TrialFigures, found: &Regimes) {
    let seconds = trial.series.bytes.len() as f64 * trial.series.width_ns as f64 / 1e9;
    let moved: u64 = trial.series.bytes.iter().sum();
    let also = if found.segments.len() > 1 { ", although the rate changed in between" } else { "" };
    answer.say(format!(
        "{name}, run {}: no lasting drop within {} and {}{also}; later changes were not observed.",
        trial.repeat + 1,
        duration::latency(seconds * 1e9),
        bytes::rough(moved),
    ));
}

/// The largest drop between consecutive regimes; `None` if the rate recovers.
fn fall<'a>(point: &'a Point, trial: &TrialFigures, found: &Regimes) -> Option<Fall<'a>> {
    if !found.matters {
        return None;
    }
    let deep = |pair: &&[Segment]| 1.0 - pair[1].median / pair[0].median.max(f64::MIN_POSITIVE);
    let pair = found.segments.windows(2).max_by(|a, b| deep(a).total_cmp(&deep(b)))?;
    let (before, after) = (pair[0], pair[1]);
    let last = found.segments.last()?;
    let lasting = last.median < before.median * 0.9 && after.median < before.median * 0.9;
    if !lasting {
        return None;
    }
    let (iops, rates) = (trial.series.iops(), trial.series.bytes_per_s());
    let mean = |values: &[f64], part: Segment| {
        Summary::of(values.get(part.start..part.end)?).map(|summary| summary.mean)
    };
    // The remaining rate is measured from the drop to the end.
    let left = Segment { start: after.start, end: last.end, median: after.median };
    let scatter = Summary::of(rates.get(left.start..left.end)?)?.cv()?;
    let slow_iops = mean(&iops, left)?;
    let end = burst_end(&trial.series, slow_iops, after.start);
    Some(Fall {
        point,
        repeat: trial.repeat,
        iops: (mean(&iops, before)?, slow_iops),
        burst_ops: burst_ops(&trial.series, slow_iops, end),
        rate: (mean(&rates, before)?, mean(&rates, left)?),
        after_s: after.start as f64 * trial.series.width_ns as f64 / 1e9,
        after_bytes: trial.series.bytes.iter().take(after.start).sum::<u64>() as f64,
        scatter,
        writes: trial.written_bytes > 0,
    })
}

/// Reports the drops of a setting over its runs.
fn report(answer: &mut Answer, name: &str, falls: &[&Fall<'_>]) {
    if falls.is_empty() {
        return;
    }
    let of = |value: fn(&Fall<'_>) -> f64| -> Vec<f64> {
        falls.iter().map(|fall| value(fall)).collect()
    };
    let (after_s, after_bytes) = (of(|fall| fall.after_s), of(|fall| fall.after_bytes));
    let (fast, slow) = (of(|fall| fall.rate.0), of(|fall| fall.rate.1));
    let iops = of(|fall| fall.iops.1);
    for (word, values) in [
        ("after-s", &after_s),
        ("after-bytes", &after_bytes),
        ("burst-bytes-per-s", &fast),
        ("sustained-bytes-per-s", &slow),
        ("sustained-iops", &iops),
        ("burst-ops", &of(|fall| fall.burst_ops)),
    ] {
        find_range(answer, &format!("{word}-{}", words::slug(name)), values);
    }
    answer.say(format!(
        "{name}: {} for {}, that is {}; then {}, {} IOPS, {} less. A shorter run measures only \
         the first level.",
        ranged(&fast, bytes::per_second),
        ranged(&after_s, |seconds| duration::latency(seconds * 1e9)),
        ranged(&after_bytes, words::size),
        ranged(&slow, bytes::per_second),
        ranged(&iops, count::significant_or_whole),
        ranged(&of(|fall| 1.0 - fall.rate.1 / fall.rate.0), count::percent),
    ));
}

/// Reports what was exhausted: a write cache or a token bucket.
fn kind(answer: &mut Answer, facts: &StageFacts, falls: &[Fall<'_>]) {
    let Some(first) = falls.first() else { return };
    let same = |a: f64, b: f64| (a / b - 1.0).abs() <= SAME_WITHIN;
    let other = falls.iter().find(|fall| fall.point.cell != first.point.cell);
    let smooth = falls.iter().all(|fall| fall.scatter < POLICED_BELOW);
    // A cache drains at a byte rate; only a limiter of operations gives equal IOPS at all sizes.
    let counts_operations = other.is_some_and(|other| same(other.iops.1, first.iops.1));
    let may_be_cache = first.writes && 1.0 - first.rate.1 / first.rate.0 >= CACHE_FALL_FROM;
    if smooth && may_be_cache && !counts_operations {
        answer.find("cache-bytes", first.after_bytes);
        answer.say(format!(
            "Either a write cache of about {} that was full, or a rate limiter: the rate after it \
             is constant (coefficient of variation {}), which fits both. To decide, pause for a \
             minute and repeat the run: a cache needs time to drain, a limiter refills at its \
             rate.",
            words::size(first.after_bytes),
            count::percent(first.scatter)
        ));
        return;
    }
    if smooth {
        let r = count::significant_or_whole(first.iops.1);
        let (what, strength) = match other {
            Some(other) if same(other.iops.1, first.iops.1) => {
                (format!("it counts operations: {r} IOPS at both sizes"), Strength::Supported)
            }
            Some(other) if same(other.rate.1, first.rate.1) => (
                format!("it counts bytes: {} at both sizes", bytes::per_second(first.rate.1)),
                Strength::Supported,
            ),
            _ => (format!("{r} IOPS remain"), Strength::ConsistentWith),
        };
        // Later runs may start with a bucket that has not been refilled.
        let words = format!(
            "A token bucket: a burst of about {} operations above the rate ({}, run {}), then a \
             rate more constant than a device's (coefficient of variation {}); {what}. Plan with \
             the rate, not with the burst.",
            count::significant_or_whole(first.burst_ops),
            words::setting(facts, first.point),
            first.repeat + 1,
            count::percent(first.scatter)
        );
        answer.find("bucket-ops", first.burst_ops);
        answer.find("bucket-rate-iops", first.iops.1);
        answer.say(words.clone());
        let subject = "a token bucket";
        answer.mind("token_bucket", subject, strength, Severity::Limit, words);
        return;
    }
    let drop = 1.0 - first.rate.1 / first.rate.0;
    if !first.writes || drop < CACHE_FALL_FROM {
        answer.say(format!(
            "These runs do not show what was exhausted: the remaining rate varies by {}, which \
             fits a device as well as a limiter on a shared path.",
            count::percent(first.scatter)
        ));
        return;
    }
    let again: Vec<&Fall> = falls.iter().filter(|f| f.point.cell == first.point.cell).collect();
    let volumes: Vec<f64> = again.iter().map(|fall| fall.after_bytes).collect();
    let comes_back = match volumes.as_slice() {
        [one, .., last] if same(*one, *last) => {
            " After the pause its full size was available \
            again."
        }
        [one, .., last] if last < one => " After the pause less of it was available.",
        _ => "",
    };
    let words = format!(
        "A write cache of about {}: beyond it {} are sustained.{comes_back}",
        words::size(first.after_bytes),
        bytes::per_second(first.rate.1)
    );
    answer.find("cache-bytes", first.after_bytes);
    answer.say(words.clone());
    let strength = if volumes.len() > 1 { Strength::Supported } else { Strength::ConsistentWith };
    answer.mind("slc_exhausted", "a full write cache", strength, Severity::Limit, words);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, facts, stage};
    use super::*;
    use iosonde_fixtures::Load;

    #[test]
    fn a_bucket_of_operations_is_reported_with_its_size_and_rate() {
        let facts = facts(&stage("token-bucket", "token-bucket"), |cell, repeat| Load {
            block_bytes: at(cell, "block-size") as u64,
            iops: 1_000.0,
            // 4,000 for 4 s, then 1,000: a burst of 12,000.
            shape: |time| if time < 0.4 { 4.0 } else { 1.0 },
            noise: 0.005,
            seed: u64::from(repeat) + 1,
            ..Load::default()
        });
        let rate = facts.found("bucket-rate-iops").unwrap();
        let burst = facts.found("bucket-ops").unwrap();
        assert!((rate / 1_000.0 - 1.0).abs() < 0.03, "{rate}");
        assert!((burst / 12_000.0 - 1.0).abs() < 0.06, "{burst}");
        let changes = facts.all_found();
        let changes: Vec<f64> = changes
            .iter()
            .filter_map(|(name, at)| name.contains(".change-1-").then_some(*at))
            .collect();
        assert_eq!(changes.len(), facts.points.len(), "one for each size");
        assert!(changes.iter().all(|at| (at - 4.0).abs() < 0.3), "{changes:?}");
        let warning = &facts.answers[0].1.warnings[0];
        assert_eq!((warning.code, warning.strength), ("token_bucket", Strength::Supported));
    }

    #[test]
    fn a_burst_within_the_first_interval_is_seen_and_an_even_run_has_none() {
        let burst = |shape: fn(f64) -> f64| {
            facts(&stage("token-bucket", "token-bucket"), |cell, repeat| Load {
                block_bytes: at(cell, "block-size") as u64,
                iops: 3_000.0,
                shape,
                noise: 0.005,
                seed: u64::from(repeat) + 1,
                ..Load::default()
            })
        };
        // One interval of a hundred at 60 times the rate.
        let seen = burst(|time| if time < 0.005 { 60.0 } else { 1.0 });
        let sustained = seen.found("sustained-iops-4-kib").unwrap();
        assert!((sustained / 3_000.0 - 1.0).abs() < 0.02, "{sustained}");
        assert!(seen.found("burst-ops-4-kib").is_some_and(|ops| ops > 10_000.0));
        assert_eq!(burst(|_| 1.0).found("burst-ops-4-kib"), None);
    }

    #[test]
    fn a_burst_of_a_few_intervals_is_summed_over_all_of_them() {
        let seen = facts(&stage("token-bucket", "token-bucket"), |cell, repeat| Load {
            block_bytes: at(cell, "block-size") as u64,
            iops: 5_000.0,
            // Two intervals of a hundred at 18 times the rate, then part of a third.
            shape: |time| match time {
                0.0..0.015 => 18.0,
                0.015..0.025 => 7.0,
                _ => 1.0,
            },
            seed: u64::from(repeat) + 1,
            ..Load::default()
        });
        // The excess of the three intervals of 100 ms: 17, 17 and 6 times 500.
        let burst = seen.found("burst-ops-4-kib").unwrap();
        assert!((burst / 20_000.0 - 1.0).abs() < 0.01, "{burst}");
        let said = &seen.answers[0].1.sentences[0];
        assert!(said.contains("was over after 200 ms to 300 ms"), "{said}");
    }

    #[test]
    fn bursts_of_several_runs_are_reported_each_and_of_each_setting() {
        let seen = facts(&stage("token-bucket", "token-bucket"), |cell, repeat| Load {
            block_bytes: at(cell, "block-size") as u64,
            iops: if cell.index == 0 { 5_000.0 } else { 2_000.0 },
            // The pause before the second run does not refill the bucket.
            shape: match repeat {
                0 => |time| if time < 0.01 { 20.0 } else { 1.0 },
                _ => |time| if time < 0.01 { 10.0 } else { 1.0 },
            },
            noise: 0.001,
            seed: u64::from(repeat) + 1,
            ..Load::default()
        });
        // Excess of the first interval of 100 ms: 19 and 9 times the later operations.
        for (name, first, second) in [("4-kib", 9_500.0, 4_500.0), ("64-kib", 3_800.0, 1_800.0)] {
            let of = |end: &str| seen.found(&format!("burst-ops-{name}{end}")).unwrap();
            assert!((of("_max") / first - 1.0).abs() < 0.02, "{}", of("_max"));
            assert!((of("_min") / second - 1.0).abs() < 0.02, "{}", of("_min"));
            assert!((of("") * 2.0 / (first + second) - 1.0).abs() < 0.02, "{}", of(""));
        }
        let said = &seen.answers[0].1.sentences;
        assert!(
            said[0].contains(" (run 1), ") && said[0].contains(" (run 2) operations;"),
            "{said:?}"
        );
        assert_eq!(said.iter().filter(|said| said.contains("a burst")).count(), 2, "{said:?}");
    }

    #[test]
    fn a_write_cache_is_no_bucket_and_an_even_run_is_neither() {
        let cliff = |shape: fn(f64) -> f64| {
            facts(&stage("cache-size", "cache-size"), |_, repeat| Load {
                read_percent: 0,
                block_bytes: 1 << 20,
                iops: 500.0,
                shape,
                noise: 0.05,
                seed: u64::from(repeat) + 1,
                ..Load::default()
            })
        };
        let full = cliff(|time| if time < 0.5 { 3.0 } else { 1.0 });
        let cache = full.found("cache-bytes").unwrap();
        let truth = 5.0 * 1_500.0 * f64::from(1 << 20);
        assert!((cache / truth - 1.0).abs() < 0.06, "{cache} of {truth}");
        assert_eq!(full.found("bucket-ops"), None);
        let even = cliff(|_| 1.0);
        assert_eq!(even.answers[0].1.warnings, Vec::new());
        assert!(even.answers[0].1.sentences[0].contains("no lasting drop"));
    }
}
