//! Are the residuals of a model larger than the scatter between repeats explains?
//!
//! The scatter is the standard deviation of logarithms, pooled over all groups of repeats: that of
//! a single group of three is too uncertain to judge by.

use super::holm::holm;
use super::summary::{Summary, logarithms, t_975, t_p};

/// Standard error of the median over that of the mean, for normal noise: sqrt(pi / 2).
pub const OF_MEDIAN: f64 = 1.253_314;

/// Relative error due to rounding.
const ROUNDING: f64 = 1e-9;

/// The scatter of logarithms between repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scatter {
    std_dev: f64,
    freedom: usize,
}

impl Scatter {
    /// Scatter pooled over all groups; `None` if no group has two repeats, or a value is not
    /// positive.
    pub fn of<'a>(groups: impl IntoIterator<Item = &'a [f64]>) -> Option<Scatter> {
        let (mut squares, mut freedom) = (0.0, 0);
        for group in groups {
            let logs = Summary::of(&logarithms(group)?)?;
            squares += logs.std_dev.powi(2) * (logs.n - 1) as f64;
            freedom += logs.n - 1;
        }
        (freedom > 0).then(|| Scatter { std_dev: (squares / freedom as f64).sqrt(), freedom })
    }

    /// Relative standard error of the median of this many repeats.
    pub fn error_of_median(&self, repeats: usize) -> f64 {
        OF_MEDIAN * self.std_dev / (repeats.max(1) as f64).sqrt()
    }

    /// Half-width of the 95 % interval for this standard error.
    pub fn reach(&self, error: f64) -> Option<f64> {
        Some(t_975(self.freedom)? * error)
    }

    /// Holm-corrected p value of the largest residual under the scatter alone. Each residual
    /// (measured over fitted, minus 1) is of the median of this many repeats.
    pub fn p_of_residuals(&self, residuals: impl IntoIterator<Item = (f64, usize)>) -> f64 {
        let p = residuals.into_iter().map(|(residual, repeats)| {
            let error = self.error_of_median(repeats).max(ROUNDING);
            t_p(residual.ln_1p().abs() / error, self.freedom)
        });
        holm(&p.collect::<Vec<f64>>()).into_iter().fold(1.0, f64::min)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::chance::Chance;

    #[test]
    fn residuals_of_noise_are_explained_and_those_beyond_it_are_not() {
        let explained = (0..400).filter(|seed| {
            let mut chance = Chance::new(*seed);
            let groups: Vec<Vec<f64>> =
                (0..7).map(|_| (0..3).map(|_| (0.1 * chance.normal()).exp()).collect()).collect();
            let scatter = Scatter::of(groups.iter().map(Vec::as_slice)).unwrap();
            let medians = groups.iter().map(|group| super::super::ratio::median(group).unwrap());
            scatter.p_of_residuals(medians.map(|median| (median - 1.0, 3))) > 0.05
        });
        let explained = explained.count();
        assert!(explained >= 376, "{explained} of 400");
        let scatter = Scatter::of([&[0.9, 1.0, 1.1][..], &[0.95, 1.0, 1.05]]).unwrap();
        assert!(scatter.p_of_residuals([(0.0, 3), (0.6, 3)]) < 0.01);
        assert_eq!(Scatter::of([&[1.0][..]]), None);
        assert_eq!(Scatter::of([&[1.0, -1.0][..]]), None);
    }
}
