//! io_uring without a layer between: entries are filled in place from templates, and `enter` is one
//! inline system call. One ring, its files, one slab, used by one thread.

mod options;
mod setup;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, fence};

use crate::inspect::is_block_device;
use crate::slots::Slots;
use crate::syscall::{BEYOND, PROBE_BYTES, PUNCH_HOLE, raw};
use crate::uapi::{self, Sqe, SyncCancel, Timespec, WaitArguments};
use crate::{Direction, Request, Slab};
pub use options::RingOptions;
use setup::Shared;

const SECOND_NS: u64 = 1_000_000_000;
/// The largest region that the kernel registers as one buffer.
const REGION_BYTES: usize = 1 << 30;

/// Everything of an entry that does not change from one request to the next.
struct Template {
    entries: [Sqe; 4],
    on_device: bool,
}

/// A ring with its files and its buffers.
pub struct Ring {
    /// One per file.
    templates: Box<[Template]>,
    /// Where the next entry goes; what lies before it and after `sq_head` is staged.
    sq_tail: u32,
    /// As last seen.
    sq_head: u32,
    sqpoll: bool,
    iopoll: bool,
    vectored: bool,
    /// Slots per registered region as a power of two.
    region_shift: u32,
    name: usize,
    enter_flags: u32,
    syscalls: u64,
    // The order of what follows is that of the drop: the ring, then the memory it works on.
    shared: Shared,
    slots: Slots,
    files: Vec<OwnedFd>,
}

impl Ring {
    /// Sets up a ring on the calling thread, which alone may use it.
    ///
    /// # Errors
    /// If the kernel has no io_uring (ENOSYS), forbids it (EPERM, EACCES), or has no memory for it.
    pub fn new(files: Vec<OwnedFd>, slab: Slab, options: RingOptions) -> io::Result<Ring> {
        // The polling kernel thread frees its submission entries only after it has posted what
        // completed inside submission: for that moment there must be room for as many again.
        let room = options.depth.saturating_mul(if options.sqpoll { 2 } else { 1 });
        let entries = room.checked_next_power_of_two().ok_or(io::ErrorKind::InvalidInput)?;
        let mut shared = Shared::new(entries, &options)?;
        let fixed_files = options.registered_files && register_files(&mut shared, &files);
        let region_shift = (REGION_BYTES / slab.slot_bytes()).max(1).ilog2();
        let fixed_buffers = options.fixed_buffers
            && !options.vectored
            && register_buffers(&mut shared, &slab, 1 << region_shift);
        if options.vectored {
            shared.features.push("vectored");
        }
        let template = |(index, file)| template(index, file, fixed_files, fixed_buffers, &options);
        let templates = files.iter().enumerate().map(template).collect();
        let (name, enter_flags) = shared.name();
        Ok(Ring {
            templates,
            sq_tail: 0,
            sq_head: 0,
            sqpoll: options.sqpoll,
            iopoll: options.iopoll,
            vectored: options.vectored,
            // Where none is registered the index is 0.
            region_shift: if fixed_buffers { region_shift } else { 31 },
            name,
            enter_flags,
            syscalls: 0,
            shared,
            slots: Slots::new(slab),
            files,
        })
    }

    /// Features in effect.
    pub fn features(&self) -> &[&'static str] {
        &self.shared.features
    }

    /// Features tried in vain, each with the reason.
    pub fn missing(&self) -> &[String] {
        &self.shared.missing
    }

    /// System calls made by `enter`.
    pub fn syscalls(&self) -> u64 {
        self.syscalls
    }

    /// The files, in their order.
    pub fn files(&self) -> &[OwnedFd] {
        &self.files
    }

    /// The bytes of a slot that is ours.
    ///
    /// # Panics
    /// If the slot is in flight or does not exist.
    #[inline(always)]
    pub fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.slots.buffer(slot)
    }

    /// Stages one request on a slot that is ours; `enter` hands it over.
    ///
    /// # Panics
    /// If the slot is in flight, the range leaves the slot, there is no such file, or more is
    /// staged than the depth.
    #[inline(always)]
    pub fn push(&mut self, slot: usize, request: Request) {
        let Template { entries, on_device } = &self.templates[usize::from(request.target)];
        let mut entry = entries[request.way as usize];
        let on_device = *on_device;
        let place = self.place();
        let start = self.slots.lend(slot, &request);
        entry.user_data = slot as u64;
        match request.way {
            Direction::Read | Direction::Write => {
                entry.offset = request.offset;
                if self.vectored {
                    entry.address = self.slots.vector(slot, start, request.bytes) as u64;
                } else {
                    entry.address = start as u64;
                    entry.length = request.bytes;
                    entry.buffer_index = (slot >> self.region_shift) as u16;
                }
            }
            Direction::Trim if on_device => {
                entry.address = request.offset;
                entry.address_3 = u64::from(request.bytes);
            }
            Direction::Trim => {
                entry.offset = request.offset;
                entry.address = u64::from(request.bytes);
            }
            Direction::Sync => {}
        }
        // SAFETY: `place` is an entry that the kernel does not look at before the tail has passed
        // it. What it names belongs to the slab, which outlives the request (rule 2), and the slot
        // is marked so that nobody touches it meanwhile (rule 1).
        unsafe { place.write(entry) };
        self.sq_tail = self.sq_tail.wrapping_add(1);
    }

    /// Gives the request that was staged last a priority of its own, as ioprio_set(2) has it.
    ///
    /// # Panics
    /// If it was handed over already.
    pub fn set_priority(&mut self, priority: u16) {
        let handed_over = word(self.shared.sq_tail).load(Relaxed);
        assert!(self.sq_tail != handed_over, "no request is staged");
        let last = self.sq_tail.wrapping_sub(1) & (self.shared.sq_entries - 1);
        // SAFETY: there are `sq_entries` of them, a power of two, and the kernel does not look at
        // this one before the tail in its memory has passed it, which `enter` moves.
        unsafe { (*self.shared.sqes.add(last as usize).as_ptr()).priority = priority };
    }

    /// Stages a request that does nothing, for measuring the ring itself.
    ///
    /// # Panics
    /// As [`Ring::push`].
    #[inline(always)]
    pub fn push_nop(&mut self, slot: usize) {
        let place = self.place();
        let nothing = Request { way: Direction::Sync, target: 0, offset: 0, skip: 0, bytes: 0 };
        self.slots.lend(slot, &nothing);
        let entry = Sqe { opcode: uapi::OP_NOP, user_data: slot as u64, ..Sqe::default() };
        // SAFETY: as in `push`; the request names no memory.
        unsafe { place.write(entry) };
        self.sq_tail = self.sq_tail.wrapping_add(1);
    }

    /// The next free entry.
    #[inline(always)]
    fn place(&mut self) -> NonNull<Sqe> {
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

    /// Hands over what is staged; waits until `wait_for` completions are there, or `patience_ns`
    /// have passed (so that a deadline is seen even if the device never answers). Without patience
    /// it only looks. Makes no system call where none is needed.
    ///
    /// # Errors
    /// EAGAIN or EBUSY when the kernel wants completions reaped first; others as they come. Being
    /// interrupted or timed out is not an error.
    #[inline(always)]
    pub fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
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
        // SAFETY: what is staged names only what the rules of this crate keep alive.
        let result = unsafe { self.system_call(staged, wait_for, patience_ns, pending, 0) };
        self.sq_head = word(self.shared.sq_head).load(Acquire);
        if result < 0 { failed(result) } else { Ok(()) }
    }

    /// The same where a kernel thread submits: it is woken if it sleeps, and entered only to wait.
    #[cold]
    #[inline(never)]
    fn enter_beside_poller(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        // The thread says that it will sleep, then looks at the tail once more; the tail has been
        // moved, then it is looked whether it sleeps. One of both sees the other.
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

    /// `io_uring_enter`. `collect` makes the kernel post what it has finished even if nothing is
    /// waited for.
    ///
    /// # Safety
    /// What the staged entries name must live until they have completed.
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

    /// Gives back every finished slot with its result: bytes moved or given back, 0 for a sync, or
    /// the negated errno.
    ///
    /// # Panics
    /// If the kernel names a slot that is not in flight (rule 3).
    #[inline(always)]
    pub fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        let head = word(self.shared.cq_head);
        let tail = word(self.shared.cq_tail).load(Acquire);
        let mut seen = Seen { at: head.load(Relaxed), head };
        let mask = self.shared.cq_entries - 1;
        while seen.at != tail {
            // SAFETY: there are `cq_entries` of them, a power of two, and the kernel has finished
            // those before its tail.
            let completion = unsafe { self.shared.cqes.add((seen.at & mask) as usize).read() };
            seen.at = seen.at.wrapping_add(1);
            let slot = completion.user_data as usize;
            done(slot, self.slots.take_back(slot, completion.result));
        }
    }

    /// Whether this ring can trim this file, a block device: found out without trimming.
    ///
    /// # Errors
    /// EOPNOTSUPP where the kernel's io_uring has no discard (before Linux 6.12).
    ///
    /// # Panics
    /// If anything is in flight.
    pub fn probe_discard(&mut self, target: u16) -> io::Result<()> {
        assert!(self.slots.in_flight() == 0, "a probe needs an idle ring");
        let (offset, bytes) = (BEYOND, PROBE_BYTES);
        self.push(0, Request { way: Direction::Trim, target, offset, skip: 0, bytes });
        let mut answer = None;
        while answer.is_none() {
            self.enter(1, SECOND_NS)?;
            self.reap(|_slot, result| answer = Some(result));
        }
        match answer {
            Some(result) if result < 0 && result != -libc::EINVAL => {
                Err(io::Error::from_raw_os_error(-result))
            }
            _ => Ok(()),
        }
    }

    /// Cancels what is in flight and waits a few seconds for it to come back.
    fn cancel_all(&mut self) {
        // What is only staged comes back as well once it has been handed over.
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

impl Drop for Ring {
    fn drop(&mut self) {
        if self.slots.in_flight() > 0 {
            self.cancel_all();
        }
    }
}

/// Tells the kernel how far we have read, whatever happens while reading.
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
fn word<'a>(pointer: NonNull<AtomicU32>) -> &'a AtomicU32 {
    // SAFETY: every caller takes the pointer from a `Shared` of its own and lets go of the word
    // before that is dropped.
    unsafe { pointer.as_ref() }
}

#[cold]
fn failed(result: i64) -> io::Result<()> {
    match -result as i32 {
        libc::EINTR | libc::ETIME => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Whether this process may set up a ring at all.
///
/// # Errors
/// ENOSYS without io_uring, EPERM or EACCES where it is forbidden.
pub fn probe() -> io::Result<()> {
    Shared::new(2, &RingOptions::of_depth(2)).map(|_ring| ())
}

fn register_files(shared: &mut Shared, files: &[OwnedFd]) -> bool {
    let mut fds: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
    // SAFETY: that many descriptors, valid for reading.
    let result =
        unsafe { shared.register(uapi::REGISTER_FILES, fds.as_mut_ptr().cast(), fds.len()) };
    shared.note("registered_file", result)
}

fn register_buffers(shared: &mut Shared, slab: &Slab, slots_per_region: usize) -> bool {
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

/// What the requests on one file have in common.
fn template(
    index: usize,
    file: &OwnedFd,
    fixed_files: bool,
    fixed_buffers: bool,
    options: &RingOptions,
) -> Template {
    let on_device = is_block_device(file.as_fd());
    let (flags, fd) = match fixed_files {
        true => (uapi::SQE_FIXED_FILE, index as i32),
        false => (0, file.as_raw_fd()),
    };
    let opcode = |fixed, vectored, plain| match (options.vectored, fixed_buffers) {
        (true, _) => vectored,
        (false, true) => fixed,
        (false, false) => plain,
    };
    let common = Sqe { flags, fd, ..Sqe::default() };
    let entry = |way| match way {
        Direction::Read => Sqe {
            opcode: opcode(uapi::OP_READ_FIXED, uapi::OP_READV, uapi::OP_READ),
            length: 1,
            ..common
        },
        Direction::Write => Sqe {
            opcode: opcode(uapi::OP_WRITE_FIXED, uapi::OP_WRITEV, uapi::OP_WRITE),
            length: 1,
            operation_flags: options.write_flags,
            ..common
        },
        Direction::Trim if on_device => {
            Sqe { opcode: uapi::OP_URING_CMD, offset: uapi::CMD_DISCARD, ..common }
        }
        Direction::Trim => Sqe { opcode: uapi::OP_FALLOCATE, length: PUNCH_HOLE, ..common },
        Direction::Sync => {
            let operation_flags = if options.sync_data_only { uapi::FSYNC_DATASYNC } else { 0 };
            Sqe { opcode: uapi::OP_FSYNC, operation_flags, ..common }
        }
    };
    Template { entries: Direction::ALL.map(entry), on_device }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn ring(depth: u32) -> Ring {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let slab = Slab::new(depth as usize, 4096).unwrap();
        Ring::new(vec![file.into()], slab, RingOptions::of_depth(depth)).unwrap()
    }

    fn read(bytes: u32) -> Request {
        Request { way: Direction::Read, target: 0, offset: 0, skip: 0, bytes }
    }

    #[test]
    fn slots_come_back_with_their_bytes() {
        if let Err(error) = probe() {
            return eprintln_skip(&error);
        }
        let mut ring = ring(4);
        for slot in 0..4 {
            ring.push(slot, read(4));
        }
        let mut back = Vec::new();
        while back.len() < 4 {
            ring.enter(1, SECOND_NS).unwrap();
            ring.reap(|slot, result| back.push((slot, result)));
        }
        back.sort_unstable();
        assert_eq!(back, [(0, 4), (1, 4), (2, 4), (3, 4)]);
        assert_eq!(&ring.buffer(2)[..4], b"\x7fELF");
        let before = ring.syscalls();
        ring.enter(0, 0).unwrap();
        assert_eq!(ring.syscalls(), before, "nothing staged, nothing in flight, no call");
    }

    #[test]
    fn the_kernel_gets_the_priority_of_a_request() {
        if let Err(error) = probe() {
            return eprintln_skip(&error);
        }
        // There is no class 7, and class 3 is anyone's.
        let mut ring = ring(3);
        for (slot, priority) in [None, Some(7 << 13), Some(3 << 13)].into_iter().enumerate() {
            ring.push(slot, read(4));
            priority.into_iter().for_each(|priority| ring.set_priority(priority));
        }
        let mut back = Vec::new();
        while back.len() < 3 {
            ring.enter(1, SECOND_NS).unwrap();
            ring.reap(|slot, result| back.push((slot, result)));
        }
        back.sort_unstable();
        assert_eq!(back, [(0, 4), (1, -libc::EINVAL), (2, 4)]);
    }

    #[test]
    fn what_was_handed_over_keeps_its_priority() {
        if let Err(error) = probe() {
            return eprintln_skip(&error);
        }
        let mut ring = ring(1);
        ring.push(0, read(4));
        ring.enter(0, 0).unwrap();
        let late = std::panic::AssertUnwindSafe(|| ring.set_priority(3 << 13));
        assert!(std::panic::catch_unwind(late).is_err());
    }

    #[test]
    fn more_rings_than_a_thread_can_register_work_one_after_another() {
        if let Err(error) = probe() {
            return eprintln_skip(&error);
        }
        for _ in 0..40 {
            let ring = ring(1);
            assert!(ring.features().contains(&"registered_ring"), "{:?}", ring.missing());
        }
    }

    #[test]
    fn a_polling_kernel_thread_never_finds_the_queue_full() {
        if let Err(error) = probe() {
            return eprintln_skip(&error);
        }
        let file = std::fs::File::open("/dev/null").unwrap();
        let slab = Slab::new(4, 4096).unwrap();
        let options = RingOptions { sqpoll: true, ..RingOptions::of_depth(4) };
        let mut ring = match Ring::new(vec![file.into()], slab, options) {
            Ok(ring) => ring,
            Err(error) => return eprintln_skip(&error),
        };
        let mut free = vec![0, 1, 2, 3];
        let mut finished = 0;
        while finished < 200_000 {
            for slot in free.drain(..) {
                ring.push_nop(slot);
            }
            ring.enter(0, 0).unwrap();
            ring.reap(|slot, _| free.push(slot));
            finished += free.len();
        }
        assert!(ring.syscalls() < finished as u64, "{} calls", ring.syscalls());
        // It sleeps after a second, and has to be woken.
        std::thread::sleep(std::time::Duration::from_millis(1300));
        let before = ring.syscalls();
        let slot = free[0];
        ring.push_nop(slot);
        let mut back = false;
        for _ in 0..10 {
            ring.enter(1, SECOND_NS).unwrap();
            ring.reap(|_, _| back = true);
            if back {
                break;
            }
        }
        assert!(back && ring.syscalls() > before);
    }

    #[test]
    fn the_polling_kernel_thread_has_the_cpu_that_was_given() {
        if let Err(error) = probe() {
            return eprintln_skip(&error);
        }
        let on = |cpu: u32| {
            let file = std::fs::File::open("/dev/null").unwrap();
            let sqpoll_cpu = Some(cpu);
            let options = RingOptions { sqpoll: true, sqpoll_cpu, ..RingOptions::of_depth(1) };
            Ring::new(vec![file.into()], Slab::new(1, 4096).unwrap(), options)
        };
        let cpu = crate::thread::allowed_cpus()[0];
        match on(cpu) {
            Ok(ring) => assert!(ring.features().contains(&"sqpoll_cpu"), "{:?}", ring.features()),
            Err(error) => return eprintln_skip(&error),
        }
        let refused = on(1 << 20).err().and_then(|error| error.raw_os_error());
        assert_eq!(refused, Some(libc::EINVAL));
    }

    #[test]
    fn what_is_staged_when_the_ring_is_dropped_is_not_leaked() {
        if let Err(error) = probe() {
            return eprintln_skip(&error);
        }
        let mut ring = ring(2);
        ring.push(0, read(4));
        ring.push(1, read(4));
        ring.cancel_all();
        assert_eq!(ring.slots.in_flight(), 0);
    }

    #[test]
    #[should_panic(expected = "is the kernel's")]
    fn bytes_in_flight_cannot_be_named() {
        if let Err(error) = probe() {
            eprintln_skip(&error);
            panic!("is the kernel's");
        }
        let mut ring = ring(1);
        ring.push(0, read(4));
        ring.buffer(0);
    }

    #[test]
    #[should_panic(expected = "leaves its slot")]
    fn a_request_beyond_its_slot_is_refused() {
        if let Err(error) = probe() {
            eprintln_skip(&error);
            panic!("leaves its slot");
        }
        ring(1).push(0, read(4097));
    }

    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn eprintln_skip(error: &io::Error) {
        eprintln!("skipped: no io_uring here: {error}; untested: rings");
    }
}
