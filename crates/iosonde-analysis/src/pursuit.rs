//! Outcome of a latency target: whether it was met, and what limited the depth.

use serde::Serialize;

use iosonde_model::plan::{LatencyGoal, LatencyTarget, Pursuit};
use iosonde_model::record::ControlledRun;
use iosonde_model::record::controlled::{Bound, Judgement, Phase, Pursued};
use iosonde_model::record::run::Run;
use iosonde_stats::dependent::Loop;
use iosonde_stats::quantile::at_rank;
use iosonde_stats::sequential::{Bin, Verdict, design_effect, fewest_for_a_pass, wald};
use iosonde_stats::summary::{Summary, autocorrelation_time};
use iosonde_stats::{Histogram, Quantile};

use super::series;

/// Number of last decisions whose depths give the range if the search did not settle.
const LAST: usize = 20;
/// Fewest operations for which a decision's rate can be compared: its error is 5 %.
const RATED_OPS: u64 = 400;
/// Fewest intervals for which the rate has a confidence interval.
const FEWEST_INTERVALS: usize = 4;

/// Whether and how a latency target was met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PursuitFigures {
    /// Outcome class.
    pub class: Class,
    /// What limits the depth, if the target is met.
    pub bound: Option<Bound>,
    #[serde(flatten)]
    pub target: LatencyTarget,
    /// How the depth was controlled.
    pub mode: Pursuit,
    /// Median depth over the measured window, summed over all jobs.
    pub depth: u32,
    /// Smallest and largest depth: in the window if the target was met, else in the last decisions.
    pub depth_range: (u32, u32),
    /// Operations per second in the window.
    pub iops: f64,
    /// Half-width of its 95 % interval, as a share; `None` if the window is too short.
    pub iops_error: Option<f64>,
    /// The percentile that was achieved in the window.
    pub achieved: Quantile,
    /// Share of the window's operations above the limit; `None` without operations.
    pub violations: Option<f64>,
    /// The smallest larger depth that is not proven to meet the target, and its share above the
    /// limit.
    pub fails_at: Option<(u32, f64)>,
    /// Rate in the window as a share of the largest rate at any depth. `None` if the device is the
    /// limit: the largest of many short measurements is then so by chance.
    pub share_of_most: Option<f64>,
    /// Time until the start of measurement, ns.
    pub pursued_ns: u64,
    /// Operations until then.
    pub pursued_ops: u64,
    /// Number of decisions, including those in the window.
    pub decisions: u64,
    /// Fewest operations without a slow one that pass the test.
    pub needs_ops: u64,
}

iosonde_model::words! {
    /// Outcome of the search for a latency target.
    #[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    pub enum Class {
        /// Met, and a larger depth is not proven to meet it.
        MetAndBinding => "met and binding",
        /// Met, and something else limits the depth.
        MetNotBinding => "met, not binding",
        /// Missed with one request in flight.
        Infeasible => "INFEASIBLE",
        /// Met only at times.
        Unstable => "UNSTABLE",
        /// The time was too short for an answer.
        Undecided => "UNDECIDED",
    }
}

impl PursuitFigures {
    /// Whether the percentile's interval is within the limit, too; `None` without an interval.
    pub fn is_shown(&self) -> Option<bool> {
        let (_, high) = self.achieved.interval()?.ok()?;
        Some(high <= self.target.limit_ns)
    }
}

/// The figures of a run with a latency target.
pub fn pursuit(run: &Run) -> Option<PursuitFigures> {
    let LatencyGoal::Target { target, pursuit: mode, .. } = run.plan.latency else { return None };
    let controlled = run.controlled.as_ref()?;
    let latency = series::latency(run);
    let allowed = target.allowed();
    let (ops, exceeded) = (latency.count() as f64, latency.count_above(target.limit_ns) as f64);
    let (class, bound) = match controlled.ended {
        // Met before the measurement but missed in it: certainly, or by what may be one slow time.
        Pursued::Met { .. } if exceeded > allowed * ops => {
            let effect = design_effect(&bins(run, target.limit_ns));
            match wald(allowed, ops / effect, exceeded / effect) {
                Verdict::Fail => (Class::Unstable, None),
                Verdict::Open | Verdict::Pass => (Class::Undecided, None),
            }
        }
        Pursued::Met { bound: Bound::Target } => (Class::MetAndBinding, Some(Bound::Target)),
        Pursued::Met { bound } => (Class::MetNotBinding, Some(bound)),
        Pursued::Infeasible => (Class::Infeasible, None),
        Pursued::Unstable => (Class::Unstable, None),
        Pursued::Undecided => (Class::Undecided, None),
    };
    let depth = median_depth(controlled);
    let rates = series::whole(run).iops();
    let iops = seen_iops(run);
    let batches = series::batches(series::directions(run), (0, run.measured_ns));
    let most = controlled
        .decisions
        .iter()
        .filter(|decision| decision.span_ns > 0 && decision.ops >= RATED_OPS)
        .map(|decision| decision.ops as f64 * 1e9 / decision.span_ns as f64)
        .fold(iops, f64::max);
    Some(PursuitFigures {
        class,
        bound,
        target,
        mode,
        depth,
        depth_range: depth_range(controlled, bound.is_some()),
        iops,
        iops_error: rate_error(&rates),
        achieved: Quantile::over_time(
            &latency,
            batches.as_deref().map_err(|reason| *reason),
            Loop::Closed,
            target.quantile,
        ),
        violations: (ops > 0.0).then(|| exceeded / ops),
        fails_at: fails_at(controlled, depth),
        share_of_most: (most > 0.0 && bound != Some(Bound::Device)).then(|| iops / most),
        pursued_ns: controlled.pursued_ns,
        pursued_ops: controlled.pursued_ops,
        decisions: controlled.decisions.len() as u64 + controlled.unlisted,
        needs_ops: fewest_for_a_pass(allowed),
    })
}

fn seen_iops(run: &Run) -> f64 {
    let ops: u64 = series::directions(run).map(|direction| direction.ops).sum();
    if run.measured_ns == 0 { 0.0 } else { ops as f64 * 1e9 / run.measured_ns as f64 }
}

/// Operations and those above the limit, per histogram interval of the window.
fn bins(run: &Run, limit_ns: u64) -> Vec<Bin> {
    let mut bins: Vec<Bin> = Vec::new();
    for series in series::directions(run).map(|direction| &direction.latencies) {
        bins.resize(bins.len().max(series.intervals.len()), Bin::default());
        for (bin, interval) in bins.iter_mut().zip(&series.intervals) {
            let histogram = Histogram::from_buckets(interval);
            bin.ops += histogram.count();
            bin.exceeded += histogram.count_above(limit_ns);
        }
    }
    bins
}

/// Half-width of the mean rate's 95 % interval, as a share of the rate.
fn rate_error(rates: &[f64]) -> Option<f64> {
    let independent = rates.len() as f64 / autocorrelation_time(rates);
    let cv = Summary::of(rates)?.cv()?;
    (rates.len() >= FEWEST_INTERVALS).then(|| 1.96 * cv / independent.sqrt())
}

/// The depth at or below which half of the window's time was spent.
fn median_depth(controlled: &ControlledRun) -> u32 {
    let total: u64 = controlled.window_depths.values().sum();
    let spent = controlled.window_depths.iter().map(|(depth, ns)| (*depth, *ns));
    at_rank(spent, total.div_ceil(2)).unwrap_or(controlled.depth)
}

fn depth_range(controlled: &ControlledRun, met: bool) -> (u32, u32) {
    let window: Vec<u32> = controlled.window_depths.keys().copied().collect();
    let last = controlled.decisions.iter().rev().take(LAST).map(|decision| decision.depth);
    let depths: Vec<u32> = if met && !window.is_empty() { window } else { last.collect() };
    let low = depths.iter().min().copied().unwrap_or(controlled.depth);
    (low, depths.iter().max().copied().unwrap_or(low))
}

/// The smallest larger depth that did not pass, by its last decision. An undecided depth counts as
/// a failure in a search, but not while a depth is held.
fn fails_at(controlled: &ControlledRun, depth: u32) -> Option<(u32, f64)> {
    let failed = |phase: Phase, judgement: Judgement| match judgement {
        Judgement::Fail => true,
        Judgement::Open => !matches!(phase, Phase::Climb | Phase::Steer),
        Judgement::Pass => false,
    };
    let above = controlled.decisions.iter().rev().filter(|decision| {
        decision.depth > depth && decision.ops > 0 && failed(decision.phase, decision.judgement)
    });
    above
        .min_by_key(|decision| decision.depth)
        .map(|decision| (decision.depth, decision.exceeded as f64 / decision.ops as f64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::controlled::Decision;

    fn controlled(ended: Pursued) -> ControlledRun {
        let decision = |depth, exceeded, judgement| Decision {
            at_ns: 0,
            phase: Phase::Confirm,
            depth,
            span_ns: 1_000_000_000,
            ops: 10_000,
            exceeded,
            effect: 1.0,
            judgement,
            next: depth,
        };
        ControlledRun {
            ended,
            depth: 11,
            pursued_ns: 5_000_000_000,
            pursued_ops: 40_000,
            decisions: vec![
                decision(16, 900, Judgement::Fail),
                decision(12, 131, Judgement::Fail),
                decision(11, 60, Judgement::Pass),
            ],
            unlisted: 0,
            window_depths: [(10, 1_000_000_000), (11, 4_000_000_000)].into(),
        }
    }

    fn figures(limit_ns: u64, ended: Pursued) -> PursuitFigures {
        figures_of(run_of(&[Load::default()]), limit_ns, ended)
    }

    fn figures_of(mut run: Run, limit_ns: u64, ended: Pursued) -> PursuitFigures {
        run.plan.latency = LatencyGoal::Target {
            target: LatencyTarget { quantile: 0.99, limit_ns },
            pursuit: Pursuit::Search,
            patience_ns: 0,
        };
        run.controlled = Some(controlled(ended));
        pursuit(&run).unwrap()
    }

    #[test]
    fn a_binding_target_is_reported_with_the_depth_that_fails() {
        let met = figures(1_000_000_000, Pursued::Met { bound: Bound::Target });
        assert_eq!(met.class, Class::MetAndBinding);
        assert_eq!((met.depth, met.depth_range), (11, (10, 11)));
        assert_eq!(met.fails_at, Some((12, 0.0131)));
        assert_eq!(met.violations, Some(0.0));
        let max = figures(1_000_000_000, Pursued::Met { bound: Bound::MaxDepth });
        assert_eq!((max.class, max.bound), (Class::MetNotBinding, Some(Bound::MaxDepth)));
        assert!(max.share_of_most.is_some());
        let device = figures(1_000_000_000, Pursued::Met { bound: Bound::Device });
        assert_eq!(device.share_of_most, None);
    }

    #[test]
    fn what_was_found_and_does_not_hold_is_unstable() {
        let met = figures(1, Pursued::Met { bound: Bound::Target });
        assert_eq!((met.class, met.bound), (Class::Unstable, None));
        assert_eq!(met.depth_range, (11, 16));
        assert_eq!(figures(1, Pursued::Infeasible).class, Class::Infeasible);
    }

    #[test]
    fn what_a_search_found_holds_only_if_the_measurement_does() {
        let class = |slow: usize| {
            let mut run = run_of(&[Load::default()]);
            let latency = &mut run.jobs[0].read.latency;
            *latency = Histogram::new();
            (0..20_000)
                .for_each(|at| latency.record(if at < slow { 3_000_000 } else { 1_000_000 }));
            figures_of(run, 2_000_000, Pursued::Met { bound: Bound::Target }).class
        };
        assert_eq!(class(100), Class::MetAndBinding);
        assert_eq!(class(600), Class::Unstable, "p99 is far above the limit");
        assert_eq!(class(205), Class::Undecided, "p99 is above by less than the test can show");
    }

    #[test]
    fn without_a_target_there_is_nothing() {
        assert_eq!(pursuit(&run_of(&[Load::default()])), None);
    }
}
