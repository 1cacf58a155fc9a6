//! The backlog of an open loop: whether, since when and how fast it grows.
//!
//! The backlog of a queue at its limit is a random walk if it does not grow: arrivals and
//! completions differ by chance from one sample to the next. Growth is proven if it exceeds what a
//! random walk with the same steps would reach.

use serde::Serialize;

use crate::figures::stalled;
use iosonde_model::record::run::Run;
use iosonde_model::units::{count, duration};
use iosonde_stats::stall::Stalls;
use iosonde_stats::summary::{Summary, t_975};

/// Share of its peak at or below which a backlog counts as worked off.
const MADE_UP: f64 = 0.1;
/// Share of the last backlog's peak that a comparable earlier backlog must have reached.
const AS_LARGE: f64 = 0.8;
/// Standard errors of the mean step that a growth must exceed. The part is chosen by fit, so chance
/// has many tries: it passes in one run of a hundred at 95 or 98 % load.
const ERRORS: f64 = 2.5;
/// Fewest operations by which the queue must fall behind.
const FALLS_BEHIND: f64 = 10.0;
/// Most and fewest steps into which a part is divided. Errors of single samples do not accumulate
/// over the steps.
const MOST_STEPS: usize = 20;
const FEWEST_STEPS: usize = 8;
/// Number of equidistant places at which growth may begin, and the shortest part in such places.
const PLACES: usize = 50;
const SHORTEST: usize = 6;

/// Growth of the backlog in a part of the window that extends to its end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// Estimate, seconds of work per second.
    pub per_s: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Start of the part, ns since the window opened.
    pub since_ns: u64,
    /// Whether it exceeds both chance and a minimum number of operations.
    #[serde(skip)]
    pub is_proven: bool,
}

impl Growth {
    /// As a clause, with its start: `the backlog grows by 0.6 s of work per second`.
    pub fn clause(&self) -> String {
        let since = match self.since_ns {
            0 => String::new(),
            ns => format!("from {} on ", duration::span(ns)),
        };
        let per_s = count::significant(self.per_s);
        format!("{since}the backlog grows by {per_s} s of work per second")
    }
}

/// Growth of the worst job's backlog. The rise in a stall is a step and not growth; the decrease
/// after a stall counts.
pub(super) fn growth(run: &Run, open: &[usize], stalls: Option<&Stalls>) -> Option<Growth> {
    let spans = stalls.map(|stalls| stalled::low_spans(run, stalls)).unwrap_or_default();
    let growths = open.iter().filter_map(|at| {
        let counts = &run.jobs[*at].arrivals;
        let width_ns = counts.backlog_width_ns;
        let due_per_s = counts.due as f64 * 1e9 / run.measured_ns.max(1) as f64;
        of_backlog(&outside(&spans, &counts.backlog_ns, width_ns), width_ns, due_per_s)
    });
    let rank = |growth: &Growth| (growth.is_proven, growth.per_s);
    growths.max_by(|a, b| {
        let ((a, a_per_s), (b, b_per_s)) = (rank(a), rank(b));
        a.cmp(&b).then(a_per_s.total_cmp(&b_per_s))
    })
}

/// Growth in the part in which it is proven, or else over all samples.
fn of_backlog(backlog_ns: &[f64], width_ns: u64, due_per_s: f64) -> Option<Growth> {
    let part = of_part(backlog_ns, bend(backlog_ns), width_ns, due_per_s);
    part.filter(|part| part.is_proven).or_else(|| of_part(backlog_ns, 0, width_ns, due_per_s))
}

/// Growth from a sample on: the mean of steps of equal length, with Student's t interval.
fn of_part(backlog_ns: &[f64], start: usize, width_ns: u64, due_per_s: f64) -> Option<Growth> {
    let part = &backlog_ns[start..];
    let joined = part.len().saturating_sub(1).div_ceil(MOST_STEPS).max(1);
    // The steps end with the last sample.
    let ends: Vec<f64> = part.iter().rev().step_by(joined).copied().collect();
    let step_ns = joined as f64 * width_ns as f64;
    let steps: Vec<f64> = ends.windows(2).map(|pair| (pair[0] - pair[1]) / step_ns).collect();
    if steps.len() < FEWEST_STEPS || width_ns == 0 {
        return None;
    }
    let Summary { mean: per_s, std_dev, .. } = Summary::of(&steps)?;
    let error = std_dev / (steps.len() as f64).sqrt();
    let reach = t_975(steps.len() - 1)? * error;
    let behind = per_s * steps.len() as f64 * step_ns / 1e9 * due_per_s;
    Some(Growth {
        per_s,
        low: per_s - reach,
        high: per_s + reach,
        since_ns: start as u64 * width_ns,
        is_proven: per_s > ERRORS * error && behind >= FALLS_BEHIND,
    })
}

/// The sample at which a line that is level before it and rises after it fits best by least squares
/// (Hinkley, "Bivariate segmented regression", Technometrics 11(3), 1969, with the first slope 0);
/// 0 if no such line fits better than a level.
fn bend(looks: &[f64]) -> usize {
    let n = looks.len() as f64;
    let mean = looks.iter().sum::<f64>() / n;
    let explained = |start: usize| {
        let (mut x_sum, mut xx, mut xy) = (0.0, 0.0, 0.0);
        for (look, x) in looks[start..].iter().zip(0u32..) {
            let x = f64::from(x);
            x_sum += x;
            xx += x * x;
            xy += x * (look - mean);
        }
        if xy > 0.0 { xy * xy / (xx - x_sum * x_sum / n) } else { 0.0 }
    };
    let places = (0..=PLACES - SHORTEST).rev().map(|place| place * looks.len() / PLACES);
    let best = places.map(|start| (start, explained(start))).max_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(0, |(start, _)| start)
}

/// The backlog without its changes in these spans, ns.
fn outside(spans: &[(u64, u64)], backlog_ns: &[u64], width_ns: u64) -> Vec<f64> {
    let mut last_ns = backlog_ns.first().copied().unwrap_or(0);
    let mut sum_ns = last_ns as f64;
    let looks = backlog_ns.iter().zip(0u64..).map(|(now_ns, look)| {
        let change_ns = *now_ns as f64 - last_ns as f64;
        last_ns = *now_ns;
        if !stalled::is_within(spans, look * width_ns, (look + 1) * width_ns) {
            sum_ns += change_ns;
        }
        sum_ns
    });
    looks.collect()
}

/// Rise of the smallest backlog from the last three quarters to the last quarter: work that a queue
/// has not caught up with between slow times.
pub(super) fn risen(backlog_ns: &[u64]) -> u64 {
    let quarter = backlog_ns.len() / 4;
    let least = |from: usize| backlog_ns[from..].iter().min().copied().unwrap_or(0);
    least(3 * quarter) - least(quarter)
}

/// Whether an earlier backlog, about as large and at least as long as the last one, was worked off:
/// the run ended within one of several slow times, and what would follow is unknown.
pub(super) fn recurs(backlog_ns: &[u64]) -> bool {
    let (mut start, mut peak_ns) = (0, 0);
    let mut made_up: Vec<(usize, u64)> = Vec::new();
    for (look, ns) in backlog_ns.iter().enumerate() {
        peak_ns = peak_ns.max(*ns);
        if *ns as f64 <= MADE_UP * peak_ns as f64 {
            made_up.push((look - start, peak_ns));
            (start, peak_ns) = (look, *ns);
        }
    }
    let length = backlog_ns.len() - start;
    let is_like =
        |(looks, ns): &(usize, u64)| *looks >= length && *ns as f64 >= AS_LARGE * peak_ns as f64;
    made_up.iter().any(is_like)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_model::plan::chance::Chance;

    #[test]
    fn what_slow_times_leave_rises_and_what_is_made_up_for_does_not() {
        // Every ten samples the backlog grows by 50 and shrinks by 30, or by 50.
        let after = |shrinks: u64| {
            let level = |look: u64| (look / 10) * (50 - shrinks) + (look % 10).min(5) * 10;
            (0..80).map(level).collect::<Vec<u64>>()
        };
        assert_eq!(risen(&after(30)), 80);
        assert_eq!(risen(&after(50)), 0);
        assert_eq!((risen(&[]), risen(&[5; 40])), (0, 0));
    }

    const LOOK_NS: u64 = 100_000_000;

    fn grown(backlog_ns: &[f64]) -> Growth {
        of_backlog(backlog_ns, LOOK_NS, 1_000.0).unwrap()
    }

    #[test]
    fn a_growth_is_that_of_the_part_in_which_it_grows() {
        let even: Vec<f64> = (0..100).map(|look| f64::from(look) * 9e6).collect();
        let growth = grown(&even);
        assert!(growth.is_proven && (growth.per_s - 0.09).abs() < 1e-9, "{growth:?}");
        assert_eq!(growth.since_ns, 0);
        let late =
            |look: u32| f64::from(look.saturating_sub(70)) * 60e6 + f64::from(look % 2) * 1e6;
        let late: Vec<f64> = (0..100).map(late).collect();
        let growth = grown(&late);
        assert!(growth.is_proven && (growth.per_s - 0.6).abs() < 0.02, "{growth:?}");
        assert_eq!(growth.since_ns, 7_000_000_000);
        let standing = [5e6; 100];
        assert!(!grown(&standing).is_proven);
        assert_eq!(of_backlog(&[1.0, 2.0, 3.0], LOOK_NS, 1_000.0), None);
    }

    /// Number of random walks, bounded at 0 and with this drift, whose growth is proven.
    fn proven(drift: f64) -> usize {
        let walk = |seed: u64| -> Vec<f64> {
            let mut chance = Chance::new(seed);
            let mut level = 20e6f64;
            let mut step = || {
                level = (level + 20e6 * (chance.unit() - 0.5 + drift)).max(0.0);
                level
            };
            (0..100).map(|_| step()).collect()
        };
        (0..400).filter(|seed| grown(&walk(*seed)).is_proven).count()
    }

    #[test]
    fn a_queue_at_its_limit_walks_and_does_not_grow() {
        let (below, beyond) = (proven(-0.05), proven(0.2));
        assert!(below <= 8 && beyond >= 392, "{below} and {beyond} of 400");
    }
}
