//! Runs jobs when they are due: a heap of deadlines and a few sleeping threads.
//!
//! One idle thread at a time, the watch, sleeps until the earliest deadline; the others wait to
//! replace it. So a deadline wakes one thread, and up to one job per thread runs at a time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A thread wakes this much before a deadline and spins for the rest.
const SPIN: Duration = Duration::from_micros(25);

type Job = Box<dyn FnOnce() + Send>;

struct Entry {
    due: Instant,
    order: u64,
    job: Job,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Reversed, because `BinaryHeap` pops the greatest entry and the earliest is needed.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

#[derive(Default)]
struct Queue {
    heap: BinaryHeap<Entry>,
    order: u64,
    watched: bool,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Wakes the watch when an earlier deadline is added.
    watch: Condvar,
    /// Wakes one of the other threads when there is no watch.
    relief: Condvar,
}

/// Threads that run jobs when due. Jobs that remain at drop are not run.
pub(crate) struct Schedule {
    shared: Arc<Shared>,
}

impl Schedule {
    /// A schedule with `threads` threads, at least one.
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        for i in 0..threads.max(1) {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name(format!("rig-{i}")).spawn(move || shared.serve())?;
        }
        Ok(Self { shared })
    }

    /// Runs `job` at `due`, or as soon as a thread is free after that.
    pub(crate) fn at(&self, due: Instant, job: Job) {
        let mut queue = self.shared.lock();
        let first = queue.heap.peek().is_none_or(|head| due < head.due);
        queue.order += 1;
        let order = queue.order;
        queue.heap.push(Entry { due, order, job });
        if !queue.watched {
            self.shared.relief.notify_one();
        } else if first {
            self.shared.watch.notify_one();
        }
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.watch.notify_all();
        self.shared.relief.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        // The default timer slack of 50 us would add to the latency of the device.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        while let Some(entry) = self.next() {
            while Instant::now() < entry.due {
                std::hint::spin_loop();
            }
            (entry.job)();
        }
    }

    /// The next entry, at most [`SPIN`] before it is due; `None` when the schedule is closed.
    fn next(&self) -> Option<Entry> {
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            if queue.watched {
                queue = self.relief.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let now = Instant::now();
            let wait = queue.heap.peek().map(|head| head.due.saturating_duration_since(now));
            if wait.is_some_and(|wait| wait <= SPIN) {
                let entry = queue.heap.pop();
                if !queue.heap.is_empty() {
                    self.relief.notify_one();
                }
                return entry;
            }
            queue.watched = true;
            queue = match wait {
                Some(wait) => {
                    let woken = self.watch.wait_timeout(queue, wait - SPIN);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.watch.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
            queue.watched = false;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_run_in_order_of_their_time_and_never_early() {
        let schedule = Schedule::start(3).unwrap();
        let (sender, receiver) = mpsc::channel();
        let start = Instant::now();
        for ms in [40_u64, 5, 20, 10, 30] {
            let (due, sender) = (start + Duration::from_millis(ms), sender.clone());
            let job = Box::new(move || sender.send((ms, Instant::now() >= due)).unwrap());
            schedule.at(due, job);
        }
        let ran: Vec<_> = receiver.iter().take(5).collect();
        assert_eq!(ran, [(5, true), (10, true), (20, true), (30, true), (40, true)]);
    }

    #[test]
    fn slow_jobs_overlap_up_to_the_threads() {
        let schedule = Schedule::start(4).unwrap();
        let (sender, receiver) = mpsc::channel();
        let meeting = Arc::new(std::sync::Barrier::new(4));
        for _ in 0..4 {
            let (sender, meeting) = (sender.clone(), Arc::clone(&meeting));
            let job = Box::new(move || {
                meeting.wait();
                sender.send(()).unwrap();
            });
            schedule.at(Instant::now(), job);
        }
        assert_eq!(receiver.iter().take(4).count(), 4);
    }
}
