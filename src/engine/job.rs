//! The loop of one job: pick an offset, stamp, submit, reap, record.
//!
//! A step allocates nothing, locks nothing, and blocks only in the queue's own wait. It fills the queue
//! first and waits only when the queue is full: a loop that waits after every batch never reaches its
//! depth, and reports a flattering latency. The clock is read twice per hand-over, before and after: user
//! space cannot see completions finer than a reap, so nothing is lost.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use iosonde_sys::{errno_name, thread};

use super::tally::{Tally, Window};
use super::{Control, Lane};
use crate::backend::{Queue, Transfer};
use crate::content::Filler;
use crate::plan::{Job, OnError, Op, OpStream, Plan, Stop, Way};
use crate::record::JobRun;

/// A full queue is handed over without waiting once in so many steps, to see whether requests
/// complete inside submission.
const PROBE_EVERY: u32 = 64;
/// Below this mean time between completions it pays to wait for several at once.
const FAST_PACE_NS: u64 = 50_000;
/// After the end, this long is waited for requests in flight.
pub(super) const DRAIN_GRACE_NS: u64 = 10_000_000_000;

/// EIO, EAGAIN, EINTR, EBUSY, ENODATA as Linux numbers them on every architecture.
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const EINTR: i32 = 4;
const EBUSY: i32 = 16;
const ENODATA: i32 = 61;

/// A request as its slot remembers it.
#[derive(Clone, Copy, Debug)]
struct Slot {
    op: Op,
    /// Bytes already moved, by earlier short transfers.
    moved: u32,
    submitted_ns: u64,
    /// Sent before, and refused or cut short; its submission time stays the first one.
    again: bool,
}

/// One job while it runs.
pub(super) struct JobLoop<'a, Q> {
    queue: Q,
    stream: OpStream,
    filler: Filler,
    tally: Tally,
    slots: Box<[Slot]>,
    /// Slots that are ours, last used first: their buffers are warm.
    free: Vec<u32>,
    /// Slots to be sent again.
    again: Vec<u32>,
    staged: Vec<u32>,
    finished: Vec<(u32, i32)>,
    depth: usize,
    batch: usize,
    in_flight: usize,
    area_ns: u64,
    area_from_ns: u64,
    /// Mean time between completions, ns, smoothed.
    pace_ns: u64,
    expect_inline: bool,
    until_probe: u32,
    on_error: OnError,
    warmup_ns: u64,
    stop: Stop,
    stopping_since_ns: Option<u64>,
    opened: Option<Opened>,
    closed: Option<Closed>,
    next_report_ns: u64,
    control: &'a Control,
    lane: &'a Lane,
    report: JobRun,
    errors: Vec<(Way, i32, u64)>,
}

/// Readings at the opening of the window.
#[derive(Clone, Copy, Debug)]
struct Opened {
    usage: thread::Usage,
    syscalls: u64,
    cpu: Option<u32>,
}

/// Readings at its close.
#[derive(Clone, Copy, Debug)]
struct Closed {
    usage: thread::Usage,
    syscalls: u64,
    cpu: Option<u32>,
    at_ns: u64,
}

/// Whether a job goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// There is more to do.
    More,
    /// The job has ended and nothing is in flight, or nothing comes back any more.
    Ended,
}

impl<'a, Q: Queue> JobLoop<'a, Q> {
    /// A job with all its memory, ready to begin.
    pub(super) fn new(
        plan: &Plan,
        job: &Job,
        mut queue: Q,
        control: &'a Control,
        lane: &'a Lane,
    ) -> Self {
        let depth = job.iodepth as usize;
        let mut filler = Filler::new(plan.seed, job.seed);
        if job.read_percent < 100 {
            for slot in 0..depth {
                filler.fill(queue.buffer(slot));
            }
        }
        let idle = Slot {
            op: Op { way: Way::Read, offset: 0, bytes: 0 },
            moved: 0,
            submitted_ns: 0,
            again: false,
        };
        JobLoop {
            queue,
            stream: OpStream::new(job, plan.stop),
            filler,
            tally: Tally::new(plan, job),
            slots: vec![idle; depth].into(),
            free: (0..job.iodepth).rev().collect(),
            again: Vec::with_capacity(depth),
            staged: Vec::with_capacity(depth),
            finished: Vec::with_capacity(depth),
            depth,
            batch: job.batch as usize,
            in_flight: 0,
            area_ns: 0,
            area_from_ns: 0,
            pace_ns: 0,
            expect_inline: false,
            until_probe: 0,
            on_error: plan.on_error,
            warmup_ns: plan.warmup_ns,
            stop: plan.stop,
            stopping_since_ns: None,
            opened: None,
            closed: None,
            next_report_ns: 0,
            control,
            lane,
            report: JobRun { touched: Some((u64::MAX, 0)), ..JobRun::default() },
            errors: Vec::with_capacity(16),
        }
    }

    /// Fixes the measured window of a run that starts at `start_ns`.
    pub(super) fn begin(&mut self, start_ns: u64) {
        let open_ns = start_ns + self.warmup_ns;
        let close_ns = match self.stop {
            Stop::AfterNs(ns) => open_ns + ns,
            Stop::AfterOps(_) | Stop::AfterOnePass => u64::MAX,
        };
        self.tally.set_window(Window { open_ns, close_ns });
        self.area_from_ns = start_ns;
    }

    /// Time on the job's clock.
    pub(super) fn now_ns(&self) -> u64 {
        self.queue.now_ns()
    }

    /// Fills, submits, reaps once.
    #[inline(always)]
    pub(super) fn step(&mut self) -> Step {
        self.fill();
        let before_ns = self.queue.now_ns();
        self.integrate(before_ns);
        let staged = self.staged.len();
        for slot in self.staged.drain(..) {
            let slot = &mut self.slots[slot as usize];
            if !slot.again {
                slot.submitted_ns = before_ns;
            }
        }
        self.in_flight += staged;
        self.report.in_flight_max = self.report.in_flight_max.max(self.in_flight as u32);

        let wait_for = self.wait_for(staged);
        let entered = self.queue.enter(wait_for);
        let after_ns = self.queue.now_ns();
        self.reap();
        self.integrate(after_ns);
        if wait_for == 0 && staged > 0 {
            self.note_inline(staged, before_ns);
        }
        self.note_pace(after_ns - before_ns);
        self.tally.at(after_ns);
        for index in 0..self.finished.len() {
            let (slot, result) = self.finished[index];
            self.settle(slot, result, after_ns);
        }
        self.finished.clear();
        if let Err(error) = entered {
            // EAGAIN and EBUSY mean "reap first", which has just been done.
            if !matches!(error.raw_os_error(), Some(EAGAIN | EBUSY | EINTR)) {
                self.fail(Way::Read, 0, 0, error.raw_os_error().unwrap_or(EIO));
                self.control.fail(format!("the engine stopped: {error}"));
            }
        }
        self.keep_time(after_ns)
    }

    /// Stages up to a batch: what must go again first, then new operations.
    #[inline(always)]
    fn fill(&mut self) {
        while self.staged.len() < self.batch {
            let Some(slot) = self.again.pop() else { break };
            self.push(slot);
        }
        if self.stopping_since_ns.is_some() {
            return;
        }
        while self.staged.len() < self.batch {
            let Some(slot) = self.free.pop() else { break };
            let Some(op) = self.stream.next_op() else {
                self.free.push(slot);
                break;
            };
            if op.way == Way::Write {
                let buffer = &mut self.queue.buffer(slot as usize)[..op.bytes as usize];
                self.filler.refresh(buffer, op.offset);
            }
            self.slots[slot as usize] = Slot { op, moved: 0, submitted_ns: 0, again: false };
            self.push(slot);
        }
    }

    #[inline(always)]
    fn push(&mut self, slot: u32) {
        let Slot { op, moved, .. } = self.slots[slot as usize];
        let transfer = Transfer {
            way: op.way,
            offset: op.offset + u64::from(moved),
            skip: moved,
            bytes: op.bytes - moved,
        };
        self.queue.push(slot as usize, transfer);
        self.staged.push(slot);
    }

    /// How many completions to wait for: none while the queue can still be filled.
    #[inline(always)]
    fn wait_for(&mut self, staged: usize) -> u32 {
        let can_fill = self.in_flight < self.depth && self.stopping_since_ns.is_none();
        if self.in_flight == 0 || (can_fill && !self.stream.has_ended()) {
            return 0;
        }
        if staged > 0 && (self.until_probe == 0 || self.expect_inline) {
            self.until_probe = PROBE_EVERY;
            return 0;
        }
        self.until_probe = self.until_probe.saturating_sub(1);
        // Waiting for k of D completions lengthens latency by (k-1)/2D at most: 3 % here.
        let several = if self.pace_ns < FAST_PACE_NS { 1 + self.depth as u32 / 16 } else { 1 };
        several.min(self.in_flight as u32)
    }

    /// Adds the time since the last change of the number in flight to its integral.
    #[inline(always)]
    fn integrate(&mut self, now_ns: u64) {
        let window = self.tally.window();
        self.area_ns += self.in_flight as u64 * window.overlap_ns(self.area_from_ns, now_ns);
        self.area_from_ns = now_ns;
    }

    #[inline(always)]
    fn reap(&mut self) {
        let finished = &mut self.finished;
        self.queue.reap(|slot, result| finished.push((slot as u32, result)));
    }

    /// After a hand-over without waiting, whatever was both sent and finished in it completed inline.
    #[inline(always)]
    fn note_inline(&mut self, staged: usize, before_ns: u64) {
        let inline = self
            .finished
            .iter()
            .filter(|(slot, _)| self.slots[*slot as usize].submitted_ns == before_ns)
            .count();
        self.report.inline_probed += staged as u64;
        self.report.inline_seen += inline.min(staged) as u64;
        self.expect_inline = inline >= staged;
    }

    #[inline(always)]
    fn note_pace(&mut self, elapsed_ns: u64) {
        if !self.finished.is_empty() {
            let pace_ns = elapsed_ns / self.finished.len() as u64;
            self.pace_ns = (self.pace_ns * 7 + pace_ns) / 8;
        }
    }

    /// Counts a finished request, or sends the rest of it again, or files its error.
    #[inline(always)]
    fn settle(&mut self, slot: u32, result: i32, now_ns: u64) {
        self.in_flight -= 1;
        let request = self.slots[slot as usize];
        if result > 0 && request.moved + result as u32 == request.op.bytes {
            self.touch(&request.op);
            self.tally.complete(request.op.way, request.op.bytes, request.submitted_ns, now_ns);
            self.free.push(slot);
        } else {
            self.settle_unfinished(slot, result);
        }
    }

    #[inline(always)]
    fn touch(&mut self, op: &Op) {
        if let Some((low, high)) = &mut self.report.touched {
            *low = (*low).min(op.offset);
            *high = (*high).max(op.offset + u64::from(op.bytes));
        }
    }

    #[cold]
    fn settle_unfinished(&mut self, slot: u32, result: i32) {
        let request = &mut self.slots[slot as usize];
        match result {
            moved if moved > 0 => {
                request.moved += moved as u32;
                request.again = true;
                self.report.short_transfers += 1;
                self.again.push(slot);
            }
            code if matches!(-code, EAGAIN | EBUSY | EINTR) => {
                request.again = true;
                self.report.retries += 1;
                self.again.push(slot);
            }
            code => {
                // Nothing moved and no error: beyond the end of the target.
                let errno = if code == 0 { ENODATA } else { -code };
                let Op { way, offset, bytes } = request.op;
                self.free.push(slot);
                self.fail(way, offset, u64::from(bytes), errno);
            }
        }
    }

    fn fail(&mut self, way: Way, offset: u64, bytes: u64, errno: i32) {
        match self.errors.iter_mut().find(|(w, e, _)| (*w, *e) == (way, errno)) {
            Some((_, _, count)) => *count += 1,
            None => self.errors.push((way, errno, 1)),
        }
        self.report.first_error.get_or_insert_with(|| (offset, bytes, errno_name(errno)));
        if self.on_error == OnError::Stop {
            let word = if way == Way::Read { "read" } else { "write" };
            self.control.fail(format!(
                "{word} of {bytes} B at offset {offset}: {}{}",
                errno_name(errno),
                meaning(errno)
            ));
        }
    }

    /// Opens and closes the window, publishes progress, and says whether to go on.
    #[inline(always)]
    fn keep_time(&mut self, now_ns: u64) -> Step {
        if now_ns < self.next_report_ns
            && self.stopping_since_ns.is_none()
            && !self.control.is_stopping()
            && !(self.stream.has_ended() && self.in_flight == 0)
        {
            return Step::More;
        }
        self.keep_time_slowly(now_ns)
    }

    fn keep_time_slowly(&mut self, now_ns: u64) -> Step {
        let window = self.tally.window();
        if self.opened.is_none() && now_ns >= window.open_ns {
            self.opened = Some(Opened {
                usage: thread::usage_of_thread(),
                syscalls: self.queue.syscalls(),
                cpu: thread::current_cpu(),
            });
            self.report.in_flight_start = self.in_flight as u32;
        }
        self.lane.ops.store(self.tally.all_ops, Ordering::Relaxed);
        let done = self.stream.has_ended() && self.in_flight == 0 && self.again.is_empty();
        if self.stopping_since_ns.is_none()
            && (done || now_ns >= window.close_ns || self.control.is_stopping())
        {
            self.tally.close(now_ns);
            self.closed = Some(Closed {
                usage: thread::usage_of_thread(),
                syscalls: self.queue.syscalls(),
                cpu: thread::current_cpu(),
                at_ns: self.tally.window().close_ns,
            });
            self.report.in_flight_end = self.in_flight as u32;
            self.stopping_since_ns = Some(now_ns);
            // What was refused or cut short is not sent again after the end.
            self.free.append(&mut self.again);
        }
        // The next look: at a tenth of a second, or earlier where the window opens or closes.
        let mut next_ns = now_ns + 100_000_000;
        for edge_ns in [window.open_ns, window.close_ns] {
            if edge_ns > now_ns {
                next_ns = next_ns.min(edge_ns);
            }
        }
        self.next_report_ns = next_ns;
        match self.stopping_since_ns {
            None => Step::More,
            Some(_) if self.in_flight == 0 => Step::Ended,
            Some(since_ns) if now_ns - since_ns > DRAIN_GRACE_NS => Step::Ended,
            Some(_) => Step::More,
        }
    }

    /// The record of the job, and what it wrote since the start, bytes.
    pub(super) fn into_record(mut self) -> (JobRun, u64) {
        let window = self.tally.window();
        let mut report = std::mem::take(&mut self.report);
        report.abandoned = self.in_flight as u32;
        report.in_flight_area_ns = self.area_ns;
        if let (Some(opened), Some(closed)) = (self.opened, self.closed) {
            report.measured_ns = closed.at_ns - window.open_ns;
            report.syscalls = closed.syscalls - opened.syscalls;
            report.cpu_user_ns = closed.usage.user_ns - opened.usage.user_ns;
            report.cpu_system_ns = closed.usage.system_ns - opened.usage.system_ns;
            report.cpus = opened.cpu.zip(closed.cpu);
        }
        report.errors = error_table(&self.errors);
        report.touched = report.touched.filter(|(low, high)| low < high);
        let written = self.tally.all_bytes_written;
        (report.read, report.write) = self.tally.into_record();
        (report, written)
    }
}

fn error_table(errors: &[(Way, i32, u64)]) -> BTreeMap<String, u64> {
    errors
        .iter()
        .map(|(way, errno, count)| {
            let word = if *way == Way::Read { "read" } else { "write" };
            (format!("{word} {}", errno_name(*errno)), *count)
        })
        .collect()
}

/// What an errno means for the user, where that is not plain.
fn meaning(errno: i32) -> &'static str {
    match errno {
        ENODATA => " (nothing there: the target is shorter than the region)",
        28 => " (the file system is full)",
        122 => " (the disk quota is used up)",
        22 => " (the target does not take this size, offset or alignment)",
        EIO => " (the device failed)",
        _ => "",
    }
}
