//! The thread of a job: its queue, its start, its loop.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use iosonde_sys::thread;

use super::job::{JobLoop, Step};
use super::steer::Lane;
use super::{Control, Ended};
use crate::backend::{OpenError, Queue, QueueFacts};
use iosonde_model::plan::{Job, Plan};
use iosonde_model::record::JobRun;

/// Polling interval of a job that waits for its start.
const TURN_LOOK: Duration = Duration::from_millis(5);

/// Data shared by the threads of a run; while measuring, each writes only its own lane.
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) control: Arc<Control>,
    pub(super) lanes: Box<[Lane]>,
    /// When all start, ns; `u64::MAX` means that the run is cancelled.
    pub(super) start_ns: OnceLock<u64>,
}

impl Shared {
    /// Body of one job's thread.
    pub(super) fn work<Q: Queue>(
        &self,
        index: usize,
        cpu: Option<u32>,
        open: &impl Fn(&Job) -> Result<Q, OpenError>,
        ready: &Sender<Result<QueueFacts, OpenError>>,
        ended: &Sender<Ended>,
    ) {
        let job = &self.plan.jobs[index];
        thread::wake_on_time();
        // Requested CPUs are an error if unavailable; the plan's own pinning is best effort.
        if !job.place.cpus.is_empty() && !thread::pin_to_any(&job.place.cpus) {
            let _ = ready.send(Err(OpenError::Cpus { cpus: job.place.cpus.clone() }));
            return;
        }
        if let (Some(cpu), true) = (cpu, job.place.cpus.is_empty()) {
            thread::pin_to(cpu);
        }
        if job.place.nice != 0 && !thread::renice(job.place.nice) {
            let _ = ready.send(Err(OpenError::Unable(
                "the kernel refuses the niceness; one below 0 needs CAP_SYS_NICE".into(),
            )));
            return;
        }
        if job.place.io_priority.0 > 0 && !thread::set_io_priority(job.place.io_priority) {
            let _ = ready.send(Err(OpenError::Unable(
                "the kernel refuses the I/O priority; class 1 needs CAP_SYS_ADMIN".into(),
            )));
            return;
        }
        // The queue stays on this thread. Without its own file table, a call costs a few ns more.
        thread::own_file_table();
        let queue = match open(job) {
            Ok(queue) => queue,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let facts = queue.facts();
        // Built before the start time is set: filling buffers takes time.
        let mut work = JobLoop::new(&self.plan, job, queue, &self.control, &self.lanes[index]);
        let _ = ready.send(Ok(facts));
        let start_ns = *self.start_ns.wait();
        if start_ns == u64::MAX {
            return;
        }
        let Some(start_ns) = self.turn_of(index, start_ns, || work.now_ns()) else {
            self.lanes[index].ended.store(true, Ordering::Release);
            let _ = ended.send((index, JobRun::default(), 0));
            return;
        };
        work.begin(start_ns);
        // Operations before the start are not counted, and would be missing where operations are
        // counted.
        while work.now_ns() < start_ns {
            std::hint::spin_loop();
        }
        while work.step() == Step::More {}
        self.lanes[index].ended.store(true, Ordering::Release);
        let (record, written, mut queue) = work.into_record();
        queue.give_back();
        let _ = ended.send((index, record, written));
        // Dropping a queue with requests in flight may block for ever, so the record is sent first.
        drop(queue);
    }

    /// Waits for the start of a job, and returns it, ns; `None` if the end of the job comes before.
    fn turn_of(&self, index: usize, start_ns: u64, now_ns: impl Fn() -> u64) -> Option<u64> {
        let span = &self.plan.jobs[index].span;
        let is_over =
            || self.control.is_stopping() || self.lanes[index].is_over.load(Ordering::Relaxed);
        let mut start_ns = start_ns.saturating_add(span.delay_ns);
        if !span.after.is_empty() {
            let awaited = |other: &usize| self.plan.jobs[*other].plays(&span.after);
            let has_ended = |other: usize| self.lanes[other].ended.load(Ordering::Acquire);
            let all = 0..self.plan.jobs.len();
            while !all.clone().filter(awaited).all(has_ended) {
                if is_over() {
                    return None;
                }
                std::thread::sleep(TURN_LOOK);
            }
            start_ns = start_ns.max(now_ns() + span.delay_ns);
        }
        while start_ns > now_ns() + TURN_LOOK.as_nanos() as u64 {
            if is_over() {
                return None;
            }
            std::thread::sleep(TURN_LOOK);
        }
        Some(start_ns)
    }

    pub(super) fn ops(&self) -> u64 {
        self.lanes.iter().map(Lane::ops).sum()
    }
}
