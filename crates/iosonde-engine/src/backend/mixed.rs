//! The queues of a run whose jobs have engines of their own: one type for those that work on files.

use std::io;
use std::os::fd::OwnedFd;

use iosonde_sys::Clock;

use super::calling::CallingQueue;
use super::libaio::LibaioQueue;
use super::mmap::MmapQueue;
use super::psync::PsyncQueue;
use super::uring::UringQueue;
use super::{OpenError, Queue, QueueFacts, Transfer};
use iosonde_model::plan::{Engine, EngineKind, Job};

/// One of them.
#[allow(clippy::large_enum_variant, reason = "there is one per job, and it is never moved")]
pub enum MixedQueue {
    /// io_uring.
    Uring(UringQueue),
    Libaio(LibaioQueue),
    Psync(PsyncQueue),
    Mmap(MmapQueue),
    /// io_uring whose syncs are calls of the job's own thread.
    Calling(CallingQueue<UringQueue>),
}

impl MixedQueue {
    /// A queue of this engine for this job.
    ///
    /// # Errors
    /// Those of the engine, or that it does not work on files.
    pub fn open(
        job: &Job,
        engine: &Engine,
        files: Vec<OwnedFd>,
        clock: Clock,
    ) -> Result<MixedQueue, OpenError> {
        match engine.kind {
            EngineKind::IoUring if job.sync.by_call => {
                let own = duplicate(&files)?;
                let queue = UringQueue::open(job, engine, files, clock)?;
                Ok(MixedQueue::Calling(CallingQueue::new(job, queue, own)))
            }
            EngineKind::IoUring => {
                UringQueue::open(job, engine, files, clock).map(MixedQueue::Uring)
            }
            EngineKind::Libaio => {
                LibaioQueue::open(job, engine, files, clock).map(MixedQueue::Libaio)
            }
            EngineKind::Psync => PsyncQueue::open(job, files, clock).map(MixedQueue::Psync),
            EngineKind::Mmap => MmapQueue::open(job, files, clock).map(MixedQueue::Mmap),
            kind => Err(OpenError::Unable(format!(
                "the {} engine cannot run beside jobs of other engines",
                kind.name()
            ))),
        }
    }
}

fn duplicate(files: &[OwnedFd]) -> Result<Vec<OwnedFd>, OpenError> {
    files.iter().map(|file| file.try_clone().map_err(OpenError::Descriptor)).collect()
}

/// The same call of whichever it is.
macro_rules! each {
    ($queue:expr, $one:ident => $call:expr) => {
        match $queue {
            MixedQueue::Uring($one) => $call,
            MixedQueue::Libaio($one) => $call,
            MixedQueue::Psync($one) => $call,
            MixedQueue::Mmap($one) => $call,
            MixedQueue::Calling($one) => $call,
        }
    };
}

impl Queue for MixedQueue {
    fn now_ns(&self) -> u64 {
        each!(self, queue => queue.now_ns())
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        each!(self, queue => queue.buffer(slot))
    }

    fn push(&mut self, slot: usize, transfer: Transfer) {
        each!(self, queue => queue.push(slot, transfer));
    }

    fn set_priority(&mut self, slot: usize, priority: u16) {
        each!(self, queue => queue.set_priority(slot, priority));
    }

    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        each!(self, queue => queue.enter(wait_for, patience_ns))
    }

    fn pause(&mut self, until_ns: u64) {
        each!(self, queue => queue.pause(until_ns));
    }

    fn reap(&mut self, done: impl FnMut(usize, i32)) {
        each!(self, queue => queue.reap(done));
    }

    fn syscalls(&self) -> u64 {
        each!(self, queue => queue.syscalls())
    }

    fn facts(&self) -> QueueFacts {
        each!(self, queue => queue.facts())
    }
}
