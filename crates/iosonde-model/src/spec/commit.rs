//! Group commits: writes of one role while others sync.

use serde::{Deserialize, Serialize};

/// A role's part in group commits, which model the writes of a file system's journal during a sync.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Commit {
    /// Before each sync, the role waits for the next commit that begins in another role.
    WaitsFor {
        /// The role that commits.
        role: String,
        /// Share of the syncs that wait, percent.
        percent: f64,
    },
    /// The role writes only commits, each when others wait for one. The number is the mean count of
    /// writes of a commit; the role's syncs follow them.
    Writes(f64),
}
