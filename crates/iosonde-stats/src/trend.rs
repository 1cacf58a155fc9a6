//! Does a short series rise or fall? The Mann-Kendall test.

/// The statistic of the Mann-Kendall test, about standard normal where there is no trend; 0 below
/// three values. Ties count for neither direction.
pub fn mann_kendall(series: &[f64]) -> f64 {
    let n = series.len() as f64;
    if series.len() < 3 {
        return 0.0;
    }
    let mut score = 0.0;
    for (at, early) in series.iter().enumerate() {
        for late in &series[at + 1..] {
            score += f64::from(i8::from(late > early) - i8::from(late < early));
        }
    }
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    // Corrected for continuity.
    (score - score.signum() * f64::from(u8::from(score != 0.0))) / deviation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_a_fall_and_neither() {
        let rise: Vec<f64> = (0..20).map(f64::from).collect();
        // All 190 pairs rise: (190 - 1) / sqrt(950).
        assert!((mann_kendall(&rise) - 189.0 / 950f64.sqrt()).abs() < 1e-12);
        let fall: Vec<f64> = rise.iter().rev().copied().collect();
        assert_eq!(mann_kendall(&fall), -mann_kendall(&rise));
        let alternating: Vec<f64> = (0..20).map(|at| f64::from(at % 2)).collect();
        assert!(mann_kendall(&alternating).abs() < 1.96);
        assert_eq!(mann_kendall(&[7.0; 20]), 0.0);
        assert_eq!(mann_kendall(&[1.0, 2.0]), 0.0);
    }
}
