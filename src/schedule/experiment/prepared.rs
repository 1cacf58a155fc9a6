//! Decides whether a stage skips a part of its preparation: the records of an earlier experiment
//! permit it, measurements on the target confirm it.

use std::sync::atomic::Ordering;

use super::precondition::written_bytes;
use super::{Course, StageEvent};
use crate::schedule::execute_single;
use iosonde_analysis::experiment::prepared::{Candidate, Left, Seen};
use iosonde_engine::engine::EngineError;
use iosonde_engine::target::purge::blank_blocks;
use iosonde_model::plan::precondition::{active_range, probes};
use iosonde_model::record::run::Outcome;

/// The part that is skipped, and the reason.
#[derive(Debug, Default)]
pub(super) struct Decision {
    pub(super) skips: Option<Candidate>,
    /// Empty if no earlier experiment was named.
    pub(super) words: String,
    /// The signal that ended the measurements.
    pub(super) signal: Option<i32>,
}

impl Course<'_> {
    /// Decides for the range of a stage.
    ///
    /// # Errors
    /// If nothing can be run.
    pub(super) fn decide(&mut self) -> Result<Decision, EngineError> {
        let Some(left) = self.job.left else { return Ok(Decision::default()) };
        (self.on_event)(&StageEvent::Preparing("measuring whether it is still prepared"));
        let not = |why: String| Decision {
            words: format!("no preparation is skipped: {why} (`{}`)", left.folder),
            ..Decision::default()
        };
        let (candidate, mut seen) = match self.looked_at(left) {
            Ok(found) => found,
            Err(why) => return Ok(not(why)),
        };
        if candidate == Candidate::Passes && seen.blank_blocks == 0 {
            match self.rates()? {
                Ok(rates) => seen.rates = rates,
                Err(Outcome::Interrupted { signal }) => {
                    return Ok(Decision { signal: Some(signal), ..Decision::default() });
                }
                Err(outcome) => return Ok(not(format!("its writes ended as {outcome:?}"))),
            }
        }
        Ok(match candidate.confirmed(&seen) {
            Ok(why) => Decision {
                skips: Some(candidate),
                words: format!("{} is skipped: {why} (`{}`)", candidate.word(), left.folder),
                signal: None,
            },
            Err(why) => not(why),
        })
    }

    /// The part that the records permit to skip, and the state of the target's blocks.
    fn looked_at(&self, left: &Left) -> Result<(Candidate, Seen), String> {
        let (job, context) = (self.job, self.context);
        let Some(held) = &context.held else {
            return Err("a simulated device keeps nothing from one program to the next".into());
        };
        let range_bytes = active_range(job.stage, job.setting).targets[0].bytes;
        let candidate = left.candidate(&held.describe(&context.root), job.stage, range_bytes)?;
        let (checked_blocks, blank_blocks) = blank_blocks(held, range_bytes)?;
        Ok((candidate, Seen { checked_blocks, blank_blocks, rates: Vec::new() }))
    }

    /// Bytes per second of short runs of the preconditioning writes, or the outcome of one that was
    /// not completed.
    fn rates(&mut self) -> Result<Result<Vec<f64>, Outcome>, EngineError> {
        let job = self.job;
        let active = active_range(job.stage, job.setting);
        let requested = job.stage.precondition.clone().unwrap_or_default();
        let plans = match probes(&requested, &active) {
            Ok(plans) => plans,
            Err(refusal) => return Ok(Err(Outcome::Failed { error: refusal.to_string() })),
        };
        let mut rates = Vec::new();
        for plan in &plans {
            let moved = &mut |moved: &_| (self.on_event)(&StageEvent::Moved(moved));
            let run = execute_single(plan, &self.context.alone(), moved)?;
            let written = written_bytes(&run);
            job.written_bytes.fetch_add(written, Ordering::Relaxed);
            rates.push(written as f64 * 1e9 / run.measured_ns.max(1) as f64);
            if run.outcome != Outcome::Complete {
                return Ok(Err(run.outcome));
            }
        }
        Ok(Ok(rates))
    }
}
