//! Early end of a run, from outside and from inside.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use iosonde_model::record::run::Outcome;

use super::job;

/// The number of the signal in a cell such as [`Control::signal`]; `None` while there is none.
pub fn signal_in(cell: &AtomicUsize) -> Option<i32> {
    i32::try_from(cell.load(Ordering::Relaxed)).ok().filter(|signal| *signal != 0)
}

/// Stop requests from outside, and the end of the run from inside.
#[derive(Debug, Default)]
pub struct Control {
    /// Number of the signal that requests the end; 0 while there is none. A handler stores it.
    pub signal: Arc<AtomicUsize>,
    over: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Control {
    /// A control that reads this signal cell.
    pub fn new(signal: Arc<AtomicUsize>) -> Control {
        Control { signal, ..Control::default() }
    }

    /// Whether the run is to end early.
    #[inline(always)]
    pub fn is_stopping(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0 || self.over.load(Ordering::Relaxed)
    }

    /// Ends the run as failed; the first reason is kept.
    pub(super) fn fail(&self, reason: String) {
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(reason);
        }
        self.finish();
    }

    /// Ends the run, which has done its work.
    pub(super) fn finish(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// How long the end waits for requests in flight, ns. An interrupted run ends within two
    /// seconds, whatever the storage does.
    pub(super) fn drain_grace_ns(&self) -> u64 {
        match self.signal.load(Ordering::Relaxed) {
            0 => job::DRAIN_GRACE_NS,
            _ => job::INTERRUPT_GRACE_NS,
        }
    }

    pub(super) fn outcome(&self, abandoned: u64) -> Outcome {
        let failure = self.failure.lock().ok().and_then(|mut failure| failure.take());
        let signal = self.signal.load(Ordering::Relaxed);
        match failure {
            Some(error) => Outcome::Failed { error },
            // After an interrupt, unanswered requests are no failure.
            None if signal != 0 => Outcome::Interrupted { signal: signal as i32 },
            None if abandoned > 0 => Outcome::Failed {
                error: format!(
                    "{abandoned} request(s) did not complete within {} s after the end",
                    job::DRAIN_GRACE_NS / 1_000_000_000
                ),
            },
            None => Outcome::Complete,
        }
    }
}
