//! Completions: whole, short or failed.

use std::sync::atomic::Ordering;

use iosonde_sys::errno_name;

use super::{AGAIN, EIO, ENODATA, MAX_ERRORS, Phase, Slot, VerifyLoop, Whose};
use crate::backend::Queue;
use crate::engine::verify::ring::Parcel;
use iosonde_model::content::block::Comparisons;
use iosonde_model::plan::IoKind;

impl<Q: Queue, C: Comparisons> VerifyLoop<'_, Q, C> {
    /// Handles a completion.
    #[inline]
    pub(super) fn settle(&mut self, slot: u32, result: i32, now_ns: u64) {
        self.in_flight -= 1;
        let request = &mut self.slots[slot as usize];
        let wanted = request.blocks * self.plan.block_bytes - request.moved;
        if result >= 0 && result as u32 == wanted {
            self.complete(slot, now_ns);
        } else if result > 0 && (result as u32) < wanted {
            request.moved += result as u32;
            self.report.short_transfers += 1;
            self.again.push(slot);
        } else if AGAIN.contains(&-result) {
            self.again.push(slot);
        } else {
            // More bytes than requested is an error, too.
            let errno = if result > 0 { EIO } else { -result };
            self.fail(slot, if result == 0 { ENODATA } else { errno });
        }
    }

    #[inline]
    fn complete(&mut self, slot: u32, now_ns: u64) {
        let request = self.slots[slot as usize];
        let Slot { way, first, blocks, .. } = request;
        let bytes = u64::from(request.bytes(self.plan));
        let took_ns = now_ns.saturating_sub(request.submitted_ns);
        self.ops_done += 1;
        match way {
            IoKind::Read => {
                if request.second_look.is_none() {
                    self.report.read_latency.record(took_ns);
                    self.report.read_bytes += bytes;
                }
                if self.judge(slot, now_ns) {
                    return;
                }
                match request.whose {
                    Whose::Own(_) => self.ledger.end(first, blocks),
                    Whose::Swept => self.report.swept_blocks += u64::from(blocks),
                    Whose::Given(parcel) => self.thank(parcel),
                }
            }
            IoKind::Write | IoKind::Trim => {
                if way == IoKind::Write {
                    self.report.write_latency.record(took_ns);
                    self.report.written_bytes += bytes;
                } else {
                    self.report.trimmed_bytes += bytes;
                }
                (first..first + u64::from(blocks)).for_each(|block| self.ledger.acknowledge(block));
                self.hand_on(first, blocks);
            }
            IoKind::Sync => {
                self.report.flush_latency.record(took_ns);
                self.flushed(request);
            }
        }
        self.release(slot);
    }

    #[inline]
    fn release(&mut self, slot: u32) {
        self.slots[slot as usize].is_open = false;
        self.free.push(slot);
    }

    /// Releases the blocks of a write for the next write; in a ring, once they were read.
    #[inline]
    fn hand_on(&mut self, first: u64, blocks: u32) {
        match &mut self.job_inputs.ends {
            None => self.ledger.end(first, blocks),
            Some(ends) => {
                let generation = self.ledger.generations(first).0;
                ends.give(Parcel { first, blocks, generation });
            }
        }
    }

    pub(super) fn thank(&mut self, parcel: Parcel) {
        if let Some(ends) = &mut self.job_inputs.ends {
            ends.thank(parcel);
        }
    }

    /// Handles an acknowledged flush.
    fn flushed(&mut self, request: Slot) {
        // The kernel reports a write-back error once: a later flush succeeds, but proves nothing.
        if !self.shared.flush_failed() {
            let (mark, ops) = request.mark;
            self.ledger.flushed(mark);
            self.durable_ops = self.durable_ops.max(ops);
            if let Whose::Own(index) = request.whose {
                self.notify(index, false);
            }
            self.report.flushes += 1;
            if self.job_inputs.journal.is_some() {
                self.note();
            }
        }
        if self.phase == Phase::ReportedFlush {
            self.phase = Phase::Churn;
        }
    }

    /// Ends the run after a failed flush.
    fn flush_failed(&mut self, name: &str) {
        self.shared.flush_failed.store(true, Ordering::Release);
        if self.phase == Phase::ReportedFlush {
            self.phase = Phase::Churn;
        }
        self.shared.control.fail(format!(
            "flush: {name}; what was written since the last one may be lost, and a flush that \
             succeeds later would prove nothing about it, so none is tried"
        ));
    }

    /// Ends a witnessed run: a witness cannot record that an operation failed.
    fn cannot_vouch(&self, name: &str) {
        if self.shared.flush_observer.is_some() {
            self.shared.flush_failed.store(true, Ordering::Release);
            let what = format!("a write failed with {name}; a witness cannot record this");
            self.shared.control.fail(what);
        }
    }

    /// Handles a request that failed for good.
    #[cold]
    fn fail(&mut self, slot: u32, errno: i32) {
        let request = self.slots[slot as usize];
        let bytes = u64::from(request.bytes(self.plan));
        let name = errno_name(errno);
        *self.report.errors.entry(format!("{} {name}", request.way.word())).or_default() += 1;
        let first = (request.offset, bytes, name.clone());
        self.report.first_error.get_or_insert(first);
        self.errors += 1;
        match (request.way, request.whose) {
            (IoKind::Sync, _) => self.flush_failed(&name),
            (IoKind::Read, whose) => {
                self.report.unreadable_blocks += u64::from(request.blocks);
                match whose {
                    Whose::Own(_) => self.ledger.end(request.first, request.blocks),
                    Whose::Given(parcel) => self.thank(parcel),
                    Whose::Swept => {}
                }
            }
            (IoKind::Write | IoKind::Trim, _) => {
                self.ledger.end(request.first, request.blocks);
                self.cannot_vouch(&name);
                if let (Some(barrier), Whose::Own(op)) = (&self.shared.barrier, request.whose) {
                    barrier.failed(self.number, op);
                }
            }
        }
        // A flush changes no data, so that its failure leaves no doubt to note.
        if let (Whose::Own(op), Some(journal)) = (request.whose, &mut self.job_inputs.journal)
            && request.way != IoKind::Sync
            && let Err(error) = journal.failed(op)
        {
            self.shared.control.fail(format!("the ledger cannot be written: {error}"));
        }
        if self.errors == MAX_ERRORS {
            let what = format!("{MAX_ERRORS} requests failed, the last with {name}");
            self.shared.control.fail(what);
        }
        self.release(slot);
    }
}
