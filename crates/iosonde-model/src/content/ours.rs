//! Recognises data in which every byte is zero or was written by this program.
//!
//! A stamp identifies the writer of the first bytes of a block only. Data of a job is therefore
//! recognised word by word: it is a base, the same in every run, XORed with a key
//! ([`super::Filler`]). The XOR of two neighbouring words cancels the key and shows their place in
//! the base; the place shows the key; and both predict every following word. Data of the verifier
//! has a checksum over each sector.
//!
//! Each sector of 512 bytes is judged alone, so that small writes and overwrites are recognised
//! too. Pieces that are not whole 8-byte words are not recognised: they count as foreign.

use std::sync::OnceLock;

use super::block::is_a_sector;
use super::{BASE_BYTES, MAGIC, STAMP_BYTES, base, check_of};

/// The smallest unit that a device writes, bytes.
const SECTOR_BYTES: usize = 512;
/// The largest sector of the verifier, bytes.
const LARGE_SECTOR_BYTES: usize = 4096;
/// Length of a word, bytes.
const WORD: usize = 8;

/// Whether this program may overwrite these bytes without consent: each is zero or was written by
/// it. They begin at a multiple of 4096 of the target.
pub fn is_ours_or_zero(block: &[u8]) -> bool {
    block.chunks(LARGE_SECTOR_BYTES).all(|large| {
        is_zero(large)
            || (large.len() == LARGE_SECTOR_BYTES && is_a_sector(large))
            || large.chunks(SECTOR_BYTES).all(is_ours_sector)
    })
}

/// Whether all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<64>();
    chunks.iter().all(|chunk| *chunk == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

fn is_ours_sector(sector: &[u8]) -> bool {
    is_zero(sector) || is_a_sector(sector) || is_filler(sector)
}

/// Whether a sector consists of zeros, stamps, and words of the base under some key.
fn is_filler(sector: &[u8]) -> bool {
    let mut rest = sector;
    while !rest.is_empty() {
        let length = if rest.starts_with(&MAGIC) {
            if has_whole_stamp(rest) { STAMP_BYTES } else { 0 }
        } else if rest.len() >= WORD && is_zero(&rest[..WORD]) {
            WORD
        } else if is_zero(rest) {
            rest.len()
        } else {
            payload_length(rest)
        };
        if length == 0 {
            return false;
        }
        rest = &rest[length..];
    }
    true
}

/// Whether the check value of a stamp matches its fields.
fn has_whole_stamp(bytes: &[u8]) -> bool {
    let field = |at: usize| bytes.get(at..at + WORD).and_then(|field| field.try_into().ok());
    let [Some(run), Some(offset), Some(last)] = [field(8), field(16), field(24)] else {
        return false;
    };
    let [run, offset, last] = [run, offset, last].map(u64::from_le_bytes);
    check_of(run, offset, last as u32) == (last >> 32) as u32
}

/// Length of the leading words of the base under one key, bytes; 0 if there are none. Compressible
/// data may end within a word, followed by zeros.
fn payload_length(bytes: &[u8]) -> usize {
    let words = bytes.as_chunks::<WORD>().0;
    let [first, second, ..] = words else { return 0 };
    let pattern = Pattern::get();
    let first = u64::from_ne_bytes(*first);
    let Some(at) = pattern.place_of(first ^ u64::from_ne_bytes(*second)) else { return 0 };
    let key = first ^ pattern.words[at];
    let base = pattern.words[at..].iter().chain(&pattern.words).map(|word| word ^ key);
    let same = words.iter().zip(base).take_while(|(word, base)| **word == base.to_ne_bytes());
    let same = same.count();
    let whole = same * WORD;
    let Some(cut) = words.get(same) else { return whole };
    // A random part that is not a whole number of words ends with bytes without a key.
    let unkeyed = pattern.words[(at + same) % pattern.words.len()].to_ne_bytes();
    let is_cut = |length: &usize| cut[..*length] == unkeyed[..*length] && is_zero(&cut[*length..]);
    if (1..WORD).any(|length| is_cut(&length)) { whole + WORD } else { whole }
}

/// The base as words, and the place of each XOR of two neighbours.
struct Pattern {
    words: Vec<u64>,
    places: Vec<(u64, u16)>,
}

impl Pattern {
    fn get() -> &'static Pattern {
        static PATTERN: OnceLock<Pattern> = OnceLock::new();
        PATTERN.get_or_init(|| {
            let base = base();
            let words: Vec<u64> =
                base.as_chunks::<WORD>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
            // A write longer than the base restarts it with a new key: the last word has no
            // neighbour. If the base repeats under the same key, the neighbour is the first word.
            let after = |at: usize| words[(at + 1) % words.len()];
            let mut places: Vec<(u64, u16)> =
                (0u16..).zip(&words).map(|(at, word)| (word ^ after(at.into()), at)).collect();
            places.sort_unstable();
            debug_assert_eq!(words.len() * WORD, BASE_BYTES);
            Pattern { words, places }
        })
    }

    fn place_of(&self, difference: u64) -> Option<usize> {
        let found = self.places.binary_search_by_key(&difference, |(each, _)| *each).ok()?;
        Some(usize::from(self.places[found].1))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::Filler;
    use super::super::block::{Format, Label, RunId};
    use super::*;
    use crate::plan::Job;
    use crate::plan::chance::Chance;
    use crate::spec::Data;

    fn written(data: Data, bytes: usize, offset: u64) -> Vec<u8> {
        let job = Job { read_percent: 0, seed: 5, data, ..Job::default() };
        let mut buffer = vec![0; bytes];
        let mut filler = Filler::new(9, &job);
        filler.fill(&mut buffer);
        filler.refresh(&mut buffer, offset);
        buffer
    }

    #[test]
    fn every_kind_of_content_is_recognised() {
        for compress_percent in [0, 10, 33, 50, 75, 90, 100] {
            for data in [
                Data { compress_percent, ..Data::default() },
                Data { compress_percent, dedupe_percent: 50, ..Data::default() },
                Data { compress_percent, constant: true, ..Data::default() },
                Data { checked: true, ..Data::default() },
            ] {
                for (bytes, offset) in [(4096, 0), (512, 1536), (65_536, 512), (1 << 20, 4096)] {
                    let buffer = written(data.clone(), bytes, offset);
                    let mut image = vec![0; (offset as usize + bytes).next_multiple_of(4096)];
                    image[offset as usize..offset as usize + bytes].copy_from_slice(&buffer);
                    assert!(is_ours_or_zero(&image), "{data:?}, {bytes} B at {offset}");
                }
            }
        }
    }

    #[test]
    fn writes_over_writes_are_recognised() {
        let mut image = vec![0; 256 << 10];
        let mut chance = Chance::new(3);
        for round in 0..400 {
            let bytes = 512 << (round % 6);
            let at = chance.below(((image.len() - bytes) / 512) as u64) as usize * 512;
            let new = written(Data::default(), bytes, at as u64);
            image[at..at + bytes].copy_from_slice(&new);
        }
        assert!(is_ours_or_zero(&image));
    }

    #[test]
    fn one_foreign_bit_anywhere_is_noticed() {
        let half = Data { compress_percent: 50, ..Data::default() };
        for (name, mut block) in [
            ("zeros", vec![0; 4096]),
            ("random", written(Data::default(), 4096, 8192)),
            ("compressible", written(half, 4096, 8192)),
            ("verifier", sealed(4096, 512)),
            ("verifier, 4 KiB", sealed(4096, 4096)),
        ] {
            assert!(is_ours_or_zero(&block), "{name}");
            for bit in 0..4096 * 8 {
                block[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_ours_or_zero(&block), "{name}: bit {bit}");
                block[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    fn sealed(block_bytes: u32, sector_bytes: u32) -> Vec<u8> {
        let mut block = vec![0; block_bytes as usize];
        let label = Label { offset: 40_960, generation: 7, ..Label::default() };
        Format::new(RunId(77), block_bytes, sector_bytes).seal(&mut block, &label);
        block
    }

    #[test]
    fn a_marker_at_the_beginning_is_not_enough() {
        let ours = written(Data::default(), 4096, 0);
        for kept in [8, 32, 40, 512, 4095] {
            let mut block = vec![0x50; 4096];
            block[..kept].copy_from_slice(&ours[..kept]);
            assert!(!is_ours_or_zero(&block), "{kept} bytes of ours");
        }
        // The tail of a block, whose stamp is gone, is still ours.
        let mut block = vec![0; 4096];
        block[512..].copy_from_slice(&ours[512..]);
        assert!(is_ours_or_zero(&block));
        assert!(!is_ours_or_zero(b"family photo"));
    }
}
