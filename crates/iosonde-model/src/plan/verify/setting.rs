//! The parameters of a run of the verifier, and their permitted ranges.

use super::super::resolve::{MAX_IODEPTH, in_range};
use super::super::{
    Engine, Job, LatencyGoal, OnError, Order, Plan, PrecisionGoal, Refusal, Stop, Target,
};
use super::{MAX_BLOCK_BYTES, MAX_FLUSH_EVERY, MAX_JOBS, MAX_OP_BYTES, RunId, VerifyMode};
/// The parameters of a run of the verifier.
#[derive(Clone, Debug)]
pub struct VerifySetting {
    pub mode: VerifyMode,
    pub run: RunId,
    /// The I/O engine.
    pub engine: Engine,
    pub target: Target,
    /// Start of the region, bytes.
    pub offset_bytes: u64,
    pub jobs: u32,
    /// Whether all jobs write the same region.
    pub overlap: bool,
    /// Requests in flight per job.
    pub iodepth: u32,
    /// Length of a block, bytes.
    pub block_bytes: u64,
    /// Length of a sector, bytes.
    pub sector_bytes: u32,
    /// Fewest and most blocks of an operation.
    pub blocks: (u32, u32),
    /// Share of reads, percent.
    pub read_percent: u8,
    /// Share of trims, percent.
    pub trim_percent: u8,
    /// Operations per flush; 0 for a single flush at the end.
    pub flush_every: u64,
    /// Passes over the whole region; 0 for random offsets.
    pub passes: u32,
    /// Most operations per job; `u64::MAX` for no limit.
    pub ops: u64,
    /// The only active job, to repeat a failure.
    pub only_job: Option<u32>,
    /// Longest time, ns; `u64::MAX` for no limit.
    pub length_ns: u64,
    /// Most bytes written; `u64::MAX` for no limit.
    pub written_bytes: u64,
    /// Pause before the read-back, ns.
    pub delay_ns: u64,
    /// Whether trimmed blocks read as zeros on this target.
    pub trims_make_zeros: bool,
    /// Whether the target is created for this run, so that unwritten blocks read as zeros.
    pub begins_as_zeros: bool,
    /// Seed of all operations.
    pub seed: u64,
    /// Number of CPUs that may be used.
    pub cpus: u32,
    /// Largest total size of buffers and ledger, bytes.
    pub memory_limit_bytes: u64,
}

impl VerifySetting {
    pub(super) fn check_ranges(&self) -> Result<(), Refusal> {
        let refuse = |what: &'static str, found: u64, expected: &'static str| {
            Err(Refusal::Range { what, found, expected })
        };
        in_range("--numjobs", self.jobs.into(), 1, MAX_JOBS, "1 to 1024")?;
        in_range("--iodepth", self.iodepth.into(), 1, MAX_IODEPTH.into(), "1 to 4096")?;
        if self.overlap {
            in_range("--overlap: --numjobs", self.jobs.into(), 2, MAX_JOBS, "2 to 1024")?;
            let expected = "0: with a trim concurrent to a write, any content would be valid";
            in_range("--overlap: --trim-percent", self.trim_percent.into(), 0, 0, expected)?;
        }
        let one_at_a_time = self.engine.kind.is_synchronous();
        if one_at_a_time && self.iodepth != 1 {
            let engine = self.engine.kind.name();
            return Err(Refusal::Depth { engine, found: self.iodepth });
        }
        let block = self.block_bytes;
        if !block.is_power_of_two() || !(512..=MAX_BLOCK_BYTES).contains(&block) {
            return refuse("--bs", block, "a power of two from 512 to 1m");
        }
        if block < self.sector_bytes.into() || !block.is_multiple_of(self.target.align_bytes) {
            return Err(Refusal::Block {
                role: self.mode.word().into(),
                found_bytes: block,
                target: self.target.path.clone(),
                align_bytes: self.target.align_bytes.max(self.sector_bytes.into()),
                direct: self.target.direct,
            });
        }
        if !self.offset_bytes.is_multiple_of(block) {
            return Err(Refusal::Offset { found_bytes: self.offset_bytes, align_bytes: block });
        }
        let (min, max) = self.blocks;
        if min == 0 || min > max || u64::from(max) * block > MAX_OP_BYTES {
            let expected = "MIN:MAX with 1 <= MIN <= MAX, and MAX blocks of at most 64 MiB";
            return refuse("--verify-sectors", u64::from(max), expected);
        }
        let expected = "at most 2^40 operations, or 0 for a flush at the end alone";
        in_range("--flush-every", self.flush_every, 0, MAX_FLUSH_EVERY, expected)?;
        let shares = u64::from(self.read_percent) + u64::from(self.trim_percent);
        in_range("shares of reads and trims", shares, 0, 99, "at most 99 % together")?;
        let has_end = self.length_ns > 0 && self.ops > 0 && self.written_bytes > 0;
        if !has_end {
            let expected = "a value above 0";
            return refuse("--runtime, --io-size, --ops", 0, expected);
        }
        if let Some(only) = self.only_job {
            in_range("--only-job", only.into(), 0, u64::from(self.jobs) - 1, "a job's number")?;
        }
        Ok(())
    }

    pub(super) fn job(&self, seed: u64, region_start: u64, region_bytes: u64) -> Job {
        let changes = self.mode != VerifyMode::Check;
        let mut job = Job {
            role: self.mode.word().into(),
            block_bytes: self.block_bytes * u64::from(self.blocks.1),
            read_percent: if changes { 50 } else { 100 },
            order: Order::Uniform,
            region_start,
            region_bytes,
            iodepth: self.iodepth,
            batch: self.iodepth.min(32),
            seed,
            unit_bytes: self.block_bytes,
            trims: self.trim_percent > 0,
            ..Job::default()
        };
        // This makes the queue prepare for syncs.
        job.sync.every_writes = u64::from(changes);
        job
    }

    pub(super) fn plan(&self, jobs: Vec<Job>) -> Plan {
        let word = self.mode.word();
        Plan {
            name: format!("verify-{word}"),
            title: format!("Verify: {word}"),
            pattern: word.into(),
            nominal_block_bytes: self.block_bytes,
            nominal_read_percent: self.read_percent,
            engine: self.engine.clone(),
            targets: vec![self.target.clone()],
            seed: self.seed,
            warmup_ns: 0,
            stop: Stop::AfterOnePass,
            latency: LatencyGoal::None,
            until: PrecisionGoal::None,
            on_error: OnError::Continue,
            final_sync: false,
            interval_ns: 100_000_000,
            intervals_per_histogram: 10,
            pinned: jobs.len() <= self.cpus as usize,
            notes: Vec::new(),
            jobs,
        }
    }
}
