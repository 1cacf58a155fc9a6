//! The kernel's older asynchronous interface: `io_submit` and `io_getevents`, inline, without a
//! library. One context, its files, one slab, used by one thread.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::slots::Slots;
use crate::syscall::{checked, raw};
use crate::uapi::{self, IoEvent, Iocb, Timespec};
use crate::{Direction, Request, Slab};

const SECOND_NS: u64 = 1_000_000_000;

/// Options of a context.
#[derive(Clone, Copy, Debug)]
pub struct AioOptions {
    /// Requests carry vectors of one buffer.
    pub vectored: bool,
    /// `RWF_*` of every write.
    pub write_flags: u32,
    /// A sync covers the data and the metadata needed to read it (fdatasync), not all metadata.
    pub sync_data_only: bool,
}

/// A context with its files and its buffers.
pub struct Aio {
    context: usize,
    options: AioOptions,
    requests: Box<[Iocb]>,
    /// Addresses of requests that are not submitted yet, in order.
    staged: Vec<usize>,
    /// Room for every completion; the first `arrived` are valid.
    events: Box<[IoEvent]>,
    arrived: usize,
    syscalls: u64,
    slots: Slots,
    files: Vec<OwnedFd>,
}

impl Aio {
    /// Sets up a context for as many requests as the slab has slots.
    ///
    /// # Errors
    /// EAGAIN if all contexts together would hold more than `fs.aio-max-nr`; ENOSYS where the
    /// kernel is built without this interface.
    pub fn new(files: Vec<OwnedFd>, slab: Slab, options: AioOptions) -> io::Result<Aio> {
        let depth = slab.slots();
        let mut context = 0usize;
        let arguments = [depth, (&raw mut context) as usize, 0, 0, 0, 0];
        // SAFETY: the kernel writes one word to the variable.
        checked(unsafe { raw(libc::SYS_io_setup, arguments) })?;
        Ok(Aio {
            context,
            options,
            requests: vec![Iocb::default(); depth].into(),
            staged: Vec::with_capacity(depth),
            events: vec![IoEvent::default(); depth].into(),
            arrived: 0,
            syscalls: 0,
            slots: Slots::new(slab),
            files,
        })
    }

    /// System calls made by `enter`.
    pub fn syscalls(&self) -> u64 {
        self.syscalls
    }

    /// The bytes of a slot that is ours.
    ///
    /// # Panics
    /// If the slot is in flight or does not exist.
    #[inline(always)]
    pub fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.slots.buffer(slot)
    }

    /// Stages one request on a slot that is ours; `enter` submits it.
    ///
    /// # Panics
    /// If the slot is in flight, the range leaves the slot, there is no such file, or it is a trim,
    /// which this interface does not have.
    #[inline(always)]
    pub fn push(&mut self, slot: usize, request: Request) {
        assert!(request.way != Direction::Trim, "this interface has no trim");
        let fd = self.files[usize::from(request.target)].as_raw_fd() as u32;
        let start = self.slots.lend(slot, &request);
        let mut entry = Iocb { data: slot as u64, fd, ..Iocb::default() };
        let vectored = self.options.vectored;
        match request.way {
            Direction::Read => {
                entry.opcode = if vectored { uapi::IOCB_PREADV } else { uapi::IOCB_PREAD };
            }
            Direction::Write | Direction::Trim => {
                entry.opcode = if vectored { uapi::IOCB_PWRITEV } else { uapi::IOCB_PWRITE };
                entry.rw_flags = self.options.write_flags;
            }
            Direction::Sync => {
                let data_only = self.options.sync_data_only;
                entry.opcode = if data_only { uapi::IOCB_FDSYNC } else { uapi::IOCB_FSYNC };
            }
        }
        if request.way != Direction::Sync {
            entry.offset = request.offset as i64;
            if vectored {
                entry.address = self.slots.vector(slot, start, request.bytes) as u64;
                entry.length = 1;
            } else {
                entry.address = start as u64;
                entry.length = u64::from(request.bytes);
            }
        }
        let place = &mut self.requests[slot];
        *place = entry;
        self.staged.push((&raw mut *place) as usize);
    }

    /// Sets the priority of the request staged on this slot, encoded as for ioprio_set(2).
    pub fn set_priority(&mut self, slot: usize, priority: u16) {
        let request = &mut self.requests[slot];
        request.priority = priority as i16;
        request.flags |= uapi::IOCB_FLAG_PRIORITY;
    }

    /// Submits the staged requests, and waits until `wait_for` completions have arrived or
    /// `patience_ns` have passed.
    ///
    /// # Errors
    /// EAGAIN if the kernel needs completions to be reaped first; its other errors. An interruption
    /// by a signal is no error.
    #[inline(always)]
    pub fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        let handed_over = if self.staged.is_empty() { Ok(()) } else { self.submit() };
        let wait_for = (wait_for as usize).saturating_sub(self.arrived);
        if self.slots.in_flight() > self.arrived + self.staged.len() {
            self.collect(wait_for, patience_ns)?;
        }
        handed_over
    }

    #[inline(always)]
    fn submit(&mut self) -> io::Result<()> {
        let mut first = 0;
        let mut refused = Ok(());
        while first < self.staged.len() {
            let left = &self.staged[first..];
            let arguments = [self.context, left.len(), left.as_ptr() as usize, 0, 0, 0];
            self.syscalls += 1;
            // SAFETY: the addresses are those of our own requests, filled by `push`; what they name
            // belongs to the slab, which outlives them (rules 1 and 2).
            let result = unsafe { raw(libc::SYS_io_submit, arguments) };
            if result > 0 {
                first += result as usize;
                continue;
            }
            match -result as i32 {
                libc::EINTR => {}
                0 | libc::EAGAIN => {
                    refused = Err(io::Error::from_raw_os_error(libc::EAGAIN));
                    break;
                }
                // The kernel has refused the first of them.
                errno => {
                    self.refuse(first, errno);
                    first += 1;
                }
            }
        }
        self.staged.drain(..first);
        refused
    }

    /// Completes a request that was refused at submission.
    #[cold]
    fn refuse(&mut self, place: usize, errno: i32) {
        let start = self.requests.as_ptr() as usize;
        let slot = (self.staged[place] - start) / size_of::<Iocb>();
        let result = -i64::from(errno);
        self.events[self.arrived] = IoEvent { data: slot as u64, result, ..IoEvent::default() };
        self.arrived += 1;
    }

    #[inline(always)]
    fn collect(&mut self, wait_for: usize, patience_ns: u64) -> io::Result<()> {
        let patience = Timespec::of_ns(if wait_for > 0 { patience_ns } else { 0 });
        let room = &mut self.events[self.arrived..];
        let timeout = (&raw const patience) as usize;
        let arguments =
            [self.context, wait_for, room.len(), room.as_mut_ptr() as usize, timeout, 0];
        self.syscalls += 1;
        // SAFETY: the kernel writes at most as many events as there is room for.
        let result = unsafe { raw(libc::SYS_io_getevents, arguments) };
        match result {
            0.. => self.arrived += result as usize,
            _ if -result as i32 == libc::EINTR => {}
            _ => return Err(io::Error::from_raw_os_error(-result as i32)),
        }
        Ok(())
    }

    /// Returns every finished slot with its result: bytes moved, 0 for a sync, or the negated
    /// errno.
    ///
    /// # Panics
    /// If the kernel names a slot that is not in flight (rule 3).
    #[inline(always)]
    pub fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        let arrived = std::mem::take(&mut self.arrived);
        for event in &self.events[..arrived] {
            let slot = event.data as usize;
            done(slot, self.slots.take_back(slot, event.result as i32));
        }
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // Requests that were never submitted come back at once.
        let start = self.requests.as_ptr() as usize;
        for address in std::mem::take(&mut self.staged) {
            self.slots.take_back((address - start) / size_of::<Iocb>(), 0);
        }
        for _ in 0..4 {
            self.reap(|_, _| ());
            if self.slots.in_flight() == 0 {
                // SAFETY: takes no pointer; nothing is in flight.
                unsafe { raw(libc::SYS_io_destroy, [self.context, 0, 0, 0, 0, 0]) };
                return;
            }
            let _ = self.collect(self.slots.in_flight(), SECOND_NS);
        }
        // Destroying the context would wait forever. It is leaked with the memory (rule 2).
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const OPTIONS: AioOptions =
        AioOptions { vectored: false, write_flags: 0, sync_data_only: true };

    fn aio(depth: usize) -> io::Result<Aio> {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        Aio::new(vec![file.into()], Slab::new(depth, 4096).unwrap(), OPTIONS)
    }

    #[test]
    fn slots_come_back_with_their_bytes_or_an_errno() {
        let mut aio = match aio(4) {
            Ok(aio) => aio,
            Err(error) => return eprintln_skip(&error),
        };
        let ways = [Direction::Read, Direction::Write, Direction::Read, Direction::Sync];
        for (slot, way) in ways.into_iter().enumerate() {
            aio.push(slot, Request { way, target: 0, offset: 0, skip: 0, bytes: 4 });
        }
        let mut back = Vec::new();
        for _ in 0..10 {
            aio.enter(1, SECOND_NS).unwrap();
            aio.reap(|slot, result| back.push((slot, result)));
        }
        back.sort_unstable();
        assert_eq!(back, [(0, 4), (1, -libc::EBADF), (2, 4), (3, 0)]);
        assert_eq!(&aio.buffer(2)[..4], b"\x7fELF");
    }

    #[test]
    fn the_kernel_gets_the_priority_of_a_request() {
        let mut aio = match aio(3) {
            Ok(aio) => aio,
            Err(error) => return eprintln_skip(&error),
        };
        // There is no class 7; every user may have class 3.
        for (slot, priority) in [None, Some(7 << 13), Some(3 << 13)].into_iter().enumerate() {
            aio.push(
                slot,
                Request { way: Direction::Read, target: 0, offset: 0, skip: 0, bytes: 4 },
            );
            priority.into_iter().for_each(|priority| aio.set_priority(slot, priority));
        }
        let mut back = Vec::new();
        for _ in 0..10 {
            aio.enter(1, SECOND_NS).unwrap();
            aio.reap(|slot, result| back.push((slot, result)));
        }
        back.sort_unstable();
        assert_eq!(back, [(0, 4), (1, -libc::EINVAL), (2, 4)]);
    }

    #[test]
    fn what_is_staged_is_dropped_with_its_context() {
        let Ok(mut aio) = aio(2) else { return };
        aio.push(1, Request { way: Direction::Read, target: 0, offset: 0, skip: 0, bytes: 4 });
        drop(aio);
    }

    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn eprintln_skip(error: &io::Error) {
        eprintln!("skipped: no asynchronous I/O here: {error}; untested: libaio");
    }
}
