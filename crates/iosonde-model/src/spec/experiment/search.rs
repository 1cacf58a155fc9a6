//! The search of a stage for its best cell, in place of runs of all cells.

use serde::{Deserialize, Serialize};

/// What is searched for, and when the search ends.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Search {
    /// The measure of which the best is searched (`iops`, `bw`, `mean`).
    #[serde(default = "iops")]
    pub best: String,
    /// The latency that a cell may have (`p99<=2ms`); any if absent.
    pub limit: Option<String>,
    /// Runs at most.
    #[serde(default = "most")]
    pub max_runs: u32,
}

fn iops() -> String {
    "iops".into()
}

fn most() -> u32 {
    300
}
