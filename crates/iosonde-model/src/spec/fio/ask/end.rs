//! When a job ends. fio ends each job by itself, a run ends all of them together; so the jobs of a
//! group have to agree, or to go over their regions once.

use super::super::job::FioJob;
use super::super::number::Amount;
use super::super::{Fault, Faults, shown};
use crate::spec::{Access, Role, Sizes};

/// When a run ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StopRequest {
    /// After this many ns of measuring.
    AfterNs(u64),
    /// When every job has done this many operations.
    AfterOps(u64),
    /// When every job has moved this many bytes.
    AfterBytes(u64),
    /// When every job has covered its region once.
    AfterOnePass,
    /// After this many ns, or when every job has moved this many bytes, whichever comes first.
    First {
        /// Time, ns.
        ns: u64,
        /// Bytes of each job.
        bytes: u64,
    },
}

/// When one job ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct End {
    stop: StopRequest,
    /// Whether it ends with one pass over its region.
    passes_once: bool,
}

impl End {
    /// When a job ends that covers `region` bytes of each of `files` files. One that leaves holes
    /// wraps round at the end of the file, and only there: elsewhere it ends after one pass.
    pub(super) fn of(
        job: &FioJob,
        role: &Role,
        (region, files): (u64, u64),
        wraps: bool,
        in_bytes: impl Fn(Amount) -> u64,
    ) -> Result<End, Fault> {
        let ns = job.time_ns("runtime").filter(|ns| *ns > 0);
        let loops = job.count("loops").unwrap_or(1).max(1);
        let too_much = || job.fault("loops", "the bytes of all loops exceed 64 bits");
        let whole = region.checked_mul(files).ok_or_else(too_much)?;
        let once = match job.amount("io_size") {
            Some(Amount::Percent(percent)) => in_bytes(Amount::Percent(percent)),
            Some(Amount::Bytes(bytes)) if bytes > 0 => bytes,
            _ => whole,
        };
        let bytes = once.checked_mul(loops).ok_or_else(too_much)?;
        let plain = role.sizes == Sizes::default() && role.access == Access::Permutation;
        let holed = role.stride.is_some() && wraps;
        let passes_once = plain && once == whole && loops == 1 && !holed;
        let timed = job.flag("time_based") == Some(true);
        if ns.is_none() && job.time_ns("ramp_time").unwrap_or(0) > 0 {
            let what = "the warm-up would use up the count that ends the run; give runtime";
            return Err(job.fault("ramp_time", what));
        }
        if let Some(ops) = job.count("number_ios").filter(|ops| *ops > 0) {
            if ns.is_some() {
                let what = "stands beside runtime; give one of them";
                return Err(job.fault("number_ios", what));
            }
            let block = role.block_size.unwrap_or(1).max(1);
            if role.sizes != Sizes::default() && ops.saturating_mul(block) > bytes {
                let what = "the job may end sooner, with its size; give a larger size";
                return Err(job.fault("number_ios", what));
            }
            let stop = StopRequest::AfterOps(ops.min(bytes / block));
            return Ok(End { stop, passes_once: false });
        }
        let stop = match ns {
            Some(ns) if timed => StopRequest::AfterNs(ns),
            Some(ns) => StopRequest::First { ns, bytes },
            None => StopRequest::AfterBytes(bytes),
        };
        let passes_once = passes_once && ns.is_none();
        Ok(End { stop, passes_once })
    }
}

/// The end on which all jobs agree.
pub(super) fn of_all(ends: &[(&FioJob, End)]) -> Result<StopRequest, Faults> {
    let Some(((first, end), others)) = ends.split_first() else { return Err(Faults(Vec::new())) };
    let odd = others.iter().find(|(_, other)| other.stop != end.stop);
    match odd {
        None if end.passes_once => Ok(StopRequest::AfterOnePass),
        None => Ok(end.stop),
        Some(_) if ends.iter().all(|(_, end)| end.passes_once) => Ok(StopRequest::AfterOnePass),
        Some((job, _)) => {
            let name = ["runtime", "number_ios", "io_size", "loops", "size"]
                .into_iter()
                .find(|name| job.get(name).is_some())
                .unwrap_or("size");
            let what = format!(
                "jobs `{}` and `{}` run at the same time and do not end together; give both the \
                 same runtime and time_based, or put them into groups with stonewall",
                shown(&first.name),
                shown(&job.name)
            );
            Err(job.fault(name, what).into())
        }
    }
}
