//! Places on disks, and the sample of them that is kept.

shared! {
    /// Which places are kept: all at first, then a sample.
    #[derive(Default)]
    Sampling {
        /// Requests while all blocks were kept.
        marks: u64,
        /// Chunks that are kept.
        chunks: u64,
        /// Of 2^n blocks of a chunk, one is kept.
        block_shift: u32,
        /// Of 2^n chunks, one is kept.
        chunk_shift: u32,
    }
}

impl Sampling {
    /// Whether this chunk is in the sample.
    pub fn keeps(&self, chunk: u64) -> bool {
        hash_of(chunk) & ((1 << (self.chunk_shift & 31)) - 1) == 0
    }

    /// Those of 64 neighbouring blocks of a chunk that are in the sample, a bit each.
    pub fn kept_blocks(&self, chunk: u64) -> u64 {
        if self.block_shift == 0 { !0 } else { 0x0001_0001_0001_0001 << (hash_of(chunk) >> 60) }
    }
}

/// Evenly spread bits of a chunk's number.
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
    /// What was done to a chunk.
    Chunk {
        /// Read requests.
        reads: u64,
        /// Write requests.
        writes: u64,
        /// Blocks written, each time anew.
        block_writes: u64,
        /// Of those, onto blocks written before.
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
        assert!((0..100).all(|chunk| of(0, 0).kept_blocks(chunk) == !0));
        assert!((0..100).all(|chunk| of(4, 0).kept_blocks(chunk).count_ones() == 4));
        // Not the same blocks in each chunk: a stride would meet all or none of them.
        let first = (0..1600).filter(|chunk| of(4, 0).kept_blocks(*chunk) & 1 == 1).count();
        assert!((60..140).contains(&first), "{first}");
    }
}
