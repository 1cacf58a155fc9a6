//! Synthetic runs for tests: consistent by construction, then modified by the test.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "only tests use it")]

pub mod ladder;
pub mod profile;
pub mod profile_model;
mod program;
pub mod verify;

use std::collections::BTreeMap;

use iosonde_model::plan::{
    Arrivals, Engine, EngineKind, Job, LatencyGoal, OnError, Order, Pace, Plan, Rate, Stop, Target,
};
use iosonde_model::record::run::{
    ArrivalsRun, BackendFacts, CounterSeries, DirectionRun, HistogramSeries, JobRun, Outcome,
    ProcessUse, Run, SCHEMA,
};
use iosonde_model::record::{TargetFacts, facts::FilesystemClass};
use iosonde_stats::Histogram;

pub use program::Program;

/// Length of every synthetic run, seconds.
pub const SECONDS: u64 = 10;
const INTERVALS: u64 = SECONDS * 10;

/// One role of a synthetic run.
#[derive(Clone, Copy)]
pub struct Load {
    /// Name of the role.
    pub role: &'static str,
    /// Number of jobs.
    pub jobs: u32,
    /// Requests in flight per job.
    pub depth: u32,
    /// Block size, bytes.
    pub block_bytes: u64,
    /// Share of reads, 0 to 100.
    pub read_percent: u8,
    /// Operations per second and job.
    pub iops: f64,
    /// Factor on the rate, as a function of the elapsed share of the run, `0..1`.
    pub shape: fn(f64) -> f64,
    /// Relative noise of an interval's rate.
    pub noise: f64,
    /// Seed of the noise.
    pub seed: u64,
}

impl Default for Load {
    fn default() -> Self {
        Load {
            role: "main",
            jobs: 1,
            depth: 32,
            block_bytes: 4096,
            read_percent: 100,
            iops: 5_000.0,
            shape: |_| 1.0,
            noise: 0.01,
            seed: 1,
        }
    }
}

/// A complete, healthy, direct run on a local disk.
pub fn run_of(loads: &[Load]) -> Run {
    let mut jobs = Vec::new();
    let mut runs = Vec::new();
    for load in loads {
        for index in 0..load.jobs {
            jobs.push(job(load, index));
            runs.push(job_run(load, index));
        }
    }
    let cpu_ns = runs.iter().map(|job| job.cpu_user_ns + job.cpu_system_ns).sum::<u64>();
    let first = loads.first().copied().unwrap_or_default();
    Run {
        schema: SCHEMA.into(),
        program: "test".into(),
        plan: plan(&first, jobs),
        started_unix_ns: 1_700_000_000_000_000_000,
        outcome: Outcome::Complete,
        measured_ns: SECONDS * 1_000_000_000,
        measured_boottime_ns: SECONDS * 1_000_000_000,
        backend: BackendFacts {
            engine: "io_uring".into(),
            features: vec!["registered_buffers".into()],
            clock: "tsc".into(),
            clock_cost_ps: 7_000,
            tool_overhead_ps: 30_000,
            ..BackendFacts::default()
        },
        target: TargetFacts {
            path: "/data/file".into(),
            kind: "file".into(),
            filesystem: Some("ext4".into()),
            class: FilesystemClass::Local,
            direct: true,
            dio_mem_align: Some(512),
            dio_offset_align: Some(512),
            ..TargetFacts::default()
        },
        jobs: runs,
        process: ProcessUse {
            span_ns: SECONDS * 1_000_000_000,
            cpu_user_ns: cpu_ns / 4,
            cpu_system_ns: cpu_ns - cpu_ns / 4,
            voluntary_switches: 1_000,
            involuntary_switches: 10,
            max_rss_bytes: 20 << 20,
        },
        hiccups: Histogram::new(),
        device: None,
        telemetry: Vec::new(),
        neighbours: Vec::new(),
        final_sync: None,
        controlled: None,
        precision: None,
        layers: None,
    }
}

/// An open loop at the load's rate without overload. `backlog` returns how long the oldest waiting
/// operation had waited at each tenth of a second, ns.
pub fn open_run_of(load: &Load, backlog: fn(u64) -> u64) -> Run {
    let mut run = run_of(&[Load { noise: 0.0, ..*load }]);
    let rate = Rate::Ops(load.iops);
    run.plan.jobs[0].pace = Pace::Rate { rate, arrivals: Arrivals::Constant };
    let job = &mut run.jobs[0];
    let gap_ns = 1e9 / load.iops;
    let due = job.read.ops + job.write.ops;
    job.arrivals = ArrivalsRun {
        due,
        gaps: due - 1,
        gap_sum_ns: ((due - 1) as f64 * gap_ns) as u64,
        gap_square_sum: (due - 1) as f64 * gap_ns * gap_ns,
        backlog_ns: (0..INTERVALS).map(backlog).collect(),
        backlog_width_ns: 100_000_000,
        ..ArrivalsRun::default()
    };
    for direction in [&mut job.read, &mut job.write] {
        direction.response = direction.latency.clone();
        direction.responses = direction.latencies.clone();
        direction.lag.record_many(100, direction.latency.count());
    }
    run
}

fn plan(first: &Load, jobs: Vec<Job>) -> Plan {
    Plan {
        name: "database".into(),
        title: "Database".into(),
        pattern: "random rw mix".into(),
        nominal_block_bytes: first.block_bytes,
        nominal_read_percent: first.read_percent,
        engine: Engine::of(EngineKind::IoUring),
        targets: vec![Target {
            path: "/data/file".into(),
            bytes: 1 << 30,
            direct: true,
            align_bytes: 512,
        }],
        seed: 1,
        warmup_ns: 3_000_000_000,
        stop: Stop::AfterNs(SECONDS * 1_000_000_000),
        latency: LatencyGoal::None,
        until: iosonde_model::plan::PrecisionGoal::None,
        on_error: OnError::Stop,
        final_sync: false,
        interval_ns: 100_000_000,
        intervals_per_histogram: 1,
        pinned: false,
        notes: Vec::new(),
        jobs,
    }
}

fn job(load: &Load, index: u32) -> Job {
    Job {
        role: load.role.into(),
        block_bytes: load.block_bytes,
        read_percent: load.read_percent,
        order: Order::Permutation { seed: 1, lane: index, lanes: load.jobs },
        region_start: 0,
        region_bytes: 1 << 30,
        iodepth: load.depth,
        batch: 16,
        seed: u64::from(index),
        ..Job::default()
    }
}

fn job_run(load: &Load, index: u32) -> JobRun {
    let mut run = JobRun {
        measured_ns: SECONDS * 1_000_000_000,
        in_flight_max: load.depth,
        touched: Some((0, 1 << 30)),
        inline_probed: 100,
        errors: BTreeMap::new(),
        cpus: Some((0, 0)),
        ..JobRun::default()
    };
    for direction in [&mut run.read, &mut run.write] {
        direction.counters = CounterSeries { width_ns: 100_000_000, ..CounterSeries::default() };
        direction.latencies =
            HistogramSeries { width_ns: 100_000_000, ..HistogramSeries::default() };
    }
    for interval in 0..INTERVALS {
        let time = interval as f64 / INTERVALS as f64;
        let noise = 1.0 + load.noise * unit(load.seed ^ (u64::from(index) << 32), interval);
        let rate = load.iops * (load.shape)(time) * noise;
        let ops = (rate / 10.0).round() as u64;
        let reads = ops * u64::from(load.read_percent) / 100;
        // Mean latency of a closed loop by Little's law.
        let mean_ns = if rate > 0.0 { f64::from(load.depth) * 1e9 / rate } else { 0.0 };
        let parts = [(&mut run.read, reads), (&mut run.write, ops - reads)];
        for (direction, count) in parts {
            complete(direction, count, load.block_bytes, mean_ns);
        }
    }
    let sum = run.read.latency.sum() + run.write.latency.sum();
    run.in_flight_area_ns = u64::try_from(sum).unwrap_or(u64::MAX);
    let ops = run.read.ops + run.write.ops;
    run.syscalls = ops / 10;
    run.cpu_user_ns = ops * 500;
    run.cpu_system_ns = ops * 1_500;
    run
}

/// Counts operations whose latencies are spread evenly between 0.5 and 1.5 of the mean.
fn complete(to: &mut DirectionRun, ops: u64, block: u64, mean_ns: f64) {
    let mut histogram = Histogram::new();
    to.ops += ops;
    to.bytes += ops * block;
    to.counters.ops.push(ops);
    to.counters.bytes.push(ops * block);
    for class in 0..16 {
        let times = ops / 16 + u64::from(class < ops % 16);
        let spread = 0.5 + ((class * 7 % 16) as f64 + 0.5) / 16.0;
        if times > 0 {
            histogram.record_many((mean_ns * spread) as u64, times);
        }
    }
    to.latency.merge(&histogram);
    to.latencies.intervals.push(histogram.occupied().collect());
    to.latencies.exact.push(histogram.exact());
}

/// A number in `-1..1` that depends only on its arguments.
fn unit(seed: u64, index: u64) -> f64 {
    let mut z = (seed << 16).wrapping_add(index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as f64 / u64::MAX as f64 * 2.0 - 1.0
}
