//! Pushed requests: whether one is struck, and what happens to it then.

use std::ops::Range;

use super::held::overlap;
use super::settle::{Kept, Role};
use super::{Fault, FaultQueue, Injected, Queue, Transfer, alter};

/// EIO and ENOSPC as Linux numbers them on every architecture.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Draws of another place before one with requests in flight is accepted.
const DRAWS: usize = 8;

/// How a struck request is handled.
enum Course {
    /// The caller gets this result, and the inner queue nothing.
    Answer(i32),
    /// The inner queue gets this transfer.
    Send(Transfer, Role),
}

impl<Q: Queue> FaultQueue<Q> {
    /// Pushes a request of the kind that the fault strikes.
    pub(super) fn push_or_strike(&mut self, slot: usize, transfer: Transfer) {
        match self.follow_up(slot, &transfer).or_else(|| self.strike(slot, &transfer)) {
            None => self.send(slot, self.pushed, transfer, None),
            Some(Course::Answer(result)) => self.answered.push((slot, result)),
            Some(Course::Send(changed, role)) => {
                self.send(slot, self.pushed, changed, Some(Box::new(role)));
            }
        }
    }

    /// Applies an earlier strike that waits for this request.
    fn follow_up(&mut self, slot: usize, transfer: &Transfer) -> Option<Course> {
        if self.kept.is_empty() {
            return None;
        }
        match self.injection.fault {
            Fault::Stale => self.replay(slot, transfer),
            Fault::Swap => self.swap(slot, transfer),
            _ => None,
        }
    }

    /// Counts an eligible request, and strikes it if it is its turn.
    #[inline]
    fn strike(&mut self, slot: usize, transfer: &Transfer) -> Option<Course> {
        if !self.is_eligible(transfer) {
            return None;
        }
        self.eligible += 1;
        if !self.injection.when.strikes(self.eligible) {
            return None;
        }
        self.course(slot, transfer)
    }

    fn is_eligible(&self, transfer: &Transfer) -> bool {
        let (offset, bytes) = (transfer.offset, u64::from(transfer.bytes));
        match self.injection.fault {
            Fault::Tear(sectors) => self.site.sectors(bytes) > u64::from(sectors.unwrap_or(1)),
            Fault::Short => self.site.sectors(bytes) > 1,
            Fault::SwapSectors | Fault::CopySector | Fault::ShiftSectors => {
                bytes / self.site.sector_bytes > 1
            }
            Fault::Misdirect | Fault::Duplicate | Fault::ReadMisdirect => {
                self.site.has_elsewhere(offset, bytes)
            }
            Fault::SyncEio | Fault::SyncLie => true,
            _ => bytes > 0,
        }
    }

    #[cold]
    fn course(&mut self, slot: usize, transfer: &Transfer) -> Option<Course> {
        let bytes = u64::from(transfer.bytes);
        Some(match self.injection.fault {
            Fault::Drop => self.answer(transfer, transfer.bytes as i32),
            Fault::SyncLie => self.answer(transfer, 0),
            Fault::SyncEio | Fault::WriteEio | Fault::ReadEio => self.answer(transfer, -EIO),
            Fault::Enospc => self.answer(transfer, -ENOSPC),
            Fault::Delay | Fault::Reorder => {
                if self.held.is_full() {
                    return None;
                }
                let content = self.moved(slot, transfer).to_vec();
                self.held.hold(slot, transfer, content);
                self.answer(transfer, transfer.bytes as i32)
            }
            Fault::Tear(sectors) => {
                let sectors = sectors.map(u64::from);
                let sectors = sectors.unwrap_or_else(|| self.site.tear(bytes, &mut self.chance));
                let kind = Fault::Tear(Some(sectors as u32));
                self.cut(transfer, kind, sectors, transfer.bytes as i32)
            }
            Fault::Short => {
                let sectors = self.site.sectors(bytes) / 2;
                let reported = sectors * self.site.sector_bytes;
                self.cut(transfer, Fault::Short, sectors, reported as i32)
            }
            Fault::Flip(_)
            | Fault::Byte
            | Fault::Zero
            | Fault::Corrupt
            | Fault::Phantom
            | Fault::SwapSectors
            | Fault::CopySector
            | Fault::ShiftSectors => self.alter(slot, transfer),
            Fault::Stale | Fault::Swap => Course::Send(*transfer, Role::Keep),
            Fault::Misdirect | Fault::ReadMisdirect => {
                let elsewhere = self.elsewhere(transfer)?;
                let harm = self.harm(transfer, 0..transfer.bytes as usize, Some(elsewhere));
                let role = Role::altered(transfer, transfer.bytes as i32, None, (0, harm));
                Course::Send(Transfer { offset: elsewhere, ..*transfer }, role)
            }
            Fault::Duplicate => {
                let elsewhere = self.elsewhere(transfer)?;
                Course::Send(*transfer, Role::Twin { elsewhere })
            }
            Fault::ReadFlip => Course::Send(*transfer, Role::ReadFlip),
        })
    }

    /// Logs the fault, and reports this result without doing the request.
    fn answer(&self, transfer: &Transfer, result: i32) -> Course {
        self.log.note(self.harm(transfer, 0..transfer.bytes as usize, None));
        Course::Answer(result)
    }

    /// Sends only the first sectors.
    fn cut(&self, transfer: &Transfer, kind: Fault, sectors: u64, reported: i32) -> Course {
        let sent = (sectors * self.site.sector_bytes) as u32;
        let harm = self.harm(transfer, sent as usize..transfer.bytes as usize, None);
        let harm = (sent, Injected { kind, ..harm });
        let sent = Transfer { bytes: sent, ..*transfer };
        Course::Send(sent, Role::altered(&sent, reported, None, harm))
    }

    /// Alters the bytes sent; the completion restores the caller's.
    fn alter(&mut self, slot: usize, transfer: &Transfer) -> Course {
        let original = self.moved(slot, transfer).to_vec();
        let mut chance = self.chance.clone();
        let (block, sector) = (self.site.block_bytes as usize, self.site.sector_bytes as usize);
        let (fault, forger) = (self.injection.fault, self.site.forge);
        let bytes = self.moved(slot, transfer);
        let range = match fault {
            Fault::Flip(bits) => alter::flip(bytes, block, bits, &mut chance),
            Fault::Zero => alter::zero(bytes, sector, &mut chance),
            Fault::Corrupt => alter::corrupt(bytes, &mut chance),
            Fault::SwapSectors => alter::swap(bytes, sector, &mut chance),
            Fault::CopySector => alter::copy(bytes, sector, &mut chance),
            Fault::ShiftSectors => alter::shift(bytes, sector),
            Fault::Phantom => alter::forge(bytes, block, forger, &mut chance),
            _ => alter::byte(bytes, &mut chance),
        };
        self.chance = chance;
        let harm = (range.start as u32, self.harm(transfer, range, None));
        let reported = transfer.bytes as i32;
        Course::Send(*transfer, Role::altered(transfer, reported, Some(original), harm))
    }

    /// Makes a write that overlaps a kept one store the kept content. It may be kept itself.
    #[cold]
    fn replay(&mut self, slot: usize, transfer: &Transfer) -> Option<Course> {
        let index = self.kept.iter().position(|kept| {
            let Kept { target, offset, content } = kept;
            *target == transfer.target && overlap(*offset, content.len(), transfer).is_some()
        })?;
        let old = self.kept.remove(index)?;
        let (from, to) = overlap(old.offset, old.content.len(), transfer)?;
        let at = (old.offset + from as u64 - transfer.offset) as usize;
        let range = at..at + (to - from);
        let original = self.moved(slot, transfer).to_vec();
        self.moved(slot, transfer)[range.clone()].copy_from_slice(&old.content[from..to]);
        self.eligible += 1;
        let keeps = self.injection.when.strikes(self.eligible);
        Some(Course::Send(
            *transfer,
            Role::Altered {
                sent: transfer.bytes,
                reported: transfer.bytes as i32,
                original: Some(original),
                harm_at: at as u32,
                harm: self.harm(transfer, range, None),
                keeps,
            },
        ))
    }

    /// Exchanges a write with a kept one of the same length at another place.
    #[cold]
    fn swap(&mut self, slot: usize, transfer: &Transfer) -> Option<Course> {
        let bytes = u64::from(transfer.bytes);
        let flights = &self.flights;
        let index = self.kept.iter().position(|kept| {
            kept.target == transfer.target
                && kept.content.len() as u64 == bytes
                && overlap(kept.offset, kept.content.len(), transfer).is_none()
                && Self::is_quiet(flights, kept.target, kept.offset, bytes)
        })?;
        let first = self.kept.remove(index)?;
        let original = self.moved(slot, transfer).to_vec();
        self.moved(slot, transfer).copy_from_slice(&first.content);
        Some(Course::Send(*transfer, Role::Swapped { original, elsewhere: first.offset }))
    }

    /// Draws another place for a transfer, if possible one without requests in flight.
    fn elsewhere(&mut self, transfer: &Transfer) -> Option<u64> {
        let bytes = u64::from(transfer.bytes);
        let mut drawn = None;
        for _ in 0..DRAWS {
            let place = self.site.elsewhere(transfer.offset, bytes, &mut self.chance)?;
            drawn = Some(place);
            if Self::is_quiet(&self.flights, transfer.target, place, bytes) {
                break;
            }
        }
        drawn
    }

    fn harm(&self, transfer: &Transfer, range: Range<usize>, elsewhere: Option<u64>) -> Injected {
        Injected {
            kind: self.injection.fault,
            offset: transfer.offset + range.start as u64,
            bytes: range.len() as u64,
            elsewhere,
        }
    }
}
