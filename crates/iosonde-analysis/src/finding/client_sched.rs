//! `client_sched`: the host stalled threads for long enough to show in the tail.

use crate::profile::machine::shares;
use iosonde_model::units::duration;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "client_sched",
    meaning: "The host stalled threads for long enough to show in the latency tail.",
    method: "a thread that sleeps 25 ms and measures by how much it overslept",
    action: "Repeat on an idle machine: the tail is partly that of the host.",
    subject: "host stalls",
    severity: Severity::Warning,
    detect,
};

/// Share of CPU steal above which it is reported.
const STEAL: f64 = 0.01;

/// CPU time of another process, as a share of one CPU, at or above which it is named.
const BUSY_FROM: f64 = 0.05;

/// Share of late wake-ups that affects the p99, and standard errors by which they must exceed it.
const LATE_SHARE: f64 = 0.01;
const ERRORS: f64 = 2.0;

/// Shortest pause that lowers confidence: both in ns and as a share of the measured window.
const PAUSE_NS: u64 = 100_000_000;
const PAUSE_SHARE: f64 = 0.05;

/// Reports a pause of the whole process of 5 % of the window, or 1 % of a sleeping thread's
/// wake-ups later than the median one by more than the p99 of the latencies, or CPU steal above
/// 1 %.
fn detect(case: &Case<'_>) -> Option<Finding> {
    if let Some(finding) = pause(case) {
        return Some(finding);
    }
    let p99 = case.figures.all.total.latency.at(0.99);
    let late = p99.and_then(|p99| Some((p99, late(case, p99)?)));
    let steal = cpu_shares(case).map(|[.., steal]| steal).filter(|share| *share > STEAL);
    let of_others = late.and_then(|_| busiest(case));
    let of_steal = steal.map(|share| format!("CPU steal {}.", super::percent(share)));
    let of_late = late.map(|(p99, share)| {
        format!(
            "Host stalls contribute to the latency tail: {} of the wake-ups were later than the \
             median one by more than the p99 of the I/O latency, {}.",
            super::percent(share),
            duration::latency(p99 as f64)
        )
    });
    let words: Vec<String> = of_late.into_iter().chain(of_others).chain(of_steal).collect();
    if words.is_empty() {
        return None;
    }
    let strength = if late.is_some() { Strength::Supported } else { Strength::Proven };
    let words = words.join(" ");
    let mut finding = DETECTOR.found(strength, words);
    if let Some((p99, share)) = late {
        finding = finding.with("late_share", share).with("latency_p99_ns", p99);
    }
    Some(match steal {
        Some(share) => finding.moves(share).with("steal_share", share),
        None => finding,
    })
}

/// Share of the wake-ups later than the median one by more than this; `None` unless it is proven to
/// be at least 1 %, which affects the p99. The median is the timer's usual delay, 40 us and more on
/// an idle virtual machine; requests do not have it. A wake-up at less than twice the median is
/// normal scatter and does not count, however fast the requests are.
fn late(case: &Case<'_>, than_ns: u64) -> Option<f64> {
    let all = &case.run.hiccups;
    let usual_ns = all.quantile(0.5)?;
    let late = all.count_above(usual_ns + than_ns.max(usual_ns)) as f64;
    let count = all.count() as f64;
    (late - ERRORS * late.sqrt() >= LATE_SHARE * count && late > 0.0).then_some(late / count)
}

/// The process with the most CPU time besides the run, if at least 5 % of one CPU.
fn busiest(case: &Case<'_>) -> Option<String> {
    let most = case.run.neighbours.iter().max_by_key(|one| one.cpu_ns)?;
    let share = most.cpu_ns as f64 / (case.run.measured_ns + case.run.plan.warmup_ns).max(1) as f64;
    (share >= BUSY_FROM).then(|| {
        format!(
            "Most CPU time beside it went to {}: {} of one CPU.",
            super::process(most),
            super::percent(share)
        )
    })
}

/// Reports a single pause (a stopped process or guest). It does not show in the p99.9 of the
/// watchdog, but can halve a rate.
fn pause(case: &Case<'_>) -> Option<Finding> {
    let longest = case.run.hiccups.max()?;
    let share = longest as f64 / case.run.measured_ns.max(1) as f64;
    if longest < PAUSE_NS || share < PAUSE_SHARE {
        return None;
    }
    let words = format!(
        "This process was paused for {} ({} of the run), stopped or paused with its host: rates \
         are too low by that share.",
        duration::latency(longest as f64),
        super::percent(share)
    );
    let finding = DETECTOR.found_at(Severity::LowConfidence, Strength::Supported, words);
    Some(finding.moves(share).with("standstill_ns", longest).with("standstill_share", share))
}

/// Shares of the machine's CPU time between the first and the last sample: user, system, idle,
/// iowait and steal.
pub(super) fn cpu_shares(case: &Case<'_>) -> Option<[f64; 5]> {
    let mut looks = case.run.telemetry.iter().filter_map(|sample| sample.cpu_ticks);
    let first = looks.next()?;
    let last = looks.next_back()?;
    shares(first, last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::{Neighbour, TelemetrySample};

    #[test]
    fn stalls_longer_than_the_tail_are_reported_and_shorter_ones_are_not() {
        let mut run = run_of(&[Load::default()]);
        run.hiccups.record_many(50_000, 490);
        run.hiccups.record_many(50_000_000, 8);
        assert_eq!(ask(detect, &run, None), None, "eight may be one in a hundred");
        let mut fast = run_of(&[Load { iops: 1e6, ..Load::default() }]);
        fast.hiccups.record_many(50_000, 400);
        fast.hiccups.record_many(90_000, 290);
        assert_eq!(ask(detect, &fast, None), None, "the scatter of a timer");
        fast.hiccups.record_many(150_000, 30);
        assert!(ask(detect, &fast, None).is_some());
        run.hiccups.record_many(50_000_000, 12);
        assert!(ask(detect, &run, None).unwrap().words.contains("3.92 % of the wake-ups"));
        run.neighbours = vec![Neighbour {
            pid: 9,
            program: "cc1".into(),
            cpu_ns: run.measured_ns / 2,
            ..Neighbour::default()
        }];
        let words = ask(detect, &run, None).unwrap().words;
        assert!(words.contains("beside it went to cc1 (process 9): "), "{words}");
    }

    #[test]
    fn one_long_pause_is_reported_and_a_short_one_is_not() {
        let mut run = run_of(&[Load::default()]);
        run.hiccups.record_many(50_000, 400);
        run.hiccups.record(300_000_000);
        assert_eq!(ask(detect, &run, None), None);
        run.hiccups.record(1_500_000_000);
        let finding = ask(detect, &run, None).unwrap();
        assert!(finding.effect.unwrap() > 0.1);
        assert!(finding.words.contains("was paused for 1.50 s"), "{}", finding.words);
    }

    #[test]
    fn stolen_time_is_reported() {
        let look = |cpu_ticks| TelemetrySample {
            cpu_ticks: Some(cpu_ticks),
            ..TelemetrySample::default()
        };
        let mut run = run_of(&[Load::default()]);
        run.telemetry = vec![look([0, 0, 0, 0, 0]), look([500, 100, 390, 5, 5])];
        assert_eq!(ask(detect, &run, None), None);
        run.telemetry[1] = look([500, 100, 350, 5, 45]);
        assert_eq!(ask(detect, &run, None).unwrap().strength, Strength::Proven);
    }
}
