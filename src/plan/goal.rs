//! A plan with a latency target: the depth of its jobs becomes the most that may be tried.

use super::{LatencyGoal, LatencyTarget, Plan, Pursuit, Refusal, Stop};

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
        let refused = |what: &str| Err(Refusal::Latency { what: what.into() });
        if self.jobs.iter().any(|job| job.is_open_loop()) {
            return refused(
                "the depth is steered, but a rate decides when requests are sent; \
                 give either the target or the rate",
            );
        }
        if self.jobs.iter().any(|job| !job.phases.is_empty()) {
            return refused("the load changes with its phases, so that no depth can be judged");
        }
        if !matches!(self.stop, Stop::AfterNs(_)) {
            return refused("what is measured at the depth that was found has a length in time");
        }
        if self.depth() < 2 {
            return refused(
                "there is nothing to steer: --iodepth times --numjobs is the largest depth \
                 that is tried, and it is 1; ask for more of either",
            );
        }
        Ok(Plan { latency: LatencyGoal::Target { target, pursuit, patience_ns }, ..self })
    }
}
