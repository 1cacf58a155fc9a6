//! Little's law, and the depth that was asked for.

use crate::analysis::figures::Figures;
use crate::record::run::Run;
use crate::stats::Histogram;

use super::{Gravity, Identity, n3};

/// Tolerance of Little's law where the edges of the window do not demand more.
const LITTLE: f64 = 0.01;
/// Share of the asked depth that must be in flight on time average.
const DEPTH: f64 = 0.95;

/// Requests in flight on time average equal completions per second times mean latency.
///
/// Requests that cross an edge of the window are in one term and not in the other: each by no more
/// than the largest latency. `None` where nothing completed with a known latency.
pub(super) fn little(run: &Run) -> Option<Identity> {
    let mut latency = Histogram::new();
    let (mut ops, mut carried_in) = (0u64, 0u64);
    for direction in crate::analysis::series::directions(run) {
        latency.merge(&direction.latency);
        ops += direction.ops;
        carried_in += direction.carried_in;
    }
    let area: f64 = run.jobs.iter().map(|job| job.in_flight_area_ns as f64).sum();
    let mean_ns = latency.mean()?;
    let seconds = run.measured_ns as f64 / 1e9;
    if seconds == 0.0 {
        return None;
    }
    let flow = ops as f64 * mean_ns;
    let residual = if area > 0.0 { (area - flow).abs() / area } else { f64::INFINITY };
    let at_start: u64 = run.jobs.iter().map(|job| u64::from(job.in_flight_start)).sum();
    let at_end: u64 = run.jobs.iter().map(|job| u64::from(job.in_flight_end)).sum();
    let crossing = at_start.max(carried_in) + at_end;
    let edge = crossing as f64 * latency.max()? as f64 / area.max(1.0);
    // A failed request was in flight and has no latency: with errors the law cannot be exact.
    let failed = run.jobs.iter().any(|job| !job.errors.is_empty());
    let gravity = if failed { Gravity::Note } else { Gravity::Invalid };
    let equation = format!(
        "in flight {} = {} IOPS x {} µs = {}",
        n3(area / 1e9 / seconds),
        n3(ops as f64 / seconds),
        n3(mean_ns / 1e3),
        n3(flow / 1e9 / seconds),
    );
    Some(Identity::new("little", gravity, residual, LITTLE.max(edge), equation))
}

/// The depth seen is at least 95 % of the depth asked; not judged where depth is a label only.
pub(super) fn depth(run: &Run, figures: &Figures) -> Option<Identity> {
    let asked = figures.all.depth_asked as f64;
    if figures.inline || asked == 0.0 || run.measured_ns == 0 {
        return None;
    }
    let seen = figures.all.depth_seen;
    let equation = format!("depth seen {} >= {DEPTH} x depth asked {}", n3(seen), n3(asked));
    let residual = (1.0 - seen / asked).max(0.0);
    Some(Identity::new("depth", Gravity::Note, residual, 1.0 - DEPTH, equation))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::analysis::figures;
    use crate::analysis::testing::{Load, run_of};

    #[test]
    fn requests_crossing_the_edges_widen_the_tolerance() {
        let mut run = run_of(&[Load { iops: 64.0, ..Load::default() }]);
        // 32 in flight at 64 per second take 0.5 s: 64 crossing requests matter in 10 s.
        run.jobs[0].in_flight_area_ns += 16 * 500_000_000;
        let entry = little(&run).unwrap();
        assert!(!entry.ok, "{entry:?}");
        run.jobs[0].in_flight_start = 32;
        run.jobs[0].in_flight_end = 32;
        let entry = little(&run).unwrap();
        assert!(entry.ok && entry.tolerance > LITTLE, "{entry:?}");
    }

    #[test]
    fn a_depth_that_was_not_applied_shows_unless_requests_complete_inline() {
        // T2: 32 asked, 1 in flight.
        let mut run = run_of(&[Load { depth: 1, ..Load::default() }]);
        run.plan.jobs[0].iodepth = 32;
        let entry = depth(&run, &figures(&run)).unwrap();
        assert!(!entry.ok);
        assert_eq!(entry.gravity, Gravity::Note);
        run.jobs[0].inline_seen = 100;
        assert_eq!(depth(&run, &figures(&run)), None);
    }
}
