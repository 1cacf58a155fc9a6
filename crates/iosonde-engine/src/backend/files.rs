//! The queue of each engine for files and block devices, and one queue type for all of them, used
//! when jobs of a run have different engines.

use std::borrow::Borrow;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use iosonde_sys::Clock;

use super::calling::CallingQueue;
use super::uring::UringQueue;
use super::{Driver, OpenError, Queue};
use iosonde_model::plan::{Engine, EngineKind, Job};

/// Generates the code that selects an engine from the list of engines.
macro_rules! declare {
    ($($kind:ident => $queue:ty,)*) => {
        /// The queue of any engine for files.
        #[allow(clippy::large_enum_variant, reason = "one per job, and it is never moved")]
        pub enum FileQueue {
            $(
                #[doc = concat!("That of [`EngineKind::", stringify!($kind), "`].")]
                $kind($queue),
            )*
            /// io_uring, with syncs as blocking calls of the job's own thread.
            Calling(CallingQueue<UringQueue>),
        }

        impl FileQueue {
            /// A queue of this engine for this job.
            ///
            /// # Errors
            /// If the engine's queue cannot be opened, or the engine does not work on files.
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

        /// Drives these files with queues of this engine; `None` if it does not work on files.
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

        /// Calls the method on the queue of any variant.
        macro_rules! each {
            ($any:ident FileQueue $call:ident $arguments:tt) => {
                match $any {
                    $(FileQueue::$kind(queue) => queue.$call $arguments,)*
                    FileQueue::Calling(queue) => queue.$call $arguments,
                }
            };
        }
    };
}

of_files!(declare);

/// Duplicates the descriptors for one queue.
pub(crate) fn duplicate<F: Borrow<OwnedFd>>(files: &[F]) -> Result<Vec<OwnedFd>, OpenError> {
    let own = |file: &F| file.borrow().try_clone().map_err(OpenError::Descriptor);
    files.iter().map(own).collect()
}

impl Queue for FileQueue {
    forward!(each FileQueue: now_ns buffer push set_priority enter pause give_back syscalls facts);

    fn reap(&mut self, done: impl FnMut(usize, i32)) {
        each!(self FileQueue reap(done));
    }
}
