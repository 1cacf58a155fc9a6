//! How I/O leaves the process: one trait, [`Queue`], and one file per backend.
//!
//! A backend has no workload and no statistics; its queues are set up from single jobs of the plan.
//! Calls from the job loop are statically dispatched: it is compiled once per backend.

/// The engines for files and block devices, each with its queue type. The code that selects an
/// engine is generated from this list.
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

/// Implements these [`Queue`] methods by delegation through the macro `$by`; with `field`, to the
/// field `$to`.
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

/// Delegates a call to this field of the queue.
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
    /// Read, write, trim or sync.
    pub way: IoKind,
    /// Index of the target in the plan, from 0.
    pub target: u16,
    /// First byte on the target.
    pub offset: u64,
    /// First byte within the slot's buffer.
    pub skip: u32,
    /// Length, bytes; 0 for [`IoKind::Sync`], whose result is 0 on success.
    pub bytes: u32,
}

/// Margin for late wake-ups from a sleep, ns; they are 50 µs or more on real time.
const SLEEPER_LATE_NS: u64 = 100_000;

/// One queue, owned by one job on one thread.
///
/// The caller owns the slots `0..depth` until they are pushed and again once they are reaped. Every
/// pushed slot is reaped exactly once, with the bytes moved or a negated errno.
pub trait Queue {
    /// How late a wait may end, ns. A caller with a deadline spins for this long before it.
    const WAKES_LATE_NS: u64 = SLEEPER_LATE_NS;

    /// Whether time passes only when a job advances its clock. No job may then sleep for another.
    const IS_VIRTUAL: bool = false;

    /// Current time, ns; all queues of a run share the time base.
    fn now_ns(&self) -> u64;

    /// Buffer of a slot that the caller owns.
    fn buffer(&mut self, slot: usize) -> &mut [u8];

    /// Stages a transfer; `enter` submits it.
    fn push(&mut self, slot: usize, transfer: Transfer);

    /// Sets the I/O priority (ioprio_set(2)) of the transfer staged last, on this slot. A plan has
    /// priorities only where the engine supports them (`plan::effect`); other queues ignore the
    /// call.
    fn set_priority(&mut self, _slot: usize, _priority: u16) {}

    /// Submits what is staged and, if `wait_for > 0`, waits until that many requests are finished,
    /// for at most `patience_ns` (a synchronous queue cannot stop early). With `wait_for` 0 it does
    /// not wait.
    ///
    /// # Errors
    /// EAGAIN or EBUSY: reap, then try again. Anything else: this queue is dead.
    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()>;

    /// Waits until `until_ns`: sleeps while that is far off, and spins for the last stretch. On
    /// virtual time it advances the clock.
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

    /// Reports every finished slot with its result.
    fn reap(&mut self, done: impl FnMut(usize, i32));

    /// Returns resources that the target lent and others may use after the job. No request follows.
    fn give_back(&mut self) {}

    /// System calls made for I/O so far.
    fn syscalls(&self) -> u64;

    /// Facts found when the queue was set up.
    fn facts(&self) -> QueueFacts;
}

/// Code that drives queues of any backend.
pub(crate) trait Driver {
    /// Result of the drive.
    type Result;

    /// Drives queues opened by this function, each on the thread that uses it.
    fn drive<Q, O>(self, open: O) -> Self::Result
    where
        Q: Queue + 'static,
        O: Fn(&Job) -> Result<Q, OpenError> + Clone + Send + 'static;
}

/// Facts found when a queue was set up.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct QueueFacts {
    /// Features in effect.
    pub features: Vec<String>,
    /// Features that were tried and refused, each with the reason.
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
        /// Memory requested.
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
        /// Page size, bytes.
        page_bytes: usize,
        /// Pages that a job needs.
        pages: usize,
        error: io::Error,
    },
    /// The buffers cannot be placed on this NUMA node.
    #[error(
        "the buffers cannot be on NUMA node {node}: {error}; `ls /sys/devices/system/node` shows \
         the nodes that there are"
    )]
    Node { node: u32, error: io::Error },
    /// The engine or the target cannot do what the job needs.
    #[error("{0}")]
    Unable(String),
    /// The kernel does not let the thread run on any of the requested CPUs.
    #[error("the CPUs {cpus:?} of --cpus-allowed: the kernel gives this process none of them")]
    Cpus {
        /// Requested CPUs.
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
    /// The vhost-user queues are set up for another plan.
    #[error("the vhost-user connection has no queue for this job")]
    NoQueue,
    /// The vhost-user server cannot carry out the plan.
    #[error(transparent)]
    Vhost(#[from] vhost::AdmitError),
}
