//! The time of syncs by phase: compared with the latencies of their requests, and on devices with
//! writes or flushes slowed by a known time. Flags of requests.

use std::fs;

use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Class, Flag, Op, SyncKind, SyncPhases};
use iosonde_rig::guard::{FsKind, ImageMount};

use super::{MIB, disk, has, merged, profile, settle, traffic, unseen_ends};
use crate::request::{here, served, turn};

/// Writes by fio, each followed by a sync.
fn synced_writes(writes: u64, sync: &str) -> String {
    format!(
        "fio --name=load --ioengine=psync --directory=. --rw=write --bs=16k --size={} \
         --{sync}=1 --fallocate=none --output=/dev/null",
        writes << 14
    )
}

/// Calls of a kind, their time, and its phases.
struct Syncs {
    calls: u64,
    ns: u64,
    phases: SyncPhases,
}

impl Syncs {
    fn of(run: &ProfileRun, kind: SyncKind) -> Syncs {
        let mut all = Syncs { calls: 0, ns: 0, phases: SyncPhases::default() };
        for sync in run.syncs.iter().filter(|sync| sync.kind == kind) {
            let phases = sync.phases.unwrap();
            let known = phases.data_ns + phases.journal_ns + phases.flush_ns;
            let ns = u64::try_from(sync.latency.sum()).unwrap();
            assert!(known <= ns, "{kind:?}: {phases:?} of {ns} ns");
            all.calls += sync.calls;
            all.ns += ns;
            all.phases.data_ns += phases.data_ns;
            all.phases.journal_ns += phases.journal_ns;
            all.phases.flush_ns += phases.flush_ns;
        }
        eprintln!("{kind:?}: {} calls, {} us: {:?}", all.calls, all.ns / 1000, all.phases);
        all
    }
}

/// Sum of the latencies of these requests, ns.
fn latencies(run: &ProfileRun, is_meant: impl Fn(Class, Op) -> bool) -> u64 {
    let all = merged(&traffic(run, |kind| is_meant(kind.class, kind.op)), |kind| &kind.latency);
    u64::try_from(all.sum()).unwrap()
}

#[test]
fn parts_of_syncs_are_those_of_their_requests() {
    let _turn = turn();
    let Some(mount) = has("fio").then(disk).flatten() else { return };
    for (kind, sync) in [(SyncKind::Fsync, "fsync"), (SyncKind::Fdatasync, "fdatasync")] {
        let script = synced_writes(300, sync);
        let Some(run) = profile(mount.device(), mount.path(), &script).seen() else { return };
        let syncs = Syncs::of(&run, kind);
        // No sync follows the last write.
        assert_eq!(syncs.calls, 299);
        let SyncPhases { data_ns, journal_ns, flush_ns } = syncs.phases;
        assert!(data_ns > 0 && flush_ns > 0, "{:?}", syncs.phases);
        // fdatasync of overwritten data needs no commit.
        assert!(journal_ns > 0 || kind == SyncKind::Fdatasync, "{:?}", syncs.phases);
        // One thread issues all requests of each class, one at a time, within its syncs.
        let flushes = latencies(&run, |class, op| class == Class::DeviceFlush || op == Op::Flush);
        assert!(flush_ns <= flushes + flushes / 10, "{flush_ns} of {flushes} ns");
        let at_once = latencies(&run, |class, _| class == Class::DeviceFlush);
        assert!(flush_ns >= at_once / 2, "{flush_ns} of {at_once} ns");
        let data = latencies(&run, |class, op| class == Class::Program && op == Op::Write);
        assert!(data_ns <= data + data / 10, "{data_ns} of {data} ns");
    }
}

/// Completed requests with that flag.
fn flagged(run: &ProfileRun, op: Op, flag: Flag) -> u64 {
    let runs = run.flags.iter().filter(|run| run.op == op && run.flag == flag);
    runs.map(|run| run.latency.count()).sum()
}

#[test]
fn flags_say_why_requests_were_made() {
    let _turn = turn();
    let Some(mount) = has("fio").then(disk).flatten() else { return };
    let script = synced_writes(200, "fsync");
    let Some(run) = profile(mount.device(), mount.path(), &script).seen() else { return };
    let written = traffic(&run, |kind| {
        kind.op == Op::Write && kind.class != Class::Other && kind.class != Class::DeviceFlush
    });
    let all: u64 = written.iter().map(|kind| kind.latency.count()).sum();
    let each = [Flag::None, Flag::Sync, Flag::Meta, Flag::Fua];
    let each = each.map(|flag| flagged(&run, Op::Write, flag));
    eprintln!("writes without a flag, sync, meta, FUA: {each:?}");
    assert_eq!(each.iter().sum::<u64>(), all);
    // Each sync writes its data, a descriptor and a commit record.
    let least = 199 - unseen_ends(&run).min(5);
    assert!(each[1..].iter().all(|&requests| requests >= least), "{each:?}, {:?}", run.lost);

    fs::write(mount.path().join("plain"), vec![7; 8 << 20]).unwrap();
    settle(&mount);
    let drop = "echo 1 > /proc/sys/vm/drop_caches && dd if=plain of=/dev/null bs=4k";
    let Some(run) = profile(mount.device(), mount.path(), drop).seen() else { return };
    let ahead = flagged(&run, Op::Read, Flag::ReadAhead);
    assert!(ahead > 0, "{:?}", traffic(&run, |kind| kind.op == Op::Read).len());
}

/// The fsyncs of a program on ext4, over a device with one slow kind of request.
fn fsyncs_on(slow: &[&str]) -> Option<Syncs> {
    let fuse = has("fio").then(|| served(slow)).flatten()?;
    let image = fuse.path().join("image");
    let mount = here(ImageMount::at(&image, FsKind::Ext4, 64 * MIB, ""))?;
    settle(&mount);
    let run = profile(mount.device(), mount.path(), &synced_writes(40, "fsync")).seen()?;
    Some(Syncs::of(&run, SyncKind::Fsync))
}

#[test]
fn a_slow_flush_is_the_time_of_the_syncs() {
    let _turn = turn();
    let Some(syncs) = fsyncs_on(&["sync=const:4ms"]) else { return };
    // One flush before the commit and one after it: the loop device does not support FUA.
    assert!(syncs.phases.flush_ns >= syncs.calls * 4_000_000, "{:?}", syncs.phases);
    assert!(syncs.phases.flush_ns * 2 >= syncs.ns, "{:?} of {} ns", syncs.phases, syncs.ns);
}

#[test]
fn slow_writes_are_the_time_of_the_syncs() {
    let _turn = turn();
    let Some(syncs) = fsyncs_on(&["write=const:4ms", "direct_io=on"]) else { return };
    let SyncPhases { data_ns, journal_ns, flush_ns } = syncs.phases;
    assert!(data_ns >= syncs.calls * 4_000_000, "{:?}", syncs.phases);
    assert!(journal_ns >= syncs.calls * 4_000_000, "{:?}", syncs.phases);
    assert!(flush_ns < data_ns.min(journal_ns), "{:?}", syncs.phases);
}
