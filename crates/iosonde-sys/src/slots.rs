//! Tracks the owner of each slot, on which rules 1 to 3 of this crate rest.

use std::mem::ManuallyDrop;

use crate::{Direction, Request, Slab};

/// States of a slot.
const OURS: u8 = 0;
const IN_FLIGHT: u8 = 1;
/// In flight, and reports its length instead of the kernel's 0.
const IN_FLIGHT_WHOLE: u8 = 2;

/// A slab, and for each slot whether the kernel may be using it.
#[derive(Debug)]
pub(crate) struct Slots {
    slab: ManuallyDrop<Slab>,
    /// One vector per slot, for requests that carry vectors.
    vectors: ManuallyDrop<Box<[libc::iovec]>>,
    states: Box<[u8]>,
    whole_bytes: Box<[u32]>,
    in_flight: usize,
}

impl Slots {
    pub(crate) fn new(slab: Slab) -> Slots {
        let slots = slab.slots();
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Slots {
            slab: ManuallyDrop::new(slab),
            vectors: ManuallyDrop::new(vec![nothing; slots].into()),
            states: vec![OURS; slots].into(),
            whole_bytes: vec![0; slots].into(),
            in_flight: 0,
        }
    }

    /// The bytes of a slot that is ours.
    #[inline(always)]
    pub(crate) fn buffer(&mut self, slot: usize) -> &mut [u8] {
        assert!(self.states[slot] == OURS, "slot {slot} is the kernel's");
        self.slab.slot_mut(slot)
    }

    /// Hands a slot to the kernel. Returns the address of the request's first byte.
    ///
    /// # Panics
    /// If the slot is in flight, or the transfer leaves it.
    #[inline(always)]
    pub(crate) fn lend(&mut self, slot: usize, request: &Request) -> *mut u8 {
        assert!(self.states[slot] == OURS, "slot {slot} is in flight already");
        match request.way {
            Direction::Read | Direction::Write => {
                let end = request.skip as usize + request.bytes as usize;
                assert!(end <= self.slab.slot_bytes(), "transfer leaves its slot");
                self.states[slot] = IN_FLIGHT;
            }
            Direction::Trim => {
                self.states[slot] = IN_FLIGHT_WHOLE;
                self.whole_bytes[slot] = request.bytes;
            }
            Direction::Sync => self.states[slot] = IN_FLIGHT,
        }
        self.in_flight += 1;
        // Not dereferenced here. For a transfer it lies within the slot.
        self.slab.pointer(slot).wrapping_add(request.skip as usize)
    }

    /// As [`Slots::lend`] for a command, which succeeds completely or fails: it reports its length.
    ///
    /// # Panics
    /// As [`Slots::lend`].
    #[inline(always)]
    pub(crate) fn lend_whole(&mut self, slot: usize, request: &Request) -> *mut u8 {
        let start = self.lend(slot, request);
        self.states[slot] = IN_FLIGHT_WHOLE;
        self.whole_bytes[slot] = request.bytes;
        start
    }

    /// The vector of a slot that was just lent, pointed at these bytes.
    #[inline(always)]
    pub(crate) fn vector(&mut self, slot: usize, start: *mut u8, bytes: u32) -> *const libc::iovec {
        let vector = &mut self.vectors[slot];
        *vector = libc::iovec { iov_base: start.cast(), iov_len: bytes as usize };
        vector
    }

    /// Takes a slot back. Returns the bytes moved or trimmed, or the negated errno.
    ///
    /// # Panics
    /// If the slot was not in flight (rule 3).
    #[inline(always)]
    pub(crate) fn take_back(&mut self, slot: usize, result: i32) -> i32 {
        let state = std::mem::replace(&mut self.states[slot], OURS);
        assert!(state != OURS, "completion for slot {slot}, which is not in flight");
        self.in_flight -= 1;
        if state == IN_FLIGHT_WHOLE && result == 0 {
            return self.whole_bytes[slot] as i32;
        }
        result
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // Rule 2: memory that the kernel may still use is leaked.
        if self.in_flight > 0 {
            return;
        }
        // SAFETY: neither is used again.
        unsafe {
            ManuallyDrop::drop(&mut self.slab);
            ManuallyDrop::drop(&mut self.vectors);
        }
    }
}
