//! Confidence intervals of figures from few repeats: by resampling, and by Student's t on
//! logarithms.
//!
//! The bootstrap draws from the sample itself, with replacement, and observes the spread of the
//! statistic (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993). From 10 values on in
//! each group the interval is the bias-corrected and accelerated one (BCa; the acceleration of
//! several groups is that of Davison and Hinkley, "Bootstrap Methods and their Application", 1997,
//! section 5.3.2); from 5 on it is the percentile interval, because the acceleration of fewer
//! values is noise. Below 5 values resampling gives no interval: [`over_repeats`] then returns the
//! range of the replicates.
//!
//! Coverage of nominal 95 % intervals, in %, in 2,000 simulated samples of n values
//! each (normal, and log-normal with sigma 0.5; a standard error is 0.5 %):
//!
//! | n | mean | log-normal | median | ratio of medians | [`log_normal_mean`] | [`log_t_ratio`] |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | 3 | 75.3 | 73.1 | 75.5 | 91.5 | 94.7 | 97.9 |
//! | 5 | 84.6 | 82.0 | 94.6 | 97.2 | 94.5 | 96.0 |
//! | 10 | 89.9 | 88.3 | 93.6 | 95.0 | 94.7 | 94.9 |
//! | 20 | 92.3 | 91.5 | 94.2 | 95.2 | 94.8 | 94.7 |
//! | 30 | 92.8 | 92.6 | 94.1 | 95.3 | 95.0 | 94.6 |
//! | 50 | 94.3 | 93.0 | 95.3 | 96.1 | 94.9 | 95.2 |
//!
//! The bootstrap of few values is too narrow, because it never draws beyond the sample. If a metric
//! is positive and about log-normal, as run-level rates and latencies are, [`log_normal_mean`] has
//! the nominal coverage from two values on.
//!
//! The resamples are drawn in parts, each with its own generator, so the result does not depend on
//! the number of threads.

use std::num::NonZeroUsize;
use std::thread;

use serde::Serialize;

use super::chance::Chance;
use super::normal;
use super::ratio::{self, median};
use super::summary::{Summary, logarithms, t_975, t_p, t_with_p};

/// Default number of resamples.
pub const RESAMPLES: usize = 4_000;
/// Values per group below which resampling gives no interval.
pub const PERCENTILE_FROM: usize = 5;
/// Values per group at or above which the interval is BCa.
pub const BCA_FROM: usize = 10;
/// Resamples drawn by one generator.
const PART: usize = 250;
/// Total draws below which a second thread costs more than it saves.
const WORTH_A_THREAD: usize = 1 << 18;
/// Nominal coverage of an interval.
const LEVEL: f64 = 0.95;
/// Largest share of resamples for which the statistic may be undefined.
const MAY_BE_LOST: f64 = 0.05;

/// How an interval was computed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Least and greatest value of the resampled statistic; too few values for an interval.
    Range,
    /// Percentiles of the resampled statistic.
    Percentile,
    /// Percentiles, bias-corrected and accelerated.
    Bca,
    /// Student's t on logarithms.
    LogT,
}

/// An interval, with its nominal coverage and method.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Nominal coverage, `0..1`; `None` for a range, whose coverage is unknown.
    pub level: Option<f64>,
    /// How it was computed.
    pub method: Method,
}

impl Interval {
    /// Whether a value lies inside, ends included.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// How to resample.
#[derive(Clone, Copy, Debug)]
pub struct Bootstrap {
    /// Number of resamples.
    pub resamples: usize,
    /// Seed of all random draws.
    pub seed: u64,
    /// Maximum number of threads; the result does not depend on it.
    pub threads: usize,
}

impl Bootstrap {
    /// 4,000 resamples, on all processors if that pays off.
    pub fn new(seed: u64) -> Bootstrap {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Bootstrap { resamples: RESAMPLES, seed, threads }
    }

    /// With another number of resamples.
    pub fn resamples(self, resamples: usize) -> Bootstrap {
        Bootstrap { resamples, ..self }
    }

    /// Interval of the median of `one` divided by that of `other`.
    pub fn ratio_of_medians(&self, one: &[f64], other: &[f64]) -> Option<Interval> {
        self.interval(&[one, other], |both| Some(median(&both[0])? / median(&both[1])?))
    }

    /// The interval of a statistic of several groups, each resampled separately. `None` if a group
    /// has fewer than 5 values, or if the statistic is undefined for the groups or for over 5 % of
    /// the resamples.
    pub fn interval<T: Copy + Sync>(
        &self,
        groups: &[&[T]],
        statistic: impl Fn(&[Vec<T>]) -> Option<f64> + Sync,
    ) -> Option<Interval> {
        if groups.is_empty() || groups.iter().any(|group| group.len() < PERCENTILE_FROM) {
            return None;
        }
        let statistic = |groups: &[Vec<T>]| statistic(groups).filter(|value| value.is_finite());
        let seen = statistic(&owned(groups))?;
        let replicates = sorted(self.replicates(groups, statistic))?;
        if groups.iter().any(|group| group.len() < BCA_FROM) {
            return percentiles(&replicates);
        }
        let bias = normal::quantile(share_below(&replicates, seen));
        let acceleration = acceleration(groups, &statistic)?;
        let (low, high) = ends(&replicates, bias, acceleration)?;
        Some(Interval { low, high, level: Some(LEVEL), method: Method::Bca })
    }

    /// The statistic of each resample, in an order determined by the seed. Groups must not be
    /// empty.
    pub fn replicates<T: Copy + Sync, S: Send>(
        &self,
        groups: &[&[T]],
        statistic: impl Fn(&[Vec<T>]) -> S + Sync,
    ) -> Vec<S> {
        let parts = self.resamples.div_ceil(PART);
        let part = |part: usize| -> Vec<S> {
            let mut chance = Chance::of_part(self.seed, part as u64);
            let mut drawn = owned(groups);
            let count = PART.min(self.resamples - part * PART);
            let mut resample = || {
                for (group, drawn) in groups.iter().zip(&mut drawn) {
                    drawn.iter_mut().for_each(|value| *value = group[chance.index(group.len())]);
                }
                statistic(&drawn)
            };
            (0..count).map(|_| resample()).collect()
        };
        in_parts(parts, self.threads_for(groups.iter().map(|group| group.len()).sum()), part)
    }

    fn threads_for(&self, values: usize) -> usize {
        (self.resamples.saturating_mul(values) / WORTH_A_THREAD).clamp(1, self.threads.max(1))
    }
}

/// Runs numbered parts on several threads; the results are in the order of the parts.
fn in_parts<S: Send>(
    parts: usize,
    threads: usize,
    part: impl Fn(usize) -> Vec<S> + Sync,
) -> Vec<S> {
    if threads < 2 {
        return (0..parts).flat_map(part).collect();
    }
    // Thread k does the parts k, k + threads, …
    let mine = |first: usize| (first..parts).step_by(threads).map(&part).collect::<Vec<_>>();
    let mut done: Vec<_> = thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|first| scope.spawn(move || mine(first))).collect();
        let joined = started.into_iter().map(|thread| match thread.join() {
            Ok(results) => results.into_iter(),
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    (0..parts).flat_map(|part| done[part % threads].next().unwrap_or_default()).collect()
}

/// The percentile interval of the result of [`Bootstrap::replicates`]; the range if the smallest
/// group has `fewest` < 5 values. `None` if `fewest` is below 2, or if more than 5 % of the
/// replicates have no value.
pub fn over_repeats(replicates: Vec<Option<f64>>, fewest: usize) -> Option<Interval> {
    let sorted = sorted(replicates).filter(|_| fewest >= 2)?;
    if fewest < PERCENTILE_FROM {
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        return Some(Interval { low, high, level: None, method: Method::Range });
    }
    percentiles(&sorted)
}

fn percentiles(sorted: &[f64]) -> Option<Interval> {
    let (low, high) = ends(sorted, 0.0, 0.0)?;
    Some(Interval { low, high, level: Some(LEVEL), method: Method::Percentile })
}

/// The 95 % interval of the arithmetic mean of a positive metric that is about log-normal: Cox's
/// method with Student's t (U. Olsson, "Confidence intervals for the mean of a log-normal
/// distribution", Journal of Statistics Education 13(1), 2005). `None` below two values, or if one
/// is not positive.
pub fn log_normal_mean(sample: &[f64]) -> Option<Interval> {
    let logs = Summary::of(&logarithms(sample)?)?;
    let freedom = logs.n.checked_sub(1)?;
    let variance = logs.std_dev.powi(2);
    let middle = logs.mean + variance / 2.0;
    let of_variance = variance.powi(2) / (2 * freedom.max(1)) as f64;
    let reach = t_975(freedom)? * (variance / logs.n as f64 + of_variance).sqrt();
    let (low, high) = ((middle - reach).exp(), (middle + reach).exp());
    Some(Interval { low, high, level: Some(LEVEL), method: Method::LogT })
}

/// The 95 % interval of the ratio of `one` to `other`, both positive and about log-normal: Welch's
/// t on logarithms (B. L. Welch 1947), degrees of freedom rounded down. `None` if either has fewer
/// than two values, or one that is not positive.
pub fn log_t_ratio(one: &[f64], other: &[f64]) -> Option<Interval> {
    Welch::of(one, other)?.interval(t_975)
}

/// [`log_t_ratio`] with Bonferroni's correction: with 95 % all `comparisons` intervals hold their
/// ratios, so a ratio may be selected because it is far from 1.
pub fn log_t_ratio_among(one: &[f64], other: &[f64], comparisons: usize) -> Option<Interval> {
    let p = 0.05 / comparisons.max(1) as f64;
    Welch::of(one, other)?.interval(|freedom| t_with_p(p, freedom))
}

/// Two-sided p value of [`log_t_ratio`]'s test for no difference; 1 if it cannot be tested.
pub fn log_t_p(one: &[f64], other: &[f64]) -> f64 {
    Welch::of(one, other).map_or(1.0, |welch| match welch.error > 0.0 {
        true => t_p(welch.middle / welch.error, welch.freedom),
        false => f64::from(u8::from(welch.middle == 0.0)),
    })
}

/// The 95 % interval of a weighted sum of means of separate samples: Student's t with the degrees
/// of freedom of Welch and Satterthwaite, rounded down. `None` below two values in a sample.
pub fn sum_of_means(parts: &[(f64, &[f64])]) -> Option<(f64, f64)> {
    let (mut middle, mut variance, mut uncertainty) = (0.0, 0.0, 0.0);
    for (weight, sample) in parts {
        let of = Summary::of(sample).filter(|of| of.n > 1)?;
        let share = weight.powi(2) * of.std_dev.powi(2) / of.n as f64;
        middle += weight * of.mean;
        variance += share;
        uncertainty += share.powi(2) / (of.n - 1) as f64;
    }
    let freedom = if variance > 0.0 { variance.powi(2) / uncertainty } else { 1.0 };
    let reach = t_975((freedom.floor() as usize).max(1))? * variance.sqrt();
    Some((middle - reach, middle + reach))
}

/// Welch's test on logarithms.
struct Welch {
    /// Difference of the means.
    middle: f64,
    /// Its standard error.
    error: f64,
    freedom: usize,
}

impl Welch {
    fn of(one: &[f64], other: &[f64]) -> Option<Welch> {
        let (one, other) = (Summary::of(&logarithms(one)?)?, Summary::of(&logarithms(other)?)?);
        if one.n < 2 || other.n < 2 {
            return None;
        }
        let share = |of: &Summary| of.std_dev.powi(2) / of.n as f64;
        let variance = share(&one) + share(&other);
        let part = |of: &Summary| share(of).powi(2) / (of.n - 1) as f64;
        let freedom =
            if variance > 0.0 { variance.powi(2) / (part(&one) + part(&other)) } else { 1.0 };
        let freedom = (freedom.floor() as usize).max(1);
        Some(Welch { middle: one.mean - other.mean, error: variance.sqrt(), freedom })
    }

    /// Interval of the ratio; `errors` maps degrees of freedom to its half-width in standard
    /// errors.
    fn interval(&self, errors: impl Fn(usize) -> Option<f64>) -> Option<Interval> {
        let reach = errors(self.freedom)? * self.error;
        let (low, high) = ((self.middle - reach).exp(), (self.middle + reach).exp());
        Some(Interval { low, high, level: Some(LEVEL), method: Method::LogT })
    }
}

fn owned<T: Copy>(groups: &[&[T]]) -> Vec<Vec<T>> {
    groups.iter().map(|group| group.to_vec()).collect()
}

/// The defined values, ascending; `None` if there are too few.
fn sorted(replicates: Vec<Option<f64>>) -> Option<Vec<f64>> {
    let all = replicates.len() as f64;
    let values = ratio::sorted(replicates.into_iter().flatten());
    (!values.is_empty() && values.len() as f64 >= (1.0 - MAY_BE_LOST) * all).then_some(values)
}

/// Share of the resamples below the observed value; equal ones count half.
fn share_below(sorted: &[f64], seen: f64) -> f64 {
    let below = sorted.partition_point(|value| *value < seen);
    let not_above = sorted.partition_point(|value| *value <= seen);
    (below + not_above) as f64 / (2 * sorted.len()) as f64
}

/// Both ends for a bias (in standard deviations) and an acceleration; both 0 give percentiles.
fn ends(sorted: &[f64], bias: f64, acceleration: f64) -> Option<(f64, f64)> {
    let end = |tail: f64| {
        let shifted = bias + normal::quantile(tail);
        let p = normal::cdf(bias + shifted / (1.0 - acceleration * shifted));
        // Rank p (B + 1), interpolated linearly.
        let rank = (p * (sorted.len() + 1) as f64 - 1.0).clamp(0.0, (sorted.len() - 1) as f64);
        let (below, above) = (*sorted.get(rank as usize)?, *sorted.get(rank.ceil() as usize)?);
        Some(below + (above - below) * rank.fract())
    };
    let tail = (1.0 - LEVEL) / 2.0;
    Some((end(tail)?, end(1.0 - tail)?))
}

/// How the spread of the statistic changes with its value, by the jackknife; 0 if the value is
/// constant.
fn acceleration<T: Copy>(
    groups: &[&[T]],
    statistic: &impl Fn(&[Vec<T>]) -> Option<f64>,
) -> Option<f64> {
    let (mut cubes, mut squares) = (0.0, 0.0);
    let mut rest = owned(groups);
    for (at, group) in groups.iter().enumerate() {
        let without = |rest: &mut Vec<Vec<T>>, left_out: usize| {
            rest[at] = [&group[..left_out], &group[left_out + 1..]].concat();
            statistic(rest)
        };
        let values: Option<Vec<f64>> =
            (0..group.len()).map(|left_out| without(&mut rest, left_out)).collect();
        let values = values?;
        rest[at] = group.to_vec();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let influence = |value: &f64| (n - 1.0) * (mean - value);
        cubes += values.iter().map(|value| influence(value).powi(3)).sum::<f64>() / n.powi(3);
        squares += values.iter().map(|value| influence(value).powi(2)).sum::<f64>() / n.powi(2);
    }
    Some(if squares > 0.0 { cubes / squares.powf(1.5) / 6.0 } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Coverage of `interval` over samples of `n` values.
    fn coverage(
        n: usize,
        truth: f64,
        draw: impl Fn(&mut Chance) -> f64,
        interval: impl Fn(&[f64], u64) -> Interval,
    ) -> f64 {
        let mut chance = Chance::new(17);
        let trials = 2_000;
        let held = (0..trials).filter(|trial| {
            let sample: Vec<f64> = (0..n).map(|_| draw(&mut chance)).collect();
            interval(&sample, *trial).holds(truth)
        });
        held.count() as f64 / trials as f64
    }

    fn mean(bootstrap: Bootstrap, sample: &[f64]) -> Option<Interval> {
        bootstrap.interval(&[sample], |groups| Summary::of(&groups[0]).map(|all| all.mean))
    }

    fn middle(bootstrap: Bootstrap, sample: &[f64]) -> Option<Interval> {
        bootstrap.interval(&[sample], |groups| median(&groups[0]))
    }

    fn normal(chance: &mut Chance) -> f64 {
        100.0 + 5.0 * chance.normal()
    }

    /// Log-normal with median 1.
    fn skewed(chance: &mut Chance) -> f64 {
        (0.5 * chance.normal()).exp()
    }

    fn bootstrap(seed: u64) -> Bootstrap {
        Bootstrap { threads: 1, ..Bootstrap::new(seed).resamples(400) }
    }

    /// Asserts the coverage only where the method can reach it; the table at the head of this file
    /// has the rest.
    #[test]
    fn intervals_cover_as_often_as_they_say() {
        let promised = 0.93..0.97;
        for n in [3, 5, 10, 30] {
            let of_mean = |sample: &[f64], _| log_normal_mean(sample).unwrap();
            let share = coverage(n, 0.125f64.exp(), skewed, of_mean);
            assert!(promised.contains(&share), "log-normal mean of {n}: {share}");
        }
        let two = |sample: &[f64], _| log_t_ratio(&sample[..6], &sample[6..]).unwrap();
        let share = coverage(12, 1.0, skewed, two);
        assert!(promised.contains(&share), "log-t ratio: {share}");
        let medians = |sample: &[f64], seed| {
            bootstrap(seed).ratio_of_medians(&sample[..10], &sample[10..]).unwrap()
        };
        let share = coverage(20, 1.0, skewed, medians);
        assert!(promised.contains(&share), "ratio of medians: {share}");
        let share =
            coverage(20, 1.0, skewed, |sample, seed| middle(bootstrap(seed), sample).unwrap());
        assert!(promised.contains(&share), "median of 20: {share}");
        let share =
            coverage(40, 100.0, normal, |sample, seed| mean(bootstrap(seed), sample).unwrap());
        assert!((0.92..0.97).contains(&share), "mean of 40: {share}");
    }

    #[test]
    fn three_values_give_a_range_and_no_interval() {
        assert_eq!(middle(Bootstrap::new(1), &[1.0, 2.0, 4.0]), None);
        let of = |fewest| over_repeats((1..=200).map(|i| Some(f64::from(i))).collect(), fewest);
        let range = of(3).unwrap();
        assert_eq!((range.low, range.high, range.level), (1.0, 200.0, None));
        assert_eq!(range.method, Method::Range);
        let interval = of(5).unwrap();
        assert!(interval.low > 5.0 && interval.level == Some(0.95));
        assert_eq!(of(1), None);
    }

    #[test]
    fn the_answer_is_the_same_whatever_the_number_of_threads() {
        let mut chance = Chance::new(3);
        let sample: Vec<f64> = (0..400).map(|_| skewed(&mut chance)).collect();
        let with = |threads| {
            let bootstrap = Bootstrap { threads, ..Bootstrap::new(1).resamples(2_100) };
            assert_eq!(bootstrap.threads_for(sample.len()) > 1, threads > 1);
            mean(bootstrap, &sample).unwrap()
        };
        assert_eq!(with(1), with(2));
        assert_eq!(with(1), with(3));
        assert_ne!(with(1), mean(Bootstrap::new(2).resamples(2_100), &sample).unwrap());
    }

    #[test]
    fn percentiles_of_a_known_law() {
        // The standard deviation of a mean is sigma / sqrt(n), with the sigma of the sample.
        let sample: Vec<f64> = (0..100).map(f64::from).collect();
        let interval = mean(Bootstrap::new(1), &sample).unwrap();
        let reach = 1.96 * 28.866 / 10.0;
        assert!((interval.low - (49.5 - reach)).abs() < 0.3, "{interval:?}");
        assert!((interval.high - (49.5 + reach)).abs() < 0.3, "{interval:?}");
        assert_eq!(interval.method, Method::Bca);
    }

    #[test]
    fn a_long_right_tail_moves_the_accelerated_interval_to_the_right() {
        let sample = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 2.0, 9.0];
        let accelerated = mean(Bootstrap::new(1), &sample).unwrap();
        let plain = |values: &[Vec<f64>]| Summary::of(&values[0]).map(|summary| summary.mean);
        let plain = over_repeats(Bootstrap::new(1).replicates(&[&sample], plain), sample.len());
        assert!(accelerated.low > plain.unwrap().low && accelerated.high > plain.unwrap().high);
    }

    #[test]
    fn intervals_on_logarithms_of_a_known_sample() {
        // Logarithms -1, 0, 1: mean 0, deviation 1, t(2) = 4.303.
        let e = std::f64::consts::E;
        let interval = log_normal_mean(&[1.0 / e, 1.0, e]).unwrap();
        // Variance 1: the mean is exp(1 / 2); the variance of its logarithm is 1 / 3 + 1 / 4.
        let reach = 4.302_653 * (1.0f64 / 3.0 + 0.25).sqrt();
        assert!((interval.high.ln() - 0.5 - reach).abs() < 1e-5);
        let ratio = log_t_ratio(&[1.0 / e, 1.0, e], &[1.0 / e, 1.0, e]).unwrap();
        // Equal spreads: 4 degrees of freedom, standard error sqrt(2 / 3).
        assert!((ratio.high.ln() - 2.776_445 * (2.0f64 / 3.0).sqrt()).abs() < 1e-6);
        assert_eq!(log_t_ratio(&[4.0, 4.0], &[2.0, 2.0]).unwrap().low.round(), 2.0);
    }

    #[test]
    fn what_has_no_spread_or_no_value() {
        let same = middle(Bootstrap::new(1), &[7.0; 12]).unwrap();
        assert_eq!((same.low, same.high), (7.0, 7.0));
        assert_eq!(mean(Bootstrap::new(1), &[1.0]), None);
        assert_eq!(Bootstrap::new(1).ratio_of_medians(&[1.0, 2.0], &[0.0, 0.0]), None);
        let (none, zero) = (log_normal_mean(&[1.0]), log_normal_mean(&[1.0, 0.0]));
        assert_eq!((none, zero), (None, None));
    }

    #[test]
    fn the_interval_of_a_weighted_sum_holds_it() {
        let mut chance = Chance::new(3);
        let held = (0..1_000).filter(|_| {
            let one: Vec<f64> = (0..3).map(|_| 10.0 + chance.normal()).collect();
            let other: Vec<f64> = (0..3).map(|_| 4.0 + 2.0 * chance.normal()).collect();
            let (low, high) = sum_of_means(&[(2.0, &one), (-1.0, &other)]).unwrap();
            low <= 16.0 && 16.0 <= high
        });
        let held = held.count();
        assert!((935..=990).contains(&held), "{held} of 1,000");
        assert_eq!(sum_of_means(&[(1.0, &[1.0])]), None);
        assert_eq!(sum_of_means(&[(1.0, &[1.0, 1.0]), (2.0, &[3.0, 3.0])]), Some((7.0, 7.0)));
    }
}
