//! One command on many hosts: the hosts, the start of each by one clock, and how each ended.
//!
//! The records of their runs are separate files in the same folder.

use serde::{Deserialize, Serialize};

/// Name and version of the schema; the version grows with every incompatible change.
pub const HOSTS_SCHEMA: &str = "iosonde.hosts/1";
/// Name of the file in a result folder.
pub const HOSTS: &str = "hosts.json";

/// Everything observed of the hosts of one command, except for their runs.
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
    pub hosts: Vec<HostRun>,
    /// Counters of a server that the hosts share; `None` if not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerRun>,
}

/// The counters of a shared server around each run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ServerRun {
    /// The command that printed them.
    pub command: String,
    /// The runs with counters read before and after, in order.
    pub cells: Vec<ServerCell>,
}

/// The counters of a shared server around one run.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct ServerCell {
    /// Index of the run within the command, from 0.
    pub cell: usize,
    /// When every host was ready, and none had begun.
    pub before: ServerCounters,
    /// When every host had ended the run.
    pub after: ServerCounters,
}

/// Bytes transferred by the disks of a server, since an arbitrary time.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ServerCounters {
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// Observations of one host.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct HostRun {
    /// Name as given by the user.
    pub name: String,
    /// Name as reported by the host.
    pub node: String,
    pub kernel: String,
    /// Its clock relative to the coordinator's.
    pub clock: Option<HostClock>,
    /// Its targets, with identities that can be compared between hosts.
    pub targets: Vec<TargetIdentity>,
    /// Its runs, in order.
    pub cells: Vec<HostCell>,
    /// How it ended.
    pub end: HostEnd,
    /// The last lines that it wrote to its standard error.
    pub said: Vec<String>,
}

/// A host's monotonic clock relative to that of the coordinator, by the shortest round trip.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct HostClock {
    /// What to add to a time of the coordinator to get the host's, ns.
    pub offset_ns: i64,
    /// The round trip, ns: the offset is known to half of it.
    pub round_trip_ns: u64,
}

/// A target of a host, with an identity that can be compared between hosts.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct TargetIdentity {
    /// Path on the host.
    pub path: String,
    /// Equal on two hosts only if both mean the same storage; empty if no other host can use it.
    pub identity: String,
    /// Whether it is written.
    pub writes: bool,
}

/// A run of one host.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct HostCell {
    /// Index of the run within the command, from 0.
    pub cell: usize,
    /// When its measured window opened, on the clock of the coordinator, ns; `None` if not
    /// reported.
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
    /// Contact was lost before the end.
    Lost {
        /// Why, in words.
        why: String,
    },
    /// No end has been reported yet.
    #[default]
    Unknown,
}

impl HostEnd {
    /// Whether the host did everything that was requested.
    pub fn is_done(&self) -> bool {
        matches!(self, HostEnd::Exited { code: 0 | 3 | 7 })
    }
}
