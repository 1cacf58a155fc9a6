//! What a simulated device should hold: a decorator that sees every request before anything can go
//! wrong with it, and notes in a memory of its own what was acknowledged.

use std::io;

use super::memory::SharedMemory;
use crate::backend::{Queue, QueueFacts, Transfer};
use iosonde_model::plan::IoKind;

/// What a request is going to change: itself, and the bytes that will stand there. `None` for one
/// that changes nothing.
pub fn change_of(queue: &mut impl Queue, slot: usize, transfer: Transfer) -> Option<Change> {
    let range = transfer.skip as usize..(transfer.skip + transfer.bytes) as usize;
    match transfer.way {
        IoKind::Write => Some((transfer, queue.buffer(slot)[range].to_vec())),
        IoKind::Trim => Some((transfer, vec![0; transfer.bytes as usize])),
        IoKind::Read | IoKind::Sync => None,
    }
}

/// A request, and the bytes that it puts in its place.
pub type Change = (Transfer, Vec<u8>);

/// A queue whose acknowledged writes and trims are done in a second memory too, which no fault
/// below can reach.
pub struct ShadowQueue<Q> {
    inner: Q,
    shadow: SharedMemory,
    pending: Vec<Option<Change>>,
}

impl<Q: Queue> ShadowQueue<Q> {
    /// Watches a queue.
    pub fn new(inner: Q, shadow: SharedMemory) -> ShadowQueue<Q> {
        ShadowQueue { inner, shadow, pending: Vec::new() }
    }
}

impl<Q: Queue> Queue for ShadowQueue<Q> {
    const WAKES_LATE_NS: u64 = Q::WAKES_LATE_NS;

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.inner.buffer(slot)
    }

    fn push(&mut self, slot: usize, transfer: Transfer) {
        if self.pending.len() <= slot {
            self.pending.resize(slot + 1, None);
        }
        self.pending[slot] = change_of(&mut self.inner, slot, transfer);
        self.inner.push(slot, transfer);
    }

    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        self.inner.enter(wait_for, patience_ns)
    }

    fn pause(&mut self, until_ns: u64) {
        self.inner.pause(until_ns);
    }

    fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        let (shadow, pending) = (&self.shadow, &mut self.pending);
        self.inner.reap(|slot, result| {
            if let (Some((transfer, bytes)), true) = (pending[slot].take(), result > 0) {
                shadow.borrow_mut().write(transfer.offset, &bytes[..result as usize]);
            }
            done(slot, result);
        });
    }

    fn syscalls(&self) -> u64 {
        self.inner.syscalls()
    }

    fn facts(&self) -> QueueFacts {
        self.inner.facts()
    }
}
