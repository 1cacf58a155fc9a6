//! A queue whose process may be killed: some sectors of the requests in flight then arrive.

use std::io;

use iosonde_engine::backend::sim::memory::SharedMemory;
use iosonde_engine::backend::sim::shadow::{Change, change_of};
use iosonde_engine::backend::{Queue, QueueFacts, Transfer};
use iosonde_model::plan::chance::Chance;

pub(super) struct DyingQueue<Q> {
    inner: Q,
    memory: SharedMemory,
    sector_bytes: usize,
    chance: Chance,
    /// By slot: a change that has not completed, with its bytes.
    pending: Vec<Option<Change>>,
}

impl<Q: Queue> DyingQueue<Q> {
    pub(super) fn new(
        inner: Q,
        memory: SharedMemory,
        sector_bytes: u32,
        chance: Chance,
    ) -> DyingQueue<Q> {
        let sector_bytes = sector_bytes as usize;
        DyingQueue { inner, memory, sector_bytes, chance, pending: Vec::new() }
    }
}

impl<Q> Drop for DyingQueue<Q> {
    fn drop(&mut self) {
        let mut memory = self.memory.borrow_mut();
        for (transfer, bytes) in self.pending.drain(..).flatten() {
            for (index, sector) in bytes.chunks(self.sector_bytes).enumerate() {
                if self.chance.below(2) == 0 {
                    memory.write(transfer.offset + (index * self.sector_bytes) as u64, sector);
                }
            }
        }
    }
}

impl<Q: Queue> Queue for DyingQueue<Q> {
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
        let pending = &mut self.pending;
        self.inner.reap(|slot, result| {
            pending[slot] = None;
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
