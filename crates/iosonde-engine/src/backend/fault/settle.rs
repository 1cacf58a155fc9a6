//! A request on its way up: what is still to be done, and what the caller is reported.

use super::held::Due;
use super::{Fault, FaultQueue, Flight, Injected, Queue, Transfer, alter};
use iosonde_model::plan::IoKind;

/// Writes whose content is kept at most; then the oldest is forgotten.
const KEPT_MAX: usize = 256;

/// A write that was done, with what it stored.
pub(super) struct Kept {
    pub(super) target: u16,
    pub(super) offset: u64,
    pub(super) content: Vec<u8>,
}

/// What is to be done when a request comes back.
pub(super) enum Role {
    /// Something else was sent than was asked for.
    Altered {
        /// What makes it complete, bytes.
        sent: u32,
        /// What the caller is reported then.
        reported: i32,
        /// What stood in the buffer.
        original: Option<Vec<u8>>,
        /// Where in the transfer the harm begins: what falls short of it did none.
        harm_at: u32,
        harm: Injected,
        /// Whether its content is kept.
        keeps: bool,
    },
    /// Its content is kept.
    Keep,
    /// It is done once more at another place.
    Twin { elsewhere: u64 },
    /// It has stored the content of an earlier write, whose place now gets this content.
    Swapped { original: Vec<u8>, elsewhere: u64 },
    /// A bit of what was read is flipped.
    ReadFlip,
    /// A request of ours on a slot of the caller's, whose own has completed with this answer.
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
    /// The inner queue has finished the request of a slot.
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

    /// Completes what a strike began. Gives what the caller is reported, or nothing if a further
    /// request goes out first.
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

    /// Sends a further write of the same bytes on the slot of one that has completed.
    fn follow(&mut self, slot: usize, transfer: Transfer, answer: i32, harm: Injected) {
        let role = Role::Extra { answer, original: None, harm: Some(harm) };
        self.send(slot, self.pushed, transfer, Some(Box::new(role)));
    }

    /// A write that was held back and is due now.
    fn due(&mut self, number: u64, transfer: &Transfer, result: i32) -> Option<Due> {
        if self.held.is_empty() || !is_whole(transfer, result) {
            return None;
        }
        let flights = &self.flights;
        let is_quiet = |target, offset, bytes| Self::is_quiet(flights, target, offset, bytes);
        self.held.due(number, transfer, is_quiet)
    }

    /// Does a write that was held back, on the slot of a request that has completed.
    fn land(&mut self, slot: usize, answer: i32, due: Due) {
        let Due { target, offset, content } = due;
        let bytes = content.len() as u32;
        let transfer = Transfer { way: IoKind::Write, target, offset, skip: 0, bytes };
        let buffer = self.moved(slot, &transfer);
        let original = buffer.to_vec();
        buffer.copy_from_slice(&content);
        // Since the acknowledgement it stands in the log.
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

    /// Gives the caller its bytes back.
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
