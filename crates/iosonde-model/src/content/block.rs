//! The verifier's block. It states its run, offset, generation and time of writing.
//!
//! ```text
//! every sector      magic 4 | crc32c 4
//!                   version 1 | log2 sector 1 | log2 block 1 | zero 1 | index in the block 4
//!                   offset of the block 8
//!                   generation 4 | run, folded 4
//! first sector also run 16 | writer 2 | sequence 6 | time 8
//! ```
//!
//! All numbers are little-endian. The checksum of a sector covers everything after it: stamp and
//! payload. Each sector is checked on its own, so that a displaced sector is detected in its own
//! block, in another one and in the region of another job. The payload follows from run, offset and
//! generation: it can be generated again and compared bit by bit.
//!
//! CRC-32C detects accidents, not tampering.

use std::marker::PhantomData;

use crc_fast::{CrcAlgorithm, checksum};
use serde::{Deserialize, Serialize};

use super::combine;
use super::comparisons::compared;
pub use super::comparisons::{All, Comparison, Comparisons, Without};
pub use crate::plan::RunId;
use crate::plan::chance::{Chance, mix};

/// First bytes of a block.
pub const MAGIC: [u8; 4] = *b"IOsv";
/// Version of the format.
pub const VERSION: u8 = 2;
/// Length of the header of a block, in its first sector and with its stamp, bytes.
pub const HEADER_BYTES: usize = 64;
/// Length of the stamp at the beginning of every sector, bytes.
pub const STAMP_BYTES: usize = 32;
/// First byte that the checksum covers.
const COVERED: usize = 8;
/// Sizes of a sector, bytes.
pub const SECTOR_BYTES: [usize; 2] = [512, 4096];
/// Highest generation; the ledger uses the bit above it.
pub const MAX_GENERATION: u32 = (1 << 31) - 1;

/// Length of the random base of the payload, bytes.
const BASE_BYTES: usize = 16 << 10;
/// A block is filled and checksummed in pieces of this length, the largest sector. A checksum
/// directly after the stores that it reads waits for each of them, at almost half of the speed.
const PIECE_BYTES: usize = 4096;

/// Label in the header of a block.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Label {
    /// Where the block belongs, bytes from the beginning of the target.
    pub offset: u64,
    /// Number of this change of the block in its run, from 1.
    pub generation: u32,
    /// Number of the job that wrote it.
    pub writer: u16,
    /// Number of the operation within that job, 48 bits.
    pub sequence: u64,
    /// When it was written, ns since 1970.
    pub time_ns: u64,
}

/// Encoder and decoder of one run's blocks.
#[derive(Clone, Debug)]
pub struct Format<C = All> {
    run: RunId,
    block_bytes: usize,
    sector_bytes: usize,
    base: Box<[u8]>,
    comparisons: PhantomData<C>,
}

/// Stamp of a sector whose checksum is right.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stamp {
    /// Number of the sector in its block, from 0.
    pub index: u32,
    /// Where its block belongs, bytes from the beginning of the target.
    pub offset: u64,
    /// Generation of its block.
    pub generation: u32,
    /// The run, folded to 32 bits.
    pub run: u32,
}

impl Format {
    /// The format of a run's blocks. Their size is a power of two from one sector to 1 MiB.
    pub fn new(run: RunId, block_bytes: u32, sector_bytes: u32) -> Format {
        Format::comparing(run, block_bytes, sector_bytes)
    }
}

impl<C: Comparisons> Format<C> {
    /// As [`Format::new`], with the comparisons of the type `C`.
    pub fn comparing(run: RunId, block_bytes: u32, sector_bytes: u32) -> Format<C> {
        let mut chance = Chance::new(run.0 as u64 ^ mix((run.0 >> 64) as u64));
        let mut base = vec![0; BASE_BYTES].into_boxed_slice();
        for word in base.chunks_exact_mut(8) {
            word.copy_from_slice(&chance.bits().to_le_bytes());
        }
        let (block_bytes, sector_bytes) = (block_bytes as usize, sector_bytes as usize);
        Format { run, block_bytes, sector_bytes, base, comparisons: PhantomData }
    }

    pub fn run(&self) -> RunId {
        self.run
    }

    /// Length of a block, bytes.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Length of a sector, bytes.
    pub fn sector_bytes(&self) -> usize {
        self.sector_bytes
    }

    /// Fills a buffer of one block with the block of this label.
    pub fn seal(&self, block: &mut [u8], label: &Label) {
        let seed = self.payload_seed(label.offset, label.generation);
        let stamp = self.words(label.offset, label.generation);
        for (nth, piece) in block.chunks_mut(PIECE_BYTES).enumerate() {
            let first = nth * (PIECE_BYTES / self.sector_bytes);
            for (index, sector) in (first..).zip(piece.chunks_exact_mut(self.sector_bytes)) {
                let from = index * self.sector_bytes % BASE_BYTES;
                let base = &self.base[from..from + self.sector_bytes];
                combine(sector, base, mix(seed.wrapping_add(index as u64)));
                sector[..4].copy_from_slice(&MAGIC);
                sector[COVERED..STAMP_BYTES].copy_from_slice(&stamp.of_sector(index).bytes());
                if index == 0 {
                    self.write_header(sector, label);
                }
            }
            for sector in piece.chunks_exact_mut(self.sector_bytes) {
                let crc = crc32c(&sector[COVERED..]);
                sector[4..COVERED].copy_from_slice(&crc.to_le_bytes());
            }
        }
    }

    /// Writes the fields that only the first sector has.
    fn write_header(&self, sector: &mut [u8], label: &Label) {
        sector[32..48].copy_from_slice(&self.run.0.to_le_bytes());
        sector[48..50].copy_from_slice(&label.writer.to_le_bytes());
        sector[50..56].copy_from_slice(&label.sequence.to_le_bytes()[..6]);
        sector[56..64].copy_from_slice(&label.time_ns.to_le_bytes());
    }

    /// The stamp of the first sector of a block of this run.
    #[inline(always)]
    fn words(&self, offset: u64, generation: u32) -> Words {
        let sizes = [self.sector_bytes, self.block_bytes].map(|bytes| bytes.trailing_zeros() as u8);
        let shape = u32::from_le_bytes([VERSION, sizes[0], sizes[1], 0]);
        Words([shape.into(), offset, u64::from(generation) | u64::from(folded(self.run)) << 32])
    }

    /// The generation of a whole and undamaged block of this run that belongs at `offset`; `None`
    /// for anything else, which [`super::classify`] then examines.
    pub fn generation_at(&self, block: &[u8], offset: u64) -> Option<u32> {
        let generation = le32(block, 24);
        let expected = self.words(offset, generation);
        let mut sectors = block.chunks_exact(self.sector_bytes).enumerate();
        let whole = sectors.all(|(index, sector)| {
            is_undamaged::<C>(sector) && Words::of(sector).agree::<C>(&expected.of_sector(index))
        });
        (whole && self.is_of_run(block)).then_some(generation)
    }

    /// Whether the first sector has the complete identity of this run.
    #[inline(always)]
    fn is_of_run(&self, first: &[u8]) -> bool {
        first[32..48] == self.run.0.to_le_bytes() || !C::are_made(Comparison::Run)
    }

    /// Label and run of a block whose sectors are undamaged, belong together and are in order.
    pub fn whole(&self, block: &[u8]) -> Option<(Label, RunId)> {
        let first = self.header(block)?;
        let stamp = Words::of(block).first_of_its_block();
        let mut sectors = block.chunks_exact(self.sector_bytes).enumerate();
        let whole = sectors.all(|(index, sector)| {
            is_undamaged::<C>(sector) && Words::of(sector).agree::<C>(&stamp.of_sector(index))
        });
        whole.then_some(first)
    }

    /// Label and run in the header, if the first sector is undamaged and of this format.
    pub fn header(&self, block: &[u8]) -> Option<(Label, RunId)> {
        let sector = block.get(..self.sector_bytes)?;
        self.stamp(sector).map(|_| unchecked_header(sector))
    }

    /// The stamp of a sector, if it is undamaged and of this format.
    pub fn stamp(&self, sector: &[u8]) -> Option<Stamp> {
        let words = Words::of(sector);
        let shape = words.0[0] as u32 == self.words(0, 0).0[0] as u32;
        let known = shape || !C::are_made(Comparison::Shape);
        (known && is_undamaged::<C>(sector)).then(|| words.stamp())
    }

    /// Marks every sector of a buffer, so that a read that transfers nothing is detected.
    #[inline]
    pub fn poison(&self, buffer: &mut [u8]) {
        for sector in buffer.chunks_exact_mut(self.sector_bytes) {
            sector[..8].copy_from_slice(&POISON);
        }
    }

    /// Whether a sector is as [`Format::poison`] left it.
    pub fn is_poisoned(&self, sector: &[u8]) -> bool {
        sector[..8] == POISON
    }

    /// The run, folded as in a stamp.
    pub fn folded_run(&self) -> u32 {
        folded(self.run)
    }

    fn payload_seed(&self, offset: u64, generation: u32) -> u64 {
        mix(mix(self.run.0 as u64 ^ offset).wrapping_add(u64::from(generation)))
    }
}

/// A stamp as stored in its sector, without magic and checksum: shape and index, offset, generation
/// and run.
#[derive(Clone, Copy)]
struct Words([u64; 3]);

impl Words {
    #[inline(always)]
    fn of(sector: &[u8]) -> Words {
        Words([le64(sector, 8), le64(sector, 16), le64(sector, 24)])
    }

    /// The stamp of the first sector of the same block.
    fn first_of_its_block(self) -> Words {
        let Words([place, offset, rest]) = self;
        Words([place & u64::from(u32::MAX), offset, rest])
    }

    /// The stamp of another sector, derived from that of the first.
    #[inline(always)]
    fn of_sector(self, index: usize) -> Words {
        let Words([shape, offset, rest]) = self;
        Words([shape | (index as u64) << 32, offset, rest])
    }

    /// Whether all compared bits agree.
    #[inline(always)]
    fn agree<C: Comparisons>(&self, other: &Words) -> bool {
        let differing = |at: usize| (self.0[at] ^ other.0[at]) & const { compared::<C>() }[at];
        differing(0) | differing(1) | differing(2) == 0
    }

    fn bytes(self) -> [u8; STAMP_BYTES - COVERED] {
        let mut bytes = [0; STAMP_BYTES - COVERED];
        for (place, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn stamp(self) -> Stamp {
        let Words([place, offset, rest]) = self;
        let (index, generation, run) = ((place >> 32) as u32, rest as u32, (rest >> 32) as u32);
        Stamp { index, offset, generation, run }
    }
}

/// Whether magic number and checksum of a sector are right.
#[inline(always)]
fn is_undamaged<C: Comparisons>(sector: &[u8]) -> bool {
    (sector[..4] == MAGIC || !C::are_made(Comparison::Magic))
        && (crc32c(&sector[COVERED..]) == le32(sector, 4) || !C::are_made(Comparison::Checksum))
}

/// The run, folded to 32 bits by XOR.
fn folded(run: RunId) -> u32 {
    let half = run.0 as u64 ^ (run.0 >> 64) as u64;
    half as u32 ^ (half >> 32) as u32
}

/// Replaces magic number and checksum of a sector.
const POISON: [u8; 8] = *b"unread!\xee";

/// Label and run in a header, which may be damaged.
pub(super) fn unchecked_header(sector: &[u8]) -> (Label, RunId) {
    let run = u128::from_le_bytes(sector[32..48].try_into().unwrap_or_default());
    let label = Label {
        offset: le64(sector, 16),
        generation: le32(sector, 24),
        writer: u16::from_le_bytes([sector[48], sector[49]]),
        sequence: le64(sector, 48) >> 16,
        time_ns: le64(sector, 56),
    };
    (label, RunId(run))
}

/// Turns a block into one of a later generation, not written yet, and without any other fault.
/// Leaves anything that is not a block unchanged.
pub fn forge(block: &mut [u8]) {
    const AHEAD: u32 = 1_000_000;
    if block.len() < HEADER_BYTES || block[..4] != MAGIC || block[9] > 12 || block[10] > 20 {
        return;
    }
    let (label, run) = unchecked_header(block);
    let format = Format::new(run, 1 << block[10], 1 << block[9]);
    if format.block_bytes() <= block.len() {
        let label = Label { generation: label.generation + AHEAD, ..label };
        format.seal(&mut block[..format.block_bytes()], &label);
    }
}

/// CRC-32C (Castagnoli), by CPU instructions if available.
pub fn crc32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[inline]
pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
pub(crate) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}

/// Whether this is an undamaged sector of a verifier's block, of any run and version.
pub fn is_a_sector(sector: &[u8]) -> bool {
    SECTOR_BYTES.contains(&sector.len())
        && (sector[8] == VERSION && is_undamaged::<All>(sector) || is_of_version_1(sector))
}

/// Whether the first sector that is not all zeros belongs to a verifier's block, of any run and
/// version.
pub fn begins_a_block(bytes: &[u8]) -> bool {
    SECTOR_BYTES.iter().any(|size| {
        let first = bytes.chunks_exact(*size).find(|sector| sector.iter().any(|byte| *byte != 0));
        first.is_some_and(is_a_sector)
    })
}

/// Whether this is a sector of a version 1 block, whose stamp has no index in the block.
fn is_of_version_1(sector: &[u8]) -> bool {
    match sector[..4] == MAGIC {
        true => sector[8] == 1 && crc32c(&sector[8..]) == le32(sector, 4),
        false => crc32c(&sector[4..]) == le32(sector, 0),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const RUN: RunId = RunId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

    /// First bytes of the SHA-256 of blocks of several shapes.
    const KNOWN: [u64; 5] = [
        0x7c76_e468_e77d_e3d4,
        0x44f3_0770_c737_0b22,
        0xc3e2_4a95_6367_fcb2,
        0xf31b_6f5f_359b_80f2,
        0x7455_fd61_3ba3_c75d,
    ];

    fn label() -> Label {
        Label { offset: 40_960, generation: 7, writer: 3, sequence: 0xabcd_ef01_2345, time_ns: 99 }
    }

    fn sealed(block_bytes: u32, sector_bytes: u32, label: &Label) -> Vec<u8> {
        let mut block = vec![0x55; block_bytes as usize];
        Format::new(RUN, block_bytes, sector_bytes).seal(&mut block, label);
        block
    }

    #[test]
    fn the_checksum_is_crc32c() {
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_block_contains_what_it_was_sealed_with() {
        for (block, sector) in
            [(512, 512), (4096, 512), (4096, 4096), (65_536, 512), (1 << 20, 512)]
        {
            let format = Format::new(RUN, block, sector);
            let bytes = sealed(block, sector, &label());
            assert_eq!(format.header(&bytes), Some((label(), RUN)));
            assert_eq!(format.generation_at(&bytes, 40_960), Some(7));
            assert_eq!(format.generation_at(&bytes, 45_056), None, "it belongs elsewhere");
            let other = Format::new(RunId(RUN.0 ^ 1), block, sector);
            assert_eq!(other.generation_at(&bytes, 40_960), None, "it is another run's");
        }
    }

    #[test]
    fn the_format_stays_what_it_is() {
        use sha2::{Digest, Sha256};
        let found = [(512, 512), (4096, 512), (4096, 4096), (65_536, 512), (1 << 20, 4096)].map(
            |(block, sector)| {
                let sum = Sha256::digest(sealed(block, sector, &label()));
                u64::from_be_bytes(sum[..8].try_into().unwrap())
            },
        );
        assert_eq!(found, KNOWN, "{found:#x?}");
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let format = Format::new(RUN, 1024, 512);
        let bytes = sealed(1024, 512, &label());
        for bit in 0..1024 * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(format.generation_at(&damaged, 40_960), None, "bit {bit}");
        }
    }

    #[test]
    fn each_sector_states_its_place_and_its_checksum_covers_it() {
        for (block, sector) in [(1024, 512), (4096, 512), (65_536, 4096), (1 << 20, 512)] {
            let format = Format::new(RUN, block, sector);
            let bytes = sealed(block, sector, &label());
            for (index, part) in (0..).zip(bytes.chunks_exact(sector as usize)) {
                let Stamp { index: stated, offset, generation, run } = format.stamp(part).unwrap();
                assert_eq!((stated, offset, generation), (index, 40_960, 7));
                assert_eq!(run, format.folded_run());
            }
            let last = bytes.len() - sector as usize;
            let mut swapped = bytes.clone();
            swapped[..sector as usize].copy_from_slice(&bytes[last..]);
            swapped[last..].copy_from_slice(&bytes[..sector as usize]);
            assert_eq!(
                (format.generation_at(&swapped, 40_960), format.whole(&swapped)),
                (None, None)
            );
            let mut restated = bytes[last..].to_vec();
            restated[12] ^= 1;
            assert_eq!(format.stamp(&restated), None, "the index is under the checksum");
        }
        // Two places that differ by 2 TiB differ in every sector.
        let far = sealed(1024, 512, &Label { offset: 40_960 + (2 << 40), ..label() });
        let format = Format::new(RUN, 1024, 512);
        assert_eq!(format.stamp(&far[512..]).unwrap().offset, 40_960 + (2 << 40));
    }

    #[test]
    fn payload_follows_from_run_offset_and_generation_alone() {
        let later = Label { time_ns: 5_000, sequence: 1, writer: 9, ..label() };
        let (one, two) = (sealed(4096, 512, &label()), sealed(4096, 512, &later));
        assert_eq!(one[HEADER_BYTES..], two[HEADER_BYTES..]);
        for other in [Label { generation: 8, ..label() }, Label { offset: 45_056, ..label() }] {
            let other = sealed(4096, 512, &other);
            let same = one.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(same < 300, "{same} bytes of 4096 are the same");
        }
    }

    #[test]
    fn stored_bytes_do_not_compress() {
        let format = Format::new(RUN, 4096, 512);
        let mut image = vec![0; 1 << 20];
        for (index, block) in (0..).zip(image.chunks_exact_mut(4096)) {
            format.seal(block, &Label { offset: index * 4096, ..label() });
        }
        let packed = zstd::bulk::compress(&image, 19).unwrap().len();
        // Headers and stamps are alike: 288 of 4096 bytes.
        assert!(packed as f64 > 0.93 * image.len() as f64, "{packed}");
    }

    #[test]
    fn a_buffer_that_nothing_was_read_into_is_no_block() {
        let format = Format::new(RUN, 4096, 512);
        let mut bytes = sealed(4096, 512, &label());
        format.poison(&mut bytes);
        assert!(format.is_poisoned(&bytes));
        assert_eq!(format.generation_at(&bytes, 40_960), None);
        assert!(!format.is_poisoned(&sealed(4096, 512, &label())));
    }

    #[test]
    fn any_page_of_a_block_is_known_as_ours_and_foreign_bytes_are_not() {
        for (block, sector) in [(512, 512), (4096, 4096), (65_536, 512)] {
            let bytes = sealed(block, sector, &label());
            let mut page = [0; 4096];
            for part in bytes.chunks(4096) {
                page[..part.len()].copy_from_slice(part);
                assert!(crate::content::is_ours_or_zero(&page));
            }
        }
        let mut foreign = [0; 4096];
        foreign[..4].copy_from_slice(&MAGIC);
        assert!(!crate::content::is_ours_or_zero(&foreign), "a magic number alone is not enough");
    }

    #[test]
    fn run_identities_are_written_in_hexadecimal() {
        let text = serde_json::to_string(&RUN).unwrap();
        assert_eq!(text, "\"0123456789abcdef0011223344556677\"");
        assert_eq!(serde_json::from_str::<RunId>(&text).unwrap(), RUN);
        for wrong in ["\"12\"", "\"+123456789abcdef0011223344556677\"", "5"] {
            assert!(serde_json::from_str::<RunId>(wrong).is_err(), "{wrong}");
        }
    }
}
