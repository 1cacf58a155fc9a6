//! Steps before and after the jobs of a group: reading files into the page cache, and reading back
//! written data.

use crate::cli::exit::{Failure, environment};
use iosonde_engine::engine::waits::Wait;
use iosonde_model::plan::{
    Job, LatencyGoal, Limits, OnError, Pace, Plan, PrecisionGoal, Span, Stop, Sync, Think,
};
use iosonde_model::record::run::Run;
use iosonde_model::spec::fio::Asking;

/// Plan that reads back what jobs with `verify` wrote; `None` without such jobs.
pub(super) fn verification(plan: &Plan, asking: &Asking, written: Option<&Run>) -> Option<Plan> {
    let verified = asking.verified();
    let mut jobs = Vec::new();
    for (index, job) in plan.jobs.iter().enumerate() {
        if !verified.contains(&job.role.as_str()) {
            continue;
        }
        let done = written.and_then(|run| run.jobs.get(index));
        let ops = done.map(|done| done.read.ops + done.write.ops);
        let stop = match (plan.stop_of(job), ops) {
            // Half of its operations are trims.
            (Stop::AfterBytes(bytes), _) if job.rewrites => Stop::AfterBytes(bytes / 2),
            (Stop::AfterOps(ops), _) if job.rewrites => Stop::AfterOps(ops / 2),
            // Time ended the job: only the part that it reached is read, and each block once.
            (Stop::AfterNs(_) | Stop::AfterNsOrBytes(..), Some(ops)) => {
                let files = job.targets.len().max(1) as u64;
                let once = (job.region_bytes / job.block_bytes.max(1)).saturating_mul(files);
                if ops < once { Stop::AfterOps(ops) } else { Stop::AfterOnePass }
            }
            (Stop::AfterNs(_) | Stop::AfterNsOrBytes(..), None) => Stop::AfterOnePass,
            (stop, _) => stop,
        };
        jobs.push(Job {
            rereads: true,
            trims: false,
            rewrites: false,
            sync: Sync::default(),
            pace: Pace::default(),
            think: Think::default(),
            limits: Limits::default(),
            flow: None,
            span: Span { stop: Some(stop), ..Span::default() },
            ..job.clone()
        });
    }
    let nothing = jobs.is_empty();
    (!nothing).then(|| Plan {
        name: format!("{}-verify", plan.name),
        title: format!("{} (verify)", plan.title),
        pattern: "verify".into(),
        nominal_read_percent: 100,
        warmup_ns: 0,
        stop: Stop::EachJob,
        latency: LatencyGoal::None,
        until: PrecisionGoal::None,
        on_error: OnError::Continue,
        final_sync: false,
        jobs,
        ..plan.clone()
    })
}

/// Reads a file into the page cache.
pub(super) fn pre_read(path: &str) -> Result<(), Failure> {
    let reading = Wait::begin("reading before the run", path);
    let read = std::fs::File::open(path)
        .and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
    drop(reading);
    match read {
        Ok(_) => Ok(()),
        Err(error) => Err(environment(format!("pre_read: `{path}`: {error}"))),
    }
}
