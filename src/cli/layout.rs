//! Layout: writes the test file that a command reads, before any measurement.

use super::exit::{Exit, Failure, environment, wrong};
use super::progress::Progress;
use crate::schedule::{RunContext, execute_single};
use iosonde_model::plan::{Engine, OnError, Plan, Setting, Stop, resolve};
use iosonde_model::record::run::Outcome;
use iosonde_model::spec::{Workload, catalogue};
use iosonde_model::units::bytes;

/// The plan that lays out these targets, all of one size, or every target if none is given: one
/// pass of sequential writes, then an fsync.
pub(super) fn plan(setting: &Setting, targets: &[u16], engine: Engine) -> Result<Plan, Failure> {
    let first = targets.first().copied().unwrap_or(0);
    let mut workload = workload(setting.targets[usize::from(first)].bytes, &engine)?;
    workload.roles.iter_mut().for_each(|role| role.targets = targets.to_vec());
    let setting = Setting {
        engine,
        offset_bytes: 0,
        warmup_ns: 0,
        stop: Stop::AfterOnePass,
        on_error: OnError::Stop,
        final_sync: true,
        ..setting.clone()
    };
    Ok(resolve(&workload, &setting)?)
}

/// The workload that writes a target of this size in full. The block is halved until it divides the
/// size or is 512 B. A synchronous engine keeps one request in flight.
fn workload(bytes: u64, engine: &Engine) -> Result<Workload, Failure> {
    let mut workload = catalogue::workload("layout").map_err(wrong)?;
    if engine.kind.is_synchronous() {
        workload.roles.iter_mut().for_each(|role| role.iodepth = Some(1));
    }
    while !bytes.is_multiple_of(workload.block_size) && workload.block_size > 512 {
        workload.block_size /= 2;
    }
    Ok(workload)
}

/// Runs the layout plan with progress; returns the signal that ended it, if any.
pub(super) fn lay_out(
    layout: &Plan,
    context: &RunContext,
    progress: &mut Progress,
) -> Result<Option<i32>, Failure> {
    progress.begin(0, 1, &format!("preparing {}", bytes::exact(layout.target().bytes)), 0);
    let run = execute_single(layout, context, &mut |moved| progress.moved(moved))?;
    progress.clear();
    match run.outcome {
        Outcome::Complete => Ok(None),
        Outcome::Interrupted { signal } => Ok(Some(signal)),
        Outcome::Failed { error } => {
            Err(environment(format!("the test file could not be prepared: {error}")))
        }
    }
}

/// Like [`lay_out`], as the first step of a command: a signal ends the command.
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
