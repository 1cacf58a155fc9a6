//! One command on many hosts: who they were, when each began by one clock, and how each ended.
//!
//! The records of their runs are files of their own beside this one.

use serde::{Deserialize, Serialize};

/// Name and version of the schema; the version grows with every incompatible change.
pub const HOSTS_SCHEMA: &str = "iosonde.hosts/1";
/// Name of the file in a result folder.
pub const HOSTS: &str = "hosts.json";

/// Everything observed of the hosts of one command, beside their runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct HostsRun {
    /// [`HOSTS_SCHEMA`].
    pub schema: String,
    /// Version of the program that wrote it, which is the version on every host.
    pub program: String,
    /// The verb that each host carried out.
    pub verb: String,
    /// How a host was reached: a command with `{host}` and `{command}` in it.
    pub launch: String,
    /// The hosts, as they were named.
    pub hosts: Vec<HostRun>,
    /// What a server that they share counted; `None` where nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerRun>,
}

/// The counters of a shared server around each run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ServerRun {
    /// The command that printed them.
    pub command: String,
    /// The runs before and after which they could be read, in order.
    pub cells: Vec<ServerCell>,
}

/// The counters of a shared server around one run.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct ServerCell {
    /// The place of the run among those of the command, from 0.
    pub cell: usize,
    /// When every host was ready, and none had begun.
    pub before: ServerCounters,
    /// When every host had ended it.
    pub after: ServerCounters,
}

/// Bytes that the disks of a server transferred since some time of its own.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ServerCounters {
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// What was observed of one host.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct HostRun {
    /// As it was named.
    pub name: String,
    /// As it names itself.
    pub node: String,
    pub kernel: String,
    /// Its clock beside ours.
    pub clock: Option<HostClock>,
    /// What it was to use, as it can be recognised from other hosts.
    pub targets: Vec<TargetIdentity>,
    /// Its runs, in order.
    pub cells: Vec<HostCell>,
    /// How it ended.
    pub end: HostEnd,
    /// The last lines that it wrote to its standard error.
    pub said: Vec<String>,
}

/// A host's monotonic clock beside that of the coordinator, by the round trip that was shortest.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct HostClock {
    /// What to add to a time of the coordinator to get the host's, ns.
    pub offset_ns: i64,
    /// The round trip, ns: the offset is known to half of it.
    pub round_trip_ns: u64,
}

/// What a host writes or reads, as it can be recognised from other hosts.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct TargetIdentity {
    /// As the host names it.
    pub path: String,
    /// Equal on two hosts only if both mean the same storage; empty where that cannot be.
    pub identity: String,
    /// Whether it is written.
    pub writes: bool,
}

/// A run of one host.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct HostCell {
    /// Its place among the runs of the command, from 0.
    pub cell: usize,
    /// When its measured window opened, on the clock of the coordinator, ns; `None` where that was
    /// not heard.
    pub opened_ns: Option<u64>,
    /// File of its record, in the same folder.
    pub file: String,
}

/// How a host ended.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "ended")]
pub enum HostEnd {
    /// With this exit code.
    Exited {
        /// The exit code.
        code: u8,
    },
    /// It was not heard of to the end.
    Lost {
        /// Why, in words.
        why: String,
    },
    /// Nothing was heard yet.
    #[default]
    Unknown,
}

impl HostEnd {
    /// Whether it did all that was asked of it.
    pub fn is_done(&self) -> bool {
        matches!(self, HostEnd::Exited { code: 0 | 3 | 7 })
    }
}
