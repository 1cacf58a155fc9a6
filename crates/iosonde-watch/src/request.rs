//! Requests for a profile, and the reasons for a failure.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// What to profile, and how.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The command to run, as arguments; it is profiled unless `attached` is set.
    pub command: Vec<OsString>,
    /// A running process, a cgroup or the machine to profile.
    pub attached: Option<Attached>,
    /// Names of disks; empty for all disks.
    pub devices: Vec<String>,
    /// The directory whose disk is shown if no disk had I/O.
    pub folder: PathBuf,
    /// Sampling interval, ns.
    pub interval_ns: u64,
    /// Longest time to wait for write-back of pages that the program dirtied, ns.
    pub settle_ns: u64,
    /// Whether stacks are taken where requests begin and threads wait.
    pub stacks: bool,
    /// How long to profile, ns, if there is no command.
    pub for_ns: Option<u64>,
    /// Whether results go into another user's directory, so that the right to write there is kept.
    pub may_write_later: bool,
    /// The option that requires tracing of individual requests; `None` if counters suffice.
    pub needs_requests: Option<&'static str>,
}

/// A running target of a profile.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Attached {
    /// A process and all its descendants.
    Process(u32),
    /// The processes of a cgroup, by its path or its name in a hierarchy.
    Cgroup(PathBuf),
    /// Every process of this machine except this one.
    Machine,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// No such disk.
    #[error("no block device `{requested}`; available: {}", known.join(", "))]
    UnknownDevice {
        requested: String,
        /// Names of disks of nonzero size.
        known: Vec<String>,
    },
    /// No such process.
    #[error("no process {pid} (it may have ended)")]
    NoProcess { pid: u32 },
    /// No such cgroup.
    #[error(
        "no cgroup `{}`; expected a directory below /sys/fs/cgroup with a cgroup.procs file, or a \
         name as in /proc/PID/cgroup", path.display()
    )]
    NoCgroup { path: PathBuf },
    /// The command does not exist.
    #[error("{command}: {reason}")]
    NotFound { command: String, reason: &'static str },
    /// The command exists but cannot be executed.
    #[error("{command} cannot be executed: {error}")]
    NotExecutable { command: String, error: io::Error },
    /// The request needs individual requests, which cannot be traced.
    #[error("{option} needs individual requests, which cannot be traced ({reason}){}",
        .fix.as_ref().map_or(String::new(), |fix| format!("; {fix}")))]
    NoRequests { option: &'static str, reason: String, fix: Option<String> },
    /// The kernel refuses something that profiling needs.
    #[error("cannot {what}: {error}")]
    System { what: &'static str, error: io::Error },
    /// The user aborted with a second signal.
    #[error("aborted by a second signal within two seconds; no result")]
    Left { signal: i32 },
}

impl WatchError {
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> WatchError {
        move |error| WatchError::System { what, error }
    }
}
