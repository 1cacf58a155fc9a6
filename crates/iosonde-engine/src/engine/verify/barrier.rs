//! Barrier of jobs that write the same region: an epoch begins when every operation of the one
//! before is acknowledged.
//!
//! No job blocks here: one that has arrived polls until the others have.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iosonde_model::content::outcomes::{Became, Outcomes};
use iosonde_model::plan::VerifyPlan;

/// The barrier, and what all jobs together know of the region.
pub(super) struct Barrier {
    /// Number of the epoch.
    epoch: AtomicU64,
    state: Mutex<State>,
}

struct State {
    outcomes: Outcomes,
    /// Jobs that are at the end of the epoch.
    arrived: usize,
    jobs: Vec<Course>,
    /// Nothing is written any more, so that outcomes do not change.
    is_over: bool,
}

/// Progress of a job.
#[derive(Clone, Default)]
struct Course {
    /// Operations that were submitted in all; `None` while there may be more.
    ended: Option<u64>,
    /// Operations of the epoch that may or may not have taken place.
    failed: Vec<u64>,
}

impl Barrier {
    /// The barrier of a run; `None` where each job has its own part. For a check, the outcomes are
    /// known.
    pub(super) fn of(plan: &VerifyPlan, known: Option<Outcomes>) -> Option<Barrier> {
        if !plan.overlaps() {
            return None;
        }
        let is_over = known.is_some();
        let outcomes = known.unwrap_or_else(|| {
            let mut outcomes = Outcomes::new(plan);
            outcomes.begin(0);
            outcomes
        });
        let jobs = vec![Course::default(); plan.plan.jobs.len()];
        let state = Mutex::new(State { outcomes, arrived: 0, jobs, is_over });
        Some(Barrier { epoch: AtomicU64::new(0), state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panics here ends the run.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the epoch.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// A job has finished its part of the epoch, and has nothing in flight.
    pub(super) fn arrive(&self) {
        let mut state = self.state();
        state.arrived += 1;
        self.go_on(&mut state);
    }

    /// A job has submitted all its operations; the first `acked` are known to be done. `arrived_at`
    /// is the epoch at whose end it waited, if any.
    pub(super) fn leave(&self, job: usize, submitted: u64, acked: u64, arrived_at: Option<u64>) {
        let mut state = self.state();
        if state.jobs[job].ended.is_some() {
            return;
        }
        // That epoch may be over by now, without the job having seen it.
        state.arrived -= usize::from(arrived_at == Some(self.epoch()));
        state.jobs[job].ended = Some(submitted);
        state.jobs[job].failed.extend(acked..submitted);
        self.go_on(&mut state);
    }

    /// An operation of a job may or may not have taken place.
    pub(super) fn failed(&self, job: usize, op: u64) {
        self.state().jobs[job].failed.push(op);
    }

    /// Reads what all jobs together know.
    pub(super) fn outcomes<T>(&self, with: impl FnOnce(&Outcomes) -> T) -> T {
        with(&self.state().outcomes)
    }

    /// Begins the next epoch once all remaining jobs have arrived.
    fn go_on(&self, state: &mut State) {
        let State { outcomes, arrived, jobs, is_over } = state;
        let left = jobs.iter().filter(|job| job.ended.is_none()).count();
        if *is_over || *arrived < left {
            return;
        }
        *is_over = left == 0;
        outcomes.end(|job, op| {
            let Course { ended, failed } = &jobs[job];
            match ended {
                Some(ended) if op >= *ended => Became::Nothing,
                _ if failed.contains(&op) => Became::Possible,
                _ => Became::Certain,
            }
        });
        *arrived = 0;
        let next = self.epoch() + 1;
        if left > 0 {
            outcomes.begin(next);
        }
        self.epoch.store(next, Ordering::Release);
    }
}
