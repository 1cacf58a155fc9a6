//! The files that are served: one flat directory, and what faults do to its bytes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fuser::{Errno, FileAttr, FileType, INodeNo};

use crate::fault::Effect;
use crate::store::{Content, PAGE_BYTES};

/// Inode number of the directory.
pub(crate) const ROOT: u64 = 1;

/// `lock`, also after a panic elsewhere: the data are tests' own.
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

/// The one directory: names, and the files behind them.
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

/// What a read gives.
pub(crate) fn read(file: &File, offset: u64, length: u64, effect: Option<Effect>) -> Vec<u8> {
    let mut data = file.content.read(offset, length);
    match effect {
        Some(Effect::Short) if !data.is_empty() => data.truncate((data.len() / 2).max(1)),
        Some(Effect::Corrupt) => {
            let middle = data.len() / 2;
            data.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 1);
        }
        _ => {}
    }
    data
}

/// What a write stores. The file grows as for an honest write: only the data are at risk.
pub(crate) fn store(file: &mut File, offset: u64, data: &[u8], effect: Option<Effect>) {
    let end = offset + data.len() as u64;
    match effect {
        Some(Effect::Lost) => {}
        Some(Effect::Torn { kept_bytes }) => {
            file.content.write(offset, &data[..data.len().min(kept_bytes as usize)]);
        }
        Some(Effect::Misdirected { shift_bytes }) => {
            file.content.write(offset + shift_bytes, data);
        }
        _ => file.content.write(offset, data),
    }
    file.content.grow(end);
    file.changed = SystemTime::now();
}
