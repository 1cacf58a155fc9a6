//! Expands a role into jobs: assigns regions, draws orders and seeds, checks all on the target.

use super::chance::Chance;
use super::effect::effective;
use super::resolve::{MAX_IODEPTH, MAX_THREADS, Refusal, Setting, in_range};
use super::{Engine, EngineKind, Job, Order};
use crate::spec::{Access, Draw, Region, Role, Sizes, Start, Workload};

/// Largest operation, bytes: half the limit of one system call.
const MAX_BLOCK_BYTES: u64 = 1 << 30;
/// Default batch: beyond 32, throughput does not improve and latency doubles.
const BATCH: u32 = 32;

/// The jobs of one role.
pub(super) fn jobs_of(
    role: &Role,
    threads: u32,
    workload: &Workload,
    setting: &Setting,
    chance: &mut Chance,
) -> Result<Vec<Job>, Refusal> {
    let mix = role.read_percent.unwrap_or(workload.read_percent);
    in_range("read percentage", u64::from(mix), 0, 100, "0 to 100")?;
    let requested = role.iodepth.unwrap_or(setting.iodepth);
    in_range("iodepth", u64::from(requested), 1, u64::from(MAX_IODEPTH), "1 to 4096")?;
    let engine = role.engine.as_ref().unwrap_or(&setting.engine);
    if (engine.kind == EngineKind::IoUringCmd) != (setting.engine.kind == EngineKind::IoUringCmd) {
        let what =
            "NVMe commands (io_uring_cmd) beside another engine; give them a run of their own";
        return Err(Refusal::conflict(&role.name, what));
    }
    let (iodepth, lanes) = depth_and_lanes(requested, engine)?;
    let in_all = u64::from(threads) * u64::from(lanes);
    in_range("threads (one per request in flight)", in_all, 1, MAX_THREADS, "1 to 4096")?;
    // Each job would write all flash.
    let share_region = lanes > 1 || threads > 1 && role.region != Region::Partitioned;
    if matches!(role.access, Access::SinglePass(_)) && share_region {
        let what = format!("a single pass by {in_all} jobs of one region; give one job, or parts");
        return Err(Refusal::conflict(&role.name, what));
    }

    let model = Job {
        role: role.name.clone(),
        read_percent: role.rw.read_percent(mix),
        trims: role.rw.trims(),
        iodepth,
        batch: role.batch.unwrap_or(BATCH).min(iodepth),
        keeps_batch: role.batch.is_some(),
        targets: targets_of(role, setting)?,
        stride_bytes: role.stride.unwrap_or(0),
        pace: role.pace.clone(),
        think: role.think,
        phases: role.phases.clone(),
        sync: role.sync,
        data: role.data.clone(),
        reap: role.reap,
        place: role.place.clone(),
        priorities: role.priorities.clone(),
        engine: role.engine.clone(),
        span: role.span.clone(),
        service: role.service,
        strides: role.strides,
        limits: role.limits.clone(),
        flow: role.flow,
        commit: role.commit.clone(),
        rewrites: role.rw.rewrites(),
        listed: role.listed.clone(),
        ..Job::default()
    };
    let model = Job { sizes: sizes_in(role, workload), ..model };
    let grid = grid(role, &model, workload, setting)?;
    let model = Job { block_bytes: grid.largest, unit_bytes: grid.unit, ..model };
    effective(role, &model, engine)?;

    let shared_seed = chance.bits();
    let mut jobs = Vec::new();
    for thread in 0..threads {
        let (region_start, region_bytes) = grid.region(role, thread, threads)?;
        let stride_bytes = model.stride_bytes.unsigned_abs();
        if stride_bytes >= region_bytes {
            let what = format!(
                "a stride of {stride_bytes} B leads out of its region of {region_bytes} B; give a \
                 smaller stride or a larger --size"
            );
            return Err(Refusal::conflict(&role.name, what));
        }
        let positions = (region_bytes - grid.largest) / grid.unit + 1;
        let start_block = match (role.start, role.region) {
            (Start::Random, _) => chance.below(positions),
            (Start::Last, _) => positions - 1,
            (Start::Zero, Region::Staggered) => positions * u64::from(thread) / u64::from(threads),
            (Start::Zero, _) => 0,
        };
        let drawn_seed = chance.bits();
        let of_thread = |seed: u64| Chance::new(seed.wrapping_add(u64::from(thread))).bits();
        let own_seed = role.seed.map_or(drawn_seed, of_thread);
        let turns = match role.region {
            Region::Shared if role.offset_increment.is_none() => {
                Turns { seed: shared_seed, first: thread * lanes, of: threads * lanes }
            }
            _ => Turns { seed: own_seed, first: 0, of: lanes },
        };
        for lane in 0..lanes {
            // Lanes that share a permutation have the same order seed but different job seeds;
            // otherwise they would all write the same bytes in the same rhythm.
            jobs.push(Job {
                order: order_of(role, start_block, &turns, lane, lanes),
                region_start,
                region_bytes,
                seed: own_seed ^ u64::from(lane),
                ..model.clone()
            });
        }
    }
    Ok(jobs)
}

/// The targets of a role: those it names, or all.
fn targets_of(role: &Role, setting: &Setting) -> Result<Vec<u16>, Refusal> {
    let count = setting.targets.len();
    match role.targets.iter().find(|target| usize::from(**target) >= count) {
        Some(target) => {
            let what = format!("target {target}, counted from 0, of {count} given");
            Err(Refusal::conflict(&role.name, what))
        }
        None if role.targets.is_empty() && count > 1 => Ok((0..count as u16).collect()),
        None => Ok(role.targets.clone()),
    }
}

/// The sizes of a role. If they differ, the job's block size is the buffer size, so the role's own
/// block size becomes an explicit [`Draw::Fixed`].
fn sizes_in(role: &Role, workload: &Workload) -> Sizes {
    if role.sizes == Sizes::default() {
        return Sizes::default();
    }
    let written_out = |draw: &Draw| match draw {
        Draw::Block => Draw::Fixed(role.block_size.unwrap_or(workload.block_size)),
        draw => draw.clone(),
    };
    let Sizes { read, write, trim } = &role.sizes;
    Sizes { read: written_out(read), write: written_out(write), trim: written_out(trim) }
}

/// Threads that take turns on one order of blocks.
struct Turns {
    seed: u64,
    first: u32,
    of: u32,
}

fn order_of(role: &Role, start_block: u64, turns: &Turns, lane: u32, lanes: u32) -> Order {
    if !role.rw.is_random() {
        return Order::Sequential { start_block, lane, lanes };
    }
    let drawn = match &role.access {
        Access::Permutation => {
            Order::Permutation { seed: turns.seed, lane: turns.first + lane, lanes: turns.of }
        }
        Access::SinglePass(spare_percent) => {
            Order::SinglePass { seed: turns.seed, spare_percent: *spare_percent }
        }
        Access::RandomMap => Order::RandomMap { seed: turns.seed ^ u64::from(turns.first + lane) },
        Access::Uniform => Order::Uniform,
        Access::Zipf(theta) => Order::Zipf { theta: *theta },
        Access::Pareto(h) => Order::Pareto { h: *h },
        Access::Normal(deviation) => Order::Normal { deviation_percent: *deviation },
        Access::Zoned(zones) => Order::Zoned { zones: zones.clone() },
        Access::Sequence(sequence) => Order::Sequence(sequence.clone()),
    };
    match (role.random_percent, role.run_length) {
        (Some(drawn_percent), _) if drawn_percent < 100.0 => {
            Order::Following { drawn_percent, between: Box::new(drawn) }
        }
        (_, Some(length)) if length > 1 => {
            Order::Runs { length, same: role.run_repeats, between: Box::new(drawn) }
        }
        _ => drawn,
    }
}

/// Depth of a job's queue, and the number of jobs that keep the requested depth: a synchronous
/// fallback for io_uring needs one thread per request in flight.
fn depth_and_lanes(requested: u32, engine: &Engine) -> Result<(u32, u32), Refusal> {
    match engine.kind.is_synchronous() {
        false => Ok((requested, 1)),
        true if engine.chosen_because.is_empty() && requested > 1 => {
            Err(Refusal::Depth { engine: engine.kind.name(), found: requested })
        }
        true => Ok((1, requested)),
    }
}

/// Permitted offsets and sizes of a role's operations, before its threads are distinguished.
struct Grid {
    /// Largest operation, bytes.
    largest: u64,
    /// Offsets are multiples of this, bytes.
    unit: u64,
    /// Start of the role's region, bytes.
    start: u64,
    /// Length of one thread's part: the requested size, or the rest of the target, bytes.
    bytes: u64,
    /// End of the role's smallest target.
    end: u64,
}

impl Grid {
    /// Start and length of one thread's region.
    fn region(&self, role: &Role, thread: u32, threads: u32) -> Result<(u64, u64), Refusal> {
        let thread = u64::from(thread);
        let (start, bytes) = match role.region {
            Region::Partitioned => {
                let part = self.bytes / u64::from(threads) / self.unit * self.unit;
                (self.start + thread * part, part)
            }
            Region::Shared | Region::Staggered => {
                let start = thread
                    .checked_mul(role.offset_increment.unwrap_or(0))
                    .and_then(|distance| self.start.checked_add(distance))
                    .ok_or_else(|| beyond(role))?;
                let end = start.saturating_add(self.bytes).min(self.end);
                (start, end.saturating_sub(start) / self.unit * self.unit)
            }
        };
        if bytes < self.largest {
            return Err(Refusal::Region {
                role: role.name.clone(),
                region_bytes: self.bytes,
                threads,
                needed_bytes: self.largest,
            });
        }
        Ok((start, bytes))
    }
}

/// Checks sizes, offsets and strides against the target, and returns the grid of the offsets.
fn grid(role: &Role, job: &Job, workload: &Workload, setting: &Setting) -> Result<Grid, Refusal> {
    let block_bytes = role.block_size.unwrap_or(workload.block_size);
    let (smallest, largest) = extremes(role, job, block_bytes)?;
    let targets = || {
        let indexed = (0..).zip(&setting.targets);
        indexed.filter(|(index, _)| role.uses(*index)).map(|(_, target)| target)
    };
    let unit = role.block_align.unwrap_or(smallest);
    in_range("block alignment", unit, 1, MAX_BLOCK_BYTES, "1 B to 1 GiB")?;
    let start = setting.offset_bytes.checked_add(role.offset.unwrap_or(0));
    let start = start.ok_or_else(|| beyond(role))?;
    for target in targets() {
        let align_bytes = target.align_bytes;
        let misfit = sizes_of(job, block_bytes)
            .chain(steps_of(job))
            .chain([unit, job.stride_bytes.unsigned_abs()])
            .find(|bytes| !bytes.is_multiple_of(align_bytes));
        if let Some(found_bytes) = misfit {
            return Err(Refusal::Block {
                role: role.name.clone(),
                found_bytes,
                target: target.path.clone(),
                align_bytes,
                // Only engines that open files can use the page cache instead.
                direct: target.direct && setting.engine.kind.opens_files(),
            });
        }
        for found_bytes in [start, role.offset_increment.unwrap_or(0)] {
            if !found_bytes.is_multiple_of(align_bytes) {
                return Err(Refusal::Offset { found_bytes, align_bytes });
            }
        }
    }
    let end = targets().map(|target| target.bytes).min().unwrap_or(0);
    let rest = end.saturating_sub(start);
    let bytes = role.size.unwrap_or(rest);
    if bytes > rest {
        let beside = workload.roles.iter().filter(|other| other.targets == role.targets);
        let ends =
            beside.map(|other| other.offset.unwrap_or(0).saturating_add(other.size.unwrap_or(0)));
        let needed = ends.max().unwrap_or(0).max(start.saturating_add(bytes));
        let what = format!(
            "its region reaches {} B beyond the end of the target ({end} B); give a target of \
             {needed} B at least, as --size too if that is given, or the role a smaller size or \
             offset",
            bytes - rest
        );
        return Err(Refusal::conflict(&role.name, what));
    }
    Ok(Grid { largest, unit, start, bytes, end })
}

/// A refusal of an offset beyond 64 bits.
fn beyond(role: &Role) -> Refusal {
    let what = "its region starts beyond the end of all targets; give smaller offsets";
    Refusal::conflict(&role.name, what)
}

/// Steps of size ranges, which must be aligned like the sizes.
fn steps_of(job: &Job) -> impl Iterator<Item = u64> {
    draws(job).filter_map(|draw| match draw {
        Draw::Range { low, high, step } if low < high => Some(*step),
        _ => None,
    })
}

/// Smallest and largest operation of a role, bytes.
fn extremes(role: &Role, job: &Job, block_bytes: u64) -> Result<(u64, u64), Refusal> {
    if let Some(what) = draws(job).find_map(fault) {
        return Err(Refusal::conflict(&role.name, what));
    }
    let (mut smallest, mut largest) = (u64::MAX, 0);
    for bytes in sizes_of(job, block_bytes) {
        in_range("block size", bytes, 1, MAX_BLOCK_BYTES, "1 B to 1 GiB")?;
        (smallest, largest) = (smallest.min(bytes), largest.max(bytes));
    }
    Ok((smallest, largest))
}

/// The draws of the directions that the job uses.
fn draws(job: &Job) -> impl Iterator<Item = &Draw> {
    let Sizes { read, write, trim } = &job.sizes;
    let used = [(read, job.reads()), (write, job.writes_data()), (trim, job.trims)];
    used.into_iter().filter(|(_, used)| *used).map(|(draw, _)| draw)
}

/// Sizes that must be aligned and fit the buffers: all of a split, the bounds of a range.
fn sizes_of(job: &Job, block_bytes: u64) -> impl Iterator<Item = u64> {
    let sizes: Vec<u64> = draws(job)
        .flat_map(|draw| match draw {
            Draw::Block => vec![block_bytes],
            Draw::Fixed(bytes) => vec![*bytes],
            Draw::Range { low, high, .. } => vec![*low, *high],
            Draw::Split(shares) => shares.iter().map(|(bytes, _)| *bytes).collect(),
        })
        .collect();
    sizes.into_iter()
}

/// A fault in a draw, and how to fix it.
fn fault(draw: &Draw) -> Option<String> {
    match draw {
        Draw::Block | Draw::Fixed(_) => None,
        Draw::Range { low, high, step } => {
            let fits =
                *step > 0 && low <= high && low.is_multiple_of(*step) && high.is_multiple_of(*step);
            (!fits).then(|| {
                format!(
                    "a range of block sizes from {low} to {high} B in steps of {step} B; the ends \
                     must ascend and be multiples of the step"
                )
            })
        }
        Draw::Split(shares) => {
            let sum: f64 = shares.iter().map(|(_, percent)| percent).sum();
            let whole = (sum - 100.0).abs() < 0.01 && shares.iter().all(|(_, share)| *share > 0.0);
            (!whole).then(|| {
                format!("a split of block sizes whose shares add up to {sum} %, expected 100 %")
            })
        }
    }
}
