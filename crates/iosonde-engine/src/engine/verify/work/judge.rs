//! Checks data that was read, and reads failed blocks once more.

use super::{Slot, VerifyLoop, Whose};
use crate::backend::Queue;
use crate::engine::verify::check::Sighting;
use iosonde_model::content::block::Comparisons;
use iosonde_model::content::ledger::Allowed;

impl<Q: Queue, C: Comparisons> VerifyLoop<'_, Q, C> {
    /// Checks the data read. Returns whether it is read once more because a block failed.
    #[inline]
    pub(super) fn judge(&mut self, slot: u32, now_ns: u64) -> bool {
        let request = self.slots[slot as usize];
        if let Some(first_failure) = request.second_look {
            self.look_again(request, slot, first_failure);
            return false;
        }
        let (owner, op) = match request.whose {
            Whose::Own(index) => (self.number, Some(index)),
            Whose::Swept => (self.number, None),
            Whose::Given(_) => {
                let ends = self.job_inputs.ends.as_ref();
                (ends.map_or(self.number, |ends| ends.producer), Some(self.stream.index()))
            }
        };
        let failures = self.report.failures.len();
        let block_bytes = self.plan.block_bytes as usize;
        let buffer = &self.queue.buffer(slot as usize)[..request.blocks as usize * block_bytes];
        let mut offset = request.offset;
        let mut all_right = true;
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for (block, bytes) in (request.first..).zip(buffer.chunks_exact(block_bytes)) {
            let (allowed, durable) = match (request.whose, &self.shared.barrier) {
                (Whose::Given(parcel), _) => (exactly(parcel.generation), 0),
                (_, Some(barrier)) => {
                    let allowed = barrier.outcomes(|known| known.allowed(block, &mut outcomes));
                    (self.checker.since_begin(allowed), 0)
                }
                _ => {
                    let allowed = self.checker.allowed(&self.ledger, block);
                    (allowed, self.ledger.generations(block).2)
                }
            };
            let sighting = Sighting {
                owner,
                block,
                op,
                after_ops: self.stream.index(),
                unix_ns: now_ns + self.unix_offset_ns,
            };
            let report = &mut self.report;
            all_right &= self.checker.check(bytes, offset, allowed, durable, sighting, report);
            offset += block_bytes as u64;
        }
        self.outcomes = outcomes;
        if all_right || self.report.failures.len() == failures {
            return false;
        }
        self.slots[slot as usize].second_look = Some(failures);
        self.slots[slot as usize].moved = 0;
        self.poison(slot);
        self.again.push(slot);
        true
    }

    /// Checks the second read of a request with failed blocks.
    #[cold]
    fn look_again(&mut self, request: Slot, slot: u32, first_failure: usize) {
        let block_bytes = self.plan.block_bytes as usize;
        let buffer = &self.queue.buffer(slot as usize)[..request.blocks as usize * block_bytes];
        let end = request.offset + u64::from(request.bytes(self.plan));
        for failure in &mut self.report.failures[first_failure..] {
            if !(request.offset..end).contains(&failure.offset) {
                continue;
            }
            let at = (failure.offset - request.offset) as usize;
            let allowed = match (request.whose, &self.shared.barrier) {
                (Whose::Given(parcel), _) => exactly(parcel.generation),
                (_, Some(barrier)) => self.checker.since_begin(
                    barrier.outcomes(|known| known.allowed(failure.block, &mut self.outcomes)),
                ),
                _ => self.checker.allowed(&self.ledger, failure.block),
            };
            self.checker.reread(&buffer[at..at + block_bytes], allowed, failure);
        }
    }
}

/// One generation and no other.
fn exactly(generation: u32) -> Allowed<'static> {
    Allowed { low: generation, high: generation, ..Allowed::default() }
}
