//! Is a figure steady over a window of rounds? The rule of the SNIA performance test specification
//! (PTS 2.0.2, 2.1.24), and the drift that the window cannot exclude.
//!
//! With mean `A`: the range `max - min` is at most a share of `A` (20 %), and the rise or fall of
//! the least-squares line across the window, `|b| (n - 1)`, is at most a share of `A` (10 %).

use serde::Serialize;

use crate::summary::{mean, t_p};

/// Quantile 0.95 of Student's t distribution for 1 to 10 degrees of freedom.
const T_95: [f64; 10] = [6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812];

/// A figure over the rounds of a window, in equal steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Number of rounds, at least 3.
    pub rounds: usize,
    /// Mean.
    pub mean: f64,
    /// Range: largest minus smallest value.
    pub range: f64,
    /// Slope of the least-squares line, per round.
    pub slope: f64,
    /// Value of that line at the first round.
    pub start: f64,
    /// Rise or fall of that line from the first round to the last, without sign.
    pub slope_excursion: f64,
    /// Half-width of the 90 % interval of the slope, per round.
    pub slope_reach: f64,
}

impl Window {
    /// The window of these values; `None` below three, or if one is not finite.
    pub fn of(values: &[f64]) -> Option<Window> {
        let n = values.len();
        if n < 3 || !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        let mean = mean(values);
        let middle = (n - 1) as f64 / 2.0;
        let (mut products, mut squares) = (0.0, 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for (round, value) in values.iter().enumerate() {
            let x = round as f64 - middle;
            products += x * (value - mean);
            squares += x * x;
            (low, high) = (low.min(*value), high.max(*value));
        }
        let slope = products / squares;
        let residual = |(round, value): (usize, &f64)| {
            (value - mean - slope * (round as f64 - middle)).powi(2)
        };
        let error: f64 = values.iter().enumerate().map(residual).sum();
        let freedom = n - 2;
        let standard_error = (error / freedom as f64 / squares).sqrt();
        let t = T_95.get(freedom - 1).copied().unwrap_or(1.8);
        Some(Window {
            rounds: n,
            mean,
            range: high - low,
            slope,
            start: mean - slope * middle,
            slope_excursion: slope.abs() * (n - 1) as f64,
            slope_reach: t * standard_error,
        })
    }

    /// Whether both excursions are within these shares of the mean (0.20 and 0.10 in the
    /// specification). `false` for a mean of 0 or below.
    pub fn is_steady(&self, range_share: f64, slope_share: f64) -> bool {
        self.mean > 0.0
            && self.range <= range_share * self.mean
            && self.slope_excursion <= slope_share * self.mean
    }

    /// The 90 % interval of the drift per round, as a share of the mean; `None` if the mean is not
    /// above 0.
    pub fn drift(&self) -> Option<(f64, f64)> {
        let share = |slope: f64| slope / self.mean;
        (self.mean > 0.0)
            .then(|| (share(self.slope - self.slope_reach), share(self.slope + self.slope_reach)))
    }
}

/// Whether later values are shown to have a different mean than earlier ones: Student's two-sample
/// test with a pooled variance, two-sided at this level. `false` below two values before, or
/// without one after.
pub fn differ(before: &[f64], after: &[f64], level: f64) -> bool {
    let (n, m) = (before.len() as f64, after.len() as f64);
    if before.len() < 2 || after.is_empty() {
        return false;
    }
    let squares = |values: &[f64]| -> f64 {
        let own = mean(values);
        values.iter().map(|value| (value - own).powi(2)).sum()
    };
    let freedom = before.len() + after.len() - 2;
    let variance = (squares(before) + squares(after)) / freedom as f64;
    let error = (variance * (1.0 / n + 1.0 / m)).sqrt();
    let distance = (mean(after) - mean(before)).abs();
    if error > 0.0 { t_p(distance / error, freedom) <= level } else { distance > 0.0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::chance::Chance;

    #[test]
    fn by_hand() {
        // Mean 100, slope 10 * (2 * 2 + 1 * 1 + ...) / 10: a line of 1 per round.
        let window = Window::of(&[98.0, 99.0, 100.0, 101.0, 102.0]).unwrap();
        assert_eq!((window.mean, window.range, window.slope), (100.0, 4.0, 1.0));
        assert_eq!((window.start, window.slope_excursion, window.slope_reach), (98.0, 4.0, 0.0));
        // A bump: no slope, and a range of 30.
        let bump = Window::of(&[90.0, 100.0, 120.0, 100.0, 90.0]).unwrap();
        assert_eq!((bump.mean, bump.range, bump.slope), (100.0, 30.0, 0.0));
        // Residuals -10, 0, 20, 0, -10: 600 / 3 / 10 = 20, and 2.353 * sqrt(20).
        assert!((bump.slope_reach - 2.353 * 20f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn both_limits_count_and_their_edges_belong_to_them() {
        let of = |values: [f64; 5]| Window::of(&values).unwrap().is_steady(0.20, 0.10);
        assert!(of([90.0, 110.0, 100.0, 110.0, 90.0]), "a range of exactly 20 %");
        assert!(!of([89.9, 110.0, 100.1, 110.0, 90.0]), "a range above 20 %");
        // 2.5 % per round are exactly 10 % across the window.
        assert!(of([95.0, 97.5, 100.0, 102.5, 105.0]));
        assert!(!of([94.9, 97.45, 100.0, 102.55, 105.1]), "a slope above 10 %, a range of 10.2 %");
        assert!(!of([0.0; 5]), "a mean of 0 is no state");
        assert!(Window::of(&[1.0, 2.0]).is_none());
        assert!(Window::of(&[1.0, f64::NAN, 1.0]).is_none());
    }

    /// Share of windows that pass at a given noise and drift, as in the table of the notes on the
    /// rule.
    #[test]
    fn the_rule_passes_as_often_as_was_simulated() {
        let mut chance = Chance::new(3);
        let mut passes = |noise: f64, drift: f64| {
            let trials = 3_000;
            let passed = (0..trials).filter(|_| {
                let value = |round: i32| {
                    100.0 * (1.0 + drift * f64::from(round)) * (1.0 + noise * chance.normal())
                };
                let values: Vec<f64> = (0..5).map(value).collect();
                Window::of(&values).unwrap().is_steady(0.20, 0.10)
            });
            passed.count() as f64 / f64::from(trials)
        };
        for (noise, drift, expected) in [
            (0.01, 0.0, 1.00),
            (0.01, -0.03, 0.02),
            (0.03, 0.0, 0.99),
            (0.03, -0.02, 0.66),
            (0.05, 0.0, 0.86),
            (0.05, -0.05, 0.04),
            (0.10, 0.0, 0.29),
            (0.15, -0.05, 0.03),
        ] {
            let found = passes(noise, drift);
            assert!((found - expected).abs() < 0.04, "{noise} {drift}: {found}, not {expected}");
        }
    }

    #[test]
    fn a_change_is_shown_as_rarely_as_its_level_says_and_a_large_one_always() {
        let mut chance = Chance::new(9);
        let mut shown = |shift: f64, after: usize| {
            let mut values =
                |n: usize, mean: f64| (0..n).map(|_| mean + 5.0 * chance.normal()).collect();
            let trials = 4_000;
            let found = (0..trials).filter(|_| {
                let (before, after): (Vec<f64>, Vec<f64>) =
                    (values(5, 100.0), values(after, 100.0 + shift));
                differ(&before, &after, 0.005)
            });
            found.count() as f64 / f64::from(trials)
        };
        for after in [1, 3, 5] {
            assert!((0.002..0.009).contains(&shown(0.0, after)), "{after} values");
        }
        assert!(shown(-75.0, 1) > 0.99 && shown(-30.0, 5) > 0.98);
        assert!(differ(&[2.0, 2.0], &[1.0], 0.005) && !differ(&[2.0, 2.0], &[2.0], 0.005));
        assert!(!differ(&[2.0], &[1.0], 0.005) && !differ(&[2.0, 2.0], &[], 0.005));
    }

    #[test]
    fn the_interval_of_the_drift_covers_as_often_as_it_says() {
        let mut chance = Chance::new(5);
        let trials = 4_000;
        let covered = (0..trials).filter(|_| {
            let values: Vec<f64> = (0..5)
                .map(|round| 100.0 - 2.0 * f64::from(round) + 3.0 * chance.normal())
                .collect();
            let window = Window::of(&values).unwrap();
            (window.slope + 2.0).abs() <= window.slope_reach
        });
        let share = covered.count() as f64 / f64::from(trials);
        assert!((0.88..0.92).contains(&share), "{share}");
    }
}
