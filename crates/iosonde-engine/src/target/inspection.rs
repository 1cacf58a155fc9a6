//! Inspects an open device or file: which parts of it are holes, and what is in the others.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use iosonde_sys::inspect::block_device_bytes;
use iosonde_sys::sharing::loop_backing;
use rustix::fs::{
    Advice, CWD, Mode, OFlags, SeekFrom, fadvise, fdatasync, fstat, major, minor, openat, seek,
};
use rustix::io::{Errno, pread};

use super::TargetError;
use super::contents::{Contents, Inspection, inspect};

/// Attempts of a read that fails with EAGAIN.
const TRIES: u32 = 10;

/// The contents of a block device. Pages read for this are dropped from the page cache.
///
/// # Errors
/// If it cannot be read, or the user interrupts.
pub(super) fn of_device(
    path: &Path,
    device: &OwnedFd,
    how: Inspection,
) -> Result<Contents, TargetError> {
    let size_bytes =
        block_device_bytes(device.as_fd()).map_err(|error| failed("size", path, error))?;
    let holes = holes_below(device, size_bytes).unwrap_or_default();
    // Data read ahead would not be inspected, and large reads are faster without read-ahead.
    let _ = fadvise(device, 0, None, Advice::Random);
    let contents = of(path, device, size_bytes, &holes, how);
    // The measurement may use the same descriptor.
    let _ = fadvise(device, 0, None, Advice::Normal);
    contents
}

/// Holes of the file below a loop device, as offsets of the device; `None` if it is no loop device
/// over a file, or the file cannot be found.
fn holes_below(device: &OwnedFd, size_bytes: u64) -> Option<Vec<Range<u64>>> {
    let backing = loop_backing(device.as_fd()).ok().filter(|backing| backing.is_device == 0)?;
    let number = fstat(device).ok()?.st_rdev;
    let name = format!("/sys/dev/block/{}:{}/loop/backing_file", major(number), minor(number));
    let path = std::fs::read_to_string(name).ok()?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(CWD, path.trim_end_matches('\n'), flags, Mode::empty()).ok()?;
    // The name may lead to another file by now; the kernel reports the right one.
    let facts = fstat(&file).ok()?;
    if (facts.st_dev, facts.st_ino) != (backing.device, backing.inode) {
        return None;
    }
    // Writes to the device reach the file only when the device's cache is written back.
    fdatasync(device).ok()?;
    let from = backing.offset_bytes;
    let end = from.checked_add(size_bytes)?;
    let holes = holes(&file, end.min(u64::try_from(facts.st_size).ok()?)).ok()?;
    let within = |hole: Range<u64>| hole.start.max(from) - from..hole.end.max(from) - from;
    Some(holes.into_iter().map(within).collect())
}

/// The contents of a file. Holes and preallocated space are not read: the file system reports
/// them, with dirty pages taken into account.
///
/// # Errors
/// If it cannot be read, or the user interrupts.
pub(super) fn of_file(
    path: &Path,
    file: &OwnedFd,
    size_bytes: u64,
    how: Inspection,
) -> Result<Contents, TargetError> {
    let holes = holes(file, size_bytes).map_err(|error| failed("examine", path, error))?;
    of(path, file, size_bytes, &holes, how)
}

fn of(
    path: &Path,
    file: &OwnedFd,
    size_bytes: u64,
    holes: &[Range<u64>],
    how: Inspection,
) -> Result<Contents, TargetError> {
    // Without random numbers the places of the samples are predictable, which is good enough.
    let mut seed = [0; 8];
    let _ = rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty());
    // Cached pages may be older than the stored data, and pages read here are not needed again.
    // Advice that is ignored changes neither result nor safety.
    let _ = fadvise(file, 0, None, Advice::DontNeed);
    let read = |buffer: &mut [u8], offset: u64| {
        let mut tries = 1;
        let length = loop {
            match pread(file, &mut *buffer, offset) {
                Err(Errno::AGAIN) if tries < TRIES => tries += 1,
                read => break read?,
            }
        };
        let end = std::num::NonZeroU64::new(length as u64);
        let _ = end.map(|length| fadvise(file, offset, Some(length), Advice::DontNeed));
        Ok(length)
    };
    inspect(size_bytes, holes, &read, u64::from_le_bytes(seed), how)
        .map_err(|error| failed("examine", path, error))
}

fn failed(what: &'static str, path: &Path, error: io::Error) -> TargetError {
    match error.kind() {
        io::ErrorKind::Interrupted => TargetError::Interrupted(path.into()),
        _ => TargetError::System { what, path: path.into(), error },
    }
}

/// Parts of a file without data; empty where the file system does not report them.
fn holes(file: &OwnedFd, size_bytes: u64) -> io::Result<Vec<Range<u64>>> {
    let mut holes = Vec::new();
    let mut at = 0;
    while at < size_bytes {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(size_bytes),
            Err(Errno::NXIO) => size_bytes,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => break,
            Err(error) => return Err(error.into()),
        };
        if at < data {
            holes.push(at..data);
        }
        if data == size_bytes {
            break;
        }
        at = seek(file, SeekFrom::Hole(data))?.max(data + 1);
    }
    Ok(holes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::fs::FileExt;

    use iosonde_model::content::Filler;

    use super::*;
    use crate::target::contents::Foreign;

    const SIZE: u64 = 64 << 20;

    fn check(prepare: impl Fn(&std::fs::File)) -> Option<Foreign> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        prepare(&file);
        let contents = of_file(Path::new("x"), &file.into(), SIZE, Inspection::default()).unwrap();
        assert_eq!(contents.unseen_bytes(), 0, "all of it was inspected");
        contents.foreign
    }

    #[test]
    fn holes_zeros_and_our_own_blocks_may_go() {
        assert_eq!(check(|_| ()), None);
        assert_eq!(check(|file| file.write_all_at(&[0; 8192], 1 << 20).unwrap()), None);
        assert_eq!(
            check(|file| {
                let mut buffer = vec![0; 1 << 20];
                let mut filler = Filler::new(1, &iosonde_model::plan::Job::default());
                filler.fill(&mut buffer);
                filler.refresh(&mut buffer, 4 << 20);
                file.write_all_at(&buffer, 4 << 20).unwrap();
            }),
            None
        );
    }

    #[test]
    fn one_foreign_byte_anywhere_is_found() {
        for offset in [0, 4095, 1 << 20, (5 << 20) + 4711, SIZE - 1] {
            let found = check(|file| file.write_all_at(b"x", offset).unwrap()).unwrap();
            assert_eq!(found.offset, offset / 4096 * 4096);
        }
    }
}
