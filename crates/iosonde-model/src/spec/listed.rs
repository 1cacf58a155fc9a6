//! Operations that a role repeats one by one, as a log has them.

use serde::{Deserialize, Serialize};

/// Operations of a list, at most.
pub const MAX_LISTED: usize = 1_000_000;

words! {
    /// Which way the bytes go.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum IoKind {
        /// From storage.
        Read = 0 => "read",
        /// To storage.
        Write = 1 => "write",
        /// Storage learns that the bytes are not needed any more.
        Trim = 2 => "trim",
        /// What was written is made durable; moves no bytes.
        Sync = 3 => "sync",
    }
}

/// One operation of a list.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Which way.
    pub way: IoKind,
    /// Which of the run's targets, counted from 0.
    pub target: u16,
    /// First byte.
    pub offset: u64,
    /// Length, bytes; 0 for a sync.
    pub bytes: u32,
}
