//! Ledger of a region that several jobs write concurrently: for each block, the set of writes of
//! which one must be found.
//!
//! Two writes in flight together may take effect in either order, or each in some sectors. Which
//! writes overlap must not depend on time, or the outcomes could not be recomputed. The jobs
//! therefore meet at barriers. The operations between two barriers are an epoch, which begins when
//! all operations of the previous one are acknowledged. The outcomes of a block are the last writes
//! of each job in the last epoch that wrote it.
//!
//! The generation of a block encodes operation and job.

use std::collections::BTreeMap;

use super::ledger::{Allowed, Survival};
use super::replay::Known;
use crate::content::block::MAX_GENERATION;
use crate::plan::{IoKind, VerifyOp, VerifyPlan, VerifyStream};

/// State of an operation at the end of its epoch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Became {
    /// It was carried out.
    Certain,
    /// It may have been carried out, completely or in part.
    Possible,
    /// It was not submitted.
    Nothing,
}

/// The ledger of a region that all jobs write.
#[derive(Clone, Debug)]
pub struct Outcomes {
    jobs: usize,
    epoch_ops: u64,
    streams: Vec<VerifyStream>,
    /// Per block and job: the last write that was carried out; 0 for none.
    certain: Vec<u32>,
    /// Per block: writes that may have been carried out, or are in flight.
    possible: BTreeMap<u64, Vec<u32>>,
    /// Whether the number of submitted operations is unknown.
    unlimited: bool,
}

impl Outcomes {
    /// An empty ledger for a plan with barriers.
    pub fn new(plan: &VerifyPlan) -> Outcomes {
        let jobs = plan.plan.jobs.len();
        Outcomes {
            jobs,
            epoch_ops: plan.epoch_ops.max(1),
            streams: (0..jobs).map(|job| VerifyStream::new(plan, job)).collect(),
            certain: vec![0; plan.blocks() as usize * jobs],
            possible: BTreeMap::new(),
            unlimited: false,
        }
    }

    /// The ledger of a run whose jobs have this progress. The flag of a job is false if its number
    /// of submitted operations is unknown.
    pub fn replay(plan: &VerifyPlan, known: &[(Known, bool)], survival: Survival) -> Outcomes {
        let mut outcomes = Outcomes::new(plan);
        outcomes.unlimited = known.iter().any(|(_, is_limited)| !is_limited);
        let became = |job: usize, op: u64| {
            let (known, _) = &known[job];
            let certain = match survival {
                Survival::Acknowledged => known.acked,
                Survival::Durable => known.durable,
            };
            match (op < certain, op < known.submitted) {
                (true, _) if known.failed.binary_search(&op).is_err() => Became::Certain,
                (_, true) => Became::Possible,
                (_, false) => Became::Nothing,
            }
        };
        let most = known.iter().map(|(known, _)| known.submitted).max().unwrap_or(0);
        for epoch in 0..most.div_ceil(outcomes.epoch_ops) {
            outcomes.begin(epoch);
            outcomes.end(became);
        }
        outcomes
    }

    /// Begins an epoch: its writes are possible from now on.
    pub fn begin(&mut self, epoch: u64) {
        let end = (epoch + 1).saturating_mul(self.epoch_ops);
        for (job, stream) in self.streams.iter_mut().enumerate() {
            while stream.index() < end
                && let Some(op) = stream.next()
            {
                let VerifyOp { index, way, first, blocks } = op;
                for block in (first..first + u64::from(blocks)).filter(|_| way == IoKind::Write) {
                    let generation = generation(index, job, self.jobs);
                    self.possible.entry(block).or_default().push(generation);
                }
            }
        }
    }

    /// Ends the epoch. `became` gives the state of an operation by job and number.
    pub fn end(&mut self, became: impl Fn(usize, u64) -> Became) {
        let jobs = self.jobs;
        let certain = &mut self.certain;
        self.possible.retain(|block, writes| {
            let slots = &mut certain[*block as usize * jobs..][..jobs];
            writes.retain(|write| {
                let (op, job) = origin(*write, jobs);
                let became = became(job, op);
                if became == Became::Certain {
                    slots[job] = slots[job].max(*write);
                }
                became == Became::Possible
            });
            !writes.is_empty()
        });
    }

    /// Whether the block was written, or may have been.
    pub fn was_changed(&self, block: u64) -> bool {
        self.slots(block).iter().any(|write| *write > 0) || self.possible.contains_key(&block)
    }

    /// The permitted content of a block. Stores its generations in `outcomes`.
    pub fn allowed<'a>(&self, block: u64, outcomes: &'a mut Vec<u32>) -> Allowed<'a> {
        let slots = self.slots(block);
        let epoch = |write: u32| origin(write, self.jobs).0 / self.epoch_ops;
        let last = slots.iter().copied().filter(|write| *write > 0).map(epoch).max();
        outcomes.clear();
        let certain =
            slots.iter().copied().filter(|write| *write > 0 && Some(epoch(*write)) == last);
        outcomes.extend(certain);
        let possible = self.possible.get(&block).into_iter().flatten().copied();
        outcomes.extend(possible.filter(|write| {
            let (_, job) = origin(*write, self.jobs);
            Some(epoch(*write)) >= last && *write > slots[job]
        }));
        let lowest = outcomes.iter().copied().min().unwrap_or(0);
        let highest = outcomes.iter().copied().max().unwrap_or(0);
        let low = if last.is_some() { lowest } else { 0 };
        match self.unlimited {
            true => Allowed { low, high: MAX_GENERATION, ..Allowed::default() },
            false => Allowed { low, high: highest, outcomes, ..Allowed::default() },
        }
    }

    fn slots(&self, block: u64) -> &[u32] {
        &self.certain[block as usize * self.jobs..][..self.jobs]
    }
}

/// The generation written by an operation of a job.
pub fn generation(op: u64, job: usize, jobs: usize) -> u32 {
    u32::try_from(op * jobs as u64 + job as u64 + 1).unwrap_or(MAX_GENERATION)
}

/// The operation and the job of a generation, which must not be 0.
pub fn origin(generation: u32, jobs: usize) -> (u64, usize) {
    let number = u64::from(generation) - 1;
    (number / jobs as u64, (number % jobs as u64) as usize)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::plan::{VerifyMode, VerifySetting, verify};

    fn plan() -> VerifyPlan {
        let setting = verify::tests::setting(VerifyMode::Write, 64 << 10);
        let plan = VerifySetting { jobs: 2, iodepth: 3, overlap: true, ops: 30, ..setting };
        VerifyPlan::resolve(&plan).unwrap()
    }

    /// The writes of both jobs to a block, in order of epoch.
    fn writes(plan: &VerifyPlan, block: u64) -> Vec<u32> {
        let of = |job| {
            let ops = VerifyStream::new(plan, job).filter(move |op| op.touches(block));
            ops.filter(|op| op.way == IoKind::Write).map(move |op| generation(op.index, job, 2))
        };
        let mut all: Vec<u32> = of(0).chain(of(1)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_generation_names_its_operation_and_its_job() {
        for jobs in [2, 3, 7] {
            for (op, job) in [(0, 0), (0, 1), (5, 1), (1_000_000, jobs - 1)] {
                assert_eq!(origin(generation(op, job, jobs), jobs), (op, job));
            }
        }
        assert_eq!(generation(u64::from(u32::MAX), 0, 2), MAX_GENERATION);
    }

    #[test]
    fn the_last_write_of_each_job_in_the_last_epoch_is_an_outcome() {
        let plan = plan();
        let done = (Known { submitted: 30, acked: 30, durable: 30, failed: vec![] }, true);
        let outcomes = Outcomes::replay(&plan, &[done.clone(), done], Survival::Acknowledged);
        let mut several = 0;
        for block in 0..plan.blocks() {
            let all = writes(&plan, block);
            let epoch = |write: &u32| origin(*write, 2).0 / 3;
            let last = all.iter().map(epoch).max().unwrap();
            let of = |job| {
                let own = all.iter().filter(move |write| origin(**write, 2).1 == job);
                own.filter(|write| epoch(write) == last).max().copied()
            };
            let expected: Vec<u32> = of(0).into_iter().chain(of(1)).collect();
            let mut found = Vec::new();
            let allowed = outcomes.allowed(block, &mut found);
            assert_eq!(
                (allowed.low, allowed.high),
                (*expected.iter().min().unwrap(), *expected.iter().max().unwrap())
            );
            assert_eq!(allowed.outcomes, expected, "block {block} of {all:?}");
            several += u32::from(expected.len() > 1);
        }
        assert!(several > 0 && u64::from(several) < plan.blocks(), "{several}");
    }

    #[test]
    fn what_is_under_way_may_be_there_and_what_was_there_too() {
        let plan = plan();
        let mut outcomes = Outcomes::new(&plan);
        let mut found = Vec::new();
        assert_eq!(outcomes.allowed(0, &mut found), Allowed::default());
        outcomes.begin(0);
        let first = VerifyStream::new(&plan, 0).next().unwrap().first;
        let under_way = outcomes.allowed(first, &mut found);
        assert_eq!((under_way.low, under_way.outcomes.contains(&1)), (0, true));
        outcomes.end(|_, _| Became::Certain);
        let before: Vec<u32> = outcomes.allowed(first, &mut found).outcomes.to_vec();
        assert!(outcomes.allowed(first, &mut found).low > 0);
        // A failed write is possible and does not replace earlier outcomes.
        for epoch in 1..10 {
            outcomes.begin(epoch);
            outcomes.end(|_, _| Became::Possible);
        }
        let allowed = outcomes.allowed(first, &mut found);
        assert!(before.iter().all(|write| allowed.outcomes.contains(write)));
        assert_eq!(
            allowed.outcomes.len(),
            before.len()
                + writes(&plan, first).iter().filter(|write| origin(**write, 2).0 >= 3).count()
        );
        // An operation that was not submitted changes nothing.
        let mut none = Outcomes::new(&plan);
        none.begin(0);
        none.end(|_, _| Became::Nothing);
        assert!(!none.was_changed(first));
    }
}
