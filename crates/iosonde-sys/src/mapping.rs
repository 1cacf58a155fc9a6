//! A file mapped into memory, shared with the page cache.
//!
//! No reference into it exists: bytes are copied in and out by address. The pages are populated
//! before each copy (`MADV_POPULATE_*`), so that a storage error or a truncated file causes an
//! error and not a signal.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Pages are at least this large, bytes.
const PAGE_BYTES: usize = 4096;
const EFAULT: i32 = 14;
const EIO: i32 = 5;

/// The first bytes of a file or block device.
#[derive(Debug)]
pub struct Mapping {
    start: *mut libc::c_void,
    bytes: usize,
    writes: bool,
}

impl Mapping {
    /// Maps the first `bytes` of a file, for writing too if requested.
    ///
    /// # Errors
    /// The kernel's: no address space is left, or this kind of file cannot be mapped.
    pub fn new(file: BorrowedFd<'_>, bytes: u64, writes: bool) -> io::Result<Mapping> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let write = if writes { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe {
            let protection = libc::PROT_READ | write;
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start, bytes, writes })
    }

    /// Copies from the file: bytes moved, or a negated errno.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> i32 {
        match self.present(offset, buffer.len(), libc::MADV_POPULATE_READ) {
            Err(error) => error,
            Ok(from) => {
                // SAFETY: the range lies within the mapping, and the buffer is exclusively ours.
                unsafe {
                    std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), buffer.len());
                }
                buffer.len() as i32
            }
        }
    }

    /// Copies to the file: bytes moved, or a negated errno.
    pub fn write(&self, offset: u64, buffer: &[u8]) -> i32 {
        if !self.writes {
            return -libc::EACCES;
        }
        match self.present(offset, buffer.len(), libc::MADV_POPULATE_WRITE) {
            Err(error) => error,
            Ok(to) => {
                // SAFETY: the range lies within the mapping, which may be written and which no
                // reference points into.
                unsafe { std::ptr::copy_nonoverlapping(buffer.as_ptr(), to, buffer.len()) };
                buffer.len() as i32
            }
        }
    }

    /// Makes a range durable: 0, or a negated errno.
    pub fn sync(&self, offset: u64, length: usize) -> i32 {
        let Some((start, length)) = self.pages(offset, length) else { return -libc::EINVAL };
        // SAFETY: the range lies within the mapping.
        match unsafe { libc::msync(self.start.byte_add(start), length, libc::MS_SYNC) } {
            0 => 0,
            _ => -io::Error::last_os_error().raw_os_error().unwrap_or(EIO),
        }
    }

    /// Makes all of it durable: 0, or a negated errno.
    pub fn sync_all(&self) -> i32 {
        self.sync(0, self.bytes)
    }

    /// Populates the pages of a range; returns its address.
    fn present(&self, offset: u64, length: usize, how: libc::c_int) -> Result<*mut u8, i32> {
        let (start, whole) = self.pages(offset, length).ok_or(-libc::EINVAL)?;
        // SAFETY: the range lies within the mapping, and the advice changes no content.
        if unsafe { libc::madvise(self.start.byte_add(start), whole, how) } != 0 {
            let code = io::Error::last_os_error().raw_os_error().unwrap_or(EIO);
            return Err(if code == EFAULT { -EIO } else { -code });
        }
        // SAFETY: `pages` has proven that the offset lies within the mapping.
        Ok(unsafe { self.start.byte_add(offset as usize) }.cast())
    }

    /// The pages of a range: their start, and the length from there; `None` beyond the end.
    fn pages(&self, offset: u64, length: usize) -> Option<(usize, usize)> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(length).filter(|end| *end <= self.bytes)?;
        let start = offset / PAGE_BYTES * PAGE_BYTES;
        Some((start, end - start))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference points into it.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn bytes_come_back_and_what_is_not_there_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 10).unwrap();
        let mapping = Mapping::new(file.as_fd(), 64 << 10, true).unwrap();
        assert_eq!(mapping.write(5000, b"abc"), 3);
        let mut back = [0; 3];
        assert_eq!((mapping.read(5000, &mut back), &back), (3, b"abc"));
        assert_eq!((mapping.sync(5000, 3), mapping.sync_all()), (0, 0));
        assert_eq!(mapping.read((64 << 10) - 2, &mut back), -libc::EINVAL);
        // Truncated meanwhile: an error, and no signal.
        file.set_len(4096).unwrap();
        assert_eq!(mapping.read(8192, &mut back), -EIO);
        let reader = Mapping::new(file.as_fd(), 4096, false).unwrap();
        assert_eq!(reader.write(0, b"x"), -libc::EACCES);
    }
}
