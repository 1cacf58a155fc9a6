//! The simple queueing model that fits a sweep, a fall of throughput at its end, and levels whose
//! throughput exceeds what the latency at depth 1 allows.

use super::super::gate::{self, Ranking};
use super::super::words::{self, Times, runs};
use super::super::{Answer, Measure, Point};
use super::Line;
use super::saturation::Growth;
use crate::finding::{Severity, Strength};
use iosonde_model::units::count::{self, significant_or_whole as rate};
use iosonde_stats::bootstrap::log_t_p;
use iosonde_stats::holm::holm;
use iosonde_stats::knee::Level;
use iosonde_stats::queue::{self, Fitted, Model, Queue};
use iosonde_stats::scatter::Scatter;
use iosonde_stats::usl;

/// Maximum p value of a misfit of a model, over all levels together.
const SHOWN: f64 = 0.05;
/// Maximum corrected p value for a warning that a level is above the bound.
const SHOWN_ABOVE: f64 = 0.02;

/// Share by which a level may lie beyond the end of a rise and still belong to it.
const ON_THE_RISE_WITHIN: f64 = 0.05;

/// Excess over the latency at depth 1 up to which an interval may reach without queueing.
const NO_QUEUE_WITHIN: f64 = 0.05;

/// Ratio to the latency at depth 1 above which there is queueing.
const QUEUE_FROM: f64 = 1.01;

/// Smaller residuals are reported as below this one.
const SMALLEST_RESIDUAL: f64 = 0.001;

const NOT_SATURATED: &str = "a linear rise, not saturated in this sweep";

/// Formats a number of requests in flight as a level of the axis.
type Formatter<'a> = &'a dyn Fn(f64) -> String;

impl Line<'_> {
    /// Reports the fitted queueing model. Depths are reported as levels of the axis.
    pub(super) fn queue(&self, answer: &mut Answer, levels: &[Level], per_level: f64, seed: u64) {
        let rates: Vec<usl::Level> =
            levels.iter().map(|level| (level.n, level.rates.clone())).collect();
        let first = levels.first().filter(|level| level.n == 1.0);
        let base = first.and_then(|level| iosonde_stats::ratio::median(&level.latencies));
        let Some(fitted) = queue::fit(&rates, base, seed) else { return };
        let formatted = |depth: f64| self.setting(depth / per_level);
        self.falls(answer, &rates, per_level, seed);
        self.above(answer, &fitted, levels, &formatted);
        let limit = formatted(fitted.largest_depth);
        let words = match fitted.best().map(|best| (&best.model, best.largest_residual)) {
            None => {
                let why = match misfit(&fitted, &rates) {
                    Some(residual) => format!(
                        ": the nearest is off by up to {}, more than the scatter of the runs \
                         explains",
                        count::percent(residual)
                    ),
                    None => ", which the scatter of the runs may explain".into(),
                };
                format!(
                    "{}: no simple queueing model fits within {}{why}.",
                    self.name,
                    count::percent(queue::FITS_WITHIN)
                )
            }
            Some((model, residual)) => format!(
                "{}: it behaves like {} (largest residual {}; no statement beyond {limit}).",
                self.name,
                self.constant(model, levels)
                    .or_else(|| self.rise(model, levels))
                    .unwrap_or_else(|| self.text(model, fitted.largest_depth, &formatted)),
                match residual < SMALLEST_RESIDUAL {
                    true => format!("below {}", count::percent(SMALLEST_RESIDUAL)),
                    false => count::percent(residual),
                }
            ),
        };
        answer.say(words);
        if let Some(parallelism) = fitted.parallelism {
            answer.find(&self.key("parallelism"), parallelism);
        }
    }

    fn text(&self, model: &Model, largest_depth: f64, formatted: Formatter<'_>) -> String {
        match model {
            Model::Bounds { base_response, most: Some(most) } => {
                let (rise, queueing) = self.queueing(base_response * most);
                format!("{rise} to {} IOPS and none beyond{queueing}", rate(*most))
            }
            Model::Bounds { most: None, .. } => NOT_SATURATED.into(),
            // With as many requests as units, half of the maximum is reached.
            Model::BalancedDies { dies, .. } if *dies > largest_depth => {
                "a rise that bends, less than half way to its maximum, which is not measured".into()
            }
            Model::BalancedDies { dies, most } => format!(
                "about {} equal units accessed at random, which approach {} IOPS: typical of \
                 random reads of flash dies",
                count::significant(*dies),
                rate(*most)
            ),
            Model::Mmc { servers, service } => format!(
                "one queue and {servers} equal servers of {} each (M/M/{servers})",
                iosonde_model::units::duration::latency(service * 1e9)
            ),
            Model::Usl(law) if law.optimum > largest_depth => {
                "the universal scalability law, with its maximum beyond these levels".into()
            }
            Model::Usl(law) => format!(
                "the universal scalability law, with its maximum at {}",
                formatted(law.optimum)
            ),
        }
    }

    /// The name of a rise that ends at this depth, and a remark about queueing at the levels below
    /// its end. A rise with queueing is not called linear.
    fn queueing(&self, rises_to: f64) -> (&str, String) {
        const LINEAR: &str = "a linear rise";
        let n = |point: &Point| self.level(point).map_or(f64::INFINITY, |level| level.n);
        let is_below = |point: &&Point| n(point) * (1.0 + ON_THE_RISE_WITHIN) <= rises_to;
        let mut below = self.points.iter().copied().filter(is_below);
        let Some(first) = below.next().filter(|first| n(first) == 1.0) else {
            return (LINEAR, String::new());
        };
        let times =
            below.filter_map(|point| Some((point, Times::of(point, first, Measure::Mean)?)));
        let times: Vec<(&Point, Times)> = times.collect();
        let longest = times.iter().max_by(|a, b| a.1.times.total_cmp(&b.1.times));
        let is_none = |(_, times): &(&Point, Times)| {
            times.interval.is_some_and(|of| of.low <= 1.0 && of.high <= 1.0 + NO_QUEUE_WITHIN)
        };
        match longest {
            Some((point, times))
                if gate::side(times, 0.0, QUEUE_FROM) == Some(gate::Side::Above) =>
            {
                let queueing = format!(
                    ", with queueing before its end: at {} latency is {} that at {}",
                    self.settings(&[point]),
                    times.formatted(),
                    self.label(first)
                );
                ("a rise", queueing)
            }
            Some(_) if times.iter().all(is_none) => {
                (LINEAR, ": no queueing before saturation".into())
            }
            _ => (LINEAR, String::new()),
        }
    }

    /// The text for a constant rate, if fewer than two levels lie on the rise of the model.
    fn constant(&self, model: &Model, levels: &[Level]) -> Option<String> {
        let Model::Bounds { base_response, most: Some(most) } = model else { return None };
        let rises_to = base_response * most;
        let near = 1.0 + ON_THE_RISE_WITHIN;
        if levels.iter().filter(|level| level.n <= rises_to * near).count() >= 2 {
            return None;
        }
        let is_beyond =
            |point: &&&Point| self.level(point).is_some_and(|of| of.n * near >= rises_to);
        let (first, last) = (self.points.iter().find(is_beyond)?, self.points.last()?);
        let times = Times::of(last, first, Measure::Iops)?;
        Some(format!(
            "a constant rate of {} IOPS from {} on, which more depth does not raise; {} does {} \
             the IOPS of {}",
            rate(*most),
            self.settings(&[first]),
            self.settings(&[last]),
            times.formatted(),
            self.label(first)
        ))
    }

    /// The text for a rise without two levels beyond its end, whose maximum would be that of the
    /// last level alone.
    fn rise(&self, model: &Model, levels: &[Level]) -> Option<String> {
        let Model::Bounds { base_response, most } = model else { return None };
        let last = self.settings(&[self.points.last()?]);
        let rises_to = base_response * most.unwrap_or(f64::INFINITY);
        let near = 1.0 + ON_THE_RISE_WITHIN;
        let beyond = levels.iter().filter(|level| level.n * near >= rises_to).count();
        match self.growth() {
            Some((Growth::Proportional, ..)) => Some(NOT_SATURATED.into()),
            Some((Growth::Less, _, half)) => Some(format!(
                "a linear rise to {} that bends before {last}; its maximum is not measured",
                self.settings(&[half])
            )),
            _ if most.is_some() && beyond < 2 => {
                Some(format!("a linear rise; whether it ends before {last} is not decidable yet"))
            }
            _ => None,
        }
    }

    /// Reports a fall of throughput beyond its peak, with the universal scalability law if it fits.
    fn falls(&self, answer: &mut Answer, rates: &[usl::Level], per_level: f64, seed: u64) {
        let formatted = |depth: f64| self.setting(depth / per_level);
        let Some(fall) = usl::fall(rates, seed).filter(|fall| fall.is_real()) else { return };
        if self.is_tied_with_the_last(fall.peak / per_level) {
            return;
        }
        answer.find_between(&self.key("fall_share"), fall.share, Some(fall.interval));
        let law = match usl::usl(rates, seed) {
            Ok(law) => format!(
                "; by the universal scalability law the serial fraction is {}, the crosstalk per \
                 pair {}, and the maximum is at {}",
                count::percent(law.alpha),
                count::significant(law.beta),
                formatted(law.optimum)
            ),
            Err(_) => String::new(),
        };
        answer.say(format!(
            "{}: throughput falls by {} from its peak at {} to the last level{}{law}.",
            self.name,
            count::percent(fall.share),
            formatted(fall.peak),
            words::interval(Some(fall.interval), runs(self.points), count::percent),
        ));
    }

    /// Whether the throughput of a level and of the last one are not shown to differ.
    fn is_tied_with_the_last(&self, level: f64) -> bool {
        let Some(Ranking::Ties { points, .. }) = gate::ranking(self.points, Measure::Iops) else {
            return false;
        };
        let last = self.points.last().map(|point| point.cell);
        let is_peak =
            |point: &&&Point| point.at(self.axis).is_some_and(|at| (at / level - 1.0).abs() < 1e-9);
        points.iter().any(|point| Some(point.cell) == last) && points.iter().any(|p| is_peak(&p))
    }

    /// Warns of throughput above N / R(1), which does not show a faster device.
    fn above(&self, answer: &mut Answer, fitted: &Queue, levels: &[Level], formatted: Formatter) {
        let shown = above_bound(levels);
        let shown = shown.iter().filter(|(n, _)| fitted.above_bound.iter().any(|(at, _)| at == n));
        let Some((n, over)) = shown.max_by(|a, b| a.1.times.total_cmp(&b.1.times)) else { return };
        let words = format!(
            "{}: at {} throughput is {} what the depth 1 latency allows: a cache serves \
             requests at depth, requests are merged, or the device leaves a power-saving \
             state slowly at depth 1.",
            self.name,
            formatted(*n),
            over.formatted(),
        );
        let subject = "throughput above what the depth allows";
        answer.mind("above_bound", subject, Strength::ConsistentWith, Severity::Warning, words);
    }
}

/// Levels whose throughput is shown to be above N / R(1), with the ratio of the two. The repeats of
/// both are compared, with Holm's correction over all levels.
fn above_bound(levels: &[Level]) -> Vec<(f64, Times)> {
    let Some((first, deeper)) = levels.split_first().filter(|(first, _)| first.n == 1.0) else {
        return Vec::new();
    };
    let bound = |n: f64| first.latencies.iter().map(|s| n / s).collect::<Vec<f64>>();
    let p = deeper.iter().map(|level| log_t_p(&level.rates, &bound(level.n)));
    let corrected = holm(&p.collect::<Vec<f64>>());
    let shown = deeper.iter().zip(corrected).filter(|(_, p)| *p <= SHOWN_ABOVE);
    let times = shown.filter_map(|(level, _)| {
        let times = Times::of_values(&level.rates, &bound(level.n))?;
        Some((level.n, times))
    });
    times.filter(|(_, times)| gate::side(times, 0.0, 1.0) == Some(gate::Side::Above)).collect()
}

/// The smallest of the largest residuals of the models, if every model misses at least one level by
/// more than the scatter between its runs explains.
fn misfit(fitted: &Queue, levels: &[usl::Level]) -> Option<f64> {
    let scatter = Scatter::of(levels.iter().map(|(_, rates)| rates.as_slice()))?;
    let runs = |n: f64| levels.iter().find(|(at, _)| *at == n).map_or(1, |(_, rates)| rates.len());
    let misses = |model: &Fitted| {
        let residuals = model.residuals.iter().map(|(n, residual)| (*residual, runs(*n)));
        scatter.p_of_residuals(residuals) <= SHOWN
    };
    let all_miss = fitted.tried.iter().all(misses);
    let least = fitted.tried.iter().map(|model| model.largest_residual).min_by(f64::total_cmp);
    least.filter(|_| all_miss)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::super::testing::noise;
    use super::*;

    /// Nine levels of three runs: latencies of depth 1 and rates with this scatter.
    fn sweep(seed: u64, scatter: f64, shape: impl Fn(f64) -> f64) -> Vec<Level> {
        let mut noise = noise(seed, scatter);
        let level = |power: i32| {
            let n = 2f64.powi(power);
            let rates: Vec<f64> = (0..3).map(|_| shape(n) * noise()).collect();
            let latencies = rates.iter().map(|rate| n / rate).collect();
            Level { n, rates, latencies }
        };
        (0..9).map(level).collect()
    }

    fn rates(levels: &[Level]) -> Vec<usl::Level> {
        levels.iter().map(|level| (level.n, level.rates.clone())).collect()
    }

    #[test]
    fn noise_is_hardly_ever_above_the_bound_and_a_cache_is() {
        let above =
            |seed: &u64| !above_bound(&sweep(*seed, 0.05, |n| 11_000.0 * n.min(8.0))).is_empty();
        let count = (0..400).filter(above).count();
        assert!(count <= 8, "{count} of 400");
        let cached = |n: f64| 11_000.0 * n.min(8.0) * if n == 4.0 { 1.5 } else { 1.0 };
        let shown = above_bound(&sweep(1, 0.02, cached));
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].0, 4.0);
    }

    #[test]
    fn a_misfit_is_shown_only_beyond_the_scatter_of_the_runs() {
        let fitted = |levels: &[Level]| queue::fit(&rates(levels), None, 1).unwrap();
        let is_shown = |seed: &u64| {
            let levels = sweep(*seed, 0.15, |n| 11_000.0 * n.min(8.0));
            let fitted = fitted(&levels);
            fitted.best().is_none() && misfit(&fitted, &rates(&levels)).is_some()
        };
        let count = (0..100).filter(is_shown).count();
        assert!(count <= 5, "{count} of 100");
        let dent = sweep(1, 0.02, |n| n.min(32.0) * if n == 8.0 { 0.5 } else { 1.0 });
        assert!(misfit(&fitted(&dent), &rates(&dent)).is_some_and(|off| off > 0.2));
    }
}
