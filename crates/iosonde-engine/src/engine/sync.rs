//! When a job makes durable what it has written.

use iosonde_model::plan::{IoKind, Job, Op};

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turn {
    /// The stream's.
    Go,
    /// A sync's.
    Sync {
        /// Of this target.
        target: u16,
    },
    /// Nobody's, until what is outstanding has come back.
    Wait,
}

/// Counts writes, and calls for syncs.
#[derive(Debug)]
pub(super) struct Syncing {
    every_writes: u64,
    barrier: bool,
    targets: Vec<u16>,
    writes: u64,
    /// Targets of the group at hand whose sync has not been sent.
    unsent: usize,
    /// Barrier: syncs are outstanding.
    committing: bool,
}

impl Syncing {
    pub(super) fn new(job: &Job) -> Syncing {
        Syncing {
            every_writes: job.sync.every_writes,
            barrier: job.sync.barrier,
            targets: if job.targets.is_empty() { vec![0] } else { job.targets.clone() },
            writes: 0,
            unsent: 0,
            committing: false,
        }
    }

    /// Whose turn it is, with so many requests outstanding.
    pub(super) fn turn(&mut self, outstanding: usize) -> Turn {
        if self.committing && self.unsent == 0 {
            if outstanding > 0 {
                return Turn::Wait;
            }
            self.committing = false;
        }
        if self.unsent == 0 {
            return Turn::Go;
        }
        if self.barrier && !self.committing && outstanding > 0 {
            return Turn::Wait;
        }
        Turn::Sync { target: self.targets[self.targets.len() - self.unsent] }
    }

    /// Whether a sync is called for that is not on its way yet.
    #[inline(always)]
    pub(super) fn is_owing(&self) -> bool {
        self.unsent > 0
    }

    /// The sync that was called for is on its way.
    pub(super) fn sent(&mut self) {
        self.unsent -= 1;
        self.committing = self.barrier;
    }

    /// An operation is on its way.
    pub(super) fn note(&mut self, op: &Op) {
        if op.way != IoKind::Write || self.every_writes == 0 {
            return;
        }
        self.writes += 1;
        if self.writes == self.every_writes {
            self.writes = 0;
            self.unsent = self.targets.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_model::plan::Sync;

    const WRITE: Op = Op { way: IoKind::Write, target: 0, offset: 0, bytes: 4096 };

    fn syncing(every_writes: u64, barrier: bool, targets: Vec<u16>) -> Syncing {
        let sync = Sync { every_writes, barrier, ..Sync::default() };
        Syncing::new(&Job { sync, targets, ..Job::default() })
    }

    #[test]
    fn a_sync_follows_every_so_many_writes_and_reads_do_not_count() {
        let mut syncing = syncing(2, false, vec![]);
        syncing.note(&WRITE);
        syncing.note(&Op { way: IoKind::Read, ..WRITE });
        assert_eq!(syncing.turn(2), Turn::Go);
        syncing.note(&WRITE);
        assert_eq!(syncing.turn(3), Turn::Sync { target: 0 }, "it waits for nobody");
        syncing.sent();
        assert_eq!(syncing.turn(4), Turn::Go);
    }

    #[test]
    fn a_group_commit_waits_for_its_writes_and_is_waited_for() {
        let mut syncing = syncing(1, true, vec![3, 5]);
        syncing.note(&WRITE);
        assert_eq!(syncing.turn(1), Turn::Wait);
        assert_eq!(syncing.turn(0), Turn::Sync { target: 3 });
        syncing.sent();
        assert_eq!(syncing.turn(1), Turn::Sync { target: 5 }, "both at once");
        syncing.sent();
        assert_eq!(syncing.turn(2), Turn::Wait);
        assert_eq!(syncing.turn(0), Turn::Go);
    }
}
