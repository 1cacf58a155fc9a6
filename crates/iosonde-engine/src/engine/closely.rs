//! Submission in jobs that record more: times, counts of requests, submission latency.

use super::job::{JobLoop, Wait};
use crate::backend::Queue;

impl<Q: Queue> JobLoop<'_, Q> {
    /// Notes when requests are submitted; counts them, and the completions since the last call. For
    /// submission latency, it submits, notes the time, and only then waits.
    #[inline(never)]
    pub(super) fn enter_closely(&mut self, wait: Wait, now_ns: u64) -> std::io::Result<()> {
        if self.job.reap.times {
            self.requests.note_times(&self.staged, now_ns);
        }
        if self.job.reap.counts {
            self.requests.count_batch(self.staged.len());
        }
        if !self.job.reap.slat {
            return self.queue.enter(wait.count, wait.patience_ns);
        }
        self.queue.enter(0, 0)?;
        self.requests.handed(&self.staged, self.queue.now_ns());
        if wait.count == 0 { Ok(()) } else { self.queue.enter(wait.count, wait.patience_ns) }
    }
}
