//! Reads an experiment from its folder; several threads read the runs.

use std::path::Path;

use crate::cli::exit::{Failure, wrong};
use crate::schedule::in_parallel;
use iosonde_analysis::experiment::prepared::Left;
use iosonde_analysis::experiment::{StageFacts, Study, TrialFigures};
use iosonde_model::record::experiment::{ExperimentRun, TrialRun};
use iosonde_model::record::experiment_folder::{ExperimentFolder, FolderError};
use iosonde_model::record::{HostFacts, TargetFacts};
use iosonde_model::spec::Experiment;

/// Largest number of reader threads.
const MAX_THREADS: usize = 8;

/// Figures of these runs in order of name, and the target of the first. Unreadable records go to
/// `damaged`, which decides whether to continue without them. Each record is dropped after reading,
/// so that a thousand runs fit in memory.
pub(crate) fn trials(
    folder: &ExperimentFolder,
    names: &[String],
    host: Option<&HostFacts>,
    damaged: &mut dyn FnMut(&str, FolderError) -> Result<(), Failure>,
) -> Result<(Vec<TrialFigures>, Option<TargetFacts>), Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let read = in_parallel(names.len(), threads.min(names.len()), |place| {
        let name = &names[place];
        let figures = |trial: TrialRun| (TrialFigures::of(&trial, name, host), trial.run.target);
        folder.trial(name).map(figures)
    });
    let mut first = None;
    let mut all = Vec::with_capacity(read.len());
    for (name, figures) in names.iter().zip(read) {
        match figures {
            Ok((figures, target)) => {
                first.get_or_insert(target);
                all.push(figures);
            }
            Err(error) => damaged(name, error)?,
        }
    }
    Ok((all, first))
}

/// A study before its first stage.
pub(super) fn begun(run: ExperimentRun, host: Option<HostFacts>) -> Study {
    Study { run, host, target: None, stages: Vec::new(), conclusions: Vec::new() }
}

/// Reads the folder of an experiment and analyses it again.
pub(crate) fn study(path: &Path) -> Result<Study, Failure> {
    let folder = ExperimentFolder::open(path).map_err(wrong)?;
    let mut study = begun(folder.run.clone(), folder.host.clone());
    for stage in &folder.run.experiment.stages {
        let Some(laid_out) = folder.stage(&stage.name).map_err(wrong)? else { break };
        let names = folder.trials(&stage.name).map_err(wrong)?;
        let (trials, first) =
            trials(&folder, &names, folder.host.as_ref(), &mut |_, e| Err(wrong(e)))?;
        if study.target.is_none() {
            study.target = first;
        }
        let facts = StageFacts::of(stage, laid_out, trials, &study.stages);
        study.stages.push(facts);
    }
    study.conclude();
    Ok(study)
}

/// State that an earlier experiment left on the target.
pub(super) fn left(folder: &Path, experiment: &Experiment) -> Result<Left, Failure> {
    let first = experiment.stages.first();
    if !first.is_some_and(|stage| stage.purged().is_some() || stage.precondition.is_some()) {
        return Err(wrong(
            "--prepared-by has no effect: the first stage neither purges nor preconditions",
        ));
    }
    let shown = folder.display().to_string();
    Left::of(&study(folder)?, &shown).ok_or_else(|| {
        wrong(format!("--prepared-by: `{shown}` neither purged nor preconditioned its target"))
    })
}
