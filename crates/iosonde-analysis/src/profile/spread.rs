//! Figures of distributions. Latencies are a sample: a percentile is given only if the number of
//! samples supports it. Sizes, depths and intervals are complete, so every percentile of them is
//! given.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::document;
use iosonde_stats::quantile::at_rank;
use iosonde_stats::{Histogram, Quantile};

/// The quantiles of every distribution of a profile.
pub const QUANTILES: [f64; 6] = [0.25, 0.50, 0.75, 0.90, 0.99, 0.999];

#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Number of latencies.
    pub count: u64,
    pub sum_ns: u128,
    pub mean_ns: Option<f64>,
    /// Largest, ns.
    pub max_ns: Option<u64>,
    /// [`QUANTILES`], each with its interval or the number of samples it needs.
    pub quantiles: Vec<Quantile>,
}

impl Latency {
    /// The figures of a histogram of ns.
    pub fn of(histogram: &Histogram) -> Latency {
        Latency {
            count: histogram.count(),
            sum_ns: histogram.sum(),
            mean_ns: histogram.mean(),
            max_ns: histogram.max(),
            quantiles: QUANTILES.map(|q| Quantile::of(histogram, q)).into(),
        }
    }

    /// The value of one of [`QUANTILES`], ns, if it is known.
    pub fn at(&self, q: f64) -> Option<u64> {
        let found = self.quantiles.iter().find(|quantile| (quantile.q - q).abs() < 1e-9);
        found.and_then(Quantile::value_ns)
    }
}

/// Count, sum, mean, largest and percentiles; `null` where the count does not support one.
impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("count", &self.count)?;
        map.serialize_entry("sum", &u64::try_from(self.sum_ns).unwrap_or(u64::MAX))?;
        map.serialize_entry("mean", &self.mean_ns.map(|mean| mean.round() as u64))?;
        map.serialize_entry("max", &self.max_ns)?;
        for quantile in &self.quantiles {
            map.serialize_entry(&document::name(quantile.q), &quantile.value_ns())?;
        }
        map.end()
    }
}

/// Values of any kind, each with its weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// Number of samples.
    pub count: u64,
    /// Weighted mean.
    pub mean: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Each of [`QUANTILES`] with its value, if known.
    pub percentiles: Vec<(f64, Option<f64>)>,
}

impl Spread {
    /// Figures of `(value, weight)` pairs, ascending; the weights represent `count` samples.
    pub fn weighted(pairs: &[(f64, u64)], count: u64) -> Spread {
        let known: Vec<(f64, u64)> = pairs.iter().copied().filter(|(_, w)| *w > 0).collect();
        let total: u64 = known.iter().map(|(_, weight)| weight).sum();
        let sum: f64 = known.iter().map(|(value, weight)| value * *weight as f64).sum();
        Spread {
            count,
            mean: (total > 0).then(|| sum / total as f64),
            min: known.first().map(|(value, _)| *value),
            max: known.last().map(|(value, _)| *value),
            percentiles: QUANTILES.map(|q| (q, nearest_rank(&known, total, q))).into(),
        }
    }

    /// Figures of single values, in any order.
    pub fn of(values: &[f64]) -> Spread {
        let mut sorted: Vec<(f64, u64)> = values.iter().map(|value| (*value, 1)).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        Spread::weighted(&sorted, sorted.len() as u64)
    }

    /// The value of one of [`QUANTILES`], if it is known.
    pub fn at(&self, q: f64) -> Option<f64> {
        let found = self.percentiles.iter().find(|(each, _)| (each - q).abs() < 1e-9);
        found.and_then(|(_, value)| *value)
    }
}

/// Count, mean, extremes and percentiles.
impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("count", &self.count)?;
        map.serialize_entry("mean", &self.mean)?;
        map.serialize_entry("min", &self.min)?;
        map.serialize_entry("max", &self.max)?;
        for q in QUANTILES {
            map.serialize_entry(&document::name(q), &self.at(q))?;
        }
        map.end()
    }
}

fn nearest_rank(pairs: &[(f64, u64)], total: u64, q: f64) -> Option<f64> {
    let rank = ((q * total as f64 - 1e-9).ceil() as u64).clamp(1, total.max(1));
    at_rank(pairs.iter().copied(), rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_percentiles_of_a_hundred() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let spread = Spread::of(&values);
        assert_eq!(
            (spread.at(0.25), spread.at(0.5), spread.at(0.9)),
            (Some(25.0), Some(50.0), Some(90.0))
        );
        assert_eq!((spread.mean, spread.min, spread.max), (Some(50.5), Some(1.0), Some(100.0)));
        assert_eq!((spread.at(0.99), spread.at(0.999)), (Some(99.0), Some(100.0)));
    }

    #[test]
    fn weights_count_and_nothing_has_no_percentile() {
        let spread = Spread::weighted(&[(1.0, 900), (8.0, 100)], 1_000);
        assert_eq!((spread.at(0.9), spread.at(0.99)), (Some(1.0), Some(8.0)));
        assert_eq!(spread.mean, Some(1.7));
        assert_eq!(Spread::of(&[]).at(0.5), None);
        assert_eq!(Spread::of(&[]), Spread::weighted(&[], 0));
        assert_eq!(Spread::of(&[]).mean, None);
    }
}
