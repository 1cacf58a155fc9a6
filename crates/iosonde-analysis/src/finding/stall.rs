//! `stall`: for short times the rate was far below usual.

use iosonde_model::plan::Job;
use iosonde_model::units::duration;
use iosonde_stats::stall::Stalls;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "stall",
    meaning: "For short times far less was done than usual.",
    method: "operations per 10 ms or more, compared with their median",
    action: "Look for what happened at these times (kernel log, other programs), and repeat.",
    subject: "stalls",
    severity: Severity::Warning,
    detect,
};

/// Reports stalls, unless an I/O limit slices the time. A closed loop loses operations; in an open
/// loop the operations due during a stall wait.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let stalls = case.figures.stalls.filter(|_| super::cgroup_limit::detect(case).is_none())?;
    let window_ns = case.run.measured_ns.max(1) as f64;
    let share = stalls.lost_ns / window_ns;
    let all_open =
        case.figures.arrivals.is_some() && case.run.plan.jobs.iter().all(Job::is_open_loop);
    let waits = all_open.then(|| waiting_share(case, &stalls, window_ns));
    let (times, at_most, them) = match stalls.count {
        1 => (String::new(), "", "it"),
        count => (format!(" {count} times, first"), " at most", "them"),
    };
    let cost = match waits {
        Some(waits) => {
            format!("what was due then waited, up to {} of the mean latency", super::percent(waits))
        }
        None => format!(
            "{} ({} of the run) lost: {} with, {} without {them}",
            duration::span(stalls.lost_ns.round() as u64),
            super::percent(share),
            super::iops(stalls.with),
            super::iops(stalls.without)
        ),
    };
    let words = format!(
        "The rate fell far below its median{times} after {}, for {}{at_most}; {cost}.",
        duration::span(stalls.first_ns),
        duration::span(stalls.longest_ns),
    );
    let finding = DETECTOR.supported(words).scatters();
    let finding = match waits {
        Some(waits) => finding.moves_latency(waits),
        None => finding.moves(share),
    };
    let finding = finding.with("count", stalls.count as u64).with("lost_share", share);
    let finding = finding.with("longest_ns", stalls.longest_ns).with("first_ns", stalls.first_ns);
    Some(finding.with("iops_with", stalls.with).with("iops_without", stalls.without))
}

/// Share of the mean latency spent waiting for stalls of an open loop to end: at most half of the
/// longest stall for each operation due in one.
fn waiting_share(case: &Case<'_>, stalls: &Stalls, window_ns: f64) -> f64 {
    let waiting_ns = stalls.lost_ns.min(window_ns) * stalls.longest_ns as f64 / 2.0 / window_ns;
    let mean_ns = case.figures.all.total.latency.mean_ns.unwrap_or(0.0);
    (waiting_ns / mean_ns.max(1.0)).min(1.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, open_run_of, run_of};

    #[test]
    fn a_freeze_is_reported_with_both_rates() {
        let freeze = |t| if (0.5..0.6).contains(&t) { 0.0 } else { 1.0 };
        let finding =
            ask(detect, &run_of(&[Load { shape: freeze, noise: 0.0, ..Load::default() }]), None);
        let finding = finding.unwrap();
        assert!(finding.effect.unwrap() > 0.09, "{finding:?}");
        assert!(finding.words.contains("4,500 IOPS with, 5,000 IOPS without"), "{}", finding.words);
        assert!(finding.words.contains("its median after 5.0 s, for"), "{}", finding.words);
        let twice = |t: f64| if (t * 50.0) as u64 % 25 == 9 { 0.1 } else { 1.0 };
        let finding = ask(detect, &run_of(&[Load { shape: twice, ..Load::default() }]), None);
        assert!(finding.unwrap().words.contains("its median 2 times"));
        let open = open_run_of(&Load { shape: freeze, ..Load::default() }, |_| 0);
        let finding = ask(detect, &open, None).unwrap();
        let waited = "what was due then waited, up to 100 % of the mean latency.";
        assert!(finding.words.ends_with(waited), "{}", finding.words);
    }

    #[test]
    fn noise_a_lower_level_and_a_load_with_pauses_are_not() {
        let noisy = Load { noise: 0.3, ..Load::default() };
        let lower = Load { shape: |t| if t < 0.7 { 1.0 } else { 0.3 }, ..Load::default() };
        for load in [noisy, lower] {
            assert_eq!(ask(detect, &run_of(&[load]), None), None);
        }
        let freeze = |t| if (0.5..0.6).contains(&t) { 0.0 } else { 1.0 };
        let mut paused = run_of(&[Load { shape: freeze, ..Load::default() }]);
        paused.plan.jobs[0].think.ns = 1_000_000;
        assert_eq!(ask(detect, &paused, None), None, "the load itself pauses");
    }
}
