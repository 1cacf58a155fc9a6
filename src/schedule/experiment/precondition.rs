//! Preconditioning of a stage: its passes, and what they wrote.

use std::sync::atomic::Ordering;

use super::{Course, StageEvent, rounds};
use crate::schedule::execute_single;
use iosonde_analysis::experiment::prepared::Candidate;
use iosonde_engine::engine::{EngineError, Medium};
use iosonde_engine::target::purge;
use iosonde_model::plan::precondition::{active_range, pass_bytes, passes};
use iosonde_model::record::Run;
use iosonde_model::record::experiment::{Preparation, Purged, StageRun};
use iosonde_model::record::run::Outcome;
use iosonde_model::spec::experiment::Purge;
use iosonde_model::units::bytes;

impl Course<'_> {
    /// Prepares the target for the stage, unless it is prepared; `false` if the stage ends here,
    /// with the reason in `end`.
    ///
    /// # Errors
    /// If nothing can be run.
    pub(super) fn precondition(&mut self) -> Result<bool, EngineError> {
        let job = self.job;
        if !job.stage.has_state() {
            return Ok(true);
        }
        let is_resumed = !self.end.run.prepared.is_empty() || !self.finished.is_empty();
        if is_resumed && (job.keeps_state || self.has_nothing_left()) {
            return Ok(true);
        }
        let decision = self.decide()?;
        if decision.signal.is_some() {
            self.end.signal = decision.signal;
            return Ok(false);
        }
        let skips = |part: Candidate| decision.skips == Some(part);
        let mut preparation = Preparation {
            first_round: self.finished.iter().map(|trial| trial.repeat + 1).max().unwrap_or(0),
            range_bytes: active_range(job.stage, job.setting).targets[0].bytes,
            started_unix_ns: iosonde_sys::clock::realtime_ns(),
            decision: decision.words.clone(),
            ..Preparation::default()
        };
        if let Some(method) = job.stage.purged().filter(|_| !skips(Candidate::Purge)) {
            (self.on_event)(&StageEvent::Preparing("purging"));
            match self.purge(preparation.range_bytes, method) {
                Ok(purged) => {
                    self.end.run.purges.push(purged.clone());
                    (self.on_event)(&StageEvent::Purged(&self.end.run));
                    preparation.purge = Some(purged);
                }
                Err(why) => return self.unprepared(format!("purge: {why}")),
            }
        }
        let passes_of = job.stage.precondition.as_ref();
        if let Some(requested) = passes_of.filter(|_| !skips(Candidate::Passes)) {
            let plans = match passes(requested, &active_range(job.stage, job.setting)) {
                Ok(plans) => plans,
                Err(refusal) => return self.unprepared(refusal.to_string()),
            };
            let pass = pass_bytes(requested, preparation.range_bytes);
            let all = pass.saturating_mul(u64::from(requested.passes));
            let so_far = job.written_bytes.load(Ordering::Relaxed);
            if let Some(limit) = job.write_limit_bytes
                && so_far.saturating_add(all) > limit
            {
                let (all, limit) = (bytes::rough(all), bytes::rough(limit));
                let reason = format!("it writes {all}, above the write limit of {limit}");
                return self.unprepared(format!("{reason} (--max-written)"));
            }
            for (number, plan) in plans.iter().enumerate() {
                (self.on_event)(&StageEvent::Preconditioning(number, plans.len(), plan));
                let moved = &mut |moved: &_| (self.on_event)(&StageEvent::Moved(moved));
                let run = execute_single(plan, &self.context.alone(), moved)?;
                let written = written_bytes(&run);
                job.written_bytes.fetch_add(written, Ordering::Relaxed);
                preparation.written_bytes += written;
                match run.outcome {
                    Outcome::Complete if written != pass => {
                        let reason = format!("pass {} wrote {written} of {pass} B", number + 1);
                        return self.unprepared(reason);
                    }
                    Outcome::Complete => preparation.passes += 1,
                    Outcome::Interrupted { signal } => {
                        self.end.signal = Some(signal);
                        return Ok(false);
                    }
                    Outcome::Failed { error } => return self.unprepared(error),
                }
            }
        }
        preparation.ended_unix_ns = iosonde_sys::clock::realtime_ns();
        self.end.run.prepared.push(preparation);
        (self.on_event)(&StageEvent::Prepared(&self.end.run));
        Ok(true)
    }

    /// Purges the target.
    fn purge(&self, range_bytes: u64, method: Purge) -> Result<Purged, String> {
        let now = iosonde_sys::clock::realtime_ns;
        if let Some(why) = self.job.reads_only {
            return Err(why.into());
        }
        match (&self.context.held, &self.context.medium) {
            (Some(held), _) => purge::purge(held, &self.context.root, range_bytes, method, now),
            (None, Medium::Sim(model)) => {
                model.forget();
                Ok(Purged {
                    method: "simulated".into(),
                    reason: "the target is a simulated device".into(),
                    range_bytes,
                    started_unix_ns: now(),
                    ended_unix_ns: now(),
                    ..Purged::default()
                })
            }
            _ => Err("this target cannot be purged".into()),
        }
    }

    /// Whether the stage was complete before an interruption of a later one.
    fn has_nothing_left(&self) -> bool {
        let (job, end) = (self.job, &self.end);
        let cells = job.laid_out.cells.len() - end.run.left_out.len();
        let all = cells * job.stage.most_repeats() as usize;
        self.finished.len() >= all || rounds::ended(job, end, self.finished).is_some()
    }

    /// Ends the stage for this reason.
    fn unprepared(&mut self, reason: String) -> Result<bool, EngineError> {
        self.end.run.ended_early = format!("{}: {reason}", StageRun::UNPREPARED);
        Ok(false)
    }
}

/// Bytes that were written, by the counts of all jobs.
pub(super) fn written_bytes(run: &Run) -> u64 {
    run.jobs.iter().map(|job| job.write.bytes).sum()
}
