//! Sets up a ring: finds the options that the kernel accepts, and maps the shared memory.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use super::RingOptions;
use super::form::Form;
use crate::syscall::{checked, raw};
use crate::uapi::{self, Params, ResourceUpdate};

/// Optional set-up flags, dropped one by one while the kernel returns EINVAL: newest first.
const SETUP_FLAGS: [(&str, u32); 5] = [
    ("no_sqarray", uapi::SETUP_NO_SQARRAY),
    ("defer_taskrun", uapi::SETUP_DEFER_TASKRUN),
    ("single_issuer", uapi::SETUP_SINGLE_ISSUER),
    ("coop_taskrun", uapi::SETUP_COOP_TASKRUN | uapi::SETUP_TASKRUN_FLAG),
    ("submit_all", uapi::SETUP_SUBMIT_ALL),
];

/// How long the submitting kernel thread polls for work before it sleeps.
const SQPOLL_IDLE_MS: u32 = 1000;

/// Memory shared with the kernel.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn of(ring: &OwnedFd, offset: i64, bytes: usize) -> io::Result<Mapping> {
        // SAFETY: a shared mapping of the ring at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                ring.as_raw_fd(),
                offset,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, bytes })
    }

    /// The object at this offset, which the kernel has reported.
    fn at<T>(&self, offset: u32, count: u32) -> io::Result<NonNull<T>> {
        let end = offset as usize + count as usize * size_of::<T>();
        let aligned = (offset as usize).is_multiple_of(align_of::<T>());
        if end > self.bytes || !aligned {
            return Err(io::Error::other("the kernel's ring reaches beyond its mapping"));
        }
        // SAFETY: the offset lies within the mapping.
        Ok(unsafe { self.start.add(offset as usize) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`; the pointers into it live in the same `Shared`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A ring and the memory shared with the kernel. The pointers are valid as long as this lives.
pub(super) struct Shared<F: Form> {
    fd: OwnedFd,
    /// Index among the thread's registered rings.
    registered: Option<u32>,
    _rings: Mapping,
    _entries: Mapping,
    pub(super) sqes: NonNull<F::Sqe>,
    pub(super) sq_entries: u32,
    pub(super) sq_head: NonNull<AtomicU32>,
    pub(super) sq_tail: NonNull<AtomicU32>,
    pub(super) sq_flags: NonNull<AtomicU32>,
    pub(super) cqes: NonNull<F::Cqe>,
    pub(super) cq_entries: u32,
    pub(super) cq_head: NonNull<AtomicU32>,
    pub(super) cq_tail: NonNull<AtomicU32>,
    /// Features in effect.
    pub(super) features: Vec<&'static str>,
    /// Features that could not be used, each with the reason.
    pub(super) missing: Vec<String>,
}

impl<F: Form> Shared<F> {
    /// A ring with as many optional flags as the kernel accepts.
    pub(super) fn new(entries: u32, options: &RingOptions) -> io::Result<Shared<F>> {
        let (fd, params, features, missing) = set_up(entries, options, F::SETUP)?;
        let needed = uapi::FEATURE_SINGLE_MMAP | uapi::FEATURE_EXT_ARG;
        if params.features & needed != needed {
            let message = "the kernel's io_uring is older than that of Linux 5.11";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let array_bytes = params.sq.array as usize + params.sq_entries as usize * size_of::<u32>();
        let cqe_bytes =
            params.cq.entries as usize + params.cq_entries as usize * size_of::<F::Cqe>();
        let rings = Mapping::of(&fd, uapi::MAP_RINGS, array_bytes.max(cqe_bytes))?;
        let sqe_bytes = params.sq_entries as usize * size_of::<F::Sqe>();
        let entries = Mapping::of(&fd, uapi::MAP_SQES, sqe_bytes)?;
        if params.flags & uapi::SETUP_NO_SQARRAY == 0 {
            let array = rings.at::<u32>(params.sq.array, params.sq_entries)?;
            for index in 0..params.sq_entries {
                // SAFETY: the array has that many elements, and the kernel reads none before the
                // first submission.
                unsafe { array.add(index as usize).write(index) };
            }
        }
        let mut shared = Shared {
            sqes: entries.at(0, params.sq_entries)?,
            sq_entries: params.sq_entries,
            sq_head: rings.at(params.sq.head, 1)?,
            sq_tail: rings.at(params.sq.tail, 1)?,
            sq_flags: rings.at(params.sq.flags, 1)?,
            cqes: rings.at(params.cq.entries, params.cq_entries)?,
            cq_entries: params.cq_entries,
            cq_head: rings.at(params.cq.head, 1)?,
            cq_tail: rings.at(params.cq.tail, 1)?,
            fd,
            registered: None,
            _rings: rings,
            _entries: entries,
            features,
            missing,
        };
        shared.register_itself();
        Ok(shared)
    }

    /// Registers the ring's descriptor, which saves each `enter` its look-up.
    fn register_itself(&mut self) {
        let fd = self.fd.as_raw_fd() as u64;
        let mut update = ResourceUpdate { offset: u32::MAX, reserved: 0, data: fd };
        // SAFETY: one update, valid for reading and writing.
        let result = unsafe { self.register(uapi::REGISTER_RING_FDS, (&raw mut update).cast(), 1) };
        if self.note("registered_ring", result) {
            self.registered = Some(update.offset);
        }
    }

    /// The number by which `enter` names the ring, and the flag that says which kind it is.
    pub(super) fn name(&self) -> (usize, u32) {
        match self.registered {
            Some(place) => (place as usize, uapi::ENTER_REGISTERED_RING),
            None => (self.fd.as_raw_fd() as usize, 0),
        }
    }

    /// `io_uring_register`.
    ///
    /// # Safety
    /// `argument` must be what this operation takes.
    pub(super) unsafe fn register(
        &self,
        operation: u32,
        argument: *mut libc::c_void,
        count: usize,
    ) -> io::Result<u32> {
        let fd = self.fd.as_raw_fd() as usize;
        let arguments = [fd, operation as usize, argument as usize, count, 0, 0];
        // SAFETY: the caller answers for the argument.
        checked(unsafe { raw(libc::SYS_io_uring_register, arguments) })
    }

    /// Records an optional feature as present or missing; returns whether it is present.
    pub(super) fn note(&mut self, name: &'static str, result: io::Result<u32>) -> bool {
        match result {
            Ok(_) => self.features.push(name),
            Err(ref error) => self.missing.push(format!("{name}: {error}")),
        }
        result.is_ok()
    }
}

impl<F: Form> Drop for Shared<F> {
    fn drop(&mut self) {
        if let Some(place) = self.registered {
            // Otherwise the thread's table of registered rings would keep the ring alive.
            let mut update = ResourceUpdate { offset: place, ..ResourceUpdate::default() };
            // SAFETY: one update, valid for reading.
            let _ =
                unsafe { self.register(uapi::UNREGISTER_RING_FDS, (&raw mut update).cast(), 1) };
        }
    }
}

type Made = (OwnedFd, Params, Vec<&'static str>, Vec<String>);

fn set_up(entries: u32, options: &RingOptions, form: u32) -> io::Result<Made> {
    let mut missing = Vec::new();
    let mut first = 0;
    loop {
        let mut features = Vec::new();
        let mut params = Params {
            // Room for a completion of every request, even if none is reaped for a while.
            cq_entries: entries.saturating_mul(2),
            flags: uapi::SETUP_CQSIZE | uapi::SETUP_CLAMP | form,
            ..Params::default()
        };
        for (name, flag) in SETUP_FLAGS.iter().skip(first) {
            // The kernel refuses these with a submitting kernel thread.
            if options.sqpoll && matches!(*name, "defer_taskrun" | "coop_taskrun") {
                continue;
            }
            params.flags |= flag;
            features.push(*name);
        }
        if options.sqpoll {
            params.flags |= uapi::SETUP_SQPOLL;
            params.sq_thread_idle_ms = SQPOLL_IDLE_MS;
            features.push("sqpoll");
            if let Some(cpu) = options.sqpoll_cpu {
                params.flags |= uapi::SETUP_SQ_AFF;
                params.sq_thread_cpu = cpu;
                features.push("sqpoll_cpu");
            }
        }
        if options.iopoll {
            params.flags |= uapi::SETUP_IOPOLL;
            features.push("iopoll");
        }
        let arguments = [entries as usize, (&raw mut params) as usize, 0, 0, 0, 0];
        // SAFETY: the parameters are valid for reading and writing.
        match checked(unsafe { raw(libc::SYS_io_uring_setup, arguments) }) {
            Ok(fd) => {
                // SAFETY: a descriptor that the kernel has just made for us.
                let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
                return Ok((fd, params, features, missing));
            }
            Err(error)
                if error.raw_os_error() == Some(libc::EINVAL) && first < SETUP_FLAGS.len() =>
            {
                missing.push(format!("{}: refused by the kernel", SETUP_FLAGS[first].0));
                first += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
