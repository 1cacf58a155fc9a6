//! `not_supported`: requests failed because the target has no such operation.

use super::errors::Cause;
use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "not_supported",
    meaning: "Requests failed because the device, its driver or the file system does not support \
              the operation. The device is not failing.",
    method: "result of each request",
    action: "Leave out the option that asks for the operation (such as atomic writes or trims), or \
             use a target that supports it.",
    subject: "an operation that the target does not support",
    severity: Severity::Fault,
    detect,
};

/// Errors that report an unsupported operation.
pub(super) const CAUSE: Cause = Cause(&["EOPNOTSUPP", "ENOTSUP", "ENOSYS"]);

/// Reports when any request, or the final fsync, failed because it is not supported.
fn detect(case: &Case<'_>) -> Option<Finding> {
    CAUSE.finding(case.run, &DETECTOR, |parts| {
        format!(
            "The target does not support an operation that the job requests: {parts}; this is not \
             a device error."
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::errors;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::run::Outcome;

    #[test]
    fn what_is_not_supported_is_no_failing_device() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].errors.insert("write EOPNOTSUPP".into(), 4);
        run.jobs[0].first_error = Some((0, 4096, "EOPNOTSUPP".into()));
        let finding = ask(detect, &run, None).unwrap();
        assert!(finding.words.contains("4 requests failed with EOPNOTSUPP"), "{}", finding.words);
        assert_eq!(ask(errors::DETECTOR.detect, &run, None), None);
    }

    #[test]
    fn a_run_that_ended_with_such_an_error_and_counted_none_is_not_passed_over() {
        let mut run = run_of(&[Load::default()]);
        run.outcome = Outcome::Failed { error: "trim: EOPNOTSUPP".into() };
        assert_eq!(ask(detect, &run, None), None);
        let finding = ask(errors::DETECTOR.detect, &run, None).unwrap();
        assert!(finding.words.contains("ended early: trim: EOPNOTSUPP"), "{}", finding.words);
    }

    #[test]
    fn a_device_that_fails_is_left_to_others() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].errors.insert("write EIO".into(), 4);
        run.jobs[0].errors.insert("write ENOSPC".into(), 4);
        assert_eq!(ask(detect, &run, None), None);
        assert!(ask(errors::DETECTOR.detect, &run, None).is_some());
    }
}
