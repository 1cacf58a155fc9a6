//! Queries of an open file that have no safe wrapper elsewhere. Nothing here writes.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Extents requested in one call of `extents`; with its header this fills less than 32 KiB.
pub const EXTENTS_PER_CALL: usize = 512;

/// One extent of a file (the kernel's `fiemap.rst`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Extent {
    /// First byte within the file.
    pub start_bytes: u64,
    /// Length, bytes.
    pub length_bytes: u64,
    /// The kernel's flags; see the methods.
    pub flags: u32,
}

impl Extent {
    /// Whether it is the last one of the file.
    pub fn is_last(&self) -> bool {
        self.flags & 0x0001 != 0
    }

    /// Whether its place is not chosen yet, because the data is still in memory only.
    pub fn is_delayed(&self) -> bool {
        self.flags & 0x0004 != 0
    }

    /// Whether it is compressed or otherwise encoded, so that it cannot be read from the device.
    pub fn is_encoded(&self) -> bool {
        self.flags & 0x0008 != 0
    }

    /// Whether it is allocated but was never written: it reads as zeros without device I/O.
    pub fn is_unwritten(&self) -> bool {
        self.flags & 0x0800 != 0
    }

    /// Whether another file uses it too.
    pub fn is_shared(&self) -> bool {
        self.flags & 0x2000 != 0
    }
}

/// `struct fiemap_extent` of the kernel's user interface.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap`, which ends in an array of extents of the caller's size.
#[repr(C)]
struct RawMap<const N: usize> {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [RawExtent; N],
}

/// The next extents of `file` that touch `length_bytes` from `start_bytes` on: at most
/// `EXTENTS_PER_CALL`, in order; none means there are no more. Dirty data is not flushed first,
/// since that would write.
///
/// # Errors
///
/// The kernel's: EOPNOTSUPP where the file system has no such query, EBADR, ENOTTY and others.
pub fn extents(
    file: BorrowedFd<'_>,
    start_bytes: u64,
    length_bytes: u64,
) -> io::Result<Vec<Extent>> {
    let mut map = Box::new(RawMap::<EXTENTS_PER_CALL> {
        start: start_bytes,
        length: length_bytes,
        flags: 0,
        mapped: 0,
        count: EXTENTS_PER_CALL as u32,
        reserved: 0,
        extents: [RawExtent::default(); EXTENTS_PER_CALL],
    });
    // The number encodes the size of the structure without its array.
    let request = libc::_IOWR::<RawMap<0>>(b'f' as u32, 11);
    // SAFETY: `map` has the kernel's layout, is exclusively borrowed, and has `count` extents.
    if unsafe { libc::ioctl(file.as_raw_fd(), request, &raw mut *map) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let seen = map.extents.iter().take(map.mapped as usize);
    Ok(seen
        .map(|raw| Extent { start_bytes: raw.logical, length_bytes: raw.length, flags: raw.flags })
        .collect())
}

/// Whether this is a block device.
pub fn is_block_device(file: BorrowedFd<'_>) -> bool {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `status` is valid for writing, and read only where the call succeeded.
    unsafe {
        libc::fstat(file.as_raw_fd(), status.as_mut_ptr()) == 0
            && status.assume_init().st_mode & libc::S_IFMT == libc::S_IFBLK
    }
}

/// The limit on locked memory in words, for messages: bytes, or `unlimited`.
pub fn locked_memory_limit() -> String {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } != 0 {
        return "unknown".into();
    }
    match limit.rlim_cur {
        libc::RLIM_INFINITY => "unlimited".into(),
        bytes => format!("{bytes} B"),
    }
}

/// Size of a block device, bytes (BLKGETSIZE64).
///
/// # Errors
///
/// The kernel's; ENOTTY if it is not a block device.
pub fn block_device_bytes(device: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = 0_u64;
    // The number is historic: it encodes `size_t`, while the kernel writes 64 bits.
    let request = libc::_IOR::<usize>(0x12, 114);
    // SAFETY: the kernel writes one u64 to the exclusively borrowed variable.
    if unsafe { libc::ioctl(device.as_raw_fd(), request, &raw mut bytes) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes)
}

/// Whether a block device refuses writes (BLKROGET).
///
/// # Errors
///
/// The kernel's; ENOTTY if it is not a block device.
pub fn block_device_is_read_only(device: BorrowedFd<'_>) -> io::Result<bool> {
    let mut flag: libc::c_int = 0;
    // SAFETY: the kernel writes one int to the exclusively borrowed variable.
    if unsafe { libc::ioctl(device.as_raw_fd(), libc::_IO(0x12, 94), &raw mut flag) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(flag != 0)
}

/// The generation of a file's inode (FS_IOC_GETVERSION), which distinguishes two files that
/// successively have the same inode number.
///
/// # Errors
///
/// The kernel's; ENOTTY where the file system has none.
pub fn inode_generation(file: BorrowedFd<'_>) -> io::Result<u32> {
    // The command is defined with a long, of which the kernel writes an int.
    let mut generation = [0_u32; 2];
    let request = libc::_IOR::<libc::c_long>(u32::from(b'v'), 1);
    // SAFETY: the kernel writes no more than a long to the exclusively borrowed array.
    if unsafe { libc::ioctl(file.as_raw_fd(), request, generation.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(generation[0])
}

/// The number that the kernel gave to this disk when it appeared, or when its medium was changed
/// (BLKGETDISKSEQ, Linux 5.15). No two disks of one uptime share it.
///
/// # Errors
///
/// The kernel's; ENOTTY if it is not a block device or the kernel is older.
pub fn disk_sequence(device: BorrowedFd<'_>) -> io::Result<u64> {
    let mut number = 0_u64;
    let request = libc::_IOR::<u64>(0x12, 128);
    // SAFETY: the kernel writes one u64 to the exclusively borrowed variable.
    if unsafe { libc::ioctl(device.as_raw_fd(), request, &raw mut number) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(number)
}

/// Pages of `file` in the page cache within a range (cachestat, Linux 6.5). Causes no I/O.
///
/// # Errors
///
/// The kernel's: ENOSYS before 6.5, EPERM for a file of another user, EOPNOTSUPP.
pub fn cached_pages(file: BorrowedFd<'_>, start_bytes: u64, length_bytes: u64) -> io::Result<u64> {
    /// The same number on every architecture, as for all system calls added since 2019.
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = [start_bytes, length_bytes];
    // nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted
    let mut counts = [0_u64; 5];
    let no_flags: libc::c_uint = 0;
    // SAFETY: `range` is two u64 that the kernel reads, `counts` five that it writes, as
    // `struct cachestat_range` and `struct cachestat` have them.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, no_flags)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(counts[0]) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_kernel_knows_the_request_numbers() {
        // x86-64 and arm64 values of the kernel's headers.
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            assert_eq!(libc::_IOWR::<RawMap<0>>(b'f' as u32, 11) as u32, 0xc020_660b);
            assert_eq!(libc::_IOR::<usize>(0x12, 114) as u32, 0x8008_1272);
            assert_eq!(libc::_IO(0x12, 94) as u32, 0x125e);
            assert_eq!(libc::_IOR::<u64>(0x12, 128) as u32, 0x8008_1280);
        }
        assert_eq!(size_of::<RawExtent>(), 56);
        assert_eq!(size_of::<RawMap<0>>(), 32);
    }

    #[test]
    fn a_character_device_has_none_of_it() {
        let null = File::open("/dev/null").unwrap();
        assert!(extents(null.as_fd(), 0, 4096).is_err());
        assert!(block_device_bytes(null.as_fd()).is_err());
        assert!(block_device_is_read_only(null.as_fd()).is_err());
        assert!(disk_sequence(null.as_fd()).is_err());
    }
}
