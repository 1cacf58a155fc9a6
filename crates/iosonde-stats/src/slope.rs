//! Growth of a figure with the requested amount. Every round requests each amount once, in random
//! order.
//!
//! Estimates the median of the slopes between all pairs within a round, over all rounds, with the
//! interval that inverts Kendall's test: the seasonal form (Hirsch, Slack and Smith, 1982) of Sen's
//! slope (1968), with rounds in place of seasons. Influences on a whole round cancel. The only
//! assumption about the noise is that any order within a round is equally likely, not that it is
//! normal or even symmetric, which latencies never are.

use serde::Serialize;

use super::quantile::NORMAL;
use super::ratio::{median, sorted};

/// A slope over several rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slope {
    /// Median of the slopes of all pairs.
    pub median: f64,
    /// 95 % interval; `None` if there are too few pairs.
    pub interval: Option<(f64, f64)>,
    /// Number of rounds.
    pub rounds: usize,
}

impl Slope {
    /// From rounds of points `(requested, measured)`. Points of one round with the same requested
    /// amount form no pair. `None` without a pair, and if a figure is not finite.
    pub fn in_rounds(rounds: &[Vec<(f64, f64)>]) -> Option<Slope> {
        let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        if !rounds.iter().flatten().all(finite) {
            return None;
        }
        let slopes = sorted(rounds.iter().flat_map(|round| pairs(round)));
        let variance: f64 = rounds.iter().map(|round| kendall_variance(round.len() as f64)).sum();
        let median = median(&slopes)?;
        Some(Slope { median, interval: interval(&slopes, variance), rounds: rounds.len() })
    }
}

fn pairs(round: &[(f64, f64)]) -> impl Iterator<Item = f64> {
    let after = |at: usize| round[at + 1..].iter();
    (0..round.len()).flat_map(move |at| {
        let (x, y) = round[at];
        after(at).filter(move |(other, _)| *other != x).map(move |(u, v)| (v - y) / (u - x))
    })
}

/// Variance of Kendall's score of `n` points without ties and without a trend.
fn kendall_variance(n: f64) -> f64 {
    n * (n - 1.0) * (2.0 * n + 5.0) / 18.0
}

/// From the M-th smallest slope to the M-th largest, M = (pairs - 1.96 s) / 2 rounded down, so that
/// the interval is rather too wide than too narrow.
fn interval(sorted: &[f64], variance: f64) -> Option<(f64, f64)> {
    let rank = ((sorted.len() as f64 - NORMAL * variance.sqrt()) / 2.0).floor();
    if rank < 1.0 {
        return None;
    }
    let rank = rank as usize;
    Some((*sorted.get(rank - 1)?, *sorted.get(sorted.len() - rank)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::chance::Chance;

    #[test]
    fn the_median_of_all_pairs() {
        // Slopes 1, 2, 3 between neighbours, 1.5 and 2.5 over two steps, 2 over three.
        let round = vec![(0.0, 0.0), (1.0, 1.0), (2.0, 3.0), (3.0, 6.0)];
        let slope = Slope::in_rounds(std::slice::from_ref(&round)).unwrap();
        assert_eq!((slope.median, slope.interval, slope.rounds), (2.0, None, 1));
        // A second, slower round has the same slopes.
        let slower = round.iter().map(|(x, y)| (*x, y + 1e6)).collect();
        assert_eq!(Slope::in_rounds(&[round, slower]).unwrap().median, 2.0);
    }

    #[test]
    fn ranks_by_hand() {
        // Ten rounds of two points: ten slopes 1..=10, variance 10 * 2 * 1 * 9 / 18 = 10, and
        // (10 - 1.96 * 3.162) / 2 = 1.90: the extremes.
        let rounds: Vec<_> =
            (1..=10).map(|slope| vec![(0.0, 0.0), (1.0, f64::from(slope))]).collect();
        let slope = Slope::in_rounds(&rounds).unwrap();
        assert_eq!((slope.median, slope.interval), (5.5, Some((1.0, 10.0))));
        // Twenty: (20 - 1.96 * 4.472) / 2 = 5.6, the fifth from either end.
        let rounds: Vec<_> =
            (1..=20).map(|slope| vec![(0.0, 0.0), (1.0, f64::from(slope))]).collect();
        assert_eq!(Slope::in_rounds(&rounds).unwrap().interval, Some((5.0, 16.0)));
    }

    #[test]
    fn what_has_no_pair_has_no_slope() {
        assert_eq!(Slope::in_rounds(&[]), None);
        assert_eq!(Slope::in_rounds(&[vec![(1.0, 2.0)]]), None);
        assert_eq!(Slope::in_rounds(&[vec![(1.0, 2.0), (1.0, 3.0)]]), None);
        assert_eq!(Slope::in_rounds(&[vec![(1.0, 2.0), (2.0, f64::NAN)]]), None);
    }

    #[test]
    fn the_interval_covers_as_often_as_it_says() {
        let mut chance = Chance::new(11);
        let levels = [0.0625, 1.0, 16.0, 64.0];
        for (truth, rounds) in [(0.0, 20), (3.0, 20), (0.0, 40)] {
            let trials = 3000;
            let covered = (0..trials).filter(|_| {
                let rounds: Vec<Vec<(f64, f64)>> = (0..rounds)
                    .map(|_| {
                        // Every round has its own pace, and noise is far from symmetric.
                        let base = 1000.0 * chance.unit();
                        let noise = |draw: f64| -50.0 * (1.0 - draw).ln();
                        levels.map(|x| (x, base + truth * x + noise(chance.unit()))).to_vec()
                    })
                    .collect();
                let (low, high) = Slope::in_rounds(&rounds).unwrap().interval.unwrap();
                low <= truth && truth <= high
            });
            let share = covered.count() as f64 / f64::from(trials);
            assert!((0.94..0.98).contains(&share), "{truth} over {rounds} rounds: {share}");
        }
    }
}
