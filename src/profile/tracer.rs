//! Every request, by programs at the block layer's tracepoints: the figures of
//! [`crate::record::profile`] from the kernel's maps.

use std::collections::BTreeMap;

use crate::host::Root;
use crate::record::profile::{
    CallCounts, CgroupRun, Depth, FileRun, Group, Missing, OpenCounts, Places, Source, SyncRun,
    ThreadRun, Traffic, TrafficSeries,
};

/// What is to be traced.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Major and minor numbers of whole disks; empty for every disk.
    pub devices: Vec<(u32, u32)>,
}

/// Attached programs, and what they have told so far.
#[derive(Debug)]
pub struct Tracer {
    _private: (),
}

/// Everything that the programs told.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// Major and minor number of each whole disk with traffic, its kernel name, its depth by
    /// everybody and by the program.
    pub devices: Vec<TracedDevice>,
    /// See [`crate::record::ProfileRun::traffic`], and so on for the others.
    pub traffic: Vec<Traffic>,
    /// Thread groups.
    pub groups: Vec<Group>,
    /// Threads.
    pub threads: Vec<ThreadRun>,
    /// Files.
    pub files: Vec<FileRun>,
    /// Cgroups.
    pub cgroups: Vec<CgroupRun>,
    /// Syncs.
    pub syncs: Vec<SyncRun>,
    /// Opens.
    pub opens: Option<OpenCounts>,
    /// Calls of processes that have ended.
    pub calls: Option<CallCounts>,
    /// Places.
    pub places: Vec<Places>,
    /// Series.
    pub series: Vec<TrafficSeries>,
    /// Time in the kernel programs and their calls.
    pub kernel_programs: Option<(u64, u64)>,
    /// What was lost.
    pub lost: BTreeMap<String, u64>,
}

/// One disk.
#[derive(Clone, Debug, Default)]
pub struct TracedDevice {
    /// Major and minor number.
    pub number: (u32, u32),
    /// Kernel name.
    pub name: String,
    /// Everybody's requests in flight.
    pub depth: Depth,
    /// The program's requests in flight.
    pub program_depth: Depth,
}

impl Tracer {
    /// Loads and attaches the programs. Needs CAP_BPF and CAP_PERFMON, and a kernel with BTF.
    ///
    /// # Errors
    /// What is missing, why, and how to get it; nothing is attached then.
    pub fn attach(_root: &Root, _wanted: &Wanted) -> Result<Tracer, Missing> {
        Err(Missing { what: "requests".into(), reason: "not built yet".into(), mend: None })
    }

    /// The method, the attribution, and each program with its fate.
    pub fn source(&self) -> Source {
        Source::default()
    }

    /// Follows a process and all children that it will have.
    ///
    /// # Errors
    /// In words, if the kernel's table takes no more.
    pub fn follow(&mut self, _pid: u32) -> Result<(), String> {
        Ok(())
    }

    /// The clock's zero: the command is released now. CLOCK_MONOTONIC, ns.
    pub fn begin(&mut self, _now_ns: u64) {}

    /// To be called about once a second: keeps the interval, and makes room in the kernel's tables.
    pub fn poll(&mut self, _now_ns: u64) {}

    /// Pages that followed processes have dirtied and that are not yet written, bytes, if known.
    pub fn dirty_bytes(&self) -> Option<u64> {
        None
    }

    /// Detaches, and tells everything.
    pub fn finish(self, _now_ns: u64) -> Traced {
        Traced::default()
    }
}
