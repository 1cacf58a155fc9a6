//! Classifies wrong blocks: compares the data read back with what the ledger permits.

use serde::{Deserialize, Serialize};

use super::block::{Comparisons, Format, Label, RunId, Stamp, begins_a_block, unchecked_header};
use super::comparisons::Comparison;
use super::damage::{Damage, MAX_FLIPS, compare};
use super::ledger::Allowed;

words! {
    /// Kind of damage of a block.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Class {
        /// An older generation of this run: an acknowledged write is missing.
        Stale => "stale",
        /// Zeros where data was written.
        Lost => "lost",
        /// A block of an earlier run: the write of this run is missing.
        OldRun => "old-run",
        /// A block of this run that belongs elsewhere, or sectors of one.
        Misdirected => "misdirected",
        /// A generation that was never written: verifier or ledger is wrong, or the data was
        /// forged.
        Phantom => "phantom",
        /// Sectors of different writes in one block.
        Torn => "torn",
        /// Sectors of the block were exchanged.
        Swapped => "swapped",
        /// Sectors of the block are in the place of others, and also in their own.
        Duplicated => "duplicated",
        /// Sectors of the block, or of a row of blocks, are displaced to lower or higher offsets.
        Shifted => "shifted",
        /// Up to eight bits differ.
        BitFlip => "bit-flip",
        /// Part of the block is not what was written.
        Corrupt => "corrupt",
        /// No written data is recognised.
        Garbage => "garbage",
        /// The read was acknowledged but did not fill the buffer, or not all of it.
        Unread => "unread",
    }
}

/// Content of a sector.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sector {
    /// A sector of this run and this generation, in its place.
    Ours(u32),
    /// A sector of this block that belongs this many sectors later; if negative, earlier.
    Moved(i32),
    /// A sector of this run that belongs to another block.
    Elsewhere,
    /// A sector of another run, or of another block length or format version.
    OldRun,
    Zeros,
    /// The read did not fill it.
    Unread,
    /// Its checksum is wrong.
    Damaged,
}

/// A sector that belongs to another block.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Stray {
    /// Number of the sector in whose place it was found.
    pub at: u32,
    /// Offset of the block to which it belongs, bytes.
    pub offset: u64,
    /// Its number in that block.
    pub index: u32,
}

/// A block with wrong content.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Misfit {
    pub class: Class,
    /// Label of the block; if the header is damaged, as found there.
    pub label: Option<Label>,
    /// Run of the block, if it is another one.
    pub run: Option<RunId>,
    /// Runs of equal sectors, where they differ: first sector, number of sectors, content.
    pub sectors: Vec<(u32, u32, Sector)>,
    /// The first sector that belongs to another block, if only a part of the block does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stray: Option<Stray>,
    /// The difference from the expected block, where bits differ.
    pub damage: Option<Damage>,
}

/// Examines a block that was read at an offset. Returns `None` if its content is permitted.
pub fn classify<C: Comparisons>(
    format: &Format<C>,
    block: &[u8],
    offset: u64,
    allowed: Allowed<'_>,
) -> Option<Misfit> {
    let misfit = |class| Misfit {
        class,
        label: None,
        run: None,
        sectors: Vec::new(),
        stray: None,
        damage: None,
    };
    if let Some((label, run)) = format.whole(block) {
        let class = class_of_whole(format, label, run, offset, allowed)?;
        let other = (run != format.run()).then_some(run);
        return Some(Misfit { label: Some(label), run: other, ..misfit(class) });
    }
    // Blocks without a requirement come here in the loop of a job, so nothing is allocated before.
    if sectors(format, block, offset).all(|seen| may_stand::<C>(seen.sector, allowed)) {
        return None;
    }
    let seen: Vec<Seen> = sectors(format, block, offset).collect();
    let has = |sector: Sector| seen.iter().any(|seen| seen.sector == sector);
    let every = |sector: Sector| seen.iter().all(|seen| seen.sector == sector);
    if every(Sector::Unread) {
        return Some(misfit(Class::Unread));
    }
    let header = format.header(block);
    let found = Misfit {
        label: header.map(|(label, _)| label),
        run: header.map(|(_, run)| run).filter(|run| *run != format.run()),
        sectors: runs(&seen),
        stray: (0..).zip(&seen).find_map(|(at, seen)| seen.stray(at)),
        ..misfit(Class::Torn)
    };
    if has(Sector::Unread) {
        return Some(Misfit { class: Class::Unread, ..found });
    }
    if let Some(class) = class_of_displaced(&seen, offset, format.sector_bytes()) {
        return Some(Misfit { class, ..found });
    }
    if every(Sector::Zeros) {
        return Some(misfit(Class::Lost));
    }
    // If the earlier run had longer sectors, each part of them looks damaged.
    if every(Sector::OldRun) || every(Sector::Damaged) && begins_a_block(block) {
        return Some(Misfit { class: Class::OldRun, ..found });
    }
    if !has(Sector::Damaged) {
        return Some(found);
    }
    let damage = nearest(format, block, offset, allowed, &seen);
    let whole_bytes = block.len() as u64;
    let none_is_ours = !seen.iter().any(|seen| matches!(seen.sector, Sector::Ours(_)));
    let class = match &damage {
        Some(damage) if damage.bits <= MAX_FLIPS as u64 => Class::BitFlip,
        // In random bytes half of the bits differ, in similar data fewer.
        Some(damage) if none_is_ours && damage.bits > whole_bytes * 8 * 2 / 5 => Class::Garbage,
        Some(_) => Class::Corrupt,
        None => Class::Garbage,
    };
    let label =
        found.label.or_else(|| (class != Class::Garbage).then(|| unchecked_header(block).0));
    Some(Misfit { class, label, damage: damage.filter(|_| class != Class::Garbage), ..found })
}

fn class_of_whole<C: Comparisons>(
    format: &Format<C>,
    label: Label,
    run: RunId,
    offset: u64,
    allowed: Allowed<'_>,
) -> Option<Class> {
    if run != format.run() && C::are_made(Comparison::Run) {
        return allowed.requires().then_some(Class::OldRun);
    }
    if label.offset != offset && C::are_made(Comparison::Offset) {
        return Some(Class::Misdirected);
    }
    if allowed.permits::<C>(label.generation) {
        return None;
    }
    Some(if label.generation > allowed.high { Class::Phantom } else { Class::Stale })
}

#[derive(Clone, Copy)]
struct Seen {
    sector: Sector,
    stamp: Option<Stamp>,
}

impl Seen {
    fn stray(&self, at: u32) -> Option<Stray> {
        let Stamp { offset, index, .. } =
            self.stamp.filter(|_| self.sector == Sector::Elsewhere)?;
        Some(Stray { at, offset, index })
    }
}

fn sectors<'a, C: Comparisons>(
    format: &'a Format<C>,
    block: &'a [u8],
    offset: u64,
) -> impl Iterator<Item = Seen> + 'a {
    let parts = block.chunks_exact(format.sector_bytes()).enumerate();
    parts.map(move |(index, bytes)| {
        let stamp = format.stamp(bytes);
        let sector = match stamp {
            Some(stamp) => place_of(format, stamp, index as u32, offset),
            None if format.is_poisoned(bytes) => Sector::Unread,
            None if bytes.iter().all(|byte| *byte == 0) => Sector::Zeros,
            None if begins_a_block(bytes) => Sector::OldRun,
            None => Sector::Damaged,
        };
        Seen { sector, stamp }
    })
}

/// Classifies an undamaged sector at this place.
fn place_of<C: Comparisons>(format: &Format<C>, stamp: Stamp, index: u32, offset: u64) -> Sector {
    if stamp.run != format.folded_run() && C::are_made(Comparison::Run) {
        Sector::OldRun
    } else if stamp.offset != offset && C::are_made(Comparison::Offset) {
        Sector::Elsewhere
    } else if stamp.index != index && C::are_made(Comparison::Index) {
        Sector::Moved(stamp.index as i32 - index as i32)
    } else {
        Sector::Ours(stamp.generation)
    }
}

/// Whether a sector is permitted in a mixed block: sectors of this run only during a pending
/// change.
fn may_stand<C: Comparisons>(sector: Sector, allowed: Allowed<'_>) -> bool {
    // Before the first required change, any content is right.
    let from_before = !allowed.requires();
    match sector {
        Sector::Ours(generation) => {
            let may_differ = allowed.is_pending() || !C::are_made(Comparison::Generation);
            may_differ && allowed.permits::<C>(generation)
        }
        Sector::Moved(_) | Sector::Elsewhere | Sector::Unread => false,
        Sector::Zeros => allowed.zeros || from_before,
        Sector::OldRun | Sector::Damaged => from_before,
    }
}

/// Class of a block in which undamaged sectors of this run are displaced.
fn class_of_displaced(seen: &[Seen], offset: u64, sector_bytes: usize) -> Option<Class> {
    let displaced: Vec<(usize, Stamp)> = (0..)
        .zip(seen)
        .filter(|(_, seen)| matches!(seen.sector, Sector::Moved(_) | Sector::Elsewhere))
        .filter_map(|(at, seen)| Some((at, seen.stamp?)))
        .collect();
    let (first_at, first) = *displaced.first()?;
    let is_within = displaced.iter().all(|(_, stamp)| stamp.offset == offset);
    // Displacement of a sector to higher offsets, bytes.
    let late = |at: usize, stamp: Stamp| {
        let (here, home) = (at * sector_bytes, stamp.index as usize * sector_bytes);
        offset.wrapping_add(here as u64).wrapping_sub(stamp.offset.wrapping_add(home as u64))
    };
    let by = late(first_at, first);
    let together = displaced.iter().all(|(at, stamp)| late(*at, *stamp) == by);
    if !is_within {
        let has_own = displaced.iter().any(|(_, stamp)| stamp.offset == offset);
        return Some(if together && has_own { Class::Shifted } else { Class::Misdirected });
    }
    let stands = |at: u32| seen.get(at as usize).and_then(|seen| seen.stamp);
    let is_swapped = displaced
        .iter()
        .all(|(at, stamp)| stands(stamp.index).is_some_and(|other| other.index as usize == *at));
    // Each displaced sector is also found in its own place.
    let is_copy = displaced.iter().all(|(_, stamp)| stands(stamp.index) == Some(*stamp));
    Some(match (is_swapped, is_copy) {
        (true, _) => Class::Swapped,
        (false, true) => Class::Duplicated,
        (false, false) => Class::Shifted,
    })
}

/// Merges equal neighbours.
fn runs(sectors: &[Seen]) -> Vec<(u32, u32, Sector)> {
    let mut runs: Vec<(u32, u32, Sector)> = Vec::new();
    for (index, seen) in (0..).zip(sectors) {
        match runs.last_mut() {
            Some((_, count, last)) if *last == seen.sector => *count += 1,
            _ => runs.push((index, 1, seen.sector)),
        }
    }
    runs
}

/// Most recent generations to compare with, besides those that the sectors state.
const CANDIDATES: u32 = 4;

/// Ratio of differing bits from which a generation that is not permitted is clearly nearer.
const CLEARLY: u64 = 4;

/// The difference from the nearest generation of those that are plausible.
fn nearest<C: Comparisons>(
    format: &Format<C>,
    block: &[u8],
    offset: u64,
    allowed: Allowed<'_>,
    sectors: &[Seen],
) -> Option<Damage> {
    let named = sectors.iter().filter_map(|seen| match seen.sector {
        Sector::Ours(generation) => Some(generation),
        _ => None,
    });
    let last = allowed.high.max(allowed.low);
    let recent = last.saturating_sub(CANDIDATES - 1).max(1)..=last;
    let outcomes = allowed.outcomes.iter().copied();
    let named: Vec<u32> = named.collect();
    let all = named.iter().copied().chain(recent).chain(outcomes);
    let mut generations: Vec<u32> = all.filter(|one| *one > 0).collect();
    generations.sort_unstable();
    generations.dedup();
    let is_likely =
        |generation: u32| named.contains(&generation) || allowed.permits::<C>(generation);
    let is_right = |index: usize| match sectors[index].sector {
        Sector::Ours(generation) => allowed.permits::<C>(generation),
        _ => false,
    };
    let compared = generations.into_iter().map(|one| compare(format, block, offset, one, is_right));
    // Random bytes differ from each of them in half the bits: chance must not choose one that the
    // ledger does not permit and no sector states.
    let (likely, others): (Vec<Damage>, Vec<Damage>) =
        compared.partition(|damage| is_likely(damage.generation));
    let least = |all: Vec<Damage>| all.into_iter().min_by_key(|damage| damage.bits);
    match (least(likely), least(others)) {
        (Some(likely), Some(other)) if other.bits < likely.bits / CLEARLY => Some(other),
        (likely, other) => likely.or(other),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const HERE: u64 = 16_384;

    fn format() -> Format {
        Format::new(RunId(77), 4096, 512)
    }

    fn at(offset: u64, generation: u32) -> Vec<u8> {
        let mut block = vec![0; 4096];
        let label = Label { offset, generation, writer: 1, sequence: 9, time_ns: 1_000 };
        format().seal(&mut block, &label);
        block
    }

    fn must_be(generation: u32) -> Allowed<'static> {
        Allowed { low: generation, high: generation, zeros: false, gone: false, outcomes: &[] }
    }

    fn class(block: &[u8], allowed: Allowed<'_>) -> Option<Class> {
        classify(&format(), block, HERE, allowed).map(|misfit| misfit.class)
    }

    /// The first `sectors` sectors of one and the rest of the other.
    fn spliced(one: &[u8], other: &[u8], sectors: usize) -> Vec<u8> {
        [&one[..sectors * 512], &other[sectors * 512..]].concat()
    }

    #[test]
    fn whole_blocks() {
        assert_eq!(class(&at(HERE, 3), must_be(3)), None);
        assert_eq!(class(&at(HERE, 2), must_be(3)), Some(Class::Stale));
        assert_eq!(class(&at(HERE, 4), must_be(3)), Some(Class::Phantom));
        assert_eq!(class(&at(HERE + 4096, 3), must_be(3)), Some(Class::Misdirected));
        assert_eq!(class(&[0; 4096], must_be(3)), Some(Class::Lost));
        assert_eq!(class(&[7; 4096], must_be(3)), Some(Class::Garbage));
        let mut other = vec![0; 4096];
        let label = Label { offset: HERE, generation: 3, ..Label::default() };
        Format::new(RunId(78), 4096, 512).seal(&mut other, &label);
        let found = classify(&format(), &other, HERE, must_be(3)).unwrap();
        assert_eq!((found.class, found.run), (Class::OldRun, Some(RunId(78))));
        let mut unread = at(HERE, 3);
        format().poison(&mut unread);
        assert_eq!(class(&unread, must_be(3)), Some(Class::Unread));
    }

    #[test]
    fn what_was_never_written_may_hold_anything_but_a_block_of_this_run() {
        let never = must_be(0);
        let mut other = vec![0; 4096];
        Format::new(RunId(78), 4096, 512).seal(&mut other, &Label::default());
        for before in [vec![0; 4096], vec![7; 4096], other] {
            assert_eq!(class(&before, never), None);
        }
        assert_eq!(class(&at(HERE + 4096, 1), never), Some(Class::Misdirected));
        assert_eq!(class(&at(HERE, 1), never), Some(Class::Phantom));
        let half = spliced(&[0; 4096], &at(HERE + 4096, 1), 3);
        assert_eq!(class(&half, never), Some(Class::Misdirected));
    }

    #[test]
    fn a_pending_change_may_be_there_in_part() {
        let pending = Allowed { low: 2, high: 3, zeros: false, gone: false, outcomes: &[] };
        for sectors in 0..=8 {
            let block = spliced(&at(HERE, 3), &at(HERE, 2), sectors);
            assert_eq!(class(&block, pending), None, "{sectors}");
            let block = spliced(&at(HERE, 3), &at(HERE, 1), sectors);
            let expected = match sectors {
                0 => Some(Class::Stale),
                8 => None,
                _ => Some(Class::Torn),
            };
            assert_eq!(class(&block, pending), expected, "{sectors}");
        }
        let first = Allowed { low: 0, high: 1, zeros: false, gone: false, outcomes: &[] };
        assert_eq!(class(&spliced(&at(HERE, 1), &[9; 4096], 3), first), None);
        let trimmed = Allowed { low: 2, high: 3, zeros: true, gone: false, outcomes: &[] };
        assert_eq!(class(&spliced(&[0; 4096], &at(HERE, 2), 3), trimmed), None);
        assert_eq!(class(&[0; 4096], trimmed), None);
    }

    #[test]
    fn a_trim_that_was_acknowledged_leaves_nothing() {
        let gone = Allowed { low: 3, high: 3, zeros: true, gone: true, outcomes: &[] };
        assert_eq!(class(&[0; 4096], gone), None);
        assert_eq!(class(&at(HERE, 2), gone), Some(Class::Stale));
        assert_eq!(class(&at(HERE, 3), gone), Some(Class::Stale), "no block has a trim's number");
        let beside_zeros = spliced(&at(HERE, 3), &[0; 4096], 3);
        assert_eq!(class(&beside_zeros, gone), Some(Class::Torn));
    }

    #[test]
    fn sectors_of_another_run_are_not_ours_whatever_their_generation() {
        let mut other = vec![0; 4096];
        let label = Label { offset: HERE, generation: 3, ..Label::default() };
        Format::new(RunId(78), 4096, 512).seal(&mut other, &label);
        let block = spliced(&at(HERE, 3), &other, 3);
        let pending = Allowed { low: 2, high: 3, zeros: false, gone: false, outcomes: &[] };
        let found = classify(&format(), &block, HERE, pending).unwrap();
        assert_eq!(found.class, Class::Torn);
        assert_eq!(found.sectors, [(0, 3, Sector::Ours(3)), (3, 5, Sector::OldRun)]);
    }

    #[test]
    fn a_tear_is_named_with_its_sectors() {
        for sectors in 1..8 {
            let block = spliced(&at(HERE, 3), &at(HERE, 2), sectors);
            let found = classify(&format(), &block, HERE, must_be(3)).unwrap();
            assert_eq!(found.class, Class::Torn);
            let n = sectors as u32;
            let expected = [(0, n, Sector::Ours(3)), (n, 8 - n, Sector::Ours(2))];
            assert_eq!(found.sectors, expected);
        }
    }

    #[test]
    fn sectors_out_of_their_place_are_called_what_they_are() {
        let right = at(HERE, 3);
        let arranged = |order: [usize; 8]| -> Vec<u8> {
            order
                .into_iter()
                .flat_map(|from| right[from * 512..(from + 1) * 512].to_vec())
                .collect()
        };
        for (order, expected) in [
            ([0, 1, 2, 3, 4, 5, 6, 7], None),
            ([1, 0, 2, 3, 4, 5, 6, 7], Some(Class::Swapped)),
            ([4, 5, 6, 7, 0, 1, 2, 3], Some(Class::Swapped)),
            ([0, 1, 2, 2, 4, 5, 6, 7], Some(Class::Duplicated)),
            ([0, 1, 2, 3, 0, 1, 6, 7], Some(Class::Duplicated)),
            ([0, 0, 1, 2, 3, 4, 5, 6], Some(Class::Shifted)),
            ([1, 2, 3, 4, 5, 6, 7, 0], Some(Class::Shifted)),
            ([0, 1, 3, 4, 5, 5, 6, 7], Some(Class::Shifted)),
        ] {
            assert_eq!(class(&arranged(order), must_be(3)), expected, "{order:?}");
        }
        let found = classify(&format(), &arranged([0, 0, 1, 2, 3, 4, 5, 6]), HERE, must_be(3));
        let sectors = [(0, 1, Sector::Ours(3)), (1, 7, Sector::Moved(-1))];
        assert_eq!(found.unwrap().sectors, sectors);
        // Also where a change is pending, and where nothing is required.
        let pending = Allowed { low: 2, high: 3, ..Allowed::default() };
        for allowed in [pending, must_be(0), Allowed { high: 3, ..Allowed::default() }] {
            assert_eq!(class(&arranged([1, 0, 2, 3, 4, 5, 6, 7]), allowed), Some(Class::Swapped));
        }
    }

    #[test]
    fn a_sector_of_another_block_is_named_with_its_home() {
        let mut block = at(HERE, 3);
        block[512..1024].copy_from_slice(&at(HERE + 4096, 3)[2048..2560]);
        let found = classify(&format(), &block, HERE, must_be(3)).unwrap();
        let stray = Stray { at: 1, offset: HERE + 4096, index: 4 };
        assert_eq!((found.class, found.stray), (Class::Misdirected, Some(stray)));
        let both = [at(HERE - 4096, 3), at(HERE, 3)].concat();
        let late = &both[4096 - 512..2 * 4096 - 512];
        assert_eq!(class(late, must_be(3)), Some(Class::Shifted));
    }

    #[test]
    fn what_a_read_did_not_reach_is_not_taken_for_damage() {
        let mut block = at(HERE, 3);
        format().poison(&mut block[2048..]);
        let found = classify(&format(), &block, HERE, must_be(3)).unwrap();
        assert_eq!(found.class, Class::Unread);
        assert_eq!(found.sectors, [(0, 4, Sector::Ours(3)), (4, 4, Sector::Unread)]);
    }

    #[test]
    fn blocks_of_another_length_or_version_are_of_another_run() {
        let old: Vec<u8> = (0..8)
            .flat_map(|_| {
                let mut sector = [7; 512];
                sector[0..4].copy_from_slice(&super::super::block::crc32c(&[7; 508]).to_le_bytes());
                sector
            })
            .collect();
        let mut long = vec![0; 65_536];
        Format::new(RunId(77), 65_536, 4096).seal(&mut long, &Label::default());
        for block in [&old[..], &long[4096..8192]] {
            assert_eq!(class(block, must_be(3)), Some(Class::OldRun));
            assert_eq!(class(block, must_be(0)), None);
        }
    }

    #[test]
    fn flips_and_partial_damage_are_distinguished() {
        let mut block = at(HERE, 3);
        for bit in [8 * 20, 8 * 1000 + 3, 8 * 4095 + 7] {
            block[bit / 8] ^= 1 << (bit % 8);
        }
        let found = classify(&format(), &block, HERE, must_be(3)).unwrap();
        assert_eq!(found.class, Class::BitFlip);
        assert_eq!(found.damage.unwrap().positions, [160, 8003, 8 * 4095 + 7]);
        let mut block = at(HERE, 3);
        block[700..764].fill(0);
        let found = classify(&format(), &block, HERE, must_be(3)).unwrap();
        assert_eq!(found.class, Class::Corrupt);
        let damage = found.damage.unwrap();
        assert!(damage.first_byte >= 700 && damage.first_byte + damage.span_bytes <= 764);
    }

    #[test]
    fn blocks_of_one_sector_are_classified_too() {
        for (block_bytes, sector_bytes) in [(512, 512), (4096, 4096)] {
            let format = Format::new(RunId(9), block_bytes, sector_bytes);
            let mut block = vec![0; block_bytes as usize];
            let label = Label { offset: HERE, generation: 2, ..Label::default() };
            format.seal(&mut block, &label);
            assert_eq!(classify(&format, &block, HERE, must_be(2)), None);
            let class = |block: &[u8]| classify(&format, block, HERE, must_be(2)).unwrap().class;
            block[300] ^= 1;
            assert_eq!(class(&block), Class::BitFlip);
            block[200..264].fill(3);
            assert_eq!(class(&block), Class::Corrupt);
            block.fill(3);
            assert_eq!(class(&block), Class::Garbage);
        }
    }
}
