//! Prints and stores the result of a verifier run.

use serde_json::json;

use crate::cli::exit::{Exit, Failure};
use crate::cli::keep::Keeper;
use crate::cli::output::{Output, note};
use crate::cli::screen;
use iosonde_analysis::{VerifyJudgement, VerifyVerdict, judge};
use iosonde_model::plan::VerifyPlan;
use iosonde_model::plan::verify::describe_verify;
use iosonde_model::record::VerifyRun;
use iosonde_model::record::run::Outcome;
use iosonde_report::{verify_json, verify_text};

/// Judges, prints and stores a finished run; returns its exit code.
pub(super) fn conclude(
    run: &VerifyRun,
    words: &[String],
    mut output: Output,
    mut keeper: Keeper,
) -> Exit {
    let analysed = judge(run, words.get(1..).unwrap_or_default());
    let exit = end_of(run, &analysed);
    if let Outcome::Failed { error } = &run.outcome {
        note(&format!("error: {error}"));
    }
    output.text(&verify_text(run, &analysed, screen::columns()));
    output.value(&verify_json(run, &analysed, exit.code()));
    let exit = output.end(exit);
    keeper.keep_cell("01-verify.json", run);
    keeper.finish(run.outcome == Outcome::Complete, exit.code(), &analysed.words);
    exit
}

/// Exit code for the result of a run.
pub(in crate::cli) fn end_of(run: &VerifyRun, analysed: &VerifyJudgement) -> Exit {
    let outcome = match &run.outcome {
        Outcome::Failed { .. } => Exit::Environment,
        Outcome::Interrupted { signal } => Exit::Signal(*signal),
        Outcome::Complete if run.jobs.iter().any(|job| !job.errors.is_empty()) => Exit::Environment,
        Outcome::Complete => Exit::Done,
    };
    outcome.or_graver(match &analysed.verdict {
        VerifyVerdict::Pass | VerifyVerdict::Written => Exit::Done,
        VerifyVerdict::Fail => Exit::Corrupt,
        VerifyVerdict::Inconclusive { .. } => Exit::Inconclusive,
    })
}

/// Prints the plan of a dry run.
pub(super) fn dry_run(plan: &VerifyPlan, mut output: Output) -> Result<Exit, Failure> {
    output.text(&describe_verify(plan));
    output.value(&json!({ "plan": plan }));
    Ok(output.end(Exit::Done))
}
