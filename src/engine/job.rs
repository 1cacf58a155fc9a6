//! The loop of one job: pick an offset, stamp, submit, reap, record.
//!
//! A step allocates nothing, locks nothing, and blocks only in the queue's own wait. It fills the
//! queue first and waits only when the queue is full: a loop that waits after every batch never
//! reaches its depth, and reports a flattering latency. The clock is read twice per hand-over,
//! before and after: user space cannot see completions finer than a reap, so nothing is lost.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use iosonde_sys::{errno_name, thread};

use super::tally::{Area, Tally, Window};
use super::{Control, Lane};
use crate::backend::{Queue, Transfer};
use crate::content::Filler;
use crate::plan::{Job, OnError, Op, OpStream, Plan, Stop, Way};
use crate::record::JobRun;

/// A full queue is handed over without waiting once in so many steps, to see whether requests
/// complete inside submission.
const PROBE_EVERY: u32 = 64;
/// Requests handed over at once, at most, where they do not complete inside submission: a device is
/// told of a batch when the whole of it is prepared, and larger ones let it run dry (a tenth of the
/// rate at depth 32).
const ASYNC_BATCH: usize = 8;
/// After the end, this long is waited for requests in flight.
pub(super) const DRAIN_GRACE_NS: u64 = 10_000_000_000;

/// Longest wait in one call, so that deadlines are seen even if the device never answers.
const PATIENCE_NS: u64 = 1_000_000_000;

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
    requests: Requests<'a>,
    staged: Vec<u32>,
    depth: usize,
    batch: usize,
    expect_inline: bool,
    until_probe: u32,
    warmup_ns: u64,
    stop: Stop,
    stopping_since_ns: Option<u64>,
    opened: Option<Reading>,
    closed: Option<Reading>,
    next_look_ns: u64,
    lane: &'a Lane,
}

/// The requests of a job: which slots are whose, and what came of them.
struct Requests<'a> {
    slots: Box<[Slot]>,
    /// Slots that are ours, last used first: their buffers are warm.
    free: Vec<u32>,
    /// Slots to be sent again.
    again: Vec<u32>,
    in_flight: usize,
    area: Area,
    tally: Tally,
    report: JobRun,
    errors: Vec<(Way, i32, u64)>,
    on_error: OnError,
    control: &'a Control,
}

/// Readings at an edge of the window.
#[derive(Clone, Copy, Debug)]
struct Reading {
    usage: thread::Usage,
    syscalls: u64,
    cpu: Option<u32>,
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
        if job.changes() {
            for slot in 0..depth {
                filler.fill(queue.buffer(slot));
            }
        }
        JobLoop {
            queue,
            stream: OpStream::new(job, plan.stop),
            filler,
            requests: Requests::new(plan, job, control),
            staged: Vec::with_capacity(depth),
            depth,
            batch: job.batch as usize,
            expect_inline: false,
            until_probe: 0,
            warmup_ns: plan.warmup_ns,
            stop: plan.stop,
            stopping_since_ns: None,
            opened: None,
            closed: None,
            next_look_ns: 0,
            lane,
        }
    }

    /// Fixes the measured window of a run that starts at `start_ns`, and waits for that moment, so
    /// that all jobs start together.
    pub(super) fn begin(&mut self, start_ns: u64) {
        let open_ns = start_ns + self.warmup_ns;
        let close_ns = match self.stop {
            Stop::AfterNs(ns) => open_ns + ns,
            Stop::AfterOps(_) | Stop::AfterBytes(_) | Stop::AfterOnePass => u64::MAX,
        };
        let window = Window { open_ns, close_ns };
        self.requests.tally.set_window(window);
        self.requests.area.begin(start_ns, window);
        while self.queue.now_ns() < start_ns {
            std::hint::spin_loop();
        }
    }

    /// Time on the job's clock.
    pub(super) fn now_ns(&self) -> u64 {
        self.queue.now_ns()
    }

    /// Fills, submits, reaps once. Nothing but the hand-over stands between the two stamps.
    #[inline(always)]
    pub(super) fn step(&mut self) -> Step {
        self.fill();
        let wait_for = self.wait_for();
        let before_ns = self.queue.now_ns();
        let entered = self.queue.enter(wait_for, PATIENCE_NS);
        let after_ns = self.queue.now_ns();

        let staged = self.staged.len();
        self.requests.submitted(&self.staged, before_ns);
        self.staged.clear();
        let inline = self.reap(before_ns, after_ns);
        if wait_for == 0 && staged > 0 {
            self.note_inline(staged, inline);
        }
        if let Err(error) = entered {
            self.requests.engine_failed(&error);
        }
        self.keep_time(after_ns)
    }

    /// Stages up to a batch: what must go again first, then new operations.
    #[inline(always)]
    fn fill(&mut self) {
        let batch = if self.expect_inline { self.batch } else { self.batch.min(ASYNC_BATCH) };
        while self.staged.len() < batch {
            let Some(slot) = self.requests.again.pop() else { break };
            self.push(slot);
        }
        if self.stopping_since_ns.is_some() {
            return;
        }
        while self.staged.len() < batch {
            let Some(slot) = self.requests.free.pop() else { break };
            let Some(op) = self.stream.next_op() else {
                self.requests.free.push(slot);
                break;
            };
            if op.way == Way::Write {
                let buffer = &mut self.queue.buffer(slot as usize)[..op.bytes as usize];
                self.filler.refresh(buffer, op.offset);
            }
            self.requests.slots[slot as usize] =
                Slot { op, moved: 0, submitted_ns: 0, again: false };
            self.push(slot);
        }
    }

    #[inline(always)]
    fn push(&mut self, slot: u32) {
        let Slot { op, moved, .. } = self.requests.slots[slot as usize];
        let transfer = Transfer {
            way: op.way,
            target: op.target,
            offset: op.offset + u64::from(moved),
            skip: moved,
            bytes: op.bytes - moved,
        };
        self.queue.push(slot as usize, transfer);
        self.staged.push(slot);
    }

    /// How many completions to wait for: none while the queue can still be filled.
    #[inline(always)]
    fn wait_for(&mut self) -> u32 {
        let staged = self.staged.len();
        let in_flight = self.requests.in_flight + staged;
        let can_fill = in_flight < self.depth && self.stopping_since_ns.is_none();
        if in_flight == 0 || (can_fill && !self.stream.has_ended()) {
            return 0;
        }
        if staged > 0 && (self.until_probe == 0 || self.expect_inline) {
            self.until_probe = PROBE_EVERY;
            return 0;
        }
        self.until_probe = self.until_probe.saturating_sub(1);
        1
    }

    /// Settles what is finished; gives how many of those were submitted in the same hand-over.
    #[inline(always)]
    fn reap(&mut self, before_ns: u64, after_ns: u64) -> usize {
        let requests = &mut self.requests;
        requests.area.add(requests.in_flight, after_ns, requests.tally.window());
        requests.tally.at(after_ns);
        let mut inline = 0;
        self.queue.reap(|slot, result| {
            inline += usize::from(requests.slots[slot].submitted_ns == before_ns);
            requests.settle(slot as u32, result, after_ns);
        });
        inline
    }

    /// After a hand-over without waiting, whatever was both sent and finished in it completed
    /// inline.
    #[inline(always)]
    fn note_inline(&mut self, staged: usize, inline: usize) {
        let report = &mut self.requests.report;
        report.inline_probed += staged as u64;
        report.inline_seen += inline.min(staged) as u64;
        self.expect_inline = inline >= staged;
    }

    /// Opens and closes the window, publishes progress, and says whether to go on.
    #[inline(always)]
    fn keep_time(&mut self, now_ns: u64) -> Step {
        if now_ns < self.next_look_ns
            && self.stopping_since_ns.is_none()
            && !self.requests.control.is_stopping()
            && !(self.stream.has_ended() && self.requests.in_flight == 0)
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
            self.requests.report.in_flight_start = self.requests.in_flight as u32;
        }
        self.lane.ops.store(self.requests.tally.all_ops, Ordering::Relaxed);
        let done = self.stream.has_ended() && self.requests.is_idle();
        let over = done || now_ns >= window.close_ns || self.requests.control.is_stopping();
        if over && self.stopping_since_ns.is_none() {
            self.requests.tally.close(now_ns);
            self.requests.area.close();
            self.closed = Some(self.read());
            self.requests.report.in_flight_end = self.requests.in_flight as u32;
            self.stopping_since_ns = Some(now_ns);
            // What was refused or cut short is not sent again after the end.
            let Requests { free, again, .. } = &mut self.requests;
            free.append(again);
        }
        // The next look: at a tenth of a second, or earlier where the window opens or closes.
        self.next_look_ns = now_ns + 100_000_000;
        for edge_ns in [window.open_ns, window.close_ns] {
            if edge_ns > now_ns {
                self.next_look_ns = self.next_look_ns.min(edge_ns);
            }
        }
        match self.stopping_since_ns {
            None => Step::More,
            Some(_) if self.requests.in_flight == 0 => Step::Ended,
            Some(since_ns) if now_ns - since_ns > DRAIN_GRACE_NS => Step::Ended,
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

    /// The record of the job, and what it wrote since the start, bytes.
    pub(super) fn into_record(self) -> (JobRun, u64) {
        let window = self.requests.tally.window();
        let mut report = self.requests.report;
        report.abandoned = self.requests.in_flight as u32;
        report.in_flight_area_ns = self.requests.area.within();
        if let (Some(opened), Some(closed)) = (self.opened, self.closed) {
            report.measured_ns = window.close_ns - window.open_ns;
            report.syscalls = closed.syscalls - opened.syscalls;
            report.cpu_user_ns = closed.usage.user_ns - opened.usage.user_ns;
            report.cpu_system_ns = closed.usage.system_ns - opened.usage.system_ns;
            report.cpus = opened.cpu.zip(closed.cpu);
        }
        report.errors = error_table(&self.requests.errors);
        report.touched = report.touched.filter(|(low, high)| low < high);
        let written = self.requests.tally.all_bytes_written;
        (report.read, report.write) = self.requests.tally.into_record();
        (report, written)
    }
}

impl<'a> Requests<'a> {
    fn new(plan: &Plan, job: &Job, control: &'a Control) -> Requests<'a> {
        let depth = job.iodepth as usize;
        let idle = Slot {
            op: Op { way: Way::Read, target: 0, offset: 0, bytes: 0 },
            moved: 0,
            submitted_ns: 0,
            again: false,
        };
        Requests {
            slots: vec![idle; depth].into(),
            free: (0..job.iodepth).rev().collect(),
            again: Vec::with_capacity(depth),
            in_flight: 0,
            area: Area::default(),
            tally: Tally::new(plan, job),
            report: JobRun { touched: Some((u64::MAX, 0)), ..JobRun::default() },
            errors: Vec::with_capacity(16),
            on_error: plan.on_error,
            control,
        }
    }

    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.again.is_empty()
    }

    /// These slots were handed over at `now_ns`; a repeated request keeps its first time.
    #[inline(always)]
    fn submitted(&mut self, staged: &[u32], now_ns: u64) {
        self.area.add(self.in_flight, now_ns, self.tally.window());
        for slot in staged {
            let slot = &mut self.slots[*slot as usize];
            if !slot.again {
                slot.submitted_ns = now_ns;
            }
        }
        self.in_flight += staged.len();
        self.report.in_flight_max = self.report.in_flight_max.max(self.in_flight as u32);
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
                let Op { way, offset, bytes, .. } = request.op;
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
            self.control.fail(format!(
                "{} of {bytes} B at offset {offset}: {}{}",
                way.word(),
                errno_name(errno),
                meaning(errno)
            ));
        }
    }

    /// The hand-over itself failed. EAGAIN and EBUSY mean "reap first", which happens anyway.
    #[cold]
    fn engine_failed(&mut self, error: &std::io::Error) {
        if !matches!(error.raw_os_error(), Some(EAGAIN | EBUSY | EINTR)) {
            self.control.fail(format!("the engine stopped: {error}"));
        }
    }
}

fn error_table(errors: &[(Way, i32, u64)]) -> BTreeMap<String, u64> {
    errors
        .iter()
        .map(|(way, errno, count)| (format!("{} {}", way.word(), errno_name(*errno)), *count))
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
