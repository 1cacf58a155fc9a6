//! What to profile, and why it is not possible.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// What to profile, and how.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The command to run, as arguments; it is profiled unless `attached` is set.
    pub command: Vec<OsString>,
    /// What runs already and is to be profiled.
    pub attached: Option<Attached>,
    /// Names of disks; empty for every disk.
    pub devices: Vec<String>,
    /// The directory whose disk is shown if no disk had I/O.
    pub folder: PathBuf,
    /// Sampling interval, ns.
    pub interval_ns: u64,
    /// Longest time to wait for pages that the program left dirty, ns.
    pub settle_ns: u64,
    /// Whether the stacks at which requests begin and threads wait are taken.
    pub stacks: bool,
    /// How long to profile, ns, if there is no command.
    pub for_ns: Option<u64>,
    /// Results go into a directory of another user, so the right to write there is still needed
    /// afterwards.
    pub may_write_later: bool,
    /// The option that needs individual requests; `None` if counters suffice.
    pub needs_requests: Option<&'static str>,
}

/// What runs already.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Attached {
    /// A process and all its descendants.
    Process(u32),
    /// The processes of a cgroup, by its path or its name in a hierarchy.
    Cgroup(PathBuf),
    /// Every process of this machine but our own.
    Machine,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// No such disk.
    #[error("no block device `{requested}`; available: {}", known.join(", "))]
    UnknownDevice {
        requested: String,
        /// The names of disks that contain something.
        known: Vec<String>,
    },
    /// No such process.
    #[error("no process {pid} (it may have ended)")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// No such cgroup.
    #[error(
        "no cgroup `{}`; expected a directory below /sys/fs/cgroup with a cgroup.procs file, or a \
         name as in /proc/PID/cgroup", path.display()
    )]
    NoCgroup {
        /// As requested.
        path: PathBuf,
    },
    /// The command does not exist.
    #[error("{command}: {reason}")]
    NotFound {
        /// Its first word.
        command: String,
        /// What does not exist.
        reason: &'static str,
    },
    /// The command exists but cannot be executed.
    #[error("{command} cannot be executed: {error}")]
    NotExecutable {
        /// Its first word.
        command: String,
        /// The error of the kernel.
        error: io::Error,
    },
    /// The request needs individual requests, which cannot be traced.
    #[error("{option} needs individual requests, which cannot be traced ({reason}){}",
        .fix.as_ref().map_or(String::new(), |fix| format!("; {fix}")))]
    NoRequests {
        option: &'static str,
        /// Why they cannot be traced.
        reason: String,
        /// How to fix it.
        fix: Option<String>,
    },
    /// The kernel refuses something that profiling needs.
    #[error("cannot {what}: {error}")]
    System {
        what: &'static str,
        /// The error of the kernel.
        error: io::Error,
    },
    /// The user aborted.
    #[error("aborted by a second signal within two seconds; no result")]
    Left { signal: i32 },
}

impl WatchError {
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> WatchError {
        move |error| WatchError::System { what, error }
    }
}
