//! Which bytes? Data that no storage can shrink: random, fresh in every write, stamped per 4 KiB.
//!
//! A job has one random base, short enough to stay in the first cache. Each piece of a write is
//! that base combined with a new 64-bit key, so that no two pieces share a run of bytes that a
//! compressor could find, and every 4 KiB block gets a stamp (who, where, when), so that no two
//! blocks are equal. That costs about a tenth of generating new random bytes. What a buffer held
//! before plays no part: a read may have left zeros in it, and zeros combined with a key are the
//! key over and over.

use crate::plan::chance::{Chance, mix};

/// First bytes of every block this program writes.
pub const MAGIC: [u8; 8] = *b"iosonde\x01";
/// Distance of stamps, bytes: the smallest block that common deduplication looks at.
pub const STAMP_EVERY: usize = 4096;
/// Length of a stamp: magic, run identity, offset, sequence.
pub const STAMP_BYTES: usize = 32;

/// Length of the base, bytes.
const BASE_BYTES: usize = 16 << 10;

/// Makes the content of one job's writes.
#[derive(Clone, Debug)]
pub struct Filler {
    run: u64,
    sequence: u64,
    keys: Chance,
    base: Vec<u8>,
}

impl Filler {
    /// A filler whose stamps carry this run identity and whose bytes follow from this seed.
    pub fn new(run: u64, seed: u64) -> Filler {
        let mut keys = Chance::new(mix(run) ^ seed);
        let base = (0..BASE_BYTES / 8).flat_map(|_| keys.bits().to_ne_bytes()).collect();
        Filler { run, sequence: 0, keys, base }
    }

    /// Fills a buffer with random bytes. Also once per buffer before the clock starts, so that its
    /// memory is there.
    #[inline]
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for piece in buffer.chunks_mut(BASE_BYTES) {
            let key = self.keys.bits();
            let (base, base_rest) = self.base[..piece.len()].as_chunks::<8>();
            let (words, rest) = piece.as_chunks_mut::<8>();
            for (word, base) in words.iter_mut().zip(base) {
                *word = (u64::from_ne_bytes(*base) ^ key).to_ne_bytes();
            }
            rest.copy_from_slice(base_rest);
        }
    }

    /// Makes the content of a buffer new, for a write at `offset`.
    #[inline]
    pub fn refresh(&mut self, buffer: &mut [u8], offset: u64) {
        self.fill(buffer);
        let mut at = offset;
        for block in buffer.chunks_mut(STAMP_EVERY) {
            self.sequence += 1;
            stamp(block, self.run, at, self.sequence);
            at += STAMP_EVERY as u64;
        }
    }
}

/// Writes as much of the stamp as the block has room for.
fn stamp(block: &mut [u8], run: u64, offset: u64, sequence: u64) {
    let mut whole = [0; STAMP_BYTES];
    whole[..8].copy_from_slice(&MAGIC);
    whole[8..16].copy_from_slice(&run.to_le_bytes());
    whole[16..24].copy_from_slice(&offset.to_le_bytes());
    whole[24..].copy_from_slice(&sequence.to_le_bytes());
    let length = block.len().min(STAMP_BYTES);
    block[..length].copy_from_slice(&whole[..length]);
}

/// Whether these bytes are what this program may overwrite unasked: all zero, or one of its own
/// blocks.
pub fn is_ours_or_zero(block: &[u8]) -> bool {
    block.starts_with(&MAGIC) || block.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use super::*;

    /// Writes `count` blocks of `block_bytes` through few buffers, as a job would.
    fn image(count: usize, block_bytes: usize, buffers: usize) -> Vec<u8> {
        let mut filler = Filler::new(99, 1);
        let mut pool = vec![vec![0; block_bytes]; buffers];
        for buffer in &mut pool {
            filler.fill(buffer);
        }
        let mut image = Vec::new();
        for index in 0..count {
            let buffer = &mut pool[index % buffers];
            filler.refresh(buffer, (index * block_bytes) as u64);
            image.extend_from_slice(buffer);
        }
        image
    }

    #[test]
    fn no_two_blocks_are_equal_and_none_has_a_repeated_run() {
        // One buffer, so that every block is made from the same random base: the hard case.
        let image = image(512, 4096, 1);
        let blocks: BTreeSet<&[u8]> = image.chunks(4096).collect();
        assert_eq!(blocks.len(), 512);
        // No run of 16 bytes outside the stamps occurs twice: nothing for a matcher to find.
        let runs: BTreeSet<&[u8]> =
            image.chunks(4096).flat_map(|block| block[STAMP_BYTES..].chunks_exact(16)).collect();
        assert_eq!(runs.len(), 512 * (4096 - STAMP_BYTES) / 16);
    }

    #[test]
    fn stored_bytes_do_not_compress_even_with_a_long_window() {
        for (count, block_bytes, buffers) in [(1024, 4096, 1), (1024, 4096, 32), (8, 524_288, 2)] {
            let image = image(count, block_bytes, buffers);
            let packed = zstd::bulk::compress(&image, 19).unwrap();
            let ratio = packed.len() as f64 / image.len() as f64;
            assert!(ratio > 0.99, "{count} x {block_bytes} B: compresses to {ratio:.3}");
        }
    }

    #[test]
    fn what_a_read_left_in_the_buffer_is_not_written() {
        let mut filler = Filler::new(99, 1);
        let mut buffer = vec![0; 4096];
        filler.fill(&mut buffer);
        let mut image = Vec::new();
        for index in 0..256 {
            buffer.fill(0);
            filler.refresh(&mut buffer, index * 4096);
            image.extend_from_slice(&buffer);
        }
        let packed = zstd::bulk::compress(&image, 19).unwrap();
        assert!(packed.len() as f64 > 0.99 * image.len() as f64, "{}", packed.len());
    }

    #[test]
    fn short_blocks_are_stamped_as_far_as_they_reach() {
        let image = image(4, 512, 1);
        assert!(image.chunks(512).all(is_ours_or_zero));
        let mut tiny = [7; 10];
        Filler::new(1, 1).refresh(&mut tiny, 0);
        assert!(tiny.starts_with(&MAGIC));
    }

    #[test]
    fn foreign_bytes_are_not_ours() {
        assert!(is_ours_or_zero(&[0; 4096]));
        assert!(!is_ours_or_zero(b"family photo"));
    }
}
