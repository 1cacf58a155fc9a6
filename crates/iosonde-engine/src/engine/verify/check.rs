//! Checks blocks that were read, and remembers failures.

use std::collections::BTreeSet;

use iosonde_model::content::block::{Comparisons, Format};
use iosonde_model::content::classify::classify;
use iosonde_model::content::ledger::{Allowed, Ledger, Survival};
use iosonde_model::plan::VerifyPlan;
use iosonde_model::record::VerifyJobRun;
use iosonde_model::record::verify::{Failure, Reread};

/// Failures that are kept in detail, per job.
const DETAILED: usize = 64;
/// Failed blocks remembered per job, to count each once; beyond that, every sighting counts.
const REMEMBERED: usize = 1 << 20;

/// Circumstances in which a block was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    /// Job whose block it is.
    pub(super) owner: usize,
    pub(super) block: u64,
    /// The operation that read it; `None` when everything is read back.
    pub(super) op: Option<u64>,
    pub(super) after_ops: u64,
    pub(super) unix_ns: u64,
}

/// Checks blocks of one run.
pub(super) struct Checker<C> {
    pub(super) format: Format<C>,
    survival: Survival,
    trims_make_zeros: bool,
    begins_as_zeros: bool,
    /// Blocks that failed already, by owner.
    failed: BTreeSet<(usize, u64)>,
}

impl<C: Comparisons> Checker<C> {
    pub(super) fn new(plan: &VerifyPlan, survival: Survival) -> Checker<C> {
        Checker {
            format: Format::comparing(plan.run, plan.block_bytes, plan.sector_bytes),
            survival,
            trims_make_zeros: plan.trims_make_zeros,
            begins_as_zeros: plan.begins_as_zeros,
            failed: BTreeSet::new(),
        }
    }

    /// Content that may be found in a block.
    #[inline]
    pub(super) fn allowed(&self, ledger: &Ledger, block: u64) -> Allowed<'static> {
        self.since_begin(ledger.allowed(block, self.survival, self.trims_make_zeros))
    }

    /// The same for a target that began as zeros: only zeros where nothing was ever written.
    #[inline]
    pub(super) fn since_begin<'a>(&self, allowed: Allowed<'a>) -> Allowed<'a> {
        match self.begins_as_zeros && allowed.high == 0 {
            true => Allowed { zeros: true, gone: true, ..allowed },
            false => allowed,
        }
    }

    /// Checks a block and counts it; returns `false` if it fails for the first time.
    #[inline]
    pub(super) fn check(
        &mut self,
        bytes: &[u8],
        offset: u64,
        allowed: Allowed<'_>,
        durable: u32,
        sighting: Sighting,
        report: &mut VerifyJobRun,
    ) -> bool {
        match allowed.requires() {
            true => report.checked += 1,
            false => report.unrequired += 1,
        }
        report.uncertain += u64::from(allowed.is_pending());
        let found = self.format.generation_at(bytes, offset);
        if found.is_some_and(|generation| allowed.permits::<C>(generation)) {
            return true;
        }
        self.look_closely(bytes, offset, allowed, durable, sighting, report)
    }

    #[cold]
    fn look_closely(
        &mut self,
        bytes: &[u8],
        offset: u64,
        allowed: Allowed<'_>,
        durable: u32,
        sighting: Sighting,
        report: &mut VerifyJobRun,
    ) -> bool {
        let Some(misfit) = classify(&self.format, bytes, offset, allowed) else { return true };
        let Sighting { owner, block, op, after_ops, unix_ns } = sighting;
        // A block that stays wrong is one failure, however often it is read.
        let is_new = match self.failed.len() < REMEMBERED {
            true => self.failed.insert((owner, block)),
            false => !self.failed.contains(&(owner, block)),
        };
        if !is_new {
            return true;
        }
        *report.failed_blocks.entry(misfit.class).or_default() += 1;
        if report.failures.len() < DETAILED {
            report.failures.push(Failure {
                offset,
                owner: owner as u16,
                block,
                misfit,
                low: allowed.low,
                high: allowed.high,
                durable,
                op,
                after_ops,
                seen_unix_ns: unix_ns,
                reread: Reread::None,
            });
        }
        false
    }

    /// Records what a second read of a failed block shows.
    pub(super) fn reread(&mut self, bytes: &[u8], allowed: Allowed<'_>, failure: &mut Failure) {
        let again = classify(&self.format, bytes, failure.offset, allowed);
        if again.is_none() {
            // The stored data is right: if it is wrong later, that is another failure.
            self.failed.remove(&(usize::from(failure.owner), failure.block));
        }
        failure.reread = match again {
            None => Reread::Right,
            Some(misfit) if misfit == failure.misfit => Reread::Same,
            Some(_) => Reread::Other,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::verify::setting;
    use iosonde_model::content::block::{All, Label};
    use iosonde_model::content::classify::Class;
    use iosonde_model::plan::{VerifyMode, VerifySetting};

    const HERE: u64 = 8192;

    /// A checker of one job with sixteen blocks.
    struct Bench {
        checker: Checker<All>,
        report: VerifyJobRun,
    }

    impl Bench {
        fn new() -> Bench {
            let setting = VerifySetting { jobs: 1, ..setting(VerifyMode::Soak, 64 << 10) };
            let plan = VerifyPlan::resolve(&setting);
            let plan = plan.unwrap_or_else(|error| unreachable!("{error}"));
            let checker = Checker::new(&plan, Survival::Acknowledged);
            Bench { checker, report: VerifyJobRun::default() }
        }

        fn block(&self, offset: u64, generation: u32) -> Vec<u8> {
            let mut block = vec![0; 4096];
            let label = Label { offset, generation, ..Label::default() };
            self.checker.format.seal(&mut block, &label);
            block
        }

        fn check(&mut self, bytes: &[u8], allowed: Allowed<'_>) -> bool {
            let sighting = Sighting { owner: 0, block: 2, op: Some(5), after_ops: 6, unix_ns: 7 };
            self.checker.check(bytes, HERE, allowed, 1, sighting, &mut self.report)
        }
    }

    fn from(low: u32, high: u32) -> Allowed<'static> {
        Allowed { low, high, ..Allowed::default() }
    }

    #[test]
    fn what_may_be_there_is_right_and_is_counted_by_what_it_proves() {
        let mut bench = Bench::new();
        let (one, two) = (bench.block(HERE, 1), bench.block(HERE, 2));
        assert!(bench.check(&one, from(1, 1)));
        assert!(bench.check(&one, from(1, 2)) && bench.check(&two, from(1, 2)));
        assert!(bench.check(&[0; 4096], from(0, 0)));
        let gone = Allowed { zeros: true, gone: true, ..from(2, 2) };
        assert!(bench.check(&[0; 4096], gone));
        let loose = Allowed { zeros: true, ..from(0, 2) };
        assert!(bench.check(&[0; 4096], loose));
        let VerifyJobRun { checked, uncertain, unrequired, ref failed_blocks, .. } = bench.report;
        assert_eq!((checked, uncertain, unrequired), (4, 3, 2));
        assert!(failed_blocks.is_empty() && bench.report.failures.is_empty());
    }

    #[test]
    fn a_block_that_stays_wrong_is_one_failure() {
        let mut bench = Bench::new();
        let stale = bench.block(HERE, 1);
        assert!(!bench.check(&stale, from(2, 3)));
        assert!(bench.check(&stale, from(2, 3)), "it is known by now");
        assert_eq!(bench.report.failed_blocks[&Class::Stale], 1);
        let failure = &bench.report.failures[0];
        assert_eq!((failure.offset, failure.block, failure.owner), (HERE, 2, 0));
        assert_eq!((failure.low, failure.high, failure.durable), (2, 3, 1));
        assert_eq!((failure.op, failure.after_ops, failure.seen_unix_ns), (Some(5), 6, 7));
    }

    #[test]
    fn a_block_of_the_right_generation_where_nothing_may_be_is_wrong() {
        let mut bench = Bench::new();
        let there = bench.block(HERE, 2);
        assert!(!bench.check(&there, Allowed { zeros: true, gone: true, ..from(2, 2) }));
        let mut bench = Bench::new();
        assert!(!bench.check(&bench.block(HERE, 4), from(2, 3)));
        assert_eq!(bench.report.failed_blocks[&Class::Phantom], 1);
    }

    #[test]
    fn what_was_never_written_is_zeros_only_in_a_target_that_began_so() {
        for (begins_as_zeros, foreign_is_right) in [(false, true), (true, false)] {
            let mut bench = Bench::new();
            bench.checker.begins_as_zeros = begins_as_zeros;
            let never = bench.checker.since_begin(from(0, 0));
            assert!(bench.check(&[0; 4096], never));
            assert_eq!(bench.check(&[0x5a; 4096], never), foreign_is_right);
            assert_eq!(never.requires(), begins_as_zeros);
            // A pending write may be there, or not.
            let pending = bench.checker.since_begin(from(0, 1));
            assert!(bench.check(&bench.block(HERE, 1), pending));
        }
    }

    #[test]
    fn a_second_read_says_what_is_stored() {
        for (generation, expected) in [(1, Reread::Same), (2, Reread::Right), (9, Reread::Other)] {
            let mut bench = Bench::new();
            let stale = bench.block(HERE, 1);
            bench.check(&stale, from(2, 2));
            let again = bench.block(HERE, generation);
            let mut failure = bench.report.failures[0].clone();
            bench.checker.reread(&again, from(2, 2), &mut failure);
            assert_eq!(failure.reread, expected);
            // A block that was only misread may fail again later.
            assert_eq!(!bench.check(&stale, from(2, 2)), expected == Reread::Right);
        }
    }
}
