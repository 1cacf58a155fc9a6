//! Requests, bytes and syncs, each compared with an independent count.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use iosonde_model::record::ProfileRun;
use iosonde_model::record::facts::DeviceCounters;
use iosonde_model::record::profile::{Class, Op, SyncKind};
use iosonde_rig::ScratchDir;
use iosonde_rig::guard::ImageMount;
use serde_json::Value;

use super::{
    bare, bytes, disk, group, has, name, own, profile, reads, requests, settle, syncs, traffic,
    writes,
};
use crate::request::{program, turn};

const LOOKS: usize = 3;

/// Reads and writes with their sectors, then discards and flushes.
type Counters = [u64; 6];
const WORDS: [&str; 6] =
    ["reads", "sectors read", "writes", "sectors written", "discards", "flushes"];

/// The block layer's counters, as this test reads them.
fn counters(disk: &str) -> Counters {
    let text = fs::read_to_string(format!("/sys/block/{disk}/stat")).unwrap();
    let fields: Vec<u64> = text.split_whitespace().map(|field| field.parse().unwrap()).collect();
    [0, 2, 4, 6, 11, 15].map(|at| fields[at])
}

fn recorded(counters: &DeviceCounters) -> Counters {
    let DeviceCounters { reads, read_sectors, writes, write_sectors, .. } = *counters;
    [reads, read_sectors, writes, write_sectors, counters.discards, counters.flushes]
}

fn since(later: Counters, earlier: Counters) -> Counters {
    std::array::from_fn(|at| later[at] - earlier[at])
}

/// The same counters from the profile.
fn profiled(run: &ProfileRun) -> Counters {
    let of = |op: Op| traffic(run, |kind| kind.op == op && kind.class != Class::DeviceFlush);
    let sectors = |op: Op| bytes(&of(op)) / 512;
    // The block layer counts a requested flush as an empty write. It counts the cache flushes that
    // it derives from these, and from journal blocks, separately.
    let flushes = requests(&traffic(run, |kind| kind.class == Class::DeviceFlush));
    let writes = requests(&of(Op::Write)) + requests(&of(Op::Flush));
    let reads = requests(&of(Op::Read));
    let discards = requests(&of(Op::Discard));
    [reads, sectors(Op::Read), writes, sectors(Op::Write), discards, flushes]
}

/// The largest difference of a counter, in percent.
fn distance(found: Counters, counted: Counters) -> f64 {
    let each = found.into_iter().zip(counted);
    let percent =
        each.map(|(found, counted)| 100.0 * found.abs_diff(counted) as f64 / counted.max(1) as f64);
    percent.fold(0.0, f64::max)
}

/// Calls by their system call names, as counted by `strace -c`.
fn traced(place: &Path, script: &str) -> Vec<(SyncKind, u64)> {
    let dir = ScratchDir::new().unwrap();
    let table = dir.path().join("table");
    let wanted = "trace=fsync,fdatasync,sync_file_range,msync,sync,syncfs";
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-e", wanted, "-o"]).arg(&table).args(["sh", "-c", script]);
    strace.current_dir(place).stdin(Stdio::null()).stdout(Stdio::null());
    let output = strace.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = fs::read_to_string(&table).unwrap();
    let calls = |word: &str| {
        let line = table.lines().find(|line| line.split_whitespace().last() == Some(word));
        line.map_or(0, |line| line.split_whitespace().nth(3).unwrap().parse().unwrap())
    };
    let kinds = SyncKind::ALL.into_iter().filter(|kind| *kind != SyncKind::IoUring);
    kinds.map(|kind| (kind, calls(kind.word()))).collect()
}

/// Makes a directory of that name on the file system.
fn folder(mount: &ImageMount, name: &str) -> PathBuf {
    let folder = mount.path().join(name);
    fs::create_dir(&folder).unwrap();
    folder
}

/// Profiles the script and compares it with both sources. A sync of the whole machine meanwhile
/// spoils an attempt; a wrong count spoils all attempts.
fn witnessed(what: &str, mount: &ImageMount, script: &str) -> Option<ProfileRun> {
    let mut reported = String::new();
    let run = loop {
        let look = reported.lines().count();
        assert!(look < LOOKS, "{what}: {WORDS:?}\n{reported}");
        let place = folder(mount, &format!("watched-{look}"));
        settle(mount);
        let disk = name(mount.device());
        let before = counters(disk);
        let run = profile(mount.device(), &place, script).seen()?;
        let counted = since(counters(disk), before);
        let device = run.devices.iter().find(|device| device.facts.name == disk).unwrap();
        let (start, end) = device.counters.as_ref().unwrap();
        let kept = since(recorded(end), recorded(start));
        let found = profiled(&run);
        let apart = distance(found, counted).max(distance(kept, counted));
        let words = format!("{found:?} profiled, {kept:?} kept, {counted:?} counted");
        reported = format!("{reported}{words}: {apart:.2} % apart\n");
        if apart <= 1.0 {
            break run;
        }
    };
    eprint!("{what}: {WORDS:?}\n{reported}");
    let second = folder(mount, "traced");
    if has("strace") {
        let calls = traced(&second, script);
        let found: Vec<_> = calls.iter().map(|(kind, _)| (*kind, syncs(&run, *kind))).collect();
        assert_eq!(found, calls, "{what}");
        eprintln!("{what}: syncs as strace counts them: {calls:?}");
    }
    Some(run)
}

/// As [`witnessed`], for a script that needs only the program `what`.
fn is_counted_right(what: &str, script: &str) {
    let _turn = turn();
    if let Some(mount) = has(what).then(disk).flatten() {
        witnessed(what, &mount, script);
    }
}

#[test]
fn dd_direct() {
    let write = "dd if=/dev/zero of=file bs=64k count=400 oflag=direct";
    let read = "dd if=file of=/dev/null bs=16k iflag=direct";
    is_counted_right("dd", &format!("{write} && {read}"));
}

#[test]
fn dd_buffered_and_fsync() {
    is_counted_right("dd", "dd if=/dev/zero of=file bs=1M count=64 conv=fsync");
}

#[test]
fn two_hundred_transactions_of_sqlite() {
    let insert = "begin; insert into t values(hex(randomblob(100))); commit;\n".repeat(200);
    let script = format!("create table t(x);\n{insert}");
    is_counted_right("sqlite3", &format!("sqlite3 base.db <<'END'\n{script}END"));
}

#[test]
fn a_tree_is_packed_and_unpacked_by_tar() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let pack = format!("tar -C '{}' -cf tree.tar .", tree.display());
    is_counted_right("tar", &format!("{pack} && tar -xf tree.tar && sync -f tree.tar"));
}

#[test]
fn a_compile() {
    let functions: String = (0..400)
        .map(|at| format!("int f{at}(int x) {{ return x * {at} ^ x % {}; }}\n", at + 1))
        .collect();
    let compile = "TMPDIR=$PWD cc -g -O1 -save-temps -c many.c && sync -f many.o";
    is_counted_right("cc", &format!("cat > many.c <<'END'\n{functions}END\n{compile}"));
}

/// Two forked jobs of fio; fio's own report is written outside of the disk.
fn two_jobs(engine: &str) {
    let _turn = turn();
    let Some(mount) = has("fio").then(disk).flatten() else { return };
    let dir = ScratchDir::new().unwrap();
    let script = format!(
        "fio --name=load --ioengine={engine} --directory=. --size=8M --numjobs=2 --rw=randrw \
         --bs=4k --direct=1 --iodepth=8 --fsync=16 --fallocate=none \
         --output-format=json --output={}/$(basename $PWD)",
        dir.path().display()
    );
    let Some(run) = witnessed(&format!("fio {engine}"), &mount, &script) else { return };
    let mut accounts = (0..LOOKS).rev().map(|look| dir.path().join(format!("watched-{look}")));
    let fio = sums(&accounts.find(|path| path.exists()).unwrap());
    eprintln!("fio {engine}: its own account: {fio:?}");
    if engine == "io_uring" {
        assert_eq!(syncs(&run, SyncKind::IoUring), fio.syncs);
    } else {
        assert!(syncs(&run, SyncKind::Fsync) >= fio.syncs, "{:?}", run.syncs);
    }
    let names = run.groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>();
    assert!(names.contains(&"fio"), "{names:?}");
    // Direct writes of the jobs, merged or not, and those of the layout.
    let written = bytes(&traffic(&run, |kind| own(kind) && writes(kind)));
    assert!(written >= fio.written_bytes, "{written} of {fio:?}");
}

/// Sums over all jobs.
#[derive(Debug)]
struct Sums {
    reads: u64,
    writes: u64,
    written_bytes: u64,
    syncs: u64,
}

fn sums(account: &Path) -> Sums {
    let text = fs::read_to_string(account).unwrap();
    // Notes may precede the document.
    let account: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let jobs = account["jobs"].as_array().unwrap();
    let sum =
        |pointer| jobs.iter().map(|job| job.pointer(pointer).unwrap().as_u64().unwrap()).sum();
    Sums {
        reads: sum("/read/total_ios"),
        writes: sum("/write/total_ios"),
        written_bytes: sum("/write/io_bytes"),
        syncs: sum("/sync/total_ios"),
    }
}

#[test]
fn two_forked_jobs_of_fio_by_psync() {
    two_jobs("psync");
}

#[test]
fn two_forked_jobs_of_fio_by_libaio() {
    two_jobs("libaio");
}

#[test]
fn two_forked_jobs_of_fio_by_io_uring() {
    two_jobs("io_uring");
}

#[test]
fn without_merges_a_request_is_an_operation_of_fio() {
    let _turn = turn();
    let Some((device, dir)) = has("fio").then(|| bare(64)).flatten() else { return };
    let account = dir.path().join("fio.json");
    let script = format!(
        "fio --name=load --ioengine=psync --filename={} --size=16M --numjobs=2 --rw=randrw \
         --bs=4k --direct=1 --output-format=json --output={}",
        device.path().display(),
        account.display()
    );
    let Some(run) = profile(&device, dir.path(), &script).seen() else { return };
    let fio = sums(&account);
    let found = |kinds: Vec<_>| requests(&kinds);
    let read = found(traffic(&run, |kind| own(kind) && reads(kind)));
    let written = found(traffic(&run, |kind| own(kind) && writes(kind)));
    assert_eq!((read, written), (fio.reads, fio.writes), "{:?}", run.lost);
    let moved = bytes(&traffic(&run, |kind| own(kind) && writes(kind)));
    assert_eq!(moved, fio.written_bytes);
}

/// Reads in bursts of 16, 20 ms apart, and single reads of another role.
const IN_BURSTS: &str = r#"
name = "bursts"
title = "Bursts"
pattern = "bursts"
models = ""
block-size = "4k"
read-percent = 100
[[role]]
name = "burst"
rw = "randread"
threads = { count = 1 }
iodepth = 16
batch = 16
[role.pace.rate]
rate = { ops = 800.0 }
[role.pace.rate.arrivals.bursts]
requests = [[16, 100.0]]
within = [[0, 100.0]]
between = [[20000000, 100.0]]
[[role]]
name = "single"
rw = "randread"
threads = { count = 1 }
iodepth = 1
[role.pace.rate]
rate = { ops = 200.0 }
arrivals = "constant"
"#;

#[test]
fn requests_that_begin_together_are_one_burst() {
    let _turn = turn();
    let Some(mount) = disk() else { return };
    fs::write(mount.path().join("bursts.toml"), IN_BURSTS).unwrap();
    let words = "run bursts.toml --path . --size 8m --runtime 3s --results results";
    let script = format!("{} {words} > output 2>&1", program().display());
    let Some(run) = profile(mount.device(), mount.path(), &script).seen() else { return };
    let of = |role: &str| {
        let is_of = |kind: &&_| reads(kind) && group(&run, kind).ends_with(role);
        let all: Vec<_> = run.traffic.iter().filter(is_of).collect();
        assert_eq!(all.len(), 1, "{role}");
        let bursts = all[0].bursts.clone();
        (bursts.iter().sum::<u64>(), bursts)
    };
    let (all, bursts) = of("burst");
    assert!((100..=170).contains(&all) && bursts[4] * 10 >= all * 8, "{bursts:?}");
    let (all, bursts) = of("single");
    assert!((500..=620).contains(&all) && bursts[0] * 100 >= all * 98, "{bursts:?}");
}
