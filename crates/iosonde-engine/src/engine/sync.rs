//! When a job syncs what it has written.

use iosonde_model::plan::{IoKind, Job, Op, Sync, SyncCount};

/// What the job sends next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turn {
    /// The next operation of the stream.
    Go,
    /// A sync.
    Sync { target: u16 },
    /// Nothing, until outstanding requests have completed.
    Wait,
}

/// Counts writes, and decides when syncs are due.
#[derive(Debug)]
pub(super) struct Syncing {
    sync: Sync,
    barrier: bool,
    /// Whether writes wait for a sync that may not be sent yet.
    waits: bool,
    targets: Vec<u16>,
    count: SyncCount,
    /// Whether there was a write in the current burst.
    has_written: bool,
    /// Fraction of a write that is not counted yet.
    writes: f64,
    /// Syncs due and not sent: one for each target, or several.
    unsent: usize,
    /// Barrier: syncs are outstanding.
    committing: bool,
    /// Syncs that were sent since the start.
    all_sent: u64,
}

impl Syncing {
    pub(super) fn new(job: &Job) -> Syncing {
        Syncing {
            sync: job.sync,
            barrier: job.sync.barrier,
            waits: !job.is_open_loop(),
            targets: if job.targets.is_empty() { vec![0] } else { job.targets.clone() },
            count: SyncCount::default(),
            has_written: false,
            writes: 0.0,
            unsent: 0,
            committing: false,
            all_sent: 0,
        }
    }

    /// What is sent next, given the outstanding requests and the syncs that have ended.
    pub(super) fn turn(&mut self, outstanding: usize, ended_syncs: impl Fn() -> u64) -> Turn {
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
        if self.sync.in_flight > 0 && self.all_sent - ended_syncs() >= self.sync.in_flight {
            // A closed loop would outrun its syncs.
            return if self.waits { Turn::Wait } else { Turn::Go };
        }
        let targets = self.targets.len();
        // Of several syncs in succession, each begins when the one before has ended.
        if self.committing && self.unsent.is_multiple_of(targets) && outstanding > 0 {
            return Turn::Wait;
        }
        Turn::Sync { target: self.targets[(targets - self.unsent % targets) % targets] }
    }

    /// Syncs that are due and not sent yet.
    #[inline(always)]
    pub(super) fn owed(&self) -> usize {
        self.unsent
    }

    /// Counts a due sync that is sent.
    pub(super) fn sent(&mut self) {
        self.unsent -= 1;
        self.all_sent += 1;
        self.committing = self.barrier;
    }

    /// Counts an operation that is sent, with this share of the usual number of syncs. The writes
    /// of a burst count as one, at its end.
    pub(super) fn note(&mut self, op: &Op, share: f64, ends_burst: bool) {
        // A sync from a list of operations.
        self.all_sent += u64::from(op.way == IoKind::Sync);
        self.has_written |= op.way == IoKind::Write;
        if !ends_burst || !std::mem::take(&mut self.has_written) {
            return;
        }
        self.writes += share;
        while self.writes >= 1.0 {
            self.writes -= 1.0;
            self.unsent += self.targets.len() * self.count.after_write(&self.sync) as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_model::plan::{Arrivals, Pace, Rate};

    const WRITE: Op = Op { way: IoKind::Write, target: 0, offset: 0, bytes: 4096 };

    fn syncing(every_writes: u64, barrier: bool, targets: Vec<u16>) -> Syncing {
        let sync = Sync { every_writes, barrier, ..Sync::default() };
        Syncing::new(&Job { sync, targets, ..Job::default() })
    }

    #[test]
    fn a_sync_follows_every_so_many_writes_and_reads_do_not_count() {
        let mut syncing = syncing(2, false, vec![]);
        syncing.note(&WRITE, 1.0, true);
        syncing.note(&Op { way: IoKind::Read, ..WRITE }, 1.0, true);
        assert_eq!(syncing.turn(2, || 0), Turn::Go);
        syncing.note(&WRITE, 1.0, true);
        assert_eq!(syncing.turn(3, || 0), Turn::Sync { target: 0 }, "it waits for nobody");
        syncing.sent();
        assert_eq!(syncing.turn(4, || 0), Turn::Go);
    }

    #[test]
    fn as_fast_as_it_can_a_job_leaves_no_sync_behind() {
        let sync = Sync { every_writes: 1, in_flight: 1, ..Sync::default() };
        let mut syncing = Syncing::new(&Job { sync, ..Job::default() });
        syncing.note(&WRITE, 1.0, true);
        assert_eq!(syncing.turn(1, || 0), Turn::Sync { target: 0 });
        syncing.sent();
        assert_eq!(syncing.turn(2, || 0), Turn::Go, "no other is called for");
        syncing.note(&WRITE, 1.0, true);
        assert_eq!(syncing.turn(3, || 0), Turn::Wait);
        assert_eq!(syncing.turn(2, || 1), Turn::Sync { target: 0 });
    }

    #[test]
    fn the_writes_of_a_burst_count_as_one_and_a_listed_sync_always() {
        let sync = Sync { every_writes: 1, in_flight: 1, ..Sync::default() };
        let pace = Pace::Rate { rate: Rate::Ops(1.0), arrivals: Arrivals::Constant };
        let mut syncing = Syncing::new(&Job { sync, pace, ..Job::default() });
        let read = Op { way: IoKind::Read, ..WRITE };
        for op in [WRITE, Op { way: IoKind::Sync, ..WRITE }, WRITE] {
            syncing.note(&op, 1.0, false);
        }
        assert_eq!(syncing.owed(), 0);
        syncing.note(&read, 1.0, true);
        assert!(syncing.owed() > 0);
        assert_eq!(syncing.turn(4, || 0), Turn::Go, "the listed one is in flight");
        assert_eq!(syncing.turn(4, || 1), Turn::Sync { target: 0 });
        syncing.sent();
        // A burst without a write.
        syncing.note(&read, 1.0, false);
        syncing.note(&read, 1.0, true);
        assert_eq!(syncing.owed(), 0);
    }

    #[test]
    fn three_syncs_in_four_writes_are_evenly_spread() {
        let sync = Sync { every_writes: 4, extra_syncs: 2, barrier: true, ..Sync::default() };
        let mut syncing = Syncing::new(&Job { sync, ..Job::default() });
        let follows: Vec<bool> = (0..8)
            .map(|_| {
                syncing.note(&WRITE, 1.0, true);
                let owes = syncing.owed() > 0;
                if owes {
                    assert_eq!(syncing.turn(0, || 0), Turn::Sync { target: 0 });
                    syncing.sent();
                    assert_eq!(syncing.turn(0, || 0), Turn::Go);
                }
                owes
            })
            .collect();
        assert_eq!(follows, [false, true, true, true, false, true, true, true]);
        // More syncs than writes, one after another, on each target in turn.
        let sync = Sync { every_writes: 1, extra_syncs: 1, barrier: true, ..Sync::default() };
        let mut twice = Syncing::new(&Job { sync, targets: vec![3, 5], ..Job::default() });
        twice.note(&WRITE, 1.0, true);
        for target in [3, 5, 3, 5] {
            assert_eq!(twice.turn(0, || 0), Turn::Sync { target });
            twice.sent();
        }
        assert_eq!(twice.turn(0, || 0), Turn::Go);
    }

    #[test]
    fn several_syncs_may_follow_one_write() {
        let sync = Sync { every_writes: 5, extra_syncs: 3, followed: 3, ..Sync::default() };
        let mut count = SyncCount::default();
        let follow: Vec<u64> = (0..10).map(|_| count.after_write(&sync)).collect();
        assert_eq!(follow, [0, 1, 0, 1, 2, 0, 1, 0, 1, 2]);
        // One after another, where the queue has room for more.
        let sync = Sync { every_writes: 1, extra_syncs: 1, barrier: true, ..Sync::default() };
        let mut twice = Syncing::new(&Job { sync, targets: vec![3, 5], ..Job::default() });
        twice.note(&WRITE, 1.0, true);
        for (target, outstanding) in [(3, 0), (5, 1)] {
            assert_eq!(twice.turn(outstanding, || 0), Turn::Sync { target });
            twice.sent();
        }
        assert_eq!(twice.turn(1, || 0), Turn::Wait);
        assert_eq!(twice.turn(0, || 0), Turn::Sync { target: 3 });
    }

    #[test]
    fn a_sync_beyond_the_limit_waits_and_writes_go_on() {
        let sync = Sync { every_writes: 1, in_flight: 1, ..Sync::default() };
        let pace = Pace::Rate { rate: Rate::Ops(1.0), arrivals: Arrivals::Constant };
        let mut syncing = Syncing::new(&Job { sync, pace, ..Job::default() });
        for _ in 0..2 {
            syncing.note(&WRITE, 1.0, true);
        }
        assert_eq!(syncing.turn(2, || 0), Turn::Sync { target: 0 });
        syncing.sent();
        assert_eq!(syncing.turn(3, || 0), Turn::Go);
        assert!(syncing.owed() > 0);
        assert_eq!(syncing.turn(2, || 1), Turn::Sync { target: 0 });
        // A sync from a list of operations counts, too.
        syncing.note(&Op { way: IoKind::Sync, ..WRITE }, 1.0, true);
        assert_eq!(syncing.turn(3, || 1), Turn::Go);
        assert_eq!(syncing.turn(2, || 2), Turn::Sync { target: 0 });
    }

    #[test]
    fn a_phase_has_its_share_of_the_syncs() {
        let mut syncing = syncing(2, false, vec![]);
        let mut count = |share: f64| {
            for _ in 0..100 {
                syncing.note(&WRITE, share, true);
            }
            std::mem::take(&mut syncing.unsent)
        };
        assert_eq!([count(1.0), count(0.5), count(0.0), count(1.5)], [50, 25, 0, 75]);
    }

    #[test]
    fn a_group_commit_waits_for_its_writes_and_is_waited_for() {
        let mut syncing = syncing(1, true, vec![3, 5]);
        syncing.note(&WRITE, 1.0, true);
        assert_eq!(syncing.turn(1, || 0), Turn::Wait);
        assert_eq!(syncing.turn(0, || 0), Turn::Sync { target: 3 });
        syncing.sent();
        assert_eq!(syncing.turn(1, || 0), Turn::Sync { target: 5 }, "both at once");
        syncing.sent();
        assert_eq!(syncing.turn(2, || 0), Turn::Wait);
        assert_eq!(syncing.turn(0, || 0), Turn::Go);
    }
}
