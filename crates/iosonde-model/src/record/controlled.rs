//! What was done to meet a latency target: every depth tried, and what it was judged on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The work of the controller in one run.
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
    /// Later decisions that are not listed, for want of room.
    pub unlisted: u64,
    /// Time spent in the measured window at each depth, ns.
    pub window_depths: BTreeMap<u32, u64>,
}

/// How the pursuit of a latency target ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "pursuit")]
pub enum Pursued {
    /// At a depth that meets it; this keeps the depth from being larger.
    Met {
        /// What.
        bound: Bound,
    },
    /// One request in flight is too many.
    Infeasible,
    /// The answer changed again and again.
    Unstable,
    /// The time was up first.
    Undecided,
}

/// What keeps the depth from being larger.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The target: a larger depth misses it.
    Target,
    /// The plan has no more.
    MaxDepth,
    /// The device: a larger depth brings no more throughput.
    Device,
}

/// One look at the operations of one depth.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Decision {
    /// When, ns from the first request.
    pub at_ns: u64,
    /// What for.
    pub phase: Phase,
    /// Requests in flight, over all jobs.
    pub depth: u32,
    /// Time looked at, ns.
    pub span_ns: u64,
    /// Operations looked at: submitted at this depth, the first ones dropped.
    pub ops: u64,
    /// Of those, slower than the limit.
    pub exceeded: u64,
    /// By how much both are divided, because slow operations come in clumps; at least 1.
    pub effect: f64,
    /// What the test said.
    pub judgement: Judgement,
    /// The depth after it.
    pub next: u32,
}

/// What a decision is for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Search: doubling until the target is missed.
    Bracket,
    /// Search: halving the distance.
    Bisect,
    /// Search: again, on fresh operations.
    Confirm,
    /// Hold: doubling until the target is missed for the first time.
    Climb,
    /// Hold: steering.
    Steer,
}

/// What the exceedance test said.
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
