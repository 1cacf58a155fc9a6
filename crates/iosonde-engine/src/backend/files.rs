//! The engines of files and block devices: which queue each has, and one type for all of them
//! where jobs of a run have engines of their own.

use std::borrow::Borrow;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use iosonde_sys::Clock;

use super::calling::CallingQueue;
use super::uring::UringQueue;
use super::{Driver, OpenError, Queue};
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

/// Descriptors of its own for a queue.
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
