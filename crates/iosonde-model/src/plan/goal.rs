//! A plan with a goal. With a latency target the depth of its jobs becomes the most that may be
//! tried; with a precision its length becomes the most that may be measured.

use super::{
    Direction, LatencyGoal, LatencyTarget, Plan, Precision, PrecisionGoal, Pursuit, Refusal,
    Settling, Stop,
};
use crate::spec::experiment::Rounds;
use crate::units::duration;

/// Looks in the longest time that a run may take, where that is short.
const LOOKS: u64 = 100;
/// Shortest and longest time between two looks, ns.
const LOOK_NS: (u64, u64) = (200_000_000, 1_000_000_000);
/// Looks without which there is no answer: the first is the tenth, and two are needed.
const FEWEST_LOOKS: u64 = 12;
/// Shortest measured time in which a precision can be established, ns.
pub const SHORTEST_UNTIL_NS: u64 = FEWEST_LOOKS * LOOK_NS.0;
/// Rounds at most of such a run.
const MOST_ROUNDS: u32 = 4000;
/// Shortest round of a run that goes on until it is steady, ns.
const SHORTEST_ROUND_NS: u64 = 100_000_000;

const LATENCY: &str = "latency target";

fn refused(goal: &str, what: &str) -> Result<Plan, Refusal> {
    Err(Refusal::Goal { goal: goal.into(), what: what.into() })
}

impl Plan {
    /// The same plan, pursuing a latency target. `patience_ns` is how long a search looks at one
    /// depth, and how long a controller may take to converge.
    ///
    /// # Errors
    /// If the plan leaves nothing to steer, or something else than the depth decides when requests
    /// are sent.
    pub fn pursuing(
        self,
        target: LatencyTarget,
        pursuit: Pursuit,
        patience_ns: u64,
    ) -> Result<Plan, Refusal> {
        let refused = |what: &str| refused(LATENCY, what);
        if self.jobs.iter().any(|job| job.is_open_loop()) {
            return refused(
                "a latency target adjusts the depth, but a rate determines when requests are \
                 sent; give either the target or the rate",
            );
        }
        if self.jobs.iter().any(|job| !job.phases.is_empty()) {
            return refused("the load changes with its phases, so no depth can be evaluated");
        }
        if self.jobs.iter().any(|job| job.commit.is_some()) {
            return refused("jobs that wait for each other's commits have no depth to adjust");
        }
        if !matches!(self.stop, Stop::AfterNs(_)) {
            return refused("the depth found is measured for a length of time: give --runtime");
        }
        if self.depth() < 2 {
            return refused(
                "--iodepth times --numjobs is the largest depth tried, and it is 1; increase \
                 either",
            );
        }
        Ok(Plan { latency: LatencyGoal::Target { target, pursuit, patience_ns }, ..self })
    }

    /// The same plan, which ends as soon as a figure is known this well; what ended it becomes the
    /// most that it may do. It is looked at once a second, or a hundred times where the most is
    /// shorter than 100 s, but no more than five times a second.
    ///
    /// # Errors
    /// If the plan is not one that goes on until it is ended, does nothing of this kind, or may not
    /// last long enough.
    pub fn until(self, precision: Precision) -> Result<Plan, Refusal> {
        let refused = |what: &str| refused(&format!("until {precision}"), what);
        let (Stop::AfterNs(most_ns) | Stop::AfterNsOrBytes(most_ns, _)) = self.stop else {
            return refused(
                "a run of counted operations or one pass ends by itself; give --runtime",
            );
        };
        if self.latency != LatencyGoal::None {
            return refused("a latency target determines the length itself");
        }
        if self.jobs.iter().any(|job| !job.phases.is_empty()) {
            return refused("the load changes with its phases, so that no interval narrows");
        }
        let done = match precision.direction {
            Direction::Total => true,
            Direction::Read => self.jobs.iter().any(|job| job.reads()),
            Direction::Write => self.jobs.iter().any(|job| job.writes_data()),
        };
        if !done {
            return refused("the load has no operation of this kind");
        }
        let look_ns = (most_ns / LOOKS).clamp(LOOK_NS.0, LOOK_NS.1);
        if most_ns < FEWEST_LOOKS * look_ns {
            return refused(&format!(
                "it needs at least {} checks of {}; give a larger --runtime, or `seconds` in an \
                 experiment file, which is the maximum",
                FEWEST_LOOKS,
                duration::latency(look_ns as f64),
            ));
        }
        Ok(Plan { until: PrecisionGoal::Known { precision, look_ns }, ..self })
    }
    /// The same plan, which ends as soon as a figure has settled; what ended it stays the most that
    /// it may do.
    ///
    /// # Errors
    /// If the plan ends by meeting a latency.
    pub fn until_settled(self, settling: Settling) -> Result<Plan, Refusal> {
        if self.latency != LatencyGoal::None {
            let what = "steadystate and latency_target both determine the end; give one of them";
            return refused(LATENCY, what);
        }
        Ok(Plan { until: PrecisionGoal::Settled(settling), ..self })
    }

    /// The same plan in rounds of this length, which ends as soon as the rate of a window of rounds
    /// is steady; what ended it becomes the most that it may do, in whole rounds.
    ///
    /// # Errors
    /// If the plan is not one that goes on for a time, or that is shorter than a window.
    pub fn until_steady(self, round_ns: u64) -> Result<Plan, Refusal> {
        let refused = |what: &str| refused("steady", what);
        let Stop::AfterNs(most_ns) = self.stop else {
            return refused("its length must be a time: give --runtime");
        };
        if self.latency != LatencyGoal::None {
            return refused("a latency target determines the length itself");
        }
        if self.jobs.iter().any(|job| !job.phases.is_empty()) {
            return refused("the load changes with its phases, so that no round is like another");
        }
        if round_ns < SHORTEST_ROUND_NS {
            return refused("a round has at least 100 ms; give a longer one");
        }
        let limits = Rounds::of_the_specification();
        let max = u32::try_from(most_ns / round_ns).unwrap_or(u32::MAX);
        if max < limits.window {
            return refused(&format!(
                "a window has {} rounds of {}, and the maximum is {}; give a larger --runtime, or \
                 `seconds` in an experiment file, or shorter rounds",
                limits.window,
                duration::span(round_ns),
                duration::span(most_ns),
            ));
        }
        if max > MOST_ROUNDS {
            return refused(&format!(
                "these are {max} rounds, and at most {MOST_ROUNDS} are listed"
            ));
        }
        let until = PrecisionGoal::Steady {
            round_ns,
            max,
            window: limits.window,
            range_percent: limits.range_percent,
            slope_percent: limits.slope_percent,
        };
        // The last round is taken a moment after it has ended.
        let length_ns = u64::from(max) * round_ns + round_ns / 20;
        Ok(Plan { until, stop: Stop::AfterNs(length_ns), ..self })
    }
}
