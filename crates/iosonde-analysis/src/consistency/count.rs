//! Operations, bytes and histogram counts agree exactly; offsets stay within their region.

use crate::series::everything;
use iosonde_model::plan::IoKind;
use iosonde_model::record::run::Run;
use iosonde_stats::Histogram;
use iosonde_stats::histogram::RELATIVE_ERROR;

use super::{Identity, Severity, thousands};

/// Bytes are operations times operation size in every job: exactly, or within the sizes drawn.
pub(super) fn bytes(run: &Run) -> Identity {
    let (mut moved, mut due, mut off) = (0u64, 0u64, 0u64);
    for (job, plan) in run.jobs.iter().zip(&run.plan.jobs) {
        for (direction, way) in job.directions().into_iter().zip(IoKind::ALL) {
            let (low, high) = plan.size_range(way);
            let (least, most) =
                (direction.ops.saturating_mul(low), direction.ops.saturating_mul(high));
            // If sizes are drawn at random, only the extremes are known.
            let expected = direction.bytes.clamp(least, most);
            moved += direction.bytes;
            due += expected;
            off += direction.bytes.abs_diff(expected);
        }
    }
    let equation = format!("bytes {} = operations x size {}", thousands(moved), thousands(due));
    exact("bytes", off, due, equation)
}

/// Every operation of the window is in the histogram, or started before the window.
pub(super) fn histogram(run: &Run) -> Identity {
    let (mut known, mut carried, mut ops, mut off) = (0u64, 0u64, 0u64, 0u64);
    for direction in everything(run) {
        known += direction.latency.count();
        carried += direction.carried_in;
        ops += direction.ops;
        off += direction.ops.abs_diff(direction.latency.count() + direction.carried_in);
    }
    let equation = format!(
        "latencies {} + carried in {} = operations {}",
        thousands(known),
        thousands(carried),
        thousands(ops)
    );
    exact("histogram", off, ops, equation)
}

/// The mean of the buckets equals the exact mean within the error of a bucket.
pub(super) fn mean(run: &Run) -> Identity {
    let latency = Histogram::of_all(everything(run).map(|direction| &direction.latency));
    let buckets: Vec<(u32, u64)> = latency.occupied().collect();
    let coarse = Histogram::from_buckets(&buckets).mean().unwrap_or(0.0);
    let exact = latency.mean().unwrap_or(0.0);
    // Overflow is in the exact sum and in no bucket.
    let off = if latency.overflow() > 0 { 0.0 } else { (coarse - exact).abs() };
    let equation = format!("mean of buckets {coarse:.0} ns = exact mean {exact:.0} ns");
    let residual = off / exact.max(1.0);
    let tolerance = RELATIVE_ERROR + 0.5 / exact.max(1.0);
    Identity::new("histogram_mean", Severity::Invalid, residual, tolerance, equation)
}

/// The interval series adds up to the totals.
pub(super) fn intervals(run: &Run) -> Identity {
    let (mut sum, mut ops, mut off) = (0u64, 0u64, 0u64);
    for direction in everything(run).filter(|direction| !direction.counters.ops.is_empty()) {
        let counted = direction.counters.ops.iter().sum::<u64>();
        sum += counted;
        ops += direction.ops;
        off += direction.ops.abs_diff(counted);
    }
    let equation =
        format!("operations of all intervals {} = operations {}", thousands(sum), thousands(ops));
    Identity { severity: Severity::Note, ..exact("intervals", off, ops, equation) }
}

/// Every job stayed within the region of its plan; `None` if no job recorded what it touched.
pub(super) fn region(run: &Run) -> Option<Identity> {
    let mut judged = 0u64;
    let mut outside = 0u64;
    for (job, plan) in run.jobs.iter().zip(&run.plan.jobs) {
        let Some((low, high)) = job.touched else { continue };
        judged += 1;
        let end = plan.region_start.saturating_add(plan.region_bytes);
        outside += u64::from(low < plan.region_start || high > end);
    }
    let equation = format!("jobs outside their region {outside} = 0 of {judged}");
    (judged > 0).then(|| exact("region", outside, judged, equation))
}

fn exact(code: &'static str, off: u64, of: u64, equation: String) -> Identity {
    let residual = off as f64 / of.max(1) as f64;
    Identity::new(code, Severity::Invalid, residual, 0.0, equation)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::spec::Draw;

    #[test]
    fn one_byte_or_one_operation_off_is_seen() {
        let good = run_of(&[Load { jobs: 2, ..Load::default() }]);
        for entry in [bytes(&good), histogram(&good), mean(&good), intervals(&good)] {
            assert!(entry.ok, "{entry:?}");
        }
        assert!(region(&good).unwrap().ok);

        let mut run = good.clone();
        run.jobs[1].read.bytes += 1;
        assert!(!bytes(&run).ok);
        // Two errors that cancel in the total are still detected.
        run.jobs[0].read.bytes -= 1;
        assert!(!bytes(&run).ok);

        let mut run = good.clone();
        run.jobs[0].read.latency.record(1_000);
        assert!(!histogram(&run).ok);
        run.jobs[0].read.ops += 1;
        assert!(histogram(&run).ok && !intervals(&run).ok && !bytes(&run).ok);

        let mut run = good;
        run.jobs[0].touched = Some((0, (1 << 30) + 4096));
        assert!(!region(&run).unwrap().ok);
    }

    #[test]
    fn what_was_written_in_several_sizes_is_read_again_in_these() {
        let mut run = run_of(&[Load::default()]);
        let job = &mut run.plan.jobs[0];
        job.sizes.write = Draw::Range { low: 4096, high: 16_384, step: 4096 };
        job.sizes.read = Draw::Fixed(16_384);
        assert!(!bytes(&run).ok);
        run.plan.jobs[0].rereads = true;
        assert!(bytes(&run).ok);
    }

    #[test]
    fn operations_begun_before_the_window_count_without_latency() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].read.ops += 5;
        run.jobs[0].read.carried_in = 5;
        assert!(histogram(&run).ok);
    }
}
