//! Exchange between the controller and the jobs, orders one way and counts the other: a few atomic
//! words per job, read and written once a step, without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::Control;
use super::commit;
use super::controller::{Controller, Counts, Order, shares};
use super::flow;
use super::live::LiveLatency;
use super::requests::Requests;
use super::until::Place;
use super::window::Window;
use iosonde_model::plan::{LatencyGoal, Plan};
use iosonde_model::record::ControlledRun;

/// Time from the decision to the opening of the window, ns, in which every job learns of it.
const NOTICE_NS: u64 = 2_000_000;
/// Polling interval of a job without a share, ns.
pub(super) const IDLE_NS: u64 = 1_000_000;

/// What a job publishes while it runs, on its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Lane {
    /// Operations completed, updated ten times a second.
    pub(super) ops: AtomicU64,
    /// Bytes moved, updated as often.
    pub(super) bytes: AtomicU64,
    /// Requests in flight, and when the job last read the clock, ns; updated as often.
    pub(super) in_flight: AtomicU64,
    pub(super) seen_ns: AtomicU64,
    /// Whether the job has ended, and whether it must end because another one has.
    pub(super) ended: AtomicBool,
    pub(super) is_over: AtomicBool,
    /// Exchange with the controller of the depth, if there is one.
    pub(super) words: Words,
    /// The job's counts, where they decide when the run ends.
    pub(super) place: Place,
    /// The flow that the job belongs to, if any.
    pub(super) flow: Option<Arc<flow::Common>>,
    /// The commits that the job makes or waits for, if any.
    pub(super) commit: Option<Arc<commit::Common>>,
    /// Latencies up to the last full interval, for live display.
    pub(super) latency: LiveLatency,
}

impl Lane {
    /// One for each job of a plan.
    pub(super) fn all(plan: &Plan) -> Box<[Lane]> {
        let common = flow::of_jobs(plan).into_iter().zip(commit::of_jobs(plan));
        common
            .map(|(flow, commit)| Lane { place: Place::new(plan), flow, commit, ..Lane::default() })
            .collect()
    }

    pub(super) fn ops(&self) -> u64 {
        self.ops.load(Ordering::Relaxed)
    }
}

/// Ends the jobs whose end depends on this one, which has ended.
pub(super) fn end_with(plan: &Plan, index: usize, lanes: &[Lane], control: &Control) {
    let span = &plan.jobs[index].span;
    if span.ends_all {
        control.finish();
    }
    let of_group = plan.jobs.iter().zip(lanes).filter(|(job, _)| job.span.group == span.group);
    for (_, lane) in of_group.filter(|_| span.ends_group) {
        lane.is_over.store(true, Ordering::Relaxed);
    }
}

/// Exchange between the controller and one job.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Requests that the job may keep in flight.
    share: AtomicU32,
    /// Operations submitted before this time do not count, ns.
    epoch_ns: AtomicU64,
    /// When the measured window opens; 0 while that is not known.
    open_ns: AtomicU64,
    /// Counts of the job.
    ops: AtomicU64,
    exceeded: AtomicU64,
}

/// The controller's side.
pub(super) struct Pilot<'a> {
    controller: Controller,
    lanes: &'a [Lane],
    planned: Vec<u32>,
    pursued_ops: u64,
    length_ns: u64,
}

impl<'a> Pilot<'a> {
    /// Controls a run that starts at `start_ns`; `None` without a latency target.
    pub(super) fn new(plan: &Plan, lanes: &'a [Lane], start_ns: u64) -> Option<Pilot<'a>> {
        let controller = Controller::new(&plan.latency, plan.depth(), start_ns, plan.warmup_ns)?;
        let pilot = Pilot {
            controller,
            lanes,
            planned: plan.jobs.iter().map(|job| job.iodepth).collect(),
            pursued_ops: 0,
            length_ns: plan.length_ns().unwrap_or(0),
        };
        pilot.deal(start_ns);
        Some(pilot)
    }

    /// Reads the counts and gives orders. Returns the measured window once it is decided. No job's
    /// clock is beyond `horizon_ns`, which is `now_ns` on real time.
    pub(super) fn tick(&mut self, now_ns: u64, horizon_ns: u64) -> Option<Window> {
        let sum = |of: fn(&Words) -> &AtomicU64| {
            self.lanes.iter().map(|lane| of(&lane.words).load(Ordering::Relaxed)).sum()
        };
        let counts =
            Counts { ops: sum(|words| &words.ops), exceeded: sum(|words| &words.exceeded) };
        match self.controller.tick(now_ns, counts) {
            Order::Stay => None,
            Order::Depth(_) => {
                self.deal(horizon_ns);
                None
            }
            Order::Open(_) => {
                self.deal(horizon_ns);
                let open_ns = horizon_ns + NOTICE_NS;
                self.pursued_ops = self.lanes.iter().map(|lane| lane.ops()).sum();
                self.controller.opens(open_ns);
                for lane in self.lanes {
                    lane.words.open_ns.store(open_ns, Ordering::Relaxed);
                }
                Some(Window { open_ns, close_ns: open_ns + self.length_ns })
            }
        }
    }

    /// Gives every job its share; operations submitted from now on are of a new epoch.
    fn deal(&self, now_ns: u64) {
        let shares = shares(self.controller.depth(), &self.planned);
        for (lane, share) in self.lanes.iter().zip(shares) {
            lane.words.share.store(share, Ordering::Relaxed);
            lane.words.epoch_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// The record for a window that closed at `close_ns`.
    pub(super) fn into_record(self, close_ns: u64) -> ControlledRun {
        self.controller.into_record(close_ns, self.pursued_ops)
    }
}

/// The job's side: counts for the controller.
#[derive(Debug)]
pub(super) struct Watch {
    /// Whether there is a latency target.
    pub(super) on: bool,
    limit_ns: u64,
    epoch_ns: u64,
    length_ns: u64,
    ops: u64,
    exceeded: u64,
    /// Slots beyond the job's share.
    parked: Vec<u32>,
}

impl Watch {
    pub(super) fn new(plan: &Plan, slots: usize) -> Watch {
        let (on, limit_ns) = match plan.latency {
            LatencyGoal::None => (false, 0),
            LatencyGoal::Target { target, .. } => (true, target.limit_ns),
        };
        Watch {
            on,
            limit_ns,
            epoch_ns: 0,
            length_ns: plan.length_ns().unwrap_or(0),
            ops: 0,
            exceeded: 0,
            parked: Vec::with_capacity(if on { slots } else { 0 }),
        }
    }

    /// Counts a completed operation.
    #[inline(always)]
    pub(super) fn note(&mut self, submitted_ns: u64, now_ns: u64) {
        if submitted_ns >= self.epoch_ns {
            self.ops += 1;
            self.exceeded += u64::from(now_ns - submitted_ns > self.limit_ns);
        }
    }
}

impl Requests<'_> {
    /// Takes orders, before anything of this step is counted. Returns whether the window has just
    /// become known.
    #[inline(never)]
    pub(super) fn hear(&mut self, words: &Words) -> bool {
        self.watch.epoch_ns = words.epoch_ns.load(Ordering::Relaxed);
        let open_ns = words.open_ns.load(Ordering::Relaxed);
        let news = open_ns > 0 && self.tally.window().open_ns == u64::MAX;
        if news {
            let window = Window { open_ns, close_ns: open_ns + self.watch.length_ns };
            self.tally.set_window(window);
            self.area.set_window(window);
        }
        news
    }

    /// Publishes the counts, and keeps only as many slots free as the share allows. Returns the
    /// share.
    #[inline(never)]
    pub(super) fn announce(&mut self, words: &Words) -> usize {
        let Requests { watch, free, slots, .. } = self;
        words.ops.store(watch.ops, Ordering::Relaxed);
        words.exceeded.store(watch.exceeded, Ordering::Relaxed);
        let share = words.share.load(Ordering::Relaxed) as usize;
        while slots.len() - watch.parked.len() > share {
            let Some(slot) = free.pop() else { break };
            watch.parked.push(slot);
        }
        while slots.len() - watch.parked.len() < share {
            let Some(slot) = watch.parked.pop() else { break };
            free.push(slot);
        }
        share
    }
}
