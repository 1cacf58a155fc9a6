//! The end of a job and of the run.

use super::super::Fault;
use super::super::job::FioJob;
use super::super::number::Amount;
use crate::spec::{Access, Role, Sizes, Stop, Strides};

/// The end of one job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct End {
    pub(super) stop: Stop,
    /// Whether it ends with one pass over its region.
    passes_once: bool,
}

impl End {
    /// The end of a job that covers `region` bytes of each of `files` files. A job that leaves
    /// holes wraps only at the end of the file, or always if it descends; otherwise it ends after
    /// one pass.
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
        let block = role.block_size.unwrap_or(1).max(1);
        let once = match job.amount("io_size") {
            Some(Amount::Percent(percent)) => in_bytes(Amount::Percent(percent)),
            Some(Amount::Bytes(bytes)) if bytes > 0 => bytes,
            _ => match (job.count("filesize"), job.amount("size")) {
                (Some(_), Some(size)) => in_bytes(size).min(whole),
                _ => whole,
            },
        };
        let once = match role.access {
            // A single pass always writes all flash.
            Access::SinglePass(spare_percent) => {
                let blocks = (whole / block) as f64;
                (blocks * (1.0 + spare_percent / 100.0)).round() as u64 * block
            }
            _ => once,
        };
        let bytes = once.checked_mul(loops).ok_or_else(too_much)?;
        let plain = role.strides == Strides::default()
            && role.run_length.is_none()
            && !role.rw.rewrites()
            && role.sizes == Sizes::default();
        let holed = role.stride.is_some_and(|stride| wraps || stride < 0);
        let covers = match role.access {
            Access::Permutation => plain && once == whole && !holed,
            Access::SinglePass(_) => true,
            _ => false,
        };
        let passes_once = covers && loops == 1;
        let timed = job.is_on("time_based");
        if let Some(ops) = job.count("number_ios").filter(|ops| *ops > 0) {
            let varied = role.sizes != Sizes::default();
            if varied && (ns.is_some() || ops.saturating_mul(block) > bytes) {
                let what = "the job may end sooner, by its size or its time; give one of them";
                return Err(job.fault("number_ios", what));
            }
            if let Some(ns) = ns {
                let bytes = bytes.min(ops.saturating_mul(block));
                return Ok(End { stop: Stop::AfterNsOrBytes(ns, bytes), passes_once: false });
            }
            let stop = Stop::AfterOps(ops.min(bytes / block));
            return Ok(End { stop, passes_once: false });
        }
        let stop = match ns {
            Some(ns) if timed => Stop::AfterNs(ns),
            Some(ns) => Stop::AfterNsOrBytes(ns, bytes),
            None => Stop::AfterBytes(bytes),
        };
        let passes_once = passes_once && ns.is_none();
        Ok(End { stop, passes_once })
    }

    /// The end of a job that repeats a list: the end of the list, or its time.
    pub(super) fn of_list(job: &FioJob, role: &Role) -> End {
        let moving = role.listed.iter().filter(|op| op.bytes > 0);
        let stop = match job.time_ns("runtime").filter(|ns| *ns > 0) {
            Some(ns) => Stop::AfterNsOrBytes(ns, moving.map(|op| u64::from(op.bytes)).sum()),
            None => Stop::AfterOps(moving.count() as u64),
        };
        End { stop, passes_once: false }
    }
}

/// The end of the run: a common end of all jobs, or a separate one of each.
pub(super) fn of_all(ends: &[End]) -> Stop {
    let Some((first, others)) = ends.split_first() else { return Stop::EachJob };
    let agree = others.iter().all(|other| other.stop == first.stop);
    if ends.iter().all(|end| end.passes_once) {
        Stop::AfterOnePass
    } else if agree {
        first.stop
    } else {
        Stop::EachJob
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::super::job::testing::read;
    use super::super::ask;
    use crate::spec::Stop;

    /// The first job's region and end, for a file of this length.
    fn of(lines: &str, file_bytes: u64) -> (u64, Stop) {
        let asking =
            ask(&read(&format!("[a]\nfilename=t.img\n{lines}")).unwrap().groups[0]).unwrap();
        let (workload, stop) = asking.workload(&[file_bytes]).unwrap();
        let role = &workload.roles[0];
        (role.size.unwrap(), role.span.stop.unwrap_or(stop))
    }

    #[test]
    fn a_job_ends_with_the_last_whole_block_whatever_else_may_end_it() {
        const SECOND: u64 = 1_000_000_000;
        for rw in ["read", "randread"] {
            let plain = format!("rw={rw}\nbs=8k\n");
            for (more, expected) in [
                ("runtime=5\n", Stop::AfterNsOrBytes(5 * SECOND, 49_152)),
                ("startdelay=10ms\n", Stop::AfterBytes(49_152)),
                ("loops=2\n", Stop::AfterBytes(98_304)),
            ] {
                assert_eq!(
                    of(&format!("{plain}{more}"), 50_001),
                    (49_152, expected),
                    "{rw} {more}"
                );
            }
        }
        // If the file continues, the last block exceeds the end of the region.
        let (size, stop) = of("rw=read\nbs=8k\nsize=50001\nruntime=5\n", 1 << 20);
        assert_eq!((size, stop), (57_344, Stop::AfterNsOrBytes(5 * SECOND, 50_001)));
    }

    #[test]
    fn several_sizes_fill_what_the_smallest_of_them_fits_in() {
        const KIB: u64 = 1 << 10;
        for (lines, end) in [
            ("rw=read\nbsrange=4k-8k\n", 32 * KIB),
            ("rw=randread\nbssplit=4k/30:8k/70\n", 32 * KIB),
            ("rw=randread\nbssplit=4k/30:8k/70\nloops=2\n", 64 * KIB),
            ("rw=randread\nbssplit=4k/30:8k/70\nnorandommap\n", 33 * KIB),
        ] {
            let found = of(&format!("{lines}size=33k\n"), 1 << 20);
            assert_eq!(found, (32 * KIB, Stop::AfterBytes(end)), "{lines}");
        }
    }
}
