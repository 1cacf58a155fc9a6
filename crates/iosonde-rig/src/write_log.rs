//! The log of device mapper's `log-writes`: every write that reached a disk, in the order in which
//! it became durable, with marks between them. It yields the states that a crash can leave.
//!
//! The kernel logs a write when a flush sent after its completion has completed, and a mark when it
//! is set. So entries before a flush were durable when that flush completed. Entries between two
//! flushes may or may not have reached the medium, on a disk that honours flushes.
//!
//! Format: the kernel's `drivers/md/dm-log-writes.c`. All fields are little-endian, in sectors of
//! the log: a superblock, then for each entry one sector for its head, and its data.

use std::fs;
use std::io;
use std::path::Path;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
const FUA: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;
/// Bytes of an entry's head: sector, number of sectors, flags, length of a mark's text.
const HEAD_BYTES: usize = 32;

/// An entry of the log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Entry {
    /// Data were written.
    Write {
        /// First byte on the disk.
        offset: u64,
        data: Vec<u8>,
        /// Durable without a flush (FUA).
        durable: bool,
    },
    /// Bytes were discarded and may read as anything.
    Discard {
        /// First byte on the disk.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// Everything before it was made durable. A flush with data is a flush, then a write.
    Flush,
    /// A mark set by `dmsetup message NAME 0 mark TEXT`.
    Mark(String),
}

impl Entry {
    /// Applies the entry to the image of a disk; a discard leaves zeros.
    ///
    /// # Panics
    /// If it lies beyond the end of the image.
    pub fn apply(&self, image: &mut [u8]) {
        match self {
            Self::Write { offset, data, .. } => {
                image[*offset as usize..][..data.len()].copy_from_slice(data);
            }
            Self::Discard { offset, bytes } => {
                image[*offset as usize..][..*bytes as usize].fill(0);
            }
            Self::Flush | Self::Mark(_) => {}
        }
    }

    /// First byte and end of the range that it changes.
    pub fn range(&self) -> Option<(u64, u64)> {
        match self {
            Self::Write { offset, data, .. } => Some((*offset, offset + data.len() as u64)),
            Self::Discard { offset, bytes } => Some((*offset, offset + bytes)),
            Self::Flush | Self::Mark(_) => None,
        }
    }
}

/// Reads the log on the image of a log device.
///
/// # Errors
/// If the image cannot be read, or does not hold a complete log.
pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
    parse(&fs::read(path)?).map_err(|what| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
    })
}

fn parse(log: &[u8]) -> Result<Vec<Entry>, String> {
    let number = |at: usize| -> Result<u64, String> {
        let bytes = log.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map(|bytes| u64::from_le_bytes(*bytes)).ok_or(format!("ends before byte {at}"))
    };
    let (magic, version, entries) = (number(0)?, number(8)?, number(16)?);
    if (magic, version) != (MAGIC, VERSION) {
        return Err(format!("found magic {magic:#x} and version {version}, expected a write log"));
    }
    let sector = number(24)? & u64::from(u32::MAX);
    if !sector.is_power_of_two() || !(512..=65536).contains(&sector) {
        return Err(format!("found sectors of {sector} bytes"));
    }
    let sector = sector as usize;
    let mut found = Vec::new();
    let mut at = sector;
    for _ in 0..entries {
        let (offset, bytes) = (number(at)? * sector as u64, number(at + 8)? * sector as u64);
        let (flags, said) = (number(at + 16)?, number(at + 24)? as usize);
        let take = |from: usize, length: usize| {
            log.get(from..from + length).ok_or(format!("ends within the entry at byte {at}"))
        };
        let mut next = at + sector;
        if flags & MARK != 0 {
            let text = take(at + HEAD_BYTES, said)?;
            let text = String::from_utf8_lossy(text);
            found.push(Entry::Mark(text.trim_end_matches('\0').to_owned()));
            at = next;
            continue;
        }
        if flags & FLUSH != 0 {
            found.push(Entry::Flush);
        }
        if flags & DISCARD != 0 {
            found.push(Entry::Discard { offset, bytes });
        } else if bytes > 0 {
            let data = take(next, bytes as usize)?.to_vec();
            next += bytes as usize;
            found.push(Entry::Write { offset, data, durable: flags & FUA != 0 });
        }
        at = next;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn sector(numbers: &[u64], text: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend(text);
        bytes.resize(512, 0);
        bytes
    }

    #[test]
    fn every_kind_of_entry_is_read_and_applied() {
        let log = [
            sector(&[MAGIC, VERSION, 5, 512], b""),
            sector(&[2, 1, 0, 0], b""),
            vec![7; 512],
            sector(&[0, 0, FLUSH, 0], b""),
            sector(&[0, 0, MARK, 5], b"there\0"),
            sector(&[2, 1, DISCARD, 0], b""),
            sector(&[1, 1, FLUSH | FUA, 0], b""),
            vec![9; 512],
        ]
        .concat();
        let entries = parse(&log).unwrap();
        let expected = [
            Entry::Write { offset: 1024, data: vec![7; 512], durable: false },
            Entry::Flush,
            Entry::Mark("there".into()),
            Entry::Discard { offset: 1024, bytes: 512 },
            Entry::Flush,
            Entry::Write { offset: 512, data: vec![9; 512], durable: true },
        ];
        assert_eq!(entries, expected);
        let mut disk = vec![0; 1536];
        entries[0].apply(&mut disk);
        assert_eq!(disk, [vec![0; 1024], vec![7; 512]].concat());
        entries[3..].iter().for_each(|entry| entry.apply(&mut disk));
        assert_eq!(disk, [vec![0; 512], vec![9; 512], vec![0; 512]].concat());
        assert_eq!(entries[3].range(), Some((1024, 1536)));
    }

    #[test]
    fn what_is_no_whole_log_is_refused() {
        for (wrong, words) in [
            (vec![0; 512], "expected a write log"),
            (sector(&[MAGIC, VERSION, 1, 512], b""), "ends before byte 512"),
            (sector(&[MAGIC, VERSION, 1, 7], b""), "sectors of 7 bytes"),
            (
                [sector(&[MAGIC, VERSION, 1, 512], b""), sector(&[0, 1, 0, 0], b"")].concat(),
                "ends within the entry at byte 512",
            ),
        ] {
            let said = parse(&wrong).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
    }
}
