//! Is there anything in this file that somebody might miss?

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use iosonde_sys::inspect;
use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, pread};

use iosonde_model::content::{STAMP_EVERY, is_ours_or_zero};

/// Up to this much data is read whole; beyond it, this many bytes are looked at, spread evenly.
const WHOLE_BYTES: u64 = 1 << 30;
/// Blocks looked at in a file with more data than that.
const SAMPLES: u64 = 16_384;

/// A block that is neither zero nor ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Foreign {
    /// Where it begins, bytes.
    pub offset: u64,
    /// Its first bytes.
    pub head: [u8; 8],
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at offset {}:", self.offset)?;
        self.head.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

/// The first block of a file that this program did not write and that is not zero. Holes and
/// preallocated space are skipped; more than 1 GiB of data is sampled.
///
/// # Errors
/// If the file cannot be read.
pub fn foreign_data(file: &OwnedFd, size_bytes: u64) -> io::Result<Option<Foreign>> {
    let segments = data_segments(file, size_bytes)?;
    let data_bytes: u64 = segments.iter().map(|(start, end)| end - start).sum();
    let step = if data_bytes <= WHOLE_BYTES {
        STAMP_EVERY as u64
    } else {
        (data_bytes / SAMPLES).next_multiple_of(STAMP_EVERY as u64)
    };
    let mut block = [0; STAMP_EVERY];
    for (start, end) in segments {
        let mut at = start;
        while at < end {
            let length = (end - at).min(STAMP_EVERY as u64) as usize;
            let read = pread(file, &mut block[..length], at)?;
            if !is_ours_or_zero(&block[..read]) {
                let mut head = [0; 8];
                let shown = read.min(8);
                head[..shown].copy_from_slice(&block[..shown]);
                return Ok(Some(Foreign { offset: at, head }));
            }
            // The last block is always looked at.
            at = if at + step >= end && at + STAMP_EVERY as u64 + 1 < end {
                (end - 1) / STAMP_EVERY as u64 * STAMP_EVERY as u64
            } else {
                at + step
            };
        }
    }
    Ok(None)
}

/// Whether another file uses some of this file's data, as far as the file system tells.
pub fn has_shared_extents(file: &OwnedFd, size_bytes: u64) -> bool {
    let mut at = 0;
    while at < size_bytes {
        let Ok(batch) = inspect::extents(file.as_fd(), at, size_bytes - at) else { return false };
        if batch.iter().any(inspect::Extent::is_shared) {
            return true;
        }
        match batch.last() {
            Some(last) if !last.is_last() => {
                let end = last.start_bytes.saturating_add(last.length_bytes);
                if end <= at {
                    return false;
                }
                at = end;
            }
            _ => return false,
        }
    }
    false
}

/// Parts of a file that hold data, each from the block where it begins; the whole where the file
/// system does not tell.
fn data_segments(file: &OwnedFd, size_bytes: u64) -> io::Result<Vec<(u64, u64)>> {
    let mut segments = Vec::new();
    let mut at = 0;
    while at < size_bytes {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(vec![(0, size_bytes)]),
            Err(error) => return Err(error.into()),
        };
        let end = seek(file, SeekFrom::Hole(start))?.min(size_bytes);
        segments.push((start / STAMP_EVERY as u64 * STAMP_EVERY as u64, end));
        at = end.max(start + 1);
    }
    Ok(segments)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::fs::FileExt;

    use super::*;
    use iosonde_model::content::Filler;

    fn check(prepare: impl Fn(&std::fs::File)) -> Option<Foreign> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        prepare(&file);
        foreign_data(&file.into(), 64 << 20).unwrap()
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
        for offset in [0, 4095, 1 << 20, (64 << 20) - 1] {
            let found = check(|file| file.write_all_at(b"x", offset).unwrap()).unwrap();
            assert_eq!(found.offset, offset / 4096 * 4096);
        }
    }
}
