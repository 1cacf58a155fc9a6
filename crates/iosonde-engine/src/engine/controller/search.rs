//! `search`: doubles the depth until the target is missed, bisects, and confirms the answer and its
//! neighbour on fresh operations.

use super::Next;
use super::epoch::Evidence;
use iosonde_model::record::controlled::{Bound, Judgement, Phase, Pursued};
use iosonde_stats::sequential::Verdict;

/// Shortest look at a depth, ns: twenty intervals for the design effect.
const SHORTEST_NS: u64 = 200_000_000;
/// Expected operations beyond the limit from which a confirmation counts.
const CONFIRMING_EXCEEDANCES: f64 = 10.0;
/// A depth that gains less throughput than this share is beyond the device's limit.
const LEAST_GAIN: f64 = 0.02;
/// Standard errors by which a gain must exceed that, because many depths are compared.
const ERRORS: f64 = 3.0;
/// How often a confirmation may contradict the search.
const MOST_CONTRADICTIONS: u32 = 3;

/// What the search is looking for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// A depth that misses the target.
    Bracket,
    /// The border between `low` and `high`.
    Bisect,
    /// Confirmation that the largest depth meets the target.
    ConfirmLargest,
    /// Confirmation that depth 1 misses it.
    ConfirmOne,
    /// Confirmation that the neighbour above the answer misses it.
    ConfirmAbove,
    /// Confirmation that the answer meets it.
    ConfirmAnswer,
}

/// The state of a search.
#[derive(Debug)]
pub(super) struct Search {
    allowed: f64,
    max_depth: u32,
    patience_ns: u64,
    stage: Stage,
    /// The largest depth known to meet the target; 0 for none.
    low: u32,
    /// The smallest depth known to miss it.
    high: Option<u32>,
    bound: Bound,
    /// Depth, operations per second and their relative error, of each bracketing depth.
    bracket: Vec<(u32, f64, f64)>,
    contradictions: u32,
}

impl Search {
    /// Begins at depth 1.
    pub(super) fn new(allowed: f64, max_depth: u32, patience_ns: u64) -> Search {
        Search {
            allowed,
            max_depth,
            patience_ns,
            stage: Stage::Bracket,
            low: 0,
            high: None,
            bound: Bound::Target,
            bracket: Vec::new(),
            contradictions: 0,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        match self.stage {
            Stage::Bracket => Phase::Bracket,
            Stage::Bisect => Phase::Bisect,
            Stage::ConfirmLargest
            | Stage::ConfirmOne
            | Stage::ConfirmAbove
            | Stage::ConfirmAnswer => Phase::Confirm,
        }
    }

    /// The judgement and next step, once there is evidence. `waited_ns` is the age of the epoch.
    pub(super) fn look(
        &mut self,
        depth: u32,
        evidence: &Evidence,
        waited_ns: u64,
    ) -> Option<(Judgement, Next)> {
        let fewest = match self.phase() {
            Phase::Confirm => CONFIRMING_EXCEEDANCES / self.allowed,
            _ => 0.0,
        };
        let enough = evidence.span_ns >= SHORTEST_NS && evidence.seen.ops as f64 >= fewest;
        let judgement = match evidence.verdict(self.allowed) {
            Verdict::Pass if enough => Judgement::Pass,
            Verdict::Fail if enough => Judgement::Fail,
            _ if waited_ns >= self.patience_ns => Judgement::Open,
            _ => return None,
        };
        Some((judgement, self.decide(depth, judgement, evidence)))
    }

    /// The next step after a judgement. A depth without a judgement in time counts as missed.
    fn decide(&mut self, depth: u32, judgement: Judgement, evidence: &Evidence) -> Next {
        let met = judgement == Judgement::Pass;
        match self.stage {
            Stage::Bracket if met => {
                self.low = depth;
                self.bracket.push((depth, evidence.iops, evidence.iops_error));
                self.wider(depth)
            }
            Stage::Bracket if depth == 1 => match judgement {
                Judgement::Open => Next::Settle(1, Pursued::Undecided),
                _ => {
                    self.stage = Stage::ConfirmOne;
                    Next::Go(1)
                }
            },
            Stage::Bracket => {
                self.high = Some(depth);
                self.narrower()
            }
            Stage::Bisect => {
                if met {
                    self.low = depth;
                } else {
                    self.high = Some(depth);
                }
                self.narrower()
            }
            Stage::ConfirmLargest => self.largest(depth, met),
            Stage::ConfirmOne => match judgement {
                Judgement::Fail => Next::Settle(1, Pursued::Infeasible),
                Judgement::Open => Next::Settle(1, Pursued::Undecided),
                Judgement::Pass => {
                    self.low = 1;
                    match self.high {
                        Some(_) => self.settle(),
                        None => {
                            self.stage = Stage::Bracket;
                            self.bracket.push((1, evidence.iops, evidence.iops_error));
                            self.wider(1)
                        }
                    }
                }
            },
            Stage::ConfirmAbove if met => self.one_up(depth),
            Stage::ConfirmAbove => self.confirm_answer(),
            Stage::ConfirmAnswer if met => self.settle(),
            Stage::ConfirmAnswer => self.one_down(depth),
        }
    }

    /// Doubles the depth, up to the largest. Where that meets the target, the limit is not the
    /// target, but the device or the largest depth.
    fn wider(&mut self, depth: u32) -> Next {
        if depth < self.max_depth {
            return Next::Go(depth.saturating_mul(2).min(self.max_depth));
        }
        if self.knee().is_some() {
            self.stage = Stage::ConfirmLargest;
            return Next::Go(depth);
        }
        self.bound = Bound::MaxDepth;
        self.confirm_answer()
    }

    /// The smallest depth beyond which two or more doublings gained nothing, within the errors.
    fn knee(&self) -> Option<u32> {
        let (most, ..) = self.bracket.last()?;
        let gains = |&(_, before, before_error): &(u32, f64, f64), &(_, now, now_error): &_| {
            let error: f64 = before_error.hypot(now_error);
            now / before - 1.0 - ERRORS * error >= LEAST_GAIN
        };
        let is_knee = |at: &usize| {
            let level = &self.bracket[*at];
            let deeper = &self.bracket[at + 1..];
            level.0.saturating_mul(4) <= *most && !deeper.iter().any(|deeper| gains(level, deeper))
        };
        (0..self.bracket.len()).find(is_knee).map(|at| self.bracket[at].0)
    }

    /// After a second look at the largest depth: if it meets the target again, the device is the
    /// limit; if it misses it after all, the border is below.
    fn largest(&mut self, depth: u32, met: bool) -> Next {
        if let Some(knee) = self.knee().filter(|_| met) {
            (self.low, self.bound) = (knee, Bound::Device);
            return self.confirm_answer();
        }
        let below = self.bracket.iter().rev().map(|level| level.0).find(|below| *below < depth);
        (self.low, self.high) = (below.unwrap_or(0), Some(depth));
        self.narrower()
    }

    /// Bisects until the border is known to within 5 %, then confirms.
    fn narrower(&mut self) -> Next {
        let high = self.high.unwrap_or(self.max_depth);
        if high - self.low > step(self.low) {
            self.stage = Stage::Bisect;
            return Next::Go(self.low + (high - self.low) / 2);
        }
        self.stage = Stage::ConfirmAbove;
        Next::Go(high)
    }

    fn confirm_answer(&mut self) -> Next {
        self.stage = if self.low == 0 { Stage::ConfirmOne } else { Stage::ConfirmAnswer };
        Next::Go(self.low.max(1))
    }

    /// Continues from the neighbour above, which meets the target after all.
    fn one_up(&mut self, depth: u32) -> Next {
        self.low = depth;
        self.contradictions += 1;
        if depth == self.max_depth {
            self.bound = Bound::MaxDepth;
            return self.confirm_answer();
        }
        let above = (depth + step(depth)).min(self.max_depth);
        self.high = Some(above);
        if self.contradictions >= MOST_CONTRADICTIONS {
            return self.confirm_answer();
        }
        Next::Go(above)
    }

    /// The answer misses the target after all: the next depth down is confirmed in its place. If
    /// that misses it too, the device has changed, and the search below starts again.
    fn one_down(&mut self, depth: u32) -> Next {
        self.contradictions += 1;
        if self.contradictions > MOST_CONTRADICTIONS {
            return Next::Settle(depth, Pursued::Unstable);
        }
        (self.high, self.bound) = (Some(depth), Bound::Target);
        self.low = if self.contradictions == 1 { depth - step(depth).min(depth) } else { 0 };
        if self.low > 0 || depth <= 1 {
            return self.confirm_answer();
        }
        self.narrower()
    }

    fn settle(&self) -> Next {
        Next::Settle(self.low, Pursued::Met { bound: self.bound })
    }
}

/// The resolution of the answer: one, or 5 %.
fn step(depth: u32) -> u32 {
    (depth / 20).max(1)
}
