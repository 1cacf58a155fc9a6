//! One metric of two sets of runs: how much they differ, and the verdict.
//!
//! The run is the replicate. Each run gives one value, and all statistics use only these values:
//! the variation within a run says nothing about how runs differ.

use serde::Serialize;

use iosonde_stats::permutation::{self, mann_whitney, smallest_p, smallest_paired_p};
use iosonde_stats::ratio::median;
use iosonde_stats::resample::Resampled;
use iosonde_stats::scatter::OF_MEDIAN;
use iosonde_stats::summary::Summary;
use iosonde_stats::{effect, normal};

/// Minimum number of runs per side.
pub const FEWEST: usize = 5;
/// Minimum number of rounds of alternating sides: with five, no p is below 0.0625.
pub const FEWEST_ROUNDS: usize = 6;
/// Recommended runs per side.
pub const BETTER: usize = 10;
/// Default tolerance: differences below this share do not matter.
pub const TOLERANCE: f64 = 0.05;
/// Maximum corrected p value of a difference.
pub const SIGNIFICANT: f64 = 0.05;
/// Maximum number of runs per side, or rounds, that is recommended: as many as `--rounds` accepts.
pub const MOST: u64 = 1_000;
/// Power: probability with which the recommended number of runs decides.
const POWER: f64 = 0.95;
/// Level of each of the two one-sided equivalence tests; low, as equivalence can hide a regression.
const SAMENESS: f64 = 0.000_1;

/// Which direction is better.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Rates.
    Higher,
    /// Latencies and costs.
    Lower,
}

/// The verdict on one metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Verdict {
    /// B is better, by the tolerance at least.
    Faster,
    /// B is worse, by the tolerance at least.
    Slower,
    /// The sides differ, but by less than the tolerance.
    BelowTolerance { tolerance: f64 },
    /// The sides are equivalent within the tolerance.
    Same { tolerance: f64 },
    /// None of the above is established.
    Inconclusive {
        /// Estimated additional runs per side, or rounds, to show a difference of the observed
        /// size or of the tolerance, if larger; `None` if more than [`MOST`] in total.
        more_to_differ: Option<u64>,
        /// The same to show equivalence; also `None` if the whole interval lies outside the
        /// tolerance.
        more_to_be_same: Option<u64>,
        /// The same to decide between the two.
        more_to_decide: Option<u64>,
    },
    /// There are too few runs for any verdict.
    TooFew,
}

/// Comparison of two sets of values of one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contrast {
    /// Runs of each side.
    pub runs: [usize; 2],
    /// Whether A and B alternated and are compared within rounds.
    pub paired: bool,
    /// Medians over runs, in the metric's unit.
    pub medians: [f64; 2],
    /// Ratio of B to A: ratio of the medians or, in rounds, median of the rounds' ratios.
    pub ratio: f64,
    /// 95 % interval of the ratio, if there are enough runs.
    pub interval: Option<(f64, f64)>,
    /// 90 % interval of the ratio: each end is a one-sided test at 5 %.
    pub interval_90: Option<(f64, f64)>,
    /// Hodges-Lehmann shift from A to B, in the metric's unit.
    pub shift: f64,
    /// Spread between runs, as a share of the level; in rounds, of the ratio.
    pub spread: Option<f64>,
    /// p value of the permutation test of the difference of medians; in rounds, by sign flips.
    pub p: f64,
    /// Whether every permutation was evaluated.
    pub exact: bool,
    /// The smallest p possible with this number of runs.
    pub smallest_p: f64,
    /// p value of the Mann-Whitney test, as a cross-check; `None` in rounds.
    pub mann_whitney_p: Option<f64>,
    /// Cliff's delta, from -1 to 1.
    pub delta: f64,
    /// Interval of the ratio of geometric means for the equivalence test, 0.01 % on each side.
    #[serde(skip)]
    pub(super) strict: Option<(f64, f64)>,
}

impl Contrast {
    /// Compares two sets of values of independent runs. `None` if one is empty, or a value is not
    /// positive.
    pub fn of_sides(a: &[f64], b: &[f64], seed: u64) -> Option<Contrast> {
        let resampled = Resampled::log_ratio_of_medians(a, b, seed)?;
        let enough = a.len().min(b.len()) >= FEWEST;
        let medians = [median(a)?, median(b)?];
        let spread = effect::pooled_spread(a, b);
        let between = (1.0 / a.len() as f64 + 1.0 / b.len() as f64).sqrt();
        let strict = spread.map(|spread| {
            around(log_mean(b) - log_mean(a), spread * between, a.len() + b.len() - 2)
        });
        let permuted = permutation::two_sides(a, b, seed);
        Some(Contrast {
            runs: [a.len(), b.len()],
            paired: false,
            medians,
            ratio: medians[1] / medians[0],
            interval: enough.then(|| ratios(resampled.interval(0.95))),
            interval_90: enough.then(|| ratios(resampled.interval(0.90))),
            shift: effect::shift(a, b)?,
            spread,
            p: permuted.p,
            exact: permuted.exact,
            smallest_p: smallest_p(a.len(), b.len()),
            mann_whitney_p: Some(mann_whitney(a, b)),
            delta: effect::cliffs_delta(a, b)?,
            strict: strict.filter(|_| enough),
        })
    }

    /// Compares two alternating sides: one value of each per round, in the same order.
    pub fn of_rounds(a: &[f64], b: &[f64], seed: u64) -> Option<Contrast> {
        let positive = |value: &f64| *value > 0.0 && value.is_finite();
        if a.len() != b.len() || !a.iter().chain(b).all(positive) {
            return None;
        }
        let pairs = || a.iter().zip(b);
        let logs: Vec<f64> = pairs().map(|(a, b)| (b / a).ln()).collect();
        let differences: Vec<f64> = pairs().map(|(a, b)| b - a).collect();
        let resampled = Resampled::median(&logs, seed)?;
        let enough = logs.len() >= FEWEST_ROUNDS;
        let summary = Summary::of(&logs)?;
        let error = summary.std_dev / (logs.len() as f64).sqrt();
        let permuted = permutation::rounds(&logs, seed);
        Some(Contrast {
            runs: [a.len(), b.len()],
            paired: true,
            medians: [median(a)?, median(b)?],
            ratio: median(&logs)?.exp(),
            interval: enough.then(|| ratios(resampled.interval(0.95))),
            interval_90: enough.then(|| ratios(resampled.interval(0.90))),
            shift: effect::paired_shift(&differences)?,
            spread: (logs.len() > 1).then_some(summary.std_dev),
            p: permuted.p,
            exact: permuted.exact,
            smallest_p: smallest_paired_p(logs.len()),
            mann_whitney_p: None,
            delta: effect::dominance(&differences)?,
            strict: enough.then(|| around(summary.mean, error, logs.len() - 1)),
        })
    }

    /// Whether there are enough runs to compare.
    pub fn is_enough(&self) -> bool {
        self.interval.is_some()
    }

    /// The verdict, by a p value that is corrected for `family` tests.
    ///
    /// A tolerance of 5 % is a ratio of 1.05 or of 1 / 1.05, so that exchanging the sides changes
    /// only the direction of a verdict.
    pub fn verdict(
        &self,
        better: Better,
        corrected_p: f64,
        tolerance: f64,
        family: usize,
    ) -> Verdict {
        let (Some(interval), Some(interval_90)) = (self.interval, self.interval_90) else {
            return Verdict::TooFew;
        };
        if corrected_p <= SIGNIFICANT && !(interval.0..=interval.1).contains(&1.0) {
            if !is_within(self.ratio, tolerance) {
                let is_better = (self.ratio > 1.0) == (better == Better::Higher);
                return if is_better { Verdict::Faster } else { Verdict::Slower };
            }
            return Verdict::BelowTolerance { tolerance };
        }
        // Noise makes differences harder to establish; it must not make equivalence easier.
        let all_within =
            |(low, high): (f64, f64)| is_within(low, tolerance) && is_within(high, tolerance);
        if all_within(interval_90) && self.strict.is_some_and(all_within) {
            return Verdict::Same { tolerance };
        }
        self.inconclusive(tolerance, family)
    }

    /// Additional runs per side, or rounds, to show a difference and to show equivalence, given
    /// the observed difference and the upper limit of the spread.
    fn inconclusive(&self, tolerance: f64, family: usize) -> Verdict {
        let (observed, limit) = (self.ratio.ln().abs(), tolerance.ln_1p());
        let differ = self.more(|runs| self.shows(observed.max(limit), runs, family));
        // The true difference may be smaller than the observed one.
        let distance = (limit - observed).max(limit / 2.0);
        let same = self.more(|runs| self.shows_sameness(distance, runs));
        let may_be_same =
            self.interval.is_some_and(|(low, high)| low.ln() < limit && high.ln() > -limit);
        Verdict::Inconclusive {
            more_to_differ: differ,
            more_to_be_same: same.filter(|_| may_be_same),
            more_to_decide: match may_be_same {
                true => differ.zip(same).map(|(differ, same)| differ.max(same)),
                false => differ,
            },
        }
    }

    /// Minimum number of additional runs; `None` above [`MOST`] in total. At least half of the
    /// present number: if fewer were enough, the present runs would probably have decided.
    fn more(&self, is_enough: impl Fn(usize) -> bool) -> Option<u64> {
        let have = self.runs[0].min(self.runs[1]);
        let all: Vec<usize> = (have + have.div_ceil(2)..=MOST as usize).collect();
        let fewer = all.partition_point(|runs| !is_enough(*runs));
        all.get(fewer).map(|runs| (runs - have) as u64)
    }

    /// Whether this number of runs shows a difference of medians of this size.
    fn shows(&self, difference: f64, runs: usize, family: usize) -> bool {
        let level = SIGNIFICANT / 2.0 / family.max(1) as f64;
        let reach = self.reach(level, runs) + normal::quantile(POWER);
        let least_p = if self.paired { smallest_paired_p(runs) } else { smallest_p(runs, runs) };
        let can = least_p * family as f64 <= SIGNIFICANT;
        can && difference >= reach * OF_MEDIAN * self.error(runs)
    }

    /// Whether this number of runs shows equivalence at this distance from the tolerance.
    fn shows_sameness(&self, distance: f64, runs: usize) -> bool {
        // Each of the two tests may have half of the allowed error of the second kind.
        let reach = self.reach(SAMENESS, runs) + normal::quantile(1.0 - (1.0 - POWER) / 2.0);
        distance >= reach * self.error(runs)
    }

    /// Critical value of a one-sided test at this level, in standard errors.
    fn reach(&self, level: f64, runs: usize) -> f64 {
        student(normal::quantile(1.0 - level), self.freedom(runs))
    }

    /// Upper limit of the standard error of the difference with this number of runs.
    fn error(&self, runs: usize) -> f64 {
        let have = self.runs[0].min(self.runs[1]);
        let spread = self.spread.unwrap_or(0.0) * largest(self.freedom(have));
        spread * (self.sides() / runs as f64).sqrt()
    }

    fn freedom(&self, runs: usize) -> usize {
        (self.sides() as usize * (runs - 1)).max(1)
    }

    /// Number of samples whose variances add up in the difference.
    fn sides(&self) -> f64 {
        if self.paired { 1.0 } else { 2.0 }
    }
}

/// 95 % upper limit of the true spread over the observed one, by the chi-square distribution
/// (Wilson and Hilferty 1931).
fn largest(freedom: usize) -> f64 {
    let part = 2.0 / (9.0 * freedom as f64);
    let share = (1.0 - part + normal::quantile(1.0 - POWER) * part.sqrt()).powi(3);
    share.max(0.01).sqrt().recip()
}

fn log_mean(values: &[f64]) -> f64 {
    values.iter().map(|value| value.ln()).sum::<f64>() / values.len().max(1) as f64
}

fn ratios((low, high): (f64, f64)) -> (f64, f64) {
    (low.exp(), high.exp())
}

fn is_within(ratio: f64, tolerance: f64) -> bool {
    ratio.ln().abs() < (1.0 + tolerance).ln()
}

/// Interval, as ratios, of a mean of logarithms, with [`SAMENESS`] on each side.
fn around(mean: f64, error: f64, freedom: usize) -> (f64, f64) {
    let reach = student(normal::quantile(1.0 - SAMENESS), freedom.max(1)) * error;
    ratios((mean - reach, mean + reach))
}

/// Quantile of Student's t distribution from the same quantile of the normal distribution
/// (Cornish-Fisher, Abramowitz and Stegun 26.7.5); slightly low below eight degrees of freedom.
fn student(z: f64, freedom: usize) -> f64 {
    let v = freedom as f64;
    let g1 = (z.powi(3) + z) / 4.0;
    let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + g1 / v + g2 / v.powi(2) + g3 / v.powi(3)
}
