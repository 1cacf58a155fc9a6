//! 95 % intervals of the figures of one run, whose operations depend on each other.
//!
//! A run is cut into batches of equal time. A figure is a ratio of two sums over them: operations
//! over time, latency over operations, operations beyond a limit over operations. The residual of a
//! batch is its numerator minus the common ratio times its denominator. It has mean 0, and the
//! variance of its sum, with the autocorrelation time, gives the interval of the ratio (the ratio
//! estimator of survey sampling, as used by the method of batch means). The autocorrelation time is
//! estimated from the same batches, plus two standard errors times `1 - 1 / time^2`. With two full
//! standard errors, 98 % of the intervals of a lightly loaded queue hold the truth; with one, 91 %
//! of those of the mean latency in 10 s of a queue at 95 % load.
//!
//! The interval of a percentile is that of Woodruff ("Confidence intervals for medians and other
//! position measures", JASA 47, 1952): the variance of the share beyond it, over that of as many
//! independent operations, is the design effect; the operations divided by it are the effective
//! sample size; and the order statistics of that many independent values are looked up in the whole
//! histogram. Student's t is included as by Korn and Graubard ("Confidence intervals for
//! proportions with small expected number of positive counts", Survey Methodology 24(2), 1998): the
//! size is divided by the square of t over the normal quantile.
//!
//! Values beyond a rare percentile come in bursts, of which a run must contain 20. A calm run of an
//! open loop has short bursts, so it underestimates the dependence exactly when its percentile is
//! too low. Below 100 effective independent values beyond the percentile, the end of the interval
//! on the rarer side therefore uses the larger of two design effects: that at the percentile, and
//! that at the level exceeded by three times as many values, whose bursts are more and longer.
//! Without this, 88 % of the intervals of p99.9 hold the truth in 60 s of a queue at 80 % load, and
//! nearly all others lie below it. A closed loop does not need this, because its backlog is
//! bounded: 99 % of its intervals of p99.9 would hold the truth with it.
//!
//! Intervals of rates are on the logarithmic scale, so that they never reach 0. Those of mean
//! latencies are symmetric in the reciprocal: the standard error of the mean latency of a loaded
//! queue grows as the square of that mean (Whitt, "Planning queueing simulations", Management
//! Science 35(11), 1989), so a run with little backlog underestimates both.
//!
//! A calm run of an open loop near saturation also underestimates its autocorrelation time. So its
//! error is at least that of a saturated queue with as much waiting ([`Loop::Open`]), and it needs
//! ten autocorrelation times, not twenty: a stricter minimum selects calm runs, which lie below the
//! truth. In 10 s of an M/M/1 queue at 95 % load and 950/s, without either rule 37 % of the runs
//! have an interval and 15 % of the intervals lie below the truth; with both, 55 % have one and 5 %
//! lie below. Percentiles of such a queue grow with its mean, so their upper ends are at least as
//! far away; without that, 91 % of the intervals of the median hold the truth.

use serde::Serialize;

use super::Histogram;
use super::histogram::BUCKETS;
use super::quantile::{NORMAL, shares_below};
use super::summary::{Dependence, Summary, t_975};

/// Minimum for an interval: length of the run in autocorrelation times, batches with operations,
/// and bursts of rare values.
const FEWEST_INDEPENDENT: f64 = 20.0;

/// Minimum length for the mean latency of an open loop, in autocorrelation times.
const FEWEST_INDEPENDENT_OF_OPEN_LOOP: f64 = 10.0;

/// Effective independent values beyond a percentile from which the run shows how they cluster.
const WELL_SEEN: f64 = 100.0;

/// Lower limit of the design effect. Requests that take turns have more precise percentiles than
/// independent values, but only up to this limit.
const LEAST_DESIGN_EFFECT: f64 = 0.05;

/// The counts of one batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Length, ns.
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

    /// Merges with a neighbouring batch.
    #[must_use]
    pub fn joined(mut self, other: &Batch) -> Batch {
        self.span_ns += other.span_ns;
        self.add(other);
        self
    }

    /// Adds counts of the same time span.
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
    /// The run is too short: fewer than 20 autocorrelation times (10 for the mean latency of an
    /// open loop), 20 batches with operations, 20 bursts of values beyond the percentile, or about
    /// four effective independent values beyond it; or the requests of an open loop waited so long
    /// that the interval may be unbounded.
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

/// Successive batches of a run, or the reason why there are none.
pub type Batches<'a> = Result<&'a [Batch], NoInterval>;

/// How requests arrive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loop {
    /// A new request starts when one has ended: the backlog is bounded.
    Closed,
    /// Requests arrive independently of completions: the backlog is unbounded.
    Open,
}

impl From<bool> for Loop {
    /// `true` is an open loop.
    fn from(is_open: bool) -> Loop {
        if is_open { Loop::Open } else { Loop::Closed }
    }
}

/// A figure and the half-width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Per second, or ns.
    pub value: f64,
    /// Half-width of the interval, as a share of the value.
    pub half_width: f64,
}

impl Ratio {
    /// Lower and upper end of a rate, in the unit of the value.
    pub fn bounds(&self) -> (f64, f64) {
        (self.value * (-self.half_width).exp(), self.value * self.half_width.exp())
    }

    /// Lower and upper end of a mean latency, ns. If the reciprocal of a value is normal, the mean
    /// of the value exceeds 1 / (mean of the reciprocal), relatively by the squared standard error.
    pub fn latency_bounds(&self) -> (f64, f64) {
        let mean = self.value * (1.0 + (self.half_width / NORMAL).powi(2));
        (mean / (1.0 + self.half_width), mean / (1.0 - self.half_width))
    }
}

/// Amount per second.
///
/// # Errors
/// Why there is no interval.
pub fn rate(batches: &[Batch]) -> Result<Ratio, NoInterval> {
    let amounts = of(batches, |each| each.amount as f64);
    ratio(&amounts, &of(batches, |each| each.span_ns as f64 / 1e9), FEWEST_INDEPENDENT)
}

/// Mean latency of a loop, ns. The half-width is below 1.
///
/// # Errors
/// Why there is no interval.
pub fn mean(batches: &[Batch], of_loop: Loop) -> Result<Ratio, NoInterval> {
    let (sums, counts) =
        (of(batches, |each| each.sum_ns as f64), of(batches, |each| each.count() as f64));
    let mean = match of_loop {
        Loop::Closed => ratio(&sums, &counts, FEWEST_INDEPENDENT),
        Loop::Open => {
            let mean = ratio(&sums, &counts, FEWEST_INDEPENDENT_OF_OPEN_LOOP)?;
            let least = Waiting::of(batches, &sums, &counts).half_width_of(mean.value);
            Ok(Ratio { half_width: mean.half_width.max(least), ..mean })
        }
    };
    mean.and_then(|mean| if mean.half_width < 1.0 { Ok(mean) } else { Err(NoInterval::RunLonger) })
}

/// Waiting time behind earlier requests, and the precision to which a run can estimate it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiting {
    /// Latency without waiting: that of the fastest batch, ns.
    served_ns: f64,
    /// Half-width of the 95 % interval of the waiting time, as a share of it; 0 if latencies do not
    /// depend on earlier ones.
    half_width: f64,
}

impl Waiting {
    const NONE: Waiting = Waiting { served_ns: 0.0, half_width: 0.0 };

    /// Estimates the half-width from a queue near saturation that waits as long.
    ///
    /// The standard error of its mean waiting time is `L sqrt(8 / (v n))` of that time, with `L`
    /// requests waiting on average, `n` requests made, and `v` the sum of the squared coefficients
    /// of variation of gaps and services (Whitt, as above, from reflected Brownian motion). `v` is
    /// taken as 1, as if one of the two is exponential and the other constant. For one direction of
    /// a mixed load the error is too small by the root of its share of the requests, because they
    /// wait for all.
    fn of(batches: &[Batch], sums: &[f64], counts: &[f64]) -> Waiting {
        let (sum, count): (f64, f64) = (sums.iter().sum(), counts.iter().sum());
        let common = sum / count;
        let excess: Vec<f64> = sums.iter().zip(counts).map(|(sum, of)| sum - common * of).collect();
        let dependence = Dependence::of(&excess);
        if dependence.time - dependence.error <= 1.0 {
            return Waiting::NONE;
        }
        let each = sums.iter().zip(counts).filter(|(_, of)| **of > 0.0).map(|(sum, of)| sum / of);
        let served_ns = each.fold(common, f64::min);
        let span_ns: f64 = batches.iter().map(|batch| batch.span_ns as f64).sum();
        let waiting = (common - served_ns) * count / span_ns;
        Waiting { served_ns, half_width: NORMAL * waiting * (8.0 / count).sqrt() }
    }

    /// Half-width of the interval of a mean latency, as a share of it.
    fn half_width_of(self, mean_ns: f64) -> f64 {
        self.half_width * (1.0 - self.served_ns / mean_ns)
    }

    /// Lower limit of the upper end of a latency's interval, ns. The part above the service time is
    /// waiting.
    fn least_upper_end(self, value_ns: f64) -> f64 {
        let waited_ns = (value_ns - self.served_ns).max(0.0);
        value_ns - waited_ns + waited_ns / (1.0 - self.half_width)
    }
}

/// Approximate half-width of the interval of the rate, as a share of it, even for a window too
/// short for an interval. The half-width from ten equal parts of the window is used if it is
/// smaller, because it allows for a rate that drifts slowly by a few per cent. Infinite if neither
/// is known.
pub fn scatter_of_rate(batches: &[Batch]) -> f64 {
    scatter(&of(batches, |each| each.amount as f64), &of(batches, |each| each.span_ns as f64))
}

/// [`scatter_of_rate`] for the mean latency.
pub fn scatter_of_mean(batches: &[Batch]) -> f64 {
    scatter(&of(batches, |each| each.sum_ns as f64), &of(batches, |each| each.count() as f64))
}

fn scatter(amounts: &[f64], sizes: &[f64]) -> f64 {
    let error = Sum::of(amounts, sizes).map(|sum| sum.t * sum.error / sum.amount);
    error.into_iter().chain(of_ten_parts(amounts, sizes)).fold(f64::INFINITY, f64::min)
}

/// Half-width of the interval from the means of ten batches (Schmeiser, Batch Size Effects in the
/// Analysis of Simulation Output, 1982), as a share of the ratio; `None` for fewer than ten, or
/// without an amount.
fn of_ten_parts(amounts: &[f64], sizes: &[f64]) -> Option<f64> {
    const PARTS: usize = 10;
    let n = amounts.len();
    let sum = |of: &[f64], part: usize| -> f64 {
        of[part * n / PARTS..(part + 1) * n / PARTS].iter().sum()
    };
    let common = amounts.iter().sum::<f64>() / sizes.iter().sum::<f64>();
    let size = sizes.iter().sum::<f64>() / PARTS as f64;
    let excess: Vec<f64> =
        (0..PARTS).map(|part| sum(amounts, part) - common * sum(sizes, part)).collect();
    let error = Summary::of(&excess)?.std_dev / (PARTS as f64).sqrt();
    let half_width = t_975(PARTS - 1)? * error / (common * size);
    (n >= PARTS && half_width.is_finite()).then_some(half_width)
}

/// Autocorrelation time of latencies, ns, at least the length of a batch, and its upper estimate.
/// `None` below 20 batches, or without operations.
pub fn memory_ns(batches: &[Batch]) -> Option<(f64, f64)> {
    let (sums, counts) =
        (of(batches, |each| each.sum_ns as f64), of(batches, |b| b.count() as f64));
    let count: f64 = counts.iter().sum();
    if (batches.len() as f64) < FEWEST_INDEPENDENT || count <= 0.0 {
        return None;
    }
    let common = sums.iter().sum::<f64>() / count;
    let excess: Vec<f64> = sums.iter().zip(&counts).map(|(a, s)| a - common * s).collect();
    let dependence = Dependence::of(&excess);
    let span_ns = batches[0].span_ns as f64;
    Some((dependence.time * span_ns, dependence.longest() * span_ns))
}

/// Number of independent values with as much information on a quantile as the values of a run; more
/// than their number if these are negatively correlated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EffectiveSize {
    /// From the share beyond the quantile.
    pub own: f64,
    /// For the end of the interval on the side of the rarer values; at most as large.
    pub towards_rare: f64,
    /// Waiting, which a calm run underestimates.
    pub waiting: Waiting,
}

impl EffectiveSize {
    /// The same size on both sides, without waiting.
    pub fn of(size: f64) -> EffectiveSize {
        EffectiveSize { own: size, towards_rare: size, waiting: Waiting::NONE }
    }
}

/// The effective size for the quantile `q` (`0 < q < 1`) of `all`. `batches` hold the same values.
///
/// If many values share the bucket of the quantile, the share beyond it says little, so both edges
/// of the bucket are considered.
///
/// # Errors
/// Why the size is unknown.
pub fn effective_size(
    all: &Histogram,
    batches: &[Batch],
    q: f64,
    of_loop: Loop,
) -> Result<EffectiveSize, NoInterval> {
    let n = all.count() as f64;
    let bucket_of = |q: f64| all.bucket_of_rank((q * n).ceil() as u64).unwrap_or(BUCKETS as u32);
    let bucket = bucket_of(q);
    let counts = of(batches, |each| each.count() as f64);
    let from = |first: u32| of(batches, |each| each.from(first) as f64);
    // The bucket itself belongs to the rarer side.
    let rare: Vec<bool> = match q < 0.5 {
        false => from(bucket).iter().map(|beyond| *beyond > 0.0).collect(),
        true => from(bucket + 1).iter().zip(&counts).map(|(beyond, n)| beyond < n).collect(),
    };
    if is_rare(&rare) && bursts(&rare) < FEWEST_INDEPENDENT {
        return Err(NoInterval::RunLonger);
    }
    let size_at = |first: u32| size_of_share(&from(first), &counts);
    let own = size_at(bucket)?.min(size_at(bucket + 1)?).min(n / LEAST_DESIGN_EFFECT);
    if of_loop == Loop::Closed {
        return Ok(EffectiveSize::of(own));
    }
    let waiting = Waiting::of(batches, &of(batches, |each| each.sum_ns as f64), &counts);
    if waiting.half_width >= 1.0 {
        return Err(NoInterval::RunLonger);
    }
    if own * q.min(1.0 - q) >= WELL_SEEN {
        return Ok(EffectiveSize { waiting, ..EffectiveSize::of(own) });
    }
    let a_third_as_rare = if q < 0.5 { (3.0 * q).min(0.5) } else { (3.0 * q - 2.0).max(0.5) };
    let towards_rare = size_at(bucket_of(a_third_as_rare))?.min(own);
    Ok(EffectiveSize { own, towards_rare, waiting })
}

/// Effective number of independent values for the share of `beyond` in `counts`; infinite if the
/// share is 0 or 1.
fn size_of_share(beyond: &[f64], counts: &[f64]) -> Result<f64, NoInterval> {
    let sum = Sum::of_long_enough(beyond, counts, FEWEST_INDEPENDENT)?;
    let independent = sum.amount * (1.0 - sum.amount / sum.size);
    if independent <= 0.0 {
        return Ok(f64::INFINITY);
    }
    let design_effect = (sum.error.powi(2) / independent).max(LEAST_DESIGN_EFFECT);
    Ok(sum.size / design_effect * (NORMAL / sum.t).powi(2))
}

/// The interval of the quantile `q` of `all`, ns, from its [`effective_size`], no end beyond the
/// largest value; `None` if that size is too small for one.
pub fn quantile(all: &Histogram, size: EffectiveSize, q: f64) -> Option<(u64, u64)> {
    let own = shares_below(size.own as u64, q)?;
    let towards_rare = shares_below(size.towards_rare as u64, q)?;
    let (low, high) = if q < 0.5 { (towards_rare.0, own.1) } else { (own.0, towards_rare.1) };
    let at = |share: f64| {
        let rank = (share * all.count() as f64 + 0.5).round() as u64;
        all.place(rank.clamp(1, all.count()))
    };
    let least = size.waiting.least_upper_end(all.quantile(q)? as f64) as u64;
    Some((at(low)?.0, at(high)?.1.max(least.min(all.max()?))))
}

/// Whether values occur in less than half of the batches.
fn is_rare(occurs: &[bool]) -> bool {
    occurs.iter().filter(|occurs| **occurs).count() * 2 < occurs.len()
}

/// Number of runs of neighbouring batches in which values occur (runs declustering: Smith and
/// Weissman, "Estimating the extremal index", JRSS B 56(3), 1994).
fn bursts(occurs: &[bool]) -> f64 {
    let starts = occurs.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    (starts + usize::from(occurs.first() == Some(&true))) as f64
}

fn of(batches: &[Batch], pick: impl Fn(&Batch) -> f64) -> Vec<f64> {
    batches.iter().map(pick).collect()
}

fn ratio(amounts: &[f64], sizes: &[f64], fewest: f64) -> Result<Ratio, NoInterval> {
    let sum = Sum::of_long_enough(amounts, sizes, fewest)?;
    if (amounts.iter().filter(|amount| **amount > 0.0).count() as f64) < FEWEST_INDEPENDENT {
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
    /// Quantile 0.975 of Student's t for the lowest likely number of independent batches.
    t: f64,
    /// Effective number of independent batches, by the estimated autocorrelation time.
    independent: f64,
}

impl Sum {
    /// The sum over a window of at least `fewest` independent batches.
    fn of_long_enough(amounts: &[f64], sizes: &[f64], fewest: f64) -> Result<Sum, NoInterval> {
        Sum::of(amounts, sizes).filter(|sum| sum.independent >= fewest).ok_or(NoInterval::RunLonger)
    }

    /// `None` without a size, or if the window is not longer than its autocorrelation time.
    fn of(amounts: &[f64], sizes: &[f64]) -> Option<Sum> {
        let (amount, size): (f64, f64) = (amounts.iter().sum(), sizes.iter().sum());
        let common = if size > 0.0 { amount / size } else { 0.0 };
        let excess: Vec<f64> = amounts.iter().zip(sizes).map(|(a, s)| a - common * s).collect();
        let n = excess.len() as f64;
        let dependence = Dependence::of(&excess);
        let time = dependence.longest();
        if size <= 0.0 || n <= time {
            return None;
        }
        // The spread around a mean of correlated values is too small by n / (n - time).
        let spread = Summary::of(&excess).map_or(0.0, |summary| summary.std_dev);
        let error = spread * (n / (n - time)).sqrt() * (n * time).sqrt();
        let t = t_975(((n / time - 1.0) as usize).max(1))?;
        Some(Sum { amount, size, error, t, independent: n / dependence.time })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::chance::Chance;

    const BATCH_NS: u64 = 100_000_000;

    /// Response times of an M/M/1 queue with a mean service of 1 ms, by Lindley's recursion from
    /// its steady state, and batches of a tenth of a second.
    fn queue(load: f64, seconds: u64, seed: u64) -> (Histogram, Vec<Batch>) {
        let mut chance = Chance::new(seed.wrapping_mul(0xd134_2543_de82_ef95));
        let mut exponential = |mean_ns: f64| -mean_ns * (1.0 - chance.unit()).ln();
        let end_ns = seconds * 1_000_000_000;
        let mut parts = vec![Histogram::new(); (end_ns / BATCH_NS) as usize];
        let (mut now_ns, mut response_ns) = (0.0, exponential(1e6 / (1.0 - load)));
        loop {
            let gap_ns = exponential(1e6 / load);
            now_ns += gap_ns;
            response_ns = (response_ns - gap_ns).max(0.0) + exponential(1e6);
            let Some(part) = parts.get_mut((now_ns / BATCH_NS as f64) as usize) else { break };
            part.record(response_ns as u64);
        }
        let mut all = Histogram::new();
        parts.iter().for_each(|part| all.merge(part));
        let batch = |part: &Histogram| Batch {
            span_ns: BATCH_NS,
            amount: part.count(),
            latency: part.occupied().collect(),
            overflow: 0,
            sum_ns: part.sum(),
        };
        (all, parts.iter().map(batch).collect())
    }

    /// Of 200 runs: those with an interval, and those whose interval holds the truth.
    fn coverage(of: impl Fn(u64) -> Option<(f64, f64)>, truth: f64) -> (usize, usize) {
        let ends: Vec<(f64, f64)> = (1..=200).filter_map(of).collect();
        (ends.len(), ends.iter().filter(|(low, high)| (*low..=*high).contains(&truth)).count())
    }

    fn of_quantile(load: f64, seconds: u64, q: f64) -> impl Fn(u64) -> Option<(f64, f64)> {
        move |seed| {
            let (all, batches) = queue(load, seconds, seed);
            let size = effective_size(&all, &batches, q, Loop::Open).ok()?;
            let (low, high) = quantile(&all, size, q)?;
            Some((low as f64, high as f64))
        }
    }

    #[test]
    fn a_rate_that_wanders_a_little_is_known_better_than_one_that_falls() {
        let rates = |of: &dyn Fn(usize) -> f64| -> Vec<Batch> {
            let batch =
                |at| Batch { span_ns: BATCH_NS, amount: (1e5 * of(at)) as u64, ..Batch::default() };
            (0..60).map(batch).collect()
        };
        let wanders = rates(&|at| 1.0 + 0.04 * (at as f64 / 60.0 * std::f64::consts::TAU).sin());
        assert!(rate(&wanders).is_err(), "too slow for an interval");
        assert!((0.01..0.05).contains(&scatter_of_rate(&wanders)), "{}", scatter_of_rate(&wanders));
        let falls = rates(&|at| if at < 30 { 1.0 } else { 0.5 });
        assert!(scatter_of_rate(&falls) > 0.2, "{}", scatter_of_rate(&falls));
        let freezes = rates(&|at| if (24..36).contains(&at) { 0.0 } else { 1.0 });
        assert!(scatter_of_rate(&freezes) > 0.2, "{}", scatter_of_rate(&freezes));
    }

    #[test]
    fn a_handful_of_operations_has_no_interval() {
        let batches = |every: usize| -> Vec<Batch> {
            let amount = |at: usize| u64::from(at.is_multiple_of(every));
            let batch = |amount| Batch { span_ns: BATCH_NS, amount, ..Batch::default() };
            (0..200).map(|at| batch(amount(at))).collect()
        };
        assert!(rate(&batches(10)).is_ok());
        assert_eq!(rate(&batches(11)), Err(NoInterval::RunLonger));
    }

    #[test]
    fn intervals_of_a_queue_hold_the_truth_as_often_as_they_say() {
        // The response is exponential; 80 % load, 40 s.
        let mean_ns = 1e6 / 0.2;
        let of_rate = |seed| Some(rate(&queue(0.8, 40, seed).1).ok()?.bounds());
        let of_mean = |seed| Some(mean(&queue(0.8, 40, seed).1, Loop::Open).ok()?.latency_bounds());
        for (name, (given, held)) in [
            ("rate", coverage(of_rate, 800.0)),
            ("mean", coverage(of_mean, mean_ns)),
            ("p50", coverage(of_quantile(0.8, 40, 0.5), mean_ns * 2f64.ln())),
            ("p90", coverage(of_quantile(0.8, 40, 0.9), mean_ns * 10f64.ln())),
        ] {
            assert!(given >= 180, "{name}: {given}");
            assert!(held as f64 >= 0.91 * given as f64, "{name}: {held} of {given}");
        }
    }

    #[test]
    fn a_calm_run_near_saturation_knows_that_it_may_be_calm() {
        // 95 % load, 10 s.
        let below = |of_loop| {
            let of = |seed| Some(mean(&queue(0.95, 10, seed).1, of_loop).ok()?.latency_bounds());
            let all: Vec<(f64, f64)> = (1..=400).filter_map(of).collect();
            (all.len(), all.iter().filter(|(_, high)| *high < 20e6).count())
        };
        let (given, too_low) = below(Loop::Open);
        assert!(given > 160 && too_low * 100 <= given * 9, "{too_low} of {given}");
        // By the rules of a closed loop, more do.
        let (given, too_low) = below(Loop::Closed);
        assert!(given < 160 && too_low * 100 >= given * 12, "{too_low} of {given}");
        // Its median is as uncertain: 9 % would lie below without the rule.
        let median: Vec<(f64, f64)> = (1..=400).filter_map(of_quantile(0.95, 10, 0.5)).collect();
        let (given, too_low) =
            (median.len(), median.iter().filter(|(_, high)| *high < 20e6 * 2f64.ln()).count());
        assert!(given > 160 && too_low * 100 <= given * 5, "{too_low} of {given}");
    }

    #[test]
    fn operations_taken_as_independent_would_not() {
        let of = |seed| {
            let (all, _) = queue(0.8, 40, seed);
            let size = EffectiveSize::of(all.count() as f64);
            let (low, high) = quantile(&all, size, 0.5)?;
            Some((low as f64, high as f64))
        };
        let (_, held) = coverage(of, 5e6 * 2f64.ln());
        assert!(held < 100, "{held}");
    }

    #[test]
    fn what_a_run_cannot_know_it_does_not_say() {
        // A queue with a memory of about the ten seconds of the run; and a far tail seen in only a
        // few bursts.
        let (given, _) = coverage(of_quantile(0.98, 10, 0.99), 0.0);
        assert!(given <= 10, "{given}");
        let (given, _) = coverage(of_quantile(0.8, 10, 0.999), 0.0);
        assert_eq!(given, 0);
        let (all, batches) = queue(0.1, 1, 1);
        assert_eq!(effective_size(&all, &batches, 0.5, Loop::Open), Err(NoInterval::RunLonger));
        assert_eq!(rate(&batches), Err(NoInterval::RunLonger));
    }

    #[test]
    fn ends_never_reach_zero() {
        let batch = |ops| Batch { span_ns: BATCH_NS, amount: ops, ..Batch::default() };
        let clustered = |at: u64| if at.is_multiple_of(4) { at * at } else { 0 };
        let few: Vec<Batch> = (0..100).map(|at| batch(clustered(at))).collect();
        let found = rate(&few).unwrap();
        let (low, high) = found.bounds();
        assert!(0.0 < low && low < found.value && found.value < high, "{low} {high}");
        assert!(found.half_width > 0.5, "the mean less twice its error would come near 0");
        assert_eq!(rate(&[batch(0), batch(0)]), Err(NoInterval::RunLonger));
    }

    #[test]
    fn values_in_one_bucket_have_its_edges() {
        let mut part = Histogram::new();
        part.record_many(1_000_000, 50);
        let latency: Vec<(u32, u64)> = part.occupied().collect();
        let batches = vec![Batch { latency, ..Batch::default() }; 30];
        let mut all = Histogram::new();
        (0..30).for_each(|_| all.merge(&part));
        for q in [0.1, 0.5, 0.9] {
            let size = effective_size(&all, &batches, q, Loop::Open).unwrap();
            assert_eq!(quantile(&all, size, q), Some((1_000_000, 1_000_000)));
        }
    }
}
