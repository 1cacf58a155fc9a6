//! `limit_missed`: the job's own limit of latency or rate ended the run.

use super::errors::Cause;
use super::{Case, Detect, Detector, Finding, Severity};
use iosonde_model::record::run::{Outcome, Run};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "limit_missed",
    meaning: "An operation took longer than the job allows, or fewer were done than it requires. \
              No request failed.",
    method: "latency of each operation, and counts of each period, beside the limits of the job",
    action: "Give a limit that the storage can keep (max_latency, rate_min, rate_iops_min), or \
             leave it out to measure what the storage does.",
    subject: "a limit of the job that was not kept",
    severity: Severity::Fault,
    detect,
};

/// Starts of the errors with which such a run ends.
const LIMITS: Cause = Cause(&["max_latency is", "rate_min: ", "rate_iops_min: "]);

/// The limit that ended a run, as text.
pub(super) fn missed(run: &Run) -> Option<&str> {
    match &run.outcome {
        Outcome::Failed { error } if LIMITS.is(error) => Some(error),
        _ => None,
    }
}

/// Reports when a limit of a job ended the run.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let words = format!("A limit of the job ended the run: {}.", missed(case.run)?);
    Some(DETECTOR.proven(words))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::errors;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_limit_of_the_job_is_no_io_error() {
        let mut run = run_of(&[Load::default()]);
        for error in [
            "an operation took 4.04 ms, and max_latency is 1.00 µs",
            "rate_iops_min: read at 135 operations/s, and 1000 are the least",
        ] {
            run.outcome = Outcome::Failed { error: error.into() };
            assert!(ask(detect, &run, None).unwrap().words.contains(error));
            assert_eq!(ask(errors::DETECTOR.detect, &run, None), None);
        }
        run.outcome = Outcome::Failed { error: "the engine stopped: EIO".into() };
        assert_eq!(ask(detect, &run, None), None);
        assert!(ask(errors::DETECTOR.detect, &run, None).is_some());
    }
}
