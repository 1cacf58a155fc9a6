//! How does a damaged block differ from what should be there? Bit by bit, as far as that can be
//! known: a checker knows place and generation, and payload follows from them, but it does not know
//! when a block was written and by which operation.

use serde::{Deserialize, Serialize};

use super::block::{Format, Label, crc32c, le32, unchecked_header};

/// Differing bits of a block that are still called bit flips.
pub const MAX_FLIPS: usize = 8;
/// Bytes of the header that a checker cannot know: writer and sequence, time.
const UNKNOWN: [std::ops::Range<usize>; 2] = [40..48, 56..64];
/// For one, two and three flipped bits in those: the bits by which the checksum may be wrong too, so
/// that a wrong candidate fits in less than one case of a hundred.
const NEARER: [usize; 3] = [5, 3, 1];

/// The difference between a block as found and as it should be.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Damage {
    /// Generation of the block that it was compared with.
    pub generation: u32,
    /// Bits that differ.
    pub bits: u64,
    /// Where they are, counted from the block's first bit (bit 0 of byte 0); at most the first 64.
    pub positions: Vec<u32>,
    /// First byte that differs.
    pub first_byte: u32,
    /// Bytes from the first that differs to the last.
    pub span_bytes: u32,
    /// 32 bytes around the first difference, as they should be.
    pub expected: Vec<u8>,
    /// The same bytes as found.
    pub found: Vec<u8>,
    /// Where those bytes begin, within the block.
    pub shown_at: u32,
}

/// Length of the bytes that are shown.
const SHOWN_BYTES: usize = 32;

/// Compares a block with the one that has this generation here.
pub fn compare(format: &Format, found: &[u8], offset: u64, generation: u32) -> Damage {
    let mut expected = found.to_vec();
    let (seen, _) = unchecked_header(found);
    format.seal(&mut expected, &Label { offset, generation, ..seen });
    if le32(&expected, 4) != le32(found, 4) {
        mend_unknown(&mut expected, found, format.sector_bytes());
    }
    difference(&expected, found, generation)
}

/// Looks for the few flipped bits in what cannot be known that explain the checksum.
fn mend_unknown(expected: &mut [u8], found: &[u8], sector_bytes: usize) {
    let wanted = le32(found, 4);
    let distance = |sector: &[u8]| (crc32c(&sector[8..]) ^ wanted).count_ones() as usize;
    let sector = &mut expected[..sector_bytes];
    // A checksum that is itself damaged is near the right one by few bits, and by chance it is
    // near a wrong one: the more candidates, the nearer it must be.
    if distance(sector) <= MAX_FLIPS {
        return;
    }
    // Where much else differs, no few flips explain it.
    let differing = expected.iter().zip(found).map(|(right, wrong)| (right ^ wrong).count_ones());
    if differing.sum::<u32>() as usize > 32 + MAX_FLIPS {
        return;
    }
    let sector = &mut expected[..sector_bytes];
    let bits: Vec<usize> = UNKNOWN.into_iter().flatten().flat_map(|b| b * 8..b * 8 + 8).collect();
    for (flips, nearer) in (1..).zip(NEARER) {
        if search(sector, &bits, flips, &|sector| distance(sector) <= nearer) {
            break;
        }
    }
    let crc = crc32c(&sector[8..]);
    sector[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Flips this many of the bits so that it fits; leaves all as they were where nothing does.
fn search(sector: &mut [u8], bits: &[usize], flips: usize, fits: &impl Fn(&[u8]) -> bool) -> bool {
    if flips == 0 {
        return fits(sector);
    }
    for (index, bit) in bits.iter().enumerate() {
        sector[bit / 8] ^= 1 << (bit % 8);
        if search(sector, &bits[index + 1..], flips - 1, fits) {
            return true;
        }
        sector[bit / 8] ^= 1 << (bit % 8);
    }
    false
}

fn difference(expected: &[u8], found: &[u8], generation: u32) -> Damage {
    let mut damage = Damage { generation, ..Damage::default() };
    let mut last = 0;
    for (at, (right, wrong)) in expected.iter().zip(found).enumerate() {
        let differing = right ^ wrong;
        if differing == 0 {
            continue;
        }
        if damage.bits == 0 {
            damage.first_byte = at as u32;
        }
        last = at as u32;
        damage.bits += u64::from(differing.count_ones());
        let positions = (0..8).filter(|bit| differing >> bit & 1 == 1);
        let room = 64 - damage.positions.len();
        damage.positions.extend(positions.map(|bit| at as u32 * 8 + bit).take(room));
    }
    if damage.bits > 0 {
        damage.span_bytes = last - damage.first_byte + 1;
        let from = (damage.first_byte as usize / 16 * 16).min(found.len() - SHOWN_BYTES);
        damage.shown_at = from as u32;
        damage.expected = expected[from..from + SHOWN_BYTES].to_vec();
        damage.found = found[from..from + SHOWN_BYTES].to_vec();
    }
    damage
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::block::RunId;
    use crate::plan::chance::Chance;

    const LABEL: Label =
        Label { offset: 8192, generation: 3, writer: 2, sequence: 77, time_ns: 1_700_000_000_000 };

    fn sealed(format: &Format) -> Vec<u8> {
        let mut block = vec![0; format.block_bytes()];
        format.seal(&mut block, &LABEL);
        block
    }

    fn flip(block: &mut [u8], positions: &[u32]) {
        for at in positions {
            block[*at as usize / 8] ^= 1 << (at % 8);
        }
    }

    #[test]
    fn every_single_flip_is_located_also_where_the_checker_knows_nothing() {
        let format = Format::new(RunId(5), 1024, 512);
        let block = sealed(&format);
        for at in 0..1024 * 8 {
            let mut found = block.clone();
            flip(&mut found, &[at]);
            let damage = compare(&format, &found, 8192, 3);
            assert_eq!(damage.positions, [at]);
            assert_eq!((damage.bits, damage.first_byte, damage.span_bytes), (1, at / 8, 1));
        }
    }

    #[test]
    fn several_flips_are_located() {
        let format = Format::new(RunId(6), 4096, 512);
        let block = sealed(&format);
        let mut chance = Chance::new(1);
        for _ in 0..300 {
            let count = 1 + chance.below(8);
            let mut positions: Vec<u32> =
                (0..count).map(|_| chance.below(4096 * 8) as u32).collect();
            positions.sort_unstable();
            positions.dedup();
            let mut found = block.clone();
            flip(&mut found, &positions);
            assert_eq!(compare(&format, &found, 8192, 3).positions, positions);
        }
        // In the checksum and the time together.
        let both = [33, 40, 450, 500];
        let mut found = block.clone();
        flip(&mut found, &both);
        assert!(compare(&format, &found, 8192, 3).bits <= MAX_FLIPS as u64);
    }

    #[test]
    fn a_run_of_bytes_is_shown_where_it_is() {
        let format = Format::new(RunId(7), 4096, 512);
        let mut found = sealed(&format);
        found[1000..1100].fill(0xaa);
        let damage = compare(&format, &found, 8192, 3);
        assert!((1000..1002).contains(&damage.first_byte) && damage.span_bytes <= 100);
        assert!(damage.bits > 200 && damage.positions.len() == 64);
        assert_eq!((damage.shown_at, damage.found.len()), (992, 32));
        assert_eq!(damage.found[8..], [0xaa; 24]);
        assert_eq!(damage.found[..8], damage.expected[..8]);
    }
}
