//! Preconditioning and rounds: how a stage reaches a steady state, and how it detects it.

use serde::{Deserialize, Serialize};
use toml::value::Table;

use crate::units;

/// Writes before the first round, independent of the stage's load (SNIA: workload-independent
/// preconditioning). The rounds themselves are the workload-dependent part.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Precondition {
    /// Passes over the active range. Each writes every address exactly once, except `SinglePass`.
    pub passes: u32,
    /// Order of the offsets of a pass.
    pub order: PassOrder,
    /// Size of one write, bytes.
    #[serde(deserialize_with = "units::bytes::deserialize")]
    pub block_size: u64,
    /// Writes in flight.
    pub iodepth: u32,
    /// Flash beyond the active range, percent of it; only for `SinglePass`, which requires it.
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
    /// A permutation of all blocks, different in each pass.
    Random,
    /// One pass of random writes over all flash that leaves it in the state of many passes.
    SinglePass,
}

/// A stage in rounds: each round runs all cells once, until the tracked figures are steady.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rounds {
    /// Most rounds.
    #[serde(default = "most")]
    pub max: u32,
    /// Rounds of the measurement window.
    #[serde(default = "window")]
    pub window: u32,
    /// Figures that must all be steady.
    pub track: Vec<Track>,
    /// Largest range (maximum minus minimum) within the window, percent of its mean.
    #[serde(default = "range")]
    pub range_percent: f64,
    /// Largest rise or fall of the fitted line across the window, percent of its mean.
    #[serde(default = "slope")]
    pub slope_percent: f64,
    /// Rounds measured after the first steady window. The verdict states whether one of them leaves
    /// the steady state.
    #[serde(default)]
    pub hold: u32,
    /// The rounds end when they have written this many times the active range.
    pub max_passes: Option<f64>,
}

impl Rounds {
    /// Window and limits of the specification (SNIA PTS 2.0.2, 2.1.24), without tracked figures.
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

/// A figure that must be steady.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Track {
    /// The metric (`iops`, `bw`, `mean`).
    #[serde(default = "iops")]
    pub metric: String,
    /// Levels by axis; only cells with all of them are tracked. All cells if empty.
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
