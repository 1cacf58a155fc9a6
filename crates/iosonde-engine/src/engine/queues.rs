//! The one place where a plan's engine becomes a type: whoever drives queues is called with the
//! function that opens one.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use iosonde_sys::Clock;

use super::{EngineError, Medium};
use crate::backend::libaio::LibaioQueue;
use crate::backend::mixed::MixedQueue;
use crate::backend::mmap::MmapQueue;
use crate::backend::null::NullQueue;
use crate::backend::psync::PsyncQueue;
use crate::backend::uring::UringQueue;
use crate::backend::uring_cmd::CommandQueue;
use crate::backend::vhost::VhostQueue;
use crate::backend::{OpenError, Queue};
use iosonde_model::plan::{EngineKind, Job, Plan};

/// Who drives queues, whatever they are.
pub(super) trait Driver {
    /// What comes of it.
    type Result;

    /// Drives queues that are opened by this function, each on the thread that uses it.
    fn drive<Q, O>(self, open: O) -> Self::Result
    where
        Q: Queue,
        O: Fn(&Job) -> Result<Q, OpenError> + Clone + Send + 'static;
}

/// Calls the driver with the queues of the plan's engine. The simulated device is not among them:
/// it has no real time.
pub(super) fn with_queues<D: Driver>(
    plan: &Plan,
    medium: &Medium,
    clock: Clock,
    driver: D,
) -> Result<D::Result, EngineError> {
    let engine = plan.engine.clone();
    // io_uring would hand syncs to another thread.
    let calls = |job: &Job| job.sync.by_call && plan.engine_of(job).kind == EngineKind::IoUring;
    let differs = plan.jobs.iter().any(|job| job.engine.is_some() || calls(job));
    if let (true, Medium::Files(files)) = (differs, medium) {
        let files = files.clone();
        return Ok(driver.drive(move |job| {
            let own = job.engine.as_ref().unwrap_or(&engine);
            MixedQueue::open(job, own, duplicate(&files)?, clock)
        }));
    }
    Ok(match (engine.kind, medium) {
        (EngineKind::IoUring, Medium::Files(files)) => {
            let files = files.clone();
            driver.drive(move |job| UringQueue::open(job, &engine, duplicate(&files)?, clock))
        }
        (EngineKind::IoUringCmd, Medium::Nvme(targets)) => {
            let targets = targets.clone();
            driver.drive(move |job| {
                let own = job.engine.as_ref().unwrap_or(&engine);
                CommandQueue::open(job, own, &targets, clock)
            })
        }
        (EngineKind::Libaio, Medium::Files(files)) => {
            let files = files.clone();
            driver.drive(move |job| LibaioQueue::open(job, &engine, duplicate(&files)?, clock))
        }
        (EngineKind::Psync, Medium::Files(files)) => {
            let files = files.clone();
            driver.drive(move |job| PsyncQueue::open(job, duplicate(&files)?, clock))
        }
        (EngineKind::Mmap, Medium::Files(files)) => {
            let files = files.clone();
            driver.drive(move |job| MmapQueue::open(job, duplicate(&files)?, clock))
        }
        (EngineKind::Null, Medium::Null(counts)) => {
            let counts = counts.clone();
            driver.drive(move |job| NullQueue::open(job, clock, counts.clone()))
        }
        (EngineKind::VhostUser, Medium::Vhost(server)) => {
            server.admit(plan).map_err(OpenError::from)?;
            let server = Arc::clone(server);
            driver.drive(move |job| VhostQueue::open(job, Arc::clone(&server), clock))
        }
        (kind, _) => return Err(EngineError::Medium(kind.name())),
    })
}

fn duplicate(files: &[Arc<OwnedFd>]) -> Result<Vec<OwnedFd>, OpenError> {
    files.iter().map(|file| file.try_clone().map_err(OpenError::Descriptor)).collect()
}
