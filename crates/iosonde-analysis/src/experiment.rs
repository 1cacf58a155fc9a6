//! Analysis of experiments: runs become points, and named analyses evaluate the points.
//!
//! An analysis is a function from a stage to an [`Answer`]: sentences for the reader, figures that
//! later stages and charts use, and warnings. A new one is a file and a line in [`ANALYSES`].

mod baseline;
#[cfg(test)]
mod builtin;
mod claims;
mod cliff;
mod conformance;
mod disk;
mod durability;
mod factors;
pub mod gate;
mod knee;
mod load;
pub mod measure;
mod missing;
mod mix;
mod offered;
mod order;
pub mod point;
pub mod prepared;
mod recovery;
pub mod rounds;
pub mod search;
mod size_model;
mod sizes;
mod study;
mod surface;
mod sweep;
mod tail;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod words;

use std::collections::BTreeMap;

use serde::Serialize;

use super::finding::{Finding, Severity};
use iosonde_model::plan::design::{Cell, Found};
use iosonde_model::record::HostFacts;
use iosonde_model::record::experiment::{ExperimentRun, StageRun, TrialRun};
use iosonde_model::record::run::{Outcome, by_signal};
use iosonde_model::spec::experiment::{Parameter, Stage};
use iosonde_stats::{Histogram, Quantile};

pub use conformance::Conformance;
pub use measure::{Measure, Quantity};
pub use point::{Point, Spread};
pub use rounds::Steadiness;
pub use words::{NONE_USABLE, TOO_FEW, UNDECIDED, slug};

use super::figures::Figures;
use super::grouped::grouped;
use super::intervals;
use super::series::{self, Series};
use super::verdict::assess;

/// One run, reduced to what analyses and charts need.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialFigures {
    /// Index of the cell in the stage.
    pub cell: usize,
    /// Number of the run within the cell.
    pub repeat: u32,
    /// Position in the order of runs.
    pub position: u32,
    /// Name of the record's file.
    pub file: String,
    /// Start, ns since 1970.
    pub started_unix_ns: u64,
    pub standing: Standing,
    /// The I/O error that ended the run, which must then be repeated; empty if there was none.
    pub io_error: String,
    pub figures: Figures,
    /// Findings, most severe first.
    pub findings: Vec<Finding>,
    /// Latencies of all data operations.
    pub latency: Histogram,
    /// Operations and bytes over time.
    pub series: Series,
    /// Percentiles over time, in intervals of at least a second.
    pub over_time: Vec<Moment>,
    /// Requested cache state.
    pub cache: String,
    /// Share of sampled pages that were in the page cache before the run, `0..=1`.
    pub cached_share: Option<f64>,
    pub written_bytes: u64,
}

/// Latency percentiles of one interval of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Start of the interval since the start of measurement, ns.
    pub start_ns: u64,
    /// End of the interval since the start of measurement, ns.
    pub end_ns: u64,
    /// The median; `None` if too few requests completed in the interval.
    pub p50_ns: Option<u64>,
    /// The 99th percentile; `None` if too few requests completed in the interval.
    pub p99_ns: Option<u64>,
}

/// Approximate maximum number of intervals of a run.
const MOST_MOMENTS: u64 = 600;

/// The latencies of all data operations over time, from one histogram per interval.
fn over_time(run: &iosonde_model::record::Run) -> Vec<Moment> {
    let jobs = intervals::all_jobs(run);
    let asked_ns = (run.measured_ns / MOST_MOMENTS).max(1_000_000_000);
    let width_ns = intervals::common_width_ns(&jobs, asked_ns);
    let [of_data @ .., _] = &intervals::DIRECTIONS;
    let all = intervals::over_time(&jobs, of_data, run.measured_ns, width_ns);
    let moment = |(edge, latency): (intervals::Interval, Histogram)| {
        let quantile = |q| Quantile::of(&latency, q).value_ns();
        let (start_ns, end_ns) = (edge.start_ns, edge.end_ns);
        Moment { start_ns, end_ns, p50_ns: quantile(0.5), p99_ns: quantile(0.99) }
    };
    all.map(moment).collect()
}

/// Whether the figures of a run may be used.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "standing", content = "because")]
pub enum Standing {
    /// The figures may be used.
    Good,
    /// The figures may be used with low confidence, for these reasons.
    LowConfidence(String),
    /// They may not be used: the run did not complete, or its consistency checks failed.
    Failed(String),
}

impl TrialFigures {
    pub fn of(trial: &TrialRun, file: &str, host: Option<&HostFacts>) -> TrialFigures {
        let run = &trial.run;
        let mut row = assess(run, host);
        row.findings.extend(measure::few_operations(row.figures.all.total.ops));
        let doubts = row.findings.iter().filter(|finding| is_doubt(finding, &trial.cache));
        let doubts: Vec<&str> = doubts.map(|finding| finding.subject.as_str()).collect();
        let standing = if !row.consistency.valid() {
            let broken: Vec<&str> =
                row.consistency.broken().map(|identity| identity.code).collect();
            Standing::Failed(format!("consistency checks failed: {}", broken.join(", ")))
        } else if !row.complete {
            Standing::Failed(ended(run))
        } else if doubts.is_empty() {
            Standing::Good
        } else {
            Standing::LowConfidence(doubts.join(", "))
        };
        let latency = Histogram::of_all(series::directions(run).map(|direction| {
            let open = direction.response.count() > 0;
            if open { &direction.response } else { &direction.latency }
        }));
        let cached = run.target.cached_samples;
        TrialFigures {
            cell: trial.cell,
            repeat: trial.repeat,
            position: trial.position,
            file: file.into(),
            started_unix_ns: run.started_unix_ns,
            standing,
            io_error: io_error(run),
            written_bytes: row.figures.all.write.bytes,
            figures: row.figures,
            findings: row.findings,
            latency,
            series: series::whole(run),
            over_time: over_time(run),
            cache: trial.cache.clone(),
            cached_share: cached.map(|(hit, of)| f64::from(hit) / f64::from(of.max(1))),
        }
    }

    /// The I/O error that ended the run, as a sentence.
    pub fn failure(&self) -> String {
        format!("{} {}: {}", StageRun::RUN_FAILED, self.position + 1, self.io_error)
    }

    /// Whether an I/O error ended the run, which must then be repeated.
    pub fn has_failed(&self) -> bool {
        !self.io_error.is_empty()
    }

    /// Whether its figures may be used.
    pub fn is_usable(&self) -> bool {
        !matches!(self.standing, Standing::Failed(_))
    }
}

/// Whether a finding lowers confidence. Findings about the page cache do not if the stage sets the
/// state of the page cache.
fn is_doubt(finding: &Finding, cache: &str) -> bool {
    let through_cache = matches!(cache, "cold" | "warm");
    let of_the_cache = ["page_cache", "buffered", "physics"].contains(&finding.code);
    finding.severity >= Severity::LowConfidence && !(through_cache && of_the_cache)
}

fn io_error(run: &iosonde_model::record::Run) -> String {
    match &run.outcome {
        Outcome::Failed { error } => error.clone(),
        Outcome::Complete | Outcome::Interrupted { .. } => String::new(),
    }
}

fn ended(run: &iosonde_model::record::Run) -> String {
    match &run.outcome {
        Outcome::Complete => "nothing was completed in its window".into(),
        Outcome::Failed { error } => format!("it failed: {error}"),
        Outcome::Interrupted { signal } => format!("it was interrupted {}", by_signal(*signal)),
    }
}

/// A stage with its runs, points and answers.
#[derive(Clone, Debug, PartialEq)]
pub struct StageFacts {
    /// As requested.
    pub stage: Stage,
    /// The resolved design.
    pub laid_out: StageRun,
    /// One point per cell, in the order of the cells; for a search, per cell that was run.
    pub points: Vec<Point>,
    /// All runs, in the order in which they ran.
    pub trials: Vec<TrialFigures>,
    /// The answers of the analyses, in the order in which the stage names them.
    pub answers: Vec<(String, Answer)>,
    /// Steadiness of the rounds; `None` for a stage without rounds.
    pub steadiness: Option<Steadiness>,
}

/// The answer of an analysis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Answer {
    /// Sentences with their numbers, the most important first.
    pub sentences: Vec<String>,
    /// Figures by name (`knee`), for later stages, charts and programs. Intervals are `NAME_low`
    /// and `NAME_high`.
    pub found: BTreeMap<String, f64>,
    /// Findings that limit the reliability of the answer.
    pub warnings: Vec<Finding>,
    #[serde(skip)]
    pub tables: Vec<AnswerTable>,
    /// The underlying data, for programs.
    pub details: serde_json::Value,
}

/// A small table of an analysis: a caption, headings, and rows of text cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerTable {
    pub caption: String,
    pub columns: Vec<String>,
    /// Rows, with as many cells as there are headings.
    pub rows: Vec<Vec<String>>,
}

/// A whole experiment with its analyses.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// As requested.
    pub run: ExperimentRun,
    pub host: Option<HostFacts>,
    /// The target at the first run.
    pub target: Option<iosonde_model::record::TargetFacts>,
    /// The stages so far, in order.
    pub stages: Vec<StageFacts>,
    /// The conclusions of the whole experiment, by analysis.
    pub conclusions: Vec<(String, Answer)>,
}

/// An analysis of one stage; the second argument is the stages before it.
pub type Analysis = fn(&StageFacts, &[StageFacts]) -> Answer;
/// An analysis of all stages.
pub type Conclusion = fn(&Study) -> Answer;

/// All analyses of a stage, by their names in experiment files.
pub const ANALYSES: [(&str, Analysis); 20] = [
    ("baseline", baseline::analyse),
    ("capacity", load::capacity),
    ("cliff", cliff::analyse),
    ("cpu-cost", surface::cpu_cost),
    ("durability", durability::analyse),
    ("factors", factors::analyse),
    ("knee", knee::analyse),
    ("matrix", load::matrix),
    ("mix", mix::analyse),
    ("random", sizes::random),
    ("recovery", recovery::analyse),
    ("rotation", disk::rotation),
    ("seek", disk::seek),
    ("size-model", size_model::analyse),
    ("sizes", sizes::analyse),
    ("staircase", load::staircase),
    ("stride", sizes::stride),
    ("surface", surface::analyse),
    ("tail", tail::analyse),
    ("zones", disk::zones),
];
/// All analyses of a whole experiment.
pub const CONCLUSIONS: [(&str, Conclusion); 3] =
    [("claims", claims::conclude), ("micro", study::micro), ("study", study::study)];

/// The names of all analyses.
pub fn names() -> Vec<&'static str> {
    let stages = ANALYSES.iter().map(|(name, _)| *name);
    stages.chain(CONCLUSIONS.iter().map(|(name, _)| *name)).collect()
}

/// The names of analyses that an experiment uses and that do not exist.
pub fn unknown(experiment: &iosonde_model::spec::Experiment) -> Vec<String> {
    let stages = experiment.stages.iter().flat_map(|stage| &stage.analysis);
    let stages = stages.filter(|name| !ANALYSES.iter().any(|(known, _)| known == name));
    let whole = experiment.conclude.iter();
    let whole = whole.filter(|name| !CONCLUSIONS.iter().any(|(known, _)| known == name));
    stages.chain(whole).cloned().collect()
}

impl StageFacts {
    /// The points that can be used.
    pub(super) fn usable(&self) -> Vec<&Point> {
        self.points.iter().filter(|point| point.is_usable()).collect()
    }

    /// The usable points with a place on this axis, in the order of their places.
    pub(super) fn usable_by(&self, axis: &str) -> Vec<(f64, &Point)> {
        let usable = self.usable().into_iter();
        let mut points: Vec<(f64, &Point)> =
            usable.filter_map(|point| Some((point.at(axis)?, point))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    /// Collects the runs of a stage and runs its analyses.
    pub fn of(
        stage: &Stage,
        laid_out: StageRun,
        mut trials: Vec<TrialFigures>,
        before: &[StageFacts],
    ) -> StageFacts {
        trials.sort_by_key(|trial| (trial.position, trial.cell));
        let steadiness = Steadiness::of(stage, &laid_out, &trials);
        let mut points: Vec<Point> = match &steadiness {
            // Only the runs of the measurement window count.
            Some(steadiness) => {
                let own: Vec<TrialFigures> =
                    trials.iter().filter(|trial| steadiness.measures(trial)).cloned().collect();
                laid_out.cells.iter().map(|cell| steadiness.point(cell, &own)).collect()
            }
            None => {
                // A search runs only some of its cells.
                let is_run = |cell: &&Cell| {
                    stage.search.is_none() || trials.iter().any(|trial| trial.cell == cell.index)
                };
                let cells = laid_out.cells.iter().filter(is_run);
                cells.map(|cell| Point::of(cell, &trials, stage.repeats)).collect()
            }
        };
        for (cell, reason) in &laid_out.left_out {
            let left_out = points.iter_mut().find(|point| point.cell == *cell);
            if let Some(point) = left_out.filter(|point| !point.is_usable()) {
                point.standing = Standing::Failed(format!("it was not run: {reason}"));
            }
        }
        let stage = stage.clone();
        let answers = Vec::new();
        let mut facts = StageFacts { stage, laid_out, points, trials, answers, steadiness };
        // For a skipped stage, only the reason is reported.
        if !facts.laid_out.skipped.is_empty() {
            return facts;
        }
        if let Some(steadiness) = &facts.steadiness
            && facts.why_not_run().is_none()
        {
            facts.answers.push(("rounds".into(), steadiness.answer(&facts)));
        }
        if facts.stage.search.is_some() {
            facts.answers.push(("search".into(), search::answer(&facts)));
        }
        let named = facts.stage.analysis.iter().filter_map(|name| {
            let (_, analysis) = ANALYSES.iter().find(|(known, _)| known == name)?;
            Some((name.clone(), analysis(&facts, before)))
        });
        let named: Vec<(String, Answer)> = named.collect();
        facts.answers.extend(named);
        facts.answers.extend(order::answer(&facts).map(|answer| ("order".into(), answer)));
        facts
    }

    /// Whether an I/O error ended the stage, so that no later stage can begin.
    pub fn is_cut_off(&self) -> bool {
        self.laid_out.ended_early.starts_with(StageRun::RUN_FAILED)
    }

    /// A figure found by one of the analyses.
    pub fn found(&self, name: &str) -> Option<f64> {
        self.answers.iter().find_map(|(_, answer)| answer.found.get(name).copied())
    }

    /// All figures found by the analyses, as later stages name them: `STAGE.NAME`.
    pub fn all_found(&self) -> Found {
        let answers = self.answers.iter().flat_map(|(_, answer)| &answer.found);
        answers.map(|(name, value)| (format!("{}.{name}", self.stage.name), *value)).collect()
    }

    /// The usable runs of a cell, in the order of their repeats; for a stage in rounds, those of
    /// the measurement window.
    pub fn of_cell(&self, cell: usize) -> Vec<&TrialFigures> {
        let measures =
            |trial: &TrialFigures| self.steadiness.as_ref().is_none_or(|s| s.measures(trial));
        let own = self.trials.iter().filter(|trial| trial.cell == cell && trial.is_usable());
        let mut all: Vec<&TrialFigures> = own.filter(|trial| measures(trial)).collect();
        all.sort_by_key(|trial| trial.repeat);
        all
    }

    /// Whether a finding of a run limits the trust in figures. It does not if no figure uses the
    /// run: one outside the measurement window, or one with low confidence whose point is good.
    /// Findings of failing storage always do.
    pub fn limits_trust(&self, trial: &TrialFigures, finding: &Finding) -> bool {
        let point = || self.points.iter().find(|point| point.cell == trial.cell);
        let is_used = match &self.steadiness {
            Some(steadiness) => steadiness.measures(trial),
            None => {
                trial.standing == Standing::Good
                    || point().is_none_or(|point| point.standing != Standing::Good)
            }
        };
        is_used || finding.severity == Severity::Fault
    }

    /// One line for each combination of the other axes: a heading, and the points in order.
    pub fn lines(&self, axis: &str) -> Vec<(String, Vec<&Point>)> {
        grouped(self.points.iter().map(|point| {
            let others = point.levels.iter().filter(|level| level.axis != axis);
            let name: Vec<&str> = others.map(|level| level.label.as_str()).collect();
            (name.join(", "), point)
        }))
    }

    /// The value of a numeric parameter at a point, set by its levels or by the stage.
    fn number(&self, point: &Point, parameter: Parameter) -> Option<f64> {
        let mut levels = point.levels.iter().rev().flat_map(|level| level.set.iter().rev());
        match levels.find(|(each, _)| *each == parameter) {
            Some((_, value)) => value.number(),
            None => parameter.value(self.stage.set.get(parameter.word())?).ok()?.number(),
        }
    }

    /// The requested number of requests in flight at a point: queue depth times jobs.
    fn depth(&self, point: &Point) -> f64 {
        let of = |parameter| self.number(point, parameter).unwrap_or(1.0);
        (of(Parameter::Iodepth) * of(Parameter::Numjobs)).max(1.0)
    }
}

impl Study {
    pub fn stage(&self, name: &str) -> Option<&StageFacts> {
        self.stages.iter().find(|facts| facts.stage.name == name)
    }

    /// Adds the conclusions of the experiment.
    pub fn conclude(&mut self) {
        let names = self.run.experiment.conclude.clone();
        let named = names.into_iter().filter_map(|name| {
            let (_, conclusion) = CONCLUSIONS.iter().find(|(known, _)| *known == name)?;
            Some((name, conclusion(self)))
        });
        self.conclusions = named.collect();
    }
}
