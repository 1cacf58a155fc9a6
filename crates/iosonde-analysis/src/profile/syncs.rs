//! Calls that make data durable: their number, latency, and share of their threads' time.

use serde::{Serialize, Serializer};

use crate::document;
use iosonde_model::record::profile::{ProfileRun, SyncKind, SyncPhases, SyncRun};
use iosonde_stats::Histogram;

use super::spread::Latency;
use super::traffic::{per_second, share};

/// Most threads that are assumed to exist at the same time; lifetimes are not recorded. A thousand
/// short processes that only sync would have almost no share, so the share of more threads is
/// reported only from [`MOSTLY`] on.
const MANY: u32 = 16;
/// The larger part of the time.
const MOSTLY: f64 = 0.5;

/// All calls that make data durable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SyncFigures {
    /// Calls of every kind.
    pub calls: u64,
    /// Calls per second.
    pub per_s: f64,
    /// Each kind of [`SyncKind::ALL`], including kinds without calls.
    #[serde(serialize_with = "by_kind")]
    pub kinds: Vec<KindFigures>,
    /// Thread groups with calls, the longest time first.
    pub groups: Vec<GroupSyncs>,
}

/// One kind of call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindFigures {
    #[serde(skip)]
    pub kind: SyncKind,
    /// Name of the kind.
    #[serde(skip)]
    pub word: &'static str,
    /// Calls that returned.
    pub calls: u64,
    /// Calls that returned an error.
    pub errors: u64,
    /// Calls per second.
    pub per_s: f64,
    /// Time from call to return.
    #[serde(rename = "latency_ns")]
    pub latency: Latency,
    /// Parts of that time, one for each of [`SyncPart::ALL`]; empty without calls, or if the record
    /// does not have them.
    #[serde(serialize_with = "by_part")]
    pub parts: Vec<PartFigures>,
}

iosonde_model::words! {
    /// A part of the time of sync calls, in the order of a sync.
    #[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SyncPart {
        /// Writes of the program's data were in flight, and nothing of the later parts.
        Data => "data writes",
        /// Writes of journals or metadata were in flight, and no flush.
        Journal => "journal and metadata",
        /// A flush of a device's cache was in flight.
        Flush => "cache flush",
        /// None of these: waits for a CPU, for locks, or for I/O of others.
        Other => "none of these",
    }
}

/// Time of one part. All parts of a kind add up to the time of its calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartFigures {
    #[serde(skip)]
    pub part: SyncPart,
    /// Total over all calls, ns.
    pub total_ns: u64,
    /// Mean per call, ns.
    #[serde(serialize_with = "document::whole")]
    pub mean_ns: f64,
    /// Share of the time of the calls; `None` if that time is 0.
    pub share: Option<f64>,
}

fn by_kind<S: Serializer>(kinds: &[KindFigures], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(kinds.iter().map(|kind| (kind.word.replace(' ', "_"), kind)))
}

/// `null` without calls, or if the parts are unknown.
fn by_part<S: Serializer>(parts: &[PartFigures], to: S) -> Result<S::Ok, S::Error> {
    if parts.is_empty() {
        return to.serialize_none();
    }
    to.collect_map(parts.iter().map(|part| (part.part, part)))
}

/// The calls of one thread group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupSyncs {
    /// Index into the record's groups.
    #[serde(skip)]
    pub group: u32,
    /// Name of its threads.
    pub name: String,
    /// Threads that did I/O; at least 1.
    pub threads: u32,
    pub calls: u64,
    /// Time in these calls, ns, summed over threads.
    #[serde(rename = "time_ns")]
    pub ns: u64,
    /// Time in blocking calls over the time of its threads if each existed throughout: a lower
    /// bound. `None` without such calls, or if it says nothing about so many threads.
    pub time_share: Option<f64>,
    /// Mean number of io_uring syncs in flight per thread, in which no thread waits; `None` without
    /// any.
    pub in_flight: Option<f64>,
}

/// The figures of all sync calls.
pub fn syncs(run: &ProfileRun) -> SyncFigures {
    let kinds: Vec<KindFigures> =
        SyncKind::ALL.into_iter().map(|kind| of_kind(run, kind)).collect();
    let calls = kinds.iter().map(|kind| kind.calls).sum();
    SyncFigures { calls, per_s: per_second(calls, run.measured_ns), kinds, groups: groups(run) }
}

fn of_kind(run: &ProfileRun, kind: SyncKind) -> KindFigures {
    let chosen = || run.syncs.iter().filter(|sync| sync.kind == kind);
    let calls = chosen().map(|sync| sync.calls).sum();
    let latency = Histogram::of_all(chosen().map(|sync| &sync.latency));
    KindFigures {
        kind,
        word: kind.word(),
        calls,
        errors: chosen().map(|sync| sync.errors).sum(),
        per_s: per_second(calls, run.measured_ns),
        parts: parts(chosen(), calls, latency.sum()),
        latency: Latency::of(&latency),
    }
}

/// Parts of the time of these calls.
fn parts<'a>(
    syncs: impl Iterator<Item = &'a SyncRun>,
    calls: u64,
    all_ns: u128,
) -> Vec<PartFigures> {
    let Some(phases) = syncs.map(|sync| sync.phases).collect::<Option<Vec<SyncPhases>>>() else {
        return Vec::new();
    };
    if calls == 0 {
        return Vec::new();
    }
    let all_ns = u64::try_from(all_ns).unwrap_or(u64::MAX);
    let mut left_ns = all_ns;
    let mut sum = |of: fn(&SyncPhases) -> u64| {
        let sum = phases.iter().map(of).fold(0, u64::saturating_add).min(left_ns);
        left_ns -= sum;
        sum
    };
    let flush_ns = sum(|phases| phases.flush_ns);
    let journal_ns = sum(|phases| phases.journal_ns);
    let data_ns = sum(|phases| phases.data_ns);
    let totals = [data_ns, journal_ns, flush_ns, left_ns];
    let part = |(part, total_ns): (SyncPart, u64)| PartFigures {
        part,
        total_ns,
        mean_ns: total_ns as f64 / calls as f64,
        share: share(total_ns, all_ns),
    };
    SyncPart::ALL.into_iter().zip(totals).map(part).collect()
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
        // 5 s of the 10 s of one thread; 1 s of the 20 s of two threads, and 1 s in flight.
        let expected = [("log", 50, Some(0.5), None), ("app", 300, Some(0.05), Some(0.05))];
        assert_eq!(groups, expected);
    }

    #[test]
    fn the_parts_of_syncs_add_up_to_their_time() {
        let mut run = profile_of(&[Flow::default()]);
        with_syncs(&mut run, "app", SyncKind::Fsync, 100, 10_000_000);
        with_syncs(&mut run, "log", SyncKind::Fsync, 100, 20_000_000);
        let parts = |run: &ProfileRun| -> Vec<(SyncPart, u64, f64, Option<f64>)> {
            let kinds = syncs(run).kinds;
            assert!(kinds[1..].iter().all(|kind| kind.parts.is_empty()));
            let each = kinds[0].parts.iter();
            each.map(|part| (part.part, part.total_ns, part.mean_ns, part.share)).collect()
        };
        let expected = [
            (SyncPart::Data, 300_000_000, 1.5e6, Some(0.1)),
            (SyncPart::Journal, 600_000_000, 3e6, Some(0.2)),
            (SyncPart::Flush, 1_500_000_000, 7.5e6, Some(0.5)),
            (SyncPart::Other, 600_000_000, 3e6, Some(0.2)),
        ];
        assert_eq!(parts(&run), expected);
        // If a record has parts for only some calls of a kind, the kind has none.
        run.syncs[1].phases = None;
        assert_eq!(parts(&run), []);
        // No part is longer than the rest of the whole.
        run.syncs[1].phases = Some(SyncPhases { flush_ns: u64::MAX, ..SyncPhases::default() });
        let shares: Vec<Option<f64>> = parts(&run).iter().map(|part| part.3).collect();
        assert_eq!(shares, [Some(0.0), Some(0.0), Some(1.0), Some(0.0)]);
    }

    #[test]
    fn of_many_threads_that_need_not_have_lived_at_once_no_small_share_is_reported() {
        let share = |threads: u32, latency_ns: u64| {
            let mut run = profile_of(&[Flow { threads, ..Flow::default() }]);
            with_syncs(&mut run, "app", SyncKind::Fsync, 1_000, latency_ns);
            syncs(&run).groups[0].time_share
        };
        // 8 s of 10 s in syncs: of one thread after the other, or of 16 at a time.
        assert_eq!(share(1_000, 8_000_000), None);
        assert_eq!(share(16, 8_000_000), Some(0.05));
        // 100 s of the 200 s that 20 threads have at most.
        assert_eq!(share(20, 100_000_000), Some(0.5));
    }
}
