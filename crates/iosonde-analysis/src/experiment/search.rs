//! A stage that searches for its best cell: which cell is run next, and which is the best.
//!
//! Both depend only on the recorded runs, so that a search can be resumed.

use super::gate::{self, Ranking};
use super::rounds::level_name;
use super::{Answer, Measure, Point, StageFacts, TrialFigures};
use crate::finding::{Severity, Strength};
use crate::grouped::distinct;
use iosonde_model::plan::design::Cell;
use iosonde_model::record::experiment::StageRun;
use iosonde_model::spec::experiment::{Search, Stage};
use iosonde_model::spec::{Direction, Experiment, LatencyTarget};
use iosonde_model::units::{count, duration};
use iosonde_stats::Quantile;
use iosonde_stats::search::{self, NEAR, Seen, Side};

/// Next step of a search.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Next {
    /// Run this cell.
    Run(usize),
    /// The search is over: the best cell and all near it have their repeats.
    Over,
    /// The maximum number of runs was reached.
    Limit(u32),
}

/// Next step in the search of a stage; `None` for a stage without a search.
pub fn next(
    stage: &Stage,
    laid_out: &StageRun,
    trials: &[TrialFigures],
    is_out: impl Fn(usize) -> bool,
) -> Option<Next> {
    let requested = stage.search.as_ref()?;
    let seen = seen(requested, trials);
    let repeats = stage.repeats as usize;
    let sides = sides(&laid_out.cells);
    Some(match search::next(&sides, &seen, is_out, repeats, laid_out.order_seed) {
        None => Next::Over,
        Some(_) if trials.len() >= requested.max_runs as usize => Next::Limit(requested.max_runs),
        Some(cell) => Next::Run(cell),
    })
}

/// The axes of a grid of cells. An axis of three or more numeric levels is ordered.
fn sides(cells: &[Cell]) -> Vec<Side> {
    let axes = cells.first().map_or(0, |cell| cell.levels.len());
    let side = |axis: usize| {
        let own = || cells.iter().map(|cell| &cell.levels[axis]);
        let levels = distinct(own().map(|level| &level.label)).len();
        Side { levels, is_ordered: levels > 2 && own().all(|level| level.value.is_some()) }
    };
    (0..axes).map(side).collect()
}

/// The measured cells with their values, in the order of their first runs.
fn seen(requested: &Search, trials: &[TrialFigures]) -> Vec<Seen> {
    let measure = Measure::parse(&requested.best).unwrap_or(Measure::Iops);
    let sign = if measure.more_is_better() == Some(false) { -1 } else { 1 };
    let limit = requested.limit.as_ref().and_then(|text| LatencyTarget::parse(text).ok());
    let mut ordered: Vec<&TrialFigures> = trials.iter().collect();
    ordered.sort_by_key(|trial| trial.position);
    let mut all: Vec<Seen> = Vec::new();
    for trial in ordered {
        let place = all.iter().position(|each| each.cell == trial.cell).unwrap_or(all.len());
        if place == all.len() {
            all.push(Seen { cell: trial.cell, ..Seen::default() });
        }
        let value = measure.of(&trial.figures, Direction::Total).filter(|value| *value > 0.0);
        if let (Some(value), true) = (value, trial.is_usable()) {
            all[place].values.push(value.powi(sign));
            all[place].shares.extend(limit.map(|limit| share(trial, limit)));
        }
    }
    all
}

/// The limited percentile as a share of its limit; the maximum if too few requests completed for
/// the percentile.
fn share(trial: &TrialFigures, limit: LatencyTarget) -> f64 {
    let quantile = Quantile::of(&trial.latency, limit.quantile).value_ns();
    quantile.or(trial.latency.max()).unwrap_or(u64::MAX) as f64 / limit.limit_ns as f64
}

/// Reports the best cell, and the cells that are not shown to differ from it.
pub(super) fn answer(facts: &StageFacts) -> Answer {
    let Some(requested) = &facts.stage.search else { return Answer::default() };
    let measure = Measure::parse(&requested.best).unwrap_or(Measure::Iops);
    let seen = seen(requested, &facts.trials);
    let mut answer = Answer::default();
    let (cells, runs) = (facts.laid_out.cells.len(), facts.trials.len());
    let whole = cells * facts.stage.repeats as usize;
    answer.find("combinations", cells as f64);
    answer.find("measured-combinations", seen.len() as f64);
    answer.find("runs", runs as f64);
    let bound = requested.limit.as_ref().map_or(String::new(), |limit| format!(" with {limit}"));
    let title = format!("Best {}{bound}", measure.title());
    let near = search::near(&seen);
    let is_within =
        |point: &&Point| near.iter().any(|each| each.cell == point.cell && each.is_within());
    let points: Vec<&Point> = facts.points.iter().filter(is_within).collect();
    if points.is_empty() {
        let words = "combinations measured is within the limit";
        answer.say(format!("{title}: none of the {} {words}.", seen.len()));
    } else {
        say_best(&mut answer, facts, &title, measure, &points, &seen);
    }
    answer.say(format!(
        "{} of {} combinations were measured in {} runs; all of them take {} runs. Combinations \
         whose first run was more than {} % below the best were not repeated.",
        count::thousands(seen.len() as u64),
        count::thousands(cells as u64),
        count::thousands(runs as u64),
        count::thousands(whole as u64),
        100.0 * NEAR,
    ));
    if !facts.laid_out.ended_early.is_empty() {
        let words = format!(
            "The search ended early: {}. A better combination may exist.",
            facts.laid_out.ended_early
        );
        let subject = "search not over";
        answer.mind("search_not_over", subject, Strength::Proven, Severity::LowConfidence, words);
    }
    answer
}

fn say_best(
    answer: &mut Answer,
    facts: &StageFacts,
    title: &str,
    measure: Measure,
    points: &[&Point],
    seen: &[Seen],
) {
    let value = |point: &Point| seen.iter().find(|each| each.cell == point.cell).map(Seen::value);
    let Some(lead) =
        points.iter().max_by(|a, b| value(a).unwrap_or(0.0).total_cmp(&value(b).unwrap_or(0.0)))
    else {
        return;
    };
    let name = |point: &Point| format!("({})", levels_of(facts, point));
    let rate = format!("{} at {}", lead.with_interval(measure), latency(facts, lead));
    answer.find("best-cell", lead.cell as f64);
    for (level, value) in lead.levels.iter().filter_map(|level| Some((level, level.value?))) {
        answer.find(&format!("best-{}", level.axis.replace('_', "-")), value);
    }
    let words = match gate::ranking(points, measure) {
        Some(Ranking::Best(_)) => format!("{title}: {}: {rate}.", name(lead)),
        Some(Ranking::Ties { points: ties, more, .. }) => {
            answer.find("ties", ties.len() as f64);
            let others = ties.iter().filter(|point| point.cell != lead.cell);
            let all: Vec<String> = others.map(|point| name(point)).collect();
            format!(
                "{title}: {}: {rate}. Not shown to differ from it: {}{}.",
                name(lead),
                all.join(", "),
                gate::advice(more)
            )
        }
        Some(Ranking::Undecided(why)) => {
            format!("{title}: {why}; the highest mean so far is {rate}, at {}.", name(lead))
        }
        None => format!("{title}: {}: {rate}.", name(lead)),
    };
    answer.say(words);
    let requests = |point: &Point| -> f64 {
        ["iodepth", "numjobs"].iter().filter_map(|axis| point.at(axis)).product()
    };
    let fewest = points.iter().min_by(|a, b| requests(a).total_cmp(&requests(b)));
    if let Some(fewest) = fewest.filter(|fewest| requests(fewest) < requests(lead)) {
        answer.say(format!(
            "Fewest requests in flight within {} % of it: {}: {} at {}.",
            100.0 * NEAR,
            name(fewest),
            fewest.with_interval(measure),
            latency(facts, fewest)
        ));
    }
}

/// `iodepth 8, numjobs 2`.
fn levels_of(facts: &StageFacts, point: &Point) -> String {
    let names = point.levels.iter().map(|level| level_name(&facts.stage, level));
    names.collect::<Vec<String>>().join(", ")
}

/// The limited percentile in each run; without a limit, the mean latency.
fn latency(facts: &StageFacts, point: &Point) -> String {
    let limit = facts.stage.search.as_ref().and_then(|search| search.limit.as_deref());
    let Some(limit) = limit.and_then(|text| LatencyTarget::parse(text).ok()) else {
        let mean = point.mean(Measure::Mean);
        return mean.map_or("n/a".into(), |ns| format!("mean {}", duration::latency(ns)));
    };
    let of = |trial| duration::latency(share(trial, limit) * limit.limit_ns as f64);
    let all: Vec<String> = facts.of_cell(point.cell).into_iter().map(of).collect();
    format!("{} {}", Measure::Quantile(limit.quantile).title(), all.join(", "))
}

/// One sentence for each measure that a file searches by and that does not exist or has no best.
pub fn invalid_searches(experiment: &Experiment) -> Vec<String> {
    let known: Vec<&str> =
        Measure::all().filter(|each| each.more_is_better().is_some()).map(Measure::word).collect();
    let stages = experiment.stages.iter();
    let searches = stages.filter_map(|stage| Some((stage, stage.search.as_ref()?)));
    let wrong = searches.filter(|(_, search)| !known.contains(&search.best.as_str()));
    let said = wrong.map(|(stage, search)| {
        let meant = count::did_you_mean(&search.best, known.iter().copied());
        let (name, best, known) = (&stage.name, &search.best, known.join(", "));
        format!("stage `{name}`, search.best: found `{best}`, expected one of {known}{meant}")
    });
    said.collect()
}
