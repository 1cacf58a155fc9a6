//! Commands to a block device other than reads and writes: discard, zeros, NVMe admin commands.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct nvme_passthru_cmd` of the kernel's user interface.
#[repr(C)]
#[derive(Default)]
struct Admin {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// Opcodes of the NVMe specification.
const FORMAT_NVM: u8 = 0x80;
const SANITIZE: u8 = 0x84;
const IDENTIFY: u8 = 0x06;
const GET_LOG_PAGE: u8 = 0x02;
const SET_FEATURES: u8 = 0x09;
const GET_FEATURES: u8 = 0x0a;
/// The feature "volatile write cache".
const WRITE_CACHE: u32 = 0x06;

/// What NVMe Format erases.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SecureErase {
    /// User data.
    UserData = 1,
    /// The key that encrypts it.
    Key = 2,
}

/// How NVMe Sanitize erases all of a drive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sanitize {
    /// Its blocks are erased.
    Blocks = 2,
    /// Its blocks are overwritten once with zeros.
    Overwrite = 3,
}

/// State of a drive's last sanitize, from its log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SanitizeState {
    /// It has never been sanitized.
    Never,
    /// The last time was successful.
    Done,
    /// It is running: parts of 65,536 that are done.
    Running(u16),
    /// The last time failed.
    Failed,
}

fn ranged(device: BorrowedFd<'_>, number: u32, start: u64, length: u64) -> io::Result<()> {
    let range = [start, length];
    // SAFETY: the kernel reads two u64.
    let done =
        unsafe { libc::ioctl(device.as_raw_fd(), libc::_IO(0x12, number), &raw const range) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Discards a range of a block device (BLKDISCARD).
///
/// # Errors
/// The kernel's; EOPNOTSUPP where the device has no discard.
pub fn discard(device: BorrowedFd<'_>, start_bytes: u64, length_bytes: u64) -> io::Result<()> {
    ranged(device, 119, start_bytes, length_bytes)
}

/// Makes a range of a block device read as zeros (BLKZEROOUT).
///
/// # Errors
/// The kernel's.
pub fn zero(device: BorrowedFd<'_>, start_bytes: u64, length_bytes: u64) -> io::Result<()> {
    ranged(device, 127, start_bytes, length_bytes)
}

fn admin(device: BorrowedFd<'_>, mut command: Admin, data: &mut [u8]) -> io::Result<u32> {
    command.address = data.as_mut_ptr() as u64;
    command.data_bytes = data.len() as u32;
    let request = libc::_IOWR::<Admin>(b'N' as u32, 0x41);
    // SAFETY: `command` has the kernel's layout and is exclusively borrowed, as are the
    // `data_bytes` at its address.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), request, &raw mut command) };
    match status {
        0 => Ok(command.result),
        status if status > 0 => {
            Err(io::Error::other(format!("the drive answered with the NVMe status {status:#x}")))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Number of the namespace behind an NVMe block device (NVME_IOCTL_ID).
///
/// # Errors
/// The kernel's; ENOTTY if it is no NVMe device.
pub fn namespace(device: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: this call has no argument.
    let number = unsafe { libc::ioctl(device.as_raw_fd(), libc::_IO(b'N' as u32, 0x40)) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

/// The Identify data of the controller (`None`) or of a namespace.
///
/// # Errors
/// The kernel's or the drive's.
pub fn identify(device: BorrowedFd<'_>, namespace: Option<u32>) -> io::Result<Box<[u8; 4096]>> {
    let mut data = Box::new([0_u8; 4096]);
    let cdw10 = u32::from(namespace.is_none());
    let namespace = namespace.unwrap_or(0);
    let command = Admin { opcode: IDENTIFY, namespace, cdw10, ..Admin::default() };
    admin(device, command, &mut data[..])?;
    Ok(data)
}

/// Formats a namespace, with the block format of this index in its list.
///
/// # Errors
/// The kernel's or the drive's.
pub fn format(
    device: BorrowedFd<'_>,
    namespace: u32,
    block_format: u32,
    erase: SecureErase,
) -> io::Result<()> {
    let cdw10 = (block_format & 0xf) | (erase as u32) << 9 | (block_format >> 4 & 0x3) << 12;
    // A drive may take hours.
    let timeout_ms = 12 * 3_600_000;
    let command = Admin { opcode: FORMAT_NVM, namespace, cdw10, timeout_ms, ..Admin::default() };
    admin(device, command, &mut []).map(|_| ())
}

/// Begins to sanitize a drive with all its namespaces.
///
/// # Errors
/// The kernel's or the drive's.
pub fn sanitize(device: BorrowedFd<'_>, how: Sanitize) -> io::Result<()> {
    let passes = if how == Sanitize::Overwrite { 1 << 4 } else { 0 };
    let command = Admin { opcode: SANITIZE, cdw10: how as u32 | passes, ..Admin::default() };
    admin(device, command, &mut []).map(|_| ())
}

/// The state of the last sanitize.
///
/// # Errors
/// The kernel's or the drive's.
pub fn sanitize_state(device: BorrowedFd<'_>) -> io::Result<SanitizeState> {
    log_page(device, 0x81).map(|log| state_of(&log))
}

/// The state in the log: NVM Express Base Specification 2.0, figure 267.
fn state_of(log: &[u8; 512]) -> SanitizeState {
    match log[2] & 0b111 {
        0 => SanitizeState::Never,
        1 | 4 => SanitizeState::Done,
        2 => SanitizeState::Running(u16::from_le_bytes([log[0], log[1]])),
        _ => SanitizeState::Failed,
    }
}

/// Whether an NVMe drive's volatile write cache is on.
///
/// # Errors
/// The kernel's or the drive's; some drives have none.
pub fn write_cache(device: BorrowedFd<'_>) -> io::Result<bool> {
    let command = Admin { opcode: GET_FEATURES, cdw10: WRITE_CACHE, ..Admin::default() };
    Ok(admin(device, command, &mut [])? & 1 != 0)
}

/// Switches the volatile write cache, until the next reset of the drive.
///
/// # Errors
/// The kernel's or the drive's.
pub fn set_write_cache(device: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let opcode = SET_FEATURES;
    let command = Admin { opcode, cdw10: WRITE_CACHE, cdw11: u32::from(on), ..Admin::default() };
    admin(device, command, &mut []).map(|_| ())
}

/// The SMART log page of an NVMe drive.
///
/// # Errors
/// The kernel's or the drive's.
pub fn smart_log(device: BorrowedFd<'_>) -> io::Result<[u8; 512]> {
    log_page(device, 0x02)
}

fn log_page(device: BorrowedFd<'_>, number: u32) -> io::Result<[u8; 512]> {
    let mut data = [0_u8; 512];
    let dwords = data.len() as u32 / 4 - 1;
    let cdw10 = number | dwords << 16;
    let command = Admin { opcode: GET_LOG_PAGE, namespace: u32::MAX, cdw10, ..Admin::default() };
    admin(device, command, &mut data)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_no_device_refuses() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(discard(file.as_fd(), 0, 4096).is_err());
        assert!(namespace(file.as_fd()).is_err());
        assert!(identify(file.as_fd(), None).is_err());
        assert!(smart_log(file.as_fd()).is_err());
        assert!(sanitize(file.as_fd(), Sanitize::Blocks).is_err());
        assert!(sanitize_state(file.as_fd()).is_err());
        assert_eq!(size_of::<Admin>(), 72);
    }

    #[test]
    fn the_log_of_sanitizing_is_read_as_the_specification_has_it() {
        let of = |bytes: [u8; 4]| {
            let mut log = [0_u8; 512];
            log[..4].copy_from_slice(&bytes);
            state_of(&log)
        };
        assert_eq!(of([0xff, 0xff, 0, 0]), SanitizeState::Never);
        assert_eq!(of([0xff, 0xff, 0x01, 0x01]), SanitizeState::Done);
        // Done, and deallocated as well.
        assert_eq!(of([0xff, 0xff, 0x04, 0x01]), SanitizeState::Done);
        assert_eq!(of([0x00, 0x80, 0x02, 0x00]), SanitizeState::Running(0x8000));
        assert_eq!(of([0xff, 0xff, 0x0b, 0x00]), SanitizeState::Failed);
    }
}
