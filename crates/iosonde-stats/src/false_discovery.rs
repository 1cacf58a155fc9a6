//! Control of the false discovery rate over many tests.

/// p values corrected by Benjamini and Hochberg (1995): on average at most 5 % of those at or below
/// 0.05 are false positives. Each is multiplied by the number of tests over its rank; none is above
/// its successor.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut corrected = vec![1.0; p.len()];
    let mut least: f64 = 1.0;
    for (rank, index) in order.into_iter().enumerate().rev() {
        least = least.min(p.len() as f64 / (rank + 1) as f64 * p[index]);
        corrected[index] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discoveries_are_those_of_the_paper() {
        // Fifteen tests, of which the paper rejects the first four at 5 %.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let corrected = benjamini_hochberg(&p);
        assert_eq!(corrected.iter().filter(|q| **q <= 0.05).count(), 4);
        assert!(corrected.is_sorted());
        assert!((corrected[0] - 0.0015).abs() < 1e-12);
        assert!(benjamini_hochberg(&[]).is_empty());
    }
}
