//! `punted`: io_uring hands every request to a worker thread.

use iosonde_model::plan::EngineKind;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "punted",
    meaning: "io_uring hands every request to a worker thread of the kernel.",
    method: "count of such threads during the run",
    action: "Compare with --ioengine psync; use a file system that supports non-blocking I/O.",
    subject: "io_uring's worker threads",
    severity: Severity::Warning,
    detect,
};

/// Reports when the target does not support non-blocking requests and io_uring drives it.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let uring = case.run.plan.engine.kind == EngineKind::IoUring;
    if case.run.target.punted != Some(true) || !uring {
        return None;
    }
    let words = "io_uring hands every request on this target to a worker thread; --ioengine psync \
                 costs less CPU here."
        .to_owned();
    Some(DETECTOR.proven(words))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn io_uring_on_such_a_target_is_reported_and_psync_is_not() {
        let mut run = run_of(&[Load::default()]);
        run.target.punted = Some(false);
        assert_eq!(ask(detect, &run, None), None);
        run.target.punted = Some(true);
        assert!(ask(detect, &run, None).is_some());
        run.plan.engine.kind = EngineKind::Psync;
        assert_eq!(ask(detect, &run, None), None);
    }
}
