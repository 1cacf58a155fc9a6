//! Seeded randomness: the same seed gives the same load on every machine.

pub use iosonde_stats::chance::{Chance, mix};

/// A seeded permutation of the numbers below `count` without a table: a bijection on the next power
/// of two, iterated until the result is below `count` (fewer than two steps on average).
#[derive(Clone, Debug)]
pub struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Permutation {
    /// The permutation of `0..count` for this seed. `count` must not be 0.
    pub fn new(count: u64, seed: u64) -> Permutation {
        let bits = (64 - (count.max(2) - 1).leading_zeros()).max(1);
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let mut chance = Chance::new(seed);
        // Multiplication by an odd number and x ^ (x >> s) are both bijections on `bits` bits.
        let keys = [chance.bits() | 1, chance.bits(), chance.bits() | 1];
        Permutation { count, mask, shift: bits.div_ceil(2), keys }
    }

    /// The number at `index` of the permutation; `index` must be below the count.
    #[inline(always)]
    pub fn at(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            value = value.wrapping_add(self.keys[1]).wrapping_mul(self.keys[0]) & self.mask;
            value ^= value >> self.shift;
            value = value.wrapping_mul(self.keys[2]) & self.mask;
            value ^= value >> self.shift;
            value = value.wrapping_mul(self.keys[0]) & self.mask;
            value ^= value >> self.shift;
            if value < self.count {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_visits_every_number_once() {
        for count in [1u64, 2, 3, 7, 64, 100, 1000, 4097] {
            for seed in 0..5 {
                let order = Permutation::new(count, seed);
                let mut seen: Vec<u64> = (0..count).map(|index| order.at(index)).collect();
                seen.sort_unstable();
                assert!(seen.iter().copied().eq(0..count), "count {count}, seed {seed}");
            }
        }
    }

    #[test]
    fn neighbours_are_scattered() {
        // A uniform shuffle of n has a mean distance of n/3 between neighbours, and few steps of
        // +1.
        let count = 100_000;
        let order = Permutation::new(count, 42);
        let pairs = (1..count).map(|index| order.at(index).abs_diff(order.at(index - 1)));
        let (mut sum, mut adjacent) = (0, 0);
        for distance in pairs {
            sum += distance;
            adjacent += u64::from(distance == 1);
        }
        let mean = sum as f64 / (count - 1) as f64;
        assert!((mean / (count as f64 / 3.0) - 1.0).abs() < 0.02, "mean distance {mean}");
        assert!(adjacent < 20, "{adjacent} adjacent pairs");
    }

    #[test]
    fn the_first_thousandth_is_spread_evenly() {
        // Chi-squared over 16 bins, 1000 draws: 15 degrees of freedom, 0.999 quantile 37.7.
        for seed in 0..20 {
            let count = 1 << 20;
            let order = Permutation::new(count, seed);
            let mut bins = [0f64; 16];
            for index in 0..1000 {
                bins[(order.at(index) * 16 / count) as usize] += 1.0;
            }
            let chi: f64 = bins.iter().map(|seen| (seen - 62.5) * (seen - 62.5) / 62.5).sum();
            assert!(chi < 45.0, "seed {seed}: chi squared {chi}");
        }
    }

    #[test]
    fn below_stays_below_and_reaches_both_ends() {
        let mut chance = Chance::new(1);
        let draws: Vec<u64> = (0..1000).map(|_| chance.below(10)).collect();
        assert!(draws.iter().all(|draw| *draw < 10));
        assert!(draws.contains(&0) && draws.contains(&9));
        assert_eq!(chance.below(0), 0);
    }
}
