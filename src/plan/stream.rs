//! The operations of one job, in order: fixed by its plan and seed, endless unless one pass is
//! asked.

use super::chance::{Chance, Permutation};
use super::{Job, Order, Stop};

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// From storage.
    Read = 0,
    /// To storage.
    Write = 1,
    /// Storage is told that the bytes are not needed any more.
    Trim = 2,
    /// What was written is made durable; moves no bytes.
    Sync = 3,
}

impl Way {
    /// Every way, in the order of its number.
    pub const ALL: [Way; 4] = [Way::Read, Way::Write, Way::Trim, Way::Sync];

    /// The word for it in tables, messages and records.
    pub fn word(self) -> &'static str {
        match self {
            Way::Read => "read",
            Way::Write => "write",
            Way::Trim => "trim",
            Way::Sync => "sync",
        }
    }
}

/// One operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Op {
    /// Which way.
    pub way: Way,
    /// Which of the plan's targets, counted from 0.
    pub target: u16,
    /// First byte.
    pub offset: u64,
    /// Length, bytes.
    pub bytes: u32,
}

/// The operations of one job.
#[derive(Clone, Debug)]
pub struct OpStream {
    region_start: u64,
    block_bytes: u32,
    blocks: u64,
    /// A 32-bit draw below this is a read; 2^32 means always.
    read_below: u64,
    order: Order,
    permutation: Permutation,
    /// Turn within the current pass.
    turn: u64,
    /// Passes finished; each has its own permutation.
    pass: u64,
    remaining: u64,
    order_seed: u64,
    chance: Chance,
}

impl OpStream {
    /// The stream of a job, ended by `stop` if that counts operations.
    pub fn new(job: &Job, stop: Stop) -> OpStream {
        let blocks = (job.region_bytes.saturating_sub(job.block_bytes)) / job.unit() + 1;
        let (first, lanes) = match job.order {
            Order::Permutation { lane, lanes, .. } => (u64::from(lane) % blocks, u64::from(lanes)),
            Order::Sequential { start_block, lane, lanes } => {
                ((start_block + u64::from(lane)) % blocks, u64::from(lanes))
            }
            _ => (0, 1),
        };
        let (order_seed, lane) = match job.order {
            Order::Permutation { seed, lane, .. } => (seed, u64::from(lane)),
            Order::Sequential { lane, .. } => (0, u64::from(lane)),
            _ => (0, 0),
        };
        let remaining = match stop {
            Stop::AfterNs(_) | Stop::AfterBytes(_) => u64::MAX,
            Stop::AfterOps(ops) => ops,
            Stop::AfterOnePass => (blocks - lane.min(blocks)).div_ceil(lanes),
        };
        OpStream {
            region_start: job.region_start,
            block_bytes: job.block_bytes as u32,
            blocks,
            read_below: u64::from(job.read_percent) * (1 << 32) / 100,
            order: job.order.clone(),
            permutation: Permutation::new(blocks, order_seed),
            turn: first,
            pass: 0,
            remaining,
            order_seed,
            chance: Chance::new(job.seed ^ 0x6f70_7374_7265_616d),
        }
    }

    /// The next operation; `None` once the stream has ended.
    #[inline(always)]
    pub fn next_op(&mut self) -> Option<Op> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        let way = if self.read_below == 1 << 32 {
            Way::Read
        } else if self.read_below == 0 || self.chance.bits() >> 32 >= self.read_below {
            Way::Write
        } else {
            Way::Read
        };
        let block = match self.order {
            Order::Sequential { lanes, .. } => self.take_turn(lanes),
            Order::Permutation { lanes, .. } => {
                let pass = self.pass;
                let turn = self.take_turn(lanes);
                let block = self.permutation.at(turn);
                if self.pass != pass {
                    self.permutation = Permutation::new(self.blocks, self.order_seed ^ self.pass);
                }
                block
            }
            _ => self.chance.below(self.blocks),
        };
        let offset = self.region_start + block * u64::from(self.block_bytes);
        Some(Op { way, target: 0, offset, bytes: self.block_bytes })
    }

    /// From now on this share of the operations that move data is read, percent.
    pub fn set_read_percent(&mut self, percent: u8) {
        self.read_below = u64::from(percent) * (1 << 32) / 100;
    }

    /// Whether `next_op` would give `None`.
    #[inline(always)]
    pub fn has_ended(&self) -> bool {
        self.remaining == 0
    }

    /// This turn's index within the pass; steps on by the number of lanes.
    #[inline(always)]
    fn take_turn(&mut self, lanes: u32) -> u64 {
        let turn = self.turn;
        self.turn += u64::from(lanes);
        while self.turn >= self.blocks {
            self.turn -= self.blocks;
            self.pass += 1;
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use super::*;

    fn job(order: Order, read_percent: u8) -> Job {
        Job {
            role: "test".into(),
            block_bytes: 4096,
            read_percent,
            order,
            region_start: 8192,
            region_bytes: 100 * 4096,
            seed: 7,
            ..Job::default()
        }
    }

    #[test]
    fn lanes_together_cover_each_block_once_per_pass() {
        for lanes in [1u32, 2, 3, 7] {
            for permuted in [true, false] {
                let mut seen = Vec::new();
                for lane in 0..lanes {
                    let order = if permuted {
                        Order::Permutation { seed: 7, lane, lanes }
                    } else {
                        Order::Sequential { start_block: 37, lane, lanes }
                    };
                    let mut stream = OpStream::new(&job(order, 100), Stop::AfterOnePass);
                    while let Some(op) = stream.next_op() {
                        seen.push(op.offset);
                    }
                }
                let distinct: BTreeSet<u64> = seen.iter().copied().collect();
                assert_eq!((seen.len(), distinct.len()), (100, 100), "{lanes} {permuted}");
                assert_eq!(distinct.first(), Some(&8192));
                assert_eq!(distinct.last(), Some(&(8192 + 99 * 4096)));
            }
        }
    }

    #[test]
    fn two_lanes_stay_in_step_over_many_passes() {
        // 100 blocks and 7 lanes: a pass ends in the middle of a round of turns.
        let mut lanes: Vec<OpStream> = (0..7)
            .map(|lane| {
                let order = Order::Permutation { seed: 7, lane, lanes: 7 };
                OpStream::new(&job(order, 100), Stop::AfterNs(1))
            })
            .collect();
        let all: Vec<u64> = (0..700).map(|i| lanes[i % 7].next_op().unwrap().offset).collect();
        for pass in all.chunks(100) {
            assert_eq!(pass.iter().collect::<BTreeSet<_>>().len(), 100);
        }
        assert_ne!(all[..100], all[100..200], "each pass has its own order");
    }

    #[test]
    fn the_mix_is_as_asked_and_offsets_stay_inside() {
        for (percent, order) in [(70, Order::Uniform), (0, Order::Uniform), (100, Order::Uniform)] {
            let mut stream = OpStream::new(&job(order, percent), Stop::AfterNs(1));
            let ops: Vec<Op> = (0..100_000).map(|_| stream.next_op().unwrap()).collect();
            let reads = ops.iter().filter(|op| op.way == Way::Read).count() as f64;
            // Five standard deviations of a binomial.
            let p = f64::from(percent) / 100.0;
            let slack = 5.0 * (100_000.0 * p * (1.0 - p)).sqrt();
            assert!((reads - 100_000.0 * p).abs() <= slack, "{percent} %: {reads} reads");
            assert!(ops.iter().all(|op| op.offset >= 8192 && op.offset % 4096 == 0));
            assert!(ops.iter().all(|op| op.offset + 4096 <= 8192 + 100 * 4096));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_operations() {
        let order = Order::Permutation { seed: 7, lane: 0, lanes: 1 };
        let stream = || OpStream::new(&job(order.clone(), 50), Stop::AfterNs(1));
        let (mut a, mut b) = (stream(), stream());
        let first: Vec<Op> = (0..1000).map(|_| a.next_op().unwrap()).collect();
        let again: Vec<Op> = (0..1000).map(|_| b.next_op().unwrap()).collect();
        assert_eq!(first, again);
        // A golden fingerprint: a change of the generator cannot pass unnoticed.
        let head: Vec<u64> = first.iter().take(6).map(|op| op.offset / 4096 - 2).collect();
        assert_eq!(head, GOLDEN_HEAD);
    }

    const GOLDEN_HEAD: [u64; 6] = [21, 47, 31, 83, 37, 94];
}
