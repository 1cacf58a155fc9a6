//! A queue with a watcher, which sees each request when it is pushed and when it has completed.

use super::memory::SharedMemory;
use crate::backend::{Queue, Transfer};
use iosonde_model::plan::IoKind;

/// Sees the requests of a queue.
pub trait Watcher {
    /// A request is about to be pushed.
    fn pushed(&mut self, queue: &mut impl Queue, slot: usize, transfer: Transfer);

    /// A request has completed: bytes moved, or a negated errno.
    fn completed(&mut self, _slot: usize, _result: i32) {}
}

/// A queue and its watcher.
pub struct Watched<Q, W> {
    /// Dropped before the queue.
    watcher: W,
    inner: Q,
}

impl<Q: Queue, W: Watcher> Watched<Q, W> {
    /// Watches a queue.
    pub fn new(inner: Q, watcher: W) -> Watched<Q, W> {
        Watched { watcher, inner }
    }
}

impl<Q: Queue, W: Watcher> Queue for Watched<Q, W> {
    const WAKES_LATE_NS: u64 = Q::WAKES_LATE_NS;
    const IS_VIRTUAL: bool = Q::IS_VIRTUAL;

    forward!(field inner: now_ns buffer enter pause give_back syscalls facts);

    fn push(&mut self, slot: usize, transfer: Transfer) {
        self.watcher.pushed(&mut self.inner, slot, transfer);
        self.inner.push(slot, transfer);
    }

    fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        let watcher = &mut self.watcher;
        self.inner.reap(|slot, result| {
            watcher.completed(slot, result);
            done(slot, result);
        });
    }
}

/// A request, and the bytes that it stores.
pub type Change = (Transfer, Vec<u8>);

/// Changes that the requests in flight will make, by slot.
#[derive(Default)]
pub struct Changes(Vec<Option<Change>>);

impl Changes {
    /// Notes a pushed request; one that changes nothing is not kept.
    pub fn begin(&mut self, queue: &mut impl Queue, slot: usize, transfer: Transfer) {
        if self.0.len() <= slot {
            self.0.resize(slot + 1, None);
        }
        let range = transfer.skip as usize..(transfer.skip + transfer.bytes) as usize;
        self.0[slot] = match transfer.way {
            IoKind::Write => Some((transfer, queue.buffer(slot)[range].to_vec())),
            IoKind::Trim => Some((transfer, vec![0; transfer.bytes as usize])),
            IoKind::Read | IoKind::Sync => None,
        };
    }

    /// Takes the change of a request that has completed.
    pub fn end(&mut self, slot: usize) -> Option<Change> {
        self.0[slot].take()
    }

    /// Takes the changes of all requests that have not completed.
    pub fn drain(&mut self) -> impl Iterator<Item = Change> {
        self.0.drain(..).flatten()
    }
}

/// Repeats acknowledged writes and trims in a second memory, which no inner fault can reach: what a
/// simulated device should hold.
pub struct Shadow {
    memory: SharedMemory,
    pending: Changes,
}

impl Shadow {
    /// A shadow in this second memory.
    pub fn new(memory: SharedMemory) -> Shadow {
        Shadow { memory, pending: Changes::default() }
    }
}

impl Watcher for Shadow {
    fn pushed(&mut self, queue: &mut impl Queue, slot: usize, transfer: Transfer) {
        self.pending.begin(queue, slot, transfer);
    }

    fn completed(&mut self, slot: usize, result: i32) {
        if let (Some((transfer, bytes)), true) = (self.pending.end(slot), result > 0) {
            self.memory.borrow_mut().write(transfer.offset, &bytes[..result as usize]);
        }
    }
}
