//! From one job to the words of a role: direction, sizes, order, pace, syncs, data, waiting,
//! placement. Regions and files are dealt with in `ask`.

use super::Fault;
use super::job::FioJob;
use super::number::{self, KbBase};
use super::value::{Value, Ways};
use crate::spec::EngineKind;
use crate::spec::{
    Access, Arrivals, Data, Draw, EachWrite, Pace, Placement, Rate, Reap, Role, Rw, Sizes, Sync,
    SyncCall, Think, Zone,
};

/// fio's block size where none is given.
const BLOCK_BYTES: u64 = 4096;
/// fio's skew where none is given.
const ZIPF_THETA: f64 = 1.1;
const PARETO_H: f64 = 0.2;

/// The engine's name; fio's own default on Linux where none is given.
pub(super) fn engine(job: &FioJob) -> &str {
    job.text("ioengine").unwrap_or("psync")
}

/// Direction and order, without what follows a colon.
pub(super) fn rw(job: &FioJob) -> Result<Rw, Fault> {
    let word = job.word("rw").map_or("read", |(word, _)| word);
    let known = Rw::WORDS.iter().find(|(name, _)| *name == word).map(|(_, rw)| *rw);
    known.ok_or_else(|| {
        job.fault("rw", format!("{word} is not supported: a block is trimmed or written, not both"))
    })
}

/// The job as a role, but for its files and its region.
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
        // What a job does not write is neither synced nor filled.
        sync: if writes { sync(job)? } else { Sync::default() },
        data: if writes { data(job)? } else { Data::default() },
        batch: batch(job, depth)?,
        reap: if is_synchronous(job) { Reap::default() } else { reap(job, depth)? },
        place: placement(job)?,
        ..Role::new(name, rw)
    };
    Ok(Role {
        access: access(job, rw)?,
        random_percent: random_percent(job, rw)?,
        stride: stride(job, &role)?,
        block_align: grid(job, rw)?,
        ..role
    })
}

/// Requests kept in flight. fio's synchronous engines take any number and keep one.
fn depth(job: &FioJob) -> Result<u32, Fault> {
    let depth = narrow(job, "iodepth", job.count("iodepth").unwrap_or(1))?;
    Ok(if is_synchronous(job) { 1 } else { depth })
}

fn is_synchronous(job: &FioJob) -> bool {
    EngineKind::of_fio(engine(job)).is_some_and(EngineKind::is_synchronous)
}

/// That a depth above 1 is not kept, where that is so.
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

/// A number that has to fit 32 bits and not be 0.
pub(super) fn narrow(job: &FioJob, name: &str, number: u64) -> Result<u32, Fault> {
    let narrow = u32::try_from(number).ok().filter(|number| *number > 0);
    narrow.ok_or_else(|| job.fault(name, format!("found {number}, expected 1 to {}", u32::MAX)))
}

/// Percentage of reads of a mixed job.
fn mix(job: &FioJob) -> Result<u8, Fault> {
    let percent = |name: &str| {
        let percent = job.count(name);
        match percent {
            Some(percent) if percent > 100 => {
                Err(job.fault(name, format!("found {percent}, expected 0 to 100")))
            }
            Some(percent) => Ok(Some(percent as u8)),
            None => Ok(None),
        }
    };
    match (percent("rwmixread")?, percent("rwmixwrite")?) {
        (Some(read), Some(write)) if read + write != 100 => Err(job.fault(
            "rwmixwrite",
            format!("{write} contradicts rwmixread={read}: together they are 100"),
        )),
        (Some(read), _) => Ok(read),
        (None, Some(write)) => Ok(100 - write),
        (None, None) => Ok(50),
    }
}

/// Nominal block size, and how the size of each way is drawn.
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
    // The ways that the job does not go keep their default, so that equal jobs look equal.
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
    match draw {
        Draw::Block => BLOCK_BYTES,
        Draw::Fixed(bytes) | Draw::Range { high: bytes, .. } => *bytes,
        Draw::Split(sizes) => sizes.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
    }
}

fn smallest(draw: &Draw) -> u64 {
    match draw {
        Draw::Block => BLOCK_BYTES,
        Draw::Fixed(bytes) | Draw::Range { low: bytes, .. } => *bytes,
        Draw::Split(sizes) => sizes.iter().map(|(bytes, _)| *bytes).min().unwrap_or(0),
    }
}

/// Whether the job reads, writes, trims.
fn used(rw: Rw) -> [bool; 3] {
    let reads = rw.is_mixed() || matches!(rw, Rw::Read | Rw::RandRead);
    [reads, !rw.trims() && (rw.is_mixed() || !reads), rw.trims()]
}

/// The value of the one way that a job goes.
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

/// `rw=read:8k` leaves a hole of 8k after each operation.
fn stride(job: &FioJob, role: &Role) -> Result<Option<i64>, Fault> {
    let Some((word, Some(rest))) = job.word("rw") else { return Ok(None) };
    if role.rw.is_random() {
        return Err(job
            .fault("rw", format!("{word}:{rest} is not supported: offsets are drawn one by one")));
    }
    let base = match job.word("kb_base") {
        Some(("1000", _)) => KbBase::Decimal,
        _ => KbBase::Binary,
    };
    let (sign, digits) = match rest.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, rest),
    };
    let hole = number::bytes(digits, base).map_err(|what| job.fault("rw", what))?;
    let block = role.block_size.unwrap_or(BLOCK_BYTES);
    if role.sizes != Sizes::default() {
        return Err(job.fault("rw", "a hole after each operation needs a fixed block size"));
    }
    let stride = i64::try_from(hole)
        .ok()
        .and_then(|hole| i64::try_from(block).ok()?.checked_add(sign * hole));
    match stride {
        Some(0) => Err(job.fault("rw", format!("{word}:{rest} never leaves the first block"))),
        Some(stride) => Ok(Some(stride)),
        None => Err(job.fault("rw", format!("{rest} exceeds 63 bits"))),
    }
}

/// The share of offsets that are drawn. In a mixed job fio follows the last operation of the same
/// way, and we the last of either.
fn random_percent(job: &FioJob, rw: Rw) -> Result<Option<f64>, Fault> {
    let name = "percentage_random";
    let ways = job.ways(name);
    if !rw.is_random() || ways.iter().flatten().all(|percent| *percent == 100) {
        return Ok(None);
    }
    if rw.is_mixed() {
        let what = "an order that is partly random is not supported in a mixed job; give a job \
                    that reads and one that writes";
        return Err(job.fault(name, what));
    }
    match of_way(&ways, rw) {
        Some(percent) if percent > 100 => Err(job.fault(name, "expected 0 to 100 percent")),
        percent => Ok(percent.filter(|percent| *percent < 100).map(|percent| percent as f64)),
    }
}

fn access(job: &FioJob, rw: Rw) -> Result<Access, Fault> {
    if !rw.is_random() {
        return Ok(Access::Permutation);
    }
    let name = "random_distribution";
    let wrong = |what: &str| Err(job.fault(name, what));
    let parameter = |default: f64| match job.word(name).and_then(|(_, rest)| rest) {
        None => Ok(default),
        Some(rest) if rest.contains(':') => {
            Err(job.fault(name, "a centre of the distribution is not supported"))
        }
        Some(rest) => {
            number::real(rest.trim_end_matches('%')).map_err(|what| job.fault(name, what))
        }
    };
    match job.word(name).unwrap_or(("random", None)) {
        ("zipf", _) => match parameter(ZIPF_THETA)? {
            theta if theta > 0.0 && theta != 1.0 => Ok(Access::Zipf(theta)),
            _ => wrong("expected a skew above 0 that is not 1"),
        },
        ("pareto", _) => match parameter(PARETO_H)? {
            h if h > 0.0 && h < 1.0 => Ok(Access::Pareto(h)),
            _ => wrong("expected a share above 0 and below 1"),
        },
        ("normal", _) => match parameter(0.0)? {
            deviation if deviation > 0.0 && deviation < 100.0 => Ok(Access::Normal(deviation)),
            _ => wrong("expected a deviation in percent above 0 and below 100"),
        },
        ("zoned", Some(rest)) => zones(job, rest).map(Access::Zoned),
        ("zoned", None) => wrong("expected zones such as zoned:90/10:10/90"),
        ("zoned_abs", _) => wrong("zones in bytes are not supported; give zoned and percentages"),
        _ if job.flag("norandommap") == Some(true) || job.get("ba").is_some() => {
            Ok(Access::Uniform)
        }
        _ => Ok(Access::Permutation),
    }
}

/// `60/10:30/20:8/30:2/40`: percent of the accesses, percent of the region.
fn zones(job: &FioJob, text: &str) -> Result<Vec<Zone>, Fault> {
    let wrong = |what: String| job.fault("random_distribution", what);
    if text.contains(',') {
        return Err(wrong("zones of their own for reads and writes are not supported".into()));
    }
    let mut zones = Vec::new();
    for part in text.split(':').filter(|part| !part.is_empty()) {
        // fio's own examples end a zone with a slash.
        let part = part.strip_suffix('/').unwrap_or(part);
        let percents = part.split_once('/').and_then(|(access, size)| {
            let percent = |text: &str| text.trim().parse::<u8>().ok().filter(|p| *p <= 100);
            Some((percent(access)?, percent(size)?))
        });
        let Some((access, size)) = percents else {
            let what =
                format!("found `{}`, expected percentages such as 60/10", super::shown(part));
            return Err(wrong(what));
        };
        zones.push(Zone { access_percent: f64::from(access), size_percent: f64::from(size) });
    }
    let sum = |share: fn(&Zone) -> f64| zones.iter().map(share).sum::<f64>();
    let (access, size) = (sum(|zone| zone.access_percent), sum(|zone| zone.size_percent));
    if access != 100.0 || size != 100.0 {
        return Err(wrong(format!(
            "the zones add up to {access} % of the accesses and {size} % of the region, \
             expected 100 and 100"
        )));
    }
    Ok(zones)
}

fn pace(job: &FioJob, rw: Rw) -> Result<Pace, Fault> {
    let arrivals = match job.word("rate_process") {
        Some(("poisson", _)) => Arrivals::Poisson,
        _ => Arrivals::Constant,
    };
    let mut pace = Pace::Closed;
    for (name, rate) in
        [("rate", Rate::Bytes as fn(f64) -> Rate), ("rate_iops", Rate::Ops as fn(f64) -> Rate)]
    {
        let ways = job.ways(name);
        let given = ways.iter().zip(used(rw)).any(|(rate, used)| used && rate.unwrap_or(0) > 0);
        if !given {
            continue;
        }
        if rw.is_mixed() {
            return Err(job.fault(
                name,
                "fio limits reads and writes of a mixed job each by itself, which is not \
                 supported; give a job that reads and one that writes",
            ));
        }
        if pace != Pace::Closed {
            return Err(job.fault(name, "contradicts rate; give one of them"));
        }
        let per_second = of_way(&ways, rw).unwrap_or(0) as f64;
        pace = Pace::Rate { rate: rate(per_second), arrivals: arrivals.clone() };
    }
    if pace != Pace::Closed && job.time_ns("thinktime").unwrap_or(0) > 0 {
        return Err(job.fault("thinktime", "a pause and a rate both say when to send; give one"));
    }
    Ok(pace)
}

fn think(job: &FioJob) -> Think {
    match job.time_ns("thinktime").unwrap_or(0) {
        0 => Think::default(),
        ns => Think { ns, every_ops: job.count("thinktime_blocks").unwrap_or(1).max(1) },
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
    Ok(Sync { every_writes: fsync + fdatasync, call, barrier: false, each_write })
}

fn data(job: &FioJob) -> Result<Data, Fault> {
    let percent = |name: &str| match job.count(name).unwrap_or(0) {
        percent if percent <= 100 => Ok(percent as u8),
        percent => Err(job.fault(name, format!("found {percent}, expected 0 to 100"))),
    };
    let compress = percent("buffer_compress_percentage")?;
    let dedupe_percent = percent("dedupe_percentage")?;
    // fio writes zeros where all of a block compresses away.
    let zeros = job.flag("zero_buffers") == Some(true) || compress == 100;
    if zeros && (dedupe_percent > 0 || !matches!(compress, 0 | 100)) {
        return Err(
            job.fault("zero_buffers", "zeros are neither compressible nor repeated in part")
        );
    }
    let refilled = job.flag("refill_buffers") == Some(true) || compress > 0 || dedupe_percent > 0;
    let scrambled = job.flag("scramble_buffers") != Some(false);
    Ok(Data {
        compress_percent: if zeros { 0 } else { compress },
        dedupe_percent,
        zeros,
        constant: !refilled && !scrambled && !zeros,
    })
}

/// Requests handed over at once: one if not given. fio takes a number beyond the depth for the
/// depth.
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
    // Without a largest number fio settles no more than the smallest; with neither, all there are.
    let complete_max = match job.count("iodepth_batch_complete_max") {
        Some(max) => narrow(job, "iodepth_batch_complete_max", max)?.max(complete_min),
        None if min.is_some() => complete_min,
        None => 0,
    };
    Ok(Reap { complete_min, complete_max, ..Reap::default() })
}

fn placement(job: &FioJob) -> Result<Placement, Fault> {
    let masked = job
        .count("cpumask")
        .map(|mask| (0..63).filter(|cpu| mask >> cpu & 1 == 1).collect::<Vec<u32>>());
    let cpus = job.cpus("cpus_allowed").map(<[u32]>::to_vec).or(masked).unwrap_or_default();
    let numa_node = match job.text("numa_mem_policy") {
        None | Some("default" | "local") => None,
        Some(policy) => {
            let node = policy.strip_prefix("bind:").and_then(|node| node.parse::<u32>().ok());
            let Some(node) = node else {
                let what = "expected default, local or bind:NODE with one node";
                return Err(job.fault("numa_mem_policy", what));
            };
            Some(node)
        }
    };
    let huge_pages = matches!(job.word("mem"), Some(("shmhuge" | "mmaphuge", _)));
    Ok(Placement { cpus, numa_node, huge_pages })
}
