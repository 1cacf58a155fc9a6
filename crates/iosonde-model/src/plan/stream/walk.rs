//! How a job moves over the region of one target.

use super::law::{Law, Zipf};
use crate::plan::chance::{Chance, Permutation, mix};
use crate::plan::{Job, Order};

/// The way over one target; gives offsets within the region.
#[derive(Clone, Debug)]
pub(super) enum Walk {
    /// Every position once before any twice; each pass has its own order.
    Permuted { permutation: Permutation, seed: u64, turns: Turns, unit: u64 },
    /// From place to place at equal distances, upwards or downwards.
    Stepped { turns: Turns, step: u64, descends: bool },
    /// Each operation where the one before ended, whatever their lengths.
    Adjoining { at: u64, region_bytes: u64 },
    /// Independent draws.
    Drawn { law: Law, unit: u64 },
    /// Below the bound a 32-bit draw takes a step of another walk; else the operation begins where
    /// the one before it ended.
    Following { below: u64, at: u64, region_bytes: u64, between: Box<Walk> },
}

/// This thread's turns on an order of `count` places, round and round.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    next: u64,
    /// Threads taking turns.
    lanes: u64,
    count: u64,
    /// Passes finished.
    pass: u64,
}

/// How far it is once over the region.
pub(super) struct Pass {
    pub(super) count: u64,
    /// Whether the count is of bytes; else of operations.
    pub(super) is_bytes: bool,
}

impl Walk {
    /// The walk of a job over the `nth` of its targets.
    pub(super) fn new(job: &Job, nth: u64, varied: bool) -> Walk {
        Walk::in_order(&job.order, job, nth, varied)
    }

    fn in_order(order: &Order, job: &Job, nth: u64, varied: bool) -> Walk {
        let unit = job.unit();
        let last = job.region_bytes.saturating_sub(job.block_bytes);
        let positions = last / unit + 1;
        // The first target has the seed as it stands, the others one that is drawn from it.
        let of_target = |seed: u64| if nth == 0 { seed } else { mix(seed ^ mix(nth)) };
        // Threads of one role agree on what is popular.
        let scatter = of_target(mix(job.region_start ^ 0x706f_7075_6c61_7269));
        let law = match *order {
            Order::Permutation { seed, lane, lanes } => {
                let seed = of_target(seed);
                let permutation = Permutation::new(positions, seed);
                let turns = Turns::new(u64::from(lane), lanes, positions);
                return Walk::Permuted { permutation, seed, turns, unit };
            }
            Order::Sequential { start_block, .. } if varied && job.stride_bytes == 0 => {
                return Walk::Adjoining { at: start_block * unit, region_bytes: job.region_bytes };
            }
            Order::Sequential { start_block, lane, lanes } => {
                let stride = job.stride_bytes;
                let step = if stride == 0 { job.block_bytes } else { stride.unsigned_abs() };
                let first = start_block * unit / step + u64::from(lane);
                let turns = Turns::new(first, lanes, last / step + 1);
                return Walk::Stepped { turns, step, descends: stride < 0 };
            }
            Order::Uniform => Law::Uniform(positions),
            Order::Zipf { theta } => {
                Law::Zipf(Zipf::new(positions, theta), Permutation::new(positions, scatter))
            }
            Order::Pareto { h } => Law::pareto(positions, h, scatter),
            Order::Normal { deviation_percent } => {
                Law::Normal { positions, deviation: deviation_percent / 100.0 }
            }
            Order::Zoned { ref zones } => Law::zoned(positions, zones),
            Order::Following { drawn_percent, ref between } => {
                return Walk::Following {
                    below: (drawn_percent / 100.0 * (1u64 << 32) as f64).round() as u64,
                    at: u64::MAX,
                    region_bytes: job.region_bytes,
                    between: Box::new(Walk::in_order(between, job, nth, varied)),
                };
            }
        };
        Walk::Drawn { law, unit }
    }

    /// Where the next operation, of this length, begins.
    #[inline(always)]
    pub(super) fn next(&mut self, bytes: u32, chance: &mut Chance) -> u64 {
        // First of all, for it is the usual one: not found by way of a table of all.
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
            Walk::Drawn { law, unit } => law.draw(chance) * *unit,
            Walk::Following { below, at, region_bytes, between } => {
                let bytes_long = u64::from(bytes);
                // There is no operation before the first, and none fits behind the last place.
                let follows = at.checked_add(bytes_long).is_some_and(|end| end <= *region_bytes)
                    && (chance.bits() >> 32) >= *below;
                let begins = if follows { *at } else { between.next(bytes, chance) };
                *at = begins + bytes_long;
                begins
            }
            Walk::Permuted { .. } => 0,
        }
    }

    /// How far it is once over the region; independent draws may leave out as many places as they
    /// take.
    pub(super) fn pass(&self, job: &Job) -> Pass {
        let last = job.region_bytes.saturating_sub(job.block_bytes);
        let order = match &job.order {
            Order::Following { between, .. } => between,
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
            Walk::Drawn { unit, .. } => last / unit + 1,
            Walk::Following { between, .. } => return between.pass(job),
        };
        Pass { count: (places - lane.min(places)).div_ceil(lanes), is_bytes: false }
    }
}

impl Turns {
    fn new(first: u64, lanes: u32, count: u64) -> Turns {
        Turns { next: first % count, lanes: u64::from(lanes), count, pass: 0 }
    }

    /// This turn's index within the pass; steps on by the number of lanes.
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
