//! Outliers among similar values.

use crate::summary::{Summary, t_p};

/// A value that is farther from the others than chance allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlier {
    /// Its index among the values.
    pub index: usize,
    /// The significance level from which it is an outlier: the smallest of its own p value and
    /// those of the less extreme values tested after it.
    pub p: f64,
}

/// Up to `most` values, the most extreme first, each tested against the values that remain without
/// it and all more extreme ones (generalized extreme Studentized deviate, Rosner 1983). The test is
/// two-sided. It assumes ten values or more that are normal apart from the outliers, such as
/// logarithms of rates. Removing one value after the other keeps two equal outliers from hiding
/// each other.
///
/// The outliers at a level are those whose `p` is at or below it.
pub fn extremes(values: &[f64], most: usize) -> Vec<Outlier> {
    let mut left: Vec<usize> = (0..values.len()).collect();
    let mut found = Vec::new();
    while found.len() < most && left.len() > 3 {
        let of = |left: &[usize]| left.iter().map(|index| values[*index]).collect::<Vec<f64>>();
        let Some(all) = Summary::of(&of(&left)) else { break };
        let distance = |index: &usize| (values[*index] - all.mean).abs();
        let farthest =
            left.iter().enumerate().max_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
        let Some((at, index)) = farthest.map(|(at, index)| (at, *index)) else { break };
        left.remove(at);
        let Some(others) = Summary::of(&of(&left)) else { break };
        found.push(Outlier { index, p: probability(values[index], &others) });
    }
    // All values up to the last significant one are outliers.
    let mut least: f64 = 1.0;
    for each in found.iter_mut().rev() {
        least = least.min(each.p);
        each.p = least;
    }
    found
}

/// Probability that the farthest of all values is as far from `others` as this one: the t test of
/// one value, times the number of values.
fn probability(value: f64, others: &Summary) -> f64 {
    let n = others.n as f64;
    let t = (value - others.mean) / (others.std_dev * (1.0 + 1.0 / n).sqrt());
    match t.is_nan() {
        // All values are equal.
        true => 1.0,
        false => (t_p(t, others.n - 1) * (n + 1.0)).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    /// The outliers at the level of 5 %.
    fn found(values: &[f64], most: usize) -> Vec<usize> {
        let all = extremes(values, most).into_iter().filter(|each| each.p <= 0.05);
        all.map(|each| each.index).collect()
    }

    fn sample(chance: &mut Chance, n: usize) -> Vec<f64> {
        (0..n).map(|_| chance.normal()).collect()
    }

    #[test]
    fn agrees_with_the_example_of_rosner() {
        // 54 values with three outliers at 5 %, and no fourth (Rosner 1983, table 3; NIST/SEMATECH
        // e-Handbook 1.3.5.17.3).
        let values = [
            -0.25, 0.68, 0.94, 1.15, 1.20, 1.26, 1.26, 1.34, 1.38, 1.43, 1.49, 1.49, 1.55, 1.56,
            1.58, 1.65, 1.69, 1.70, 1.76, 1.77, 1.81, 1.91, 1.94, 1.96, 1.99, 2.06, 2.09, 2.10,
            2.14, 2.15, 2.23, 2.24, 2.26, 2.35, 2.37, 2.40, 2.47, 2.54, 2.62, 2.64, 2.90, 2.92,
            2.92, 2.93, 3.21, 3.26, 3.30, 3.59, 3.68, 4.30, 4.64, 5.34, 5.42, 6.01,
        ];
        let outliers: Vec<f64> = found(&values, 10).into_iter().map(|at| values[at]).collect();
        assert_eq!(outliers, [6.01, 5.42, 5.34]);
    }

    #[test]
    fn equal_values_have_no_outlier_and_one_among_them_is_one() {
        assert!(found(&[3.0; 20], 5).is_empty());
        let mut values = [3.0; 20];
        values[7] = 4.0;
        assert_eq!(found(&values, 5).first(), Some(&7));
        assert!(extremes(&[], 5).is_empty() && extremes(&[1.0, 2.0], 5).is_empty());
    }

    #[test]
    fn false_alarms_keep_to_the_level() {
        for n in [10, 15, 25, 50] {
            let mut chance = Chance::new(n as u64);
            let trials = 2_000;
            let alarms = (0..trials).filter(|_| !found(&sample(&mut chance, n), n / 4).is_empty());
            let rate = alarms.count() as f64 / f64::from(trials);
            assert!(rate <= 0.085, "{n} values: {rate}");
        }
    }

    #[test]
    fn two_equal_outliers_do_not_hide_each_other() {
        let mut chance = Chance::new(3);
        let hits = (0..500).filter(|_| {
            let mut values = sample(&mut chance, 20);
            values[0] = 8.0;
            values[1] = 8.0;
            found(&values, 5).iter().filter(|at| **at < 2).count() == 2
        });
        assert!(hits.count() >= 490);
    }
}
