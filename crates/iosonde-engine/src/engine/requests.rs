//! The requests of a job: those in flight, and their results.

use std::collections::BTreeMap;

use iosonde_sys::errno_name;

use super::Control;
use super::arrivals::ArrivalCounts;
use super::steer::Watch;
use super::tally::Tally;
use super::window::Area;
use iosonde_model::plan::{EngineKind, IoKind, Job, OnError, Op, Plan};
use iosonde_model::record::{Batches, JobRun};
use iosonde_model::spec::listed::MAX_LISTED;

/// EIO, EAGAIN, EINTR, EBUSY, ENODATA and EILSEQ of Linux (asm-generic).
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const EINTR: i32 = 4;
const EBUSY: i32 = 16;
const ENODATA: i32 = 61;
const EILSEQ: i32 = 84;

/// State of the request in a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) op: Op,
    /// Bytes already moved, by earlier short transfers.
    pub(super) moved: u32,
    pub(super) submitted_ns: u64,
    /// Sent before, and refused or short; it keeps its first submission time.
    pub(super) again: bool,
}

/// Data of a request that only some jobs record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// Open loop: when it was due.
    pub(super) due_ns: u64,
    /// When the submission returned, ns; 0 where that is not recorded.
    pub(super) handed_ns: u64,
    /// Its priority; 0 for that of the thread.
    pub(super) priority: u16,
}

impl Slot {
    /// A slot before its first use.
    pub(super) const IDLE: Slot = Slot {
        op: Op { way: IoKind::Read, target: 0, offset: 0, bytes: 0 },
        moved: 0,
        submitted_ns: 0,
        again: false,
    };
}

/// The requests of a job: slots, counts and results.
pub(super) struct Requests<'a> {
    pub(super) slots: Box<[Slot]>,
    pub(super) times: Box<[Times]>,
    /// Whether more is recorded of an operation than its latency.
    more: bool,
    /// Whether that is so, or a latency target needs the latency.
    closely: bool,
    /// First byte used, and the end of the last.
    touched: (u64, u64),
    /// Free slots, last used first: their buffers are in the cache.
    pub(super) free: Vec<u32>,
    /// Slots to be sent again.
    pub(super) again: Vec<u32>,
    pub(super) in_flight: usize,
    pub(super) area: Area,
    pub(super) tally: Tally,
    pub(super) report: JobRun,
    /// When the run began.
    pub(super) start_ns: u64,
    /// Requests in flight when batches were last counted.
    counted_in_flight: usize,
    pub(super) errors: Vec<(IoKind, i32, u64)>,
    pub(super) arrivals: ArrivalCounts,
    pub(super) watch: Watch,
    /// Finished requests not settled yet, where only a limited number is settled at once.
    held: Vec<(u32, i32)>,
    settle_at_once: usize,
    on_error: OnError,
    /// Errors that do not end the run: of reads, of other operations, of comparisons.
    ignored: [Vec<i32>; 3],
    /// What an errno means on the plan's engine.
    meaning: fn(i32) -> &'static str,
    pub(super) control: &'a Control,
}

impl<'a> Requests<'a> {
    pub(super) fn new(plan: &Plan, job: &Job, control: &'a Control) -> Requests<'a> {
        let depth = job.iodepth as usize;
        let more = job.is_open_loop()
            || job.reap.slat
            || job.targets.len() > 1
            || !job.priorities.is_none();
        let watch = Watch::new(plan, depth);
        // Read data is compared before the request is settled.
        let settle_at_once = match job.reap.complete_max {
            0 if job.compares() => depth,
            most => most as usize,
        };
        Requests {
            slots: vec![Slot::IDLE; depth].into(),
            times: vec![Times::default(); depth].into(),
            more,
            closely: more || watch.on,
            touched: (u64::MAX, 0),
            free: (0..job.iodepth).rev().collect(),
            again: Vec::with_capacity(depth),
            in_flight: 0,
            area: Area::default(),
            tally: Tally::new(plan, job),
            report: JobRun {
                handed_over_us: Vec::with_capacity(if job.reap.times { MAX_LISTED } else { 0 }),
                ..JobRun::default()
            },
            start_ns: 0,
            counted_in_flight: 0,
            errors: Vec::with_capacity(16),
            arrivals: ArrivalCounts::new(job),
            watch,
            held: Vec::with_capacity(if settle_at_once > 0 { depth } else { 0 }),
            settle_at_once,
            on_error: plan.on_error,
            ignored: [
                job.limits.ignored_read.clone(),
                job.limits.ignored_write.clone(),
                job.limits.ignored_verify.clone(),
            ],
            meaning: match plan.engine_of(job).kind {
                EngineKind::VhostUser => meaning_of_status,
                EngineKind::IoUringCmd => meaning_of_answer,
                _ => meaning,
            },
            control,
        }
    }

    /// Uncounts a waiting request before it is submitted, which counts it again; it keeps its first
    /// submission time.
    pub(super) fn withdraw(&mut self, slot: u32, now_ns: u64) {
        self.area.add(self.in_flight, now_ns, self.tally.window());
        self.in_flight -= 1;
        self.slots[slot as usize].again = true;
    }

    /// Frees the slot of a withdrawn request that will not be submitted; it has no latency.
    pub(super) fn give_up(&mut self, slot: u32, now_ns: u64) {
        let Slot { op, submitted_ns, .. } = self.slots[slot as usize];
        self.tally.give_up(op.way, submitted_ns, now_ns);
        self.free.push(slot);
    }

    /// Syncs that have ended, with or without an error.
    pub(super) fn ended_syncs(&self) -> u64 {
        let failed = self.errors.iter().filter(|(way, _, _)| *way == IoKind::Sync);
        self.tally.all_ops[IoKind::Sync as usize] + failed.map(|(_, _, count)| count).sum::<u64>()
    }

    /// Drops refused and short requests: after the end nothing is sent again.
    pub(super) fn send_nothing_again(&mut self) {
        self.free.append(&mut self.again);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.again.is_empty()
    }

    /// Notes that these slots were submitted at `now_ns`; a repeated request keeps its first time.
    #[inline(always)]
    pub(super) fn submitted(&mut self, staged: &[u32], now_ns: u64) {
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

    /// Counts a submission of this many requests. Those missing from the requests in flight
    /// completed as one batch since the last call.
    pub(super) fn count_batch(&mut self, staged: usize) {
        let returned = self.counted_in_flight.saturating_sub(self.in_flight);
        let (batches, in_flight) = (&mut self.report.batches, self.in_flight + staged);
        if returned > 0 {
            batches.completed[Batches::class_of(returned)] += 1;
        }
        if staged > 0 {
            batches.submitted[Batches::class_of(staged)] += 1;
            batches.depths[(in_flight.ilog2() as usize).min(6)] += staged as u64;
        }
        self.counted_in_flight = in_flight;
    }

    /// Forgets the batches of the warm-up.
    pub(super) fn forget_batches(&mut self) {
        self.report.batches = Batches::default();
    }

    /// Notes the submission time of these slots, except of repeated requests.
    pub(super) fn note_times(&mut self, staged: &[u32], now_ns: u64) {
        let since_us = now_ns.saturating_sub(self.start_ns) / 1_000;
        let is_new = |slot: &&u32| !self.slots[**slot as usize].again;
        let times = &mut self.report.handed_over_us;
        let count = staged.iter().filter(is_new).count().min(MAX_LISTED - times.len());
        times.extend(std::iter::repeat_n(since_us, count));
    }

    /// Notes when the submission of these slots returned.
    pub(super) fn handed(&mut self, staged: &[u32], now_ns: u64) {
        for slot in staged {
            self.times[*slot as usize].handed_ns = now_ns;
        }
    }

    /// Whether finished requests are held back and settled a few at a time.
    #[inline(always)]
    pub(super) fn holds_back(&self) -> bool {
        self.settle_at_once > 0
    }

    /// Holds back a finished request. Returns its submission time.
    pub(super) fn hold(&mut self, slot: u32, result: i32) -> u64 {
        self.held.push((slot, result));
        self.slots[slot as usize].submitted_ns
    }

    /// Whether some finished requests are held back.
    #[inline(always)]
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Turns a complete read of unexpected data into an error.
    pub(super) fn check_held(&mut self, mut holds: impl FnMut(usize, &Op) -> bool) {
        for (slot, result) in &mut self.held {
            let Slot { op, moved, .. } = &self.slots[*slot as usize];
            let whole = *result >= 0 && moved + *result as u32 == op.bytes;
            if op.way == IoKind::Read && whole && !holds(*slot as usize, op) {
                *result = -EILSEQ;
            }
        }
    }

    /// Settles the oldest held requests, or all.
    pub(super) fn settle_held(&mut self, now_ns: u64, all: bool) {
        let at_once = if all { usize::MAX } else { self.settle_at_once };
        for _ in 0..at_once.min(self.held.len()) {
            let (slot, result) = self.held.remove(0);
            self.settle(slot as usize, result, now_ns);
        }
    }

    /// Counts a finished request, sends the rest of it again, or counts its error. Returns its
    /// submission time.
    #[inline(always)]
    pub(super) fn settle(&mut self, slot: usize, result: i32, now_ns: u64) -> u64 {
        self.in_flight -= 1;
        let Slot { op, moved, submitted_ns, .. } = self.slots[slot];
        // A sync has 0 bytes, so that 0 moved is complete.
        if result >= 0 && moved + result as u32 == op.bytes {
            self.touch(op.offset, u64::from(op.bytes));
            self.tally.complete(op.way, op.bytes, submitted_ns, now_ns);
            if self.closely {
                self.look_closely(slot, now_ns);
            }
            self.free.push(slot as u32);
        } else {
            self.settle_unfinished(slot as u32, result);
        }
        submitted_ns
    }

    /// Records what only some jobs need of a finished request.
    #[inline(never)]
    fn look_closely(&mut self, slot: usize, now_ns: u64) {
        let request = &self.slots[slot];
        if self.more && self.tally.knows(request.submitted_ns) {
            self.tally.complete_more(request, self.times[slot], now_ns);
        }
        if self.watch.on && request.op.way != IoKind::Sync {
            self.watch.note(request.submitted_ns, now_ns);
        }
    }

    #[inline(always)]
    fn touch(&mut self, offset: u64, bytes: u64) {
        let (low, high) = &mut self.touched;
        // Soon neither branch is taken any more.
        if offset < *low {
            *low = offset;
        }
        if offset + bytes > *high {
            *high = offset + bytes;
        }
    }

    /// Byte range of the target that was used; `None` if none was.
    pub(super) fn touched(&self) -> Option<(u64, u64)> {
        Some(self.touched).filter(|(low, high)| low < high)
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

    fn fail(&mut self, way: IoKind, offset: u64, bytes: u64, errno: i32) {
        match self.errors.iter_mut().find(|(w, e, _)| (*w, *e) == (way, errno)) {
            Some((_, _, count)) => *count += 1,
            None => self.errors.push((way, errno, 1)),
        }
        self.report.first_error.get_or_insert_with(|| (offset, bytes, errno_name(errno)));
        let list = match (errno, way) {
            (EILSEQ, IoKind::Read) => 2,
            (_, IoKind::Read) => 0,
            _ => 1,
        };
        if self.on_error == OnError::Stop && !self.ignored[list].contains(&errno) {
            self.control.fail(format!(
                "{} of {bytes} B at offset {offset}: {}{}",
                way.word(),
                errno_name(errno),
                (self.meaning)(errno)
            ));
        }
    }

    /// Handles a failed submission; returns whether the queue is dead. EAGAIN and EBUSY mean "reap
    /// first", which happens anyway.
    #[cold]
    pub(super) fn engine_failed(&mut self, error: &std::io::Error) -> bool {
        let dead = !matches!(error.raw_os_error(), Some(EAGAIN | EBUSY | EINTR));
        if dead {
            self.control.fail(format!("the engine stopped: {error}"));
        }
        dead
    }
}

pub(super) fn error_table(errors: &[(IoKind, i32, u64)]) -> BTreeMap<String, u64> {
    errors
        .iter()
        .map(|(way, errno, count)| (format!("{} {}", way.word(), errno_name(*errno)), *count))
        .collect()
}

/// Meaning of the status of a vhost-user request, which has three values.
fn meaning_of_status(errno: i32) -> &'static str {
    match errno {
        EIO => " (IOERR: vhost-user cannot tell which errno the server met)",
        95 => " (UNSUPP: the device cannot do this)",
        _ => "",
    }
}

/// Meaning of a failed NVMe command, given as the errno of the block layer.
fn meaning_of_answer(errno: i32) -> &'static str {
    match errno {
        ENODATA => " (the drive could not read or write the medium)",
        95 => " (the drive does not know the command, or a field of it)",
        121 => " (the drive refuses this address now: beyond the namespace, or not ready)",
        22 => " (the kernel does not take a command of this size)",
        EIO => " (the device failed)",
        _ => "",
    }
}

/// Meaning of an errno for the user, where it is not obvious.
fn meaning(errno: i32) -> &'static str {
    match errno {
        ENODATA => " (nothing there: the target is shorter than the region)",
        28 => " (the file system is full)",
        122 => " (the disk quota is used up)",
        EILSEQ => " (what was read is not what iosonde writes there)",
        22 => " (the target does not take this size, offset or alignment)",
        EIO => " (the device failed)",
        _ => "",
    }
}
