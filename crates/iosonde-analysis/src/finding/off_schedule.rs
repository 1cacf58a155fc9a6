//! `off_schedule`: the due times of an open loop differ from the request.

use crate::arrivals::ArrivalVerdict;
use iosonde_model::units::count;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "off_schedule",
    meaning: "The due times of an open loop differ from what was requested.",
    method: "the recorded schedule, compared with the requested one and with what chance allows",
    action: "Repeat on an idle machine, or at a lower rate.",
    subject: "schedule differs from the request",
    severity: Severity::LowConfidence,
    detect,
};

/// Reports when the rate or the variation of the due times misses the request by more than chance.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let open = case.figures.arrivals.as_ref()?;
    if open.verdict != ArrivalVerdict::OffSchedule {
        return None;
    }
    let rate = open.due as f64 * 1e9 / case.run.measured_ns.max(1) as f64;
    let requested = open.asked_per_s.map_or("n/a".into(), super::iops);
    let scatter = open.gap_cv.map_or("n/a".into(), count::significant);
    let words = format!(
        "Operations were scheduled at {} instead of the requested {requested}; the coefficient of \
         variation of their inter-arrival times is {scatter} (1 for Poisson).",
        super::iops(rate),
    );
    Some(DETECTOR.proven(words).with("due_per_s", rate))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, open_run_of};

    #[test]
    fn half_the_rate_is_reported_and_the_rate_requested_is_not() {
        let mut run = open_run_of(&Load::default(), |_| 0);
        assert_eq!(ask(detect, &run, None), None);
        run.jobs[0].arrivals.due /= 2;
        run.jobs[0].arrivals.gap_sum_ns *= 2;
        assert!(ask(detect, &run, None).is_some());
    }
}
