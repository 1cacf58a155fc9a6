//! A run of the verifier: its writes, its reads, and their order.
//!
//! Every job has its own part of the region, so that no two jobs write the same block; or all write
//! the same region and synchronise at barriers ([`VerifyPlan::epoch_ops`]). The operations of a job
//! depend only on the seed ([`VerifyStream`]), never on timing. An operation on a block with
//! another in flight waits for it. So the expected content of a block after any number of
//! operations can be computed on any machine.

pub mod describe;
mod setting;
mod stream;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::chance::Chance;
use super::{Job, Plan, Refusal};
pub use describe::describe_verify;
pub use setting::VerifySetting;
pub use stream::{STREAM_VERSION, VerifyOp, VerifyStream};

/// Unique number of a run of the verifier, independent of the seed: old data must not pass for new.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RunId(pub u128);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for RunId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<RunId, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom(format!("found `{text}`, expected 32 hex digits"));
        let hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hex {
            return Err(wrong());
        }
        u128::from_str_radix(&text, 16).map(RunId).map_err(|_| wrong())
    }
}

words! {
    /// The purpose of a run of the verifier.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum VerifyMode {
        /// Write everything once, flush, read it back.
        Flush => "flush",
        /// A ring of jobs; each reads what the previous one wrote.
        Pipeline => "pipeline",
        /// Overwrite, read, trim and flush at random, then read everything back.
        Soak => "soak",
        /// Overwrite and trim at random; a later check reads everything back.
        Write => "write",
        /// Read back the data of an earlier run.
        Check => "check",
        /// Write and report every flush to a witness, until power is cut.
        PowerCut => "powercut",
    }
}

impl VerifyMode {
    /// Whether jobs may write the same region concurrently.
    pub fn can_overlap(self) -> bool {
        matches!(self, VerifyMode::Soak | VerifyMode::Write | VerifyMode::Check)
    }

    /// Whether the run ends by reading everything back.
    pub fn sweeps(self) -> bool {
        matches!(
            self,
            VerifyMode::Flush | VerifyMode::Pipeline | VerifyMode::Soak | VerifyMode::Check
        )
    }
}

/// Everything that one run of the verifier will do.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct VerifyPlan {
    /// Targets, engine, seed, and the jobs with their depths and regions.
    pub plan: Plan,
    pub mode: VerifyMode,
    /// The run whose blocks are written or checked.
    pub run: RunId,
    /// Length of a block, bytes; a power of two.
    pub block_bytes: u32,
    /// Length of a sector, bytes: the atomic write unit of the target.
    pub sector_bytes: u32,
    /// Fewest blocks of an operation.
    pub min_blocks: u32,
    /// Most blocks of an operation.
    pub max_blocks: u32,
    /// Share of reads, percent of the operations.
    pub read_percent: u8,
    /// Share of trims, percent of the operations.
    pub trim_percent: u8,
    /// Operations of a job per flush; 0 for a single flush at the end.
    pub flush_every: u64,
    /// Sequential passes over a job's whole part, with flushes between; 0 for random offsets.
    pub passes: u32,
    /// Most operations of each job, without the final read-back.
    pub ops: Vec<u64>,
    /// Longest time for these operations, ns.
    pub length_ns: u64,
    /// Most bytes written by all jobs.
    pub written_bytes: u64,
    /// Pause between the last flush and the read-back, ns.
    pub delay_ns: u64,
    /// Whether trimmed blocks read as zeros on this target.
    pub trims_make_zeros: bool,
    /// Whether the target was created for this run, so that unwritten blocks read as zeros; absent
    /// in plans of older versions.
    #[serde(default)]
    pub begins_as_zeros: bool,
    /// Operations of each job between two barriers of all jobs, if all write the same region; 0 if
    /// each job has its own part.
    #[serde(default)]
    pub epoch_ops: u64,
}

/// Largest block, bytes: its length must fit a request.
pub const MAX_BLOCK_BYTES: u64 = 1 << 20;
/// Largest operation, bytes.
pub const MAX_OP_BYTES: u64 = 64 << 20;
/// Most jobs: a block's header has 16 bits for the writer.
const MAX_JOBS: u64 = 1024;
/// Most operations between two flushes.
const MAX_FLUSH_EVERY: u64 = 1 << 40;
/// Memory of the ledger per block, bytes, rounded up.
const LEDGER_BYTES_PER_BLOCK: u64 = 13;
/// Memory of the outcome of a block that several jobs write, bytes.
const OUTCOME_BYTES: u64 = 4;

impl VerifyPlan {
    /// Makes the plan of one run.
    ///
    /// # Errors
    /// A [`Refusal`] that states what was found, what was expected, and how to fix it.
    pub fn resolve(setting: &VerifySetting) -> Result<VerifyPlan, Refusal> {
        setting.check_ranges()?;
        let setting_region = setting.target.bytes.saturating_sub(setting.offset_bytes);
        let block_bytes = setting.block_bytes;
        let blocks = setting_region / block_bytes;
        let max_blocks = u64::from(setting.blocks.1);
        let jobs = u64::from(setting.jobs);
        let share = if setting.overlap { blocks } else { blocks / jobs };
        if share < max_blocks || share >= 1 << 32 {
            return Err(Refusal::Region {
                role: setting.mode.word().into(),
                region_bytes: setting_region,
                threads: setting.jobs,
                needed_bytes: max_blocks * block_bytes,
            });
        }
        let mut chance = Chance::new(setting.seed);
        let all: Vec<Job> = (0..jobs)
            .map(|index| {
                let (first, end) = match setting.overlap {
                    true => (0, blocks),
                    false => (blocks * index / jobs, blocks * (index + 1) / jobs),
                };
                let start = setting.offset_bytes + first * block_bytes;
                setting.job(chance.bits(), start, (end - first) * block_bytes)
            })
            .collect();
        let ops_of = |job: u32| match setting.only_job {
            Some(only) if only != job => 0,
            _ => setting.ops,
        };
        let plan = VerifyPlan {
            mode: setting.mode,
            run: setting.run,
            block_bytes: block_bytes as u32,
            sector_bytes: setting.sector_bytes,
            min_blocks: setting.blocks.0,
            max_blocks: setting.blocks.1,
            read_percent: setting.read_percent,
            trim_percent: setting.trim_percent,
            flush_every: setting.flush_every,
            passes: setting.passes,
            ops: (0..setting.jobs).map(ops_of).collect(),
            length_ns: setting.length_ns,
            written_bytes: setting.written_bytes,
            delay_ns: setting.delay_ns,
            trims_make_zeros: setting.trims_make_zeros,
            begins_as_zeros: setting.begins_as_zeros,
            epoch_ops: if setting.overlap { setting.iodepth.into() } else { 0 },
            plan: setting.plan(all),
        };
        plan.fits_into(setting.memory_limit_bytes)?;
        Ok(plan)
    }

    /// Checks that buffers and ledgers together fit into this memory.
    ///
    /// # Errors
    /// [`Refusal::Memory`] if they do not.
    pub fn fits_into(&self, limit_bytes: u64) -> Result<(), Refusal> {
        let jobs = self.plan.jobs.len();
        let needed_bytes = self.plan.buffer_bytes().saturating_add(self.ledger_bytes());
        match needed_bytes > limit_bytes {
            true => Err(Refusal::Memory { jobs, needed_bytes, limit_bytes }),
            false => Ok(()),
        }
    }

    /// Memory of the ledgers, bytes, rounded up.
    fn ledger_bytes(&self) -> u64 {
        let each = self.blocks().saturating_mul(LEDGER_BYTES_PER_BLOCK);
        // Each job has a ledger of all blocks, and a column in a table of last writes.
        let of_all = self.blocks().saturating_mul(LEDGER_BYTES_PER_BLOCK + OUTCOME_BYTES);
        if self.overlaps() { of_all.saturating_mul(self.plan.jobs.len() as u64) } else { each }
    }

    /// Whether all jobs write the same region.
    pub fn overlaps(&self) -> bool {
        self.epoch_ops > 0
    }

    /// Why [`VerifyPlan::resolve`] could not have made this plan, which was read from a file.
    pub fn contradiction(&self) -> Option<&'static str> {
        let block = u64::from(self.block_bytes);
        let op_bytes = block * u64::from(self.max_blocks);
        let jobs = &self.plan.jobs;
        let mut end = jobs.first().map_or(0, |job| job.region_start);
        let adjoins = |job: &Job| {
            let start = if self.overlaps() { jobs[0].region_start } else { end };
            let right = job.region_start == start
                && job.region_bytes.is_multiple_of(block)
                && job.region_bytes / block < 1 << 32
                && job.region_bytes >= op_bytes
                && job.block_bytes == op_bytes;
            end = job.region_start.saturating_add(job.region_bytes);
            right
        };
        let is_block = block.is_power_of_two() && (512..=MAX_BLOCK_BYTES).contains(&block);
        let is_sector =
            matches!(self.sector_bytes, 512 | 4096) && self.sector_bytes <= self.block_bytes;
        if !is_block || !is_sector {
            Some("blocks or sectors of an impossible length")
        } else if self.min_blocks == 0
            || self.min_blocks > self.max_blocks
            || op_bytes > MAX_OP_BYTES
        {
            Some("operations of an impossible length")
        } else if jobs.is_empty() || jobs.len() as u64 > MAX_JOBS || jobs.len() != self.ops.len() {
            Some("an impossible number of jobs")
        } else if self.flush_every > MAX_FLUSH_EVERY {
            Some("an impossible number of operations between flushes")
        } else if self.plan.targets.is_empty() {
            Some("no target")
        } else if u32::from(self.read_percent) + u32::from(self.trim_percent) > 99 {
            Some("shares of more than there is")
        } else if self.overlaps() && (jobs.len() < 2 || self.trim_percent > 0) {
            Some("one job that overlaps with itself, or trims where jobs overlap")
        } else if self.overlaps() && !self.mode.can_overlap() {
            Some("jobs that overlap in a mode in which they cannot")
        } else if !jobs.iter().all(adjoins) {
            Some("jobs whose parts do not adjoin")
        } else {
            None
        }
    }

    /// Offset of a block of a job.
    #[inline]
    pub fn offset_of(&self, job: usize, block: u64) -> u64 {
        self.plan.jobs[job].region_start + block * u64::from(self.block_bytes)
    }

    /// Blocks of a job.
    pub fn blocks_of(&self, job: usize) -> u64 {
        self.plan.jobs[job].region_bytes / u64::from(self.block_bytes)
    }

    /// Blocks of the region.
    pub fn blocks(&self) -> u64 {
        if self.overlaps() {
            return self.blocks_of(0);
        }
        (0..self.plan.jobs.len()).map(|job| self.blocks_of(job)).sum()
    }

    /// Bytes after the last whole block of the target or of its requested part.
    pub fn tail_bytes(&self) -> u64 {
        let start = self.plan.jobs.first().map_or(0, |job| job.region_start);
        let end = start + self.blocks() * u64::from(self.block_bytes);
        self.plan.target().bytes.saturating_sub(end)
    }

    /// Whether anything is written or trimmed.
    pub fn changes(&self) -> bool {
        self.mode != VerifyMode::Check
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::plan::{Engine, EngineKind, Target};

    /// A run on the simulated device.
    pub(crate) fn setting(mode: VerifyMode, bytes: u64) -> VerifySetting {
        VerifySetting {
            mode,
            run: RunId(0xfeed),
            engine: Engine::of(EngineKind::Sim),
            target: Target { path: "sim".into(), bytes, direct: false, align_bytes: 512 },
            offset_bytes: 0,
            jobs: 2,
            overlap: false,
            iodepth: 4,
            block_bytes: 4096,
            sector_bytes: 512,
            blocks: (1, 4),
            read_percent: 0,
            trim_percent: 0,
            flush_every: 0,
            passes: u32::from(mode == VerifyMode::Flush),
            ops: u64::MAX,
            only_job: None,
            length_ns: u64::MAX,
            written_bytes: u64::MAX,
            delay_ns: 0,
            trims_make_zeros: true,
            begins_as_zeros: false,
            seed: 1,
            cpus: 2,
            memory_limit_bytes: 1 << 30,
        }
    }

    #[test]
    fn jobs_share_the_region_without_overlap_and_without_a_rest() {
        for (jobs, offset_bytes) in [(1, 0), (2, 0), (3, 8192), (7, 512 << 10)] {
            let setting =
                VerifySetting { jobs, offset_bytes, ..setting(VerifyMode::Soak, 1 << 20) };
            let plan = VerifyPlan::resolve(&setting).unwrap();
            assert_eq!(plan.blocks(), 256 - offset_bytes / 4096);
            assert_eq!(plan.contradiction(), None);
            let mut end = offset_bytes;
            for job in &plan.plan.jobs {
                assert_eq!(job.region_start, end);
                end += job.region_bytes;
            }
            assert_eq!(end, 1 << 20);
        }
    }

    #[test]
    fn jobs_that_overlap_have_the_whole_region_each() {
        let base = setting(VerifyMode::Soak, 1 << 20);
        let behind = VerifySetting { overlap: true, offset_bytes: 512 << 10, ..base };
        for job in &VerifyPlan::resolve(&behind).unwrap().plan.jobs {
            assert_eq!((job.region_start, job.region_bytes), (512 << 10, 512 << 10));
        }
        let overlap = VerifySetting { overlap: true, ..setting(VerifyMode::Soak, 1 << 20) };
        let plan = VerifyPlan::resolve(&overlap).unwrap();
        assert_eq!((plan.blocks(), plan.epoch_ops), (256, 4));
        for job in &plan.plan.jobs {
            assert_eq!((job.region_start, job.region_bytes), (0, 1 << 20));
        }
        assert_eq!(plan.contradiction(), None);
        let refused =
            |setting: VerifySetting| VerifyPlan::resolve(&setting).unwrap_err().to_string();
        let alone = VerifySetting { jobs: 1, ..overlap.clone() };
        assert!(refused(alone).contains("--numjobs 1"), "a job does not overlap with itself");
        let trims = VerifySetting { trim_percent: 5, ..overlap };
        assert!(refused(trims).contains("any content would be valid"));
    }

    #[test]
    fn what_proves_nothing_or_cannot_be_is_refused() {
        let base = || setting(VerifyMode::Soak, 1 << 20);
        let refused =
            |setting: VerifySetting| VerifyPlan::resolve(&setting).unwrap_err().to_string();
        assert!(refused(VerifySetting { length_ns: 0, ..base() }).contains("above 0"));
        assert!(refused(VerifySetting { block_bytes: 3000, ..base() }).contains("power of two"));
        assert!(refused(VerifySetting { blocks: (3, 2), ..base() }).contains("MIN <= MAX"));
        assert!(refused(VerifySetting { jobs: 100, ..base() }).contains("larger --size"));
        assert!(refused(VerifySetting { offset_bytes: 512, ..base() }).contains("offset"));
        assert!(refused(VerifySetting { memory_limit_bytes: 4096, ..base() }).contains("memory"));
        assert!(
            refused(VerifySetting { sector_bytes: 4096, block_bytes: 512, ..base() })
                .contains("4096")
        );
        assert!(
            refused(VerifySetting { read_percent: 60, trim_percent: 40, ..base() }).contains("99")
        );
    }
}
