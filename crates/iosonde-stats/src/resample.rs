//! Bootstrap over runs: the sampling variation of a figure.
//!
//! Runs are drawn with replacement from the existing runs, and the figure is recomputed each time
//! (Efron and Tibshirani, An Introduction to the Bootstrap, chapters 13 and 14). Below ten runs the
//! interval is the plain percentiles of these figures; from ten on it is corrected for bias and for
//! a spread that changes with the figure (BCa).

use super::chance::Chance;
use super::normal;
use super::ratio::{median, sorted};
use super::summary::is_positive;

/// Number of resamples.
pub const RESAMPLES: usize = 4_000;
/// Runs at or above which the interval is corrected for bias.
pub const CORRECTED_FROM: usize = 10;

/// A figure over many resamples.
#[derive(Clone, Debug)]
pub struct Resampled {
    /// Ascending.
    figures: Vec<f64>,
    /// Bias and acceleration, if the interval is corrected.
    correction: Option<(f64, f64)>,
}

impl Resampled {
    /// The logarithm of median(b) / median(a), both resampled. `None` if a value is not positive,
    /// or a side is empty.
    pub fn log_ratio_of_medians(a: &[f64], b: &[f64], seed: u64) -> Option<Resampled> {
        let [a, b] = [sorted_logs(a)?, sorted_logs(b)?];
        let figure = |a: &[f64], b: &[f64]| middle(b) - middle(a);
        let mut draws = Chance::new(seed);
        let (mut counts_a, mut counts_b) = (vec![0; a.len()], vec![0; b.len()]);
        let figures = (0..RESAMPLES)
            .map(|_| {
                let of_b = drawn(&b, &mut counts_b, &mut draws).ln();
                of_b - drawn(&a, &mut counts_a, &mut draws).ln()
            })
            .collect();
        let without_one_of_a = jackknife(&a, |rest| figure(rest, &b));
        let without_one_of_b = jackknife(&b, |rest| figure(&a, rest));
        let smaller = a.len().min(b.len());
        Some(Resampled::of(figures, figure(&a, &b), [without_one_of_a, without_one_of_b], smaller))
    }

    /// The median of values, resampled. `None` if there are no values.
    pub fn median(values: &[f64], seed: u64) -> Option<Resampled> {
        let sorted = sorted(values.iter().copied());
        let figure = median(&sorted)?;
        let mut draws = Chance::new(seed);
        let mut counts = vec![0; sorted.len()];
        let figures = (0..RESAMPLES).map(|_| drawn(&sorted, &mut counts, &mut draws)).collect();
        let without_one = jackknife(&sorted, |rest| median(rest).unwrap_or(figure));
        Some(Resampled::of(figures, figure, [without_one, Vec::new()], sorted.len()))
    }

    fn of(mut figures: Vec<f64>, figure: f64, jackknifed: [Vec<f64>; 2], runs: usize) -> Resampled {
        figures.sort_by(f64::total_cmp);
        let below = figures.partition_point(|each| *each < figure);
        let at_most = figures.partition_point(|each| *each <= figure);
        // Medians coincide often: draws equal to the figure count half on each side.
        let share = (below + at_most) as f64 / (2 * figures.len()) as f64;
        let is_corrected = runs >= CORRECTED_FROM && share > 0.0 && share < 1.0;
        let correction = is_corrected.then(|| (normal::quantile(share), acceleration(&jackknifed)));
        Resampled { figures, correction }
    }

    /// The confidence interval at this level, `0..1`.
    pub fn interval(&self, confidence: f64) -> (f64, f64) {
        let tail = (1.0 - confidence) / 2.0;
        (self.at(tail), self.at(1.0 - tail))
    }

    /// The quantile of the draws for this probability.
    fn at(&self, probability: f64) -> f64 {
        let share = match self.correction {
            None => probability,
            Some((bias, acceleration)) => {
                let moved = bias + normal::quantile(probability);
                normal::cdf(bias + moved / (1.0 - acceleration * moved))
            }
        };
        let last = self.figures.len() - 1;
        // Rounded outwards, so that the interval is never too narrow.
        let place = share * last as f64;
        let place = if probability < 0.5 { place.floor() } else { place.ceil() };
        self.figures[(place.max(0.0) as usize).min(last)]
    }
}

fn sorted_logs(values: &[f64]) -> Option<Vec<f64>> {
    let is_sound = !values.is_empty() && values.iter().all(is_positive);
    is_sound.then(|| sorted(values.iter().copied()))
}

/// Logarithm of the median of ascending positive values.
fn middle(sorted: &[f64]) -> f64 {
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    ((low + high) / 2.0).ln()
}

/// Median of a resample of ascending values, by counting the draws.
fn drawn(sorted: &[f64], counts: &mut [u32], draws: &mut Chance) -> f64 {
    counts.fill(0);
    for _ in 0..sorted.len() {
        counts[draws.index(sorted.len())] += 1;
    }
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    let mut seen = 0;
    let mut at_low = None;
    for (value, count) in sorted.iter().zip(counts.iter()) {
        seen += *count as usize;
        if at_low.is_none() && seen > low {
            at_low = Some(*value);
        }
        if let Some(lower) = at_low.filter(|_| seen > high) {
            return (lower + value) / 2.0;
        }
    }
    f64::NAN
}

/// The figure with each value left out in turn.
fn jackknife(values: &[f64], figure: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    if values.len() < 2 {
        return Vec::new();
    }
    let mut rest = values[1..].to_vec();
    let mut figures = vec![figure(&rest)];
    for index in 0..rest.len() {
        rest[index] = values[index];
        figures.push(figure(&rest));
    }
    figures
}

/// Acceleration: how the spread changes with the figure, from the influence of each value.
fn acceleration(jackknifed: &[Vec<f64>]) -> f64 {
    let (mut cubes, mut squares) = (0.0, 0.0);
    for figures in jackknifed.iter().filter(|figures| !figures.is_empty()) {
        let n = figures.len() as f64;
        let mean = figures.iter().sum::<f64>() / n;
        cubes += figures.iter().map(|each| (mean - each).powi(3)).sum::<f64>() / n.powi(3);
        squares += figures.iter().map(|each| (mean - each).powi(2)).sum::<f64>() / n.powi(2);
    }
    if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_interval_and_equal_runs_one_point() {
        let (a, b) = ([10.0, 11.0, 12.0, 13.0, 14.0], [20.0, 22.0, 24.0, 26.0, 28.0]);
        let of = |seed| Resampled::log_ratio_of_medians(&a, &b, seed).unwrap().interval(0.95);
        assert_eq!(of(7), of(7));
        let (low, high) = of(7);
        assert!(low < 2f64.ln() && 2f64.ln() < high, "{low} {high}");
        // The extremes of five runs bound what can be drawn.
        assert!(low >= (20.0 / 14.0f64).ln() && high <= (28.0 / 10.0f64).ln());
        let still = Resampled::log_ratio_of_medians(&[3.0; 12], &[3.0; 12], 1).unwrap();
        assert_eq!(still.interval(0.95), (0.0, 0.0));
        assert!(Resampled::log_ratio_of_medians(&[0.0], &[1.0], 1).is_none());
        assert!(Resampled::log_ratio_of_medians(&[], &[1.0], 1).is_none());
    }

    #[test]
    fn draws_of_a_median_follow_the_binomial_law() {
        // Of three values a draw has the smallest as median with 3 (1/3)^2 (2/3) + (1/3)^3 = 7/27.
        let resampled = Resampled::median(&[1.0, 2.0, 3.0], 11).unwrap();
        let smallest = resampled.figures.iter().filter(|each| **each == 1.0).count();
        let share = smallest as f64 / RESAMPLES as f64;
        assert!((share - 7.0 / 27.0).abs() < 0.025, "{share}");
    }

    #[test]
    fn jackknife_leaves_each_out_once() {
        let sums = jackknife(&[1.0, 2.0, 4.0], |rest| rest.iter().sum());
        assert_eq!(sums, [6.0, 5.0, 3.0]);
    }
}
