//! A cell with the figures of its runs: the unit of replication is the run (method 2.1).

use serde::Serialize;

use super::{Measure, Standing, TrialFigures};
use iosonde_model::plan::design::{Cell, Level};
use iosonde_model::spec::Direction;
use iosonde_stats::bootstrap::log_normal_mean;
use iosonde_stats::reciprocal;
use iosonde_stats::summary::Summary;

/// A cell and its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Index of the cell in its stage.
    pub cell: usize,
    pub levels: Vec<Level>,
    /// Figures of its usable runs, in the order of their repeats.
    pub runs: Vec<crate::Figures>,
    /// Reliability: `Good` only if all runs used are good and none failed.
    pub standing: Standing,
    /// Number of failed runs.
    pub failed: usize,
}

/// One measure over the runs of a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// One value per run.
    pub values: Vec<f64>,
    /// Mean of the values.
    pub mean: f64,
    /// Sample standard deviation of the values; `None` for one run.
    pub std_dev: Option<f64>,
    /// 95 % interval of the mean, assuming log-normal values or, for the mean latency of an open
    /// loop, normal reciprocals. `None` for one run, if a value is not positive, and if a run does
    /// not support the measure.
    pub interval: Option<(f64, f64)>,
}

impl Point {
    /// Kleinrock's power of each run, to compare levels: its rate over its mean latency.
    pub(super) fn power(&self) -> Vec<f64> {
        let latencies = self.per_run(Measure::Mean);
        self.per_run(Measure::Iops).iter().zip(latencies).map(|(rate, ns)| rate / ns).collect()
    }

    /// Collects the runs of a cell.
    ///
    /// If at least `repeats` runs have full confidence, only these are used.
    pub fn of(cell: &Cell, trials: &[TrialFigures], repeats: u32) -> Point {
        let mut own: Vec<&TrialFigures> =
            trials.iter().filter(|trial| trial.cell == cell.index).collect();
        own.sort_by_key(|trial| trial.repeat);
        let usable: Vec<&&TrialFigures> = own.iter().filter(|trial| trial.is_usable()).collect();
        let failed = own.len() - usable.len();
        // A disturbed run was repeated; only the repeat counts.
        let good = usable.iter().copied().filter(|trial| trial.standing == Standing::Good);
        let good: Vec<&&TrialFigures> = good.collect();
        let usable = if good.len() >= repeats as usize { good } else { usable };
        let doubt = usable.iter().find(|trial| trial.standing != Standing::Good);
        let standing = match (usable.is_empty(), doubt, own.first()) {
            (true, _, None) => Standing::Failed("it was not run".into()),
            (true, _, Some(first)) => first.standing.clone(),
            (false, Some(doubt), _) => doubt.standing.clone(),
            (false, None, _) if failed > 0 => {
                Standing::LowConfidence(format!("{failed} of {} runs failed", own.len()))
            }
            (false, None, _) => Standing::Good,
        };
        Point {
            cell: cell.index,
            levels: cell.levels.clone(),
            runs: usable.iter().map(|trial| trial.figures.clone()).collect(),
            standing,
            failed,
        }
    }

    /// The level on an axis.
    pub fn level(&self, axis: &str) -> Option<&Level> {
        self.levels.iter().find(|level| level.axis == axis)
    }

    /// The number of the level on an axis.
    pub fn at(&self, axis: &str) -> Option<f64> {
        self.level(axis)?.value
    }

    /// All levels as one name.
    pub fn name(&self) -> String {
        let labels: Vec<&str> = self.levels.iter().map(|level| level.label.as_str()).collect();
        labels.join(", ")
    }

    /// Whether the point has usable runs.
    pub fn is_usable(&self) -> bool {
        !self.runs.is_empty()
    }

    /// A measure in each run; empty if any run lacks it, as the remaining runs would be no random
    /// sample.
    pub fn values(&self, measure: Measure, direction: Direction) -> Vec<f64> {
        let values: Option<Vec<f64>> =
            self.runs.iter().map(|figures| measure.of(figures, direction)).collect();
        values.unwrap_or_default()
    }

    /// A measure over the runs.
    pub fn spread(&self, measure: Measure, direction: Direction) -> Option<Spread> {
        // Whether the run is an open loop.
        let is_open = |figures: &crate::Figures| figures.all.of(direction).service.is_some();
        let is_queue = measure == Measure::Mean && self.runs.iter().any(is_open);
        let interval = if is_queue { reciprocal::mean } else { of_log_normal };
        let mut spread = Spread::with(self.values(measure, direction), interval)?;
        // With too few values, the error of a percentile exceeds its variation between runs.
        let enough = |figures: &crate::Figures| measure.is_solid(figures, direction);
        let errors = self.runs.iter().map(|figures| measure.resolution(figures, direction));
        let error = errors.fold(0.0, f64::max);
        spread.interval = spread
            .interval
            .filter(|_| self.runs.iter().all(enough))
            .map(|(low, high)| (low * (1.0 - error), high * (1.0 + error)));
        Some(spread)
    }

    /// A measure of all data operations in each run.
    pub(super) fn per_run(&self, measure: Measure) -> Vec<f64> {
        self.values(measure, Direction::Total)
    }

    /// A measure of all data operations over the runs.
    pub(super) fn figure(&self, measure: Measure) -> Option<Spread> {
        self.spread(measure, Direction::Total)
    }

    /// The mean of a measure of all data operations.
    pub fn mean(&self, measure: Measure) -> Option<f64> {
        Summary::of(&self.per_run(measure)).map(|summary| summary.mean)
    }
}

impl Spread {
    /// Summarises log-normal values; `None` if there are none.
    pub fn of(values: Vec<f64>) -> Option<Spread> {
        Spread::with(values, of_log_normal)
    }

    /// Summarises values, with this interval of their mean.
    fn with(values: Vec<f64>, interval: fn(&[f64]) -> Option<(f64, f64)>) -> Option<Spread> {
        let summary = Summary::of(&values)?;
        Some(Spread {
            mean: summary.mean,
            std_dev: (summary.n > 1).then_some(summary.std_dev),
            interval: interval(&values),
            values,
        })
    }

    /// Half the interval as a share of the mean.
    pub fn width(&self) -> Option<f64> {
        let (low, high) = self.interval?;
        (self.mean > 0.0).then(|| (high - low) / 2.0 / self.mean)
    }
}

fn of_log_normal(values: &[f64]) -> Option<(f64, f64)> {
    log_normal_mean(values).map(|interval| (interval.low, interval.high))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn equal_runs_are_known_to_the_operation_that_an_edge_cuts() {
        let figures = crate::figures(&run_of(&[Load::default()]));
        let ops = figures.all.total.ops as f64;
        let (runs, standing) = (vec![figures; 5], Standing::Good);
        let point = Point { cell: 0, levels: Vec::new(), runs, standing, failed: 0 };
        for measure in [Measure::Iops, Measure::Mean] {
            let spread = point.spread(measure, Direction::Total).unwrap();
            let width = spread.width().unwrap();
            assert!((width * ops - 1.0).abs() < 1e-3, "{measure:?}: {width}");
        }
    }

    #[test]
    fn rare_percentiles_need_independent_values_and_the_median_does_not() {
        let wanders = |time: f64| 1.0 + 0.5 * (time * 6.0).sin();
        let figures = crate::figures(&run_of(&[Load { shape: wanders, ..Load::default() }]));
        let is_solid = |q| figures.all.total.latency.quantile(q).is_some_and(|of| of.is_solid());
        assert_eq!([0.5, 0.99].map(is_solid), [false, false]);
        let (runs, standing) = (vec![figures; 3], Standing::Good);
        let point = Point { cell: 0, levels: Vec::new(), runs, standing, failed: 0 };
        let is_known = |q| {
            let spread = point.spread(Measure::Quantile(q), Direction::Total).unwrap();
            spread.interval.is_some()
        };
        assert_eq!([0.5, 0.99].map(is_known), [true, false]);
    }

    #[test]
    fn few_operations_give_low_confidence_and_no_interval() {
        use super::super::testing::{facts, noise, stage};
        use crate::finding::Finding;
        let of = |shape: fn(f64) -> f64| {
            let mut noise = noise(1, 0.01);
            facts(&stage("qd1-baseline", "qd1-baseline"), |_, _| Load {
                depth: 1,
                iops: 110.0 * noise(),
                shape,
                ..Load::default()
            })
        };
        let is_known = |point: &Point| {
            let spread = point.spread(Measure::Mean, Direction::Total);
            (point.standing == Standing::Good, spread.is_some_and(|of| of.interval.is_some()))
        };
        // Operations only in a fiftieth of ten seconds: about 20.
        let few = of(|time| f64::from(u8::from((0.5..0.52).contains(&time))));
        assert!(few.points.iter().all(|point| is_known(point) == (false, false)));
        let is_few = |finding: &Finding| finding.code == "few_operations";
        assert!(few.trials.iter().all(|trial| trial.findings.iter().any(is_few)));
        assert!(of(|_| 1.0).points.iter().all(|point| is_known(point) == (true, true)));
    }
}
