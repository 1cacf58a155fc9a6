//! The search of a stage for its best cell, instead of running all cells.

use serde::{Deserialize, Serialize};

/// The objective of a search, and its limits.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Search {
    /// The metric to optimise (`iops`, `bw`, `mean`).
    #[serde(default = "iops")]
    pub best: String,
    /// The latency limit of a cell (`p99<=2ms`); none if absent.
    pub limit: Option<String>,
    /// Most runs.
    #[serde(default = "most")]
    pub max_runs: u32,
}

fn iops() -> String {
    "iops".into()
}

fn most() -> u32 {
    300
}
