//! What the jobs of a group share, because a run has one of it: engine, page cache, seed, what
//! follows an error.

use super::super::job::{FioJob, Group};
use super::super::{Fault, Faults, load, shown};
use super::{EngineRequest, LogRequest};
use crate::spec::EngineKind;
use crate::units::count;

/// fio's seed where nothing else is asked.
const SEED: u64 = 0x89;
/// Engines of fio that are not ours.
const OTHER_ENGINES: &str = "vsync mmap splice netsplice sg net cpuio rdma e4defrag \
    falloc ftruncate gfapi gfapi_async pmemblk dev-dax filecreate filestat filedelete dircreate \
    dirstat dirdelete libpmem nbd mtd rados rbd http libzbc libiscsi libcufile libhipfile dfs nfs \
    ime xnvme libblkio io_uring_cmd windowsaio solarisaio libhdfs";

/// What all jobs of a group have to agree on.
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
    match agreed {
        Some((value, _)) => Ok(value),
        None => Err(Faults(Vec::new())),
    }
}

pub(super) fn engine(job: &FioJob) -> Result<EngineRequest, Fault> {
    let requested = load::engine(job);
    if let Some(kind) = EngineKind::of_fio(requested) {
        return Ok(EngineRequest {
            kind,
            hipri: job.flag("hipri") == Some(true),
            sqpoll: job.flag("sqthread_poll") == Some(true),
            registered_files: job.flag("registerfiles"),
            fixed_buffers: job.flag("fixedbufs"),
            vectored: job.flag("nonvectored") == Some(false),
        });
    }
    let what = match requested {
        "exec" => "exec runs a program, which is not done here".into(),
        "cpuio" => "cpuio burns processor time and does no I/O".into(),
        "mmap" => "mmap is not supported: page faults are no requests that could be timed".into(),
        _ if requested.starts_with("external") => {
            "external loads foreign code, which is not done here".into()
        }
        _ => {
            let ours: Vec<&str> = EngineKind::fio_names().collect();
            let known = OTHER_ENGINES.split_whitespace().any(|name| name == requested);
            let near = count::nearest(&shown(requested), ours.iter().copied());
            let meant = near.filter(|_| !known).map(|near| format!("; did you mean `{near}`?"));
            format!(
                "{} is not supported, expected one of {}{}",
                shown(requested),
                ours.join(", "),
                meant.unwrap_or_default()
            )
        }
    };
    Err(job.fault("ioengine", what))
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

/// fio repeats its order from run to run unless configured otherwise.
pub(super) fn seed(job: &FioJob) -> Option<u64> {
    let repeats = job.flag("randrepeat") != Some(false) || job.flag("allrandrepeat") == Some(true);
    job.count("randseed").or(repeats.then_some(SEED))
}

pub(super) fn continues(job: &FioJob) -> Result<bool, Fault> {
    let rw = load::rw(job)?;
    let reads_only = matches!(rw.word(), "read" | "randread");
    match job.word("continue_on_error").map_or("none", |(word, _)| word) {
        "none" | "0" => Ok(false),
        "all" | "1" | "io" => Ok(true),
        "read" if reads_only => Ok(true),
        "write" if !reads_only && !rw.is_mixed() => Ok(true),
        word => Err(job.fault(
            "continue_on_error",
            format!("{word} with rw={rw} is not supported; expected none, io or all"),
        )),
    }
}

pub(super) fn logs(job: &FioJob) -> Vec<LogRequest> {
    let options = ["write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log"];
    let given = options.into_iter().filter_map(|option| {
        let prefix = job.text(option)?;
        let prefix = if prefix.is_empty() { job.name.as_str() } else { prefix };
        Some(LogRequest { option, prefix: prefix.into(), place: job.place(option).clone() })
    });
    given.collect()
}
