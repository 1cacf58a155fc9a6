//! Distances between two distributions.
//!
//! The Kolmogorov-Smirnov distance (N. Smirnov, "Table for estimating the goodness of fit of
//! empirical distributions", Ann. Math. Statist. 19(2), 1948) is the largest difference of the two
//! distribution functions: 0 if equal, 1 if they do not overlap. It has no unit and no scale, so
//! distances of sizes, times and depths can be compared. Total variation is its counterpart for
//! shares of unordered kinds.

/// A distribution: values with their weights, in any order; a value may occur more than once.
pub type Weighted = [(u64, u64)];

/// Largest difference of two distribution functions, `0..=1`; `None` if one has no weight.
pub fn kolmogorov_smirnov(one: &Weighted, other: &Weighted) -> Option<f64> {
    let weight = |of: &Weighted| of.iter().map(|(_, weight)| *weight as f64).sum::<f64>();
    let (whole_one, whole_other) = (weight(one), weight(other));
    if whole_one <= 0.0 || whole_other <= 0.0 {
        return None;
    }
    let signed = |of: &Weighted, whole: f64| -> Vec<(u64, f64)> {
        of.iter().map(|(value, weight)| (*value, *weight as f64 / whole)).collect()
    };
    let mut steps = signed(one, whole_one);
    steps.extend(signed(other, -whole_other));
    steps.sort_by_key(|(value, _)| *value);
    let (mut difference, mut largest) = (0.0f64, 0.0f64);
    for (at, (value, step)) in steps.iter().enumerate() {
        difference += step;
        // Evaluate only after the last of equal values.
        if steps.get(at + 1).is_none_or(|(next, _)| next != value) {
            largest = largest.max(difference.abs());
        }
    }
    Some(largest.min(1.0))
}

/// Kolmogorov distance of a distribution from the exponential distribution with the same mean;
/// `None` without weight or mean. Steps are evaluated at their middle, because values of a
/// histogram are the middles of buckets.
pub fn from_exponential(of: &Weighted) -> Option<f64> {
    let whole: f64 = of.iter().map(|(_, weight)| *weight as f64).sum();
    let mean = of.iter().map(|(value, weight)| *value as f64 * *weight as f64).sum::<f64>() / whole;
    if mean.is_nan() || mean <= 0.0 {
        return None;
    }
    let mut steps = of.to_vec();
    steps.sort_unstable_by_key(|(value, _)| *value);
    let (mut below, mut largest) = (0.0, 0.0f64);
    for (value, weight) in steps {
        let share = weight as f64 / whole;
        let law = 1.0 - (-(value as f64) / mean).exp();
        largest = largest.max((below + share / 2.0 - law).abs());
        below += share;
    }
    Some(largest)
}

/// Half the sum of the differences of shares, `0..=1`; `None` if one has no weight.
pub fn total_variation(one: &[u64], other: &[u64]) -> Option<f64> {
    let whole = |of: &[u64]| of.iter().sum::<u64>() as f64;
    let (whole_one, whole_other) = (whole(one), whole(other));
    if whole_one <= 0.0 || whole_other <= 0.0 {
        return None;
    }
    let share = |of: &[u64], at: usize, whole: f64| of.get(at).copied().unwrap_or(0) as f64 / whole;
    let kinds = 0..one.len().max(other.len());
    let sum: f64 =
        kinds.map(|at| (share(one, at, whole_one) - share(other, at, whole_other)).abs()).sum();
    Some(sum / 2.0)
}

/// Similarity of two sizes: the smaller over the larger, `0..=1`; `None` if both are 0.
pub fn likeness(one: f64, other: f64) -> Option<f64> {
    let (low, high) = (one.min(other), one.max(other));
    (high > 0.0 && low >= 0.0).then(|| low / high)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_distance_of_kolmogorov_and_smirnov() {
        let ks = |one: &Weighted, other: &Weighted| kolmogorov_smirnov(one, other).unwrap();
        assert_eq!(ks(&[(1, 5), (2, 5)], &[(2, 1), (1, 1)]), 0.0);
        assert_eq!(ks(&[(1, 5)], &[(2, 9)]), 1.0);
        assert!((ks(&[(1, 1), (2, 1), (3, 2)], &[(1, 1), (3, 3)]) - 0.25).abs() < 1e-12);
        // Half of the weight moved, no matter how far.
        assert_eq!(ks(&[(4096, 2)], &[(4096, 1), (1 << 40, 1)]), 0.5);
        assert_eq!(kolmogorov_smirnov(&[], &[(1, 1)]), None);
        assert_eq!(kolmogorov_smirnov(&[(1, 0)], &[(1, 1)]), None);
    }

    #[test]
    fn exponential_times_are_known_and_constant_ones_are_not() {
        let n = 1000;
        let quantiles: Vec<(u64, u64)> = (0..n)
            .map(|i| ((-(1.0 - (f64::from(i) + 0.5) / f64::from(n)).ln() * 1e6) as u64, 1))
            .collect();
        assert!(from_exponential(&quantiles).unwrap() < 0.005);
        // All at the mean: the law has 1 - 1/e there, and the step's middle is at a half.
        let constant = from_exponential(&[(1000, 7)]).unwrap();
        assert!((constant - 0.1321).abs() < 0.001, "{constant}");
        assert_eq!(from_exponential(&[]), None);
        assert_eq!(from_exponential(&[(0, 3)]), None);
    }

    #[test]
    fn shares_and_sizes() {
        assert_eq!(total_variation(&[70, 30], &[7, 3]), Some(0.0));
        assert_eq!(total_variation(&[1, 0], &[0, 1]), Some(1.0));
        assert_eq!(total_variation(&[3, 1], &[1, 1]), Some(0.25));
        assert_eq!(total_variation(&[0], &[1]), None);
        assert_eq!(likeness(2.0, 8.0), Some(0.25));
        assert_eq!(likeness(0.0, 8.0), Some(0.0));
        assert_eq!(likeness(0.0, 0.0), None);
    }
}
