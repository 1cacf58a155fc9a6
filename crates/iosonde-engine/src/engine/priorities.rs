//! Priorities of single requests, drawn one by one.

use iosonde_model::plan::chance::Chance;
use iosonde_model::plan::{IoKind, Job, Op};
use iosonde_model::spec::{Priorities, Priority};

/// Makes these draws differ from those of offsets and data, which have the same seed.
const SALT: u64 = 0x7072_696f_7269_7479;

/// The draws of one job.
#[derive(Clone, Debug)]
pub(super) struct PriorityDraw {
    chance: Chance,
    of: Priorities,
}

impl PriorityDraw {
    /// `None` for a job without priorities of single requests.
    pub(super) fn new(job: &Job) -> Option<PriorityDraw> {
        let of = job.priorities.clone();
        (!of.is_none()).then(|| PriorityDraw { chance: Chance::new(job.seed ^ SALT), of })
    }

    /// Draws the priority of an operation; 0 for that of the thread.
    pub(super) fn of(&mut self, op: &Op) -> u16 {
        let list = match op.way {
            IoKind::Read => &self.of.read,
            IoKind::Write => &self.of.write,
            IoKind::Trim | IoKind::Sync => return 0,
        };
        let mut left = self.chance.below(100);
        for priority in list.iter().filter(|priority| priority.suits(u64::from(op.bytes))) {
            match left.checked_sub(u64::from(priority.percent)) {
                Some(rest) => left = rest,
                None => return priority.number(),
            }
        }
        0
    }
}

/// The priorities that requests of this kind can have, that of the thread (0) first; none where all
/// have that one.
pub(super) fn of_way(job: &Job, way: IoKind) -> Vec<u16> {
    let list = match way {
        IoKind::Read => &job.priorities.read,
        IoKind::Write => &job.priorities.write,
        IoKind::Trim | IoKind::Sync => return Vec::new(),
    };
    let mut numbers: Vec<u16> = list.iter().map(Priority::number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    if !numbers.is_empty() {
        numbers.insert(0, 0);
    }
    numbers
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn shares_hold_for_each_way_and_size() {
        let of = |percent, bytes, class| Priority { percent, bytes, class, level: 0, hint: 0 };
        let read = vec![of(20, 4096, 1), of(30, 4096, 3), of(100, 8192, 2)];
        let priorities = Priorities { read, write: Vec::new() };
        let job = Job { seed: 7, priorities, ..Job::default() };
        assert_eq!(of_way(&job, IoKind::Read), [0, 0x2000, 0x4000, 0x6000]);
        assert!(of_way(&job, IoKind::Write).is_empty());
        let mut draw = PriorityDraw::new(&job).unwrap();
        let mut share = |way, bytes, number| {
            let op = Op { way, target: 0, offset: 0, bytes };
            (0..10_000).filter(|_| draw.of(&op) == number).count()
        };
        for (number, expected) in [(0x2000, 2000), (0x6000, 3000), (0, 5000)] {
            let found = share(IoKind::Read, 4096, number);
            assert!(found.abs_diff(expected) < 200, "{number:#x}: {found}");
        }
        assert_eq!(share(IoKind::Read, 8192, 0x4000), 10_000);
        assert_eq!(share(IoKind::Read, 512, 0), 10_000);
        assert_eq!(share(IoKind::Write, 4096, 0), 10_000);
        assert!(PriorityDraw::new(&Job::default()).is_none());
    }
}
