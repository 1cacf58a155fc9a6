//! A file of `verify write`, damaged by the test: `verify check` finds every possible damage among
//! the sectors of a block.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

use iosonde_model::plan::chance::Chance;

use super::program::Place;
use super::verify::classes;

/// A file written once by two jobs, and its ledger.
struct Written {
    place: Place,
    bytes: Vec<u8>,
    block: usize,
}

impl Written {
    /// `blocks` blocks of this length for each job.
    fn new(block: usize, blocks: usize) -> Written {
        let place = Place::new();
        place.hole("data", (2 * blocks * block) as u64);
        let words = format!(
            "verify write data --ledger ledger --bs {block} --loops 1 --numjobs 2 \
             --verify-sectors 1:1 --iodepth 1 --randseed 3 --eta-interval 0"
        );
        place.iosonde(&words).end().exits(0);
        let bytes = fs::read(place.work().join("data")).unwrap();
        Written { place, bytes, block }
    }

    /// Checks the file with this damage. Returns the failed blocks by class.
    fn damaged(&self, damage: impl FnOnce(&mut Vec<u8>)) -> BTreeMap<String, u64> {
        let mut bytes = self.bytes.clone();
        damage(&mut bytes);
        assert_ne!(bytes, self.bytes);
        fs::write(self.place.work().join("data"), bytes).unwrap();
        self.check(4)
    }

    fn check(&self, exit: i32) -> BTreeMap<String, u64> {
        let words = "verify check data --ledger ledger --eta-interval 0";
        self.place.iosonde(words).end().exits(exit);
        let mut all = BTreeMap::new();
        for (class, count) in classes(&self.place) {
            *all.entry(class).or_default() += count;
        }
        all
    }

    /// Byte range of a block.
    fn at(&self, block: usize) -> Range<usize> {
        block * self.block..(block + 1) * self.block
    }
}

/// Swaps two pieces.
fn swap(bytes: &mut [u8], piece: usize, one: usize, other: usize) {
    let (low, high) = (one.min(other) * piece, one.max(other) * piece);
    let (front, back) = bytes.split_at_mut(high);
    front[low..low + piece].swap_with_slice(&mut back[..piece]);
}

fn only(class: &str, count: usize) -> BTreeMap<String, u64> {
    BTreeMap::from([(class.to_owned(), count as u64)])
}

/// All pairs of pieces of a block, each pair in a separate block; and each pair alone also gives
/// exit code 4.
fn all_pairs(block: usize, piece: usize) {
    let pieces = block / piece;
    let pairs: Vec<(usize, usize)> =
        (0..pieces).flat_map(|one| (one + 1..pieces).map(move |other| (one, other))).collect();
    let written = Written::new(block, pairs.len().div_ceil(2));
    assert_eq!(written.check(0), BTreeMap::new(), "undamaged");
    let swapped = written.damaged(|bytes| {
        for (index, (one, other)) in pairs.iter().enumerate() {
            swap(&mut bytes[written.at(index)], piece, *one, *other);
        }
    });
    assert_eq!(swapped, only("swapped", pairs.len()));
    let copied = written.damaged(|bytes| {
        for (index, (one, other)) in pairs.iter().enumerate() {
            let from = written.at(index).start + one * piece;
            bytes.copy_within(from..from + piece, written.at(index).start + other * piece);
        }
    });
    assert_eq!(copied, only("duplicated", pairs.len()));
    for (one, other) in [pairs[0], pairs[pairs.len() / 2], pairs[pairs.len() - 1]] {
        let alone = written.damaged(|bytes| swap(bytes, piece, one, other));
        assert_eq!(alone, only("swapped", 1), "{one} {other}");
    }
}

#[test]
fn all_pairs_of_sectors_of_a_block_of_4_kib() {
    all_pairs(4096, 512);
}

#[test]
fn all_pairs_of_pages_of_a_block_of_64_kib() {
    all_pairs(65_536, 4096);
}

#[test]
fn all_pairs_of_sectors_of_a_block_of_16_kib() {
    all_pairs(16_384, 512);
}

#[test]
fn sectors_of_every_length_of_a_block() {
    // The other lengths have separate tests.
    for power in [10, 11, 13, 15, 17, 18, 19, 20] {
        let written = Written::new(1 << power, 3);
        let (block, sectors) = (written.block, written.block / 512);
        let mut chance = Chance::new(power);
        let mut below = |bound: usize| chance.below(bound as u64) as usize;
        // Within a block of job 0; between two of its blocks; between the last of job 0 and the
        // first of job 1.
        let within = written.damaged(|bytes| {
            let one = below(sectors);
            swap(bytes, 512, one, (one + 1 + below(sectors - 1)) % sectors);
        });
        assert_eq!(within, only("swapped", 1), "{block}");
        let between = written.damaged(|bytes| {
            swap(bytes, 512, below(sectors), sectors + below(sectors));
        });
        assert_eq!(between, only("misdirected", 2), "{block}");
        let jobs = written.damaged(|bytes| swap(bytes, 512, 3 * sectors - 1, 3 * sectors));
        assert_eq!(jobs, only("misdirected", 2), "{block}");
        let torn = written.damaged(|bytes| {
            let kept = (1 + below(sectors - 1)) * 512;
            bytes[kept..block].fill(0);
        });
        assert_eq!(torn, only("torn", 1), "{block}");
        let flipped = written.damaged(|bytes| {
            for each in 0..6 {
                bytes[each * block + below(block)] ^= 1 << below(8);
            }
        });
        assert_eq!(flipped, only("bit-flip", 6), "{block}");
    }
}
