//! One pass of random writes that leaves flash in the state that many passes would.
//!
//! Under random writes of one size, a flash translation layer that cleans its oldest blocks first
//! reaches a steady state: the valid share of a block falls exponentially with its age, from 1 for
//! the newest to `v` for the oldest, where `v = exp(-(1 + s) (1 - v))` and `s` is the spare flash
//! as a share of the host's capacity (P. Desnoyers, "Analytic models of SSD write performance", ACM
//! TOS 10(2), 2014, for LRU cleaning). Writing all flash once, so that exactly these shares stay
//! valid, produces that state without garbage collection.

use crate::plan::chance::{Chance, Permutation};

/// Selects the next block to write. Most blocks are written once; a block whose copy must be
/// invalid at the end is rewritten later.
#[derive(Clone, Debug)]
pub(super) struct SinglePass {
    /// The order in which blocks are last written.
    last: Permutation,
    blocks: u64,
    /// Valid share of the oldest flash.
    oldest: f64,
    /// Total writes: all flash once.
    writes: u64,
    written: u64,
    /// Blocks written for the last time.
    settled: u64,
}

impl SinglePass {
    /// A pass over this many blocks, with spare flash in percent of them, above 0.
    pub(super) fn new(blocks: u64, spare_percent: f64, seed: u64) -> SinglePass {
        SinglePass {
            last: Permutation::new(blocks, seed),
            blocks,
            oldest: oldest_valid(spare_percent / 100.0),
            writes: writes(blocks, spare_percent),
            written: 0,
            settled: 0,
        }
    }

    /// Number of writes of the pass.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// The next block. After the pass, a new one begins.
    #[inline(never)]
    pub(super) fn next(&mut self, chance: &mut Chance) -> u64 {
        if self.written == self.writes {
            (self.written, self.settled) = (0, 0);
        }
        self.written += 1;
        let left = self.blocks - self.settled;
        let is_last = self.settled < self.due() || self.writes - self.written < left;
        if !is_last || left == 0 {
            return self.last.at(self.blocks - 1 - chance.below(left.max(2) - 1));
        }
        self.settled += 1;
        self.last.at(self.settled - 1)
    }

    /// Blocks whose last write is due by now: the valid share integrated over the written flash.
    fn due(&self) -> u64 {
        let still_to_write = 1.0 - self.written as f64 / self.writes as f64;
        let share = (self.oldest.powf(still_to_write) - self.oldest) / (1.0 - self.oldest);
        (share * self.blocks as f64).round() as u64
    }
}

/// Number of writes of a pass over this many blocks.
pub(crate) fn writes(blocks: u64, spare_percent: f64) -> u64 {
    let writes = (blocks as f64 * (1.0 + spare_percent / 100.0)).round() as u64;
    writes.max(blocks)
}

/// The root below 1 of `v = exp(-(1 + spare) (1 - v))`; the iteration from 0 ascends to it.
fn oldest_valid(spare: f64) -> f64 {
    let mut valid = 0.0;
    loop {
        let next = (-(1.0 + spare) * (1.0 - valid)).exp();
        if next - valid < 1e-12 {
            return next;
        }
        valid = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By count: every block is written, flash is written once in total, and the valid share at the
    /// end falls with age as predicted.
    #[test]
    fn what_stays_valid_falls_with_age() {
        for (blocks, spare_percent) in [(100_000, 7.0), (100_000, 28.0), (65_537, 100.0)] {
            let mut pass = SinglePass::new(blocks, spare_percent, 3);
            let mut chance = Chance::new(4);
            let order: Vec<u64> = (0..pass.writes()).map(|_| pass.next(&mut chance)).collect();
            let mut last = vec![None; blocks as usize];
            for (at, block) in order.iter().enumerate() {
                last[*block as usize] = Some(at);
            }
            assert!(last.iter().all(Option::is_some), "{spare_percent}");
            let parts = 20;
            let size = order.len() / parts;
            for part in 0..parts {
                let range = part * size..(part + 1) * size;
                let valid = last.iter().flatten().filter(|at| range.contains(at)).count();
                let age = 1.0 - (part as f64 + 0.5) / parts as f64;
                let expected = oldest_valid(spare_percent / 100.0).powf(age);
                let found = valid as f64 / size as f64;
                assert!((found - expected).abs() < 0.01, "{spare_percent} {part}: {found}");
            }
        }
    }

    #[test]
    fn few_blocks_and_little_spare_flash_are_covered_too() {
        for (blocks, spare_percent) in [(1, 7.0), (2, 50.0), (3, 0.01), (1000, 0.01)] {
            let mut pass = SinglePass::new(blocks, spare_percent, 1);
            let mut chance = Chance::new(1);
            for _ in 0..2 {
                let mut seen = vec![false; blocks as usize];
                for _ in 0..pass.writes() {
                    seen[pass.next(&mut chance) as usize] = true;
                }
                assert!(seen.iter().all(|seen| *seen), "{blocks} {spare_percent}");
            }
        }
    }
}
