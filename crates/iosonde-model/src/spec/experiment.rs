//! An experiment: a question, and the stages of cells that answer it.
//!
//! A built-in experiment is a file like any user's. What a file cannot say, a named analysis in
//! Rust does, and the file names it.

pub mod claims;
pub mod parameter;
pub mod rounds;
mod search;
pub mod state;

use serde::{Deserialize, Serialize};
use toml::value::Table;

use super::Direction;
use crate::units;
pub use claims::{Claim, Claims};
pub use parameter::{Parameter, Value};
pub use rounds::{PassOrder, Precondition, Rounds, Track};
pub use search::Search;
pub use state::{Purge, Switch};

/// A question to a target, as kept in a file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// Identifier, lower case (`queue-depth`).
    pub name: String,
    /// Name as printed in headings.
    #[serde(default)]
    pub title: String,
    /// The question it answers.
    pub question: String,
    /// Why one asks, and how to read the answer.
    #[serde(default)]
    pub about: String,
    /// Experiments whose stages come before its own, by name or by the path of a file; what is
    /// included twice is carried out once.
    #[serde(default)]
    pub include: Vec<String>,
    /// Size of the test file in a directory; a tenth of the free space, 256 MiB to 1 GiB, if
    /// absent.
    #[serde(default, deserialize_with = "units::bytes::deserialize_option")]
    pub size: Option<u64>,
    /// Analyses over all stages, by name.
    #[serde(default)]
    pub conclude: Vec<String>,
    /// The published procedure that it follows, where it does.
    pub procedure: Option<Procedure>,
    /// Its stages, in order.
    #[serde(default, rename = "stage")]
    pub stages: Vec<Stage>,
}

/// A published procedure that an experiment follows in scaled mode; no certification is claimed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Procedure {
    /// Which (`SNIA SSS PTS 2.0.2, IOPS test`).
    pub basis: String,
    /// Length of a run there, seconds.
    pub seconds: f64,
    /// Further deviations of the file from it.
    #[serde(default)]
    pub deviations: Vec<String>,
}

/// A set of cells that are carried out in mixed order and analysed together.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Stage {
    /// Identifier, unique within the experiment; what later stages refer to.
    pub name: String,
    /// Heading in the report.
    #[serde(default)]
    pub title: String,
    /// What this stage asks.
    #[serde(default)]
    pub question: String,
    /// Parameters that all cells share.
    #[serde(default)]
    pub set: Table,
    /// What is varied.
    #[serde(default, rename = "axis")]
    pub axes: Vec<Axis>,
    /// Whether the levels of all axes are combined.
    #[serde(default)]
    pub design: Design,
    /// In which order the cells of a block are carried out.
    #[serde(default)]
    pub order: Order,
    /// Runs of each cell.
    #[serde(default = "three")]
    pub repeats: u32,
    /// Whether each cell has exactly so many: nothing waits for a quiet machine, and runs that
    /// others disturbed are not repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed_repeats: bool,
    /// Length of a run, warm-up included, seconds.
    #[serde(default = "thirty")]
    pub seconds: f64,
    /// Share of that length which is warm-up, percent.
    #[serde(default = "ten")]
    pub warm_up_percent: u8,
    /// Pause before each run, seconds.
    #[serde(default)]
    pub idle_seconds: f64,
    /// When what is read is written.
    #[serde(default)]
    pub prefill: Prefill,
    /// Share of the target that is used, percent.
    #[serde(default = "hundred")]
    pub active_range_percent: u8,
    /// How the target is purged before anything else.
    pub purge: Option<Purge>,
    /// The device's volatile write cache during the stage; it is restored afterwards.
    pub write_cache: Option<Switch>,
    /// How long the device must have been powered before, as far as this machine knows (`3h`).
    pub energised_for: Option<String>,
    /// Writes before the first run.
    pub precondition: Option<Precondition>,
    /// Rounds until a steady state, in place of repeats.
    pub rounds: Option<Rounds>,
    /// Search for the best cell, in place of runs of all cells; `repeats` are then the runs of each
    /// cell near the best.
    pub search: Option<Search>,
    /// Whether each writing run ends with a timed fsync.
    #[serde(default)]
    pub final_sync: bool,
    /// What ends the stage, a cell or a run before its time.
    #[serde(default)]
    pub until: Until,
    /// What it takes that not every target has.
    #[serde(default)]
    pub needs: Needs,
    /// Analyses of this stage, by name.
    #[serde(default)]
    pub analysis: Vec<String>,
    /// Pictures of this stage.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
}

fn three() -> u32 {
    3
}

fn thirty() -> f64 {
    30.0
}

fn ten() -> u8 {
    10
}

fn hundred() -> u8 {
    100
}

/// Something that is varied, and its levels: of these five ways to give them exactly one.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Axis {
    /// A parameter (`iodepth`), or any other name for an axis of cases.
    pub name: String,
    /// Name as printed; the parameter's own if absent.
    pub title: String,
    /// These levels.
    pub values: Vec<toml::Value>,
    /// Evenly spaced levels.
    pub range: Option<Range>,
    /// Powers of two from one level to another.
    pub powers_of_two: Option<Span>,
    /// Levels with a name, each of which sets several parameters.
    pub cases: Vec<Table>,
    /// A figure that an earlier stage has found (`queue-depth.knee`).
    pub from: String,
    /// The levels as multiples of that figure.
    pub times: Vec<f64>,
    /// Levels are the claims of the data sheet that `--spec` names.
    pub claims: bool,
}

/// Evenly spaced levels, both ends included.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The first.
    pub from: toml::Value,
    /// The last, at most.
    pub to: toml::Value,
    /// Distance.
    pub step: toml::Value,
}

/// Two ends.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The first.
    pub from: toml::Value,
    /// The last, at most.
    pub to: toml::Value,
}

/// Whether the levels of all axes are combined.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// Every level of an axis with every level of every other.
    #[default]
    Factorial,
    /// One axis at a time, the others at their first level.
    OneFactor,
}

/// In which order the cells of a block are carried out.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Each block holds every cell once, in an order of its own drawn from the seed (method 2.2).
    #[default]
    Random,
    /// As the axes say, for what must not be mixed.
    Given,
}

/// When what is read is written.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefill {
    /// Once, when the test file is made.
    #[default]
    Once,
    /// Before this stage begins.
    Stage,
    /// Before each run, so that no run inherits what another wrote.
    Run,
}

/// What ends a stage, a cell or a run before its time.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Until {
    /// A run ends as soon as a figure is known this well (`iops+-2%`).
    pub known: String,
    /// A cell is repeated until half the 95 % interval of its mean rate is at most this share of
    /// it, percent.
    pub width_percent: Option<f64>,
    /// Runs of a cell, at most, where its width decides.
    pub max_repeats: Option<u32>,
    /// A rising sweep ends when its rate has been this much below its best at two levels in a row,
    /// percent.
    pub worse_percent: Option<f64>,
    /// The stage takes no longer than this, minutes.
    pub minutes: Option<f64>,
}

/// What a stage takes that not every target has.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needs {
    #[default]
    Nothing,
    /// A disk that turns.
    Rotation,
    /// The claims of a data sheet.
    Claims,
    /// A target that may be written.
    Writing,
}

/// A picture of a stage.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Figure {
    /// Which kind (`trade-off`).
    pub kind: String,
    /// Heading; the stage's if absent.
    pub title: String,
    /// The axis along the bottom; the stage's first if absent.
    pub x: String,
    /// The axis that makes the series; the others if absent.
    pub series: String,
    /// What is shown, where the kind leaves it open.
    pub metrics: Vec<String>,
    /// Of reads or writes alone; of both together if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Levels that all cells of it have, where the kind shows rounds.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub cell: Table,
}

impl Experiment {
    /// Name as printed in headings.
    pub fn heading(&self) -> &str {
        if self.title.is_empty() { &self.name } else { &self.title }
    }

    /// The stage of this name.
    pub fn stage(&self, name: &str) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.name == name)
    }
}

impl Stage {
    /// Requests in flight per job of all cells, unless an axis or a role says otherwise.
    pub fn depth(&self) -> u32 {
        let depth = self.set.get("iodepth").and_then(toml::Value::as_integer);
        depth.and_then(|depth| u32::try_from(depth).ok()).unwrap_or(1)
    }

    /// Warm-up and measurement of each run, ns.
    pub fn parts_ns(&self) -> (u64, u64) {
        self.parts_of_ns((self.seconds * 1e9).round() as u64)
    }

    /// Warm-up and measurement of a run of this length, ns. Both are whole microseconds, the
    /// smallest unit that a fio job has for them.
    pub fn parts_of_ns(&self, length_ns: u64) -> (u64, u64) {
        let length_us = length_ns / 1000;
        let warm_up_us = length_us * u64::from(self.warm_up_percent.min(90)) / 100;
        (warm_up_us * 1000, (length_us - warm_up_us) * 1000)
    }

    /// Heading in the report.
    pub fn heading(&self) -> &str {
        if self.title.is_empty() { &self.name } else { &self.title }
    }

    /// How the target is purged before the stage, if it is.
    pub fn purged(&self) -> Option<Purge> {
        self.purge.filter(|method| *method != Purge::None)
    }

    /// Whether the stage brings its target into a state that its runs depend on.
    pub fn has_state(&self) -> bool {
        self.precondition.is_some() || self.rounds.is_some() || self.purged().is_some()
    }

    /// Most runs of a cell.
    pub fn most_repeats(&self) -> u32 {
        if let Some(rounds) = &self.rounds {
            return rounds.max;
        }
        let wider = self.until.width_percent.and(self.until.max_repeats).unwrap_or(0);
        self.repeats.max(wider)
    }
}

impl Axis {
    /// Name as printed.
    pub fn heading(&self) -> &str {
        match (self.title.as_str(), Parameter::parse(&self.name)) {
            ("", Ok(parameter)) => parameter.title(),
            ("", Err(_)) => &self.name,
            (title, _) => title,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_run_are_whole_microseconds() {
        let parts = |seconds, warm_up_percent| {
            let stage =
                Stage { seconds, warm_up_percent, ..toml::from_str("name = \"s\"").unwrap() };
            stage.parts_ns()
        };
        assert_eq!(parts(30.0, 10), (3_000_000_000, 27_000_000_000));
        // A fifteenth of ten seconds, as in a quick experiment.
        assert_eq!(parts(10.0 / 15.0, 10), (66_666_000, 600_000_000));
        // 2.3 is a little less in binary.
        assert_eq!(parts(2.3, 0), (0, 2_300_000_000));
    }
}
