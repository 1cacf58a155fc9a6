//! Effect sizes: measures of a difference that do not grow with the number of runs.

use super::ratio::median;
use super::summary::{logarithms, mean};

/// Cliff's delta, -1 to 1: share of pairs in which a value of `b` is above one of `a`, minus the
/// share in which it is below. `None` if a side is empty.
pub fn cliffs_delta(a: &[f64], b: &[f64]) -> Option<f64> {
    let pairs = a.len() * b.len();
    let signs = a.iter().flat_map(|x| b.iter().map(move |y| sign(y - x)));
    (pairs > 0).then(|| signs.sum::<f64>() / pairs as f64)
}

/// Cliff's delta within rounds: share of positive differences minus share of negative ones.
pub fn dominance(differences: &[f64]) -> Option<f64> {
    let count = differences.len() as f64;
    let signs = differences.iter().map(|difference| sign(*difference));
    (count > 0.0).then(|| signs.sum::<f64>() / count)
}

fn sign(value: f64) -> f64 {
    f64::from(i8::from(value > 0.0) - i8::from(value < 0.0))
}

/// Cliff's delta as text, by the usual limits (Romano and others, 2006).
pub fn magnitude(delta: f64) -> &'static str {
    match delta.abs() {
        size if size < 0.147 => "negligible",
        size if size < 0.33 => "small",
        size if size < 0.474 => "medium",
        _ => "large",
    }
}

/// Hodges-Lehmann shift: median of the differences of each value of `b` and each of `a`.
pub fn shift(a: &[f64], b: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = a.iter().flat_map(|x| b.iter().map(move |y| y - x)).collect();
    median(&differences)
}

/// Hodges-Lehmann shift within rounds: median of the means of all pairs of differences, each paired
/// with itself too.
pub fn paired_shift(differences: &[f64]) -> Option<f64> {
    let each = differences.iter().enumerate();
    let means: Vec<f64> =
        each.flat_map(|(i, x)| differences[i..].iter().map(move |y| (x + y) / 2.0)).collect();
    median(&means)
}

/// Pooled relative spread between runs of two sides: the pooled standard deviation of the
/// logarithms. `None` below three values in total, or if one is not positive.
pub fn pooled_spread(a: &[f64], b: &[f64]) -> Option<f64> {
    let [(squares_a, n), (squares_b, m)] = [log_squares(a)?, log_squares(b)?];
    let freedom = (n + m).checked_sub(2).filter(|freedom| *freedom > 0)?;
    Some(((squares_a + squares_b) / freedom as f64).sqrt())
}

/// Sum of the squared deviations of the logarithms from their mean, and their number.
fn log_squares(values: &[f64]) -> Option<(f64, usize)> {
    let logs = logarithms(values).filter(|logs| !logs.is_empty())?;
    let mean = mean(&logs);
    Some((logs.iter().map(|log| (log - mean).powi(2)).sum(), logs.len()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn delta_of_known_sides() {
        assert_eq!(cliffs_delta(&[1.0, 2.0], &[3.0, 4.0]), Some(1.0));
        assert_eq!(cliffs_delta(&[3.0, 4.0], &[1.0, 2.0]), Some(-1.0));
        assert_eq!(cliffs_delta(&[1.0, 2.0], &[1.0, 2.0]), Some(0.0));
        assert_eq!(cliffs_delta(&[], &[1.0]), None);
        assert_eq!(dominance(&[1.0, 1.0, -1.0, 0.0]), Some(0.25));
        let words = [0.1, -0.2, 0.4, -1.0].map(magnitude);
        assert_eq!(words, ["negligible", "small", "medium", "large"]);
    }

    #[test]
    fn shifts_of_known_sides() {
        assert_eq!(shift(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]), Some(10.0));
        // A single outlier does not move it.
        assert_eq!(shift(&[1.0, 2.0, 3.0], &[11.0, 12.0, 1e9]), Some(10.0));
        // Walsh averages of 1, 2, 6: 1, 1.5, 3.5, 2, 4, 6.
        assert_eq!(paired_shift(&[1.0, 2.0, 6.0]), Some(2.75));
    }

    #[test]
    fn spread_is_a_share_of_the_level() {
        let side = |level: f64| [0.98, 1.0, 1.02].map(|each| each * level);
        let spread = pooled_spread(&side(10.0), &side(5_000.0)).unwrap();
        assert!((spread - 0.02).abs() < 2e-4, "{spread}");
        assert_eq!(pooled_spread(&[1.0], &[1.0]), None);
        assert_eq!(pooled_spread(&[0.0, 1.0], &[1.0, 1.0]), None);
    }
}
