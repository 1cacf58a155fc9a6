//! A queue that completes every request at once and moves no data: the tool's own ceiling. As a
//! test aid it can count the bytes written to each block.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use iosonde_sys::{Clock, Slab};

use super::{OpenError, Queue, QueueFacts, Transfer, setup};
use iosonde_model::plan::{IoKind, Job};

/// Bytes written per block of a null target.
#[derive(Debug)]
pub struct Counts {
    block_bytes: u64,
    bytes: Vec<AtomicU32>,
}

impl Counts {
    /// A counter for each block of `target_bytes`, a partial last one included.
    pub fn new(target_bytes: u64, block_bytes: u64) -> Counts {
        let blocks = target_bytes.div_ceil(block_bytes);
        Counts { block_bytes, bytes: (0..blocks).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Bytes written to each block.
    pub fn bytes(&self) -> Vec<u32> {
        self.bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect()
    }

    fn add(&self, transfer: &Transfer) {
        let (mut at, end) = (transfer.offset, transfer.offset + u64::from(transfer.bytes));
        while at < end {
            let block = at / self.block_bytes;
            let next = end.min((block + 1) * self.block_bytes);
            if let Some(bytes) = self.bytes.get(block as usize) {
                bytes.fetch_add((next - at) as u32, Ordering::Relaxed);
            }
            at = next;
        }
    }
}

#[derive(Debug)]
pub struct NullQueue {
    clock: Clock,
    slab: Slab,
    finished: Vec<(usize, i32)>,
    counts: Option<Arc<Counts>>,
}

impl NullQueue {
    /// A queue for this job.
    ///
    /// # Errors
    /// If there is no memory for the buffers.
    pub fn open(job: &Job, clock: Clock, counts: Option<Arc<Counts>>) -> Result<Self, OpenError> {
        let slab = setup::slab(job)?;
        let finished = Vec::with_capacity(job.iodepth as usize);
        Ok(NullQueue { clock, slab, finished, counts })
    }
}

impl Queue for NullQueue {
    forward!(field clock: now_ns);

    #[inline(always)]
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.slab.slot_mut(slot)
    }

    #[inline(always)]
    fn push(&mut self, slot: usize, transfer: Transfer) {
        if let (Some(counts), IoKind::Write) = (&self.counts, transfer.way) {
            counts.add(&transfer);
        }
        self.finished.push((slot, transfer.bytes as i32));
    }

    #[inline(always)]
    fn enter(&mut self, _wait_for: u32, _patience_ns: u64) -> io::Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        for (slot, result) in self.finished.drain(..) {
            done(slot, result);
        }
    }

    fn syscalls(&self) -> u64 {
        0
    }

    fn facts(&self) -> QueueFacts {
        QueueFacts { buffer_page_bytes: self.slab.page_bytes() as u64, ..QueueFacts::default() }
    }
}
