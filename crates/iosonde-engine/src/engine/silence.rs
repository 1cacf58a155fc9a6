//! Jobs without progress, and what each of them waits for.

use std::sync::atomic::Ordering;

use super::steer::Lane;
use super::waits::Wait;
use iosonde_model::record::JobRun;

/// A job that has not read the clock for this long is in a call that has not returned, ns.
const UNSEEN_NS: u64 = 500_000_000;

/// Waits of the jobs of a run, one per job: one may be stuck while the others progress.
pub(super) struct JobWaits {
    target: String,
    /// Operations so far, when that last changed, ns, and the entry while the job is silent.
    jobs: Vec<(u64, u64, Option<Wait>)>,
}

impl JobWaits {
    pub(super) fn new(target: String, jobs: usize) -> JobWaits {
        JobWaits { target, jobs: (0..jobs).map(|_| (0, 0, None)).collect() }
    }

    /// Notes each job without recent progress that has requests in flight or is in a call.
    pub(super) fn look(&mut self, lanes: &[Lane], ended: &[Option<JobRun>], now_ns: u64) {
        for (index, (ops, heard_ns, wait)) in self.jobs.iter_mut().enumerate() {
            let lane = &lanes[index];
            let is_idle = lane.in_flight.load(Ordering::Relaxed) == 0
                && now_ns.saturating_sub(lane.seen_ns.load(Ordering::Relaxed)) < UNSEEN_NS;
            if *ops != lane.ops() || is_idle || ended[index].is_some() || *heard_ns == 0 {
                (*ops, *heard_ns, *wait) = (lane.ops(), now_ns, None);
            } else if wait.is_none() && now_ns.saturating_sub(*heard_ns) > UNSEEN_NS {
                let what = format!("reads and writes of job {index}");
                *wait = Some(Wait::begin(what, self.target.clone()).since(UNSEEN_NS));
            }
        }
    }
}
