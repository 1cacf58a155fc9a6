//! Content of writes. By default it is random, new in every write and stamped per 4 KiB, so that
//! storage cannot reduce it; on request it is compressible or repetitive.
//!
//! There is one random base, the same in every run, short enough for the L1 cache. Each piece of a
//! write is the base XORed with a new 64-bit key, so that no two pieces share a sequence of bytes
//! that a compressor could find. Every 4 KiB block gets a stamp (run, offset, sequence number), so
//! that no two blocks are equal. This costs about a tenth of generating new random bytes. The
//! previous content of a buffer is not used: a read may have left zeros in it, and zeros XORed with
//! a key only repeat the key.
//!
//! Compressible data has zeros at the end of every 4 KiB. Repeated data is generated block by
//! block: key and stamp define a block, so that an earlier one can be generated again.

pub mod block;
pub mod classify;
pub mod comparisons;
pub mod damage;
pub mod ledger;
mod ours;
pub mod outcomes;
pub mod replay;

pub use ours::{is_ours_or_zero, is_zero};

use wide::u64x8;

use crate::plan::Job;
use crate::plan::chance::{Chance, mix};

/// First bytes of a stamp.
pub const MAGIC: [u8; 8] = *b"iosonde\x02";
/// Distance between stamps, bytes: the smallest block of common deduplication.
pub const STAMP_EVERY: usize = 4096;
/// Length of a stamp: magic, run identity, offset, 32 bits of the sequence, and a check of these.
pub const STAMP_BYTES: usize = 32;

/// Length of the base, bytes.
const BASE_BYTES: usize = 16 << 10;
/// Length of a sector with its own key, for content that the offset determines, bytes.
const SECTOR: usize = 512;
/// Number of earlier blocks that may be repeated.
const REMEMBERED: usize = 1024;
/// Distinguishes the seed of a set of repeated blocks from other seeds.
const SET: u64 = 0x7265_7065_6174_6564;

/// Generates the content of one job's writes.
#[derive(Clone, Debug)]
pub struct Filler {
    run: u64,
    sequence: u64,
    keys: Chance,
    base: Vec<u8>,
    kind: Kind,
}

/// How the content of a write is generated.
#[derive(Clone, Debug)]
enum Kind {
    /// Only new random bytes.
    Fresh,
    /// New bytes, in part zeros or repeated blocks.
    Shaped(Shape),
    /// The buffers keep their initial content.
    Kept(Constant),
    /// The buffers are refilled with their initial content, since reads overwrite it.
    Restored(Constant),
    /// The offset determines every byte.
    Placed,
    /// This pattern, repeated from the beginning of each write.
    Pattern(Vec<u8>),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Constant {
    Zeros,
    Bytes { random_bytes: usize },
}

#[derive(Clone, Debug)]
struct Shape {
    /// Random bytes at the beginning of each 4 KiB; the rest is zeros.
    random_bytes: usize,
    /// A block is a repetition if a 32-bit draw is below this.
    repeat_below: u64,
    repeated: Repeated,
}

/// Which blocks may be repeated.
#[derive(Clone, Debug)]
enum Repeated {
    /// The latest blocks, as a ring.
    Earlier(Vec<Block>),
    /// A number of blocks derived from a seed.
    Set { seed: u64, blocks: u64 },
}

/// Parameters that a block is generated from.
#[derive(Clone, Copy, Debug)]
struct Block {
    key: u64,
    offset: u64,
    sequence: u64,
}

impl Filler {
    /// A filler for the writes of a job, whose stamps carry this run identity.
    pub fn new(run: u64, job: &Job) -> Filler {
        let keys = Chance::new(mix(run) ^ job.seed);
        Filler { run, sequence: 0, keys, base: base(), kind: Kind::of(run, job) }
    }

    /// Fills a buffer for the first time, before the clock starts, so that its pages are resident.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        match self.kind {
            Kind::Fresh | Kind::Shaped(_) => self.randomise(buffer),
            Kind::Kept(constant) | Kind::Restored(constant) => self.set(buffer, constant),
            Kind::Placed => self.place(buffer, 0),
            Kind::Pattern(ref pattern) => repeat(buffer, pattern),
        }
    }

    /// Whether a buffer holds the write at `offset`, for content that follows from the offset.
    pub fn holds(&self, buffer: &[u8], offset: u64) -> bool {
        if let Kind::Pattern(pattern) = &self.kind {
            return buffer.chunks(pattern.len()).all(|piece| pattern.starts_with(piece));
        }
        let mut wanted = [0; SECTOR];
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let length = (SECTOR - at as usize % SECTOR).min(rest.len());
            self.sector(&mut wanted[..length], at);
            if rest[..length] != wanted[..length] {
                return false;
            }
            (rest, at) = (&rest[length..], at + length as u64);
        }
        true
    }

    /// Fills a buffer with the content that belongs at `offset`.
    fn place(&self, buffer: &mut [u8], offset: u64) {
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let length = (SECTOR - at as usize % SECTOR).min(rest.len());
            let (piece, behind) = rest.split_at_mut(length);
            self.sector(piece, at);
            (rest, at) = (behind, at + length as u64);
        }
    }

    /// Fills the part of a sector that begins at `at`.
    fn sector(&self, piece: &mut [u8], at: u64) {
        let number = at / SECTOR as u64;
        let key = mix(self.run ^ mix(number)).to_ne_bytes();
        let skipped = at as usize % SECTOR;
        for (index, byte) in piece.iter_mut().enumerate() {
            *byte = self.base[skipped + index] ^ key[(skipped + index) % key.len()];
        }
    }

    /// Generates the content of a write at `offset`.
    #[inline]
    pub fn refresh(&mut self, buffer: &mut [u8], offset: u64) {
        match self.kind {
            Kind::Fresh => {
                self.randomise(buffer);
                let mut at = offset;
                for block in blocks_of(buffer, offset) {
                    self.sequence += 1;
                    stamp(block, self.run, at, self.sequence);
                    at += block.len() as u64;
                }
            }
            Kind::Shaped(_) => self.shape(buffer, offset),
            Kind::Kept(_) => {}
            Kind::Restored(constant) => self.set(buffer, constant),
            Kind::Placed => self.place(buffer, offset),
            Kind::Pattern(ref pattern) => repeat(buffer, pattern),
        }
    }

    /// Fills a buffer with new random bytes.
    #[inline(always)]
    fn randomise(&mut self, buffer: &mut [u8]) {
        for piece in buffer.chunks_mut(BASE_BYTES) {
            let key = self.keys.bits();
            combine(piece, &self.base, key);
        }
    }

    /// Fills a buffer with equal blocks.
    fn set(&self, buffer: &mut [u8], constant: Constant) {
        let Constant::Bytes { random_bytes } = constant else { return buffer.fill(0) };
        for block in buffer.chunks_mut(STAMP_EVERY) {
            let random = share_of(block.len(), random_bytes);
            block[..random].copy_from_slice(&self.base[..random]);
            block[random..].fill(0);
            stamp(block, self.run, 0, 0);
        }
    }

    /// Fills a buffer with new and repeated blocks, each with its zeros.
    fn shape(&mut self, buffer: &mut [u8], offset: u64) {
        let Kind::Shaped(shape) = &mut self.kind else { return };
        let mut at = offset;
        for bytes in blocks_of(buffer, offset) {
            let repeats = self.keys.bits() >> 32 < shape.repeat_below;
            let repeated = if repeats { shape.repeated.draw(&mut self.keys) } else { None };
            let block = repeated.unwrap_or_else(|| {
                self.sequence += 1;
                let block = Block { key: self.keys.bits(), offset: at, sequence: self.sequence };
                shape.repeated.remember(block);
                block
            });
            let random = share_of(bytes.len(), shape.random_bytes);
            combine(&mut bytes[..random], &self.base, block.key);
            bytes[random..].fill(0);
            stamp(bytes, self.run, block.offset, block.sequence);
            at += bytes.len() as u64;
        }
    }
}

impl Kind {
    fn of(run: u64, job: &Job) -> Kind {
        let data = &job.data;
        if !data.pattern.is_empty() {
            return Kind::Pattern(data.pattern.clone());
        }
        if data.checked {
            return Kind::Placed;
        }
        let random_bytes = STAMP_EVERY * usize::from(100 - data.compress_percent.min(100)) / 100;
        let constant = match data.zeros {
            true => Some(Constant::Zeros),
            false => data.constant.then_some(Constant::Bytes { random_bytes }),
        };
        match constant {
            Some(constant) if job.reads() => Kind::Restored(constant),
            Some(constant) => Kind::Kept(constant),
            None if data.compress_percent == 0 && data.dedupe_percent == 0 => Kind::Fresh,
            None => Kind::Shaped(Shape {
                random_bytes,
                repeat_below: u64::from(data.dedupe_percent) * (1 << 32) / 100,
                repeated: Repeated::of(run, job),
            }),
        }
    }
}

impl Repeated {
    fn of(run: u64, job: &Job) -> Repeated {
        let percent = u128::from(job.data.set_percent);
        if percent == 0 {
            return Repeated::Earlier(Vec::with_capacity(REMEMBERED));
        }
        let bytes = u128::from(job.region_bytes) * job.targets.len().max(1) as u128;
        let blocks = ((bytes * percent / 100) as u64 / STAMP_EVERY as u64).max(1);
        let seed = if job.data.set_shared { mix(run) } else { mix(run) ^ job.seed };
        Repeated::Set { seed: mix(seed ^ SET), blocks }
    }

    /// Draws one of the blocks, if there is any.
    fn draw(&self, keys: &mut Chance) -> Option<Block> {
        match self {
            Repeated::Earlier(blocks) if blocks.is_empty() => None,
            Repeated::Earlier(blocks) => Some(blocks[keys.below(blocks.len() as u64) as usize]),
            Repeated::Set { seed, blocks } => {
                let index = keys.below(*blocks);
                let offset = index * STAMP_EVERY as u64;
                Some(Block { key: mix(seed ^ mix(index)), offset, sequence: 0 })
            }
        }
    }

    fn remember(&mut self, block: Block) {
        match self {
            Repeated::Earlier(blocks) if blocks.len() < REMEMBERED => blocks.push(block),
            Repeated::Earlier(blocks) => blocks[block.sequence as usize % REMEMBERED] = block,
            Repeated::Set { .. } => {}
        }
    }
}

/// Fills a buffer with a repeated pattern.
fn repeat(buffer: &mut [u8], pattern: &[u8]) {
    for piece in buffer.chunks_mut(pattern.len()) {
        piece.copy_from_slice(&pattern[..piece.len()]);
    }
}

/// The parts of a write at an offset, each within one 4 KiB block of the target.
#[inline(always)]
fn blocks_of(buffer: &mut [u8], offset: u64) -> impl Iterator<Item = &mut [u8]> {
    let to_boundary = (offset.wrapping_neg() % STAMP_EVERY as u64) as usize;
    let (head, rest) = buffer.split_at_mut(to_boundary.min(buffer.len()));
    let head = (!head.is_empty()).then_some(head);
    head.into_iter().chain(rest.chunks_mut(STAMP_EVERY))
}

/// Random bytes in a block of this length, if a whole block has `random_bytes`.
fn share_of(length: usize, random_bytes: usize) -> usize {
    length * random_bytes / STAMP_EVERY
}

/// Fills a piece with the base; every whole 8 bytes are XORed with the key.
#[inline(always)]
fn combine(piece: &mut [u8], base: &[u8], key: u64) {
    let (wide_base, base) = base[..piece.len()].as_chunks::<64>();
    let (wide_piece, piece) = piece.as_chunks_mut::<64>();
    // Explicit vectors: compilers do not vectorise this loop when they optimise for size.
    let keys = u64x8::splat(key);
    for (to, base) in wide_piece.iter_mut().zip(wide_base) {
        *to = bytemuck::cast(bytemuck::cast::<_, u64x8>(*base) ^ keys);
    }
    let (words_base, base) = base.as_chunks::<8>();
    let (words, rest) = piece.as_chunks_mut::<8>();
    for (to, base) in words.iter_mut().zip(words_base) {
        *to = (u64::from_ne_bytes(*base) ^ key).to_ne_bytes();
    }
    rest.copy_from_slice(base);
}

/// Check value of the fields of a stamp.
#[inline]
fn check_of(run: u64, offset: u64, sequence: u32) -> u32 {
    (mix(mix(run ^ offset.rotate_left(32)).wrapping_add(u64::from(sequence))) >> 32) as u32
}

/// Random bytes, the same in every run, so that written data can be recognised later.
fn base() -> Vec<u8> {
    let mut chance = Chance::new(u64::from_le_bytes(MAGIC));
    (0..BASE_BYTES / 8).flat_map(|_| chance.bits().to_ne_bytes()).collect()
}

/// Writes as much of the stamp as the block has room for.
#[inline]
fn stamp(block: &mut [u8], run: u64, offset: u64, sequence: u64) {
    let mut whole = [0; STAMP_BYTES];
    whole[..8].copy_from_slice(&MAGIC);
    whole[8..16].copy_from_slice(&run.to_le_bytes());
    whole[16..24].copy_from_slice(&offset.to_le_bytes());
    let sequence = sequence as u32;
    whole[24..28].copy_from_slice(&sequence.to_le_bytes());
    whole[28..].copy_from_slice(&check_of(run, offset, sequence).to_le_bytes());
    let length = block.len().min(STAMP_BYTES);
    block[..length].copy_from_slice(&whole[..length]);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use super::*;
    use crate::spec::Data;

    #[test]
    fn repeated_blocks_of_a_set_are_those_of_the_set() {
        let written = |seed: u64, set_shared: bool| -> BTreeSet<Vec<u8>> {
            let data = Data { dedupe_percent: 100, set_percent: 10, set_shared, ..Data::default() };
            let job = Job { seed, region_bytes: 80 * 4096, ..writer(data) };
            image_of(&job, 400, 4096, 4).chunks(4096).map(<[u8]>::to_vec).collect()
        };
        let (one, other) = (written(1, true), written(2, true));
        assert_eq!(one.len(), 8, "a tenth of 80 blocks");
        assert_eq!(one, other, "all jobs have one set");
        assert!(written(1, false).is_disjoint(&written(2, false)), "each job has its own");
    }

    /// A writer of this kind of data.
    fn writer(data: Data) -> Job {
        Job { read_percent: 0, seed: 1, data, ..Job::default() }
    }

    /// Writes `count` blocks of `block_bytes` through few buffers, as a job would.
    fn image(count: usize, block_bytes: usize, buffers: usize) -> Vec<u8> {
        image_of(&writer(Data::default()), count, block_bytes, buffers)
    }

    fn image_of(job: &Job, count: usize, block_bytes: usize, buffers: usize) -> Vec<u8> {
        let mut filler = Filler::new(99, job);
        let mut pool = vec![vec![0; block_bytes]; buffers];
        for buffer in &mut pool {
            filler.fill(buffer);
        }
        let mut image = Vec::new();
        for index in 0..count {
            let buffer = &mut pool[index % buffers];
            if job.reads() {
                buffer.fill(0x55);
            }
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
        // No sequence of 16 bytes outside the stamps occurs twice, so a compressor finds no match.
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
    fn the_place_decides_about_what_is_checked() {
        let job = writer(Data { checked: true, ..Data::default() });
        let mut filler = Filler::new(99, &job);
        let mut buffer = vec![0; 8192];
        filler.refresh(&mut buffer, 4096);
        assert!(filler.holds(&buffer, 4096) && filler.holds(&buffer[1000..5000], 5096));
        assert!(!filler.holds(&buffer, 8192), "misdirected");
        assert!(!Filler::new(98, &job).holds(&buffer, 4096), "of another run");
        assert!(buffer.chunks(512).all(is_ours_or_zero));
        buffer[7000] ^= 1;
        assert!(!filler.holds(&buffer, 4096), "a flipped bit");
        let job = writer(Data { pattern: b"abc".to_vec(), checked: true, ..Data::default() });
        let mut filler = Filler::new(99, &job);
        filler.refresh(&mut buffer[..10], 0);
        assert_eq!(&buffer[..10], b"abcabcabca");
        assert!(filler.holds(&buffer[..10], 77) && !filler.holds(b"abcabd", 0));
    }

    #[test]
    fn what_a_read_left_in_the_buffer_is_not_written() {
        let mut filler = Filler::new(99, &writer(Data::default()));
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
        Filler::new(1, &writer(Data::default())).refresh(&mut tiny, 0);
        assert!(tiny.starts_with(&MAGIC));
        assert!(!is_ours_or_zero(&tiny), "half a stamp proves nothing");
    }

    #[test]
    fn small_writes_anywhere_are_ours_in_every_block_they_touch() {
        for (write_bytes, unit) in [(512, 512), (1024, 512), (1536, 512), (4096, 512), (8192, 512)]
        {
            let mut filler = Filler::new(1, &writer(Data::default()));
            let mut image = vec![0; 64 << 10];
            let mut chance = Chance::new(3);
            for _ in 0..40 {
                let positions = ((image.len() - write_bytes) / unit) as u64;
                let at = chance.below(positions) as usize * unit;
                filler.refresh(&mut image[at..at + write_bytes], at as u64);
                let ours = image.chunks(4096).all(is_ours_or_zero);
                assert!(ours, "{write_bytes} B at {at}");
            }
        }
    }

    fn packed_share(image: &[u8]) -> f64 {
        zstd::bulk::compress(image, 19).unwrap().len() as f64 / image.len() as f64
    }

    fn repeated_share(image: &[u8]) -> f64 {
        let blocks = image.len() / 4096;
        let distinct: BTreeSet<&[u8]> = image.chunks_exact(4096).collect();
        (blocks - distinct.len()) as f64 / blocks as f64
    }

    #[test]
    fn as_much_compresses_away_as_was_asked() {
        for compress_percent in [0, 25, 50, 90, 100] {
            let job = writer(Data { compress_percent, ..Data::default() });
            let image = image_of(&job, 64, 65_536, 3);
            let requested = 1.0 - f64::from(compress_percent) / 100.0;
            let share = packed_share(&image);
            // The stamp is not compressible.
            assert!((share - requested).abs() < 0.012, "{compress_percent} %: packs to {share}");
            assert_eq!(repeated_share(&image), 0.0);
            assert!(image.chunks(4096).all(is_ours_or_zero));
        }
    }

    #[test]
    fn as_many_blocks_repeat_as_was_asked() {
        for dedupe_percent in [0, 30, 80, 100] {
            for compress_percent in [0, 50] {
                let data = Data { compress_percent, dedupe_percent, ..Data::default() };
                let image = image_of(&writer(data), 512, 65_536, 3);
                let requested = f64::from(dedupe_percent) / 100.0;
                let share = repeated_share(&image);
                // 8192 blocks: four standard deviations of the worst share are 0.022.
                assert!((share - requested).abs() < 0.022, "{dedupe_percent} %: {share} repeat");
                assert!(image.chunks(4096).all(is_ours_or_zero));
            }
        }
    }

    #[test]
    fn zeros_are_zeros_and_the_constant_is_the_same_everywhere() {
        for read_percent in [0, 50] {
            let zeros = Data { zeros: true, ..Data::default() };
            let job = Job { read_percent, ..writer(zeros) };
            assert!(image_of(&job, 16, 8192, 3).iter().all(|byte| *byte == 0));
            let constant = Data { constant: true, compress_percent: 50, ..Data::default() };
            let image = image_of(&Job { read_percent, ..writer(constant) }, 16, 8192, 3);
            let blocks: BTreeSet<&[u8]> = image.chunks_exact(4096).collect();
            assert_eq!(blocks.len(), 1);
            assert!(image.chunks(4096).all(is_ours_or_zero));
            let share = packed_share(&image[..4096]);
            assert!((share - 0.5).abs() < 0.02, "{share}");
        }
    }
}
