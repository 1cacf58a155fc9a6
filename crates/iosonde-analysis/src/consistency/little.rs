//! Little's law, and the requested depth.

use crate::figures::{Figures, GroupFigures};
use crate::series::everything;
use iosonde_model::plan::Job;
use iosonde_model::record::run::Run;
use iosonde_stats::Histogram;

use super::{Identity, Severity, significant};

/// Tolerance of Little's law.
const LITTLE: f64 = 0.01;
/// Tolerance of the requested depth.
const DEPTH: f64 = 0.05;
/// Fewest operations of a job, per request of its depth, that show the depth: the queue is not full
/// while the first operations fill it and the last ones drain it.
const ENOUGH: u64 = 20;

/// Whether a group of jobs made enough operations to show its depth.
pub(crate) fn shows_depth(group: &GroupFigures) -> bool {
    group.total.ops >= ENOUGH * group.depth_asked
}

/// Mean queue depth equals completions per second times mean latency, plus the contribution of
/// requests that cross an edge of the window: their latency is not recorded, and one of them may
/// have stalled longer than any recorded one. `None` if nothing completed with a known latency.
pub(super) fn little(run: &Run) -> Option<Identity> {
    let latency = Histogram::of_all(everything(run).map(|direction| &direction.latency));
    let crossing: f64 = everything(run).map(|direction| direction.crossing_ns as f64).sum();
    let area: f64 = run.jobs.iter().map(|job| job.in_flight_area_ns as f64).sum();
    let mean_ns = latency.mean()?;
    let window_ns = run.measured_ns as f64;
    if window_ns == 0.0 {
        return None;
    }
    let flow = latency.count() as f64 * mean_ns;
    let residual = if area > 0.0 { (area - flow - crossing).abs() / area } else { f64::INFINITY };
    // Requests that failed or did not complete were in flight but have no latency: the law cannot
    // be exact.
    let lost = run.jobs.iter().any(|job| !job.errors.is_empty() || job.abandoned > 0);
    let severity = if lost { Severity::Note } else { Severity::Invalid };
    let equation = format!(
        "mean queue depth {} = {} IOPS x {} µs + {} across the edges = {}",
        significant(area / window_ns),
        significant(latency.count() as f64 / window_ns * 1e9),
        significant(mean_ns / 1e3),
        significant(crossing / window_ns),
        significant((flow + crossing) / window_ns),
    );
    Some(Identity::new("little", severity, residual, LITTLE, equation))
}

/// The mean queue depth is at least 95 % of the requested depth. Not evaluated if the depth is only
/// a label or a limit, or after too few operations.
pub(super) fn depth(run: &Run, figures: &Figures) -> Option<Identity> {
    let requested = figures.all.depth_asked as f64;
    // A controlled depth was evaluated by the controller, and its jobs may have no share of it.
    // A queue that is refilled late is not full.
    let keeps = |job: &Job| job.keeps_depth() && job.reap.refill_at == 0;
    let kept = run.plan.jobs.iter().all(keeps) && run.controlled.is_none();
    let is_known = shows_depth(&figures.all) && requested > 0.0 && run.measured_ns > 0;
    if figures.inline || !kept || !is_known {
        return None;
    }
    let seen = figures.all.depth_seen;
    let equation = format!(
        "mean queue depth {} >= requested depth {}",
        significant(seen),
        significant(requested)
    );
    let residual = (1.0 - seen / requested).max(0.0);
    Some(Identity::new("depth", Severity::Note, residual, DEPTH, equation))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::figures;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn requests_crossing_the_edges_are_counted_and_excuse_nothing_else() {
        let mut run = run_of(&[Load { iops: 64.0, ..Load::default() }]);
        // A stall at the end: 16 requests were in flight for half a second and completed later.
        run.jobs[0].in_flight_area_ns += 16 * 500_000_000;
        assert!(!little(&run).unwrap().ok);
        run.jobs[0].read.crossing_ns = 16 * 500_000_000;
        let entry = little(&run).unwrap();
        assert!(entry.ok, "{entry:?}");
        run.jobs[0].in_flight_area_ns += 16 * 500_000_000;
        assert!(!little(&run).unwrap().ok);
    }

    #[test]
    fn a_depth_that_was_not_applied_shows_unless_requests_complete_inline() {
        // T2: 32 requested, 1 in flight.
        let mut run = run_of(&[Load { depth: 1, ..Load::default() }]);
        run.plan.jobs[0].iodepth = 32;
        let entry = depth(&run, &figures(&run)).unwrap();
        assert!(!entry.ok);
        assert_eq!(entry.severity, Severity::Note);
        // The tolerance is shown next to the equation and not in it.
        assert_eq!(entry.equation, "mean queue depth 1.00 >= requested depth 32.0");
        assert_eq!(entry.tolerance, 0.05);
        let mut late = run.clone();
        late.plan.jobs[0].reap.refill_at = 8;
        assert_eq!(depth(&late, &figures(&late)), None, "it is refilled late");
        run.jobs[0].inline_seen = 100;
        assert_eq!(depth(&run, &figures(&run)), None);
    }

    #[test]
    fn a_few_operations_show_no_depth() {
        for (iops, is_known) in [(60.0, false), (70.0, true)] {
            let mut run = run_of(&[Load { depth: 1, iops, ..Load::default() }]);
            run.plan.jobs[0].iodepth = 32;
            assert_eq!(depth(&run, &figures(&run)).is_some(), is_known, "{iops}");
        }
    }
}
