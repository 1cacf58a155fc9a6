//! `shared_extents`: the first write to each block must copy it.

use iosonde_model::units::bytes;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "shared_extents",
    meaning: "The first write to each block must copy it (a snapshot or reflink).",
    method: "extents of the file, as the file system reports them",
    action: "Write the file once before measuring, or use a file of its own.",
    subject: "copy-on-write",
    severity: Severity::Warning,
    detect,
};

/// Reports when a written target shares extents with another file.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let shared = case.run.target.shared_bytes.filter(|bytes| *bytes > 0)?;
    if case.figures.all.write.ops == 0 {
        return None;
    }
    let words = format!(
        "{} of the target are shared with another file (reflink or snapshot): the first write to \
         them copies.",
        bytes::rough(shared)
    );
    Some(DETECTOR.proven(words).with("shared_bytes", shared))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn writes_to_shared_extents_are_reported_and_reads_are_not() {
        let mut run = run_of(&[Load::default()]);
        run.target.shared_bytes = Some(1 << 20);
        assert_eq!(ask(detect, &run, None), None);
        let mut run = run_of(&[Load { read_percent: 0, ..Load::default() }]);
        run.target.shared_bytes = Some(0);
        assert_eq!(ask(detect, &run, None), None);
        run.target.shared_bytes = Some(1 << 20);
        assert!(ask(detect, &run, None).is_some());
    }
}
