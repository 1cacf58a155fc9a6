//! An experiment: a question, and the stages that answer it.
//!
//! A built-in experiment has the format of a user's file. Named analyses in Rust do what a file
//! cannot express; the file refers to them by name.

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

/// An experiment as stored in a file.
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
    /// Why the question matters, and how to read the answer.
    #[serde(default)]
    pub about: String,
    /// Experiments whose stages precede its own, by name or path; duplicates run once.
    #[serde(default)]
    pub include: Vec<String>,
    /// Size of the test file; by default a tenth of the free space, from 256 MiB to 1 GiB.
    #[serde(default, deserialize_with = "units::bytes::deserialize_option")]
    pub size: Option<u64>,
    /// Analyses of all stages, by name.
    #[serde(default)]
    pub conclude: Vec<String>,
    /// The published procedure that it follows, if any.
    pub procedure: Option<Procedure>,
    /// Its stages, in order.
    #[serde(default, rename = "stage")]
    pub stages: Vec<Stage>,
}

/// A published procedure that an experiment follows in scaled mode; no certification is claimed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Procedure {
    /// Name and version (`SNIA SSS PTS 2.0.2, IOPS test`).
    pub basis: String,
    /// Length of a run in the procedure, seconds.
    pub seconds: f64,
    /// Further deviations of the file from the procedure.
    #[serde(default)]
    pub deviations: Vec<String>,
}

/// A set of cells that run in mixed order and are analysed together.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Stage {
    /// Identifier, unique within the experiment; later stages refer to it.
    pub name: String,
    /// Heading in the report.
    #[serde(default)]
    pub title: String,
    /// The question of this stage.
    #[serde(default)]
    pub question: String,
    /// Parameters that all cells share.
    #[serde(default)]
    pub set: Table,
    /// Varied parameters.
    #[serde(default, rename = "axis")]
    pub axes: Vec<Axis>,
    /// How the levels of the axes are combined.
    #[serde(default)]
    pub design: Design,
    /// Order of the cells of a block.
    #[serde(default)]
    pub order: Order,
    /// Runs of each cell.
    #[serde(default = "three")]
    pub repeats: u32,
    /// Whether each cell runs exactly this often: no wait for a quiet machine, and no repeat of
    /// runs that other programs disturbed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed_repeats: bool,
    /// Length of a run, warm-up included, seconds.
    #[serde(default = "thirty")]
    pub seconds: f64,
    /// Share of that length that is warm-up, percent.
    #[serde(default = "ten")]
    pub warm_up_percent: u8,
    /// Pause before each run, seconds.
    #[serde(default)]
    pub idle_seconds: f64,
    /// When the data to be read is written.
    #[serde(default)]
    pub prefill: Prefill,
    /// Share of the target that is used (SNIA: active range), percent.
    #[serde(default = "hundred")]
    pub active_range_percent: u8,
    /// How the target is purged before anything else.
    pub purge: Option<Purge>,
    /// The device's volatile write cache during the stage; it is restored afterwards.
    pub write_cache: Option<Switch>,
    /// How long the device must have been powered, as far as this machine knows (`3h`).
    pub energised_for: Option<String>,
    /// Writes before the first run.
    pub precondition: Option<Precondition>,
    /// Rounds until a steady state, instead of repeats.
    pub rounds: Option<Rounds>,
    /// Search for the best cell, instead of running all cells; `repeats` then applies to each cell
    /// near the best.
    pub search: Option<Search>,
    /// Whether each writing run ends with a timed fsync.
    #[serde(default)]
    pub final_sync: bool,
    /// What ends the stage, a cell or a run early.
    #[serde(default)]
    pub until: Until,
    /// Requirement that not every target meets.
    #[serde(default)]
    pub needs: Needs,
    /// Analyses of this stage, by name.
    #[serde(default)]
    pub analysis: Vec<String>,
    /// Charts of this stage.
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

/// A varied parameter and its levels, which exactly one of the six ways below gives.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Axis {
    /// A parameter (`iodepth`), or any other name for an axis of cases.
    pub name: String,
    /// The title of the parameter if absent.
    pub title: String,
    /// The levels themselves.
    pub values: Vec<toml::Value>,
    /// Evenly spaced levels.
    pub range: Option<Range>,
    /// Powers of two between two levels.
    pub powers_of_two: Option<Span>,
    /// Named levels, each of which sets several parameters.
    pub cases: Vec<Table>,
    /// A figure that an earlier stage determined (`queue-depth.knee`).
    pub from: String,
    /// The levels as multiples of that figure.
    pub times: Vec<f64>,
    /// The levels are the claims of the data sheet given by `--spec`.
    pub claims: bool,
}

/// Evenly spaced levels, both ends included.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    pub from: toml::Value,
    /// Upper bound of the last level.
    pub to: toml::Value,
    pub step: toml::Value,
}

/// Bounds of the levels.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    pub from: toml::Value,
    /// Upper bound of the last level.
    pub to: toml::Value,
}

/// How the levels of the axes are combined.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// Every level of an axis with every level of every other.
    #[default]
    Factorial,
    /// One axis at a time, the others at their first level.
    OneFactor,
}

/// Order of the cells of a block.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Each block holds every cell once, in its own random order from the seed (method 2.2).
    #[default]
    Random,
    /// The order of the axes, for cells that must not be mixed.
    Given,
}

/// When the data to be read is written.
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

/// What ends a stage, a cell or a run early.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Until {
    /// A run ends as soon as a figure reaches this precision (`iops+-2%`).
    pub known: String,
    /// A cell is repeated until the half-width of the 95 % confidence interval of its mean rate is
    /// at most this, percent of the mean.
    pub width_percent: Option<f64>,
    /// Most runs of a cell under `width_percent`.
    pub max_repeats: Option<u32>,
    /// A rising sweep ends at two levels in a row this far below its best rate, percent.
    pub worse_percent: Option<f64>,
    /// The stage takes no longer than this, minutes.
    pub minutes: Option<f64>,
}

/// A requirement of a stage that not every target meets.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needs {
    #[default]
    Nothing,
    /// A rotating disk.
    Rotation,
    /// The claims of a data sheet.
    Claims,
    /// Permission to write to the target.
    Writing,
}

/// A chart of a stage.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Figure {
    /// Kind (`trade-off`).
    pub kind: String,
    /// Heading; the stage's if absent.
    pub title: String,
    /// The horizontal axis; the stage's first axis if absent.
    pub x: String,
    /// The axis that distinguishes the series; all other axes if absent.
    pub series: String,
    /// Plotted figures, if the kind does not define them.
    pub metrics: Vec<String>,
    /// Reads or writes only; both together if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Levels that select the cells, if the kind shows rounds.
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
    /// smallest unit in a fio job.
    pub fn parts_of_ns(&self, length_ns: u64) -> (u64, u64) {
        let length_us = length_ns / 1000;
        let warm_up_us = length_us * u64::from(self.warm_up_percent.min(90)) / 100;
        (warm_up_us * 1000, (length_us - warm_up_us) * 1000)
    }

    /// Heading in the report.
    pub fn heading(&self) -> &str {
        if self.title.is_empty() { &self.name } else { &self.title }
    }

    /// Purge method of the stage, if any.
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
