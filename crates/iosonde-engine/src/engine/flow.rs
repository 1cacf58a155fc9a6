//! Jobs of one flow keep their operation counts in proportion to their weights, like fio's `flow`:
//! a job ahead of its share waits for the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use iosonde_model::plan::{Flow, Plan};

/// Polling interval of a job that is ahead, ns.
const LOOK_NS: u64 = 20_000;

/// State shared by the jobs of one flow.
#[derive(Debug)]
pub(super) struct Common {
    /// Operations of the running jobs, plus one.
    done: AtomicU64,
    /// Sum of the weights of the running jobs.
    weight: AtomicU64,
}

/// The flow of each job of a plan, if any.
pub(super) fn of_jobs(plan: &Plan) -> Vec<Option<Arc<Common>>> {
    let mut known: Vec<(u64, Arc<Common>)> = Vec::new();
    let mut one = |flow: Flow| {
        if let Some((_, common)) = known.iter().find(|(id, _)| *id == flow.id) {
            return Arc::clone(common);
        }
        let common = Arc::new(Common { done: AtomicU64::new(1), weight: AtomicU64::new(0) });
        known.push((flow.id, Arc::clone(&common)));
        common
    };
    plan.jobs.iter().map(|job| job.flow.map(&mut one)).collect()
}

/// The part of one job in its flow.
#[derive(Debug)]
pub(super) struct Part {
    common: Arc<Common>,
    flow: Flow,
    own: u64,
    /// The job is ahead: it sends nothing until its requests are back and the pause is over.
    draining: bool,
    /// End of that pause, ns; `u64::MAX` before it has begun.
    resume_ns: u64,
}

impl Part {
    /// `None` for a job without a flow.
    pub(super) fn new(flow: Option<Flow>, common: Option<&Arc<Common>>) -> Option<Part> {
        let common = Arc::clone(common?);
        flow.map(|flow| Part { common, flow, own: 0, draining: false, resume_ns: 0 })
    }

    /// Adds the job's weight at its start.
    pub(super) fn join(&self) {
        self.common.weight.fetch_add(u64::from(self.flow.weight), Ordering::Relaxed);
    }

    /// Removes the job's weight and operations at its end.
    pub(super) fn leave(&self) {
        self.common.weight.fetch_sub(u64::from(self.flow.weight), Ordering::Relaxed);
        self.common.done.fetch_sub(self.own, Ordering::Relaxed);
    }

    /// Whether the job may not send now: it is ahead of its share, or it was and still pauses.
    pub(super) fn holds_back(&mut self, now_ns: u64, in_flight: usize) -> bool {
        if self.draining && in_flight == 0 {
            self.resume_ns = self.resume_ns.min(now_ns + self.flow.sleep_ns);
            self.draining = now_ns < self.resume_ns;
        }
        if self.draining {
            return true;
        }
        let done = self.common.done.load(Ordering::Relaxed);
        let weight = self.common.weight.load(Ordering::Relaxed);
        let is_ahead = u128::from(self.own) * u128::from(weight)
            > u128::from(self.flow.weight) * u128::from(done);
        if is_ahead && self.flow.sleep_ns > 0 {
            self.draining = true;
            let sleeps = in_flight == 0;
            self.resume_ns = if sleeps { now_ns + self.flow.sleep_ns } else { u64::MAX };
        }
        is_ahead
    }

    /// Counts an operation that is sent.
    pub(super) fn sent(&mut self) {
        self.own += 1;
        self.common.done.fetch_add(1, Ordering::Relaxed);
    }

    /// When a job that is held back checks again; `u64::MAX` if a completion comes first.
    pub(super) fn next_ns(&self, now_ns: u64) -> u64 {
        if self.draining { self.resume_ns } else { now_ns + LOOK_NS }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::plan::Job;

    fn parts(weights: [u32; 2], sleep_ns: u64) -> [Part; 2] {
        let jobs = weights.map(|weight| {
            let flow = Some(Flow { id: 3, weight, sleep_ns });
            Job { flow, ..Job::default() }
        });
        let plan = Plan { jobs: jobs.to_vec(), ..run_of(&[Load::default()]).plan };
        let commons = of_jobs(&plan);
        [0, 1].map(|at| {
            let part = Part::new(jobs[at].flow, commons[at].as_ref()).unwrap();
            part.join();
            part
        })
    }

    #[test]
    fn operations_keep_the_proportion_of_the_weights_until_one_leaves() {
        let [mut one, mut eight] = parts([1, 8], 0);
        for now_ns in 0..10_000 {
            for part in [&mut one, &mut eight] {
                if !part.holds_back(now_ns, 0) {
                    part.sent();
                }
            }
        }
        assert!(eight.own.abs_diff(8 * one.own) <= 9, "{} and {}", eight.own, one.own);
        eight.leave();
        let before = one.own;
        for now_ns in 0..100 {
            assert!(!one.holds_back(now_ns, 0));
            one.sent();
        }
        assert_eq!(one.own, before + 100);
    }

    #[test]
    fn who_sleeps_when_ahead_waits_for_its_requests_first() {
        let [mut ahead, mut other] = parts([1, 1], 700);
        while !ahead.holds_back(10, 1) {
            ahead.sent();
        }
        other.sent();
        other.sent();
        assert!(ahead.holds_back(20, 1), "its requests are not back");
        assert_eq!(ahead.next_ns(20), u64::MAX);
        assert!(ahead.holds_back(30, 0) && ahead.holds_back(729, 0));
        assert_eq!(ahead.next_ns(30), 730);
        assert!(!ahead.holds_back(730, 0));
    }
}
