//! The fsync ladder: sync calls after different amounts of dirty data.

use serde::{Deserialize, Serialize};

use super::chance::{Chance, mix};

/// Bytes written since the last flush, before a flush is timed.
pub const LEVELS: [u64; 5] = [0, 64 << 10, 1 << 20, 16 << 20, 64 << 20];
/// Fewest rounds for a statement on latency.
pub const FEWEST_ROUNDS: u32 = 20;
/// Fewest levels with data for a statement on latency; two levels would make any step a slope.
pub const FEWEST_LEVELS: usize = 3;
/// Smallest span: flushes can be counted, but latency cannot be judged.
pub const SMALLEST_BYTES: u64 = 1 << 20;
/// Default span: it holds every level at several offsets.
pub const USUAL_BYTES: u64 = 128 << 20;
/// Size of the write before a counted fsync; its block is always the same.
pub const PROBE_BYTES: u64 = 4 << 10;
/// Alignment of the start of a level.
const UNIT_BYTES: u64 = 64 << 10;

/// The call that makes data durable.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Data and all metadata, which programs rely on. Its flushes are counted.
    Fsync,
    /// Data only. Its latency is measured, because no journal is involved after an overwrite.
    Fdatasync,
}

/// One write and the call that makes it durable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Step {
    pub call: Call,
    /// Bytes written before it.
    pub dirty_bytes: u64,
    /// Start of the write.
    pub offset: u64,
}

/// The complete plan of a ladder.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LadderPlan {
    /// Path as given.
    pub path: String,
    /// Seed of the order, the offsets and the data.
    pub seed: u64,
    /// Rounds; each has every level once.
    pub rounds: u32,
    /// Length of the written region at the start of the target.
    pub span_bytes: u64,
    /// Alignment of offsets and lengths, bytes.
    pub align_bytes: u64,
    /// Whether writes bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Levels that fit into the span, bytes.
    pub levels: Vec<u64>,
    /// Levels that do not fit, bytes.
    pub left_out: Vec<u64>,
}

impl LadderPlan {
    /// A buffered plan with the levels that fit into the span.
    pub fn new(path: &str, seed: u64, rounds: u32, span_bytes: u64) -> LadderPlan {
        let (levels, left_out) = LEVELS.iter().partition(|level| **level <= span_bytes);
        let (align_bytes, direct) = (1, false);
        let path = path.into();
        LadderPlan { path, seed, rounds, span_bytes, align_bytes, direct, levels, left_out }
    }

    /// The same plan with direct I/O, in units of `align_bytes`.
    pub fn directly(self, align_bytes: u64) -> LadderPlan {
        LadderPlan { align_bytes, direct: true, ..self }
    }

    /// The steps of a round; their order and offsets depend only on the seed and the round.
    pub fn round(&self, round: u32) -> Vec<Step> {
        let mut chance = Chance::new(mix(self.seed ^ u64::from(round)));
        let probe_bytes = PROBE_BYTES.next_multiple_of(self.align_bytes.max(1));
        let mut steps = vec![Step { call: Call::Fsync, dirty_bytes: probe_bytes, offset: 0 }];
        for &level in &self.levels {
            let unit = UNIT_BYTES.next_multiple_of(self.align_bytes.max(1));
            let places = (self.span_bytes - level) / unit + 1;
            let offset = if level == 0 { 0 } else { chance.below(places) * unit };
            steps.push(Step { call: Call::Fdatasync, dirty_bytes: level, offset });
        }
        // Fisher-Yates shuffle.
        for last in (1..steps.len()).rev() {
            steps.swap(last, chance.below(last as u64 + 1) as usize);
        }
        steps
    }

    /// Total bytes written, including the layout of the span.
    pub fn write_bytes(&self) -> u64 {
        self.span_bytes + u64::from(self.rounds) * self.round_bytes()
    }

    /// Bytes written by a round.
    pub fn round_bytes(&self) -> u64 {
        PROBE_BYTES.next_multiple_of(self.align_bytes.max(1)) + self.levels.iter().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_round_has_every_level_once_within_the_span() {
        let plan = LadderPlan::new("x", 7, 20, 100 << 20).directly(4096);
        let mut orders = BTreeSet::new();
        for round in 0..20 {
            let steps = plan.round(round);
            assert_eq!(steps, plan.round(round), "the seed decides");
            let mut levels: Vec<u64> = steps.iter().map(|step| step.dirty_bytes).collect();
            orders.insert(levels.clone());
            levels.sort_unstable();
            assert_eq!(levels, [0, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]);
            for step in &steps {
                assert!(step.offset + step.dirty_bytes <= plan.span_bytes);
                assert_eq!(step.offset % 4096, 0);
                assert_eq!(step.call == Call::Fsync, step.dirty_bytes == 4 << 10);
            }
        }
        assert!(orders.len() > 10, "{} orders", orders.len());
        assert_eq!(plan.write_bytes(), (100 << 20) + 20 * ((81 << 20) + (68 << 10)));
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_reported() {
        let plan = LadderPlan::new("x", 7, 20, 20 << 20);
        assert_eq!(plan.left_out, [64 << 20]);
        assert_eq!(plan.levels, LEVELS[..4]);
        let whole = LadderPlan::new("x", 7, 20, 64 << 20);
        assert!(whole.left_out.is_empty());
        let at = |step: &Step| step.dirty_bytes == 64 << 20 && step.offset == 0;
        assert!(whole.round(3).iter().any(at));
    }
}
