//! `buffered`: direct I/O is not in effect, so the page cache is part of the measurement.

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "buffered",
    meaning: "Direct I/O is not in effect: the page cache is part of the measurement.",
    method: "what open(2) answered to O_DIRECT",
    action: "Measure on a file system with direct I/O, or state that the cache is meant.",
    subject: "page cache",
    severity: Severity::Fact,
    detect,
};

/// Reports when direct I/O was requested and rejected (low confidence), or not requested
/// (information).
fn detect(case: &Case<'_>) -> Option<Finding> {
    let target = &case.run.target;
    if target.direct || !case.is_real() || super::is_endless(target) {
        return None;
    }
    if !case.run.plan.target().direct {
        let words = "Buffered, as requested: the page cache is part of the measurement.".to_owned();
        return Some(DETECTOR.proven(words));
    }
    let reason = target.direct_refused.as_deref().unwrap_or("no reason given");
    let words = format!(
        "Buffered: direct I/O was rejected ({reason}); the page cache is part of the measurement."
    );
    let finding = DETECTOR.found_at(Severity::LowConfidence, Strength::Proven, words);
    Some(finding.with("direct_refused", reason))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_refusal_is_low_confidence_and_a_wish_is_a_fact() {
        let mut run = run_of(&[Load::default()]);
        assert_eq!(ask(detect, &run, None), None);
        run.target.direct = false;
        run.target.direct_refused = Some("EINVAL".into());
        assert_eq!(ask(detect, &run, None).unwrap().severity, Severity::LowConfidence);
        run.plan.targets[0].direct = false;
        assert_eq!(ask(detect, &run, None).unwrap().severity, Severity::Fact);
    }
}
