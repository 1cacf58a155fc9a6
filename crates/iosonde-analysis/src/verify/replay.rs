//! The operations that touched a failed block. They follow from the plan, so they can be replayed
//! without I/O.

use std::collections::VecDeque;

use serde::Serialize;

use iosonde_model::content::outcomes::{generation, origin};
use iosonde_model::plan::{IoKind, VerifyMode, VerifyOp, VerifyPlan, VerifyStream};
use iosonde_model::record::verify::{Failure, VerifyRun};

/// Maximum number of operations replayed over all jobs, which takes a few seconds.
const MAX_OPS: u64 = 1 << 29;
/// Operations kept per failed block: the last touches, and the first pending changes.
const TOUCHES: usize = 4;

/// One operation of a job's stream.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct OpDetails {
    /// Number of the job.
    pub job: u16,
    /// Number of the operation in the job.
    pub op: u64,
    /// Its kind: `read`, `write`, `trim` or `sync`.
    pub way: &'static str,
    /// First byte; 0 for a sync.
    pub offset: u64,
    /// Bytes; 0 for a sync.
    pub bytes: u64,
    /// Generation that the operation gave the failed block, if it changed the block.
    pub generation: Option<u32>,
    /// Earliest and latest possible time of submission, ns since 1970, if recorded.
    pub between_unix_ns: Option<(u64, u64)>,
}

/// An operation and the generation that it gave the failed block.
pub(super) type Touch = (VerifyOp, Option<u32>);

/// The history of a failure.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// The operation that made the required change.
    pub(super) wrote: Option<Touch>,
    /// The first few further changes that are allowed.
    pub(super) pending: Vec<Touch>,
    /// The operation of the stream directly before the required change.
    pub(super) before: Option<Touch>,
    /// The operation directly after it.
    pub(super) after: Option<Touch>,
    /// The last operations on the block.
    pub(super) touches: VecDeque<Touch>,
    /// The last read of the block before the failure.
    pub(super) last_read: Option<VerifyOp>,
}

/// State of a failed block during the replay of the stream.
struct Track<'a> {
    failure: &'a Failure,
    /// Index of this job and number of jobs, if jobs share the region.
    shared: Option<(usize, usize)>,
    /// Maximum number of operations to replay.
    end: u64,
    /// Last relevant generation; the replay ends there.
    goal: u32,
    generation: u32,
    past: Past,
}

impl Track<'_> {
    fn is_over(&self, next: u64) -> bool {
        next >= self.end || self.generation >= self.goal
    }

    fn touch(&mut self, op: VerifyOp, before: Option<VerifyOp>) {
        if self.is_over(op.index) {
            return;
        }
        let generation = match op.way {
            IoKind::Write | IoKind::Trim => {
                self.generation = match self.shared {
                    Some((job, jobs)) => generation(op.index, job, jobs),
                    None => self.generation + 1,
                };
                Some(self.generation)
            }
            IoKind::Read | IoKind::Sync => None,
        };
        let touch = (op, generation);
        if self.past.touches.len() == TOUCHES {
            self.past.touches.pop_front();
        }
        self.past.touches.push_back(touch);
        let Some(generation) = generation else {
            if self.failure.op != Some(op.index) {
                self.past.last_read = Some(op);
            }
            return;
        };
        let Failure { low, high, .. } = *self.failure;
        if generation == low {
            self.past.wrote = Some(touch);
            self.past.before = before.map(|op| (op, None));
        } else if (low..=high).contains(&generation) && self.past.pending.len() < TOUCHES {
            self.past.pending.push(touch);
        }
    }
}

/// The history of each failure. A job's stream is replayed once for all failures of the job.
pub(super) fn pasts(run: &VerifyRun, failures: &[&Failure]) -> Vec<Past> {
    let mut pasts = vec![Past::default(); failures.len()];
    let mut room = MAX_OPS;
    for owner in 0..run.plan.plan.jobs.len() {
        let own = failures.iter().enumerate();
        let own = own.filter(|(_, failure)| usize::from(author(run, failure)) == owner);
        let (places, mut tracks): (Vec<usize>, Vec<Track<'_>>) =
            own.map(|(place, failure)| (place, track(run, failure))).unzip();
        room -= replay(&run.plan, owner, &mut tracks, room);
        for (place, track) in places.into_iter().zip(tracks) {
            pasts[place] = track.past;
        }
    }
    pasts
}

fn track<'a>(run: &VerifyRun, failure: &'a Failure) -> Track<'a> {
    let Failure { low, high, .. } = *failure;
    let few = high.saturating_sub(low) <= TOUCHES as u32;
    let (end, goal) = match run.plan.mode {
        // A check submits nothing: the progress of the run is known only from the generations.
        VerifyMode::Check => (u64::MAX, if few { high } else { low }),
        // The reader is another job: `after_ops` does not show the progress of the writer.
        VerifyMode::Pipeline => {
            let ops = run.jobs.get(usize::from(failure.owner)).map_or(0, |job| job.ops);
            (ops, if failure.op.is_some() { high } else { u32::MAX })
        }
        _ => (failure.after_ops, u32::MAX),
    };
    let jobs = run.plan.plan.jobs.len();
    let shared = run.plan.overlaps().then(|| (author(run, failure).into(), jobs));
    let end = if shared.is_some() { u64::MAX } else { end };
    let goal = if shared.is_some() { low } else { goal };
    Track { failure, shared, end, goal, generation: 0, past: Past::default() }
}

/// The job whose operations are replayed for this block: its owner or, if jobs share the region,
/// the writer of the expected content.
pub(super) fn author(run: &VerifyRun, failure: &Failure) -> u16 {
    match run.plan.overlaps() && failure.low > 0 {
        true => origin(failure.low, run.plan.plan.jobs.len()).1 as u16,
        false => failure.owner,
    }
}

/// Replays the stream of a job. Returns the number of operations replayed.
fn replay(plan: &VerifyPlan, owner: usize, tracks: &mut [Track<'_>], room: u64) -> u64 {
    let mut order: Vec<usize> = (0..tracks.len()).collect();
    order.sort_by_key(|place| tracks[*place].failure.block);
    let blocks: Vec<u64> = order.iter().map(|place| tracks[*place].failure.block).collect();
    let mut stream = VerifyStream::new(&stream_plan(plan), owner);
    let (mut gone, mut before) = (0, None);
    // The failures whose required change was the previous operation.
    let mut waiting: Vec<usize> = Vec::new();
    // The end is checked only at relevant operations, and periodically.
    let mut look = true;
    while gone < room {
        let next = stream.index();
        if look || next.is_multiple_of(1 << 12) {
            let over = tracks.iter().all(|track| track.is_over(next));
            if over && waiting.is_empty() {
                break;
            }
        }
        let Some(op) = stream.next() else { break };
        gone += 1;
        for place in waiting.drain(..) {
            tracks[place].past.after = Some((op, None));
        }
        let from = blocks.partition_point(|block| *block < op.first);
        let hit = blocks[from..].iter().take_while(|block| op.touches(**block)).count();
        for place in &order[from..from + hit] {
            tracks[*place].touch(op, before);
            if tracks[*place].past.wrote.is_some_and(|(wrote, _)| wrote == op) {
                waiting.push(*place);
            }
        }
        look = hit > 0 || !waiting.is_empty();
        before = Some(op);
    }
    gone
}

/// The plan to replay. A check has no operations; the plan of the checked run is used.
fn stream_plan(plan: &VerifyPlan) -> VerifyPlan {
    let mut plan = plan.clone();
    if plan.mode == VerifyMode::Check {
        plan.mode = VerifyMode::Write;
        plan.ops.iter_mut().for_each(|ops| *ops = u64::MAX);
    }
    plan
}

/// An operation with its submission time.
pub(super) fn details(run: &VerifyRun, job: u16, (op, generation): Touch) -> OpDetails {
    let is_placed = op.blocks > 0;
    OpDetails {
        job,
        op: op.index,
        way: op.way.word(),
        offset: if is_placed { run.plan.offset_of(job.into(), op.first) } else { 0 },
        bytes: u64::from(op.blocks) * u64::from(run.plan.block_bytes),
        generation,
        between_unix_ns: between(run, job, op.index),
    }
}

/// Earliest and latest submission time of an operation, from the marks of the job's progress.
fn between(run: &VerifyRun, job: u16, op: u64) -> Option<(u64, u64)> {
    let marks = &run.jobs.get(usize::from(job))?.marks;
    let later = marks.partition_point(|(next, _)| *next <= op);
    if marks.is_empty() {
        return None;
    }
    let from = later.checked_sub(1).map_or(run.started_unix_ns, |at| marks[at].1);
    let to = marks.get(later).map_or(run.started_unix_ns + run.elapsed_ns, |mark| mark.1);
    Some((from, to.max(from)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::verify::{check_of, failure, soak};
    use iosonde_model::content::classify::Class;

    /// The expected history of a block of job 1, by a direct walk through the stream.
    fn walk(run: &VerifyRun, block: u64, ops: usize) -> Vec<VerifyOp> {
        let stream = VerifyStream::new(&run.plan, 1).take(ops);
        stream.filter(|op| op.touches(block)).collect()
    }

    fn at(block: u64, low: u32, after_ops: u64) -> Failure {
        Failure { owner: 1, block, low, high: low, after_ops, ..failure(Class::Stale) }
    }

    #[test]
    fn the_writing_operation_is_found_with_its_neighbours() {
        let run = soak();
        let touching = walk(&run, 40, 500);
        let writes: Vec<VerifyOp> =
            touching.iter().filter(|op| op.way == IoKind::Write).copied().collect();
        let last = writes.len() as u32;
        assert!(last >= 3, "{last}");
        let one = at(40, last, 500);
        let other = at(41, 1, 500);
        let found = pasts(&run, &[&other, &one]);
        let past = &found[1];
        assert_eq!(past.wrote, Some((*writes.last().unwrap(), Some(last))));
        let index = writes.last().unwrap().index as usize;
        let nth = |n: usize| VerifyStream::new(&run.plan, 1).nth(n);
        assert_eq!(past.before.map(|(op, _)| op), nth(index - 1));
        assert_eq!(past.after.map(|(op, _)| op), nth(index + 1));
        let last_four: Vec<VerifyOp> = past.touches.iter().map(|(op, _)| *op).collect();
        assert_eq!(last_four, touching[touching.len() - 4..]);
        let of_41 = walk(&run, 41, 500);
        let first = of_41.iter().find(|op| op.way == IoKind::Write).unwrap();
        assert_eq!(found[0].wrote, Some((*first, Some(1))));
    }

    #[test]
    fn what_was_submitted_later_is_not_counted() {
        let run = soak();
        let touching = walk(&run, 40, 500);
        let first = touching.iter().find(|op| op.way == IoKind::Write).unwrap();
        let failure = Failure { high: 2, ..at(40, 1, first.index + 1) };
        let past = &pasts(&run, &[&failure])[0];
        assert_eq!((past.wrote, past.pending.len()), (Some((*first, Some(1))), 0));
        assert!(past.after.is_some(), "the next operation of the plan, submitted or not");
        let failure = Failure { high: 2, ..at(40, 1, 500) };
        let past = &pasts(&run, &[&failure])[0];
        assert_eq!(past.pending.iter().map(|(_, one)| *one).collect::<Vec<_>>(), [Some(2)]);
    }

    #[test]
    fn a_check_goes_through_the_stream_of_the_run_that_it_checks() {
        let written = soak();
        let mut run = check_of(&[at(40, 2, 0)]);
        run.plan.read_percent = written.plan.read_percent;
        let failure = run.jobs[0].failures[0].clone();
        let past = &pasts(&run, &[&failure])[0];
        let mut writes = walk(&written, 40, 500).into_iter().filter(|op| op.way == IoKind::Write);
        assert_eq!(past.wrote, Some((writes.nth(1).unwrap(), Some(2))));
        assert_eq!(details(&run, 1, past.wrote.unwrap()).between_unix_ns, None);
    }

    #[test]
    fn times_are_between_two_marks() {
        let mut run = soak();
        run.jobs[1].marks = vec![(0, 1_000), (10, 2_000), (20, 3_000)];
        assert_eq!(between(&run, 1, 0), Some((1_000, 2_000)));
        assert_eq!(between(&run, 1, 9), Some((1_000, 2_000)));
        assert_eq!(between(&run, 1, 10), Some((2_000, 3_000)));
        let end = run.started_unix_ns + run.elapsed_ns;
        assert_eq!(between(&run, 1, 20), Some((3_000, end)));
        run.jobs[1].marks.clear();
        assert_eq!(between(&run, 1, 20), None);
    }
}
