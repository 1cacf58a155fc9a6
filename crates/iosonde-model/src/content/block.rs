//! The block of the verifier: which run wrote it, where, for the how-manieth time, and when.
//!
//! ```text
//! first sector   magic 4 | crc32c 4 | version 1 | flags 1 | log2 sector 1 | log2 block 1
//!                run 16 | offset 8 | generation 4 | writer 2 | sequence 6
//!                payload seed 8 | time 8
//! each further   crc32c 4 | offset / 512, low half 4 | generation 4 | run, low quarter 4
//! ```
//!
//! All little-endian. A checksum covers what follows it in its sector, so that each sector stands
//! for itself: of a torn write one can tell which sectors arrived. The rest is payload, and follows
//! from run, offset and generation: it can be made again, and compared bit by bit.
//!
//! CRC-32C detects accidents, not tampering.

use crc_fast::{CrcAlgorithm, checksum};
use serde::{Deserialize, Serialize};

use super::combine;
pub use crate::plan::RunId;
use crate::plan::chance::{Chance, mix};

/// First bytes of a block.
pub const MAGIC: [u8; 4] = *b"IOsv";
/// Version of the format.
pub const VERSION: u8 = 1;
/// Length of the header, bytes.
pub const HEADER_BYTES: usize = 64;
/// Length of the stamp of a further sector, bytes.
pub const STAMP_BYTES: usize = 16;
/// Sizes of a sector, bytes.
pub const SECTOR_BYTES: [usize; 2] = [512, 4096];
/// Highest generation: the bit above it is the ledger's.
pub const MAX_GENERATION: u32 = (1 << 31) - 1;

/// Length of the random bytes that payload is made from.
const BASE_BYTES: usize = 16 << 10;
/// A block is filled and summed in pieces of this length, the largest sector: a checksum right
/// behind the stores that it reads waits for each of them, which costs almost half of the speed.
const PIECE_BYTES: usize = 4096;

/// What a block says of itself.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Label {
    /// Where it belongs, bytes from the beginning of the target.
    pub offset: u64,
    /// The how-manieth change of this block in its run, from 1.
    pub generation: u32,
    /// Number of the job that wrote it.
    pub writer: u16,
    /// Number of the operation of that job, 48 bits.
    pub sequence: u64,
    /// When it was written, ns since 1970.
    pub time_ns: u64,
}

/// How the blocks of one run are made and read.
#[derive(Clone, Debug)]
pub struct Format {
    run: RunId,
    block_bytes: usize,
    sector_bytes: usize,
    base: Box<[u8]>,
}

/// What one sector says of itself, its checksum being right.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stamp {
    /// The low 32 bits of its block's offset in units of 512 bytes.
    pub place: u32,
    /// Generation of its block.
    pub generation: u32,
    /// The low 32 bits of the run.
    pub run: u32,
}

impl Format {
    /// The blocks of this run, of a power of two of bytes from one sector to 1 MiB.
    pub fn new(run: RunId, block_bytes: u32, sector_bytes: u32) -> Format {
        let mut chance = Chance::new(run.0 as u64 ^ mix((run.0 >> 64) as u64));
        let base = (0..BASE_BYTES / 8).flat_map(|_| chance.bits().to_le_bytes()).collect();
        Format { run, block_bytes: block_bytes as usize, sector_bytes: sector_bytes as usize, base }
    }

    /// The run.
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

    /// Fills a buffer of the length of a block with the block of this label.
    #[inline]
    pub fn seal(&self, block: &mut [u8], label: &Label) {
        let seed = self.payload_seed(label.offset, label.generation);
        let place = place_of(label.offset);
        for (nth, piece) in block.chunks_mut(PIECE_BYTES).enumerate() {
            let first = nth * (PIECE_BYTES / self.sector_bytes);
            for (index, sector) in (first..).zip(piece.chunks_exact_mut(self.sector_bytes)) {
                let from = index * self.sector_bytes % BASE_BYTES;
                let base = &self.base[from..from + self.sector_bytes];
                combine(sector, base, mix(seed.wrapping_add(index as u64)));
                if index == 0 {
                    self.write_header(sector, label, seed);
                } else {
                    sector[4..8].copy_from_slice(&place.to_le_bytes());
                    sector[8..12].copy_from_slice(&label.generation.to_le_bytes());
                    sector[12..16].copy_from_slice(&(self.run.0 as u32).to_le_bytes());
                }
            }
            for (index, sector) in (first..).zip(piece.chunks_exact_mut(self.sector_bytes)) {
                let covered = if index == 0 { 8 } else { 4 };
                let crc = crc32c(&sector[covered..]);
                sector[covered - 4..covered].copy_from_slice(&crc.to_le_bytes());
            }
        }
    }

    /// All of a header but its checksum.
    fn write_header(&self, sector: &mut [u8], label: &Label, seed: u64) {
        sector[..4].copy_from_slice(&MAGIC);
        sector[8] = VERSION;
        sector[9] = 0;
        sector[10] = self.sector_bytes.trailing_zeros() as u8;
        sector[11] = self.block_bytes.trailing_zeros() as u8;
        sector[12..28].copy_from_slice(&self.run.0.to_le_bytes());
        sector[28..36].copy_from_slice(&label.offset.to_le_bytes());
        sector[36..40].copy_from_slice(&label.generation.to_le_bytes());
        sector[40..42].copy_from_slice(&label.writer.to_le_bytes());
        sector[42..48].copy_from_slice(&label.sequence.to_le_bytes()[..6]);
        sector[48..56].copy_from_slice(&seed.to_le_bytes());
        sector[56..64].copy_from_slice(&label.time_ns.to_le_bytes());
    }

    /// The generation of a whole and undamaged block of this run that belongs at `offset`; `None`
    /// for anything else, which [`super::classify`] then looks at closely.
    #[inline]
    pub fn generation_at(&self, block: &[u8], offset: u64) -> Option<u32> {
        let (label, run) = self.header(block)?;
        if run != self.run || label.offset != offset {
            return None;
        }
        let expected =
            Stamp { place: place_of(offset), generation: label.generation, run: self.run.0 as u32 };
        let mut further = block.chunks_exact(self.sector_bytes).skip(1);
        further.all(|sector| stamp(sector) == Some(expected)).then_some(label.generation)
    }

    /// What the header says, and of which run, if the first sector is undamaged and of this format.
    pub fn header(&self, block: &[u8]) -> Option<(Label, RunId)> {
        let sector = block.get(..self.sector_bytes)?;
        let shapes =
            [self.sector_bytes.trailing_zeros() as u8, self.block_bytes.trailing_zeros() as u8];
        if sector[..4] != MAGIC || sector[8] != VERSION || sector[10..12] != shapes {
            return None;
        }
        (crc32c(&sector[8..]) == le32(sector, 4)).then(|| unchecked_header(sector))
    }

    /// What sector `index` of a block says of itself, if it is undamaged.
    pub fn stamp_of(&self, block: &[u8], index: usize) -> Option<Stamp> {
        if index == 0 {
            let (label, run) = self.header(block)?;
            let (place, generation) = (place_of(label.offset), label.generation);
            return Some(Stamp { place, generation, run: run.0 as u32 });
        }
        stamp(&block[index * self.sector_bytes..(index + 1) * self.sector_bytes])
    }

    /// Makes a buffer unlike any block, so that a read that moves nothing is seen.
    #[inline]
    pub fn poison(&self, buffer: &mut [u8]) {
        for sector in buffer.chunks_exact_mut(self.sector_bytes) {
            sector[..8].copy_from_slice(&POISON);
        }
    }

    /// Whether a block is as [`Format::poison`] left it.
    pub fn is_poisoned(&self, block: &[u8]) -> bool {
        block.chunks_exact(self.sector_bytes).all(|sector| sector[..8] == POISON)
    }

    fn payload_seed(&self, offset: u64, generation: u32) -> u64 {
        mix(mix(self.run.0 as u64 ^ offset).wrapping_add(u64::from(generation)))
    }
}

/// In place of the checksum and what follows it.
const POISON: [u8; 8] = *b"unread!\xee";

/// What a header says, damaged or not.
pub(super) fn unchecked_header(sector: &[u8]) -> (Label, RunId) {
    let run = u128::from_le_bytes(sector[12..28].try_into().unwrap_or_default());
    let label = Label {
        offset: le64(sector, 28),
        generation: le32(sector, 36),
        writer: u16::from_le_bytes([sector[40], sector[41]]),
        sequence: le64(sector, 40) >> 16,
        time_ns: le64(sector, 56),
    };
    (label, RunId(run))
}

fn stamp(sector: &[u8]) -> Option<Stamp> {
    (crc32c(&sector[4..]) == le32(sector, 0)).then(|| Stamp {
        place: le32(sector, 4),
        generation: le32(sector, 8),
        run: le32(sector, 12),
    })
}

/// Makes of a block one that its run has not written yet: a later generation, and nothing else is
/// wrong with it. What is no block stays as it is.
pub fn forge(block: &mut [u8]) {
    const AHEAD: u32 = 1_000_000;
    if block.len() < HEADER_BYTES || block[..4] != MAGIC || block[10] > 12 || block[11] > 20 {
        return;
    }
    let (label, run) = unchecked_header(block);
    let format = Format::new(run, 1 << block[11], 1 << block[10]);
    if format.block_bytes() <= block.len() {
        let label = Label { generation: label.generation + AHEAD, ..label };
        format.seal(&mut block[..format.block_bytes()], &label);
    }
}

/// The place of a block as a stamp has it.
pub fn place_of(offset: u64) -> u32 {
    (offset / 512) as u32
}

/// CRC-32C (Castagnoli), by the processor's own instructions where it has them.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

pub(super) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}

/// Whether the first bytes that are not zero are a sector of a block of the verifier, of any run.
pub fn begins_a_block(bytes: &[u8]) -> bool {
    SECTOR_BYTES.iter().any(|size| {
        let first = bytes.chunks_exact(*size).find(|sector| sector.iter().any(|byte| *byte != 0));
        first.is_some_and(|sector| match sector[..4] == MAGIC {
            true => sector[8] == VERSION && crc32c(&sector[8..]) == le32(sector, 4),
            false => stamp(sector).is_some(),
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const RUN: RunId = RunId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

    /// First bytes of the SHA-256 of blocks of several shapes.
    const KNOWN: [u64; 5] = [
        0x6643_6fa1_0914_7d75,
        0x53cd_ab21_c2f3_63a0,
        0x0706_56df_67d4_153d,
        0xb4eb_3f6a_547e_38b9,
        0x7375_9f8a_f347_5ca9,
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
    fn a_block_tells_what_it_was_sealed_with() {
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
    fn payload_follows_from_run_offset_and_generation_alone() {
        let later = Label { time_ns: 5_000, sequence: 1, writer: 9, ..label() };
        let (one, two) = (sealed(4096, 512, &label()), sealed(4096, 512, &later));
        assert_eq!(one[HEADER_BYTES..], two[HEADER_BYTES..]);
        for other in [Label { generation: 8, ..label() }, Label { offset: 45_056, ..label() }] {
            let other = sealed(4096, 512, &other);
            let same = one.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(same < 200, "{same} bytes of 4096 are the same");
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
        // Headers and stamps are alike: 152 of 4096 bytes.
        assert!(packed as f64 > 0.96 * image.len() as f64, "{packed}");
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
                assert!(begins_a_block(&page));
                assert!(crate::content::is_ours_or_zero(&page));
            }
        }
        let mut foreign = [0; 4096];
        foreign[600..606].copy_from_slice(b"photos");
        assert!(!begins_a_block(&foreign));
        foreign[..4].copy_from_slice(&MAGIC);
        assert!(!begins_a_block(&foreign), "a magic number alone is not enough");
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
