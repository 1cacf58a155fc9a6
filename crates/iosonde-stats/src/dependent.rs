//! 95 % intervals of the figures of one run, whose operations depend on each other.
//!
//! A run is cut into batches of equal time. A figure is a ratio of two sums over them: operations
//! over time, latency over operations, operations beyond a limit over operations. What is left of a
//! batch's numerator when the common ratio times its denominator is taken off has mean 0, and the
//! variance of its sum, with the autocorrelation time, gives the interval of the ratio (the ratio
//! estimator of survey sampling, as the method of batch means uses it). The autocorrelation time is
//! Geyer's initial positive sequence ("Practical Markov chain Monte Carlo", Statistical Science
//! 7(4), 1992); it is estimated from those same batches, and two of its standard errors are added
//! (at an AR(1) coefficient of 0.8, early intervals would hold 89 % instead of 95 %).
//!
//! The interval of a percentile is that of Woodruff ("Confidence intervals for medians and other
//! position measures", JASA 47, 1952): the variance of the share beyond it, over that of as many
//! independent operations, is the design effect; the operations divided by it are the effective
//! sample size; and the order statistics of so many independent values are looked up in the whole
//! histogram. Student's t enters as by Korn and Graubard ("Confidence intervals for proportions with
//! small expected number of positive counts", Survey Methodology 24(2), 1998): the size is divided
//! by the square of t over the normal quantile.
//!
//! Intervals of rates and means are on the logarithmic scale, so that they never reach 0.

use serde::Serialize;

use super::Histogram;
use super::histogram::BUCKETS;
use super::quantile::{NORMAL, ranks};
use super::summary::{Summary, autocorrelation_time, t_975};

/// Autocorrelation times that a run must be long for an interval.
const FEWEST_INDEPENDENT: f64 = 20.0;

/// The counts of one batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Its length, ns.
    pub span_ns: u64,
    /// Operations or bytes.
    pub amount: u64,
    /// Latencies as `(bucket, count)`, ascending.
    pub latency: Vec<(u32, u64)>,
    /// Latencies beyond the range of buckets.
    pub overflow: u64,
    /// Sum of the latencies, ns.
    pub sum_ns: u128,
}

impl Batch {
    fn count(&self) -> u64 {
        self.from(0)
    }

    /// Latencies in this bucket or above.
    fn from(&self, bucket: u32) -> u64 {
        let from = self.latency.partition_point(|(index, _)| *index < bucket);
        self.latency[from..].iter().map(|(_, count)| count).sum::<u64>() + self.overflow
    }

    /// Both together.
    #[must_use]
    pub fn joined(mut self, other: &Batch) -> Batch {
        self.span_ns += other.span_ns;
        self.add(other);
        self
    }

    /// Adds what was counted beside it in the same time.
    pub fn add(&mut self, other: &Batch) {
        self.amount += other.amount;
        self.sum_ns += other.sum_ns;
        self.overflow += other.overflow;
        // Two ascending runs, which this sort merges.
        self.latency.extend(&other.latency);
        self.latency.sort();
        self.latency.dedup_by(|from, into| {
            let same = from.0 == into.0;
            into.1 += if same { from.1 } else { 0 };
            same
        });
    }
}

/// Why a figure has no interval.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoInterval {
    /// The run is shorter than 20 autocorrelation times, or 20 batches.
    RunLonger,
    /// The record has the figure for the whole run only.
    OnlyWhole,
}

impl std::fmt::Display for NoInterval {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            NoInterval::RunLonger => "run longer",
            NoInterval::OnlyWhole => "recorded for the whole run only",
        })
    }
}

/// A figure and half of its 95 % interval on the logarithmic scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Per second, or ns.
    pub value: f64,
    /// Half the interval, as a share of the value.
    pub half_width: f64,
}

impl Ratio {
    /// Lower and upper end, in the unit of the value.
    pub fn bounds(&self) -> (f64, f64) {
        (self.value * (-self.half_width).exp(), self.value * self.half_width.exp())
    }
}

/// Amount per second.
///
/// # Errors
/// Why there is no interval.
pub fn rate(batches: &[Batch]) -> Result<Ratio, NoInterval> {
    ratio(&of(batches, |each| each.amount as f64), &of(batches, |each| each.span_ns as f64 / 1e9))
}

/// Mean latency, ns.
///
/// # Errors
/// Why there is no interval.
pub fn mean(batches: &[Batch]) -> Result<Ratio, NoInterval> {
    ratio(&of(batches, |each| each.sum_ns as f64), &of(batches, |each| each.count() as f64))
}

/// How many independent values tell as much of the quantile `q` (`0 < q < 1`) of `all` as its
/// values do, at most their number. `batches` hold the same values.
///
/// Where many values share the bucket of the quantile, the share beyond it says little; so both
/// edges of that bucket are considered.
///
/// # Errors
/// Why that is not known.
pub fn effective_size(all: &Histogram, batches: &[Batch], q: f64) -> Result<f64, NoInterval> {
    let n = all.count() as f64;
    let bucket = all.bucket_of_rank((q * n).ceil() as u64).unwrap_or(BUCKETS as u32);
    let counts = of(batches, |each| each.count() as f64);
    let mut size = n;
    for first in [bucket, bucket + 1] {
        let beyond = of(batches, |each| each.from(first) as f64);
        let sum = Sum::of(&beyond, &counts)?;
        let independent = sum.amount * (1.0 - sum.amount / sum.size);
        if independent > 0.0 {
            let design_effect = (sum.error.powi(2) / independent).max(1.0);
            size = size.min(n / design_effect * (NORMAL / sum.t).powi(2));
        }
    }
    Ok(size)
}

/// The interval of the quantile `q` of `all` as outer edges of buckets, ns, from its
/// [`effective_size`]; `None` if that is too small for one.
pub fn quantile(all: &Histogram, effective_size: f64, q: f64) -> Option<(u64, u64)> {
    let n = all.count();
    let (low, high) = ranks(effective_size.floor() as u64, q)?;
    let scale = n as f64 / effective_size.floor();
    let low = ((low as f64 * scale).floor() as u64).clamp(1, n);
    let high = ((high as f64 * scale).ceil() as u64).clamp(1, n);
    Some((all.rank(low)?.0, all.rank(high)?.1))
}

fn of(batches: &[Batch], pick: impl Fn(&Batch) -> f64) -> Vec<f64> {
    batches.iter().map(pick).collect()
}

fn ratio(amounts: &[f64], sizes: &[f64]) -> Result<Ratio, NoInterval> {
    let sum = Sum::of(amounts, sizes)?;
    if sum.amount <= 0.0 {
        return Err(NoInterval::RunLonger);
    }
    let (value, half_width) = (sum.amount / sum.size, sum.t * sum.error / sum.amount);
    Ok(Ratio { value, half_width })
}

/// The sum of a numerator over batches, for the given denominators.
struct Sum {
    amount: f64,
    size: f64,
    /// Standard error of the amount.
    error: f64,
    /// Quantile 0.975 of Student's t for as many independent batches as there are.
    t: f64,
}

impl Sum {
    fn of(amounts: &[f64], sizes: &[f64]) -> Result<Sum, NoInterval> {
        let (amount, size): (f64, f64) = (amounts.iter().sum(), sizes.iter().sum());
        let common = if size > 0.0 { amount / size } else { 0.0 };
        let excess: Vec<f64> = amounts.iter().zip(sizes).map(|(a, s)| a - common * s).collect();
        let n = excess.len() as f64;
        let time = autocorrelation_time(&excess);
        if size <= 0.0 || n / time < FEWEST_INDEPENDENT {
            return Err(NoInterval::RunLonger);
        }
        let time = if time > 1.0 { time * (1.0 + 2.0 * (time / n).sqrt()) } else { 1.0 };
        // The spread around a mean of correlated values is too small by n / (n - time).
        let spread = Summary::of(&excess).map_or(0.0, |summary| summary.std_dev);
        let error = spread * (n / (n - time)).sqrt() * (n * time).sqrt();
        let t = t_975((n / time - 1.0) as usize).ok_or(NoInterval::RunLonger)?;
        Ok(Sum { amount, size, error, t })
    }
}
