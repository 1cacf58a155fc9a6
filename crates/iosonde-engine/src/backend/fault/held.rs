//! Writes that were acknowledged but are done only after a sync that should have made them durable.
//!
//! Such a write is done once its place has been written again, so that the older data wins. With
//! `delay` it is also done after two reads of its place, so that a verifier that reads again finds
//! the same, and in any case after 1024 completions.

use crate::backend::Transfer;
use iosonde_model::plan::IoKind;

/// Most writes held back at once; further ones are not struck.
const HELD_MAX: usize = 256;
/// Reads of its place after which a delayed write is done.
const READS: u32 = 2;
/// Completions after the sync by which a delayed write is done in any case.
const LATEST: u32 = 1024;

/// A write that is due now.
pub(super) struct Due {
    pub(super) target: u16,
    pub(super) offset: u64,
    pub(super) content: Vec<u8>,
}

/// The writes held back. Requests are numbered in the order in which they were pushed.
pub(super) struct Held {
    /// Whether only a later write to the same place makes one due.
    until_rewritten: bool,
    writes: Vec<Waiting>,
}

struct Waiting {
    write: Due,
    slot: usize,
    /// Number of the latest request when the write was acknowledged: syncs after it should have
    /// made the write durable.
    acknowledged_at: Option<u64>,
    /// Number of the latest request when such a sync had completed.
    synced_at: Option<u64>,
    /// Completions since then, and reads of its place among them.
    completions: u32,
    reads: u32,
}

impl Waiting {
    /// Notes the completion of this request; returns whether the write is due.
    fn is_due(&mut self, number: u64, transfer: &Transfer, until_rewritten: bool) -> bool {
        if self.synced_at.is_none_or(|synced_at| number <= synced_at) {
            return false;
        }
        self.completions = self.completions.saturating_add(1);
        let touches = self.write.overlap(transfer).is_some();
        self.reads += u32::from(touches && transfer.way == IoKind::Read);
        touches && transfer.way == IoKind::Write
            || !until_rewritten && (self.reads >= READS || self.completions >= LATEST)
    }
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
        let (acknowledged_at, synced_at) = (None, None);
        let (completions, reads) = (0, 0);
        self.writes.push(Waiting { write, slot, acknowledged_at, synced_at, completions, reads });
    }

    /// Notes that the request of this slot was acknowledged to the caller.
    pub(super) fn acknowledged(&mut self, slot: usize, latest: u64) {
        for waiting in self.writes.iter_mut().filter(|waiting| waiting.slot == slot) {
            waiting.acknowledged_at.get_or_insert(latest);
        }
    }

    /// Notes that the sync of this number has completed.
    pub(super) fn synced(&mut self, number: u64, latest: u64) {
        for waiting in &mut self.writes {
            if waiting.acknowledged_at.is_some_and(|at| number > at) {
                waiting.synced_at.get_or_insert(latest);
            }
        }
    }

    /// The write that becomes due with this completion. `is_quiet` returns whether no request is in
    /// flight at a place (target, first byte, bytes).
    pub(super) fn due(
        &mut self,
        number: u64,
        transfer: &Transfer,
        is_quiet: impl Fn(u16, u64, u64) -> bool,
    ) -> Option<Due> {
        let until_rewritten = self.until_rewritten;
        let index = self.writes.iter_mut().position(|waiting| {
            let is_due = waiting.is_due(number, transfer, until_rewritten);
            let Due { target, offset, content } = &waiting.write;
            is_due && is_quiet(*target, *offset, content.len() as u64)
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
    /// Range of its bytes that the transfer overlaps.
    fn overlap(&self, transfer: &Transfer) -> Option<(usize, usize)> {
        overlap(self.offset, self.content.len(), transfer)
            .filter(|_| self.target == transfer.target)
    }
}

/// Range that a transfer overlaps of the `bytes` from `offset`, relative to `offset`.
pub(super) fn overlap(offset: u64, bytes: usize, transfer: &Transfer) -> Option<(usize, usize)> {
    let from = offset.max(transfer.offset);
    let to = (offset + bytes as u64).min(transfer.offset + u64::from(transfer.bytes));
    (from < to).then(|| ((from - offset) as usize, (to - offset) as usize))
}
