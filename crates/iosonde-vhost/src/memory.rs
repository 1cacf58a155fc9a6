//! The memory shared with the server: one region, cut into ranges for the queues.

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, memfd_create};

const HUGE_PAGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4096;

/// A shared mapping with the descriptor that the server maps too.
#[derive(Debug)]
pub(crate) struct Memory {
    map: MmapRaw,
    pub(crate) file: File,
    pub(crate) page_bytes: usize,
}

impl Memory {
    /// Zeroed memory of at least this many bytes, in huge pages if enough are free; with `huge`,
    /// only in huge pages.
    ///
    /// # Errors
    /// If the system has no memory of this kind.
    pub(crate) fn new(bytes: usize, huge: bool) -> io::Result<Memory> {
        match map(bytes.next_multiple_of(HUGE_PAGE_BYTES), MemfdFlags::HUGETLB) {
            Ok((map, file)) => Ok(Memory { map, file, page_bytes: HUGE_PAGE_BYTES }),
            Err(error) if huge => Err(error),
            Err(_none_free) => {
                let (map, file) = map(bytes.next_multiple_of(PAGE_BYTES), MemfdFlags::empty())?;
                Ok(Memory { map, file, page_bytes: PAGE_BYTES })
            }
        }
    }

    /// Bytes mapped.
    pub(crate) fn bytes(&self) -> usize {
        self.map.len()
    }

    /// Start of the mapping.
    pub(crate) fn base(&self) -> NonNull<u8> {
        // A mapping never begins at address 0.
        NonNull::new(self.map.as_mut_ptr()).unwrap_or(NonNull::dangling())
    }
}

fn map(bytes: usize, flags: MemfdFlags) -> io::Result<(MmapRaw, File)> {
    let file: File = memfd_create("iosonde-buffers", flags | MemfdFlags::CLOEXEC)?.into();
    file.set_len(bytes as u64)?;
    // The pages are allocated now, before the measurement.
    let map = MmapOptions::new().len(bytes).populate().map_raw(&file)?;
    Ok((map, file))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn memory_is_whole_pages_of_its_kind() {
        let memory = Memory::new(5000, false).unwrap();
        assert!(memory.bytes() >= 5000);
        assert_eq!(memory.bytes() % memory.page_bytes, 0);
        assert_eq!(memory.base().as_ptr() as usize % PAGE_BYTES, 0);
    }
}
