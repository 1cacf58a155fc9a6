//! Begins requests: the buffer is sealed or poisoned, and the request staged.

use super::{LAST_GENERATION, Phase, Slot, VerifyLoop, Whose};
use crate::backend::{Queue, Transfer};
use crate::engine::verify::ring::Ends;
use iosonde_model::content::block::{Comparisons, Label};
use iosonde_model::content::outcomes::generation;
use iosonde_model::plan::{IoKind, VerifyOp};

impl<Q: Queue, C: Comparisons> VerifyLoop<'_, Q, C> {
    pub(super) fn begin_transfer(&mut self, op: VerifyOp, now_ns: u64) {
        let VerifyOp { index, way, first, blocks } = op;
        let Some(slot) = self.free.pop() else { return };
        let offset = self.plan.offset_of(self.number, first);
        self.slots[slot as usize] = Slot {
            way,
            whose: Whose::Own(index),
            offset,
            first,
            blocks,
            submitted_ns: now_ns,
            ..Slot::IDLE
        };
        self.ledger.begin(first, blocks);
        match way {
            IoKind::Write => self.seal(slot, index, now_ns),
            IoKind::Trim => {
                for block in first..first + u64::from(blocks) {
                    self.is_exhausted |= self.ledger.submit_trim(block) >= LAST_GENERATION;
                }
            }
            IoKind::Read | IoKind::Sync => self.poison(slot),
        }
        self.push(slot);
    }

    /// Fills the buffer of a write.
    #[inline]
    fn seal(&mut self, slot: u32, sequence: u64, now_ns: u64) {
        let Slot { offset, first, blocks, .. } = self.slots[slot as usize];
        let block_bytes = self.plan.block_bytes as usize;
        let buffer = &mut self.queue.buffer(slot as usize)[..blocks as usize * block_bytes];
        let mut label = Label {
            offset,
            generation: 0,
            writer: self.number as u16,
            sequence,
            time_ns: now_ns + self.unix_offset_ns,
        };
        // Where jobs share the region, a generation encodes job and operation.
        let jobs = self.plan.plan.jobs.len();
        let shared = self.plan.overlaps().then(|| generation(sequence, self.number, jobs));
        let margin = if shared.is_some() { 2 * jobs as u32 } else { 0 };
        for (block, bytes) in (first..).zip(buffer.chunks_exact_mut(block_bytes)) {
            label.generation = self.ledger.submit_write(block);
            if let Some(shared) = shared {
                label.generation = shared;
            }
            self.is_exhausted |= label.generation >= LAST_GENERATION - margin;
            self.checker.format.seal(bytes, &label);
            label.offset += block_bytes as u64;
        }
    }

    #[inline]
    pub(super) fn poison(&mut self, slot: u32) {
        let bytes = self.slots[slot as usize].bytes(self.plan) as usize;
        self.checker.format.poison(&mut self.queue.buffer(slot as usize)[..bytes]);
    }

    pub(super) fn begin_flush(&mut self, index: u64, now_ns: u64) {
        let mark = (self.ledger.flush(), self.acked_ops());
        let Some(slot) = self.free.pop() else { return };
        self.slots[slot as usize] = Slot {
            way: IoKind::Sync,
            whose: Whose::Own(index),
            submitted_ns: now_ns,
            mark,
            ..Slot::IDLE
        };
        self.push(slot);
    }

    /// Notifies the observer of a flush and sends it, once nothing else is in flight.
    pub(super) fn begin_reported_flush(&mut self, now_ns: u64) -> bool {
        let Some(op) = self.pending.filter(|_| self.is_idle() && self.staged.is_empty()) else {
            return false;
        };
        if !self.notify(op.index, true) {
            return false;
        }
        self.pending = None;
        self.begin_flush(op.index, now_ns);
        true
    }

    pub(super) fn begin_last_flush(&mut self, now_ns: u64) -> bool {
        if self.shared.flush_failed() {
            self.phase = Phase::LastFlush { sent: true };
            return true;
        }
        if !self.is_idle() || !self.staged.is_empty() || !self.notify(self.submitted_ops(), true) {
            return false;
        }
        self.phase = Phase::LastFlush { sent: true };
        self.begin_flush(self.submitted_ops(), now_ns);
        true
    }

    /// Notifies the flush observer, if there is one; returns whether the run continues.
    pub(super) fn notify(&mut self, ops: u64, before: bool) -> bool {
        let Some(flush_observer) = &self.shared.flush_observer else { return true };
        let flush = self.report.flushes;
        let notified = match before {
            true => flush_observer.before_flush(self.number, flush, ops),
            false => flush_observer.after_flush(self.number, flush, ops),
        };
        if let Err(error) = &notified {
            self.shared.control.fail(format!("the witness: {error}"));
            self.phase = Phase::Over;
        }
        notified.is_ok()
    }

    pub(super) fn begin_piece(&mut self, begun: u64, now_ns: u64) {
        let Some(slot) = self.free.pop() else { return };
        let most = u64::from(self.plan.max_blocks);
        let first = self.swept.start + self.pieces.at(begun) * most;
        let blocks = most.min(self.swept.end - first) as u32;
        let offset = self.plan.offset_of(self.number, first);
        self.slots[slot as usize] =
            Slot { whose: Whose::Swept, offset, first, blocks, submitted_ns: now_ns, ..Slot::IDLE };
        self.phase = Phase::Sweep(begun + 1);
        self.poison(slot);
        self.push(slot);
    }

    /// Serves the ring; returns whether it began a read.
    pub(super) fn serve_ring(&mut self, now_ns: u64) -> bool {
        let Some(ends) = &mut self.job_inputs.ends else { return false };
        ends.push_on();
        while let Some(parcel) = ends.returned() {
            self.ledger.end(parcel.first, parcel.blocks);
        }
        let Some(parcel) = ends.take() else { return false };
        let offset = self.plan.offset_of(ends.producer, parcel.first);
        let Some(slot) = self.free.pop() else { return false };
        self.slots[slot as usize] = Slot {
            whose: Whose::Given(parcel),
            offset,
            first: parcel.first,
            blocks: parcel.blocks,
            submitted_ns: now_ns,
            ..Slot::IDLE
        };
        self.poison(slot);
        self.push(slot);
        true
    }

    pub(super) fn ring_has_room(&self) -> bool {
        self.job_inputs.ends.as_ref().is_none_or(Ends::has_room)
    }

    /// Stages the rest of a request.
    #[inline]
    pub(super) fn push(&mut self, slot: u32) {
        self.slots[slot as usize].is_open = true;
        self.staged.push(slot);
    }

    /// Pushes the staged requests to the queue, once they are noted.
    #[inline]
    pub(super) fn stage(&mut self) {
        for slot in &self.staged {
            let request = &self.slots[*slot as usize];
            let (way, moved) = (request.way, request.moved);
            let bytes = request.bytes(self.plan) - moved;
            let offset = request.offset + u64::from(moved);
            let transfer = Transfer { way, target: 0, offset, skip: moved, bytes };
            self.queue.push(*slot as usize, transfer);
        }
    }
}
