//! Runs as text: the figures of each, its goals, and the verdict over all.

use iosonde_analysis::Verdict;
use iosonde_analysis::expectation::Judged;
use iosonde_analysis::verdict::Assessment;
use iosonde_model::record::run::Run;

use super::layers_text::layers_text;
use super::precision_text::precision_text;
use super::pursuit_text::pursuit_text;
use super::run_text::run_text;
use super::steady_text::steady_text;
use super::verdict_text::{expectations_text, verdict_text};

/// Everything below the answer, as printed by `run` and `report`.
pub fn runs_text(rows: &[(&Run, &Assessment)], verdict: &Verdict, judged: &[Judged]) -> String {
    let of_row = |(run, row): &(&Run, &Assessment)| {
        [
            run_text(run, &row.figures, &row.consistency),
            layers_text(run),
            row.pursuit.as_ref().map(pursuit_text).unwrap_or_default(),
            row.precision.as_ref().map(precision_text).unwrap_or_default(),
            row.steady.as_ref().map(steady_text).unwrap_or_default(),
        ]
        .concat()
    };
    let runs: String = rows.iter().map(of_row).collect();
    runs + &verdict_text(verdict) + &expectations_text(judged)
}
