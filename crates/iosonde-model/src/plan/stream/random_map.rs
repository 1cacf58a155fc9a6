//! Random offsets for operations of several sizes, every byte once before any repeats, as in fio.
//! An operation begins at the first free place after a random one and ends before a used one.

use crate::plan::chance::Chance;

/// Most draws of a length until one fits before the end of the region.
pub(super) const DRAWS: usize = 64;

/// A map of the used places of a region.
#[derive(Clone, Debug)]
pub(super) struct RandomMap {
    /// The lowest level has a bit per place, set if the place is used. Each higher level has a bit
    /// per word below it, set if the word is full, up to a single word.
    levels: Vec<Box<[u64]>>,
    count: u64,
    /// Number of unused places.
    free: u64,
    /// Length of a place, bytes.
    unit: u64,
    order: Chance,
}

impl RandomMap {
    pub(super) fn new(count: u64, unit: u64, seed: u64) -> RandomMap {
        let mut levels = Vec::new();
        let mut bits = count;
        loop {
            let words = bits.div_ceil(64);
            levels.push(vec![0; words as usize].into_boxed_slice());
            if words <= 1 {
                break;
            }
            bits = words;
        }
        let mut map = RandomMap { levels, count, free: 0, unit, order: Chance::new(seed) };
        map.clear();
        map
    }

    /// Frees every place. Bits beyond the last place of a level count as used.
    fn clear(&mut self) {
        self.free = self.count;
        let mut bits = self.count;
        for level in &mut self.levels {
            level.fill(0);
            if let Some(last) = level.last_mut().filter(|_| !bits.is_multiple_of(64)) {
                *last = u64::MAX << (bits % 64);
            }
            bits = bits.div_ceil(64);
        }
    }

    /// Offset and length of the next operation; the length is redrawn until it fits.
    pub(super) fn next(&mut self, mut draw: impl FnMut() -> u32) -> (u64, u32) {
        if self.free == 0 {
            self.clear();
        }
        let from = self.order.below(self.count);
        let first = self.next_free(from).or_else(|| self.next_free(0)).unwrap_or(0);
        let rest = (self.count - first) * self.unit;
        let bytes = fitting(rest, &mut draw);
        let taken = self.take(first, u64::from(bytes).div_ceil(self.unit));
        (first * self.unit, u64::from(bytes).min(taken * self.unit) as u32)
    }

    /// The first free place at or after this one.
    fn next_free(&self, from: u64) -> Option<u64> {
        let mut at = from as usize;
        for (height, level) in self.levels.iter().enumerate() {
            let free = !level.get(at / 64)? & (u64::MAX << (at % 64));
            if free != 0 {
                let mut place = at / 64 * 64 + free.trailing_zeros() as usize;
                for below in self.levels[..height].iter().rev() {
                    place = place * 64 + below[place].trailing_ones() as usize;
                }
                return Some(place as u64);
            }
            at = at / 64 + 1;
        }
        None
    }

    /// Marks at most `wanted` places as used, until the first used one; returns their number.
    fn take(&mut self, first: u64, wanted: u64) -> u64 {
        let end = first.saturating_add(wanted).min(self.count);
        let is_free = |at: &u64| self.levels[0][(*at / 64) as usize] >> (at % 64) & 1 == 0;
        let end = (first..end).find(|at| !is_free(at)).unwrap_or(end);
        for at in first..end {
            let mut at = at as usize;
            for level in &mut self.levels {
                let word = &mut level[at / 64];
                *word |= 1 << (at % 64);
                if *word != u64::MAX {
                    break;
                }
                at /= 64;
            }
        }
        self.free -= end - first;
        end - first
    }
}

/// A length of at most `rest`, redrawn if it is larger.
pub(super) fn fitting(rest: u64, mut draw: impl FnMut() -> u32) -> u32 {
    let fits = (0..DRAWS).map(|_| draw()).find(|bytes| u64::from(*bytes) <= rest);
    fits.unwrap_or(u32::try_from(rest).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_used_once_in_each_pass() {
        for count in [1, 63, 64, 65, 100, 4096, 4097, 300_000] {
            let mut map = RandomMap::new(count, 512, 7);
            let mut lengths = Chance::new(3);
            for pass in 0..2 {
                let mut used = vec![false; count as usize];
                let mut moved = 0;
                while moved < count * 512 {
                    let (offset, bytes) = map.next(|| 512 * (1 + lengths.below(40) as u32));
                    assert!(bytes > 0 && offset + u64::from(bytes) <= count * 512);
                    let places = offset / 512..(offset + u64::from(bytes)) / 512;
                    for place in places {
                        let was_used = std::mem::replace(&mut used[place as usize], true);
                        assert!(!was_used, "{count}, pass {pass}: {place}");
                    }
                    moved += u64::from(bytes);
                }
                assert!(used.iter().all(|used| *used) && moved == count * 512);
            }
        }
    }

    #[test]
    fn an_operation_ends_where_a_used_place_begins() {
        let mut map = RandomMap::new(200, 4096, 1);
        assert_eq!(map.take(70, 1), 1);
        assert_eq!(map.take(64, 20), 6);
        assert_eq!((map.next_free(64), map.next_free(0)), (Some(71), Some(0)));
        assert_eq!(map.take(71, 500), 129);
        assert_eq!((map.next_free(64), map.free), (None, 64));
    }

    #[test]
    fn a_length_fits_in_front_of_the_end() {
        let mut lengths = [9, 7, 4].into_iter();
        assert_eq!(fitting(5, || lengths.next().unwrap_or(1)), 4);
        assert_eq!(fitting(5, || 6), 5);
    }
}
