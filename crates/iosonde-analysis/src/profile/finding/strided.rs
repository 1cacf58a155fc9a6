//! `strided`: requests that keep the same distance.

use crate::finding::{Finding, Gravity, Strength};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::Op;
use iosonde_model::units::count;

use super::super::Figures;
use super::{named, own, percent, plural};

/// Share of such requests from which it is a pattern.
const SHARE: f64 = 0.5;
/// Such requests below which it is not.
const REQUESTS: u64 = 100;

/// Speaks of the group with the largest share.
pub(super) fn detect(run: &ProfileRun, _figures: &Figures) -> Option<Finding> {
    let mut most: Option<(f64, Finding)> = None;
    for (index, name, threads) in super::groups(run) {
        for op in [Op::Read, Op::Write] {
            let tally = own(run, index, op);
            let share = tally.strided as f64 / tally.requests.max(1) as f64;
            let less = most.as_ref().is_some_and(|(best, _)| *best >= share);
            if tally.strided < REQUESTS || share < SHARE || less {
                continue;
            }
            let words = format!(
                "{} of the {} of {} ({}) keep the same distance from one to the next: neither \
                 random nor sequential, and read-ahead does not see it.",
                percent(share),
                plural(op),
                named(&name, threads),
                count::thousands(tally.strided),
            );
            let strength = Strength::Proven;
            let finding =
                Finding::new("strided", "strided requests", strength, Gravity::Fact, words);
            let finding = finding.with("group", name.as_str()).with("strided_share", share);
            most = Some((share, finding));
        }
    }
    most.map(|(_, finding)| finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn a_stride_speaks_and_order_or_chance_does_not() {
        let told = words(detect, &profile_of(&[Flow { strided_milli: 900, ..Flow::default() }]));
        assert!(told.contains("90 % of the reads of `app` (45,000) keep the same"), "{told}");
        let in_order = Flow { sequential_milli: 990, ..Flow::default() };
        assert_eq!(ask(detect, &profile_of(&[in_order])), None);
        assert_eq!(ask(detect, &profile_of(&[Flow::default()])), None);
    }
}
