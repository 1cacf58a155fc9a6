//! One blocking system call per operation.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use iosonde_sys::{Clock, Direction, Slab, syscall};

use super::{OpenError, Queue, QueueFacts, Transfer, setup};
use iosonde_model::plan::{Engine, IoKind, Job};

/// The system calls with which an engine reads and writes.
pub trait Call {
    /// Reads or writes without flags: bytes moved, or the negated errno. It must be inlined.
    fn transfer(file: BorrowedFd<'_>, way: Direction, buffer: &mut [u8], offset: u64) -> i32;
}

/// The queue of an engine with these calls. Its only slot is 0.
#[derive(Debug)]
pub struct BlockingQueue<C> {
    call: PhantomData<C>,
    clock: Clock,
    files: Vec<OwnedFd>,
    slab: Slab,
    is_staged: bool,
    /// The transfer staged last. It is read field by field: a copy of the whole would load wider
    /// than it was stored, and that stall would fall between the two time stamps.
    transfer: Transfer,
    /// Whether it is a read, or a write without flags.
    plain: bool,
    finished: Option<i32>,
    syscalls: u64,
    write_flags: u32,
    sync_data_only: bool,
    /// Whether each target is a block device.
    devices: Vec<bool>,
}

impl<C: Call> BlockingQueue<C> {
    /// A queue for this job.
    ///
    /// # Errors
    /// If there is no memory for the buffer where the job wants it, or a target cannot be trimmed
    /// by a job that trims.
    pub fn open(
        job: &Job,
        _engine: &Engine,
        files: Vec<OwnedFd>,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        setup::can_trim(job, &files)?;
        let is_device = |file: &OwnedFd| iosonde_sys::inspect::is_block_device(file.as_fd());
        Ok(BlockingQueue {
            call: PhantomData,
            clock,
            slab: setup::slab(job)?,
            is_staged: false,
            transfer: Transfer { way: IoKind::Read, target: 0, offset: 0, skip: 0, bytes: 0 },
            plain: true,
            finished: None,
            syscalls: 0,
            write_flags: setup::write_flags(job),
            sync_data_only: setup::syncs_data_only(job),
            devices: files.iter().map(is_device).collect(),
            files,
        })
    }

    /// Executes a sync, a trim, or a write with flags.
    #[cold]
    #[inline(never)]
    fn execute(&mut self) -> i32 {
        let transfer = &self.transfer;
        let target = usize::from(transfer.target);
        let file = self.files[target].as_fd();
        match transfer.way {
            IoKind::Sync => syscall::sync(file, self.sync_data_only),
            IoKind::Trim => {
                syscall::trim(file, self.devices[target], transfer.offset, transfer.bytes)
            }
            IoKind::Read | IoKind::Write => {
                let (from, to) = range(transfer);
                let buffer = &self.slab.slot_mut(0)[from..to];
                syscall::write_with(file, self.write_flags, buffer, transfer.offset)
            }
        }
    }
}

/// Range of the slot's buffer that is transferred.
#[inline(always)]
fn range(transfer: &Transfer) -> (usize, usize) {
    (transfer.skip as usize, transfer.skip as usize + transfer.bytes as usize)
}

impl<C: Call> Queue for BlockingQueue<C> {
    forward!(field clock: now_ns);

    #[inline(always)]
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.slab.slot_mut(slot)
    }

    #[inline(always)]
    fn push(&mut self, _slot: usize, transfer: Transfer) {
        self.plain = match transfer.way {
            IoKind::Read => true,
            IoKind::Write => self.write_flags == 0,
            IoKind::Trim | IoKind::Sync => false,
        };
        self.transfer = transfer;
        self.is_staged = true;
    }

    #[inline(always)]
    fn enter(&mut self, _wait_for: u32, _patience_ns: u64) -> io::Result<()> {
        if !std::mem::take(&mut self.is_staged) {
            return Ok(());
        }
        self.syscalls += 1;
        let result = if self.plain {
            let transfer = &self.transfer;
            let (from, to) = range(transfer);
            let buffer = &mut self.slab.slot_mut(0)[from..to];
            let file = self.files[usize::from(transfer.target)].as_fd();
            C::transfer(file, setup::direction(transfer.way), buffer, transfer.offset)
        } else {
            self.execute()
        };
        self.finished = Some(result);
        Ok(())
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
