//! The cells whose figures must be steady.

use super::{Cell, DesignError, Level, of_stage};
use crate::spec::experiment::parameter::plain;
use crate::spec::experiment::{Parameter, Stage, Track};

/// Indexes of the cells that have all levels of a tracked figure.
///
/// # Errors
/// If an axis does not exist, or no cell has these levels.
pub fn tracked(stage: &Stage, cells: &[Cell], track: &Track) -> Result<Vec<usize>, DesignError> {
    for axis in track.cell.keys() {
        if !stage.axes.iter().any(|known| same(&known.name, axis)) {
            let axes: Vec<&str> = stage.axes.iter().map(|axis| axis.name.as_str()).collect();
            let known = if axes.is_empty() { "none".into() } else { axes.join(", ") };
            let what = format!("rounds.track: no axis `{axis}`; its axes: {known}");
            return Err(of_stage(stage, what));
        }
    }
    let has = |cell: &Cell, axis: &str, value: &toml::Value| {
        cell.levels.iter().any(|level| same(&level.axis, axis) && is_at(level, value))
    };
    let fits = |cell: &&Cell| track.cell.iter().all(|(axis, value)| has(cell, axis, value));
    let found: Vec<usize> = cells.iter().filter(fits).map(|cell| cell.index).collect();
    if found.is_empty() {
        let levels = track.cell.iter().map(|(axis, value)| format!("{axis} = {}", plain(value)));
        let levels: Vec<String> = levels.collect();
        return Err(of_stage(stage, format!("rounds.track: no cell has {}", levels.join(", "))));
    }
    Ok(found)
}

fn same(one: &str, other: &str) -> bool {
    one.replace('_', "-") == other.replace('_', "-")
}

/// Whether a level has this label, or this value of its parameter.
fn is_at(level: &Level, value: &toml::Value) -> bool {
    if value.as_str() == Some(level.label.as_str()) {
        return true;
    }
    let Ok(parameter) = Parameter::parse(&level.axis) else { return false };
    let Ok(value) = parameter.value(value) else { return false };
    level.set.iter().any(|(known, own)| *known == parameter && *own == value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::{Found, cells, check};
    use super::*;
    use crate::spec::Experiment;

    fn experiment(track: &str, more: &str) -> Experiment {
        toml::from_str(&format!(
            "name = \"x\"\nquestion = \"?\"\n[[stage]]\nname = \"s\"\norder = \"given\"\n\
             repeats = 1\n{more}\nrounds = {{ max = 25, track = [{track}] }}\n\
             [[stage.axis]]\nname = \"read-percent\"\nvalues = [100, 65, 0]\n\
             [[stage.axis]]\nname = \"block-size\"\nvalues = [\"64k\", \"4k\"]\n"
        ))
        .unwrap()
    }

    fn found(track: &str) -> Result<Vec<usize>, DesignError> {
        let experiment = experiment(track, "");
        check(&experiment, None)?;
        let stage = &experiment.stages[0];
        let all = cells(stage, &Found::new(), None)?;
        tracked(stage, &all, &stage.rounds.as_ref().unwrap().track[0])
    }

    #[test]
    fn cells_are_named_by_their_levels() {
        let of = |track: &str| found(track).unwrap();
        assert_eq!(of("{ cell = { read-percent = 0, block-size = \"4k\" } }"), [5]);
        assert_eq!(of("{ metric = \"bw\", cell = { block_size = 65536 } }"), [0, 2, 4]);
        assert_eq!(of("{ cell = { block-size = \"4 KiB\" } }"), [1, 3, 5]);
        assert_eq!(of("{}"), [0, 1, 2, 3, 4, 5]);
        let error = |track: &str| found(track).unwrap_err().to_string();
        assert!(error("{ cell = { read-percent = 50 } }").contains("no cell has"));
        assert!(error("{ cell = { iodepth = 1 } }").contains("no axis `iodepth`"));
    }

    #[test]
    fn rounds_that_make_no_sense_are_refused() {
        let refused = |more: &str| check(&experiment("{}", more), None).unwrap_err().to_string();
        assert!(refused("until = { worse-percent = 5 }").contains("no effect in rounds"));
        assert!(refused("prefill = \"run\"").contains("no state is reached"));
        assert!(refused("precondition = { passes = 0 }").contains("precondition.passes"));
        assert!(refused("precondition = { block-size = 3000 }").contains("power of two"));
        let single = |more: &str| refused(&format!("precondition = {{ {more} }}"));
        assert!(single("over-provisioning-percent = 7").contains("has no effect"));
        assert!(single("order = \"single-pass\"").contains("needs over-provisioning-percent"));
        let order = "order = \"single-pass\", over-provisioning-percent";
        assert!(single(&format!("{order} = 7")).contains("found 2, expected 1"));
        assert!(single(&format!("{order} = 0, passes = 1")).contains("above 0"));
        assert!(refused("precondition = {}\nprefill = \"stage\"").contains("give one of them"));
        assert!(refused("active-range-percent = 0").contains("active-range-percent"));
        let text = |key: &str, value: &str| {
            let mut experiment = experiment("{}", "");
            let stage = &mut experiment.stages[0];
            match key {
                "order" => stage.order = crate::spec::experiment::Order::Random,
                "repeats" => stage.repeats = 3,
                _ => stage.rounds.as_mut().unwrap().max = value.parse().unwrap(),
            }
            check(&experiment, None).unwrap_err().to_string()
        };
        assert!(text("order", "").contains("order = \"given\""));
        assert!(text("repeats", "").contains("repeats = 1"));
        assert!(text("max", "4").contains("rounds.max: found 4, expected 5"));
    }
}
