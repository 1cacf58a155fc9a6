//! Quantiles with their right to exist: a distribution-free interval, and no value without enough
//! samples beyond it.
//!
//! The interval is the order-statistic interval: ranks `l` and `u` such that at most 2.5 % of the
//! binomial distribution lies outside on either side. Ranks are looked up in a histogram and
//! reported as outer bucket edges, so that the error of the buckets is inside the interval.

use serde::Serialize;

use super::Histogram;

/// Probability left outside a two-sided interval, on each side.
const TAIL: f64 = 0.025;
/// The standard normal quantile that leaves [`TAIL`] above it.
const NORMAL: f64 = 1.959_963_984_540_054;
/// Expected samples beyond the quantile at or above which a value is printed without an interval.
pub const SOLID_FROM: f64 = 100.0;
/// Expected samples beyond it from which the value counts as known, with its interval.
pub const INTERVAL_FROM: f64 = 10.0;
/// Expected samples beyond it below which there is no value at all. A two-sided 95 % interval
/// exists from ln(40) = 3.69 on.
pub const EARNED_FROM: f64 = 3.7;

/// A quantile of a sample, or the reason why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantile {
    /// Which quantile, `0..1`.
    pub q: f64,
    /// Sample size.
    pub n: u64,
    /// The value and how far it can be trusted.
    pub estimate: Estimate,
}

/// What is printed, by the number of samples expected beyond the quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "standing")]
pub enum Estimate {
    /// 100 or more beyond it: the value alone.
    Solid {
        /// Nearest-rank value, ns.
        value_ns: u64,
        /// Lower end of the 95 % interval, ns.
        low_ns: u64,
        /// Upper end of the 95 % interval, ns.
        high_ns: u64,
    },
    /// 10 to 100: the value with its interval.
    WithInterval {
        /// Nearest-rank value, ns.
        value_ns: u64,
        /// Lower end of the 95 % interval, ns.
        low_ns: u64,
        /// Upper end of the 95 % interval, ns.
        high_ns: u64,
    },
    /// 3.7 to 10: the value is a rough one.
    LowConfidence {
        /// Nearest-rank value, ns.
        value_ns: u64,
        /// Lower end of the 95 % interval, ns.
        low_ns: u64,
        /// Upper end of the 95 % interval, ns.
        high_ns: u64,
    },
    /// Fewer: no value.
    NotEarned {
        /// Samples needed for a value.
        needs: u64,
    },
}

impl Quantile {
    /// The quantile `q` (`0 < q < 1`) of a histogram of ns.
    pub fn of(histogram: &Histogram, q: f64) -> Quantile {
        let n = histogram.count();
        let rare = q.min(1.0 - q);
        let beyond = n as f64 * rare + 1e-9;
        let not_earned = Estimate::NotEarned { needs: (EARNED_FROM / rare - 1e-6).ceil() as u64 };
        let estimate = match interval(histogram, q) {
            Some((value_ns, low_ns, high_ns)) if beyond >= SOLID_FROM => {
                Estimate::Solid { value_ns, low_ns, high_ns }
            }
            Some((value_ns, low_ns, high_ns)) if beyond >= INTERVAL_FROM => {
                Estimate::WithInterval { value_ns, low_ns, high_ns }
            }
            Some((value_ns, low_ns, high_ns)) if beyond >= EARNED_FROM => {
                Estimate::LowConfidence { value_ns, low_ns, high_ns }
            }
            _ => not_earned,
        };
        Quantile { q, n, estimate }
    }

    /// The value in ns, if there is one.
    pub fn value_ns(&self) -> Option<u64> {
        self.bounds().map(|(value, _, _)| value)
    }

    /// Value, lower and upper end of the 95 % interval in ns, if there is a value.
    pub fn bounds(&self) -> Option<(u64, u64, u64)> {
        match self.estimate {
            Estimate::Solid { value_ns, low_ns, high_ns }
            | Estimate::WithInterval { value_ns, low_ns, high_ns }
            | Estimate::LowConfidence { value_ns, low_ns, high_ns } => {
                Some((value_ns, low_ns, high_ns))
            }
            Estimate::NotEarned { .. } => None,
        }
    }

    /// How many samples a value would need, if there is none.
    pub fn needs(&self) -> Option<u64> {
        match self.estimate {
            Estimate::NotEarned { needs } => Some(needs),
            _ => None,
        }
    }
}

/// Value and outer interval from a histogram.
fn interval(histogram: &Histogram, q: f64) -> Option<(u64, u64, u64)> {
    let (low, high) = ranks(histogram.count(), q)?;
    Some((histogram.quantile(q)?, histogram.rank(low)?.0, histogram.rank(high)?.1))
}

/// Ranks `(l, u)`, `1..=n`, of the two-sided 95 % interval for the quantile `q` of `n` independent
/// samples; `None` if `n` is too small for one.
pub fn ranks(n: u64, q: f64) -> Option<(u64, u64)> {
    if n == 0 || !(0.0 < q && q < 1.0) {
        return None;
    }
    let rare = q.min(1.0 - q);
    // The recurrence starts at (1 - rare)^n, which must not underflow.
    let (few, many) = if n as f64 * -(-rare).ln_1p() < 600.0 {
        binomial_tails(n, rare)?
    } else {
        let centre = n as f64 * rare;
        let reach = NORMAL * (centre * (1.0 - rare)).sqrt();
        (((centre - reach).floor() as u64).saturating_sub(1), (centre + reach).ceil() as u64)
    };
    // `few` and `many` count the rarer side: below for q < 1/2, above otherwise.
    let (low, high) = if q < 0.5 {
        (few + 1, many)
    } else {
        ((n + 1).checked_sub(many).filter(|rank| *rank > 0)?, n - few)
    };
    (high <= n).then_some((low, high))
}

/// For `Y ~ Bin(n, p)`: the largest `a` with `P(Y <= a) <= TAIL` and the smallest `b` with
/// `P(Y >= b) <= TAIL`; `None` if there is no such `a`.
fn binomial_tails(n: u64, p: f64) -> Option<(u64, u64)> {
    let odds = p / (1.0 - p);
    let mut mass = (n as f64 * (-p).ln_1p()).exp();
    let mut below = 0.0;
    let mut few = None;
    for k in 0..=n {
        // Here `below` is P(Y < k).
        if 1.0 - below <= TAIL {
            return few.map(|few| (few, k));
        }
        below += mass;
        if below <= TAIL {
            few = Some(k);
        }
        mass *= odds * (n - k) as f64 / (k + 1) as f64;
    }
    few.map(|few| (few, n + 1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_interval_exists_from_the_published_sample_sizes_on() {
        for (q, first) in
            [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3_688), (0.9999, 36_887)]
        {
            assert!(ranks(first, q).is_some(), "{q}");
            assert!(ranks(first - 1, q).is_none(), "{q}");
        }
    }

    #[test]
    fn known_ranks_of_the_median() {
        // Standard tables: n = 10 gives the 2nd and 9th, n = 20 the 6th and 15th.
        assert_eq!(ranks(6, 0.5), Some((1, 6)));
        assert_eq!(ranks(10, 0.5), Some((2, 9)));
        assert_eq!(ranks(20, 0.5), Some((6, 15)));
        // Mirror images.
        let (low, high) = ranks(1_000, 0.05).unwrap();
        assert_eq!(ranks(1_000, 0.95), Some((1_001 - high, 1_001 - low)));
    }

    #[test]
    fn exact_and_normal_ranks_agree_where_they_meet() {
        let n = 59_000;
        let (low, high) = ranks(n, 0.99).unwrap();
        let reach = NORMAL * (n as f64 * 0.0099).sqrt();
        assert!((low as f64 - (n as f64 * 0.99 - reach)).abs() < 2.5);
        assert!((high as f64 - (n as f64 * 0.99 + reach)).abs() < 2.5);
        let (low, high) = ranks(70_000, 0.99).unwrap();
        assert!(low < 69_300 && high > 69_300 && high - low < 120);
    }

    fn ramp(n: u64) -> Histogram {
        let mut histogram = Histogram::new();
        (1..=n).for_each(|i| histogram.record(i * 1_000));
        histogram
    }

    #[test]
    fn standing_follows_the_exceedance_rule() {
        let standing = |n, q| Quantile::of(&ramp(n), q).estimate;
        assert!(matches!(standing(10_000, 0.99), Estimate::Solid { .. }));
        assert!(matches!(standing(9_999, 0.99), Estimate::WithInterval { .. }));
        assert!(matches!(standing(1_000, 0.99), Estimate::WithInterval { .. }));
        assert!(matches!(standing(999, 0.99), Estimate::LowConfidence { .. }));
        assert!(matches!(standing(370, 0.99), Estimate::LowConfidence { .. }));
        assert_eq!(standing(369, 0.99), Estimate::NotEarned { needs: 370 });
        assert_eq!(Quantile::of(&ramp(369), 0.99).needs(), Some(370));
        assert_eq!(standing(0, 0.5), Estimate::NotEarned { needs: 8 });
    }

    #[test]
    fn the_interval_holds_the_value_and_the_bucket_error() {
        let (value, low, high) = Quantile::of(&ramp(2_000), 0.99).bounds().unwrap();
        assert!(low <= value && value <= high);
        // Ranks 1971 and 1989 or so, of values 1000 ns apart.
        assert!((1_955_000..1_975_000).contains(&low), "{low}");
        assert!((1_985_000..2_000_001).contains(&high), "{high}");
    }

    #[test]
    fn ninety_five_percent_intervals_cover_the_truth_that_often() {
        // T17: uniform on 0..1e9 ns, true p90 = 9e8; splitmix64 with fixed seeds.
        let mut state = 42u64;
        let mut uniform = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % 1_000_000_000
        };
        let covered = (0..1_000)
            .filter(|_| {
                let mut histogram = Histogram::new();
                (0..300).for_each(|_| histogram.record(uniform()));
                let (_, low, high) = Quantile::of(&histogram, 0.9).bounds().unwrap();
                (low..=high).contains(&900_000_000)
            })
            .count();
        assert!((930..=995).contains(&covered), "{covered}");
    }
}
