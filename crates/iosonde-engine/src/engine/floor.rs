//! The tool overhead: the time per operation if the target costs nothing.

use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::sync::Arc;

use iosonde_sys::{Clock, Direction, Ring, RingOptions, Slab, syscall};

use crate::backend::OpenError;

use super::{Control, EngineError, Measured, Medium, Unwatched, run};
use iosonde_model::content::Filler;
use iosonde_model::plan::chance::Permutation;
use iosonde_model::plan::{
    Engine, EngineKind, Job, LatencyGoal, OnError, Order, Pace, Placement, Plan, PrecisionGoal,
    Reap, Stop, Target, Think, Wait,
};
use iosonde_model::record::run::JobRun;
use iosonde_model::spec::Data;
use iosonde_stats::Histogram;

/// What this program adds to each operation, picoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ToolOverhead {
    /// Total.
    pub all_ps: u64,
    /// Of that, generating written data and comparing read data. It is outside of the latency of
    /// the operation.
    pub data_ps: u64,
}

/// The overhead of this plan's first job: its loop on the null backend, and its data work, timed
/// separately so that they do not disturb each other.
///
/// # Errors
/// If a queue, a thread or memory is not available.
pub fn tool_overhead(plan: &Plan, clock: Clock) -> Result<ToolOverhead, EngineError> {
    let Some(job) = plan.jobs.first() else { return Ok(ToolOverhead::default()) };
    // Waits are not a cost of the tool. Data is not compared: the null backend reads nothing valid,
    // and the first difference would end the job.
    let busy = Job {
        pace: Pace::Closed,
        think: Think::default(),
        phases: Vec::new(),
        reap: Reap { wait: Wait::Event, ..job.reap },
        targets: Vec::new(),
        place: Placement::default(),
        data: Data { zeros: true, constant: true, ..Data::default() },
        ..job.clone()
    };
    let mut bare_ps = u64::MAX;
    let mut moved = Moved::default();
    // The shortest of three: an interruption is not a cost of the tool.
    for _ in 0..3 {
        let measured = on_null(busy.clone(), timed_ops(job).div_ceil(3), clock)?;
        moved = Moved::of(&measured.jobs);
        bare_ps = bare_ps.min(measured.measured_ns * 1000 / moved.ops.max(1));
    }
    let data_ps = moved.per_op_ps(job, DataTime::of(plan.seed, job, clock)?);
    // In a mixed load, the loop writes zeros into buffers again after reads.
    let zeros_ps = moved.per_op_ps(job, DataTime::of(plan.seed, &busy, clock)?);
    Ok(ToolOverhead { all_ps: bare_ps.saturating_sub(zeros_ps) + data_ps, data_ps })
}

/// Operations and bytes of the timed loop.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    ops: u64,
    read_bytes: u64,
    written_bytes: u64,
}

impl Moved {
    fn of(jobs: &[JobRun]) -> Moved {
        let sum = |of: fn(&JobRun) -> u64| jobs.iter().map(of).sum();
        Moved {
            ops: sum(|job| job.read.ops + job.write.ops + job.trim.ops),
            read_bytes: sum(|job| job.read.bytes),
            written_bytes: sum(|job| job.write.bytes),
        }
    }

    /// Time for data per operation, ps.
    fn per_op_ps(self, job: &Job, time: DataTime) -> u64 {
        let blocks = |bytes: u64| bytes as f64 / job.block_bytes.max(1) as f64;
        let all_ps = blocks(self.written_bytes) * time.generate_ps as f64
            + blocks(self.read_bytes) * time.compare_ps as f64;
        (all_ps / self.ops.max(1) as f64) as u64
    }
}

/// Operations that time the loop: 20,000, or fewer where filling the buffers of large writes would
/// take noticeable time.
fn timed_ops(job: &Job) -> u64 {
    const OPS: u64 = 20_000;
    const FILLED_BYTES: u64 = 64 << 20;
    if !job.writes_data() {
        return OPS;
    }
    (FILLED_BYTES / job.block_bytes.max(1)).clamp(1, OPS)
}

/// Time for the content of one block, ps; 0 where a job has no such operation.
#[derive(Clone, Copy, Debug, Default)]
struct DataTime {
    generate_ps: u64,
    compare_ps: u64,
}

impl DataTime {
    fn of(run: u64, job: &Job, clock: Clock) -> Result<DataTime, EngineError> {
        /// Bytes of content that are timed.
        const TIMED_BYTES: u64 = 8 << 20;
        let (generates, compares) = (job.writes_data(), job.compares());
        if !generates && !compares {
            return Ok(DataTime::default());
        }
        let blocks = (TIMED_BYTES / job.block_bytes.max(1)).max(1);
        let slots = blocks.min(job.iodepth.into()) as usize;
        let mut slab = Slab::new(slots, job.block_bytes as usize)
            .map_err(|error| OpenError::Buffers { bytes: slots as u64 * job.block_bytes, error })?;
        let mut filler = Filler::new(run, job);
        // The comparison expects the content of offset 0.
        (0..slots).for_each(|slot| filler.fill(slab.slot_mut(slot)));
        let mut time = DataTime::default();
        if compares {
            time.compare_ps = median_ps(blocks, clock, |index| {
                black_box(filler.holds(slab.slot_mut(index as usize % slots), 0));
            });
        }
        if generates {
            time.generate_ps = median_ps(blocks, clock, |index| {
                let buffer = slab.slot_mut(index as usize % slots);
                filler.refresh(buffer, index * job.block_bytes);
                black_box(buffer);
            });
        }
        Ok(time)
    }
}

/// Time per call, ps: the median of a few rounds, so that an interruption does not count.
fn median_ps(calls: u64, clock: Clock, mut call: impl FnMut(u64)) -> u64 {
    const ROUNDS: u64 = 5;
    let rounds = calls.clamp(1, ROUNDS);
    let each = calls / rounds;
    let mut times: Vec<u64> = (0..rounds)
        .map(|round| {
            let before_ns = clock.now_ns();
            (round * each..(round + 1) * each).for_each(&mut call);
            (clock.now_ns() - before_ns) * 1000 / each
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Operations per second of one job on the null backend: the tool's ceiling per core, histograms
/// on.
///
/// # Errors
/// If a queue or a thread is not available.
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
    const OPS: u64 = 5_000_000;
    let measured = on_null(job, OPS, clock)?;
    Ok(OPS as f64 * 1e9 / measured.measured_ns.max(1) as f64)
}

fn on_null(job: Job, ops: u64, clock: Clock) -> Result<Measured, EngineError> {
    let control = Arc::new(Control::default());
    run(&plan_of(job, ops), &Medium::Null(None), clock, &control, &mut Unwatched)
}

fn plan_of(job: Job, ops: u64) -> Plan {
    Plan {
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
    }
}

/// Latency of a bare inline `pread` loop on a file, ns: the reference for depth 1.
pub fn psync_floor(file: &File, block_bytes: usize, ops: u64, clock: Clock) -> Histogram {
    let mut histogram = Histogram::new();
    let Ok(mut slab) = Slab::new(1, block_bytes) else { return histogram };
    let size = file.metadata().map_or(0, |facts| facts.len());
    let blocks = (size / block_bytes as u64).max(1);
    // Offsets in random order as in a run, because file-system look-ups depend on it, but drawn
    // beforehand.
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

/// Operations per second of io_uring with no-op requests; `None` without io_uring.
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
    fn generated_and_compared_data_count() {
        let overhead = |read_percent, checked| {
            let job = Job {
                role: "d".into(),
                block_bytes: 64 << 10,
                read_percent,
                order: Order::Uniform,
                region_start: 0,
                region_bytes: 1 << 20,
                data: Data { checked, ..Data::default() },
                ..Job::default()
            };
            let plan = plan_of(job, 1);
            tool_overhead(&plan, Clock::monotonic()).unwrap()
        };
        let bare = overhead(100, false);
        assert!(bare.all_ps > 0 && bare.data_ps == 0, "{bare:?}");
        // No machine compares a byte in less than 10 ps.
        for data in [overhead(100, true), overhead(0, true)] {
            assert!(data.data_ps > 10 * (64 << 10), "{data:?}");
            assert!(data.all_ps > data.data_ps, "{data:?}");
        }
        let mixed = overhead(50, false);
        assert!(mixed.data_ps > 0 && mixed.data_ps <= mixed.all_ps, "{mixed:?}");
    }

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
        assert_eq!(timed_ops(&job(1 << 30, 100)), 20_000);
        assert_eq!(timed_ops(&job(512, 0)), 20_000);
        assert_eq!(timed_ops(&job(1 << 20, 50)), 64);
        assert_eq!(timed_ops(&job(1 << 30, 0)), 1);
    }
}
