//! The load of a run in one line, in fio's terms.

use std::fmt::Write;

use iosonde_model::plan::{IoKind, Job, Order, Stop};
use iosonde_model::record::run::Run;
use iosonde_model::units::bytes;

/// `iosonde: rw=randread, bs=4k, iodepth=32, numjobs=4, runtime=10s`
pub(super) fn headline(run: &Run) -> String {
    let mut text = format!("iosonde: {}", settings(&run.plan.jobs));
    match run.plan.stop {
        Stop::AfterBytes(length) => {
            let _ = write!(text, ", io_size={}", bytes::rough(length));
        }
        Stop::AfterNs(ns) => {
            let _ = write!(text, ", runtime={}", seconds(ns));
        }
        Stop::AfterNsOrBytes(ns, length) => {
            let _ = write!(text, ", runtime={} or io_size={}", seconds(ns), bytes::rough(length));
        }
        Stop::AfterOps(ops) => {
            let _ = write!(text, ", number_ios={ops}");
        }
        Stop::AfterOnePass => text.push_str(", one pass"),
        Stop::EachJob => text.push_str(", each job to its own end"),
    }
    if run.plan.warmup_ns > 0 {
        let _ = write!(text, ", ramp_time={}", seconds(run.plan.warmup_ns));
    }
    text
}

/// `rw=randread, bs=4k, iodepth=32, numjobs=4`
pub(crate) fn settings(jobs: &[Job]) -> String {
    let depth = same(jobs, |job| job.iodepth.to_string());
    let [rw, bs] = [same(jobs, rw), same(jobs, sizes)];
    format!("rw={rw}, bs={bs}, iodepth={depth}, numjobs={}", jobs.len())
}

/// The value that all jobs share, or `mixed`.
fn same(jobs: &[Job], of: impl Fn(&Job) -> String) -> String {
    let Some(first) = jobs.first().map(&of) else { return "none".into() };
    if jobs.iter().all(|job| of(job) == first) { first } else { "mixed".into() }
}

/// fio's word for a job's direction and order.
pub(crate) fn rw(job: &Job) -> String {
    let random = !matches!(job.order, Order::Sequential { .. });
    match (random, job.read_percent) {
        (true, _) if job.trims => "randtrim",
        (false, _) if job.trims => "trim",
        (true, 100) => "randread",
        (true, 0) => "randwrite",
        (true, _) => "randrw",
        (false, 100) => "read",
        (false, 0) => "write",
        (false, _) => "rw",
    }
    .into()
}

/// The block size, or the smallest and the largest if sizes vary.
fn sizes(job: &Job) -> String {
    let ways = [
        (IoKind::Read, job.reads()),
        (IoKind::Write, job.writes_data()),
        (IoKind::Trim, job.trims),
    ];
    let ranges = ways.iter().filter(|(_, used)| *used).map(|(way, _)| job.size_range(*way));
    let low = ranges.clone().map(|(low, _)| low).min().unwrap_or(job.block_bytes);
    let high = ranges.map(|(_, high)| high).max().unwrap_or(job.block_bytes);
    if low == high { size(low) } else { format!("{}-{}", size(low), size(high)) }
}

/// A size in the notation of options: `4k`, `1m`, `512`.
pub(crate) fn size(bytes: u64) -> String {
    for (scale, unit) in [(1u64 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")] {
        if bytes >= scale && bytes.is_multiple_of(scale) {
            return format!("{}{unit}", bytes / scale);
        }
    }
    bytes.to_string()
}

/// Seconds, rounded to a millisecond unless the time is shorter.
fn seconds(ns: u64) -> String {
    let ns = if ns < 1_000_000 { ns } else { (ns + 500_000) / 1_000_000 * 1_000_000 };
    format!("{}s", ns as f64 / 1e9)
}
