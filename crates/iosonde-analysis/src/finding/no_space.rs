//! `no_space`: requests failed for lack of space.

use super::errors::Cause;
use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "no_space",
    meaning: "Writes failed because the file system, a quota or a thin pool is full, or a file \
              reached its size limit. The device is not failing.",
    method: "result of each request",
    action: "Free space (df -h, quota, lvs for a thin pool), raise the file size limit (ulimit \
             -f), or write less (--size).",
    subject: "a full file system, quota or thin volume",
    severity: Severity::Fault,
    detect,
};

/// Errors that report a lack of space.
pub(super) const CAUSE: Cause = Cause(&["ENOSPC", "EDQUOT", "EFBIG"]);

/// Reports when any request, or the final fsync, failed for lack of space.
fn detect(case: &Case<'_>) -> Option<Finding> {
    CAUSE.finding(case.run, &DETECTOR, |parts| {
        format!("What was to be written does not fit: {parts}; this is not a device error.")
    })
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
        assert!(finding.words.contains("failed requests: 2, the first EIO"), "{}", finding.words);
        run.jobs[0].first_error = Some((8192, 4096, "ENOSPC".into()));
        let finding = ask(errors::DETECTOR.detect, &run, None).unwrap();
        assert_eq!(finding.words, "I/O errors: failed requests: 2.");
    }

    #[test]
    fn the_final_fsync_may_find_no_space_either() {
        let mut run = run_of(&[Load::default()]);
        run.final_sync = Some(iosonde_model::record::run::SyncResult {
            since_window_ns: 0,
            sync_ns: 0,
            bytes_since_start: 0,
            since_start_ns: 0,
            error: Some("EDQUOT".into()),
        });
        let finding = ask(detect, &run, None).unwrap();
        assert!(finding.words.contains("the final fsync failed with EDQUOT"), "{}", finding.words);
        assert_eq!(ask(errors::DETECTOR.detect, &run, None), None);
    }
}
