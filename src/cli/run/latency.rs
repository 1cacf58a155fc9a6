//! Options of a latency target.

use clap::Args;

use super::words::time;
use crate::cli::exit::{About, Failure, wrong};
use iosonde_model::plan::{LatencyTarget, Plan, Pursuit};

/// Shortest time to decide on a latency target, ns.
const SHORTEST_WINDOW_NS: u64 = 1_000_000_000;

#[derive(Args, Debug)]
#[command(next_help_heading = "Latency target")]
pub(super) struct LatencyArgs {
    /// Find the largest depth that meets a latency target such as 'p99<=2ms', and measure at it;
    /// --iodepth times --numjobs is the largest depth tried
    #[arg(long, value_name = "RULE")]
    latency_target: Option<String>,
    /// search: find the depth, then keep it; hold: adjust the depth while measuring
    /// [default: search]
    #[arg(long, value_name = "MODE", value_parser = ["search", "hold"])]
    latency_mode: Option<String>,
    /// Maximum time for one depth (search), or until the depth has settled (hold) [default: 30 s
    /// for search, 60 s for hold]
    #[arg(long, value_name = "TIME")]
    latency_window: Option<String>,
}

/// A latency target and its method.
pub(super) struct Latency {
    target: LatencyTarget,
    pursuit: Pursuit,
    /// Time limit, ns.
    patience_ns: u64,
}

impl LatencyArgs {
    /// Latency target, if given.
    pub(super) fn latency(&self) -> Result<Option<Latency>, Failure> {
        let Some(text) = self.latency_target.as_deref() else {
            // Checked here: the parser drops a requirement that conflicts with another.
            let mode = self.latency_mode.as_ref().map(|_| "--latency-mode");
            return match mode.or(self.latency_window.as_ref().map(|_| "--latency-window")) {
                Some(option) => {
                    Err(wrong(format!("{option} has no effect without --latency-target")))
                }
                None => Ok(None),
            };
        };
        let target = LatencyTarget::parse(text).or_wrong("--latency-target")?;
        // The option parser refuses other words.
        let hold = self.latency_mode.as_deref() == Some(Pursuit::Hold.word());
        let (pursuit, usual) = if hold { (Pursuit::Hold, "60") } else { (Pursuit::Search, "30") };
        let window = self.latency_window.as_deref().unwrap_or(usual);
        let patience_ns = time("--latency-window", window, 1_000_000_000)?;
        if patience_ns < SHORTEST_WINDOW_NS {
            let message = "--latency-window: expected at least one second: shorter times are not \
                 sufficient for a decision";
            return Err(wrong(message));
        }
        Ok(Some(Latency { target, pursuit, patience_ns }))
    }
}

impl Latency {
    /// Adds this target to the plan.
    pub(super) fn over(&self, plan: Plan) -> Result<Plan, Failure> {
        Ok(plan.pursuing(self.target, self.pursuit, self.patience_ns)?)
    }
}
