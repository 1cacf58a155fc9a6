//! One blocking system call per operation: true depth 1, and the floor of every latency.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use iosonde_sys::{Clock, Slab, syscall};

use super::{OpenError, Queue, QueueFacts, Transfer};
use crate::plan::Job;

/// The synchronous queue. Its only slot is 0.
#[derive(Debug)]
pub struct PsyncQueue {
    clock: Clock,
    files: Vec<OwnedFd>,
    slab: Slab,
    staged: Option<Transfer>,
    finished: Option<i32>,
    syscalls: u64,
}

impl PsyncQueue {
    /// A queue for this job.
    ///
    /// # Errors
    /// If there is no memory for the buffer.
    pub fn open(job: &Job, files: Vec<OwnedFd>, clock: Clock) -> Result<Self, OpenError> {
        let slab = super::uring::slab(job)?;
        Ok(PsyncQueue { clock, files, slab, staged: None, finished: None, syscalls: 0 })
    }
}

impl Queue for PsyncQueue {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    #[inline(always)]
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.slab.slot_mut(slot)
    }

    #[inline(always)]
    fn push(&mut self, _slot: usize, transfer: Transfer) {
        self.staged = Some(transfer);
    }

    #[inline(always)]
    fn enter(&mut self, _wait_for: u32, _patience_ns: u64) -> io::Result<()> {
        if let Some(transfer) = self.staged.take() {
            let (from, to) = (transfer.skip as usize, (transfer.skip + transfer.bytes) as usize);
            let buffer = &mut self.slab.slot_mut(0)[from..to];
            self.syscalls += 1;
            let way = super::direction(transfer.way);
            self.finished = Some(syscall::transfer(
                self.files[usize::from(transfer.target)].as_fd(),
                way,
                buffer,
                transfer.offset,
            ));
        }
        Ok(())
    }

    fn pause(&mut self, until_ns: u64) {
        super::pause(self.clock, until_ns);
    }

    #[inline(always)]
    fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        if let Some(result) = self.finished.take() {
            done(0, result);
        }
    }

    fn syscalls(&self) -> u64 {
        self.syscalls
    }

    fn facts(&self) -> QueueFacts {
        QueueFacts { buffer_page_bytes: self.slab.page_bytes() as u64, ..QueueFacts::default() }
    }
}
