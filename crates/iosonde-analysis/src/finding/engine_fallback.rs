//! `engine_fallback`: a less suitable engine was used.

use iosonde_model::plan::EngineKind;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "engine_fallback",
    meaning: "A less suitable engine was used than the one that was wanted.",
    method: "what the kernel answered when io_uring was set up",
    action: "Allow io_uring (`iosonde doctor` says what blocks it), or choose --ioengine.",
    subject: "the synchronous engine",
    severity: Severity::Warning,
    detect,
};

/// Reports when the synchronous engine was chosen automatically.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let engine = &case.run.plan.engine;
    if engine.kind != EngineKind::Psync || engine.chosen_because.is_empty() {
        return None;
    }
    let words = format!("Engine psync was used: {}.", engine.chosen_because.trim_end_matches('.'));
    Some(DETECTOR.proven(words).with("engine", engine.kind.name()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_forced_choice_is_reported_and_a_wish_is_not() {
        let mut run = run_of(&[Load { depth: 1, ..Load::default() }]);
        run.plan.engine.chosen_because = "io_uring is the default".into();
        assert_eq!(ask(detect, &run, None), None);
        run.plan.engine.kind = EngineKind::Psync;
        run.plan.engine.chosen_because = "io_uring is forbidden here (EPERM)".into();
        assert!(ask(detect, &run, None).unwrap().words.contains("EPERM"));
        run.plan.engine.chosen_because.clear();
        assert_eq!(ask(detect, &run, None), None);
    }
}
