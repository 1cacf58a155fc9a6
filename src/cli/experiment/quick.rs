//! Changes to an experiment from the command line.

use clap::Args;

use crate::cli::exit::{About, Failure, wrong};
use crate::cli::output::note;
use crate::cli::words::{listed, time, unfit};
use iosonde_model::plan::SHORTEST_UNTIL_NS;
use iosonde_model::spec::Experiment;
use iosonde_model::spec::experiment::parameter::Quantity;
use iosonde_model::spec::experiment::{Parameter, Purge, Stage, Switch};
use iosonde_model::units::count;

/// Changes to all stages.
#[derive(Args, Debug)]
#[command(next_help_heading = "Changes to the experiment")]
pub(super) struct ChangeArgs {
    /// Only these stages, and those they depend on (names separated by commas)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    stages: Vec<String>,
    /// Length of each run, warm-up included
    #[arg(long, value_name = "TIME")]
    seconds: Option<String>,
    /// Runs of each cell
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,
    /// Rounds at most, of stages that run in rounds until a steady state
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1000))]
    rounds: Option<u32>,
    /// Passes of preconditioning over the active range, of stages that have it; 0 for none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    precondition_passes: Option<u32>,
    /// How the target is purged before the first stage: the strongest method that it has, one of
    /// the others, or none
    #[arg(long, value_name = "METHOD",
          value_parser = clap::builder::PossibleValuesParser::new(Purge::ALL.map(Purge::word)))]
    purge: Option<String>,
    /// Write cache of the device during all stages; it is read back, and restored afterwards
    #[arg(long, value_name = "on|off", value_parser = ["on", "off"])]
    write_cache: Option<String>,
    /// Share of the target that all stages use, percent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    active_range_percent: Option<u8>,
    /// A parameter shared by all cells, unless an axis varies it (such as block-size=8k); may be
    /// repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// A quick run lasts a fifteenth of a full one, within these bounds, seconds.
const QUICK_SECONDS: (f64, f64) = (0.5, 2.0);
/// Largest number of runs per cell in a quick experiment.
const QUICK_REPEATS: u32 = 3;

/// Makes the requested length that of each run if it is too short to establish a precision.
fn keep_length(stage: &mut Stage) {
    let share = 1.0 - f64::from(stage.warm_up_percent) / 100.0;
    let shortest_s = SHORTEST_UNTIL_NS as f64 / 1e9 / share.max(0.1);
    if !stage.until.known.is_empty() && stage.seconds < shortest_s {
        note(&format!(
            "{}: each run lasts {} s, and not until {} is known, which needs --seconds {} at least",
            stage.name,
            count::significant(stage.seconds),
            stage.until.known,
            (shortest_s * 10.0).ceil() / 10.0
        ));
        stage.until.known.clear();
    }
}

/// Applies the changes to an experiment.
pub(super) fn changed(
    mut experiment: Experiment,
    quick: bool,
    args: &ChangeArgs,
) -> Result<Experiment, Failure> {
    keep_stages(&mut experiment, &args.stages)?;
    let seconds = match &args.seconds {
        None => None,
        Some(text) => {
            let ns = time("--seconds", text)?;
            if !(50_000_000..=604_800_000_000_000).contains(&ns) {
                return Err(wrong(format!("--seconds: found {text}, expected 50ms to 7 days")));
            }
            Some(ns as f64 / 1e9)
        }
    };
    let is_procedure = experiment.procedure.is_some();
    for stage in &mut experiment.stages {
        if quick {
            let (least, most) = QUICK_SECONDS;
            let short = (stage.seconds / 15.0).clamp(least, most);
            stage.seconds = stage.seconds.min(short);
            stage.repeats = stage.repeats.min(QUICK_REPEATS);
            // The pauses of a published procedure are part of what it measures.
            if !is_procedure {
                stage.idle_seconds = stage.idle_seconds.min(0.2);
            }
            // A quick run has no time for a precision target.
            stage.until.known.clear();
        }
        stage.seconds = seconds.unwrap_or(stage.seconds);
        if seconds.is_some() {
            keep_length(stage);
        }
        if let Some(rounds) = &mut stage.rounds {
            rounds.max = args.rounds.unwrap_or(rounds.max);
        } else {
            stage.repeats = args.repeats.unwrap_or(stage.repeats);
            stage.fixed_repeats |= args.repeats.is_some();
        }
        // A fixed number of repeats was requested: no precision target applies.
        let until = &mut stage.until;
        if quick || until.max_repeats.is_some_and(|most| most <= stage.repeats) {
            (until.width_percent, until.max_repeats) = (None, None);
        }
        for text in &args.set {
            let pair = text.split_once('=');
            let (name, value) = pair.ok_or_else(|| unfit("--set", text, "NAME=VALUE"))?;
            let parameter = Parameter::parse(name.trim()).map_err(wrong)?;
            let value = match value.trim().parse::<i64>() {
                Ok(number) => toml::Value::Integer(number),
                Err(_) => toml::Value::String(value.trim().into()),
            };
            let is_time = matches!(parameter.quantity(), Quantity::Time);
            if is_time && value.as_integer().is_some_and(|number| number != 0) {
                return Err(wrong(format!(
                    "--set: {name}: found {value}, expected a time with its unit, such as 3s or \
                     500us"
                )));
            }
            parameter.value(&value).or_wrong("--set")?;
            if !stage.axes.iter().any(|axis| axis.name.replace('_', "-") == parameter.word()) {
                stage.set.insert(parameter.word().into(), value);
            }
        }
    }
    prepare(&mut experiment, args);
    if let Some(passes) = args.precondition_passes {
        let preconditioned =
            experiment.stages.iter_mut().filter(|stage| stage.precondition.is_some());
        let mut changed = 0;
        for stage in preconditioned {
            changed += 1;
            match &mut stage.precondition {
                Some(precondition) if passes > 0 => precondition.passes = passes,
                other => *other = None,
            }
        }
        if changed == 0 {
            return Err(wrong("--precondition-passes has no effect: no stage has precondition"));
        }
    }
    let in_rounds = |stage: &iosonde_model::spec::experiment::Stage| stage.rounds.is_some();
    if args.rounds.is_some() && !experiment.stages.iter().any(in_rounds) {
        return Err(wrong("--rounds has no effect: no stage runs in rounds"));
    }
    if args.repeats.is_some() && experiment.stages.iter().all(in_rounds) {
        return Err(wrong("--repeats has no effect: every stage runs in rounds; give --rounds"));
    }
    varied_nowhere_else(&experiment, &args.set)?;
    Ok(experiment)
}

/// Applies the requested purge, write cache and active range.
fn prepare(experiment: &mut Experiment, args: &ChangeArgs) {
    if let Some(method) = args.purge.as_deref().and_then(Purge::parse) {
        experiment.stages.iter_mut().for_each(|stage| stage.purge = None);
        if let Some(first) = experiment.stages.first_mut() {
            first.purge = Some(method);
        }
    }
    for stage in &mut experiment.stages {
        if let Some(word) = &args.write_cache {
            stage.write_cache = Some(if word == "on" { Switch::On } else { Switch::Off });
        }
        stage.active_range_percent =
            args.active_range_percent.unwrap_or(stage.active_range_percent);
    }
}

/// Refuses a parameter that every stage varies by an axis of that name: it would have no effect.
fn varied_nowhere_else(experiment: &Experiment, set: &[String]) -> Result<(), Failure> {
    for text in set {
        let name = text.split('=').next().unwrap_or_default().trim().replace('_', "-");
        let varies = |stage: &iosonde_model::spec::experiment::Stage| {
            stage.axes.iter().any(|axis| {
                axis.name == name
                    || axis.cases.iter().all(|case| case.contains_key(&name))
                        && !axis.cases.is_empty()
            })
        };
        if experiment.stages.iter().all(varies) {
            return Err(wrong(format!(
                "--set {text} has no effect: every stage varies {name} by an axis; write \
                 your own experiment file (start from: iosonde experiment show {})",
                experiment.name
            )));
        }
    }
    Ok(())
}

fn keep_stages(experiment: &mut Experiment, names: &[String]) -> Result<(), Failure> {
    if names.is_empty() {
        return Ok(());
    }
    let known: Vec<&str> = experiment.stages.iter().map(|stage| stage.name.as_str()).collect();
    let mut wanted: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
    if let Some(name) = wanted.iter().find(|name| !known.contains(&name.as_str())) {
        let available = listed(&known, name);
        return Err(wrong(format!("--stages: no stage `{name}`; available: {available}")));
    }
    // From the last to the first: a stage depends only on earlier ones.
    for stage in experiment.stages.iter().rev() {
        if wanted.contains(&stage.name) {
            let sources = stage.axes.iter().filter_map(|axis| axis.from.split_once('.'));
            wanted.extend(sources.map(|(source, _)| source.to_owned()));
        }
    }
    experiment.stages.retain(|stage| wanted.contains(&stage.name));
    Ok(())
}
