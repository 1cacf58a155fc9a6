//! The size model: the size at which bandwidth rather than the number of requests becomes the
//! limit.
//!
//! One request at a time takes t(s) = t0 + s / bw: a fixed part, and the transfer. At depth, the
//! time per request 1 / X(s) = 1 / X_max + s / B_max is the same line. It is fitted by least
//! squares with weights 1 / t², so that relative residuals count. The crossover s* = t0 · bw is the
//! size whose transfer takes as long as its fixed part.
//!
//! If a residual exceeds 15 %, and the scatter between repeats does not explain it, one line does
//! not fit. The model then tries a step between two neighbouring sizes: a split of requests above a
//! limit (`max_sectors_kb`, the drive's transfer limit), or a stripe. The step is located as far as
//! the scatter allows: between all sizes where a line with a step fits the repeats.

use super::bootstrap::{Bootstrap, Interval, over_repeats};
use super::least_squares::solve;
use super::ratio::median;
use super::scatter::Scatter;
use super::summary::is_positive;

/// Fewest sizes for a line.
pub const FEWEST_SIZES: usize = 3;
/// Relative residual above which one line does not fit.
pub const ONE_LINE_WITHIN: f64 = 0.15;
/// Fewest sizes to locate a step: a line with a step has four unknowns.
const SIZES_FOR_STEP: usize = 5;
/// Largest p at which the scatter between repeats does not explain the residuals.
const SHOWN: f64 = 0.05;
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
#[derive(Clone, Debug, PartialEq)]
pub struct SizeModel {
    /// Fixed part of a request, seconds: t0, or 1 / X_max.
    pub fixed_s: f64,
    /// Bytes per second: bw, or B_max.
    pub bandwidth: f64,
    /// s* in bytes.
    pub crossover_bytes: f64,
    /// 95 % interval of s* over the repeats; `None` if a size has fewer than two, or if time does
    /// not grow with size in more than 5 % of the resamples.
    pub crossover_interval: Option<Interval>,
    /// 95 % interval of the fixed part.
    pub fixed_interval: Option<Interval>,
    /// 95 % interval of the bandwidth.
    pub bandwidth_interval: Option<Interval>,
    /// Per size, `(bytes, residual)`: measured over fitted time per request, minus 1.
    pub residuals: Vec<(u64, f64)>,
    /// Largest absolute residual.
    pub largest_residual: f64,
    /// Whether all residuals are within 15 %.
    pub is_one_line: bool,
    /// Whether the residuals are larger than the scatter of repeats explains.
    pub is_bent: bool,
    /// The step, if `is_bent` and a step explains it.
    pub step: Option<Step>,
}

/// A step between two sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The last size shown to be before the step.
    pub after_bytes: u64,
    /// The first size shown to be beyond the step.
    pub from_bytes: u64,
    /// Additional time of a request beyond the step, seconds; negative if shorter.
    pub rise_s: f64,
    /// Half-width of the 95 % interval of `rise_s`.
    pub rise_reach_s: f64,
    /// Largest absolute residual of the line with this step.
    pub largest_residual: f64,
}

/// Why no line is fitted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoLine {
    /// Fewer than [`FEWEST_SIZES`] different sizes, or a figure that is not positive.
    TooFewSizes,
    /// Time does not grow with size: only the number of requests counts.
    NoGrowth,
    /// The fixed part is not positive: bandwidth counts at every size.
    NoFixedPart,
}

impl SizeModel {
    /// From latencies in seconds at depth 1.
    pub fn of_latencies(sizes: &[Size], seed: u64) -> Result<SizeModel, NoLine> {
        let parts = sizes.iter().map(|size| (size.bytes, size.values.clone()));
        let (bytes, times): (Vec<u64>, Vec<Vec<f64>>) = parts.unzip();
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
}

fn fit(bytes: &[u64], times: &[Vec<f64>], seed: u64) -> Result<SizeModel, NoLine> {
    let sound = times.iter().all(|times| !times.is_empty() && times.iter().all(is_positive));
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
    let residual = |(bytes, time): &(f64, f64)| time / (fixed_s + bytes * per_byte) - 1.0;
    let residuals: Vec<(u64, f64)> =
        points.iter().map(|point| (point.0 as u64, residual(point))).collect();
    let largest_residual = residuals.iter().map(|(_, residual)| residual.abs()).fold(0.0, f64::max);
    let is_one_line = largest_residual <= ONE_LINE_WITHIN;
    let scatter = Scatter::of(times.iter().map(Vec::as_slice)).filter(|_| !is_one_line);
    let repeats: Vec<usize> = points.iter().map(|point| repeats(bytes, times, point.0)).collect();
    let bent = scatter.filter(|scatter| {
        let residuals = residuals.iter().map(|(_, residual)| *residual);
        scatter.p_of_residuals(residuals.zip(repeats.iter().copied())) <= SHOWN
    });
    let [crossover_interval, fixed_interval, bandwidth_interval] = intervals(
        bytes,
        times,
        seed,
        [
            |fixed, per_byte| (per_byte > 0.0).then(|| (fixed / per_byte).max(0.0)),
            |fixed, _| Some(fixed.max(0.0)),
            |_, per_byte| (per_byte > 0.0).then(|| per_byte.recip()),
        ],
    );
    Ok(SizeModel {
        fixed_s,
        bandwidth: per_byte.recip(),
        crossover_bytes: fixed_s / per_byte,
        crossover_interval,
        fixed_interval,
        bandwidth_interval,
        residuals,
        largest_residual,
        is_one_line,
        is_bent: bent.is_some(),
        step: bent.and_then(|scatter| step(&points, &repeats, scatter)),
    })
}

fn repeats(bytes: &[u64], times: &[Vec<f64>], of: f64) -> usize {
    let at = bytes.iter().position(|bytes| *bytes as f64 == of);
    at.map_or(1, |at| times[at].len())
}

/// `(bytes, median time)`, ascending.
fn medians(bytes: &[u64], times: &[Vec<f64>]) -> Option<Vec<(f64, f64)>> {
    let pairs = bytes.iter().zip(times);
    let mut points: Vec<(f64, f64)> =
        pairs.map(|(bytes, times)| Some((*bytes as f64, median(times)?))).collect::<Option<_>>()?;
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(points)
}

/// Fixed part and time per byte. Sizes are scaled by the largest, so that the columns of the
/// equations have one scale.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let unit = points.last()?.0;
    let row = |(bytes, time): &(f64, f64)| ([1.0, bytes / unit], *time, time.powi(-2));
    let [fixed, per_unit] = solve(&points.iter().map(row).collect::<Vec<_>>())?;
    Some((fixed, per_unit / unit))
}

/// The 95 % intervals over the repeats of functions of the fixed part and the time per byte.
fn intervals<const K: usize>(
    bytes: &[u64],
    times: &[Vec<f64>],
    seed: u64,
    of: [fn(f64, f64) -> Option<f64>; K],
) -> [Option<Interval>; K] {
    let fewest = times.iter().map(Vec::len).min().unwrap_or(0);
    let groups: Vec<&[f64]> = times.iter().map(Vec::as_slice).collect();
    let bootstrap = Bootstrap::new(seed).resamples(RESAMPLES);
    let lines = bootstrap.replicates(&groups, |drawn| line(&medians(bytes, drawn)?));
    of.map(|of| {
        let values =
            lines.iter().map(|line| line.and_then(|(fixed, per_byte)| of(fixed, per_byte)));
        over_repeats(values.collect(), fewest)
    })
}

/// The step whose largest residual is least, with two sizes or more on either side; its ends span
/// all steps that the scatter does not reject. `None` if none brings the residuals within 15 %.
fn step(points: &[(f64, f64)], repeats: &[usize], scatter: Scatter) -> Option<Step> {
    if points.len() < SIZES_FOR_STEP {
        return None;
    }
    let splits: Vec<Split> = (2..points.len() - 1).filter_map(|at| Split::of(points, at)).collect();
    let fits = |split: &&Split| {
        let residuals = split.residuals.iter().copied().zip(repeats.iter().copied());
        scatter.p_of_residuals(residuals) > SHOWN
    };
    let fitting: Vec<&Split> = splits.iter().filter(fits).collect();
    let largest = |split: &Split| split.residuals.iter().map(|r| r.abs()).fold(0.0, f64::max);
    let best = fitting.iter().min_by(|a, b| largest(a).total_cmp(&largest(b)))?;
    let largest_residual = largest(best);
    let parts = best.shares.iter().zip(points).zip(repeats);
    let variance: f64 = parts
        .map(|((share, (_, time)), repeats)| {
            (share * time * scatter.error_of_median(*repeats)).powi(2)
        })
        .sum();
    (largest_residual <= ONE_LINE_WITHIN).then_some(Step {
        after_bytes: points[fitting.first()?.at - 1].0 as u64,
        from_bytes: points[fitting.last()?.at].0 as u64,
        rise_s: best.rise_s,
        rise_reach_s: scatter.reach(variance.sqrt())?,
        largest_residual,
    })
}

/// A line with a step before one of the sizes.
struct Split {
    /// Index of the first size beyond the step.
    at: usize,
    rise_s: f64,
    /// Per size: measured over fitted time, minus 1.
    residuals: Vec<f64>,
    /// Per size: change of the rise per second of its time.
    shares: Vec<f64>,
}

impl Split {
    fn of(points: &[(f64, f64)], at: usize) -> Option<Split> {
        let unit = points.last()?.0;
        let rows = |time: &dyn Fn(usize) -> f64| -> Vec<([f64; 3], f64, f64)> {
            let row = |(index, (bytes, seen)): (usize, &(f64, f64))| {
                let beyond = f64::from(u8::from(index >= at));
                ([1.0, bytes / unit, beyond], time(index), seen.powi(-2))
            };
            points.iter().enumerate().map(row).collect()
        };
        let seen = rows(&|index| points[index].1);
        let [fixed, per_unit, rise_s] = solve(&seen)?;
        let residual = |([one, size, beyond], time, _): &([f64; 3], f64, f64)| {
            time / (fixed * one + per_unit * size + rise_s * beyond) - 1.0
        };
        let residuals = seen.iter().map(residual).collect();
        let share = |of: usize| Some(solve(&rows(&|index| f64::from(u8::from(index == of))))?[2]);
        let shares = (0..points.len()).map(share).collect::<Option<Vec<f64>>>()?;
        Some(Split { at, rise_s, residuals, shares })
    }
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
        assert!(
            ((model.fixed_s + (256 * KIB) as f64 / model.bandwidth) / 1.70e-3 - 1.0).abs() < 0.003
        );
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
        assert!(model.is_bent);
    }

    /// Seven sizes of three noisy repeats, with this step beyond 32 KiB.
    fn noisy(seed: u64, noise: f64, rise_s: f64) -> SizeModel {
        let mut chance = Chance::new(seed);
        let size = |kib: u64| {
            let bytes = kib * KIB;
            let time = 1e-4 + bytes as f64 / 1e9 + if kib > 32 { rise_s } else { 0.0 };
            let values = (0..3).map(|_| time * (noise * chance.normal()).exp()).collect();
            Size { bytes, values }
        };
        SizeModel::of_latencies(&[4, 8, 16, 32, 64, 128, 256].map(size), seed).unwrap()
    }

    #[test]
    fn noise_is_no_bend_and_a_step_is_located_as_far_as_the_noise_allows() {
        let bent = (0..200).filter(|seed| noisy(*seed, 0.15, 0.0).is_bent).count();
        assert!(bent <= 8, "{bent} of 200");
        let (mut found, mut wrong, mut held) = (0, 0, 0);
        for seed in 0..200 {
            let Some(step) = noisy(seed, 0.05, 4e-4).step else { continue };
            found += 1;
            let holds = step.after_bytes <= 32 * KIB && step.from_bytes >= 64 * KIB;
            wrong += u32::from(!holds);
            held += u32::from((step.rise_s - 4e-4).abs() <= step.rise_reach_s);
        }
        assert!(found >= 150, "{found} of 200");
        assert!(wrong <= 6, "{wrong} of {found}");
        assert!(held >= found * 9 / 10, "{held} of {found}");
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
