//! Settings that make the result of a job misleading, detected without running it.

use std::collections::BTreeMap;

use super::job::{FioJob, JobFile};
use super::number::Amount;
use super::value::Value;
use super::{Fault, load};
use crate::spec::{EngineKind, Rw};
use crate::units::bytes;

/// Fewest operations for a 99.9th percentile, as in our own reports.
const P999_OPS: u64 = 3_700;
/// Time-bound runs below this end before the write cache is full or garbage collection begins, ns.
const SHORT_NS: u64 = 30_000_000_000;
/// A longer runtime was probably meant in another unit, ns.
const LONG_NS: u64 = 7 * 86_400 * 1_000_000_000;
/// The smallest block that storage accepts, bytes.
const SECTOR_BYTES: u64 = 512;

/// Properties of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Main memory, bytes; 0 if unknown.
    pub memory_bytes: u64,
}

/// Settings that would make the results of these jobs misleading, with their lines in file order.
pub fn lint(file: &JobFile, around: Around) -> Vec<Fault> {
    let mut found = Vec::new();
    for job in file.groups.iter().flat_map(|group| &group.jobs) {
        of_job(job, around, &mut |name: &str, what: String| {
            let fault = Fault::new(&job.place(name).within(&job.name), format!("{name}: {what}"));
            found.push(fault);
        });
    }
    for group in &file.groups {
        found.extend(same_blocks(&group.jobs));
    }
    found.sort_by(|a, b| a.place.cmp(&b.place));
    found.dedup();
    found
}

fn of_job(job: &FioJob, around: Around, say: &mut dyn FnMut(&str, String)) {
    let Ok(rw) = load::rw(job) else { return };
    if job.is_on("create_only") {
        return;
    }
    let engine = load::engine(job);
    if let Some(depth) = job.count("iodepth").filter(|depth| *depth > 1)
        && EngineKind::of_fio(engine).is_some_and(EngineKind::is_synchronous)
    {
        let what = format!(
            "{depth} has no effect: {engine} keeps one request in flight, and the result is that \
             of depth 1; give ioengine=io_uring or libaio"
        );
        say("iodepth", what);
    }
    let direct = job.is_on("direct") || job.is_off("buffered");
    let size = if let Some(Amount::Bytes(size)) = job.amount("size") { Some(size) } else { None };
    let copies = job.count("numjobs").unwrap_or(1).max(1);
    if !direct && engine != "null" && !is_synced(job, rw) && !is_beyond_memory(job, size, around) {
        let fits = size.is_some_and(|size| size.saturating_mul(copies) < around.memory_bytes);
        let what = match fits {
            true => format!(
                "I/O goes through the page cache, and {} fit into the {} of memory: the result is \
                 that of memory; give direct=1",
                size.map(|size| bytes::rough(size.saturating_mul(copies))).unwrap_or_default(),
                bytes::rough(around.memory_bytes)
            ),
            false => "I/O goes through the page cache: the result depends on memory and on what \
                      ran before; give direct=1"
                .into(),
        };
        say(if job.get("direct").is_some() { "direct" } else { "rw" }, what);
    }
    let runtime = job.time_ns("runtime").filter(|ns| *ns > 0);
    let timed = job.is_on("time_based");
    match runtime {
        Some(ns) if ns > LONG_NS => {
            say("runtime", "more than a week: a number without a unit is seconds".into());
        }
        Some(ns) if timed && ns < SHORT_NS && rw.read_percent(50) < 100 => {
            let what = "shorter than 30 s: write caches and garbage collection are slower to show; \
                        give a longer runtime, and ramp_time";
            say("runtime", what.into());
        }
        _ => {}
    }
    if runtime.is_none() && job.time_ns("ramp_time").is_some_and(|ns| ns > 0) {
        let what = "without runtime, the I/O of the warm-up counts towards the size, and less than \
                    the size is measured; give time_based and a runtime";
        say("ramp_time", what.into());
    }
    if rw.read_percent(50) < 100 {
        of_data(job, say);
    }
    let block = smallest_block(job);
    if block > 0 && block < SECTOR_BYTES {
        say("bs", format!("{block} is {block} bytes: did you mean {block}k?"));
    }
    for name in ["bs", "bsrange", "bssplit", "size", "io_size"] {
        let text = job.get(name).and_then(|setting| setting.text.as_deref()).unwrap_or_default();
        if job.get("kb_base").is_none() && text.to_ascii_lowercase().contains("ib") {
            let what = format!(
                "in `{}` a kib is 1000 bytes and a k 1024, as fio has it: did you mean the letter \
                 alone?",
                super::shown(text)
            );
            say(name, what);
        }
    }
    let operations = operations(job, size, block, runtime, timed);
    if let Some(ops) = operations.filter(|ops| *ops < P999_OPS) {
        let what = format!(
            "at most {ops} operations: a percentile of 99.9 takes {P999_OPS}; give a larger size, \
             or time_based and a runtime"
        );
        let name = ["number_ios", "io_size", "rate_iops", "size"];
        say(name.into_iter().find(|name| job.get(name).is_some()).unwrap_or("rw"), what);
    }
    for name in ["rate", "rate_min"] {
        let slowest = job.ways(name).into_iter().flatten().filter(|rate| *rate > 0).min();
        if let Some(rate) = slowest.filter(|rate| *rate < block.max(SECTOR_BYTES)) {
            say(name, format!("{rate} is {rate} bytes per second: did you mean rate_iops?"));
        }
    }
    let reads = rw.is_mixed() || matches!(rw, Rw::Read | Rw::RandRead);
    if reads && job.has_word("fallocate", "truncate") {
        let what = "reads of a file that was never written do not reach storage: they return zeros";
        say("fallocate", what.into());
    }
    if job.has_word("kb_base", "1000") {
        let what = "k is 1000 bytes here and 1024 elsewhere: blocks such as bs=4k are no multiple \
                    of 512";
        say("kb_base", what.into());
    }
}

/// Whether syncs are so frequent that the page cache cannot defer writes.
fn is_synced(job: &FioJob, rw: Rw) -> bool {
    let every = |name: &str| job.count(name).is_some_and(|writes| writes > 0);
    let sync = job.word("sync").is_some_and(|(word, _)| !matches!(word, "none" | "0"));
    matches!(rw, Rw::Write | Rw::RandWrite) && (every("fsync") || every("fdatasync") || sync)
}

/// Whether the page cache is explicitly requested with data of at least twice the memory.
fn is_beyond_memory(job: &FioJob, size: Option<u64>, around: Around) -> bool {
    let is_asked = job.is_off("direct") || job.is_on("buffered");
    is_asked && around.memory_bytes > 0 && size.is_some_and(|size| size / 2 >= around.memory_bytes)
}

/// Warns about data that storage may not need to store.
fn of_data(job: &FioJob, say: &mut dyn FnMut(&str, String)) {
    let all = |name: &str| job.count(name).is_some_and(|percent| percent >= 100);
    for (name, found) in [
        ("zero_buffers", job.is_on("zero_buffers")),
        ("buffer_compress_percentage", all("buffer_compress_percentage")),
        ("dedupe_percentage", all("dedupe_percentage")),
    ] {
        if found {
            let what = "storage that compresses or deduplicates stores almost none of it";
            say(name, what.into());
        }
    }
}

/// The smallest block size given for a job, bytes.
fn smallest_block(job: &FioJob) -> u64 {
    let bytes: Vec<u64> = match (job.get("bssplit"), job.get("bsrange"), job.get("bs")) {
        (Some(setting), _, _) | (None, Some(setting), _) | (None, None, Some(setting)) => {
            match &setting.value {
                Value::Counts(ways) => ways.iter().flatten().copied().collect(),
                Value::Ranges(ways) => ways.iter().flatten().map(|(low, _)| *low).collect(),
                Value::Splits(ways) => {
                    ways.iter().flatten().flatten().map(|(bytes, _)| *bytes).collect()
                }
                _ => Vec::new(),
            }
        }
        (None, None, None) => Vec::new(),
    };
    bytes.into_iter().min().unwrap_or(4096)
}

/// Most operations of a job, if known.
fn operations(
    job: &FioJob,
    size: Option<u64>,
    block: u64,
    runtime: Option<u64>,
    timed: bool,
) -> Option<u64> {
    let copies = job.count("numjobs").unwrap_or(1).max(1);
    let paced = job.ways("rate_iops").into_iter().flatten().max().filter(|rate| *rate > 0);
    let by_rate = paced.zip(runtime).map(|(rate, ns)| {
        u64::try_from(u128::from(rate) * u128::from(ns) / 1_000_000_000).unwrap_or(u64::MAX)
    });
    let whole = match job.amount("io_size") {
        Some(Amount::Bytes(bytes)) if bytes > 0 => Some(bytes),
        _ => size,
    };
    let loops = job.count("loops").unwrap_or(1).max(1);
    let by_size = whole.filter(|_| !timed).map(|bytes| bytes.saturating_mul(loops) / block.max(1));
    let given = job.count("number_ios").filter(|ops| *ops > 0);
    let least = [by_rate, by_size, given].into_iter().flatten().min();
    least.map(|ops| ops.saturating_mul(copies))
}

/// Concurrent jobs that use the same blocks of one file: in the same order, or in any order if the
/// file is small.
fn same_blocks(jobs: &[FioJob]) -> Vec<Fault> {
    let mut users: BTreeMap<(&str, &str), (u64, &FioJob)> = BTreeMap::new();
    for job in jobs {
        let moved = matches!(
            job.amount("offset_increment"),
            Some(Amount::Bytes(1..) | Amount::Percent(1..))
        );
        let small = matches!(job.amount("size"), Some(Amount::Bytes(..=1_073_741_824)));
        let order = job.word("rw").map_or("read", |(word, _)| word);
        let sequential = load::rw(job).is_ok_and(|rw| !rw.is_random());
        let apart = moved || job.get("offset").is_some() || !small && !sequential;
        if let Some(name) = job.text("filename").filter(|_| !apart) {
            let order = if small { "" } else { order };
            let entry = users.entry((name, order)).or_insert((0, job));
            entry.0 += job.count("numjobs").unwrap_or(1).max(1);
        }
    }
    let fault = |((name, _), (count, job)): ((&str, &str), (u64, &FioJob))| {
        let what = format!(
            "{count} jobs go over the same blocks of `{}`: what one has read or written is in \
             caches for the others; give offset_increment and a size, or directory instead",
            super::shown(name)
        );
        job.fault("filename", what)
    };
    users.into_iter().filter(|(_, (count, _))| *count > 1).map(fault).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::job::testing::read;
    use super::*;

    fn found(lines: &str) -> Vec<String> {
        let file = read(&format!("[a]\n{lines}")).unwrap();
        lint(&file, Around { memory_bytes: 8 << 30 }).iter().map(Fault::to_string).collect()
    }

    #[test]
    fn each_trap_is_named_with_its_line_and_a_sound_job_is_not() {
        let sound = "filename=/dev/sdx\ndirect=1\nioengine=libaio\niodepth=32\nrw=randread\n\
                     bs=4k\nruntime=60\ntime_based\n";
        assert_eq!(found(sound), Vec::<String>::new());
        for sound in [
            "rw=write\nioengine=sync\nfdatasync=1\nsize=220m\nbs=2300\n",
            "rw=randwrite\nsync=1\nbs=8k\nsize=1g\nruntime=60\ntime_based\n",
            "rw=read\ndirect=0\nsize=100g\nruntime=60\ntime_based\n",
            "rw=randread\nsize=1g\ncreate_only=1\n",
            "direct=1\nfilename=/x\nsize=64g\nrw=write\n[b]\nfilename=/x\nsize=64g\nrw=randread\n\
             direct=1\n",
        ] {
            assert_eq!(found(sound), Vec::<String>::new(), "{sound}");
        }
        for (lines, expected) in [
            ("direct=1\niodepth=8\nsize=1g\n", "job.fio:3: [a] iodepth: 8 has no effect: psync"),
            ("size=1g\n", "fit into the"),
            ("size=100g\n", "goes through the page cache: the result depends"),
            ("direct=1\nrw=write\nruntime=5\ntime_based\nsize=1g\n", "shorter than 30 s"),
            ("direct=1\nruntime=60000000\ntime_based\nsize=1g\n", "more than a week"),
            ("direct=1\nbs=4\nsize=1g\n", "did you mean 4k?"),
            ("direct=1\nsize=4m\n", "at most 1024 operations"),
            ("direct=1\nsize=1g\nrate_iops=10\nruntime=60\ntime_based\n", "at most 600 operations"),
            ("direct=1\nsize=1g\nrate=100\n", "did you mean rate_iops?"),
            ("direct=1\nsize=1g\nkb_base=1000\n", "k is 1000 bytes here"),
            ("direct=1\nsize=1g\nfilename=/x\nnumjobs=4\n", "4 jobs go over the same blocks"),
            ("direct=1\nfilename=/x\nnumjobs=4\n", "4 jobs go over the same blocks"),
            (
                "direct=1\nsize=1g\nrw=write\nzero_buffers\n",
                "zero_buffers: storage that compresses",
            ),
            ("direct=1\nsize=1g\nrw=write\ndedupe_percentage=100\n", "stores almost none of it"),
            ("direct=1\nsize=1g\nbs=4kib\n", "bs: in `4kib` a kib is 1000 bytes"),
            ("direct=1\nsize=1g\nramp_time=5\n", "ramp_time: without runtime"),
            ("rw=randrw\nfsync=1\nsize=1g\n", "fit into the"),
        ] {
            let found = found(lines);
            assert!(found.iter().any(|line| line.contains(expected)), "{lines}: {found:?}");
        }
    }
}
