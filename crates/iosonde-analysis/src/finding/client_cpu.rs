//! `client_cpu`: this machine, not the device, is the limit.

use super::{Case, Finding, Severity, Strength};
use iosonde_model::spec::Wait;

/// CPU time over the CPUs that the jobs can use, at or above which the client counts as saturated.
const FULL: f64 = 0.90;
/// Device queue over our own depth below which the device was not saturated.
const DEVICE_IDLE: f64 = 0.7;

/// Reports when the process used 90 % of the CPU time that its threads could get.
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
    if used < FULL * cores {
        return None;
    }
    let idle = device_queue(case).map(|queue| queue < DEVICE_IDLE * case.figures.all.depth_seen);
    let strength = match idle {
        Some(false) => Strength::ConsistentWith,
        Some(true) => Strength::Supported,
        None if case.figures.inline => Strength::Supported,
        None => Strength::ConsistentWith,
    };
    let words = format!(
        "The client's CPU is saturated: {used:.2} of {cores:.2} usable CPUs; the device may be \
         faster."
    );
    let finding = Finding::new("client_cpu", "the client's CPU", strength, Severity::Limit, words);
    let finding = finding.with("cpus_used", used).with("cpus_usable", cores);
    Some(match device_queue(case) {
        Some(queue) => finding.with("device_queue", queue),
        None => finding,
    })
}

/// CPUs that the jobs can use at once.
fn cores(case: &Case<'_>) -> f64 {
    let jobs = case.run.jobs.len() as f64;
    let Some(host) = case.host else { return jobs };
    let allowed = host.cpus_allowed.or(host.cpus_online).map_or(jobs, f64::from);
    let quota = host.cpu_quota_milli.map_or(jobs, |milli| milli as f64 / 1e3);
    jobs.min(allowed).min(quota)
}

/// Mean number of requests in the device's queue.
fn device_queue(case: &Case<'_>) -> Option<f64> {
    let work = crate::consistency::device_work(case.run)?;
    Some(work.delta.weighted_ms as f64 * 1e6 / case.run.measured_ns.max(1) as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::HostFacts;

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
    fn a_quota_counts_as_fewer_cpus() {
        let mut run = run_of(&[Load { jobs: 4, ..Load::default() }]);
        run.process.cpu_user_ns = 9_500_000_000;
        assert_eq!(ask(detect, &run, None), None);
        let host = HostFacts { cpu_quota_milli: Some(1_000), ..HostFacts::default() };
        assert!(ask(detect, &run, Some(&host)).is_some());
    }
}
