//! How a role behaves beyond direction and order: sizes, pace, syncs, data, waiting, placement.
//!
//! A plan stores these words unchanged: they leave nothing open. Sizes and times may be written as
//! numbers (bytes, ns) or in words (`64k`, `5s`).

use serde::{Deserialize, Serialize};

use super::Arrivals;
use crate::units;

/// How the size of an operation is drawn, for each way.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sizes {
    pub read: Draw,
    pub write: Draw,
    pub trim: Draw,
}

/// How one size is drawn, bytes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    /// Always the job's block size.
    #[default]
    Block,
    /// Always this.
    Fixed(#[serde(deserialize_with = "units::bytes::deserialize")] u64),
    /// Uniform over the multiples of `step` from `low` to `high`.
    Range {
        /// Smallest, a multiple of `step`.
        #[serde(deserialize_with = "units::bytes::deserialize")]
        low: u64,
        /// Largest, a multiple of `step`.
        #[serde(deserialize_with = "units::bytes::deserialize")]
        high: u64,
        /// Distance of neighbouring sizes.
        #[serde(deserialize_with = "units::bytes::deserialize")]
        step: u64,
    },
    /// Each size with its percentage; the percentages add up to 100.
    Split(Vec<(u64, f64)>),
}

impl Draw {
    /// Smallest and largest size, bytes, where the block size is this.
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
    /// Closed loop: as soon as an earlier one has finished.
    #[default]
    Closed,
    /// Open loop: at this rate, whatever the storage does; latency counts from the due time.
    Rate {
        /// How many per second, and of what.
        rate: Rate,
        /// How the due times are spread.
        arrivals: Arrivals,
    },
    /// Open loop: reads and writes each at a rate of their own, whatever the mix.
    Each {
        read: Rate,
        /// Writes or trims.
        other: Rate,
        /// How the due times are spread.
        arrivals: Arrivals,
    },
    /// Open loop: at these times, ns from the start, ascending; over when the list is.
    Recorded(Vec<u64>),
}

/// A rate of one job.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Operations per second.
    Ops(f64),
    /// Bytes per second.
    Bytes(f64),
}

/// A pause after every so many operations.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Think {
    /// Length of the pause, ns; 0 means none.
    #[serde(deserialize_with = "units::duration::deserialize")]
    pub ns: u64,
    /// Operations handed over between two pauses.
    #[serde(alias = "every-ops")]
    pub every_ops: u64,
    /// Part of the pause for which the processor is kept busy, ns.
    #[serde(deserialize_with = "units::duration::deserialize")]
    pub spin_ns: u64,
    /// Time between two pauses, if that is what counts, ns.
    #[serde(deserialize_with = "units::duration::deserialize")]
    pub every_ns: u64,
}

/// One stretch of time of a job that changes its mind.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Length, ns.
    #[serde(alias = "for", deserialize_with = "units::duration::deserialize")]
    pub ns: u64,
    /// Share of the job's rate, percent; in a closed loop 0 means idle and anything else full.
    #[serde(alias = "rate-percent")]
    pub rate_percent: f64,
    /// Share of reads during it, percent; without it the job's own.
    #[serde(alias = "read-percent", default)]
    pub read_percent: Option<u8>,
    /// Syncs per write during it, percent of the job's own.
    #[serde(alias = "sync-percent", default = "all", skip_serializing_if = "is_all")]
    pub sync_percent: f64,
    /// Commits per sync during it, percent of the job's own.
    #[serde(alias = "commit-percent", default = "all", skip_serializing_if = "is_all")]
    pub commit_percent: f64,
}

impl Phase {
    /// Largest number of syncs per write and of commits per sync, percent of the job's own.
    pub const MOST_PERCENT: f64 = 10_000.0;
}

impl Default for Phase {
    /// One without length that changes nothing.
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

/// When what was written is made durable.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sync {
    /// A sync after every so many writes; 0 means none.
    #[serde(alias = "every-writes")]
    pub every_writes: u64,
    /// So many syncs more in the same number of writes, all of them evenly spread.
    #[serde(alias = "extra-syncs", skip_serializing_if = "is_none")]
    pub extra_syncs: u64,
    /// So many of these writes, evenly spread, are followed by one of these syncs or several; 0
    /// means that as many are as there are syncs, or all.
    #[serde(skip_serializing_if = "is_none")]
    pub followed: u64,
    /// Which call it is.
    pub call: SyncCall,
    /// Group commit: a sync is sent when all writes before it have finished, and nothing is written
    /// until it has.
    pub barrier: bool,
    /// The sync of a group commit is a call of the job's own thread, as a program makes it, also
    /// where io_uring would hand it to a worker thread.
    #[serde(alias = "by-call", skip_serializing_if = "std::ops::Not::not")]
    pub by_call: bool,
    /// Most syncs in flight at once; further ones wait, and writes go on. 0 means no limit.
    #[serde(alias = "in-flight", skip_serializing_if = "is_none")]
    pub in_flight: u64,
    /// What each single write promises.
    #[serde(alias = "each-write")]
    pub each_write: EachWrite,
    /// Whether each write is stored as a whole or not at all (RWF_ATOMIC), even if power fails.
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

/// What a write has done when it is finished.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EachWrite {
    /// The target has accepted it.
    #[default]
    Accepted,
    /// Its data is durable (RWF_DSYNC: O_DSYNC, and FUA where the device has it).
    Dsync,
    /// Its data and metadata are durable (RWF_SYNC).
    Sync,
}

/// Which bytes are written.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// Share of every 4 KiB that compresses away, percent.
    #[serde(alias = "compress-percent")]
    pub compress_percent: u8,
    /// Share of the blocks that repeat an earlier one, percent.
    #[serde(alias = "dedupe-percent")]
    pub dedupe_percent: u8,
    /// What is repeated is drawn from a set of blocks of this size, percent of the region; 0 means
    /// that it is an earlier block.
    #[serde(alias = "set-percent", skip_serializing_if = "is_none")]
    pub set_percent: u8,
    /// Whether all jobs draw from one such set.
    #[serde(alias = "set-shared", skip_serializing_if = "std::ops::Not::not")]
    pub set_shared: bool,
    /// Nothing but zeros.
    pub zeros: bool,
    /// The same bytes again and again, made once before the start.
    pub constant: bool,
    /// This, repeated, instead of all that; empty means none.
    pub pattern: Vec<u8>,
    /// The place decides about the bytes, so that what is read can be compared with what must have
    /// been written, and is.
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

    /// Share of the writes that a sync follows.
    pub fn followed_share(&self) -> f64 {
        match self.followed {
            0 => self.per_write().min(1.0),
            followed => followed as f64 / self.every_writes.max(1) as f64,
        }
    }
}

/// Counts writes, and says how many syncs follow each.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncCount {
    /// Parts of a write that syncs follow, and of a sync, which are due.
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

/// How completions are waited for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reap {
    /// Completions waited for at once, at least.
    #[serde(alias = "complete-min")]
    pub complete_min: u32,
    /// Completions settled at once, at most; 0 means all there are.
    #[serde(alias = "complete-max")]
    pub complete_max: u32,
    /// A full queue is refilled when no more than so many requests are in flight; 0 means as soon
    /// as there is room.
    #[serde(alias = "refill-at")]
    pub refill_at: u32,
    /// Whether the thread sleeps while it waits.
    pub wait: Wait,
    /// Whether handing over and waiting are separate calls, so that the time of submission is known
    /// of every request.
    pub slat: bool,
    /// Whether it is counted how many requests are handed over and come back at once, and how many
    /// are in flight then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub counts: bool,
    /// Whether it is recorded when each request is handed over.
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
    /// In the kernel, until completions are there.
    #[default]
    Event,
    /// Never: it looks again and again.
    Poll,
    /// First about half the mean latency, then it looks again and again.
    Hybrid,
}

/// Where a job's thread and memory are.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Placement {
    /// CPUs the thread may use; empty means that the plan's pinning decides.
    pub cpus: Vec<u32>,
    /// NUMA node of the buffers.
    #[serde(alias = "numa-node")]
    pub numa_node: Option<u32>,
    /// Further nodes of the buffers.
    #[serde(alias = "more-numa-nodes", skip_serializing_if = "Vec::is_empty")]
    pub more_numa_nodes: Vec<u32>,
    /// How the buffers are spread over these nodes.
    #[serde(alias = "numa-mode", skip_serializing_if = "NumaMode::is_bind")]
    pub numa_mode: NumaMode,
    /// Buffers in huge pages, or the run is refused.
    #[serde(alias = "huge-pages")]
    pub huge_pages: bool,
    /// Niceness of the thread; 0 leaves it as it is.
    pub nice: i32,
    /// I/O priority of the thread: class and level, as ioprio_set(2) has them; class 0 leaves it.
    #[serde(alias = "io-priority")]
    pub io_priority: (u8, u8),
}

/// How memory is spread over NUMA nodes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NumaMode {
    /// Only there.
    #[default]
    Bind,
    /// There as long as some is free.
    Prefer,
    /// Page by page in turn.
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
    /// Whether each repetition begins so many blocks further on as there are in the list.
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

/// When a run ends, or one job of it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// After this many nanoseconds of measuring (warm-up not included).
    AfterNs(u64),
    /// When every job has done this many operations.
    AfterOps(u64),
    /// When every job has handed over this many bytes.
    AfterBytes(u64),
    /// After this many nanoseconds of measuring, or when every job has handed over this many bytes,
    /// whichever comes first.
    AfterNsOrBytes(u64, u64),
    /// When every job has covered its region once.
    AfterOnePass,
    /// When every job has come to an end of its own.
    EachJob,
}

impl Stop {
    /// Length of the measurement where time may end it, ns.
    pub fn length_ns(self) -> Option<u64> {
        match self {
            Stop::AfterNs(ns) | Stop::AfterNsOrBytes(ns, _) => Some(ns),
            Stop::AfterOps(_) | Stop::AfterBytes(_) | Stop::AfterOnePass | Stop::EachJob => None,
        }
    }
}

/// When a job begins and ends, where that is not when the run does.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Span {
    /// It begins so long after the others, ns.
    #[serde(alias = "delay", deserialize_with = "units::duration::deserialize")]
    pub delay_ns: u64,
    /// It begins when the jobs of this role have ended; empty means with the run.
    pub after: String,
    /// Its own warm-up, ns.
    pub warmup_ns: Option<u64>,
    /// Its own end.
    pub stop: Option<Stop>,
    /// Its end is that of all jobs.
    pub ends_all: bool,
    /// Its end is that of the jobs with the same `group`.
    pub ends_group: bool,
    /// The group that it is of, where the jobs of a run are of several: reported together, and
    /// ended together where one of them ends its group.
    pub group: u32,
    /// An operation that takes longer ends the run as failed, ns; 0 means none does.
    pub most_latency_ns: u64,
}

/// How a job with several targets chooses the next one.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// In turn, this many operations each.
    #[serde(alias = "round_robin")]
    InTurn(u64),
    /// In turn, one operation each.
    #[default]
    EachInTurn,
    /// At random, for this many operations.
    Random(u64),
    /// One after another, each until its region has been covered.
    Sequential,
}

/// A walk in zones: so many bytes within one, then on to the next.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Strides {
    /// Length of the part of a zone that is used, bytes; 0 means that there are no zones.
    #[serde(deserialize_with = "units::bytes::deserialize")]
    pub range_bytes: u64,
    /// Bytes moved before the walk goes on to the next zone.
    #[serde(deserialize_with = "units::bytes::deserialize")]
    pub zone_bytes: u64,
    /// Bytes between the used parts of two zones.
    #[serde(deserialize_with = "units::bytes::deserialize")]
    pub skip_bytes: u64,
}
