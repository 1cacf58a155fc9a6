//! Alterations of the bytes of a write. Each function returns the range that has changed.

use std::ops::Range;

use iosonde_model::plan::chance::Chance;

/// Flips this many distinct bits of one block.
pub(super) fn flip(bytes: &mut [u8], block: usize, bits: u8, chance: &mut Chance) -> Range<usize> {
    let Range { start, end } = piece(bytes.len(), block, chance);
    let mut flipped = Vec::with_capacity(usize::from(bits));
    let wanted = usize::from(bits).min(8 * (end - start));
    while flipped.len() < wanted {
        let bit = 8 * start + chance.below(8 * (end - start) as u64) as usize;
        if !flipped.contains(&bit) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            flipped.push(bit);
        }
    }
    let first = flipped.iter().min().map_or(start, |bit| bit / 8);
    let last = flipped.iter().max().map_or(first, |bit| bit / 8 + 1);
    first..last
}

/// Changes one byte.
pub(super) fn byte(bytes: &mut [u8], chance: &mut Chance) -> Range<usize> {
    let at = chance.below(bytes.len() as u64) as usize;
    bytes[at] ^= 1 + chance.below(255) as u8;
    at..at + 1
}

/// Fills one sector with zeros.
pub(super) fn zero(bytes: &mut [u8], sector: usize, chance: &mut Chance) -> Range<usize> {
    let range = piece(bytes.len(), sector, chance);
    bytes[range.clone()].fill(0);
    range
}

/// Changes every byte of an aligned run of 32 to 256 bytes.
pub(super) fn corrupt(bytes: &mut [u8], chance: &mut Chance) -> Range<usize> {
    let range = piece(bytes.len(), 32 << chance.below(4), chance);
    for byte in &mut bytes[range.clone()] {
        // Never 0, so that no byte keeps its value by chance.
        *byte ^= 1 + chance.below(255) as u8;
    }
    range
}

/// Exchanges two sectors; there must be at least two.
pub(super) fn swap(bytes: &mut [u8], sector: usize, chance: &mut Chance) -> Range<usize> {
    let [low, high] = two(bytes, sector, chance);
    let (front, back) = bytes.split_at_mut(high);
    front[low..low + sector].swap_with_slice(&mut back[..sector]);
    low..high + sector
}

/// Copies one sector over another; there must be at least two.
pub(super) fn copy(bytes: &mut [u8], sector: usize, chance: &mut Chance) -> Range<usize> {
    let [low, high] = two(bytes, sector, chance);
    let (from, to) = if chance.below(2) == 0 { (low, high) } else { (high, low) };
    bytes.copy_within(from..from + sector, to);
    to..to + sector
}

/// Moves each sector but the last to the place of the next; the first stays, too.
pub(super) fn shift(bytes: &mut [u8], sector: usize) -> Range<usize> {
    let end = bytes.len() / sector * sector;
    bytes.copy_within(..end - sector, sector);
    sector..end
}

/// Offsets of two different whole sectors, in ascending order.
fn two(bytes: &[u8], sector: usize, chance: &mut Chance) -> [usize; 2] {
    let sectors = (bytes.len() / sector) as u64;
    let one = chance.below(sectors);
    let other = (one + 1 + chance.below(sectors - 1)) % sectors;
    [one.min(other), one.max(other)].map(|index| index as usize * sector)
}

/// Replaces one block by what the forger makes of it.
pub(super) fn forge(
    bytes: &mut [u8],
    block: usize,
    forger: fn(&mut [u8]),
    chance: &mut Chance,
) -> Range<usize> {
    let range = piece(bytes.len(), block, chance);
    forger(&mut bytes[range.clone()]);
    range
}

/// Range of a random piece of this length; the last piece may be shorter.
fn piece(length: usize, each: usize, chance: &mut Chance) -> Range<usize> {
    let start = chance.below(length.div_ceil(each) as u64) as usize * each;
    start..length.min(start + each)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 4096;

    /// Alters a write of two blocks with many seeds, and passes the changed bytes to `expect`.
    fn check(
        alter: impl Fn(&mut [u8], &mut Chance) -> Range<usize>,
        expect: impl Fn(&[u8], usize),
    ) {
        for seed in 0..300 {
            let before: Vec<u8> = (0..2 * BLOCK).map(|at| (at % 251) as u8 | 1).collect();
            let mut after = before.clone();
            let range = alter(&mut after, &mut Chance::new(seed));
            assert_eq!(before[..range.start], after[..range.start]);
            assert_eq!(before[range.end..], after[range.end..]);
            let xor = before.iter().zip(&after).map(|(a, b)| a ^ b);
            let changed: Vec<u8> = xor.skip(range.start).take(range.len()).collect();
            assert!(
                changed.first() != Some(&0) && changed.last() != Some(&0),
                "as tight as can be"
            );
            expect(&changed, range.start);
        }
    }

    #[test]
    fn so_many_bits_of_one_block_are_flipped() {
        for bits in 1..=8 {
            check(
                |bytes, chance| flip(bytes, BLOCK, bits, chance),
                |changed, start| {
                    let count: u32 = changed.iter().map(|byte| byte.count_ones()).sum();
                    assert_eq!(count, u32::from(bits));
                    assert_eq!(start / BLOCK, (start + changed.len() - 1) / BLOCK);
                },
            );
        }
    }

    #[test]
    fn sectors_of_one_write_stand_at_the_place_of_others() {
        let numbered: Vec<u8> = (0..8u8).flat_map(|sector| [sector + 1; 512]).collect();
        for seed in 0..100 {
            let sectors = |alter: fn(&mut [u8], usize, &mut Chance) -> Range<usize>| {
                let mut bytes = numbered.clone();
                let range = alter(&mut bytes, 512, &mut Chance::new(seed));
                assert_eq!(bytes[..range.start], numbered[..range.start]);
                assert_eq!(bytes[range.end..], numbered[range.end..]);
                bytes.chunks_exact(512).map(|sector| sector[0]).collect::<Vec<u8>>()
            };
            let mut swapped = sectors(swap);
            assert_eq!(
                swapped.iter().zip(1..).filter(|(found, right)| **found != *right).count(),
                2
            );
            swapped.sort_unstable();
            assert!(swapped.into_iter().eq(1..=8));
            let copied = sectors(copy);
            assert_eq!(
                copied.iter().zip(1..).filter(|(found, right)| **found != *right).count(),
                1
            );
            let shifted = sectors(|bytes, sector, _| shift(bytes, sector));
            assert_eq!(shifted, [1, 1, 2, 3, 4, 5, 6, 7]);
        }
    }

    #[test]
    fn one_byte_one_sector_or_one_run_is_changed() {
        check(byte, |changed, _| assert_eq!(changed.len(), 1));
        check(
            |bytes, chance| zero(bytes, 512, chance),
            |changed, start| {
                assert_eq!((changed.len(), start % 512), (512, 0));
            },
        );
        check(corrupt, |changed, start| {
            assert!([32, 64, 128, 256].contains(&changed.len()));
            assert!(start.is_multiple_of(changed.len()));
            assert!(!changed.contains(&0));
        });
        check(
            |bytes, chance| forge(bytes, BLOCK, |block| block.fill(0), chance),
            |changed, start| assert_eq!((changed.len(), start % BLOCK), (BLOCK, 0)),
        );
    }
}
