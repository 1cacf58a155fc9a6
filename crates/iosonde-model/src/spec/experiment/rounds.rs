//! Preconditioning and rounds: how a stage brings its target to a steady state, and what counts as
//! one.

use serde::{Deserialize, Serialize};
use toml::value::Table;

use crate::units;

/// Writes before the first round, whatever the load of the stage (SNIA: workload-independent
/// preconditioning). The workload-dependent part is the rounds themselves.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Precondition {
    /// Passes over the active range; in each, every address is written exactly once, but in a
    /// single pass over all flash.
    pub passes: u32,
    /// Order of the offsets of a pass.
    pub order: PassOrder,
    /// Size of one write, bytes.
    #[serde(deserialize_with = "units::bytes::deserialize")]
    pub block_size: u64,
    /// Writes in flight.
    pub iodepth: u32,
    /// Flash beyond the active range, percent of it; for a single pass alone, which needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_provisioning_percent: Option<f64>,
}

impl Default for Precondition {
    fn default() -> Precondition {
        Precondition {
            passes: 2,
            order: PassOrder::Sequential,
            block_size: 128 << 10,
            iodepth: 32,
            over_provisioning_percent: None,
        }
    }
}

/// Order of the offsets of a pass.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PassOrder {
    /// One ascending stream.
    #[default]
    Sequential,
    /// A permutation of all blocks, another one in each pass.
    Random,
    /// One pass of random writes over all flash, after which what is valid in it is distributed as
    /// after many.
    SinglePass,
}

/// A stage in rounds: each is one pass over all cells, until the tracked figures are steady.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rounds {
    /// Rounds at most.
    #[serde(default = "most")]
    pub max: u32,
    /// Rounds of the measurement window.
    #[serde(default = "window")]
    pub window: u32,
    /// What must be steady; all of it.
    pub track: Vec<Track>,
    /// Largest range (maximum minus minimum) within the window, percent of its mean.
    #[serde(default = "range")]
    pub range_percent: f64,
    /// Largest rise or fall of the fitted line across the window, percent of its mean.
    #[serde(default = "slope")]
    pub slope_percent: f64,
    /// Rounds after the first steady window, which are measured too: where the state is left in
    /// them, the verdict says so.
    #[serde(default)]
    pub hold: u32,
    /// The rounds end when this many times the active range was written in them.
    pub max_passes: Option<f64>,
}

impl Rounds {
    /// The window and the limits of the specification (SNIA PTS 2.0.2, 2.1.24), of nothing yet.
    pub fn of_the_specification() -> Rounds {
        Rounds {
            max: most(),
            window: window(),
            track: Vec::new(),
            range_percent: range(),
            slope_percent: slope(),
            hold: 0,
            max_passes: None,
        }
    }
}

/// A figure of cells that must be steady.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Track {
    /// The measure (`iops`, `bw`, `mean`).
    #[serde(default = "iops")]
    pub metric: String,
    /// Levels by axis; cells that have all of them are tracked. Without any, all cells.
    #[serde(default)]
    pub cell: Table,
}

fn most() -> u32 {
    25
}

fn window() -> u32 {
    5
}

fn range() -> f64 {
    20.0
}

fn slope() -> f64 {
    10.0
}

fn iops() -> String {
    "iops".into()
}
