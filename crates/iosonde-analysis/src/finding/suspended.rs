//! `suspended`: the machine slept during the run.

use crate::books::window_ns;
use iosonde_model::units::duration;

use super::{Case, Finding, Gravity, Strength};

/// Speaks where the clock that runs on during sleep saw a longer window.
pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    case.books.broken_code("suspend")?;
    let slept = case.run.measured_boottime_ns.abs_diff(window_ns(case.run));
    let words = format!(
        "The machine was suspended for {} during the run, or its clock jumped.",
        duration::span(slept)
    );
    let finding = Finding::new("suspended", "a suspend", Strength::Proven, Gravity::Doubt, words);
    Some(finding.with("difference_ns", slept as f64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_minute_of_sleep_speaks_and_a_millisecond_does_not() {
        let mut run = run_of(&[Load::default()]);
        run.measured_boottime_ns += 1_000_000;
        assert_eq!(ask(detect, &run, None), None);
        run.measured_boottime_ns += 60_000_000_000;
        assert!(ask(detect, &run, None).unwrap().words.contains("1 min 0 s"));
    }
}
