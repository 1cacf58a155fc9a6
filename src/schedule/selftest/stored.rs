//! Faults in stored data, smaller and larger than a block: within one block, between two, and
//! between the regions of two jobs, at every block length.
//!
//! An image is created as two jobs would have left it, and damaged at positions drawn from the
//! seed. Then the real verifier reads it back, with the ledger of both jobs.

mod kind;

use std::ops::Range;
use std::sync::Arc;

use super::scene::{device, resolved, setting};
use super::trial::Trial;
use iosonde_engine::backend::sim::{Memory, SimQueue};
use iosonde_engine::engine::Control;
use iosonde_engine::engine::verify::{RunInputs, VerifyMeasured, simulate_comparing};
use iosonde_model::content::block::{Comparisons, Format, HEADER_BYTES, Label, crc32c, forge};
use iosonde_model::content::classify::Class;
use iosonde_model::content::ledger::{Ledger, Survival};
use iosonde_model::content::outcomes::Outcomes;
use iosonde_model::content::replay::Known;
use iosonde_model::plan::chance::{Chance, mix};
use iosonde_model::plan::{Job, RunId, VerifyMode, VerifyPlan, VerifySetting};
pub use kind::StoredFault;
use kind::{Move, Reach};

use Move::{Copied, Shifted, Swapped};
use StoredFault::Moved;

/// All combinations of block and sector length, bytes.
const SHAPES: [(u32, u32); 21] = {
    let mut shapes = [(512, 512); 21];
    let (mut at, mut block) = (0, 512);
    while block <= 1 << 20 {
        shapes[at] = (block, 512);
        at += 1;
        if block >= 4096 {
            shapes[at] = (block, 4096);
            at += 1;
        }
        block *= 2;
    }
    shapes
};
/// Number of shapes, from the first, with blocks of 8 KiB at most.
const SMALL_SHAPES: u64 = 7;

/// A seed for each simulation of a fault: it determines the shape, and all shapes occur in turn.
pub(super) fn seed_of(seed: u64, index: u64, small: bool) -> u64 {
    let shapes = if small { SMALL_SHAPES } else { SHAPES.len() as u64 };
    let many = SHAPES.len() as u64;
    (mix(seed ^ mix(index)) / 2 / many) * many + index % shapes
}

/// Two jobs, and the data they left.
struct Image {
    plan: VerifyPlan,
    format: Format,
    /// The expected content.
    bytes: Vec<u8>,
    ledgers: Vec<Ledger>,
    /// Replaces `ledgers` if both jobs wrote one region.
    outcomes: Option<Outcomes>,
    /// Sectors of a block.
    sectors: usize,
    /// Blocks of a job; of half the region if both wrote all of it.
    blocks: usize,
}

/// Generation of all blocks if each job wrote its own region.
const LAST: u32 = 3;
/// Operations of each job on a shared region: enough for every block.
const SHARED_OPS: u64 = 120;

impl Image {
    fn new((block_bytes, sector_bytes): (u32, u32), overlap: bool, seed: u64) -> Image {
        let blocks = if block_bytes > 64 << 10 { 2 } else { 4 };
        let mut chance = Chance::new(seed);
        let run = RunId(u128::from(chance.bits()) << 64 | u128::from(chance.bits()));
        let setting = VerifySetting {
            jobs: 2,
            overlap,
            iodepth: 6,
            block_bytes: block_bytes.into(),
            sector_bytes,
            blocks: (1, 2),
            run,
            seed,
            ..setting(VerifyMode::Write, 2 * blocks as u64 * u64::from(block_bytes))
        };
        let plan = resolved(&setting);
        let known = Known { submitted: SHARED_OPS, acked: SHARED_OPS, ..Known::default() };
        let known = [(known.clone(), true), (known, true)];
        let outcomes = overlap.then(|| Outcomes::replay(&plan, &known, Survival::Acknowledged));
        let mut ledgers = vec![Ledger::new(blocks as u64); if overlap { 0 } else { 2 }];
        for ledger in &mut ledgers {
            for block in (0..LAST).flat_map(|_| 0..blocks as u64) {
                ledger.submit_write(block);
                ledger.acknowledge(block);
            }
        }
        let plan = VerifyPlan { mode: VerifyMode::Check, ..plan };
        let format = Format::new(run, block_bytes, sector_bytes);
        let sectors = (block_bytes / sector_bytes) as usize;
        let bytes = Vec::new();
        let mut image = Image { plan, format, bytes, ledgers, outcomes, sectors, blocks };
        image.bytes = (0..2 * blocks).flat_map(|block| image.right(block, &mut chance)).collect();
        image
    }

    /// The allowed contents of a block, in ascending order.
    fn generations(&self, block: usize) -> Vec<u32> {
        let mut all = Vec::new();
        match &self.outcomes {
            Some(outcomes) => drop(outcomes.allowed(block as u64, &mut all)),
            None => all.push(LAST),
        }
        all.sort_unstable();
        all
    }

    /// A valid block: if two jobs wrote it concurrently, by either or with sectors of both.
    fn right(&self, block: usize, chance: &mut Chance) -> Vec<u8> {
        let all = self.generations(block);
        let of = |generation: &u32| self.block(self.plan.run, block, *generation);
        let (Some(first), Some(last)) = (all.first(), all.last()) else { return of(&0) };
        let (mut bytes, other) = (of(first), of(last));
        let mixed = chance.below(3);
        let length = self.format.sector_bytes();
        let sectors = bytes.chunks_mut(length).zip(other.chunks(length));
        for (sector, other) in sectors.filter(|_| mixed == 0 || mixed == 1 && chance.below(2) == 0)
        {
            sector.copy_from_slice(other);
        }
        bytes
    }

    /// An earlier generation of the block, which it must no longer have.
    fn older(&self, block: usize, chance: &mut Chance) -> u32 {
        let lowest = self.generations(block).first().copied().unwrap_or(LAST);
        1 + chance.below(u64::from(lowest) - 1) as u32
    }

    /// A block of this generation at an offset.
    fn block(&self, run: RunId, block: usize, generation: u32) -> Vec<u8> {
        let (length, sector) = (self.format.block_bytes(), self.format.sector_bytes());
        let mut bytes = vec![0; length];
        let label = Label {
            offset: (block * length) as u64,
            generation,
            writer: (block / self.blocks) as u16,
            sequence: u64::from(generation) * 10 + block as u64,
            time_ns: 1_700_000_000_000_000_000,
        };
        Format::new(run, length as u32, sector as u32).seal(&mut bytes, &label);
        bytes
    }

    fn block_at(&self, block: usize) -> Range<usize> {
        let length = self.format.block_bytes();
        block * length..(block + 1) * length
    }

    /// Some consecutive blocks of one job.
    fn some(&self, chance: &mut Chance) -> Range<usize> {
        let job = below(chance, 2) * self.blocks;
        let first = below(chance, self.blocks);
        job + first..job + first + 1 + below(chance, self.blocks - first)
    }
}

fn below(chance: &mut Chance, bound: usize) -> usize {
    chance.below(bound as u64) as usize
}

/// Damaged blocks, with the correct classifications of each.
type Damaged = Vec<(usize, &'static [Class])>;

/// Simulates one fault, at a position drawn from the seed.
pub(super) fn trial<C: Comparisons>(fault: StoredFault, seed: u64) -> Trial {
    let mut image = Image::new(shape_of(fault, seed), overlaps(fault, seed), seed);
    let mut chance = Chance::new(mix(seed));
    let damaged = damage(&mut image, fault, &mut chance);
    let block_bytes = u64::from(image.plan.block_bytes);
    let found = read_back::<C>(image, seed);
    let damaged = damaged.into_iter().map(|(block, names)| (block as u64 * block_bytes, names));
    Trial::of_stored(damaged, &found)
}

fn read_back<C: Comparisons>(image: Image, seed: u64) -> VerifyMeasured {
    let Image { plan, bytes, ledgers, outcomes, .. } = image;
    let device = device("servers=4,read=exp:50us", seed);
    let memory = Memory::holding(bytes).shared();
    let inputs = RunInputs { ledgers, outcomes, ..RunInputs::default() };
    let open = |job: &Job, _| SimQueue::with_memory(job, device.clone(), memory.clone());
    let control = Arc::new(Control::default());
    simulate_comparing::<_, C>(&plan, inputs, &control, open)
}

/// Describes the simulation.
pub(super) fn words(fault: StoredFault, seed: u64) -> String {
    let (block, sector) = shape_of(fault, seed);
    let region = if overlaps(fault, seed) { " in one region" } else { "" };
    let what = fault.word();
    format!("{what}, stored in blocks of {block} B in sectors of {sector} B of two jobs{region}")
}

/// Whether the jobs wrote one region.
fn overlaps(fault: StoredFault, seed: u64) -> bool {
    match fault {
        StoredFault::Superseded => true,
        StoredFault::Untrimmed => false,
        _ => mix(!seed).is_multiple_of(3),
    }
}

fn shape_of(fault: StoredFault, seed: u64) -> (u32, u32) {
    let many = SHAPES.len();
    let from = (seed % many as u64) as usize;
    let fits = |(block, sector): &(u32, u32)| block > sector || !fault.is_within_a_block();
    let mut shapes = SHAPES.into_iter().cycle().skip(from).take(many);
    shapes.find(fits).unwrap_or(SHAPES[many - 1])
}

fn damage(image: &mut Image, fault: StoredFault, chance: &mut Chance) -> Damaged {
    let run = image.plan.run;
    let block = below(chance, 2 * image.blocks);
    let place = image.block_at(block);
    let sector_bytes = image.format.sector_bytes();
    let other = RunId(run.0 ^ 1 << below(chance, 128));
    let some = image.some(chance);
    match fault {
        Moved(what, reach) => moved(image, what, reach, chance),
        StoredFault::Tear => {
            let source = below(chance, 3);
            (0..2 * image.blocks)
                .map(|block| {
                    let kept = (1 + below(chance, image.sectors - 1)) * sector_bytes;
                    let before = match source {
                        0 => image.block(run, block, image.older(block, chance)),
                        1 => image.block(other, block, LAST),
                        _ => vec![0; image.format.block_bytes()],
                    };
                    let place = image.block_at(block);
                    image.bytes[place.start + kept..place.end].copy_from_slice(&before[kept..]);
                    (block, &[Class::Torn][..])
                })
                .collect()
        }
        StoredFault::Bit => (0..2 * image.blocks)
            .map(|block| {
                // Half of the flips target a sector header, the others any byte.
                let within = match below(chance, 2) {
                    0 => below(chance, image.sectors) * sector_bytes + below(chance, HEADER_BYTES),
                    _ => below(chance, image.format.block_bytes()),
                };
                let at = image.block_at(block).start + within;
                image.bytes[at] ^= 1 << below(chance, 8);
                (block, &[Class::BitFlip][..])
            })
            .collect(),
        StoredFault::Older => {
            let seed = chance.bits();
            let older = |image: &Image, block| {
                image.block(run, block, image.older(block, &mut Chance::new(seed)))
            };
            replace(image, some, &[Class::Stale], older)
        }
        StoredFault::Zeros => {
            let zeros = |image: &Image, _| vec![0; image.format.block_bytes()];
            replace(image, some, &[Class::Lost], zeros)
        }
        StoredFault::OtherRun => {
            let of_other = |image: &Image, block| image.block(other, block, LAST);
            replace(image, some, &[Class::OldRun], of_other)
        }
        StoredFault::Newer => {
            forge(&mut image.bytes[place]);
            vec![(block, &[Class::Phantom])]
        }
        StoredFault::OtherShape => {
            let at = place.start + below(chance, image.sectors) * sector_bytes;
            let sector = &mut image.bytes[at..at + sector_bytes];
            // The header then has another block length.
            sector[10] ^= 1;
            let crc = crc32c(&sector[8..]);
            sector[4..8].copy_from_slice(&crc.to_le_bytes());
            let whole = image.sectors == 1;
            vec![(block, if whole { &[Class::OldRun] } else { &[Class::Torn] })]
        }
        StoredFault::Untrimmed => {
            let (job, own) = (block / image.blocks, (block % image.blocks) as u64);
            let trim = image.ledgers[job].submit_trim(own);
            image.ledgers[job].acknowledge(own);
            if below(chance, 2) == 0 {
                // Even a block with the trim's generation is wrong.
                let numbered = image.block(run, block, trim);
                image.bytes[place].copy_from_slice(&numbered);
            }
            vec![(block, &[Class::Stale])]
        }
        StoredFault::Superseded => {
            let between = |block: usize| {
                let all = image.generations(block);
                let (first, last) = (*all.first()?, *all.last()?);
                let superseded = (first..last).find(|one| !all.contains(one))?;
                Some((block, superseded))
            };
            let Some((block, superseded)) = (0..2 * image.blocks).find_map(between) else {
                return Vec::new();
            };
            let of_block = |image: &Image, block| image.block(run, block, superseded);
            replace(image, block..block + 1, &[Class::Stale], of_block)
        }
    }
}

/// Replaces these blocks by others.
fn replace(
    image: &mut Image,
    blocks: Range<usize>,
    names: &'static [Class],
    by: impl Fn(&Image, usize) -> Vec<u8>,
) -> Damaged {
    for block in blocks.clone() {
        let (new, place) = (by(image, block), image.block_at(block));
        image.bytes[place].copy_from_slice(&new);
    }
    blocks.map(|block| (block, names)).collect()
}

/// Copies sectors over others, drawn from the seed.
fn moved(image: &mut Image, what: Move, reach: Reach, chance: &mut Chance) -> Damaged {
    let (moves, late) = match what {
        Shifted => shifts(image, reach, chance),
        _ => (pieces(image, what, reach, chance), 0),
    };
    let length = image.format.sector_bytes();
    let before = image.bytes.clone();
    for (to, from) in &moves {
        let source = &before[from * length..(from + 1) * length];
        image.bytes[to * length..(to + 1) * length].copy_from_slice(source);
    }
    let sectors = image.sectors;
    let mut blocks: Vec<usize> = moves.iter().map(|(to, _)| to / sectors).collect();
    blocks.dedup();
    blocks.sort_unstable();
    blocks.dedup();
    let names = |block: usize| -> &'static [Class] {
        let own = moves.iter().filter(|(to, _)| to / sectors == block);
        let within = own.clone().filter(|(_, from)| from / sectors == block).count();
        match (what, own.count() - within, within) {
            (Swapped, 0, _) => &[Class::Swapped],
            (Copied, 0, _) => &[Class::Duplicated],
            // Within the shift distance, the old content remains.
            (Shifted, 0, within) if within <= late => &[Class::Duplicated],
            (Shifted, 0, _) => &[Class::Shifted],
            (Shifted, _, within) if within > 0 => &[Class::Shifted],
            _ => &[Class::Misdirected],
        }
    };
    blocks.into_iter().map(|block| (block, names(block))).collect()
}

/// Pairs of destination and source sector, if pieces are swapped or copied.
fn pieces(image: &Image, what: Move, reach: Reach, chance: &mut Chance) -> Vec<(usize, usize)> {
    let Image { sectors, blocks, .. } = *image;
    let per_page = (4096 / image.format.sector_bytes()).max(1);
    let of_job = sectors * blocks;
    // One sector, a page, half a block, a block, two blocks.
    let most = if reach == Reach::Block { sectors / 2 } else { of_job / 2 };
    let lengths = [1, per_page, sectors / 2, sectors, 2 * sectors];
    let lengths: Vec<usize> =
        lengths.into_iter().filter(|length| (1..=most).contains(length)).collect();
    let length = lengths[below(chance, lengths.len())];
    // Pieces of this length in the source.
    let (one, other) = match reach {
        Reach::Block => {
            let (block, [one, other]) =
                (below(chance, 2 * blocks) * sectors, two(chance, sectors / length));
            (block + one * length, block + other * length)
        }
        Reach::Blocks => {
            let job = below(chance, 2) * of_job;
            if length >= sectors {
                let [one, other] = two(chance, of_job / length);
                (job + one * length, job + other * length)
            } else {
                let [one, other] = two(chance, blocks);
                let within = |chance: &mut Chance| below(chance, sectors / length) * length;
                (job + one * sectors + within(chance), job + other * sectors + within(chance))
            }
        }
        Reach::Jobs => {
            let mut of = |job| job * of_job + below(chance, of_job / length) * length;
            (of(0), of(1))
        }
    };
    let copies = (0..length).map(|at| (one + at, other + at));
    match what {
        Swapped => copies.flat_map(|(one, other)| [(one, other), (other, one)]).collect(),
        _ => copies.collect(),
    }
}

/// Two different numbers below a bound of at least 2.
fn two(chance: &mut Chance, bound: usize) -> [usize; 2] {
    let one = below(chance, bound);
    let other = (one + 1 + below(chance, bound - 1)) % bound;
    [one, other]
}

/// The pairs if a range of sectors is shifted, and the distance in sectors.
fn shifts(image: &Image, reach: Reach, chance: &mut Chance) -> (Vec<(usize, usize)>, usize) {
    let Image { sectors, blocks, .. } = *image;
    let of_job = sectors * blocks;
    let (start, end, by) = match reach {
        Reach::Block => {
            let block = below(chance, 2 * blocks) * sectors;
            let start = below(chance, sectors - 1);
            let length = 2 + below(chance, sectors - start - 1);
            (block + start, block + start + length, 1 + below(chance, length - 1))
        }
        Reach::Blocks | Reach::Jobs => {
            let border = match reach {
                Reach::Jobs => of_job,
                _ => below(chance, 2) * of_job + (1 + below(chance, blocks - 1)) * sectors,
            };
            let start = border - 1 - below(chance, sectors);
            let end = border + 1 + below(chance, sectors);
            (start, end, 1 + below(chance, (end - start - 1).min(8)))
        }
    };
    let later = below(chance, 2) == 0;
    let moves = (start..end - by).map(|at| if later { (at + by, at) } else { (at, at + by) });
    (moves.collect(), by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_model::content::block::All;

    #[test]
    fn every_length_of_a_block_and_a_sector_is_among_the_shapes() {
        let sizes = (9..=20).map(|power| 1 << power);
        let shapes = sizes.flat_map(|block| [(block, 512), (block, 4096)]);
        assert!(shapes.filter(|(block, sector)| sector <= block).eq(SHAPES));
        assert!(SHAPES[..SMALL_SHAPES as usize].iter().all(|shape| shape.0 <= 8 << 10));
        assert!(SHAPES[SMALL_SHAPES as usize].0 > 8 << 10);
        let seeds = (0..42).map(|index| SHAPES[(seed_of(9, index, false) % 21) as usize]);
        assert!(seeds.eq(SHAPES.into_iter().chain(SHAPES)));
    }

    #[test]
    fn an_image_without_a_fault_is_right() {
        for shape in SHAPES {
            let image = Image::new(shape, false, 5);
            let blocks = image.bytes.chunks_exact(image.format.block_bytes());
            for (index, block) in blocks.enumerate() {
                let offset = image.block_at(index).start as u64;
                assert_eq!(image.format.generation_at(block, offset), Some(LAST), "{shape:?}");
            }
            for seed in 0..5 {
                let image = Image::new(shape, true, seed);
                let found = read_back::<All>(image, seed);
                assert!(found.jobs.iter().all(|job| job.failures.is_empty()), "{shape:?} {seed}");
            }
        }
    }

    #[test]
    fn each_is_found_and_named_at_every_length() {
        for fault in StoredFault::ALL {
            for index in 0..2 * SHAPES.len() as u64 {
                let seed = seed_of(3, index, false);
                let trial = trial::<All>(fault, seed);
                let seen = trial.is_visible() || fault == StoredFault::Superseded;
                assert!(seen && trial.is_right(), "{}: {trial:?}", words(fault, seed));
            }
        }
    }
}
