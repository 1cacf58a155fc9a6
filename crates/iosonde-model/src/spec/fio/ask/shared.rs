//! Properties that a run has only once, so that the jobs of a group share them: engine, page cache,
//! seed, error handling.

use super::super::job::{FioJob, Group};
use super::super::value::Value;
use super::super::{Fault, Faults, foreign, load, shown};
use super::{Asking, EngineRequest, LatencyRequest, LogRequest};
use crate::spec::{EngineKind, LatencyTarget};
use crate::units::count;

/// Shortest time to judge a depth, ns.
const LATENCY_WINDOW_NS: u64 = 1_000_000_000;
/// fio's default seed.
const SEED: u64 = 0x89;
/// The value of the first job, which applies to the run, and whether the jobs differ in it and so
/// keep their own values.
pub(super) fn first_and_own<T: PartialEq>(
    group: &Group,
    one: impl Fn(&FioJob) -> Result<T, Fault>,
) -> Result<(T, bool), Faults> {
    let values = group.jobs.iter().map(one).collect::<Result<Vec<T>, Fault>>()?;
    let differ = values.windows(2).any(|pair| pair[0] != pair[1]);
    values.into_iter().next().map(|first| (first, differ)).ok_or(Faults(Vec::new()))
}

/// A value that must be the same for all jobs of a group.
pub(super) fn the_same<T: PartialEq>(
    group: &Group,
    name: &str,
    one: impl Fn(&FioJob) -> Result<T, Fault>,
) -> Result<T, Faults> {
    let mut agreed: Option<(T, &FioJob)> = None;
    for job in &group.jobs {
        let value = one(job)?;
        if let Some((known, other)) = &agreed
            && *known != value
        {
            let what = format!(
                "jobs `{}` and `{}` run at the same time and differ in it; \
                 put them into groups with stonewall",
                shown(&other.name),
                shown(&job.name)
            );
            return Err(job.fault(name, what).into());
        }
        agreed = Some(agreed.map_or((value, job), |agreed| agreed));
    }
    agreed.map(|(value, _)| value).ok_or(Faults(Vec::new()))
}

pub(super) fn engine(job: &FioJob) -> Result<EngineRequest, Fault> {
    let requested = load::engine(job);
    if let Some(kind) = EngineKind::of_fio(requested) {
        return Ok(EngineRequest {
            kind,
            hipri: job.is_on("hipri"),
            sqpoll: job.is_on("sqthread_poll"),
            sqpoll_cpu: match job.count("sqthread_poll_cpu").map(u32::try_from) {
                None => None,
                Some(Ok(cpu)) => Some(cpu),
                Some(Err(_)) => {
                    return Err(job.fault("sqthread_poll_cpu", "expected the number of a CPU"));
                }
            },
            registered_files: job.flag("registerfiles"),
            fixed_buffers: job.flag("fixedbufs"),
            vectored: job.is_off("nonvectored"),
        });
    }
    let what = match foreign::instead(requested) {
        Some(instead) => format!("{requested} is not supported: {instead}"),
        None => {
            let ours: Vec<&str> = EngineKind::fio_names().collect();
            let meant = count::did_you_mean(&shown(requested), ours.iter().copied());
            format!(
                "{} is not an engine of fio, expected one of {}{}",
                shown(requested),
                ours.join(", "),
                meant
            )
        }
    };
    Err(job.fault("ioengine", what))
}

impl Asking {
    /// Each role's name and its job.
    pub fn jobs(&self) -> impl Iterator<Item = (&str, &FioJob)> {
        self.parts.iter().map(|part| (part.role.name.as_str(), &part.job))
    }
}

/// Checks that a group uses the null engine for all jobs or none.
pub(super) fn on_files_or_on_nothing(group: &Group) -> Result<(), Fault> {
    let is_null = |job: &&FioJob| load::engine(job) == EngineKind::Null.name();
    match (group.jobs.iter().find(is_null), group.jobs.iter().find(|job| !is_null(job))) {
        (Some(null), Some(other)) => {
            let what = format!(
                "null moves no data, and `{}` of the same group does; put them into groups with \
                 stonewall",
                shown(&other.name)
            );
            Err(null.fault("ioengine", what))
        }
        _ => Ok(()),
    }
}

pub(super) fn direct(job: &FioJob) -> Result<bool, Fault> {
    let buffered = job.flag("buffered").map(|buffered| !buffered);
    let direct = match (job.flag("direct"), buffered) {
        (Some(direct), Some(other)) if direct != other => {
            return Err(job.fault("buffered", "contradicts direct; give one of them"));
        }
        (direct, other) => direct.or(other).unwrap_or(false),
    };
    Ok(direct)
}

/// The seed of a job. By default fio repeats its random sequence in every run.
pub(super) fn seed(job: &FioJob) -> Option<u64> {
    let repeats = !job.is_off("randrepeat") || job.is_on("allrandrepeat");
    job.count("randseed").or(repeats.then_some(SEED))
}

/// The latency target of a job.
pub(super) fn latency(job: &FioJob) -> Result<Option<LatencyRequest>, Fault> {
    let Some(limit_ns) = job.time_ns("latency_target").filter(|ns| *ns > 0) else {
        return Ok(None);
    };
    let percentile = match job.value("latency_percentile") {
        Some(Value::Reals(list)) => list.first().copied().unwrap_or(100.0),
        _ => 100.0,
    };
    // fio's 100 % permits no exception, which no number of operations can prove.
    let percentile = percentile.min(99.999);
    if percentile < 50.0 {
        return Err(job.fault("latency_percentile", "expected 50 to 100"));
    }
    let window_ns = job.time_ns("latency_window").unwrap_or(0).max(LATENCY_WINDOW_NS);
    Ok(Some(LatencyRequest {
        target: LatencyTarget { quantile: percentile / 100.0, limit_ns },
        holds: job.is_on("latency_run"),
        window_ns,
    }))
}

/// Checks that the log of operations can be regenerated from the plan and the recorded times. It
/// cannot if the order of reads and writes depends on the run.
fn regenerable(job: &FioJob) -> Result<(), Fault> {
    let rw = load::rw(job)?;
    let rated = ["rate", "rate_iops"].into_iter().any(|name| job.get(name).is_some());
    if !(rated && rw.is_mixed()) {
        return Ok(());
    }
    let what = "with a rate for each direction of a mixed job the run decides which goes first; \
                give a job for each direction";
    Err(job.fault("write_iolog", what))
}

/// The logs of a job with this role.
pub(super) fn logs(job: &FioJob, role: &str) -> Result<Vec<LogRequest>, Fault> {
    let options =
        ["write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "write_iolog"];
    let mut logs = Vec::new();
    for option in options {
        let Some(prefix) = job.text(option) else { continue };
        if option == "write_iolog" {
            regenerable(job)?;
        }
        let of_histograms = option == "write_hist_log";
        let width = if of_histograms { "log_hist_msec" } else { "log_avg_msec" };
        let coarseness = job.count("log_hist_coarseness").unwrap_or(0);
        if coarseness > 6 {
            return Err(job.fault("log_hist_coarseness", "expected 0 to 6"));
        }
        logs.push(LogRequest {
            role: role.into(),
            width_ms: job.count(width).filter(|ms| *ms > 0),
            coarseness: coarseness as u32,
            per_job: !job.is_off("per_job_logs"),
            largest: job.is_on("log_max_value")
                || matches!(job.word("log_window_value"), Some(("max" | "1", _))),
            offset: job.is_on("log_offset"),
            since_1970: job.is_on("log_unix_epoch"),
            option,
            prefix: if prefix.is_empty() { job.name.clone() } else { prefix.into() },
            place: job.place(option).clone(),
        });
    }
    Ok(logs)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::super::job::testing::read;
    use super::super::ask;
    use crate::spec::EngineKind;

    #[test]
    fn commands_are_an_engine_with_the_options_of_a_ring() {
        let job = "[a]\nsize=1m\nfilename=/dev/ng0n1\nioengine=io_uring_cmd\n";
        for more in ["", "cmd_type=nvme\n", "md_per_io_size=0\n", "write_mode=write\n"] {
            let file = read(&format!("{job}{more}fixedbufs=0\nhipri=1\n")).unwrap();
            assert!(file.notes.is_empty(), "{more}: {:?}", file.notes);
            let engine = ask(&file.groups[0]).unwrap().engine.engine();
            assert_eq!(engine.kind, EngineKind::IoUringCmd);
            assert!(engine.iopoll && !engine.fixed_buffers);
        }
        for (refused, why) in [
            ("cmd_type=bsg", "only NVMe commands"),
            ("md_per_io_size=64", "metadata"),
            ("pi_act=1", "metadata"),
            ("apptag=0x888", "metadata"),
            ("write_mode=write/40:uncor/60", "commands are read, write"),
            ("writefua=1", "sync=dsync"),
        ] {
            let fault = read(&format!("{job}{refused}\n")).unwrap_err().to_string();
            assert!(fault.contains(why), "{refused}: {fault}");
        }
    }

    #[test]
    fn commands_and_another_engine_do_not_run_at_the_same_time() {
        let jobs = "size=1m\n[a]\nfilename=/dev/ng0n1\nioengine=io_uring_cmd\n[b]\nfilename=/x\n";
        let file = read(&format!("[global]\n{jobs}")).unwrap();
        let fault = ask(&file.groups[0]).unwrap_err().to_string();
        assert!(fault.contains("ioengine: jobs `a` and `b`"), "{fault}");
        let walled = read(&format!("[global]\n{jobs}stonewall\n")).unwrap();
        assert!(walled.groups.iter().all(|group| ask(group).is_ok()));
    }
}
