//! Rounds: are the tracked figures steady, from which round on, and which rounds are measured?
//!
//! The verdict depends only on the recorded runs, so that it can be computed again. It uses the
//! first window of consecutive rounds, all of one state of the target, in which every tracked
//! figure is within both limits (SNIA PTS 2.0.2, 2.1.24).

mod report;

use serde::Serialize;

use super::{Measure, Point, Standing, TrialFigures};
use iosonde_model::plan::design::{Cell, Level, tracked};
use iosonde_model::record::experiment::StageRun;
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment::{Experiment, Rounds, Stage};
use iosonde_model::units::count;
use iosonde_stats::steady_state::{Window, differ};

/// Level of the test that the latest held rounds differ from all rounds before them. After each
/// round, each number of latest rounds is tested. In simulations of five held rounds, 1.0 % of
/// figures with 5 % noise are falsely reported to have left their state, and 6.5 % with 10 % noise.
const LEFT_LEVEL: f64 = 0.002;

/// The rounds of a stage, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Steadiness {
    /// Rounds that were completed.
    pub rounds: u32,
    /// Maximum number of rounds.
    pub max_rounds: u32,
    /// The first round (from 0) of the present state of the target.
    pub first_round: u32,
    /// First round (from 0) of the measurement window: the first steady window, or else the last
    /// rounds; `None` if no round was completed.
    pub window_start: Option<u32>,
    pub window_rounds: u32,
    /// Whether every tracked figure is steady in that window, and none has left that state in the
    /// rounds held after it.
    pub is_steady: bool,
    /// The first held round (from 0) that shows that the state was left: the window that ends with
    /// it is not steady, and the latest rounds are shown to differ from those before them.
    pub left_in: Option<u32>,
    /// Whether no further round changes the verdict.
    pub is_over: bool,
    /// Whether an I/O error ended the stage before there was a verdict.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_off: bool,
    pub tracked: Vec<Tracked>,
}

/// A tracked figure of a cell over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tracked {
    /// Index of the cell in its stage.
    pub cell: usize,
    /// Names of the cell's levels.
    pub name: String,
    /// The tracked measure.
    pub measure: Measure,
    /// One value per completed round; `None` if its run is not usable.
    pub values: Vec<Option<f64>>,
    /// The figure over the measurement window; `None` if a value is missing.
    pub window: Option<Window>,
    /// Whether the figure is steady in that window.
    pub is_steady: bool,
}

impl Steadiness {
    /// Judges the completed rounds of a stage; `None` for a stage without rounds.
    pub fn of(stage: &Stage, laid_out: &StageRun, trials: &[TrialFigures]) -> Option<Steadiness> {
        let requested = stage.rounds.as_ref()?;
        let rounds = completed(requested, laid_out, trials);
        let first_round = laid_out.prepared.last().map_or(0, |prepared| prepared.first_round);
        let all = figures(stage, requested, laid_out, trials, rounds);
        let judged = Steadiness::judged(requested, rounds, first_round, all);
        let has_failed = laid_out.ended_early.starts_with(StageRun::RUN_FAILED);
        Some(Steadiness { is_cut_off: has_failed && !judged.is_over, ..judged })
    }

    /// Judges figures over this many rounds, from `first_round` on.
    pub(crate) fn judged(
        requested: &Rounds,
        rounds: u32,
        first_round: u32,
        mut all: Vec<Tracked>,
    ) -> Steadiness {
        let length = requested.window;
        let starts = first_round..(rounds + 1).saturating_sub(length);
        let steady = |start: &u32| {
            !all.is_empty() && all.iter().all(|each| each.is_steady_in(*start, requested))
        };
        let found = starts.clone().find(steady);
        let held = |start: u32| {
            let ends = (start + length..rounds).take(requested.hold as usize);
            let left = |end: u32| all.iter().any(|each| each.has_left(start, end, requested));
            let left = ends.clone().find(|end| left(*end));
            (left, ends.count() as u32)
        };
        let (left_in, held_rounds) = found.map_or((None, 0), held);
        let last = (rounds > first_round).then(|| rounds.saturating_sub(length).max(first_round));
        let window_start = found.or(last);
        for each in &mut all {
            let start = window_start.filter(|start| start + length <= rounds);
            each.window = start.and_then(|start| each.window_at(start, length));
            each.is_steady = start.is_some_and(|start| each.is_steady_in(start, requested));
        }
        Steadiness {
            rounds,
            max_rounds: requested.max,
            first_round,
            window_start,
            window_rounds: length.min(rounds.saturating_sub(window_start.unwrap_or(rounds)))
                + held_rounds,
            is_steady: found.is_some() && left_in.is_none(),
            left_in,
            is_over: left_in.is_some() || found.is_some() && held_rounds == requested.hold,
            is_cut_off: false,
            tracked: all,
        }
    }

    /// Whether a run belongs to the measurement window.
    pub fn measures(&self, trial: &TrialFigures) -> bool {
        self.holds(trial.repeat)
    }

    fn holds(&self, round: u32) -> bool {
        self.window_start.is_some_and(|start| (start..start + self.window_rounds).contains(&round))
    }

    /// The verdict in words.
    pub fn verdict(&self) -> String {
        if let (Some(start), Some(left)) = (self.window_start, self.left_in) {
            let left = left + 1;
            return format!("steady from round {}, lost in round {left}", start + 1);
        }
        if self.is_cut_off {
            let rounds = count::of(u64::from(self.rounds), "round");
            return format!("no verdict after {rounds}: an I/O error ended them");
        }
        match (self.is_steady, self.window_start) {
            (true, Some(start)) => {
                format!("steady in rounds {} to {}", start + 1, start + self.window_rounds)
            }
            _ if self.rounds == 0 => "no round was carried out".into(),
            _ if self.rounds == 1 => "not steady after 1 round".into(),
            _ => format!("not steady after {} rounds", self.rounds),
        }
    }

    /// The point of a cell from the runs of the window, with low confidence if it is not steady.
    pub(super) fn point(&self, cell: &Cell, window: &[TrialFigures]) -> Point {
        let point = Point::of(cell, window, u32::MAX);
        match point.standing {
            Standing::Good if !self.is_steady => {
                Point { standing: Standing::LowConfidence(self.verdict()), ..point }
            }
            _ => point,
        }
    }
}

impl Tracked {
    /// The figure over rounds from `start` on; `None` if a value is missing.
    pub fn window_at(&self, start: u32, rounds: u32) -> Option<Window> {
        let values = self.values.get(start as usize..(start + rounds) as usize)?;
        let values: Option<Vec<f64>> = values.iter().copied().collect();
        Window::of(&values?)
    }

    /// Whether the held round `end` shows that the state of the window from `start` on was left. A
    /// later window outside the limits is not enough: noise alone causes some.
    fn has_left(&self, start: u32, end: u32, limits: &Rounds) -> bool {
        let length = limits.window;
        if self.is_steady_in(end + 1 - length, limits) {
            return false;
        }
        let values = self.values.get(start as usize..=end as usize).unwrap_or_default();
        let values: Option<Vec<f64>> = values.iter().copied().collect();
        // A failed run belongs to no state.
        let Some(values) = values else { return true };
        (length as usize..values.len()).any(|before| {
            let (before, after) = values.split_at(before);
            differ(before, after, LEFT_LEVEL)
        })
    }

    fn is_steady_in(&self, start: u32, limits: &Rounds) -> bool {
        let window = self.window_at(start, limits.window);
        let (range, slope) = (limits.range_percent / 100.0, limits.slope_percent / 100.0);
        window.is_some_and(|window| window.is_steady(range, slope))
    }
}

/// Number of complete rounds, from the first on: every cell was run, except those left out. A run
/// that an I/O error ended does not count.
fn completed(requested: &Rounds, laid_out: &StageRun, trials: &[TrialFigures]) -> u32 {
    let is_out = |cell: usize| laid_out.left_out.iter().any(|(out, _)| *out == cell);
    let cells: Vec<usize> =
        laid_out.cells.iter().map(|cell| cell.index).filter(|cell| !is_out(*cell)).collect();
    let mut seen = std::collections::BTreeSet::new();
    let done = trials.iter().filter(|trial| !trial.has_failed());
    seen.extend(done.map(|trial| (trial.repeat, trial.cell)));
    let whole = |round: &u32| cells.iter().all(|cell| seen.contains(&(*round, *cell)));
    if cells.is_empty() { 0 } else { (0..requested.max).take_while(whole).count() as u32 }
}

fn figures(
    stage: &Stage,
    requested: &Rounds,
    laid_out: &StageRun,
    trials: &[TrialFigures],
    rounds: u32,
) -> Vec<Tracked> {
    let mut all: Vec<Tracked> = Vec::new();
    for track in &requested.track {
        let (Some(measure), Ok(cells)) =
            (Measure::parse(&track.metric), tracked(stage, &laid_out.cells, track))
        else {
            continue;
        };
        for cell in cells {
            if all.iter().any(|known| known.cell == cell && known.measure == measure) {
                continue;
            }
            let mut values = vec![None; rounds as usize];
            for trial in trials.iter().filter(|trial| trial.cell == cell && trial.is_usable()) {
                if let Some(value) = values.get_mut(trial.repeat as usize) {
                    *value = measure.of(&trial.figures, Direction::Total);
                }
            }
            let levels = laid_out.cells.get(cell).into_iter().flat_map(|cell| &cell.levels);
            let levels: Vec<String> = levels.map(|level| level_name(stage, level)).collect();
            let name = if levels.is_empty() { stage.heading().into() } else { levels.join(", ") };
            let (window, is_steady) = (None, false);
            all.push(Tracked { cell, name, measure, values, window, is_steady });
        }
    }
    all
}

/// The label of a level, with the name of its axis if the label alone is a bare quantity.
pub(super) fn level_name(stage: &Stage, level: &Level) -> String {
    let axis = stage.axes.iter().find(|axis| axis.name == level.axis);
    match axis.filter(|axis| axis.cases.is_empty()) {
        Some(axis) => format!("{} {}", axis.heading(), level.label),
        None => level.label.clone(),
    }
}

/// One sentence for each measure that a file tracks and that does not exist.
pub fn invalid_tracks(experiment: &Experiment) -> Vec<String> {
    let known: Vec<&str> = Measure::all().map(Measure::word).collect();
    let tracks = experiment.stages.iter().flat_map(|stage| {
        stage.rounds.iter().flat_map(|rounds| &rounds.track).map(|track| (&stage.name, track))
    });
    let wrong = tracks.filter(|(_, track)| Measure::parse(&track.metric).is_none());
    let said = wrong.map(|(stage, track)| {
        let meant = count::did_you_mean(&track.metric, known.iter().copied());
        let (word, known) = (&track.metric, known.join(", "));
        format!("stage `{stage}`, rounds.track: metric is `{word}`, expected one of {known}{meant}")
    });
    said.collect()
}

#[cfg(test)]
mod tests;
