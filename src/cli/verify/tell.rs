//! Telling and keeping what a run of the verifier came to (to be replaced).
use crate::cli::exit::{Exit, Failure};
use crate::cli::keep::Keeper;
use crate::cli::output::Output;
use crate::plan::VerifyPlan;
use crate::record::VerifyRun;
use crate::record::run::Outcome;
use serde_json::json;
pub(super) struct Telling<'a> {
    pub(super) run: &'a VerifyRun,
    pub(super) words: &'a [String],
    pub(super) output: Output,
    pub(super) keeper: Keeper,
}
impl Telling<'_> {
    pub(super) fn conclude(mut self) -> Exit {
        let _ = self.words;
        let exit = match &self.run.outcome {
            Outcome::Failed { .. } => Exit::Environment,
            Outcome::Interrupted { signal } => Exit::Signal(*signal),
            Outcome::Complete => Exit::Done,
        };
        let bad: u64 = self.run.jobs.iter().flat_map(|job| job.failed_blocks.values()).sum();
        let exit = if bad > 0 { exit.or_graver(Exit::Corrupt) } else { exit };
        for job in &self.run.jobs {
            self.output.text(&format!("ops {} checked {} uncertain {} unreq {} swept {}/{} w {} r {} fl {} bad {:?} err {:?} churn {} sweep {} hits {}\n", job.ops, job.checked, job.uncertain, job.unrequired, job.swept_blocks, job.sweep_blocks, job.written_bytes, job.read_bytes, job.flushes, job.failed_blocks, job.errors, job.churn_ns, job.sweep_ns, job.in_flight_max));
            for f in job.failures.iter().take(4) {
                self.output.text(&format!("{f:?}\n"));
            }
        }
        self.output.text(&format!(
            "{:?} {:?} cpu {:?}\n",
            self.run.outcome, self.run.injected, self.run.process
        ));
        self.keeper.keep_cell("01-verify.json", self.run);
        self.keeper.finish(true, exit.code(), "");
        exit
    }
}
pub(super) fn dry_run(plan: &VerifyPlan, mut output: Output) -> Result<Exit, Failure> {
    output.value(&json!({ "plan": plan }));
    Ok(output.end(Exit::Done))
}
