//! Order of a job's offsets within the region of one target.

use super::law::{Law, Zipf};
use super::random_map::{RandomMap, fitting};
use super::single_pass::SinglePass;
use crate::plan::chance::{Chance, Permutation, mix};
use crate::plan::{Job, Order, Strides};
use crate::spec::Sequence;

/// The walk over one target, which returns offsets within the region.
#[derive(Clone, Debug)]
pub(super) enum Walk {
    /// Every position once before any repeats; each pass has a new order.
    Permuted { permutation: Permutation, seed: u64, turns: Turns, unit: u64 },
    /// Equal steps, ascending or descending.
    Stepped { turns: Turns, step: u64, descends: bool },
    /// Each operation begins where the previous one ended, at any length.
    Adjoining { at: u64, region_bytes: u64 },
    /// Every byte once before any repeats, at any lengths.
    Mapped(RandomMap),
    /// Independent draws; if lengths differ, from the positions with room for the shortest.
    Drawn { law: Law, unit: u64, region_bytes: u64 },
    /// The blocks of a list plus `first`, which may advance with each repetition.
    Sequence { blocks: Box<[u32]>, next: usize, first: u64, advances: bool, unit: u64, count: u64 },
    /// All flash once, so that valid data is distributed as after many passes.
    SinglePass { pass: Box<SinglePass>, unit: u64 },
    /// Another walk gives the offset of the first of every `length` operations; the others follow
    /// the previous one or repeat its offset.
    Runs { length: u64, done: u64, same: bool, at: u64, region_bytes: u64, between: Box<Walk> },
    /// Another walk gives the offsets within a zone; after `zone_bytes`, the next zone follows.
    Zoned { strides: Strides, zone: u64, moved: u64, region_bytes: u64, within: Box<Walk> },
    /// If a 32-bit draw is below the bound, another walk gives the offset; otherwise the operation
    /// follows the previous one.
    Following { below: u64, at: u64, region_bytes: u64, between: Box<Walk> },
}

/// This thread's turns in an order of `count` positions, repeated in passes.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    next: u64,
    /// Number of threads that take turns.
    lanes: u64,
    count: u64,
    /// Completed passes.
    pass: u64,
}

/// The length of one pass over the region.
pub(super) struct Pass {
    pub(super) count: u64,
    /// Whether `count` is in bytes rather than operations.
    pub(super) is_bytes: bool,
}

impl Walk {
    /// The walk of a job over the `nth` of its targets. If lengths differ, drawn positions have
    /// room for `least` bytes.
    pub(super) fn new(job: &Job, nth: u64, least: Option<u64>) -> Walk {
        let strides = job.strides;
        if strides.range_bytes == 0 {
            return Walk::in_order(&job.order, job, nth, least);
        }
        let zone = Job { region_bytes: strides.range_bytes.min(job.region_bytes), ..job.clone() };
        let least = least.map(|_| job.block_bytes);
        let within = Box::new(Walk::in_order(&job.order, &zone, nth, least));
        Walk::Zoned { strides, zone: 0, moved: 0, region_bytes: job.region_bytes, within }
    }

    fn in_order(order: &Order, job: &Job, nth: u64, least: Option<u64>) -> Walk {
        let unit = job.unit();
        let last = job.region_bytes.saturating_sub(job.block_bytes);
        let positions = last / unit + 1;
        // The first target uses the seed itself, the others derive theirs from it.
        let of_target = |seed: u64| if nth == 0 { seed } else { mix(seed ^ mix(nth)) };
        // Popular blocks depend on region and target alone, so that a role's threads share them.
        let drawn = job.region_bytes.saturating_sub(least.unwrap_or(job.block_bytes)) / unit + 1;
        let between = least.map(|_| job.block_bytes);
        let scatter = of_target(mix(job.region_start ^ 0x706f_7075_6c61_7269));
        let law = match *order {
            Order::Permutation { seed, lane, lanes } => {
                let seed = of_target(seed);
                let permutation = Permutation::new(positions, seed);
                let turns = Turns::new(u64::from(lane), lanes, positions);
                return Walk::Permuted { permutation, seed, turns, unit };
            }
            Order::Sequential { start_block, .. } if least.is_some() && job.stride_bytes == 0 => {
                return Walk::Adjoining { at: start_block * unit, region_bytes: job.region_bytes };
            }
            Order::Sequential { start_block, lane, lanes } => {
                let stride = job.stride_bytes;
                let step = if stride == 0 { job.block_bytes } else { stride.unsigned_abs() };
                let first = start_block * unit / step + u64::from(lane);
                let turns = Turns::new(first, lanes, last / step + 1);
                return Walk::Stepped { turns, step, descends: stride < 0 };
            }
            Order::RandomMap { seed } => {
                let map = RandomMap::new(job.region_bytes / unit, unit, of_target(seed));
                return Walk::Mapped(map);
            }
            Order::Uniform => Law::Uniform(drawn),
            Order::Zipf { theta } => {
                Law::Zipf(Zipf::new(drawn, theta), Permutation::new(drawn, scatter))
            }
            Order::Pareto { h } => Law::pareto(drawn, h, scatter),
            Order::Normal { deviation_percent } => {
                Law::Normal { positions: drawn, deviation: deviation_percent / 100.0 }
            }
            Order::Zoned { ref zones } => Law::zoned(drawn, zones),
            Order::Sequence(Sequence { ref blocks, advances }) => {
                let blocks = blocks.clone().into_boxed_slice();
                return Walk::Sequence {
                    blocks,
                    next: 0,
                    first: 0,
                    advances,
                    unit,
                    count: positions,
                };
            }
            Order::SinglePass { seed, spare_percent } => {
                let pass = SinglePass::new(positions, spare_percent, of_target(seed));
                return Walk::SinglePass { pass: Box::new(pass), unit };
            }
            Order::Runs { length, same, between: ref other } => {
                return Walk::Runs {
                    length,
                    done: 0,
                    same,
                    at: 0,
                    region_bytes: job.region_bytes,
                    between: Box::new(Walk::in_order(other, job, nth, between)),
                };
            }
            Order::Following { drawn_percent, between: ref other } => {
                return Walk::Following {
                    below: (drawn_percent / 100.0 * (1u64 << 32) as f64).round() as u64,
                    at: u64::MAX,
                    region_bytes: job.region_bytes,
                    between: Box::new(Walk::in_order(other, job, nth, between)),
                };
            }
        };
        Walk::Drawn { law, unit, region_bytes: job.region_bytes }
    }

    /// Offset of the next operation, which has this length.
    #[inline(always)]
    pub(super) fn next(&mut self, bytes: u32, chance: &mut Chance) -> u64 {
        // The most common case comes first, to avoid a jump table.
        if let Walk::Permuted { permutation, seed, turns, unit } = self {
            let pass = turns.pass;
            let position = permutation.at(turns.take());
            if turns.pass != pass {
                *permutation = Permutation::new(turns.count, *seed ^ turns.pass);
            }
            return position * *unit;
        }
        self.next_otherwise(bytes, chance)
    }

    /// Offset and length of the next operation; the length is drawn and may be shortened.
    pub(super) fn next_varied(
        &mut self,
        chance: &mut Chance,
        mut draw: impl FnMut(&mut Chance) -> u32,
    ) -> (u64, u32) {
        match self {
            Walk::Mapped(map) => map.next(|| draw(chance)),
            Walk::Adjoining { at, region_bytes } => {
                *at = if *at < *region_bytes { *at } else { 0 };
                let bytes = fitting(*region_bytes - *at, || draw(chance));
                *at += u64::from(bytes);
                (*at - u64::from(bytes), bytes)
            }
            Walk::Drawn { law, unit, region_bytes } => {
                let begins = law.draw(chance) * *unit;
                (begins, fitting(*region_bytes - begins, || draw(chance)))
            }
            walk => {
                let bytes = draw(chance);
                (walk.next(bytes, chance), bytes)
            }
        }
    }

    #[inline]
    fn next_otherwise(&mut self, bytes: u32, chance: &mut Chance) -> u64 {
        match self {
            Walk::Stepped { turns, step, descends } => {
                let place = turns.take();
                *step * if *descends { turns.count - 1 - place } else { place }
            }
            Walk::Adjoining { at, region_bytes } => {
                let begins = if *at + u64::from(bytes) > *region_bytes { 0 } else { *at };
                *at = begins + u64::from(bytes);
                begins
            }
            Walk::Drawn { law, unit, .. } => law.draw(chance) * *unit,
            Walk::Sequence { blocks, next, first, advances, unit, count } => {
                let listed = |next: usize| blocks.get(next).map_or(0, |block| u64::from(*block));
                let mut block = *first + listed(*next);
                if block >= *count {
                    (*first, *next) = (0, 0);
                    block = listed(0).min(*count - 1);
                }
                *next += 1;
                if *next >= blocks.len() {
                    *next = 0;
                    *first += if *advances { blocks.len() as u64 } else { 0 };
                }
                block * *unit
            }
            Walk::SinglePass { pass, unit } => pass.next(chance) * *unit,
            Walk::Following { below, at, region_bytes, between } => {
                let bytes_long = u64::from(bytes);
                // The first operation has no predecessor; none may exceed the region.
                let follows = at.checked_add(bytes_long).is_some_and(|end| end <= *region_bytes)
                    && (chance.bits() >> 32) >= *below;
                let begins = if follows { *at } else { between.next(bytes, chance) };
                *at = begins + bytes_long;
                begins
            }
            Walk::Runs { length, done, same, at, region_bytes, between } => {
                let bytes_long = u64::from(bytes);
                let goes_on = *done > 0 && *done < *length && *at + bytes_long <= *region_bytes;
                let begins = if goes_on { *at } else { between.next(bytes, chance) };
                *done = if goes_on { *done + 1 } else { 1 };
                *at = if *same { begins } else { begins + bytes_long };
                begins
            }
            Walk::Zoned { strides, zone, moved, region_bytes, within } => {
                if *moved >= strides.zone_bytes {
                    *moved = 0;
                    *zone += strides.range_bytes + strides.skip_bytes;
                    if *zone >= *region_bytes {
                        *zone = 0;
                    }
                    within.restart();
                }
                *moved += u64::from(bytes);
                let begins = *zone + within.next(bytes, chance);
                if begins + u64::from(bytes) <= *region_bytes {
                    return begins;
                }
                // The end of the region may truncate the last zone.
                (*zone, *moved) = (0, u64::from(bytes));
                within.restart();
                within.next(bytes, chance)
            }
            // The operations of a map get their length together with their place.
            Walk::Mapped(map) => map.next(|| bytes).0,
            Walk::Permuted { .. } => 0,
        }
    }

    /// Restarts a sequential walk at the start of its region.
    fn restart(&mut self) {
        match self {
            Walk::Stepped { turns, .. } => turns.next = 0,
            Walk::Adjoining { at, .. } => *at = 0,
            _ => {}
        }
    }

    /// The length of one pass; independent draws may miss some positions and repeat others.
    pub(super) fn pass(&self, job: &Job) -> Pass {
        let last = job.region_bytes.saturating_sub(job.block_bytes);
        let order = match &job.order {
            Order::Following { between, .. } | Order::Runs { between, .. } => between,
            order => order,
        };
        let (lane, lanes) = match *order {
            Order::Permutation { lane, lanes, .. } | Order::Sequential { lane, lanes, .. } => {
                (u64::from(lane), u64::from(lanes))
            }
            _ => (0, 1),
        };
        let places = match self {
            Walk::Adjoining { region_bytes, .. } => {
                return Pass { count: *region_bytes, is_bytes: true };
            }
            Walk::Permuted { turns, .. } | Walk::Stepped { turns, .. } => turns.count,
            Walk::Mapped(_) => return Pass { count: job.region_bytes, is_bytes: true },
            Walk::Drawn { unit, .. } => last / unit + 1,
            Walk::Sequence { count, .. } => *count,
            Walk::SinglePass { pass, .. } => pass.writes(),
            Walk::Following { between, .. } | Walk::Runs { between, .. } => {
                return between.pass(job);
            }
            Walk::Zoned { strides, region_bytes, .. } => {
                let cycle = strides.zone_bytes.saturating_add(strides.skip_bytes).max(1);
                let part = (region_bytes % cycle).min(strides.zone_bytes);
                return Pass {
                    count: region_bytes / cycle * strides.zone_bytes + part,
                    is_bytes: true,
                };
            }
        };
        Pass { count: (places - lane.min(places)).div_ceil(lanes), is_bytes: false }
    }
}

impl Turns {
    fn new(first: u64, lanes: u32, count: u64) -> Turns {
        Turns { next: first % count, lanes: u64::from(lanes), count, pass: 0 }
    }

    /// Returns this turn's index within the pass, and advances by the number of lanes.
    #[inline(always)]
    fn take(&mut self) -> u64 {
        let turn = self.next;
        self.next += self.lanes;
        while self.next >= self.count {
            self.next -= self.count;
            self.pass += 1;
        }
        turn
    }
}
