//! `strided`: requests with a constant stride.

use super::{Detect, Detector, Figures, Finding, Severity, greatest, named, own, percent, plural};
use iosonde_model::record::profile::{Op, ProfileRun};
use iosonde_model::units::count;

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "strided",
    meaning: "Requests follow each other at a constant stride.",
    method: "distances between successive requests of a thread",
    action: "Reorder the data or the loop so that accesses are contiguous.",
    subject: "strided requests",
    severity: Severity::Fact,
    detect,
};

/// Smallest share of such requests to report.
const SHARE: f64 = 0.5;
/// Fewest such requests to report.
const REQUESTS: u64 = 100;

/// Reports the group with the largest share.
fn detect(run: &ProfileRun, _figures: &Figures) -> Option<Finding> {
    let kinds =
        super::groups(run).flat_map(|group| [(group.clone(), Op::Read), (group, Op::Write)]);
    greatest(kinds.filter_map(|((index, name, threads), op)| {
        let tally = own(run, index, op);
        let share = tally.strided as f64 / tally.requests.max(1) as f64;
        if tally.strided < REQUESTS || share < SHARE {
            return None;
        }
        let words = format!(
            "{} of the {} of {} ({}) have a constant stride: neither random nor sequential{}.",
            percent(share),
            plural(op),
            named(&name, threads),
            count::thousands(tally.strided),
            if op == Op::Read { ", and read-ahead does not detect it" } else { "" },
        );
        let finding = DETECTOR.proven(words);
        Some((share, finding.with("group", name.as_str()).with("strided_share", share)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn a_stride_is_reported_and_order_or_chance_is_not() {
        let message = words(detect, &profile_of(&[Flow { strided_milli: 900, ..Flow::default() }]));
        assert!(
            message.contains("90 % of the reads of `app` (45,000) have a constant stride"),
            "{message}"
        );
        let in_order = Flow { sequential_milli: 990, ..Flow::default() };
        assert_eq!(ask(detect, &profile_of(&[in_order])), None);
        assert_eq!(ask(detect, &profile_of(&[Flow::default()])), None);
    }
}
