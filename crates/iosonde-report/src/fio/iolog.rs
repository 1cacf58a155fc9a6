//! fio's log of operations, version 2: their order without times. A plan determines the operations
//! of its jobs, so that none was recorded while they ran.

use std::fmt::Write;

use iosonde_model::plan::{IoKind, Job, OpStream, Stop, SyncCall};
use iosonde_model::record::run::Run;

const HEAD: &str = "fio version 2 iolog";

/// Whether a file of this beginning is such a log.
pub fn is_iolog(text: &str) -> bool {
    text.starts_with("fio version ") && text.lines().next().is_some_and(|l| l.ends_with(" iolog"))
}

/// The log of these jobs of a run, one after another.
pub fn text(run: &Run, jobs: &[usize]) -> String {
    let mut text = format!("{HEAD}\n");
    for act in ["add", "open"] {
        for target in &run.plan.targets {
            let _ = writeln!(text, "{} {act}", target.path);
        }
    }
    for index in jobs {
        let (Some(job), Some(done)) = (run.plan.jobs.get(*index), run.jobs.get(*index)) else {
            continue;
        };
        of_job(&mut text, run, job, done.read.ops + done.write.ops + done.trim.ops);
    }
    for target in &run.plan.targets {
        let _ = writeln!(text, "{} close", target.path);
    }
    text
}

/// The first operations of a job, as many as were done, with the syncs that follow them.
fn of_job(text: &mut String, run: &Run, job: &Job, done: u64) {
    let sync = match job.sync.call {
        SyncCall::Fsync => "sync",
        SyncCall::Fdatasync => "datasync",
    };
    let path = |target: u16| run.plan.targets.get(usize::from(target)).map_or("", |t| &t.path);
    let synced: Vec<u16> = if job.targets.is_empty() { vec![0] } else { job.targets.clone() };
    let mut stream = OpStream::new(job, Stop::AfterNs(u64::MAX));
    let (mut moved, mut writes) = (0, 0);
    while moved < done {
        let Some(op) = stream.next_op() else { break };
        let word = if op.way == IoKind::Sync { sync } else { op.way.word() };
        let _ = writeln!(text, "{} {word} {} {}", path(op.target), op.offset, op.bytes);
        moved += u64::from(op.way != IoKind::Sync);
        writes += u64::from(op.way == IoKind::Write);
        if op.way == IoKind::Write
            && job.sync.every_writes > 0
            && writes % job.sync.every_writes == 0
        {
            for target in &synced {
                let _ = writeln!(text, "{} {sync} {} 0", path(*target), job.region_start);
            }
        }
    }
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
        (run.jobs[0].read.ops, run.jobs[0].write.ops) = (0, 3);
        run.plan.targets[0].path = "a".into();
        run.plan.targets.truncate(1);
        assert_eq!(
            text(&run, &[0]),
            "fio version 2 iolog\na add\na open\na write 0 4096\na write 4096 4096\n\
             a datasync 0 0\na write 8192 4096\na close\n"
        );
        assert!(is_iolog(&text(&run, &[])) && !is_iolog("1, 2, 0, 0, 0\n"));
    }
}
