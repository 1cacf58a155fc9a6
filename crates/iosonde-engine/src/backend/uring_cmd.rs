//! NVMe commands over io_uring (fio's `io_uring_cmd`): they go to a namespace's generic device and
//! bypass the block layer.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use iosonde_sys::nvme::Namespace;
use iosonde_sys::{Clock, CommandRing, Direction, Request, errno_name};
use rustix::fs::{fstat, major, minor};

use super::{OpenError, Queue, QueueFacts, Transfer, setup, uring};
use iosonde_model::plan::{Engine, Job};

#[derive(Clone, Debug)]
pub struct CommandTarget {
    /// The namespace as its generic device, which takes the commands.
    pub namespace: Arc<Namespace>,
    /// The block device of the same namespace. The load never uses it; a writer holds it open
    /// exclusively.
    pub block: Arc<OwnedFd>,
}

/// The queue of NVMe commands.
pub struct CommandQueue {
    clock: Clock,
    ring: CommandRing,
    page_bytes: u64,
}

/// Most logical blocks of one command.
const MOST_BLOCKS: u64 = 1 << 16;
/// How long the first read may take.
const PATIENCE_SECONDS: u32 = 10;
/// Errno values of Linux (asm-generic).
const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOTTY: i32 = 25;
const EOPNOTSUPP: i32 = 95;

impl CommandQueue {
    /// A queue for this job, which only the calling thread may use.
    ///
    /// # Errors
    /// If there is no memory, the kernel refuses the ring or the commands, a block does not fit in
    /// one command, polling was requested and the drive has no polled queues, or a target of a job
    /// that trims cannot be trimmed.
    pub fn open(
        job: &Job,
        engine: &Engine,
        targets: &[CommandTarget],
        clock: Clock,
    ) -> Result<Self, OpenError> {
        let blocks: Vec<OwnedFd> = targets
            .iter()
            .map(|target| target.block.try_clone().map_err(OpenError::Descriptor))
            .collect::<Result<_, _>>()?;
        setup::can_trim(job, &blocks)?;
        if engine.iopoll {
            setup::polls_only(job)?;
            for (_, block) in setup::targets(job, &blocks) {
                has_polled_queues(block)?;
            }
        }
        let namespaces: Vec<Namespace> = targets
            .iter()
            .map(|target| target.namespace.try_clone().map_err(OpenError::Descriptor))
            .collect::<Result<_, _>>()?;
        for namespace in &namespaces {
            fits(job, namespace)?;
        }
        let slab = setup::slab(job)?;
        let page_bytes = slab.page_bytes() as u64;
        let options = setup::ring_options(job, engine);
        let mut ring = CommandRing::new(namespaces, slab, options)
            .map_err(|error| OpenError::Ring { hint: hint_of(engine, &error), error })?;
        for (number, block) in setup::targets(job, &blocks) {
            prove(&mut ring, job, number, block)?;
        }
        Ok(CommandQueue { clock, ring, page_bytes })
    }
}

/// Checks that a block of the job fits in one command.
fn fits(job: &Job, namespace: &Namespace) -> Result<(), OpenError> {
    let most_bytes = MOST_BLOCKS << namespace.shape().block_shift;
    if job.block_bytes <= most_bytes {
        return Ok(());
    }
    Err(OpenError::Unable(format!(
        "a block of {} B is larger than an NVMe command can be, {most_bytes} B: give a smaller \
         --bs",
        job.block_bytes
    )))
}

/// A number from the sysfs queue directory of a block device.
fn queue_fact(block: &OwnedFd, name: &str) -> Option<u64> {
    let number = fstat(block).ok()?.st_rdev;
    let place = format!("/sys/dev/block/{}:{}/queue/{name}", major(number), minor(number));
    std::fs::read_to_string(place).ok()?.trim().parse().ok()
}

/// Without polled queues the drive would complete by interrupt, and nothing would show it.
fn has_polled_queues(block: &OwnedFd) -> Result<(), OpenError> {
    match queue_fact(block, "io_poll") {
        Some(1) => Ok(()),
        _ => Err(OpenError::Unable(
            "polled completions (--hipri) do not work here: the drive has no polled queues (nvme \
             module parameter poll_queues)"
                .into(),
        )),
    }
}

/// Only a command shows whether the kernel accepts one from this user, of this size, and with
/// registered buffers. The trial is a read, which changes nothing.
fn prove(ring: &mut CommandRing, job: &Job, target: u16, block: &OwnedFd) -> Result<(), OpenError> {
    let (offset, bytes) = (job.region_start, job.block_bytes as u32);
    let read = Request { way: Direction::Read, target, offset, skip: 0, bytes };
    let mut first = trial(ring, read)?;
    if first == -EINVAL && ring.has_fixed_buffers() {
        ring.forgo_fixed_buffers("the kernel takes none for NVMe commands (Linux 6.1 does)");
        first = trial(ring, read)?;
    }
    let why = match -first {
        EPERM | EACCES => "before Linux 6.2 it needs CAP_SYS_ADMIN: run as root".to_owned(),
        EOPNOTSUPP | ENOTTY => {
            "the kernel's NVMe driver takes no commands over io_uring (Linux 5.19 does)".into()
        }
        EINVAL => {
            let most = queue_fact(block, "max_hw_sectors_kb");
            let most = most.map(|kib| format!(", at most {kib} KiB here")).unwrap_or_default();
            format!(
                "{bytes} B may be more than the drive takes at once{most}, for a command is not \
                 split: give a smaller --bs"
            )
        }
        // Other failures are outcomes of the load.
        _ => return Ok(()),
    };
    let error = errno_name(-first);
    Err(OpenError::Unable(format!("a first NVMe command, a read, was refused ({error}): {why}")))
}

fn trial(ring: &mut CommandRing, read: Request) -> Result<i32, OpenError> {
    ring.trial(read, PATIENCE_SECONDS)
        .map_err(|error| OpenError::Ring { hint: uring::hint(&error), error })?
        .ok_or_else(|| {
            OpenError::Unable("a first NVMe command, a read, has no answer within 10 s".into())
        })
}

/// Likely cause of a refused set-up, and how to fix it.
fn hint_of(engine: &Engine, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::InvalidInput if engine.sqpoll_cpu.is_none() => {
            "; NVMe commands need the long entries of Linux 5.19".into()
        }
        _ => uring::hint_of(engine, error),
    }
}

impl Queue for CommandQueue {
    forward!(field clock: now_ns);
    forward!(field ring: buffer syscalls);

    #[inline(always)]
    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        self.ring.enter(wait_for, patience_ns)
    }

    #[inline(always)]
    fn push(&mut self, slot: usize, transfer: Transfer) {
        self.ring.push(slot, setup::request(&transfer));
    }

    #[inline(always)]
    fn reap(&mut self, done: impl FnMut(usize, i32)) {
        self.ring.reap(done);
    }

    fn facts(&self) -> QueueFacts {
        QueueFacts {
            features: self.ring.features().iter().map(ToString::to_string).collect(),
            missing: self.ring.missing().to_vec(),
            buffer_page_bytes: self.page_bytes,
        }
    }
}
