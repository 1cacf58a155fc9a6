//! Bitwise difference of a damaged block from the expected one. A checker knows offset and
//! generation, from which the payload follows. It does not know the time of the write and its
//! operation.

use serde::{Deserialize, Serialize};

use super::block::{Comparisons, Format, Label, crc32c, le32, unchecked_header};

/// Most differing bits of a block that count as bit flips.
pub const MAX_FLIPS: usize = 8;
/// Bytes of the header that a checker cannot know: writer and sequence, time.
const UNKNOWN: std::ops::Range<usize> = 48..64;
/// For one to four flipped bits in those bytes: wrong bits of the checksum that are accepted too. A
/// wrong candidate then fits by chance in about one case of a hundred.
const NEARER: [u32; 4] = [5, 3, 1, 0];
/// The same limit if one of those bytes is replaced.
const NEARER_BYTE: u32 = 3;

/// The difference between a block as found and as expected.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Damage {
    /// Generation of the block that it was compared with.
    pub generation: u32,
    /// Bits that differ.
    pub bits: u64,
    /// Their positions from the block's first bit (bit 0 of byte 0); at most the first 64.
    pub positions: Vec<u32>,
    /// First byte that differs.
    pub first_byte: u32,
    /// Bytes from the first that differs to the last.
    pub span_bytes: u32,
    /// 32 bytes around the first difference, as expected.
    pub expected: Vec<u8>,
    /// The same bytes as found.
    pub found: Vec<u8>,
    /// Offset of those bytes within the block.
    pub shown_at: u32,
}

/// Length of `expected` and `found`.
const SHOWN_BYTES: usize = 32;

/// Compares a block with the expected one of this generation at this offset. Sectors for which
/// `is_right` returns true are not compared.
pub fn compare<C: Comparisons>(
    format: &Format<C>,
    found: &[u8],
    offset: u64,
    generation: u32,
    is_right: impl Fn(usize) -> bool,
) -> Damage {
    let mut expected = found.to_vec();
    let (seen, _) = unchecked_header(found);
    format.seal(&mut expected, &Label { offset, generation, ..seen });
    let sectors = expected.chunks_exact_mut(format.sector_bytes());
    let sectors = sectors.zip(found.chunks_exact(format.sector_bytes())).enumerate();
    for (_, (expected, found)) in sectors.filter(|(index, _)| is_right(*index)) {
        expected.copy_from_slice(found);
    }
    if le32(&expected, 4) != le32(found, 4) {
        fill_unknown(&mut expected, found, format.sector_bytes());
    }
    difference(&expected, found, generation)
}

/// Finds the few flipped bits, or the one wrong byte, in the unknown bytes that explain the
/// checksum.
fn fill_unknown(expected: &mut [u8], found: &[u8], sector_bytes: usize) {
    let sector = &mut expected[..sector_bytes];
    let crc = crc32c(&sector[8..]);
    let gap = crc ^ le32(found, 4);
    // If much else differs, a few flips do not explain it.
    let differing = expected.iter().zip(found).map(|(right, wrong)| (right ^ wrong).count_ones());
    if differing.sum::<u32>() as usize > 32 + MAX_FLIPS {
        return;
    }
    // The checksum is linear: the effect of a flipped bit is independent of all other bits.
    let sector = &mut expected[..sector_bytes];
    let effects = UNKNOWN.flat_map(|byte| byte * 8..byte * 8 + 8);
    let effects: Vec<Effect> = effects
        .map(|bit| {
            flip(sector, bit);
            let of_crc = crc32c(&sector[8..]) ^ crc;
            flip(sector, bit);
            Effect { bit, of_crc }
        })
        .collect();
    let byte = || effects.chunks_exact(8).find_map(|byte| explain_by_byte(gap, byte));
    fewest_flips(gap, &effects)
        .or_else(byte)
        .into_iter()
        .flatten()
        .for_each(|bit| flip(sector, bit));
    let crc = crc32c(&sector[8..]);
    sector[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Effect of a flipped bit on the checksum.
#[derive(Clone, Copy)]
struct Effect {
    bit: usize,
    of_crc: u32,
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// The flipped bits of the unknown bytes that explain a checksum wrong by `gap`, from the
/// explanation with the fewest flips in unknown bytes and checksum together.
///
/// The fewest and not the first: the more candidates there are, the more often one fits by chance.
fn fewest_flips(gap: u32, effects: &[Effect]) -> Option<Vec<usize>> {
    let mut fewest = explain(gap, effects, 0, MAX_FLIPS as u32);
    for (flips, nearer) in (1..).zip(NEARER) {
        if fewest.as_ref().is_some_and(|fewest| fewest.flips() <= flips) {
            break;
        }
        let other = explain(gap, effects, flips, nearer);
        fewest = fewest.into_iter().chain(other).min_by_key(Explanation::flips);
    }
    Some(fewest?.bits)
}

/// Flipped bits that explain a checksum.
struct Explanation {
    /// Flipped bits of the unknown bytes.
    bits: Vec<usize>,
    /// Flipped bits of the checksum itself.
    of_checksum: u32,
}

impl Explanation {
    fn flips(&self) -> usize {
        self.bits.len() + self.of_checksum as usize
    }
}

/// The `flips` bits that bring a checksum nearest, if at most `nearer` bits of it stay wrong.
fn explain(gap: u32, effects: &[Effect], flips: usize, nearer: u32) -> Option<Explanation> {
    if flips == 0 {
        let of_checksum = gap.count_ones();
        return (of_checksum <= nearer).then(|| Explanation { bits: Vec::new(), of_checksum });
    }
    let candidates = effects.iter().enumerate().filter_map(|(index, Effect { bit, of_crc })| {
        let mut found = explain(gap ^ of_crc, &effects[index + 1..], flips - 1, nearer)?;
        found.bits.push(*bit);
        Some(found)
    });
    candidates.min_by_key(|found| found.of_checksum)
}

/// Flipped bits of one byte that explain the checksum.
fn explain_by_byte(gap: u32, byte: &[Effect]) -> Option<Vec<usize>> {
    (1u32..256).find_map(|change| {
        let flipped = || byte.iter().enumerate().filter(move |(index, _)| change >> index & 1 == 1);
        let left = flipped().fold(gap, |gap, (_, effect)| gap ^ effect.of_crc);
        let fits = left.count_ones() <= NEARER_BYTE;
        fits.then(|| flipped().map(|(_, effect)| effect.bit).collect())
    })
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

    /// Compares with this generation and nothing else.
    fn compare(format: &Format, found: &[u8], offset: u64, generation: u32) -> Damage {
        super::compare(format, found, offset, generation, |_| false)
    }

    const LABEL: Label =
        Label { offset: 8192, generation: 3, writer: 2, sequence: 77, time_ns: 1_700_000_000_000 };

    fn sealed(format: &Format) -> Vec<u8> {
        let mut block = vec![0; format.block_bytes()];
        format.seal(&mut block, &LABEL);
        block
    }

    fn flip_all(block: &mut [u8], positions: &[u32]) {
        for at in positions {
            flip(block, *at as usize);
        }
    }

    #[test]
    fn every_single_flip_is_located_also_where_the_checker_knows_nothing() {
        let format = Format::new(RunId(5), 1024, 512);
        let block = sealed(&format);
        for at in 0..1024 * 8 {
            let mut found = block.clone();
            flip_all(&mut found, &[at]);
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
            flip_all(&mut found, &positions);
            assert_eq!(compare(&format, &found, 8192, 3).positions, positions);
        }
        // In the checksum and the time together.
        let both = [33, 40, 450, 500];
        let mut found = block.clone();
        flip_all(&mut found, &both);
        assert!(compare(&format, &found, 8192, 3).bits <= MAX_FLIPS as u64);
    }

    #[test]
    fn no_more_flips_are_found_than_there_are() {
        let format = Format::new(RunId(7), 512, 512);
        let block = sealed(&format);
        let mut chance = Chance::new(2);
        for _ in 0..20_000 {
            // One flip in the bytes that the checker knows, the others in the unknown bytes.
            let known = chance.below(48 * 8 - 64) as u32 + 64;
            let unknown = (0..1 + chance.below(2)).map(|_| 48 * 8 + chance.below(16 * 8) as u32);
            let positions: Vec<u32> = std::iter::once(known).chain(unknown).collect();
            let mut found = block.clone();
            flip_all(&mut found, &positions);
            let damage = compare(&format, &found, 8192, 3);
            assert!(damage.bits <= positions.len() as u64, "{positions:?}: {damage:?}");
        }
    }

    #[test]
    fn flips_and_a_wrong_byte_are_located_where_the_checker_knows_nothing() {
        let format = Format::new(RunId(8), 4096, 4096);
        let block = sealed(&format);
        let four = [48 * 8 + 1, 52 * 8 + 7, 57 * 8, 63 * 8 + 2];
        for count in 1..=4 {
            let mut found = block.clone();
            flip_all(&mut found, &four[..count]);
            assert_eq!(compare(&format, &found, 8192, 3).positions, four[..count]);
        }
        for (at, change) in [(49, 0xff), (54, 0x1f), (56, 0xef), (63, 0x7c)] {
            let mut found = block.clone();
            found[at] ^= change;
            let damage = compare(&format, &found, 8192, 3);
            assert_eq!((damage.first_byte, damage.span_bytes), (at as u32, 1));
            assert_eq!(damage.bits, u64::from(change.count_ones()));
        }
    }

    #[test]
    fn a_flip_is_one_beside_sectors_of_another_write_that_may_be_there() {
        let format = Format::new(RunId(9), 4096, 512);
        let mut found = sealed(&format);
        let mut other = found.clone();
        format.seal(&mut other, &Label { generation: 4, ..LABEL });
        found[2048..].copy_from_slice(&other[2048..]);
        flip_all(&mut found, &[700 * 8]);
        let damage = super::compare(&format, &found, 8192, 3, |index| index != 1);
        assert_eq!((damage.bits, &damage.positions[..]), (1, &[700 * 8][..]));
        assert!(compare(&format, &found, 8192, 3).bits > 1000);
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
