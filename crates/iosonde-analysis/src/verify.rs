//! Verdict and figures of a verifier run, and the details of each failure.

mod caches;
mod failure;
mod figures;
mod replay;
mod reproducer;
mod verdict;

use iosonde_model::record::verify::{Failure, VerifyRun};

pub use caches::{CacheNote, Could, FlushEvidence};
pub use failure::{Expected, FailureDetails, Found, SectorText};
pub use figures::VerifyFigures;
pub use replay::OpDetails;
pub use reproducer::reproducer;
pub use verdict::VerifyVerdict;

/// An evaluated verifier run.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyJudgement {
    pub verdict: VerifyVerdict,
    /// The verdict as a sentence, with its figures.
    pub words: String,
    /// Reasons why the run is inconclusive, each a sentence; also reported with a failure.
    pub doubts: Vec<String>,
    /// Notes, each a sentence.
    pub notes: Vec<String>,
    pub figures: VerifyFigures,
    /// Which caches may have served the reads.
    pub caches: Vec<CacheNote>,
    /// The evidence about flushes.
    pub flushes: FlushEvidence,
    /// The failures recorded in detail, in the order of the jobs that saw them.
    pub failures: Vec<FailureDetails>,
    /// The ledger that the command line names.
    pub ledger: Option<String>,
}

/// Evaluates a run. `words` is the command line after the program's name: options that are not in
/// the plan, such as a consent, are copied from it into the reproducers.
pub fn judge(run: &VerifyRun, words: &[String]) -> VerifyJudgement {
    let figures = figures::figures(run);
    let flushes = caches::flush_evidence(run, &figures);
    let doubts = verdict::doubts(run, &figures, &flushes);
    let verdict = verdict::verdict(run, &figures, &doubts);
    VerifyJudgement {
        words: verdict::words(run, &verdict, &figures),
        verdict,
        doubts,
        notes: verdict::notes(run, &figures),
        caches: caches::caches(run),
        failures: failure::details_of(run, words),
        ledger: reproducer::values(words, "--ledger").pop(),
        flushes,
        figures,
    }
}

/// The detailed failures, except blocks that a later run wrote.
fn reported(run: &VerifyRun) -> impl Iterator<Item = &Failure> {
    let failures = run.jobs.iter().flat_map(|job| &job.failures);
    failures.filter(|failure| !figures::is_of_newer_run(run, failure))
}
