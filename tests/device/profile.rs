//! The profiler compared with independent sources, each on a disk of the test's own: the block
//! layer's counters, `strace -c`, fio's count of its operations, bpftrace's histograms, and devices
//! with a known latency or limit.

mod cache;
mod counts;
mod direct;
mod file_systems;
mod latency;
mod machine;
mod places;
mod renamed;
mod run_delay;
mod stacks;
mod syncs;
mod whose;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Class, Method, Op, SyncKind, Traffic};
use iosonde_rig::guard::{FsKind, ImageMount, LoopDevice};
use iosonde_rig::{ScratchDir, skip};
use iosonde_stats::Histogram;

use crate::request::{here, program};

const MIB: u64 = 1 << 20;
/// In memory, so that no disk is slower than the loop device above it.
const MEMORY: &str = "/dev/shm";

/// A file system without other users and without pending work.
fn disk() -> Option<ImageMount> {
    let mount = ImageMount::below(Path::new(MEMORY), FsKind::Ext4, 512 * MIB, "noinit_itable");
    let mount = here(mount)?;
    settle(&mount);
    Some(mount)
}

/// A device without file system, and the directory of its image.
fn bare(mib: u64) -> Option<(LoopDevice, ScratchDir)> {
    let dir = ScratchDir::below(Path::new(MEMORY)).unwrap();
    let device = here(LoopDevice::new(&dir.path().join("image"), mib * MIB))?;
    Some((device, dir))
}

/// Writes back all dirty data.
fn settle(mount: &ImageMount) {
    rustix::fs::syncfs(fs::File::open(mount.path()).unwrap()).unwrap();
}

/// Name of the device, such as `loop3`.
fn name(device: &LoopDevice) -> &str {
    device.path().file_name().unwrap().to_str().unwrap()
}

/// Whether the program is installed; reports the skip if not.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !found {
        skip(format!("there is no `{program}`"));
    }
    found
}

/// A shell command to be profiled.
struct Profile {
    words: Vec<String>,
    place: PathBuf,
    results: ScratchDir,
}

/// Profiles a command in that directory on that device.
fn profile(device: &LoopDevice, place: &Path, script: &str) -> Profile {
    let words = ["-d", name(device), "--", "sh", "-c", script];
    let words = words.map(str::to_owned).to_vec();
    Profile { words, place: place.to_owned(), results: ScratchDir::new().unwrap() }
}

impl Profile {
    /// Adds an option.
    fn option(mut self, option: &str) -> Profile {
        self.words.splice(0..0, option.split(' ').map(str::to_owned));
        self
    }

    /// The command line, appended to `launcher`.
    fn command(&self, mut launcher: Command) -> Command {
        launcher.args(["profile", "-o"]).arg(self.results.path()).args(&self.words);
        launcher.current_dir(&self.place).stdin(Stdio::null()).stdout(Stdio::null());
        launcher
    }

    /// The profile of a successful command; `None`, with the reason, without traced requests.
    fn seen(self) -> Option<ProfileRun> {
        let output = self.command(Command::new(program())).output().unwrap();
        let reported = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{reported}");
        self.read()
    }

    /// The stored record.
    fn read(self) -> Option<ProfileRun> {
        let entries = fs::read_dir(self.results.path()).unwrap();
        let mut folders = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        let record = fs::read(folders.next().unwrap().join("01-profile.json")).unwrap();
        let run: ProfileRun = serde_json::from_slice(&record).unwrap();
        if run.source.method != Method::Tracepoints {
            skip(format!("requests are not seen here: {:?}", run.source.missing));
            return None;
        }
        Some(run)
    }
}

/// All kinds of traffic that match.
fn traffic(run: &ProfileRun, is_meant: impl Fn(&Traffic) -> bool) -> Vec<&Traffic> {
    run.traffic.iter().filter(|kind| is_meant(kind)).collect()
}

fn requests(kinds: &[&Traffic]) -> u64 {
    kinds.iter().map(|kind| kind.requests).sum()
}

fn bytes(kinds: &[&Traffic]) -> u64 {
    kinds.iter().map(|kind| kind.bytes).sum()
}

fn merged(kinds: &[&Traffic], of: impl Fn(&Traffic) -> &Histogram) -> Histogram {
    let mut all = Histogram::new();
    kinds.iter().for_each(|kind| all.merge(of(kind)));
    all
}

/// Requests without latency because their completion was not traced, as the profile reports. A
/// kernel may skip programs in interrupts that hit certain tasks (one of 100,000 here). Tests that
/// count requests allow at most five, so that a real loss is found.
fn unseen_ends(run: &ProfileRun) -> u64 {
    run.lost.get("latencies of requests whose completion was not traced").copied().unwrap_or(0)
}

/// Name of the threads of a kind of traffic.
fn group<'a>(run: &'a ProfileRun, kind: &Traffic) -> &'a str {
    &run.groups[kind.group as usize].name
}

/// Sync calls of that kind by all threads of the program.
fn syncs(run: &ProfileRun, kind: SyncKind) -> u64 {
    run.syncs.iter().filter(|sync| sync.kind == kind).map(|sync| sync.calls).sum()
}

/// Whether the traffic is of the program itself.
fn own(kind: &Traffic) -> bool {
    kind.class == Class::Program
}

fn reads(kind: &Traffic) -> bool {
    kind.op == Op::Read
}

fn writes(kind: &Traffic) -> bool {
    kind.op == Op::Write
}
