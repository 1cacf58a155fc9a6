//! A run that is cut off: the content of its ledger at that moment.
//!
//! The journal of one job rejects an entry, which ends the run before the operation is submitted.
//! Some sectors of that job's requests in flight arrive; the other jobs end normally.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::scene::{Interlude, Scenario};
use iosonde_engine::engine::verify::Journal;
use iosonde_model::content::replay::Known;
use iosonde_model::plan::chance::{Chance, mix};

/// The point where a run is cut off, and the progress of its jobs.
#[derive(Clone)]
pub(super) struct Crash {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    known: Vec<Known>,
    /// Entries until the crash.
    left: u64,
    has_happened: bool,
}

/// Latest entry that is rejected.
const MAX_NOTES: u64 = 60;

impl Crash {
    /// The crash of a scenario; without one, progress is only recorded.
    pub(super) fn planned(scene: &Scenario) -> Crash {
        let cut = matches!(scene.interlude, Interlude::Kill | Interlude::PowerCutAtWork);
        let known = scene.plan.plan.jobs.iter().map(|_| Known::default()).collect();
        let drawn = 1 + Chance::new(mix(scene.seed)).below(MAX_NOTES);
        let left = if cut { drawn } else { u64::MAX };
        Crash { state: Arc::new(Mutex::new(State { known, left, has_happened: false })) }
    }

    /// The journal of one job.
    pub(super) fn journal(&self, job: usize) -> Box<dyn Journal> {
        Box::new(JobJournal { job, crash: self.clone() })
    }

    /// The progress of each job.
    pub(super) fn known(&self) -> Vec<Known> {
        self.state().known.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct JobJournal {
    job: usize,
    crash: Crash,
}

impl Journal for JobJournal {
    fn note(&mut self, submitted: u64, acked: u64, durable: u64) -> io::Result<()> {
        let mut state = self.crash.state();
        // The entry itself is kept: the operation after it may have happened.
        let known = &mut state.known[self.job];
        (known.submitted, known.acked, known.durable) = (submitted, acked, durable);
        state.left = state.left.saturating_sub(1);
        if state.left == 0 && !state.has_happened {
            state.has_happened = true;
            return Err(io::Error::other("cut off"));
        }
        Ok(())
    }

    fn failed(&mut self, op: u64) -> io::Result<()> {
        self.crash.state().known[self.job].failed.push(op);
        Ok(())
    }
}
