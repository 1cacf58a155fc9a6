//! The common part of the rings, for any form of entries: the queues shared with the kernel, and
//! `enter`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, fence};

use super::form::Form;
use super::setup::Shared;
use super::{RingOptions, SECOND_NS};
use crate::Slab;
use crate::slots::Slots;
use crate::syscall::raw;
use crate::uapi::{self, SyncCancel, Timespec, WaitArguments};

/// The largest region that the kernel registers as one buffer.
const REGION_BYTES: usize = 1 << 30;

/// A ring with its files and its buffers.
pub(super) struct Core<F: Form> {
    /// Place of the next entry. Entries from `sq_head` up to it are staged.
    pub(super) sq_tail: u32,
    /// The kernel's head, as last read.
    sq_head: u32,
    sqpoll: bool,
    iopoll: bool,
    pub(super) vectored: bool,
    /// Entries name files by their index among the registered ones.
    pub(super) fixed_files: bool,
    /// The buffers are registered.
    pub(super) fixed_buffers: bool,
    /// Slots per registered region as a power of two.
    pub(super) region_shift: u32,
    name: usize,
    enter_flags: u32,
    pub(super) syscalls: u64,
    // These fields are dropped in this order: the ring before the memory that it uses.
    pub(super) shared: Shared<F>,
    pub(super) slots: Slots,
    pub(super) files: Vec<OwnedFd>,
}

impl<F: Form> Core<F> {
    /// As [`super::Ring::new`].
    pub(super) fn new(
        files: Vec<OwnedFd>,
        slab: Slab,
        options: &RingOptions,
    ) -> io::Result<Core<F>> {
        // The polling kernel thread frees submission entries only after it has posted the requests
        // that completed during submission. Until then, as many new entries need room.
        let room = options.depth.saturating_mul(if options.sqpoll { 2 } else { 1 });
        let entries = room.checked_next_power_of_two().ok_or(io::ErrorKind::InvalidInput)?;
        let mut shared = Shared::new(entries, options)?;
        let fixed_files = options.registered_files && register_files(&mut shared, &files);
        let region_shift = (REGION_BYTES / slab.slot_bytes()).max(1).ilog2();
        let fixed_buffers = options.fixed_buffers
            && !options.vectored
            && register_buffers(&mut shared, &slab, 1 << region_shift);
        if options.vectored {
            shared.features.push("vectored");
        }
        let (name, enter_flags) = shared.name();
        Ok(Core {
            sq_tail: 0,
            sq_head: 0,
            sqpoll: options.sqpoll,
            iopoll: options.iopoll,
            vectored: options.vectored,
            fixed_files,
            fixed_buffers,
            // Without registered buffers, the index is always 0.
            region_shift: if fixed_buffers { region_shift } else { 31 },
            name,
            enter_flags,
            syscalls: 0,
            shared,
            slots: Slots::new(slab),
            files,
        })
    }

    /// How an entry names the file of this index: flags and number.
    pub(super) fn file_name(&self, index: usize) -> (u8, i32) {
        match self.fixed_files {
            true => (uapi::SQE_FIXED_FILE, index as i32),
            false => (0, self.files[index].as_raw_fd()),
        }
    }

    /// The next free entry.
    #[inline(always)]
    pub(super) fn place(&mut self) -> NonNull<F::Sqe> {
        let entries = self.shared.sq_entries;
        if self.sq_tail.wrapping_sub(self.sq_head) >= entries {
            self.look_for_room();
        }
        // SAFETY: there are `entries` of them, a power of two.
        unsafe { self.shared.sqes.add((self.sq_tail & (entries - 1)) as usize) }
    }

    #[cold]
    fn look_for_room(&mut self) {
        self.sq_head = word(self.shared.sq_head).load(Acquire);
        let staged = self.sq_tail.wrapping_sub(self.sq_head);
        assert!(staged < self.shared.sq_entries, "more staged than the ring's depth");
    }

    /// As [`super::Ring::enter`].
    #[inline(always)]
    pub(super) fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        let wait_for = if patience_ns == 0 { 0 } else { wait_for };
        word(self.shared.sq_tail).store(self.sq_tail, Release);
        if self.sqpoll {
            return self.enter_beside_poller(wait_for, patience_ns);
        }
        let staged = self.sq_tail.wrapping_sub(self.sq_head);
        let flags = word(self.shared.sq_flags).load(Relaxed);
        let pending = flags & (uapi::SQ_TASKRUN | uapi::SQ_CQ_OVERFLOW) != 0
            || (self.iopoll && self.slots.in_flight() > 0);
        if staged == 0 && !pending && self.finished() >= wait_for {
            return Ok(());
        }
        // SAFETY: staged entries name only memory that the rules of this crate keep alive.
        let result = unsafe { self.system_call(staged, wait_for, patience_ns, pending, 0) };
        self.sq_head = word(self.shared.sq_head).load(Acquire);
        if result < 0 { failed(result) } else { Ok(()) }
    }

    /// As `enter` where a kernel thread submits: makes a call only to wake it, to wait, or after an
    /// overflow of the completion queue.
    #[cold]
    #[inline(never)]
    fn enter_beside_poller(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        // The kernel thread sets its flag before it reads the tail again, and this thread has moved
        // the tail before it reads the flag. So at least one of them sees the other's change.
        fence(SeqCst);
        let flags = word(self.shared.sq_flags).load(Relaxed);
        let asleep = flags & uapi::SQ_NEED_WAKEUP != 0;
        let wake = if asleep { uapi::ENTER_SQ_WAKEUP } else { 0 };
        let overflow = flags & uapi::SQ_CQ_OVERFLOW != 0;
        let staged = self.sq_tail.wrapping_sub(word(self.shared.sq_head).load(Acquire));
        let must_wake = asleep && (staged > 0 || (self.iopoll && self.slots.in_flight() > 0));
        if !must_wake && !overflow && self.finished() >= wait_for {
            return Ok(());
        }
        // SAFETY: as in `enter`.
        let result = unsafe { self.system_call(staged, wait_for, patience_ns, overflow, wake) };
        if result < 0 { failed(result) } else { Ok(()) }
    }

    /// `io_uring_enter`. With `collect` the kernel posts finished requests even without a wait.
    ///
    /// # Safety
    /// The memory that staged entries name must live until they have completed.
    #[inline(always)]
    unsafe fn system_call(
        &mut self,
        staged: u32,
        wait_for: u32,
        patience_ns: u64,
        collect: bool,
        more_flags: u32,
    ) -> i64 {
        let patience = Timespec::of_ns(patience_ns);
        let timeout = (&raw const patience) as u64;
        let waiting = WaitArguments { timeout, ..WaitArguments::default() };
        let (flags, argument, argument_bytes) = if wait_for > 0 {
            let flags = uapi::ENTER_GETEVENTS | uapi::ENTER_EXT_ARG;
            (flags, (&raw const waiting) as usize, size_of::<WaitArguments>())
        } else {
            (if collect { uapi::ENTER_GETEVENTS } else { 0 }, 0, 0)
        };
        let flags = (self.enter_flags | flags | more_flags) as usize;
        self.syscalls += 1;
        let arguments =
            [self.name, staged as usize, wait_for as usize, flags, argument, argument_bytes];
        // SAFETY: the arguments of the wait are valid for the call; the caller answers for the
        // entries.
        unsafe { raw(libc::SYS_io_uring_enter, arguments) }
    }

    /// Completions that can be reaped.
    #[inline(always)]
    fn finished(&self) -> u32 {
        let head = word(self.shared.cq_head).load(Relaxed);
        word(self.shared.cq_tail).load(Acquire).wrapping_sub(head)
    }

    /// As [`super::Ring::reap`].
    #[inline(always)]
    pub(super) fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        let head = word(self.shared.cq_head);
        let tail = word(self.shared.cq_tail).load(Acquire);
        let mut seen = Seen { at: head.load(Relaxed), head };
        let mask = self.shared.cq_entries - 1;
        while seen.at != tail {
            // SAFETY: there are `cq_entries` of them, a power of two, and the kernel has finished
            // those before its tail.
            let completion = unsafe { self.shared.cqes.add((seen.at & mask) as usize).read() };
            seen.at = seen.at.wrapping_add(1);
            let (slot, result) = F::done(&completion);
            done(slot, self.slots.take_back(slot, result));
        }
    }

    /// Cancels the requests in flight and waits a few seconds for them to complete.
    pub(super) fn cancel_all(&mut self) {
        // Staged requests must be submitted before they can complete.
        let _ = self.enter(0, 0);
        let timeout = Timespec { seconds: 2, nanoseconds: 0 };
        let flags = uapi::CANCEL_ANY;
        let mut cancel = SyncCancel { fd: -1, flags, timeout, ..SyncCancel::default() };
        // SAFETY: one such argument, valid for reading. A failure shows in what is still in flight
        // afterwards.
        let _ = unsafe {
            self.shared.register(uapi::REGISTER_SYNC_CANCEL, (&raw mut cancel).cast(), 1)
        };
        for _ in 0..4 {
            let _ = self.enter(self.slots.in_flight() as u32, SECOND_NS);
            self.reap(|_, _| ());
            if self.slots.in_flight() == 0 {
                break;
            }
        }
    }
}

impl<F: Form> Drop for Core<F> {
    fn drop(&mut self) {
        if self.slots.in_flight() > 0 {
            self.cancel_all();
        }
    }
}

/// On drop, also by a panic, shows the kernel which completions were read.
struct Seen<'a> {
    head: &'a AtomicU32,
    at: u32,
}

impl Drop for Seen<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.head.store(self.at, Release);
    }
}

/// A word shared with the kernel.
#[inline(always)]
pub(super) fn word<'a>(pointer: NonNull<AtomicU32>) -> &'a AtomicU32 {
    // SAFETY: every caller takes the pointer from its own `Shared`, and does not use the word after
    // that is dropped.
    unsafe { pointer.as_ref() }
}

#[cold]
fn failed(result: i64) -> io::Result<()> {
    match -result as i32 {
        libc::EINTR | libc::ETIME => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn register_files<F: Form>(shared: &mut Shared<F>, files: &[OwnedFd]) -> bool {
    let mut fds: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
    // SAFETY: that many descriptors, valid for reading.
    let result =
        unsafe { shared.register(uapi::REGISTER_FILES, fds.as_mut_ptr().cast(), fds.len()) };
    shared.note("registered_file", result)
}

fn register_buffers<F: Form>(shared: &mut Shared<F>, slab: &Slab, slots_per_region: usize) -> bool {
    let mut regions = slab.regions(slots_per_region);
    let (start, count) = (regions.as_mut_ptr().cast(), regions.len());
    // SAFETY: the regions belong to the slab, which the ring drops after itself (rule 2).
    let result = unsafe { shared.register(uapi::REGISTER_BUFFERS, start, count) };
    let result = result.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOMEM) => {
            let limit = crate::inspect::locked_memory_limit();
            let bytes = slab.bytes();
            let reason =
                format!("{bytes} B exceed the limit on locked memory, {limit} (ulimit -l)");
            io::Error::new(io::ErrorKind::OutOfMemory, reason)
        }
        _ => error,
    });
    shared.note("registered_buffers", result)
}
