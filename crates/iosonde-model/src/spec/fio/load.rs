//! Converts one job into a role: direction, sizes, order, pace, syncs, data, waiting, placement.
//! The module `ask` handles regions and files.

mod limits;
mod places;
mod priorities;

use super::Fault;
use super::job::FioJob;
use super::value::{Value, Ways};
use crate::spec::EngineKind;
use crate::spec::{
    Access, Arrivals, Data, Draw, EachWrite, NumaMode, Pace, Placement, Rate, Reap, Role, Rw,
    Sizes, Span, Sync, SyncCall, Think,
};
use limits::{flow, limits};
use places::{access, random_percent, run_length, service, stride, strides};
use priorities::priorities;

/// fio's default block size.
const BLOCK_BYTES: u64 = 4096;

/// The engine's name; by default fio's default on Linux.
pub(super) fn engine(job: &FioJob) -> &str {
    job.text("ioengine").unwrap_or("psync")
}

/// Direction and order, without the text after a colon.
pub(super) fn rw(job: &FioJob) -> Result<Rw, Fault> {
    let word = job.word("rw").map_or("read", |(word, _)| word);
    let known = Rw::WORDS.iter().find(|(name, _)| *name == word).map(|(_, rw)| *rw);
    known.ok_or_else(|| job.fault("rw", format!("{word} is not supported")))
}

/// The job as a role, without its files and region.
pub(super) fn role(job: &FioJob, name: &str) -> Result<Role, Fault> {
    let rw = rw(job)?;
    let (block, sizes) = sizes(job, rw)?;
    let depth = depth(job)?;
    let writes = used(rw)[1];
    let role = Role {
        block_size: Some(block),
        read_percent: Some(mix(job)?),
        iodepth: Some(depth),
        sizes,
        pace: pace(job, rw)?,
        think: think(job),
        span: span(job),
        limits: limits(job, rw)?,
        flow: flow(job)?,
        service: service(job)?,
        // A job without writes needs neither syncs nor written data.
        sync: if writes { sync(job)? } else { Sync::default() },
        data: if writes { data(job)? } else { compared(job, rw)? },
        batch: batch(job, depth)?,
        reap: Reap {
            times: job.get("write_iolog").is_some(),
            ..if is_synchronous(job) { Reap::default() } else { reap(job, depth)? }
        },
        place: placement(job)?,
        priorities: priorities(job, rw)?,
        ..Role::new(name, rw)
    };
    let (random_percent, run_length) = (random_percent(job, rw)?, run_length(job, rw)?);
    let strides = strides(job, &role)?;
    let mapped = places::has_random_map(&role, random_percent, run_length, strides);
    Ok(Role {
        access: match access(job, rw)? {
            Access::Permutation if mapped => Access::RandomMap,
            access => access,
        },
        random_percent,
        run_length,
        run_repeats: job.has_word("rw_sequencer", "identical"),
        strides,
        stride: stride(job, &role)?,
        block_align: grid(job, rw)?,
        ..role
    })
}

/// Requests in flight. fio's synchronous engines accept any number but keep one in flight.
fn depth(job: &FioJob) -> Result<u32, Fault> {
    let depth = narrow(job, "iodepth", job.count("iodepth").unwrap_or(1))?;
    Ok(if is_synchronous(job) { 1 } else { depth })
}

fn is_synchronous(job: &FioJob) -> bool {
    EngineKind::of_fio(engine(job)).is_some_and(EngineKind::is_synchronous)
}

/// A note that a depth above 1 has no effect, if so.
pub(super) fn shallow(job: &FioJob) -> Option<String> {
    let depth = job.count("iodepth").filter(|depth| *depth > 1 && is_synchronous(job))?;
    let by_default = if job.get("ioengine").is_none() { ", fio's default," } else { "" };
    Some(format!(
        "{}: iodepth={depth} has no effect, as in fio: the {} engine{by_default} keeps one \
         request in flight; give ioengine=io_uring or libaio, or numjobs",
        job.place("iodepth"),
        engine(job)
    ))
}

/// A note that the warm-up counts towards the size, if so.
pub(super) fn counted_warmup(job: &FioJob) -> Option<String> {
    let lasts = |name: &str| job.time_ns(name).is_some_and(|ns| ns > 0);
    (lasts("ramp_time") && !lasts("runtime")).then(|| {
        format!(
            "{} ramp_time: its I/O counts towards the size, as in fio; a job that ends during \
             it is not measured, where fio reports its warm-up",
            job.place("ramp_time")
        )
    })
}

/// A 32-bit number above 0.
pub(super) fn narrow(job: &FioJob, name: &str, number: u64) -> Result<u32, Fault> {
    let narrow = u32::try_from(number).ok().filter(|number| *number > 0);
    narrow.ok_or_else(|| job.fault(name, format!("found {number}, expected 1 to {}", u32::MAX)))
}

fn percent(job: &FioJob, name: &str) -> Result<Option<u8>, Fault> {
    match job.count(name) {
        Some(percent @ 101..) => {
            Err(job.fault(name, format!("found {percent}, expected 0 to 100")))
        }
        percent => Ok(percent.map(|percent| percent as u8)),
    }
}

/// Percentage of reads of a mixed job.
fn mix(job: &FioJob) -> Result<u8, Fault> {
    match (percent(job, "rwmixread")?, percent(job, "rwmixwrite")?) {
        (Some(read), Some(write)) if read + write != 100 => Err(job.fault(
            "rwmixwrite",
            format!("{write} contradicts rwmixread={read}: together they are 100"),
        )),
        (Some(read), _) => Ok(read),
        (None, Some(write)) => Ok(100 - write),
        (None, None) => Ok(50),
    }
}

/// Nominal block size, and the distribution of sizes by direction.
fn sizes(job: &FioJob, rw: Rw) -> Result<(u64, Sizes), Fault> {
    let used = used(rw);
    let (name, draws): (&str, Ways<Draw>) = if let Some(setting) = job.get("bssplit") {
        let Value::Splits(splits) = &setting.value else { return Ok(uniform(BLOCK_BYTES)) };
        ("bssplit", splits.clone().map(|split| split.map(from_split)))
    } else if let Some(setting) = job.get("bsrange") {
        let Value::Ranges(ranges) = &setting.value else { return Ok(uniform(BLOCK_BYTES)) };
        let draw = |(low, high)| match low == high {
            true => Draw::Fixed(low),
            false => Draw::Range { low, high, step: low },
        };
        ("bsrange", ranges.map(|range| range.map(draw)))
    } else {
        ("bs", job.ways("bs").map(|bytes| bytes.map(Draw::Fixed)))
    };
    let draws = draws.map(|draw| draw.unwrap_or(Draw::Fixed(BLOCK_BYTES)));
    for (draw, _) in draws.iter().zip(used).filter(|(_, used)| *used) {
        if let Draw::Range { low, high, .. } = draw
            && !high.is_multiple_of(*low)
        {
            let what = format!("{low}-{high}: the larger must be a multiple of the smaller");
            return Err(job.fault(name, what));
        }
        if smallest(draw) == 0 {
            return Err(job.fault(name, "found 0, expected at least 1 byte"));
        }
    }
    let mut bytes = draws.iter().zip(used).filter(|(_, used)| *used).map(|(draw, _)| largest(draw));
    let first = bytes.next().unwrap_or(BLOCK_BYTES);
    let largest = bytes.fold(first, u64::max);
    let plain = draws.iter().zip(used).all(|(draw, used)| !used || *draw == Draw::Fixed(largest));
    if plain {
        return Ok(uniform(largest));
    }
    // Unused directions keep their default, so that equal jobs compare equal.
    let [read, write, trim] =
        [0, 1, 2].map(|way| if used[way] { draws[way].clone() } else { Draw::Block });
    Ok((largest, Sizes { read, write, trim }))
}

fn uniform(bytes: u64) -> (u64, Sizes) {
    (bytes, Sizes::default())
}

fn from_split(split: Vec<(u64, f64)>) -> Draw {
    match split.as_slice() {
        [(bytes, _)] => Draw::Fixed(*bytes),
        _ => Draw::Split(split),
    }
}

fn largest(draw: &Draw) -> u64 {
    draw.range(BLOCK_BYTES).1
}

fn smallest(draw: &Draw) -> u64 {
    draw.range(BLOCK_BYTES).0
}

/// The smallest block size of a job with several, bytes.
pub(super) fn least(sizes: &Sizes) -> u64 {
    let ways = [&sizes.read, &sizes.write, &sizes.trim];
    let drawn = ways.into_iter().filter(|draw| **draw != Draw::Block);
    drawn.map(smallest).min().unwrap_or(BLOCK_BYTES)
}

/// Whether the job reads, writes, trims.
fn used(rw: Rw) -> [bool; 3] {
    let reads = rw.is_mixed() || matches!(rw, Rw::Read | Rw::RandRead);
    let writes = rw.rewrites() || (!rw.trims() && (rw.is_mixed() || !reads));
    [reads, writes, rw.trims()]
}

/// The value for a job's direction, the first used one.
fn of_way(ways: &Ways<u64>, rw: Rw) -> Option<u64> {
    let way = used(rw).iter().position(|used| *used)?;
    ways[way]
}

/// The grid of random offsets.
fn grid(job: &FioJob, rw: Rw) -> Result<Option<u64>, Fault> {
    let ways = job.ways("ba");
    if rw.is_mixed() && ways[0] != ways[1] {
        return Err(job.fault("ba", "reads and writes of a job have one alignment"));
    }
    Ok(of_way(&ways, rw).filter(|_| rw.is_random()))
}

/// Start of the job, and the jobs that end with it. The module `ask` determines its end.
fn span(job: &FioJob) -> Span {
    Span {
        delay_ns: job.time_ns("startdelay").unwrap_or(0),
        after: job.text("wait_for").unwrap_or("").into(),
        ends_all: job.is_on("exitall"),
        most_latency_ns: job.time_ns("max_latency").unwrap_or(0),
        ..Span::default()
    }
}

fn pace(job: &FioJob, rw: Rw) -> Result<Pace, Fault> {
    let is_poisson = job.has_word("rate_process", "poisson");
    let arrivals = if is_poisson { Arrivals::Poisson } else { Arrivals::Constant };
    let used = used(rw);
    // fio uses the rate in bytes if both are given.
    for (name, rate) in
        [("rate", Rate::Bytes as fn(f64) -> Rate), ("rate_iops", Rate::Ops as fn(f64) -> Rate)]
    {
        let ways = job.ways(name);
        let of = |way: usize| ways[way].filter(|rate| *rate > 0).map(|per_s| rate(per_s as f64));
        let given: Vec<Rate> = (0..3).filter(|way| used[*way]).filter_map(of).collect();
        match given.as_slice() {
            [] => {}
            [rate] if !rw.is_mixed() => return Ok(Pace::Rate { rate: *rate, arrivals }),
            [rate, _] if rw.rewrites() => return Ok(Pace::Rate { rate: *rate, arrivals }),
            [read, other] => return Ok(Pace::Each { read: *read, other: *other, arrivals }),
            _ => {
                let what = "one direction of a mixed job has a rate and the other none, which is \
                            not supported; give both a rate, or a job for each";
                return Err(job.fault(name, what));
            }
        }
    }
    Ok(Pace::Closed)
}

fn think(job: &FioJob) -> Think {
    match job.time_ns("thinktime").unwrap_or(0) {
        0 => Think::default(),
        ns => {
            let every_ns = job.time_ns("thinktime_iotime").unwrap_or(0);
            let blocks = job.count("thinktime_blocks").filter(|blocks| *blocks > 0);
            let every_ops = blocks.unwrap_or(if every_ns > 0 { u64::MAX } else { 1 });
            let spin_ns = job.time_ns("thinktime_spin").unwrap_or(0).min(ns);
            Think { ns, every_ops, spin_ns, every_ns }
        }
    }
}

fn sync(job: &FioJob) -> Result<Sync, Fault> {
    let fsync = job.count("fsync").unwrap_or(0);
    let fdatasync = job.count("fdatasync").unwrap_or(0);
    if fsync > 0 && fdatasync > 0 {
        return Err(job.fault("fdatasync", "stands beside fsync; give one of them"));
    }
    let each_write = match job.word("sync") {
        Some(("sync" | "1", _)) => EachWrite::Sync,
        Some(("dsync", _)) => EachWrite::Dsync,
        _ => EachWrite::Accepted,
    };
    let call = if fsync > 0 { SyncCall::Fsync } else { SyncCall::Fdatasync };
    let atomic = job.is_on("atomic");
    if atomic && !matches!(engine(job), "io_uring" | "libaio" | "pvsync2") {
        let what = "expected ioengine=io_uring, libaio or pvsync2, which have atomic writes";
        return Err(job.fault("atomic", what));
    }
    let every_writes = fsync + fdatasync;
    Ok(Sync { every_writes, call, each_write, atomic, ..Sync::default() })
}

fn data(job: &FioJob) -> Result<Data, Fault> {
    let compress = percent(job, "buffer_compress_percentage")?.unwrap_or(0);
    let dedupe_percent = percent(job, "dedupe_percentage")?.unwrap_or(0);
    // fio writes zeros if blocks are fully compressible.
    let zeros = job.is_on("zero_buffers") || compress == 100;
    if zeros && (dedupe_percent > 0 || !matches!(compress, 0 | 100)) {
        return Err(
            job.fault("zero_buffers", "zeros are neither compressible nor repeated in part")
        );
    }
    let pattern = pattern(job)?;
    let checked = verifies(job);
    if !pattern.is_empty() {
        return Ok(Data { pattern, checked, ..Data::default() });
    }
    if checked {
        return Ok(Data { checked, ..Data::default() });
    }
    let (set_percent, set_shared) = match job.word("dedupe_mode") {
        Some(("working_set", _)) if dedupe_percent > 0 => {
            // fio's default size of the set.
            let percent = percent(job, "dedupe_working_set_percentage")?.unwrap_or(5);
            (percent.max(1), job.is_on("dedupe_global"))
        }
        _ => (0, false),
    };
    let refilled = job.is_on("refill_buffers") || compress > 0 || dedupe_percent > 0;
    let scrambled = !job.is_off("scramble_buffers");
    Ok(Data {
        compress_percent: if zeros { 0 } else { compress },
        dedupe_percent,
        set_percent,
        set_shared,
        zeros,
        constant: !refilled && !scrambled && !zeros,
        pattern,
        checked,
    })
}

/// The data that a read-only job expects: what a job with the same options writes.
fn compared(job: &FioJob, rw: Rw) -> Result<Data, Fault> {
    let checked = verifies(job) && !rw.trims();
    Ok(Data {
        pattern: if checked { pattern(job)? } else { Vec::new() },
        checked,
        ..Data::default()
    })
}

/// Whether written data is verified. `verify_pattern` implies verification even without `verify`.
pub(super) fn verifies(job: &FioJob) -> bool {
    match job.word("verify") {
        Some((word, _)) => !matches!(word, "none" | "0" | "null"),
        None => job.get("verify_pattern").is_some(),
    }
}

/// The bytes of `verify_pattern` if the job verifies, else of `buffer_pattern`.
fn pattern(job: &FioJob) -> Result<Vec<u8>, Fault> {
    for name in ["verify_pattern", "buffer_pattern"] {
        let is_meant = name == "buffer_pattern" || verifies(job);
        if let Some(text) = job.text(name).filter(|_| is_meant) {
            return super::pattern::bytes(text).map_err(|what| job.fault(name, what));
        }
    }
    Ok(Vec::new())
}

/// Requests per submission; 1 if not given. As in fio, the depth is the maximum.
fn batch(job: &FioJob, depth: u32) -> Result<Option<u32>, Fault> {
    match job.count("iodepth_batch") {
        None => Ok(Some(1)),
        Some(0) => Ok(Some(depth)),
        Some(batch) => narrow(job, "iodepth_batch", batch).map(|batch| Some(batch.min(depth))),
    }
}

fn reap(job: &FioJob, depth: u32) -> Result<Reap, Fault> {
    let min = job.count("iodepth_batch_complete_min");
    if min == Some(0) {
        let what = "0 (polling without waiting) is not supported; give 1 or more";
        return Err(job.fault("iodepth_batch_complete_min", what));
    }
    if let Some(min) = min.filter(|min| *min > u64::from(depth)) {
        let what = format!("{min} completions are never in flight at iodepth={depth}");
        return Err(job.fault("iodepth_batch_complete_min", what));
    }
    let complete_min = narrow(job, "iodepth_batch_complete_min", min.unwrap_or(1))?;
    // Without a maximum, fio reaps at most the given minimum; with neither, everything available.
    let complete_max = match job.count("iodepth_batch_complete_max") {
        Some(max) => narrow(job, "iodepth_batch_complete_max", max)?.max(complete_min),
        None if min.is_some() => complete_min,
        None => 0,
    };
    let refill_at = match job.count("iodepth_low") {
        Some(low) if low < u64::from(depth) => narrow(job, "iodepth_low", low)?,
        _ => 0,
    };
    Ok(Reap { complete_min, complete_max, refill_at, counts: true, ..Reap::default() })
}

fn placement(job: &FioJob) -> Result<Placement, Fault> {
    let masked = job
        .count("cpumask")
        .map(|mask| (0..63).filter(|cpu| mask >> cpu & 1 == 1).collect::<Vec<u32>>());
    let cpus = job.cpus("cpus_allowed").map(<[u32]>::to_vec).or(masked).unwrap_or_default();
    let (numa_mode, nodes) = memory(job)?;
    let huge_pages = matches!(job.word("mem"), Some(("shmhuge" | "mmaphuge", _)));
    let whole = |name: &str, low: i32, high: i32| match job.text(name).map(str::parse::<i32>) {
        None => Ok(None),
        Some(Ok(number)) if (low..=high).contains(&number) => Ok(Some(number)),
        Some(_) => Err(job.fault(name, format!("expected {low} to {high}"))),
    };
    let nice = whole("nice", -20, 19)?.unwrap_or(0);
    let level = whole("prio", 0, 7)?;
    // fio's default class with a level is best effort.
    let class = whole("prioclass", 0, 3)?.unwrap_or(if level.is_some() { 2 } else { 0 });
    let io_priority = (class as u8, level.unwrap_or(0) as u8);
    let (numa_node, more_numa_nodes) = match nodes.split_first() {
        Some((first, more)) => (Some(*first), more.to_vec()),
        None => (None, Vec::new()),
    };
    Ok(Placement { cpus, numa_node, more_numa_nodes, numa_mode, huge_pages, nice, io_priority })
}

/// Memory policy and NUMA nodes of the buffers.
fn memory(job: &FioJob) -> Result<(NumaMode, Vec<u32>), Fault> {
    let name = "numa_mem_policy";
    let (word, rest) = match job.text(name).map(|text| text.split_once(':').unwrap_or((text, ""))) {
        None | Some(("default" | "local", _)) | Some(("bind", "all")) => {
            return Ok((NumaMode::Bind, Vec::new()));
        }
        Some(policy) => policy,
    };
    let nodes = super::ask::nodes(rest).map_err(|what| job.fault(name, what))?;
    match (word, nodes.len()) {
        ("bind", _) => Ok((NumaMode::Bind, nodes)),
        ("interleave", _) => Ok((NumaMode::Interleave, nodes)),
        ("prefer", 1) => Ok((NumaMode::Prefer, nodes)),
        _ => {
            let what = "expected default, local, bind:NODES, interleave:NODES or prefer:NODE";
            Err(job.fault(name, what))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::job::testing::read;
    use super::*;

    fn data_of(lines: &str) -> Data {
        let file = read(&format!("[a]\nsize=1m\n{lines}")).unwrap();
        role(&file.groups[0].jobs[0], "a").unwrap().data
    }

    #[test]
    fn a_pattern_to_be_verified_is_written_and_verified_whatever_verify_names() {
        let expected = Data { pattern: vec![0xde, 0xad], checked: true, ..Data::default() };
        for more in ["", "verify=pattern\n", "verify=md5\n", "verify=crc32c\nbuffer_pattern=7\n"] {
            for rw in ["write", "read", "randrw"] {
                let found = data_of(&format!("rw={rw}\nverify_pattern=0xdead\n{more}"));
                assert_eq!(found, expected, "rw={rw} {more}");
            }
        }
        let off = data_of("rw=write\nverify=none\nverify_pattern=0xdead\n");
        assert!(off.pattern.is_empty() && !off.checked);
    }

    #[test]
    fn a_job_that_reads_expects_the_pattern_that_the_same_job_writes() {
        for lines in ["verify=crc32c\nbuffer_pattern=0xbeef\n", "verify=md5\n"] {
            let [written, expected] =
                ["write", "read"].map(|rw| data_of(&format!("rw={rw}\n{lines}")));
            assert_eq!(written, expected, "{lines}");
        }
        assert_eq!(data_of("rw=read\nbuffer_pattern=0xbeef\n"), Data::default());
    }
}
