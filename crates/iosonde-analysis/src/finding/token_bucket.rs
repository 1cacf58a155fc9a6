//! `token_bucket`: a burst allowance was used up, and a policer then limits the rate.

use iosonde_model::units::{count, duration};
use iosonde_stats::step::Step;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "token_bucket",
    meaning: "A burst allowance was used up, and a limit applies since.",
    method: "two levels of the rate, the lower one nearly constant",
    action: "Plan with the lower rate; measure longer than the burst lasts.",
    subject: "a rate limiter",
    severity: Severity::Limit,
    detect,
};

/// Coefficient of variation below which a policer, not a device, sets the second level.
const POLICED_CV: f64 = 0.02;
/// Smallest step down.
const DROP: f64 = 0.10;
/// Share of the variance that the two levels must explain.
const EXPLAINED: f64 = 0.8;
/// Relative distance from a round number that still counts as round.
const ROUND: f64 = 0.01;
/// Leading digits of typical product rates.
const LEADING: [f64; 12] = [1.0, 1.25, 1.5, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.5, 8.0];

/// Drop of a write-only load that a full write cache would explain as well.
const WRITE_CACHE: f64 = 0.30;

/// Reports a single step down to a level that is more constant than devices are. A step that a full
/// write cache also explains is left to `level_drop`.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let step = case.step()?;
    let per_interval = step.after.mean * case.series.width_ns as f64 / 1e9;
    // A constant rate varies by half an operation if an interval holds no whole number.
    let most = POLICED_CV.hypot(0.5 / per_interval.max(1.0));
    let smooth = step.after.cv().is_some_and(|cv| cv < most);
    let may_be_cache = case.figures.all.read.ops == 0 && step.change() <= -WRITE_CACHE;
    if may_be_cache || !smooth || step.change() > -DROP || step.explained < EXPLAINED {
        return None;
    }
    let rate = step.after.mean;
    let bytes = case.series.bytes_per_s();
    let after = bytes.get(step.at..).unwrap_or_default();
    let bytes_per_s = after.iter().sum::<f64>() / after.len().max(1) as f64;
    let round =
        is_round(rate) || is_round(bytes_per_s / 1e6) || is_round(bytes_per_s / 1_048_576.0);
    let strength = if round { Strength::Supported } else { Strength::ConsistentWith };
    // The burst began with the warm-up, presumably at the same rate.
    let warmup_ns = case.run.plan.warmup_ns;
    let burst_ns = (intervals_of_burst(&case.series.iops(), &step) * case.series.width_ns as f64)
        as u64
        + warmup_ns;
    let from = if warmup_ns > 0 { ", warm-up included" } else { "" };
    let bucket = (step.before.mean - rate) * burst_ns as f64 / 1e9;
    let words = format!(
        "A burst at {} for {}{from}, then a constant {}, as a bucket of about {} I/Os gives it: \
         a shorter run measures only the burst.",
        super::iops(step.before.mean),
        duration::span(burst_ns),
        super::iops(rate),
        count::significant(bucket),
    );
    let subject = format!("a rate limiter at {}", super::iops(rate));
    let finding = DETECTOR.found(strength, words).about(subject);
    let finding = finding.with("burst_iops", step.before.mean).with("sustained_iops", rate);
    let finding = finding.with("sustained_bytes_per_s", bytes_per_s);
    Some(finding.with("burst_ns", burst_ns).with("bucket_ios", bucket))
}

/// Length of the first level in intervals: it ends within one of the two next to the change.
fn intervals_of_burst(rates: &[f64], step: &Step) -> f64 {
    let before = step.at.saturating_sub(1);
    let excess: f64 = (before..=step.at).map(|at| rates[at] - step.after.mean).sum();
    before as f64 + (excess / (step.before.mean - step.after.mean)).clamp(0.0, 2.0)
}

/// Whether a rate is within 1 % of a typical product rate.
fn is_round(rate: f64) -> bool {
    if rate < 1.0 {
        return false;
    }
    let decade = 10f64.powf(rate.log10().floor());
    let near = |digits: f64| (rate / (digits * decade) - 1.0).abs() <= ROUND;
    LEADING.into_iter().chain([10.0]).any(near)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_burst_that_ends_at_a_round_rate_is_reported() {
        let shape = |t| if t < 0.4 { 1.0 } else { 0.3 };
        let run = run_of(&[Load { iops: 10_000.0, shape, ..Load::default() }]);
        let finding = ask(detect, &run, None).unwrap();
        assert_eq!(finding.strength, Strength::Supported);
        assert!(finding.subject.contains("IOPS"), "{}", finding.subject);
        // (10,000 - 3,000) x (4 s + 3 s of warm-up).
        let Some(super::super::Evidence::Number(bucket)) = finding.evidence.get("bucket_ios")
        else {
            panic!("no bucket")
        };
        assert!((bucket / 49_000.0 - 1.0).abs() < 0.02, "{bucket}");
    }

    #[test]
    fn a_burst_ends_within_an_interval_and_its_words_add_up() {
        let shape = |t: f64| match (t * 100.0).round() as u64 {
            0..40 => 1.0,
            40 => 0.65,
            _ => 0.3,
        };
        let run = run_of(&[Load { iops: 10_000.0, shape, noise: 0.0, ..Load::default() }]);
        // (10,000 - 3,000) x (4.05 s + 3 s of warm-up).
        let words = ask(detect, &run, None).unwrap().words;
        let expected = "A burst at 10,000 IOPS for 7.1 s, warm-up included, then a constant 3,000 \
                        IOPS, as a bucket of about 49,400 I/Os gives it";
        assert!(words.starts_with(expected), "{words}");
    }

    #[test]
    fn a_noisy_second_level_a_ramp_and_a_steady_rate_do_not() {
        let shape = |t| if t < 0.4 { 1.0 } else { 0.3 };
        let noisy = Load { noise: 0.1, shape, ..Load::default() };
        let ramp = Load { shape: |t| 1.0 - 0.6 * t, ..Load::default() };
        for load in [noisy, ramp, Load::default()] {
            assert_eq!(ask(detect, &run_of(&[load]), None), None);
        }
    }

    #[test]
    fn round_means_as_sold() {
        assert!(is_round(3_010.0) && is_round(16_000.0) && is_round(125.0) && is_round(995.0));
        assert!(!is_round(3_300.0) && !is_round(9_200.0));
    }
}
