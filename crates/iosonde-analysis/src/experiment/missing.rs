//! The parts of an experiment that were not run, and why.

use super::{StageFacts, Study};
use iosonde_model::plan::design::Cell;

impl StageFacts {
    /// Why no cell of the stage can be run: the reason for the first; `None` if any can.
    pub fn why_not_run(&self) -> Option<&str> {
        let laid_out = &self.laid_out;
        let is_out = |cell: &Cell| laid_out.left_out.iter().any(|(out, _)| *out == cell.index);
        match laid_out.skipped.is_empty() {
            false => Some(&laid_out.skipped),
            true if !self.trials.is_empty() || !laid_out.cells.iter().all(is_out) => None,
            true => laid_out.left_out.first().map(|(_, why)| why.as_str()),
        }
    }
}

impl Study {
    /// Why the experiment is not complete: the first stage that ended early, else the first run
    /// that an I/O error ended; empty if there is neither.
    pub fn missing(&self) -> String {
        let early = self.stages.iter().find(|facts| !facts.laid_out.ended_early.is_empty());
        if let Some(facts) = early {
            return format!("stage {}: {}", facts.stage.name, facts.laid_out.ended_early);
        }
        let runs =
            self.stages.iter().flat_map(|facts| facts.trials.iter().map(move |t| (facts, t)));
        let failed = runs.into_iter().find(|(_, trial)| trial.has_failed());
        failed.map_or_else(String::new, |(facts, trial)| {
            format!("stage {}: {}", facts.stage.name, trial.failure())
        })
    }

    /// Why no cell of the experiment can be run, so that repeating it is useless: the reason for
    /// the first stage; `None` if any cell can.
    pub fn why_not_run(&self) -> Option<String> {
        let mut stages = self.stages.iter();
        let is_whole = self.stages.len() == self.run.experiment.stages.len();
        let cannot = is_whole && stages.clone().all(|facts| facts.why_not_run().is_some());
        let first = stages.next().filter(|_| cannot)?;
        Some(format!("stage {}: {}", first.stage.name, first.why_not_run()?))
    }
}
