//! What is to be watched, and why it cannot be.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// What is to be watched, and how.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The command that is run meanwhile, word by word; it is what is watched unless `attached`
    /// says otherwise.
    pub command: Vec<OsString>,
    /// What runs already and is watched.
    pub attached: Option<Attached>,
    /// Names of disks; none for every disk.
    pub devices: Vec<String>,
    /// The folder whose disk is shown where no disk did anything.
    pub folder: PathBuf,
    /// Time between two looks, ns.
    pub interval_ns: u64,
    /// How long to wait at most for pages that the program left dirty, ns.
    pub settle_ns: u64,
    /// How long to watch, ns, where no command says it.
    pub for_ns: Option<u64>,
    /// Results go into a folder of another user, so that the right to write there is still needed
    /// afterwards.
    pub may_write_later: bool,
    /// The option that has no use where single requests are not seen; none to be content with
    /// counters.
    pub needs_requests: Option<&'static str>,
}

/// What runs already.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Attached {
    /// A process and all that descend from it.
    Process(u32),
    /// The processes of a cgroup, by its path or its name in a hierarchy.
    Cgroup(PathBuf),
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// No such disk.
    #[error("found no block device `{asked}`; there are: {}", known.join(", "))]
    UnknownDevice {
        /// As asked.
        asked: String,
        /// The names of those that hold something.
        known: Vec<String>,
    },
    /// No such process.
    #[error("there is no process {pid} (it may have ended)")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// No such cgroup.
    #[error(
        "found no cgroup `{}`, expected a folder below /sys/fs/cgroup that holds cgroup.procs, or \
         a name as in /proc/PID/cgroup", path.display()
    )]
    NoCgroup {
        /// As asked.
        path: PathBuf,
    },
    /// The command is not there.
    #[error("{command}: {reason}")]
    NotFound {
        /// Its first word.
        command: String,
        /// What is not there.
        reason: &'static str,
    },
    /// The command is there and cannot be executed.
    #[error("{command} cannot be executed: {error}")]
    NotExecutable {
        /// Its first word.
        command: String,
        /// What the kernel says.
        error: io::Error,
    },
    /// What was asked for takes single requests, and they cannot be seen.
    #[error("{option}: single requests cannot be seen ({reason}), and it takes them{}",
        .mend.as_ref().map_or(String::new(), |mend| format!("; {mend}")))]
    NoRequests {
        /// The option.
        option: &'static str,
        /// Why they are not seen.
        reason: String,
        /// What to do about it.
        mend: Option<String>,
    },
    /// The kernel refuses something that watching needs.
    #[error("cannot {what}: {error}")]
    System {
        /// What.
        what: &'static str,
        /// What the kernel says.
        error: io::Error,
    },
    /// The user wants to leave at once.
    #[error("left at once: the second signal within two seconds; nothing is told")]
    Left {
        /// That signal.
        signal: i32,
    },
}

impl WatchError {
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> WatchError {
        move |error| WatchError::System { what, error }
    }
}
