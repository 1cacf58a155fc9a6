//! Linux io_uring: single issuer, deferred task run, registered buffers and file.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use iosonde_sys::clock::monotonic_ns;
use iosonde_sys::inspect::{is_block_device, locked_memory_limit};
use iosonde_sys::{Clock, Direction, Request, Ring, errno_name};

use super::{OpenError, Queue, QueueFacts, Transfer, setup};
use iosonde_model::plan::{Engine, Job};

/// The io_uring queue.
pub struct UringQueue {
    clock: Clock,
    ring: Ring,
    page_bytes: u64,
}

impl UringQueue {
    /// A queue for this job, which only the calling thread may use.
    ///
    /// # Errors
    /// If there is no memory, the kernel refuses the ring or a priority, polling was requested and
    /// does not work, or a target of a job that trims cannot be trimmed.
    pub fn open(
        job: &Job,
        engine: &Engine,
        files: Vec<OwnedFd>,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        setup::can_trim(job, &files)?;
        setup::may_have_priorities(job)?;
        if engine.iopoll {
            setup::polls_only(job)?;
        }
        let slab = setup::slab(job)?;
        let page_bytes = slab.page_bytes() as u64;
        let options = setup::ring_options(job, engine);
        let mut ring = Ring::new(files, slab, options)
            .map_err(|error| OpenError::Ring { hint: hint_of(engine, &error), error })?;
        if engine.iopoll {
            prove_polling(&mut ring, job)?;
        }
        if setup::trims(job) {
            prove_discard(&mut ring, job)?;
        }
        Ok(UringQueue { clock, ring, page_bytes })
    }
}

/// How long the first polled request may take.
const POLLING_PATIENCE_NS: u64 = 10_000_000_000;

/// Set-up succeeds even where the device has no polled queues; only a request shows it.
fn prove_polling(ring: &mut Ring, job: &Job) -> Result<(), OpenError> {
    let target = job.targets.first().copied().unwrap_or(0);
    let (offset, bytes) = (job.region_start, job.block_bytes as u32);
    ring.push(0, Request { way: Direction::Read, target, offset, skip: 0, bytes });
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

/// Checks that io_uring can discard; a device that can discard is not enough.
fn prove_discard(ring: &mut Ring, job: &Job) -> Result<(), OpenError> {
    let devices: Vec<u16> = setup::targets(job, ring.files())
        .filter(|(_, file)| is_block_device(file.as_fd()))
        .map(|(number, _)| number)
        .collect();
    for number in devices {
        ring.probe_discard(number).map_err(|error| {
            OpenError::Unable(format!(
                "io_uring cannot discard on target {number}: {error}; it needs Linux 6.12; \
                 before that, use --ioengine psync"
            ))
        })?;
    }
    Ok(())
}

/// Hint for a failed set-up. The kernel reports an unusable CPU with the same error as any invalid
/// option.
pub(super) fn hint_of(engine: &Engine, error: &io::Error) -> String {
    match engine.sqpoll_cpu {
        Some(cpu) if error.kind() == io::ErrorKind::InvalidInput => {
            format!("; this process may not use CPU {cpu} of sqthread_poll_cpu")
        }
        _ => hint(error),
    }
}

/// Likely cause of a refusal, and how to fix it.
pub(super) fn hint(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; a seccomp filter or kernel.io_uring_disabled forbids it: \
             --ioengine psync works without it"
                .into()
        }
        io::ErrorKind::Unsupported => {
            "; this kernel has no suitable one: --ioengine psync works without it".into()
        }
        io::ErrorKind::OutOfMemory => format!(
            "; raise the limit on locked memory (ulimit -l, now {}), or lower --iodepth",
            locked_memory_limit()
        ),
        _ => match error.raw_os_error() {
            // ENFILE and EMFILE have no `io::ErrorKind`.
            Some(23 | 24) => {
                "; raise the limit on open files (ulimit -n), or lower --numjobs".into()
            }
            _ => String::new(),
        },
    }
}

impl Queue for UringQueue {
    forward!(field clock: now_ns);
    forward!(field ring: buffer syscalls);

    #[inline(always)]
    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        self.ring.enter(wait_for, patience_ns)
    }

    #[inline(always)]
    fn push(&mut self, slot: usize, transfer: Transfer) {
        self.ring.push(slot, setup::request(&transfer));
    }

    fn set_priority(&mut self, _slot: usize, priority: u16) {
        self.ring.set_priority(priority);
    }

    #[inline(always)]
    fn reap(&mut self, done: impl FnMut(usize, i32)) {
        self.ring.reap(done);
    }

    fn facts(&self) -> QueueFacts {
        QueueFacts {
            features: self.ring.features().iter().map(ToString::to_string).collect(),
            missing: self.ring.missing().to_vec(),
            buffer_page_bytes: self.page_bytes,
        }
    }
}
