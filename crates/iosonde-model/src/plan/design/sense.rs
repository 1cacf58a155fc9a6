//! Consistency checks of a stage, before anything is measured.

use super::{DesignError, of_axis, of_stage};
use crate::spec::LatencyTarget;
use crate::spec::experiment::{Design, Order, PassOrder, Precondition, Prefill, Stage};
use crate::units::duration;

/// Longest name of a stage, which becomes part of file names.
const LONGEST_NAME: usize = 60;
/// Longest run, seconds.
const LONGEST_SECONDS: f64 = 604_800.0;
/// Most runs of a cell.
const MOST_REPEATS: f64 = 1_000.0;

/// Checks that the settings of a stage are consistent and all have an effect.
pub(super) fn makes_sense(stage: &Stage) -> Result<(), DesignError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name = &stage.name;
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
        let what = "its name is part of file names: give 1 to 60 letters, digits, - and _";
        return Err(of_stage(stage, what));
    }
    between(stage, "seconds", stage.seconds, 0.05, LONGEST_SECONDS)?;
    between(stage, "idle-seconds", stage.idle_seconds, 0.0, LONGEST_SECONDS)?;
    between(stage, "repeats", stage.repeats, 1.0, MOST_REPEATS)?;
    between(stage, "warm-up-percent", stage.warm_up_percent, 0.0, 90.0)?;
    let until = &stage.until;
    let positive = |key: &str, value: Option<f64>| {
        value.map_or(Ok(()), |value| between(stage, key, value, 0.1, 100_000.0))
    };
    positive("until.width-percent", until.width_percent)?;
    positive("until.worse-percent", until.worse_percent)?;
    positive("until.minutes", until.minutes.map(|minutes| minutes.max(0.0)))?;
    if let Some(most) = until.max_repeats {
        between(stage, "until.max-repeats", most, 1.0, MOST_REPEATS)?;
    }
    match (until.width_percent, until.max_repeats) {
        (Some(_), None) => {
            let what = "until.width-percent: give max-repeats too, or it may never end";
            return Err(of_stage(stage, what));
        }
        (None, Some(_)) => {
            let what = "until.max-repeats has no effect without until.width-percent";
            return Err(of_stage(stage, what));
        }
        (Some(_), Some(most)) if most <= stage.repeats => {
            let what = "until.max-repeats has no effect unless it is above repeats";
            return Err(of_stage(stage, what));
        }
        _ => {}
    }
    rounds_make_sense(stage)?;
    search_makes_sense(stage)?;
    for axis in &stage.axes {
        let wrong = |what: &str| of_axis(stage, axis, what);
        if axis.from.is_empty() != axis.times.is_empty() {
            return Err(wrong("from and times have no effect without each other"));
        }
        if axis.times.iter().any(|times| !(0.0..=1e6).contains(times)) {
            return Err(wrong("times: expected multiples from 0 to 1000000"));
        }
        let same = |word: &String| word.replace('_', "-") == axis.name.replace('_', "-");
        if stage.set.keys().any(same) {
            return Err(wrong("set gives it a value too, which would have no effect"));
        }
    }
    Ok(())
}

/// Checks that a search is consistent and leaves no other setting without effect.
fn search_makes_sense(stage: &Stage) -> Result<(), DesignError> {
    let Some(search) = &stage.search else { return Ok(()) };
    let refuse = |wrong: bool, what: &str| refuse(stage, wrong, what);
    if let Some(limit) = &search.limit {
        LatencyTarget::parse(limit)
            .map_err(|error| of_stage(stage, format!("search.limit: {error}")))?;
    }
    refuse(
        !(1..=20_000).contains(&search.max_runs),
        &format!("search.max-runs: found {}, expected 1 to 20000", search.max_runs),
    )?;
    refuse(stage.axes.is_empty(), "search: there is nothing to search; add [[stage.axis]]")?;
    refuse(
        stage.design != Design::Factorial,
        "search: its grid has every level with every other; leave out design",
    )?;
    refuse(stage.rounds.is_some(), "search has no effect in rounds: give one of them")?;
    refuse(
        stage.order != Order::Random,
        "search: the order follows from the results; leave out order",
    )?;
    let until = &stage.until;
    refuse(
        until.width_percent.is_some() || until.worse_percent.is_some(),
        "search: until.width-percent and until.worse-percent have no effect in a search",
    )
}

/// Checks the percentage of spare flash and the number of passes of a single pass.
fn single_pass_makes_sense(stage: &Stage, precondition: &Precondition) -> Result<(), DesignError> {
    let is_single = precondition.order == PassOrder::SinglePass;
    let what = match precondition.over_provisioning_percent {
        Some(_) if !is_single => {
            "precondition.over-provisioning-percent has no effect; give order = \"single-pass\""
                .into()
        }
        Some(percent) if !(percent > 0.0 && percent <= 1000.0) => format!(
            "precondition.over-provisioning-percent: found {percent}, expected above 0 and up to \
             1000"
        ),
        None if is_single => {
            "precondition: a single pass needs over-provisioning-percent, the flash beyond the \
             active range in percent of it"
                .into()
        }
        _ if is_single && precondition.passes != 1 => format!(
            "precondition.passes: found {}, expected 1: one single pass is enough",
            precondition.passes
        ),
        _ => return Ok(()),
    };
    Err(of_stage(stage, what))
}

/// Checks that preconditioning and rounds are consistent and leave no other setting without effect.
fn rounds_make_sense(stage: &Stage) -> Result<(), DesignError> {
    let refuse = |wrong: bool, what: &str| refuse(stage, wrong, what);
    between(stage, "active-range-percent", stage.active_range_percent, 1.0, 100.0)?;
    if let Some(precondition) = &stage.precondition {
        between(stage, "precondition.passes", precondition.passes, 1.0, 100.0)?;
        between(stage, "precondition.iodepth", precondition.iodepth, 1.0, 4096.0)?;
        let block = precondition.block_size;
        between(stage, "precondition.block-size", block as f64, 512.0, (64 << 20) as f64)?;
        refuse(
            !block.is_power_of_two(),
            "precondition.block-size: expected a power of two, or no whole range consists of it",
        )?;
        single_pass_makes_sense(stage, precondition)?;
        refuse(
            stage.prefill != Prefill::Once,
            "prefill rewrites what precondition has written: give one of them",
        )?;
    }
    if let Some(text) = &stage.energised_for {
        duration::parse(text, 1_000_000_000)
            .map_err(|error| of_stage(stage, format!("energised-for: {error}")))?;
    }
    refuse(
        stage.purged().is_some() && stage.prefill != Prefill::Once,
        "prefill writes what purge has removed: give one of them",
    )?;
    let Some(rounds) = &stage.rounds else { return Ok(()) };
    between(stage, "rounds.window", rounds.window, 3.0, 1_000.0)?;
    let least = f64::from(rounds.window) + f64::from(rounds.hold);
    between(stage, "rounds.hold", rounds.hold, 0.0, 900.0)?;
    between(stage, "rounds.max", rounds.max, least, 1_000.0)?;
    between(stage, "rounds.range-percent", rounds.range_percent, 0.001, 1_000.0)?;
    between(stage, "rounds.slope-percent", rounds.slope_percent, 0.001, 1_000.0)?;
    if let Some(passes) = rounds.max_passes {
        between(stage, "rounds.max-passes", passes, 0.01, 10_000.0)?;
    }
    refuse(rounds.track.is_empty(), "rounds.track: name at least one figure that must be steady")?;
    refuse(
        stage.order != Order::Given,
        "rounds: give order = \"given\": a round is one pass over all cells in the given order",
    )?;
    refuse(
        stage.repeats != 1,
        "rounds: give repeats = 1: each round runs each cell once, and rounds.max limits them",
    )?;
    refuse(
        stage.prefill == Prefill::Run,
        "rounds: prefill = \"run\" rewrites the region before each run, so no state is reached",
    )?;
    let until = &stage.until;
    refuse(
        until.width_percent.is_some() || until.worse_percent.is_some(),
        "rounds: until.width-percent and until.worse-percent have no effect in rounds",
    )
}

fn between(
    stage: &Stage,
    key: &str,
    found: impl Into<f64>,
    least: f64,
    most: f64,
) -> Result<(), DesignError> {
    let found = found.into();
    let what = format!("{key}: found {found}, expected {least} to {most}");
    refuse(stage, !(least..=most).contains(&found), &what)
}

fn refuse(stage: &Stage, wrong: bool, what: &str) -> Result<(), DesignError> {
    if wrong { Err(of_stage(stage, what)) } else { Ok(()) }
}
