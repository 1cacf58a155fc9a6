//! Who watches a run from the side, and what it sees.

use super::RoleCounts;

/// How far a run is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Since the start, warm-up included, ns.
    pub elapsed_ns: u64,
    /// Planned length, warm-up included, ns; 0 where operations are counted.
    pub planned_ns: u64,
    /// Operations completed since the start.
    pub ops: u64,
    /// When they were counted, since the start, ns: jobs publish their counts ten times a second.
    /// A rate is a difference of counts over a difference of these.
    pub counted_ns: u64,
    /// What each role has done, four times a second; empty in between, and where roles are not
    /// distinguished.
    pub roles: Vec<RoleCounts>,
}

/// Time in which every job hears when to start, ns.
const START_AFTER_NS: u64 = 200_000;

/// Watches a run from the side. Every call comes from the thread that called [`run`](super::run).
pub trait Observer {
    /// Every job is ready: how long until all of them start, ns; `None` if they are not to.
    fn starts_in(&mut self) -> Option<u64> {
        Some(START_AFTER_NS)
    }
    /// The measured window has opened so long ago, ns.
    fn opened(&mut self, _ago_ns: u64) {}
    /// About twenty times a second.
    fn tick(&mut self, _progress: &Progress) {}
    /// Whether ticks are to say what each role has done.
    fn wants_roles(&self) -> bool {
        false
    }
    /// The measured window has closed.
    fn closed(&mut self) {}
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Observer for Unwatched {}
