//! The kernel's older asynchronous interface (io_submit), for comparison with its users.

use std::io;
use std::os::fd::OwnedFd;

use iosonde_sys::aio::AioOptions;
use iosonde_sys::{Aio, Clock, errno_name};

use super::{OpenError, Queue, QueueFacts, Transfer, setup};
use iosonde_model::plan::{Engine, IoKind, Job};

pub struct LibaioQueue {
    clock: Clock,
    aio: Aio,
    vectored: bool,
    page_bytes: u64,
}

/// EAGAIN, EINVAL and ENOSYS of Linux (asm-generic).
const EAGAIN: i32 = 11;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;

/// How long a trial sync may take.
const SYNC_PATIENCE_NS: u64 = 10_000_000_000;

impl LibaioQueue {
    /// A queue for this job, on the calling thread.
    ///
    /// # Errors
    /// If there is no memory, the system's limit on AIO requests is reached, or libaio cannot do
    /// what the job needs.
    pub fn open(
        job: &Job,
        engine: &Engine,
        files: Vec<OwnedFd>,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        if setup::trims(job) {
            let message = "libaio has no trim: use --ioengine io_uring or psync";
            return Err(OpenError::Unable(message.into()));
        }
        setup::may_have_priorities(job)?;
        let slab = setup::slab(job)?;
        let page_bytes = slab.page_bytes() as u64;
        let options = AioOptions {
            vectored: engine.vectored,
            write_flags: setup::write_flags(job),
            sync_data_only: setup::syncs_data_only(job),
        };
        let aio = Aio::new(files, slab, options).map_err(|error| refused(job, &error))?;
        let mut queue = LibaioQueue { clock, aio, vectored: engine.vectored, page_bytes };
        if setup::syncs(job) {
            queue.prove_sync(job)?;
        }
        Ok(queue)
    }

    /// Only a request shows whether the kernel (from Linux 4.18) and the file system can sync.
    fn prove_sync(&mut self, job: &Job) -> Result<(), OpenError> {
        let first = job.targets.first().copied().unwrap_or(0);
        let sync = Transfer { way: IoKind::Sync, target: first, offset: 0, skip: 0, bytes: 0 };
        self.push(0, sync);
        let mut answer = None;
        self.enter(1, SYNC_PATIENCE_NS).map_err(|error| refused(job, &error))?;
        self.reap(|_slot, result| answer = Some(result));
        match answer {
            None => Err(OpenError::Unable("a first sync has no answer within 10 s".into())),
            Some(result) if result == -EINVAL => Err(OpenError::Unable(format!(
                "libaio cannot sync this target ({}): it needs Linux 4.18 and a file system with \
                 fsync; try --ioengine io_uring or psync",
                errno_name(-result)
            ))),
            Some(_) => Ok(()),
        }
    }
}

/// Explains why the kernel refused an AIO context.
fn refused(job: &Job, error: &io::Error) -> OpenError {
    let hint = match error.raw_os_error() {
        Some(EAGAIN) => {
            let limit = |name: &str| {
                let text = std::fs::read_to_string(format!("/proc/sys/fs/{name}"));
                text.map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
            };
            format!(
                "; {} requests of this job are too many beside the {} of the system, where \
                 fs.aio-max-nr allows {}: raise it (sysctl fs.aio-max-nr=N), or lower --iodepth \
                 or --numjobs",
                job.iodepth,
                limit("aio-nr"),
                limit("aio-max-nr")
            )
        }
        Some(ENOSYS) => "; this kernel is built without it: --ioengine psync works".into(),
        Some(EINVAL) => "; this depth is beyond what it takes: lower --iodepth".into(),
        _ => String::new(),
    };
    OpenError::Unable(format!("libaio cannot be set up: {error}{hint}"))
}

impl Queue for LibaioQueue {
    forward!(field clock: now_ns);

    #[inline(always)]
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.aio.buffer(slot)
    }

    #[inline(always)]
    fn push(&mut self, slot: usize, transfer: Transfer) {
        self.aio.push(slot, setup::request(&transfer));
    }

    fn set_priority(&mut self, slot: usize, priority: u16) {
        self.aio.set_priority(slot, priority);
    }

    #[inline(always)]
    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        self.aio.enter(wait_for, patience_ns)
    }

    #[inline(always)]
    fn reap(&mut self, done: impl FnMut(usize, i32)) {
        self.aio.reap(done);
    }

    fn syscalls(&self) -> u64 {
        self.aio.syscalls()
    }

    fn facts(&self) -> QueueFacts {
        let features = if self.vectored { vec!["vectored".into()] } else { Vec::new() };
        QueueFacts { features, missing: Vec::new(), buffer_page_bytes: self.page_bytes }
    }
}
