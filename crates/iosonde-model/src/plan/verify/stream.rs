//! The operations of one job of the verifier, in order.

use super::super::IoKind;
use super::super::chance::Chance;
use super::{VerifyMode, VerifyPlan};

/// Version of the order of operations. A ledger file records it, because other versions generate
/// other operations.
pub const STREAM_VERSION: u32 = 1;

/// One operation on blocks of the job's region.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VerifyOp {
    /// Index, from 0.
    pub index: u64,
    pub way: IoKind,
    /// First block.
    pub first: u64,
    /// Number of blocks; 0 for a flush.
    pub blocks: u32,
}

impl VerifyOp {
    /// Whether the operation touches a block.
    pub fn touches(&self, block: u64) -> bool {
        (self.first..self.first + u64::from(self.blocks)).contains(&block)
    }
}

/// The operations of a job, which depend only on the plan.
#[derive(Clone, Debug)]
pub struct VerifyStream {
    chance: Chance,
    index: u64,
    ops: u64,
    blocks: u64,
    min_blocks: u32,
    max_blocks: u32,
    reads_below: u64,
    trims_below: u64,
    flush_every: u64,
    order: Walk,
    /// Whether a flush separates two passes.
    flushes_passes: bool,
    /// Seed of a pass's lengths, which are the same in every pass.
    pass_seed: u64,
}

#[derive(Clone, Copy, Debug)]
enum Walk {
    /// From the first block to the last, with the same lengths in every pass; `left` passes remain,
    /// including this one.
    Passes { next: u64, left: u64 },
    /// Random blocks.
    Random,
}

impl VerifyStream {
    /// The stream of this job, from its first operation.
    pub fn new(plan: &VerifyPlan, job: usize) -> VerifyStream {
        let seed = plan.plan.jobs[job].seed;
        let reads = u64::from(plan.read_percent);
        VerifyStream {
            chance: Chance::new(seed),
            index: 0,
            ops: if plan.mode == VerifyMode::Check { 0 } else { plan.ops[job] },
            blocks: plan.blocks_of(job),
            min_blocks: plan.min_blocks,
            max_blocks: plan.max_blocks,
            reads_below: reads,
            trims_below: reads + u64::from(plan.trim_percent),
            flush_every: plan.flush_every,
            order: match (plan.mode, plan.passes) {
                (VerifyMode::Pipeline, _) => Walk::Passes { next: 0, left: u64::MAX },
                (_, 0) => Walk::Random,
                (_, passes) => Walk::Passes { next: 0, left: passes.into() },
            },
            flushes_passes: plan.mode != VerifyMode::Pipeline,
            pass_seed: seed,
        }
    }

    /// The index of the next operation.
    pub fn index(&self) -> u64 {
        self.index
    }

    fn length(&mut self, room: u64) -> u32 {
        let spread = u64::from(self.max_blocks - self.min_blocks) + 1;
        let wanted = u64::from(self.min_blocks) + self.chance.below(spread);
        wanted.min(room) as u32
    }

    /// The blocks from `at` on; the last operation of a pass may be shorter.
    fn ahead(&mut self, at: u64) -> (u64, u32) {
        (at, self.length(self.blocks - at))
    }
}

impl Iterator for VerifyStream {
    type Item = VerifyOp;

    #[inline]
    fn next(&mut self) -> Option<VerifyOp> {
        if self.index >= self.ops {
            return None;
        }
        let index = self.index;
        if self.flush_every > 0 && index % (self.flush_every + 1) == self.flush_every {
            self.index += 1;
            return Some(VerifyOp { index, way: IoKind::Sync, first: 0, blocks: 0 });
        }
        let (way, first, blocks) = match self.order {
            Walk::Passes { next, left } if next == self.blocks => {
                if left == 1 {
                    return None;
                }
                self.order = Walk::Passes { next: 0, left: left - 1 };
                self.chance = Chance::new(self.pass_seed);
                if !self.flushes_passes {
                    return self.next();
                }
                (IoKind::Sync, 0, 0)
            }
            Walk::Passes { next, left } => {
                let (first, blocks) = self.ahead(next);
                self.order = Walk::Passes { next: first + u64::from(blocks), left };
                (IoKind::Write, first, blocks)
            }
            Walk::Random => {
                let draw = self.chance.below(100);
                let way = match draw {
                    draw if draw < self.reads_below => IoKind::Read,
                    draw if draw < self.trims_below => IoKind::Trim,
                    _ => IoKind::Write,
                };
                let blocks = self.length(self.blocks);
                let first = self.chance.below(self.blocks - u64::from(blocks) + 1);
                (way, first, blocks)
            }
        };
        self.index += 1;
        Some(VerifyOp { index, way, first, blocks })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::tests::setting;
    use super::super::{VerifyPlan, VerifySetting};
    use super::*;

    fn stream(change: impl Fn(&mut VerifySetting)) -> VerifyStream {
        let mut setting = setting(VerifyMode::Soak, 1 << 20);
        change(&mut setting);
        VerifyStream::new(&VerifyPlan::resolve(&setting).unwrap(), 1)
    }

    #[test]
    fn one_pass_covers_every_block_once_with_lengths_within_the_range() {
        let ops: Vec<VerifyOp> = stream(|s| (s.mode, s.passes) = (VerifyMode::Flush, 1)).collect();
        let mut next = 0;
        for op in &ops {
            assert_eq!((op.way, op.first), (IoKind::Write, next));
            next += u64::from(op.blocks);
            assert!((1..=4).contains(&op.blocks));
        }
        assert_eq!(next, 128);
        assert!(ops.len() > 35 && ops.len() < 75, "{}", ops.len());
    }

    #[test]
    fn every_pass_of_the_ring_has_the_same_lengths() {
        let ops: Vec<VerifyOp> = stream(|s| s.mode = VerifyMode::Pipeline).take(400).collect();
        let pass = ops.iter().skip(1).position(|op| op.first == 0).unwrap() + 1;
        for (index, op) in ops.iter().enumerate() {
            let first = ops[index % pass];
            assert_eq!((op.first, op.blocks), (first.first, first.blocks));
        }
    }

    #[test]
    fn a_mix_has_its_shares_and_the_same_seed_gives_the_same_operations() {
        let mix = |seed| {
            stream(move |s| {
                (s.read_percent, s.trim_percent, s.flush_every, s.seed) = (40, 10, 99, seed);
            })
        };
        let ops: Vec<VerifyOp> = mix(1).take(100_000).collect();
        let count = |way| ops.iter().filter(|op| op.way == way).count();
        assert_eq!(count(IoKind::Sync), 1000);
        assert!(count(IoKind::Read).abs_diff(39_600) < 800);
        assert!(count(IoKind::Trim).abs_diff(9_900) < 500);
        assert!(ops.iter().all(|op| op.first + u64::from(op.blocks) <= 128));
        assert!((0..128).all(|block| ops.iter().any(|op| op.touches(block))));
        assert!(mix(1).take(1000).eq(ops[..1000].iter().copied()));
        assert!(!mix(2).take(10).eq(ops[..10].iter().copied()));
    }

    #[test]
    fn a_flush_stands_between_two_passes() {
        let ops: Vec<VerifyOp> = stream(|s| (s.mode, s.passes) = (VerifyMode::Write, 3)).collect();
        let pass = ops.iter().position(|op| op.way == IoKind::Sync).unwrap();
        assert_eq!(ops.len(), 3 * pass + 2);
        let places = |from: usize| ops[from..from + pass].iter().map(|op| (op.first, op.blocks));
        assert!(places(0).eq(places(pass + 1)) && places(0).eq(places(2 * pass + 2)));
        assert_eq!(ops.iter().filter(|op| op.way == IoKind::Sync).count(), 2);
    }

    #[test]
    fn a_check_and_a_silent_job_do_nothing() {
        assert_eq!(stream(|s| s.mode = VerifyMode::Check).count(), 0);
        assert_eq!(stream(|s| s.only_job = Some(0)).count(), 0);
        assert_eq!(stream(|s| (s.only_job, s.ops) = (Some(1), 10)).count(), 10);
    }
}
