//! When operations are due: at once, at a given rate, after a pause, or not in this phase.
//!
//! Pure: times are arguments, and random numbers come from the job's seed.

mod follows;
mod spread;

pub(super) use follows::Follows;
use follows::{Parts, committed_share};
use iosonde_model::plan::chance::Chance;
use iosonde_model::plan::{IoKind, Job, Pace, Phase, Rate, Think};
use spread::{Spread, WHOLE};

/// Decides when a job may send.
#[derive(Debug)]
pub(super) struct Pacer {
    start_ns: u64,
    rhythm: Rhythm,
    /// Open loop: when the next operation is due, ns from the start; infinite when none is.
    next_due: f64,
    chance: Chance,
    phases: Vec<Phase>,
    phase: usize,
    /// When the phase ends, ns from the start; infinite without phases.
    phase_end: f64,
    mix_changed: bool,
    /// Mean distance of due times, ns; 0 where it is not fixed.
    mean_gap: f64,
    think: Think,
    /// Operations sent since the last pause.
    since_think: u64,
    /// Nothing is sent before this time.
    resume_ns: u64,
    /// The job spins until this time, ns.
    spin_until_ns: u64,
    /// When the first operation after the last pause was sent.
    io_since_ns: Option<u64>,
    parts: Parts,
}

/// Schedule of due times.
#[derive(Debug)]
enum Rhythm {
    /// No due times: an operation may be sent whenever a slot is free.
    Closed,
    /// At one rate.
    Steady { gap: Gap, spread: Spread },
    /// Reads and others at separate rates: the gap of each, and when the next one is due.
    Each { gaps: [Gap; 2], dues: [f64; 2], other: IoKind, spread: Spread },
    /// Recorded due times, ns from the start.
    Recorded { times: Vec<u64>, index: usize },
}

/// Mean distance of due times, ns.
#[derive(Clone, Copy, Debug)]
enum Gap {
    PerOp(f64),
    PerByte(f64),
}

impl Gap {
    /// Mean distance after an operation of this size, ns.
    fn mean(self, bytes: u64) -> f64 {
        match self {
            Gap::PerOp(ns) => ns,
            Gap::PerByte(ns) => ns * bytes as f64,
        }
    }
}

impl Pacer {
    pub(super) fn new(job: &Job) -> Pacer {
        let parts = Parts::new(job);
        let coupled = parts.differ();
        let rhythm = match &job.pace {
            Pace::Closed => Rhythm::Closed,
            Pace::Rate { rate, arrivals } => Rhythm::Steady {
                gap: match rate {
                    Rate::Ops(per_s) => Gap::PerOp(1e9 / per_s),
                    Rate::Bytes(per_s) => Gap::PerByte(1e9 / per_s),
                },
                spread: Spread::new(arrivals, coupled),
            },
            Pace::Each { read, other, arrivals } => Rhythm::Each {
                gaps: [*read, *other].map(|rate| match rate {
                    Rate::Ops(per_s) => Gap::PerOp(1e9 / per_s),
                    Rate::Bytes(per_s) => Gap::PerByte(1e9 / per_s),
                }),
                dues: [0.0; 2],
                other: if job.trims { IoKind::Trim } else { IoKind::Write },
                spread: Spread::new(arrivals, coupled),
            },
            Pace::Recorded(times) => Rhythm::Recorded { times: times.clone(), index: 0 },
        };
        let mut pacer = Pacer {
            start_ns: 0,
            rhythm,
            next_due: 0.0,
            chance: Chance::new(job.seed ^ 0x6172_7269_7661_6c73),
            phases: job.phases.clone(),
            phase: 0,
            phase_end: job.phases.first().map_or(f64::INFINITY, |phase| phase.ns as f64),
            mix_changed: true,
            mean_gap: 0.0,
            think: job.think,
            since_think: 0,
            resume_ns: 0,
            spin_until_ns: 0,
            io_since_ns: None,
            parts,
        };
        pacer.mean_gap = match &pacer.rhythm {
            Rhythm::Steady { gap: Gap::PerOp(ns), .. } => *ns,
            Rhythm::Steady { gap: Gap::PerByte(ns), .. } => ns * job.block_bytes as f64,
            Rhythm::Each { gaps, .. } => {
                let per_ns = gaps.iter().map(|gap| 1.0 / gap.mean(job.block_bytes)).sum::<f64>();
                1.0 / per_ns
            }
            Rhythm::Closed | Rhythm::Recorded { .. } => 0.0,
        };
        pacer.scale_phases(job);
        pacer.first(job.block_bytes);
        pacer
    }

    /// Scales the rates of phases to what the plan says: a phase with more commits than usual draws
    /// more of the longest distances.
    fn scale_phases(&mut self, job: &Job) {
        let Rhythm::Steady { spread, .. } = &self.rhythm else { return };
        let (Spread::Drawn(table) | Spread::Bursts { between: table, .. }) = spread else { return };
        let mean = |follows| table.mean(self.parts.after(follows));
        let longer = mean(Follows::Commit) - mean(Follows::Sync);
        let all = committed_share(job, 100.0);
        for phase in &mut self.phases {
            let more = committed_share(job, phase.commit_percent) - all;
            let scale = 1.0 + more * longer / job.pace.burst_length();
            // Distances that are all 0 have no rate.
            if scale > 0.0 {
                phase.rate_percent *= scale;
            }
        }
    }

    /// Whether the job may always send, so that the loop need not check.
    pub(super) fn is_idle_talk(&self) -> bool {
        matches!(self.rhythm, Rhythm::Closed) && self.phases.is_empty() && self.think.ns == 0
    }

    /// Whether operations are due regardless of completions.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.rhythm, Rhythm::Closed)
    }

    /// The job begins at this time.
    pub(super) fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// Sets the first due time. Evenly spaced jobs begin at a random point of their first gap, or
    /// all jobs would send at the same moments.
    fn first(&mut self, block_bytes: u64) {
        match &mut self.rhythm {
            Rhythm::Closed => {}
            Rhythm::Each { gaps, dues, .. } => {
                for (due, gap) in dues.iter_mut().zip(gaps) {
                    *due = gap.mean(block_bytes) * self.chance.unit();
                }
                self.next_due = dues[0].min(dues[1]);
            }
            Rhythm::Steady { spread: Spread::Even, .. } => {
                let part = self.gap(block_bytes, WHOLE) * self.chance.unit();
                self.advance(part);
            }
            Rhythm::Steady { .. } => {
                let gap = self.gap(block_bytes, WHOLE);
                self.advance(gap);
            }
            Rhythm::Recorded { times, .. } => {
                self.next_due = times.first().map_or(f64::INFINITY, |ns| *ns as f64);
            }
        }
    }

    /// Distance from an operation of this size to the next, ns at the full rate, drawn from this
    /// part of a table.
    fn gap(&mut self, bytes: u64, part: (f64, f64)) -> f64 {
        let Rhythm::Steady { gap, spread } = &mut self.rhythm else { return 0.0 };
        gap.mean(bytes) * spread.draw(&mut self.chance, part)
    }

    /// Syncs per write in the current phase, as a share of the job's own.
    pub(super) fn sync_share(&self) -> f64 {
        self.phases.get(self.phase).map_or(1.0, |phase| phase.sync_percent / 100.0)
    }

    /// Commits per sync in the current phase, as a share of the job's own.
    pub(super) fn commit_share(&self) -> f64 {
        self.phases.get(self.phase).map_or(1.0, |phase| phase.commit_percent / 100.0)
    }

    /// Advances the due time by this many ns at the full rate, through phases with other rates.
    fn advance(&mut self, mut ns: f64) {
        loop {
            let share = self.phases.get(self.phase).map_or(1.0, |phase| phase.rate_percent / 100.0);
            let left = self.phase_end - self.next_due;
            if share > 0.0 && ns <= left * share {
                self.next_due += ns / share;
                return;
            }
            ns -= left * share;
            self.next_due = self.phase_end;
            self.next_phase();
        }
    }

    fn next_phase(&mut self) {
        self.phase = (self.phase + 1) % self.phases.len().max(1);
        self.phase_end +=
            self.phases.get(self.phase).map_or(f64::INFINITY, |phase| phase.ns as f64);
        self.mix_changed = true;
    }

    /// The due time of an operation that may be sent now, if there is one; `now_ns` in a closed
    /// loop.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<u64> {
        if self.is_open() {
            if self.thinks() || now_ns < self.resume_ns {
                return None;
            }
            let due_ns = self.start_ns.saturating_add(self.next_due as u64);
            return (!self.is_over() && due_ns <= now_ns).then_some(due_ns);
        }
        while (now_ns.saturating_sub(self.start_ns)) as f64 >= self.phase_end {
            self.next_phase();
        }
        let idle = self.phases.get(self.phase).is_some_and(|phase| phase.rate_percent == 0.0);
        if self.think.every_ns > 0 {
            let since_ns = *self.io_since_ns.get_or_insert(now_ns.max(self.resume_ns));
            if now_ns.saturating_sub(since_ns) >= self.think.every_ns {
                self.since_think = self.think.every_ops;
            }
        }
        (!idle && !self.thinks() && now_ns >= self.resume_ns).then_some(now_ns)
    }

    /// Whether a pause is due.
    fn thinks(&self) -> bool {
        self.think.ns > 0 && self.since_think >= self.think.every_ops
    }

    /// Kind of the operation that is due, unless the mix decides.
    pub(super) fn way(&self) -> Option<IoKind> {
        match &self.rhythm {
            Rhythm::Each { dues, other, .. } => {
                Some(if dues[0] <= dues[1] { IoKind::Read } else { *other })
            }
            _ => None,
        }
    }

    /// Until when a pause spins, ns.
    pub(super) fn spins_until_ns(&self) -> u64 {
        self.spin_until_ns
    }

    /// Notes that an operation of this size was taken, and sets the next due time.
    pub(super) fn taken(&mut self, bytes: u64, follows: Follows) {
        self.since_think += 1;
        match &mut self.rhythm {
            Rhythm::Closed => {}
            Rhythm::Each { gaps, dues, spread, .. } => {
                let way = usize::from(dues[1] < dues[0]);
                dues[way] += gaps[way].mean(bytes) * spread.draw(&mut self.chance, WHOLE);
                self.next_due = dues[0].min(dues[1]);
            }
            Rhythm::Steady { .. } => {
                let part = self.parts.after(follows);
                let gap = self.gap(bytes, part);
                self.advance(gap);
            }
            Rhythm::Recorded { times, index } => {
                *index += 1;
                self.next_due = times.get(*index).map_or(f64::INFINITY, |ns| *ns as f64);
            }
        }
    }

    /// Nothing is in flight, so a pause that is due begins.
    pub(super) fn drained(&mut self, now_ns: u64) {
        if self.thinks() {
            self.since_think = 0;
            self.io_since_ns = None;
            self.resume_ns = now_ns + self.think.ns;
            self.spin_until_ns = now_ns + self.think.spin_ns;
        }
    }

    /// Whether the operation that is due ends a burst; true outside of bursts.
    pub(super) fn ends_burst(&self) -> bool {
        let Rhythm::Steady { spread, .. } = &self.rhythm else { return true };
        !matches!(spread, Spread::Bursts { left: 1.., .. })
    }

    /// When the result of [`Pacer::due`] may change without a completion; `u64::MAX` for never.
    pub(super) fn next_ns(&self, now_ns: u64) -> u64 {
        let at = |ns: f64| self.start_ns.saturating_add(ns as u64);
        if self.is_open() && now_ns >= self.resume_ns {
            return at(self.next_due);
        }
        if now_ns < self.resume_ns { self.resume_ns } else { at(self.phase_end) }
    }

    /// Due and unfinished operations as time at the full rate: how long the oldest unsent one has
    /// waited, ns, and a mean gap for each one in flight.
    pub(super) fn backlog_ns(&self, now_ns: u64, in_flight: usize) -> u64 {
        let waiting_ns = now_ns.saturating_sub(self.start_ns.saturating_add(self.next_due as u64));
        waiting_ns + (in_flight as f64 * self.mean_gap) as u64
    }

    /// Whether no operation will be due any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_open() && self.next_due.is_infinite()
    }

    /// The read share of a phase that has just begun.
    pub(super) fn new_mix(&mut self) -> Option<Option<u8>> {
        std::mem::take(&mut self.mix_changed)
            .then(|| self.phases.get(self.phase).and_then(|phase| phase.read_percent))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_model::plan::{Arrivals, Bursts, Commit};

    fn dues(pace: Pace, phases: Vec<Phase>, count: usize) -> Vec<u64> {
        let mut pacer = Pacer::new(&Job { pace, phases, seed: 11, ..Job::default() });
        pacer.begin(1000);
        let take = |_| {
            let due_ns = pacer.due(u64::MAX).unwrap();
            pacer.taken(4096, Follows::Nothing);
            due_ns
        };
        (0..count).map(take).collect()
    }

    fn rate(rate: Rate, arrivals: Arrivals) -> Pace {
        Pace::Rate { rate, arrivals }
    }

    #[test]
    fn even_arrivals_are_one_gap_apart() {
        let times = dues(rate(Rate::Ops(3.0), Arrivals::Constant), vec![], 3001);
        assert!(times[0] >= 1000 && times[0] < 1000 + 333_333_334);
        // A third of a second is not a whole number of ns; errors must not add up.
        assert!((times[3000] - times[0]).abs_diff(1_000_000_000_000) <= 1);
        let bytes = dues(rate(Rate::Bytes(8192.0), Arrivals::Constant), vec![], 11);
        assert_eq!(bytes[10] - bytes[0], 5_000_000_000);
    }

    #[test]
    fn poisson_arrivals_keep_the_rate_and_scatter_as_they_must() {
        let times = dues(rate(Rate::Ops(1e4), Arrivals::Poisson), vec![], 100_001);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / 1e5;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 1e5;
        // 4 standard errors of the mean, and of the coefficient of variation (1/sqrt(2n) x 2).
        assert!((mean / 1e5 - 1.0).abs() < 4.0 / 1e5f64.sqrt(), "mean gap {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "CV {}", variance.sqrt() / mean);
    }

    #[test]
    fn an_idle_phase_has_no_arrivals_and_a_slow_one_fewer() {
        let phase = |ns, rate_percent| Phase { ns, rate_percent, ..Phase::default() };
        let phases = vec![
            phase(1_000_000_000, 100.0),
            phase(2_000_000_000, 0.0),
            phase(1_000_000_000, 50.0),
        ];
        let times = dues(rate(Rate::Ops(100.0), Arrivals::Constant), phases, 300);
        let within = |from: u64, to: u64| {
            times.iter().filter(|ns| (from..to).contains(&(**ns - 1000))).count()
        };
        const S: u64 = 1_000_000_000;
        assert_eq!(within(0, S), 100);
        assert_eq!(within(S, 3 * S), 0);
        assert!(within(3 * S, 4 * S).abs_diff(50) <= 1);
        assert!(within(4 * S, 8 * S).abs_diff(150) <= 1);
    }

    #[test]
    fn drawn_distances_have_the_rate_and_the_shares_of_their_table() {
        // 90 % of 1 and 10 % of 91: the mean is 10, so at 1000/s a unit is 0.1 ms.
        let arrivals = Arrivals::Drawn(vec![(1, 90.0), (91, 10.0)]);
        let times = dues(rate(Rate::Ops(1000.0), arrivals), vec![], 100_001);
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let long = gaps.iter().filter(|gap| **gap > 5_000_000).count() as f64 / 1e5;
        assert!((long - 0.1).abs() < 0.005, "{long}");
        assert!(gaps.iter().all(|gap| gap.abs_diff(100_000) < 3 || gap.abs_diff(9_100_000) < 3));
        let mean = (times[100_000] - times[0]) as f64 / 1e5;
        // The standard error of the mean is 0.85 %: 2.7 ms / sqrt(1e5).
        assert!((mean / 1e6 - 1.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn bursts_have_their_lengths_and_the_rate() {
        // Bursts of one (75 %) and of five, 10 ns apart (25 %): 2 requests in 1010 ns on average.
        let bursts = Bursts {
            requests: vec![(1, 75.0), (5, 25.0)],
            within: vec![(10, 100.0)],
            between: vec![(1000, 100.0)],
        };
        let arrivals = Arrivals::Bursts(bursts);
        let pace = rate(Rate::Ops(1e9 / 505.0), arrivals);
        let mut pacer = Pacer::new(&Job { pace, seed: 11, ..Job::default() });
        pacer.begin(0);
        let (mut lengths, mut length) = ([0; 6], 0);
        let (mut ended, mut before_ns) = (true, None);
        for _ in 0..100_000 {
            let due_ns = pacer.due(u64::MAX).unwrap();
            let gap_ns = before_ns.replace(due_ns).map_or(1000, |before_ns| due_ns - before_ns);
            assert!(gap_ns.abs_diff(if ended { 1000 } else { 10 }) <= 1, "{gap_ns}");
            length += 1;
            ended = pacer.ends_burst();
            if ended {
                lengths[std::mem::take(&mut length)] += 1;
            }
            pacer.taken(4096, Follows::Nothing);
        }
        let [0, single, 0, 0, 0, five] = lengths else { panic!("{lengths:?}") };
        let share = f64::from(five) / f64::from(single + five);
        assert!((share - 0.25).abs() < 0.01, "{share}");
        let mean_ns = before_ns.unwrap() as f64 / 1e5;
        assert!((mean_ns / 505.0 - 1.0).abs() < 0.02, "{mean_ns}");
    }

    #[test]
    fn reads_and_writes_have_rates_of_their_own() {
        let (read, other) = (Rate::Ops(1000.0), Rate::Ops(250.0));
        let pace = Pace::Each { read, other, arrivals: Arrivals::Constant };
        let mut pacer = Pacer::new(&Job { pace, seed: 3, ..Job::default() });
        pacer.begin(0);
        let mut ways = [0u64, 0];
        while pacer.due(10_000_000_000).is_some() {
            ways[usize::from(pacer.way() == Some(IoKind::Write))] += 1;
            pacer.taken(4096, Follows::Nothing);
        }
        assert!(ways[0].abs_diff(10_000) <= 1 && ways[1].abs_diff(2_500) <= 1, "{ways:?}");
    }

    #[test]
    fn a_pause_after_a_time_of_work_keeps_the_processor_busy_at_first() {
        let think = Think { ns: 50, every_ops: u64::MAX, spin_ns: 20, every_ns: 100 };
        let mut pacer = Pacer::new(&Job { think, ..Job::default() });
        pacer.begin(0);
        for now_ns in [10, 60, 109] {
            assert_eq!(pacer.due(now_ns), Some(now_ns));
            pacer.taken(4096, Follows::Nothing);
        }
        assert_eq!(pacer.due(110), None);
        pacer.drained(120);
        assert_eq!((pacer.due(169), pacer.spins_until_ns()), (None, 140));
        assert_eq!(pacer.due(170), Some(170));
    }

    #[test]
    fn recorded_arrivals_come_back_as_written_and_end() {
        let job = Job { pace: Pace::Recorded(vec![0, 5, 5, 90]), ..Job::default() };
        let mut pacer = Pacer::new(&job);
        pacer.begin(100);
        for due_ns in [100, 105, 105, 190] {
            assert!(!pacer.is_over());
            assert_eq!(pacer.due(due_ns), Some(due_ns));
            assert_eq!(pacer.due(due_ns - 1), None);
            pacer.taken(4096, Follows::Nothing);
        }
        assert!(pacer.is_over());
        assert_eq!(pacer.due(u64::MAX), None);
    }

    #[test]
    fn the_longest_distances_are_those_after_a_sync() {
        // Unsorted: half are 1 µs, a quarter 5 µs and a quarter 9 µs; each second write is followed
        // by a sync, and each second sync waits for a commit.
        let table = vec![(9000, 25.0), (1000, 50.0), (5000, 25.0)];
        let distances = |barrier: bool| {
            let pace = rate(Rate::Ops(250_000.0), Arrivals::Drawn(table.clone()));
            let sync = iosonde_model::plan::Sync { every_writes: 2, barrier, ..Default::default() };
            let commit = Some(Commit::WaitsFor { role: "journal".into(), percent: 50.0 });
            let mut pacer = Pacer::new(&Job { pace, sync, commit, seed: 5, ..Job::default() });
            pacer.begin(0);
            let mut before_ns = pacer.due(u64::MAX).unwrap();
            let mut distances = Vec::new();
            let follow = [Follows::Nothing, Follows::Sync, Follows::Nothing, Follows::Commit];
            for follows in follow.into_iter().cycle().take(1000) {
                pacer.taken(4096, follows);
                let due_ns = pacer.due(u64::MAX).unwrap();
                distances.push(due_ns - before_ns);
                before_ns = due_ns;
            }
            distances
        };
        for (ns, expected) in distances(true).iter().zip([1000, 5000, 1000, 9000].iter().cycle()) {
            assert!(ns.abs_diff(*expected) <= 1, "{ns}, not {expected}");
        }
        // Without a group commit, syncs have no influence.
        assert!(distances(false).iter().step_by(2).any(|ns| ns.abs_diff(9000) <= 1));
    }

    #[test]
    fn a_phase_with_more_commits_is_slower_by_their_distances() {
        // Half of the syncs wait for a commit and are followed by 9 ms, the others by 1 ms. In the
        // first phase all do, in the second none; at these rates nothing has to be scaled.
        let table = vec![(1_000_000, 50.0), (9_000_000, 50.0)];
        let phase = |commit_percent, rate_percent| Phase {
            ns: 1_000_000_000,
            commit_percent,
            rate_percent,
            ..Phase::default()
        };
        let mut pacer = Pacer::new(&Job {
            pace: rate(Rate::Ops(200.0), Arrivals::Drawn(table)),
            sync: iosonde_model::plan::Sync {
                every_writes: 1,
                barrier: true,
                ..Default::default()
            },
            commit: Some(Commit::WaitsFor { role: "journal".into(), percent: 50.0 }),
            phases: vec![phase(200.0, 500.0 / 9.0), phase(0.0, 500.0)],
            ..Job::default()
        });
        pacer.begin(0);
        let mut before_ns = pacer.due(u64::MAX).unwrap();
        let mut seen = [0, 0];
        for _ in 0..1000 {
            let all = pacer.commit_share() > 1.0;
            let at = usize::from(!all);
            pacer.taken(4096, if all { Follows::Commit } else { Follows::Sync });
            let due_ns = pacer.due(u64::MAX).unwrap();
            // Except where a phase ends in between.
            if usize::from(pacer.commit_share() < 1.0) == at {
                let expected = [9_000_000, 1_000_000][at];
                assert!((due_ns - before_ns).abs_diff(expected) <= 1, "{}", due_ns - before_ns);
                seen[at] += 1;
            }
            before_ns = due_ns;
        }
        assert!(seen[0] > 50 && seen[1] > 700, "{seen:?}");
    }

    #[test]
    fn phases_with_other_numbers_of_commits_keep_their_rates() {
        let table = vec![(0, 25.0), (1000, 25.0), (9000, 50.0)];
        for (every_writes, extra_syncs, percent, commits) in [
            (1, 0, 100.0, 40.0),
            (1, 0, 100.0, 0.0),
            (2, 0, 100.0, 0.0),
            (2, 0, 50.0, 160.0),
            (1, 2, 50.0, 40.0),
        ] {
            let phase = Phase { ns: u64::MAX, commit_percent: commits, ..Phase::default() };
            let sync = iosonde_model::plan::Sync {
                every_writes,
                extra_syncs,
                barrier: true,
                ..Default::default()
            };
            let job = Job {
                pace: rate(Rate::Ops(1e6), Arrivals::Drawn(table.clone())),
                sync,
                commit: Some(Commit::WaitsFor { role: "journal".into(), percent }),
                phases: vec![phase],
                ..Job::default()
            };
            let mut pacer = Pacer::new(&job);
            pacer.begin(0);
            let share = committed_share(&job, commits);
            let (mut due, mut committed) = (0, 0.0);
            for write in 1..=100_000u32 {
                let syncs = u64::from(write) % every_writes == 0;
                committed += share * every_writes as f64 * f64::from(u8::from(syncs));
                let commits = committed >= 1.0;
                committed -= f64::from(u8::from(commits));
                pacer.taken(
                    4096,
                    match (commits, syncs) {
                        (true, _) => Follows::Commit,
                        (false, true) => Follows::Sync,
                        (false, false) => Follows::Nothing,
                    },
                );
                due = pacer.due(u64::MAX).unwrap();
            }
            let mean_ns = due as f64 / 1e5;
            assert!((mean_ns / 1000.0 - 1.0).abs() < 0.02, "{percent} {commits}: {mean_ns}");
        }
    }

    #[test]
    fn a_pause_begins_when_what_was_sent_has_come_back() {
        let think = Think { ns: 50, every_ops: 2, ..Think::default() };
        let mut pacer = Pacer::new(&Job { think, ..Job::default() });
        pacer.begin(0);
        for _ in 0..2 {
            assert_eq!(pacer.due(10), Some(10));
            pacer.taken(4096, Follows::Nothing);
        }
        assert_eq!(pacer.due(20), None, "two were sent");
        pacer.drained(30);
        assert_eq!(pacer.due(79), None);
        assert_eq!(pacer.next_ns(30), 80);
        assert_eq!(pacer.due(80), Some(80));
    }
}
