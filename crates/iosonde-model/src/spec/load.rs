//! Properties of a role beyond direction and order: sizes, pace, syncs, data, waiting, placement.
//!
//! A plan stores these types unchanged, since they have no open defaults. Sizes and times may be
//! numbers (bytes, ns) or text (`64k`, `5s`).

use serde::{Deserialize, Serialize};

use super::Arrivals;
use crate::units;

/// Distribution of the operation size, by direction.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sizes {
    pub read: Draw,
    pub write: Draw,
    pub trim: Draw,
}

/// Distribution of one size, bytes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    /// Always the job's block size.
    #[default]
    Block,
    /// Always this size.
    Fixed(#[serde(deserialize_with = "units::bytes::deserialize")] u64),
    /// Uniform over the multiples of `step` from `low` to `high`.
    Range {
        /// Smallest, a multiple of `step`.
        #[serde(deserialize_with = "units::bytes::deserialize")]
        low: u64,
        /// Largest, a multiple of `step`.
        #[serde(deserialize_with = "units::bytes::deserialize")]
        high: u64,
        /// Distance between neighbouring sizes.
        #[serde(deserialize_with = "units::bytes::deserialize")]
        step: u64,
    },
    /// Sizes with their percentages, which add up to 100.
    Split(Vec<(u64, f64)>),
}

impl Draw {
    /// Smallest and largest size, bytes, for this block size.
    pub(crate) fn range(&self, block_bytes: u64) -> (u64, u64) {
        match self {
            Draw::Block => (block_bytes, block_bytes),
            Draw::Fixed(bytes) => (*bytes, *bytes),
            Draw::Range { low, high, .. } => (*low, *high),
            Draw::Split(shares) => {
                let sizes = || shares.iter().map(|(bytes, _)| *bytes);
                (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
            }
        }
    }
}

/// When operations are due.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Closed loop: as soon as an earlier operation has completed.
    #[default]
    Closed,
    /// Open loop at this rate, independent of the storage; latency counts from the due time.
    Rate { rate: Rate, arrivals: Arrivals },
    /// Open loop with separate rates of reads and writes, independent of the mix.
    Each {
        read: Rate,
        /// Writes or trims.
        other: Rate,
        arrivals: Arrivals,
    },
    /// Open loop at these due times, ns from the start, ascending; the job ends with the list.
    Recorded(Vec<u64>),
}

/// The rate of a job.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Operations per second.
    Ops(f64),
    /// Bytes per second.
    Bytes(f64),
}

/// A pause after a number of operations or a time.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Think {
    /// Length of the pause, ns; 0 means none.
    #[serde(deserialize_with = "units::duration::deserialize")]
    pub ns: u64,
    /// Operations submitted between two pauses.
    #[serde(alias = "every-ops")]
    pub every_ops: u64,
    /// Part of the pause during which the CPU is kept busy, ns.
    #[serde(deserialize_with = "units::duration::deserialize")]
    pub spin_ns: u64,
    /// Time between two pauses, if it replaces the count, ns.
    #[serde(deserialize_with = "units::duration::deserialize")]
    pub every_ns: u64,
}

/// A period of a job with its own rate and mix.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Length, ns.
    #[serde(alias = "for", deserialize_with = "units::duration::deserialize")]
    pub ns: u64,
    /// Share of the job's rate, percent; in a closed loop 0 means idle, other values full rate.
    #[serde(alias = "rate-percent")]
    pub rate_percent: f64,
    /// Share of reads in the phase, percent; the job's own if absent.
    #[serde(alias = "read-percent", default)]
    pub read_percent: Option<u8>,
    /// Syncs per write in the phase, percent of the job's own.
    #[serde(alias = "sync-percent", default = "all", skip_serializing_if = "is_all")]
    pub sync_percent: f64,
    /// Commits per sync in the phase, percent of the job's own.
    #[serde(alias = "commit-percent", default = "all", skip_serializing_if = "is_all")]
    pub commit_percent: f64,
}

impl Phase {
    /// Largest number of syncs per write and of commits per sync, percent of the job's own.
    pub const MOST_PERCENT: f64 = 10_000.0;
}

impl Default for Phase {
    /// A phase of length 0 that changes nothing.
    fn default() -> Phase {
        Phase {
            ns: 0,
            rate_percent: all(),
            read_percent: None,
            sync_percent: all(),
            commit_percent: all(),
        }
    }
}

fn all() -> f64 {
    100.0
}

fn is_all(percent: &f64) -> bool {
    *percent == all()
}

/// When written data is made durable.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sync {
    /// One sync per this many writes; 0 means no syncs.
    #[serde(alias = "every-writes")]
    pub every_writes: u64,
    /// Further syncs within `every_writes` writes; all are evenly spread.
    #[serde(alias = "extra-syncs", skip_serializing_if = "is_none")]
    pub extra_syncs: u64,
    /// Number of these writes that syncs follow, evenly spread, one or several each; 0 means as
    /// many as there are syncs, or all.
    #[serde(skip_serializing_if = "is_none")]
    pub followed: u64,
    pub call: SyncCall,
    /// Group commit: a sync is sent when all writes before it have completed, and the next write
    /// waits for its completion.
    pub barrier: bool,
    /// Whether the job's own thread makes the sync of a group commit as a system call, as programs
    /// do, even if io_uring would pass it to a worker thread.
    #[serde(alias = "by-call", skip_serializing_if = "std::ops::Not::not")]
    pub by_call: bool,
    /// Most syncs in flight at once; further ones wait, and writes go on. 0 means no limit.
    #[serde(alias = "in-flight", skip_serializing_if = "is_none")]
    pub in_flight: u64,
    /// Durability of each write.
    #[serde(alias = "each-write")]
    pub each_write: EachWrite,
    /// Whether each write is stored entirely or not at all (RWF_ATOMIC), even on power failure.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub atomic: bool,
}

/// The call that makes data durable.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncCall {
    /// Data, and the metadata needed to read it back.
    #[default]
    Fdatasync,
    /// Data and all metadata.
    Fsync,
}

/// State of a write's data at its completion.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EachWrite {
    /// The target has accepted it.
    #[default]
    Accepted,
    /// Its data is durable (RWF_DSYNC: O_DSYNC, or FUA if the device supports it).
    Dsync,
    /// Its data and metadata are durable (RWF_SYNC).
    Sync,
}

/// Content of the written data.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// Compressible share of every 4 KiB, percent.
    #[serde(alias = "compress-percent")]
    pub compress_percent: u8,
    /// Share of the blocks that repeat an earlier one, percent.
    #[serde(alias = "dedupe-percent")]
    pub dedupe_percent: u8,
    /// Size of the set of blocks from which repeats are drawn, percent of the region; 0 means that
    /// an earlier block is repeated.
    #[serde(alias = "set-percent", skip_serializing_if = "is_none")]
    pub set_percent: u8,
    /// Whether all jobs share this set.
    #[serde(alias = "set-shared", skip_serializing_if = "std::ops::Not::not")]
    pub set_shared: bool,
    /// Whether all bytes are zero.
    pub zeros: bool,
    /// Whether every write has the same bytes, generated once before the start.
    pub constant: bool,
    /// A repeated pattern instead of all of the above; empty means none.
    pub pattern: Vec<u8>,
    /// Whether the offset determines the content, so that reads are verified against the data that
    /// must have been written.
    pub checked: bool,
}

fn is_none<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

impl Sync {
    /// Syncs per write, on average; 0 without syncs.
    pub fn per_write(&self) -> f64 {
        match self.every_writes {
            0 => 0.0,
            writes => (1 + self.extra_syncs) as f64 / writes as f64,
        }
    }

    /// Share of the writes that syncs follow.
    pub fn followed_share(&self) -> f64 {
        match self.followed {
            0 => self.per_write().min(1.0),
            followed => followed as f64 / self.every_writes.max(1) as f64,
        }
    }
}

/// Distributes the syncs over the writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncCount {
    /// Fractions carried over: of a write that syncs follow, and of a sync.
    writes: u64,
    syncs: u64,
}

impl SyncCount {
    /// Syncs that follow the next write.
    #[inline]
    pub fn after_write(&mut self, sync: &Sync) -> u64 {
        if sync.every_writes == 0 {
            return 0;
        }
        let syncs = 1 + sync.extra_syncs;
        let followed = if sync.followed == 0 { syncs } else { sync.followed };
        self.writes += followed;
        self.syncs += self.writes / sync.every_writes * syncs;
        self.writes %= sync.every_writes;
        let due = self.syncs / followed;
        self.syncs %= followed;
        due
    }
}

/// How a job waits for completions.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reap {
    /// Fewest completions to wait for.
    #[serde(alias = "complete-min")]
    pub complete_min: u32,
    /// Most completions to process at once; 0 means all available.
    #[serde(alias = "complete-max")]
    pub complete_max: u32,
    /// A full queue is refilled when at most this many requests are in flight; 0 means as soon as a
    /// slot is free.
    #[serde(alias = "refill-at")]
    pub refill_at: u32,
    pub wait: Wait,
    /// Whether submission and waiting are separate calls, to time every submission.
    pub slat: bool,
    /// Whether to count the requests per submission and per completion, and those in flight.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub counts: bool,
    /// Whether to record the submission time of each request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub times: bool,
}

impl Default for Reap {
    fn default() -> Reap {
        Reap {
            complete_min: 1,
            complete_max: 0,
            refill_at: 0,
            wait: Wait::Event,
            slat: false,
            counts: false,
            times: false,
        }
    }
}

/// Whether a thread sleeps while it waits.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Sleeps in the kernel until completions arrive.
    #[default]
    Event,
    /// Never sleeps: polls continuously.
    Poll,
    /// Sleeps for about half the mean latency, then polls continuously.
    Hybrid,
}

/// Placement and priority of a job's thread and memory.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Placement {
    /// CPUs the thread may use; if empty, the plan's pinning decides.
    pub cpus: Vec<u32>,
    /// NUMA node of the buffers.
    #[serde(alias = "numa-node")]
    pub numa_node: Option<u32>,
    /// Further nodes of the buffers.
    #[serde(alias = "more-numa-nodes", skip_serializing_if = "Vec::is_empty")]
    pub more_numa_nodes: Vec<u32>,
    /// How the buffers are distributed over these nodes.
    #[serde(alias = "numa-mode", skip_serializing_if = "NumaMode::is_bind")]
    pub numa_mode: NumaMode,
    /// Whether the buffers must be in huge pages; the run fails without them.
    #[serde(alias = "huge-pages")]
    pub huge_pages: bool,
    /// Niceness of the thread; 0 leaves it unchanged.
    pub nice: i32,
    /// Class and level of the thread's I/O priority (ioprio_set(2)); class 0 leaves it unchanged.
    #[serde(alias = "io-priority")]
    pub io_priority: (u8, u8),
}

/// NUMA memory policy.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NumaMode {
    /// Only these nodes.
    #[default]
    Bind,
    /// These nodes while they have free memory.
    Prefer,
    /// Page by page, in turn.
    Interleave,
}

impl NumaMode {
    fn is_bind(&self) -> bool {
        *self == NumaMode::Bind
    }
}

/// Blocks in a given order.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sequence {
    /// Indexes of blocks within the region.
    pub blocks: Vec<u32>,
    /// Whether each repetition is shifted by the length of the list, in blocks.
    pub advances: bool,
}

/// A part of a region and its share of the operations.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Zone {
    /// Share of the operations, percent.
    #[serde(alias = "access-percent")]
    pub access_percent: f64,
    /// Share of the region, percent.
    #[serde(alias = "size-percent")]
    pub size_percent: f64,
}

/// When a run or one of its jobs ends.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// After this many nanoseconds of measurement (without warm-up).
    AfterNs(u64),
    /// When every job has done this many operations.
    AfterOps(u64),
    /// When every job has submitted this many bytes.
    AfterBytes(u64),
    /// After this many nanoseconds of measurement, or when every job has submitted this many bytes,
    /// whichever comes first.
    AfterNsOrBytes(u64, u64),
    /// When every job has covered its region once.
    AfterOnePass,
    /// When every job has reached its own end.
    EachJob,
}

impl Stop {
    /// Length of the measurement if time can end it, ns.
    pub fn length_ns(self) -> Option<u64> {
        match self {
            Stop::AfterNs(ns) | Stop::AfterNsOrBytes(ns, _) => Some(ns),
            Stop::AfterOps(_) | Stop::AfterBytes(_) | Stop::AfterOnePass | Stop::EachJob => None,
        }
    }
}

/// Start and end of a job, if they differ from those of the run.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Span {
    /// Start delay after the other jobs, ns.
    #[serde(alias = "delay", deserialize_with = "units::duration::deserialize")]
    pub delay_ns: u64,
    /// The job starts when the jobs of this role have ended; if empty, with the run.
    pub after: String,
    /// Its own warm-up, ns.
    pub warmup_ns: Option<u64>,
    /// Its own end.
    pub stop: Option<Stop>,
    /// Whether its end ends all jobs.
    pub ends_all: bool,
    /// Whether its end ends the jobs of the same `group`.
    pub ends_group: bool,
    /// Its group, if the run has several. The jobs of a group are reported together, and end
    /// together if one of them has `ends_group`.
    pub group: u32,
    /// An operation with a larger latency fails the run, ns; 0 means no limit.
    pub most_latency_ns: u64,
}

/// How a job with several targets selects the next one.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Round robin, this many operations each.
    #[serde(alias = "round_robin")]
    InTurn(u64),
    /// Round robin, one operation each.
    #[default]
    EachInTurn,
    /// At random, this many operations at a time.
    Random(u64),
    /// One target after another, each until its region is covered.
    Sequential,
}

/// A walk in zones: a number of bytes within one zone, then the next zone.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Strides {
    /// Length of the used part of a zone, bytes; 0 means no zones.
    #[serde(deserialize_with = "units::bytes::deserialize")]
    pub range_bytes: u64,
    /// Bytes transferred before the walk moves to the next zone.
    #[serde(deserialize_with = "units::bytes::deserialize")]
    pub zone_bytes: u64,
    /// Bytes between the used parts of neighbouring zones.
    #[serde(deserialize_with = "units::bytes::deserialize")]
    pub skip_bytes: u64,
}
