//! Progress of a job: for its journal, for the other jobs at a barrier, and for its record.

use iosonde_model::content::block::Comparisons;
use iosonde_model::plan::IoKind;

use super::{MARK_NS, MARKS, VerifyLoop, Whose};
use crate::backend::Queue;

impl<Q: Queue, C: Comparisons> VerifyLoop<'_, Q, C> {
    /// Operations of the stream that were begun, without one that waits for a busy block.
    pub(super) fn submitted_ops(&self) -> u64 {
        self.pending.map_or(self.stream.index(), |op| op.index)
    }

    /// Operations of the stream that were acknowledged, up to the first gap.
    pub(super) fn acked_ops(&self) -> u64 {
        let next = self.submitted_ops();
        let open = self.slots.iter().filter(|slot| slot.is_open).filter_map(|s| match s.whose {
            Whose::Own(index) => Some(index),
            _ => None,
        });
        open.min().unwrap_or(next).min(next)
    }

    /// Journals the staged operations before submission; returns whether the run continues.
    #[inline]
    pub(super) fn note_staged(&mut self) -> bool {
        if self.job_inputs.journal.is_none() || self.staged.is_empty() {
            return true;
        }
        let changes =
            |slot: &u32| matches!(self.slots[*slot as usize].way, IoKind::Write | IoKind::Trim);
        if !self.staged.iter().any(changes) {
            return true;
        }
        self.note()
    }

    pub(super) fn note(&mut self) -> bool {
        let acked = self.acked_ops();
        let submitted = self.submitted_ops();
        let Some(journal) = &mut self.job_inputs.journal else { return true };
        match journal.note(submitted, acked, self.durable_ops) {
            Ok(()) => true,
            Err(error) => {
                self.shared.control.fail(format!("the ledger cannot be written: {error}"));
                false
            }
        }
    }

    /// Notes when an operation took place.
    #[cold]
    pub(super) fn mark(&mut self, now_ns: u64) {
        self.next_mark_ns = now_ns + MARK_NS;
        if self.report.marks.len() == MARKS {
            let mut keep = false;
            self.report.marks.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.report.marks.push((self.stream.index(), now_ns + self.unix_offset_ns));
    }

    /// Whether this job waits at the end of an epoch that is not over.
    #[inline]
    pub(super) fn is_at_barrier(&mut self) -> bool {
        let Some(barrier) = &self.shared.barrier else { return false };
        if self.stream.index() < (self.epoch + 1) * self.plan.epoch_ops {
            return false;
        }
        if self.in_flight + self.staged.len() > 0 || !self.again.is_empty() {
            return true;
        }
        if !self.has_arrived {
            self.has_arrived = true;
            barrier.arrive();
        }
        if barrier.epoch() == self.epoch {
            return true;
        }
        self.epoch += 1;
        self.has_arrived = false;
        false
    }

    /// Leaves the barrier: the other jobs do not wait for this one any more.
    pub(super) fn leave(&mut self) {
        let (submitted, acked) = (self.submitted_ops(), self.acked_ops());
        if let Some(barrier) = &self.shared.barrier {
            let arrived_at = self.has_arrived.then_some(self.epoch);
            barrier.leave(self.number, submitted, acked, arrived_at);
        }
    }
}
