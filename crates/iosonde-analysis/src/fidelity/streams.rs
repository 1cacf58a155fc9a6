//! Regenerates the operations of a run: a plan determines them, so their sizes, offsets and order
//! need not be in the record.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::observed::{Moved, Touched};
use crate::replayed::JOURNAL;
use crate::series;
use iosonde_model::plan::{IoKind, Job, OpStream, Stop};
use iosonde_model::record::profile::Op;
use iosonde_model::record::run::{JobRun, Run};
use iosonde_stats::Histogram;

/// Largest number of operations that are regenerated.
const MOST_OPS: u64 = 400_000;
/// Largest number of blocks whose offsets are kept.
const MOST_BLOCKS: u64 = 4_000_000;
/// Block size of a profile.
const BLOCK_BYTES: u64 = 4096;
const CHUNK_BYTES: u64 = 1 << 20;
/// Number of concurrent sequential streams that are recognised.
const STREAMS: usize = 64;

/// Accumulated operations of one direction.
#[derive(Default)]
struct Gathered {
    ops: u64,
    sizes: BTreeMap<u64, u64>,
    sequential: u64,
    /// Accesses and blocks of each chunk of a target.
    chunks: BTreeMap<(u16, u64), (u64, BTreeSet<u64>)>,
}

/// All jobs except those with the journal role.
pub(super) fn of_program(run: &Run) -> impl Iterator<Item = (&Job, &JobRun)> {
    run.plan.jobs.iter().zip(&run.jobs).filter(|(plan, _)| plan.role != JOURNAL)
}

/// The load of a run by direction.
pub(super) fn of_run(run: &Run) -> Vec<(Op, Moved)> {
    let jobs: Vec<(&Job, u64)> =
        of_program(run).map(|(plan, job)| (plan, series::data_ops(job))).collect();
    let whole: u64 = jobs.iter().map(|(_, ops)| ops).sum();
    let part = (MOST_OPS as f64 / whole.max(1) as f64).min(1.0);
    let mut streams: Vec<(OpStream, u64)> = jobs
        .into_iter()
        .map(|(job, ops)| {
            let stream = OpStream::new(job, Stop::AfterNs(u64::MAX));
            (stream, (ops as f64 * part).round() as u64)
        })
        .collect();
    let mut ways: [Gathered; 3] = Default::default();
    let mut recent: VecDeque<(u16, u64)> = VecDeque::new();
    let mut blocks = 0;
    // The jobs alternate, as the order of their operations is not in the record.
    while streams.iter().any(|(_, left)| *left > 0) {
        for (stream, left) in streams.iter_mut().filter(|(_, left)| *left > 0) {
            *left -= 1;
            let Some(op) = stream.next_op() else { continue };
            let way = &mut ways[match op.way {
                IoKind::Read => 0,
                IoKind::Write => 1,
                _ => 2,
            }];
            let end = op.offset + u64::from(op.bytes);
            way.ops += 1;
            *way.sizes.entry(u64::from(op.bytes)).or_default() += 1;
            let follows = recent.iter().position(|at| *at == (op.target, op.offset));
            way.sequential += u64::from(follows.is_some());
            follows.map(|at| recent.remove(at));
            recent.push_front((op.target, end));
            recent.truncate(STREAMS);
            blocks += u64::from(op.bytes).div_ceil(BLOCK_BYTES);
            if blocks <= MOST_BLOCKS {
                way.touch(op.target, op.offset, end);
            }
        }
    }
    let complete = part == 1.0 && blocks <= MOST_BLOCKS;
    let [reads, writes, trims] = ways;
    [(Op::Read, reads), (Op::Write, writes), (Op::Discard, trims)]
        .map(|(op, way)| (op, way.moved(run, op, complete)))
        .into()
}

impl Gathered {
    fn touch(&mut self, target: u16, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let chunk = at / CHUNK_BYTES;
            let end = to.min((chunk + 1) * CHUNK_BYTES);
            let (hits, blocks) = self.chunks.entry((target, chunk)).or_default();
            *hits += 1;
            blocks.extend(at / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES));
            at = end;
        }
    }

    fn moved(self, run: &Run, op: Op, complete: bool) -> Moved {
        let directions = || {
            of_program(run).map(|(_, job)| match op {
                Op::Read => &job.read,
                Op::Write => &job.write,
                _ => &job.trim,
            })
        };
        let chunks = self.chunks.values().map(|(hits, blocks)| (blocks.len() as f64, *hits as f64));
        let touched = if complete {
            Touched::new(BLOCK_BYTES, chunks.collect())
        } else {
            Err("the run has more operations than can be regenerated for this: profile the replay"
                .into())
        };
        Moved {
            requests: directions().map(|direction| direction.ops).sum(),
            sizes: self.sizes.into_iter().collect(),
            sequential: Ok(self.sequential as f64 / self.ops.max(1) as f64),
            gaps: Err("a run records no distribution of its inter-arrival times: profile the \
                       replay (iosonde profile -- iosonde run …)"
                .into()),
            touched,
            latency: Histogram::of_all(directions().map(|direction| &direction.latency)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn hot_and_cold_are_distinguished_as_finely_as_in_a_profile() {
        let mut way = Gathered::default();
        for _ in 0..3 {
            way.touch(0, 0, 4096);
        }
        way.touch(0, 1 << 20, (1 << 20) + 4096);
        let chunks = way.chunks.values().map(|(hits, blocks)| (blocks.len() as f64, *hits as f64));
        let touched = Touched::new(BLOCK_BYTES, chunks.collect()).unwrap();
        assert_eq!((touched.bytes, touched.share_of_hottest(0.5)), (8192.0, 0.75));
    }
}
