//! Accessed places on disks, and how they are sampled.

shared! {
    /// The sampling of places: all at first, then a sample.
    #[derive(Default)]
    Sampling {
        /// Requests recorded while all blocks were kept.
        marks: u64,
        /// Chunks that are kept.
        chunks: u64,
        /// One of 2^n blocks of a chunk is kept.
        block_shift: u32,
        /// One of 2^n chunks is kept.
        chunk_shift: u32,
    }
}

impl Sampling {
    /// Whether this chunk is in the sample.
    pub fn keeps(&self, chunk: u64) -> bool {
        hash_of(chunk) & ((1 << (self.chunk_shift & 31)) - 1) == 0
    }

    /// The blocks of a chunk that are in the sample, a bit each.
    pub fn kept_blocks(&self, chunk: u64) -> [u64; 4] {
        if self.block_shift == 0 {
            return [!0; 4];
        }
        let groups = hash_of(chunk).rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let in_group = |group: usize| 1 << (16 * (group % 4) as u64 + (groups >> (4 * group) & 15));
        std::array::from_fn(|word| (4 * word..4 * word + 4).map(in_group).sum())
    }
}

/// Hash of a chunk's number.
fn hash_of(number: u64) -> u64 {
    let hash = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ hash >> 32
}

shared! {
    /// A chunk of a disk.
    #[derive(Eq, Ord, PartialEq, PartialOrd)]
    ChunkKey {
        /// `dev_t` of the whole disk.
        disk: u32,
        /// Zero.
        zero: u32,
        /// Number of the chunk.
        number: u64,
    }
}

shared! {
    /// Accesses to a chunk.
    Chunk {
        /// Read requests.
        reads: u64,
        /// Write requests.
        writes: u64,
        /// Blocks written; a rewritten block counts again.
        block_writes: u64,
        /// Blocks written that had been written before.
        overwrites: u64,
        /// One bit per block that was read.
        read: [u64; 4],
        /// One bit per block that was written.
        written: [u64; 4],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_nested_and_as_large_as_they_say() {
        let of =
            |block_shift, chunk_shift| Sampling { block_shift, chunk_shift, ..Sampling::default() };
        let kept = |shift| (0..80_000).filter(|chunk| of(0, shift).keeps(*chunk)).count();
        assert_eq!(kept(0), 80_000);
        assert!((9_500..10_500).contains(&kept(3)), "{}", kept(3));
        assert!((0..80_000).all(|chunk| !of(0, 4).keeps(chunk) || of(0, 3).keeps(chunk)));
        assert!((0..100).all(|chunk| of(0, 0).kept_blocks(chunk) == [!0; 4]));
        let words = |chunk| of(4, 0).kept_blocks(chunk);
        assert!((0..100).all(|chunk| words(chunk).map(u64::count_ones) == [4; 4]));
        // A stride hits neither all nor none of them, within a chunk or over several, which may be
        // a sample themselves.
        let first = |word: u64| (word & 0x0001_0001_0001_0001).count_ones() as usize;
        let firsts = |chunk| words(chunk).into_iter().map(first).sum::<usize>();
        let all: usize = (0..1600).map(firsts).sum();
        assert!((1_450..1_750).contains(&all), "{all}");
        let sampled = (0..).filter(|chunk| of(0, 6).keeps(*chunk)).take(1_600);
        let all: usize = sampled.map(firsts).sum();
        assert!((1_450..1_750).contains(&all), "{all}");
        assert!((0..1_600).all(|chunk| firsts(chunk) < 10));
    }
}
