//! `unsustainable`: operations were due faster than the storage could serve them.

use crate::arrivals::ArrivalVerdict;
use iosonde_model::units::count;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "unsustainable",
    meaning: "Operations were due faster than the storage could serve them.",
    method: "backlog of an open loop, growing to the end",
    action: "Latency has no limit at this rate: lower it (--rate-iops, or --speed of a workload \
             file), or, in an experiment, use the lower rates.",
    detect,
};

/// Reports when the backlog of an open loop grows.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let open = case.figures.arrivals.as_ref()?;
    if open.verdict != ArrivalVerdict::Unsustainable {
        return None;
    }
    let rate = open.due as f64 * 1e9 / case.run.measured_ns.max(1) as f64;
    let growth = match open.growth.filter(|growth| growth.grows()) {
        Some(growth) => {
            format!(
                "the backlog grows by {} s of work per second",
                count::significant(growth.per_s)
            )
        }
        None => {
            format!("{} operations were still waiting at the end", count::thousands(open.dropped))
        }
    };
    let words = format!(
        "UNSUSTAINABLE at {}: {growth}, and {} were done; the latencies would only reflect the \
         length of the run.",
        super::iops(rate),
        super::iops(open.achieved_per_s),
    );
    let subject = "a rate beyond what the storage sustains";
    let finding = Finding::new("unsustainable", subject, Strength::Proven, Severity::Limit, words);
    Some(finding.with("due_per_s", rate).with("achieved_per_s", open.achieved_per_s))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, open_run_of};

    #[test]
    fn a_backlog_that_grows_is_reported_and_one_that_stands_is_not() {
        let growing = open_run_of(&Load::default(), |look| look * 9_000_000);
        let finding = ask(detect, &growing, None).unwrap();
        assert!(finding.words.contains("grows by 0.09"), "{}", finding.words);
        let standing = open_run_of(&Load::default(), |look| 40_000_000 + look % 3);
        assert_eq!(ask(detect, &standing, None), None);
    }
}
