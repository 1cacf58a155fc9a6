//! Plans every point of an experiment without running it.

use clap::Parser;

use super::execution::{cell_name, requested_target};
use super::load;
use super::quick::changed;
use super::resolved_target::{TargetOptions, resolve_target};
use super::{ExperimentArgs, What};
use crate::cli::exit::{Failure, wrong};
use crate::cli::place::{self, Place};
use iosonde_model::plan::design::{self, Found};
use iosonde_model::plan::precondition::active_range;
use iosonde_model::plan::trial::trial;
use iosonde_model::plan::{Plan, Setting, Stop};

/// A cell of a stage.
pub(in crate::cli) struct PlannedPoint {
    pub stage: String,
    /// Its levels.
    pub name: String,
    /// Its plan, or why it has none.
    pub plan: Result<Plan, String>,
}

/// The words after `iosonde`, as `experiment run` has them.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Words {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Experiment(ExperimentArgs),
}

/// Points of `experiment run` with these arguments.
///
/// # Errors
/// If the experiment or its target is refused.
pub(in crate::cli) fn points(words: &[String]) -> Result<Vec<PlannedPoint>, Failure> {
    let Words { verb: Verb::Experiment(ExperimentArgs { what: What::Run(args) }) } =
        Words::try_parse_from(words).map_err(|error| Failure::usage(&error))?
    else {
        return Err(wrong("no `experiment run`"));
    };
    let experiment = changed(load::load(&args.name)?, args.quick, &args.changes)?;
    let claims = args.spec.as_deref().map(load::claims).transpose()?;
    design::check(&experiment, claims.as_ref()).map_err(wrong)?;
    let target = requested_target(&args)?;
    let place = Place::find()?;
    let options = TargetOptions {
        target: &target,
        consent: &args.consent,
        results: None,
        usual_bytes: experiment.size,
        seed: args.randseed.unwrap_or_else(place::fresh_seed),
        dry_run: true,
        was_written: None,
    };
    let resolved = resolve_target(&options, &place)?;
    let mut points = Vec::new();
    for stage in &experiment.stages {
        // Levels that an earlier stage finds are not known without a run.
        let (Ok(cells), Ok(shared)) =
            (design::cells(stage, &Found::new(), claims.as_ref()), design::shared(stage))
        else {
            let plan = Err("its levels follow from an earlier stage".into());
            points.push(PlannedPoint { stage: stage.name.clone(), name: String::new(), plan });
            continue;
        };
        let (warmup_ns, measured_ns) = stage.parts_ns();
        let setting = Setting {
            warmup_ns,
            stop: Stop::AfterNs(measured_ns.max(1)),
            ..active_range(stage, &resolved.setting)
        };
        for cell in &cells {
            let plan = trial(stage, &shared, cell, &setting).map_err(|error| error.to_string());
            let plan = plan.and_then(|planned| match &resolved.reads_only {
                Some(why) if planned.plan.writes() => Err(format!("it writes, and {why}")),
                _ => Ok(planned.plan),
            });
            points.push(PlannedPoint { stage: stage.name.clone(), name: cell_name(cell), plan });
        }
    }
    Ok(points)
}
