//! Conformance with fio: both programs run the same job file under strace on the same files, and
//! the operations of their jobs are compared. A defined order must be equal; in a random order the
//! blocks must be equal.
//!
//! Known differences are not compared: the random order itself, which operations of a mix are
//! reads, a sync after the very last write, syncs among several requests in flight (fio does not
//! fix their order), the fsync that ends each of our writing runs, and the turns of `roundrobin:N`
//! if N does not divide a file's blocks. `IOSONDE_CONFORMANCE_TABLE=FILE` writes the table to FILE.
//! `IOSONDE_CONFORMANCE_ONLY=WORD` runs only job files that contain WORD.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use iosonde_rig::{ScratchDir, skip, skip_part};

const FILE_BYTES: usize = 64 << 10;
/// Length of the files for fio's own examples.
const EXAMPLE_BYTES: usize = 4 << 20;
/// Logs of operations for jobs to replay, in both versions of the format.
const TWO: &str = "fio version 2 iolog\na.img add\nb.img add\na.img open\nb.img open\n\
    a.img write 8192 4096\nb.img read 0 8192\na.img wait 20 0\na.img sync 0 0\n\
    a.img read 4096 4096\nb.img write 16384 4096\nb.img read 32768 4096\na.img close\n\
    b.img close\n";
const THREE: &str = "fio version 3 iolog\n50 a.img add\n60 a.img open\n100 a.img read 0 4096\n\
    2100 a.img write 20480 4096\n2200 a.img read 24576 4096\n5000 a.img sync 24576 0\n\
    5100 a.img write 12288 8192\n9100 a.img read 16384 4096\n9200 a.img close\n";
/// The only I/O priority that single requests have: best effort, level 3.
const PRIORITY: &str = "aio_reqprio=IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 3)";
/// No job file starts after this time.
const TIME: Duration = Duration::from_secs(220);
/// A job file takes a program a second or two. One that is still running after this time hangs.
const LIMIT: Duration = Duration::from_secs(90);
/// Number of job files that run concurrently.
const WORKERS: usize = 4;
const CALLS: &str = "trace=read,write,lseek,pread64,pwrite64,preadv2,pwritev2,fsync,fdatasync,\
    io_submit";

/// An operation: direction (lower case if it has its own priority), file, offset, length.
type Op = (char, String, u64, u64);
/// Operations of a program: a list for each thread or process.
type Jobs = Vec<Vec<Op>>;

/// The job files, with reading and writing ones in turn.
fn job_files() -> Vec<String> {
    let (mut files, mut groups) = (Vec::new(), Vec::new());
    let mut add = |rw: &str, bs: &str, more: &str| {
        let file = if more.contains("filename") { "" } else { "filename=a.img\n" };
        files.push(format!("[a]\n{file}rw={rw}\nbs={bs}\n{more}\n"));
    };
    for rw in ["read", "write"] {
        for more in [
            "",
            "offset=16k\nsize=32k",
            "size=50%",
            "io_size=160k",
            "loops=2",
            "direct=1",
            "filename=a.img:b.img",
            "iodepth=8",
            "ioengine=libaio\niodepth=4",
            "ioengine=libaio\niodepth=8\niodepth_batch_submit=4\niodepth_batch_complete_min=4",
            "numjobs=2\noffset_increment=32k\nsize=32k",
            "runtime=60",
            "thinktime=100",
            "number_ios=3",
        ] {
            for bs in ["4k", "16k"] {
                add(rw, bs, more);
            }
        }
        for hole in ["4k", "12k"] {
            add(&format!("{rw}:{hole}"), "4k", "");
            add(&format!("{rw}:{hole}"), "4k", "size=48k");
        }
        for hole in ["8k", "12k"] {
            add(&format!("{rw}:-{hole}"), "4k", if hole == "8k" { "" } else { "size=52k" });
        }
        for more in ["", "direct=1", "ioengine=libaio\niodepth=4", "numjobs=2", "io_size=128k"] {
            add(&format!("rand{rw}"), "4k", more);
        }
        for more in ["randseed=7", "random_generator=lfsr", "loops=2"] {
            add(&format!("rand{rw}"), "4k", more);
        }
        for more in [
            "size=30k",
            "size=30k\nloops=2",
            "offset=8k\nsize=50k",
            "io_size=70k",
            "zonemode=strided\nzonesize=8k\nzoneskip=8k",
            "zonemode=strided\nzonesize=4k\nzonerange=8k\nzoneskip=4k",
            "filename=a.img:b.img\nfile_service_type=sequential",
            "filename=a.img:b.img\nfile_service_type=roundrobin:4",
            // fio 3.33 sleeps for ever if the spin takes longer than the whole think time.
            "thinktime=100ms\nthinktime_blocks=4\nthinktime_spin=20",
            "thinktime=1ms\nthinktime_iotime=1ms",
            "rate_iops=2000",
            "rate=40m",
            "runtime=60\nnumber_ios=5",
            "offset=25%\noffset_align=8k",
            "ioengine=sync",
            "ioengine=pvsync2",
            "ioengine=libaio\niodepth=8\niodepth_low=2",
            "startdelay=100ms",
            "invalidate=0\nfadvise_hint=0",
            "nice=5\nthread",
            "ioengine=libaio\niodepth=4\ncmdprio_percentage=100\ncmdprio_class=2\ncmdprio=3",
            "ioengine=libaio\ncmdprio_bssplit=4k/60/2/3:4k/40/2/3:8k/100/2/1",
            "ioengine=libaio\ncmdprio_percentage=0\ncmdprio_class=2",
        ] {
            add(rw, "4k", more);
        }
        for more in ["size=32k", "size=30k", "offset=16k", "thinktime=50", "rate_iops=2000"] {
            add(&format!("rand{rw}"), "4k", more);
        }
        for more in ["", "ioengine=libaio\niodepth=4"] {
            add(&format!("rand{rw}"), "16k", more);
        }
        // Enough operations that every offset occurs with every length.
        for sizes in ["bssplit=4k/50:16k/50", "bsrange=4k-16k", "bssplit=4k:8k:16k"] {
            add(&format!("rand{rw}"), "4k", &format!("{sizes}\nnorandommap\nio_size=16m"));
        }
        add(&format!("rand{rw}"), "4k", "norandommap\nio_size=4m");
        for waits in ["rate_iops=2000", "thinktime=100", "iodepth_low=2"] {
            let batch = "ioengine=libaio\niodepth=8\niodepth_batch_complete_min=4";
            add(rw, "4k", &format!("{batch}\n{waits}"));
        }
        for sizes in ["bssplit=4k/50:16k/50", "bsrange=4k-32k", "bssplit=8k/20:4k\nloops=2"] {
            add(rw, "4k", sizes);
            add(&format!("rand{rw}"), "4k", sizes);
        }
        groups.push(format!(
            "[global]\nfilename=a.img\nbs=4k\nrw={rw}\n[a]\nsize=16k\n[b]\nsize=32k\n\
             ioengine=libaio\n"
        ));
        groups.push(format!(
            "[global]\nbs=4k\nrw={rw}\n[a]\nfilename=a.img\n[b]\nwait_for=a\nfilename=b.img\n"
        ));
    }
    for sync in ["fsync=1", "fdatasync=2", "end_fsync=1", "fsync_on_close=1", "sync=dsync"] {
        add("write", "4k", sync);
        add("randwrite", "4k", sync);
    }
    add("write", "4k", "ioengine=libaio\niodepth=4\nfdatasync=1");
    for sync in ["fsync=1", "fdatasync=4"] {
        let batch = "ioengine=libaio\niodepth=8\niodepth_batch_complete_min=4";
        add("write", "4k", &format!("{batch}\n{sync}"));
        add("randwrite", "4k", &format!("{batch}\n{sync}"));
    }
    add("read", "4k", "filesize=64k\noffset=16k");
    add("read", "4k", "filesize=64k\nsize=32k\noffset=48k");
    add("write", "4k", "verify=crc32c");
    add("randwrite", "4k", "verify=md5");
    add("write", "4k", "verify=crc32c\ndo_verify=0");
    add("write", "4k", "buffer_pattern=0xdeadbeef");
    add("write", "4k", "zero_buffers");
    add("write", "4k", "fsync=3");
    add("write", "4k", "sync=1");
    for more in ["", "replay_no_stall=1", "replay_redirect=b.img"] {
        files.push(format!("[a]\nread_iolog=two.log\n{more}\n"));
        files.push(format!("[a]\nread_iolog=three.log\n{more}\n"));
    }
    for more in ["replay_scale=2\nreplay_align=4k", "replay_time_scale=50", "runtime=60"] {
        files.push(format!("[a]\nread_iolog=three.log\n{more}\n"));
    }
    files.append(&mut groups);
    files.push(
        "[a]\nfilename=a.img\nrw=write\nbs=8k\n[b]\nstonewall\nfilename=a.img\nrw=read\nbs=4k\n"
            .into(),
    );
    let (reading, writing) = files.split_at(files.len() / 2);
    let turns = (0..writing.len()).flat_map(|at| [reading.get(at), writing.get(at)]);
    turns.flatten().cloned().collect()
}

/// The operations of a program on the files, a list for each thread or process.
fn traced(
    folder: &Path,
    (program, bytes): (&str, usize),
    words: &[&str],
) -> Result<Vec<Vec<Op>>, String> {
    fs::write(folder.join("two.log"), TWO).unwrap();
    fs::write(folder.join("three.log"), THREE).unwrap();
    for name in ["a.img", "b.img"] {
        fs::write(folder.join(name), vec![0; bytes]).unwrap();
    }
    let (trace, said) = (folder.join("trace"), folder.join("said"));
    let mut strace = Command::new("strace")
        .args(["-f", "-y", "-s", "32", "-e", CALLS, "-o"])
        .arg(&trace)
        .arg(program)
        .args(words)
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let latest = Instant::now() + LIMIT;
    let ended = loop {
        if let Some(status) = strace.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > latest {
            // Repeated until all have ended, because new ones may start.
            kill_traced(&fs::read_to_string(&trace).unwrap());
        }
        sleep(Duration::from_millis(5));
    };
    let text = String::from_utf8_lossy(&fs::read(trace).unwrap()).into_owned();
    if !ended.success() {
        let said = fs::read_to_string(said).unwrap();
        let calls: Vec<&str> = text.lines().collect();
        let last = calls[calls.len().saturating_sub(12)..].join("\n");
        return Err(format!("{program}: {ended}\n{said}last calls:\n{last}\n"));
    }
    Ok(operations(&text))
}

/// Kills each process of a trace that still runs; fio's jobs are in sessions of their own.
fn kill_traced(trace: &str) {
    let mut alive = BTreeSet::new();
    for (thread, call) in trace.lines().filter_map(|line| line.split_once(' ')) {
        match call.trim_start().starts_with("+++") {
            true => alive.remove(thread),
            false => alive.insert(thread),
        };
    }
    Command::new("kill").arg("-KILL").args(alive).output().unwrap();
}

/// The operations in a trace, except of the thread that reads the job file, and of threads that
/// only sync at the end of a run.
fn operations(trace: &str) -> Vec<Vec<Op>> {
    let mut all: BTreeMap<&str, Vec<Op>> = BTreeMap::new();
    let mut begun: BTreeMap<&str, String> = BTreeMap::new();
    let mut readers = Vec::new();
    let mut stands: BTreeMap<&str, u64> = BTreeMap::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let mut call = call.trim_start().to_string();
        if let Some(start) = call.split(" <unfinished").next().filter(|s| s.len() < call.len()) {
            begun.insert(thread, start.trim_end().to_string());
            continue;
        }
        if let Some((_, rest)) = call.split_once("resumed>") {
            call = begun.remove(thread).unwrap_or_default() + rest;
        }
        if call.starts_with("read(") && call.contains("/job.fio>") {
            readers.push(thread);
        }
        let ops = all.entry(thread).or_default();
        if call.starts_with("io_submit(") {
            ops.extend(call.split("aio_lio_opcode=").skip(1).filter_map(submitted));
        } else {
            ops.extend(called(&call, stands.entry(thread).or_default()));
        }
    }
    readers.iter().for_each(|thread| drop(all.remove(thread)));
    let moves = |ops: &Vec<Op>| ops.iter().any(|op| op.0 != 'S');
    all.into_values().filter(moves).collect()
}

/// One request of an `io_submit`.
fn submitted(text: &str) -> Option<Op> {
    let number = |name: &str| {
        let digits = text.split_once(name)?.1;
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    if text.starts_with("IOCB_CMD_F") {
        return Some(('S', file(text)?, 0, 0));
    }
    let way = if text.starts_with("IOCB_CMD_PREAD") { 'R' } else { 'W' };
    let way = if text.contains(PRIORITY) { way.to_ascii_lowercase() } else { way };
    Some((way, file(text)?, number("aio_offset=")?, number("aio_nbytes=")?))
}

/// The operation of a call; `at` holds each thread's file position for `read` and `write`.
fn called(text: &str, at: &mut u64) -> Option<Op> {
    let name = text.split('(').next()?;
    let arguments = text.rsplit_once(" = ")?.0.trim_end().strip_suffix(')')?;
    let mut last = arguments.rsplit(", ");
    match name {
        "lseek" => {
            file(text)?;
            *at = text.rsplit_once(" = ")?.1.trim().parse().ok()?;
            None
        }
        "read" | "write" => {
            let moved: u64 = text.rsplit_once(" = ")?.1.trim().parse().ok()?;
            let way = if name == "read" { 'R' } else { 'W' };
            let op = (way, file(text)?, *at, moved);
            *at += moved;
            Some(op)
        }
        "fsync" | "fdatasync" => Some(('S', file(text)?, 0, 0)),
        "pread64" | "pwrite64" => {
            let offset = last.next()?.parse().ok()?;
            let way = if name == "pread64" { 'R' } else { 'W' };
            Some((way, file(text)?, offset, last.next()?.parse().ok()?))
        }
        "preadv2" | "pwritev2" => {
            // A NOWAIT probe is not an operation of a job.
            let flags = last.next()?;
            let offset = last.next()?.parse().ok()?;
            let bytes = text.rsplit_once("iov_len=")?.1.split('}').next()?.parse().ok()?;
            let way = if name == "preadv2" { 'R' } else { 'W' };
            (!flags.contains("NOWAIT")).then_some((way, file(text)?, offset, bytes))
        }
        _ => None,
    }
}

/// The test file named in a call.
fn file(text: &str) -> Option<String> {
    let path = text.split_once('<')?.1.split('>').next()?;
    let name = path.rsplit('/').next()?;
    name.ends_with(".img").then(|| name.to_string())
}

/// The lists in comparable form: unordered if their order is random, and merged if data are
/// verified, because fio verifies in the same thread and iosonde in another.
fn comparable(job: &str, mut all: Vec<Vec<Op>>) -> Vec<Vec<Op>> {
    if job.contains("verify") {
        all = vec![all.concat()];
        all.iter_mut().for_each(|ops| ops.retain(|op| op.0 != 'S'));
    }
    if job.contains("iodepth=") && job.contains("sync=") {
        all.iter_mut().for_each(|ops| ops.retain(|op| op.0 != 'S'));
    }
    for ops in &mut all {
        while ops.last().is_some_and(|op| op.0 == 'S') {
            ops.pop();
        }
    }
    if job.contains("norandommap") {
        all.iter_mut().for_each(|ops| {
            ops.sort();
            ops.dedup();
        });
    } else if job.contains("bssplit") || job.contains("bsrange") {
        all.iter_mut().for_each(|ops| *ops = places_used(ops));
    }
    if job.contains("rw=rand") {
        all.iter_mut().for_each(|ops| ops.sort());
    }
    all.sort();
    all
}

/// Splits operations into the smallest blocks, each as often as it is used: lengths are random.
fn places_used(ops: &[Op]) -> Vec<Op> {
    const SMALLEST: u64 = 4 << 10;
    let blocks = ops.iter().flat_map(|(way, file, offset, bytes)| {
        let places = (*offset..offset + bytes).step_by(SMALLEST as usize);
        places.map(|place| (*way, file.clone(), place, SMALLEST))
    });
    blocks.collect()
}

/// Runs a job file with fio and with iosonde on files of `bytes` bytes.
#[allow(clippy::type_complexity, reason = "theirs and ours")]
fn both(folder: &Path, job: &str, bytes: usize) -> Result<(Jobs, Jobs), String> {
    fs::write(folder.join("job.fio"), job).unwrap();
    let theirs = traced(folder, ("fio", bytes), &["job.fio", "--output=fio.txt"])?;
    let program = (iosonde_fixtures::program!().path(), bytes);
    let consent = ["a.img", "b.img"].map(|name| format!("--accept-unseen-processes={name}"));
    let ours = match traced(folder, program, &["run", "job.fio"]) {
        // Some processes cannot be examined here, and consent must name only files that need it.
        Err(refused) if refused.contains("accept-unseen-processes") => {
            let consent = &consent[usize::from(refused.contains("processes=b.img"))];
            traced(folder, program, &["run", "job.fio", consent])?
        }
        ours => ours?,
    };
    Ok((comparable(job, theirs), comparable(job, ours)))
}

/// Whether fio and strace are usable; reports what is missing.
fn has_witness() -> bool {
    for program in ["fio", "strace"] {
        if Command::new(program).arg("--version").output().is_err() {
            skip(format!("{program} is not installed"));
            return false;
        }
    }
    let traces = Command::new("strace").args(["-o", "/dev/null", "true"]).output().unwrap();
    if !traces.status.success() {
        skip("strace may not trace here");
    }
    traces.status.success()
}

/// An example of fio for small files: replaces file names, sizes and times. A run that only time
/// ends is limited by its size.
fn shortened(example: &str) -> String {
    let mut text = String::new();
    for line in example.lines() {
        let (option, value) = line.split_once('=').unwrap_or((line, ""));
        let line = match option.trim() {
            "filename" if value.contains(':') => "filename=a.img:b.img".into(),
            "filename" => "filename=a.img".into(),
            "directory" | "runtime" | "timeout" | "time_based" | "ramp_time" | "loops"
            | "startdelay" | "thinktime" => String::new(),
            option if option.starts_with("rate") => String::new(),
            "size" | "io_size" | "filesize" | "offset_increment" => {
                format!("{}={}", option.trim(), EXAMPLE_BYTES / 2)
            }
            option if option.starts_with("write_") && option.ends_with("_log") => String::new(),
            _ => line.to_string(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    if !text.contains("filename=") {
        text.insert_str(0, "[global]\nfilename=a.img\n");
    }
    text
}

/// The comparable part of an example: offsets used and directions. In a mix only the offsets, since
/// the choice of reads is random. If sizes are random or offsets repeat, only that a file has
/// operations.
fn places(job: &str, all: &[Vec<Op>]) -> Vec<Op> {
    let mut ops: Vec<Op> = all.concat();
    ops.retain(|op| op.0 != 'S');
    let drawn = ["bssplit", "bsrange", "norandommap", "random_distribution", "percentage_random"];
    // In sequence each direction has its own position, and the extent of each is random.
    let drawn = drawn.iter().any(|option| job.contains(option)) || job.contains("rw=rw");
    for op in &mut ops {
        if drawn {
            *op = ('-', op.1.clone(), 0, 0);
        } else if job.contains("rw=randrw") {
            op.0 = '-';
        }
    }
    ops.sort();
    if drawn {
        ops.dedup();
    }
    ops
}

/// Examples that cannot be compared, and why.
const NOT_COMPARED: &[(&str, &str)] = &[
    ("null.fio", "the null engine makes no system calls"),
    ("zipf.fio", "the null engine makes no system calls"),
    ("cross-stripe-verify.fio", "its offsets lie beyond small files"),
    ("numa.fio", "it needs two NUMA nodes"),
    ("example_latency_steadystate.fio", "fio 3.33 does not know its options"),
    ("atomic-verify.fio", "fio 3.33 does not know its options"),
    ("sequence-distribution.fio", "fio 3.33 does not know its options"),
    ("uring-cmd-ng.fio", "it needs an NVMe generic device"),
    ("xnvme-compare.fio", "its options come from the environment"),
    ("exitwhat.fio", "jobs end with others, whenever those have ended"),
    ("enospc-pressure.fio", "it fills a file system"),
    ("surface-scan.fio", "it fills a file system"),
    ("latency-profile.fio", "its depth follows the latency"),
];

#[test]
fn the_examples_of_fio_are_the_same_load() {
    let Ok(examples) = std::env::var("IOSONDE_FIO_EXAMPLES") else {
        skip("IOSONDE_FIO_EXAMPLES names no directory with the examples of fio's source");
        return;
    };
    if !has_witness() {
        return;
    }
    let scratch = ScratchDir::new().unwrap();
    let folder = scratch.path();
    let (mut same, mut other) = (0, Vec::new());
    let fates = include_str!("../docs/fio-examples.txt");
    for name in fates.lines().filter_map(|line| line.strip_prefix("runs     ")) {
        if let Some((_, why)) = NOT_COMPARED.iter().find(|(known, _)| *known == name) {
            println!("not compared: {name}: {why}");
            continue;
        }
        let job = shortened(&fs::read_to_string(Path::new(&examples).join(name)).unwrap());
        match both(folder, &job, EXAMPLE_BYTES) {
            Err(error) => other.push(format!("{name}: {error}")),
            Ok((theirs, ours)) => {
                let (theirs, ours) = (places(&job, &theirs), places(&job, &ours));
                let is_same = theirs == ours && !theirs.is_empty();
                println!("{} {name}", if is_same { "same" } else { "DIFF" });
                same += usize::from(is_same);
                let (ours, theirs) = (ours.len(), theirs.len());
                if !is_same {
                    other.push(format!("{name}: {theirs} operations by fio, {ours} here\n{job}"));
                }
            }
        }
    }
    println!("{same} examples are the same load");
    assert!(other.is_empty(), "{}", other.join("\n"));
    assert!(same >= 20, "{same}");
}

/// The operations of fio and iosonde for as many of these job files as time permits. Both programs
/// mostly wait, so several run concurrently, each in its own folder.
fn compared(files: &[String]) -> Vec<(Jobs, Jobs)> {
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    let work = || {
        let scratch = ScratchDir::new().unwrap();
        let mut done = Vec::new();
        while begun.elapsed() < TIME {
            let index = next.fetch_add(1, Relaxed);
            let Some(job) = files.get(index) else { break };
            let ops = both(scratch.path(), job, FILE_BYTES);
            done.push((index, ops.unwrap_or_else(|error| panic!("{job}{error}"))));
        }
        done
    };
    let mut done: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, ops)| ops).collect()
}

#[test]
fn the_same_job_file_is_the_same_load_as_with_fio() {
    if !has_witness() {
        return;
    }
    let only = std::env::var("IOSONDE_CONFORMANCE_ONLY").unwrap_or_default();
    let files: Vec<String> = job_files().into_iter().filter(|job| job.contains(&only)).collect();
    let (mut same, mut other, mut table) = (0, Vec::new(), Vec::new());
    let compared = compared(&files);
    if compared.len() < files.len() {
        let left_out = format!("{} job files", files.len() - compared.len());
        skip_part(&left_out, "no time is left");
    }
    for (job, (theirs, ours)) in files.iter().zip(compared) {
        let operations: usize = theirs.iter().map(Vec::len).sum();
        let word = if theirs == ours { "same" } else { "DIFF" };
        let shown = job.trim_start_matches("[a]\n").trim().replace('\n', " ");
        let row = format!("{word} {operations:>5} operations  {shown}\n");
        print!("{row}");
        table.push(row);
        match theirs == ours && !theirs.is_empty() {
            true => same += 1,
            false => other.push(format!("{job}fio  {theirs:?}\nours {ours:?}\n")),
        }
    }
    println!("{same} of {} job files are the same load", same + other.len());
    if let Ok(path) = std::env::var("IOSONDE_CONFORMANCE_TABLE") {
        let sum = format!("{same} of {} job files are the same load\n", same + other.len());
        fs::write(path, table.concat() + &sum).unwrap();
    }
    assert!(other.is_empty(), "{}", other.join("\n"));
    assert!(same >= 5, "{same}: too few to say anything");
}
