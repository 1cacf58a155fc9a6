//! Judging what was read, and remembering what was wrong.

use std::collections::BTreeSet;

use crate::content::block::Format;
use crate::content::classify::classify;
use crate::content::ledger::{Allowed, Ledger, Survival};
use crate::plan::VerifyPlan;
use crate::record::VerifyJobRun;
use crate::record::verify::{Failure, Reread};

/// Failures that are kept in detail, per job.
const DETAILED: usize = 64;
/// Blocks whose failure is counted once, per job; beyond that every sighting counts.
const REMEMBERED: usize = 1 << 20;

/// What was read, and under which circumstances.
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

/// Judges blocks of one run.
pub(super) struct Checker {
    pub(super) format: Format,
    survival: Survival,
    trims_make_zeros: bool,
    /// Blocks that failed already, by owner.
    failed: BTreeSet<(usize, u64)>,
}

impl Checker {
    pub(super) fn new(plan: &VerifyPlan, survival: Survival) -> Checker {
        Checker {
            format: Format::new(plan.run, plan.block_bytes, plan.sector_bytes),
            survival,
            trims_make_zeros: plan.trims_make_zeros,
            failed: BTreeSet::new(),
        }
    }

    /// What may be found in a block.
    #[inline]
    pub(super) fn allowed(&self, ledger: &Ledger, block: u64) -> Allowed {
        ledger.allowed(block, self.survival, self.trims_make_zeros)
    }

    /// Judges a block and counts it; says whether it is right.
    #[inline]
    pub(super) fn check(
        &mut self,
        bytes: &[u8],
        offset: u64,
        allowed: Allowed,
        durable: u32,
        sighting: Sighting,
        report: &mut VerifyJobRun,
    ) -> bool {
        match allowed.low > 0 || allowed.gone {
            true => report.checked += 1,
            false => report.unrequired += 1,
        }
        report.uncertain += u64::from(allowed.low < allowed.high);
        let range = allowed.low..=allowed.high;
        let found = self.format.generation_at(bytes, offset);
        if found.is_some_and(|generation| !allowed.gone && range.contains(&generation)) {
            return true;
        }
        self.look_closely(bytes, offset, allowed, durable, sighting, report)
    }

    #[cold]
    fn look_closely(
        &mut self,
        bytes: &[u8],
        offset: u64,
        allowed: Allowed,
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

    /// What a second read of a failed block says about the first.
    pub(super) fn reread(&mut self, bytes: &[u8], allowed: Allowed, failure: &mut Failure) {
        let again = classify(&self.format, bytes, failure.offset, allowed);
        if again.is_none() {
            // What is stored is right: if it is wrong later, that is another failure.
            self.failed.remove(&(usize::from(failure.owner), failure.block));
        }
        failure.reread = match again {
            None => Reread::Right,
            Some(misfit) if misfit == failure.misfit => Reread::Same,
            Some(_) => Reread::Other,
        };
    }
}
