//! Selects the next run in a stage that searches for its best cell.

use std::collections::BTreeSet;

use super::StageJob;
use iosonde_analysis::experiment::TrialFigures;
use iosonde_analysis::experiment::search::{self, Next};

/// The next step of a search.
pub(super) enum Turn {
    /// A run.
    Run {
        /// The number of the run in its cell, from 0.
        repeat: u32,
        /// The cell.
        cell: usize,
    },
    /// No further run; the reason, or empty if the search is complete.
    Over(String),
}

/// Maximum number of turns: runs, and cells that turn out to be impossible.
pub(super) fn turns(job: &StageJob<'_>) -> Option<u32> {
    let search = job.stage.search.as_ref()?;
    let cells = u32::try_from(job.laid_out.cells.len()).unwrap_or(u32::MAX);
    Some(search.max_runs.saturating_add(cells).saturating_add(1))
}

/// The next run of a search; `None` for a stage without one.
pub(super) fn next(
    job: &StageJob<'_>,
    out: &BTreeSet<usize>,
    finished: &[TrialFigures],
) -> Option<Turn> {
    let is_out = |cell: usize| out.contains(&cell);
    Some(match search::next(job.stage, job.laid_out, finished, is_out)? {
        Next::Run(cell) => {
            let own = finished.iter().filter(|trial| trial.cell == cell);
            let repeat = own.map(|trial| trial.repeat + 1).max().unwrap_or(0);
            Turn::Run { repeat, cell }
        }
        Next::Over => Turn::Over(String::new()),
        Next::Limit(most) => {
            Turn::Over(format!("the most runs of its search (max-runs = {most}) were carried out"))
        }
    })
}
