//! An experiment: a question, and the cells that answer it.

use serde::{Deserialize, Serialize};

/// A question to a target, as kept in a file. Its one axis is a list of workloads.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// Identifier (`check`).
    pub name: String,
    /// The question it answers.
    pub question: String,
    /// Names of the workloads, one cell each, in order.
    pub workloads: Vec<String>,
    /// Length of a cell, warm-up included, seconds.
    pub seconds: f64,
    /// Share of that length which is warm-up, percent.
    pub warm_up_percent: u8,
    /// Requests in flight per thread.
    pub iodepth: u32,
    /// Whether each writing cell ends with a timed fsync.
    pub final_sync: bool,
}
