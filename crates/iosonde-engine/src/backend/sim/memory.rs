//! Content of a simulated device: the bytes written, and those that a power cut loses.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use iosonde_model::plan::chance::Chance;

/// Capacity of the volatile cache, bytes; beyond it, the oldest changes become durable.
const CACHE_BYTES: usize = 64 << 20;

/// A memory that the queues of all jobs share.
pub type SharedMemory = Rc<RefCell<Memory>>;

/// The bytes of one simulated target, with an optional volatile cache.
#[derive(Clone, Debug)]
pub struct Memory {
    bytes: Vec<u8>,
    cache: Option<Cache>,
}

/// Changes that are not durable, each with the content before it.
#[derive(Clone, Debug, Default)]
struct Cache {
    /// Changes made so far, durable ones included.
    changes: u64,
    /// The changes that are not durable, oldest first.
    undo: VecDeque<Undo>,
    held_bytes: usize,
}

#[derive(Clone, Debug)]
struct Undo {
    at: usize,
    before: Vec<u8>,
}

impl Memory {
    /// This many zeros; every change is durable at once.
    pub fn zeroed(length: usize) -> Memory {
        Memory::holding(vec![0; length])
    }

    /// These bytes; every change is durable at once.
    pub fn holding(bytes: Vec<u8>) -> Memory {
        Memory { bytes, cache: None }
    }

    /// This many zeros behind a volatile cache: a power cut loses the changes that were not synced.
    pub fn volatile(length: usize) -> Memory {
        Memory { bytes: vec![0; length], cache: Some(Cache::default()) }
    }

    /// Makes the memory usable by several queues.
    pub fn shared(self) -> SharedMemory {
        Rc::new(RefCell::new(self))
    }

    /// All bytes, as a reader sees them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All bytes, for durable changes that bypass queues and cache.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Reads; returns the bytes read, fewer at the end of the memory.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let (from, to) = self.span(offset, into.len());
        into[..to - from].copy_from_slice(&self.bytes[from..to]);
        to - from
    }

    /// Writes; returns the bytes written, fewer at the end of the memory.
    pub fn write(&mut self, offset: u64, from: &[u8]) -> usize {
        let (start, end) = self.span(offset, from.len());
        self.note(start, end);
        self.bytes[start..end].copy_from_slice(&from[..end - start]);
        end - start
    }

    /// Writes zeros; returns their number, fewer at the end of the memory.
    pub fn zero(&mut self, offset: u64, length: usize) -> usize {
        let (from, to) = self.span(offset, length);
        self.note(from, to);
        self.bytes[from..to].fill(0);
        to - from
    }

    /// A point in the order of changes, for [`Memory::sync_until`].
    pub fn mark(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.changes)
    }

    /// Makes the changes before the mark durable, and no others: a sync need not cover writes that
    /// completed after it was submitted.
    pub fn sync_until(&mut self, mark: u64) {
        if let Some(cache) = &mut self.cache {
            while cache.changes - (cache.undo.len() as u64) < mark && cache.make_oldest_durable() {}
        }
    }

    /// Undoes every change that is not durable, as in a power cut; returns their number.
    pub fn power_cut(&mut self) -> usize {
        self.cut(usize::MAX, || false)
    }

    /// A power cut that leaves each sector of this length in any of its versions since the durable
    /// one, by chance. Returns the number of changes that were not durable.
    pub fn power_cut_in_part(&mut self, sector_bytes: usize, chance: &mut Chance) -> usize {
        self.cut(sector_bytes, || chance.below(2) == 0)
    }

    /// Undoes the changes, latest first. A sector for which `keeps` was once true stays unchanged.
    fn cut(&mut self, sector_bytes: usize, mut keeps: impl FnMut() -> bool) -> usize {
        let Some(cache) = &mut self.cache else { return 0 };
        let count = cache.undo.len();
        let mut kept = BTreeSet::new();
        while let Some(Undo { at, before }) = cache.undo.pop_back() {
            let end = at + before.len();
            for sector in at / sector_bytes..end.div_ceil(sector_bytes) {
                if kept.contains(&sector) {
                    continue;
                }
                if keeps() {
                    kept.insert(sector);
                    continue;
                }
                let from = at.max(sector * sector_bytes);
                let to = end.min((sector + 1).saturating_mul(sector_bytes));
                self.bytes[from..to].copy_from_slice(&before[from - at..to - at]);
            }
        }
        cache.held_bytes = 0;
        count
    }

    /// Start and end of a transfer, within the memory.
    fn span(&self, offset: u64, length: usize) -> (usize, usize) {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        (from, from.saturating_add(length).min(self.bytes.len()))
    }

    /// Records the content of a range that is about to be changed.
    fn note(&mut self, from: usize, to: usize) {
        if let Some(cache) = &mut self.cache {
            cache.changes += 1;
            cache.held_bytes += to - from;
            cache.undo.push_back(Undo { at: from, before: self.bytes[from..to].to_vec() });
            while cache.held_bytes > CACHE_BYTES && cache.make_oldest_durable() {}
        }
    }
}

impl Cache {
    fn make_oldest_durable(&mut self) -> bool {
        let oldest = self.undo.pop_front();
        self.held_bytes -= oldest.as_ref().map_or(0, |undo| undo.before.len());
        oldest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR_BYTES: usize = 512;
    const LENGTH: usize = 8 * SECTOR_BYTES;

    #[test]
    fn what_was_written_is_read_and_a_trim_makes_zeros() {
        let mut memory = Memory::zeroed(LENGTH);
        assert_eq!(memory.write(100, &[7; 1000]), 1000);
        let mut back = [0; 1200];
        assert_eq!(memory.read(0, &mut back), 1200);
        assert_eq!(back[..100], [0; 100]);
        assert_eq!(back[100..1100], [7; 1000]);
        assert_eq!(back[1100..], [0; 100]);
        assert_eq!(memory.zero(200, 300), 300);
        memory.read(0, &mut back);
        assert_eq!(back[100..200], [7; 100]);
        assert_eq!(back[200..500], [0; 300]);
        assert_eq!(back[500..1100], [7; 600]);
        // Without a cache nothing is lost.
        let before = memory.bytes().to_vec();
        assert_eq!(memory.power_cut(), 0);
        assert_eq!(memory.bytes(), before);
    }

    #[test]
    fn the_end_is_the_end() {
        let mut memory = Memory::zeroed(LENGTH);
        assert_eq!(memory.write(LENGTH as u64 - 512, &[1; 1024]), 512);
        assert_eq!(memory.read(LENGTH as u64, &mut [0; 512]), 0);
        assert_eq!(memory.write(u64::MAX, &[1; 512]), 0);
        assert_eq!(memory.zero(u64::MAX - 5, 512), 0);
    }

    #[test]
    fn a_power_cut_takes_what_was_not_synced_and_nothing_else() {
        let mut memory = Memory::volatile(LENGTH);
        memory.write(0, &[1; 1024]);
        let mark = memory.mark();
        // Completed while the sync was in flight, which does not cover it.
        memory.write(512, &[2; 1024]);
        memory.sync_until(mark);
        memory.zero(0, 256);
        assert_eq!(memory.power_cut(), 2);
        assert_eq!(memory.bytes()[..1024], [1; 1024]);
        assert_eq!(memory.bytes()[1024..], [0; LENGTH - 1024]);
        assert_eq!(memory.power_cut(), 0);
    }

    #[test]
    fn a_sync_that_comes_back_late_makes_nothing_more_durable() {
        let mut memory = Memory::volatile(LENGTH);
        memory.write(0, &[1; 512]);
        let first = memory.mark();
        memory.write(512, &[2; 512]);
        let second = memory.mark();
        memory.sync_until(second);
        memory.write(1024, &[3; 512]);
        memory.sync_until(first);
        assert_eq!(memory.power_cut(), 1);
        assert_eq!(memory.bytes()[..1024], [[1; 512], [2; 512]].concat());
        assert_eq!(memory.bytes()[1024..], [0; LENGTH - 1024]);
    }

    #[test]
    fn a_cut_in_part_leaves_each_sector_in_one_of_its_versions() {
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let mut memory = Memory::volatile(LENGTH);
            memory.write(0, &[1; LENGTH]);
            memory.sync_until(memory.mark());
            for version in 2..5 {
                memory.write(0, &[version; LENGTH / 2]);
            }
            assert_eq!(memory.power_cut_in_part(SECTOR_BYTES, &mut Chance::new(seed)), 3);
            for (index, sector) in memory.bytes().chunks(SECTOR_BYTES).enumerate() {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is torn");
                if index < LENGTH / 2 / SECTOR_BYTES {
                    seen.insert(sector[0]);
                } else {
                    assert_eq!(sector[0], 1);
                }
            }
        }
        assert_eq!(seen, BTreeSet::from([1, 2, 3, 4]));
    }

    #[test]
    fn the_cache_is_bounded() {
        let mut memory = Memory::volatile(1 << 20);
        for _ in 0..100 {
            memory.write(0, &vec![1; 1 << 20]);
        }
        assert_eq!(memory.power_cut(), 64);
        assert!(memory.bytes().iter().all(|byte| *byte == 1), "the first write is durable");
    }
}
