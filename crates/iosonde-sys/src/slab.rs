//! I/O buffers: one aligned region, cut into slots of equal size.

use std::io;
use std::ptr::NonNull;

use crate::syscall::{checked, raw};

const HUGE_PAGE_BYTES: usize = 2 << 20;
/// `MAP_HUGE_2MB`, since the system's default may be another size.
const HUGE_2_MIB: libc::c_int = 21 << 26;
const PAGE_BYTES: usize = 4096;

/// Where the memory of a slab is placed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Placement {
    /// Whether huge pages are required. Otherwise they are used if enough are free.
    pub huge_pages: bool,
    /// The NUMA nodes to use, if any is named.
    pub nodes: Nodes,
}

/// A set of NUMA nodes, and how pages are taken from them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Nodes {
    /// A bit for each node, from node 0 on.
    pub mask: [u64; 16],
    /// How pages are taken from several nodes.
    pub spread: Spread,
}

impl Nodes {
    /// The set of these nodes; `None` if one is above 1023.
    pub fn of(nodes: impl IntoIterator<Item = u32>, spread: Spread) -> Option<Nodes> {
        let mut mask = [0u64; 16];
        for node in nodes {
            *mask.get_mut(node as usize / 64)? |= 1 << (node % 64);
        }
        Some(Nodes { mask, spread })
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.mask == [0; 16]
    }
}

/// How pages are taken from several nodes; the numbers are those of mbind(2).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Spread {
    /// From these nodes as long as they have free pages.
    Prefer = 1,
    /// Only from these nodes.
    #[default]
    Bind = 2,
    /// From these nodes in turn.
    Interleave = 3,
}

/// Why a slab cannot be made.
#[derive(Debug)]
pub enum SlabError {
    /// The system has no memory, or the size is not possible.
    Memory(io::Error),
    /// Too few huge pages of this many bytes are free.
    HugePages {
        /// Size of a huge page, bytes.
        page_bytes: usize,
        /// Number of pages needed.
        pages: usize,
        /// The kernel's error.
        error: io::Error,
    },
    /// The memory cannot be on this node.
    Node(io::Error),
}

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
    /// are used if enough are free; else transparent ones are requested.
    ///
    /// # Errors
    /// If there is no slot, the size overflows, or the system has no memory.
    pub fn new(slots: usize, slot_bytes: usize) -> io::Result<Slab> {
        Slab::placed(slots, slot_bytes, Placement::default()).map_err(|error| match error {
            SlabError::Memory(error)
            | SlabError::HugePages { error, .. }
            | SlabError::Node(error) => error,
        })
    }

    /// As [`Slab::new`], with a placement of the memory.
    ///
    /// # Errors
    /// As [`Slab::new`]; or if there are too few free huge pages, or no such node.
    pub fn placed(
        slots: usize,
        slot_bytes: usize,
        placement: Placement,
    ) -> Result<Slab, SlabError> {
        let stride = slot_bytes.next_multiple_of(PAGE_BYTES);
        let wanted = stride.checked_mul(slots).filter(|bytes| *bytes > 0).ok_or_else(|| {
            let message = "a slab needs at least one byte";
            SlabError::Memory(io::Error::new(io::ErrorKind::InvalidInput, message))
        })?;
        let huge_bytes = wanted.next_multiple_of(HUGE_PAGE_BYTES);
        let slab = |base, mapped_bytes, page_bytes| Slab {
            base,
            mapped_bytes,
            slot_bytes: stride,
            slots,
            page_bytes,
        };
        let huge = map(huge_bytes, libc::MAP_HUGETLB | HUGE_2_MIB).and_then(|base| {
            let slab = slab(base, huge_bytes, HUGE_PAGE_BYTES);
            slab.bind(&placement.nodes)?;
            // If the node or cgroup has none left, touching a page would be fatal.
            slab.populate()?;
            Ok(slab)
        });
        match huge {
            Ok(slab) => return Ok(slab),
            Err(error) if placement.huge_pages => {
                let (page_bytes, pages) = (HUGE_PAGE_BYTES, huge_bytes / HUGE_PAGE_BYTES);
                return Err(SlabError::HugePages { page_bytes, pages, error });
            }
            Err(_none_free) => {}
        }
        let slab = slab(map(wanted, 0).map_err(SlabError::Memory)?, wanted, PAGE_BYTES);
        slab.bind(&placement.nodes).map_err(SlabError::Node)?;
        // Transparent huge pages must be requested before the first touch.
        slab.advise(libc::MADV_HUGEPAGE);
        match slab.populate() {
            Err(error) if !placement.nodes.is_empty() => Err(SlabError::Node(error)),
            // Pages that are missing now are allocated when they are touched.
            _ => Ok(slab),
        }
    }

    /// Sets the nodes to take pages from, before the first page is allocated.
    fn bind(&self, nodes: &Nodes) -> io::Result<()> {
        if nodes.is_empty() {
            return Ok(());
        }
        let bits = size_of_val(&nodes.mask) * 8;
        let (start, bytes) = (self.base.as_ptr() as usize, self.mapped_bytes);
        let mask = nodes.mask.as_ptr() as usize;
        let arguments = [start, bytes, nodes.spread as usize, mask, bits, 0];
        // SAFETY: the range is ours, and the mask is valid for `bits` bits during the call.
        checked(unsafe { raw(libc::SYS_mbind, arguments) }).map(|_| ())
    }

    /// Allocates every page now, if the kernel has `MADV_POPULATE_WRITE`.
    fn populate(&self) -> io::Result<()> {
        match self.advise(libc::MADV_POPULATE_WRITE) {
            libc::EINVAL | 0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Returns the errno, or 0.
    fn advise(&self, advice: libc::c_int) -> i32 {
        // SAFETY: the range is ours; no advice used here changes its content.
        let result = unsafe { libc::madvise(self.base.as_ptr().cast(), self.mapped_bytes, advice) };
        if result == 0 { 0 } else { io::Error::last_os_error().raw_os_error().unwrap_or(0) }
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

    /// The whole region in pieces of at most this many slots, for registering.
    pub(crate) fn regions(&self, slots_per_region: usize) -> Vec<libc::iovec> {
        let starts = (0..self.slots).step_by(slots_per_region);
        let piece = |start: usize| {
            let slots = slots_per_region.min(self.slots - start);
            let iov_len = slots * self.slot_bytes;
            libc::iovec { iov_base: self.pointer(start).cast(), iov_len }
        };
        starts.map(piece).collect()
    }

    /// Bytes from one slot to the next.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`; the borrow checker says that no reference is left,
        // and `Slots` never drops a slab that the kernel still uses (rule 2).
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

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let nodes = Nodes::of([1023], Spread::Bind).unwrap();
        let refused = Slab::placed(1, 4096, Placement { nodes, ..Placement::default() });
        assert!(matches!(refused, Err(SlabError::Node(_))), "{refused:?}");
        assert_eq!(Nodes::of([0, 100_000], Spread::Bind), None);
    }

    #[test]
    fn the_kernel_keeps_the_policy_of_the_region() {
        for spread in [Spread::Bind, Spread::Prefer, Spread::Interleave] {
            let nodes = Nodes::of([0], spread).unwrap();
            let slab = Slab::placed(1, 4096, Placement { nodes, ..Placement::default() }).unwrap();
            let (mut mode, mut mask) = (0i32, [0u64; 16]);
            let of_address = 2;
            let arguments = [
                &raw mut mode as usize,
                mask.as_mut_ptr() as usize,
                size_of_val(&mask) * 8,
                slab.base.as_ptr() as usize,
                of_address,
                0,
            ];
            // SAFETY: mode and mask are valid for writing during the call.
            checked(unsafe { raw(libc::SYS_get_mempolicy, arguments) }).unwrap();
            assert_eq!((mode as usize, mask[0]), (spread as usize, 1));
        }
    }

    #[test]
    fn more_huge_pages_than_there_can_be_are_refused() {
        let placement = Placement { huge_pages: true, ..Placement::default() };
        let refused = Slab::placed(1 << 20, 2 << 20, placement);
        let Err(SlabError::HugePages { page_bytes, pages, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((page_bytes, pages), (2 << 20, 1 << 20));
    }

    #[test]
    fn regions_cover_every_slot_once() {
        let slab = Slab::new(5, 4096).unwrap();
        let lengths: Vec<usize> = slab.regions(2).iter().map(|region| region.iov_len).collect();
        assert_eq!(lengths, [8192, 8192, 4096]);
        assert_eq!(slab.regions(8).len(), 1);
    }
}
