//! `iosonde doctor`: available measurement features and what measuring costs.

use std::fs::File;
use std::path::PathBuf;

use clap::Args;
use iosonde_engine::engine::waits::Wait;
use iosonde_sys::{Clock, ring};
use serde_json::json;

use super::exit::{Exit, Failure, wrong};
use super::hosts::{Command, HostsArgs};
use super::output::{Output, OutputFormat};
use super::place::Place;
use super::screen;
use iosonde_engine::engine::floor;
use iosonde_engine::host::{self, Root};
use iosonde_engine::target::{Direct, Intent, TargetError, open};
use iosonde_model::record::export::directory_of;
use iosonde_model::units::bytes;
use iosonde_report::{DoctorReport, Feature, Floor};

/// Check which measurement features are available to this user, and how to fix missing ones.
///
/// Also measures the clock, the minimum latency of a bare system-call loop on a small file in the
/// directory, and what measuring costs. Takes about two seconds.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorArgs {
    /// Directory or file for measuring the minimum latency
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Format of the result on stdout
    #[arg(long, value_parser = OutputFormat::text_or_json(), default_value = "normal")]
    output_format: OutputFormat,
    #[command(flatten)]
    hosts: HostsArgs,
}

impl DoctorArgs {
    /// The command for many hosts.
    pub(super) fn on_hosts(&self) -> Command<'_> {
        let (hosts, output_format) = (&self.hosts, self.output_format);
        Command::new("doctor", hosts, output_format)
    }
}

/// Size of the file on which the floor is measured.
const FLOOR_FILE_BYTES: u64 = 64 << 20;
const FLOOR_OPS: u64 = 200_000;

pub(super) fn doctor(args: &DoctorArgs) -> Result<Exit, Failure> {
    let inspecting = Wait::begin("inspecting", args.path.to_string_lossy());
    let found = args.path.metadata();
    drop(inspecting);
    if let Err(error) = found {
        let found = match error.kind() {
            std::io::ErrorKind::NotFound => "does not exist".to_owned(),
            _ => format!("cannot be inspected: {error}"),
        };
        let message = format!("`{}` {found}; expected a directory or a file", args.path.display());
        return Err(wrong(message));
    }
    let place = Place::find()?;
    args.output_format.supports("doctor")?;
    let mut output = Output::new(args.output_format);
    let measuring = Wait::begin("measuring in", args.path.to_string_lossy());
    let features = features(args, &place);
    let floor = measure_floor(args, place.clock);
    drop(measuring);
    output.value(&json!({
        "schema": "iosonde.doctor/1",
        "features": features,
        "floor": floor,
        "host": place.host,
    }));
    let report = DoctorReport {
        path: args.path.to_string_lossy().into_owned(),
        features,
        floor,
        cpus: place.host.cpus_allowed.unwrap_or(0),
        memory_bytes: place.host.memory_available_bytes,
    };
    output.text(&report.text(screen::columns()));
    Ok(output.end(Exit::Done))
}

fn features(args: &DoctorArgs, place: &Place) -> Vec<Feature> {
    let mut all = vec![io_uring(place), memlock(place), clock(place)];
    all.extend(directory(args, &place.root));
    all.extend([huge_pages(&place.root), cold_cache(), smart()]);
    all
}

fn io_uring(place: &Place) -> Feature {
    match ring::probe() {
        Ok(()) => Feature::new("io_uring", true, "many requests in flight from one thread", ""),
        Err(error) => {
            let disabled = place.host.io_uring_disabled.unwrap_or(0);
            let fix = match disabled {
                _ if error.kind() == std::io::ErrorKind::OutOfMemory => {
                    "raise the limit on locked memory (ulimit -l)"
                }
                0 => {
                    "a seccomp filter blocks it, as in many containers: allow io_uring_setup, \
                     io_uring_enter and io_uring_register"
                }
                _ => "as root: sysctl kernel.io_uring_disabled=0",
            };
            let detail = format!("{error}; synchronous threads, one per request, are used instead");
            Feature::new("io_uring", false, detail, fix)
        }
    }
}

fn memlock(place: &Place) -> Feature {
    let limit = place.host.memlock_bytes.unwrap_or(0);
    let detail = match limit {
        u64::MAX => "no limit on locked memory".into(),
        limit => format!("up to {} of buffers can be registered", bytes::rough(limit)),
    };
    let fix = "registered buffers save 4 % CPU time: raise the limit on locked memory (ulimit -l)";
    Feature::new("registered buffers", limit >= 8 << 20, detail, fix)
}

fn clock(place: &Place) -> Feature {
    let source = place.host.clocksource.clone().unwrap_or_else(|| "unknown".into());
    let detail = format!("clock source {source}");
    let fix = "latencies are measured with the kernel's clock, which costs more per operation; a \
        slow clock source (hpet, acpi_pm) makes QD1 latencies unreliable";
    Feature::new("processor clock", place.clock.is_tsc(), detail, fix)
}

/// The features of the directory; an unnamed file is briefly created in it.
fn directory(args: &DoctorArgs, root: &Root) -> Vec<Feature> {
    let path = args.path.display();
    let directory = if args.path.is_file() { directory_of(&args.path) } else { &args.path };
    let held = match open::unnamed(directory, 1 << 20, Direct::Preferred) {
        Ok(held) => held,
        Err(error) => {
            let fix = "give a directory writable by this user";
            return vec![Feature::new("test file", false, error.to_string(), fix)];
        }
    };
    let facts = held.describe(root);
    let filesystem = facts.filesystem.clone().unwrap_or_else(|| "unknown file system".into());
    let device = facts.device.as_ref();
    let named = device.map_or("no block device visible".into(), |device| device.name.clone());
    let counters = device.is_some_and(|device| host::device_counters(root, &device.name).is_some());
    let refused = held.direct_refused.clone().unwrap_or_default();
    vec![
        Feature::new("test file", true, format!("{path} on {filesystem}"), ""),
        Feature::new(
            "direct I/O",
            held.direct,
            if held.direct { "direct I/O".into() } else { refused },
            "figures on this file system describe the page cache; use another file system",
        ),
        Feature::new(
            "device counters",
            counters,
            format!("{named}: the device's own counters, to check ours"),
            "without them there is no cross-check: caches and other users go undetected",
        ),
    ]
}

fn huge_pages(root: &Root) -> Feature {
    let free: u64 =
        root.number("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages").unwrap_or(0);
    let detail = format!("{free} free pages of 2 MiB for I/O buffers");
    Feature::new("huge pages", free > 0, detail, "optional: as root, sysctl vm.nr_hugepages=64")
}

fn cold_cache() -> Feature {
    let root = rustix::process::geteuid().is_root();
    let detail = "dropping all page caches of the machine";
    let fix = "root only; the page cache of the test file is dropped without root";
    Feature::new("drop_caches", root, detail, fix)
}

fn smart() -> Feature {
    let installed = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join("smartctl").exists()));
    let root = rustix::process::geteuid().is_root();
    let detail = "the drive's health report (SMART) before and after a check";
    Feature::new("SMART", installed && root, detail, "install smartmontools, and run as root")
}

fn measure_floor(args: &DoctorArgs, clock: Clock) -> Floor {
    let mut measured = Floor {
        clock: if clock.is_tsc() { "tsc" } else { "clock_monotonic" }.into(),
        clock_cost_ps: clock.cost_ps(),
        null_ops_per_s: floor::null_ops_per_s(clock).ok().map(|rate| rate as u64),
        nop_ops_per_s: floor::nop_ops_per_s(clock).map(|rate| rate as u64),
        ..Floor::default()
    };
    if let Ok((file, described)) = floor_file(args) {
        let histogram = floor::psync_floor(&file, 4096, FLOOR_OPS, clock);
        measured.psync_p50_ps = histogram.quantile(0.5).map(|ns| ns * 1000);
        measured.psync_on = described;
    }
    measured
}

/// The given file, or an unnamed one: preallocated and never written, so that reads do not reach a
/// device and only software is measured.
fn floor_file(args: &DoctorArgs) -> Result<(File, String), TargetError> {
    let path = args.path.display();
    let (held, what) = if args.path.is_file() {
        (open::existing(&args.path, &Intent::default(), Direct::Preferred)?, format!("{path}"))
    } else {
        let held = open::unnamed(&args.path, FLOOR_FILE_BYTES, Direct::Preferred)?;
        (held, format!("a preallocated, unwritten file in {path}"))
    };
    let how = if held.direct { "O_DIRECT" } else { "buffered" };
    let file = held.file.try_clone().map_err(|error| TargetError::System {
        what: "duplicate",
        path: args.path.clone(),
        error,
    })?;
    Ok((File::from(file), format!("{what} ({how})")))
}
