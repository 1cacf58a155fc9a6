//! `level_drop`: the rate fell to a lower level during the run.

use std::ops::RangeInclusive;

use iosonde_model::units::{bytes, duration};
use iosonde_stats::step::Step;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "level_drop",
    meaning: "The rate fell to a lower level during the run, as when a cache is full.",
    method: "change point of the rate per interval, with a permutation test",
    action: "Measure longer, so that the lower level can be reported for itself.",
    subject: "a drop during the run",
    severity: Severity::Warning,
    detect,
};

/// Smallest drop reported.
const DROP: f64 = 0.05;
/// Drop of a write-only load that a full fast write cache would explain.
const WRITE_CACHE: f64 = 0.30;
/// Written share of a region at which a drive begins to erase: all, plus its spare blocks.
const ALL_WRITTEN: RangeInclusive<f64> = 0.9..=1.25;
/// Share of the variance that two levels must explain; noise and ramps stay below.
const EXPLAINED: f64 = 0.6;

/// The drop, if the run has two levels and the second is lower by 5 % or more.
pub(super) fn drop(case: &Case<'_>) -> Option<Step> {
    let step = case.step()?;
    let is_drop = step.change() <= -DROP && step.explained >= EXPLAINED;
    (is_drop && !super::level_change::recovers(case)).then_some(step)
}

/// Reports when the rate dropped, whatever the cause: the mean describes neither level.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let step = drop(case)?;
    let at_ns = step.at as u64 * case.series.width_ns;
    let share = -step.change();
    let mut words = format!(
        "The rate dropped by {} after {}: {}, then {}; a single mean describes neither. \
         --ramp-time {}s leaves the first out.",
        super::percent(share),
        duration::span(at_ns),
        super::iops(step.before.mean),
        super::iops(step.after.mean),
        case.ramp_s(step.at),
    );
    let written: u64 = case.series.bytes.iter().take(step.at).sum();
    let all = &case.figures.all;
    if all.read.ops + all.trim.ops == 0 && share >= WRITE_CACHE {
        let erases = match is_written_once(case, written) {
            true => ", with a drive that erases blocks once all of it was written",
            false => "",
        };
        let hint = format!(
            " Consistent with a fast write cache that was full after {} (warm-up not counted)\
             {erases}, and with a rate limiter; only a limiter gives the same burst again after a \
             short pause.",
            bytes::rough(written)
        );
        words.push_str(&hint);
    }
    // Deviation of the mean from the level that remains.
    let before = step.at as f64 / case.series.ops.len().max(1) as f64;
    let mean = step.before.mean * before + step.after.mean * (1.0 - before);
    let finding = DETECTOR.supported(words);
    let finding = finding.moves(1.0 - step.after.mean / mean.max(f64::MIN_POSITIVE)).scatters();
    let finding = finding.with("at_ns", at_ns).with("iops_before", step.before.mean);
    Some(finding.with("iops_after", step.after.mean).with("explained", step.explained))
}

/// Whether the data written before the drop, with the warm-up at the same rate, is about as large
/// as the region of a single target.
fn is_written_once(case: &Case<'_>, written: u64) -> bool {
    if case.run.plan.targets.len() != 1 {
        return false;
    }
    let jobs = || case.run.plan.jobs.iter();
    let start = jobs().map(|job| job.region_start).min().unwrap_or(0);
    let end = jobs().map(|job| job.region_start + job.region_bytes).max().unwrap_or(0);
    let rate = case.series.bytes.first().map_or(0.0, |first| *first as f64);
    let intervals = case.run.plan.warmup_ns as f64 / case.series.width_ns.max(1) as f64;
    let share = (written as f64 + rate * intervals) / (end - start).max(1) as f64;
    ALL_WRITTEN.contains(&share)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_drop_is_reported_and_names_the_write_cache_for_writes_only() {
        let shape = |t| if t < 0.4 { 1.0 } else { 0.37 };
        let reads = Load { shape, noise: 0.08, ..Load::default() };
        let finding = ask(detect, &run_of(&[reads]), None).unwrap();
        assert!(finding.effect.unwrap() > 0.1, "{finding:?}");
        assert!(finding.words.contains("after 4.0 s") && !finding.words.contains("write cache"));
        let writes = Load { read_percent: 0, ..reads };
        let words = |bytes: u64| {
            let mut run = run_of(&[writes]);
            run.plan.jobs[0].region_bytes = bytes;
            ask(detect, &run, None).unwrap().words
        };
        // 4 s at 20 MB/s after a warm-up of 3 s.
        assert!(words(1 << 30).contains("write cache") && !words(1 << 30).contains("erases"));
        assert!(words(128 << 20).contains(", with a drive that erases blocks once all of it"));
        assert!(!words(32 << 20).contains("erases"), "it was written four times");
    }

    #[test]
    fn a_low_rate_that_lasts_is_a_level_however_low() {
        let shape = |t| if t < 0.7 { 1.0 } else { 1.0 / 12.0 };
        let finding = ask(detect, &run_of(&[Load { shape, ..Load::default() }]), None);
        assert!(finding.unwrap().words.contains("dropped by 91"));
    }

    #[test]
    fn noise_a_ramp_a_rise_and_a_short_dip_do_not() {
        let noisy = Load { noise: 0.3, ..Load::default() };
        let rise = Load { shape: |t| if t < 0.5 { 0.5 } else { 1.0 }, ..Load::default() };
        let dip = |t| if (0.5..0.55).contains(&t) { 0.2 } else { 1.0 };
        let dip = Load { shape: dip, ..Load::default() };
        // The freeze begins within an interval and lasts to the end.
        let freeze = |t| if t < 0.83 { 1.0 } else { f64::from(u8::from(t < 0.84)) / 2.0 };
        let freeze = Load { shape: freeze, ..Load::default() };
        for load in [noisy, rise, dip, freeze] {
            assert_eq!(ask(detect, &run_of(&[load]), None), None);
        }
    }
}
