//! Where does the warm-up end? MSER-5.
//!
//! The series is averaged over batches of five. The cut is after the number of batches that
//! minimizes the squared standard error of the remaining mean. At most half may be cut off: a
//! minimum at that limit means that no steady state was reached.

use super::summary::{Summary, autocorrelation_time, mean};

/// Values averaged into one batch.
pub const BATCH: usize = 5;
/// Fewest batches for the rule.
const FEWEST_BATCHES: usize = 4;
/// Fewest values for a comparison of halves: ten batches.
pub const FEWEST_TO_DIFFER: usize = 10 * BATCH;

/// The result of MSER-5 for a series.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WarmUp {
    /// Discard this many values from the start; may be 0.
    EndsAfter(usize),
    /// The best cut is at the search limit.
    NoSteadyPart,
    /// Fewer than four batches: no result.
    TooShort,
}

/// Applies MSER-5 (White; Spratt 1998) to per-interval values.
pub fn mser5(series: &[f64]) -> WarmUp {
    let batches: Vec<f64> = series.chunks_exact(BATCH).map(mean).collect();
    let k = batches.len();
    if k < FEWEST_BATCHES {
        return WarmUp::TooShort;
    }
    let limit = k / 2;
    let statistic = |cut: usize| {
        let rest = &batches[cut..];
        let n = rest.len() as f64;
        let mean = mean(rest);
        rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n * n)
    };
    // Strictly smaller, so that a constant series keeps everything.
    let (mut best, mut least) = (0, statistic(0));
    for cut in 1..=limit {
        let value = statistic(cut);
        if value < least * (1.0 - 1e-9) {
            (best, least) = (cut, value);
        }
    }
    if best == limit { WarmUp::NoSteadyPart } else { WarmUp::EndsAfter(best * BATCH) }
}

/// Difference of the means of the two halves of a series, in standard errors; 0 below
/// [`FEWEST_TO_DIFFER`] values. The errors account for autocorrelation; a trend within a half is
/// not counted as noise.
pub fn halves_apart(series: &[f64]) -> f64 {
    if series.len() < FEWEST_TO_DIFFER {
        return 0.0;
    }
    let (first, second) = series.split_at(series.len() / 2);
    let difference = (mean(first) - mean(second)).abs();
    let error = error_of_mean(first).hypot(error_of_mean(second));
    if difference == 0.0 { 0.0 } else { difference / error }
}

fn error_of_mean(part: &[f64]) -> f64 {
    let n = part.len() as f64;
    let (middle, mean) = ((n - 1.0) / 2.0, mean(part));
    let places = || part.iter().enumerate().map(|(at, value)| (at as f64 - middle, value - mean));
    let slope = places().map(|(at, value)| at * value).sum::<f64>()
        / places().map(|(at, _)| at * at).sum::<f64>();
    let rest: Vec<f64> = places().map(|(at, value)| value - slope * at).collect();
    let spread = Summary::of(&rest).map_or(0.0, |summary| summary.std_dev);
    spread * (autocorrelation_time(&rest) / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    #[test]
    fn halves_differ_by_a_trend_or_a_step_and_not_by_noise() {
        let of = |seed: u64, n: usize, level: fn(f64) -> f64| -> Vec<f64> {
            let mut chance = Chance::new(seed);
            let mut last = 0.0;
            let mut noise = || {
                // AR(1) with a coefficient of 0.5 and a deviation of 12 %.
                last = 0.5 * last + 0.1 * chance.normal();
                last
            };
            (0..n).map(|at| level(at as f64 / n as f64) + noise()).collect()
        };
        let far = |level: fn(f64) -> f64| -> usize {
            (1..=200).filter(|seed| halves_apart(&of(*seed, 100, level)) >= 3.0).count()
        };
        assert!(far(|_| 1.0) <= 4, "{}", far(|_| 1.0));
        assert!(far(|t| 1.4 - 0.8 * t) >= 190, "{}", far(|t| 1.4 - 0.8 * t));
        assert!(far(|t| if t < 0.55 { 1.0 } else { 0.5 }) >= 190);
        assert_eq!(halves_apart(&of(1, 49, |t| t)), 0.0);
        assert_eq!(halves_apart(&[7.0; 100]), 0.0);
    }

    #[test]
    fn a_constant_series_keeps_everything() {
        assert_eq!(mser5(&[7.0; 70]), WarmUp::EndsAfter(0));
    }

    #[test]
    fn a_slow_start_is_cut_off() {
        let mut series = vec![10.0; 100];
        series[..15].fill(4.0);
        assert_eq!(mser5(&series), WarmUp::EndsAfter(15));
        series[..13].fill(4.0);
        series[13..].fill(10.0);
        assert_eq!(mser5(&series), WarmUp::EndsAfter(15));
    }

    #[test]
    fn a_ramp_and_a_late_step_have_no_steady_part() {
        let ramp: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(mser5(&ramp), WarmUp::NoSteadyPart);
        let mut late = vec![10.0; 100];
        late[55..].fill(4.0);
        assert_eq!(mser5(&late), WarmUp::NoSteadyPart);
    }

    #[test]
    fn a_short_series_is_not_judged() {
        assert_eq!(mser5(&[1.0; 19]), WarmUp::TooShort);
        assert_eq!(mser5(&[1.0; 20]), WarmUp::EndsAfter(0));
    }
}
