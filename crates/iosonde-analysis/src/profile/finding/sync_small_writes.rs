//! `sync_small_writes`: small writes, each synced before the next.

use super::{Detector, Figures, Finding, Severity};
use iosonde_model::record::profile::{Op, ProfileRun};
use iosonde_model::units::{bytes, count};

use super::super::syncs::GroupSyncs;
use super::{Detect, commonest, named, own, percent, share_up_to};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "sync_small_writes",
    meaning: "Small writes are synced one by one.",
    method: "writes between sync calls, and the time in them",
    action: "Group several changes into one sync.",
    subject: "small durable writes",
    severity: Severity::Limit,
    detect,
};

/// Largest size of a small write.
const SMALL_BYTES: u64 = 16 << 10;
/// Share of small writes at or above which the writes count as small.
const MOSTLY: f64 = 0.8;
/// Writes per sync at or below which a sync is said to follow each write.
const WRITES_PER_SYNC: f64 = 4.0;
/// Smallest share of a thread's time in syncs, or number of syncs in flight per thread, to report.
const TIME: f64 = 0.25;
/// Fewest calls to report.
const CALLS: u64 = 30;

/// Reports the thread group that spends the most time this way.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    figures.syncs.as_ref()?.groups.iter().find_map(|group| of_group(run, group))
}

/// The finding for one group.
pub(super) fn of_group(run: &ProfileRun, group: &GroupSyncs) -> Option<Finding> {
    let writes = own(run, group.group, Op::Write);
    let cost = cost(group)?;
    let small = share_up_to(&writes.sizes, SMALL_BYTES);
    let per_sync = writes.requests as f64 / group.calls.max(1) as f64;
    let fits = group.calls >= CALLS && writes.requests >= CALLS && small >= MOSTLY;
    if !fits || per_sync > WRITES_PER_SYNC {
        return None;
    }
    let (size, of_size) = commonest(&writes.sizes)?;
    let in_order = writes.sequential as f64 / writes.requests as f64;
    let kind = match (in_order >= MOSTLY, appended(run)) {
        (true, _) => "appends",
        (false, true) => "appends and their metadata",
        (false, false) => "writes at scattered offsets",
    };
    let word = super::sync_bound::kind(run, group.group);
    let words = format!(
        "{} of the writes of {} are {} {kind} followed by {word} (one sync per {} writes); \
         {cost}, {} calls/s.",
        percent(of_size),
        named(&group.name, group.threads),
        bytes::exact(size),
        count::significant(per_sync),
        count::significant_or_whole(group.calls as f64 * 1e9 / run.measured_ns.max(1) as f64),
    );
    let finding = DETECTOR.proven(words).with("group", group.name.as_str());
    let finding = finding.with("sync_calls", group.calls).with("writes_per_sync", per_sync);
    let finding = finding.with("sync_time_share", group.time_share.unwrap_or(0.0));
    let finding = finding.with("syncs_in_flight", group.in_flight.unwrap_or(0.0));
    Some(finding.with("small_share", small).with("sequential_share", in_order))
}

/// Whether most writes to files are sequential, file system metadata excluded.
fn appended(run: &ProfileRun) -> bool {
    let files = || run.files.iter().filter(|file| file.inode != 0 && file.writes > 0);
    let writes: u64 = files().map(|file| file.writes).sum();
    let in_order: u64 = files().map(|file| file.sequential.min(file.writes)).sum();
    writes > 0 && in_order as f64 >= MOSTLY * writes as f64
}

/// The cost of the syncs, as text; `None` if it is small.
fn cost(group: &GroupSyncs) -> Option<String> {
    let waits = group.time_share.filter(|share| *share >= TIME);
    let waits = waits.map(|share| format!("syncs take {} of its time", percent(share)));
    let flies = group.in_flight.filter(|count| *count >= TIME);
    let message = |count| format!("{} syncs are in flight per thread", count::significant(count));
    waits.or(flies.map(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of, with_syncs};
    use iosonde_model::record::profile::SyncKind;

    fn log(size_bytes: u64) -> ProfileRun {
        let flow = Flow { op: Op::Write, requests: 20_000, size_bytes, ..Flow::default() };
        profile_of(&[Flow { sequential_milli: 990, ..flow }])
    }

    #[test]
    fn small_durable_appends_are_reported_and_large_or_rare_ones_are_not() {
        let mut run = log(4096);
        assert_eq!(ask(detect, &run), None);
        with_syncs(&mut run, "app", SyncKind::Fdatasync, 20_000, 455_000);
        let message = words(detect, &run);
        assert!(
            message.contains("100 % of the writes of `app` are 4 KiB appends followed by"),
            "{message}"
        );
        assert!(message.contains("fdatasync") && message.contains("91 % of its time"), "{message}");
        // The inode is written between any two appends.
        let mut inode = run.clone();
        inode.traffic[0].sequential = 8_000;
        let message = words(detect, &inode);
        assert!(message.contains("are 4 KiB appends and their metadata followed by"), "{message}");
        inode.files.clear();
        assert!(words(detect, &inode).contains("writes at scattered offsets"));
        let mut by_ring = log(4096);
        with_syncs(&mut by_ring, "app", SyncKind::IoUring, 20_000, 4_000_000);
        let message = words(detect, &by_ring);
        assert!(message.contains("followed by io_uring fsync"), "{message}");
        assert!(
            message.contains("8.00 syncs are in flight per thread, 2,000 calls/s"),
            "{message}"
        );
        // Large writes, and one sync for a thousand small ones.
        let mut large = log(1 << 20);
        with_syncs(&mut large, "app", SyncKind::Fdatasync, 20_000, 455_000);
        assert_eq!(ask(detect, &large), None);
        let mut rare = log(4096);
        with_syncs(&mut rare, "app", SyncKind::Fsync, 40, 200_000_000);
        assert_eq!(ask(detect, &rare), None);
        // Another thread's syncs do not concern this one's writes.
        let mut apart = log(4096);
        with_syncs(&mut apart, "syncer", SyncKind::Fsync, 20_000, 455_000);
        assert_eq!(ask(detect, &apart), None);
    }
}
