//! `sync_bound`: a thread group, or one of its threads, spends most of its time in syncs.

use super::{Detect, Detector, Figures, Finding, Severity, named, percent};
use iosonde_model::record::profile::{ProfileRun, SyncKind};
use iosonde_model::units::{count, duration};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "sync_bound",
    meaning: "Syncs take half of a thread's time or more.",
    method: "time in sync calls over the duration",
    action: "Sync less often, group commits, or use storage with a protected cache.",
    subject: "waiting for syncs",
    severity: Severity::Limit,
    detect,
};

/// Share of the time at or above which a thread mostly syncs.
const TIME: f64 = 0.5;
/// Fewest calls to report.
const CALLS: u64 = 10;

/// Reports the group with the most time in syncs, unless a more specific finding covers it; a
/// single thread if no group as a whole waits that long.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let groups = &figures.syncs.as_ref()?.groups;
    let is_bound = |share: Option<f64>| share.is_some_and(|share| share >= TIME);
    if groups.iter().any(|group| group.calls >= CALLS && is_bound(group.time_share)) {
        return of_group(run, figures);
    }
    // A thread's sync time may include syncs by io_uring, which do not block it.
    let nobody_flies = groups.iter().all(|group| group.in_flight.is_none());
    nobody_flies.then(|| of_thread(run))?
}

/// Reports one thread among others of its name, whose time the group's mean hides.
fn of_thread(run: &ProfileRun) -> Option<Finding> {
    let own = run.threads.iter().filter(|thread| thread.of_program && thread.syncs >= CALLS);
    let bound = own.max_by_key(|thread| thread.sync_ns)?;
    let share = bound.sync_ns as f64 / run.measured_ns.max(1) as f64;
    let tid = bound.tid.filter(|_| share >= TIME)?;
    let words = format!(
        "One thread of `{}` ({tid}) spends {} of its time in syncs: {} calls of {} on average.",
        bound.name,
        percent(share),
        count::thousands(bound.syncs),
        duration::latency(bound.sync_ns as f64 / bound.syncs as f64),
    );
    let finding = DETECTOR.proven(words).with("thread", f64::from(tid));
    Some(finding.with("sync_calls", bound.syncs).with("sync_time_share", share))
}

fn of_group(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let bound = figures.syncs.as_ref()?.groups.iter().find(|group| {
        group.calls >= CALLS && group.time_share.is_some_and(|share| share >= TIME)
    })?;
    if super::sync_small_writes::of_group(run, bound).is_some() {
        return None;
    }
    let share = bound.time_share?;
    let words = format!(
        "{} spends {} of its time in {}: {} calls of {} on average.",
        named(&bound.name, bound.threads),
        percent(share),
        kind(run, bound.group),
        count::thousands(bound.calls),
        duration::latency(bound.ns as f64 / bound.calls as f64),
    );
    let finding = DETECTOR.proven(words).with("group", bound.name.as_str());
    Some(finding.with("sync_calls", bound.calls).with("sync_time_share", share))
}

/// The name of the call in which a group spends the most time.
pub(super) fn kind(run: &ProfileRun, group: u32) -> &'static str {
    let own = run.syncs.iter().filter(|sync| sync.group == group);
    let longest = own.max_by_key(|sync| sync.latency.sum()).map(|sync| sync.kind);
    longest.map_or("syncs", SyncKind::word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of, with_syncs};
    use iosonde_model::record::profile::Op;

    #[test]
    fn most_of_the_time_is_reported_and_some_of_it_is_not() {
        let flow = Flow { op: Op::Write, size_bytes: 1 << 20, requests: 1_000, ..Flow::default() };
        let run = |latency_ns| {
            let mut run = profile_of(&[flow]);
            with_syncs(&mut run, "app", SyncKind::Fsync, 100, latency_ns);
            run
        };
        let message = words(detect, &run(70_000_000));
        assert!(
            message.contains("`app` spends 70 % of its time in fsync: 100 calls of 70.0 ms"),
            "{message}"
        );
        assert_eq!(ask(detect, &run(20_000_000)), None);
        // One of four threads is named if their mean hides it.
        let mut shared = run(70_000_000);
        shared.groups[1].threads = 4;
        let message = words(detect, &shared);
        assert!(message.contains("One thread of `app` ("), "{message}");
        assert!(message.contains("spends 70 % of its time in syncs: 100 calls"), "{message}");
        // With four threads, the same time is a quarter each.
        shared.threads.iter_mut().for_each(|thread| thread.sync_ns /= 4);
        assert_eq!(ask(detect, &shared), None);
    }
}
