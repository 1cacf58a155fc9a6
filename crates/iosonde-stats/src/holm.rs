//! Family-wise correction of p values for many tests.

/// Holm's (1979) correction of a family of p values: with 95 % none at or below 0.05 is a false
/// positive. The smallest is multiplied by the number of tests, the next by one less, and so on;
/// none is below its predecessor.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut corrected = vec![1.0; p.len()];
    let mut least: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        least = least.max((p.len() - rank) as f64 * p[index]).min(1.0);
        corrected[index] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrected_as_in_the_paper() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        for (one, other) in corrected.iter().zip(expected) {
            assert!((one - other).abs() < 1e-12, "{corrected:?}");
        }
        assert_eq!(holm(&[0.5, 0.9]), [1.0, 1.0]);
        assert_eq!(holm(&[0.03]), [0.03]);
        assert!(holm(&[]).is_empty());
    }
}
