//! Queries of the kernel for other users of a file or device. Nothing here writes.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Whether anything other than this open file description has the regular file open: another
/// process, visible or not, a mapping that outlived its descriptor, a loop device, swap, a server
/// in the kernel. Another descriptor of this process counts as well.
///
/// The kernel grants a write lease only if nothing else has the file open (fcntl(2), `F_SETLEASE`).
/// The lease is released at once, so that no other process waits for it.
///
/// # Errors
///
/// The kernel's: EACCES for a file of another user without `CAP_LEASE`, EINVAL where the file
/// system has no leases or the file is not a regular one.
pub fn is_open_elsewhere(file: BorrowedFd<'_>) -> io::Result<bool> {
    /// The same on every architecture; the libc crate leaves it out.
    const F_SETSIG: libc::c_int = 10;
    let fd = file.as_raw_fd();
    // A process that opens the file right now breaks the lease, which sends this process a signal.
    // The default, SIGIO, would end it; SIGURG is ignored by default.
    // SAFETY: takes a signal number by value and touches no memory.
    if unsafe { libc::fcntl(fd, F_SETSIG, libc::SIGURG) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes the kind of lease by value and touches no memory.
    if unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) } < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(true) } else { Err(error) };
    }
    // SAFETY: as above.
    if unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(false)
}

/// The holder of a POSIX or open-file-description lock that conflicts with a write of any byte: its
/// process id, or -1 for a lock of an open file description (fcntl(2), `F_OFD_GETLK`).
///
/// # Errors
///
/// The kernel's; ENOLCK or others where the file system has no locks.
pub fn record_lock(file: BorrowedFd<'_>) -> io::Result<Option<i32>> {
    // SAFETY: every field is a number, for which zero is valid; `l_pid` has to be zero.
    let mut lock: libc::flock = unsafe { MaybeUninit::zeroed().assume_init() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the kernel reads and writes one `struct flock`, which is exclusively borrowed.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let is_free = libc::c_int::from(lock.l_type) == libc::F_UNLCK;
    Ok((!is_free).then_some(lock.l_pid))
}

/// The file or device below a loop device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LoopBacking {
    /// Device number of the file's file system (`st_dev`).
    pub device: u64,
    /// Inode number (`st_ino`).
    pub inode: u64,
    /// Device number if it is a device (`st_rdev`); 0 for a file.
    pub is_device: u64,
    /// First byte of the file that the loop device shows.
    pub offset_bytes: u64,
}

/// `struct loop_info64` of the kernel's user interface.
#[repr(C)]
struct RawLoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// The file or device below a loop device (LOOP_GET_STATUS64), whatever its name is now.
///
/// # Errors
///
/// The kernel's: ENXIO if nothing is attached, ENOTTY if it is no loop device.
pub fn loop_backing(device: BorrowedFd<'_>) -> io::Result<LoopBacking> {
    const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
    let mut info = MaybeUninit::<RawLoopInfo>::zeroed();
    // SAFETY: `info` has the kernel's layout and is exclusively borrowed.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: every field is made of numbers, for which any bits are valid, and began as zero.
    let info = unsafe { info.assume_init() };
    Ok(LoopBacking {
        device: info.device,
        inode: info.inode,
        is_device: info.rdevice,
        offset_bytes: info.offset,
    })
}

/// Whether two tasks share one table of descriptors (kcmp(2), `KCMP_FILES`).
///
/// # Errors
///
/// The kernel's: ENOSYS where it was built without this call, EPERM, ESRCH.
pub fn share_descriptors(one: u32, other: u32) -> io::Result<bool> {
    const KCMP_FILES: libc::c_int = 2;
    let ids = [libc::c_long::from(one), libc::c_long::from(other)];
    let unused: libc::c_ulong = 0;
    // SAFETY: takes numbers by value and touches no memory of ours.
    let result =
        unsafe { libc::syscall(libc::SYS_kcmp, ids[0], ids[1], KCMP_FILES, unused, unused) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result == 0) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_second_opening_of_a_file_is_noticed_and_a_closed_one_is_not() {
        let path = std::env::temp_dir().join(format!("iosonde-sharing-{}", std::process::id()));
        std::fs::write(&path, [0; 4096]).unwrap();
        let file = File::open(&path).unwrap();
        let alone = is_open_elsewhere(file.as_fd());
        let other = File::open(&path).unwrap();
        let shared = is_open_elsewhere(file.as_fd());
        drop(other);
        let again = is_open_elsewhere(file.as_fd());
        std::fs::remove_file(&path).unwrap();
        let seen = [alone, shared, again].map(Result::unwrap);
        assert_eq!(seen, [false, true, false], "alone, shared, alone again");
    }

    #[test]
    fn what_is_no_file_has_no_lease_and_no_backing() {
        let null = File::open("/dev/null").unwrap();
        assert!(is_open_elsewhere(null.as_fd()).is_err());
        assert!(loop_backing(null.as_fd()).is_err());
        assert_eq!(size_of::<RawLoopInfo>(), 232);
    }

    #[test]
    fn a_lock_of_another_description_is_noticed() {
        let path = std::env::temp_dir().join(format!("iosonde-lock-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let other = File::options().write(true).open(&path).unwrap();
        // SAFETY: as in `record_lock`.
        let mut lock: libc::flock = unsafe { MaybeUninit::zeroed().assume_init() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        let before = record_lock(file.as_fd()).unwrap();
        // SAFETY: the kernel reads one `struct flock`.
        let taken = unsafe { libc::fcntl(other.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
        let during = record_lock(file.as_fd()).unwrap();
        drop(other);
        let after = record_lock(file.as_fd()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((before, taken, during, after), (None, 0, Some(-1), None));
    }

    #[test]
    fn a_thread_shares_the_table_of_its_process() {
        let own = std::process::id();
        // A kernel may be built without this call; then each table is examined.
        let shared = share_descriptors(own, own);
        let without = matches!(&shared, Err(error) if error.raw_os_error() == Some(libc::ENOSYS));
        assert!(without || shared.unwrap());
    }
}
