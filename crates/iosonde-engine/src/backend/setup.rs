//! Set-up shared by the backends for files: buffers, and checks that the job's operations are
//! possible.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use iosonde_sys::{
    Direction, Nodes, Placement, Request, RingOptions, Slab, SlabError, Spread, syscall, thread,
};

use super::{OpenError, Transfer};
use iosonde_model::plan::{EachWrite, Engine, IoKind, Job, NumaMode, SyncCall};
use iosonde_model::spec::Priority;

/// Converts a transfer to a request of `iosonde_sys`.
#[inline(always)]
pub(super) fn request(transfer: &Transfer) -> Request {
    let Transfer { way, target, offset, skip, bytes } = *transfer;
    Request { way: direction(way), target, offset, skip, bytes }
}

/// Converts a kind of operation to a direction of `iosonde_sys`.
#[inline(always)]
pub(super) fn direction(way: IoKind) -> Direction {
    match way {
        IoKind::Read => Direction::Read,
        IoKind::Write => Direction::Write,
        IoKind::Trim => Direction::Trim,
        IoKind::Sync => Direction::Sync,
    }
}

/// The buffers of a job: one slot per request in flight, with the job's memory placement.
pub(super) fn slab(job: &Job) -> Result<Slab, OpenError> {
    let place = &job.place;
    let spread = match place.numa_mode {
        NumaMode::Bind => Spread::Bind,
        NumaMode::Prefer => Spread::Prefer,
        NumaMode::Interleave => Spread::Interleave,
    };
    let first = place.numa_node.unwrap_or_default();
    let no_node = || OpenError::Node { node: first, error: std::io::ErrorKind::NotFound.into() };
    let named = place.numa_node.into_iter().chain(place.more_numa_nodes.iter().copied());
    let nodes = Nodes::of(named, spread).ok_or_else(no_node)?;
    let placement = Placement { huge_pages: place.huge_pages, nodes };
    let slab = Slab::placed(job.iodepth as usize, job.block_bytes as usize, placement);
    slab.map_err(|error| match error {
        SlabError::Memory(error) => OpenError::Buffers { bytes: job.buffer_bytes(), error },
        SlabError::HugePages { page_bytes, pages, error } => {
            OpenError::HugePages { page_bytes, pages, error }
        }
        SlabError::Node(error) => OpenError::Node { node: first, error },
    })
}

/// Ring options of a job, the same for plain requests and NVMe commands.
pub(super) fn ring_options(job: &Job, engine: &Engine) -> RingOptions {
    RingOptions {
        depth: job.iodepth,
        sqpoll: engine.sqpoll,
        sqpoll_cpu: engine.sqpoll_cpu,
        iopoll: engine.iopoll,
        registered_files: engine.registered_files,
        fixed_buffers: engine.fixed_buffers,
        vectored: engine.vectored,
        write_flags: write_flags(job),
        sync_data_only: syncs_data_only(job),
    }
}

/// Flags of each write of the job: its durability, and whether it is atomic.
pub(super) fn write_flags(job: &Job) -> u32 {
    let durable = match job.sync.each_write {
        EachWrite::Accepted => 0,
        EachWrite::Dsync => syscall::DSYNC,
        EachWrite::Sync => syscall::SYNC,
    };
    durable | if job.sync.atomic { syscall::ATOMIC } else { 0 }
}

/// Whether the job's syncs skip metadata that reads do not need (fdatasync).
pub(super) fn syncs_data_only(job: &Job) -> bool {
    job.sync.call == SyncCall::Fdatasync
}

pub(super) fn syncs(job: &Job) -> bool {
    job.syncs()
}

pub(super) fn trims(job: &Job) -> bool {
    job.discards()
}

/// Refuses trims and syncs, which cannot have polled completions.
pub(super) fn polls_only(job: &Job) -> Result<(), OpenError> {
    if trims(job) || syncs(job) {
        let message = "polled completions (--hipri) are for reads and writes only, and this job \
                       has trims or syncs";
        return Err(OpenError::Unable(message.into()));
    }
    Ok(())
}

/// Checks that the kernel accepts the priorities of the job's requests; else each one would fail.
pub(super) fn may_have_priorities(job: &Job) -> Result<(), OpenError> {
    match job.priorities.all().find(|one| !thread::may_have_io_priority(one.number())) {
        Some(Priority { class, level, hint, .. }) => Err(OpenError::Unable(format!(
            "the kernel refuses the I/O priority {class}/{level} with hint {hint} of single \
             requests; class 1 (real-time) needs CAP_SYS_ADMIN or CAP_SYS_NICE (run it as root, or \
             give class 2), a hint needs Linux 6.5"
        ))),
        None => Ok(()),
    }
}

/// Number and file of each target of a job; target 0 if the job lists none.
pub(super) fn targets<'a>(
    job: &Job,
    files: &'a [OwnedFd],
) -> impl Iterator<Item = (u16, &'a OwnedFd)> {
    let numbers = if job.targets.is_empty() { vec![0] } else { job.targets.clone() };
    let file = |number: u16| files.get(usize::from(number)).map(|file| (number, file));
    numbers.into_iter().filter_map(file)
}

/// Checks that every target of a job that trims can be trimmed, without freeing any space.
pub(super) fn can_trim(job: &Job, files: &[OwnedFd]) -> Result<(), OpenError> {
    if !trims(job) {
        return Ok(());
    }
    for (number, file) in targets(job, files) {
        syscall::probe_trim(file.as_fd()).map_err(|error| {
            let fix = match error.kind() {
                io::ErrorKind::Unsupported | io::ErrorKind::NotFound => {
                    "a file needs a file system that punches holes (ext4, XFS, btrfs, tmpfs), \
                     a block device one that discards (`lsblk --discard` shows it)"
                }
                _ => "it must be a file or a block device that is open for writing",
            };
            OpenError::Unable(format!("target {number} cannot be trimmed: {error}; {fix}"))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_cannot_be_trimmed_is_refused_before_the_first_request() {
        let job = Job { trims: true, read_percent: 0, ..Job::default() };
        let device = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let refused = can_trim(&job, &[device()]).unwrap_err().to_string();
        assert!(refused.starts_with("target 0 cannot be trimmed"), "{refused}");
        assert!(can_trim(&Job { trims: false, ..job.clone() }, &[device()]).is_ok());
        assert!(can_trim(&Job { read_percent: 100, ..job }, &[device()]).is_ok());
    }

    #[test]
    fn a_promise_of_a_write_is_a_flag_of_the_call() {
        let mut job = Job::default();
        assert_eq!(write_flags(&job), 0);
        (job.sync.each_write, job.sync.atomic) = (EachWrite::Dsync, true);
        assert_eq!(write_flags(&job), syscall::DSYNC | syscall::ATOMIC);
    }

    #[test]
    fn a_node_that_is_not_there_is_named() {
        let mut job = Job::default();
        job.place.numa_node = Some(900);
        let refused = slab(&job).unwrap_err().to_string();
        assert!(refused.contains("NUMA node 900"), "{refused}");
    }
}
