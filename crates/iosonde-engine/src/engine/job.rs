//! The loop of one job: pick an offset, stamp, submit, reap, record.
//!
//! A step allocates nothing, locks nothing, and blocks only in the queue's own wait. It fills the
//! queue first and waits only when the queue is full: a loop that waits after every batch never
//! reaches its depth, and reports a flattering latency. The clock is read before and after each
//! submission: user space cannot see completions finer than a reap, so nothing is lost.

use std::sync::atomic::Ordering;

use iosonde_sys::thread;

use super::commit;
use super::flow;
use super::least::Least;
use super::pace::Pacer;
use super::priorities::PriorityDraw;
use super::requests::{Requests, Slot, error_table};
use super::steer::IDLE_NS;
use super::sync::Syncing;
use super::until::Post;
use super::window::Window;
use super::{Control, Lane};
use crate::backend::{Queue, Transfer};
use iosonde_model::content::Filler;
use iosonde_model::plan::{EngineKind, IoKind, Job, Op, OpStream, Plan, Wait as WaitMode};
use iosonde_model::record::JobRun;

/// A full queue is submitted without waiting once in this many steps, to see whether requests
/// complete inside submission.
const PROBE_EVERY: u32 = 64;
/// Most requests submitted at once where they do not complete inside submission. A device is
/// notified when the whole batch is prepared, and larger batches let it run dry (a tenth of the
/// rate at depth 32).
const ASYNC_BATCH: usize = 8;
/// Longest wait for requests in flight after the end, ns.
pub(super) const DRAIN_GRACE_NS: u64 = 10_000_000_000;
/// The same after an interrupt, ns.
pub(super) const INTERRUPT_GRACE_NS: u64 = 500_000_000;

/// Longest wait in one call, so that deadlines are seen even if the device never answers.
pub(super) const PATIENCE_NS: u64 = 200_000_000;

/// One job while it runs.
pub(super) struct JobLoop<'a, Q> {
    pub(super) queue: Q,
    pub(super) stream: OpStream,
    filler: Filler,
    pub(super) requests: Requests<'a>,
    pub(super) staged: Vec<u32>,
    pub(super) depth: usize,
    pub(super) batch: usize,
    /// Batch where requests do not complete inside submission.
    pub(super) async_batch: usize,
    /// Whether sending depends on more than a free slot: on due times, pauses, phases or syncs.
    pub(super) paced: bool,
    /// The queue was full, and is not refilled yet.
    pub(super) draining: bool,
    pub(super) pacer: Pacer,
    pub(super) syncing: Syncing,
    pub(super) flow: Option<flow::Part>,
    pub(super) commit: Option<commit::Part>,
    pub(super) priorities: Option<PriorityDraw>,
    pub(super) least: Least,
    /// Share of reads outside of phases that have their own.
    pub(super) read_percent: u8,
    pub(super) region_start: u64,
    pub(super) reaping: Reaping,
    /// Whether requests can complete inside submission. They cannot with a vhost-user server: it is
    /// another process, and if it is fast, it has finished them in parallel.
    may_inline: bool,
    pub(super) expect_inline: bool,
    until_probe: u32,
    plan: &'a Plan,
    pub(super) job: &'a Job,
    pub(super) stopping_since_ns: Option<u64>,
    opened: Option<Reading>,
    closed: Option<Reading>,
    pub(super) next_sample_ns: u64,
    /// The queue is dead; its requests do not complete any more.
    dead: bool,
    lane: &'a Lane,
    post: Post,
}

/// How the job waits.
#[derive(Debug)]
pub(super) struct Reaping {
    pub(super) complete_min: u32,
    pub(super) wait: WaitMode,
    /// Submission and wait are separate calls, or are counted or timed.
    closely: bool,
    /// Hybrid: the job has slept and nothing has completed since, so it polls now.
    slept: bool,
}

/// What a submission waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) count: u32,
    pub(super) patience_ns: u64,
}

impl Wait {
    /// No wait.
    pub(super) const NOT: Wait = Wait { count: 0, patience_ns: 0 };
    /// Checks once and returns at once.
    pub(super) const LOOK: Wait = Wait { count: 1, patience_ns: 0 };
}

/// Readings at an edge of the window.
#[derive(Clone, Copy, Debug)]
struct Reading {
    usage: thread::Usage,
    syscalls: u64,
    cpu: Option<u32>,
}

/// Whether a job continues.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// There is more to do.
    More,
    /// The job has ended and nothing is in flight, or nothing will complete any more.
    Ended,
}

impl<'a, Q: Queue> JobLoop<'a, Q> {
    /// A job with all its memory, ready to begin.
    pub(super) fn new(
        plan: &'a Plan,
        job: &'a Job,
        mut queue: Q,
        control: &'a Control,
        lane: &'a Lane,
    ) -> Self {
        let depth = job.iodepth as usize;
        let mut filler = Filler::new(plan.seed, job);
        if job.writes_data() {
            for slot in 0..depth {
                filler.fill(queue.buffer(slot));
            }
        }
        let pacer = Pacer::new(job);
        JobLoop {
            queue,
            stream: OpStream::new(job, commit::stop_of(plan, job)),
            filler,
            requests: Requests::new(plan, job, control),
            staged: Vec::with_capacity(depth),
            depth,
            batch: job.batch as usize,
            async_batch: match job.keeps_batch {
                true => job.batch as usize,
                false => (job.batch as usize).min(ASYNC_BATCH),
            },
            paced: !pacer.is_idle_talk()
                || job.sync.every_writes > 0
                || job.reap.refill_at > 0
                || job.flow.is_some()
                || job.commit.is_some()
                || !job.priorities.is_none(),
            draining: false,
            pacer,
            syncing: Syncing::new(job),
            flow: flow::Part::new(job.flow, lane.flow.as_ref()),
            commit: commit::Part::new(job.commit.as_ref(), lane.commit.as_ref()),
            priorities: PriorityDraw::new(job),
            least: Least::new(&job.limits),
            read_percent: job.read_percent,
            region_start: job.region_start,
            reaping: Reaping {
                complete_min: job.reap.complete_min.clamp(1, job.iodepth),
                wait: job.reap.wait,
                closely: job.reap.slat || job.reap.counts || job.reap.times,
                slept: false,
            },
            may_inline: plan.engine_of(job).kind != EngineKind::VhostUser,
            expect_inline: false,
            until_probe: 0,
            plan,
            job,
            stopping_since_ns: None,
            opened: None,
            closed: None,
            next_sample_ns: 0,
            dead: false,
            lane,
            post: Post::new(plan),
        }
    }

    /// Fixes the measured window of a run that starts at `start_ns`, and waits for that moment, so
    /// that all jobs start together.
    pub(super) fn begin(&mut self, start_ns: u64) {
        let window = Window::of_job(self.plan, self.job, start_ns);
        self.requests.start_ns = start_ns;
        self.requests.tally.set_window(window);
        self.requests.area.begin(start_ns, window);
        self.pacer.begin(start_ns);
        self.post.begin(window.open_ns);
        if let Some(flow) = &self.flow {
            flow.join();
        }
        if self.requests.watch.on {
            // Nothing is sent before the job has a share.
            self.depth = self.requests.announce(&self.lane.words);
        }
        self.queue.pause(start_ns);
    }

    /// Whether no operation will be sent any more.
    #[inline(always)]
    fn has_ended(&self) -> bool {
        (self.stream.has_ended() || (self.paced && self.is_out_of_work()))
            && self.syncing.owed() == 0
    }

    /// Time on the job's clock.
    pub(super) fn now_ns(&self) -> u64 {
        self.queue.now_ns()
    }

    /// Fills, submits, reaps once. Only the submission is between the two time stamps.
    #[inline(always)]
    pub(super) fn step(&mut self) -> Step {
        let wait = if self.paced {
            self.fill_paced()
        } else {
            self.fill();
            self.wait()
        };
        let before_ns = self.queue.now_ns();
        let entered = if self.reaping.closely {
            self.enter_closely(wait, before_ns)
        } else {
            self.queue.enter(wait.count, wait.patience_ns)
        };
        let after_ns = self.queue.now_ns();
        if self.requests.watch.on && self.requests.hear(&self.lane.words) {
            self.next_sample_ns = 0;
        }

        let staged = self.staged.len();
        self.requests.submitted(&self.staged, before_ns);
        self.staged.clear();
        let inline = self.reap(before_ns, after_ns);
        if wait.count == 0 && staged > 0 {
            self.note_inline(staged, inline);
        }
        if let Err(error) = entered {
            self.dead |= self.requests.engine_failed(&error);
        }
        if self.requests.watch.on {
            self.depth = self.requests.announce(&self.lane.words);
            if self.depth == 0 && self.requests.in_flight == 0 {
                self.queue.pause(after_ns + IDLE_NS);
            }
        }
        self.keep_time(after_ns)
    }

    /// Stages up to a batch: requests to be sent again first, then new operations.
    #[inline(always)]
    fn fill(&mut self) {
        if self.stopping_since_ns.is_some() {
            self.requests.send_nothing_again();
            return;
        }
        let batch = if self.expect_inline { self.batch } else { self.async_batch };
        while self.staged.len() < batch {
            let Some(slot) = self.requests.again.pop() else { break };
            self.push(slot);
        }
        while self.staged.len() < batch {
            let Some(slot) = self.requests.free.pop() else { break };
            let Some(op) = self.stream.next_op() else {
                self.requests.free.push(slot);
                break;
            };
            self.stage(slot, op);
        }
    }

    /// Stages a new operation.
    #[inline(always)]
    pub(super) fn stage(&mut self, slot: u32, op: Op) {
        if op.way == IoKind::Write {
            let buffer = &mut self.queue.buffer(slot as usize)[..op.bytes as usize];
            self.filler.refresh(buffer, op.offset);
        }
        self.requests.slots[slot as usize] = Slot { op, ..Slot::IDLE };
        let Op { way, target, offset, bytes } = op;
        self.queue.push(slot as usize, Transfer { way, target, offset, skip: 0, bytes });
        self.staged.push(slot);
    }

    /// Stages the rest of an operation.
    #[cold]
    pub(super) fn push(&mut self, slot: u32) {
        let Slot { op, moved, .. } = self.requests.slots[slot as usize];
        let transfer = Transfer {
            way: op.way,
            target: op.target,
            offset: op.offset + u64::from(moved),
            skip: moved,
            bytes: op.bytes - moved,
        };
        self.queue.push(slot as usize, transfer);
        self.prioritise(slot);
        self.staged.push(slot);
    }

    /// What to wait for: nothing while the queue can still be filled.
    #[inline(always)]
    pub(super) fn wait(&mut self) -> Wait {
        // Held requests count as in flight, and no completion would end a wait for them.
        if self.requests.is_holding() {
            return Wait::NOT;
        }
        let staged = self.staged.len();
        let in_flight = self.requests.in_flight + staged;
        let can_fill = in_flight < self.depth && self.stopping_since_ns.is_none();
        if in_flight == 0 || (can_fill && !self.stream.has_ended()) {
            return Wait::NOT;
        }
        if staged > 0 && (self.until_probe == 0 || self.expect_inline) {
            self.until_probe = PROBE_EVERY;
            return Wait::NOT;
        }
        self.until_probe = self.until_probe.saturating_sub(1);
        let count = self.reaping.complete_min.min(in_flight as u32);
        match self.reaping.wait {
            WaitMode::Event => Wait { count, patience_ns: PATIENCE_NS },
            WaitMode::Poll => Wait::LOOK,
            WaitMode::Hybrid => self.sleep_or_look(count),
        }
    }

    /// Sleeps for at most half the mean latency, then polls.
    #[cold]
    fn sleep_or_look(&mut self, count: u32) -> Wait {
        if std::mem::replace(&mut self.reaping.slept, true) {
            return Wait::LOOK;
        }
        Wait { count, patience_ns: self.requests.tally.mean_latency_ns() / 2 }
    }

    /// Settles finished requests; returns how many of them were submitted in the same call.
    #[inline(always)]
    fn reap(&mut self, before_ns: u64, after_ns: u64) -> usize {
        let stopping = self.stopping_since_ns.is_some();
        let requests = &mut self.requests;
        requests.area.add(requests.in_flight, after_ns, requests.tally.window());
        requests.tally.at(after_ns);
        let mut inline = 0;
        if requests.holds_back() {
            self.queue.reap(|slot, result| {
                requests.hold(slot as u32, result);
            });
            if self.job.compares() {
                let (queue, filler) = (&mut self.queue, &self.filler);
                requests.check_held(|slot, op| {
                    filler.holds(&queue.buffer(slot)[..op.bytes as usize], op.offset)
                });
            }
            requests.settle_held(after_ns, stopping);
        } else {
            self.queue.reap(|slot, result| {
                let submitted_ns = requests.settle(slot, result, after_ns);
                inline += usize::from(submitted_ns == before_ns);
            });
        }
        requests.tally.settle(after_ns);
        self.reaping.slept &= inline == 0 && requests.free.is_empty();
        inline
    }

    /// After a submission without a wait, requests that were both sent and finished in it completed
    /// inline.
    #[inline(always)]
    fn note_inline(&mut self, staged: usize, inline: usize) {
        if !self.may_inline {
            return;
        }
        let report = &mut self.requests.report;
        report.inline_probed += staged as u64;
        report.inline_seen += inline.min(staged) as u64;
        self.expect_inline = inline >= staged;
    }

    /// Opens and closes the window, publishes progress, and returns whether to continue.
    #[inline(always)]
    fn keep_time(&mut self, now_ns: u64) -> Step {
        if now_ns < self.next_sample_ns
            && self.stopping_since_ns.is_none()
            && !self.requests.control.is_stopping()
            && !(self.has_ended() && self.requests.in_flight == 0)
        {
            return Step::More;
        }
        self.look(now_ns)
    }

    #[cold]
    fn look(&mut self, now_ns: u64) -> Step {
        let window = self.requests.tally.window();
        if self.opened.is_none() && now_ns >= window.open_ns {
            self.opened = Some(self.read());
            self.requests.forget_batches();
            self.requests.report.in_flight_start = self.requests.in_flight as u32;
        }
        self.lane.ops.store(self.requests.tally.all_ops.iter().sum(), Ordering::Relaxed);
        let bytes: u64 = self.requests.tally.all_bytes.iter().sum();
        self.lane.bytes.store(bytes, Ordering::Relaxed);
        self.requests.tally.publish(&self.lane.latency);
        self.lane.in_flight.store(self.requests.in_flight as u64, Ordering::Relaxed);
        self.lane.seen_ns.store(now_ns, Ordering::Relaxed);
        if self.pacer.is_open() && now_ns >= window.open_ns && self.closed.is_none() {
            let backlog_ns = self.pacer.backlog_ns(now_ns, self.requests.in_flight);
            self.requests.arrivals.look(backlog_ns, window.open_ns, now_ns);
        }
        self.fail_if_slow(now_ns);
        self.post.put(&self.lane.place, &self.requests.tally, now_ns);
        let done = self.has_ended() && self.requests.is_idle();
        let is_over = self.lane.is_over.load(Ordering::Relaxed);
        let over =
            done || is_over || now_ns >= window.close_ns || self.requests.control.is_stopping();
        if over && self.stopping_since_ns.is_none() {
            self.requests.tally.close(now_ns);
            self.requests.area.close();
            self.closed = Some(self.read());
            self.requests.report.in_flight_end = self.requests.in_flight as u32;
            let window = self.requests.tally.window();
            let has_ended = self.stream.has_ended();
            self.requests.arrivals.close(&mut self.pacer, window, has_ended);
            self.stopping_since_ns = Some(now_ns);
            self.requests.send_nothing_again();
        }
        // The next look is in a tenth of a second, or earlier where the window opens or closes.
        self.next_sample_ns = now_ns + 100_000_000;
        for edge_ns in [window.open_ns, window.close_ns, self.post.next_ns] {
            if edge_ns > now_ns {
                self.next_sample_ns = self.next_sample_ns.min(edge_ns);
            }
        }
        match self.stopping_since_ns {
            None => Step::More,
            Some(_) if self.requests.in_flight == 0 || self.dead => Step::Ended,
            Some(since_ns) if now_ns - since_ns > self.requests.control.drain_grace_ns() => {
                Step::Ended
            }
            Some(_) => Step::More,
        }
    }

    fn read(&self) -> Reading {
        Reading {
            usage: thread::usage_of_thread(),
            syscalls: self.queue.syscalls(),
            cpu: thread::current_cpu(),
        }
    }

    /// The record of the job, the bytes it wrote since the start, and its queue.
    pub(super) fn into_record(self) -> (JobRun, u64, Q) {
        if let Some(flow) = &self.flow {
            flow.leave();
        }
        let window = self.requests.tally.window();
        let touched = self.requests.touched();
        let mut report = self.requests.report;
        report.abandoned = self.requests.in_flight as u32;
        report.in_flight_area_ns =
            if self.opened.is_some() { self.requests.area.within() } else { 0 };
        if let (Some(opened), Some(closed)) = (self.opened, self.closed) {
            report.measured_ns = window.close_ns - window.open_ns;
            report.syscalls = closed.syscalls - opened.syscalls;
            report.cpu_user_ns = closed.usage.user_ns - opened.usage.user_ns;
            report.cpu_system_ns = closed.usage.system_ns - opened.usage.system_ns;
            report.cpus = opened.cpu.zip(closed.cpu);
        }
        report.errors = error_table(&self.requests.errors);
        report.touched = touched;
        let written = self.requests.tally.all_bytes[IoKind::Write as usize];
        report.arrivals = self.requests.arrivals.counts;
        self.requests.tally.into_record(&mut report);
        (report, written, self.queue)
    }
}
