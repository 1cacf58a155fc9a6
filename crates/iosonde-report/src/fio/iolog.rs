//! fio's I/O log, version 3: the order and times of operations. The plan determines the operations
//! of a job, so only their times are recorded.

use std::fmt::Write;

use iosonde_model::plan::{IoKind, Job, Op, OpStream, Stop, SyncCall, SyncCount};
use iosonde_model::record::run::{JobRun, Run};
use iosonde_model::spec::listed::MAX_LISTED;

const HEAD: &str = "fio version 3 iolog";

/// Whether a file with this beginning is such a log.
pub fn is_iolog(text: &str) -> bool {
    text.starts_with("fio version ") && text.lines().next().is_some_and(|l| l.ends_with(" iolog"))
}

/// The log of some jobs of a run, one job after the other.
pub fn text(run: &Run, jobs: &[usize]) -> String {
    let mut text = format!("{HEAD}\n");
    for act in ["add", "open"] {
        for target in &run.plan.targets {
            let _ = writeln!(text, "0 {} {act}", target.path);
        }
    }
    let mut last_us = 0;
    for index in jobs {
        let (Some(job), Some(done)) = (run.plan.jobs.get(*index), run.jobs.get(*index)) else {
            continue;
        };
        of_job(&mut text, run, job, &done.handed_over_us);
        last_us = last_us.max(done.handed_over_us.last().copied().unwrap_or(0));
    }
    for target in &run.plan.targets {
        let _ = writeln!(text, "{last_us} {} close", target.path);
    }
    text
}

/// Whether the log has only the first operations of a job.
pub fn is_cut(job: &JobRun) -> bool {
    job.handed_over_us.len() >= MAX_LISTED
}

/// The operations of a job at these times, including its syncs.
fn of_job(text: &mut String, run: &Run, job: &Job, times_us: &[u64]) {
    let sync = match job.sync.call {
        SyncCall::Fsync => "sync",
        SyncCall::Fdatasync => "datasync",
    };
    for (us, op) in times_us.iter().zip(handed_over(job)) {
        let path = run.plan.targets.get(usize::from(op.target)).map_or("", |target| &target.path);
        let word = if op.way == IoKind::Sync { sync } else { op.way.word() };
        let _ = writeln!(text, "{us} {path} {word} {} {}", op.offset, op.bytes);
    }
}

/// The operations of a job in order of submission; each target is synced after a number of writes.
fn handed_over(job: &Job) -> impl Iterator<Item = Op> + '_ {
    let targets: Vec<u16> = if job.targets.is_empty() { vec![0] } else { job.targets.clone() };
    let mut stream = OpStream::new(job, Stop::AfterNs(u64::MAX));
    let (mut syncs, mut unsent) = (SyncCount::default(), 0);
    std::iter::from_fn(move || {
        if unsent > 0 {
            let target = targets[(targets.len() - unsent % targets.len()) % targets.len()];
            unsent -= 1;
            return Some(Op { way: IoKind::Sync, target, offset: job.region_start, bytes: 0 });
        }
        let op = stream.next_op()?;
        if op.way == IoKind::Write {
            unsent = targets.len() * syncs.after_write(&job.sync) as usize;
        }
        Some(op)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::plan::{Order, Sync};

    #[test]
    fn a_log_has_the_operations_of_the_plan_and_their_syncs() {
        let mut run = run_of(&[Load::default()]);
        let job = &mut run.plan.jobs[0];
        job.order = Order::Sequential { start_block: 0, lane: 0, lanes: 1 };
        (job.read_percent, job.block_bytes, job.region_bytes) = (0, 4096, 1 << 20);
        job.sync = Sync { every_writes: 2, ..Sync::default() };
        run.jobs[0].handed_over_us = vec![3, 70, 71, 9_000];
        run.plan.targets[0].path = "a".into();
        run.plan.targets.truncate(1);
        assert_eq!(
            text(&run, &[0]),
            "fio version 3 iolog\n0 a add\n0 a open\n3 a write 0 4096\n70 a write 4096 4096\n\
             71 a datasync 0 0\n9000 a write 8192 4096\n9000 a close\n"
        );
        assert!(is_iolog(&text(&run, &[])) && !is_iolog("1, 2, 0, 0, 0\n"));
    }
}
