//! Calls that make data durable: how many, how long, and how much of their threads' time.

use serde::Serialize;

use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{SyncKind, SyncRun};
use iosonde_stats::Histogram;

use super::spread::Latency;
use super::traffic::{per_second, share};

/// More threads than this may not have existed at the same time, and their lifetimes are not
/// recorded: a thousand short processes that only sync would have almost no share. Their share is
/// reported only if it is the larger part even so.
const MANY: u32 = 16;
/// The larger part.
const MOSTLY: f64 = 0.5;

/// All calls that make data durable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SyncFigures {
    /// Calls of every kind.
    pub calls: u64,
    /// Calls per second.
    pub per_s: f64,
    /// Each kind of [`SyncKind::WORDS`], those without calls too.
    pub kinds: Vec<KindFigures>,
    /// Thread groups with calls, the longest time first.
    pub groups: Vec<GroupSyncs>,
}

/// One kind of call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindFigures {
    /// Kind.
    pub kind: SyncKind,
    /// Its name.
    pub word: &'static str,
    /// Calls that returned.
    pub calls: u64,
    /// Of those, with an error.
    pub errors: u64,
    /// Calls per second.
    pub per_s: f64,
    /// From call to return.
    pub latency: Latency,
}

/// The calls of one thread group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupSyncs {
    /// Index into the record's groups.
    pub group: u32,
    /// Name of its threads.
    pub name: String,
    /// Threads that did I/O; at least 1.
    pub threads: u32,
    /// Calls.
    pub calls: u64,
    /// Time in them, ns, summed over threads.
    pub ns: u64,
    /// Time in blocking calls over the time of its threads if each existed throughout: a lower
    /// bound. `None` without such calls, or if it is meaningless for many threads.
    pub time_share: Option<f64>,
    /// Calls by io_uring, in which no thread waits, in flight on average per thread; `None` without
    /// any.
    pub in_flight: Option<f64>,
}

/// The figures of all sync calls.
pub(super) fn syncs(run: &ProfileRun) -> SyncFigures {
    let kinds: Vec<KindFigures> =
        SyncKind::WORDS.iter().map(|(kind, word)| of_kind(run, *kind, word)).collect();
    let calls = kinds.iter().map(|kind| kind.calls).sum();
    SyncFigures { calls, per_s: per_second(calls, run.measured_ns), kinds, groups: groups(run) }
}

fn of_kind(run: &ProfileRun, kind: SyncKind, word: &'static str) -> KindFigures {
    let chosen = || run.syncs.iter().filter(|sync| sync.kind == kind);
    let calls = chosen().map(|sync| sync.calls).sum();
    let mut latency = Histogram::new();
    chosen().for_each(|sync| latency.merge(&sync.latency));
    KindFigures {
        kind,
        word,
        calls,
        errors: chosen().map(|sync| sync.errors).sum(),
        per_s: per_second(calls, run.measured_ns),
        latency: Latency::of(&latency),
    }
}

fn groups(run: &ProfileRun) -> Vec<GroupSyncs> {
    let mut groups: Vec<GroupSyncs> = (0u32..)
        .zip(&run.groups)
        .map(|(index, group)| {
            let own: Vec<&SyncRun> = run.syncs.iter().filter(|s| s.group == index).collect();
            let sum = |is_async: bool| -> u64 {
                let chosen = own.iter().filter(|s| (s.kind == SyncKind::IoUring) == is_async);
                let sum: u128 = chosen.map(|sync| sync.latency.sum()).sum();
                u64::try_from(sum).unwrap_or(u64::MAX)
            };
            let (waited_ns, flown_ns) = (sum(false), sum(true));
            let threads = group.threads.max(1);
            let had_ns = run.measured_ns.saturating_mul(u64::from(threads));
            GroupSyncs {
                group: index,
                name: super::group_name(run, index),
                threads,
                calls: own.iter().map(|sync| sync.calls).sum(),
                ns: waited_ns.saturating_add(flown_ns),
                time_share: share(waited_ns, had_ns)
                    .filter(|share| waited_ns > 0 && (threads <= MANY || *share >= MOSTLY)),
                in_flight: share(flown_ns, had_ns).filter(|_| flown_ns > 0),
            }
        })
        .filter(|group| group.calls > 0)
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.ns));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::profile::{Flow, profile_of, with_syncs};

    #[test]
    fn kinds_and_groups_of_known_syncs() {
        let flow = Flow { threads: 2, ..Flow::default() };
        let mut run = profile_of(&[flow]);
        with_syncs(&mut run, "app", SyncKind::Fsync, 100, 10_000_000);
        with_syncs(&mut run, "app", SyncKind::IoUring, 200, 5_000_000);
        with_syncs(&mut run, "log", SyncKind::Fsync, 50, 100_000_000);
        let syncs = syncs(&run);
        assert_eq!((syncs.calls, syncs.per_s), (350, 35.0));
        let calls: Vec<u64> = syncs.kinds.iter().map(|kind| kind.calls).collect();
        assert_eq!(calls, [150, 0, 0, 0, 0, 0, 200]);
        assert_eq!(syncs.kinds[0].latency.mean_ns, Some(40_000_000.0));
        let groups: Vec<_> = syncs
            .groups
            .iter()
            .map(|group| (group.name.as_str(), group.calls, group.time_share, group.in_flight))
            .collect();
        // 5 s of one thread's 10; 1 s of the 20 that two have, and 1 s in flight.
        let expected = [("log", 50, Some(0.5), None), ("app", 300, Some(0.05), Some(0.05))];
        assert_eq!(groups, expected);
    }

    #[test]
    fn of_many_threads_that_need_not_have_lived_at_once_no_small_share_is_reported() {
        let share = |threads: u32, latency_ns: u64| {
            let mut run = profile_of(&[Flow { threads, ..Flow::default() }]);
            with_syncs(&mut run, "app", SyncKind::Fsync, 1_000, latency_ns);
            syncs(&run).groups[0].time_share
        };
        // 8 s of the ten in syncs: of one thread after the other, or of 16 at a time.
        assert_eq!(share(1_000, 8_000_000), None);
        assert_eq!(share(16, 8_000_000), Some(0.05));
        // 100 s of the 200 that 20 threads have at most.
        assert_eq!(share(20, 100_000_000), Some(0.5));
    }
}
