//! The stalls of a run, and the rates without them.

use iosonde_model::record::run::{ArrivalsRun, Run};
use iosonde_stats::stall::{self, Due, Stalls};
use iosonde_stats::step::{TwoModes, two_modes};

use crate::series::{self, Series};

/// Stalls matter if they cost this share of the window, or if one lasts this long, ns.
const STALLED_FROM: f64 = 0.01;
const LONG_STALL_NS: u64 = 500_000_000;
/// Shares of the median rate. An interval below the second is low; one below the first is low if a
/// neighbour is.
const NEAR: f64 = 0.75;
const FAR_BELOW: f64 = 0.5;
/// Fewest median latencies per interval: requests that are served or reaped together complete
/// together, with nothing in between.
const CLUMPS: u64 = 2;
/// Shortest freeze if freezes fill most of a run: in ns, in median latencies of a closed loop, and
/// in due requests of an open loop.
const FREEZE_NS: u64 = 100_000_000;
const MEDIANS: u64 = 20;
const DUE: f64 = 20.0;
/// Factor by which freezes must cost more than stalls to be reported instead.
const FAR_MORE: f64 = 1.25;
/// Smallest relative rise from one level of a rate to another.
pub(crate) const MOVES_FROM: f64 = 0.20;
/// Share of the variance that several levels must explain.
pub(crate) const ALL_EXPLAINED: f64 = 0.75;
/// Shortest of several levels, in intervals.
pub(crate) const SHORTEST: usize = 5;
/// Fewest changes between two levels that alternate.
const FEWEST_CHANGES: usize = 4;
/// Share of the higher level at or above which the lower one is a level and no freeze.
const LEVEL_FROM: f64 = 0.2;
/// Number of intervals whose mean replaces the rate of a stalled one.
const BESIDE: usize = 5;

/// The stalls of a run that matter. An open loop catches up after them: operations beyond the mean
/// due rate count neither for the loss nor for the usual rate. Slow times that are one of two
/// alternating levels are no stalls.
pub(crate) fn stalls(run: &Run) -> Option<Stalls> {
    let finest = series::is_even(run).then(|| series::finest(run))?;
    let due = due(run);
    let widest_clump_ns =
        if due.is_none() { CLUMPS * series::latency(run).quantile(0.5).unwrap_or(0) } else { 0 };
    let Series { width_ns, ops, .. } = finest.at_least(widest_clump_ns);
    let (unfilled_ns, shortest_ns) = match due {
        Some(due) => (filling_ns(run), longest_idle_ns(due)),
        None => (0, FREEZE_NS.max(MEDIANS * slowest_median_ns(run))),
    };
    let unfilled = usize::try_from(unfilled_ns.div_ceil(width_ns.max(1))).ok()?;
    let filled = ops.get(unfilled..)?;
    let found = greater(
        stall::stalls(filled, width_ns, due),
        stall::freezes(filled, width_ns, due, shortest_ns),
    )?;
    let stalls = due.map_or(found, |due| {
        let done: u64 = ops.iter().sum();
        let with = done as f64 * 1e9 / (ops.len() as f64 * width_ns as f64);
        let first_ns = found.first_ns + unfilled as u64 * width_ns;
        Stalls { with, without: due.per_s, first_ns, ..found }
    });
    let is_material = stalls.lost_ns >= STALLED_FROM * run.measured_ns as f64
        || stalls.longest_ns >= LONG_STALL_NS;
    let is_level = |modes: TwoModes| modes.low >= LEVEL_FROM * modes.high;
    (is_material && !alternating(run, series::STEP_NS).is_some_and(is_level)).then_some(stalls)
}

/// The freezes if they cost far more: freezes that fill most of a run leave no usable median.
fn greater(stalls: Option<Stalls>, freezes: Option<Stalls>) -> Option<Stalls> {
    let lost_ns = stalls.map_or(0.0, |stalls| stalls.lost_ns);
    freezes.filter(|freezes| freezes.lost_ns > FAR_MORE * lost_ns).or(stalls)
}

/// Median latency, ns, of the slowest of reads, writes, trims and syncs: each may hold back all
/// others.
fn slowest_median_ns(run: &Run) -> u64 {
    series::everything(run).filter_map(|each| each.latency.quantile(0.5)).max().unwrap_or(0)
}

/// Longest time in which nothing is due by chance, ns; at least [`FREEZE_NS`].
fn longest_idle_ns(due: Due) -> u64 {
    let by_chance_ns = DUE * due.dispersion.max(1.0) * 1e9 / due.per_s.max(f64::MIN_POSITIVE);
    FREEZE_NS.max(by_chance_ns as u64)
}

/// Time in which no request of a new open loop can complete, ns of the window: the shortest latency
/// minus the warm-up.
fn filling_ns(run: &Run) -> u64 {
    series::latency(run).min().unwrap_or(0).saturating_sub(run.plan.warmup_ns)
}

/// The two levels between which the rate alternates, each for at least [`SHORTEST`] intervals of
/// this width.
pub(crate) fn alternating(run: &Run, width_ns: u64) -> Option<TwoModes> {
    let found = two_modes(&series::finest(run).at_least(width_ns).iops())?;
    let lasts = found.changes >= FEWEST_CHANGES && found.stay >= SHORTEST as f64;
    let differs = found.high >= found.low * (1.0 + MOVES_FROM);
    (lasts && differs && found.explained >= ALL_EXPLAINED).then_some(found)
}

/// Rate and dispersion of the due operations; `None` unless all jobs are open loops.
fn due(run: &Run) -> Option<Due> {
    let is_open = !run.jobs.is_empty() && run.plan.jobs.iter().all(|job| job.is_open_loop());
    let sum = |of: fn(&ArrivalsRun) -> f64| run.jobs.iter().map(|job| of(&job.arrivals)).sum();
    let count: f64 = sum(|counts| counts.due as f64);
    let variance: f64 = sum(|counts| counts.due as f64 * dispersion(counts));
    is_open.then(|| Due {
        per_s: count * 1e9 / run.measured_ns.max(1) as f64,
        dispersion: variance / count.max(1.0),
    })
}

/// Variance of the number due in an interval over its mean: the squared coefficient of variation of
/// the inter-arrival times (Cox, "Renewal Theory", 1962, section 3.3).
fn dispersion(counts: &ArrivalsRun) -> f64 {
    let mean_ns = counts.gap_sum_ns as f64 / counts.gaps.max(1) as f64;
    let square = counts.gap_square_sum / counts.gaps.max(1) as f64;
    if mean_ns > 0.0 { (square / mean_ns.powi(2) - 1.0).max(0.0) } else { 0.0 }
}

/// Spans of a run that lie in these stalls, ns since the window opened; the resolution is 100 ms or
/// the width in which the stalls were found.
pub(crate) fn low_spans(run: &Run, stalls: &Stalls) -> Vec<(u64, u64)> {
    spans(run, stalls, false)
}

/// Spans of stalls; with `catches_up`, each includes the intervals that make up for it.
fn spans(run: &Run, stalls: &Stalls, catches_up: bool) -> Vec<(u64, u64)> {
    let series = series::whole(run);
    let joined = usize::try_from(stalls.width_ns.div_ceil(series.width_ns.max(1))).unwrap_or(1);
    let width_ns = series.width_ns * joined as u64;
    let ops: Vec<u64> = series.ops.chunks(joined).map(|part| part.iter().sum()).collect();
    let share = |at: usize| ops[at] as f64 * 1e9 / (stalls.usual * width_ns as f64);
    let mut spans = Vec::new();
    let mut at = 0;
    while at < ops.len() {
        let start = at;
        while at < ops.len() && share(at) < NEAR {
            at += 1;
        }
        let low: Vec<f64> = (start..at).map(share).collect();
        let is_inside = start > 0 && at < ops.len();
        let is_stall = is_inside || stall::is_standstill(&low, 1.0);
        if low.iter().any(|share| *share < FAR_BELOW) && is_stall {
            // A stall begins and ends within an interval, so both neighbours belong to it.
            let mut end = at + 1;
            while catches_up && end < ops.len() && share(end) > 1.0 {
                end += 1;
            }
            spans.push((start.saturating_sub(1) as u64 * width_ns, end as u64 * width_ns));
            at = end;
        }
        at = at.max(start + 1);
    }
    spans
}

/// Whether an interval from and to these times overlaps one of the spans.
pub(crate) fn is_within(spans: &[(u64, u64)], from_ns: u64, to_ns: u64) -> bool {
    spans.iter().any(|(start_ns, end_ns)| from_ns < *end_ns && to_ns > *start_ns)
}

/// Operations per second in each interval of a series of this run. A stalled interval gets the mean
/// of [`BESIDE`] others before it, or after it at the start: a stall is no level.
pub(crate) fn rates_without(run: &Run, series: &Series, stalls: Option<&Stalls>) -> Vec<f64> {
    let mut rates = series.iops();
    let spans = stalls.map(|stalls| spans(run, stalls, due(run).is_some())).unwrap_or_default();
    let is_stalled = |at: &usize| {
        let from_ns = *at as u64 * series.width_ns;
        is_within(&spans, from_ns, from_ns + series.width_ns)
    };
    let others: Vec<usize> = (0..rates.len()).filter(|at| !is_stalled(at)).collect();
    for at in (0..rates.len()).filter(is_stalled) {
        let end = others.partition_point(|other| *other < at).max(BESIDE.min(others.len()));
        let beside = &others[end.saturating_sub(BESIDE)..end];
        if !beside.is_empty() {
            rates[at] = beside.iter().map(|at| rates[*at]).sum::<f64>() / beside.len() as f64;
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::{Load, open_run_of, run_of};

    #[test]
    fn requests_that_complete_together_are_no_stalls() {
        // Eight requests at a time, in every second interval of 100 ms; a request takes 200 ms.
        let clumps =
            |t: f64| f64::from(u8::from(((t * 100.0).round() as u64).is_multiple_of(2))) * 2.0;
        let clumped = |depth| {
            let load = Load { iops: 40.0, depth, shape: clumps, noise: 0.0, ..Load::default() };
            stalls(&run_of(&[load]))
        };
        assert_eq!(clumped(8), None);
        assert!(clumped(1).is_some(), "a request of 25 ms leaves the other interval empty");
    }

    #[test]
    fn freezes_for_most_of_a_run_are_seen_and_slow_writes_among_quick_reads_are_none() {
        let frozen = |t: f64| f64::from(u8::from((t * 5.0).fract() < 0.3));
        let load = Load { shape: frozen, noise: 0.0, ..Load::default() };
        let run = run_of(&[load]);
        let found = stalls(&run).unwrap();
        assert_eq!(found.count, 5);
        assert!((found.lost_ns / 7e9 - 1.0).abs() < 0.1, "{found:?}");
        let mut slow = run;
        slow.jobs[0].write.latency.record(1_400_000_000);
        assert_eq!(stalls(&slow), None, "a write takes as long as all waits");
    }

    #[test]
    fn pauses_of_a_recorded_schedule_are_no_stalls() {
        let frozen = |t: f64| if (0.4..0.6).contains(&t) { 0.0 } else { 1.0 };
        let load = Load { shape: frozen, ..Load::default() };
        let mut run = iosonde_fixtures::open_run_of(&load, |_| 0);
        assert!(stalls(&run).is_some());
        run.plan.jobs[0].pace = iosonde_model::plan::Pace::Recorded(vec![0]);
        assert_eq!(stalls(&run), None);
    }

    #[test]
    fn slow_times_that_alternate_with_a_level_are_one_and_freezes_are_not() {
        let with = |slow: fn(f64) -> f64| {
            stalls(&run_of(&[Load { shape: slow, noise: 0.08, ..Load::default() }]))
        };
        let third = |t: f64| if (t * 10.0 / 3.0).fract() < 0.233 { 0.33 } else { 1.0 };
        assert_eq!(with(third), None);
        let frozen = |t: f64| if (t * 10.0 / 3.0).fract() < 0.233 { 0.0 } else { 1.0 };
        assert_eq!(with(frozen).unwrap().count, 4);
    }

    #[test]
    fn an_open_loop_loses_the_time_of_its_freezes_though_it_makes_up_for_them() {
        // In every two seconds, two tenths without requests and a tenth that makes up for them.
        let freezes = |t: f64| match (t * 100.0).round() as u64 % 20 {
            8 | 9 => 0.0,
            10 => 3.0,
            _ => 1.0,
        };
        let run = open_run_of(&Load { shape: freezes, ..Load::default() }, |_| 0);
        let found = stalls(&run).unwrap();
        assert_eq!(found.count, 5);
        assert!((found.lost_ns / 1e9 - 1.0).abs() < 0.05, "{found:?}");
        assert!((found.with / found.without - 1.0).abs() < 0.01, "{found:?}");
        assert_eq!(spans(&run, &found, true)[0], (700_000_000, 1_100_000_000));
        let even = open_run_of(&Load::default(), |_| 0);
        assert_eq!(stalls(&even), None);
    }

    #[test]
    fn what_an_open_loop_makes_up_for_does_not_hide_its_freezes() {
        let freezes = |t: f64| match (t * 100.0).round() as u64 % 40 {
            25..35 => 0.0,
            35..40 | 0..10 => 1.67,
            _ => 1.0,
        };
        let run = open_run_of(&Load { shape: freezes, ..Load::default() }, |_| 0);
        let found = stalls(&run).unwrap();
        assert!(found.longest_ns.abs_diff(1_000_000_000) <= 100_000_000, "{found:?}");
    }

    #[test]
    fn rates_without_stalls_are_those_beside_them() {
        for frozen in [|t: f64| t >= 0.93, |t: f64| t < 0.05, |t: f64| (0.5..0.6).contains(&t)] {
            let mut run = run_of(&[Load { noise: 0.0, ..Load::default() }]);
            let ops = &mut run.jobs[0].read.counters.ops;
            let count = ops.len() as f64;
            for (at, ops) in ops.iter_mut().enumerate() {
                *ops *= u64::from(!frozen(at as f64 / count));
            }
            let series = series::whole(&run);
            let found = stalls(&run);
            let rates = rates_without(&run, &series, found.as_ref());
            assert!(rates.iter().all(|rate| *rate == 5_000.0), "{rates:?}");
        }
    }
}
