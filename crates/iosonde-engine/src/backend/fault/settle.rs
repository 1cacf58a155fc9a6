//! Completions: what is still to be done for a request, and what is reported to the caller.

use super::held::Due;
use super::{Fault, FaultQueue, Flight, Injected, Queue, Transfer, alter};
use iosonde_model::plan::IoKind;

/// Most writes whose content is kept; then the oldest is dropped.
const KEPT_MAX: usize = 256;

/// A completed write and its content.
pub(super) struct Kept {
    pub(super) target: u16,
    pub(super) offset: u64,
    pub(super) content: Vec<u8>,
}

/// Action when a request completes.
pub(super) enum Role {
    /// The transfer sent differs from the one requested.
    Altered {
        /// Result of a complete transfer, bytes.
        sent: u32,
        /// Result reported to the caller in that case.
        reported: i32,
        /// Original content of the buffer.
        original: Option<Vec<u8>>,
        /// Where in the transfer the harm begins, bytes; a shorter transfer did none.
        harm_at: u32,
        harm: Injected,
        /// Whether its content is kept.
        keeps: bool,
    },
    /// The content of the write is kept.
    Keep,
    /// The write is repeated at another place.
    Twin { elsewhere: u64 },
    /// It stored the content of an earlier write, whose place now gets the original content.
    Swapped { original: Vec<u8>, elsewhere: u64 },
    /// One bit of the data read is flipped.
    ReadFlip,
    /// An extra write on the slot of a caller's request that completed with this answer.
    Extra { answer: i32, original: Option<Vec<u8>>, harm: Option<Injected> },
}

impl Role {
    pub(super) fn altered(
        sent: &Transfer,
        reported: i32,
        original: Option<Vec<u8>>,
        (harm_at, harm): (u32, Injected),
    ) -> Role {
        Role::Altered { sent: sent.bytes, reported, original, harm_at, harm, keeps: false }
    }
}

impl<Q: Queue> FaultQueue<Q> {
    /// Handles the completion of a slot's request in the inner queue.
    pub(super) fn came_back(&mut self, slot: usize, result: i32) {
        let Flight { is_out, number, transfer, role } = &mut self.flights[slot];
        *is_out = false;
        let (number, transfer, role) = (*number, *transfer, role.take());
        self.in_flight -= 1;
        self.special -= usize::from(role.is_some());
        let reported = match role.map(|role| *role) {
            Some(Role::Extra { answer, original, harm }) => {
                self.restore(slot, &transfer, original.as_deref());
                if let Some(harm) = harm.filter(|_| is_whole(&transfer, result)) {
                    self.log.note(harm);
                }
                self.ready.push((slot, answer));
                return;
            }
            Some(role) => self.settle(slot, transfer, role, result),
            None => Some(result),
        };
        let Some(result) = reported else { return };
        if transfer.way == IoKind::Sync && result == 0 {
            self.held.synced(number, self.pushed);
        } else if let Some(due) = self.due(number, &transfer, result) {
            return self.land(slot, result, due);
        }
        self.ready.push((slot, result));
    }

    /// Completes what a strike began. Returns the result to report, or `None` if a further request
    /// goes out first.
    fn settle(&mut self, slot: usize, transfer: Transfer, role: Role, result: i32) -> Option<i32> {
        let is_whole = is_whole(&transfer, result);
        match role {
            Role::Altered { sent, reported, original, harm_at, harm, keeps } => {
                self.restore(slot, &transfer, original.as_deref());
                if is_whole || i64::from(result) > i64::from(harm_at) {
                    self.log.note(harm);
                }
                if keeps && is_whole {
                    self.keep(slot, &transfer);
                }
                return Some(if result == sent as i32 { reported } else { result });
            }
            Role::Keep if is_whole => self.keep(slot, &transfer),
            Role::Twin { elsewhere } if is_whole => {
                let harm = self.injected(&transfer, elsewhere);
                self.follow(slot, Transfer { offset: elsewhere, ..transfer }, result, harm);
                return None;
            }
            Role::Swapped { original, elsewhere } => {
                self.restore(slot, &transfer, Some(&original));
                if result > 0 {
                    let bytes = result as u64;
                    self.log.note(Injected { bytes, ..self.injected(&transfer, elsewhere) });
                }
                if is_whole {
                    let first = Transfer { offset: elsewhere, ..transfer };
                    let harm = self.injected(&first, transfer.offset);
                    self.follow(slot, first, result, harm);
                    return None;
                }
            }
            Role::ReadFlip if result > 0 => {
                let from = transfer.skip as usize;
                let read = &mut self.inner.buffer(slot)[from..from + result as usize];
                let range = alter::flip(read, result as usize, 1, &mut self.chance);
                self.note(
                    Fault::ReadFlip,
                    transfer.offset + range.start as u64,
                    range.len() as u64,
                    None,
                );
            }
            _ => {}
        }
        Some(result)
    }

    /// Writes the same bytes at another place, on the slot of the completed request.
    fn follow(&mut self, slot: usize, transfer: Transfer, answer: i32, harm: Injected) {
        let role = Role::Extra { answer, original: None, harm: Some(harm) };
        self.send(slot, self.pushed, transfer, Some(Box::new(role)));
    }

    /// The held write that is due now.
    fn due(&mut self, number: u64, transfer: &Transfer, result: i32) -> Option<Due> {
        if self.held.is_empty() || !is_whole(transfer, result) {
            return None;
        }
        let flights = &self.flights;
        let is_quiet = |target, offset, bytes| Self::is_quiet(flights, target, offset, bytes);
        self.held.due(number, transfer, is_quiet)
    }

    /// Sends a held write on the slot of the completed request.
    fn land(&mut self, slot: usize, answer: i32, due: Due) {
        let Due { target, offset, content } = due;
        let bytes = content.len() as u32;
        let transfer = Transfer { way: IoKind::Write, target, offset, skip: 0, bytes };
        let buffer = self.moved(slot, &transfer);
        let original = buffer.to_vec();
        buffer.copy_from_slice(&content);
        // It was logged when it was acknowledged.
        let role = Role::Extra { answer, original: Some(original), harm: None };
        self.send(slot, self.pushed, transfer, Some(Box::new(role)));
    }

    fn keep(&mut self, slot: usize, transfer: &Transfer) {
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
        }
        let content = self.moved(slot, transfer).to_vec();
        self.kept.push_back(Kept { target: transfer.target, offset: transfer.offset, content });
    }

    /// Restores the caller's bytes.
    fn restore(&mut self, slot: usize, transfer: &Transfer, original: Option<&[u8]>) {
        if let Some(original) = original {
            self.moved(slot, transfer).copy_from_slice(original);
        }
    }

    fn injected(&self, transfer: &Transfer, elsewhere: u64) -> Injected {
        Injected {
            kind: self.injection.fault,
            offset: transfer.offset,
            bytes: u64::from(transfer.bytes),
            elsewhere: Some(elsewhere),
        }
    }
}

/// Whether all of a transfer was done.
fn is_whole(transfer: &Transfer, result: i32) -> bool {
    result >= 0 && result as u32 == transfer.bytes
}
