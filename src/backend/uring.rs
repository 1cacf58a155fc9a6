//! Linux io_uring: single issuer, deferred task run, registered buffers and file.

use std::io;
use std::os::fd::OwnedFd;

use iosonde_sys::clock::monotonic_ns;
use iosonde_sys::{Clock, Direction, Ring, RingOptions, Slab, errno_name};

use super::{OpenError, Queue, QueueFacts, Transfer};
use crate::plan::{Engine, Job};

/// The io_uring queue.
pub struct UringQueue {
    clock: Clock,
    ring: Ring,
    page_bytes: u64,
    syscalls: u64,
}

/// The buffers of a job: one slot per request in flight.
pub(super) fn slab(job: &Job) -> Result<Slab, OpenError> {
    Slab::new(job.iodepth as usize, job.block_bytes as usize)
        .map_err(|error| OpenError::Buffers { bytes: job.buffer_bytes(), error })
}

impl UringQueue {
    /// A queue for this job, on the calling thread, which alone may use it.
    ///
    /// # Errors
    /// If there is no memory, the kernel refuses a ring, or polling was asked for and does not
    /// work.
    pub fn open(
        job: &Job,
        engine: &Engine,
        files: Vec<OwnedFd>,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        let slab = slab(job)?;
        let page_bytes = slab.page_bytes() as u64;
        let options =
            RingOptions { depth: job.iodepth, sqpoll: engine.sqpoll, iopoll: engine.iopoll };
        let mut ring = Ring::new(files, slab, options)
            .map_err(|error| OpenError::Ring { hint: hint(&error), error })?;
        if engine.iopoll {
            prove_polling(&mut ring, job)?;
        }
        Ok(UringQueue { clock, ring, page_bytes, syscalls: 0 })
    }
}

/// How long the first polled request may take.
const POLLING_PATIENCE_NS: u64 = 10_000_000_000;

/// Set-up succeeds even where the device has no polled queues; only a request tells.
fn prove_polling(ring: &mut Ring, job: &Job) -> Result<(), OpenError> {
    ring.push(0, Direction::Read, 0, job.region_start, 0, job.block_bytes as u32);
    let mut answer = None;
    let started_ns = monotonic_ns();
    while answer.is_none() {
        if monotonic_ns() - started_ns > POLLING_PATIENCE_NS {
            return Err(OpenError::Polling("with no answer within 10 s".into()));
        }
        ring.enter(1, POLLING_PATIENCE_NS)
            .map_err(|error| OpenError::Ring { hint: hint(&error), error })?;
        ring.reap(|_slot, result| answer = Some(result));
    }
    match answer {
        Some(result) if result < 0 => Err(OpenError::Polling(errno_name(-result))),
        _ => Ok(()),
    }
}

/// Likely cause and mend of a refusal.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; a seccomp filter or kernel.io_uring_disabled forbids it: \
             --ioengine psync works without"
        }
        io::ErrorKind::Unsupported => "; this kernel has none: --ioengine psync works without",
        io::ErrorKind::OutOfMemory => {
            "; raise the limit on locked memory (ulimit -l), or lower --iodepth"
        }
        _ => match error.raw_os_error() {
            // ENFILE and EMFILE have no kind of their own.
            Some(23 | 24) => "; raise the limit on open files (ulimit -n), or lower --numjobs",
            _ => "",
        },
    }
}

impl Queue for UringQueue {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    #[inline(always)]
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.ring.buffer(slot)
    }

    #[inline(always)]
    fn push(&mut self, slot: usize, transfer: Transfer) {
        let way = super::direction(transfer.way);
        self.ring.push(slot, way, transfer.target, transfer.offset, transfer.skip, transfer.bytes);
    }

    #[inline(always)]
    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        self.syscalls += 1;
        self.ring.enter(wait_for, patience_ns)
    }

    fn pause(&mut self, until_ns: u64) {
        super::pause(self.clock, until_ns);
    }

    #[inline(always)]
    fn reap(&mut self, done: impl FnMut(usize, i32)) {
        self.ring.reap(done);
    }

    fn syscalls(&self) -> u64 {
        self.syscalls
    }

    fn facts(&self) -> QueueFacts {
        QueueFacts {
            features: self.ring.features().iter().map(ToString::to_string).collect(),
            missing: self.ring.missing().to_vec(),
            buffer_page_bytes: self.page_bytes,
        }
    }
}
