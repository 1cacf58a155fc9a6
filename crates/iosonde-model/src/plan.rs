//! What exactly will be done? A plan is total: no optional field, bytes and nanoseconds throughout.
//!
//! Promises: pure. A plan resolves in a unit test against an invented target. It can be refused,
//! printed, hashed, and is stored whole inside every record.

pub mod chance;
mod commit;
pub mod describe;
pub mod design;
mod effect;
mod goal;
pub mod interleave;
pub mod job;
pub mod ladder;
pub mod precondition;
pub mod resolve;
mod shape;
pub mod stream;
pub mod trial;
pub mod verify;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use describe::describe;
pub use goal::SHORTEST_UNTIL_NS;
pub use job::*;
pub use resolve::{Refusal, Setting, resolve};
pub use stream::{IoKind, Op, OpStream};
pub use verify::{RunId, VerifyMode, VerifyOp, VerifyPlan, VerifySetting, VerifyStream};

// Words of a workload that leave nothing open, which a plan stores unchanged.
pub use crate::spec::engine::{Engine, EngineKind};
pub use crate::spec::{
    Arrivals, Bursts, Commit, Data, Direction, Draw, EachWrite, Flow, LatencyTarget, Limits,
    Metric, NumaMode, Pace, Phase, Placement, Precision, Pursuit, Rate, Reap, Sequence, Service,
    Settling, SettlingFigure, Sizes, Span, Stop, Strides, Sync, SyncCall, SyncCount, Think, Wait,
    Zone,
};

/// Everything one run will do.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Plan {
    /// Workload identifier.
    pub name: String,
    /// Workload title, for tables.
    pub title: String,
    /// Access pattern in words, for tables.
    pub pattern: String,
    /// Nominal operation size in bytes, for tables; jobs carry the true ones.
    pub nominal_block_bytes: u64,
    /// Nominal share of reads in percent of operations.
    pub nominal_read_percent: u8,
    /// How I/O leaves the process.
    pub engine: Engine,
    /// What is read or written; at least one. Operations name one by its place here.
    pub targets: Vec<Target>,
    /// Seed from which every job's seed was drawn.
    pub seed: u64,
    /// Time at the start whose operations are not counted, ns.
    pub warmup_ns: u64,
    /// When the run ends.
    pub stop: Stop,
    /// What latency is to be met.
    #[serde(default)]
    pub latency: LatencyGoal,
    /// Whether the run ends as soon as a figure is known well enough.
    #[serde(default)]
    pub until: PrecisionGoal,
    /// What happens after an I/O error.
    pub on_error: OnError,
    /// Whether one timed fsync ends the run (writing plans only).
    pub final_sync: bool,
    /// Width of a counter interval, ns.
    pub interval_ns: u64,
    /// Counter intervals per latency-histogram interval.
    pub intervals_per_histogram: u32,
    /// Whether each job is pinned to one CPU; CPUs are dealt in turn.
    pub pinned: bool,
    /// What the resolver decided against or beyond the asking, in words (`depth lowered to 8: …`).
    pub notes: Vec<String>,
    /// The jobs: one thread and one queue each.
    pub jobs: Vec<Job>,
}

impl Plan {
    /// The first target, which stands for all in headings.
    ///
    /// # Panics
    /// If the plan has none, which [`resolve`] never gives.
    pub fn target(&self) -> &Target {
        &self.targets[0]
    }

    /// Whether any job changes what is stored: writes or trims.
    pub fn writes(&self) -> bool {
        self.jobs.iter().any(Job::changes)
    }

    /// When this job ends.
    pub fn stop_of(&self, job: &Job) -> Stop {
        job.span.stop.unwrap_or(self.stop)
    }

    /// Time before this job's operations are counted, ns.
    pub fn warmup_of(&self, job: &Job) -> u64 {
        job.span.warmup_ns.unwrap_or(self.warmup_ns)
    }

    /// The engine of this job.
    pub fn engine_of<'a>(&'a self, job: &'a Job) -> &'a Engine {
        job.engine.as_ref().unwrap_or(&self.engine)
    }

    /// From the end of the warm-up until the last job has ended, where time ends every job, ns.
    pub fn length_ns(&self) -> Option<u64> {
        if self.stop != Stop::EachJob {
            return self.stop.length_ns();
        }
        let ends = self.jobs.iter().map(|job| {
            let length_ns = self.stop_of(job).length_ns().filter(|_| job.span.after.is_empty())?;
            let end_ns = job.span.delay_ns + self.warmup_of(job) + length_ns;
            Some(end_ns.saturating_sub(self.warmup_ns))
        });
        ends.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Requests in flight over all jobs.
    pub fn depth(&self) -> u64 {
        self.jobs.iter().map(|job| u64::from(job.iodepth)).sum()
    }

    /// Bytes of I/O buffers over all jobs.
    pub fn buffer_bytes(&self) -> u64 {
        self.jobs.iter().map(Job::buffer_bytes).sum()
    }

    /// The plan's identity: SHA-256 over its JSON form, in hexadecimal.
    pub fn hash(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// What is read or written, as the plan sees it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Target {
    /// Path as given, or the directory of an unnamed file.
    pub path: String,
    /// Size in bytes of the part that may be touched, from offset 0.
    pub bytes: u64,
    /// Whether direct I/O (no page cache) is asked for.
    pub direct: bool,
    /// Smallest unit of an offset and a length, bytes.
    pub align_bytes: u64,
}

/// What latency is to be met.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyGoal {
    /// None: every job keeps its depth.
    #[default]
    None,
    /// This one, by a depth over all jobs that is at most the sum of theirs.
    Target {
        /// The quantile and its limit.
        target: LatencyTarget,
        /// How.
        pursuit: Pursuit,
        /// Search: longest look at one depth. Hold: longest time until convergence. ns.
        patience_ns: u64,
    },
}

/// Whether a run ends before its [`Stop`], which is the most it may do then.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PrecisionGoal {
    /// It does not.
    #[default]
    None,
    /// As soon as a figure is known this well, at two looks in a row.
    Known {
        /// The figure, and how well.
        precision: Precision,
        /// Time from one look to the next, ns.
        look_ns: u64,
    },
    /// As soon as the rate is steady over a window of rounds (SNIA PTS 2.0.2, 2.1.24).
    Steady {
        /// Length of a round, ns.
        round_ns: u64,
        /// Rounds at most.
        max: u32,
        /// Rounds of the window.
        window: u32,
        /// Largest range within the window, percent of its mean.
        range_percent: f64,
        /// Largest rise or fall of the fitted line across the window, percent of its mean.
        slope_percent: f64,
    },
    /// As soon as a figure is steady over a rolling window, by fio's rule.
    Settled(Settling),
}

/// What happens after an I/O error that a retry cannot cure.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// Count it and go on.
    Continue,
    /// Count it and end the run.
    Stop,
}
