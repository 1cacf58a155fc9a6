//! `unwritten_reads`: space that was never written was read.

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "unwritten_reads",
    meaning: "Space that was never written was read: no device was asked.",
    method: "holes and unwritten extents of the file",
    action: "Write the whole range once before reading it.",
    subject: "reads of unwritten space",
    severity: Severity::LowConfidence,
    detect,
};

/// Unwritten share of the tested range above which the rates are affected.
const EMPTY: f64 = 0.01;

/// Reports when over 1 % of the range read is holes or preallocated extents.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let share = case.empty_share();
    if share <= EMPTY || case.figures.all.read.ops == 0 || !case.is_real() {
        return None;
    }
    let words = format!(
        "{} of the range read was never written: such reads do not reach the device.",
        super::percent(share.min(1.0))
    );
    let target = &case.run.target;
    let finding = DETECTOR.proven(words).with("hole_bytes", target.hole_bytes.unwrap_or(0));
    Some(finding.with("unwritten_bytes", target.unwritten_bytes.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn reads_of_holes_are_reported_and_writes_or_written_space_are_not() {
        let mut run = run_of(&[Load::default()]);
        run.target.hole_bytes = Some(0);
        run.target.unwritten_bytes = Some(1 << 20);
        assert_eq!(ask(detect, &run, None), None);
        run.target.hole_bytes = Some(1 << 29);
        assert!(ask(detect, &run, None).unwrap().words.contains("50.1 %"));
        let mut writes = run_of(&[Load { read_percent: 0, ..Load::default() }]);
        writes.target.hole_bytes = Some(1 << 30);
        assert_eq!(ask(detect, &writes, None), None);
    }
}
