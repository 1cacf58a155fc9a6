//! The size model: the size at which bandwidth rather than the number of requests becomes the
//! limit.
//!
//! One request at a time takes t(s) = t0 + s / bw: a fixed part, and the transfer. At depth, the
//! time per request 1 / X(s) = 1 / X_max + s / B_max is the same line. It is fitted by least
//! squares with weights 1 / t², so that relative residuals count. The crossover s* = t0 · bw is the
//! size whose transfer takes as long as its fixed part.
//!
//! If a residual exceeds 15 %, it is not one line. The step is then located between
//! two neighbouring sizes where a line with a step leaves the smallest residuals: a split of
//! requests above a limit (`max_sectors_kb`, the drive's transfer limit), or a stripe.

use serde::Serialize;

use super::bootstrap::{Bootstrap, Interval, over_repeats};
use super::least_squares::solve;
use super::ratio::median;

/// Fewest sizes for a line.
pub const FEWEST_SIZES: usize = 3;
/// Relative residual above which it is not one line.
pub const ONE_LINE_WITHIN: f64 = 0.15;
/// Fewest sizes to locate a step: a line with a step has four unknowns.
const SIZES_FOR_STEP: usize = 5;
/// Resamples for the interval.
const RESAMPLES: usize = 1_000;

/// A size with the figure of each repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// Size of a request in bytes.
    pub bytes: u64,
    /// Latency in seconds, or requests per second, of each repeat.
    pub values: Vec<f64>,
}

/// The line, and how well it fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeModel {
    /// Fixed part of a request, seconds: t0, or 1 / X_max.
    pub fixed_s: f64,
    /// Bytes per second: bw, or B_max.
    pub bandwidth: f64,
    /// s* in bytes.
    pub crossover_bytes: f64,
    /// Its 95 % interval over the repeats; `None` if a size has fewer than two.
    pub crossover_interval: Option<Interval>,
    /// By size, `(bytes, residual)`: seen over fitted time per request, less 1.
    pub residuals: Vec<(u64, f64)>,
    /// The largest of them, without its sign.
    pub largest_residual: f64,
    /// Whether all of them are within 15 %.
    pub is_one_line: bool,
    /// Where the step is, if it is not one line and a step explains it.
    pub step: Option<Step>,
}

/// A step between two neighbouring sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The last size before it.
    pub after_bytes: u64,
    /// The first size beyond it.
    pub from_bytes: u64,
    /// Additional time of a request beyond it, seconds; negative if shorter.
    pub rise_s: f64,
    /// Largest residual of the line with this step, without its sign.
    pub largest_residual: f64,
}

/// Why there is no such line.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoLine {
    /// Fewer than [`FEWEST_SIZES`] different sizes, or a figure that is not positive.
    TooFewSizes,
    /// Requests do not take longer with their size: only the number of requests counts.
    NoGrowth,
    /// Requests take as long as their transfer: bandwidth counts at every size.
    NoFixedPart,
}

impl SizeModel {
    /// From latencies in seconds at depth 1.
    pub fn of_latencies(sizes: &[Size], seed: u64) -> Result<SizeModel, NoLine> {
        let (mut bytes, mut times) = (Vec::new(), Vec::new());
        for size in sizes {
            bytes.push(size.bytes);
            times.push(size.values.clone());
        }
        fit(&bytes, &times, seed)
    }

    /// From requests per second at one depth.
    pub fn of_rates(sizes: &[Size], seed: u64) -> Result<SizeModel, NoLine> {
        let inverse = |size: &Size| Size {
            bytes: size.bytes,
            values: size.values.iter().map(|rate| rate.recip()).collect(),
        };
        SizeModel::of_latencies(&sizes.iter().map(inverse).collect::<Vec<_>>(), seed)
    }

    /// Seconds per request of a size, by the model.
    pub fn seconds(&self, bytes: u64) -> f64 {
        self.fixed_s + bytes as f64 / self.bandwidth
    }
}

fn fit(bytes: &[u64], times: &[Vec<f64>], seed: u64) -> Result<SizeModel, NoLine> {
    let positive = |time: &f64| *time > 0.0 && time.is_finite();
    let sound = times.iter().all(|times| !times.is_empty() && times.iter().all(positive));
    let mut different = bytes.to_vec();
    different.sort_unstable();
    different.dedup();
    if !sound || different.len() < FEWEST_SIZES || different.len() < bytes.len() {
        return Err(NoLine::TooFewSizes);
    }
    let points = medians(bytes, times).ok_or(NoLine::TooFewSizes)?;
    let (fixed_s, per_byte) = line(&points).ok_or(NoLine::TooFewSizes)?;
    if per_byte <= 0.0 {
        return Err(NoLine::NoGrowth);
    }
    if fixed_s <= 0.0 {
        return Err(NoLine::NoFixedPart);
    }
    let residuals: Vec<(u64, f64)> = points
        .iter()
        .map(|(bytes, time)| (*bytes as u64, time / (fixed_s + bytes * per_byte) - 1.0))
        .collect();
    let largest_residual = residuals.iter().map(|(_, residual)| residual.abs()).fold(0.0, f64::max);
    let is_one_line = largest_residual <= ONE_LINE_WITHIN;
    Ok(SizeModel {
        fixed_s,
        bandwidth: per_byte.recip(),
        crossover_bytes: fixed_s / per_byte,
        crossover_interval: interval(bytes, times, seed),
        residuals,
        largest_residual,
        is_one_line,
        step: if is_one_line { None } else { step(&points) },
    })
}

/// `(bytes, median time)`, ascending.
fn medians(bytes: &[u64], times: &[Vec<f64>]) -> Option<Vec<(f64, f64)>> {
    let pairs = bytes.iter().zip(times);
    let mut points: Vec<(f64, f64)> =
        pairs.map(|(bytes, times)| Some((*bytes as f64, median(times)?))).collect::<Option<_>>()?;
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(points)
}

/// Fixed part and time per byte. Sizes are counted in units of the largest: the equations then have
/// columns of one scale.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let unit = points.last()?.0;
    let row = |(bytes, time): &(f64, f64)| ([1.0, bytes / unit], *time, time.powi(-2));
    let [fixed, per_unit] = solve(&points.iter().map(row).collect::<Vec<_>>())?;
    Some((fixed, per_unit / unit))
}

fn interval(bytes: &[u64], times: &[Vec<f64>], seed: u64) -> Option<Interval> {
    let fewest = times.iter().map(Vec::len).min()?;
    let groups: Vec<&[f64]> = times.iter().map(Vec::as_slice).collect();
    let bootstrap = Bootstrap::new(seed).resamples(RESAMPLES);
    let replicates = bootstrap.replicates(&groups, |drawn| {
        let (fixed, per_byte) = line(&medians(bytes, drawn)?)?;
        (per_byte > 0.0).then(|| (fixed / per_byte).max(0.0))
    });
    over_repeats(replicates, fewest, bootstrap.level)
}

/// The place between sizes where a line with a step leaves the least, at least two sizes on either
/// side; `None` if that does not bring the residuals within 15 %.
fn step(points: &[(f64, f64)]) -> Option<Step> {
    let unit = points.last()?.0;
    if points.len() < SIZES_FOR_STEP {
        return None;
    }
    let at = |split: usize| -> Option<Step> {
        let beyond = |at: usize| f64::from(u8::from(at >= split));
        let rows = points
            .iter()
            .enumerate()
            .map(|(at, (bytes, time))| ([1.0, bytes / unit, beyond(at)], *time, time.powi(-2)));
        let rows: Vec<_> = rows.collect();
        let [fixed, per_unit, rise_s] = solve(&rows)?;
        let residual = |([one, size, beyond], time, _): &([f64; 3], f64, f64)| {
            (time / (fixed * one + per_unit * size + rise_s * beyond) - 1.0).abs()
        };
        let largest_residual = rows.iter().map(residual).fold(0.0, f64::max);
        let (after_bytes, from_bytes) = (points[split - 1].0 as u64, points[split].0 as u64);
        Some(Step { after_bytes, from_bytes, rise_s, largest_residual })
    };
    let steps = (2..points.len() - 1).filter_map(at);
    let best = steps.min_by(|a, b| a.largest_residual.total_cmp(&b.largest_residual))?;
    (best.largest_residual <= ONE_LINE_WITHIN).then_some(best)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::chance::Chance;

    const KIB: u64 = 1_024;

    fn sizes(kib: &[u64], time: impl Fn(u64) -> f64) -> Vec<Size> {
        let size = |kib: &u64| Size { bytes: kib * KIB, values: vec![time(kib * KIB); 3] };
        kib.iter().map(size).collect()
    }

    /// An SSD as published: 4 KiB in 158 µs, 128 KiB in 918 µs.
    fn published(bytes: u64) -> f64 {
        158e-6 + (bytes as f64 - 4096.0) * (918e-6 - 158e-6) / (124.0 * 1024.0)
    }

    #[test]
    fn the_published_ssd() {
        let model = SizeModel::of_latencies(&sizes(&[4, 16, 64, 128], published), 1).unwrap();
        assert!((model.bandwidth / 167e6 - 1.0).abs() < 0.001, "{model:?}");
        assert!((model.fixed_s / 134e-6 - 1.0).abs() < 0.005);
        assert!((model.crossover_bytes / 1024.0 - 22.0).abs() < 0.3);
        assert!((model.seconds(256 * KIB) / 1.70e-3 - 1.0).abs() < 0.003);
        assert!(model.is_one_line && model.largest_residual < 1e-9 && model.step.is_none());
    }

    #[test]
    fn rates_at_depth_are_the_same_line() {
        // 100,000 requests per second at most, 2 GB/s at most: 20,000 bytes.
        let rate = |bytes| 1.0 / (1e-5 + bytes as f64 / 2e9);
        let model = SizeModel::of_rates(&sizes(&[1, 4, 16, 64, 256], rate), 1).unwrap();
        assert!((model.crossover_bytes - 20_000.0).abs() < 1.0, "{model:?}");
        assert!((model.fixed_s * 1e5 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_split_above_a_limit_is_found_where_it_is() {
        // Beyond 128 KiB a second command is sent.
        let kib = [4, 16, 64, 128, 256, 512, 1024];
        let time = |bytes: u64| 1e-4 + bytes as f64 / 4e9 + f64::from(bytes > 128 * KIB) * 1.5e-4;
        let model = SizeModel::of_latencies(&sizes(&kib, time), 1).unwrap();
        assert!(!model.is_one_line, "{model:?}");
        let step = model.step.unwrap();
        assert_eq!((step.after_bytes, step.from_bytes), (128 * KIB, 256 * KIB));
        assert!((step.rise_s / 1.5e-4 - 1.0).abs() < 1e-6 && step.largest_residual < 1e-6);
    }

    #[test]
    fn the_interval_of_the_crossover_holds_the_truth() {
        let mut chance = Chance::new(4);
        let truth = 134e-6 * 167e6;
        let held = (0..100).filter(|seed| {
            let size = |kib: u64| {
                let time = 134e-6 + (kib * KIB) as f64 / 167e6;
                let values = (0..5).map(|_| time * (1.0 + 0.03 * chance.normal())).collect();
                Size { bytes: kib * KIB, values }
            };
            let sizes: Vec<Size> = [1, 4, 16, 64, 256, 1024].map(size).to_vec();
            let model = SizeModel::of_latencies(&sizes, *seed).unwrap();
            assert!(model.is_one_line);
            model.crossover_interval.unwrap().holds(truth)
        });
        let held = held.count();
        assert!(held >= 88, "{held} of 100");
    }

    #[test]
    fn what_is_no_line_gives_the_reason() {
        let of = |time: fn(u64) -> f64| SizeModel::of_latencies(&sizes(&[4, 8, 64], time), 1);
        assert_eq!(of(|_| 1e-4), Err(NoLine::NoGrowth));
        assert_eq!(of(|bytes| 1e-3 - bytes as f64 * 1e-9), Err(NoLine::NoGrowth));
        assert_eq!(of(|bytes| (bytes as f64).powi(2) * 1e-12), Err(NoLine::NoFixedPart));
        assert_eq!(of(|_| 0.0), Err(NoLine::TooFewSizes));
        let two = sizes(&[4, 4, 8], published);
        assert_eq!(SizeModel::of_latencies(&two, 1), Err(NoLine::TooFewSizes));
    }
}
