//! What a program did to storage: everything that was seen while it ran. Raw: no rate, share or
//! percentile, and no verdict.

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
    /// What was watched.
    pub subject: Subject,
    /// How the watching ended.
    pub ended: Ended,
    /// Wall-clock start, ns since 1970.
    pub started_unix_ns: u64,
    /// From the release of the command (or from attaching) to its end, ns. Nothing that was seen
    /// before or after is in here, but what the program left to the kernel: see `settle_ns`.
    pub measured_ns: u64,
    /// How long the kernel was watched afterwards for pages that the program had left dirty, ns.
    pub settle_ns: u64,
    /// Why pages that the program dirtied may have gone where nobody watched, if so.
    pub unwatched: Option<String>,
    /// The machine.
    pub host: HostFacts,
    /// Where the figures come from.
    pub source: Source,
    /// The devices, those with traffic of the program first.
    pub devices: Vec<ProfiledDevice>,
    /// Requests by device, class, operation and thread group. Empty without `Method::Tracepoints`.
    pub traffic: Vec<Traffic>,
    /// Reads and writes by their flags, of the program and of journals; empty in records of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<FlagRun>,
    /// Threads by name: entry 0 is for all that found no place of their own.
    pub groups: Vec<Group>,
    /// Threads that did I/O or syncs, of the program and of the kernel, the busiest first.
    pub threads: Vec<ThreadRun>,
    /// Files of the program, the busiest first.
    pub files: Vec<FileRun>,
    /// Cgroups with traffic, the busiest first.
    pub cgroups: Vec<CgroupRun>,
    /// Calls that make data durable, by kind and thread group.
    pub syncs: Vec<SyncRun>,
    /// How files were opened; `None` where that was not seen.
    pub opens: Option<OpenCounts>,
    /// What the program asked of the kernel by read and write calls; `None` where not seen.
    pub calls: Option<CallCounts>,
    /// Read calls at the page cache; `None` where not seen.
    pub page_cache: Option<PageCache>,
    /// What file systems did, in the order of [`FileSystemWork::ALL`]; empty in earlier records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_systems: Vec<FileSystemRun>,
    /// Where on the devices the program read and wrote.
    pub places: Vec<Places>,
    /// Requests of the program per interval, by operation, with their latencies.
    pub series: Vec<TrafficSeries>,
    /// CPU time and context switches of the program and its waited-for children.
    pub cpu: Option<ProcessUse>,
    /// Time the program's tasks waited for block I/O, ns, by delay accounting or, where the kernel
    /// does not account it, by our own programs; `None` without both.
    pub io_delay_ns: Option<u64>,
    /// Time the program's tasks were ready to run and had no CPU, ns; `None` where not accounted,
    /// and in earlier records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// The machine, once per interval.
    pub telemetry: Vec<TelemetrySample>,
    /// Context switches of the whole machine at start and end; `None` where not reported.
    pub machine_switches: Option<(u64, u64)>,
    /// Stacks at which requests began and threads waited, the heaviest of each kind first; empty
    /// unless asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackRun>,
    /// CPU time of this collector itself over the same time.
    pub collector: ProcessUse,
    /// Events that could not be kept, by what was lost; empty if nothing was.
    pub lost: BTreeMap<String, u64>,
}

impl ProfileRun {
    /// Why pages may be written where nothing is traced, if disks were selected.
    pub const SELECTED: &str = "only the selected disks were traced";
}

/// What was watched.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "subject")]
pub enum Subject {
    /// A command that was started for it, word by word, and its children.
    Command {
        /// The command and its arguments.
        words: Vec<String>,
        /// Its process.
        pid: u32,
    },
    /// A process that ran already, and its children.
    Process {
        /// Its process.
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

/// How the watching ended.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "ended")]
pub enum Ended {
    /// The command exited.
    Exited {
        /// With this code.
        code: i32,
    },
    /// The command was killed.
    Killed { signal: i32 },
    /// The time given was up.
    #[default]
    TimeUp,
    /// What was attached to ended.
    Gone,
    /// The user ended it from its live view.
    Stopped,
    /// The user interrupted the watching itself.
    Interrupted { signal: i32 },
}

/// Where the figures come from, and what they cannot show.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Source {
    /// How the kernel was asked.
    pub method: Method,
    /// The event at which a request is attributed to a thread (`block_io_start`,
    /// `block_rq_insert`, `block_rq_issue`); empty without tracepoints.
    pub attribution: String,
    /// Every kernel program with what became of it.
    pub programs: Vec<KernelProgram>,
    /// What could not be had: figures that are missing for it, why, and how to get them.
    pub missing: Vec<Missing>,
}

/// How the kernel was asked.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every request, by programs at the block layer's tracepoints.
    Tracepoints,
    /// Sums only: counters of the process and of the devices, as `/proc` and `/sys` show them.
    #[default]
    Counters,
}

/// A program that was to be attached to a tracepoint.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct KernelProgram {
    pub tracepoint: String,
    /// Why it is not attached; `None` if it is.
    pub refused: Option<String>,
}

/// Something that could not be seen.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Missing {
    /// The figures concerned (`latency`, `syncs by io_uring`).
    pub what: String,
    /// Why.
    pub reason: String,
    /// How to get it, if there is a way.
    #[serde(alias = "mend")]
    pub fix: Option<String>,
}

/// A device of the profile.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ProfiledDevice {
    /// What it is. `facts.name` is that of the whole disk.
    pub facts: DeviceFacts,
    /// Names of the disks below it, at any depth: those of a volume, that of a loop device's file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beneath: Vec<String>,
    /// Why its requests cannot be seen at all, if so (a device without a request queue).
    pub invisible: Option<String>,
    /// The kernel's own counters of the whole disk at start and end (settling included).
    pub counters: Option<(DeviceCounters, DeviceCounters)>,
    /// The same, read after tracing began and before it ended: what the other pair counts beside it
    /// may or may not have been traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters_within: Option<(DeviceCounters, DeviceCounters)>,
    /// The same when what is profiled had ended, before settling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters_at_end: Option<DeviceCounters>,
    /// Requests in flight, everybody's.
    pub depth: Depth,
    /// Requests of the program in flight (its own, and write-back of its pages).
    pub program_depth: Depth,
}

/// Requests in flight. From the first request seen to the end.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Depth {
    /// `(level, ns)`: how long each level lasted, ascending; from 64 on levels are lower edges of
    /// log-linear buckets.
    pub time_ns: Vec<(u32, u64)>,
    /// `(level, requests)`: how many requests found so many in flight on arrival, ascending.
    pub arrivals: Vec<(u32, u64)>,
    /// Highest level.
    pub max: u32,
    /// Request-nanoseconds: the sum of the latencies of all requests that ended.
    pub area_ns: u64,
}

words! {
    /// On whose behalf a request was made. In the order of reports.
    #[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Class {
        /// By a thread of the program itself.
        #[default]
        Program,
        /// By somebody else (a kernel thread, a `sync` by another), of pages that the program
        /// dirtied.
        WriteBack,
        /// The file system's journal and metadata, by a kernel thread: for everybody at once.
        Journal,
        /// Flushes of the device's cache, as the block layer sends them: several waiting requests
        /// may share one.
        DeviceFlush,
        /// By or for somebody else.
        Other,
    }
}

impl Class {
    /// Whether it is the program's doing.
    pub fn is_of_the_program(self) -> bool {
        matches!(self, Class::Program | Class::WriteBack)
    }
}

words! {
    /// What a request does. In the order of reports.
    #[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Op {
        #[default]
        Read,
        /// Writes, those that carry a flush or FUA too.
        Write,
        /// Discards, secure erases and write-zeroes.
        Discard,
        /// Flushes without data: the flush that an fsync asks for.
        Flush,
        /// Zone commands and driver commands.
        Other,
    }
}

words! {
    /// A flag of a request that says why it was made. Of several the last of these counts.
    /// By its number in the kernel programs.
    #[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Flag {
        /// None of the others: of reads, those that a thread waits for; of writes, write-back in
        /// the background.
        #[default]
        None,
        /// Read ahead of what the program has asked for.
        ReadAhead,
        /// A write that somebody waits for. Reads do not count here.
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
    /// Of every request that was seen to end.
    pub latency: Histogram,
}

/// All requests of one kind. Latencies run from attribution (allocation of the request) to its end.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Traffic {
    /// Kernel name of the whole disk.
    pub device: String,
    /// On whose behalf.
    pub class: Class,
    /// What.
    pub op: Op,
    /// Index into [`ProfileRun::groups`]; 0 for `Class::Journal` and `Class::Other` together.
    pub group: u32,
    /// Requests that ended. A request may carry several merged I/Os.
    pub requests: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Of those, bytes that did not pass the page cache (`O_DIRECT`).
    pub direct_bytes: u64,
    /// Requests with FUA set or a flush before the data: durable by themselves.
    pub durable: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// From start to end, ns.
    pub latency: Histogram,
    /// Of that, from start to issue to the device, ns: waiting in the block layer.
    pub queued: Histogram,
    /// Of that, from issue to end, ns: the device.
    pub device_time: Histogram,
    /// `(bytes, requests)` by size, ascending; sizes are exact below 32 KiB, then within 1/32.
    pub sizes: Vec<(u64, u64)>,
    /// Requests that began where an earlier one of a recent stream ended.
    pub sequential: u64,
    /// Requests that were not sequential and kept the thread's last distance once more.
    pub strided: u64,
    /// Time between the starts of neighbouring requests of this kind, ns.
    pub gaps: Histogram,
    /// Sum of the squares of those times, ns².
    pub gap_square_sum: f64,
    /// Bursts, by their number of requests: of 1, of 2 and 3, of 4 to 7, and so on. The requests of
    /// one began less than [`Traffic::WITHIN_BURST_NS`] apart.
    #[serde(default)]
    pub bursts: Vec<u64>,
    /// Start of the first request and end of the last, ns after the beginning.
    pub active_ns: Option<(u64, u64)>,
    /// Requests that ended and their bytes per interval; none in earlier records.
    #[serde(default, skip_serializing_if = "CounterSeries::is_empty")]
    pub counters: CounterSeries,
}

impl Traffic {
    /// From this distance on a request begins another burst, ns.
    pub const WITHIN_BURST_NS: u64 = 1 << 15;
}

/// Threads of one name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Group {
    /// The threads' name (at most 15 bytes, as the kernel keeps it).
    pub name: String,
    /// How many threads of the program of this name did I/O.
    pub threads: u32,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ThreadRun {
    pub name: String,
    /// Thread id; `None` for all that did not find a place, together.
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
    /// Discards and others it started.
    pub others: u64,
    /// Bytes read by requests that it started.
    pub read_bytes: u64,
    /// Bytes written by requests that it started.
    pub write_bytes: u64,
    /// Of its reads and writes, how many were sequential.
    pub sequential: u64,
    /// Sync calls of every kind.
    pub syncs: u64,
    /// Time in them, ns.
    pub sync_ns: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct FileRun {
    /// Path, as far as the kernel's names lead; or what stands for it: `/dev/vda1 and its file
    /// system's metadata` is what went through the device's own page cache.
    pub path: String,
    /// Kernel name of the whole disk.
    pub device: String,
    /// Inode number; 0 where it has none.
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
    /// Of all bytes, those that did not pass the page cache.
    pub direct_bytes: u64,
    /// Of the requests, how many were sequential.
    pub sequential: u64,
    /// Latencies of its reads, ns, each within 1/16 or 0.6 µs; empty in earlier records.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub read_latency: Histogram,
    /// The same of its writes.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub write_latency: Histogram,
}

impl FileRun {
    /// The end of the path of direct I/O whose file the kernel does not tell.
    pub const UNKNOWN: &str = "file unknown";

    /// Whether it stands for such I/O of any file of its disk.
    pub fn is_unknown(&self) -> bool {
        self.inode == 0 && self.path.ends_with(FileRun::UNKNOWN)
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CgroupRun {
    /// Its path, or its number where no path was found.
    pub path: String,
    pub requests: u64,
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Latencies of its reads, ns, each within 1/16 or 0.6 µs; empty in earlier records.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub read_latency: Histogram,
    /// The same of its writes.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub write_latency: Histogram,
}

fn is_empty(histogram: &Histogram) -> bool {
    histogram.count() == 0
}

/// Requests of the program per interval.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct TrafficSeries {
    /// What.
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
