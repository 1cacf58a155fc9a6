//! `latency_target`: a latency target is met by the estimate of its percentile, but not by its
//! interval.

use crate::pursuit::pursuit;
use iosonde_model::plan::Pursuit;
use iosonde_model::units::duration;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "latency_target",
    meaning: "A latency target is met by the estimate of its percentile, and the interval of that \
              goes beyond the limit.",
    method: "the interval of the percentile in the measurement that follows the search",
    action: "Measure longer (--runtime): the interval becomes narrower.",
    subject: "a percentile above the latency target",
    severity: Severity::Warning,
    detect,
};

/// Reports when a search met its target but the interval extends beyond the limit. A held depth is
/// not reported: it comes near the limit by design.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let figures = pursuit(case.run)?;
    let is_met = figures.bound.is_some() && figures.mode == Pursuit::Search;
    if !is_met || figures.is_shown() != Some(false) {
        return None;
    }
    let (low, high) = figures.achieved.interval()?.ok()?;
    let [low_text, high_text] = [low, high].map(|ns| duration::latency(ns as f64));
    let words = format!(
        "{} at depth {} is met by the estimate, and its 95 % interval of {low_text} to {high_text} \
         goes beyond the limit.",
        figures.target, figures.depth
    );
    let subject = format!("{} above the latency target", figures.target.percentile());
    let finding = DETECTOR.suspected(words).about(subject);
    // The percentile has its own interval: that of the rate or the mean does not excuse it.
    let beyond = high as f64 / figures.target.limit_ns.max(1) as f64 - 1.0;
    Some(finding.moves_latency(beyond).unseen().with("high_ns", high))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::plan::{LatencyGoal, LatencyTarget};
    use iosonde_model::record::ControlledRun;
    use iosonde_model::record::controlled::{Bound, Pursued};

    #[test]
    fn an_interval_beyond_the_limit_is_reported_and_one_within_is_not() {
        let mut run = run_of(&[Load::default()]);
        run.controlled = Some(ControlledRun {
            ended: Pursued::Met { bound: Bound::Target },
            depth: 32,
            pursued_ns: 1,
            pursued_ops: 1,
            decisions: Vec::new(),
            unlisted: 0,
            window_depths: [(32, 1_000_000_000)].into(),
        });
        let mut asked = |limit_ns, mode| {
            run.plan.latency = LatencyGoal::Target {
                target: LatencyTarget { quantile: 0.99, limit_ns },
                pursuit: mode,
                patience_ns: 0,
            };
            (pursuit(&run).unwrap(), ask(detect, &run, None))
        };
        let (figures, _) = asked(u64::MAX, Pursuit::Search);
        let (_, high) = figures.achieved.interval().unwrap().unwrap();
        assert_eq!(asked(high, Pursuit::Search).1, None);
        let (figures, finding) = asked(high - 1, Pursuit::Search);
        assert!(figures.bound.is_some(), "met by the estimate: {figures:?}");
        let finding = finding.unwrap();
        assert_eq!(finding.subject, "p99 above the latency target");
        assert!(finding.words.contains("is met by the estimate"), "{}", finding.words);
        assert_eq!(asked(high - 1, Pursuit::Hold).1, None);
    }
}
