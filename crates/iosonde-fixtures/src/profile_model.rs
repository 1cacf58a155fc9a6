//! Profiles with known contents.

use iosonde_model::record::facts::DeviceFacts;
use iosonde_model::record::profile::{
    Chunk, Class, Group, Method, Op, PROFILE_SCHEMA, ProfileRun, ProfiledDevice, Source, Subject,
    SyncKind, SyncRun, Traffic, TrafficSeries,
};
use iosonde_model::record::run::CounterSeries;
use iosonde_stats::Histogram;

/// Length of every synthetic profile, ns.
pub const MEASURED_NS: u64 = 10_000_000_000;

/// Ten seconds of a program on the disk vda, with two thread groups of one thread each.
pub fn profile(traffic: Vec<Traffic>) -> ProfileRun {
    let group = |name: &str| Group { name: name.into(), threads: 1 };
    let facts = DeviceFacts {
        name: "vda".into(),
        logical_block_bytes: Some(512),
        ..DeviceFacts::default()
    };
    ProfileRun {
        schema: PROFILE_SCHEMA.into(),
        program: "0".into(),
        subject: Subject::Command { words: vec!["/usr/bin/app".into(), "-x".into()], pid: 7 },
        measured_ns: MEASURED_NS,
        source: Source { method: Method::Tracepoints, ..Source::default() },
        devices: vec![ProfiledDevice { facts, ..ProfiledDevice::default() }],
        traffic,
        groups: vec![Group::default(), group("app"), group("worker")],
        ..ProfileRun::default()
    }
}

/// Requests of 4 KiB of the group `app`, random, evenly over the ten seconds, 1 ms each.
pub fn row(class: Class, op: Op, requests: u64) -> Traffic {
    let mut latency = Histogram::new();
    latency.record_many(1_000_000, requests);
    let mut gaps = Histogram::new();
    gaps.record_many(MEASURED_NS / requests.max(1), requests.saturating_sub(1));
    Traffic {
        device: "vda".into(),
        class,
        op,
        group: 1,
        requests,
        bytes: requests * 4096,
        direct_bytes: requests * 4096,
        latency,
        sizes: vec![(4096, requests)],
        gaps,
        active_ns: Some((0, MEASURED_NS)),
        ..Traffic::default()
    }
}

/// A histogram of these intervals, ns.
pub fn gaps(all: impl Iterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::new();
    all.for_each(|ns| histogram.record(ns));
    histogram
}

/// Requests of 4 KiB in each tenth of a second.
pub fn series(op: Op, ops: Vec<u64>) -> TrafficSeries {
    let bytes = ops.iter().map(|ops| ops * 4096).collect();
    let counters = CounterSeries { width_ns: 100_000_000, ops, bytes };
    TrafficSeries { op, counters, ..TrafficSeries::default() }
}

/// A chunk of 16 MiB; `reads` and `writes` are its blocks and requests of each kind.
pub fn chunk(number: u64, reads: (u32, u64), writes: (u32, u64)) -> Chunk {
    Chunk {
        number,
        reads: reads.1,
        writes: writes.1,
        read_blocks: reads.0,
        written_blocks: writes.0,
        touched_blocks: reads.0 + writes.0,
        block_writes: writes.1,
        overwrites: writes.1.saturating_sub(u64::from(writes.0)),
    }
}

/// Sync calls of a group.
pub fn sync(kind: SyncKind, group: u32, calls: u64) -> SyncRun {
    let mut latency = Histogram::new();
    latency.record_many(3_000_000, calls);
    SyncRun { kind, group, calls, errors: 0, latency, phases: None }
}
