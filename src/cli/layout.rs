//! Writing what a command reads: the data of a test file, before anything is measured.

use super::exit::{Exit, Failure};
use super::progress::Progress;
use crate::schedule::{Event, RunContext, execute};
use iosonde_model::plan::Plan;
use iosonde_model::record::run::Outcome;
use iosonde_model::units::bytes;

/// Carries out the plan that writes it, with its progress; gives the signal that ended it, if any.
pub(super) fn lay_out(
    layout: &Plan,
    context: &RunContext,
    progress: &mut Progress,
) -> Result<Option<i32>, Failure> {
    let mut outcome = Outcome::Complete;
    progress.begin(0, 1, &format!("preparing {}", bytes::exact(layout.target().bytes)), 0);
    execute(std::slice::from_ref(layout), context, &mut |event| match event {
        Event::Moved { progress: moved, .. } => progress.moved(moved),
        Event::Finished { run, .. } => outcome = run.outcome.clone(),
        Event::Started { .. } => {}
    })?;
    progress.clear();
    match outcome {
        Outcome::Complete => Ok(None),
        Outcome::Interrupted { signal } => Ok(Some(signal)),
        Outcome::Failed { error } => {
            let words = format!("the test file could not be prepared: {error}");
            Err(Failure::new(Exit::Environment, words))
        }
    }
}

/// The same where nothing else was done before it: a signal ends the command.
pub(super) fn lay_out_first(
    layout: &Plan,
    context: &RunContext,
    progress: &mut Progress,
) -> Result<(), Failure> {
    match lay_out(layout, context, progress)? {
        None => Ok(()),
        Some(signal) => {
            let words = "interrupted while preparing the test file";
            Err(Failure::new(Exit::Signal(signal), words))
        }
    }
}
