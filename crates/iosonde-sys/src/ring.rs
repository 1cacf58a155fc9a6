//! io_uring over the `io-uring` crate: one ring, one file, one slab, used by one thread.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::types::{CancelBuilder, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use crate::Slab;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// From storage.
    Read,
    /// To storage.
    Write,
}

/// What is asked of a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Requests in flight, at most; as many as the slab has slots.
    pub depth: u32,
    /// A kernel thread submits (IORING_SETUP_SQPOLL).
    pub sqpoll: bool,
    /// Completions are polled for (IORING_SETUP_IOPOLL).
    pub iopoll: bool,
}

const SECOND_NS: u64 = 1_000_000_000;

/// A ring with its file and its buffers.
pub struct Ring {
    ring: IoUring,
    files: Vec<OwnedFd>,
    slab: Option<Slab>,
    in_flight: Box<[bool]>,
    in_flight_count: usize,
    fixed_file: bool,
    fixed_buffers: bool,
    features: Vec<&'static str>,
    missing: Vec<String>,
}

/// Optional set-up flags, dropped one after another while the kernel says EINVAL: newest first.
type SetupFlag = (&'static str, fn(&mut io_uring::Builder));
const SETUP_FLAGS: [SetupFlag; 5] = [
    ("no_sqarray", |builder| {
        builder.setup_no_sqarray();
    }),
    ("defer_taskrun", |builder| {
        builder.setup_defer_taskrun();
    }),
    ("single_issuer", |builder| {
        builder.setup_single_issuer();
    }),
    ("coop_taskrun", |builder| {
        builder.setup_coop_taskrun();
    }),
    ("submit_all", |builder| {
        builder.setup_submit_all();
    }),
];

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
        let (ring, mut features, mut missing) = set_up(entries, options)?;

        let fds: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let fixed_file = note(
            ring.submitter().register_files(&fds),
            "registered_file",
            &mut features,
            &mut missing,
        );
        let region = [slab.region()];
        // SAFETY: the region belongs to the slab, which this ring owns and drops after itself (rule
        // 2).
        let registered = unsafe { ring.submitter().register_buffers(&region) };
        let fixed_buffers = note(registered, "registered_buffers", &mut features, &mut missing);
        let in_flight = vec![false; slab.slots()].into_boxed_slice();
        Ok(Ring {
            ring,
            files,
            slab: Some(slab),
            in_flight,
            in_flight_count: 0,
            fixed_file,
            fixed_buffers,
            features,
            missing,
        })
    }

    /// Features in effect.
    pub fn features(&self) -> &[&'static str] {
        &self.features
    }

    /// Features tried in vain, each with the reason.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The bytes of a slot that is ours.
    ///
    /// # Panics
    /// If the slot is in flight or does not exist.
    #[inline(always)]
    pub fn buffer(&mut self, slot: usize) -> &mut [u8] {
        assert!(!self.in_flight[slot], "slot {slot} is the kernel's");
        match &mut self.slab {
            Some(slab) => slab.slot_mut(slot),
            None => &mut [],
        }
    }

    /// Stages one transfer of `slot[skip..skip + length]` at `offset`; `enter` hands it over.
    ///
    /// # Panics
    /// If the slot is in flight, the range leaves the slot, or more is staged than the depth.
    #[inline(always)]
    pub fn push(
        &mut self,
        slot: usize,
        way: Direction,
        target: u16,
        offset: u64,
        skip: u32,
        length: u32,
    ) {
        let Some(slab) = &self.slab else { return };
        assert!(!self.in_flight[slot], "slot {slot} is in flight already");
        assert!(skip as usize + length as usize <= slab.slot_bytes(), "transfer leaves its slot");
        // SAFETY: skip lies within the slot by the line above.
        let address = unsafe { slab.pointer(slot).add(skip as usize) };
        let fd = self.files[usize::from(target)].as_raw_fd();
        let index = u32::from(target);
        let entry = match (way, self.fixed_buffers, self.fixed_file) {
            (Direction::Read, true, true) => {
                opcode::ReadFixed::new(Fixed(index), address, length, 0).offset(offset).build()
            }
            (Direction::Read, true, false) => {
                opcode::ReadFixed::new(Fd(fd), address, length, 0).offset(offset).build()
            }
            (Direction::Read, false, true) => {
                opcode::Read::new(Fixed(index), address, length).offset(offset).build()
            }
            (Direction::Read, false, false) => {
                opcode::Read::new(Fd(fd), address, length).offset(offset).build()
            }
            (Direction::Write, true, true) => {
                opcode::WriteFixed::new(Fixed(index), address, length, 0).offset(offset).build()
            }
            (Direction::Write, true, false) => {
                opcode::WriteFixed::new(Fd(fd), address, length, 0).offset(offset).build()
            }
            (Direction::Write, false, true) => {
                opcode::Write::new(Fixed(index), address, length).offset(offset).build()
            }
            (Direction::Write, false, false) => {
                opcode::Write::new(Fd(fd), address, length).offset(offset).build()
            }
        };
        self.stage(slot, &entry.user_data(slot as u64));
    }

    /// Stages a request that does nothing, for measuring the ring itself.
    ///
    /// # Panics
    /// As [`Ring::push`].
    #[inline(always)]
    pub fn push_nop(&mut self, slot: usize) {
        assert!(!self.in_flight[slot], "slot {slot} is in flight already");
        self.stage(slot, &opcode::Nop::new().build().user_data(slot as u64));
    }

    #[inline(always)]
    fn stage(&mut self, slot: usize, entry: &squeue::Entry) {
        // SAFETY: the buffer belongs to the slab, which outlives the request (rule 2), and the slot
        // is marked so that nobody touches it meanwhile (rule 1).
        let pushed = unsafe { self.ring.submission().push(entry) };
        assert!(pushed.is_ok(), "more staged than the ring's depth");
        self.in_flight[slot] = true;
        self.in_flight_count += 1;
    }

    /// Hands over what is staged; waits until `wait_for` completions are there, or `patience_ns`
    /// have passed (so that a deadline is seen even if the device never answers).
    ///
    /// # Errors
    /// EAGAIN or EBUSY when the kernel wants completions reaped first; others as they come. Being
    /// interrupted or timed out is not an error.
    #[inline(always)]
    pub fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        let result = if wait_for == 0 {
            self.ring.submitter().submit()
        } else {
            let patience = Timespec::new()
                .sec(patience_ns / 1_000_000_000)
                .nsec((patience_ns % 1_000_000_000) as u32);
            let args = SubmitArgs::new().timespec(&patience);
            self.ring.submitter().submit_with_args(wait_for as usize, &args)
        };
        match result {
            Ok(_submitted) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::ETIME) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Gives back every finished slot with its result: bytes moved, or the negated errno.
    ///
    /// # Panics
    /// If the kernel names a slot that is not in flight (rule 3).
    #[inline(always)]
    pub fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        for completion in self.ring.completion() {
            let slot = completion.user_data() as usize;
            assert!(
                std::mem::replace(&mut self.in_flight[slot], false),
                "completion for slot {slot}, which is not in flight"
            );
            self.in_flight_count -= 1;
            done(slot, completion.result());
        }
    }

    /// Cancels what is in flight and waits up to two seconds for it to come back.
    fn cancel_all(&mut self) {
        let patience = Timespec::new().sec(2);
        // A failure shows in what is still in flight afterwards.
        let _ = self.ring.submitter().register_sync_cancel(Some(patience), CancelBuilder::any());
        for _ in 0..4 {
            let _ = self.enter(1, SECOND_NS);
            self.reap(|_, _| ());
            if self.in_flight_count == 0 {
                break;
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Rule 2: set aside first, so that the memory stays even if cancelling panics; given back
        // only when the kernel has given everything back.
        let slab = self.slab.take().map(ManuallyDrop::new);
        if self.in_flight_count > 0 {
            self.cancel_all();
        }
        if self.in_flight_count == 0 {
            drop(slab.map(ManuallyDrop::into_inner));
        }
    }
}

/// Whether this process may set up a ring at all.
///
/// # Errors
/// ENOSYS without io_uring, EPERM or EACCES where it is forbidden.
pub fn probe() -> io::Result<()> {
    IoUring::new(2).map(|_ring| ())
}

/// Builds a ring with as many optional flags as the kernel takes.
fn set_up(
    entries: u32,
    options: RingOptions,
) -> io::Result<(IoUring, Vec<&'static str>, Vec<String>)> {
    let mut missing = Vec::new();
    let mut first = 0;
    loop {
        let mut builder = IoUring::builder();
        let mut features = Vec::new();
        // Room for a completion of every request, even if none is reaped for a while.
        builder.setup_cqsize(entries.saturating_mul(2)).setup_clamp();
        for (name, apply) in SETUP_FLAGS.iter().skip(first) {
            // The kernel refuses these with a submitting kernel thread.
            if options.sqpoll && matches!(*name, "defer_taskrun" | "coop_taskrun") {
                continue;
            }
            apply(&mut builder);
            features.push(*name);
        }
        if options.sqpoll {
            builder.setup_sqpoll(1000);
            features.push("sqpoll");
        }
        if options.iopoll {
            builder.setup_iopoll();
            features.push("iopoll");
        }
        match builder.build(entries) {
            Ok(ring) => return Ok((ring, features, missing)),
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

/// Files an optional feature under what is there or what is missing.
fn note(
    result: io::Result<()>,
    name: &'static str,
    features: &mut Vec<&'static str>,
    missing: &mut Vec<String>,
) -> bool {
    match result {
        Ok(()) => features.push(name),
        Err(ref error) => missing.push(format!("{name}: {error}")),
    }
    result.is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn ring(depth: u32) -> Ring {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let slab = Slab::new(depth as usize, 4096).unwrap();
        let options = RingOptions { depth, sqpoll: false, iopoll: false };
        Ring::new(vec![file.into()], slab, options).unwrap()
    }

    #[test]
    fn slots_come_back_with_their_bytes() {
        if let Err(error) = probe() {
            return eprintln_skip(&error);
        }
        let mut ring = ring(4);
        for slot in 0..4 {
            ring.push(slot, Direction::Read, 0, 0, 0, 4);
        }
        let mut back = Vec::new();
        while back.len() < 4 {
            ring.enter(1, SECOND_NS).unwrap();
            ring.reap(|slot, result| back.push((slot, result)));
        }
        back.sort_unstable();
        assert_eq!(back, [(0, 4), (1, 4), (2, 4), (3, 4)]);
        assert_eq!(&ring.buffer(2)[..4], b"\x7fELF");
    }

    #[test]
    fn a_polling_kernel_thread_never_finds_the_queue_full() {
        if let Err(error) = probe() {
            return eprintln_skip(&error);
        }
        let file = std::fs::File::open("/dev/null").unwrap();
        let slab = Slab::new(4, 4096).unwrap();
        let options = RingOptions { depth: 4, sqpoll: true, iopoll: false };
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
    }

    #[test]
    #[should_panic(expected = "is the kernel's")]
    fn bytes_in_flight_cannot_be_named() {
        if let Err(error) = probe() {
            eprintln_skip(&error);
            panic!("is the kernel's");
        }
        let mut ring = ring(1);
        ring.push(0, Direction::Read, 0, 0, 0, 4);
        ring.buffer(0);
    }

    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn eprintln_skip(error: &io::Error) {
        eprintln!("skipped: no io_uring here: {error}");
    }
}
