//! Options without effect in their context: fio accepts them silently, and we note them.

use std::collections::BTreeMap;

use super::job::FioJob;
use super::load::{engine, rw, verifies};
use super::value::Value;
use super::{Fault, Place};
use crate::spec::{EngineKind, Rw};

/// Lines without effect on any job that they reach. A line of a global section has an effect if it
/// affects one job.
pub(super) fn ineffective<'a>(jobs: impl Iterator<Item = &'a FioJob>) -> Vec<Fault> {
    let mut lines: BTreeMap<(Place, &str), Option<String>> = BTreeMap::new();
    for job in jobs {
        let idle: BTreeMap<&str, String> = idle(job).into_iter().collect();
        for setting in job.settings() {
            let why = idle.get(setting.entry.name);
            let why = why.map(|why| format!("{} has no effect {why}", setting.entry.name));
            lines
                .entry((setting.place.clone(), setting.entry.name))
                .and_modify(|so_far| {
                    if why.is_none() {
                        *so_far = None;
                    }
                })
                .or_insert(why);
        }
    }
    let idle = lines.into_iter();
    idle.filter_map(|((place, _), why)| why.map(|what| Fault { place, what })).collect()
}

/// The options without effect on this job, and why.
fn idle(job: &FioJob) -> Vec<(&'static str, String)> {
    // The reader of `rw` reports an invalid value.
    let Ok(rw) = rw(job) else { return Vec::new() };
    let with_rw = format!("with rw={rw}");
    let writes = rw.is_mixed() || matches!(rw, Rw::Write | Rw::RandWrite);
    let engine = engine(job);
    let with_engine = format!("with ioengine={engine}");
    let ring = EngineKind::of_fio(engine).is_some_and(EngineKind::is_uring);
    let commands = engine == EngineKind::IoUringCmd.name();
    let queue = !EngineKind::of_fio(engine).is_some_and(EngineKind::is_synchronous);
    let rated = ["rate", "rate_iops"].iter().any(|name| job.get(name).is_some());
    let files = job.text("filename").map(|names| 1 + names.matches(':').count() as u64);
    let clones = job.count("numjobs").unwrap_or(1);
    let timed = job.is_on("time_based");
    let logged = ["write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log"]
        .iter()
        .any(|name| job.get(name).is_some());
    let more_than_one = |name: &str| job.count(name).is_some_and(|count| count > 1);
    let mut idle = Vec::new();
    let mut tell = |names: &[&'static str], found: bool, why: &str| {
        if found {
            idle.extend(
                names.iter().filter(|name| says(job, name)).map(|name| (*name, why.to_owned())),
            );
        }
    };
    tell(&["rwmixread", "rwmixwrite"], !rw.is_mixed(), &with_rw);
    let of_random = ["random_distribution", "norandommap", "percentage_random", "ba"];
    tell(&of_random, !rw.is_random(), &with_rw);
    tell(&["fsync", "fdatasync", "sync", "atomic"], !writes, &with_rw);
    tell(&["verify_pattern"], !verifies(job), "without verification");
    let set = job.has_word("dedupe_mode", "working_set");
    tell(
        &["dedupe_working_set_percentage", "dedupe_global"],
        !set,
        "without dedupe_mode=working_set",
    );
    let is_sequence = job.has_word("random_distribution", "sequence");
    tell(&["random_sequence_stride"], !is_sequence, "without a sequence");
    let of_data =
        ["zero_buffers", "refill_buffers", "buffer_compress_percentage", "dedupe_percentage"];
    tell(&of_data, !writes, &with_rw);
    tell(
        &["iodepth_batch", "iodepth_batch_complete_min", "iodepth_low"],
        !queue,
        &format!("{with_engine}, which has one request in flight"),
    );
    tell(
        &["fixedbufs", "registerfiles", "sqthread_poll", "nonvectored", "hipri"],
        !ring,
        &with_engine,
    );
    tell(&["cmd_type"], !commands, &with_engine);
    tell(&["buffered"], commands, "with NVMe commands, which bypass the page cache");
    let polls = ring && job.is_on("sqthread_poll");
    tell(&["sqthread_poll_cpu"], !polls, "without sqthread_poll of io_uring");
    let prioritised = ["cmdprio_percentage", "cmdprio_bssplit"];
    let of_requests = [prioritised[0], prioritised[1], "cmdprio_class", "cmdprio", "cmdprio_hint"];
    tell(&of_requests, !matches!(engine, "io_uring" | "libaio"), &with_engine);
    tell(
        &of_requests[2..],
        !prioritised.iter().any(|name| says(job, name)),
        "without cmdprio_percentage or cmdprio_bssplit",
    );
    tell(
        &["thinktime_blocks", "thinktime_blocks_type"],
        job.time_ns("thinktime").unwrap_or(0) == 0,
        "without thinktime",
    );
    tell(&["rate_process"], !rated, "without rate or rate_iops");
    let least = ["rate_min", "rate_iops_min"].iter().any(|name| job.get(name).is_some());
    tell(&["rate_cycle"], !least, "without rate_min or rate_iops_min");
    let settles = job.time_ns("steadystate_duration").unwrap_or(0) > 0;
    let of_settling = ["steadystate", "steadystate_ramp_time", "steadystate_check_interval"];
    tell(&of_settling, !settles, "without steadystate_duration");
    tell(&["exit_what"], !job.is_on("exitall"), "without exitall");
    tell(&["flow_id", "flow_sleep"], job.count("flow").unwrap_or(0) == 0, "without flow");
    tell(&["offset_increment"], clones == 1, "with numjobs=1");
    tell(&["time_based"], job.time_ns("runtime").unwrap_or(0) == 0, "without runtime");
    tell(&["loops"], timed && more_than_one("loops"), "with time_based");
    tell(
        &["nrfiles"],
        files.is_some_and(|files| job.count("nrfiles") != Some(files)),
        "beside filename, which names the files",
    );
    tell(&["cpus_allowed_policy"], job.get("cpus_allowed").is_none(), "without cpus_allowed");
    let of_logs = ["log_avg_msec", "log_max_value", "log_offset", "log_unix_epoch"];
    tell(&of_logs, !logged, "without a log");
    tell(&["bs", "bsrange"], job.get("bssplit").is_some(), "beside bssplit, which fio prefers");
    tell(&["bs"], job.get("bsrange").is_some(), "beside bsrange, which fio prefers");
    idle
}

/// Whether an option requests something: absent, off, 0 and `none` do not.
fn says(job: &FioJob, name: &str) -> bool {
    match job.value(name) {
        None | Some(Value::Bool(false) | Value::Count(0) | Value::Word("none" | "0", _)) => false,
        // 1 is the default of the excluded options.
        Some(Value::Count(1)) => !name.starts_with("iodepth_batch") && name != "nrfiles",
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::job::testing::read;

    #[test]
    fn an_option_without_effect_is_named_with_its_line() {
        for (lines, expected) in [
            (
                "rw=randread\nrwmixread=70\n",
                "job.fio:4: [a] rwmixread has no effect with rw=randread",
            ),
            ("rw=read\nrandom_distribution=zipf\n", "random_distribution has no effect"),
            ("rw=write\nnorandommap\n", "norandommap has no effect with rw=write"),
            ("rw=randread\nfsync=1\n", "fsync has no effect with rw=randread"),
            ("ioengine=psync\niodepth_batch=8\n", "iodepth_batch has no effect with ioengine"),
            ("ioengine=libaio\nfixedbufs\n", "fixedbufs has no effect with ioengine=libaio"),
            ("ioengine=libaio\ncmd_type=nvme\n", "cmd_type has no effect with ioengine=libaio"),
            ("ioengine=io_uring_cmd\nbuffered=1\n", "buffered has no effect with NVMe commands"),
            ("bsrange=4k-8k\nbs=4k\n", "bs has no effect beside bsrange"),
            ("bsrange=4k-8k\nbssplit=4k/50:8k/50\n", "bsrange has no effect beside bssplit"),
            ("time_based\n", "time_based has no effect without runtime"),
            (
                "verify=none\nverify_pattern=1\n",
                "verify_pattern has no effect without verification",
            ),
            ("rate_process=poisson\n", "rate_process has no effect without rate"),
            ("steadystate=iops:2\n", "steadystate has no effect without steadystate_duration"),
            ("flow_sleep=20\n", "flow_sleep has no effect without flow"),
            ("rate_cycle=20\n", "rate_cycle has no effect without rate_min"),
            ("offset_increment=1m\n", "offset_increment has no effect with numjobs=1"),
            ("filename=/a:/b\nnrfiles=3\n", "nrfiles has no effect beside filename"),
            ("thinktime_blocks=4\n", "thinktime_blocks has no effect without thinktime"),
            ("log_avg_msec=500\n", "log_avg_msec has no effect without a log"),
        ] {
            let notes = read(&format!("[a]\nsize=1m\n{lines}")).unwrap().notes;
            assert!(notes[0].contains(expected) && notes.len() == 1, "{notes:?}");
        }
    }

    #[test]
    fn a_global_line_needs_to_concern_one_job() {
        let mixed = "[global]\nsize=1m\nrwmixread=70\n[a]\nrw=randread\n[b]\nrw=randrw\n";
        assert!(read(mixed).unwrap().notes.is_empty());
        let none = "[global]\nsize=1m\nrwmixread=70\n[a]\nrw=randread\n[b]\nrw=randwrite\n";
        assert!(read(none).unwrap().notes[0].starts_with("job.fio:3: [global] rwmixread"));
    }
}
