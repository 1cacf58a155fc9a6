//! Printing and keeping what a run of the verifier came to.

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

/// A run that is over, and where its result goes.
pub(super) struct VerifyOutput<'a> {
    pub(super) run: &'a VerifyRun,
    pub(super) words: &'a [String],
    pub(super) output: Output,
    pub(super) keeper: Keeper,
}

impl VerifyOutput<'_> {
    /// Judges, prints and keeps the run; gives the exit code that follows.
    pub(super) fn conclude(mut self) -> Exit {
        let analysed = judge(self.run, self.words.get(1..).unwrap_or_default());
        let exit = end_of(self.run, &analysed);
        if let Outcome::Failed { error } = &self.run.outcome {
            note(&format!("error: {error}"));
        }
        self.output.text(&verify_text(self.run, &analysed, screen::columns()));
        self.output.value(&verify_json(self.run, &analysed, exit.code()));
        let exit = self.output.end(exit);
        self.keeper.keep_cell("01-verify.json", self.run);
        let complete = self.run.outcome == Outcome::Complete;
        self.keeper.finish(complete, exit.code(), &analysed.words);
        exit
    }
}

/// The exit code that a run asks for.
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

/// Says what would be done, and does nothing.
pub(super) fn dry_run(plan: &VerifyPlan, mut output: Output) -> Result<Exit, Failure> {
    output.text(&describe_verify(plan));
    output.value(&json!({ "plan": plan }));
    Ok(output.end(Exit::Done))
}
