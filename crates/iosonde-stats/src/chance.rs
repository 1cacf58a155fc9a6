//! Seeded random numbers: the same seed gives the same load and the same interval everywhere.
//!
//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
//! 2014): a counter passed through a mixing function. Fast, splittable, and good enough for
//! offsets, data and resampling; not for secrets.

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Chance {
        Chance { state: seed }
    }

    /// An independent generator for each part of a computation, so that the parts can run in any
    /// order on any number of threads.
    pub fn of_part(seed: u64, part: u64) -> Chance {
        Chance { state: mix(seed ^ mix(part.wrapping_add(1))) }
    }

    /// 64 random bits.
    #[inline(always)]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `limit` (0 if `limit` is 0), by multiplication: the bias is below `limit /
    /// 2^64`.
    #[inline(always)]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// An index into something of this length.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A standard normal number (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Shuffles a slice (Fisher and Yates).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.index(last + 1));
        }
    }
}

/// Stafford's variant 13 of the 64-bit mixing function.
#[inline(always)]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Summary;

    #[test]
    fn the_sequence_of_seed_zero_is_the_published_one() {
        let mut chance = Chance::new(0);
        let expected = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert_eq!([chance.bits(), chance.bits(), chance.bits()], expected);
    }

    #[test]
    fn parts_differ_and_repeat() {
        let first = |part| Chance::of_part(7, part).bits();
        assert_eq!(first(3), first(3));
        assert!(first(3) != first(4) && first(3) != Chance::of_part(8, 3).bits());
    }

    #[test]
    fn normal_numbers_have_mean_0_and_deviation_1() {
        let mut chance = Chance::new(5);
        let draws: Vec<f64> = (0..20_000).map(|_| chance.normal()).collect();
        let summary = Summary::of(&draws).unwrap();
        assert!(summary.mean.abs() < 0.02 && (summary.std_dev - 1.0).abs() < 0.02, "{summary:?}");
    }

    #[test]
    fn a_shuffle_favours_no_place() {
        let mut chance = Chance::new(9);
        let mut first = [0; 5];
        for _ in 0..5_000 {
            let mut values = [0, 1, 2, 3, 4];
            chance.shuffle(&mut values);
            first[values[0]] += 1;
        }
        assert!(first.iter().all(|count| (900..1_100).contains(count)), "{first:?}");
    }
}
