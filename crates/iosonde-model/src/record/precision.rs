//! Precision of a figure during the run, where that decides when the run ends.

use serde::{Deserialize, Serialize};

/// All checks of the precision, and their result.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PrecisionRun {
    /// Whether the run ended because the figure was precise enough.
    pub reached: bool,
    /// Checks in order of time.
    pub looks: Vec<PrecisionCheck>,
    /// Checks that are not listed, for lack of room: between the listed ones and the last; where a
    /// run has to settle, before the listed ones.
    pub unlisted: u64,
}

/// One check of all data measured so far.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PrecisionCheck {
    /// Time, ns from the opening of the window.
    pub at_ns: u64,
    /// Intervals that the figure is computed from.
    pub intervals: u32,
    /// The figure: operations or bytes per second, or ns; `None` if there is too little data.
    pub value: Option<f64>,
    /// Half the width of its 95 % interval, relative to the figure.
    pub half_width: Option<f64>,
    /// Bytes per second of this interval, where a run has to settle; `value` has the operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
    /// As `bytes_per_s`: mean latency, ns; `None` also if nothing completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_latency_ns: Option<f64>,
}
