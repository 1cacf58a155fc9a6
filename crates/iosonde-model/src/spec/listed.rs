//! Operations that a role repeats one by one, as recorded in a log.

use serde::{Deserialize, Serialize};

/// Most operations of a list.
pub const MAX_LISTED: usize = 1_000_000;

words! {
    /// Kind of an operation.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum IoKind {
        /// From storage.
        Read = 0 => "read",
        /// To storage.
        Write = 1 => "write",
        /// Tells the storage that the bytes are unused.
        Trim = 2 => "trim",
        /// Makes written data durable; transfers no bytes.
        Sync = 3 => "sync",
    }
}

/// One operation of a list.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    pub way: IoKind,
    /// Index of the run's target, from 0.
    pub target: u16,
    /// First byte.
    pub offset: u64,
    /// Length, bytes; 0 for a sync.
    pub bytes: u32,
}
