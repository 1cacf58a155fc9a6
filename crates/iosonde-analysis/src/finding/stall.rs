//! `stall`: for short times far less was done than usual.

use iosonde_model::units::duration;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "stall",
    meaning: "For short times far less was done than usual.",
    method: "operations per 10 ms or more, compared with their median",
    action: "Look for what happened at these times (kernel log, other programs), and repeat.",
    detect,
};

/// Reports stalls, unless a limit on I/O slices the time.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let stalls = case.figures.stalls.filter(|_| super::cgroup_limit::detect(case).is_none())?;
    let share = stalls.lost_ns / case.run.measured_ns.max(1) as f64;
    let lost = format!(
        "{} ({} of the run)",
        duration::span(stalls.lost_ns.round() as u64),
        super::percent(share)
    );
    let rates =
        format!("{} with, {} without", super::iops(stalls.with), super::iops(stalls.without));
    let longest = duration::span(stalls.longest_ns);
    let first = duration::span(stalls.first_ns);
    let words = match stalls.count {
        1 => format!(
            "After {first} the rate fell far below its median for {longest}; {lost} lost: {rates} \
             it."
        ),
        count => format!(
            "The rate fell far below its median {count} times, first after {first}, for {longest} \
             at most; {lost} lost: {rates} them."
        ),
    };
    let strength = Strength::Supported;
    let finding = Finding::new("stall", "stalls", strength, Severity::Warning, words).moves(share);
    Some(
        finding
            .with("count", stalls.count as f64)
            .with("lost_share", share)
            .with("longest_ns", stalls.longest_ns as f64)
            .with("first_ns", stalls.first_ns as f64)
            .with("iops_with", stalls.with)
            .with("iops_without", stalls.without),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_freeze_is_reported_with_both_rates() {
        let freeze = |t| if (0.5..0.6).contains(&t) { 0.0 } else { 1.0 };
        let finding =
            ask(detect, &run_of(&[Load { shape: freeze, noise: 0.0, ..Load::default() }]), None);
        let finding = finding.unwrap();
        assert!(finding.effect.unwrap() > 0.09, "{finding:?}");
        assert!(finding.words.contains("4,500 IOPS with, 5,000 IOPS without"), "{}", finding.words);
        assert!(finding.words.starts_with("After 5.0 s"), "{}", finding.words);
        let twice = |t: f64| if (t * 50.0) as u64 % 25 == 9 { 0.1 } else { 1.0 };
        let finding = ask(detect, &run_of(&[Load { shape: twice, ..Load::default() }]), None);
        assert!(finding.unwrap().words.contains("its median 2 times"));
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
