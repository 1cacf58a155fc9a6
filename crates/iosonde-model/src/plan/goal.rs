//! Plans with a goal. A latency target makes the depth of the jobs the largest that is tried; a
//! precision makes the length of the plan the longest that is measured.

use super::{
    Direction, LatencyGoal, LatencyTarget, Plan, Precision, PrecisionGoal, Pursuit, Refusal,
    Settling, Stop,
};
use crate::spec::experiment::Rounds;
use crate::units::duration;

/// Checks within the longest permitted time of a run, if that is short.
const LOOKS: u64 = 100;
/// Shortest and longest time between two checks, ns.
const LOOK_NS: (u64, u64) = (200_000_000, 1_000_000_000);
/// Fewest useful checks: the tenth is the first that counts, and two are needed.
const FEWEST_LOOKS: u64 = 12;
/// Shortest measured time that can establish a precision, ns.
pub const SHORTEST_UNTIL_NS: u64 = FEWEST_LOOKS * LOOK_NS.0;
/// Most rounds of such a run.
const MOST_ROUNDS: u32 = 4000;
/// Shortest round of a run until a steady state, ns.
const SHORTEST_ROUND_NS: u64 = 100_000_000;

const LATENCY: &str = "latency target";

fn refused(goal: &str, what: &str) -> Result<Plan, Refusal> {
    Err(Refusal::Goal { goal: goal.into(), what: what.into() })
}

impl Plan {
    /// Adds a latency target to the plan. `patience_ns` is the time for which a search measures one
    /// depth, or the longest time for which a controller may converge.
    ///
    /// # Errors
    /// If the plan has no depth to adjust, or if the depth does not decide when requests are sent.
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

    /// Ends the plan as soon as a figure has this precision; its previous end becomes the maximum.
    /// The figure is checked once a second, or a hundred times if the maximum is below 100 s, but
    /// at most five times a second.
    ///
    /// # Errors
    /// If the plan has no end by time, has no operations of this direction, has phases or a latency
    /// target, or may end too early.
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
    /// Ends the plan as soon as a figure is steady; its previous end remains the maximum.
    ///
    /// # Errors
    /// If the plan has a latency target.
    pub fn until_settled(self, settling: Settling) -> Result<Plan, Refusal> {
        if self.latency != LatencyGoal::None {
            let what = "steadystate and latency_target both determine the end; give one of them";
            return refused(LATENCY, what);
        }
        Ok(Plan { until: PrecisionGoal::Settled(settling), ..self })
    }

    /// Divides the plan into rounds of this length and ends it as soon as the rate over a window of
    /// rounds is steady; its previous end becomes the maximum, in whole rounds.
    ///
    /// # Errors
    /// If the plan has no end by time or is shorter than a window, or if the rounds are unsuitable.
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
        // The last round is recorded shortly after its end.
        let length_ns = u64::from(max) * round_ns + round_ns / 20;
        Ok(Plan { until, stop: Stop::AfterNs(length_ns), ..self })
    }
}
