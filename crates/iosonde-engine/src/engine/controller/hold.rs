//! `hold`: steers the depth. While the target is met, it doubles, later rises by one or 5 %, or
//! half way to a depth known to miss the target. Where a held depth misses it, it drops to 0.7.
//!
//! A step up that misses the target is undone, and its depth is remembered. Otherwise the same
//! failure would follow each success, and a binding target would never be held, only passed
//! through.

use std::collections::VecDeque;

use super::Next;
use super::epoch::Evidence;
use iosonde_model::record::controlled::{Bound, Judgement, Phase, Pursued};
use iosonde_stats::sequential::{Bin, Verdict, wald};
use iosonde_stats::summary::Summary;
use iosonde_stats::trend::mann_kendall;

/// Shortest time between two decisions, ns.
const SHORTEST_NS: u64 = 100_000_000;
/// Expected operations beyond the limit between two decisions.
const EXCEEDANCES: f64 = 3.0;
/// Mean latencies between two decisions.
const LATENCIES: f64 = 10.0;
/// A depth that was held, or ended the climb, and misses the target is multiplied by this.
const BACK_OFF: f64 = 0.7;
/// Decisions considered for convergence.
const DECISIONS: usize = 20;
/// A depth that missed the target is tried again after this many decisions; each time it misses it
/// again, their number doubles.
const MEMORY: u32 = 40;
/// Changes of direction within [`DECISIONS`] that make an oscillation.
const TURNS: usize = 8;
/// Range of the depth, as a share of its median, within which it has converged.
const RANGE: f64 = 0.2;
/// Coefficient of variation of the throughput, without counting noise, up to which it is steady.
const VARIATION: f64 = 0.05;
/// Mann-Kendall statistic from which a trend is significant (1 %).
const TREND: f64 = 2.58;

/// One decision, as it counts for convergence.
#[derive(Clone, Copy, Debug)]
struct Past {
    depth: u32,
    span_ns: u64,
    seen: Bin,
    effect: f64,
}

/// The state of the controller.
#[derive(Debug)]
pub(super) struct Hold {
    allowed: f64,
    max_depth: u32,
    patience_ns: u64,
    began_ns: u64,
    climbing: bool,
    settled: bool,
    /// The last depth that met the target.
    held: u32,
    /// The smallest depth known to miss it, and for how many more decisions that is remembered.
    ceiling: Option<(u32, u32)>,
    memory: u32,
    /// Whether depth 1 has missed it once.
    has_missed_at_one: bool,
    /// Time and operations of this epoch that earlier decisions have counted.
    counted: (u64, Bin),
    past: VecDeque<Past>,
}

impl Hold {
    /// Begins at depth 1.
    pub(super) fn new(allowed: f64, max_depth: u32, patience_ns: u64, began_ns: u64) -> Hold {
        Hold {
            allowed,
            max_depth,
            patience_ns,
            began_ns,
            climbing: true,
            settled: false,
            held: 0,
            ceiling: None,
            memory: MEMORY,
            has_missed_at_one: false,
            counted: (0, Bin::default()),
            past: VecDeque::with_capacity(DECISIONS),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        if self.climbing { Phase::Climb } else { Phase::Steer }
    }

    /// The decision, if one is due.
    pub(super) fn look(
        &mut self,
        depth: u32,
        evidence: &Evidence,
        now_ns: u64,
    ) -> Option<(Judgement, Next)> {
        let late = !self.settled && now_ns - self.began_ns >= self.patience_ns;
        let judgement = match evidence.verdict(self.allowed) {
            // A certain failure needs no further evidence.
            Verdict::Fail if evidence.span_ns >= SHORTEST_NS => Judgement::Fail,
            _ if late => Judgement::Open,
            _ if !self.is_due(depth, evidence) => return None,
            Verdict::Pass => Judgement::Pass,
            _ if evidence.is_spotless(self.allowed) => Judgement::Pass,
            _ => Judgement::Open,
        };
        self.remember(depth, evidence);
        let next = self.steer(depth, judgement);
        let next = self.conclude(depth, next, late);
        self.counted = match next {
            Next::Keep => (evidence.span_ns, evidence.seen),
            _ => (0, Bin::default()),
        };
        Some((judgement, next))
    }

    /// Whether enough time and operations have passed since the last decision.
    fn is_due(&self, depth: u32, evidence: &Evidence) -> bool {
        let (span_ns, Bin { ops, .. }) = self.counted;
        let latency_ns = f64::from(depth) * 1e9 / evidence.iops.max(1e-9);
        let since_ns = (evidence.span_ns - span_ns) as f64;
        since_ns >= (SHORTEST_NS as f64).max(LATENCIES * latency_ns)
            && (evidence.seen.ops - ops) as f64 >= EXCEEDANCES / self.allowed
    }

    fn remember(&mut self, depth: u32, evidence: &Evidence) {
        let (span_ns, Bin { ops, exceeded }) = self.counted;
        if self.past.len() == DECISIONS {
            self.past.pop_front();
        }
        let seen =
            Bin { ops: evidence.seen.ops - ops, exceeded: evidence.seen.exceeded - exceeded };
        let span_ns = evidence.span_ns - span_ns;
        self.past.push_back(Past { depth, span_ns, seen, effect: evidence.effect });
        if let Some((_, left)) = &mut self.ceiling {
            *left = left.saturating_sub(1);
        }
    }

    fn steer(&mut self, depth: u32, judgement: Judgement) -> Next {
        match judgement {
            Judgement::Open => Next::Keep,
            Judgement::Pass => self.up(depth),
            Judgement::Fail => self.down(depth),
        }
    }

    fn up(&mut self, depth: u32) -> Next {
        (self.held, self.has_missed_at_one) = (depth, false);
        if self.ceiling.is_some_and(|(ceiling, _)| depth >= ceiling) {
            (self.ceiling, self.memory) = (None, MEMORY);
        }
        let wanted = if self.climbing { 2 * depth } else { depth + (depth / 20).max(1) };
        let next = match self.ceiling {
            // At least half way to the ceiling, but at most to one step below it.
            Some((ceiling, left)) if left > 0 => {
                let nearest = ceiling - (ceiling / 20).max(1);
                wanted.max(depth.midpoint(ceiling)).min(nearest)
            }
            _ => wanted,
        };
        match next.clamp(depth, self.max_depth) {
            next if next == depth => Next::Again,
            next => Next::Go(next),
        }
    }

    fn down(&mut self, depth: u32) -> Next {
        let again = self.ceiling.is_some_and(|(ceiling, _)| ceiling == depth);
        self.memory = if again { self.memory.saturating_mul(2) } else { MEMORY };
        self.ceiling = Some((depth, self.memory));
        let next = if self.climbing || self.held >= depth {
            (f64::from(depth) * BACK_OFF) as u32
        } else {
            self.held
        };
        if std::mem::take(&mut self.climbing) {
            // The doubling that misses the target ends the climb, and is no part of the steering.
            self.past.pop_back();
        }
        if depth > 1 {
            // Only lower depths count as held from now on.
            self.held = self.held.min(next.max(1));
            return Next::Go(next.max(1));
        }
        if std::mem::replace(&mut self.has_missed_at_one, true) && !self.settled {
            return Next::Settle(1, Pursued::Infeasible);
        }
        Next::Again
    }

    /// Ends the pursuit with this decision, if it is the last one.
    fn conclude(&mut self, depth: u32, next: Next, late: bool) -> Next {
        if self.settled {
            return match next {
                Next::Settle(..) => Next::Again,
                other => other,
            };
        }
        let depth = if let Next::Go(next) = next { next } else { depth };
        let ended = match next {
            Next::Settle(_, ended) => ended,
            _ if self.oscillates() => Pursued::Unstable,
            Next::Again | Next::Keep if self.has_converged() => Pursued::Met {
                bound: if depth == self.max_depth { Bound::MaxDepth } else { Bound::Target },
            },
            _ if late => Pursued::Undecided,
            other => return other,
        };
        self.settled = true;
        Next::Settle(depth, ended)
    }

    fn depths(&self) -> Vec<u32> {
        self.past.iter().map(|past| past.depth).collect()
    }

    /// Range and median of the depth.
    fn spread(&self) -> (f64, f64) {
        let mut depths = self.depths();
        depths.sort_unstable();
        let (Some(low), Some(high)) = (depths.first(), depths.last()) else { return (0.0, 0.0) };
        (f64::from(high - low), f64::from(depths[depths.len() / 2]))
    }

    fn oscillates(&self) -> bool {
        let (range, median) = self.spread();
        let depths = self.depths();
        let moves: Vec<bool> = depths
            .windows(2)
            .filter(|pair| pair[0] != pair[1])
            .map(|pair| pair[1] > pair[0])
            .collect();
        let turns = moves.windows(2).filter(|pair| pair[0] != pair[1]).count();
        self.past.len() == DECISIONS && turns >= TURNS && range > (RANGE * median).max(2.0)
    }

    /// Whether the last decisions were at nearly one depth, bounded, at a steady rate, on target.
    fn has_converged(&self) -> bool {
        let (range, median) = self.spread();
        let bounded = self.ceiling.is_some() || self.held == self.max_depth;
        if self.past.len() < DECISIONS || range > (RANGE * median).max(2.0) || !bounded {
            return false;
        }
        let rates: Vec<f64> = self
            .past
            .iter()
            .map(|past| past.seen.ops as f64 * 1e9 / past.span_ns.max(1) as f64)
            .collect();
        let ops: u64 = self.past.iter().map(|past| past.seen.ops).sum();
        let counting = DECISIONS as f64 / (ops as f64).max(1.0);
        let variation = Summary::of(&rates).and_then(|rates| rates.cv()).unwrap_or(f64::MAX);
        let steady =
            variation.powi(2) - counting <= VARIATION.powi(2) && mann_kendall(&rates).abs() < TREND;
        steady && self.is_on_target()
    }

    /// The exceedance test on the last decisions together, without those at depths that were given
    /// up.
    fn is_on_target(&self) -> bool {
        let (mut n, mut exceeded) = (0.0, 0.0);
        for past in self.past.iter().filter(|past| past.depth <= self.held) {
            n += past.seen.ops as f64 / past.effect;
            exceeded += past.seen.exceeded as f64 / past.effect;
        }
        exceeded <= self.allowed * n && wald(self.allowed, n, exceeded) != Verdict::Fail
    }
}
