//! A trend over the order of runs: did the storage, or the machine, change while a stage ran?
//!
//! The order is random, so that a trend does not look like an effect of an axis. But the runs of a
//! cell then differ, and their mean belongs to no one state.

use super::{Answer, Measure, StageFacts};
use crate::finding::{LOW_FROM, Severity, Strength};
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment::Order;
use iosonde_model::units::count;
use iosonde_stats::Slope;

/// Minimum change from the first run to the last, as a share, that is reported.
const SHOWN_FROM: f64 = 0.05;

/// Reports the trend of throughput over the runs of a stage, within each cell.
pub(super) fn answer(facts: &StageFacts) -> Option<Answer> {
    let is_ordered = facts.stage.order == Order::Given || facts.stage.search.is_some();
    if is_ordered || facts.steadiness.is_some() {
        return None;
    }
    let cells = facts.laid_out.cells.iter().map(|cell| facts.of_cell(cell.index));
    let cells = cells.map(|own| {
        let place = |trial: &super::TrialFigures| {
            let rate = Measure::Iops.of(&trial.figures, Direction::Total)?;
            Some((f64::from(trial.position), rate.ln()))
        };
        own.into_iter().filter_map(place).collect::<Vec<(f64, f64)>>()
    });
    let cells: Vec<Vec<(f64, f64)>> = cells.collect();
    let slope = Slope::in_rounds(&cells)?;
    let (low, high) = slope.interval?;
    let last = facts.trials.iter().map(|trial| trial.position).max()?;
    let change = |per_run: f64| (per_run * f64::from(last)).exp_m1();
    let [middle, low, high] = [slope.median, low, high].map(change);
    // The smallest change within the interval; negative if the interval contains no change.
    let least = if low > 0.0 { low } else { -high };
    if least < SHOWN_FROM {
        return None;
    }
    let (what, low, high) = if low > 0.0 { ("rises", low, high) } else { ("falls", -high, -low) };
    let severity = if least < LOW_FROM { Severity::Warning } else { Severity::LowConfidence };
    let mut answer = Answer::default();
    answer.find("trend_over_runs", middle);
    let words = format!(
        "{}: throughput {what} by {} from the first of the {} runs to the last (95 % {} to \
         {}), whatever their setting: the figures are of no one state of the storage or the \
         machine.",
        facts.stage.heading(),
        count::percent(middle.abs()),
        facts.trials.len(),
        count::percent(low),
        count::percent(high),
    );
    answer.mind("trend_over_runs", "a trend over the runs", Strength::Supported, severity, words);
    Some(answer)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, facts, noise, stage};
    use super::*;
    use iosonde_fixtures::Load;

    /// Runs with this scatter, each slower than the previous one by this factor.
    fn sweep(seed: u64, scatter: f64, slower: f64) -> StageFacts {
        let mut noise = noise(seed, scatter);
        let mut pace = 1.0;
        facts(&stage("jobs", "jobs"), |cell, _| {
            let jobs = at(cell, "numjobs");
            pace *= 1.0 - slower;
            let iops = 2_000.0 * jobs.min(8.0) * pace * noise().max(0.1);
            Load { depth: jobs as u32, iops, ..Load::default() }
        })
    }

    fn severity(facts: &StageFacts) -> Option<Severity> {
        answer(facts).map(|answer| answer.warnings[0].severity)
    }

    #[test]
    fn a_trend_through_the_runs_lowers_confidence() {
        let falls = sweep(1, 0.01, 0.05);
        assert_eq!(severity(&falls), Some(Severity::LowConfidence));
        let words = &answer(&falls).unwrap().warnings[0].words;
        assert!(words.starts_with("Jobs: throughput falls by 5"), "{words}");
        assert_eq!(severity(&sweep(1, 0.001, 0.005)), Some(Severity::Warning));
        let rises = answer(&sweep(1, 0.01, -0.05)).unwrap();
        assert!(rises.warnings[0].words.contains("throughput rises by 1"), "{rises:?}");
        assert!(falls.found("trend_over_runs").is_some_and(|share| share < -0.5));
    }

    #[test]
    fn scatter_is_hardly_ever_a_trend() {
        let quiet = sweep(1, 0.0, 0.0);
        let is_shown = |seed: u64, scatter: f64| {
            let (mut noisy, mut noise) = (quiet.clone(), noise(seed, scatter));
            for trial in &mut noisy.trials {
                trial.figures.all.total.iops *= noise().max(0.1);
            }
            answer(&noisy).is_some()
        };
        for (scatter, most) in [(0.02, 0), (0.15, 20)] {
            let count = (0..1_000).filter(|seed| is_shown(*seed, scatter)).count();
            assert!(count <= most, "{count} of 1,000 at {scatter}");
        }
    }
}
