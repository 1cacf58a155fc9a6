//! What went wrong with a block? What was read back is held against what the ledger allows.

use serde::{Deserialize, Serialize};

use super::block::{Format, Label, RunId, Stamp, place_of, unchecked_header};
use super::damage::{Damage, MAX_FLIPS, compare};
use super::ledger::Allowed;

/// What went wrong.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// An older generation of this run: a write that was acknowledged is not there.
    Stale,
    /// Zeros, where something was written.
    Lost,
    /// A block of an earlier run: what this run wrote is not there.
    OldRun,
    /// A block of this run that belongs elsewhere.
    Misdirected,
    /// A generation that was never written: the verifier or its ledger is wrong, or somebody
    /// forges.
    Phantom,
    /// Sectors of different writes side by side.
    Torn,
    /// Up to eight bits differ.
    BitFlip,
    /// A part of it is not what was written.
    Corrupt,
    /// Nothing of what was written can be recognised.
    Garbage,
    /// The read was acknowledged and moved nothing into the buffer.
    Unread,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 10] = [
        Class::Stale,
        Class::Lost,
        Class::OldRun,
        Class::Misdirected,
        Class::Phantom,
        Class::Torn,
        Class::BitFlip,
        Class::Corrupt,
        Class::Garbage,
        Class::Unread,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Class::Stale => "stale",
            Class::Lost => "lost",
            Class::OldRun => "old-run",
            Class::Misdirected => "misdirected",
            Class::Phantom => "phantom",
            Class::Torn => "torn",
            Class::BitFlip => "bit-flip",
            Class::Corrupt => "corrupt",
            Class::Garbage => "garbage",
            Class::Unread => "unread",
        }
    }
}

/// What stands in a sector.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sector {
    /// A sector of this run, of this generation, at its place.
    Ours(u32),
    /// A sector of this run that belongs elsewhere.
    Elsewhere,
    /// A sector of another run.
    OldRun,
    /// Zeros.
    Zeros,
    /// Its checksum is wrong.
    Damaged,
}

/// A block that is not what it must be.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Misfit {
    /// What went wrong.
    pub class: Class,
    /// What the block says of itself; of a damaged header, what stands there.
    pub label: Option<Label>,
    /// Its run, where that is another one.
    pub run: Option<RunId>,
    /// Sectors in order, where they differ: first sector, number of them, what stands there.
    pub sectors: Vec<(u32, u32, Sector)>,
    /// The difference from what should be there, where bits differ.
    pub damage: Option<Damage>,
}

/// Looks closely at a block that was read at an offset. `None` if it may be as it is.
pub fn classify(format: &Format, block: &[u8], offset: u64, allowed: Allowed) -> Option<Misfit> {
    let misfit =
        |class| Misfit { class, label: None, run: None, sectors: Vec::new(), damage: None };
    if format.is_poisoned(block) {
        return Some(misfit(Class::Unread));
    }
    if let Some((label, run)) = whole(format, block) {
        let class = class_of_whole(format, label, run, offset, allowed)?;
        let other = (run != format.run()).then_some(run);
        return Some(Misfit { label: Some(label), run: other, ..misfit(class) });
    }
    // Blocks of which nothing is required come here in the loop of a job: without a list of them.
    if sectors(format, block, offset).all(|sector| may_stand(sector, allowed)) {
        return None;
    }
    let sectors: Vec<Sector> = sectors(format, block, offset).collect();
    let header = format.header(block);
    let found = Misfit {
        label: header.map(|(label, _)| label),
        run: header.map(|(_, run)| run).filter(|run| *run != format.run()),
        sectors: runs(&sectors),
        ..misfit(Class::Torn)
    };
    if sectors.contains(&Sector::Elsewhere) {
        return Some(Misfit { class: Class::Misdirected, ..found });
    }
    if sectors.iter().all(|sector| *sector == Sector::Zeros) {
        return Some(Misfit { sectors: Vec::new(), ..misfit(Class::Lost) });
    }
    if !sectors.contains(&Sector::Damaged) {
        return Some(found);
    }
    let damage = nearest(format, block, offset, allowed, &sectors);
    let whole_bytes = block.len() as u64;
    let none_is_ours = !sectors.iter().any(|sector| matches!(sector, Sector::Ours(_)));
    let class = match &damage {
        Some(damage) if damage.bits <= MAX_FLIPS as u64 => Class::BitFlip,
        // Of random bytes half the bits differ, of what is alike fewer.
        Some(damage) if none_is_ours && damage.bits > whole_bytes * 8 * 2 / 5 => Class::Garbage,
        Some(_) => Class::Corrupt,
        None => Class::Garbage,
    };
    let label =
        found.label.or_else(|| (class != Class::Garbage).then(|| unchecked_header(block).0));
    Some(Misfit { class, label, damage: damage.filter(|_| class != Class::Garbage), ..found })
}

/// The label of a block all of whose sectors belong together.
fn whole(format: &Format, block: &[u8]) -> Option<(Label, RunId)> {
    let (label, run) = format.header(block)?;
    let first = format.stamp_of(block, 0);
    let count = format.block_bytes() / format.sector_bytes();
    (1..count).all(|index| format.stamp_of(block, index) == first).then_some((label, run))
}

fn class_of_whole(
    format: &Format,
    label: Label,
    run: RunId,
    offset: u64,
    allowed: Allowed,
) -> Option<Class> {
    if run != format.run() {
        return (allowed.low > 0 || allowed.gone).then_some(Class::OldRun);
    }
    if label.offset != offset {
        return Some(Class::Misdirected);
    }
    if label.generation > allowed.high {
        return Some(Class::Phantom);
    }
    (label.generation < allowed.low || allowed.gone).then_some(Class::Stale)
}

fn sectors<'a>(
    format: &'a Format,
    block: &'a [u8],
    offset: u64,
) -> impl Iterator<Item = Sector> + 'a {
    let place = place_of(offset);
    let parts = block.chunks_exact(format.sector_bytes()).enumerate();
    parts.map(move |(index, bytes)| match format.stamp_of(block, index) {
        Some(Stamp { run, .. }) if run != format.run().0 as u32 => Sector::OldRun,
        Some(stamp) if stamp.place != place => Sector::Elsewhere,
        Some(stamp) => Sector::Ours(stamp.generation),
        None if bytes.iter().all(|byte| *byte == 0) => Sector::Zeros,
        None => Sector::Damaged,
    })
}

/// Whether a sector may stand there beside others. Only where a change is pending may they differ.
fn may_stand(sector: Sector, allowed: Allowed) -> bool {
    // Before the first change anything may have been there.
    let from_before = allowed.low == 0 && !allowed.gone;
    match sector {
        Sector::Ours(generation) => {
            allowed.low < allowed.high && (allowed.low..=allowed.high).contains(&generation)
        }
        Sector::Elsewhere => false,
        Sector::Zeros => allowed.zeros || from_before,
        Sector::OldRun | Sector::Damaged => from_before,
    }
}

/// Equal neighbours put together.
fn runs(sectors: &[Sector]) -> Vec<(u32, u32, Sector)> {
    let mut runs: Vec<(u32, u32, Sector)> = Vec::new();
    for (index, sector) in (0..).zip(sectors) {
        match runs.last_mut() {
            Some((_, count, last)) if last == sector => *count += 1,
            _ => runs.push((index, 1, *sector)),
        }
    }
    runs
}

/// Generations that are compared with, at most, beside those that the sectors name.
const CANDIDATES: u32 = 4;

/// The difference from the generation that is nearest, among those that may be meant.
fn nearest(
    format: &Format,
    block: &[u8],
    offset: u64,
    allowed: Allowed,
    sectors: &[Sector],
) -> Option<Damage> {
    let named = sectors.iter().filter_map(|sector| match sector {
        Sector::Ours(generation) => Some(*generation),
        _ => None,
    });
    let last = allowed.high.max(allowed.low);
    let recent = last.saturating_sub(CANDIDATES - 1).max(1)..=last;
    let mut generations: Vec<u32> = named.chain(recent).filter(|one| *one > 0).collect();
    generations.sort_unstable();
    generations.dedup();
    let compared = generations.into_iter().map(|one| compare(format, block, offset, one));
    compared.min_by_key(|damage| damage.bits)
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

    fn must_be(generation: u32) -> Allowed {
        Allowed { low: generation, high: generation, zeros: false, gone: false }
    }

    fn class(block: &[u8], allowed: Allowed) -> Option<Class> {
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
        let pending = Allowed { low: 2, high: 3, zeros: false, gone: false };
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
        let first = Allowed { low: 0, high: 1, zeros: false, gone: false };
        assert_eq!(class(&spliced(&at(HERE, 1), &[9; 4096], 3), first), None);
        let trimmed = Allowed { low: 2, high: 3, zeros: true, gone: false };
        assert_eq!(class(&spliced(&[0; 4096], &at(HERE, 2), 3), trimmed), None);
        assert_eq!(class(&[0; 4096], trimmed), None);
    }

    #[test]
    fn a_trim_that_was_acknowledged_leaves_nothing() {
        let gone = Allowed { low: 3, high: 3, zeros: true, gone: true };
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
        let pending = Allowed { low: 2, high: 3, zeros: false, gone: false };
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
    fn flips_and_partial_damage_are_told_apart() {
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
