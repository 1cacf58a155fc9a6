//! Ratio of two figures, measured in rounds of both.
//!
//! The ratio is taken within each round, so that influences on a whole round cancel, and the median
//! over the rounds is reported. Its interval is the exact order-statistic interval (that of the
//! sign test): from the k-th smallest to the k-th largest ratio, with the largest k for which a
//! binomial variable of n trials at one half is below k with probability at most 2.5 %. It only
//! assumes that the rounds are independent and identically distributed. At least six rounds are
//! needed: the smallest and the largest of six hold the true median in 96.9 % of cases, those of
//! five in only 93.75 %.

use serde::Serialize;

use super::summary::is_positive;

/// Fewest rounds for a 95 % interval.
pub const ROUNDS_FOR_INTERVAL: usize = 6;

/// Probability left outside the interval, on each side.
const TAIL: f64 = 0.025;

/// A ratio over several rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Median of the ratios within rounds; the mean of the middle two where their count is even.
    pub median: f64,
    /// Interval that covers the true median with at least 95 %; `None` below
    /// [`ROUNDS_FOR_INTERVAL`] rounds.
    pub interval: Option<(f64, f64)>,
    /// Number of rounds.
    pub rounds: usize,
}

impl Ratio {
    /// Ratio of the first to the second of each pair, one pair per round. `None` without a round,
    /// or if a figure is not a positive number.
    pub fn in_rounds(pairs: &[(f64, f64)]) -> Option<Ratio> {
        if !pairs.iter().all(|(a, b)| is_positive(a) && is_positive(b)) {
            return None;
        }
        let ratios = sorted(pairs.iter().map(|(a, b)| a / b));
        let rounds = ratios.len();
        let interval = rank(rounds).map(|rank| (ratios[rank - 1], ratios[rounds - rank]));
        Some(Ratio { median: median_of_sorted(&ratios)?, interval, rounds })
    }
}

/// Median of at least one number; the mean of the middle two where their count is even.
pub fn median(values: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(values.iter().copied()))
}

/// In ascending order.
pub(crate) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Index of the greatest value; the first of equals.
pub(crate) fn greatest(values: &[f64]) -> Option<usize> {
    (0..values.len()).rev().max_by(|a, b| values[*a].total_cmp(&values[*b]))
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted.get(middle).copied(),
        _ => Some((sorted.get(middle.checked_sub(1)?)? + sorted.get(middle)?) / 2.0),
    }
}

/// The largest k >= 1 with P(B(n, 1/2) < k) at most [`TAIL`]; `None` if there is none.
fn rank(n: usize) -> Option<usize> {
    // For a thousand rounds the smallest term, 1e-301, is still a normal number.
    let mut term = 0.5f64.powi(i32::try_from(n).ok()?);
    let (mut below, mut rank) = (term, None);
    let mut k = 0;
    while below <= TAIL && k < n / 2 {
        k += 1;
        rank = Some(k);
        term *= (n + 1 - k) as f64 / k as f64;
        below += term;
    }
    rank
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::chance::Chance;

    #[test]
    fn ranks_of_the_tables() {
        // Conover, Practical Nonparametric Statistics, table of the sign interval at 95 %.
        let known = [(5, None), (6, Some(1)), (8, Some(1)), (9, Some(2)), (10, Some(2))];
        for (n, expected) in known.into_iter().chain([(20, Some(6)), (25, Some(8))]) {
            assert_eq!(rank(n), expected, "{n} rounds");
        }
        assert!(rank(1000).is_some_and(|rank| (465..=470).contains(&rank)));
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // A slow third round affects both sides; the ratio is 2 in each round.
        let ratio = Ratio::in_rounds(&[(200.0, 100.0), (280.0, 140.0), (100.0, 50.0)]).unwrap();
        assert_eq!((ratio.median, ratio.interval, ratio.rounds), (2.0, None, 3));
    }

    #[test]
    fn six_rounds_carry_their_extremes() {
        let pairs = [1.0, 1.1, 0.9, 1.2, 1.05, 0.95].map(|ratio| (ratio, 1.0));
        let ratio = Ratio::in_rounds(&pairs).unwrap();
        assert_eq!(ratio.interval, Some((0.9, 1.2)));
        assert!((ratio.median - 1.025).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_rate_has_no_ratio() {
        for pairs in [vec![], vec![(1.0, 0.0)], vec![(0.0, 1.0)], vec![(f64::NAN, 1.0)]] {
            assert_eq!(Ratio::in_rounds(&pairs), None, "{pairs:?}");
        }
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_interval_covers_as_often_as_it_says() {
        // Skewed noise with median 1: the exponential of a shifted exponential.
        let mut chance = Chance::new(7);
        for (rounds, least) in [(6, 0.955), (9, 0.948), (20, 0.945)] {
            let trials = 4000;
            let covered = (0..trials).filter(|_| {
                let pairs: Vec<(f64, f64)> = (0..rounds)
                    .map(|_| ((-(1.0 - chance.unit()).ln() - 2f64.ln()).exp(), 1.0))
                    .collect();
                let (low, high) = Ratio::in_rounds(&pairs).unwrap().interval.unwrap();
                low <= 1.0 && 1.0 <= high
            });
            let share = covered.count() as f64 / f64::from(trials);
            assert!(share >= least, "{rounds} rounds: {share}");
        }
    }
}
