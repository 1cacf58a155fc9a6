//! Figures, consistency checks and findings of a profiled program.
//!
//! A figure that the source of the profile cannot give is `None`, never zero.

pub mod against;
pub mod arrivals;
pub mod consistency;
pub mod course;
pub mod depth;
pub mod finding;
pub mod machine;
pub mod places;
pub mod spread;
pub mod syncs;
pub mod traffic;
pub mod waits;
mod who;

use serde::Serialize;

use crate::consistency::Consistency;
use crate::finding::Finding;
use iosonde_model::record::profile::ProfileRun;
use iosonde_model::record::profile::{Method, Missing, OpenCounts, ProfiledDevice, Traffic};

pub use against::{Against, against, device_of};
pub use arrivals::{ArrivalFigures, Process};
pub use course::{CourseFigures, Heat};
pub use depth::DepthFigures;
pub use machine::{CacheFigures, CallFigures, CounterFigures, MachineFigures};
pub use places::PlaceFigures;
pub use spread::{Latency, Spread};
pub use syncs::{PartFigures, SyncFigures, SyncPart};
pub use traffic::{ClassFigures, FlagFigures, OpFigures, Side};
pub use waits::WaitFigures;
pub use who::{CgroupFigures, FileFigures, ThreadCounts, ThreadFigures};

/// Everything derived from a profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Time measured, ns.
    #[serde(rename = "measured_ns")]
    pub window_ns: u64,
    /// Settling time after the program's end, ns.
    pub settle_ns: u64,
    /// Reason why the program's requests cannot be reported; `None` if they can.
    pub unseen: Option<String>,
    /// The program's requests, including its write-back; `None` if they cannot be seen.
    #[serde(rename = "program_requests")]
    pub program: Option<Side>,
    /// Requests of all programs.
    #[serde(rename = "all_requests")]
    pub everybody: Option<Side>,
    /// Each class with requests.
    pub classes: Vec<ClassFigures>,
    /// Reads and writes by their flags.
    pub flags: Vec<FlagFigures>,
    /// Each device, in the order of the record.
    #[serde(skip)]
    pub devices: Vec<DeviceFigures>,
    /// Threads that did I/O.
    pub io_threads: Option<ThreadCounts>,
    /// Calls that make data durable; `None` if not traced.
    pub syncs: Option<SyncFigures>,
    /// How files were opened; `None` if not traced.
    pub opens: Option<OpenCounts>,
    /// Read and write calls; `None` if not recorded.
    pub calls: Option<CallFigures>,
    /// Read calls at the page cache; `None` if not recorded.
    pub page_cache: Option<CacheFigures>,
    /// Waits of the program.
    pub waits: WaitFigures,
    /// CPU time and waits.
    #[serde(rename = "cpu")]
    pub machine: MachineFigures,
    /// Threads, the busiest first.
    #[serde(skip)]
    pub threads: Vec<ThreadFigures>,
    /// Files, the busiest first.
    #[serde(skip)]
    pub files: Vec<FileFigures>,
    /// Cgroups, the busiest first.
    #[serde(skip)]
    pub cgroups: Vec<CgroupFigures>,
    /// Positions of the requests on the devices.
    pub places: Vec<PlaceFigures>,
    /// Arrival processes of the requests.
    pub arrivals: Vec<ArrivalFigures>,
    /// Rates and latencies over time.
    #[serde(rename = "over_time")]
    pub course: Option<CourseFigures>,
    /// Whether the trace agrees with the kernel's counters and with itself.
    #[serde(skip)]
    pub consistency: Consistency,
    /// Findings, most severe first.
    pub findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// Kernel name of the whole disk.
    pub name: String,
    /// Reason why its requests cannot be seen, if so.
    pub invisible: Option<String>,
    /// The program's requests on it.
    #[serde(rename = "program_requests")]
    pub program: Option<Side>,
    /// Requests in flight, all programs.
    pub depth: Option<DepthFigures>,
    /// Requests in flight of the program.
    pub program_depth: Option<DepthFigures>,
    /// The kernel's own counters.
    pub counters: Option<CounterFigures>,
}

/// Computes all figures of a profile.
pub fn figures(run: &ProfileRun) -> Figures {
    let unseen = unseen(run);
    let seen = unseen.is_none();
    let mut figures = Figures {
        window_ns: run.measured_ns,
        settle_ns: run.settle_ns,
        program: seen.then(|| traffic::side(run, |each| each.class.is_of_the_program())),
        everybody: (seen || !run.traffic.is_empty()).then(|| traffic::side(run, |_| true)),
        classes: traffic::classes(run),
        flags: traffic::flags(run),
        devices: run.devices.iter().map(|each| device(run, each)).collect(),
        io_threads: seen.then(|| who::counts(run)),
        syncs: (run.source.method == Method::Tracepoints && missing(run, "syncs").is_none())
            .then(|| syncs::syncs(run)),
        opens: run.opens,
        calls: machine::calls(run),
        page_cache: machine::page_cache(run),
        waits: waits::waits(run),
        machine: machine::machine(run),
        threads: who::threads(run),
        files: who::files(run),
        cgroups: who::cgroups(run),
        places: run.places.iter().map(places::places).collect(),
        arrivals: arrivals::arrivals(run),
        course: course::course(run),
        consistency: consistency::consistency(run),
        findings: Vec::new(),
        unseen,
    };
    figures.findings = finding::findings(run, &figures);
    figures
}

/// Reason why no requests are reported.
fn unseen(run: &ProfileRun) -> Option<String> {
    if run.source.method == Method::Counters {
        let reason = missing(run, "requests").or(run.source.missing.first());
        let words = reason.map_or("requests were not traced", |missing| missing.reason.as_str());
        return Some(words.to_owned());
    }
    let hidden =
        run.devices.iter().filter(|device| moved(device)).find_map(|device| {
            Some(format!("{}: {}", device.facts.name, device.invisible.as_ref()?))
        });
    // Requests of other programs on other devices say nothing about the I/O of this one.
    hidden.filter(|_| !run.traffic.iter().any(|each| each.class.is_of_the_program()))
}

/// Whether a device did any I/O, according to its counters.
fn moved(device: &ProfiledDevice) -> bool {
    device.counters.is_none_or(|(start, end)| start != end)
}

/// The missing item reported under this name, alone or combined (`syncs and opens`).
pub fn missing<'a>(run: &'a ProfileRun, what: &str) -> Option<&'a Missing> {
    let is_about = |words: &str| words.split(" and ").any(|part| part == what);
    run.source.missing.iter().find(|missing| is_about(&missing.what))
}

fn device(run: &ProfileRun, device: &ProfiledDevice) -> DeviceFigures {
    let name = &device.facts.name;
    let seen = run.source.method == Method::Tracepoints && device.invisible.is_none();
    let own = |each: &Traffic| each.device == *name && each.class.is_of_the_program();
    DeviceFigures {
        name: name.clone(),
        invisible: device.invisible.clone(),
        program: seen.then(|| traffic::side(run, own)),
        depth: seen.then(|| depth::depth(&device.depth, None)),
        program_depth: seen
            .then(|| depth::depth(&device.program_depth, Some(traffic::program_window_ns(run)))),
        counters: machine::counters(run, device),
    }
}

/// The name of a thread group; the first is for threads that did not fit in the table.
fn group_name(run: &ProfileRun, group: u32) -> String {
    let found = usize::try_from(group).ok().and_then(|at| run.groups.get(at));
    match found {
        Some(group) if !group.name.is_empty() => group.name.clone(),
        _ => "others".into(),
    }
}
