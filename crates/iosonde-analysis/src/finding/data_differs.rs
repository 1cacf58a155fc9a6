//! `data_differs`: the data read is not the data written.

use super::errors::Cause;
use super::{Case, Detect, Detector, Finding, Severity};
use iosonde_model::units::count;

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "data_differs",
    meaning: "Blocks hold other data than the job has written, or than a job with the same options \
              and the same seed writes.",
    method: "comparison of each block that was read, byte by byte",
    action: "Read the block at the offset named again (cmp, xxd) and find out whether anything \
             else writes there; then check the device itself with iosonde verify.",
    subject: "data that is not what was written",
    severity: Severity::Fault,
    detect,
};

/// The error of a data mismatch.
pub(super) const CAUSE: Cause = Cause(&["EILSEQ"]);

/// Reports when a compared block differed.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let (failed, _) = CAUSE.failed(case.run);
    if failed == 0 {
        return None;
    }
    let mut firsts = case.run.jobs.iter().filter_map(|job| job.first_error.as_ref());
    let first = firsts.find(|(_, _, errno)| CAUSE.is(errno));
    let place = first.map_or(String::new(), |(offset, bytes, _)| {
        format!(", the first is that of {bytes} B at offset {}", count::thousands(*offset))
    });
    let words = format!(
        "Other data than was written is in {}{place}; this is no I/O error.",
        count::of(failed, "block")
    );
    Some(DETECTOR.proven(words).with("errors", failed))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::errors;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_failed_comparison_is_no_io_error_and_names_the_block() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].errors.insert("read EILSEQ".into(), 3);
        run.jobs[0].first_error = Some((98_304, 4096, "EILSEQ".into()));
        let finding = ask(detect, &run, None).unwrap();
        assert!(
            finding.words.contains("Other data than was written is in 3 blocks"),
            "{}",
            finding.words
        );
        assert!(finding.words.contains("4096 B at offset 98,304"), "{}", finding.words);
        assert_eq!(ask(errors::DETECTOR.detect, &run, None), None);
    }

    #[test]
    fn an_io_error_is_no_failed_comparison() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].errors.insert("read EIO".into(), 1);
        run.jobs[0].first_error = Some((0, 4096, "EIO".into()));
        assert_eq!(ask(detect, &run, None), None);
    }
}
