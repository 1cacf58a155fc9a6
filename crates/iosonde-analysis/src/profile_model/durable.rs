//! Durability of a model: after how many of its writes a role syncs, and which writes are
//! synchronous.

use std::collections::BTreeMap;

use super::rows::Row;
use super::{arrivals, journal};
use iosonde_model::record::profile::{Class, Op, ProfileRun, SyncKind, SyncRun};
use iosonde_model::spec::{EachWrite, Role, Sync, SyncCall};
use iosonde_model::units::count;
use iosonde_stats::Histogram;

/// Largest relative error of the number of syncs.
const PRECISION: f64 = 0.005;
/// Largest number of writes over which several syncs are counted.
const MOST_WRITES: u64 = 100;
/// Syncs per write at or above which a thread has one write in flight.
const ALWAYS: f64 = 0.9;
/// Share of the syncs and writes of a group that one thread must have to be its only loop.
const ONE_LOOP: f64 = 0.95;

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
        let writers = writers(run, rows, sync.group);
        if writers.is_empty() {
            left_out.push(format!(
                "{} syncs of a thread group that wrote nothing itself",
                count::thousands(sync.calls)
            ));
        }
        for (at, share) in writers {
            let calls = (sync.calls as f64 * share).round() as u64;
            match sync.kind {
                SyncKind::Fdatasync => of_rows[at].fdatasync += calls,
                _ => of_rows[at].fsync += calls,
            }
        }
    }
    let all: u64 = of_rows.iter().map(|calls| calls.all()).sum();
    for ((row, role), calls) in rows.iter().zip(roles.iter_mut()).zip(of_rows) {
        if row.op != Op::Write {
            continue;
        }
        // A synchronous write to a device flushes its cache too; a write of a journal does not.
        if row.class != Class::Journal && durable_share(run, row, calls.all()) >= 0.5 {
            role.sync.each_write = EachWrite::Dsync;
        }
        if calls.all() == 0 {
            continue;
        }
        // A burst counts as one write.
        let bursts = row.requests as f64 / role.pace.burst_length();
        set_often(&mut role.sync, calls.all(), bursts.round() as u64);
        role.sync.call =
            if calls.fdatasync > calls.fsync { SyncCall::Fdatasync } else { SyncCall::Fsync };
        // A single thread waits for its sync after its writes, and so do several that take turns.
        let after_each = bursts < row.requests as f64
            && calls.all() as f64 >= ALWAYS * bursts
            && in_flight(run, row) == 1;
        role.sync.barrier = row.class == Class::Program && (is_one_loop(run, row) || after_each);
        role.sync.by_call = role.sync.barrier;
        if role.sync.barrier {
            let length = row.requests as f64 / bursts;
            role.sync.followed = followed(run, row, &role.sync, length);
            if role.sync.per_write() >= ALWAYS && length == 1.0 {
                role.iodepth = Some(1);
            }
        } else {
            role.sync.in_flight = in_flight(run, row).div_ceil(row.streams.into());
        }
        // Flushes over time are recorded for all groups together.
        let has_most = calls.all() as f64 >= ONE_LOOP * all as f64;
        if has_most && (after_each || !role.sync.barrier) {
            arrivals::spread_syncs(run, &mut role.phases);
        }
    }
    journal::attach(run, rows, roles, left_out);
}

/// Sets this many syncs for this many writes, as the smallest whole numbers that are close enough.
pub(super) fn set_often(sync: &mut Sync, syncs: u64, writes: u64) {
    let wanted = syncs as f64 / writes.max(1) as f64;
    let near = |writes: u64| {
        let syncs = (wanted * writes as f64).round();
        syncs >= 1.0 && (syncs / writes as f64 / wanted - 1.0).abs() <= PRECISION
    };
    let per_sync = (1.0 / wanted).round().max(1.0) as u64;
    let every = (1..=MOST_WRITES).find(|writes| near(*writes)).unwrap_or(per_sync);
    sync.every_writes = every;
    sync.extra_syncs = ((wanted * every as f64).round() as u64).max(1) - 1;
}

/// The syncs of a row's groups that make something durable.
fn syncs<'a>(run: &'a ProfileRun, row: &'a Row) -> impl Iterator<Item = &'a SyncRun> {
    let durable = run.syncs.iter().filter(|sync| sync.kind != SyncKind::SyncFileRange);
    durable.filter(|sync| row.groups.contains(&sync.group))
}

/// Latency of these syncs.
fn latency(run: &ProfileRun, row: &Row) -> Histogram {
    Histogram::of_all(syncs(run, row).map(|sync| &sync.latency))
}

/// Number of syncs in flight: the mean by Little's law over the time with writes, rounded up, and
/// at most one per thread.
fn in_flight(run: &ProfileRun, row: &Row) -> u64 {
    let mean = latency(run, row).sum() as f64 / row.active_ns().max(1) as f64;
    (mean.ceil() as u64).min(u64::from(row.threads))
}

/// Number of writes, of those over which syncs are counted, that a sync follows: a write that
/// begins sooner than a sync takes did not wait for one. 0 if there are about as many as syncs.
fn followed(run: &ProfileRun, row: &Row, sync: &Sync, length: f64) -> u64 {
    let latency = latency(run, row);
    let Some((gaps, median_ns)) = row.gaps.as_ref().zip(latency.quantile(0.5)) else { return 0 };
    let waited = length * gaps.count_above(median_ns / 2) as f64 / gaps.count().max(1) as f64;
    if waited > ALWAYS * sync.per_write() || waited == 0.0 {
        return 0;
    }
    ((waited * sync.every_writes as f64).round() as u64).clamp(1, 1 + sync.extra_syncs)
}

/// Whether a row is one loop of a write and a sync.
pub(super) fn is_loop_of_syncs(run: &ProfileRun, row: &Row) -> bool {
    let syncs: u64 = syncs(run, row).map(|sync| sync.calls).sum();
    let is_own = row.class == Class::Program && row.op == Op::Write;
    is_own && is_one_loop(run, row) && syncs as f64 >= ALWAYS * row.requests as f64
}

/// Whether one thread of a group has nearly all of its syncs and writes.
fn is_one_loop(run: &ProfileRun, row: &Row) -> bool {
    let of_group = || {
        let named = |name: &str| row.groups.len() == 1 && name == row.group_name;
        run.threads.iter().filter(move |thread| thread.of_program && named(&thread.name))
    };
    let all = of_group().fold((0, 0), |sum, one| (sum.0 + one.syncs, sum.1 + one.writes));
    let nearly = |part: u64, whole: u64| part as f64 >= ONE_LOOP * whole as f64;
    let is_one =
        of_group().any(|one| nearly(one.syncs, all.0) && nearly(one.writes, all.1) && all.1 > 0);
    row.threads == 1 || is_one
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

/// The write rows of a group that syncs, one for each device, with their shares of its syncs: its
/// own writes, or else the write-back on its behalf. The flushes of the devices give the shares.
fn writers(run: &ProfileRun, rows: &[Row], group: u32) -> Vec<(usize, f64)> {
    let of = |class: Class| -> BTreeMap<&str, usize> {
        let all = rows.iter().enumerate().filter(|(_, row)| {
            row.class == class && row.op == Op::Write && row.groups.contains(&group)
        });
        let mut most = BTreeMap::new();
        for (at, row) in all {
            let kept: &mut usize = most.entry(row.device.as_str()).or_insert(at);
            *kept = if row.requests > rows[*kept].requests { at } else { *kept };
        }
        most
    };
    let own = of(Class::Program);
    let writers = if own.is_empty() { of(Class::WriteBack) } else { own };
    let weights: Vec<u64> = writers.keys().map(|device| flushes(run, device)).collect();
    let all: u64 = weights.iter().sum();
    let even = 1.0 / weights.len().max(1) as f64;
    let share = |weight: u64| if all > 0 { weight as f64 / all as f64 } else { even };
    writers.into_values().zip(weights.into_iter().map(share)).collect()
}

/// Number of flushes of a device.
fn flushes(run: &ProfileRun, device: &str) -> u64 {
    let all = run.traffic.iter().filter(|traffic| traffic.device == device);
    let flushes = all.filter(|traffic| traffic.class == Class::DeviceFlush);
    flushes.map(|traffic| traffic.requests).sum()
}

/// Share of synchronous writes: writes with that flag, or flushes beyond the sync calls for a
/// program that opened files with O_SYNC or O_DSYNC.
fn durable_share(run: &ProfileRun, row: &Row, syncs: u64) -> f64 {
    let requests = row.requests.max(1) as f64;
    let marked = row.durable as f64 / requests;
    let opens = run.opens.filter(|opens| opens.sync + opens.dsync > 0);
    if row.class != Class::Program || opens.is_none() {
        return marked;
    }
    let own = run.traffic.iter().filter(|traffic| traffic.device == row.device);
    let flushes = own.filter(|traffic| traffic.op == Op::Flush);
    let flushes: u64 = flushes.map(|traffic| traffic.requests).sum();
    marked.max(flushes.saturating_sub(syncs) as f64 / requests)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::workload;
    use super::*;
    use iosonde_fixtures::profile_model::{gaps, profile, row, series, sync};
    use iosonde_model::record::profile::{OpenCounts, ThreadRun, Traffic};
    use iosonde_model::spec::Sync;

    fn sync_of(run: &ProfileRun) -> Sync {
        workload(run).unwrap().workload.roles[0].sync
    }

    #[test]
    fn syncs_follow_their_groups_writes() {
        let mut run = profile(vec![row(Class::Program, Op::Write, 3000)]);
        run.syncs = vec![sync(SyncKind::Fdatasync, 1, 1000), sync(SyncKind::Fsync, 1, 3)];
        let (every_writes, call) = (3, SyncCall::Fdatasync);
        let requested =
            Sync { every_writes, call, barrier: true, by_call: true, ..Sync::default() };
        assert_eq!(sync_of(&run), requested);
        run.groups[1].threads = 4;
        assert!(!sync_of(&run).barrier, "threads do not wait for each other");
    }

    #[test]
    fn syncs_are_as_many_as_they_were() {
        let often = |syncs: u64| {
            let mut run = profile(vec![row(Class::Program, Op::Write, 15_107)]);
            run.syncs = vec![sync(SyncKind::Fdatasync, 1, syncs)];
            sync_of(&run)
        };
        for syncs in [1, 17, 151, 4000, 12_004, 15_107, 30_000] {
            let per_write = often(syncs).per_write();
            assert!((per_write * 15_107.0 / syncs as f64 - 1.0).abs() < 0.005, "{syncs}");
        }
        assert_eq!((often(12_004).every_writes, often(12_004).extra_syncs), (24, 18));
    }

    #[test]
    fn syncs_of_several_threads_that_follow_bursts_one_at_a_time_are_a_group_commit() {
        // Half of the times are short, in 200 bursts of 5000; a sync follows nearly every burst.
        let all = (0..10_000).map(|n| if n % 2 == 0 { 10_000 } else { 1_000_000 });
        let traffic = Traffic {
            gaps: gaps(all),
            bursts: vec![4800, 0, 0, 0, 200],
            ..row(Class::Program, Op::Write, 10_001)
        };
        let mut run = profile(vec![traffic]);
        run.groups[1].threads = 4;
        run.syncs = vec![sync(SyncKind::Fdatasync, 1, 4800)];
        run.syncs[0].latency = Histogram::new();
        run.syncs[0].latency.record_many(1_000_000, 4800);
        let found = sync_of(&run);
        assert!(found.barrier && found.by_call, "{found:?}");
        assert!((found.per_write() - 0.96).abs() < 0.005, "per burst: {found:?}");
        assert_eq!(workload(&run).unwrap().workload.roles[0].iodepth, Some(4));
        // Fewer syncs than bursts have their own clock, and so do several syncs at once.
        run.syncs[0].calls = 1000;
        assert!(!sync_of(&run).barrier);
        run.syncs = vec![sync(SyncKind::Fdatasync, 1, 4800)];
        assert!(!sync_of(&run).barrier);
    }

    #[test]
    fn a_loop_of_write_and_sync_stays_one() {
        let mut run = profile(vec![row(Class::Program, Op::Write, 1000)]);
        run.syncs = vec![sync(SyncKind::Fdatasync, 1, 1000)];
        run.groups[1].threads = 3;
        let thread = |writes: u64, syncs: u64| ThreadRun {
            name: "app".into(),
            of_program: true,
            writes,
            syncs,
            ..ThreadRun::default()
        };
        run.threads = vec![thread(990, 995), thread(10, 5)];
        let role = workload(&run).unwrap().workload.roles[0].clone();
        assert_eq!((role.sync.barrier, role.iodepth), (true, Some(1)));
        // Two threads that sync in turn are no loop.
        run.threads = vec![thread(600, 600), thread(400, 400)];
        let role = workload(&run).unwrap().workload.roles[0].clone();
        assert_eq!((role.sync.barrier, role.iodepth), (false, Some(3)));
    }

    #[test]
    fn a_loop_of_write_and_sync_has_no_bursts() {
        // On a fast device, one write begins just after another.
        let all = (0..10_000).map(|n| if n % 2 == 0 { 30_000 } else { 60_000 });
        let traffic = Traffic {
            gaps: gaps(all),
            bursts: vec![4800, 0, 0, 0, 200],
            ..row(Class::Program, Op::Write, 10_001)
        };
        let mut run = profile(vec![traffic]);
        let has_bursts =
            |run: &ProfileRun| workload(run).unwrap().workload.roles[0].pace.burst_length() > 1.0;
        assert!(has_bursts(&run));
        run.syncs = vec![sync(SyncKind::Fsync, 1, 10_000)];
        assert!(!has_bursts(&run));
        assert_eq!((sync_of(&run).every_writes, sync_of(&run).barrier), (1, true));
    }

    #[test]
    fn syncs_of_a_group_on_two_devices_are_divided_by_their_flushes() {
        let on = |device: &str, class, op, requests| Traffic {
            device: device.into(),
            ..row(class, op, requests)
        };
        let mut run = profile(vec![
            on("vda", Class::Program, Op::Write, 1500),
            on("vdb", Class::Program, Op::Write, 1000),
            Traffic { bytes: 0, ..on("vda", Class::DeviceFlush, Op::Flush, 1500) },
            Traffic { bytes: 0, ..on("vdb", Class::DeviceFlush, Op::Flush, 1000) },
        ]);
        run.syncs = vec![sync(SyncKind::Fdatasync, 1, 2500)];
        let roles = workload(&run).unwrap().workload.roles;
        assert_eq!(roles.iter().map(|role| role.sync.per_write()).collect::<Vec<_>>(), [1.0, 1.0]);
    }

    #[test]
    fn syncs_that_follow_each_other_do_so_in_the_model() {
        // Of every ten writes six wait for a sync, and there are eight syncs.
        let mut run = profile(vec![row(Class::Program, Op::Write, 1000)]);
        run.syncs = vec![sync(SyncKind::Fdatasync, 1, 800)];
        let times = |ns: u64, count: usize| std::iter::repeat_n(ns, count);
        run.traffic[0].gaps = gaps(times(10_000, 400).chain(times(9_000_000, 600)));
        let formatted = sync_of(&run);
        assert_eq!((formatted.every_writes, formatted.extra_syncs, formatted.followed), (5, 3, 3));
        run.traffic[0].gaps = gaps(times(10_000, 210).chain(times(9_000_000, 790)));
        assert_eq!(sync_of(&run).followed, 0, "about one for each");
    }

    #[test]
    fn several_threads_have_as_many_syncs_in_flight_as_they_had() {
        let of = |syncs: u64, threads: u32| {
            let mut run = profile(vec![row(Class::Program, Op::Write, 10_000)]);
            run.syncs = vec![sync(SyncKind::Fdatasync, 1, syncs)];
            run.groups[1].threads = threads;
            sync_of(&run).in_flight
        };
        // 3 ms each, in ten seconds.
        assert_eq!([of(2_000, 4), of(4_000, 4), of(60_000, 4)], [1, 2, 4]);
        assert_eq!(of(2_000, 1), 0, "a group commit has one anyway");
    }

    #[test]
    fn phases_have_the_syncs_of_their_time() {
        let mut run = profile(vec![row(Class::Program, Op::Write, 10_000)]);
        run.groups[1].threads = 4;
        run.syncs = vec![sync(SyncKind::Fdatasync, 1, 1000)];
        // A checkpoint in the last second.
        let mut writes = vec![50; 100];
        writes[90..].fill(550);
        let mut flushes = vec![11; 100];
        flushes[90..].fill(1);
        run.series = vec![series(Op::Write, writes), series(Op::Flush, flushes)];
        let share = |run: &ProfileRun| -> Vec<f64> {
            let role = workload(run).unwrap().workload.roles[0].clone();
            role.phases.iter().map(|phase| phase.sync_percent).collect()
        };
        let shares = share(&run);
        assert!(shares[0] > 150.0 && shares[shares.len() - 1] < 10.0, "{shares:?}");
        run.series[1] =
            series(Op::Flush, run.series[0].counters.ops.iter().map(|n| n / 10).collect());
        assert!(share(&run).iter().all(|share| *share == 100.0), "as the writes");
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
        let sync = modelled.workload.roles[0].sync;
        assert_eq!((sync.every_writes, sync.extra_syncs), (1, 2));
        let all = modelled.left_out.join("\n");
        assert!(all.contains("5 syncs of a thread group that wrote nothing"), "{all}");
    }

    #[test]
    fn writes_that_are_durable_by_themselves_stay_so() {
        let durable = Traffic { durable: 90, ..row(Class::Program, Op::Write, 100) };
        assert_eq!(sync_of(&profile(vec![durable])).each_write, EachWrite::Dsync);
        // Without FUA: a separate flush after each write.
        let flushes = Traffic { bytes: 0, ..row(Class::DeviceFlush, Op::Flush, 100) };
        let mut run = profile(vec![row(Class::Program, Op::Write, 100), flushes]);
        assert_eq!(sync_of(&run).each_write, EachWrite::Accepted);
        run.opens = Some(OpenCounts { opens: 1, dsync: 1, ..OpenCounts::default() });
        assert_eq!(sync_of(&run).each_write, EachWrite::Dsync);
    }
}
