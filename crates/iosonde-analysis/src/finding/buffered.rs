//! `buffered`: direct I/O is not in effect, so the page cache is part of what was measured.

use super::{Case, Finding, Gravity, Strength};

/// Speaks where direct I/O was asked for and refused (a doubt), or not asked for (a fact).
pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let target = &case.run.target;
    if target.direct || !case.is_real() || super::is_endless(target) {
        return None;
    }
    if !case.run.plan.target().direct {
        let words = "Buffered, as asked: the page cache is part of what was measured.".to_owned();
        return Some(Finding::new(
            "buffered",
            "page cache",
            Strength::Proven,
            Gravity::Fact,
            words,
        ));
    }
    let reason = target.direct_refused.as_deref().unwrap_or("no reason given");
    let words = format!(
        "Buffered: direct I/O was refused ({reason}); the page cache is part of what was measured."
    );
    let finding = Finding::new("buffered", "page cache", Strength::Proven, Gravity::Doubt, words);
    Some(finding.with("direct_refused", reason))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_refusal_is_doubtful_and_a_wish_is_a_fact() {
        let mut run = run_of(&[Load::default()]);
        assert_eq!(ask(detect, &run, None), None);
        run.target.direct = false;
        run.target.direct_refused = Some("EINVAL".into());
        assert_eq!(ask(detect, &run, None).unwrap().gravity, Gravity::Doubt);
        run.plan.targets[0].direct = false;
        assert_eq!(ask(detect, &run, None).unwrap().gravity, Gravity::Fact);
    }
}
