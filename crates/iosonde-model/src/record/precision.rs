//! How well a figure was known as the run went on, where that decides when it ends.

use serde::{Deserialize, Serialize};

/// Every look, and what came of them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PrecisionRun {
    /// Whether the run was ended because the figure was known well enough.
    pub reached: bool,
    /// Looks in the order of time.
    pub looks: Vec<PrecisionCheck>,
    /// Looks between those and the last that are not listed, for want of room; where a run is to
    /// settle, looks before those.
    pub unlisted: u64,
}

/// One look at all that was measured so far.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PrecisionCheck {
    /// When, ns from the opening of the window.
    pub at_ns: u64,
    /// Intervals that it rests on.
    pub intervals: u32,
    /// The figure: operations or bytes per second, or ns; `None` where too little was seen.
    pub value: Option<f64>,
    /// Half the width of its 95 % interval, as a share of it.
    pub half_width: Option<f64>,
    /// Bytes per second of this interval, where a run is to settle; `value` has its operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
    /// Mean latency of this interval, ns, likewise; `None` also where nothing completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_latency_ns: Option<f64>,
}
