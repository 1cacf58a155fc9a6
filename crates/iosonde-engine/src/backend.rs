//! How does I/O leave the process? One narrow seam, [`Queue`], and one file per backend.
//!
//! A backend knows no workload, no plan beyond one job's depth and block size, and no statistics.
//! Calls are statically dispatched: the engine's loop is compiled once per backend.

/// The engines of files and block devices, each with its queue: whoever chooses among them is
/// derived from this list.
macro_rules! of_files {
    ($derive:ident) => {
        $derive! {
            IoUring => crate::backend::uring::UringQueue,
            Libaio => crate::backend::libaio::LibaioQueue,
            Mmap => crate::backend::mmap::MmapQueue,
            Psync => crate::backend::psync::PsyncQueue,
            Pvsync2 => crate::backend::pvsync2::Pvsync2Queue,
        }
    };
}

/// Writes these calls of a [`Queue`], which something else answers: what is in the field `$to` of
/// this one, if `$by` is `field`.
macro_rules! forward {
    ($by:ident $to:tt: $($call:ident)*) => { $(forward! { @$call $by $to })* };
    (@now_ns $by:ident $to:tt) => {
        #[inline(always)]
        fn now_ns(&self) -> u64 {
            $by!(self $to now_ns())
        }
    };
    (@buffer $by:ident $to:tt) => {
        #[inline(always)]
        fn buffer(&mut self, slot: usize) -> &mut [u8] {
            $by!(self $to buffer(slot))
        }
    };
    (@push $by:ident $to:tt) => {
        #[inline(always)]
        fn push(&mut self, slot: usize, transfer: crate::backend::Transfer) {
            $by!(self $to push(slot, transfer))
        }
    };
    (@set_priority $by:ident $to:tt) => {
        #[inline(always)]
        fn set_priority(&mut self, slot: usize, priority: u16) {
            $by!(self $to set_priority(slot, priority))
        }
    };
    (@enter $by:ident $to:tt) => {
        #[inline(always)]
        fn enter(&mut self, wait_for: u32, patience_ns: u64) -> std::io::Result<()> {
            $by!(self $to enter(wait_for, patience_ns))
        }
    };
    (@pause $by:ident $to:tt) => {
        fn pause(&mut self, until_ns: u64) {
            $by!(self $to pause(until_ns))
        }
    };
    (@give_back $by:ident $to:tt) => {
        fn give_back(&mut self) {
            $by!(self $to give_back())
        }
    };
    (@syscalls $by:ident $to:tt) => {
        fn syscalls(&self) -> u64 {
            $by!(self $to syscalls())
        }
    };
    (@facts $by:ident $to:tt) => {
        fn facts(&self) -> crate::backend::QueueFacts {
            $by!(self $to facts())
        }
    };
}

/// The same call of what a queue has in this field.
macro_rules! field {
    ($queue:ident $field:tt $call:ident $arguments:tt) => { $queue.$field.$call $arguments };
}

pub(crate) mod any;
pub mod blocking;
mod calling;
pub mod fault;
pub mod files;
pub mod libaio;
pub mod mmap;
pub mod null;
pub mod psync;
pub mod pvsync2;
mod setup;
pub mod sim;
pub mod uring;
pub mod uring_cmd;
pub mod vhost;

use std::io;
use std::time::Duration;

use iosonde_model::plan::{IoKind, Job};

/// One transfer between a slot's buffer and the target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transfer {
    /// Which way.
    pub way: IoKind,
    /// Which of the plan's targets, counted from 0.
    pub target: u16,
    /// First byte on the target.
    pub offset: u64,
    /// First byte within the slot's buffer.
    pub skip: u32,
    /// Length, bytes; 0 for [`IoKind::Sync`], which reports 0 moved when it succeeds.
    pub bytes: u32,
}

/// A sleeper wakes 50 µs late or more on real time.
const SLEEPER_LATE_NS: u64 = 100_000;

/// One queue, owned by one job on one thread.
///
/// Slots `0..depth` are the caller's until pushed and again after being reaped. Every pushed slot
/// comes back exactly once, with the bytes moved or a negated errno.
pub trait Queue {
    /// By how much a wait may end too late, ns: who has an appointment looks again and again for so
    /// long before it.
    const WAKES_LATE_NS: u64 = SLEEPER_LATE_NS;

    /// Whether time passes only when a job moves its clock: none may then sleep for another.
    const IS_VIRTUAL: bool = false;

    /// Now, ns, on the clock that all queues of a run share.
    fn now_ns(&self) -> u64;

    /// The buffer of a slot that is the caller's.
    fn buffer(&mut self, slot: usize) -> &mut [u8];

    /// Stages a transfer; `enter` hands it over.
    fn push(&mut self, slot: usize, transfer: Transfer);

    /// Gives the transfer that was staged last, on this slot, a priority of its own, as
    /// ioprio_set(2) has it. A plan asks for it only where the engine can
    /// (`plan::effect`); the others have nothing to do here.
    fn set_priority(&mut self, _slot: usize, _priority: u16) {}

    /// Hands over what is staged and, if `wait_for > 0`, waits until that many requests are
    /// finished, at most `patience_ns` (where the queue can give up waiting at all: a synchronous
    /// one cannot). With `wait_for` 0 nothing is waited for.
    ///
    /// # Errors
    /// EAGAIN or EBUSY: reap, then try again. Anything else: this queue is dead.
    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()>;

    /// Returns once it is `until_ns`: asleep while that is far, spinning for the last stretch. On
    /// virtual time it moves the clock there.
    fn pause(&mut self, until_ns: u64) {
        loop {
            let left_ns = until_ns.saturating_sub(self.now_ns());
            if left_ns == 0 {
                return;
            }
            if left_ns > SLEEPER_LATE_NS {
                std::thread::sleep(Duration::from_nanos(left_ns - SLEEPER_LATE_NS));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Gives back every finished slot.
    fn reap(&mut self, done: impl FnMut(usize, i32));

    /// Gives back what the target lent and others may use once the job has ended. Nothing follows.
    fn give_back(&mut self) {}

    /// System calls made for I/O so far.
    fn syscalls(&self) -> u64;

    /// What was found out when the queue was set up.
    fn facts(&self) -> QueueFacts;
}

/// Who drives queues, whatever they are.
pub(crate) trait Driver {
    /// What comes of it.
    type Result;

    /// Drives queues that are opened by this function, each on the thread that uses it.
    fn drive<Q, O>(self, open: O) -> Self::Result
    where
        Q: Queue + 'static,
        O: Fn(&Job) -> Result<Q, OpenError> + Clone + Send + 'static;
}

/// What a queue found out when it was set up.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct QueueFacts {
    /// Features in effect.
    pub features: Vec<String>,
    /// Features tried in vain, each with the reason.
    pub missing: Vec<String>,
    /// Page size behind the buffers, bytes; 0 where there are none.
    pub buffer_page_bytes: u64,
}

/// Why a queue could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No memory for buffers.
    #[error("{bytes} B of I/O buffers: {error}; ask for a smaller --iodepth, --numjobs or --bs")]
    Buffers {
        /// What was asked of the system.
        bytes: u64,
        error: io::Error,
    },
    /// Too few huge pages.
    #[error(
        "the buffers of a job need {pages} huge page(s) of {page_bytes} B, and so many are not \
         free ({error}): reserve more for all jobs (sysctl vm.nr_hugepages=N; HugePages_Free in \
         /proc/meminfo shows what is free), or ask for no huge pages"
    )]
    HugePages {
        /// Size of one, bytes.
        page_bytes: usize,
        /// How many a job needs.
        pages: usize,
        error: io::Error,
    },
    /// No memory on this node.
    #[error(
        "the buffers cannot be on NUMA node {node}: {error}; `ls /sys/devices/system/node` shows \
         the nodes that there are"
    )]
    Node { node: u32, error: io::Error },
    /// The engine or the target cannot do what the job asks for.
    #[error("{0}")]
    Unable(String),
    /// The kernel does not let the thread run where it was asked to.
    #[error("the CPUs {cpus:?} of --cpus-allowed: the kernel gives this process none of them")]
    Cpus {
        /// What was asked.
        cpus: Vec<u32>,
    },
    /// The target's descriptor cannot be shared.
    #[error(
        "cannot duplicate the target's descriptor: {0}; raise the limit on open files (ulimit -n)"
    )]
    Descriptor(io::Error),
    /// io_uring refused.
    #[error("io_uring cannot be set up: {error}{hint}")]
    Ring {
        error: io::Error,
        /// Likely cause, and how to fix it.
        hint: String,
    },
    /// IOPOLL was granted and does not work.
    #[error(
        "polled completions (--hipri) do not work here: the first request failed with {0}; \
         the device has no polled queues"
    )]
    Polling(String),
    /// A vhost-user server whose queues are set up for another plan.
    #[error("the vhost-user connection has no queue for this job")]
    NoQueue,
    /// A vhost-user server that cannot carry out the plan.
    #[error(transparent)]
    Vhost(#[from] vhost::AdmitError),
}
