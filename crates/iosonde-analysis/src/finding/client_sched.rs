//! `client_sched`: the host stalled threads for long enough to show in the tail.

use iosonde_model::units::duration;
use iosonde_stats::Quantile;

use super::{Case, Finding, Gravity, Strength};

/// Steal time over all CPU time that is worth a word.
const STEAL: f64 = 0.01;

/// The longest standstill worth a doubt, ns, and as a share of the measured window.
const STANDSTILL_NS: u64 = 100_000_000;
const STANDSTILL: f64 = 0.05;

/// Speaks where the whole process once stood still for 5 % of the window, where stalls of this host
/// (p99.9 of the watchdog) exceed the p99 of the latencies, or where another guest took 1 % of the
/// CPU time.
pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    if let Some(finding) = standstill(case) {
        return Some(finding);
    }
    let stall = Quantile::of(&case.run.hiccups, 0.999).value_ns();
    let p99 = case.figures.all.total.latency.quantile(0.99).and_then(Quantile::value_ns);
    let steal = steal(case).filter(|share| *share > STEAL);
    let stalled = stall.zip(p99).filter(|(stall, p99)| stall > p99);
    let words = match (stalled, steal) {
        (Some((stall, p99)), _) => format!(
            "The tail is partly host stalls: one wake-up in a thousand came {} late, p99 is {}.",
            duration::latency(stall as f64),
            duration::latency(p99 as f64)
        ),
        (None, Some(share)) => {
            format!("Other guests took {} of the CPU time.", super::percent(share))
        }
        (None, None) => return None,
    };
    let strength = if stalled.is_some() { Strength::Supported } else { Strength::Proven };
    let mut finding =
        Finding::new("client_sched", "host stalls", strength, Gravity::Caution, words);
    if let Some((stall, p99)) = stalled {
        finding = finding.with("stall_p999_ns", stall as f64).with("latency_p99_ns", p99 as f64);
    }
    Some(match steal {
        Some(share) => finding.with("steal_share", share),
        None => finding,
    })
}

/// One standstill (a stopped process, a paused guest) leaves no mark on the p99.9 of the watchdog,
/// and yet halves a rate.
fn standstill(case: &Case<'_>) -> Option<Finding> {
    let longest = case.run.hiccups.max()?;
    let share = longest as f64 / case.run.measured_ns.max(1) as f64;
    if longest < STANDSTILL_NS || share < STANDSTILL {
        return None;
    }
    let words = format!(
        "This process stood still for {} ({} of the run), stopped or paused with its host: rates \
         are that much too low.",
        duration::latency(longest as f64),
        super::percent(share)
    );
    let (strength, gravity) = (Strength::Supported, Gravity::Doubt);
    let finding = Finding::new("client_sched", "host stalls", strength, gravity, words);
    Some(finding.with("standstill_ns", longest as f64).with("standstill_share", share))
}

/// Share of CPU time stolen by the hypervisor between the first and the last look.
fn steal(case: &Case<'_>) -> Option<f64> {
    let mut looks = case.run.telemetry.iter().filter_map(|sample| sample.cpu_ticks);
    let first = looks.next()?;
    let last = looks.next_back()?;
    let spent: Vec<u64> = last.iter().zip(first).map(|(b, a)| b.saturating_sub(a)).collect();
    let total: u64 = spent.iter().sum();
    (total > 0).then(|| *spent.last().unwrap_or(&0) as f64 / total as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::TelemetrySample;

    #[test]
    fn stalls_longer_than_the_tail_speak_and_shorter_ones_do_not() {
        let mut run = run_of(&[Load::default()]);
        run.hiccups.record_many(50_000, 9_980);
        run.hiccups.record_many(500_000, 20);
        assert_eq!(ask(detect, &run, None), None);
        run.hiccups.record_many(50_000_000, 20);
        assert!(ask(detect, &run, None).unwrap().words.contains("late, p99 is"));
    }

    #[test]
    fn one_long_standstill_speaks_and_a_short_one_does_not() {
        let mut run = run_of(&[Load::default()]);
        run.hiccups.record_many(50_000, 8_000);
        run.hiccups.record(300_000_000);
        assert_eq!(ask(detect, &run, None), None);
        run.hiccups.record(1_500_000_000);
        let finding = ask(detect, &run, None).unwrap();
        assert_eq!(finding.gravity, Gravity::Doubt);
        assert!(finding.words.contains("stood still for 1.50 s"), "{}", finding.words);
    }

    #[test]
    fn stolen_time_speaks() {
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
