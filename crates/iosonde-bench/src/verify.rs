//! Verification compared with fio's, and with the same load without verification.

use std::fmt::Write as _;

use iosonde_model::record::VerifyRun;
use iosonde_stats::ratio::median;
use serde_json::Value;

use crate::case::CaseName;
use crate::numbers::{ratio, spread};
use crate::parse::Reported;
use crate::rounds::{CaseResult, Sample};
use crate::summary::{column, ratio_in_rounds};

/// Length of a block, which has its own checksum; the unit of all counts here.
const BLOCK_BYTES: u64 = 4096;
/// Blocks of an operation of `flush`: 64 KiB.
const BLOCKS: u32 = 16;

/// Engine and `direct` flag for this depth.
fn way(depth: u32) -> (&'static str, u8) {
    if depth == 1 { ("psync", 0) } else { ("io_uring", 1) }
}

/// `iosonde verify flush`: everything is written once, flushed and read back.
pub(crate) fn iosonde_words(bytes: u64, depth: u32) -> String {
    let (engine, direct) = way(depth);
    format!(
        "verify flush --path FILE --overwrite-file FILE --size {bytes} --bs 4k --verify-sectors \
         {BLOCKS}:{BLOCKS} --ioengine {engine} --iodepth {depth} --direct {direct} --randseed 1 \
         --eta-interval 0"
    )
}

/// The same work by fio.
pub(crate) fn fio_words(bytes: u64, depth: u32) -> String {
    let (engine, direct) = way(depth);
    format!(
        "--name=a --filename=FILE --size={bytes} --rw=write --bs=64k --verify=crc32c \
         --verify_interval={BLOCK_BYTES} --do_verify=1 --verify_fatal=1 --verify_state_save=0 \
         --ioengine={engine} --iodepth={depth} --direct={direct} --thread=1 --output-format=json"
    )
}

/// `iosonde verify soak`: half reads, half writes, one block each; then everything is read back.
pub(crate) fn soak_words(bytes: u64, depth: u32, seconds: f64) -> String {
    format!(
        "verify soak --path FILE --overwrite-file FILE --size {bytes} --bs 4k --verify-sectors \
         1:1 --read-percent 50 --trim-percent 0 --flush-every 0 --iodepth {depth} --runtime \
         {seconds} --randseed 1 --eta-interval 0"
    )
}

/// The load of a soak without verification.
pub(crate) fn plain_words(bytes: u64, depth: u32, seconds: f64) -> String {
    format!(
        "run --path FILE --overwrite-file FILE --size {bytes} --rw randrw --rwmixread 50 --bs 4k \
         --iodepth {depth} --runtime {seconds} --ioengine io_uring --output-format json"
    )
}

/// Returns the record of a run if everything was read back intact.
fn sound(record: &str) -> Option<VerifyRun> {
    let run: VerifyRun = serde_json::from_str(record).ok()?;
    let is_sound = |job: &iosonde_model::record::VerifyJobRun| {
        job.swept_blocks == job.sweep_blocks && job.swept_blocks > 0 && job.failed_blocks.is_empty()
    };
    run.jobs.iter().all(is_sound).then_some(run)
}

/// From a record of `verify flush`: blocks written, read back and verified per second, and the CPU
/// time of the job.
pub(crate) fn flushed(record: &str) -> Option<Reported> {
    let run = sound(record)?;
    let [job] = &run.jobs[..] else { return None };
    let blocks = job.swept_blocks as f64;
    Some(Reported {
        iops: blocks / ((job.churn_ns + job.sweep_ns) as f64 / 1e9),
        ops: Some(blocks),
        cpu_ns: Some((job.cpu_user_ns as f64, job.cpu_system_ns as f64)),
        ..Reported::default()
    })
}

/// From a record of `verify soak`: operations per second before the last flush, which the plain
/// load lacks, and the CPU time of the job over its operations and the blocks read back.
pub(crate) fn soaked(record: &str) -> Option<Reported> {
    let run = sound(record)?;
    let [job] = &run.jobs[..] else { return None };
    let flush_ns = job.flush_latency.max().unwrap_or(0);
    Some(Reported {
        iops: job.ops as f64 / (job.churn_ns.saturating_sub(flush_ns) as f64 / 1e9),
        ops: Some((job.ops + job.swept_blocks) as f64),
        cpu_ns: Some((job.cpu_user_ns as f64, job.cpu_system_ns as f64)),
        ..Reported::default()
    })
}

/// From fio's JSON: the same figures as [`flushed`].
pub(crate) fn fio(text: &str) -> Option<Reported> {
    let document: Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    let number = |name: &str| document.pointer(&format!("/jobs/0/{name}")).and_then(Value::as_f64);
    let bytes = number("read/io_bytes")?;
    if bytes == 0.0 || number("write/io_bytes")? != bytes {
        return None;
    }
    let blocks = bytes / BLOCK_BYTES as f64;
    let job_ns = number("job_runtime")? * 1e6;
    let of_job = |percent: f64| percent / 100.0 * job_ns;
    Some(Reported {
        iops: blocks / ((number("read/runtime")? + number("write/runtime")?) / 1e3),
        ops: Some(blocks),
        cpu_ns: Some((of_job(number("usr_cpu")?), of_job(number("sys_cpu")?))),
        ..Reported::default()
    })
}

/// Bytes verified per ns of wall time, of CPU time, and of its user part.
const FIGURES: [fn(&Sample) -> Option<f64>; 3] = [
    |sample| Some(BLOCK_BYTES as f64 * sample.iops / 1e9),
    |sample| Some(BLOCK_BYTES as f64 / sample.cpu_ns_per_op),
    |sample| Some(BLOCK_BYTES as f64 / sample.user_ns_per_op?),
];

/// The table of a case that verifies.
pub(crate) fn table(case: CaseName, described: &CaseResult) -> String {
    let mut text = "| tool | GB/s | min to max | iosonde / it | GB per CPU second | iosonde / it \
                    | GB per CPU second outside the kernel | iosonde / it |\n\
                    | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    let ours = case.contenders()[0];
    for &kind in case.contenders() {
        let speeds = column(described, kind.title(), FIGURES[0]);
        let Some((low, high)) = spread(&speeds) else { continue };
        let cells = FIGURES.map(|figure| {
            let speed = median(&column(described, kind.title(), figure)).unwrap_or(f64::NAN);
            let against = |sample: &Sample| figure(sample).unwrap_or(f64::NAN);
            (speed, ratio(ratio_in_rounds(described, ours, kind, against)))
        });
        let [(wall, w), (cpu, c), (user, u)] = cells;
        let title = kind.title();
        let _ = writeln!(
            text,
            "| {title} | {wall:.2} | {low:.2} to {high:.2} | {w} | {cpu:.2} | {c} | {user:.2} | \
             {u} |"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn fio_is_believed_where_it_read_back_what_it_wrote() {
        let json = |read: u64| {
            format!(
                "{{\"jobs\":[{{\"job_runtime\":200,\"usr_cpu\":40.0,\"sys_cpu\":50.0,\
                 \"read\":{{\"io_bytes\":{read},\"runtime\":80}},\
                 \"write\":{{\"io_bytes\":40960,\"runtime\":120}}}}]}}"
            )
        };
        let reported = fio(&json(40_960)).unwrap();
        assert_eq!((reported.iops, reported.ops), (50.0, Some(10.0)));
        assert_eq!(reported.cpu_ns, Some((80e6, 100e6)));
        assert_eq!((fio(&json(0)), fio(&json(4096)), fio("")), (None, None, None));
        assert_eq!((flushed("{}"), soaked("")), (None, None));
    }
}
