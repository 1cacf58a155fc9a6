//! One run of the verifier: the plan, and everything that was observed. It holds no verdict.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::{DeviceCounters, TargetFacts};
use super::run::{BackendFacts, Outcome, ProcessUse};
use crate::content::classify::{Class, Misfit};
use crate::plan::VerifyPlan;
use iosonde_stats::Histogram;

/// Name and version of the record schema; the version grows with every incompatible change.
pub const VERIFY_SCHEMA: &str = "iosonde.verify/1";

/// Everything observed in one run of the verifier.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct VerifyRun {
    /// [`VERIFY_SCHEMA`].
    pub schema: String,
    /// Version of the program that wrote it.
    pub program: String,
    pub plan: VerifyPlan,
    /// Wall-clock time at the start, ns since 1970.
    pub started_unix_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// From the first operation to the last, ns.
    pub elapsed_ns: u64,
    pub backend: BackendFacts,
    /// Facts about the target, as observed.
    pub target: TargetFacts,
    /// One entry per job of the plan.
    pub jobs: Vec<VerifyJobRun>,
    /// CPU use of the whole process.
    pub process: ProcessUse,
    /// Whether the target was a file without a name, which no longer exists.
    #[serde(default)]
    pub unnamed: bool,
    /// Device counters at start and end.
    pub device: Option<(DeviceCounters, DeviceCounters)>,
    /// Whether the kernel was requested to drop cached pages of the target before the read-back.
    pub cache_dropped: bool,
    /// The ledger that was used, for a check.
    pub ledger: Option<LedgerUse>,
    /// Faults that were injected on request, with their number of occurrences.
    pub injected: Vec<(String, u64)>,
}

/// The ledger used by a check.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LedgerUse {
    /// Its file.
    pub path: String,
    /// When its run began, ns since 1970.
    pub created_unix_ns: u64,
    /// Whether its run ended in order.
    pub ended: bool,
    /// Whether only durable changes were required: power was lost, or may have been.
    pub durable_only: bool,
    /// Remarks on the ledger, for the report.
    pub notes: Vec<String>,
}

/// Observations of one job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct VerifyJobRun {
    /// Operations of the plan's stream that were submitted.
    pub ops: u64,
    /// Leading operations that were all acknowledged.
    pub acked_ops: u64,
    /// Bytes read, reading back included.
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub trimmed_bytes: u64,
    /// Flushes acknowledged.
    pub flushes: u64,
    /// Judged reads of a block with a requirement.
    pub checked: u64,
    /// Of these, reads during a pending change, when several contents were right.
    pub uncertain: u64,
    /// Reads of a block without a requirement.
    pub unrequired: u64,
    /// Blocks changed at least once.
    pub changed_blocks: u64,
    /// Blocks read and judged in the final read-back.
    pub swept_blocks: u64,
    /// Blocks to be read back.
    pub sweep_blocks: u64,
    /// Blocks that could not be read, counted apart from wrong content.
    pub unreadable_blocks: u64,
    /// Blocks with wrong content, by class.
    pub failed_blocks: BTreeMap<Class, u64>,
    /// The first failures in detail.
    pub failures: Vec<Failure>,
    /// Errors by operation and errno.
    pub errors: BTreeMap<String, u64>,
    /// The first error: offset, bytes, errno.
    pub first_error: Option<(u64, u64, String)>,
    /// Short transfers that were continued.
    pub short_transfers: u64,
    /// Most requests in flight.
    pub in_flight_max: u32,
    /// Requests that never completed.
    pub abandoned: u32,
    /// Latency of reads, from before submission, ns.
    pub read_latency: Histogram,
    /// Latency of writes, ns.
    pub write_latency: Histogram,
    /// Latency of flushes, ns.
    pub flush_latency: Histogram,
    /// Time until everything was written and flushed, ns.
    pub churn_ns: u64,
    /// Time of reading everything back, ns.
    pub sweep_ns: u64,
    /// System calls for I/O.
    pub syscalls: u64,
    /// CPU time of the thread, user, ns.
    pub cpu_user_ns: u64,
    /// CPU time of the thread, system, ns.
    pub cpu_system_ns: u64,
    /// About once a second: number of the next operation, and the time, ns since 1970.
    pub marks: Vec<(u64, u64)>,
}

/// One block with wrong content.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Failure {
    /// First byte of the block on the target.
    pub offset: u64,
    /// Job that owns the block.
    pub owner: u16,
    /// Number of the block within that job's part.
    pub block: u64,
    /// Class and details of the damage.
    pub misfit: Misfit,
    /// Lowest generation that was allowed.
    pub low: u32,
    /// Highest generation that was allowed.
    pub high: u32,
    /// The last generation that a flush made durable.
    pub durable: u32,
    /// Number of the operation that read it; `None` in the final read-back.
    pub op: Option<u64>,
    /// Operations that the owner had submitted by then.
    pub after_ops: u64,
    /// When it was read, ns since 1970.
    pub seen_unix_ns: u64,
    /// Result of a second read of the block.
    pub reread: Reread,
}

/// Result of a second read of a failed block.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reread {
    /// There was no second read.
    #[default]
    None,
    /// The same as the first.
    Same,
    /// The required content: the first read was wrong, not the stored data.
    Right,
    /// Other wrong content.
    Other,
}
