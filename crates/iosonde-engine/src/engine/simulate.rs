//! A run on the simulated device: the same loop, in virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::controller::TICK_NS;
use super::job::{JobLoop, Step};
use super::steer::{self, Pilot};
use super::until::Watcher;
use super::{Control, Lane, Measured};
use crate::backend::QueueFacts;
use crate::backend::sim::{Model, SimQueue};
use iosonde_model::plan::Plan;
use iosonde_model::record::JobRun;
use iosonde_model::record::run::ProcessUse;
use iosonde_stats::Histogram;

/// Steps all jobs from one thread, always the one whose clock is furthest behind.
pub(super) fn simulate(plan: &Plan, model: &Model, control: &Arc<Control>) -> Measured {
    let device = Rc::new(RefCell::new(model.build(plan.seed)));
    let lanes = Lane::all(plan);
    let mut running: Vec<(usize, JobLoop<'_, SimQueue>)> = plan
        .jobs
        .iter()
        .enumerate()
        .map(|(index, job)| {
            let queue = SimQueue::open(job, Rc::clone(&device));
            let mut work = JobLoop::new(plan, job, queue, control, &lanes[index]);
            work.begin(job.span.delay_ns);
            (index, work)
        })
        .collect();
    let mut jobs: Vec<JobRun> = plan.jobs.iter().map(|_| JobRun::default()).collect();
    let mut pilot = Pilot::new(plan, &lanes, 0);
    let mut watcher = Watcher::new(plan, &lanes, 0);
    let mut next_tick_ns = 0;
    let mut close_ns = u64::MAX;
    while let Some(next) = (0..running.len()).min_by_key(|index| running[*index].1.now_ns()) {
        let now_ns = running[next].1.now_ns();
        if let Some(pilot) = pilot.as_mut().filter(|_| now_ns >= next_tick_ns) {
            let clocks = running.iter().map(|(_, job)| job.now_ns());
            if let Some(window) = pilot.tick(now_ns, clocks.max().unwrap_or(now_ns)) {
                close_ns = window.close_ns;
            }
            next_tick_ns = now_ns + TICK_NS;
        }
        if watcher.as_mut().is_some_and(|watcher| watcher.tick(now_ns)) {
            control.finish();
        }
        if running[next].1.step() == Step::Ended {
            let (index, job) = running.swap_remove(next);
            jobs[index] = job.into_record().0;
            steer::end_with(plan, index, &lanes, control);
        }
    }
    let measured_ns = jobs.iter().map(|job| job.measured_ns).max().unwrap_or(0);
    let abandoned = jobs.iter().map(|job| u64::from(job.abandoned)).sum();
    Measured {
        outcome: control.outcome(abandoned),
        started_unix_ns: 0,
        measured_ns,
        boottime_ns: measured_ns,
        jobs,
        process: ProcessUse { span_ns: measured_ns, ..ProcessUse::default() },
        hiccups: Histogram::new(),
        queue: QueueFacts::default(),
        final_sync: None,
        precision: watcher.map(Watcher::into_record),
        controlled: pilot.map(|pilot| pilot.into_record(close_ns.min(next_tick_ns))),
    }
}
