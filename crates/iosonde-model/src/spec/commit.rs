//! What one role writes while others sync.

use serde::{Deserialize, Serialize};

/// A part in commits: what a file system's journal writes when others sync.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Commit {
    /// Before a sync is called, another role makes a commit: the next one that begins.
    WaitsFor {
        /// The role that commits.
        role: String,
        /// Share of the syncs, percent; the others wait for none.
        percent: f64,
    },
    /// Writes only commits, each when others wait for it: so many writes on average, with the syncs
    /// that follow them.
    Writes(f64),
}
