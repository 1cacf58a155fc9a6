//! Writes that were acknowledged and are done later: after a sync, or after a later write too.

use crate::backend::Transfer;
use crate::plan::Way;

/// Writes held back at most; while so many are, no further one is.
const HELD_MAX: usize = 256;

/// A write that is due now.
pub(super) struct Due {
    pub(super) target: u16,
    pub(super) offset: u64,
    pub(super) content: Vec<u8>,
}

/// What is held back. Requests are numbered in the order in which they were pushed.
pub(super) struct Held {
    /// Whether only a later write to the same place makes one due.
    until_rewritten: bool,
    writes: Vec<Waiting>,
}

struct Waiting {
    write: Due,
    slot: usize,
    /// The latest request when the acknowledgement was handed over: syncs after that should have
    /// made it durable.
    acknowledged_at: Option<u64>,
    /// The latest request when such a sync had completed.
    synced_at: Option<u64>,
}

impl Held {
    pub(super) fn new(until_rewritten: bool) -> Held {
        Held { until_rewritten, writes: Vec::new() }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.writes.len() >= HELD_MAX
    }

    pub(super) fn hold(&mut self, slot: usize, transfer: &Transfer, content: Vec<u8>) {
        let write = Due { target: transfer.target, offset: transfer.offset, content };
        self.writes.push(Waiting { write, slot, acknowledged_at: None, synced_at: None });
    }

    /// The caller was told that the request of this slot is done.
    pub(super) fn acknowledged(&mut self, slot: usize, latest: u64) {
        for waiting in self.writes.iter_mut().filter(|waiting| waiting.slot == slot) {
            waiting.acknowledged_at.get_or_insert(latest);
        }
    }

    /// The sync of this number has completed.
    pub(super) fn synced(&mut self, number: u64, latest: u64) {
        for waiting in &mut self.writes {
            if waiting.acknowledged_at.is_some_and(|at| number > at) {
                waiting.synced_at.get_or_insert(latest);
            }
        }
    }

    /// What becomes due as this request has completed, where `is_quiet` says that nothing else is
    /// under way at a place (target, first byte, bytes).
    pub(super) fn due(
        &mut self,
        number: u64,
        transfer: &Transfer,
        is_quiet: impl Fn(u16, u64, u64) -> bool,
    ) -> Option<Due> {
        let rewritten = |waiting: &Waiting, synced_at: u64| {
            let Waiting { write, .. } = waiting;
            transfer.way == Way::Write
                && number > synced_at
                && write.target == transfer.target
                && write.overlap(transfer).is_some()
        };
        let index = self.writes.iter().position(|waiting| {
            let Due { target, offset, content } = &waiting.write;
            waiting.synced_at.is_some_and(|at| !self.until_rewritten || rewritten(waiting, at))
                && is_quiet(*target, *offset, content.len() as u64)
        })?;
        let mut due = self.writes.remove(index).write;
        if let Some((from, to)) = due.overlap(transfer).filter(|_| self.until_rewritten) {
            due.content.truncate(to);
            due.content.drain(..from);
            due.offset += from as u64;
        }
        Some(due)
    }
}

impl Due {
    /// Which of its bytes the transfer touches too.
    fn overlap(&self, transfer: &Transfer) -> Option<(usize, usize)> {
        overlap(self.offset, self.content.len(), transfer)
    }
}

/// Which of the bytes from `offset` a transfer touches.
pub(super) fn overlap(offset: u64, bytes: usize, transfer: &Transfer) -> Option<(usize, usize)> {
    let from = offset.max(transfer.offset);
    let to = (offset + bytes as u64).min(transfer.offset + u64::from(transfer.bytes));
    (from < to).then(|| ((from - offset) as usize, (to - offset) as usize))
}
