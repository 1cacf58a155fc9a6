//! `run_delay`: the program was ready to run and had no CPU.

use super::{Detect, Detector, Figures, Finding, Severity, percent};
use iosonde_model::record::ProfileRun;
use iosonde_model::units::duration;

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "run_delay",
    meaning: "The program was ready to run for much of the time, but had no CPU.",
    method: "the kernel's run delay of its threads, and their time on CPUs and blocked on I/O",
    action: "Find what uses the CPUs, or whether a CPU limit holds it, before judging the storage.",
    subject: "CPUs that it did not get",
    severity: Severity::Limit,
    detect,
};

/// Smallest share of the time, summed over threads.
const TIME: f64 = 0.2;
/// Smallest share of the time that its threads were ready, on a CPU or blocked on I/O.
const SHARE: f64 = 0.25;
/// Share of all CPUs allowed at or above which its own threads had most of them.
const OWN: f64 = 0.5;

/// Share of the time that its threads were ready but had no CPU, if it is worth a finding. Threads
/// that wait for something other than storage do not count.
pub(super) fn share(figures: &Figures) -> Option<f64> {
    let ready = figures.machine.program_run_delay?;
    let rest = figures.waits.on_cpu? + figures.machine.program_io_delay.unwrap_or(0.0);
    (ready >= TIME && ready >= SHARE * (ready + rest)).then_some(ready)
}

/// Reports the delay. The CPU time of its own threads shows whether they had the CPUs, unless a
/// limit holds them below that.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let ready = share(figures)?;
    let on_cpu = figures.waits.on_cpu?;
    let of_all = on_cpu / f64::from(run.host.cpus_allowed.unwrap_or(1));
    let who = match of_all >= OWN && run.host.cpu_quota_milli.is_none() {
        true => "its own threads had most of the CPUs",
        false => "other programs had the CPUs, or a limit held it",
    };
    let words = format!(
        "Its threads were ready to run for {} without a CPU ({} of the time of one), and {} on one \
         ({}): {who}. That time is not the storage's.",
        duration::latency(run.run_delay_ns? as f64),
        percent(ready),
        duration::latency(on_cpu * run.measured_ns as f64),
        percent(on_cpu),
    );
    Some(DETECTOR.proven(words).with("run_delay_time_share", ready).with("on_cpu", on_cpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn time_without_a_cpu_is_reported_where_it_is_a_part_of_the_whole() {
        // 10 s, of which 3 on a CPU and 5 blocked on I/O.
        let mut run = profile_of(&[Flow::default()]);
        assert_eq!(ask(detect, &run), None, "not accounted");
        run.run_delay_ns = Some(6_800_000_000);
        let message = words(detect, &run);
        let expected =
            "ready to run for 6.80 s without a CPU (68 % of the time of one), and 3.00 s";
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("other programs had the CPUs, or a limit held it"), "{message}");
        run.host.cpus_allowed = Some(1);
        if let Some(cpu) = &mut run.cpu {
            cpu.cpu_user_ns = 4_000_000_000;
        }
        let message = words(detect, &run);
        assert!(message.contains("its own threads had most of the CPUs"), "{message}");
        run.host.cpu_quota_milli = Some(700);
        assert!(words(detect, &run).contains("or a limit held it"));
        if let Some(cpu) = &mut run.cpu {
            cpu.cpu_user_ns = 1_000_000_000;
        }
        // 300 ms is the cost of switches; 2.1 s is a small share of what eight threads did.
        run.run_delay_ns = Some(300_000_000);
        assert_eq!(ask(detect, &run), None);
        run.run_delay_ns = Some(2_100_000_000);
        assert_eq!(ask(detect, &run), None, "a fifth of what they did");
        run.io_delay_ns = Some(0);
        assert!(ask(detect, &run).is_some());
        run.io_delay_ns = Some(60_000_000_000);
        assert_eq!(ask(detect, &run), None);
    }
}
