//! The figures of a verifier run, over all its jobs.

use std::collections::BTreeMap;

use serde::Serialize;

use iosonde_model::content::classify::Class;
use iosonde_model::record::verify::{Failure, Reread, VerifyJobRun, VerifyRun};
use iosonde_stats::{Histogram, Quantile};

/// The figures of a verifier run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VerifyFigures {
    /// Length of a block, bytes.
    pub block_bytes: u64,
    pub region_blocks: u64,
    /// Operations submitted.
    pub ops: u64,
    /// Blocks changed at least once.
    pub changed_blocks: u64,
    /// Reads of a block with required content that were checked.
    pub checked: u64,
    /// Checked reads during which a change was pending, so that several contents were valid.
    pub uncertain: u64,
    /// Reads of a block without required content.
    pub unrequired: u64,
    /// Blocks read and checked in the final read back.
    pub swept_blocks: u64,
    /// Blocks planned for the final read back.
    pub sweep_blocks: u64,
    /// Blocks that could not be read.
    pub unreadable_blocks: u64,
    /// Blocks with unexpected content, by kind of failure.
    pub failed_blocks: BTreeMap<Class, u64>,
    /// Failures recorded in detail whose second read was right: only the first read was wrong.
    pub transient_blocks: u64,
    /// Blocks of runs later than the ledger's; they are not failures.
    pub newer_blocks: u64,
    pub written_bytes: u64,
    pub read_bytes: u64,
    pub trimmed_bytes: u64,
    /// Acknowledged flushes.
    pub flushes: u64,
    /// Requests that failed, by operation and errno.
    pub errors: BTreeMap<String, u64>,
    /// The first error of the first job with one: offset, bytes, errno.
    pub first_error: Option<(u64, u64, String)>,
    /// Short transfers that were continued.
    pub short_transfers: u64,
    /// Requests that did not complete.
    pub abandoned: u64,
    /// Time of the slowest job until everything was written and flushed, ns.
    pub churn_ns: u64,
    /// Time of the slowest job for reading everything back, ns.
    pub sweep_ns: u64,
    /// Throughput of writing, flushes included, bytes per second.
    pub written_bytes_per_s: Option<f64>,
    /// Throughput of reading everything back, bytes per second.
    pub swept_bytes_per_s: Option<f64>,
    /// Read latency, ns: median, 99th percentile, maximum. A percentile of too few reads is `None`.
    pub read_latency_ns: Option<[Option<u64>; 3]>,
    /// Write latency, as above.
    pub write_latency_ns: Option<[Option<u64>; 3]>,
    /// Flush latency, as above.
    pub flush_latency_ns: Option<[Option<u64>; 3]>,
    /// CPU time of the jobs' threads, ns.
    pub cpu_ns: u64,
    /// CPU time of the whole process per GiB written or read, ns.
    pub cpu_ns_per_gib: Option<f64>,
    /// System calls for I/O.
    pub syscalls: u64,
}

impl VerifyFigures {
    /// Blocks with unexpected content.
    pub fn failed(&self) -> u64 {
        self.failed_blocks.values().sum()
    }

    /// Requests that failed.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// Whether another run wrote the block after the ledger was created; not a fault of the storage.
pub(super) fn is_of_newer_run(run: &VerifyRun, failure: &Failure) -> bool {
    let Some(ledger) = &run.ledger else { return false };
    failure.misfit.class == Class::OldRun
        && failure.misfit.label.is_some_and(|label| label.time_ns > ledger.created_unix_ns)
}

/// Sums up a run.
pub(super) fn figures(run: &VerifyRun) -> VerifyFigures {
    let sum = |of: fn(&VerifyJobRun) -> u64| run.jobs.iter().map(of).sum::<u64>();
    let most = |of: fn(&VerifyJobRun) -> u64| run.jobs.iter().map(of).max().unwrap_or(0);
    let mut figures = VerifyFigures {
        block_bytes: run.plan.block_bytes.into(),
        region_blocks: run.plan.blocks(),
        ops: sum(|job| job.ops),
        changed_blocks: sum(|job| job.changed_blocks),
        checked: sum(|job| job.checked),
        uncertain: sum(|job| job.uncertain),
        unrequired: sum(|job| job.unrequired),
        swept_blocks: sum(|job| job.swept_blocks),
        // Taken from the plan: a job that was stopped early has not determined what to read.
        sweep_blocks: if run.plan.mode.sweeps() { run.plan.blocks() } else { 0 },
        unreadable_blocks: sum(|job| job.unreadable_blocks),
        written_bytes: sum(|job| job.written_bytes),
        read_bytes: sum(|job| job.read_bytes),
        trimmed_bytes: sum(|job| job.trimmed_bytes),
        flushes: sum(|job| job.flushes),
        first_error: run.jobs.iter().find_map(|job| job.first_error.clone()),
        short_transfers: sum(|job| job.short_transfers),
        abandoned: sum(|job| job.abandoned.into()),
        churn_ns: most(|job| job.churn_ns),
        sweep_ns: most(|job| job.sweep_ns),
        read_latency_ns: latency(run, |job| &job.read_latency),
        write_latency_ns: latency(run, |job| &job.write_latency),
        flush_latency_ns: latency(run, |job| &job.flush_latency),
        cpu_ns: sum(|job| job.cpu_user_ns + job.cpu_system_ns),
        syscalls: sum(|job| job.syscalls),
        ..VerifyFigures::default()
    };
    for job in &run.jobs {
        count_failures(run, job, &mut figures);
        for (error, count) in &job.errors {
            *figures.errors.entry(error.clone()).or_default() += count;
        }
    }
    figures.written_bytes_per_s = rate(figures.written_bytes, figures.churn_ns);
    let swept_bytes = figures.swept_blocks * figures.block_bytes;
    figures.swept_bytes_per_s = rate(swept_bytes, figures.sweep_ns);
    let gib = (figures.written_bytes + figures.read_bytes) as f64 / f64::from(1 << 30);
    let all_cpu_ns = (run.process.cpu_user_ns + run.process.cpu_system_ns).max(figures.cpu_ns);
    figures.cpu_ns_per_gib = (gib > 0.0 && all_cpu_ns > 0).then(|| all_cpu_ns as f64 / gib);
    figures
}

/// Adds the counts of one job. If all detailed failures with blocks of other runs are of later
/// runs, those without details count as such too.
fn count_failures(run: &VerifyRun, job: &VerifyJobRun, figures: &mut VerifyFigures) {
    let newer = job.failures.iter().filter(|failure| is_of_newer_run(run, failure)).count() as u64;
    let is_other = |failure: &&Failure| failure.misfit.class == Class::OldRun;
    let of_other_runs = job.failures.iter().filter(is_other).count() as u64;
    for (class, count) in &job.failed_blocks {
        let newer = match (*class == Class::OldRun, newer == of_other_runs && newer > 0) {
            (true, true) => *count,
            (true, false) => newer.min(*count),
            _ => 0,
        };
        figures.newer_blocks += newer;
        if *count > newer {
            *figures.failed_blocks.entry(*class).or_default() += count - newer;
        }
    }
    let was_wrong =
        |failure: &&Failure| failure.reread == Reread::Right && !is_of_newer_run(run, failure);
    figures.transient_blocks += job.failures.iter().filter(was_wrong).count() as u64;
}

fn rate(bytes: u64, ns: u64) -> Option<f64> {
    (bytes > 0 && ns > 0).then(|| bytes as f64 * 1e9 / ns as f64)
}

fn latency(run: &VerifyRun, of: fn(&VerifyJobRun) -> &Histogram) -> Option<[Option<u64>; 3]> {
    let all = Histogram::of_all(run.jobs.iter().map(of));
    let percentile = |q| Quantile::of(&all, q).value_ns();
    all.max().map(|max| [percentile(0.5), percentile(0.99), Some(max)])
}
