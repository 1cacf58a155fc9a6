//! Reads and writes that reach the `syscall` instruction inline.
//!
//! A function call around the instruction costs up to 250 ns per operation on some processors: the
//! kernel overwrites the return-stack entry, and the mispredicted `ret` slows the next kernel pass.

use std::os::fd::{AsRawFd, BorrowedFd};

/// `pread64`: bytes read, or the negated errno.
#[inline(always)]
pub fn pread(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> i32 {
    let (fd, length) = (file.as_raw_fd(), buffer.len());
    // SAFETY: the kernel writes at most `length` bytes into the exclusively borrowed buffer.
    unsafe { transfer::<{ libc::SYS_pread64 }>(fd, buffer.as_mut_ptr(), length, offset) }
}

/// `pwrite64`: bytes written, or the negated errno.
#[inline(always)]
pub fn pwrite(file: BorrowedFd<'_>, buffer: &[u8], offset: u64) -> i32 {
    let (fd, length) = (file.as_raw_fd(), buffer.len());
    // SAFETY: the kernel only reads the borrowed buffer.
    unsafe { transfer::<{ libc::SYS_pwrite64 }>(fd, buffer.as_ptr().cast_mut(), length, offset) }
}

/// Issues system call `NUMBER` with four arguments.
///
/// # Safety
/// `buffer` must be valid for `length` bytes, writable if the call writes to it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transfer<const NUMBER: i64>(fd: i32, buffer: *mut u8, length: usize, offset: u64) -> i32 {
    let result: i64;
    // SAFETY: registers as the x86-64 system call convention has them; rcx and r11 are clobbered;
    // memory may change, so no `nomem`. The caller answers for the buffer.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") NUMBER => result,
            in("rdi") i64::from(fd),
            in("rsi") buffer,
            in("rdx") length,
            in("r10") offset,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result as i32
}

/// The same by way of the C library.
///
/// # Safety
/// `buffer` must be valid for `length` bytes, writable if the call writes to it.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn transfer<const NUMBER: i64>(fd: i32, buffer: *mut u8, length: usize, offset: u64) -> i32 {
    // SAFETY: the caller answers for the buffer.
    let result = unsafe { libc::syscall(NUMBER as libc::c_long, fd, buffer, length, offset) };
    if result < 0 {
        return -std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    }
    result as i32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn reads_give_bytes_or_a_negated_errno() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let mut buffer = [0; 4];
        assert_eq!(pread(file.as_fd(), &mut buffer, 0), 4);
        assert_eq!(&buffer, b"\x7fELF");
        assert_eq!(pwrite(file.as_fd(), &buffer, 0), -libc::EBADF);
    }
}
