//! Reads and writes that reach the `syscall` instruction inline.
//!
//! A function call around the instruction costs up to 250 ns per operation on some processors: the
//! kernel overwrites the return-stack entry, and the mispredicted `ret` slows the next kernel pass.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::Direction;

/// `pread64` or `pwrite64`: bytes moved, or the negated errno. There is one `syscall` instruction
/// for both, so that the code between two stamps is short.
#[inline(always)]
pub fn transfer(file: BorrowedFd<'_>, way: Direction, buffer: &mut [u8], offset: u64) -> i32 {
    let number = match way {
        Direction::Read => libc::SYS_pread64,
        Direction::Write => libc::SYS_pwrite64,
    };
    let (fd, length) = (file.as_raw_fd(), buffer.len());
    // SAFETY: the kernel touches at most `length` bytes of the exclusively borrowed buffer.
    unsafe { four_arguments(number, fd, buffer.as_mut_ptr(), length, offset) }
}

/// Issues a system call with four arguments.
///
/// # Safety
/// `number` must be `pread64` or `pwrite64`, and `buffer` valid for `length` bytes, writable for
/// the former.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn four_arguments(number: i64, fd: i32, buffer: *mut u8, length: usize, offset: u64) -> i32 {
    let result: i64;
    // SAFETY: registers as the x86-64 system call convention has them; rcx and r11 are clobbered;
    // memory may change, so no `nomem`. The caller answers for the buffer.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
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
/// As above.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn four_arguments(number: i64, fd: i32, buffer: *mut u8, length: usize, offset: u64) -> i32 {
    // SAFETY: the caller answers for the buffer.
    let result = unsafe { libc::syscall(number as libc::c_long, fd, buffer, length, offset) };
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
        let read = transfer(file.as_fd(), Direction::Read, &mut buffer, 0);
        assert_eq!(read, 4);
        assert_eq!(&buffer, b"\x7fELF");
        let write = transfer(file.as_fd(), Direction::Write, &mut buffer, 0);
        assert_eq!(write, -libc::EBADF);
    }
}
