//! io_uring without a library: entries are filled in place from templates, and `enter` is one
//! inline system call. One ring, its files, one slab, used by one thread.

mod command;
mod core;
mod form;
mod options;
mod setup;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use self::core::{Core, word};
use crate::inspect::is_block_device;
use crate::syscall::{BEYOND, PROBE_BYTES, PUNCH_HOLE};
use crate::uapi::{self, Sqe};
use crate::{Direction, Request, Slab};
pub use command::CommandRing;
use form::Usual;
pub use options::RingOptions;
use setup::Shared;

const SECOND_NS: u64 = 1_000_000_000;

/// The parts of an entry that are the same for all requests on a file.
struct Template {
    entries: [Sqe; 4],
    on_device: bool,
}

/// A ring with its files and its buffers.
pub struct Ring {
    /// One per file.
    templates: Box<[Template]>,
    core: Core<Usual>,
}

impl Ring {
    /// Sets up a ring on the calling thread, which alone may use it.
    ///
    /// # Errors
    /// If the kernel has no io_uring (ENOSYS), forbids it (EPERM, EACCES), or has no memory for it.
    pub fn new(files: Vec<OwnedFd>, slab: Slab, options: RingOptions) -> io::Result<Ring> {
        let core = Core::new(files, slab, &options)?;
        let templates = (0..core.files.len()).map(|index| template(index, &core, &options));
        Ok(Ring { templates: templates.collect(), core })
    }

    /// Features in effect.
    pub fn features(&self) -> &[&'static str] {
        &self.core.shared.features
    }

    /// Features that could not be used, each with the reason.
    pub fn missing(&self) -> &[String] {
        &self.core.shared.missing
    }

    /// System calls made by `enter`.
    pub fn syscalls(&self) -> u64 {
        self.core.syscalls
    }

    /// The files, in their order.
    pub fn files(&self) -> &[OwnedFd] {
        &self.core.files
    }

    /// The bytes of a slot that is ours.
    ///
    /// # Panics
    /// If the slot is in flight or does not exist.
    #[inline(always)]
    pub fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.core.slots.buffer(slot)
    }

    /// Stages one request on a slot that is ours; `enter` submits it.
    ///
    /// # Panics
    /// If the slot is in flight, the range leaves the slot, there is no such file, or more is
    /// staged than the depth.
    #[inline(always)]
    pub fn push(&mut self, slot: usize, request: Request) {
        let Template { entries, on_device } = &self.templates[usize::from(request.target)];
        let mut entry = entries[request.way as usize];
        let on_device = *on_device;
        let place = self.core.place();
        let start = self.core.slots.lend(slot, &request);
        entry.user_data = slot as u64;
        match request.way {
            Direction::Read | Direction::Write => {
                entry.offset = request.offset;
                if self.core.vectored {
                    entry.address = self.core.slots.vector(slot, start, request.bytes) as u64;
                } else {
                    entry.address = start as u64;
                    entry.length = request.bytes;
                    entry.buffer_index = (slot >> self.core.region_shift) as u16;
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
        // SAFETY: `place` is an entry that the kernel does not read before the tail has passed it.
        // The memory it names belongs to the slab, which outlives the request (rule 2), and the
        // slot is marked as the kernel's, so that its bytes are not touched meanwhile (rule 1).
        unsafe { place.write(entry) };
        self.core.sq_tail = self.core.sq_tail.wrapping_add(1);
    }

    /// Sets the priority of the request that was staged last, encoded as for ioprio_set(2).
    ///
    /// # Panics
    /// If it was submitted already.
    pub fn set_priority(&mut self, priority: u16) {
        let handed_over = word(self.core.shared.sq_tail).load(Relaxed);
        assert!(self.core.sq_tail != handed_over, "no request is staged");
        let last = self.core.sq_tail.wrapping_sub(1) & (self.core.shared.sq_entries - 1);
        // SAFETY: there are `sq_entries` of them, a power of two, and the kernel does not read this
        // one before the shared tail has passed it, which `enter` moves.
        unsafe { (*self.core.shared.sqes.add(last as usize).as_ptr()).priority = priority };
    }

    /// Stages a request that does nothing, for measuring the ring itself.
    ///
    /// # Panics
    /// As [`Ring::push`].
    #[inline(always)]
    pub fn push_nop(&mut self, slot: usize) {
        let place = self.core.place();
        let nothing = Request { way: Direction::Sync, target: 0, offset: 0, skip: 0, bytes: 0 };
        self.core.slots.lend(slot, &nothing);
        let entry = Sqe { opcode: uapi::OP_NOP, user_data: slot as u64, ..Sqe::default() };
        // SAFETY: as in `push`; the request names no memory.
        unsafe { place.write(entry) };
        self.core.sq_tail = self.core.sq_tail.wrapping_add(1);
    }

    /// Submits the staged requests, and waits until `wait_for` completions have arrived or
    /// `patience_ns` have passed, so that a deadline is met even if the device never answers. With
    /// 0 ns it does not wait. Makes no system call where none is needed.
    ///
    /// # Errors
    /// EAGAIN or EBUSY if the kernel needs completions to be reaped first; its other errors. A
    /// signal or a timeout is no error.
    #[inline(always)]
    pub fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        self.core.enter(wait_for, patience_ns)
    }

    /// Returns every finished slot with its result: bytes moved or trimmed, 0 for a sync, or the
    /// negated errno.
    ///
    /// # Panics
    /// If the kernel names a slot that is not in flight (rule 3).
    #[inline(always)]
    pub fn reap(&mut self, done: impl FnMut(usize, i32)) {
        self.core.reap(done);
    }

    /// Checks that this ring can trim this file, a block device, without trimming any data.
    ///
    /// # Errors
    /// EOPNOTSUPP where the kernel's io_uring has no discard (before Linux 6.12).
    ///
    /// # Panics
    /// If anything is in flight.
    pub fn probe_discard(&mut self, target: u16) -> io::Result<()> {
        assert!(self.core.slots.in_flight() == 0, "a probe needs an idle ring");
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
}

/// Checks that this process may set up a ring.
///
/// # Errors
/// ENOSYS without io_uring, EPERM or EACCES where it is forbidden.
pub fn probe() -> io::Result<()> {
    Shared::<Usual>::new(2, &RingOptions::of_depth(2)).map(|_ring| ())
}

/// Checks that io_uring can trim this block device, without trimming any data.
///
/// # Errors
/// EOPNOTSUPP where the kernel's io_uring has no discard (before Linux 6.12); those of
/// [`Ring::new`].
pub fn probe_discard(device: BorrowedFd<'_>) -> io::Result<()> {
    let slab = Slab::new(1, 4096)?;
    let files = vec![device.try_clone_to_owned()?];
    Ring::new(files, slab, RingOptions::of_depth(1))?.probe_discard(0)
}

/// The template for requests on one file.
fn template(index: usize, core: &Core<Usual>, options: &RingOptions) -> Template {
    let on_device = is_block_device(core.files[index].as_fd());
    let (flags, fd) = core.file_name(index);
    let opcode = |fixed, vectored, plain| match (options.vectored, core.fixed_buffers) {
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
        // There is no class 7; every user may have class 3.
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
        // The kernel thread sleeps after a second, and must be woken.
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
        ring.core.cancel_all();
        assert_eq!(ring.core.slots.in_flight(), 0);
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
