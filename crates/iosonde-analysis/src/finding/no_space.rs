//! `no_space`: requests failed because there is no room for what they write.

use iosonde_model::record::run::{Outcome, Run};
use iosonde_model::units::count;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "no_space",
    meaning: "Writes failed because the file system, a quota, a limit of file sizes or the pool of \
              a thin volume is full. The device is not failing.",
    method: "result of each request",
    action: "Free space (df -h, df -i, quota; lvs for a thin pool), or write less (--size).",
    detect,
};

/// Errors that say so.
const NO_SPACE: [&str; 3] = ["ENOSPC", "EDQUOT", "EFBIG"];

/// Reports when any request failed for want of space.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let failed = failed(case.run);
    if failed == 0 {
        return None;
    }
    let reasons: Vec<&str> = NO_SPACE.into_iter().filter(|errno| has(case.run, errno)).collect();
    let words = format!(
        "There is no space for what was to be written: {} failed with {}, which is no error of the \
         device.",
        count::of(failed, "request"),
        reasons.join(" and "),
    );
    let subject = "a full file system, quota or thin volume";
    let finding = Finding::new("no_space", subject, Strength::Proven, Severity::Fault, words);
    Some(finding.with("errors", failed as f64))
}

/// Requests of a run that failed for want of space.
pub(super) fn failed(run: &Run) -> u64 {
    let errors = run.jobs.iter().flat_map(|job| &job.errors);
    errors.filter(|(name, _)| is_space(name)).map(|(_, number)| number).sum()
}

/// Whether the run ended for want of space.
pub(super) fn ended(run: &Run) -> bool {
    matches!(&run.outcome, Outcome::Failed { error } if is_space(error))
}

fn is_space(text: &str) -> bool {
    NO_SPACE.iter().any(|errno| text.contains(errno))
}

fn has(run: &Run, errno: &str) -> bool {
    run.jobs.iter().flat_map(|job| job.errors.keys()).any(|name| name.contains(errno))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::errors;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_full_file_system_is_no_failing_device() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].errors.insert("write ENOSPC".into(), 3);
        run.jobs[0].first_error = Some((8192, 4096, "ENOSPC".into()));
        let finding = ask(detect, &run, None).unwrap();
        assert!(finding.words.contains("3 requests failed with ENOSPC"), "{}", finding.words);
        assert_eq!(ask(errors::DETECTOR.detect, &run, None), None);
    }

    #[test]
    fn other_errors_beside_it_are_named_as_such() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].errors.insert("write EIO".into(), 2);
        run.jobs[0].first_error = Some((8192, 4096, "EIO".into()));
        assert_eq!(ask(detect, &run, None), None);
        run.jobs[0].errors.insert("write ENOSPC".into(), 3);
        assert!(ask(detect, &run, None).unwrap().words.contains("3 requests"));
        let finding = ask(errors::DETECTOR.detect, &run, None).unwrap();
        assert!(finding.words.contains("failed requests: 2, "), "{}", finding.words);
    }
}
