//! Progress of a verifier run: first writing, then reading everything back.

use crate::cli::outputs::Form;
use crate::cli::progress::Progress;
use crate::schedule::RunContext;
use crate::schedule::verify::prove;
use iosonde_engine::engine::verify::RunInputs;
use iosonde_engine::engine::{EngineError, Progress as Moved};
use iosonde_model::plan::VerifyPlan;
use iosonde_model::record::VerifyRun;
use iosonde_model::record::verify::LedgerUse;

/// A run with two phases, and its progress lines.
pub(super) struct Phases<'a> {
    plan: &'a VerifyPlan,
    progress: Progress,
    /// Number of phases.
    count: usize,
    /// Number of reads in the second phase.
    pieces: u64,
    /// Time and operations at the end of the first phase.
    swept_from: Option<(u64, u64)>,
}

impl<'a> Phases<'a> {
    pub(super) fn new(interval_ns: u64, plan: &'a VerifyPlan) -> Phases<'a> {
        let mut progress = Progress::new("verify", interval_ns, Form::Text, None);
        let jobs = 0..plan.plan.jobs.len();
        let pieces = jobs.map(|job| plan.blocks_of(job).div_ceil(plan.max_blocks.into())).sum();
        let count = if plan.changes() && plan.mode.sweeps() { 2 } else { 1 };
        let mode = plan.mode.word();
        progress.begin(0, count, if plan.changes() { mode } else { "reading back" }, 0);
        Phases { plan, progress, count, pieces, swept_from: None }
    }

    /// Runs the plan.
    pub(super) fn prove(
        mut self,
        inputs: RunInputs,
        context: &RunContext,
        ledger: Option<LedgerUse>,
    ) -> Result<VerifyRun, EngineError> {
        let plan = self.plan;
        let moved = &mut |moved: &_, sweeping| self.moved(moved, sweeping);
        let run = prove(plan, inputs, context, ledger, moved)?;
        self.progress.clear();
        Ok(run)
    }

    /// Updates the progress.
    fn moved(&mut self, moved: &Moved, sweeping: bool) {
        if !sweeping {
            return self.progress.moved(moved);
        }
        let (from_ns, from_ops) = match self.swept_from {
            Some(from) => from,
            None => {
                self.progress.begin(self.count - 1, self.count, "reading back", 0);
                *self.swept_from.insert((moved.elapsed_ns, moved.ops))
            }
        };
        let elapsed_ns = moved.elapsed_ns - from_ns;
        let ops = moved.ops - from_ops;
        // Estimate of the time for all pieces, at the rate so far.
        let all_ns = u128::from(elapsed_ns) * u128::from(self.pieces) / u128::from(ops.max(1));
        let planned_ns = u64::try_from(all_ns).unwrap_or(u64::MAX).max(elapsed_ns);
        let counted_ns = elapsed_ns;
        self.progress.moved(&Moved { elapsed_ns, planned_ns, ops, counted_ns, roles: Vec::new() });
    }
}
