//! A namespace of an NVMe drive through its generic character device (`/dev/ngXnY`), and the
//! meaning of the drive's status codes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::device_command::{identify, namespace};

/// An open namespace.
#[derive(Debug)]
pub struct Namespace {
    file: OwnedFd,
    shape: Shape,
}

/// The properties of a namespace that commands depend on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// Namespace ID.
    pub number: u32,
    /// Bytes of a logical block, as a power of two.
    pub block_shift: u32,
    /// Size, logical blocks.
    pub blocks: u64,
    /// Bytes of metadata with each logical block.
    pub metadata_bytes: u16,
    /// Whether it was opened for writing; commands that write panic otherwise.
    pub writable: bool,
}

impl Namespace {
    /// The namespace behind an open generic device.
    ///
    /// # Errors
    /// The kernel's: ENOTTY if it is no NVMe device, EACCES without CAP_SYS_ADMIN before Linux 6.2;
    /// or the drive's, if it does not identify the namespace.
    pub fn of(file: OwnedFd) -> io::Result<Namespace> {
        let number = namespace(file.as_fd())?;
        let writable = is_writable(file.as_fd())?;
        let shape = shape(number, writable, &*identify(file.as_fd(), Some(number))?)?;
        Ok(Namespace { file, shape })
    }

    /// The properties that commands depend on.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The same namespace through another descriptor.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn try_clone(&self) -> io::Result<Namespace> {
        Ok(Namespace { file: self.file.try_clone()?, shape: self.shape })
    }

    /// A namespace of this shape behind any file.
    #[cfg(test)]
    pub(crate) fn pretended(file: OwnedFd, shape: Shape) -> Namespace {
        Namespace { file, shape }
    }

    /// Its descriptor and its shape.
    pub(crate) fn into_parts(self) -> (OwnedFd, Shape) {
        (self.file, self.shape)
    }
}

impl Shape {
    /// Size, bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks << self.block_shift
    }
}

fn is_writable(file: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: a question about a descriptor, without an argument.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(flags & libc::O_ACCMODE != libc::O_RDONLY)
}

/// Identify Namespace data: NVM Express NVM Command Set Specification 1.0, figure 97.
fn shape(number: u32, writable: bool, data: &[u8; 4096]) -> io::Result<Shape> {
    let mut size = [0; 8];
    size.copy_from_slice(&data[..8]);
    let formatted = data[26];
    let format = usize::from(formatted & 0xf) | usize::from(formatted >> 5 & 0x3) << 4;
    let at = 128 + 4 * format;
    let block_shift = u32::from(data[at + 2]);
    let blocks = u64::from_le_bytes(size);
    if !(9..=24).contains(&block_shift) || blocks.leading_zeros() <= block_shift {
        return Err(io::Error::other(format!(
            "the drive reports {blocks} blocks of 2^{block_shift} B for namespace {number}"
        )));
    }
    let metadata_bytes = u16::from_le_bytes([data[at], data[at + 1]]);
    Ok(Shape { number, block_shift, blocks, metadata_bytes, writable })
}

/// The errno that the kernel's block layer returns for this status of a command, so that a failure
/// counts the same on both paths to a drive (`nvme_error_status` of the driver and
/// `blk_status_to_errno`, Linux 6.12). Flags such as "do not retry" are left out.
pub fn errno_of_status(status: i32) -> i32 {
    match status & 0x7ff {
        // Capacity exceeded.
        0x81 => libc::ENOSPC,
        // LBA out of range, namespace not ready, command interrupted.
        0x80 | 0x82 | 0x21 => libc::EREMOTEIO,
        // Invalid opcode, field or namespace; conflicting attributes.
        0x01 | 0x02 | 0x0b | 0x180 => libc::EOPNOTSUPP,
        // Write fault, unrecovered read, compare failure, access denied, unwritten block,
        // read-only.
        0x280 | 0x281 | 0x285 | 0x286 | 0x287 | 0x182 => libc::ENODATA,
        // Guard, application tag, reference tag, invalid protection information.
        0x282..=0x284 | 0x181 => libc::EILSEQ,
        // Reservation conflict.
        0x83 => libc::EBADE,
        // Host path error.
        0x370 => libc::ENOLINK,
        // Too many active or open zones.
        0x1bd => libc::EOVERFLOW,
        0x1be => libc::ETOOMANYREFS,
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Identify data of a namespace with these properties, in its second block format.
    fn reported(blocks: u64, shift: u8, metadata: u16) -> [u8; 4096] {
        let mut data = [0; 4096];
        data[..8].copy_from_slice(&blocks.to_le_bytes());
        data[26] = 1;
        data[132..134].copy_from_slice(&metadata.to_le_bytes());
        data[134] = shift;
        data
    }

    #[test]
    fn a_namespace_is_read_as_the_specification_has_it() {
        let found = shape(3, true, &reported(1 << 20, 12, 8)).unwrap();
        let expected = Shape {
            number: 3,
            block_shift: 12,
            blocks: 1 << 20,
            metadata_bytes: 8,
            writable: true,
        };
        assert_eq!(found, expected);
        assert_eq!(found.bytes(), 4 << 30);
        // The upper bits of the format's index are separate.
        let mut data = reported(100, 12, 0);
        data[26] = 0b0010_0001;
        data[128 + 4 * 17 + 2] = 9;
        assert_eq!(shape(1, false, &data).unwrap().block_shift, 9);
    }

    #[test]
    fn sizes_that_no_drive_has_are_refused() {
        assert!(shape(1, false, &reported(100, 0, 0)).is_err());
        assert!(shape(1, false, &reported(u64::MAX, 9, 0)).is_err());
    }

    #[test]
    fn what_is_no_namespace_is_refused() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(Namespace::of(null.into()).is_err());
    }

    #[test]
    fn the_mode_of_a_descriptor_decides_whether_it_writes() {
        let open = |write: bool| {
            let mut options = std::fs::File::options();
            options.read(true).write(write).open("/dev/null").unwrap()
        };
        assert!(!is_writable(open(false).as_fd()).unwrap());
        assert!(is_writable(open(true).as_fd()).unwrap());
    }

    #[test]
    fn a_status_is_counted_as_the_block_layer_counts_it() {
        // LBA out of range, with "do not retry" and "more".
        assert_eq!(errno_of_status(0x6080), libc::EREMOTEIO);
        assert_eq!(errno_of_status(0x281), libc::ENODATA);
        assert_eq!(errno_of_status(0x06), libc::EIO);
        assert_eq!(errno_of_status(0x182), libc::ENODATA);
    }
}
