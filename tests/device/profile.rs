//! The profiler against second witnesses, each on a disk of the test's own: the block layer's
//! counters, `strace -c`, fio's count of its own operations, bpftrace's histograms, and devices
//! whose latency or limit is known.

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
/// Where no disk is slower than the loop device above it.
const MEMORY: &str = "/dev/shm";

/// A file system that nobody else uses, and that has nothing left to do.
fn disk() -> Option<ImageMount> {
    let mount = ImageMount::below(Path::new(MEMORY), FsKind::Ext4, 512 * MIB, "noinit_itable");
    let mount = here(mount)?;
    settle(&mount);
    Some(mount)
}

/// A bare device, and the directory of its image.
fn bare(mib: u64) -> Option<(LoopDevice, ScratchDir)> {
    let dir = ScratchDir::below(Path::new(MEMORY)).unwrap();
    let device = here(LoopDevice::new(&dir.path().join("image"), mib * MIB))?;
    Some((device, dir))
}

/// Writes out all that is dirty there.
fn settle(mount: &ImageMount) {
    rustix::fs::syncfs(fs::File::open(mount.path()).unwrap()).unwrap();
}

/// `loop3`.
fn name(device: &LoopDevice) -> &str {
    device.path().file_name().unwrap().to_str().unwrap()
}

/// Whether the program can be had; says so if not.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !found {
        skip(format!("there is no `{program}`"));
    }
    found
}

/// A command of the shell to be profiled.
struct Profile {
    words: Vec<String>,
    place: PathBuf,
    results: ScratchDir,
}

/// The command in that directory, watched on that device.
fn profile(device: &LoopDevice, place: &Path, script: &str) -> Profile {
    let words = ["-d", name(device), "--", "sh", "-c", script];
    let words = words.map(str::to_owned).to_vec();
    Profile { words, place: place.to_owned(), results: ScratchDir::new().unwrap() }
}

impl Profile {
    /// One more option.
    fn option(mut self, option: &str) -> Profile {
        self.words.splice(0..0, option.split(' ').map(str::to_owned));
        self
    }

    /// Its command line within `launcher`, whose last words it becomes.
    fn command(&self, mut launcher: Command) -> Command {
        launcher.args(["profile", "-o"]).arg(self.results.path()).args(&self.words);
        launcher.current_dir(&self.place).stdin(Stdio::null()).stdout(Stdio::null());
        launcher
    }

    /// The profile of a command that succeeds; none, with the reason, where requests are not seen.
    fn seen(self) -> Option<ProfileRun> {
        let output = self.command(Command::new(program())).output().unwrap();
        let reported = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{reported}");
        self.read()
    }

    /// The kept record.
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

/// All kinds of traffic that answer to it.
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

/// Requests whose latency is missing since their end was not seen, as the profile itself reports. A
/// kernel may run no programs in interrupts that hit certain tasks (one of 100,000 here); tests
/// that count requests allow for five at most, so that a real loss is seen.
fn unseen_ends(run: &ProfileRun) -> u64 {
    run.lost.get("latencies of requests whose completion was not traced").copied().unwrap_or(0)
}

/// Name of the threads that a kind of traffic belongs to.
fn group<'a>(run: &'a ProfileRun, kind: &Traffic) -> &'a str {
    &run.groups[kind.group as usize].name
}

/// Calls of that kind, by everybody in the program.
fn syncs(run: &ProfileRun, kind: SyncKind) -> u64 {
    run.syncs.iter().filter(|sync| sync.kind == kind).map(|sync| sync.calls).sum()
}

/// Kinds of traffic of the program itself.
fn own(kind: &Traffic) -> bool {
    kind.class == Class::Program
}

fn reads(kind: &Traffic) -> bool {
    kind.op == Op::Read
}

fn writes(kind: &Traffic) -> bool {
    kind.op == Op::Write
}
