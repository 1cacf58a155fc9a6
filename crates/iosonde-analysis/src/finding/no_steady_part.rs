//! `no_steady_part`: the rate was still changing when the run ended.

use crate::figures::Steady;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "no_steady_part",
    meaning: "The rate was still changing when the run ended: one mean does not describe it.",
    method: "the halves of the measured window, compared",
    action: "Measure longer (--seconds or --runtime), or prepare the device first.",
    subject: "not in steady state",
    severity: Severity::LowConfidence,
    detect,
};

/// Reports when MSER-5 found no steady state and no drop explains it.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let better = super::level_drop::drop(case).is_some();
    if case.figures.steady != Steady::NoSteadyPart || better {
        return None;
    }
    let rates = case.series.iops();
    let (first, second) = rates.split_at(rates.len() / 2);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    let (first, second) = (mean(first), mean(second));
    let words = format!(
        "No steady state reached: {} in the first half, {} in the second; use a longer run.",
        super::iops(first),
        super::iops(second)
    );
    let finding = DETECTOR.supported(words);
    let change = (second - first).abs() / first.max(second).max(f64::MIN_POSITIVE);
    Some(finding.moves(change).with("iops_first_half", first).with("iops_second_half", second))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_ramp_is_reported_and_a_slow_start_is_not() {
        let ramp = Load { shape: |t| 0.2 + 0.8 * t, ..Load::default() };
        assert!(ask(detect, &run_of(&[ramp]), None).is_some());
        let start = Load { shape: |t| if t < 0.2 { 0.4 } else { 1.0 }, ..Load::default() };
        assert_eq!(ask(detect, &run_of(&[start]), None), None);
    }
}
