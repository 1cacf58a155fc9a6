//! What exactly a run will do. A plan is total: no open defaults, bytes and nanoseconds throughout.
//!
//! This module is pure: a plan resolves in a unit test against an invented target. A plan can be
//! refused, printed and hashed, and every record stores it in full.

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

// Types of a workload without open defaults, which a plan stores unchanged.
pub use crate::spec::engine::{Engine, EngineKind};
pub use crate::spec::{
    Arrivals, Bursts, Commit, Data, Direction, Draw, EachWrite, Flow, LatencyTarget, Limits,
    Metric, NumaMode, Pace, Phase, Placement, Precision, Pursuit, Rate, Reap, Sequence, Service,
    Settling, SettlingFigure, Sizes, Span, Stop, Strides, Sync, SyncCall, SyncCount, Think, Wait,
    Zone,
};

/// Everything that one run will do.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Plan {
    /// Workload identifier.
    pub name: String,
    /// Workload title, for tables.
    pub title: String,
    /// Access pattern in words, for tables.
    pub pattern: String,
    /// Nominal operation size in bytes, for tables; the jobs have the actual ones.
    pub nominal_block_bytes: u64,
    /// Nominal share of reads in percent of operations.
    pub nominal_read_percent: u8,
    /// The I/O engine.
    pub engine: Engine,
    /// At least one; operations refer to a target by index.
    pub targets: Vec<Target>,
    /// Seed from which every job's seed was drawn.
    pub seed: u64,
    /// Initial time whose operations are not counted, ns.
    pub warmup_ns: u64,
    /// When the run ends.
    pub stop: Stop,
    #[serde(default)]
    pub latency: LatencyGoal,
    /// Criterion that may end the run before `stop`.
    #[serde(default)]
    pub until: PrecisionGoal,
    /// Reaction to an I/O error.
    pub on_error: OnError,
    /// Whether the run ends with one timed fsync (writing plans only).
    pub final_sync: bool,
    /// Width of a counter interval, ns.
    pub interval_ns: u64,
    /// Counter intervals per latency-histogram interval.
    pub intervals_per_histogram: u32,
    /// Whether each job is pinned to one CPU; CPUs are assigned in turn.
    pub pinned: bool,
    /// Deviations from the request and additions to it, in words (`depth lowered to 8: …`).
    pub notes: Vec<String>,
    /// The jobs: one thread and one queue each.
    pub jobs: Vec<Job>,
}

impl Plan {
    /// The first target, which represents all in headings.
    ///
    /// # Panics
    /// If the plan has no target, which [`resolve`] never returns.
    pub fn target(&self) -> &Target {
        &self.targets[0]
    }

    /// Whether any job modifies stored data by writes or trims.
    pub fn writes(&self) -> bool {
        self.jobs.iter().any(Job::changes)
    }

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

    /// Time from the end of the warm-up to the end of the last job, if time ends every job, ns.
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

    /// Total size of the I/O buffers of all jobs, bytes.
    pub fn buffer_bytes(&self) -> u64 {
        self.jobs.iter().map(Job::buffer_bytes).sum()
    }

    /// Identity of the plan: SHA-256 of its JSON form, in hexadecimal.
    pub fn hash(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A target of a plan.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Target {
    /// Path as given, or the directory of an unnamed file.
    pub path: String,
    /// Size of the part that may be accessed, from offset 0, bytes.
    pub bytes: u64,
    /// Whether direct I/O (no page cache) is requested.
    pub direct: bool,
    /// Alignment of offsets and lengths, bytes.
    pub align_bytes: u64,
}

/// The latency goal of a run.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyGoal {
    /// No goal: every job keeps its depth.
    #[default]
    None,
    /// A latency target. The total depth of all jobs is adjusted, up to the sum of theirs.
    Target {
        target: LatencyTarget,
        pursuit: Pursuit,
        /// Search: longest measurement of one depth. Hold: longest time until convergence. ns.
        patience_ns: u64,
    },
}

/// A criterion that ends a run before its [`Stop`], which is then the maximum.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PrecisionGoal {
    #[default]
    None,
    /// Ends when a figure has the required precision at two successive checks.
    Known {
        /// The figure and its required precision.
        precision: Precision,
        /// Time between two checks, ns.
        look_ns: u64,
    },
    /// Ends when the rate is steady over a window of rounds (SNIA PTS 2.0.2, 2.1.24).
    Steady {
        /// Length of a round, ns.
        round_ns: u64,
        /// Most rounds.
        max: u32,
        /// Rounds of the window.
        window: u32,
        /// Largest range within the window, percent of its mean.
        range_percent: f64,
        /// Largest rise or fall of the fitted line across the window, percent of its mean.
        slope_percent: f64,
    },
    /// Ends when a figure is steady over a rolling window, by fio's rule.
    Settled(Settling),
}

/// Reaction to an I/O error that a retry cannot fix.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// Count it and continue.
    Continue,
    /// Count it and end the run.
    Stop,
}
