//! Shares of the variation of a designed experiment explained by each factor.
//!
//! For a balanced full factorial design with repeats, on log y, because effects of storage factors
//! multiply: sums of squares of each factor and each pair of factors as shares of the total, with
//! the bias-corrected ω² = (SS - df MSE) / (SST + MSE) (R. Jain, "The Art of Computer Systems
//! Performance Analysis", 1991, chapters 17 to 23). p is from permuting the residuals of the model
//! without the term (Freedman and Lane 1983); the statistic is F, its mean square over that of the
//! error. In a balanced design the terms are orthogonal, so the fit of the other terms need not be
//! added back.
//!
//! If a pair of factors explains more than 10 %, main effects mislead: the effect of one depends on
//! the other, and the table of both is the result. There are no shares if cells are missing or have
//! unequal repeats.

use std::collections::BTreeMap;

use serde::Serialize;

use super::chance::Chance;
use super::summary::{mean, t_with_p};

/// Share of a pair of factors above which their effects depend on each other.
pub const DEPENDS_FROM: f64 = 0.10;
/// Permutations for each p; the smallest p is 1 / 1000.
const PERMUTATIONS: usize = 999;

/// One trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// For each factor the index of the level.
    pub levels: Vec<usize>,
    /// The figure, positive.
    pub value: f64,
}

/// Division of the variation of log y.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// Factors and pairs of factors, the largest share first.
    pub terms: Vec<Term>,
    /// Share of interactions of three and more factors.
    pub higher: f64,
    /// Share of the differences between repeats of one cell.
    pub error: f64,
    /// Pairs that explain more than 10 %, the largest first, with the geometric means of their
    /// cells.
    pub dependent: Vec<Dependent>,
}

/// A factor, or a pair of factors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Term {
    /// Index of the factor, or of both.
    pub factors: Vec<usize>,
    /// Sum of squares over the total, `0..=1`.
    pub share: f64,
    /// ω²: the share corrected for chance; may be below 0.
    pub omega_squared: f64,
    /// Degrees of freedom.
    pub freedom: usize,
    /// Probability of a term this large if it had no effect.
    pub p: f64,
    /// For a factor, the largest level mean over the smallest.
    pub range: Option<f64>,
    /// The 95 % interval of that ratio, for all pairs of levels together (Bonferroni), because the
    /// largest and smallest levels are selected from the same figures.
    pub range_interval: Option<(f64, f64)>,
}

/// A pair of factors whose effects depend on each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dependent {
    /// Both factors.
    pub factors: [usize; 2],
    /// Geometric means: rows are levels of the first, columns of the second.
    pub means: Vec<Vec<f64>>,
}

/// Why there are no shares.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoShares {
    /// Fewer than two levels of a factor, or no factor.
    TooFewLevels,
    /// Not every combination of levels was tried.
    MissingCells,
    /// Some combinations were tried more often than others.
    UnequalRepeats,
    /// One trial of each combination: the error is unknown.
    NoRepeats,
    /// A figure is not positive: it has no logarithm.
    NotPositive,
    /// All figures are the same.
    NoVariation,
}

/// Divides the variation of trials among factors with these numbers of `levels`. Indexes beyond
/// these make the design incomplete.
pub fn factors(levels: &[usize], trials: &[Trial], seed: u64) -> Result<Shares, NoShares> {
    let logs: Vec<f64> = trials.iter().map(|trial| trial.value.ln()).collect();
    let logs = logs.as_slice();
    if levels.is_empty() || levels.iter().any(|count| *count < 2) {
        return Err(NoShares::TooFewLevels);
    }
    if !logs.iter().all(|log| log.is_finite()) {
        return Err(NoShares::NotPositive);
    }
    let repeats = repeats(levels, trials)?;
    let design = Design { levels, trials };
    let cells = design.fitted(logs, &(0..levels.len()).collect::<Vec<_>>());
    let grand = mean(logs);
    let squares =
        |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let total = squares(&mut logs.iter().map(|log| log - grand));
    if total <= 1e-20 * grand.abs().max(1.0) {
        return Err(NoShares::NoVariation);
    }
    let errors: Vec<f64> = logs.iter().zip(&cells).map(|(log, cell)| log - cell).collect();
    let error = squares(&mut errors.iter().copied());
    let error_freedom = trials.len() / repeats * (repeats - 1);
    let mean_error = error / error_freedom as f64;
    let singles = (0..levels.len()).map(|factor| vec![factor]);
    let pairs = (0..levels.len()).flat_map(|a| (a + 1..levels.len()).map(move |b| vec![a, b]));
    let mut terms = Vec::new();
    for (index, factors) in singles.chain(pairs).enumerate() {
        let effect = design.effect(logs, &factors);
        let sum = squares(&mut effect.iter().copied());
        let freedom: usize = factors.iter().map(|factor| levels[*factor] - 1).product();
        let left: Vec<f64> =
            errors.iter().zip(&effect).map(|(error, effect)| error + effect).collect();
        // A remainder this small is a rounding error.
        let ratio = if sum > 1e-12 * total { sum / error } else { 0.0 };
        let p = design.p(left, &factors, ratio, Chance::of_part(seed, index as u64));
        let range = (factors.len() == 1).then(|| range(&design.fitted(logs, &factors)));
        let reach = factors.first().and_then(|factor| {
            let count = levels[*factor];
            let each = (2.0 * mean_error / (trials.len() / count) as f64).sqrt();
            let pairs = count * (count - 1) / 2;
            Some(each * t_with_p(0.05 / pairs as f64, error_freedom)?)
        });
        terms.push(Term {
            range: range.map(f64::exp),
            range_interval: range
                .zip(reach)
                .map(|(range, reach)| ((range - reach).max(0.0).exp(), (range + reach).exp())),
            share: sum / total,
            omega_squared: (sum - freedom as f64 * mean_error) / (total + mean_error),
            freedom,
            p,
            factors,
        });
    }
    terms.sort_by(|a, b| b.share.total_cmp(&a.share));
    let dependent = terms.iter().filter(|term| term.share > DEPENDS_FROM);
    let dependent = dependent.filter_map(|term| design.table(logs, &term.factors)).collect();
    let explained: f64 = terms.iter().map(|term| term.share).sum();
    let error = error / total;
    Ok(Shares { terms, higher: (1.0 - explained - error).max(0.0), error, dependent })
}

/// Repeats of each combination of levels.
fn repeats(levels: &[usize], trials: &[Trial]) -> Result<usize, NoShares> {
    let mut counts: BTreeMap<&[usize], usize> = BTreeMap::new();
    for trial in trials {
        let inside = trial.levels.iter().zip(levels).all(|(level, count)| level < count);
        if trial.levels.len() != levels.len() || !inside {
            return Err(NoShares::MissingCells);
        }
        *counts.entry(&trial.levels).or_default() += 1;
    }
    let cells = levels.iter().try_fold(1usize, |cells, count| cells.checked_mul(*count));
    if cells != Some(counts.len()) {
        return Err(NoShares::MissingCells);
    }
    let repeats = counts.values().next().copied().unwrap_or(0);
    if counts.values().any(|count| *count != repeats) {
        return Err(NoShares::UnequalRepeats);
    }
    if repeats < 2 { Err(NoShares::NoRepeats) } else { Ok(repeats) }
}

/// Largest minus smallest.
fn range(logs: &[f64]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = logs.iter().copied().fold(f64::INFINITY, f64::min);
    largest - smallest
}

/// A balanced design.
struct Design<'a> {
    levels: &'a [usize],
    trials: &'a [Trial],
}

impl Design<'_> {
    /// Group of each trial by its levels of some factors.
    fn groups(&self, factors: &[usize]) -> Vec<usize> {
        let group = |trial: &Trial| {
            factors
                .iter()
                .fold(0, |group, factor| group * self.levels[*factor] + trial.levels[*factor])
        };
        self.trials.iter().map(group).collect()
    }

    /// For each trial, the mean of all trials with the same levels of some factors.
    fn fitted(&self, values: &[f64], factors: &[usize]) -> Vec<f64> {
        means_by(&self.groups(factors), values)
    }

    /// For each trial, the effect of a factor or of a pair, without the effects of the pair's
    /// factors.
    fn effect(&self, values: &[f64], factors: &[usize]) -> Vec<f64> {
        let mut effect = self.fitted(values, factors);
        let less: &[&[usize]] = match factors {
            [a, b] => &[std::slice::from_ref(a), std::slice::from_ref(b)],
            _ => &[&[]],
        };
        for part in less {
            let part = self.fitted(values, part);
            effect.iter_mut().zip(part).for_each(|(effect, part)| *effect -= part);
        }
        if let [_, _] = factors {
            // The grand mean was subtracted twice.
            let grand = self.fitted(values, &[]);
            effect.iter_mut().zip(grand).for_each(|(effect, grand)| *effect += grand);
        }
        effect
    }

    /// p value by permuting the residuals without the term; `ratio` is its sum of squares over that
    /// of the error.
    fn p(&self, mut left: Vec<f64>, factors: &[usize], ratio: f64, mut chance: Chance) -> f64 {
        let cells = self.groups(&(0..self.levels.len()).collect::<Vec<_>>());
        let by: Vec<Vec<usize>> = match factors {
            [a, b] => vec![self.groups(factors), self.groups(&[*a]), self.groups(&[*b])],
            _ => vec![self.groups(factors)],
        };
        let square = |groups: &[usize], values: &[f64]| -> f64 {
            means_by(groups, values).iter().map(|mean| mean * mean).sum()
        };
        let mut as_large = 0;
        for _ in 0..PERMUTATIONS {
            chance.shuffle(&mut left);
            // The mean is 0, so sums of squares are those of the group means; a pair's excludes
            // those of its factors.
            let parts: f64 = by[1..].iter().map(|groups| square(groups, &left)).sum();
            let sum = square(&by[0], &left) - parts;
            let whole: f64 = left.iter().map(|value| value * value).sum();
            let error = whole - square(&cells, &left);
            as_large += usize::from(sum >= ratio * error * (1.0 - 1e-9));
        }
        (1 + as_large) as f64 / (1 + PERMUTATIONS) as f64
    }

    /// Table of a pair's cell means; `None` for a single factor.
    fn table(&self, logs: &[f64], factors: &[usize]) -> Option<Dependent> {
        let [a, b] = *factors else { return None };
        let (groups, means) = (self.groups(factors), self.fitted(logs, factors));
        let cell = |row: usize, column: usize| {
            let at = groups.iter().position(|group| *group == row * self.levels[b] + column);
            at.map_or(f64::NAN, |at| means[at].exp())
        };
        let row = |row: usize| (0..self.levels[b]).map(|column| cell(row, column)).collect();
        Some(Dependent { factors: [a, b], means: (0..self.levels[a]).map(row).collect() })
    }
}

/// For each value, the mean of its group.
fn means_by(groups: &[usize], values: &[f64]) -> Vec<f64> {
    let count = groups.iter().max().map_or(0, |last| last + 1);
    let mut sums = vec![(0.0, 0.0); count];
    for (group, value) in groups.iter().zip(values) {
        sums[*group].0 += value;
        sums[*group].1 += 1.0;
    }
    groups.iter().map(|group| sums[*group].0 / sums[*group].1).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Every combination of levels, `repeats` times.
    fn design(
        levels: &[usize],
        repeats: usize,
        mut value: impl FnMut(&[usize]) -> f64,
    ) -> Vec<Trial> {
        let cells: usize = levels.iter().product();
        let mut trials = Vec::new();
        for at in 0..cells * repeats {
            let mut rest = at / repeats;
            let mut own = Vec::new();
            for count in levels {
                own.push(rest % count);
                rest /= count;
            }
            trials.push(Trial { value: value(&own), levels: own });
        }
        trials
    }

    fn term<'a>(shares: &'a Shares, factors: &[usize]) -> &'a Term {
        shares.terms.iter().find(|term| term.factors == factors).unwrap()
    }

    #[test]
    fn two_by_two_by_hand() {
        // log y = 3 a + b + 0.5 a b ± 0.1 with a, b = ±1 and two repeats: SS = 8 q².
        let mut sign = 1.0;
        let trials = design(&[2, 2], 2, |levels| {
            let [a, b] = [0, 1].map(|factor| 2.0 * levels[factor] as f64 - 1.0);
            sign = -sign;
            (3.0 * a + b + 0.5 * a * b + 0.1 * sign).exp()
        });
        let shares = factors(&[2, 2], &trials, 1).unwrap();
        let (error, total) = (8.0 * 0.01, 8.0 * (9.0 + 1.0 + 0.25 + 0.01));
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(term(&shares, &[0]).share, 72.0 / total);
        close(term(&shares, &[1]).share, 8.0 / total);
        close(term(&shares, &[0, 1]).share, 2.0 / total);
        close(shares.error, error / total);
        close(shares.higher, 0.0);
        let mean_error = error / 4.0;
        close(term(&shares, &[1]).omega_squared, (8.0 - mean_error) / (total + mean_error));
        close(term(&shares, &[0]).range.unwrap(), 6f64.exp());
        // Exact figures: no effect gives 0, even without error.
        let exact = design(&[2, 2], 2, |levels| [1.0, 2.0][levels[0]]);
        let exact = factors(&[2, 2], &exact, 1).unwrap();
        assert_eq!((term(&exact, &[1]).p, term(&exact, &[0]).share), (1.0, 1.0));
        assert_eq!(shares.terms[0].factors, [0]);
        assert_eq!(shares.dependent, []);
    }

    #[test]
    fn what_matters_is_distinguished_from_what_does_not() {
        let mut chance = Chance::new(1);
        let trials = design(&[4, 3, 2], 3, |levels| {
            1_000.0 * 2f64.powi(levels[0] as i32) * (0.1 * chance.normal()).exp()
        });
        let shares = factors(&[4, 3, 2], &trials, 1).unwrap();
        let real = term(&shares, &[0]);
        assert!(real.share > 0.95 && real.p <= 0.001 && real.freedom == 3, "{real:?}");
        assert!(term(&shares, &[1]).omega_squared.abs() < 0.01);
        assert_eq!(term(&shares, &[0, 1]).freedom, 6);
        assert!(shares.dependent.is_empty());
    }

    #[test]
    fn p_is_uniform_where_nothing_has_an_effect() {
        let mut chance = Chance::new(2);
        let (mut single, mut pair) = (0, 0);
        for seed in 0..300 {
            // Besides a strong factor, which must not disturb the others.
            let trials =
                design(&[2, 3], 3, |levels| (5.0 * levels[0] as f64 + 0.2 * chance.normal()).exp());
            let shares = factors(&[2, 3], &trials, seed).unwrap();
            single += usize::from(term(&shares, &[1]).p <= 0.05);
            pair += usize::from(term(&shares, &[0, 1]).p <= 0.05);
        }
        assert!((5..27).contains(&single) && (5..27).contains(&pair), "{single} {pair} of 300");
    }

    #[test]
    fn the_interval_of_a_range_holds_the_true_ratio() {
        let holds = |truth: [f64; 3]| {
            let largest = truth.iter().copied().fold(0.0, f64::max);
            let ratio = largest / truth.iter().copied().fold(f64::INFINITY, f64::min);
            let held = (0..200).filter(|seed| {
                let mut chance = Chance::new(*seed);
                let trials =
                    design(&[3, 2], 3, |levels| truth[levels[0]] * (0.1 * chance.normal()).exp());
                let shares = factors(&[3, 2], &trials, 1).unwrap();
                let (low, high) = term(&shares, &[0]).range_interval.unwrap();
                (low..=high).contains(&ratio)
            });
            held.count()
        };
        for truth in [[1.0, 1.0, 1.0], [1.0, 1.1, 1.3], [1.0, 2.0, 4.0]] {
            let held = holds(truth);
            assert!(held >= 188, "{truth:?}: {held} of 200");
        }
    }

    #[test]
    fn effects_that_depend_on_each_other_get_a_table() {
        let mut chance = Chance::new(3);
        // Depth helps only reads.
        let trials = design(&[2, 2], 4, |levels| {
            let helped = if levels == [1, 1] { 8.0 } else { 1.0 };
            100.0 * helped * (0.02 * chance.normal()).exp()
        });
        let shares = factors(&[2, 2], &trials, 1).unwrap();
        assert_eq!(shares.dependent.len(), 1);
        let dependent = &shares.dependent[0];
        assert_eq!(dependent.factors, [0, 1]);
        assert!((dependent.means[1][1] / 800.0 - 1.0).abs() < 0.05, "{dependent:?}");
        assert!((dependent.means[1][0] / 100.0 - 1.0).abs() < 0.05, "{dependent:?}");
    }

    #[test]
    fn three_factors_at_once_are_the_higher_share() {
        let mut chance = Chance::new(4);
        let trials = design(&[2, 2, 2], 3, |levels| {
            let parity = levels.iter().sum::<usize>() % 2;
            (parity as f64 + 0.01 * chance.normal()).exp()
        });
        let shares = factors(&[2, 2, 2], &trials, 1).unwrap();
        assert!(shares.higher > 0.99, "{shares:?}");
    }

    #[test]
    fn designs_without_shares_say_why() {
        let full = design(&[2, 2], 2, |levels| [100.0, 400.0][levels[0]]);
        let of = |trials: &[Trial]| factors(&[2, 2], trials, 1);
        assert_eq!(of(&full[..7]), Err(NoShares::UnequalRepeats));
        assert_eq!(of(&full[..6]), Err(NoShares::MissingCells));
        assert_eq!(of(&design(&[2, 2], 1, |_| 1.0)), Err(NoShares::NoRepeats));
        assert_eq!(of(&design(&[2, 2], 2, |_| 1.0)), Err(NoShares::NoVariation));
        assert_eq!(of(&design(&[2, 2], 2, |_| 0.0)), Err(NoShares::NotPositive));
        assert_eq!(factors(&[1], &design(&[1], 2, |_| 1.0), 1), Err(NoShares::TooFewLevels));
    }
}
