//! Required content of the target: per block, the acknowledged, submitted and durable generations.
//! The ledger never reads the device, so that it is an independent reference.
//!
//! A block takes 12 bytes and one bit: 3.03 GiB for 1 TiB of 4 KiB blocks. Each job has a ledger of
//! its part of the target, where nobody else writes. A block therefore has one writer at a time,
//! and no lock is needed.

use super::comparisons::{Comparison, Comparisons};

/// Flag in a generation: the change was a trim.
const TRIM: u32 = 1 << 31;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The last acknowledged change.
    acked: u32,
    /// The last submitted change; after an error, ahead of `acked` too.
    submitted: u32,
    /// The last change made durable by a flush.
    durable: u32,
}

/// The ledger of one job's blocks.
#[derive(Clone, Debug)]
pub struct Ledger {
    entries: Vec<Entry>,
    /// One bit per block: whether an operation is in flight.
    busy: Vec<u64>,
    /// Changes since the last flush: block and generation.
    unflushed: Vec<(u32, u32)>,
    unflushed_limit: usize,
    /// Number of changes removed from the front of `unflushed`.
    flushed: u64,
    /// Whether any change was, or may have been, a trim.
    trims: bool,
}

/// Permitted content of a block.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Allowed<'a> {
    /// Lowest generation; 0 if content from before the run is permitted.
    pub low: u32,
    /// Highest generation. If above `low`, sectors of several generations may be mixed.
    pub high: u32,
    /// Whether zeros are permitted: the block was, or may have been, trimmed.
    pub zeros: bool,
    /// Whether no generation is permitted: the last change is an acknowledged trim.
    pub gone: bool,
    /// The permitted generations where jobs share a region. Empty elsewhere: all from `low` to
    /// `high` are permitted.
    pub outcomes: &'a [u32],
}

impl Allowed<'_> {
    /// Whether content from before the run is wrong.
    #[inline]
    pub fn requires(&self) -> bool {
        self.low > 0 || self.gone
    }

    /// Whether several contents are right, so that sectors of each may be mixed.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.low < self.high
    }

    /// Whether a whole block of this generation is permitted.
    #[inline]
    pub fn permits<C: Comparisons>(&self, generation: u32) -> bool {
        (generation >= self.low || !C::are_made(Comparison::Oldest))
            && (generation <= self.high || !C::are_made(Comparison::Newest))
            && (!self.gone || !C::are_made(Comparison::Trimmed))
            && (self.outcomes.is_empty()
                || self.outcomes.contains(&generation)
                || !C::are_made(Comparison::Outcomes))
    }
}

/// Changes that must be found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Survival {
    /// Acknowledged changes: power was not lost.
    Acknowledged,
    /// Changes made durable by a flush: power was lost.
    Durable,
}

/// Most changes remembered until a flush.
const MAX_UNFLUSHED: usize = 1 << 20;

impl Ledger {
    /// A ledger of blocks that were never changed. It remembers at most 2^20 changes until a flush:
    /// see [`Ledger::needs_flush`].
    pub fn new(blocks: u64) -> Ledger {
        let limit = MAX_UNFLUSHED.min(4 * blocks as usize + 64);
        Ledger {
            entries: vec![Entry::default(); blocks as usize],
            busy: vec![0; blocks.div_ceil(64) as usize],
            unflushed: Vec::with_capacity(limit),
            unflushed_limit: limit,
            flushed: 0,
            trims: false,
        }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Whether an operation is in flight on any of these blocks.
    #[inline]
    pub fn is_busy(&self, first: u64, count: u32) -> bool {
        (first..first + u64::from(count)).any(|block| self.busy[word(block)] & bit(block) != 0)
    }

    /// Marks these blocks as busy with an operation in flight.
    #[inline]
    pub fn begin(&mut self, first: u64, count: u32) {
        for block in first..first + u64::from(count) {
            self.busy[word(block)] |= bit(block);
        }
    }

    /// Marks these blocks as idle.
    #[inline]
    pub fn end(&mut self, first: u64, count: u32) {
        for block in first..first + u64::from(count) {
            self.busy[word(block)] &= !bit(block);
        }
    }

    /// Notes the submission of a write to this block; returns its generation.
    #[inline]
    pub fn submit_write(&mut self, block: u64) -> u32 {
        let entry = &mut self.entries[block as usize];
        entry.submitted = generation(entry.submitted) + 1;
        entry.submitted
    }

    /// Notes the submission of a trim of this block; returns its generation.
    #[inline]
    pub fn submit_trim(&mut self, block: u64) -> u32 {
        let entry = &mut self.entries[block as usize];
        entry.submitted = (generation(entry.submitted) + 1) | TRIM;
        self.trims = true;
        generation(entry.submitted)
    }

    /// Notes the acknowledgement of the last submitted change of this block.
    #[inline]
    pub fn acknowledge(&mut self, block: u64) {
        let entry = &mut self.entries[block as usize];
        entry.acked = entry.submitted;
        if self.unflushed.len() < self.unflushed_limit {
            self.unflushed.push((block as u32, entry.acked));
        }
    }

    /// Whether further changes are not remembered until a flush. Without a flush no conclusion is
    /// wrong, but fewer changes are known to be durable.
    #[inline]
    pub fn needs_flush(&self) -> bool {
        self.unflushed_limit > 0 && self.unflushed.len() >= self.unflushed_limit
    }

    /// Mark of a flush that is submitted now, for [`Ledger::flushed`]. The flush makes all changes
    /// durable that are acknowledged so far.
    pub fn flush(&self) -> u64 {
        self.flushed + self.unflushed.len() as u64
    }

    /// Notes the acknowledgement of a flush. Flushes may be acknowledged in any order.
    pub fn flushed(&mut self, mark: u64) {
        let count = mark.saturating_sub(self.flushed);
        for (block, change) in self.unflushed.drain(..count as usize) {
            self.entries[block as usize].durable = change;
        }
        self.flushed += count;
    }

    /// Makes all acknowledged changes durable.
    pub fn settle(&mut self) {
        self.flushed = self.flush();
        self.unflushed.clear();
        for entry in &mut self.entries {
            entry.durable = entry.acked;
        }
    }

    /// Frees the list of unflushed changes; this ledger is only read from now on.
    pub fn forget_unflushed(&mut self) {
        self.unflushed = Vec::new();
        self.unflushed_limit = 0;
    }

    /// Permits any number of submitted changes, since their number is unknown; `trims` if they may
    /// include trims.
    pub fn submitted_without_limit(&mut self, trims: bool) {
        self.trims |= trims;
        for entry in &mut self.entries {
            entry.submitted = generation(u32::MAX);
        }
    }

    /// The generations of a block: acknowledged, submitted, durable.
    pub fn generations(&self, block: u64) -> (u32, u32, u32) {
        let Entry { acked, submitted, durable } = self.entries[block as usize];
        (generation(acked), generation(submitted), generation(durable))
    }

    /// Whether a change of the block was submitted.
    pub fn was_changed(&self, block: u64) -> bool {
        self.entries[block as usize].submitted != 0
    }

    /// The permitted content of a block. An acknowledged trim leaves zeros where the target
    /// guarantees them, otherwise zeros or any older content.
    #[inline]
    pub fn allowed(
        &self,
        block: u64,
        survival: Survival,
        trims_make_zeros: bool,
    ) -> Allowed<'static> {
        let entry = &self.entries[block as usize];
        let required = match survival {
            Survival::Acknowledged => entry.acked,
            Survival::Durable => entry.durable,
        };
        let (low, high) = (generation(required), generation(entry.submitted));
        let is_trimmed = required & TRIM != 0;
        // Any change between the required one and the last may have been a trim; only for the last
        // one it is known.
        let may_be_trimmed =
            self.trims && low < high && (entry.submitted & TRIM != 0 || high - low > 1);
        match is_trimmed {
            // A trim that does not guarantee zeros may expose any older content.
            false if may_be_trimmed && !trims_make_zeros => {
                Allowed { low: 0, high, zeros: true, gone: false, outcomes: &[] }
            }
            false => Allowed { low, high, zeros: may_be_trimmed, gone: false, outcomes: &[] },
            true if trims_make_zeros => {
                Allowed { low, high, zeros: true, gone: low == high, outcomes: &[] }
            }
            true => Allowed { low: 0, high, zeros: true, gone: false, outcomes: &[] },
        }
    }
}

fn generation(change: u32) -> u32 {
    change & !TRIM
}

fn word(block: u64) -> usize {
    (block / 64) as usize
}

fn bit(block: u64) -> u64 {
    1 << (block % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACKED: Survival = Survival::Acknowledged;

    fn exactly(generation: u32) -> Allowed<'static> {
        Allowed { low: generation, high: generation, zeros: false, gone: false, outcomes: &[] }
    }

    #[test]
    fn a_tebibyte_of_4_kib_blocks_fits_into_4_gib() {
        let blocks = (1u64 << 40) / 4096;
        let bytes_per_block = size_of::<Entry>() as u64;
        assert!(blocks * bytes_per_block + blocks / 8 < 4 << 30);
        assert_eq!(bytes_per_block, 12);
    }

    #[test]
    fn what_is_in_flight_may_be_found_or_not() {
        let mut ledger = Ledger::new(8);
        assert_eq!(ledger.allowed(3, ACKED, true), exactly(0));
        assert_eq!(ledger.submit_write(3), 1);
        assert_eq!(ledger.allowed(3, ACKED, true), Allowed { high: 1, ..exactly(0) });
        ledger.acknowledge(3);
        assert_eq!(ledger.allowed(3, ACKED, true), exactly(1));
        // A write that failed stays possible until a later one is acknowledged.
        ledger.submit_write(3);
        assert_eq!(ledger.submit_write(3), 3);
        assert_eq!(
            ledger.allowed(3, ACKED, true),
            Allowed { low: 1, high: 3, zeros: false, gone: false, outcomes: &[] }
        );
        ledger.acknowledge(3);
        assert_eq!(ledger.allowed(3, ACKED, true), exactly(3));
    }

    #[test]
    fn a_flush_makes_durable_what_was_acknowledged_before_it() {
        let mut ledger = Ledger::new(8);
        ledger.submit_write(0);
        ledger.acknowledge(0);
        let mark = ledger.flush();
        ledger.submit_write(0);
        ledger.acknowledge(0);
        ledger.submit_write(1);
        ledger.acknowledge(1);
        ledger.flushed(mark);
        assert_eq!(ledger.generations(0), (2, 2, 1));
        assert_eq!(ledger.generations(1), (1, 1, 0));
        let after_power_loss = ledger.allowed(0, Survival::Durable, true);
        assert_eq!((after_power_loss.low, after_power_loss.high), (1, 2));
        let mark = ledger.flush();
        ledger.flushed(mark);
        assert_eq!(ledger.generations(0), (2, 2, 2));
    }

    #[test]
    fn flushes_may_overtake_each_other() {
        let mut ledger = Ledger::new(8);
        let write = |ledger: &mut Ledger, block| {
            ledger.submit_write(block);
            ledger.acknowledge(block);
            ledger.flush()
        };
        let first = write(&mut ledger, 0);
        let second = write(&mut ledger, 1);
        ledger.flushed(second);
        write(&mut ledger, 2);
        ledger.flushed(first);
        let durable = |ledger: &Ledger| [0, 1, 2].map(|block| ledger.generations(block).2);
        assert_eq!(durable(&ledger), [1, 1, 0]);
        let third = ledger.flush();
        write(&mut ledger, 3);
        ledger.flushed(third);
        assert_eq!(durable(&ledger), [1, 1, 1]);
        assert_eq!(ledger.generations(3).2, 0);
    }

    #[test]
    fn trims_leave_zeros_where_the_target_promises_them() {
        let mut ledger = Ledger::new(2);
        ledger.submit_write(0);
        ledger.acknowledge(0);
        ledger.submit_trim(0);
        let in_flight = ledger.allowed(0, ACKED, true);
        assert_eq!(in_flight, Allowed { low: 1, high: 2, zeros: true, gone: false, outcomes: &[] });
        ledger.acknowledge(0);
        assert!(ledger.allowed(0, ACKED, true).gone);
        let loose = ledger.allowed(0, ACKED, false);
        assert_eq!(loose, Allowed { low: 0, high: 2, zeros: true, gone: false, outcomes: &[] });
        assert_eq!(ledger.submit_write(0), 3);
        let pending = ledger.allowed(0, ACKED, true);
        assert_eq!(pending, Allowed { low: 2, high: 3, zeros: true, gone: false, outcomes: &[] });
        ledger.acknowledge(0);
        assert_eq!(ledger.allowed(0, ACKED, true), exactly(3));
        let never_flushed = ledger.allowed(0, Survival::Durable, true);
        assert_eq!(
            never_flushed,
            Allowed { low: 0, high: 3, zeros: true, gone: false, outcomes: &[] }
        );
    }

    #[test]
    fn where_nothing_is_trimmed_zeros_are_never_right() {
        let mut ledger = Ledger::new(2);
        let one_durable_and_two_pending = |ledger: &mut Ledger| {
            ledger.submit_write(0);
            ledger.acknowledge(0);
            let mark = ledger.flush();
            ledger.flushed(mark);
            ledger.submit_write(0);
            ledger.submit_write(0);
            ledger.allowed(0, Survival::Durable, true)
        };
        let found = one_durable_and_two_pending(&mut ledger);
        assert_eq!(found, Allowed { low: 1, high: 3, zeros: false, gone: false, outcomes: &[] });
        // Which of several changes was a trim is not remembered.
        ledger.submit_trim(1);
        assert!(one_durable_and_two_pending(&mut ledger).zeros);
    }

    #[test]
    fn one_operation_per_block_at_a_time() {
        let mut ledger = Ledger::new(200);
        ledger.begin(60, 10);
        for (first, count, busy) in
            [(50, 10, false), (50, 11, true), (69, 1, true), (70, 64, false)]
        {
            assert_eq!(ledger.is_busy(first, count), busy, "{first}+{count}");
        }
        ledger.end(60, 10);
        assert!(!ledger.is_busy(0, 200));
    }

    #[test]
    fn what_is_not_remembered_is_not_called_durable() {
        let mut ledger = Ledger::new(1);
        while !ledger.needs_flush() {
            ledger.submit_write(0);
            ledger.acknowledge(0);
        }
        let remembered = ledger.generations(0).0;
        ledger.submit_write(0);
        ledger.acknowledge(0);
        let mark = ledger.flush();
        ledger.flushed(mark);
        assert_eq!(ledger.generations(0), (remembered + 1, remembered + 1, remembered));
    }
}
