//! The loop of one job of the verifier: draw an operation, seal or poison its buffer, submit, reap,
//! judge.

mod begin;
mod judge;
mod progress;
mod settle;

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::check::Checker;
use super::ring::Parcel;
use super::{JobInputs, Shared};
use crate::backend::Queue;
use crate::engine::job::PATIENCE_NS;
use iosonde_model::content::block::{All, Comparisons, MAX_GENERATION};
use iosonde_model::content::ledger::Ledger;
use iosonde_model::plan::chance::Permutation;
use iosonde_model::plan::{IoKind, VerifyOp, VerifyPlan, VerifyStream};
use iosonde_model::record::VerifyJobRun;

/// Once a block has this generation, no further operation is drawn: one more may be pending.
const LAST_GENERATION: u32 = MAX_GENERATION - 1;
/// Most requests submitted at once.
const BATCH: usize = 8;
/// Pause of a job that waits at a barrier.
const BARRIER_NS: u64 = 20_000;
/// Pause of a job that has nothing to do but wait for others.
const IDLE_NS: u64 = 150_000;
/// Pause of a job that waits for all others.
const WAITING_NS: u64 = 2_000_000;
/// Interval of the marks that record when operations took place, ns.
const MARK_NS: u64 = 1_000_000_000;
/// Marks kept; when they are full, every other one is dropped.
const MARKS: usize = 8192;
/// Errors after which a run is given up.
const MAX_ERRORS: u64 = 1000;
/// EAGAIN, EINTR, EBUSY; EIO, ENODATA.
const AGAIN: [i32; 3] = [11, 4, 16];
const EIO: i32 = 5;
const ENODATA: i32 = 61;

/// Whether a job continues.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    More,
    Ended,
}

/// Phase of a job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Its operations, one after the other.
    Churn,
    /// A flush of which the observer is notified, alone in flight.
    ReportedFlush,
    /// Only requests in flight and the last flush are left.
    LastFlush { sent: bool },
    /// Waits until all jobs have written and flushed.
    Waiting,
    /// Waits until this time, ns.
    Delay(u64),
    /// Reading everything back; this many pieces have begun.
    Sweep(u64),
    /// Nothing more is begun.
    Over,
}

/// Owner of the blocks of a request.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// The job's own, by an operation of its stream.
    Own(u64),
    /// The job's own, when everything is read back.
    Swept,
    /// Those of the previous job in the ring.
    Given(Parcel),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    way: IoKind,
    whose: Whose,
    /// First byte on the target.
    offset: u64,
    /// First block within its owner's part.
    first: u64,
    blocks: u32,
    moved: u32,
    submitted_ns: u64,
    /// Whether the request has begun and not ended; a resend does not end it.
    is_open: bool,
    /// For a flush: what it makes durable, as a mark of the ledger and as a number of operations.
    mark: (u64, u64),
    /// For a second read of failed blocks: the index of their first failure.
    second_look: Option<usize>,
}

impl Slot {
    const IDLE: Slot = Slot {
        way: IoKind::Read,
        whose: Whose::Swept,
        offset: 0,
        first: 0,
        blocks: 0,
        moved: 0,
        submitted_ns: 0,
        is_open: false,
        mark: (0, 0),
        second_look: None,
    };

    fn bytes(&self, plan: &VerifyPlan) -> u32 {
        self.blocks * plan.block_bytes
    }
}

/// One job while it runs.
pub(super) struct VerifyLoop<'a, Q, C = All> {
    queue: Q,
    shared: &'a Shared,
    plan: &'a VerifyPlan,
    number: usize,
    stream: VerifyStream,
    /// An operation that was drawn and waits for another one on the same blocks.
    pending: Option<VerifyOp>,
    ledger: Ledger,
    checker: Checker<C>,
    job_inputs: JobInputs,
    phase: Phase,
    slots: Box<[Slot]>,
    /// Free slots, last used first: their buffers are in the cache.
    free: Vec<u32>,
    again: Vec<u32>,
    staged: Vec<u32>,
    finished: Vec<(u32, i32)>,
    in_flight: usize,
    pieces: Permutation,
    piece_count: u64,
    /// The blocks that this job reads back when all is written.
    swept: Range<u64>,
    /// Where jobs share the region: the epoch of this job, and whether it is at its end.
    epoch: u64,
    has_arrived: bool,
    /// Generations that may be in a block, where jobs share the region; kept to avoid allocations.
    outcomes: Vec<u32>,
    report: VerifyJobRun,
    ops_done: u64,
    durable_ops: u64,
    errors: u64,
    unix_offset_ns: u64,
    begun_ns: u64,
    sweep_begun_ns: u64,
    deadline_ns: u64,
    written_limit: u64,
    /// Bytes of the writes that were begun.
    begun_bytes: u64,
    next_mark_ns: u64,
    stopping_since_ns: Option<u64>,
    is_exhausted: bool,
    is_dead: bool,
}

impl<'a, Q: Queue, C: Comparisons> VerifyLoop<'a, Q, C> {
    /// A job with all its memory, ready to begin.
    pub(super) fn new(
        shared: &'a Shared,
        number: usize,
        queue: Q,
        mut job_inputs: JobInputs,
    ) -> Self {
        let plan = &shared.plan;
        let job = &plan.plan.jobs[number];
        let depth = job.iodepth as usize;
        let blocks = plan.blocks_of(number);
        let swept = match (plan.overlaps(), plan.plan.jobs.len() as u64) {
            (false, _) => 0..blocks,
            (true, jobs) => blocks * number as u64 / jobs..blocks * (number as u64 + 1) / jobs,
        };
        let piece_count = (swept.end - swept.start).div_ceil(plan.max_blocks.into());
        VerifyLoop {
            queue,
            shared,
            plan,
            number,
            stream: VerifyStream::new(plan, number),
            pending: None,
            ledger: job_inputs.ledger.take().unwrap_or_else(|| Ledger::new(blocks)),
            checker: Checker::new(plan, shared.survival),
            job_inputs,
            phase: Phase::Churn,
            slots: vec![Slot::IDLE; depth].into(),
            free: (0..job.iodepth).rev().collect(),
            again: Vec::with_capacity(depth),
            staged: Vec::with_capacity(depth),
            finished: Vec::with_capacity(depth),
            in_flight: 0,
            pieces: Permutation::new(piece_count.max(1), !job.seed),
            piece_count,
            swept,
            epoch: 0,
            has_arrived: false,
            outcomes: Vec::with_capacity(2 * plan.plan.jobs.len()),
            report: VerifyJobRun { marks: Vec::with_capacity(MARKS), ..VerifyJobRun::default() },
            ops_done: 0,
            durable_ops: 0,
            errors: 0,
            unix_offset_ns: 0,
            begun_ns: 0,
            sweep_begun_ns: 0,
            deadline_ns: u64::MAX,
            written_limit: plan.written_bytes.div_ceil(plan.plan.jobs.len() as u64),
            begun_bytes: 0,
            next_mark_ns: 0,
            stopping_since_ns: None,
            is_exhausted: false,
            is_dead: false,
        }
    }

    /// Starts the clock of the job.
    pub(super) fn begin(&mut self, unix_offset_ns: u64) {
        self.unix_offset_ns = unix_offset_ns;
        self.begun_ns = self.queue.now_ns();
        self.deadline_ns = self.begun_ns.saturating_add(self.plan.length_ns);
        self.next_mark_ns = self.begun_ns;
    }

    #[inline(always)]
    pub(super) fn now_ns(&self) -> u64 {
        self.queue.now_ns()
    }

    /// Fills, submits, reaps and judges once.
    pub(super) fn step(&mut self) -> Step {
        let now_ns = self.queue.now_ns();
        let stopping = self.shared.control.is_stopping();
        if stopping && self.gives_up(now_ns) {
            self.report.abandoned = self.in_flight as u32;
            return self.end();
        }
        self.turn(now_ns, stopping);
        if self.phase == Phase::Over && self.is_idle() {
            return self.end();
        }
        self.fill(now_ns, stopping);
        if self.in_flight + self.staged.len() == 0 {
            let pause_ns = match self.phase {
                Phase::Churn if self.shared.barrier.is_some() => BARRIER_NS,
                _ if self.job_inputs.ends.is_some() => IDLE_NS,
                _ => WAITING_NS,
            };
            self.queue.pause(now_ns + pause_ns);
            return Step::More;
        }
        if !self.note_staged() {
            // Operations that cannot be noted are not submitted.
            self.staged.clear();
            return self.end();
        }
        self.stage();
        // Full, or nothing else to do: wait for one.
        let wait = u32::from(self.free.is_empty() || self.staged.len() < BATCH);
        self.in_flight += self.staged.len();
        self.staged.clear();
        self.report.in_flight_max = self.report.in_flight_max.max(self.in_flight as u32);
        if let Err(error) = self.queue.enter(wait, PATIENCE_NS)
            && !AGAIN.contains(&error.raw_os_error().unwrap_or(0))
        {
            self.shared.control.fail(format!("the engine stopped: {error}"));
            self.is_dead = true;
            self.report.abandoned = self.in_flight as u32;
            return self.end();
        }
        let mut finished = std::mem::take(&mut self.finished);
        self.queue.reap(|slot, result| finished.push((slot as u32, result)));
        if !finished.is_empty() {
            let now_ns = self.queue.now_ns();
            for (slot, result) in finished.drain(..) {
                self.settle(slot, result, now_ns);
            }
            self.shared.ops[self.number].0.store(self.ops_done, Ordering::Relaxed);
        }
        self.finished = finished;
        Step::More
    }

    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.again.is_empty()
    }

    /// Whether to stop waiting, after the end, for requests that do not complete.
    #[cold]
    fn gives_up(&mut self, now_ns: u64) -> bool {
        let since_ns = *self.stopping_since_ns.get_or_insert(now_ns);
        let grace_ns = self.shared.control.drain_grace_ns();
        self.in_flight > 0 && now_ns.saturating_sub(since_ns) > grace_ns
    }

    /// Ends the job; the others do not wait for it.
    fn end(&mut self) -> Step {
        if matches!(self.phase, Phase::Churn | Phase::ReportedFlush | Phase::LastFlush { .. }) {
            self.shared.at_barrier.fetch_add(1, Ordering::AcqRel);
            self.leave();
        }
        self.phase = Phase::Over;
        self.job_inputs.ends = None;
        Step::Ended
    }

    /// Enters the next phase when this one is over.
    fn turn(&mut self, now_ns: u64, stopping: bool) {
        match self.phase {
            Phase::LastFlush { sent: true } if self.is_idle() => {
                self.report.churn_ns = now_ns - self.begun_ns;
                self.leave();
                self.shared.at_barrier.fetch_add(1, Ordering::AcqRel);
                let reads_back = self.plan.mode.sweeps() && !stopping;
                self.phase = if reads_back { Phase::Waiting } else { Phase::Over };
            }
            Phase::Waiting if stopping => self.phase = Phase::Over,
            Phase::Waiting if self.shared.go.load(Ordering::Acquire) => {
                self.phase = Phase::Delay(now_ns.saturating_add(self.plan.delay_ns));
            }
            Phase::Delay(_) | Phase::Sweep(_) if stopping => self.phase = Phase::Over,
            Phase::Delay(until_ns) if now_ns >= until_ns => {
                self.sweep_begun_ns = now_ns;
                self.report.sweep_blocks = self.swept.end - self.swept.start;
                self.phase = Phase::Sweep(0);
            }
            Phase::Sweep(begun) if begun == self.piece_count && self.is_idle() => {
                self.report.sweep_ns = now_ns - self.sweep_begun_ns;
                self.phase = Phase::Over;
            }
            _ => {}
        }
    }

    /// Begins as many requests as possible.
    fn fill(&mut self, now_ns: u64, stopping: bool) {
        while let Some(slot) = self.again.pop() {
            self.push(slot);
        }
        while self.staged.len() < BATCH && !self.free.is_empty() {
            let begun = match self.phase {
                Phase::Churn => self.begin_next(now_ns, stopping),
                Phase::ReportedFlush => self.begin_reported_flush(now_ns),
                Phase::LastFlush { sent: false } => self.begin_last_flush(now_ns),
                Phase::Sweep(begun) if begun < self.piece_count => {
                    self.begin_piece(begun, now_ns);
                    true
                }
                _ => false,
            };
            if !begun {
                break;
            }
        }
    }

    /// Begins the next operation of the stream, or a read for the ring; returns whether it did.
    #[inline]
    fn begin_next(&mut self, now_ns: u64, stopping: bool) -> bool {
        if self.job_inputs.ends.is_some() && self.serve_ring(now_ns) {
            return true;
        }
        if self.pending.is_none() && !stopping && self.is_at_barrier() {
            return false;
        }
        // A flush that the ledger needs is sent alone.
        let is_alone = self.in_flight + self.staged.len() == 0;
        let must_flush = self.ledger.needs_flush() && self.shared.flush_observer.is_none();
        if self.pending.is_none() && must_flush && !is_alone {
            return false;
        }
        if self.pending.is_none() {
            self.pending = self.draw(now_ns, stopping);
        }
        // An operation may wait for ever for blocks of jobs that have gone. The write beyond the
        // limit stays pending: operations up to it have been done.
        let Some(op) = self.pending.filter(|_| !stopping && !self.is_exhausted) else {
            return self.finish_churn();
        };
        if op.way == IoKind::Sync {
            if self.shared.flush_observer.is_some() {
                self.phase = Phase::ReportedFlush;
                return false;
            }
            self.begin_flush(op.index, now_ns);
        } else if self.ledger.is_busy(op.first, op.blocks) || !self.ring_has_room() {
            return false;
        } else {
            self.begin_transfer(op, now_ns);
        }
        self.pending = None;
        true
    }

    /// The next operation, unless it is time to stop.
    #[inline]
    fn draw(&mut self, now_ns: u64, stopping: bool) -> Option<VerifyOp> {
        // A check has no operations of its own to mark.
        if now_ns >= self.next_mark_ns && self.plan.changes() {
            self.mark(now_ns);
        }
        if stopping || self.is_exhausted || now_ns >= self.deadline_ns {
            return None;
        }
        if self.ledger.needs_flush() && self.shared.flush_observer.is_none() {
            let index = self.stream.index();
            return Some(VerifyOp { index, way: IoKind::Sync, first: 0, blocks: 0 });
        }
        let op = self.stream.next()?;
        if op.way == IoKind::Write {
            self.begun_bytes += u64::from(op.blocks) * u64::from(self.plan.block_bytes);
            self.is_exhausted = self.begun_bytes > self.written_limit;
        }
        Some(op)
    }

    /// Ends the phase; a ring is emptied first.
    fn finish_churn(&mut self) -> bool {
        let is_writing = self.slots.iter().any(|slot| slot.is_open && slot.way == IoKind::Write);
        if let Some(ends) = &mut self.job_inputs.ends {
            // Blocks that are still being written are passed on first.
            if is_writing {
                return false;
            }
            ends.finish();
            if !ends.is_done() {
                return false;
            }
        }
        // A check writes nothing, and has nothing to flush.
        let has_flushed = !self.plan.changes() || self.shared.flush_failed();
        self.phase = Phase::LastFlush { sent: has_flushed };
        true
    }

    /// The record of the job, and its queue.
    pub(super) fn into_record(mut self) -> (VerifyJobRun, Q) {
        self.report.ops = self.pending.map_or(self.stream.index(), |op| op.index);
        self.report.acked_ops = self.acked_ops();
        let blocks = self.swept.clone();
        self.report.changed_blocks = match &self.shared.barrier {
            None => blocks.filter(|block| self.ledger.was_changed(*block)).count() as u64,
            Some(barrier) => barrier.outcomes(|outcomes| {
                blocks.filter(|block| outcomes.was_changed(*block)).count() as u64
            }),
        };
        self.report.syscalls = self.queue.syscalls();
        (self.report, self.queue)
    }
}
