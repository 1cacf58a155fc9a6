//! Log of the faults that were really injected.

use std::sync::{Arc, Mutex};

use super::kind::Fault;

/// Faults that are listed; further ones are only counted.
pub const REMEMBERED: usize = 1024;

/// One injected fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Injected {
    /// The kind, with the value drawn from the seed.
    pub kind: Fault,
    /// First byte on the target that differs from what was acknowledged.
    pub offset: u64,
    /// Length of the affected range, bytes; 0 for a sync.
    pub bytes: u64,
    /// First byte of the other place, where there is one.
    pub elsewhere: Option<u64>,
}

/// A log that the queues of all jobs share.
#[derive(Clone, Debug, Default)]
pub struct FaultLog {
    entries: Arc<Mutex<(u64, Vec<Injected>)>>,
}

impl FaultLog {
    /// Number of faults injected.
    pub fn count(&self) -> u64 {
        self.entries.lock().map_or(0, |entries| entries.0)
    }

    /// The first [`REMEMBERED`] faults, in order.
    pub fn entries(&self) -> Vec<Injected> {
        self.entries.lock().map_or_else(|_| Vec::new(), |entries| entries.1.clone())
    }

    pub(super) fn note(&self, injected: Injected) {
        if let Ok(mut entries) = self.entries.lock() {
            entries.0 += 1;
            if entries.1.len() < REMEMBERED {
                entries.1.push(injected);
            }
        }
    }
}
