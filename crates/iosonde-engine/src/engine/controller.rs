//! Finds the depth that meets the latency target. A state machine: the input is time and counts,
//! the output is the next depth.
//!
//! Decisions rest on exceedances, never on an estimated percentile. Each change of the depth begins
//! an epoch, for which only operations submitted in it count, except the first ones.

mod epoch;
mod hold;
mod search;

use std::collections::BTreeMap;

pub(super) use epoch::Counts;
use epoch::{BIN_NS, Epoch, Evidence};
use hold::Hold;
use search::Search;

use iosonde_model::plan::{LatencyGoal, Pursuit};
use iosonde_model::record::ControlledRun;
use iosonde_model::record::controlled::{Decision, Judgement, Phase, Pursued};

/// Time between two ticks, ns.
pub(super) const TICK_NS: u64 = BIN_NS;
/// Decisions listed in a record.
const MAX_LISTED: usize = 4096;

/// Result of a look at the evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    /// The same depth; the evidence keeps accumulating.
    Keep,
    /// The same depth, with new evidence.
    Again,
    /// This depth, in a new epoch (which may be the same depth).
    Go(u32),
    /// The pursuit has ended, with this depth.
    Settle(u32, Pursued),
}

/// Order to the jobs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Order {
    /// No change.
    Stay,
    /// This many requests in flight over all jobs from now on: a new epoch.
    Depth(u32),
    /// The same, and the measured window opens.
    Open(u32),
}

#[derive(Debug)]
enum Mode {
    Search(Search),
    Hold(Hold),
}

/// Steers the depth of one run.
#[derive(Debug)]
pub(super) struct Controller {
    mode: Mode,
    epoch: Epoch,
    start_ns: u64,
    /// When the pursuit begins: after the warm-up.
    begin_ns: u64,
    next_sample_ns: u64,
    /// How the pursuit ended, at which depth, and when, ns.
    settled: Option<(Pursued, u32, u64)>,
    /// Start of the time in the window that `window_depths` does not count yet, ns.
    window_from_ns: u64,
    decisions: Vec<Decision>,
    unlisted: u64,
    window_depths: BTreeMap<u32, u64>,
}

impl Controller {
    /// Begins at depth 1, after a warm-up; `None` without a target.
    pub(super) fn new(
        goal: &LatencyGoal,
        max_depth: u64,
        start_ns: u64,
        warmup_ns: u64,
    ) -> Option<Controller> {
        let LatencyGoal::Target { target, pursuit, patience_ns } = goal else { return None };
        let max_depth = u32::try_from(max_depth).unwrap_or(u32::MAX);
        let begin_ns = start_ns + warmup_ns;
        let allowed = target.allowed();
        let mode = match pursuit {
            Pursuit::Search => Mode::Search(Search::new(allowed, max_depth, *patience_ns)),
            Pursuit::Hold => Mode::Hold(Hold::new(allowed, max_depth, *patience_ns, begin_ns)),
        };
        Some(Controller {
            mode,
            epoch: Epoch::begin(1, begin_ns, Counts::default()),
            start_ns,
            begin_ns,
            next_sample_ns: 0,
            settled: None,
            window_from_ns: u64::MAX,
            decisions: Vec::new(),
            unlisted: 0,
            window_depths: BTreeMap::new(),
        })
    }

    /// The current depth.
    pub(super) fn depth(&self) -> u32 {
        self.epoch.depth
    }

    /// Takes in the jobs' counts, and returns the order to them.
    pub(super) fn tick(&mut self, now_ns: u64, counts: Counts) -> Order {
        if now_ns < self.begin_ns {
            self.epoch = Epoch::begin(1, now_ns, counts);
            return Order::Stay;
        }
        self.epoch.add(now_ns, counts);
        let over = self.settled.is_some() && matches!(self.mode, Mode::Search(_));
        if over || now_ns < self.next_sample_ns {
            return Order::Stay;
        }
        let evidence = self.epoch.evidence();
        // A look computes over all intervals, so the next one waits for a sixteenth more evidence.
        self.next_sample_ns = now_ns + (evidence.span_ns / 16).clamp(TICK_NS, 1_000_000_000);
        let depth = self.epoch.depth;
        let (phase, looked) = match &mut self.mode {
            Mode::Search(search) => {
                let phase = search.phase();
                (phase, search.look(depth, &evidence, now_ns - self.epoch.began_ns))
            }
            Mode::Hold(hold) => (hold.phase(), hold.look(depth, &evidence, now_ns)),
        };
        let Some((judgement, next)) = looked else { return Order::Stay };
        let to = match next {
            Next::Go(depth) | Next::Settle(depth, _) => depth,
            Next::Keep | Next::Again => depth,
        };
        self.list(now_ns, phase, &evidence, judgement, to);
        if let Next::Keep = next {
            return Order::Stay;
        }
        self.spend(now_ns);
        self.next_sample_ns = 0;
        if let Next::Again = next {
            self.epoch.renew(now_ns, counts);
            return Order::Stay;
        }
        self.epoch = Epoch::begin(to, now_ns, counts);
        if let Next::Settle(_, ended) = next {
            self.settled = Some((ended, to, now_ns));
            return Order::Open(to);
        }
        Order::Depth(to)
    }

    /// Notes when the measured window opens.
    pub(super) fn opens(&mut self, open_ns: u64) {
        self.window_from_ns = open_ns;
    }

    /// Counts the time since the last change of the depth, if it was in the window.
    fn spend(&mut self, now_ns: u64) {
        if now_ns > self.window_from_ns {
            let spent_ns = now_ns - self.window_from_ns;
            *self.window_depths.entry(self.epoch.depth).or_default() += spent_ns;
            self.window_from_ns = now_ns;
        }
    }

    fn list(
        &mut self,
        now_ns: u64,
        phase: Phase,
        evidence: &Evidence,
        judgement: Judgement,
        next: u32,
    ) {
        if self.decisions.len() == MAX_LISTED {
            self.unlisted += 1;
            return;
        }
        self.decisions.push(Decision {
            at_ns: now_ns - self.start_ns,
            phase,
            depth: self.epoch.depth,
            span_ns: evidence.span_ns,
            ops: evidence.seen.ops,
            exceeded: evidence.seen.exceeded,
            effect: evidence.effect,
            judgement,
            next,
        });
    }

    /// The record for a window that closed at `close_ns`; `pursued_ops` completed before it opened.
    pub(super) fn into_record(mut self, close_ns: u64, pursued_ops: u64) -> ControlledRun {
        self.spend(close_ns);
        // The pursuit was interrupted.
        let unfinished = (Pursued::Undecided, self.epoch.depth, close_ns);
        let (ended, depth, settled_ns) = self.settled.unwrap_or(unfinished);
        ControlledRun {
            ended,
            depth,
            pursued_ns: settled_ns.saturating_sub(self.start_ns),
            pursued_ops,
            decisions: self.decisions,
            unlisted: self.unlisted,
            window_depths: self.window_depths,
        }
    }
}

/// Divides the depth among the jobs in proportion to their planned depths.
pub(super) fn shares(depth: u32, planned: &[u32]) -> Vec<u32> {
    let total: u64 = planned.iter().map(|depth| u64::from(*depth)).sum();
    let mut before = 0;
    // Cumulative ceilings: they add up, and the first job gets the first request.
    let edge = |sum: u64| (sum * u64::from(depth)).div_ceil(total.max(1)) as u32;
    planned
        .iter()
        .map(|planned| {
            let low = edge(before);
            before += u64::from(*planned);
            edge(before) - low
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_never_exceed_the_plan() {
        assert_eq!(shares(1, &[32, 32]), [1, 0]);
        assert_eq!(shares(3, &[32, 32]), [2, 1]);
        assert_eq!(shares(10, &[32, 8, 8]), [7, 2, 1]);
        let planned = [5, 1, 7, 32, 3];
        for depth in 1..=48 {
            let dealt = shares(depth, &planned);
            assert_eq!(dealt.iter().sum::<u32>(), depth);
            assert!(dealt.iter().zip(&planned).all(|(share, most)| share <= most), "{dealt:?}");
        }
        assert_eq!(shares(48, &planned), planned);
    }
}
