//! A queue whose syncs are blocking calls of the job's own thread, as in an application.
//!
//! io_uring hands a sync to a worker thread, which costs more than a fast device's flush. In a
//! group commit nothing else is in flight when a sync is sent, and nothing is sent until it has
//! ended, so the thread can wait in the call.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use iosonde_sys::syscall;

use super::{Queue, QueueFacts, Transfer, setup};
use iosonde_model::plan::{IoKind, Job};

/// The queue for all other requests, and the sync in progress.
pub struct CallingQueue<Q> {
    queue: Q,
    files: Vec<OwnedFd>,
    data_only: bool,
    /// Slot and target of a staged sync.
    staged: Option<(usize, u16)>,
    /// Slot and result of a finished sync.
    finished: Option<(usize, i32)>,
    calls: u64,
}

impl<Q: Queue> CallingQueue<Q> {
    /// A queue for a job with group commits on one target; `files` are duplicate descriptors.
    pub fn new(job: &Job, queue: Q, files: Vec<OwnedFd>) -> CallingQueue<Q> {
        let data_only = setup::syncs_data_only(job);
        CallingQueue { queue, files, data_only, staged: None, finished: None, calls: 0 }
    }
}

impl<Q: Queue> Queue for CallingQueue<Q> {
    const WAKES_LATE_NS: u64 = Q::WAKES_LATE_NS;
    const IS_VIRTUAL: bool = Q::IS_VIRTUAL;

    forward!(field queue: now_ns buffer set_priority pause give_back);

    fn push(&mut self, slot: usize, transfer: Transfer) {
        if transfer.way == IoKind::Sync {
            self.staged = Some((slot, transfer.target));
        } else {
            self.queue.push(slot, transfer);
        }
    }

    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        let Some((slot, target)) = self.staged.take() else {
            return self.queue.enter(wait_for, patience_ns);
        };
        self.calls += 1;
        let file = self.files[usize::from(target)].as_fd();
        self.finished = Some((slot, syscall::sync(file, self.data_only)));
        Ok(())
    }

    fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        if let Some((slot, result)) = self.finished.take() {
            done(slot, result);
        }
        self.queue.reap(done);
    }

    fn syscalls(&self) -> u64 {
        self.queue.syscalls() + self.calls
    }

    fn facts(&self) -> QueueFacts {
        let mut facts = self.queue.facts();
        facts.features.push("syncs by call".into());
        facts
    }
}
