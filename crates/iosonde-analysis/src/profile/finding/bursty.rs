//! `bursty`: requests arrive several at once, followed by a long pause.

use super::{Detect, Detector, Figures, Finding, Severity, own, percent, plural, run_delay};
use iosonde_model::record::profile::{Class, Op, ProfileRun};
use iosonde_model::units::count;

use super::super::Process;

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "bursty",
    meaning: "Requests arrive several at once, followed by long pauses.",
    method: "coefficient of variation of the inter-arrival times",
    action: "Size the storage for the burst, or spread the requests.",
    subject: "bursts of requests",
    severity: Severity::Fact,
    detect,
};

/// Smallest share of the program's requests to report.
const MATTERS: f64 = 0.2;
/// Share of requests of the device's maximum size at or above which they are parts of larger calls.
const SPLIT: f64 = 0.5;

/// Reports the most frequent kind of bursty requests. A program that gets no CPU for a while is not
/// reported: its requests are bursty in any case.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    if run_delay::share(figures).is_some() {
        return None;
    }
    let all = figures.program.as_ref()?.requests().max(1);
    let kind = figures.arrivals.iter().find(|kind| {
        kind.process == Process::Bursty
            && kind.class == Class::Program
            && kind.gaps as f64 >= MATTERS * all as f64
            && !is_split(run, &kind.device, &kind.group, kind.op)
    })?;
    let words = format!(
        "The {} of `{}` on {} arrive in bursts: the coefficient of variation of the inter-arrival \
         times is {} (Poisson arrivals: 1), at {}/s on average; {} of the program's requests.",
        plural(kind.op),
        kind.group,
        kind.device,
        count::significant(kind.cv),
        count::significant_or_whole(kind.per_s),
        percent((kind.gaps + 1) as f64 / all as f64),
    );
    let finding = DETECTOR.proven(words).with("group", kind.group.as_str());
    Some(finding.with("gap_cv", kind.cv).with("per_s", kind.per_s))
}

/// Whether the requests are parts of calls larger than the device accepts: such parts arrive
/// together.
fn is_split(run: &ProfileRun, device: &str, group: &str, op: Op) -> bool {
    let facts = run.devices.iter().find(|each| each.facts.name == device);
    let Some(largest) = facts.and_then(|each| each.facts.max_sectors_kb) else { return false };
    let largest = u64::from(largest) << 10;
    let index = super::groups(run).find(|(_, name, _)| name == group).map(|(index, _, _)| index);
    let sizes = index.map(|index| own(run, index, op).sizes).unwrap_or_default();
    let all: u64 = sizes.values().sum();
    let full: u64 = sizes.range(largest..).map(|(_, requests)| requests).sum();
    full as f64 >= SPLIT * all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn bursts_are_reported_and_even_arrivals_or_split_calls_are_not() {
        assert_eq!(ask(detect, &profile_of(&[Flow::default()])), None);
        let flow = Flow { burst: 100, ..Flow::default() };
        let mut run = profile_of(&[flow]);
        let message = words(detect, &run);
        assert!(message.contains("The reads of `app` on vda arrive in bursts"), "{message}");
        // Other programs have the CPUs.
        run.run_delay_ns = Some(8_000_000_000);
        assert_eq!(ask(detect, &run), None);
        run.run_delay_ns = None;
        // The same requests as parts of larger calls.
        run.devices[0].facts.max_sectors_kb = Some(4);
        assert_eq!(ask(detect, &run), None);
        run.devices[0].facts.max_sectors_kb = Some(1_280);
        assert!(ask(detect, &run).is_some());
    }
}
