//! `sync_small_writes`: small writes, each made durable before the next.

use crate::finding::{Finding, Gravity, Strength};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::Op;
use iosonde_model::units::{bytes, count};

use super::super::Figures;
use super::super::syncs::GroupSyncs;
use super::{commonest, named, own, percent, share_up_to};

/// Largest size of a small write.
const SMALL_BYTES: u64 = 16 << 10;
/// Share of small ones from which the writes are called small.
const MOSTLY: f64 = 0.8;
/// Writes per sync up to which a sync is said to follow the write.
const WRITES_PER_SYNC: f64 = 4.0;
/// Share of a thread's time in syncs, or syncs in flight per thread, from which they matter.
const TIME: f64 = 0.25;
/// Calls below which it is not a habit.
const CALLS: u64 = 30;

/// Speaks of the thread group that spends the most time so.
pub(super) fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    figures.syncs.as_ref()?.groups.iter().find_map(|group| of_group(run, group))
}

/// What is to be said of one group.
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
        (false, false) => "writes at scattered places",
    };
    let word = super::sync_bound::kind(run, group.group);
    let words = format!(
        "{} of the writes of {} are {} {kind} followed by {word} (a sync for every {} writes); \
         {cost}, {} calls/s.",
        percent(of_size),
        named(&group.name, group.threads),
        bytes::exact(size),
        count::significant(per_sync),
        count::significant_or_whole(group.calls as f64 * 1e9 / run.measured_ns.max(1) as f64),
    );
    let strength = Strength::Proven;
    let finding =
        Finding::new("sync_small_writes", "small durable writes", strength, Gravity::Limit, words);
    Some(
        finding
            .with("group", group.name.as_str())
            .with("sync_calls", group.calls as f64)
            .with("sync_time_share", group.time_share.unwrap_or(0.0))
            .with("syncs_in_flight", group.in_flight.unwrap_or(0.0))
            .with("small_share", small)
            .with("sequential_share", in_order)
            .with("writes_per_sync", per_sync),
    )
}

/// Whether most writes to files are in order, metadata of the file systems left out.
fn appended(run: &ProfileRun) -> bool {
    let files = || run.files.iter().filter(|file| file.inode != 0 && file.writes > 0);
    let writes: u64 = files().map(|file| file.writes).sum();
    let in_order: u64 = files().map(|file| file.sequential.min(file.writes)).sum();
    writes > 0 && in_order as f64 >= MOSTLY * writes as f64
}

/// What the syncs cost, in words; `None` where they do not matter.
fn cost(group: &GroupSyncs) -> Option<String> {
    let waits = group.time_share.filter(|share| *share >= TIME);
    let waits = waits.map(|share| format!("the sync is {} of its time", percent(share)));
    let flies = group.in_flight.filter(|count| *count >= TIME);
    let told = |count| format!("{} syncs are in flight per thread", count::significant(count));
    waits.or(flies.map(told))
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
    fn small_durable_appends_speak_and_large_or_rare_ones_do_not() {
        let mut run = log(4096);
        assert_eq!(ask(detect, &run), None);
        with_syncs(&mut run, "app", SyncKind::Fdatasync, 20_000, 455_000);
        let told = words(detect, &run);
        assert!(
            told.contains("100 % of the writes of `app` are 4 KiB appends followed by"),
            "{told}"
        );
        assert!(told.contains("fdatasync") && told.contains("91 % of its time"), "{told}");
        // The inode is written between any two appends.
        let mut inode = run.clone();
        inode.traffic[0].sequential = 8_000;
        let told = words(detect, &inode);
        assert!(told.contains("are 4 KiB appends and their metadata followed by"), "{told}");
        inode.files.clear();
        assert!(words(detect, &inode).contains("writes at scattered places"));
        let mut by_ring = log(4096);
        with_syncs(&mut by_ring, "app", SyncKind::IoUring, 20_000, 4_000_000);
        let told = words(detect, &by_ring);
        assert!(told.contains("followed by io_uring fsync"), "{told}");
        assert!(told.contains("8.00 syncs are in flight per thread, 2,000 calls/s"), "{told}");
        // Large writes, and one sync for a thousand small ones.
        let mut large = log(1 << 20);
        with_syncs(&mut large, "app", SyncKind::Fdatasync, 20_000, 455_000);
        assert_eq!(ask(detect, &large), None);
        let mut rare = log(4096);
        with_syncs(&mut rare, "app", SyncKind::Fsync, 40, 200_000_000);
        assert_eq!(ask(detect, &rare), None);
        // Another thread's syncs are no reason for this one's writes.
        let mut apart = log(4096);
        with_syncs(&mut apart, "syncer", SyncKind::Fsync, 20_000, 455_000);
        assert_eq!(ask(detect, &apart), None);
    }
}
