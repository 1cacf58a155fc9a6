//! Durability of a model: which role syncs after how many of its writes, and which writes are
//! synchronous.

use super::rows::Row;
use iosonde_model::record::profile::{Class, Op, ProfileRun, SyncKind};
use iosonde_model::spec::{EachWrite, Role, SyncCall};
use iosonde_model::units::count;

/// Smallest relative error of the number of syncs to report.
const WORTH_REPORTING: f64 = 0.1;

/// Gives roles their syncs.
pub(super) fn attach(
    run: &ProfileRun,
    rows: &[Row],
    roles: &mut [Role],
    left_out: &mut Vec<String>,
) {
    let mut of_rows = vec![Calls::default(); rows.len()];
    for sync in run.syncs.iter().filter(|sync| sync.calls > 0) {
        if sync.kind == SyncKind::SyncFileRange {
            left_out.push(format!(
                "{} sync_file_range calls, which start write-back but make nothing durable",
                count::thousands(sync.calls)
            ));
            continue;
        }
        match writer(rows, sync.group) {
            Some(at) if sync.kind == SyncKind::Fdatasync => of_rows[at].fdatasync += sync.calls,
            Some(at) => of_rows[at].fsync += sync.calls,
            None => left_out.push(format!(
                "{} syncs of a thread group that wrote nothing itself",
                count::thousands(sync.calls)
            )),
        }
    }
    for ((row, role), calls) in rows.iter().zip(roles).zip(of_rows) {
        if row.op != Op::Write {
            continue;
        }
        if durable_share(run, row, calls.all()) >= 0.5 {
            role.sync.each_write = EachWrite::Dsync;
        }
        if calls.all() == 0 {
            continue;
        }
        let wanted = row.requests as f64 / calls.all() as f64;
        role.sync.every_writes = (wanted.round() as u64).max(1);
        role.sync.call =
            if calls.fdatasync > calls.fsync { SyncCall::Fdatasync } else { SyncCall::Fsync };
        // A single thread waits for its sync after its writes.
        role.sync.barrier = row.class == Class::Program && row.threads == 1;
        let got = row.requests as f64 / role.sync.every_writes as f64;
        if (got / calls.all() as f64 - 1.0).abs() > WORTH_REPORTING {
            left_out.push(format!(
                "role {} syncs after every {} writes; the program synced after every {} requests",
                role.name,
                role.sync.every_writes,
                count::significant(wanted)
            ));
        }
    }
}

/// Calls of the groups of a row.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    fsync: u64,
    fdatasync: u64,
}

impl Calls {
    fn all(self) -> u64 {
        self.fsync + self.fdatasync
    }
}

/// The row of writes of a group that syncs: its own, or the write-back on its behalf.
fn writer(rows: &[Row], group: u32) -> Option<usize> {
    let of = |class: Class| {
        let all = rows.iter().enumerate().filter(move |(_, row)| {
            row.class == class && row.op == Op::Write && row.groups.contains(&group)
        });
        all.max_by_key(|(_, row)| row.requests).map(|(at, _)| at)
    };
    of(Class::Program).or_else(|| of(Class::WriteBack))
}

/// Share of synchronous writes: those flagged so, or flushes in excess of the sync calls, for a
/// program that opened files with O_SYNC or O_DSYNC.
fn durable_share(run: &ProfileRun, row: &Row, syncs: u64) -> f64 {
    let requests = row.requests.max(1) as f64;
    let marked = row.durable as f64 / requests;
    let opens = run.opens.filter(|opens| opens.sync + opens.dsync > 0);
    if row.class != Class::Program || opens.is_none() {
        return marked;
    }
    let flushes: u64 = run
        .traffic
        .iter()
        .filter(|traffic| traffic.device == row.device && traffic.op == Op::Flush)
        .map(|traffic| traffic.requests)
        .sum();
    marked.max(flushes.saturating_sub(syncs) as f64 / requests)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::workload;
    use super::*;
    use iosonde_fixtures::profile_model::{profile, row, sync};
    use iosonde_model::record::profile::{OpenCounts, Traffic};
    use iosonde_model::spec::Sync;

    fn sync_of(run: &ProfileRun) -> Sync {
        workload(run).unwrap().workload.roles[0].sync
    }

    #[test]
    fn syncs_follow_their_groups_writes() {
        let mut run = profile(vec![row(Class::Program, Op::Write, 3000)]);
        run.syncs = vec![sync(SyncKind::Fdatasync, 1, 1000), sync(SyncKind::Fsync, 1, 3)];
        let requested =
            Sync { every_writes: 3, call: SyncCall::Fdatasync, barrier: true, ..Sync::default() };
        assert_eq!(sync_of(&run), requested);
        run.groups[1].threads = 4;
        assert!(!sync_of(&run).barrier, "threads do not wait for each other");
    }

    #[test]
    fn a_group_whose_pages_the_kernel_wrote_syncs_after_those() {
        let mut run = profile(vec![row(Class::WriteBack, Op::Write, 100)]);
        run.syncs = vec![sync(SyncKind::Fsync, 1, 1), sync(SyncKind::SyncFileRange, 1, 7)];
        let modelled = workload(&run).unwrap();
        let formatted = modelled.workload.roles[0].sync;
        assert_eq!((formatted.every_writes, formatted.barrier), (100, false));
        assert!(modelled.left_out.iter().any(|line| line.contains("sync_file_range")));
    }

    #[test]
    fn what_cannot_be_kept_is_reported() {
        let mut run = profile(vec![row(Class::Program, Op::Write, 100)]);
        run.syncs = vec![sync(SyncKind::Fsync, 1, 300), sync(SyncKind::Fsync, 2, 5)];
        let modelled = workload(&run).unwrap();
        assert_eq!(modelled.workload.roles[0].sync.every_writes, 1);
        let all = modelled.left_out.join("\n");
        assert!(all.contains("after every 0.333 requests"), "{all}");
        assert!(all.contains("5 syncs of a thread group that wrote nothing"), "{all}");
    }

    #[test]
    fn writes_that_are_durable_by_themselves_stay_so() {
        let durable = Traffic { durable: 90, ..row(Class::Program, Op::Write, 100) };
        assert_eq!(sync_of(&profile(vec![durable])).each_write, EachWrite::Dsync);
        // Without FUA: a flush of its own after each write.
        let flushes = Traffic { bytes: 0, ..row(Class::DeviceFlush, Op::Flush, 100) };
        let mut run = profile(vec![row(Class::Program, Op::Write, 100), flushes]);
        assert_eq!(sync_of(&run).each_write, EachWrite::Accepted);
        run.opens = Some(OpenCounts { opens: 1, dsync: 1, ..OpenCounts::default() });
        assert_eq!(sync_of(&run).each_write, EachWrite::Dsync);
    }
}
