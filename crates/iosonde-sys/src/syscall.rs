//! System calls with an inline `syscall` instruction, and others that need no speed.
//!
//! A function call around the instruction costs up to 250 ns per operation on some processors: the
//! kernel overwrites the return-stack entry, and the mispredicted `ret` slows the next kernel pass.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::Direction;
use crate::inspect::is_block_device;

/// `pread64` or `pwrite64`: bytes moved, or the negated errno. There is one `syscall` instruction
/// for both, so that the code between two stamps is short.
///
/// # Panics
/// If it is neither a read nor a write.
#[inline(always)]
pub fn transfer(file: BorrowedFd<'_>, way: Direction, buffer: &mut [u8], offset: u64) -> i32 {
    let number = match way {
        Direction::Read => libc::SYS_pread64,
        Direction::Write => libc::SYS_pwrite64,
        Direction::Trim | Direction::Sync => moves_nothing(),
    };
    let address = buffer.as_mut_ptr() as usize;
    let arguments = [file.as_raw_fd() as usize, address, buffer.len(), offset as usize, 0, 0];
    // SAFETY: the kernel touches at most the length of the exclusively borrowed buffer.
    unsafe { raw(number, arguments) as i32 }
}

/// A flag of [`write_with`]: the data is durable (`RWF_DSYNC`).
pub const DSYNC: u32 = libc::RWF_DSYNC as u32;
/// A flag of [`write_with`]: data and metadata are durable (`RWF_SYNC`).
pub const SYNC: u32 = libc::RWF_SYNC as u32;
/// A flag of [`write_with`]: it is stored completely or not at all (`RWF_ATOMIC`, Linux 6.11).
pub const ATOMIC: u32 = 0x40;

#[cold]
fn moves_nothing() -> ! {
    panic!("neither a trim nor a sync moves bytes")
}

/// `pwritev2` with these flags: bytes written, or the negated errno. Out of line, since such a
/// write takes far longer than the call.
#[cold]
#[inline(never)]
pub fn write_with(file: BorrowedFd<'_>, flags: u32, buffer: &[u8], offset: u64) -> i32 {
    let vector = libc::iovec { iov_base: buffer.as_ptr().cast_mut().cast(), iov_len: buffer.len() };
    let address = (&raw const vector) as usize;
    // The offset is split in two only where a register has 32 bits.
    let arguments = [file.as_raw_fd() as usize, address, 1, offset as usize, 0, flags as usize];
    // SAFETY: the kernel reads the vector and at most the borrowed buffer.
    unsafe { raw(libc::SYS_pwritev2, arguments) as i32 }
}

/// `fdatasync` or `fsync`: 0, or the negated errno.
#[cold]
#[inline(never)]
pub fn sync(file: BorrowedFd<'_>, data_only: bool) -> i32 {
    let number = if data_only { libc::SYS_fdatasync } else { libc::SYS_fsync };
    // SAFETY: takes no pointer.
    unsafe { raw(number, [file.as_raw_fd() as usize, 0, 0, 0, 0, 0]) as i32 }
}

/// Trims a range of a file or block device: the length, or the negated errno.
#[cold]
#[inline(never)]
pub fn trim(file: BorrowedFd<'_>, on_device: bool, offset: u64, length: u32) -> i32 {
    let result = give_back(file, on_device, offset, u64::from(length));
    if result == 0 { length as i32 } else { result }
}

/// `BLKDISCARD` on a device, or punches a hole into a file.
fn give_back(file: BorrowedFd<'_>, on_device: bool, offset: u64, length: u64) -> i32 {
    let fd = file.as_raw_fd() as usize;
    let range = [offset, length];
    let (number, arguments) = if on_device {
        (libc::SYS_ioctl, [fd, BLKDISCARD as usize, (&raw const range) as usize, 0, 0, 0])
    } else {
        (libc::SYS_fallocate, [fd, PUNCH_HOLE as usize, offset as usize, length as usize, 0, 0])
    };
    // SAFETY: the only pointer is that to the range, which is valid for the call.
    unsafe { raw(number, arguments) as i32 }
}

/// `_IO(0x12, 119)` of `linux/fs.h`.
const BLKDISCARD: u32 = 0x1277;
/// `mode` of `fallocate` for a trim.
pub(crate) const PUNCH_HOLE: u32 = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32;

/// Far beyond the end of anything, and its sum with a length does not overflow.
pub(crate) const BEYOND: u64 = 1 << 62;
/// A multiple of every sector size.
pub(crate) const PROBE_BYTES: u32 = 1 << 20;

/// Checks that this target can be trimmed, without trimming any data.
///
/// # Errors
/// `EOPNOTSUPP` where file system or device have no trim, `EBADF` if it is not open for writing.
pub fn probe_trim(file: BorrowedFd<'_>) -> io::Result<()> {
    let on_device = is_block_device(file);
    // Beyond the end of a device, the kernel returns EINVAL after it has checked for discard
    // support. Beyond the end of a file there is no data to lose.
    let length = u64::from(PROBE_BYTES);
    let result = if on_device {
        give_back(file, true, BEYOND, length)
    } else {
        give_back(file, false, end_of(file)?, length)
    };
    match -result {
        0 | libc::EINVAL | libc::EFBIG => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Size of a file rounded up to `PROBE_BYTES`.
fn end_of(file: BorrowedFd<'_>) -> io::Result<u64> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `status` is valid for writing, and read only where the call succeeded.
    let size = unsafe {
        if libc::fstat(file.as_raw_fd(), status.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        status.assume_init().st_size
    };
    Ok((size as u64).next_multiple_of(u64::from(PROBE_BYTES)))
}

/// Issues a system call: its result, or the negated errno.
///
/// # Safety
/// Pointers among the arguments must be valid for what this call does with them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn raw(number: i64, arguments: [usize; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    let result: i64;
    // SAFETY: registers as the x86-64 system call convention has them; rcx and r11 are clobbered;
    // memory may change, so no `nomem`. The caller answers for the pointers.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// The same through the C library.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) unsafe fn raw(number: i64, arguments: [usize; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller answers for the pointers.
    let result = unsafe { libc::syscall(number as libc::c_long, a, b, c, d, e, f) };
    if result < 0 {
        return -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO));
    }
    result as i64
}

/// The result of a system call as an [`io::Result`].
#[inline(always)]
pub(crate) fn checked(result: i64) -> io::Result<u32> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result as i32));
    }
    Ok(result as u32)
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
        assert_eq!(write_with(file.as_fd(), DSYNC, &buffer, 0), -libc::EBADF);
        assert_eq!(trim(file.as_fd(), false, 0, 4096), -libc::EBADF);
        assert_eq!(sync(file.as_fd(), true), 0);
    }

    #[test]
    fn only_what_is_open_for_writing_can_be_trimmed() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let refused = probe_trim(file.as_fd()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBADF));
    }
}
