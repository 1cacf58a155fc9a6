//! The engines of files and block devices: which queue each has, and one type for all of them
//! where jobs of a run have engines of their own.

use std::borrow::Borrow;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use iosonde_sys::Clock;

use super::calling::CallingQueue;
use super::uring::UringQueue;
use super::{Driver, OpenError, Queue, QueueFacts, Transfer};
use iosonde_model::plan::{Engine, EngineKind, Job};

/// Makes of the list of engines what chooses among them.
macro_rules! declare {
    ($($kind:ident => $queue:ty,)*) => {
        /// The queue of any engine of files.
        #[allow(clippy::large_enum_variant, reason = "one per job, and it is never moved")]
        pub enum FileQueue {
            $(
                #[doc = concat!("That of [`EngineKind::", stringify!($kind), "`].")]
                $kind($queue),
            )*
            /// io_uring whose syncs are calls of the job's own thread.
            Calling(CallingQueue<UringQueue>),
        }

        impl FileQueue {
            /// A queue of this engine for this job.
            ///
            /// # Errors
            /// Those of the engine, or that it does not work on files.
            pub fn open(
                job: &Job,
                engine: &Engine,
                files: Vec<OwnedFd>,
                clock: Clock,
            ) -> Result<FileQueue, OpenError> {
                match engine.kind {
                    EngineKind::IoUring if job.sync.by_call => {
                        let own = duplicate(&files)?;
                        let queue = UringQueue::open(job, engine, files, clock)?;
                        Ok(FileQueue::Calling(CallingQueue::new(job, queue, own)))
                    }
                    $(EngineKind::$kind => {
                        <$queue>::open(job, engine, files, clock).map(FileQueue::$kind)
                    })*
                    kind => Err(OpenError::Unable(format!(
                        "the {} engine cannot run beside jobs of other engines",
                        kind.name()
                    ))),
                }
            }
        }

        /// Has these files driven by the queues of this engine; `None` if it works on no files.
        pub(crate) fn drive<D: Driver>(
            engine: Engine,
            files: Vec<Arc<OwnedFd>>,
            clock: Clock,
            driver: D,
        ) -> Option<D::Result> {
            match engine.kind {
                $(EngineKind::$kind => Some(driver.drive(move |job| {
                    <$queue>::open(job, &engine, duplicate(&files)?, clock)
                })),)*
                _ => None,
            }
        }

        /// The same call of whichever queue it is.
        macro_rules! each {
            ($any:expr, $one:ident => $call:expr) => {
                match $any {
                    $(FileQueue::$kind($one) => $call,)*
                    FileQueue::Calling($one) => $call,
                }
            };
        }
    };
}

of_files!(declare);

/// Descriptors of its own for a queue.
pub(crate) fn duplicate<F: Borrow<OwnedFd>>(files: &[F]) -> Result<Vec<OwnedFd>, OpenError> {
    let own = |file: &F| file.borrow().try_clone().map_err(OpenError::Descriptor);
    files.iter().map(own).collect()
}

impl Queue for FileQueue {
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
