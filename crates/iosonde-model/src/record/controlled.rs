//! Control of the depth for a latency target: every depth tried, and the data of each decision.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Record of the controller in one run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ControlledRun {
    /// How the pursuit of the target ended. The measured window opened right after.
    pub ended: Pursued,
    /// Requests in flight, over all jobs, when the window opened.
    pub depth: u32,
    /// Time from the first request to that moment, ns.
    pub pursued_ns: u64,
    /// Operations completed in that time.
    pub pursued_ops: u64,
    /// Decisions in the order of time, those in the window included.
    pub decisions: Vec<Decision>,
    /// Later decisions that are not listed, for lack of room.
    pub unlisted: u64,
    /// Time spent in the measured window at each depth, ns.
    pub window_depths: BTreeMap<u32, u64>,
}

/// How the pursuit of a latency target ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "pursuit")]
pub enum Pursued {
    /// The depth meets the target; `bound` limits it.
    Met { bound: Bound },
    /// Even one request in flight misses the target.
    Infeasible,
    /// The judgement changed repeatedly.
    Unstable,
    /// The time limit was reached first.
    Undecided,
}

/// What limits the depth.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The target: a larger depth misses it.
    Target,
    /// The depth of the plan.
    MaxDepth,
    /// The device: a larger depth brings no more throughput.
    Device,
}

/// A decision, by the operations at one depth.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Decision {
    /// Time, ns from the first request.
    pub at_ns: u64,
    pub phase: Phase,
    /// Requests in flight, over all jobs.
    pub depth: u32,
    /// Length of the examined time, ns.
    pub span_ns: u64,
    /// Examined operations: submitted at this depth, without the first ones.
    pub ops: u64,
    /// Of those, operations slower than the limit.
    pub exceeded: u64,
    /// Design effect by which both are divided, because slow operations are clustered; at least 1.
    pub effect: f64,
    /// Result of the test.
    pub judgement: Judgement,
    /// The depth after the decision.
    pub next: u32,
}

/// Purpose of a decision.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Search: doubling until the target is missed.
    Bracket,
    /// Search: halving the distance.
    Bisect,
    /// Search: repetition with new operations.
    Confirm,
    /// Hold: doubling until the target is missed for the first time.
    Climb,
    /// Hold: steering.
    Steer,
}

/// Result of the exceedance test.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The target is met.
    Pass,
    /// It is missed.
    Fail,
    /// Neither is certain.
    Open,
}
