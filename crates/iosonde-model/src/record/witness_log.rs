//! The witness, another machine that follows a run until this one loses power, and its log.
//!
//! Before and after each flush, a run that awaits a power cut sends a line to the witness. It
//! continues only when the witness has the line on its own storage. Afterwards the log shows which
//! data must be present.
//!
//! ```text
//! hello iosonde-witness/1 RUN HEADER   the header of the ledger, in one line
//! pre JOB FLUSH OPS                    flush FLUSH of job JOB is about to be sent, and OPS of its
//!                                      operations were answered before
//! post JOB FLUSH OPS                   that flush was answered: they have to survive
//! bye                                  the run has ended in order
//! ```
//!
//! Each line is answered by `ok N`, the number of the line from 1, or by `error WORDS`. The flushes
//! of a job are counted from 1. A job sends no operation that follows a flush before `post` was
//! answered, so that the log also gives an upper bound of its progress.
//!
//! In the log, each line is preceded by its number and its time in ns since 1970, and all that by
//! its CRC-32C. An incomplete last line was cut off with the witness; it is dropped, which is
//! reported. It may have been answered nevertheless, which the upper bound allows for. Any other
//! incomplete line is an error.

mod line;
mod read;
mod write;

use super::ledger_file::LedgerHeader;
use crate::content::ledger::Ledger;
use crate::content::replay::{Known, replay};
use crate::plan::{IoKind, VerifyPlan, VerifyStream};

pub use line::{Line, LineError, MAX_LINE_BYTES};
pub use read::{WitnessLog, WitnessLogError};
pub use write::{Recorder, Unrecorded};

/// Reported progress of one job.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WitnessedJob {
    /// Flushes that were answered.
    pub flushes: u64,
    /// All operations before this one have to survive.
    pub durable_ops: u64,
    /// Answered operations before a flush that was announced and whose result is unknown. All of
    /// them were submitted.
    pub pending_ops: Option<u64>,
    /// No operation after this flush of the job, counted from 1, was submitted.
    pub submitted_at_most_flush: u64,
}

impl WitnessedJob {
    /// Permitted and required content of this job's part of the target: durable operations, and any
    /// up to the flush that the job cannot have passed.
    pub fn ledger(&self, plan: &VerifyPlan, job: usize) -> Ledger {
        let answered = self.pending_ops.unwrap_or(self.durable_ops);
        let submitted = self.submitted_at_most(plan, job);
        let known = Known {
            submitted: submitted.unwrap_or(answered),
            acked: answered,
            durable: self.durable_ops,
            failed: Vec::new(),
        };
        replay(plan, job, &known, submitted.is_some())
    }

    /// No operation from this one on was submitted; `None` if that is unknown, because the job
    /// flushes only at its end.
    fn submitted_at_most(&self, plan: &VerifyPlan, job: usize) -> Option<u64> {
        match self.pending_ops {
            // All operations were answered before the flush was announced, and none was sent since.
            Some(ops) if self.submitted_at_most_flush == self.flushes + 1 => return Some(ops),
            // The only flush is the last one, and nothing comes after it.
            None if plan.flush_every == 0 && self.flushes > 0 => return Some(self.durable_ops),
            _ if plan.flush_every == 0 => return None,
            _ => {}
        }
        let passed = match (self.pending_ops, self.flushes) {
            (Some(ops), _) => Some(ops),
            (None, 0) => None,
            (None, _) => Some(self.durable_ops),
        };
        let mut flushes = VerifyStream::new(plan, job).filter(|op| op.way == IoKind::Sync);
        let next = flushes.find(|op| passed.is_none_or(|passed| op.index > passed));
        // The rest of a stream follows its last flush.
        Some(next.map_or(u64::MAX, |op| op.index))
    }
}

/// State of the conversation, whose order is checked.
#[derive(Debug, Default)]
struct Conversation {
    header: Option<LedgerHeader>,
    jobs: Vec<WitnessedJob>,
    lines: u64,
    ended: bool,
}

impl Conversation {
    /// Processes one line, or returns why it is not permitted here.
    fn hear(&mut self, line: Line) -> Result<(), String> {
        if self.ended {
            return Err("found a line after `bye`".into());
        }
        match line {
            Line::Hello(header) if self.header.is_none() => {
                let fresh = WitnessedJob { submitted_at_most_flush: 1, ..WitnessedJob::default() };
                self.jobs = vec![fresh; header.jobs as usize];
                self.header = Some(*header);
            }
            Line::Hello(_) => return Err("found a second `hello`".into()),
            _ if self.header.is_none() => return Err("expected `hello` first".into()),
            Line::Pre { job, flush, ops } => {
                let job = self.job(job)?;
                let next = job.flushes + 1;
                if job.pending_ops.is_some() || flush != next || ops < job.durable_ops {
                    return Err(format!("found `pre` of flush {flush} after {job:?}"));
                }
                job.pending_ops = Some(ops);
            }
            Line::Post { job, flush, ops } => {
                let job = self.job(job)?;
                if job.pending_ops != Some(ops) || flush != job.flushes + 1 {
                    return Err(format!("found `post` of flush {flush} after {job:?}"));
                }
                *job = WitnessedJob {
                    flushes: flush,
                    durable_ops: ops,
                    pending_ops: None,
                    submitted_at_most_flush: flush.saturating_add(1),
                };
            }
            Line::Bye => self.ended = true,
        }
        self.lines += 1;
        Ok(())
    }

    fn job(&mut self, number: u32) -> Result<&mut WitnessedJob, String> {
        let jobs = self.jobs.len();
        let job = self.jobs.get_mut(number as usize);
        job.ok_or_else(|| format!("found job {number}, expected one of {jobs}"))
    }
}

#[cfg(test)]
mod tests;
