//! The tool's own cost: what is left when the target costs nothing.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use iosonde_sys::{Clock, Direction, Ring, RingOptions, Slab, syscall};

use super::{Control, EngineError, Medium, Unwatched, run};
use iosonde_model::plan::chance::Permutation;
use iosonde_model::plan::{
    Engine, EngineKind, Job, LatencyGoal, OnError, Order, Pace, Placement, Plan, PrecisionGoal,
    Reap, Stop, Target, Think, Wait,
};
use iosonde_stats::Histogram;

/// Time per operation of this plan's first job on the null backend, picoseconds: 20,000 operations,
/// or fewer where making the content of large writes would take noticeable time.
///
/// # Errors
/// If no queue or thread can be had.
pub fn harness_ps(plan: &Plan, clock: Clock) -> Result<u64, EngineError> {
    let Some(job) = plan.jobs.first() else { return Ok(0) };
    // What makes a job wait is not a cost of the tool.
    let busy = Job {
        pace: Pace::Closed,
        think: Think::default(),
        phases: Vec::new(),
        reap: Reap { wait: Wait::Event, ..job.reap },
        targets: Vec::new(),
        place: Placement::default(),
        ..job.clone()
    };
    null_ps(busy, harness_ops(job), clock)
}

/// Operations that time the harness. Nothing is filled for a read; of writes, 64 MiB.
fn harness_ops(job: &Job) -> u64 {
    const OPS: u64 = 20_000;
    const FILLED_BYTES: u64 = 64 << 20;
    if !job.writes_data() {
        return OPS;
    }
    (FILLED_BYTES / job.block_bytes.max(1)).clamp(1, OPS)
}

/// Operations per second of one job on the null backend: the tool's ceiling per core, histograms
/// on.
///
/// # Errors
/// If no queue or thread can be had.
pub fn null_ops_per_s(clock: Clock) -> Result<f64, EngineError> {
    let job = Job {
        role: "ceiling".into(),
        block_bytes: 4096,
        read_percent: 100,
        order: Order::Permutation { seed: 1, lane: 0, lanes: 1 },
        region_start: 0,
        region_bytes: 1 << 30,
        iodepth: 128,
        batch: 32,
        seed: 1,
        ..Job::default()
    };
    Ok(1e12 / null_ps(job, 5_000_000, clock)?.max(1) as f64)
}

fn null_ps(job: Job, ops: u64, clock: Clock) -> Result<u64, EngineError> {
    let plan = Plan {
        name: "floor".into(),
        title: "Floor".into(),
        pattern: String::new(),
        nominal_block_bytes: job.block_bytes,
        nominal_read_percent: job.read_percent,
        engine: Engine::of(EngineKind::Null),
        targets: vec![Target {
            path: "null".into(),
            bytes: job.region_start + job.region_bytes,
            direct: false,
            align_bytes: 1,
        }],
        seed: 1,
        warmup_ns: 0,
        stop: Stop::AfterOps(ops),
        latency: LatencyGoal::None,
        until: PrecisionGoal::None,
        on_error: OnError::Stop,
        final_sync: false,
        interval_ns: 100_000_000,
        intervals_per_histogram: 10,
        pinned: true,
        notes: Vec::new(),
        jobs: vec![job],
    };
    let control = Arc::new(Control::default());
    let measured = run(&plan, &Medium::Null(None), clock, &control, &mut Unwatched)?;
    Ok(measured.measured_ns * 1000 / ops)
}

/// Latency of a bare inline `pread` loop on a file, ns: the floor that depth 1 is held against.
pub fn psync_floor(file: &File, block_bytes: usize, ops: u64, clock: Clock) -> Histogram {
    let mut histogram = Histogram::new();
    let Ok(mut slab) = Slab::new(1, block_bytes) else { return histogram };
    let size = file.metadata().map_or(0, |facts| facts.len());
    let blocks = (size / block_bytes as u64).max(1);
    // The same kind of offsets as a run has, since the file system's own look-ups depend on their
    // order, but drawn beforehand.
    let order = Permutation::new(blocks, 1);
    let offsets: Vec<u64> =
        (0..ops).map(|index| order.at(index % blocks) * block_bytes as u64).collect();
    for offset in offsets {
        let before_ns = clock.now_ns();
        let moved = syscall::transfer(file.as_fd(), Direction::Read, slab.slot_mut(0), offset);
        let after_ns = clock.now_ns();
        if moved > 0 {
            histogram.record(after_ns - before_ns);
        }
    }
    histogram
}

/// Operations per second of the ring with requests that do nothing; `None` without io_uring.
pub fn nop_ops_per_s(clock: Clock) -> Option<f64> {
    const DEPTH: usize = 32;
    const ROUNDS: u64 = 50_000;
    let file = File::open("/dev/null").ok()?;
    let slab = Slab::new(DEPTH, 4096).ok()?;
    let options = RingOptions::of_depth(DEPTH as u32);
    let mut ring = Ring::new(vec![file.into()], slab, options).ok()?;
    let before_ns = clock.now_ns();
    for _ in 0..ROUNDS {
        for slot in 0..DEPTH {
            ring.push_nop(slot);
        }
        ring.enter(DEPTH as u32, 1_000_000_000).ok()?;
        ring.reap(|_slot, _result| ());
    }
    let elapsed_ns = clock.now_ns() - before_ns;
    Some((ROUNDS * DEPTH as u64) as f64 * 1e9 / elapsed_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_writes_are_timed_over_few_operations() {
        let job = |block_bytes, read_percent| Job {
            role: "w".into(),
            block_bytes,
            read_percent,
            order: Order::Uniform,
            region_start: 0,
            region_bytes: block_bytes,
            ..Job::default()
        };
        assert_eq!(harness_ops(&job(1 << 30, 100)), 20_000);
        assert_eq!(harness_ops(&job(512, 0)), 20_000);
        assert_eq!(harness_ops(&job(1 << 20, 50)), 64);
        assert_eq!(harness_ops(&job(1 << 30, 0)), 1);
    }
}
