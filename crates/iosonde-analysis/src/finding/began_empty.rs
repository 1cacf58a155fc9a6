//! `began_empty`: the warm-up of an open loop was too short for its backlog to build up.

use iosonde_model::units::duration;
use iosonde_stats::dependent::{self, Batch};
use iosonde_stats::normal;
use iosonde_stats::ratio::median;

use super::{Case, Detect, Detector, Finding, Severity};
use crate::arrivals::ArrivalVerdict;
use crate::series;

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "began_empty",
    meaning: "The backlog of an open loop was still building up when the measurement began: its \
              latencies are too low.",
    method: "how long latencies depend on earlier ones, compared with the warm-up",
    action: "Repeat with the longer warm-up that the finding names (--ramp-time).",
    subject: "a backlog that was still building up",
    severity: Severity::Warning,
    detect,
};

/// Share by which the figures may be off, at or above which a finding is reported.
const MATERIAL: f64 = 0.0075;
/// The first batch shows the empty start if its latencies are below this share of the mean.
const STARTS_LOW: f64 = 0.8;

/// Reports when latencies depend on earlier ones for so long that the empty start still counts.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let open = case.figures.arrivals.as_ref()?;
    if open.verdict == ArrivalVerdict::Unsustainable {
        return None;
    }
    let run = case.run;
    let batches = series::batches(series::directions(run), (0, run.measured_ns)).ok()?;
    let (likely_ns, longest_ns) = dependent::memory_ns(&batches)?;
    // An autocorrelation time of one batch is the minimum: independent batches have it, too.
    if batches.first().is_none_or(|batch| longest_ns <= batch.span_ns as f64) {
        return None;
    }
    let warmup_ns = run.plan.warmup_ns;
    // A short run underestimates it. A low start after a warm-up of that length is chance.
    let is_cold = (warmup_ns as f64) < likely_ns && starts_low(&batches);
    let memory_ns =
        if is_cold { longest_ns } else { likely_ns }.min(backlog_memory_ns(case, &batches));
    let after = |warmup_ns: f64| missing_ns(memory_ns, warmup_ns) / run.measured_ns.max(1) as f64;
    let missing = after(warmup_ns as f64);
    if missing < MATERIAL {
        return None;
    }
    let enough_s = (0..).find(|seconds| after(f64::from(*seconds) * 1e9) < MATERIAL)?;
    let words = format!(
        "The open loop began with no backlog, and its latencies depend on earlier ones for {}: \
         after a warm-up of {} the latencies may be up to {} too low; give --ramp-time \
         {enough_s}s or more.",
        duration::span(memory_ns as u64),
        duration::span(warmup_ns),
        super::percent(missing.min(1.0)),
    );
    let finding = DETECTOR.supported(words).moves_latency(missing.min(1.0));
    Some(finding.unseen().with("memory_ns", memory_ns).with("missing_share", missing.min(1.0)))
}

/// How long latencies depend on earlier ones if all requests in flight wait for one server, ns:
/// `4 L^2 / lambda`, the limit of the M/M/1 queue in heavy traffic (Whitt, "Planning queueing
/// simulations", Management Science 35(11), 1989). A slow time or a freeze makes the mean in flight
/// large without a backlog before or after it. In that limit the number in flight is exponentially
/// distributed, so its mean is the median over ln 2; the smaller mean counts.
pub(super) fn backlog_memory_ns(case: &Case<'_>, batches: &[Batch]) -> f64 {
    let waiting: Vec<f64> =
        batches.iter().map(|batch| batch.sum_ns as f64 / batch.span_ns.max(1) as f64).collect();
    let usual = median(&waiting).unwrap_or(0.0) / std::f64::consts::LN_2;
    let in_flight = case.figures.all.depth_seen.min(usual);
    4.0 * in_flight.powi(2) * 1e9 / case.figures.all.total.iops.max(f64::MIN_POSITIVE)
}

/// Missing part of the sum of a run's latencies, as the time in which the whole mean would be
/// missing, ns: the integral, from the end of the warm-up on, of `1 - H1(t)`, the missing share of
/// the mean of a reflected Brownian motion that starts at 0 (Abate and Whitt, "Transient behavior
/// of regulated Brownian motion, I", Advances in Applied Probability 19(3), 1987). Its
/// autocorrelation time is 2, in the unit of `t`.
fn missing_ns(memory_ns: f64, warmup_ns: f64) -> f64 {
    // Without waiting, the memory is 0: avoid a division by zero.
    let unit_ns = memory_ns.max(1.0) / 2.0;
    let t = warmup_ns / unit_ns;
    let root = t.sqrt();
    let left =
        (1.0 - 2.0 * t - t * t) * normal::cdf(-root) + (1.0 + t) * root * normal::density(root);
    unit_ns * left.max(0.0)
}

fn starts_low(batches: &[Batch]) -> bool {
    let mean = |part: &[Batch]| {
        let ops: u64 = part.iter().map(|batch| batch.amount).sum();
        part.iter().map(|batch| batch.sum_ns as f64).sum::<f64>() / ops.max(1) as f64
    };
    mean(&batches[..1]) < STARTS_LOW * mean(batches)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, open_run_of};

    #[test]
    fn latencies_that_depend_on_earlier_ones_need_a_warm_up() {
        let slow = |t: f64| 1.0 + 0.3 * (t * 9.0).sin();
        let mut run = open_run_of(&Load { shape: slow, ..Load::default() }, |_| 0);
        run.plan.warmup_ns = 0;
        let finding = ask(detect, &run, None).unwrap();
        assert!(finding.words.contains("after a warm-up of 0"), "{}", finding.words);
        run.plan.warmup_ns = 60_000_000_000;
        assert_eq!(ask(detect, &run, None), None, "a long warm-up");
    }

    #[test]
    fn what_is_missing_after_a_warm_up_is_that_of_a_queue_that_began_empty() {
        let missing = |warmups: f64| missing_ns(1e9, warmups * 1e9) / 1e9;
        for (warmups, share) in [(0.0, 0.25), (0.5, 0.083_315), (1.0, 0.036_057), (2.0, 0.008_328)]
        {
            assert!((missing(warmups) - share).abs() < 1e-5, "{warmups}: {}", missing(warmups));
        }
        assert!(missing(30.0) < 1e-9 && missing(1_000.0) == 0.0 && missing_ns(0.0, 1e9) == 0.0);
    }

    #[test]
    fn latencies_that_no_backlog_explains_began_as_they_go_on() {
        let slow = |t: f64| 1.0 + 0.3 * (t * 9.0).sin();
        let mut run = open_run_of(&Load { shape: slow, ..Load::default() }, |_| 0);
        run.plan.warmup_ns = 0;
        let mut with_depth = |depth: f64| {
            for job in &mut run.jobs {
                job.in_flight_area_ns = (depth * run.measured_ns as f64) as u64;
            }
            ask(detect, &run, None)
        };
        assert!(with_depth(60.0).is_some());
        assert_eq!(with_depth(1.0), None);
    }

    #[test]
    fn where_hardly_anything_is_in_flight_no_backlog_is_missing() {
        let mut rare = open_run_of(&Load { depth: 1, ..Load::default() }, |_| 0);
        rare.plan.warmup_ns = 0;
        rare.jobs[0].in_flight_area_ns = 0;
        assert_eq!(ask(detect, &rare, None), None);
    }

    #[test]
    fn a_slow_time_of_a_light_load_leaves_no_backlog_to_build_up() {
        let mut run = open_run_of(&Load { depth: 1, ..Load::default() }, |_| 0);
        run.plan.warmup_ns = 0;
        // For one second latencies rise to those of four hundred in flight, then fall again.
        let job = &mut run.jobs[0];
        for (at, exact) in job.read.responses.exact.iter_mut().enumerate().skip(70).take(20) {
            exact.sum_ns *= 400 - 40 * at.abs_diff(80) as u128 + 1;
        }
        job.in_flight_area_ns *= 40;
        assert_eq!(ask(detect, &run, None), None);
    }

    #[test]
    fn latencies_that_depend_on_nothing_need_none() {
        let mut even = open_run_of(&Load::default(), |_| 0);
        even.plan.warmup_ns = 0;
        assert_eq!(ask(detect, &even, None), None);
        let quick = |t: f64| 1.0 + 0.3 * (t * 7e4).sin();
        let mut noisy = open_run_of(&Load { shape: quick, ..Load::default() }, |_| 0);
        noisy.plan.warmup_ns = 0;
        assert_eq!(ask(detect, &noisy, None), None);
        let mut closed = iosonde_fixtures::run_of(&[Load::default()]);
        closed.plan.warmup_ns = 0;
        assert_eq!(ask(detect, &closed, None), None, "a closed loop has no backlog");
    }
}
