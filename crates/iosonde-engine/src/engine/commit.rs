//! Commits: one job writes while others wait in their syncs, like the journal of a file system.
//!
//! A sync waits for the next commit that begins, so that several jobs can wait for the same one.
//! The lock is taken at syncs and commits only.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::job::{JobLoop, PATIENCE_NS, Wait};
use super::requests::{Slot, Times};
use crate::backend::Queue;
use iosonde_model::plan::{Commit, Job, Op, Plan, Stop};

/// Polling interval of a waiting job on virtual time, where no job can sleep, ns.
const LOOK_NS: u64 = 20_000;

/// State shared by the job that makes commits and the jobs that wait for them.
#[derive(Debug, Default)]
pub(super) struct Common {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Commits requested and made, each as the number of the last one; numbers start at 1.
    asked: u64,
    made: u64,
    /// Jobs that may still request a commit.
    waiting: usize,
    /// No commit is made any more: the run is ending, and jobs need not wait.
    has_ended: bool,
}

impl Common {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the waiting threads.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Sleeps until this holds, for at most `patience_ns`.
    fn wait(&self, patience_ns: u64, holds: impl Fn(&State) -> bool) {
        let patience = Duration::from_nanos(patience_ns);
        let _ = self.changed.wait_timeout_while(self.lock(), patience, |state| !holds(state));
    }
}

/// For each job of a plan the commits that it makes or waits for, if any.
pub(super) fn of_jobs(plan: &Plan) -> Vec<Option<Arc<Common>>> {
    let makes = |job: &&Job| matches!(job.commit, Some(Commit::Writes(_)));
    let makers: Vec<(&Job, Arc<Common>)> =
        plan.jobs.iter().filter(makes).map(|job| (job, Arc::default())).collect();
    let of = |job: &Job| {
        let (_, common) = makers.iter().find(|(maker, _)| match &job.commit {
            Some(Commit::WaitsFor { role, .. }) => maker.plays(role),
            Some(Commit::Writes(_)) => maker.role == job.role,
            None => false,
        })?;
        if matches!(job.commit, Some(Commit::WaitsFor { .. })) {
            common.lock().waiting += 1;
        }
        Some(Arc::clone(common))
    };
    plan.jobs.iter().map(of).collect()
}

/// When the operations of a job end; one that makes commits ends with those that wait for them.
pub(super) fn stop_of(plan: &Plan, job: &Job) -> Stop {
    match job.commit {
        Some(Commit::Writes(_)) => Stop::AfterNs(u64::MAX),
        _ => plan.stop_of(job),
    }
}

/// The part of one job in the commits.
#[derive(Debug)]
pub(super) struct Part {
    common: Arc<Common>,
    does: Does,
    /// Commits per sync in the current phase, as a share of the job's own.
    phase: f64,
}

#[derive(Debug)]
enum Does {
    Waits {
        /// Commits per sync, and the fraction of one that is due.
        share: f64,
        due: f64,
        /// Slot of the waiting sync, and the number of its commit.
        awaited: Option<(u32, u64)>,
    },
    Makes {
        /// Writes per commit, and the fraction of one that is due.
        writes: f64,
        due: f64,
        /// Writes left in the current commit.
        left: u64,
        /// Number of the last request that the current commit serves.
        serves: Option<u64>,
        /// No commit will be requested any more.
        is_over: bool,
    },
}

impl Part {
    /// `None` for a job without commits.
    pub(super) fn new(commit: Option<&Commit>, common: Option<&Arc<Common>>) -> Option<Part> {
        let does = match commit? {
            Commit::WaitsFor { percent, .. } => {
                Does::Waits { share: percent / 100.0, due: 0.0, awaited: None }
            }
            Commit::Writes(writes) => {
                Does::Makes { writes: *writes, due: 0.0, left: 0, serves: None, is_over: false }
            }
        };
        Some(Part { common: Arc::clone(common?), does, phase: 1.0 })
    }

    /// Sets the phase's share of the usual number of commits.
    pub(super) fn in_phase(&mut self, commits: f64) {
        self.phase = commits;
    }

    /// Whether the sync that is due waits for a commit of another job.
    pub(super) fn takes_sync(&mut self) -> bool {
        let takes = self.will_take(1);
        if let Does::Waits { share, due, .. } = &mut self.does {
            *due += *share * self.phase - f64::from(u8::from(takes));
        }
        takes
    }

    /// Whether one of the next `syncs` syncs will wait for a commit of another job.
    pub(super) fn will_take(&self, syncs: usize) -> bool {
        let Does::Waits { share, due, .. } = self.does else { return false };
        // Tolerance for shares such as a tenth, whose sums are not exact.
        due + share * self.phase * syncs as f64 > 1.0 - 1e-9
    }

    /// Requests a commit, for which the sync in this slot waits.
    fn ask(&mut self, slot: u32) {
        let number = self.common.change(|state| {
            state.asked += 1;
            state.asked
        });
        if let Does::Waits { awaited, .. } = &mut self.does {
            *awaited = Some((slot, number));
        }
    }

    /// Slot of the waiting sync, and the number of its commit.
    fn awaited(&self) -> Option<(u32, u64)> {
        match self.does {
            Does::Waits { awaited, .. } => awaited,
            Does::Makes { .. } => None,
        }
    }

    /// Whether the job makes commits.
    pub(super) fn makes(&self) -> bool {
        matches!(self.does, Does::Makes { .. })
    }

    /// Whether the job that makes commits must wait: for outstanding requests of the current
    /// commit, or until one is requested.
    pub(super) fn holds_back(&mut self, outstanding: usize) -> bool {
        let Does::Makes { writes, due, left, serves, is_over } = &mut self.does else {
            return false;
        };
        if *left > 0 || outstanding > 0 {
            return *left == 0;
        }
        if let Some(number) = serves.take() {
            self.common.change(|state| state.made = number);
        }
        let state = self.common.lock();
        if state.asked == state.made {
            *is_over = state.waiting == 0;
            return true;
        }
        *serves = Some(state.asked);
        *due += *writes;
        *left = (*due + 1e-9) as u64;
        *due -= *left as f64;
        false
    }

    /// Counts a write of a commit that is sent.
    pub(super) fn sent(&mut self) {
        if let Does::Makes { left, .. } = &mut self.does {
            *left -= 1;
        }
    }

    /// Whether no commit will be requested any more.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.does, Does::Makes { is_over: true, .. })
    }

    /// Sleeps until a commit is requested or none will be, for at most `patience_ns`.
    fn wait_for_demand(&self, patience_ns: u64) {
        self.common.wait(patience_ns, |state| state.asked > state.made || state.waiting == 0);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.common.change(|state| match self.does {
            Does::Waits { .. } => state.waiting = state.waiting.saturating_sub(1),
            Does::Makes { .. } => state.has_ended = true,
        });
    }
}

impl<Q: Queue> JobLoop<'_, Q> {
    /// Requests a commit before this sync is sent. The next step waits for it.
    pub(super) fn ask_for_commit(&mut self, slot: u32, op: Op, now_ns: u64) -> Wait {
        self.requests.times[slot as usize] = Times { due_ns: now_ns, ..Times::default() };
        self.requests.slots[slot as usize] = Slot { op, ..Slot::IDLE };
        self.requests.submitted(&[slot], now_ns);
        if let Some(commit) = &mut self.commit {
            commit.ask(slot);
        }
        Wait::NOT
    }

    /// Waits for the requested commit, then stages the sync. Returns what the step waits for;
    /// `None` if there is no such commit.
    pub(super) fn await_commit(&mut self) -> Option<Wait> {
        let (slot, number) = self.commit.as_ref()?.awaited()?;
        let patience_ns = self.commit_patience_ns();
        let is_stopping = self.stopping_since_ns.is_some();
        let Part { common, does: Does::Waits { awaited, .. }, .. } = self.commit.as_mut()? else {
            return None;
        };
        if !is_stopping && !Q::IS_VIRTUAL {
            common.wait(patience_ns, |state| state.made >= number || state.has_ended);
        }
        let (is_made, has_ended) = {
            let state = common.lock();
            (state.made >= number, state.has_ended)
        };
        if !is_made && !has_ended && !is_stopping {
            if Q::IS_VIRTUAL {
                self.queue.pause(self.queue.now_ns() + LOOK_NS);
            }
            return Some(Wait::NOT);
        }
        *awaited = None;
        let now_ns = self.queue.now_ns();
        // Operations that became due meanwhile could not be sent.
        self.requests.arrivals.starved_until(Some(now_ns));
        self.requests.withdraw(slot, now_ns);
        if is_stopping {
            self.requests.give_up(slot, now_ns);
            return None;
        }
        self.push(slot);
        // Keeps this sync, submitted before, out of the count of inline completions.
        Some(Wait::LOOK)
    }

    /// Waits, in the job that makes commits, until one is requested.
    pub(super) fn wait_for_demand(&mut self, now_ns: u64) -> Wait {
        if self.requests.in_flight > 0 {
            return Wait { count: 1, patience_ns: PATIENCE_NS };
        }
        let patience_ns = self.commit_patience_ns();
        if Q::IS_VIRTUAL {
            self.queue.pause(now_ns + patience_ns.min(LOOK_NS));
        } else if let Some(commit) = &self.commit {
            commit.wait_for_demand(patience_ns);
        }
        Wait::NOT
    }

    /// Time until the next look at the clock, at which the window may open or close, ns.
    fn commit_patience_ns(&self) -> u64 {
        self.next_sample_ns.saturating_sub(self.queue.now_ns()).clamp(1, PATIENCE_NS)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::{Load, run_of};

    /// The parts of jobs that wait for commits, and of one that makes them.
    fn parts(waiting: usize, percent: f64, writes: f64) -> (Vec<Part>, Part) {
        let job =
            |role: &str, commit| Job { role: role.into(), commit: Some(commit), ..Job::default() };
        let waits = || job("app", Commit::WaitsFor { role: "journal".into(), percent });
        let mut jobs: Vec<Job> = (0..waiting).map(|_| waits()).collect();
        jobs.push(job("journal", Commit::Writes(writes)));
        let plan = Plan { jobs, ..run_of(&[Load::default()]).plan };
        let mut parts: Vec<Part> = of_jobs(&plan)
            .iter()
            .zip(&plan.jobs)
            .map(|(common, job)| Part::new(job.commit.as_ref(), common.as_ref()).unwrap())
            .collect();
        let maker = parts.pop().unwrap();
        (parts, maker)
    }

    /// Makes the current commit; returns its number of writes.
    fn commit(maker: &mut Part) -> u64 {
        let mut writes = 0;
        while !maker.holds_back(0) {
            maker.sent();
            writes += 1;
            if maker.holds_back(1) {
                break;
            }
        }
        maker.holds_back(0);
        writes
    }

    fn made(part: &Part) -> u64 {
        part.common.lock().made
    }

    #[test]
    fn commits_have_so_many_writes_on_average_and_only_on_demand() {
        let (mut waiting, mut maker) = parts(1, 100.0, 2.4);
        assert!(maker.holds_back(0), "nobody has asked");
        let writes: Vec<u64> = (0..5)
            .map(|_| {
                waiting[0].ask(0);
                commit(&mut maker)
            })
            .collect();
        assert_eq!(writes, [2, 2, 3, 2, 3]);
        assert_eq!(made(&maker), 5);
        assert!(maker.holds_back(0));
    }

    #[test]
    fn a_sync_waits_for_a_commit_that_begins_after_it() {
        let (mut waiting, mut maker) = parts(3, 100.0, 1.0);
        waiting[0].ask(0);
        assert!(!maker.holds_back(0));
        maker.sent();
        // Too late for this commit; the next one serves both.
        waiting[1].ask(0);
        waiting[2].ask(0);
        assert!(maker.holds_back(1), "its write is not back");
        assert!(!maker.holds_back(0));
        assert_eq!(made(&maker), 1);
        maker.sent();
        assert!(maker.holds_back(0));
        assert_eq!(made(&maker), 3);
    }

    #[test]
    fn a_share_of_the_syncs_are_commits() {
        for percent in [10.0, 26.6, 33.3, 100.0] {
            let (mut waiting, _maker) = parts(1, percent, 1.0);
            let taken = (0..10_000).filter(|_| waiting[0].takes_sync()).count();
            assert!(taken.abs_diff((100.0 * percent) as usize) <= 1, "{percent}: {taken}");
        }
    }

    #[test]
    fn a_phase_has_its_own_share_of_commits() {
        let (mut waiting, _maker) = parts(1, 25.0, 1.0);
        let mut taken = |phase| {
            waiting[0].in_phase(phase);
            (0..100).filter(|_| waiting[0].takes_sync()).count()
        };
        assert_eq!([0.0, 2.0, 4.0].map(&mut taken), [0, 50, 100]);
        waiting[0].in_phase(1.0);
        assert_eq!([1, 3, 4].map(|syncs| waiting[0].will_take(syncs)), [false, false, true]);
    }

    #[test]
    fn who_leaves_keeps_nobody_waiting() {
        let (mut waiting, mut maker) = parts(2, 100.0, 1.0);
        waiting[0].ask(0);
        drop(waiting);
        assert_eq!(commit(&mut maker), 1, "what was asked for is made");
        assert!(maker.is_over());
        let (waiting, maker) = parts(1, 100.0, 1.0);
        let common = Arc::clone(&waiting[0].common);
        drop(maker);
        assert!(common.lock().has_ended);
    }
}
