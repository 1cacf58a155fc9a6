//! The served files: one flat directory, and the effect of faults on file data.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fuser::{Errno, FileAttr, FileType, INodeNo};

use crate::fault::Effect;
use crate::store::{Content, PAGE_BYTES};

/// Inode number of the directory.
pub(crate) const ROOT: u64 = 1;

/// Locks `mutex` even after a panic of another thread: it holds test data only.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One regular file.
pub(crate) struct File {
    pub(crate) content: Content,
    pub(crate) perm: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) changed: SystemTime,
    pub(crate) linked: bool,
    /// References the kernel holds; the file lives until it is unlinked and this is 0.
    pub(crate) lookups: u64,
}

impl File {
    pub(crate) fn attr(&self, ino: u64) -> FileAttr {
        FileAttr {
            ino: INodeNo(ino),
            size: self.content.size_bytes(),
            blocks: self.content.stored_bytes() / 512,
            atime: self.changed,
            mtime: self.changed,
            ctime: self.changed,
            crtime: self.changed,
            kind: FileType::RegularFile,
            perm: self.perm,
            nlink: u32::from(self.linked),
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: PAGE_BYTES as u32,
            flags: 0,
        }
    }
}

pub(crate) type FileRef = Arc<Mutex<File>>;

/// The only directory: names, and the files behind them.
#[derive(Default)]
pub(crate) struct Directory {
    pub(crate) names: BTreeMap<OsString, u64>,
    pub(crate) files: BTreeMap<u64, FileRef>,
    pub(crate) last_ino: u64,
}

impl Directory {
    pub(crate) fn unlink(&mut self, name: &OsStr) -> Result<(), Errno> {
        let ino = self.names.remove(name).ok_or(Errno::ENOENT)?;
        if let Some(file) = self.files.get(&ino) {
            lock(file).linked = false;
        }
        self.forget(ino, 0);
        Ok(())
    }

    pub(crate) fn forget(&mut self, ino: u64, lookups: u64) {
        let gone = self.files.get(&ino).is_some_and(|file| {
            let mut file = lock(file);
            file.lookups = file.lookups.saturating_sub(lookups);
            file.lookups == 0 && !file.linked
        });
        if gone {
            self.files.remove(&ino);
        }
    }
}

/// Data that a read returns.
pub(crate) fn read(file: &File, offset: u64, length: u64, effect: Option<Effect>) -> Vec<u8> {
    let from = match effect {
        Some(Effect::Misdirected { shift_bytes }) => offset + shift_bytes,
        _ => offset,
    };
    let mut data = file.content.read(from, length);
    match effect {
        Some(Effect::Short) if !data.is_empty() => data.truncate((data.len() / 2).max(1)),
        Some(Effect::Corrupt) => flip(&mut data),
        Some(Effect::Zero) => data.fill(0),
        Some(Effect::Within { pieces, piece_bytes }) => pieces.apply(&mut data, piece_bytes),
        // The answer has the length of a correct one.
        Some(Effect::Misdirected { .. }) => {
            let length = length.min(file.content.size_bytes().saturating_sub(offset));
            data.resize(length as usize, 0);
        }
        _ => {}
    }
    data
}

/// Flips one bit in the middle.
fn flip(data: &mut [u8]) {
    let middle = data.len() / 2;
    data.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 1);
}

/// Stores the data of a write. The file grows as without a fault; only the data are affected.
pub(crate) fn store(file: &mut File, offset: u64, data: &[u8], effect: Option<Effect>) {
    let length = data.len() as u64;
    let content = &mut file.content;
    match effect {
        Some(Effect::Lost) => {}
        Some(Effect::Torn { kept_bytes }) => {
            content.write(offset, &data[..data.len().min(kept_bytes as usize)]);
        }
        Some(Effect::Misdirected { shift_bytes }) => content.write(offset + shift_bytes, data),
        Some(Effect::Swap { shift_bytes }) => {
            let mut there = content.read(offset + shift_bytes, length);
            there.resize(data.len(), 0);
            content.write(offset, &there);
            content.write(offset + shift_bytes, data);
        }
        Some(Effect::Corrupt) => {
            let mut data = data.to_vec();
            flip(&mut data);
            content.write(offset, &data);
        }
        Some(Effect::Within { pieces, piece_bytes }) => {
            let mut data = data.to_vec();
            pieces.apply(&mut data, piece_bytes);
            content.write(offset, &data);
        }
        Some(Effect::Zero) => content.write(offset, &vec![0; data.len()]),
        _ => content.write(offset, data),
    }
    content.grow(offset + length);
    file.changed = SystemTime::now();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Pieces;

    /// Four pages, each filled with its number from 1, after a write of 9s to the second.
    fn after_write(effect: Effect) -> Vec<u8> {
        let mut file = four_pages();
        store(&mut file, 4096, &[9; 4096], Some(effect));
        file.content.read(0, 1 << 20)
    }

    fn four_pages() -> File {
        let mut file = File {
            content: Content::default(),
            perm: 0,
            uid: 0,
            gid: 0,
            changed: SystemTime::UNIX_EPOCH,
            linked: true,
            lookups: 1,
        };
        for page in 0..4 {
            store(&mut file, page * 4096, &[page as u8 + 1; 4096], None);
        }
        file
    }

    /// First byte of each page.
    fn pages(bytes: &[u8]) -> Vec<u8> {
        bytes.chunks(4096).map(|page| page[0]).collect()
    }

    #[test]
    fn each_wrong_write_leaves_what_it_says() {
        assert_eq!(pages(&after_write(Effect::Lost)), [1, 2, 3, 4]);
        assert_eq!(pages(&after_write(Effect::Zero)), [1, 0, 3, 4]);
        let shifted = Effect::Misdirected { shift_bytes: 8192 };
        assert_eq!(pages(&after_write(shifted)), [1, 2, 3, 9]);
        assert_eq!(pages(&after_write(Effect::Swap { shift_bytes: 4096 })), [1, 3, 9, 4]);
        let torn = after_write(Effect::Torn { kept_bytes: 512 });
        assert!(torn[4096..4608] == [9; 512] && torn[4608..8192] == [2; 3584]);
        let flipped = after_write(Effect::Corrupt);
        let wrong: Vec<u8> = flipped[4096..8192].iter().copied().filter(|b| *b != 9).collect();
        assert_eq!(wrong, [8], "one bit of one byte");
    }

    #[test]
    fn pieces_of_a_request_stand_at_the_place_of_others() {
        let numbered: Vec<u8> = (1..=8).flat_map(|piece| [piece; 512]).collect();
        for (pieces, expected) in [
            (Pieces::Swap, [1, 8, 3, 4, 5, 6, 7, 2]),
            (Pieces::Copy, [1, 2, 3, 4, 5, 6, 7, 2]),
            (Pieces::Shift, [1, 1, 2, 3, 4, 5, 6, 7]),
        ] {
            let effect = Effect::Within { pieces, piece_bytes: 512 };
            let mut file = four_pages();
            store(&mut file, 4096, &numbered, Some(effect));
            let stored = file.content.read(4096, 4096);
            assert!(stored.chunks(512).map(|piece| piece[0]).eq(expected), "{pieces:?}");
            store(&mut file, 4096, &numbered, None);
            let read = read(&file, 4096, 4096, Some(effect));
            assert!(read.chunks(512).map(|piece| piece[0]).eq(expected), "{pieces:?}");
            assert_eq!(file.content.read(4096, 4096), numbered);
        }
    }

    #[test]
    fn a_swap_over_the_end_takes_zeros() {
        let mut file = four_pages();
        store(&mut file, 3 * 4096, &[9; 4096], Some(Effect::Swap { shift_bytes: 4096 }));
        assert_eq!(pages(&file.content.read(0, 1 << 20)), [1, 2, 3, 0, 9]);
    }

    #[test]
    fn each_wrong_read_leaves_what_is_stored() {
        let file = four_pages();
        let read = |effect| read(&file, 4096, 4096, Some(effect));
        assert_eq!(read(Effect::Zero), [0; 4096]);
        assert_eq!(read(Effect::Misdirected { shift_bytes: 4096 }), [3; 4096]);
        assert_eq!(read(Effect::Misdirected { shift_bytes: 1 << 30 }), [0; 4096]);
        assert_eq!(read(Effect::Corrupt).iter().filter(|byte| **byte != 2).count(), 1);
        assert_eq!(read(Effect::Short), [2; 2048]);
        assert_eq!(pages(&file.content.read(0, 1 << 20)), [1, 2, 3, 4]);
    }
}
