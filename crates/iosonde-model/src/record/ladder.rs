//! Observations of the fsync ladder: every sync, and every flush that the devices counted.

use serde::{Deserialize, Serialize};

use super::facts::TargetFacts;
use super::run::Outcome;
use crate::plan::ladder::{Call, LadderPlan};

/// Name and version of the record's schema.
pub const LADDER_SCHEMA: &str = "iosonde.ladder/1";

/// One execution of the ladder.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LadderRun {
    /// [`LADDER_SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub program: String,
    pub plan: LadderPlan,
    /// Start, ns since 1970.
    pub started_unix_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    pub target: TargetFacts,
    /// The devices that a flush passes, downwards from the one below the target.
    pub layers: Vec<FlushLayer>,
    /// Whether the kernel has a device mapper.
    pub device_mapper: bool,
    /// All syncs in order of time.
    pub samples: Vec<SyncSample>,
    /// The failed call that ended the ladder.
    pub failed: Option<FailedCall>,
}

/// A block device that a flush passes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct FlushLayer {
    /// Kernel name of the whole disk.
    pub name: String,
    /// Number of devices above it.
    pub depth: u32,
    /// `write back` or `write through`, as reported by the kernel.
    pub write_cache: Option<String>,
    /// Why the kernel does not count its flushes; `None` if it does.
    pub uncounted: Option<String>,
    /// Rotational flag.
    pub rotational: Option<bool>,
    /// Whether it is a virtual disk.
    pub is_virtual: Option<bool>,
    /// Why the devices below it are unknown, although it has some.
    pub below_unseen: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SyncSample {
    /// Its round, from 0.
    pub round: u32,
    pub call: Call,
    /// Bytes written since the sync before it.
    pub dirty_bytes: u64,
    /// Duration of the writes, ns.
    pub write_ns: u64,
    /// Start of the call, ns since the first write of the ladder.
    pub at_ns: u64,
    /// Duration of the call, ns.
    pub sync_ns: u64,
    /// Flushes counted by each layer before and after the call, where it counts them.
    pub flushes: Vec<Option<(u64, u64)>>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FailedCall {
    /// `write`, `fsync`, `fdatasync`.
    pub call: String,
    /// Name of the error (`EIO`).
    pub error: String,
    /// Bytes written since the last sync that did not fail.
    pub dirty_bytes: u64,
}
