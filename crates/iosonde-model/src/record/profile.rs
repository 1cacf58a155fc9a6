//! I/O of a program: everything observed while it ran. Raw: no rate, share or percentile, and no
//! verdict.

mod calls;
mod file_systems;
mod places;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::{DeviceCounters, DeviceFacts, HostFacts, TelemetrySample};
use super::run::{CounterSeries, HistogramSeries, ProcessUse};
use super::stacks::StackRun;
use iosonde_stats::Histogram;

pub use calls::{CallCounts, OpenCounts, PageCache, SyncKind, SyncPhases, SyncRun};
pub use file_systems::{FileSystemRun, FileSystemWork};
pub use places::{Chunk, Places};

/// Name and version of the record schema; the version grows with every incompatible change.
pub const PROFILE_SCHEMA: &str = "iosonde.profile/1";

/// Everything observed while a program was watched.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ProfileRun {
    /// [`PROFILE_SCHEMA`].
    pub schema: String,
    /// Version of the program that wrote it.
    pub program: String,
    pub subject: Subject,
    pub ended: Ended,
    /// Wall-clock start, ns since 1970.
    pub started_unix_ns: u64,
    /// From the release of the command (or from attaching) to its end, ns. The record covers this
    /// time only, except for write-back during `settle_ns`.
    pub measured_ns: u64,
    /// Time that the kernel was traced afterwards for dirty pages of the program, ns.
    pub settle_ns: u64,
    /// Why dirty pages of the program may have been written where nothing was traced, if so.
    pub unwatched: Option<String>,
    /// The machine.
    pub host: HostFacts,
    pub source: Source,
    /// Devices, those with traffic of the program first.
    pub devices: Vec<ProfiledDevice>,
    /// Requests by device, class, operation and thread group. Empty without `Method::Tracepoints`.
    pub traffic: Vec<Traffic>,
    /// Reads and writes by their flags, of the program and of journals; empty in records of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<FlagRun>,
    /// Threads by name. Entry 0 holds all that did not fit into the table.
    pub groups: Vec<Group>,
    /// Threads that did I/O or syncs, of the program and of the kernel, the busiest first.
    pub threads: Vec<ThreadRun>,
    /// Files of the program, the busiest first.
    pub files: Vec<FileRun>,
    /// Cgroups with traffic, the busiest first.
    pub cgroups: Vec<CgroupRun>,
    /// Calls that make data durable, by kind and thread group.
    pub syncs: Vec<SyncRun>,
    /// How files were opened; `None` if not observed.
    pub opens: Option<OpenCounts>,
    /// Read and write calls of the program; `None` if not observed.
    pub calls: Option<CallCounts>,
    /// Page cache use of read calls; `None` if not observed.
    pub page_cache: Option<PageCache>,
    /// Work of file systems, in the order of [`FileSystemWork::ALL`]; empty in earlier records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_systems: Vec<FileSystemRun>,
    /// Offsets on the devices that the program read and wrote.
    pub places: Vec<Places>,
    /// Requests of the program per interval, by operation, with their latencies.
    pub series: Vec<TrafficSeries>,
    /// CPU time and context switches of the program and the children it has waited for.
    pub cpu: Option<ProcessUse>,
    /// Time the program's tasks waited for block I/O, ns: from delay accounting or, if the kernel
    /// has none, from our kernel programs; `None` without both.
    pub io_delay_ns: Option<u64>,
    /// Time the program's tasks were runnable but had no CPU, ns; `None` if not accounted, and in
    /// earlier records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// Machine telemetry, once per interval.
    pub telemetry: Vec<TelemetrySample>,
    /// Context switches of the whole machine at start and end; `None` where not reported.
    pub machine_switches: Option<(u64, u64)>,
    /// Stacks at which requests began and threads waited, the heaviest of each kind first; empty
    /// unless requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackRun>,
    /// CPU time of this collector itself over the same time.
    pub collector: ProcessUse,
    /// Lost events, by what was lost; empty if none were.
    pub lost: BTreeMap<String, u64>,
}

impl ProfileRun {
    /// Reason for [`ProfileRun::unwatched`] if disks were selected.
    pub const SELECTED: &str = "only the selected disks were traced";
}

/// What was profiled.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "subject")]
pub enum Subject {
    /// A command that was started for the profile, and its children.
    Command {
        /// The command and its arguments.
        words: Vec<String>,
        /// Its process id.
        pid: u32,
    },
    /// A running process, and its children.
    Process {
        /// Its process id.
        pid: u32,
        /// Its command line, as far as it could be read.
        words: Vec<String>,
    },
    /// The processes of a cgroup.
    Cgroup { path: String },
    /// Every process of the machine but the profiler.
    Machine,
}

impl Default for Subject {
    fn default() -> Self {
        Subject::Command { words: Vec::new(), pid: 0 }
    }
}

/// How profiling ended.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "ended")]
pub enum Ended {
    /// The command exited.
    Exited {
        /// Exit code.
        code: i32,
    },
    /// The command was killed.
    Killed { signal: i32 },
    /// The time limit was reached.
    #[default]
    TimeUp,
    /// The attached process or cgroup ended.
    Gone,
    /// The user ended it from its live view.
    Stopped,
    /// The user interrupted the profiler.
    Interrupted { signal: i32 },
}

/// Where the figures come from, and what they cannot show.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Source {
    /// How data was collected.
    pub method: Method,
    /// The event at which a request is attributed to a thread (`block_io_start`,
    /// `block_rq_insert`, `block_rq_issue`); empty without tracepoints.
    pub attribution: String,
    /// All kernel programs, and why those that are not attached are not.
    pub programs: Vec<KernelProgram>,
    /// Missing figures: why, and how to get them.
    pub missing: Vec<Missing>,
}

/// How data was collected.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every request, by programs at the block layer's tracepoints.
    Tracepoints,
    /// Sums only: counters of the process and of the devices, as `/proc` and `/sys` show them.
    #[default]
    Counters,
}

/// A kernel program for a tracepoint.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct KernelProgram {
    pub tracepoint: String,
    /// Why it is not attached; `None` if it is.
    pub refused: Option<String>,
}

/// Figures that could not be observed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Missing {
    /// The figures concerned (`latency`, `syncs by io_uring`).
    pub what: String,
    /// Why.
    pub reason: String,
    /// How to get the figures, if possible.
    #[serde(alias = "mend")]
    pub fix: Option<String>,
}

/// A device of the profile.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ProfiledDevice {
    /// Facts about the device. `facts.name` is that of the whole disk.
    pub facts: DeviceFacts,
    /// Names of the disks below it, at any depth: of a volume, or of the file of a loop device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beneath: Vec<String>,
    /// Why its requests are not visible, if so (a device without a request queue).
    pub invisible: Option<String>,
    /// The kernel's own counters of the whole disk at start and end (settling included).
    pub counters: Option<(DeviceCounters, DeviceCounters)>,
    /// The same counters, read after tracing began and before it ended. Requests that only the
    /// other pair counts may or may not have been traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters_within: Option<(DeviceCounters, DeviceCounters)>,
    /// The same counters at the end of the profiled program, before settling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters_at_end: Option<DeviceCounters>,
    /// Requests in flight, of all origins.
    pub depth: Depth,
    /// Requests of the program in flight (its own, and write-back of its pages).
    pub program_depth: Depth,
}

/// Requests in flight, from the first observed request to the end.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Depth {
    /// `(level, ns)`: time at each level, ascending; from 64 on, levels are lower edges of
    /// log-linear buckets.
    pub time_ns: Vec<(u32, u64)>,
    /// `(level, requests)`: requests that found this many in flight on arrival, ascending.
    pub arrivals: Vec<(u32, u64)>,
    /// Highest level.
    pub max: u32,
    /// Request-nanoseconds: the sum of the latencies of all requests that ended.
    pub area_ns: u64,
}

words! {
    /// On whose behalf a request was made, in the order of reports.
    #[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Class {
        /// A thread of the program itself.
        #[default]
        Program,
        /// Write-back of the program's dirty pages by another thread (a kernel thread, another
        /// program's `sync`).
        WriteBack,
        /// The file system's journal and metadata, by a kernel thread on behalf of all programs.
        Journal,
        /// Flushes of the device's cache by the block layer: one may serve several waiting
        /// requests.
        DeviceFlush,
        /// On behalf of anything else.
        Other,
    }
}

impl Class {
    /// Whether the program caused the request.
    pub fn is_of_the_program(self) -> bool {
        matches!(self, Class::Program | Class::WriteBack)
    }
}

words! {
    /// Operation of a request, in the order of reports.
    #[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Op {
        #[default]
        Read,
        /// Writes, also with flush or FUA.
        Write,
        /// Discards, secure erases and write-zeroes.
        Discard,
        /// Flushes without data, as sent for an fsync.
        Flush,
        /// Zone commands and driver commands.
        Other,
    }
}

words! {
    /// A flag of a request that shows its purpose, in the order of the kernel programs' numbers. If
    /// a request has several, the last of these counts.
    #[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Flag {
        /// None of the others. Such reads are waited for by a thread; such writes are background
        /// write-back.
        #[default]
        None,
        /// Read-ahead beyond what the program has requested.
        ReadAhead,
        /// A write that a thread waits for. Not used for reads.
        Sync,
        /// Metadata.
        Meta,
        /// A write that must be durable when it completes.
        Fua,
    }
}

/// Reads or writes with a flag.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct FlagRun {
    /// [`Op::Read`] or [`Op::Write`].
    pub op: Op,
    pub flag: Flag,
    pub bytes: u64,
    /// Of all requests whose end was observed.
    pub latency: Histogram,
}

/// All requests of one kind. Latencies run from attribution (allocation of the request) to its end.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Traffic {
    /// Kernel name of the whole disk.
    pub device: String,
    pub class: Class,
    pub op: Op,
    /// Index into [`ProfileRun::groups`]; 0 for `Class::Journal` and `Class::Other`.
    pub group: u32,
    /// Requests that ended. A request may carry several merged I/Os.
    pub requests: u64,
    /// Bytes they transferred.
    pub bytes: u64,
    /// Of those, bytes that bypassed the page cache (`O_DIRECT`).
    pub direct_bytes: u64,
    /// Requests with FUA or with a flush before the data.
    pub durable: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// From start to end, ns.
    pub latency: Histogram,
    /// Of that, from start to issue to the device, ns: queue time in the block layer.
    pub queued: Histogram,
    /// Of that, from issue to end, ns: device time.
    pub device_time: Histogram,
    /// `(bytes, requests)` by size, ascending; sizes are exact below 32 KiB, then within 1/32.
    pub sizes: Vec<(u64, u64)>,
    /// Requests that began where an earlier one of a recent stream ended.
    pub sequential: u64,
    /// Requests that were not sequential and repeated the thread's last distance.
    pub strided: u64,
    /// Time between the starts of neighbouring requests of this kind, ns.
    pub gaps: Histogram,
    /// Sum of the squares of those times, ns².
    pub gap_square_sum: f64,
    /// Bursts by their number of requests: 1, 2 to 3, 4 to 7, and so on. Consecutive requests of a
    /// burst began less than [`Traffic::WITHIN_BURST_NS`] apart.
    #[serde(default)]
    pub bursts: Vec<u64>,
    /// Start of the first request and end of the last, ns after the beginning.
    pub active_ns: Option<(u64, u64)>,
    /// Completed requests and their bytes per interval; empty in earlier records.
    #[serde(default, skip_serializing_if = "CounterSeries::is_empty")]
    pub counters: CounterSeries,
}

impl Traffic {
    /// Minimum distance from the previous request at which a new burst begins, ns.
    pub const WITHIN_BURST_NS: u64 = 1 << 15;
}

/// Threads of one name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Group {
    /// Name of the threads (at most 15 bytes, as kept by the kernel).
    pub name: String,
    /// Number of the program's threads of this name that did I/O.
    pub threads: u32,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ThreadRun {
    pub name: String,
    /// Thread id; `None` for all threads together that did not fit into the table.
    pub tid: Option<u32>,
    /// Process id.
    pub pid: u32,
    /// Whether it belongs to the program.
    pub of_program: bool,
    /// Whether it is a thread of the kernel.
    pub of_kernel: bool,
    /// Read requests it started.
    pub reads: u64,
    /// Write requests it started.
    pub writes: u64,
    /// Discards and other requests it started.
    pub others: u64,
    /// Bytes read by requests that it started.
    pub read_bytes: u64,
    /// Bytes written by requests that it started.
    pub write_bytes: u64,
    /// Sequential reads and writes.
    pub sequential: u64,
    /// Sync calls of every kind.
    pub syncs: u64,
    /// Time in sync calls, ns.
    pub sync_ns: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct FileRun {
    /// Path, as far as known from the kernel's names, or a description in its place: `/dev/vda1 and
    /// its file system's metadata` is I/O through the device's own page cache.
    pub path: String,
    /// Kernel name of the whole disk.
    pub device: String,
    /// Inode number; 0 if it has none.
    pub inode: u64,
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Of the bytes written, those by write-back.
    pub write_back_bytes: u64,
    /// Bytes that bypassed the page cache.
    pub direct_bytes: u64,
    /// Sequential requests.
    pub sequential: u64,
    /// Latencies of its reads, ns, each within 1/16 or 0.6 µs; empty in earlier records.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub read_latency: Histogram,
    /// The same for its writes.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub write_latency: Histogram,
}

impl FileRun {
    /// Suffix of the path of direct I/O if the kernel does not show its file.
    pub const UNKNOWN: &str = "file unknown";

    /// Whether it is such I/O, to any file of its disk.
    pub fn is_unknown(&self) -> bool {
        self.inode == 0 && self.path.ends_with(FileRun::UNKNOWN)
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CgroupRun {
    /// Its path; if unknown, its number.
    pub path: String,
    pub requests: u64,
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Latencies of its reads, ns, each within 1/16 or 0.6 µs; empty in earlier records.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub read_latency: Histogram,
    /// The same for its writes.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub write_latency: Histogram,
}

fn is_empty(histogram: &Histogram) -> bool {
    histogram.count() == 0
}

/// Requests of the program per interval.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct TrafficSeries {
    pub op: Op,
    /// Requests and bytes per interval.
    pub counters: CounterSeries,
    /// Latencies per interval.
    pub latencies: HistogramSeries,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_record_with_the_older_name_of_a_field_is_read() {
        let older = r#"{"what": "latency", "reason": "no privileges", "mend": "run as root"}"#;
        let read: Missing = serde_json::from_str(older).unwrap();
        assert_eq!(read.fix.as_deref(), Some("run as root"));
        assert!(serde_json::to_string(&read).unwrap().contains("\"fix\""));
    }
}
