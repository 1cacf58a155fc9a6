//! Search of a grid for its best cell under a bound, in far fewer runs than the whole grid takes.
//!
//! Three steps, each a function of the runs so far alone, so that a search can be interrupted: a
//! Latin hypercube of first cells; a climb from the best one to its neighbours; and repeats of all
//! cells near the best. Neighbours are one or two levels away on an ordered axis, any level away on
//! an unordered one, or one level away on two ordered axes at once (a ridge such as constant depth
//! times jobs is a diagonal). A climb moves only for a gain above [`STEP`], so that noise on a
//! plateau does not make it wander. It finds the best cell of a surface without local maxima in
//! that neighbourhood.

use super::chance::Chance;
use super::summary::mean;

/// An axis of the grid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Side {
    /// Number of its levels.
    pub levels: usize,
    /// Whether the levels are ordered: a quantity, not a choice.
    pub is_ordered: bool,
}

/// Results of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Index of the cell; the last axis varies fastest.
    pub cell: usize,
    /// The figure of each run, positive; more is better. Empty if no run can be used.
    pub values: Vec<f64>,
    /// The bounded figure of each run, as a share of its limit; empty without a limit.
    pub shares: Vec<f64>,
}

/// Least gain for which a climb moves.
pub const STEP: f64 = 0.02;
/// A cell within this share of the best is repeated.
pub const NEAR: f64 = 0.10;
/// Maximum number of cells repeated: this many within the bound, and a quarter as many just beyond
/// it.
pub const MOST_NEAR: usize = 8;
/// Minimum and maximum number of first cells.
const FIRST: (usize, usize) = (4, 8);

impl Seen {
    /// Mean of the bounded figure, as a share of its limit; 0 without a limit, infinite without a
    /// run.
    pub fn share(&self) -> f64 {
        if self.values.is_empty() { f64::INFINITY } else { mean(&self.shares) }
    }

    /// Mean figure.
    pub fn value(&self) -> f64 {
        mean(&self.values)
    }

    /// Whether the mean keeps the bound.
    pub fn is_within(&self) -> bool {
        self.share() <= 1.0
    }

    /// Whether this cell is better by more than a factor. Cells within the bound compare by figure,
    /// those beyond it by share; any cell within beats any beyond.
    fn beats(&self, other: &Seen, factor: f64) -> bool {
        match (self.is_within(), other.is_within()) {
            (true, true) => self.value() > other.value() * factor,
            (false, false) => self.share() * factor < other.share(),
            (within, _) => within,
        }
    }
}

/// The best cell so far; `None` if none is within the bound.
pub fn best(seen: &[Seen]) -> Option<&Seen> {
    let within = seen.iter().filter(|each| each.is_within());
    within.max_by(|a, b| a.value().total_cmp(&b.value()))
}

/// The cells to repeat: the best and those near it, best first, then those just beyond the bound,
/// which repeats may show to be within it.
pub fn near(seen: &[Seen]) -> Vec<&Seen> {
    let Some(best) = best(seen) else { return Vec::new() };
    let least = best.value() * (1.0 - NEAR);
    let pick = |from: f64, to: f64, most: usize| {
        let inside = |each: &&Seen| each.share() > from && each.share() <= to;
        let mut own: Vec<&Seen> =
            seen.iter().filter(inside).filter(|each| each.value() >= least).collect();
        own.sort_by(|a, b| b.value().total_cmp(&a.value()));
        own.truncate(most);
        own
    };
    let mut all = pick(f64::NEG_INFINITY, 1.0, MOST_NEAR);
    all.extend(pick(1.0, 1.0 + NEAR, MOST_NEAR / 4));
    all
}

/// The cell of the next run; `None` when the search is over. `seen` is in the order of first runs;
/// `is_out` marks cells that cannot be run.
pub fn next(
    sides: &[Side],
    seen: &[Seen],
    is_out: impl Fn(usize) -> bool,
    repeats: usize,
    seed: u64,
) -> Option<usize> {
    let is_new = |cell: &usize| !is_out(*cell) && seen.iter().all(|each| each.cell != *cell);
    if let Some(cell) = first(sides, seed).into_iter().find(is_new) {
        return Some(cell);
    }
    let mut lead = seen.first()?;
    for each in &seen[1..] {
        if each.beats(lead, 1.0 + STEP) {
            lead = each;
        }
    }
    if let Some(cell) = neighbours(sides, lead.cell).into_iter().find(is_new) {
        return Some(cell);
    }
    let few = near(seen).into_iter().filter(|each| each.values.len() < repeats);
    few.min_by_key(|each| each.values.len()).map(|each| each.cell)
}

/// A Latin hypercube: each axis is divided into as many equal parts as there are cells, and the
/// middle of each part occurs once.
fn first(sides: &[Side], seed: u64) -> Vec<usize> {
    let longest = sides.iter().map(|side| side.levels).max().unwrap_or(1);
    let count = longest.clamp(FIRST.0, FIRST.1);
    let mut chance = Chance::new(seed);
    let columns: Vec<Vec<usize>> = sides
        .iter()
        .map(|side| {
            let mut levels: Vec<usize> =
                (0..count).map(|part| (2 * part + 1) * side.levels / (2 * count)).collect();
            chance.shuffle(&mut levels);
            levels
        })
        .collect();
    let place = |row: usize| columns.iter().map(|column| column[row]).collect::<Vec<usize>>();
    (0..count).map(|row| index(sides, &place(row))).collect()
}

/// Neighbours of a cell, those one level away first.
fn neighbours(sides: &[Side], cell: usize) -> Vec<usize> {
    let at = place(sides, cell);
    let moved = |steps: &[(usize, isize)]| {
        let mut to = at.clone();
        for (axis, step) in steps {
            let level = to[*axis].checked_add_signed(*step)?;
            to[*axis] = (level < sides[*axis].levels).then_some(level)?;
        }
        Some(index(sides, &to))
    };
    let ordered: Vec<usize> = (0..sides.len()).filter(|axis| sides[*axis].is_ordered).collect();
    let mut all = Vec::new();
    for axis in &ordered {
        all.extend([1, -1].into_iter().filter_map(|step| moved(&[(*axis, step)])));
    }
    for axis in (0..sides.len()).filter(|axis| !sides[*axis].is_ordered) {
        let others = (0..sides[axis].levels).filter(|level| *level != at[axis]);
        all.extend(others.map(|level| {
            let mut to = at.clone();
            to[axis] = level;
            index(sides, &to)
        }));
    }
    for (place, one) in ordered.iter().enumerate() {
        for other in &ordered[place + 1..] {
            let pairs = [(1, -1), (-1, 1), (1, 1), (-1, -1)];
            all.extend(pairs.into_iter().filter_map(|(a, b)| moved(&[(*one, a), (*other, b)])));
        }
    }
    for axis in &ordered {
        all.extend([2, -2].into_iter().filter_map(|step| moved(&[(*axis, step)])));
    }
    all
}

/// The levels of a cell.
fn place(sides: &[Side], cell: usize) -> Vec<usize> {
    let mut rest = cell;
    let mut levels: Vec<usize> = sides
        .iter()
        .rev()
        .map(|side| {
            let level = rest % side.levels;
            rest /= side.levels;
            level
        })
        .collect();
    levels.reverse();
    levels
}

fn index(sides: &[Side], levels: &[usize]) -> usize {
    sides.iter().zip(levels).fold(0, |index, (side, level)| index * side.levels + level)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Depth and jobs in powers of two, block sizes from 4 KiB, and two engines.
    const SIDES: [Side; 4] = [
        Side { levels: 9, is_ordered: true },
        Side { levels: 6, is_ordered: true },
        Side { levels: 6, is_ordered: true },
        Side { levels: 2, is_ordered: false },
    ];

    /// Bytes per second, and the latency as a share of its limit: 16 units of 100 us, 2 GB/s in
    /// total, and an engine that adds 5 us.
    fn truth(cell: usize) -> (f64, f64) {
        let at = place(&SIDES, cell);
        let requests = f64::powi(2.0, (at[0] + at[1]) as i32);
        let bytes = 4096.0 * f64::powi(2.0, at[2] as i32);
        let service = 100e-6 + 5e-6 * at[3] as f64;
        let rate = (requests / service).min(16.0 / service).min(2e9 / bytes);
        (rate * bytes, requests / rate / 400e-6)
    }

    fn search(seed: u64, noise: f64) -> (Vec<Seen>, usize) {
        let mut chance = Chance::new(seed);
        let (mut seen, mut runs): (Vec<Seen>, usize) = (Vec::new(), 0);
        while let Some(cell) = next(&SIDES, &seen, |_| false, 3, seed) {
            let (value, share) = truth(cell);
            let value = value * (1.0 + noise * chance.normal());
            let share = share * (1.0 + noise * chance.normal());
            let known = seen.iter_mut().find(|each| each.cell == cell);
            match known {
                Some(known) => {
                    known.values.push(value);
                    known.shares.push(share);
                }
                None => seen.push(Seen { cell, values: vec![value], shares: vec![share] }),
            }
            runs += 1;
            assert!(runs < 2_000);
        }
        (seen, runs)
    }

    #[test]
    fn a_cell_is_its_levels() {
        for cell in 0..9 * 6 * 6 * 2 {
            assert_eq!(index(&SIDES, &place(&SIDES, cell)), cell);
        }
        assert!(first(&SIDES, 3).iter().all(|cell| *cell < 648));
        assert_eq!(first(&SIDES, 3).len(), 8);
    }

    /// Over 200 seeds, at noise of 0, 1 and 3 %: how often the result is truly within 5 % of the
    /// best cell within the bound (and keeps the bound within the noise), and in how many of the
    /// grid's 1,944 runs.
    #[test]
    fn it_finds_the_best_in_few_runs() {
        let all = (0..648).map(truth).filter(|(_, share)| *share <= 1.0);
        let most = all.map(|(value, _)| value).fold(0.0, f64::max);
        for (noise, least) in [(0.0, 195), (0.01, 190), (0.03, 185)] {
            let (mut right, mut total) = (0, 0);
            for seed in 0..200 {
                let (seen, runs) = search(seed, noise);
                let found = best(&seen).unwrap();
                let (value, share) = truth(found.cell);
                right += usize::from(value >= 0.95 * most && share <= 1.0 + 2.0 * noise);
                total += runs;
            }
            assert!(right >= least, "noise {noise}: {right} of 200");
            assert!(total / 200 < 1_944 / 10, "noise {noise}: {} runs", total / 200);
        }
    }

    #[test]
    fn without_a_cell_within_the_bound_it_ends_with_none() {
        let mut seen: Vec<Seen> = Vec::new();
        while let Some(cell) = next(&SIDES, &seen, |_| false, 3, 1) {
            let (value, share) = truth(cell);
            seen.push(Seen { cell, values: vec![value], shares: vec![share * 1e3] });
        }
        assert!(best(&seen).is_none() && seen.len() < 200, "{}", seen.len());
        let lead = seen.iter().map(|each| each.share()).fold(f64::INFINITY, f64::min);
        assert!(lead <= 1e3 * 100e-6 / 400e-6 * 1.1, "it went towards the bound: {lead}");
    }

    #[test]
    fn what_cannot_be_run_is_passed_over() {
        let mut seen: Vec<Seen> = Vec::new();
        let is_out = |cell: usize| place(&SIDES, cell)[3] == 0;
        while let Some(cell) = next(&SIDES, &seen, is_out, 1, 5) {
            assert!(!is_out(cell));
            let (value, share) = truth(cell);
            seen.push(Seen { cell, values: vec![value], shares: vec![share] });
        }
        assert!(best(&seen).is_some());
    }
}
