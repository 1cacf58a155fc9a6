//! A file that is made under a name and stays: what is written now and checked later.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use super::open::{hold, reserve, system};
use super::{Direct, Held, TargetError, gate};

/// Makes a file of this size where there is none, with its space reserved; it is nobody else's.
///
/// # Errors
/// If something of this name exists, the directory is not writable, or the space cannot be had:
/// then nothing is left behind.
pub fn created(path: &Path, size_bytes: u64, direct: Direct) -> Result<Held, TargetError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|error| system("create", path, error))?;
    let made = reserve(&file, size_bytes)
        .map_err(|error| system("reserve the space of", path, error))
        .and_then(|()| gate::lock(path, &file))
        .and_then(|()| hold(file, path, size_bytes, direct));
    if made.is_err() {
        // What cannot be removed is an empty file that the error names.
        let _: Result<(), Errno> = unlinkat(CWD, path, AtFlags::empty());
    }
    made
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn nothing_that_exists_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("target");
        let held = created(&path, 1 << 20, Direct::Preferred).unwrap();
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
