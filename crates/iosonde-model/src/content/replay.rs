//! Recomputes the required content of a target from the progress of its jobs. The operations follow
//! from the plan, so that only their numbers have to be stored.

use super::ledger::Ledger;
use crate::plan::{IoKind, VerifyPlan, VerifyStream};

/// Last known progress of a job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Known {
    /// Operations that may have been submitted.
    pub submitted: u64,
    /// Leading operations that were all acknowledged.
    pub acked: u64,
    /// Leading operations that a flush made durable.
    pub durable: u64,
    /// Operations that failed, in ascending order.
    pub failed: Vec<u64>,
}

/// The ledger of a job with at least this progress. Unless `is_limited`, it may have submitted any
/// number of further operations.
pub fn replay(plan: &VerifyPlan, job: usize, known: &Known, is_limited: bool) -> Ledger {
    let mut ledger = Ledger::new(plan.blocks_of(job));
    let mut stream = VerifyStream::new(plan, job);
    let ops = std::iter::from_fn(|| stream.next());
    let mut is_settled = false;
    for op in ops.take_while(|op| op.index < known.submitted) {
        if op.index == known.durable {
            ledger.settle();
            is_settled = true;
        }
        let certain = op.index < known.acked && known.failed.binary_search(&op.index).is_err();
        for block in op.first..op.first + u64::from(op.blocks) {
            match op.way {
                IoKind::Write => {
                    ledger.submit_write(block);
                }
                IoKind::Trim => {
                    ledger.submit_trim(block);
                }
                IoKind::Read | IoKind::Sync => continue,
            }
            if certain {
                ledger.acknowledge(block);
            }
        }
    }
    // If the loop did not reach `durable`, all operations came before the last flush.
    if !is_settled {
        ledger.settle();
    }
    ledger.forget_unflushed();
    if !is_limited {
        ledger.submitted_without_limit(plan.trim_percent > 0);
    }
    ledger
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::plan::{VerifyMode, VerifySetting, verify};

    fn plan() -> VerifyPlan {
        let setting = verify::tests::setting(VerifyMode::Write, 64 << 10);
        VerifyPlan::resolve(&VerifySetting { jobs: 1, flush_every: 9, ..setting }).unwrap()
    }

    /// The generations of all blocks: acknowledged, submitted, durable.
    fn all(ledger: &Ledger) -> Vec<(u32, u32, u32)> {
        (0..ledger.blocks()).map(|block| ledger.generations(block)).collect()
    }

    #[test]
    fn a_replay_comes_to_what_the_run_itself_knew() {
        let plan = plan();
        let mut live = Ledger::new(16);
        let (mut stream, mut durable) = (VerifyStream::new(&plan, 0), 0);
        for _ in 0..95 {
            let op = stream.next().unwrap();
            for block in op.first..op.first + u64::from(op.blocks) {
                live.submit_write(block);
                live.acknowledge(block);
            }
            if op.way == IoKind::Sync {
                let mark = live.flush();
                live.flushed(mark);
                durable = op.index;
            }
        }
        let known = Known { submitted: 95, acked: 95, durable, failed: Vec::new() };
        assert_eq!(all(&replay(&plan, 0, &known, true)), all(&live));
        assert!(all(&live).iter().any(|(acked, _, durable)| acked > durable));
    }

    #[test]
    fn what_was_not_acknowledged_or_failed_is_possible_and_not_required() {
        let plan = plan();
        let first = VerifyStream::new(&plan, 0).next().unwrap();
        let block = first.first;
        let known = Known { submitted: 1, ..Known::default() };
        assert_eq!(replay(&plan, 0, &known, true).generations(block), (0, 1, 0));
        let known = Known { submitted: 1, acked: 1, durable: 0, failed: vec![0] };
        assert_eq!(replay(&plan, 0, &known, true).generations(block), (0, 1, 0));
        let known = Known { submitted: 1, acked: 1, durable: 1, failed: vec![] };
        assert_eq!(replay(&plan, 0, &known, true).generations(block), (1, 1, 1));
    }
}
