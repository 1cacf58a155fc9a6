//! `mix_off`: the achieved share of reads differs from the nominal one.

use super::{Case, Finding, Severity, Strength};

/// Smallest difference to report, percentage points.
const POINTS: f64 = 5.0;
/// Fewest operations for a meaningful share.
const FEWEST_OPS: u64 = 100;

/// Reports when the achieved share of reads is off by more than 5 percentage points.
pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let all = &case.figures.all;
    let achieved = all.read_share? * 100.0;
    // Phases may each have a mix of their own.
    if case.run.plan.jobs.iter().any(|job| !job.phases.is_empty()) {
        return None;
    }
    let nominal = f64::from(case.run.plan.nominal_read_percent);
    if all.total.ops < FEWEST_OPS || (achieved - nominal).abs() <= POINTS {
        return None;
    }
    let words = format!(
        "{achieved:.0} % of the operations were reads, nominally {nominal:.0} %: the mix is not \
         enforced."
    );
    let subject = "a mix that is not enforced";
    let finding = Finding::new("mix_off", subject, Strength::Proven, Severity::Warning, words);
    Some(finding.with("read_percent_achieved", achieved).with("read_percent_nominal", nominal))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn six_points_are_reported_and_four_are_not() {
        let mut run = run_of(&[Load { read_percent: 70, ..Load::default() }]);
        run.plan.nominal_read_percent = 74;
        assert_eq!(ask(detect, &run, None), None);
        run.plan.nominal_read_percent = 76;
        assert!(ask(detect, &run, None).unwrap().words.contains("nominally 76 %"));
    }
}
