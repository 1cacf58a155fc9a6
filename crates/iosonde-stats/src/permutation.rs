//! Permutation tests: how often do two sides differ as much under random labels?
//!
//! The statistic is the difference of the medians. Few runs have few medians: with five against
//! five, six permutations share the largest difference, so p could never be below 0.048.
//! Permutations with equal difference of medians are therefore ordered by their difference of
//! means. The test stays exact, as for any statistic, and reaches 0.0079.

use super::chance::Chance;
use super::ratio::{median, sorted};
use super::summary::mean;

/// Maximum number of permutations that are enumerated.
pub const EXACT_UP_TO: f64 = 1e6;
/// Number of random permutations if there are more.
pub const RANDOM: u32 = 10_000;
/// Relative difference below which differences are equal.
const EQUAL: f64 = 1e-9;

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Permuted {
    /// Share of the permutations that differ at least as much, two-sided.
    pub p: f64,
    /// Whether every permutation was enumerated.
    pub exact: bool,
}

/// Difference of two sides: by medians, then by means if those are equal.
#[derive(Clone, Copy, Debug)]
struct Difference {
    medians: f64,
    means: f64,
}

impl Permuted {
    /// Result if `reached` of [`RANDOM`] random permutations differ at least as much.
    fn at_random(reached: usize) -> Permuted {
        Permuted { p: f64::from(1 + reached as u32) / f64::from(RANDOM + 1), exact: false }
    }
}

impl Difference {
    fn between(one: &[f64], other: &[f64]) -> Difference {
        let medians = median(other).unwrap_or(0.0) - median(one).unwrap_or(0.0);
        Difference { medians: medians.abs(), means: (mean(other) - mean(one)).abs() }
    }

    fn reaches(self, seen: Difference) -> bool {
        match larger(self.medians, seen.medians) {
            Some(is_larger) => is_larger,
            None => larger(self.means, seen.means).unwrap_or(true),
        }
    }
}

/// Whether `a` is larger than `b`; `None` if they are equal.
fn larger(a: f64, b: f64) -> Option<bool> {
    if (a - b).abs() <= EQUAL * a.abs().max(b.abs()) { None } else { Some(a > b) }
}

/// Binomial coefficient.
pub fn choose(n: usize, k: usize) -> f64 {
    (0..k.min(n - k)).map(|i| (n - i) as f64 / (i + 1) as f64).product::<f64>().round()
}

/// The smallest p possible for two sides of these sizes.
pub fn smallest_p(a: usize, b: usize) -> f64 {
    let deals = choose(a + b, a);
    if deals > EXACT_UP_TO {
        return 1.0 / f64::from(RANDOM + 1);
    }
    // For equal sizes, exchanging the labels gives the same difference.
    if a == b { 2.0 / deals } else { 1.0 / deals }
}

/// The smallest p possible with this number of rounds.
pub fn smallest_paired_p(rounds: usize) -> f64 {
    let deals = 2f64.powi(i32::try_from(rounds).unwrap_or(i32::MAX));
    if deals > EXACT_UP_TO { 1.0 / f64::from(RANDOM + 1) } else { 2.0 / deals }
}

/// Tests whether two sides differ. Neither may be empty.
pub fn two_sides(a: &[f64], b: &[f64], seed: u64) -> Permuted {
    let mut pool = sorted(a.iter().chain(b).copied());
    let seen = Difference::between(a, b);
    let deals = choose(pool.len(), a.len());
    if deals <= EXACT_UP_TO {
        let mut deal = Deal { pool: &pool, sizes: [a.len(), b.len()], seen, reached: 0.0 };
        deal.go(0, Hands::default());
        return Permuted { p: deal.reached / deals, exact: true };
    }
    let mut draws = Chance::new(seed);
    let reached = (0..RANDOM).filter(|_| {
        for index in 0..a.len() {
            let other = index + draws.index(pool.len() - index);
            pool.swap(index, other);
        }
        let (one, other) = pool.split_at(a.len());
        Difference::between(one, other).reaches(seen)
    });
    Permuted::at_random(reached.count())
}

/// Enumeration of all splits of a sorted pool into two hands, from the smallest value on.
struct Deal<'a> {
    pool: &'a [f64],
    sizes: [usize; 2],
    seen: Difference,
    reached: f64,
}

/// The two groups dealt so far.
#[derive(Clone, Copy, Default)]
struct Hands {
    held: [usize; 2],
    sums: [f64; 2],
    /// Sum of each hand's two middle values so far (for an odd size, twice the middle one).
    middles: [f64; 2],
    /// Number of hands whose median is known.
    known: usize,
}

impl Deal<'_> {
    fn go(&mut self, at: usize, hands: Hands) {
        if hands.known == 2 {
            let medians = (hands.middles[1] - hands.middles[0]).abs() / 2.0;
            match larger(medians, self.seen.medians) {
                // The remaining values cannot change the result.
                Some(true) => {
                    self.reached += choose(self.pool.len() - at, self.sizes[0] - hands.held[0]);
                    return;
                }
                Some(false) => return,
                None => {}
            }
        }
        if at == self.pool.len() {
            let [one, other] = [0, 1].map(|hand| hands.sums[hand] / self.sizes[hand] as f64);
            let is_reached = larger((other - one).abs(), self.seen.means).unwrap_or(true);
            self.reached += f64::from(u8::from(is_reached));
            return;
        }
        for hand in 0..2 {
            if hands.held[hand] < self.sizes[hand] {
                self.go(at + 1, self.with(hands, hand, self.pool[at]));
            }
        }
    }

    fn with(&self, mut hands: Hands, hand: usize, value: f64) -> Hands {
        let (place, size) = (hands.held[hand], self.sizes[hand]);
        if place == (size - 1) / 2 {
            hands.middles[hand] += value;
        }
        if place == size / 2 {
            hands.middles[hand] += value;
            hands.known += 1;
        }
        hands.held[hand] += 1;
        hands.sums[hand] += value;
        hands
    }
}

/// Tests whether differences within rounds are on one side of 0, by flipping their signs.
pub fn rounds(differences: &[f64], seed: u64) -> Permuted {
    let of = |values: &[f64]| Difference {
        medians: median(values).unwrap_or(0.0).abs(),
        means: mean(values).abs(),
    };
    let seen = of(differences);
    let count = differences.len();
    let mut turned = differences.to_vec();
    let mut reaches = |bits: u64| {
        for (index, (to, from)) in turned.iter_mut().zip(differences).enumerate() {
            *to = if bits >> (index % 64) & 1 == 1 { -from } else { *from };
        }
        of(&turned).reaches(seen)
    };
    let deals = 2f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    if deals <= EXACT_UP_TO {
        let reached = (0..1u64 << count).filter(|bits| reaches(*bits)).count();
        return Permuted { p: reached as f64 / deals, exact: true };
    }
    let mut draws = Chance::new(seed);
    let reached = (0..RANDOM).filter(|_| reaches(draws.bits())).count();
    Permuted::at_random(reached)
}

/// Two-sided p of the Mann-Whitney test: exact without ties up to 25 runs per side, otherwise the
/// normal approximation with correction for ties. A cross-check that uses only ranks.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let (n, m) = (a.len(), b.len());
    let pairs = || a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
    let above = pairs().filter(|(x, y)| x > y).count();
    let equal = pairs().filter(|(x, y)| x == y).count();
    let pool = sorted(a.iter().chain(b).copied());
    let has_ties = pool.windows(2).any(|pair| pair[0] == pair[1]);
    if !has_ties && n <= 25 && m <= 25 {
        let fewer = above.min(n * m - above);
        let tail: f64 = ways(n, m).iter().take(fewer + 1).sum();
        return (2.0 * tail / choose(n + m, n)).min(1.0);
    }
    let all = (n + m) as f64;
    let tied = pool.chunk_by(|x, y| x == y).map(|tied| tied.len() as f64);
    let ties: f64 = tied.map(|values| values.powi(3) - values).sum();
    let variance = (n * m) as f64 / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let away = (above as f64 + equal as f64 / 2.0 - (n * m) as f64 / 2.0).abs();
    let z = (away - 0.5).max(0.0) / variance.sqrt();
    (2.0 * super::normal::cdf(-z)).min(1.0)
}

/// Number of orders of `n` and `m` distinct values, by the count of pairs in which the value of the
/// first side is larger.
fn ways(n: usize, m: usize) -> Vec<f64> {
    // ways(n, m, u) = ways(n - 1, m, u - m) + ways(n, m - 1, u), by the side of the largest value.
    let mut rows = vec![vec![0.0; n * m + 1]; n + 1];
    rows.iter_mut().for_each(|row| row[0] = 1.0);
    for others in 1..=m {
        for ones in 1..=n {
            for u in (0..=ones * others).rev() {
                let gained = if u >= others { rows[ones - 1][u - others] } else { 0.0 };
                rows[ones][u] += gained;
            }
        }
    }
    rows.swap_remove(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_p_is_that_of_the_tables() {
        for (n, p) in [(3, 0.1), (4, 0.028_571), (5, 0.007_937), (6, 0.002_165), (8, 0.000_155)] {
            assert!((smallest_p(n, n) - p).abs() < 1e-6, "{n}");
            // Two sides without overlap reach it.
            let low: Vec<f64> = (0..n).map(|i| i as f64).collect();
            let high: Vec<f64> = low.iter().map(|value| value + 100.0).collect();
            let permuted = two_sides(&low, &high, 0);
            assert!(permuted.exact && (permuted.p - p).abs() < 1e-6, "{n}: {permuted:?}");
            assert!((mann_whitney(&low, &high) - p).abs() < 1e-6, "{n}");
        }
        assert_eq!(choose(20, 10), 184_756.0);
        assert_eq!(smallest_paired_p(5), 0.0625);
    }

    #[test]
    fn every_deal_is_counted_as_by_hand() {
        // {1, 2, 4} against {3, 5, 9}: all 20 permutations, without shortcuts.
        let (a, b) = ([1.0, 2.0, 4.0], [3.0, 5.0, 9.0]);
        let pool = [1.0, 2.0, 4.0, 3.0, 5.0, 9.0];
        let of = |mask: u32| {
            let hand = |bit| {
                let held = (0..6).filter(move |i| mask >> i & 1 == bit);
                held.map(|i| pool[i as usize]).collect::<Vec<f64>>()
            };
            let [one, other] = [hand(0), hand(1)];
            let medians = (median(&one).unwrap_or(0.0) - median(&other).unwrap_or(0.0)).abs();
            Difference { medians, means: (mean(&one) - mean(&other)).abs() }
        };
        let seen = of(0b111_000);
        let deals: Vec<u32> = (0..64u32).filter(|mask| mask.count_ones() == 3).collect();
        let reached = deals.iter().filter(|mask| of(**mask).reaches(seen)).count();
        let permuted = two_sides(&a, &b, 0);
        assert!((permuted.p - reached as f64 / 20.0).abs() < 1e-12, "{permuted:?} {reached}");
    }

    #[test]
    fn equal_sides_never_differ_and_chance_agrees_with_counting() {
        assert_eq!(two_sides(&[5.0; 5], &[5.0; 5], 0).p, 1.0);
        assert_eq!(mann_whitney(&[5.0; 5], &[5.0; 5]), 1.0);
        let mut draws = Chance::new(3);
        let mut noise =
            |count: usize| (0..count).map(|_| draws.below(1_000) as f64).collect::<Vec<f64>>();
        // Too many permutations to enumerate: they are drawn at random.
        let (a, b) = (noise(20), noise(20));
        let drawn = two_sides(&a, &b, 9);
        assert!(!drawn.exact && drawn.p > 0.0 && drawn.p <= 1.0);
        assert_eq!(drawn, two_sides(&a, &b, 9));
    }

    #[test]
    fn signs_are_turned_in_every_way() {
        // All six on one side: the original and its mirror image, of 64.
        assert_eq!(rounds(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0).p, 2.0 / 64.0);
        assert_eq!(rounds(&[0.0; 6], 0).p, 1.0);
        assert!(rounds(&[1.0, -1.0, 2.0, -2.0, 0.5, -0.5], 0).p > 0.9);
        let many: Vec<f64> = (0..40).map(|i| 1.0 + f64::from(i)).collect();
        assert!(!rounds(&many, 1).exact && rounds(&many, 1).p < 0.001);
    }

    #[test]
    fn ranks_of_the_tables() {
        // Mann and Whitney's table: n = 3, m = 4, U = 1 is reached or undercut with 2/35, twice.
        let p = mann_whitney(&[1.0, 2.0, 5.0], &[4.0, 6.0, 7.0, 8.0]);
        assert!((p - 4.0 / 35.0).abs() < 1e-12, "{p}");
        assert_eq!(ways(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
    }
}
