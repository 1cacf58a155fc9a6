//! Creates a named file that stays, to be written now and verified later.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, openat, unlinkat};
use rustix::io::Errno;

use iosonde_model::record::export::directory_of;

use super::open::{hold, reserve, system};
use super::{Direct, Held, TargetError, gate};

/// The name of a new file, which is removed on drop unless it is kept.
#[derive(Debug)]
pub struct Fresh(Option<PathBuf>);

impl Fresh {
    /// Keeps the file.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // If it cannot be removed, an unused file stays behind.
            let _: Result<(), Errno> = unlinkat(CWD, path, AtFlags::empty());
        }
    }
}

/// Creates a file of this size, with its space reserved and its name durable, and locks it. It is
/// removed again unless it is kept.
///
/// # Errors
/// If the name exists, the directory is not writable, or the space cannot be reserved. Nothing is
/// left behind then.
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

/// Makes the name of a file durable, so that it survives a power cut.
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
