//! I/O buffers: one aligned region, cut into slots of equal size.

use std::io;
use std::ptr::NonNull;

const HUGE_PAGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4096;

/// A region of page-aligned, zeroed memory, cut into slots.
#[derive(Debug)]
pub struct Slab {
    base: NonNull<u8>,
    mapped_bytes: usize,
    slot_bytes: usize,
    slots: usize,
    page_bytes: usize,
}

// SAFETY: the region is owned by this value alone; references to it borrow the slab.
unsafe impl Send for Slab {}

impl Slab {
    /// Maps `slots` slots of `slot_bytes` each, every slot aligned to 4 KiB. Explicit huge pages
    /// are taken where the system has some free; else transparent ones are asked for.
    ///
    /// # Errors
    /// If there is no slot, the size overflows, or the system has no memory.
    pub fn new(slots: usize, slot_bytes: usize) -> io::Result<Slab> {
        let stride = slot_bytes.next_multiple_of(PAGE_BYTES);
        let wanted = stride.checked_mul(slots).filter(|bytes| *bytes > 0).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "a slab needs at least one byte")
        })?;
        let huge_bytes = wanted.next_multiple_of(HUGE_PAGE_BYTES);
        let (base, mapped_bytes, page_bytes) = match map(huge_bytes, libc::MAP_HUGETLB) {
            Ok(base) => (base, huge_bytes, HUGE_PAGE_BYTES),
            Err(_none_free) => (map(wanted, 0)?, wanted, PAGE_BYTES),
        };
        // Transparent huge pages must be asked for before the first touch. Neither advice is vital:
        // what is not there now comes when it is touched.
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_POPULATE_WRITE] {
            // SAFETY: the range was mapped just above; neither advice changes its content.
            unsafe { libc::madvise(base.as_ptr().cast(), mapped_bytes, advice) };
        }
        Ok(Slab { base, mapped_bytes, slot_bytes: stride, slots, page_bytes })
    }

    /// Bytes mapped.
    pub fn bytes(&self) -> usize {
        self.mapped_bytes
    }

    /// Size of the pages behind it: 2 MiB for explicit huge pages, else 4 KiB.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The bytes of one slot.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline(always)]
    pub fn slot_mut(&mut self, slot: usize) -> &mut [u8] {
        let start = self.pointer(slot);
        // SAFETY: the range lies within the mapping, is initialised, and is borrowed from `self`.
        unsafe { std::slice::from_raw_parts_mut(start, self.slot_bytes) }
    }

    /// Address of a slot.
    #[inline(always)]
    pub(crate) fn pointer(&self, slot: usize) -> *mut u8 {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        // SAFETY: slot < slots, so the offset lies within the mapping.
        unsafe { self.base.as_ptr().add(slot * self.slot_bytes) }
    }

    /// The whole region, for registering.
    pub(crate) fn region(&self) -> libc::iovec {
        libc::iovec { iov_base: self.base.as_ptr().cast(), iov_len: self.slots * self.slot_bytes }
    }

    /// Bytes from one slot to the next.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`; the borrow checker says that no reference is left,
        // and `Ring` never drops a slab that the kernel still uses (rule 2).
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped_bytes) };
    }
}

fn map(bytes: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    // SAFETY: an anonymous private mapping at an address of the kernel's choice touches nothing.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn slots_are_aligned_disjoint_and_zeroed() {
        let mut slab = Slab::new(3, 5000).unwrap();
        for slot in 0..3 {
            assert_eq!(slab.pointer(slot) as usize % PAGE_BYTES, 0);
            assert_eq!(slab.slot_mut(slot).len(), 8192);
            assert!(slab.slot_mut(slot).iter().all(|byte| *byte == 0));
            slab.slot_mut(slot).fill(slot as u8 + 1);
        }
        for slot in 0..3 {
            assert!(slab.slot_mut(slot).iter().all(|byte| *byte == slot as u8 + 1));
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(Slab::new(0, 4096).is_err());
        assert!(Slab::new(usize::MAX, 4096).is_err());
        assert!(Slab::new(1 << 30, 1 << 30).is_err());
    }
}
