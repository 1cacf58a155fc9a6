//! Attribution of requests: write-back is attributed to the thread that dirtied the pages, and
//! writers are reported separately.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Class, FileRun, Traffic};
use iosonde_rig::guard::ImageMount;
use iosonde_rig::{ScratchDir, skip};
use iosonde_stats::Histogram;

use super::{
    MIB, Profile, bytes, disk, group, has, merged, profile, reads, settle, traffic, unseen_ends,
    writes,
};
use crate::request::{program, turn};

/// Kills the child if the test fails.
struct Started(std::process::Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Profiles writers that leave dirty pages, which another process then writes back.
fn written_back(mount: &ImageMount, profile: Profile) -> Option<ProfileRun> {
    let mut command = profile.command(Command::new(program()));
    let mut profiler = Started(command.stderr(Stdio::null()).spawn().unwrap());
    let began = Instant::now();
    while !mount.path().join("done").exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the writers hang");
        std::thread::sleep(Duration::from_millis(10));
    }
    settle(mount);
    assert!(profiler.0.wait().unwrap().success());
    profile.read()
}

#[test]
fn the_kernels_write_back_is_of_the_program() {
    let _turn = turn();
    let Some(mount) = disk() else { return };
    let script = "dd if=/dev/zero of=file bs=64k count=1024; : > done; sleep 0.2";
    let asked = profile(mount.device(), mount.path(), script).option("--settle 10");
    let Some(run) = written_back(&mount, asked) else { return };
    let mine = bytes(&traffic(&run, |kind| writes(kind) && kind.class.is_of_the_program()));
    let back = bytes(&traffic(&run, |kind| writes(kind) && kind.class == Class::WriteBack));
    let reported = format!("{mine} of {} bytes, {back} by write-back", 64 * MIB);
    assert!(mine as f64 >= 0.95 * (64 * MIB) as f64 && mine <= 65 * MIB, "{reported}");
    assert!(back as f64 >= 0.95 * mine as f64, "{reported}");
    let file = run.files.iter().find(|file| file.path.ends_with("/file")).unwrap();
    assert!(file.write_back_bytes as f64 >= 0.95 * (64 * MIB) as f64, "{file:?}");
}

#[test]
fn two_writers_are_distinguished() {
    let _turn = turn();
    let Some(mount) = has("dd").then(disk).flatten() else { return };
    let dir = ScratchDir::new().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let dd = std::env::split_paths(&path).map(|folder| folder.join("dd")).find(|dd| dd.exists());
    for writer in ["alpha", "beta"] {
        fs::copy(dd.as_ref().unwrap(), dir.path().join(writer)).unwrap();
    }
    let writer = |name: &str, count: u32, more: &str| {
        let program = dir.path().join(name);
        format!("{} if=/dev/zero of={name}.out bs=64k count={count} {more}", program.display())
    };
    for (how, more) in [("buffered", ""), ("direct", "oflag=direct")] {
        let (alpha, beta) = (writer("alpha", 320, more), writer("beta", 640, more));
        let script = format!("{alpha} & {beta} & wait; : > done; sleep 0.2");
        let asked = profile(mount.device(), mount.path(), &script).option("--settle 10");
        let Some(run) = written_back(&mount, asked) else { return };
        for (name, mib) in [("alpha", 20), ("beta", 40)] {
            let of_it = |bytes: u64| bytes as f64 / (mib * MIB) as f64;
            let kinds = traffic(&run, |kind| {
                writes(kind) && kind.class.is_of_the_program() && group(&run, kind) == name
            });
            let by_group = of_it(bytes(&kinds));
            let is_its = |path: &str| Path::new(path).ends_with(format!("{name}.out"));
            let file = run.files.iter().find(|file| is_its(&file.path));
            let by_file = of_it(file.unwrap_or_else(|| panic!("{:?}", run.files)).write_bytes);
            eprintln!("{how}: {name}: {by_group:.3} by group, {by_file:.3} by file");
            for share in [by_group, by_file] {
                assert!((0.95..1.02).contains(&share), "{how}: {name}: {share}: {run:?}");
            }
        }
        for name in ["alpha.out", "beta.out", "done"] {
            fs::remove_file(mount.path().join(name)).unwrap();
        }
        settle(&mount);
    }
}

#[test]
fn every_kernel_program_is_attached_here() {
    let _turn = turn();
    let Some(mount) = disk() else { return };
    let Some(run) = profile(mount.device(), mount.path(), "true").seen() else { return };
    let refused: Vec<_> =
        run.source.programs.iter().filter(|program| program.refused.is_some()).collect();
    let is_new = |release: &str| {
        let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(5))
    };
    let release = rustix::system::uname().release().to_str().unwrap().to_owned();
    if !is_new(&release) {
        skip(format!("kernel {release} is older than the newest tracepoint in use"));
        return;
    }
    assert!(refused.is_empty() && !run.source.programs.is_empty(), "{refused:?}");
}

#[test]
fn latencies_of_files_and_cgroups_add_up_to_those_of_requests() {
    let _turn = turn();
    let Some(mount) = has("dd").then(disk).flatten() else { return };
    let write = |file: &str, of: &str| format!("dd if=/dev/zero of={file} {of} oflag=direct");
    let script = format!(
        "{}; {}; dd if=small of=/dev/null bs=4k iflag=direct",
        write("small", "bs=4k count=1000"),
        write("large", "bs=1M count=20"),
    );
    let Some(run) = profile(mount.device(), mount.path(), &script).seen() else { return };
    let file = |name: &str| {
        let mut files = run.files.iter().filter(|file| file.path.ends_with(name));
        files.next().unwrap_or_else(|| panic!("no {name} in {:?}", run.files))
    };
    let (small, large) = (file("/small"), file("/large"));
    assert_eq!(large.read_latency.count(), 0);
    let made = 1000 + 1000 + large.writes;
    let ended = [&small.read_latency, &small.write_latency, &large.write_latency];
    let ended: u64 = ended.iter().map(|latency| latency.count()).sum();
    assert!(ended <= made && made - ended <= unseen_ends(&run).min(5), "{ended} of {made}");
    // Every read and write belongs to a file, whose latency counts it exactly.
    for (is_meant, of_file) in [
        (reads as fn(&Traffic) -> bool, (|file| &file.read_latency) as fn(&FileRun) -> &Histogram),
        (writes, |file| &file.write_latency),
    ] {
        let kinds = traffic(&run, |kind| is_meant(kind) && kind.class.is_of_the_program());
        let requests = merged(&kinds, |kind| &kind.latency);
        let files: Vec<&Histogram> = run.files.iter().map(of_file).collect();
        let count: u64 = files.iter().map(|file| file.count()).sum();
        let sum: u128 = files.iter().map(|file| file.sum()).sum();
        assert_eq!((count, sum), (requests.count(), requests.sum()), "{:?}", run.files);
    }
    let small_p50 = small.write_latency.quantile(0.5).unwrap();
    let large_p50 = large.write_latency.quantile(0.5).unwrap();
    assert!(small_p50 < large_p50, "4 KiB {small_p50} ns, 1 MiB {large_p50} ns");
    // Includes every thread in the cgroup, also the journal's.
    let everybody = merged(&traffic(&run, reads), |kind| &kind.latency);
    let cgroups: u64 = run.cgroups.iter().map(|cgroup| cgroup.read_latency.count()).sum();
    assert_eq!(cgroups, everybody.count(), "{:?}", run.cgroups);
}
