//! What does a run of the verifier mean? Verdict, figures, and each failure as a story.

mod caches;
mod figures;
mod replay;
mod reproducer;
mod story;
mod verdict;

use std::collections::BTreeMap;

use serde::Serialize;

use iosonde_model::record::verify::{Failure, VerifyRun};

pub use caches::{CacheWord, Could, FlushEvidence};
pub use figures::VerifyFigures;
pub use replay::OpStory;
pub use reproducer::reproducer;
pub use story::{Expected, FailureStory, Found, SectorWords};
pub use verdict::VerifyVerdict;

/// A run of the verifier, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerifyJudgement {
    /// The verdict.
    #[serde(flatten)]
    pub verdict: VerifyVerdict,
    /// The verdict as a sentence, with its figures.
    pub words: String,
    /// What keeps the run from proving what it was to prove, each a sentence; told beside a failure
    /// too.
    pub doubts: Vec<String>,
    /// Good to know, each a sentence.
    pub notes: Vec<String>,
    /// Errors that were honestly reported: operation and errno, with their count.
    pub errors: BTreeMap<String, u64>,
    /// The figures.
    pub figures: VerifyFigures,
    /// Which caches could have answered what was read.
    pub caches: Vec<CacheWord>,
    /// What is proven about flushes.
    pub flushes: FlushEvidence,
    /// The failures that were kept in detail, in the order of the jobs that saw them.
    pub failures: Vec<FailureStory>,
}

/// Judges a run. `words` is the command line after the program's name: what a plan does not hold,
/// such as a consent, goes from there into the reproducers.
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
        errors: figures.errors.clone(),
        caches: caches::caches(run),
        failures: story::stories(run, words),
        flushes,
        figures,
    }
}

/// All failures in detail that are told as such: not those by which a later run shows.
fn told(run: &VerifyRun) -> impl Iterator<Item = &Failure> {
    let failures = run.jobs.iter().flat_map(|job| &job.failures);
    failures.filter(|failure| !figures::is_of_newer_run(run, failure))
}
