//! The universal scalability law, fitted only if throughput falls.
//!
//! X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)) (N. Gunther, "Guerrilla Capacity
//! Planning", 2007): alpha is the serial share, beta the cost of each pair; throughput is largest
//! at N = sqrt((1 - alpha) / beta). A good fit does not validate that optimum: on curves that only
//! saturate, R² was 0.99 while the optimum moved with the end of the sweep or did not exist. So the
//! law is fitted only if throughput falls after its peak.
//!
//! To test for a fall, the repeats are resampled around the rising curve closest to the measurement
//! (isotonic regression). At most 5 % of such curves may fall as far from the best level to the
//! last; this accounts for a best level selected by noise. The interval of the fall must exclude 0
//! as well.

use super::bootstrap::{Bootstrap, Interval, over_repeats};
use super::least_squares::solve;
use super::ratio::{greatest, median};
use super::summary::is_positive;

/// Fewest levels for three unknowns.
pub const FEWEST_LEVELS: usize = 5;
/// Largest share of rising curves that may show such a fall.
const SIGNIFICANT: f64 = 0.05;
/// Largest number of steps of the fit.
const STEPS: usize = 100;
/// Resamples for the intervals.
const RESAMPLES: usize = 1_000;

/// The throughputs of the repeats at a level: `(N, throughputs)`.
pub type Level = (f64, Vec<f64>);

/// A fall of throughput after its peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fall {
    /// Level with the greatest median.
    pub peak: f64,
    /// 1 - X(last) / X(peak), by medians; 0 where the last level is the best.
    pub share: f64,
    /// 95 % interval of `share` over the repeats.
    pub interval: Interval,
    /// Share of rising curves with the same noise that show such a fall.
    pub p: f64,
}

impl Fall {
    /// Whether throughput falls significantly.
    pub fn is_real(&self) -> bool {
        self.interval.low > 0.0 && self.p <= SIGNIFICANT
    }
}

/// The fitted law.
#[derive(Clone, Debug, PartialEq)]
pub struct Usl {
    /// Throughput of one request at a time.
    pub gamma: f64,
    /// Contention.
    pub alpha: f64,
    /// Coherency; the lower end of its 95 % interval is above 0.
    pub beta: f64,
    /// Depth of greatest throughput.
    pub optimum: f64,
    /// 95 % interval of the optimum.
    pub optimum_interval: Interval,
    /// Per level, `(N, residual)`: measured over fitted throughput, minus 1.
    pub residuals: Vec<(f64, f64)>,
    /// The fall that justifies the fit.
    pub fall: Fall,
}

/// Why the law is not fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoUsl {
    /// Fewer than [`FEWEST_LEVELS`] levels, fewer than two repeats at one, or a throughput that is
    /// not positive.
    TooFew,
    /// Throughput does not fall significantly; holds the tested fall.
    DoesNotFall(Fall),
    /// beta is not above 0, or its interval includes 0: there is no optimum.
    NoOptimum,
}

/// The fall of throughput after its peak. `None` for fewer than two levels, if a level has fewer
/// than two repeats, or if a throughput is not positive.
pub fn fall(levels: &[Level], seed: u64) -> Option<Fall> {
    let sound = |(_, rates): &Level| rates.len() >= 2 && rates.iter().all(is_positive);
    if levels.len() < 2 || !levels.iter().all(sound) {
        return None;
    }
    let levels = ascending(levels);
    let seen = medians(levels.iter().map(|(_, rates)| rates.as_slice()))?;
    let peak = greatest(&seen)?;
    let last = levels.len() - 1;
    let bootstrap = Bootstrap::new(seed).resamples(RESAMPLES);
    let ends = [levels[peak].1.as_slice(), levels[last].1.as_slice()];
    let share = 1.0 - seen[last] / seen[peak];
    let interval = over_repeats(
        bootstrap.replicates(&ends, |drawn| Some(1.0 - median(&drawn[1])? / median(&drawn[0])?)),
        ends.iter().map(|rates| rates.len()).min()?,
    )?;
    // The same noise around the nearest rising curve. Residuals around the median of r values are
    // too small by about sqrt(1 - 1/r).
    let rising = isotonic(&seen, &levels.iter().map(|(_, rates)| rates.len()).collect::<Vec<_>>());
    let around = |((_, rates), (seen, rising)): (&Level, (&f64, &f64))| -> Vec<f64> {
        let wider = (1.0 - (rates.len() as f64).recip()).sqrt().recip();
        rates.iter().map(|rate| rising * (rate / seen).powf(wider)).collect()
    };
    let null: Vec<Vec<f64>> = levels.iter().zip(seen.iter().zip(&rising)).map(around).collect();
    let groups: Vec<&[f64]> = null.iter().map(Vec::as_slice).collect();
    let falls = bootstrap.replicates(&groups, |drawn| {
        let drawn = medians(drawn.iter().map(Vec::as_slice))?;
        Some(1.0 - drawn[last] / drawn.iter().copied().fold(0.0, f64::max))
    });
    let as_far = falls.iter().flatten().filter(|fall| **fall >= share).count();
    let p = (1 + as_far) as f64 / (1 + falls.len()) as f64;
    Some(Fall { peak: levels[peak].0, share, interval, p })
}

fn ascending(levels: &[Level]) -> Vec<Level> {
    let mut levels = levels.to_vec();
    levels.sort_by(|a, b| a.0.total_cmp(&b.0));
    levels
}

/// Fits the law if throughput falls significantly.
pub fn usl(levels: &[Level], seed: u64) -> Result<Usl, NoUsl> {
    if levels.len() < FEWEST_LEVELS {
        return Err(NoUsl::TooFew);
    }
    let fall = fall(levels, seed).ok_or(NoUsl::TooFew)?;
    if !fall.is_real() {
        return Err(NoUsl::DoesNotFall(fall));
    }
    let levels = ascending(levels);
    let depths: Vec<f64> = levels.iter().map(|(n, _)| *n).collect();
    let seen = medians(levels.iter().map(|(_, rates)| rates.as_slice())).ok_or(NoUsl::TooFew)?;
    let law = Law::fit(&depths, &seen).ok_or(NoUsl::NoOptimum)?;
    let optimum = law.optimum().ok_or(NoUsl::NoOptimum)?;
    let groups: Vec<&[f64]> = levels.iter().map(|(_, rates)| rates.as_slice()).collect();
    let bootstrap = Bootstrap::new(seed).resamples(RESAMPLES);
    let laws = bootstrap
        .replicates(&groups, |drawn| Law::fit(&depths, &medians(drawn.iter().map(Vec::as_slice))?));
    let fewest = groups.iter().map(|rates| rates.len()).min().unwrap_or(0);
    let interval = |of: &dyn Fn(&Law) -> Option<f64>| {
        let values = laws.iter().map(|law| law.as_ref().and_then(of)).collect();
        over_repeats(values, fewest).ok_or(NoUsl::NoOptimum)
    };
    if interval(&|law| Some(law.beta))?.low <= 0.0 {
        return Err(NoUsl::NoOptimum);
    }
    let residual = |(n, seen): (&f64, &f64)| (*n, seen / law.rate(*n) - 1.0);
    Ok(Usl {
        gamma: law.gamma,
        alpha: law.alpha,
        beta: law.beta,
        optimum,
        optimum_interval: interval(&Law::optimum)?,
        residuals: depths.iter().zip(&seen).map(residual).collect(),
        fall,
    })
}

fn medians<'a>(levels: impl Iterator<Item = &'a [f64]>) -> Option<Vec<f64>> {
    levels.map(median).collect()
}

/// Isotonic regression: falling neighbours are pooled (Ayer et al. 1955).
fn isotonic(values: &[f64], weights: &[usize]) -> Vec<f64> {
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for (value, weight) in values.iter().zip(weights) {
        let mut pool = (*value, *weight as f64, 1);
        while let Some(last) = pools.pop_if(|last| last.0 > pool.0) {
            let weight = last.1 + pool.1;
            pool = ((last.0 * last.1 + pool.0 * pool.1) / weight, weight, last.2 + pool.2);
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|(value, _, count)| std::iter::repeat_n(*value, *count)).collect()
}

#[derive(Clone, Copy, Debug)]
struct Law {
    gamma: f64,
    alpha: f64,
    beta: f64,
}

impl Law {
    fn slowdown(&self, n: f64) -> f64 {
        1.0 + self.alpha * (n - 1.0) + self.beta * n * (n - 1.0)
    }

    fn rate(&self, n: f64) -> f64 {
        self.gamma * n / self.slowdown(n)
    }

    fn optimum(&self) -> Option<f64> {
        let optimum = ((1.0 - self.alpha) / self.beta).sqrt();
        (self.beta > 0.0 && optimum.is_finite()).then_some(optimum)
    }

    /// Least squares of log X: starts from the linear form N / X = (1 + alpha (N - 1) + …) / gamma,
    /// then Gauss-Newton; a step is halved until it reduces the error.
    fn fit(depths: &[f64], rates: &[f64]) -> Option<Law> {
        let straight =
            |(n, rate): (&f64, &f64)| ([1.0, n - 1.0, n * (n - 1.0)], n / rate, (rate / n).powi(2));
        let rows: Vec<_> = depths.iter().zip(rates).map(straight).collect();
        let [a, b, c] = solve(&rows)?;
        let mut law = Law { gamma: a.recip(), alpha: b / a, beta: c / a };
        let mut error = law.error(depths, rates)?;
        for _ in 0..STEPS {
            let row = |(n, rate): (&f64, &f64)| {
                let slower = law.slowdown(*n);
                let row = [1.0, -(n - 1.0) / slower, -n * (n - 1.0) / slower];
                (row, (rate / law.rate(*n)).ln(), 1.0)
            };
            let rows: Vec<_> = depths.iter().zip(rates).map(row).collect();
            let step = solve(&rows)?;
            let tried = (0..20).find_map(|halved| {
                let share = 0.5f64.powi(halved);
                let tried = Law {
                    gamma: law.gamma * (share * step[0]).exp(),
                    alpha: law.alpha + share * step[1],
                    beta: law.beta + share * step[2],
                };
                let less = tried.error(depths, rates).filter(|less| *less < error)?;
                Some((tried, less))
            });
            let Some((better, less)) = tried else { return Some(law) };
            let settled = error - less <= 1e-12 * error;
            (law, error) = (better, less);
            if settled {
                break;
            }
        }
        Some(law)
    }

    /// Sum of squared residuals of log X; `None` where the law gives no positive throughput.
    fn error(&self, depths: &[f64], rates: &[f64]) -> Option<f64> {
        let mut sum = 0.0;
        for (n, rate) in depths.iter().zip(rates) {
            let fitted = self.rate(*n);
            if !is_positive(&fitted) {
                return None;
            }
            sum += (rate / fitted).ln().powi(2);
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::chance::Chance;

    fn sweep(
        shape: impl Fn(f64) -> f64,
        last: u32,
        repeats: usize,
        chance: &mut Chance,
    ) -> Vec<Level> {
        let level = |power: u32| {
            let n = f64::from(1u32 << power);
            (n, (0..repeats).map(|_| shape(n) * (1.0 + 0.03 * chance.normal())).collect())
        };
        (0..=last.ilog2()).map(level).collect()
    }

    /// Its optimum is at 34.1.
    fn retrograde(n: f64) -> f64 {
        5_000.0 * n / (1.0 + 0.07 * (n - 1.0) + 0.0008 * n * (n - 1.0))
    }

    #[test]
    fn the_law_is_recovered_from_itself() {
        let exact: Vec<Level> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
            .map(|n| (n, vec![retrograde(n); 2]))
            .to_vec();
        let usl = usl(&exact, 1).unwrap();
        assert!((usl.gamma / 5_000.0 - 1.0).abs() < 1e-6, "{usl:?}");
        assert!((usl.alpha - 0.07).abs() < 1e-8 && (usl.beta - 0.0008).abs() < 1e-9);
        assert!((usl.optimum - (0.93f64 / 0.0008).sqrt()).abs() < 1e-3);
        assert_eq!(usl.fall.peak, 32.0);
    }

    #[test]
    fn noise_moves_the_optimum_little_where_throughput_falls() {
        let mut chance = Chance::new(1);
        for last in [128, 256, 1_024] {
            let mut optima = Vec::new();
            let mut held = 0;
            for seed in 0..60 {
                let usl = usl(&sweep(retrograde, last, 5, &mut chance), seed).unwrap();
                held += u32::from(usl.optimum_interval.holds(34.1));
                optima.push(usl.optimum);
            }
            let middle = median(&optima).unwrap();
            assert!((middle / 34.1 - 1.0).abs() < 0.05, "{last}: {middle}");
            assert!(held >= 52, "{last}: {held} of 60");
        }
    }

    #[test]
    fn curves_that_saturate_are_refused() {
        let mut chance = Chance::new(2);
        let shapes: [fn(f64) -> f64; 3] = [|n| n.min(8.0), |n| 16.0 * n / (n + 15.0), |n| n];
        for shape in shapes {
            for last in [64, 1_024] {
                let fitted =
                    (0..50).filter(|seed| usl(&sweep(shape, last, 5, &mut chance), *seed).is_ok());
                let fitted = fitted.count();
                assert!(fitted <= 4, "{fitted} of 50 to {last}");
            }
        }
    }

    #[test]
    fn what_has_no_law() {
        let (two, one) = (vec![5.0, 5.0], vec![5.0]);
        let levels = |rates: &Vec<f64>| -> Vec<Level> {
            [1.0, 2.0, 4.0, 8.0, 16.0].map(|n| (n, rates.clone())).to_vec()
        };
        assert_eq!(usl(&levels(&two)[..4], 1), Err(NoUsl::TooFew));
        assert_eq!(usl(&levels(&one), 1), Err(NoUsl::TooFew));
        let Err(NoUsl::DoesNotFall(fall)) = usl(&levels(&two), 1) else { panic!("flat") };
        assert_eq!((fall.share, fall.peak, fall.p), (0.0, 1.0, 1.0));
    }

    #[test]
    fn neighbours_that_fall_are_pooled() {
        assert_eq!(isotonic(&[1.0, 3.0, 2.0, 4.0], &[1; 4]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(isotonic(&[3.0, 2.0, 1.0], &[1, 1, 2]), [1.75; 3]);
    }
}
