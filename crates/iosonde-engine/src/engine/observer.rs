//! Observers of a run, and what they see.

use super::RoleCounts;

/// Progress of a run.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Time since the start, warm-up included, ns.
    pub elapsed_ns: u64,
    /// Planned length, warm-up included, ns; 0 where operations are counted.
    pub planned_ns: u64,
    /// Operations completed since the start.
    pub ops: u64,
    /// When `ops` were counted, ns since the start: jobs publish their counts ten times a second. A
    /// rate is a difference of `ops` over a difference of this.
    pub counted_ns: u64,
    /// Counts of each role, four times a second; empty in between, and if [`Observer::wants_roles`]
    /// is false.
    pub roles: Vec<RoleCounts>,
}

/// Time for every job to learn the start time, ns.
const START_AFTER_NS: u64 = 200_000;

/// Observes a run. Every call comes from the thread that called [`run`](super::run).
pub trait Observer {
    /// Every job is ready. Returns the time until all of them start, ns; `None` cancels the run.
    fn starts_in(&mut self) -> Option<u64> {
        Some(START_AFTER_NS)
    }
    /// The measured window opened this long ago, ns.
    fn opened(&mut self, _ago_ns: u64) {}
    /// Called about twenty times a second.
    fn tick(&mut self, _progress: &Progress) {}
    /// Whether ticks include the counts of each role.
    fn wants_roles(&self) -> bool {
        false
    }
    /// The measured window has closed.
    fn closed(&mut self) {}
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Observer for Unwatched {}
