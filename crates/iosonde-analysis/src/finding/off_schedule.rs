//! `off_schedule`: the due times of an open loop are not what was asked.

use crate::arrivals::ArrivalVerdict;
use iosonde_model::units::count;

use super::{Case, Finding, Gravity, Strength};

/// Speaks where rate or scatter of the due times miss what was asked by more than chance allows.
pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let open = case.figures.arrivals.as_ref()?;
    if open.verdict != ArrivalVerdict::OffSchedule {
        return None;
    }
    let rate = open.due as f64 * 1e9 / case.run.measured_ns.max(1) as f64;
    let asked = open.asked_per_s.map_or("n/a".into(), super::iops);
    let scatter = open.gap_cv.map_or("n/a".into(), count::significant);
    let words = format!(
        "Operations were due at {} where {asked} was asked, with distances scattered by {scatter} \
         of their mean (1 for Poisson).",
        super::iops(rate),
    );
    let subject = "due times other than asked";
    let finding = Finding::new("off_schedule", subject, Strength::Proven, Gravity::Doubt, words);
    Some(finding.with("due_per_s", rate))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, open_run_of};

    #[test]
    fn half_the_rate_speaks_and_the_rate_asked_does_not() {
        let mut run = open_run_of(&Load::default(), |_| 0);
        assert_eq!(ask(detect, &run, None), None);
        run.jobs[0].arrivals.due /= 2;
        run.jobs[0].arrivals.gap_sum_ns *= 2;
        assert!(ask(detect, &run, None).is_some());
    }
}
