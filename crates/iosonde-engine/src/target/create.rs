//! A file that is made under a name and stays: what is written now and checked later.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, openat, unlinkat};
use rustix::io::Errno;

use iosonde_model::record::export::directory_of;

use super::open::{hold, reserve, system};
use super::{Direct, Held, TargetError, gate};

/// The name of a new file, which goes again unless it is kept.
#[derive(Debug)]
pub struct Fresh(Option<PathBuf>);

impl Fresh {
    /// The file stays.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // What cannot be removed is an empty file that has been reported.
            let _: Result<(), Errno> = unlinkat(CWD, path, AtFlags::empty());
        }
    }
}

/// Makes a file of this size where there is none, with its space reserved and its name durable; it
/// is nobody else's, and goes again unless it is kept.
///
/// # Errors
/// If something of this name exists, the directory is not writable, or the space cannot be had:
/// then nothing is left behind.
pub fn created(path: &Path, size_bytes: u64, direct: Direct) -> Result<(Held, Fresh), TargetError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|error| system("create", path, error))?;
    let fresh = Fresh(Some(path.into()));
    reserve(&file, size_bytes).map_err(|error| system("reserve the space of", path, error))?;
    gate::lock(path, &file)?;
    fsync(&file).and_then(|()| sync_name(path)).map_err(|error| system("sync", path, error))?;
    Ok((hold(file, path, size_bytes, direct)?, fresh))
}

/// Makes the name of a file durable: a power cut must not take it away with all that is in it.
fn sync_name(path: &Path) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fsync(openat(CWD, directory_of(path), flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn nothing_that_exists_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("target");
        drop(created(&path, 1 << 20, Direct::Preferred).unwrap());
        assert!(!path.exists(), "what is not kept goes again");
        let (held, fresh) = created(&path, 1 << 20, Direct::Preferred).unwrap();
        fresh.keep();
        assert_eq!((held.bytes, path.metadata().unwrap().len()), (1 << 20, 1 << 20));
        assert!(created(&path, 1 << 20, Direct::Preferred).is_err());
        assert_eq!(path.metadata().unwrap().len(), 1 << 20);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &link).unwrap();
        assert!(created(&link, 1 << 20, Direct::Preferred).is_err());
        let huge = dir.path().join("huge");
        assert!(created(&huge, 1 << 60, Direct::Preferred).is_err());
        assert!(!huge.exists());
    }
}
