//! Design of a stage: from axes to cells, and from cells to blocks in random order.

mod sense;
mod tracked;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::value::Table;

use super::chance::{Chance, mix};
use crate::spec::experiment::{
    Axis, Claims, Design, Experiment, Order, Parameter, Stage, Value, parameter::ParameterError,
};
use crate::units::{count, duration};
pub use tracked::tracked;

/// One level of one axis.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Level {
    pub axis: String,
    /// The label as printed (`64 KiB`).
    pub label: String,
    /// The value, if the axis is numeric: bytes, operations per second, percent, ns, a count.
    pub value: Option<f64>,
    /// The parameters that it sets, in the order of the file.
    pub set: Vec<(Parameter, Value)>,
}

/// One combination of levels.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Cell {
    /// Index in the stage, from 0.
    pub index: usize,
    /// One level of each axis, in the order of the axes.
    pub levels: Vec<Level>,
}

/// Why a stage has no cells.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DesignError {
    /// A parameter or its value is invalid.
    #[error("stage `{stage}`, axis {axis}: {source}")]
    Parameter {
        stage: String,
        /// The axis, or `set`.
        axis: String,
        source: ParameterError,
    },
    /// An axis has no levels, or levels given in two ways.
    #[error("stage `{stage}`, axis `{axis}`: {what}")]
    Axis {
        stage: String,
        axis: String,
        /// What is wrong, and how to fix it.
        what: String,
    },
    /// The stage is invalid, or has too many runs.
    #[error("stage `{stage}`: {what}")]
    Stage {
        stage: String,
        /// What is wrong, and how to fix it.
        what: String,
    },
    /// No earlier stage determines a required figure.
    #[error("stage `{stage}`, axis `{axis}`: {what}")]
    Source {
        stage: String,
        axis: String,
        /// What is missing.
        what: String,
    },
}

const NO_LEVELS: &str = "it has no levels; give values, range, powers-of-two or cases";
/// Most runs of one stage.
pub const MAX_TRIALS: u64 = 20_000;

/// Figures that earlier stages determined, by `stage.figure`.
pub type Found = BTreeMap<String, f64>;

/// The cells of a stage, in the order of its axes; the last axis varies fastest.
///
/// # Errors
/// If an axis has no levels, a level is invalid for its parameter, there are too many cells, or a
/// figure that an axis refers to is missing.
pub fn cells(
    stage: &Stage,
    found: &Found,
    claims: Option<&Claims>,
) -> Result<Vec<Cell>, DesignError> {
    let mut axes = Vec::new();
    for axis in &stage.axes {
        let levels = levels(stage, axis, found, claims)?;
        if levels.is_empty() {
            return Err(of_axis(stage, axis, NO_LEVELS));
        }
        axes.push(levels);
    }
    few_enough(stage, &axes)?;
    let combined = match stage.design {
        Design::Factorial => product(&axes),
        Design::OneFactor => one_at_a_time(&axes),
    };
    let numbered = combined.into_iter().enumerate();
    Ok(numbered.map(|(index, levels)| Cell { index, levels }).collect())
}

/// The parameters that all cells of a stage share.
///
/// # Errors
/// If a parameter is unknown or its value invalid.
pub fn shared(stage: &Stage) -> Result<Vec<(Parameter, Value)>, DesignError> {
    settings(&stage.name, "set", &stage.set)
}

/// Checks that every stage can be laid out, as far as is known before any has run: names are
/// unique, axes have levels, and figures come from earlier stages.
///
/// # Errors
/// The first fault.
pub fn check(experiment: &Experiment, claims: Option<&Claims>) -> Result<(), DesignError> {
    let mut earlier: Vec<&str> = Vec::new();
    for stage in &experiment.stages {
        if earlier.contains(&stage.name.as_str()) {
            return Err(of_stage(stage, "a stage of this name came before; give it another"));
        }
        sense::makes_sense(stage)?;
        shared(stage)?;
        let mut found = Found::new();
        for axis in stage.axes.iter().filter(|axis| !axis.from.is_empty()) {
            let Some((source, _)) = axis.from.split_once('.') else {
                let what = format!("found from = \"{}\", expected \"stage.figure\"", axis.from);
                return Err(of_source(stage, axis, what));
            };
            if source == stage.name {
                let what = "it refers to its own stage (circular reference)";
                return Err(of_source(stage, axis, what));
            }
            if !earlier.contains(&source) {
                let later = experiment.stage(source).is_some();
                let what = if later {
                    format!("stage `{source}` comes later; move it before, or remove the reference")
                } else {
                    format!("there is no stage `{source}` before it")
                };
                return Err(of_source(stage, axis, what));
            }
            if experiment.stage(source).is_some_and(|stage| stage.analysis.is_empty()) {
                let what = format!("stage `{source}` has no analysis, so that it finds nothing");
                return Err(of_source(stage, axis, what));
            }
            // A placeholder: only the number of levels matters here.
            found.insert(axis.from.clone(), 1.0);
        }
        // Without a data sheet, a stage of claims is skipped, which is no fault.
        if claims.is_some() || !stage.axes.iter().any(|axis| axis.claims) {
            let cells = cells(stage, &found, claims)?;
            let tracks = stage.rounds.iter().flat_map(|rounds| &rounds.track);
            // Levels from an earlier stage are still unknown.
            for track in tracks.filter(|_| found.is_empty()) {
                tracked(stage, &cells, track)?;
            }
        }
        earlier.push(&stage.name);
    }
    Ok(())
}

/// The order of the cells in block `block`.
pub fn block(cells: usize, block: u32, order: Order, seed: u64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..cells).collect();
    if order == Order::Random {
        let mut chance = Chance::new(mix(seed ^ mix(u64::from(block) + 1)));
        // Fisher-Yates shuffle.
        for last in (1..cells).rev() {
            places.swap(last, chance.below(last as u64 + 1) as usize);
        }
    }
    places
}

/// Planned length of a stage without target preparation, ns.
pub fn length_ns(stage: &Stage, cells: usize) -> u64 {
    let each = (stage.seconds + stage.idle_seconds) * 1e9;
    let runs = if stage.rounds.is_some() { stage.most_repeats() } else { stage.repeats };
    let all = each * cells as f64 * f64::from(runs);
    let most_runs = stage.search.as_ref().map_or(f64::INFINITY, |s| f64::from(s.max_runs));
    let all = all.min(each * most_runs);
    let most = stage.until.minutes.map_or(f64::INFINITY, |minutes| minutes * 60e9);
    all.min(most) as u64
}

fn of_stage(stage: &Stage, what: impl Into<String>) -> DesignError {
    DesignError::Stage { stage: stage.name.clone(), what: what.into() }
}

fn of_axis(stage: &Stage, axis: &Axis, what: impl Into<String>) -> DesignError {
    let (stage, axis) = (stage.name.clone(), axis.name.clone());
    DesignError::Axis { stage, axis, what: what.into() }
}

fn of_source(stage: &Stage, axis: &Axis, what: impl Into<String>) -> DesignError {
    let (stage, axis) = (stage.name.clone(), axis.name.clone());
    DesignError::Source { stage, axis, what: what.into() }
}

fn few_enough(stage: &Stage, axes: &[Vec<Level>]) -> Result<(), DesignError> {
    let counts = axes.iter().map(|levels| levels.len() as u128);
    let cells: u128 = match stage.design {
        Design::Factorial => counts.fold(1, u128::saturating_mul),
        Design::OneFactor => 1 + counts.map(|count| count - 1).sum::<u128>(),
    };
    let trials = cells.saturating_mul(u128::from(stage.most_repeats().max(1)));
    if trials <= u128::from(MAX_TRIALS) {
        return Ok(());
    }
    Err(many(stage, count::thousands(u64::try_from(cells).unwrap_or(u64::MAX)), cells as f64))
}

fn many(stage: &Stage, cells: String, count: f64) -> DesignError {
    let trials = count * f64::from(stage.most_repeats().max(1));
    let seconds = (stage.seconds + stage.idle_seconds) * trials;
    let what = format!(
        "{cells} cells and {} repeats are {} runs, which take {}; at most {MAX_TRIALS} are carried \
         out: give fewer levels",
        stage.most_repeats(),
        count::thousands(trials.min(1e18) as u64),
        duration::span((seconds * 1e9).min(u64::MAX as f64) as u64),
    );
    of_stage(stage, what)
}

fn product(axes: &[Vec<Level>]) -> Vec<Vec<Level>> {
    let mut all: Vec<Vec<Level>> = vec![Vec::new()];
    for levels in axes {
        let longer = |before: &Vec<Level>| {
            let before = before.clone();
            levels
                .iter()
                .map(move |level| [before.as_slice(), std::slice::from_ref(level)].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

fn one_at_a_time(axes: &[Vec<Level>]) -> Vec<Vec<Level>> {
    let base: Vec<Level> = axes.iter().map(|levels| levels[0].clone()).collect();
    let mut all = vec![base.clone()];
    for (place, levels) in axes.iter().enumerate() {
        for level in &levels[1..] {
            let mut changed = base.clone();
            changed[place] = level.clone();
            all.push(changed);
        }
    }
    all
}

fn levels(
    stage: &Stage,
    axis: &Axis,
    found: &Found,
    claims: Option<&Claims>,
) -> Result<Vec<Level>, DesignError> {
    let wrong = |what: &str| of_axis(stage, axis, what);
    let ways = [
        !axis.values.is_empty(),
        axis.range.is_some(),
        axis.powers_of_two.is_some(),
        !axis.cases.is_empty(),
        !axis.from.is_empty(),
        axis.claims,
    ];
    match ways.iter().filter(|way| **way).count() {
        0 => return Err(wrong(NO_LEVELS)),
        1 => {}
        _ => return Err(wrong("its levels are given in two ways; give one of them")),
    }
    if axis.claims {
        let claims = claims.map_or(&[][..], |claims| &claims.claims);
        return claims
            .iter()
            .map(|claim| {
                let set = settings(&stage.name, &axis.name, &claim.set)?;
                Ok(Level { axis: axis.name.clone(), label: claim.name.clone(), value: None, set })
            })
            .collect();
    }
    if !axis.cases.is_empty() {
        return axis.cases.iter().map(|case| of_case(stage, axis, case)).collect();
    }
    let parameter = Parameter::parse(&axis.name).map_err(|source| at(stage, axis, source))?;
    let values = match (&axis.range, &axis.powers_of_two) {
        (Some(range), _) => {
            let [from, to, step] = [&range.from, &range.to, &range.step]
                .map(|given| number_of(stage, axis, parameter, given));
            let (from, to, step) = (from?, to?, step?);
            if step <= 0.0 || to < from {
                return Err(wrong("a range goes upwards, by a step above 0"));
            }
            let steps = ((to - from) / step + 1e-9).floor();
            if steps >= MAX_TRIALS as f64 {
                let levels = count::thousands((steps + 1.0).min(1e18) as u64);
                return Err(many(stage, levels, (steps + 1.0).min(1e18)));
            }
            (0..=(steps as u64)).map(|index| Value::Number(from + step * index as f64)).collect()
        }
        (None, Some(span)) => {
            let [from, to] = [&span.from, &span.to].map(|g| number_of(stage, axis, parameter, g));
            let (from, to) = (from?, to?);
            if from < 1.0 || to < from {
                return Err(wrong("powers of two go upwards, from 1 at least"));
            }
            let mut values = Vec::new();
            let mut value = from;
            while value <= to && values.len() < 64 {
                values.push(Value::Number(value));
                value *= 2.0;
            }
            values
        }
        (None, None) if !axis.from.is_empty() => {
            return of_figure(stage, axis, parameter, found);
        }
        (None, None) => axis
            .values
            .iter()
            .map(|given| parameter.value(given).map_err(|source| at(stage, axis, source)))
            .collect::<Result<Vec<Value>, DesignError>>()?,
    };
    let twice = |place: usize| values[..place].contains(&values[place]);
    if let Some(place) = (0..values.len()).find(|place| twice(*place)) {
        let value = parameter.formatted(&values[place]);
        let what = format!("{value} is listed twice; give repeats to run it more often");
        return Err(wrong(&what));
    }
    Ok(values.into_iter().map(|value| level(axis, parameter, value)).collect())
}

fn level(axis: &Axis, parameter: Parameter, value: Value) -> Level {
    Level {
        axis: axis.name.clone(),
        label: parameter.formatted(&value),
        value: value.number(),
        set: vec![(parameter, value)],
    }
}

/// A level from a case: its name, and the parameters that it sets.
fn of_case(stage: &Stage, axis: &Axis, case: &Table) -> Result<Level, DesignError> {
    let mut rest = case.clone();
    let name = rest.remove("name");
    let Some(name) = name.as_ref().and_then(toml::Value::as_str) else {
        return Err(of_axis(stage, axis, "a case has no name; give name = \"…\""));
    };
    let set = settings(&stage.name, &axis.name, &rest)?;
    let value = match set.as_slice() {
        [(parameter, value)] if parameter.word() == axis.name => value.number(),
        _ => None,
    };
    Ok(Level { axis: axis.name.clone(), label: name.into(), value, set })
}

/// Distinct multiples of a figure of an earlier stage; counts are rounded and at least 1.
fn of_figure(
    stage: &Stage,
    axis: &Axis,
    parameter: Parameter,
    found: &Found,
) -> Result<Vec<Level>, DesignError> {
    let Some(figure) = found.get(&axis.from) else {
        return Err(of_source(stage, axis, format!("`{}` was not found by its stage", axis.from)));
    };
    let is_count = parameter.quantity() == crate::spec::experiment::parameter::Quantity::Count;
    let mut values: Vec<f64> = Vec::new();
    for times in &axis.times {
        let value = if is_count { (figure * times).round().max(1.0) } else { figure * times };
        if !values.contains(&value) {
            values.push(value);
        }
    }
    Ok(values.into_iter().map(|value| level(axis, parameter, Value::Number(value))).collect())
}

fn number_of(
    stage: &Stage,
    axis: &Axis,
    parameter: Parameter,
    given: &toml::Value,
) -> Result<f64, DesignError> {
    let value = parameter.value(given).map_err(|source| at(stage, axis, source))?;
    value.number().ok_or_else(|| {
        let what = format!("`{}` takes words, which have no range; give values", parameter.word());
        of_axis(stage, axis, what)
    })
}

fn at(stage: &Stage, axis: &Axis, source: ParameterError) -> DesignError {
    DesignError::Parameter { stage: stage.name.clone(), axis: format!("`{}`", axis.name), source }
}

fn settings(
    stage: &str,
    axis: &str,
    table: &Table,
) -> Result<Vec<(Parameter, Value)>, DesignError> {
    let wrong = |source| DesignError::Parameter { stage: stage.into(), axis: axis.into(), source };
    table
        .iter()
        .map(|(word, given)| {
            let parameter = Parameter::parse(word).map_err(wrong)?;
            Ok((parameter, parameter.value(given).map_err(wrong)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn experiment(text: &str) -> Experiment {
        toml::from_str(&format!("name = \"x\"\nquestion = \"?\"\n{text}")).unwrap()
    }

    fn of(text: &str) -> Result<Vec<Cell>, DesignError> {
        let experiment = experiment(&format!("[[stage]]\nname = \"s\"\n{text}"));
        cells(&experiment.stages[0], &Found::new(), None)
    }

    fn labels(cells: &[Cell]) -> Vec<String> {
        let label = |cell: &Cell| {
            cell.levels.iter().map(|level| level.label.clone()).collect::<Vec<_>>().join("/")
        };
        cells.iter().map(label).collect()
    }

    const TWO: &str = "[[stage.axis]]\nname = \"iodepth\"\npowers-of-two = { from = 1, to = 8 }\n\
                       [[stage.axis]]\nname = \"rw\"\nvalues = [\"read\", \"randread\"]\n";

    #[test]
    fn levels_are_combined_or_varied_one_at_a_time() {
        let all = of(TWO).unwrap();
        assert_eq!(all.len(), 8);
        assert_eq!(labels(&all)[..3], ["1/read", "1/randread", "2/read"]);
        assert_eq!(all[5].index, 5);
        let one = of(&format!("design = \"one-factor\"\n{TWO}")).unwrap();
        assert_eq!(labels(&one), ["1/read", "2/read", "4/read", "8/read", "1/randread"]);
        assert_eq!(one[1].levels[0].set, [(Parameter::Iodepth, Value::Number(2.0))]);
        let range = "[[stage.axis]]\nname = \"read-percent\"\n\
                     range = { from = 0, to = 100, step = 25 }\n";
        let expected = ["0 %", "25 %", "50 %", "75 %", "100 %"];
        assert_eq!(labels(&of(range).unwrap()), expected);
    }

    #[test]
    fn a_figure_gives_whole_levels_each_once() {
        let text = "[[stage]]\nname = \"a\"\nanalysis = [\"knee\"]\n\
                    [[stage]]\nname = \"b\"\n[[stage.axis]]\n\
                    name = \"iodepth\"\nfrom = \"a.knee\"\ntimes = [0.1, 0.5, 1, 2]\n";
        let experiment = experiment(text);
        check(&experiment, None).unwrap();
        let found = Found::from([("a.knee".to_owned(), 3.0)]);
        let cells = cells(&experiment.stages[1], &found, None).unwrap();
        assert_eq!(labels(&cells), ["1", "2", "3", "6"]);
    }

    #[test]
    fn what_cannot_be_laid_out_is_refused_with_its_reason() {
        let axis = |rest: &str| of(&format!("[[stage.axis]]\nname = \"iodepth\"\n{rest}\n"));
        let said = |result: Result<Vec<Cell>, DesignError>| result.unwrap_err().to_string();
        assert!(said(axis("values = []")).contains("it has no levels"));
        assert!(
            said(axis("values = [1]\npowers-of-two = {from = 1, to = 2}")).contains("two ways")
        );
        assert!(said(axis("values = [\"x\"]")).contains("expected a whole number"));
        assert!(said(axis("range = {from = 4, to = 1, step = 1}")).contains("upwards"));
        let million = "[[stage.axis]]\nname = \"iodepth\"\n\
                       range = {from = 1, to = 1000, step = 1}\n\
                       [[stage.axis]]\nname = \"span\"\nrange = {from = 1, to = 1000, step = 1}\n";
        let error = said(of(million));
        assert!(error.contains("1,000,000 cells") && error.contains("take"), "{error}");
        let span = "[[stage.axis]]\nname = \"span\"\nrange = {from = 1, to = 1000000, step = 1}\n";
        let long = said(of(span));
        assert!(long.contains("1,000,000 cells") && long.contains("3,000,000 runs"), "{long}");
        assert!(said(axis("values = [1.5]")).contains("expected a whole number"));
        assert!(said(axis("values = [1, 2, 1]")).contains("is listed twice"));
        for (stage, says) in [
            ("name = \"a/b\"", "file names"),
            ("name = \"..\"", "file names"),
            ("name = \"\"", "file names"),
            ("name = \"s\"\nseconds = nan", "seconds: found NaN"),
            ("name = \"s\"\nseconds = 0", "seconds: found 0"),
            ("name = \"s\"\nidle-seconds = -1", "idle-seconds"),
            ("name = \"s\"\nrepeats = 0", "repeats"),
            ("name = \"s\"\nwarm-up-percent = 95", "warm-up-percent"),
            ("name = \"s\"\nuntil = {width-percent = 5}", "max-repeats too"),
            ("name = \"s\"\nuntil = {max-repeats = 5}", "no effect"),
            (
                "name = \"s\"\nset = {iodepth = 2}\n\
                 [[stage.axis]]\nname = \"iodepth\"\nvalues = [1]",
                "no effect",
            ),
            (
                "name = \"s\"\n[[stage.axis]]\nname = \"iodepth\"\nvalues = [1]\ntimes = [2]",
                "no effect",
            ),
        ] {
            let error = check(&experiment(&format!("[[stage]]\n{stage}\n")), None).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
        let circle = "[[stage]]\nname = \"a\"\n[[stage.axis]]\nname = \"iodepth\"\n\
                      from = \"b.knee\"\ntimes = [1]\n[[stage]]\nname = \"b\"\n";
        let error = check(&experiment(circle), None).unwrap_err().to_string();
        assert!(error.contains("comes later"), "{error}");
        let own = circle.replace("b.knee", "a.knee");
        assert!(check(&experiment(&own), None).unwrap_err().to_string().contains("circular"));
        let none = circle.replace("b.knee", "c.knee");
        let error = check(&experiment(&none), None).unwrap_err().to_string();
        assert!(error.contains("no stage `c` before it"), "{error}");
    }

    /// T16: a drift during the runs does not look like an effect.
    #[test]
    fn a_drift_does_not_look_like_an_effect() {
        let (blocks, ratio) = (20, 1.10);
        let measured = |cell: usize, position: f64| {
            // 40 % slower at the end than at the start.
            let drift = 1.0 - 0.4 * position / (2.0 * f64::from(blocks));
            if cell == 0 { drift } else { ratio * drift }
        };
        let ratio_of = |order: &[usize]| {
            let mut sums = [0.0; 2];
            for (position, cell) in order.iter().enumerate() {
                sums[*cell] += measured(*cell, position as f64);
            }
            sums[1] / sums[0]
        };
        let found: Vec<f64> = (0..50)
            .map(|seed| {
                let blocks = (0..blocks).flat_map(|each| block(2, each, Order::Random, seed));
                ratio_of(&blocks.collect::<Vec<usize>>())
            })
            .collect();
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        assert!((mean - ratio).abs() < 0.002, "{mean}");
        assert!(found.iter().all(|found| (found - ratio).abs() < 0.02), "{found:?}");
        // In sequence, the drift more than hides the effect.
        let in_turn: Vec<usize> = [vec![0; 20], vec![1; 20]].concat();
        assert!(ratio_of(&in_turn) < 0.9);
    }

    #[test]
    fn each_block_holds_every_cell_once_in_an_order_of_its_own() {
        let first = block(50, 0, Order::Random, 7);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
        assert_ne!(first, sorted);
        assert_eq!(first, block(50, 0, Order::Random, 7));
        assert_ne!(first, block(50, 1, Order::Random, 7));
        assert_ne!(first, block(50, 0, Order::Random, 8));
        assert_eq!(block(3, 0, Order::Given, 7), [0, 1, 2]);
    }
}
