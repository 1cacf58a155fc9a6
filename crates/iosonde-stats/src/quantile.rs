//! Quantiles with distribution-free intervals. A quantile has no value without enough samples
//! beyond it.
//!
//! The interval is that of order statistics: 2.5 % of the binomial distribution lies outside on
//! either side, for the effective number of independent values of the [dependent](super::dependent)
//! ones of a run. Half of the probability of a count belongs to either side of it (mid-P:
//! Lancaster, "Significance tests in discrete distributions", JASA 56, 1961), because whole ranks
//! would leave out less than 2.5 %. The ends are rounded to the nearest rank of all values and
//! looked up as the [place](Histogram::place) of that rank in a histogram.

use serde::Serialize;

use super::Histogram;
use super::dependent::{self, Batches, Loop, NoInterval};

/// Probability left outside a two-sided interval, on each side.
const TAIL: f64 = 0.025;
/// The standard normal quantile that leaves [`TAIL`] above it.
pub(super) const NORMAL: f64 = 1.959_963_984_540_054;
/// Expected independent samples beyond the quantile from which a value is printed without an
/// interval.
pub const SOLID_FROM: f64 = 100.0;
/// Expected independent samples beyond it from which the value counts as known, with its interval.
pub const INTERVAL_FROM: f64 = 10.0;
/// Expected samples beyond it below which there is no value. A two-sided 95 % interval exists from
/// ln(40) = 3.69 on.
pub const EARNED_FROM: f64 = 3.7;

/// A quantile of a sample, or the reason why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantile {
    /// Which quantile, `0..1`.
    pub q: f64,
    /// Sample size.
    pub n: u64,
    /// The value and its reliability.
    pub estimate: Estimate,
}

/// The printed estimate, by the number of samples expected beyond the quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Estimate {
    /// A value.
    Value {
        /// Nearest-rank value, ns.
        value_ns: u64,
        /// Width of the range that holds the value of that rank, ns: see [`Histogram::rank`].
        #[serde(skip)]
        range_ns: u64,
        /// Ends of its 95 % interval, ns, or why there is none.
        interval: Result<(u64, u64), NoInterval>,
        /// Reliability of the value.
        standing: Standing,
    },
    /// Too few samples beyond it: no value.
    NotEarned {
        /// Samples needed for a value.
        needs: u64,
    },
}

/// Reliability of a value, by the number of independent samples expected beyond it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// 100 or more, and an interval that is not [wide](Quantile::is_wide): the value alone.
    Solid,
    /// 10 to 100, or an unknown or wide interval: the value with its interval.
    WithInterval,
    /// Fewer than 10: a rough value.
    LowConfidence,
}

impl Quantile {
    /// The quantile `q` (`0 < q < 1`) of a histogram of ns. It has no interval, because the times
    /// of the values are unknown.
    pub fn of(histogram: &Histogram, q: f64) -> Quantile {
        Quantile::over_time(histogram, Err(NoInterval::OnlyWhole), Loop::Closed, q)
    }

    /// The quantile `q` of values that are also in batches of equal time, or the reason why they
    /// are not.
    pub fn over_time(
        histogram: &Histogram,
        batches: Batches<'_>,
        of_loop: Loop,
        q: f64,
    ) -> Quantile {
        let n = histogram.count();
        let rare = q.min(1.0 - q);
        let Some((low_ns, high_ns)) =
            histogram.quantile_range(q).filter(|_| n as f64 * rare + 1e-9 >= EARNED_FROM)
        else {
            let needs = (EARNED_FROM / rare - 1e-6).ceil() as u64;
            return Quantile { q, n, estimate: Estimate::NotEarned { needs } };
        };
        let size =
            batches.and_then(|batches| dependent::effective_size(histogram, batches, q, of_loop));
        let interval = size
            .and_then(|size| dependent::quantile(histogram, size, q).ok_or(NoInterval::RunLonger));
        let beyond = size.map_or(n as f64, |size| size.towards_rare.min(n as f64)) * rare + 1e-9;
        let standing = match beyond {
            _ if beyond < INTERVAL_FROM => Standing::LowConfidence,
            _ if beyond < SOLID_FROM || interval.map_or(true, is_wide) => Standing::WithInterval,
            _ => Standing::Solid,
        };
        let range_ns = high_ns - low_ns;
        let value_ns = low_ns + range_ns / 2;
        Quantile { q, n, estimate: Estimate::Value { value_ns, range_ns, interval, standing } }
    }

    /// The value in ns, if there is one.
    pub fn value_ns(&self) -> Option<u64> {
        let Estimate::Value { value_ns, .. } = self.estimate else { return None };
        Some(value_ns)
    }

    /// Width of the range that holds the value, as a share of it; 0 if there is no value.
    pub fn resolution(&self) -> f64 {
        let Estimate::Value { value_ns, range_ns, .. } = self.estimate else { return 0.0 };
        range_ns as f64 / value_ns.max(1) as f64
    }

    /// Ends of the 95 % interval in ns, or why a value has none; `None` if there is no value.
    pub fn interval(&self) -> Option<Result<(u64, u64), NoInterval>> {
        let Estimate::Value { interval, .. } = self.estimate else { return None };
        Some(interval)
    }

    /// Whether there is a value, and 100 independent samples or more are expected beyond it.
    pub fn is_solid(&self) -> bool {
        matches!(self.estimate, Estimate::Value { standing: Standing::Solid, .. })
    }

    /// Whether the ends of its interval differ by more than a factor of 2. With this many samples
    /// that shows a quantile between two modes, which may be in either.
    pub fn is_wide(&self) -> bool {
        matches!(self.estimate, Estimate::Value { interval: Ok(ends), .. } if is_wide(ends))
    }

    /// Whether there is a value, and a rough one.
    pub fn is_rough(&self) -> bool {
        matches!(self.estimate, Estimate::Value { standing: Standing::LowConfidence, .. })
    }

    /// Samples needed for a value, if there is none.
    pub fn needs(&self) -> Option<u64> {
        let Estimate::NotEarned { needs } = self.estimate else { return None };
        Some(needs)
    }
}

/// Whether an interval is too wide for its value to stand alone.
fn is_wide((low, high): (u64, u64)) -> bool {
    high > 2 * low.max(1)
}

/// The value at a rank, counted from 1, in ascending `(value, count)` pairs.
pub fn at_rank<T>(values: impl IntoIterator<Item = (T, u64)>, rank: u64) -> Option<T> {
    let mut seen = 0;
    let mut reaches = |number: u64| {
        seen += number;
        seen >= rank
    };
    values.into_iter().find(|(_, number)| reaches(*number)).map(|(value, _)| value)
}

/// Shares of the values below the two ends of the 95 % interval for the quantile `q` of `n`
/// independent samples; `None` if `n` is too small for one.
pub fn shares_below(n: u64, q: f64) -> Option<(f64, f64)> {
    let rare = q.min(1.0 - q);
    if !(0.0 < q && q < 1.0) || n as f64 * rare + 1e-9 < EARNED_FROM {
        return None;
    }
    // The recurrence starts at (1 - rare)^n, which must not underflow.
    let (few, many) = if n as f64 * -(-rare).ln_1p() < 600.0 {
        (binomial_quantile(n, rare, TAIL), binomial_quantile(n, rare, 1.0 - TAIL))
    } else {
        let centre = n as f64 * rare;
        let reach = NORMAL * (centre * (1.0 - rare)).sqrt();
        (centre - reach, centre + reach)
    };
    // `few` and `many` count the rarer side: below for q < 1/2, above otherwise.
    let (few, many) = (few / n as f64, many / n as f64);
    Some(if q < 0.5 { (few, many) } else { (1.0 - many, 1.0 - few) })
}

/// For `Y ~ Bin(n, p)`, the y at which `P(Y < y) + P(Y = y) / 2` is `share`, interpolated linearly
/// between integers.
fn binomial_quantile(n: u64, p: f64, share: f64) -> f64 {
    let odds = p / (1.0 - p);
    let mut mass = (n as f64 * (-p).ln_1p()).exp();
    let (mut below, mut previous) = (0.0, 0.0);
    for k in 0..=n {
        let here = below + mass / 2.0;
        if here >= share {
            return (k as f64 - (here - share) / (here - previous)).max(0.0);
        }
        (below, previous) = (below + mass, here);
        mass *= odds * (n - k) as f64 / (k + 1) as f64;
    }
    n as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::dependent::{Batch, EffectiveSize};
    use super::*;

    #[test]
    fn ends_agree_with_the_tables_of_order_statistics() {
        // Whole ranks that leave out at most 2.5 % on either side: n = 10 gives the 2nd and the
        // 9th, n = 20 the 6th and the 15th (standard tables). A share of 0.5 / n is a rank of 1.
        for (n, whole) in [(10, 2.0), (20, 6.0)] {
            let (low, high) = shares_below(n, 0.5).unwrap();
            let rank = low * n as f64 + 0.5;
            assert!((rank - whole).abs() < 0.5, "{n}: {rank}");
            assert!((low + high - 1.0).abs() < 1e-9);
        }
        // The ends mirror each other, and too few samples have none.
        let (low, high) = shares_below(1_000, 0.05).unwrap();
        let (other_low, other_high) = shares_below(1_000, 0.95).unwrap();
        assert!((low + other_high - 1.0).abs() < 1e-9 && (high + other_low - 1.0).abs() < 1e-9);
        assert!(shares_below(370, 0.99).is_some() && shares_below(369, 0.99).is_none());
    }

    #[test]
    fn exact_and_normal_ends_agree_where_they_meet() {
        // Beyond (1 - p)^-n = e^600 the normal approximation is used.
        let [exact, normal] = [59_000, 60_000].map(|n| {
            let (low, high) = shares_below(n, 0.99).unwrap();
            let reach = NORMAL * (0.0099 / n as f64).sqrt();
            ((low - 0.99) / reach, (high - 0.99) / reach)
        });
        assert!((normal.0 + 1.0).abs() < 1e-9 && (normal.1 - 1.0).abs() < 1e-9);
        assert!((exact.0 + 1.0).abs() < 0.03 && (exact.1 - 1.0).abs() < 0.03, "{exact:?}");
    }

    #[test]
    fn ends_leave_out_five_per_cent_on_average() {
        // Of uniform values, the share below the true quantile is a binomial count.
        for (n, q) in [(40, 0.5), (1_000, 0.9), (5_000, 0.99), (30_000, 0.999)] {
            let (low, high) = shares_below(n, q).unwrap();
            let mut chance = crate::chance::Chance::new(n);
            let held = (0..2_000)
                .filter(|_| {
                    let below = (0..n).filter(|_| chance.unit() < q).count() as f64 / n as f64;
                    // The ends lie between values: half of a tie is outside.
                    low <= below && below <= high
                })
                .count();
            assert!((1_860..=1_940).contains(&held), "{n} {q}: {held}");
        }
    }

    #[test]
    fn a_percentile_between_two_modes_does_not_stand_alone() {
        // One in `every` values takes 5 ms; of all others, one in 10,000 lies between.
        let of = |every: f64| {
            let mut chance = crate::chance::Chance::new(4);
            let mut value = || match chance.unit() * every < 1.0 {
                true => 5_000_000,
                false if chance.unit() < 1e-4 => 350_000 + chance.bits() % 4_650_000,
                false => 300_000 + chance.bits() % 50_000,
            };
            let (all, batches) = dealt((0..60_000).map(|_| value()));
            Quantile::over_time(&all, Ok(&batches), Loop::Closed, 0.99)
        };
        assert!(of(100.0).is_wide() && !of(100.0).is_solid(), "{:?}", of(100.0));
        assert!(of(50.0).is_solid(), "{:?}", of(50.0));
        // The far tail of one mode is thin but its interval is not wide, even for a Pareto
        // distribution with an infinite mean.
        let values = (1..=40_000u64).map(|at| (1e5 / (1.0 - at as f64 / 40_001.0)) as u64);
        let (all, batches) = dealt(values);
        let heavy = Quantile::over_time(&all, Ok(&batches), Loop::Closed, 0.99);
        assert!(heavy.is_solid(), "{heavy:?}");
    }

    #[test]
    fn an_interval_holds_its_value() {
        let mut chance = crate::chance::Chance::new(8);
        let mut all = Histogram::new();
        (0..5_000).for_each(|_| all.record((-1e6 * (1.0 - chance.unit()).ln()) as u64));
        all.record_many(3_000_000, 500);
        for q in [0.01, 0.1, 0.5, 0.9, 0.95, 0.99] {
            for size in [400.0, 1_000.0, 5_500.0, 110_000.0] {
                let (low, high) = dependent::quantile(&all, EffectiveSize::of(size), q).unwrap();
                let value = all.quantile(q).unwrap();
                assert!((low..=high).contains(&value), "{q} {size}: {low} {value} {high}");
            }
        }
        assert_eq!(dependent::quantile(&Histogram::new(), EffectiveSize::of(1e3), 0.5), None);
    }

    /// Values distributed over batches, as if they were independent.
    fn dealt(values: impl Iterator<Item = u64>) -> (Histogram, Vec<Batch>) {
        let mut parts = vec![Histogram::new(); 50];
        values.enumerate().for_each(|(at, value)| parts[at * 31 % 50].record(value));
        let mut all = Histogram::new();
        parts.iter().for_each(|part| all.merge(part));
        let batch = |part: &Histogram| Batch {
            latency: part.occupied().collect(),
            sum_ns: part.sum(),
            ..Batch::default()
        };
        (all, parts.iter().map(batch).collect())
    }

    fn of_ramp(n: u64, q: f64) -> Quantile {
        let (all, batches) = dealt((1..=n).map(|i| i * 1_000));
        Quantile::over_time(&all, Ok(&batches), Loop::Closed, q)
    }

    #[test]
    fn standing_follows_the_exceedance_rule() {
        let standing = |n| match of_ramp(n, 0.99).estimate {
            Estimate::Value { standing, .. } => Some(standing),
            Estimate::NotEarned { .. } => None,
        };
        assert_eq!(standing(20_000), Some(Standing::Solid));
        assert_eq!(standing(9_000), Some(Standing::WithInterval));
        assert_eq!(standing(2_000), Some(Standing::WithInterval));
        assert_eq!(standing(999), Some(Standing::LowConfidence));
        assert_eq!(standing(370), Some(Standing::LowConfidence));
        assert_eq!(of_ramp(369, 0.99).needs(), Some(370));
        assert_eq!(of_ramp(0, 0.5).needs(), Some(8));
    }

    #[test]
    fn a_value_without_a_series_has_no_interval() {
        let (all, batches) = dealt((1..=9_000).map(|i| i * 1_000));
        let whole = Quantile::of(&all, 0.5);
        assert_eq!(whole.interval(), Some(Err(NoInterval::OnlyWhole)));
        assert_eq!(whole.value_ns(), of_ramp(9_000, 0.5).value_ns());
        let few = Quantile::over_time(&all, Ok(&batches[..19]), Loop::Closed, 0.5);
        assert_eq!(few.interval(), Some(Err(NoInterval::RunLonger)));
    }

    #[test]
    fn the_interval_holds_the_value_and_the_bucket_error() {
        let quantile = of_ramp(2_000, 0.99);
        let (low, high) = quantile.interval().unwrap().unwrap();
        assert!((low..=high).contains(&quantile.value_ns().unwrap()));
        // Ranks 1971 and 1989 or so, of values 1000 ns apart.
        assert!((1_945_000..1_975_000).contains(&low), "{low}");
        assert!((1_985_000..2_000_001).contains(&high), "{high}");
    }

    #[test]
    fn ninety_five_percent_intervals_cover_the_truth_that_often() {
        // T17: uniform on 0..1e9 ns, true p90 = 9e8; splitmix64 with fixed seeds.
        let mut chance = crate::chance::Chance::new(42);
        let mut uniform = || chance.bits() % 1_000_000_000;
        let covered = (0..1_000)
            .filter(|_| {
                let (all, batches) = dealt((0..600).map(|_| uniform()));
                let interval =
                    Quantile::over_time(&all, Ok(&batches), Loop::Closed, 0.9).interval().unwrap();
                interval.is_ok_and(|(low, high)| (low..=high).contains(&900_000_000))
            })
            .count();
        assert!((930..=995).contains(&covered), "{covered}");
    }
}
