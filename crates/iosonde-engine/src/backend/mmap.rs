//! Files mapped into memory: an operation is a copy, which waits in page faults.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use iosonde_sys::{Clock, Mapping, Slab, syscall};

use super::{OpenError, Queue, QueueFacts, Transfer, setup};
use iosonde_model::plan::{EachWrite, Engine, IoKind, Job};

/// The queue of a job that maps its targets. Its only slot is 0.
#[derive(Debug)]
pub struct MmapQueue {
    clock: Clock,
    files: Vec<OwnedFd>,
    /// One per target; `None` for targets that the job does not use.
    mappings: Vec<Option<Mapping>>,
    slab: Slab,
    staged: Option<Transfer>,
    finished: Option<i32>,
    syscalls: u64,
    each_write: EachWrite,
    devices: Vec<bool>,
}

impl MmapQueue {
    /// A queue for this job.
    ///
    /// # Errors
    /// If there is no memory for the buffer, or a target cannot be mapped or trimmed as the job
    /// needs it.
    pub fn open(
        job: &Job,
        _engine: &Engine,
        files: Vec<OwnedFd>,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        setup::can_trim(job, &files)?;
        let end = job.region_start.saturating_add(job.region_bytes);
        let mut mappings: Vec<Option<Mapping>> = files.iter().map(|_| None).collect();
        for (number, file) in setup::targets(job, &files) {
            let mapping = Mapping::new(file.as_fd(), end, job.writes_data());
            let mapping = mapping.map_err(|error| {
                OpenError::Unable(format!("target {number} cannot be mapped into memory: {error}"))
            })?;
            mappings[usize::from(number)] = Some(mapping);
        }
        let is_device = |file: &OwnedFd| iosonde_sys::inspect::is_block_device(file.as_fd());
        Ok(MmapQueue {
            clock,
            mappings,
            slab: setup::slab(job)?,
            staged: None,
            finished: None,
            syscalls: 0,
            each_write: job.sync.each_write,
            devices: files.iter().map(is_device).collect(),
            files,
        })
    }

    fn execute(&mut self, transfer: &Transfer) -> i32 {
        let target = usize::from(transfer.target);
        let Some(mapping) = self.mappings.get(target).and_then(Option::as_ref) else { return -22 };
        let from = transfer.skip as usize;
        let buffer = &mut self.slab.slot_mut(0)[from..from + transfer.bytes as usize];
        match transfer.way {
            IoKind::Read => mapping.read(transfer.offset, buffer),
            IoKind::Write => {
                let moved = mapping.write(transfer.offset, buffer);
                if moved <= 0 || self.each_write == EachWrite::Accepted {
                    return moved;
                }
                match mapping.sync(transfer.offset, buffer.len()) {
                    0 => moved,
                    error => error,
                }
            }
            IoKind::Trim => {
                let file = self.files[target].as_fd();
                syscall::trim(file, self.devices[target], transfer.offset, transfer.bytes)
            }
            IoKind::Sync => mapping.sync_all(),
        }
    }
}

impl Queue for MmapQueue {
    forward!(field clock: now_ns);

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.slab.slot_mut(slot)
    }

    fn push(&mut self, _slot: usize, transfer: Transfer) {
        self.staged = Some(transfer);
    }

    fn enter(&mut self, _wait_for: u32, _patience_ns: u64) -> io::Result<()> {
        if let Some(transfer) = self.staged.take() {
            self.syscalls += 1;
            self.finished = Some(self.execute(&transfer));
        }
        Ok(())
    }

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
