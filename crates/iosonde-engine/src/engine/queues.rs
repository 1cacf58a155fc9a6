//! The one place that maps a plan's engine to a queue type. It calls the driver with the function
//! that opens a queue.

use std::sync::Arc;

use iosonde_sys::Clock;

use super::{EngineError, Medium};
use crate::backend::files::{self, FileQueue};
use crate::backend::null::NullQueue;
use crate::backend::uring_cmd::CommandQueue;
use crate::backend::vhost::VhostQueue;
use crate::backend::{Driver, OpenError};
use iosonde_model::plan::{EngineKind, Job, Plan};

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
        let own_files = files.clone();
        return Ok(driver.drive(move |job| {
            let own = job.engine.as_ref().unwrap_or(&engine);
            FileQueue::open(job, own, files::duplicate(&own_files)?, clock)
        }));
    }
    Ok(match (engine.kind, medium) {
        (kind, Medium::Files(files)) => files::drive(engine, files.clone(), clock, driver)
            .ok_or(EngineError::Medium(kind.name()))?,
        (EngineKind::IoUringCmd, Medium::Nvme(targets)) => {
            let targets = targets.clone();
            driver.drive(move |job| {
                let own = job.engine.as_ref().unwrap_or(&engine);
                CommandQueue::open(job, own, &targets, clock)
            })
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
