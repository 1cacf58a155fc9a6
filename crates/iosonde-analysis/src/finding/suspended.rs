//! `suspended`: the machine was suspended during the run.

use crate::consistency::window_ns;
use iosonde_model::units::duration;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "suspended",
    meaning: "The machine was suspended during the run.",
    method: "a clock that counts while suspended, compared with one that does not",
    action: "Repeat without suspending the machine.",
    subject: "a suspend",
    severity: Severity::LowConfidence,
    detect,
};

/// Reports when the clock that includes suspend measured a longer window.
fn detect(case: &Case<'_>) -> Option<Finding> {
    case.consistency.broken_code("suspend")?;
    let slept = case.run.measured_boottime_ns.abs_diff(window_ns(case.run));
    let words = format!(
        "The machine was suspended for {} during the run, or its clock jumped.",
        duration::span(slept)
    );
    Some(DETECTOR.proven(words).with("difference_ns", slept))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_minute_of_sleep_is_reported_and_a_millisecond_is_not() {
        let mut run = run_of(&[Load::default()]);
        run.measured_boottime_ns += 1_000_000;
        assert_eq!(ask(detect, &run, None), None);
        run.measured_boottime_ns += 60_000_000_000;
        assert!(ask(detect, &run, None).unwrap().words.contains("1 min 0 s"));
    }
}
