//! A process that may be killed: some sectors of its requests in flight still arrive.

use iosonde_engine::backend::sim::memory::SharedMemory;
use iosonde_engine::backend::sim::watched::{Changes, Watcher};
use iosonde_engine::backend::{Queue, Transfer};
use iosonde_model::plan::chance::Chance;

pub(super) struct Dying {
    memory: SharedMemory,
    sector_bytes: usize,
    chance: Chance,
    pending: Changes,
}

impl Dying {
    pub(super) fn new(memory: SharedMemory, sector_bytes: u32, chance: Chance) -> Dying {
        let sector_bytes = sector_bytes as usize;
        Dying { memory, sector_bytes, chance, pending: Changes::default() }
    }
}

impl Drop for Dying {
    fn drop(&mut self) {
        let mut memory = self.memory.borrow_mut();
        for (transfer, bytes) in self.pending.drain() {
            for (index, sector) in bytes.chunks(self.sector_bytes).enumerate() {
                if self.chance.below(2) == 0 {
                    memory.write(transfer.offset + (index * self.sector_bytes) as u64, sector);
                }
            }
        }
    }
}

impl Watcher for Dying {
    fn pushed(&mut self, queue: &mut impl Queue, slot: usize, transfer: Transfer) {
        self.pending.begin(queue, slot, transfer);
    }

    fn completed(&mut self, slot: usize, _result: i32) {
        self.pending.end(slot);
    }
}
