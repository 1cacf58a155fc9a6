//! `client_cpu`: this machine, not the device, is the limit.

use super::{Case, Detect, Detector, Finding, Severity, Strength};
use iosonde_model::spec::Wait;

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "client_cpu",
    meaning: "This machine, not the device, is the limit.",
    method: "CPU time of the jobs and of the machine over the measured window",
    action: "Give it more CPUs: repeat with more jobs (check: --threads), or on an idle machine.",
    subject: "the client's CPU",
    severity: Severity::Limit,
    detect,
};

/// CPU time over the CPUs that the jobs can use, at or above which the client counts as saturated.
const FULL: f64 = 0.90;
/// Device queue over our own depth below which the device was not saturated.
const DEVICE_IDLE: f64 = 0.7;

/// Reports when the process used 90 % of the CPU time that its threads could get, or at least half
/// of the time of a machine that is 90 % busy: kernel threads that serve the device use the rest.
pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (user, system) = (case.figures.cpu_user_share?, case.figures.cpu_system_share?);
    // A polling engine is always busy.
    let engine = &case.run.plan.engine;
    let polls = engine.iopoll
        || engine.sqpoll
        || case.run.plan.jobs.iter().any(|job| job.reap.wait == Wait::Poll);
    if !case.is_real() || polls || case.figures.all.total.ops == 0 {
        return None;
    }
    let cores = cores(case);
    let used = user + system;
    let machine = machine(case).filter(|(busy, _)| used >= busy / 2.0);
    let is_full = machine.is_some_and(|(busy, online)| busy >= FULL * online);
    if used < FULL * cores && !is_full {
        return None;
    }
    let idle = device_queue(case).map(|queue| queue < DEVICE_IDLE * case.figures.all.depth_seen);
    let strength = match idle {
        Some(false) => Strength::ConsistentWith,
        Some(true) => Strength::Supported,
        None if case.figures.inline => Strength::Supported,
        None => Strength::ConsistentWith,
    };
    let words = match machine.filter(|_| used < FULL * cores) {
        None => format!("The client's CPU is saturated: {used:.2} of {cores:.2} usable CPUs"),
        Some((busy, online)) => format!(
            "The machine's CPUs are saturated: {busy:.2} of {online:.2} in use, {used:.2} by this \
             process"
        ),
    };
    let words = format!("{words}; the device may be faster.");
    let finding = DETECTOR.found(strength, words).with_known("device_queue", device_queue(case));
    Some(finding.with("cpus_used", used).with("cpus_usable", cores))
}

/// CPUs that the jobs can use at once.
fn cores(case: &Case<'_>) -> f64 {
    let jobs = case.run.jobs.len() as f64;
    let Some(host) = case.host else { return jobs };
    let allowed = host.cpus_allowed.or(host.cpus_online).map_or(jobs, f64::from);
    let quota = host.cpu_quota_milli.map_or(jobs, |milli| milli as f64 / 1e3);
    jobs.min(allowed).min(quota)
}

/// CPUs of the machine in use, and CPUs online.
fn machine(case: &Case<'_>) -> Option<(f64, f64)> {
    let [user, system, ..] = super::client_sched::cpu_shares(case)?;
    let online = f64::from(case.host?.cpus_online?);
    Some(((user + system) * online, online))
}

/// Mean number of requests in the device's queue.
fn device_queue(case: &Case<'_>) -> Option<f64> {
    let work = crate::consistency::device_work(case.run)?;
    Some(work.weighted_ms as f64 * 1e6 / case.run.measured_ns.max(1) as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::HostFacts;
    use iosonde_model::record::facts::TelemetrySample;

    #[test]
    fn full_threads_are_reported_and_polling_or_idle_ones_are_not() {
        let mut run = run_of(&[Load { jobs: 2, ..Load::default() }]);
        assert_eq!(ask(detect, &run, None), None);
        run.process.cpu_user_ns = 5_000_000_000;
        run.process.cpu_system_ns = 14_000_000_000;
        let finding = ask(detect, &run, None).unwrap();
        assert_eq!(finding.strength, Strength::ConsistentWith);
        run.jobs.iter_mut().for_each(|job| job.inline_seen = 100);
        assert_eq!(ask(detect, &run, None).unwrap().strength, Strength::Supported);
        for (iopoll, sqpoll) in [(true, false), (false, true)] {
            (run.plan.engine.iopoll, run.plan.engine.sqpoll) = (iopoll, sqpoll);
            assert_eq!(ask(detect, &run, None), None);
        }
    }

    #[test]
    fn a_machine_that_is_full_is_reported_unless_others_fill_it() {
        let host = HostFacts { cpus_online: Some(2), ..HostFacts::default() };
        let speaks = |own_s: u64, idle_percent: u64| {
            let mut run = run_of(&[Load { jobs: 2, ..Load::default() }]);
            (run.process.cpu_user_ns, run.process.cpu_system_ns) = (0, own_s * 1_000_000_000);
            let look = |times: u64| TelemetrySample {
                cpu_ticks: Some([0, (100 - idle_percent) * times, idle_percent * times, 0, 0]),
                ..TelemetrySample::default()
            };
            run.telemetry = vec![look(1), look(21)];
            ask(detect, &run, Some(&host)).map(|finding| finding.words)
        };
        let words = speaks(11, 3).unwrap();
        assert!(words.contains("1.94 of 2.00 in use, 1.10 by this process"), "{words}");
        assert_eq!((speaks(11, 15), speaks(9, 3)), (None, None));
    }

    #[test]
    fn a_quota_counts_as_fewer_cpus() {
        let mut run = run_of(&[Load { jobs: 4, ..Load::default() }]);
        run.process.cpu_user_ns = 9_500_000_000;
        assert_eq!(ask(detect, &run, None), None);
        let host = HostFacts { cpu_quota_milli: Some(1_000), ..HostFacts::default() };
        assert!(ask(detect, &run, Some(&host)).is_some());
    }
}
