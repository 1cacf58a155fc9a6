//! The handle through which the `host` module reads files.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{FileType, OFlags, major, minor};

/// Most that is read of one pseudo file, bytes, unless the caller sets another limit.
const FILE_LIMIT_BYTES: u64 = 64 << 10;

/// Limit on the names that are read from one directory.
const NAMES_LIMIT: usize = 1 << 16;

/// A directory that is read as `/`: the machine's own root, or a recorded tree.
///
/// All paths passed to it are absolute paths as on the machine. Except for `read`, no method fails:
/// what is missing, unreadable or not what was expected is `None` or empty.
#[derive(Clone, Debug)]
pub struct Root {
    base: PathBuf,
}

impl Root {
    /// This machine.
    #[must_use]
    pub fn system() -> Self {
        Self { base: PathBuf::from("/") }
    }

    /// A recorded tree below `path`, holding `proc`, `sys` and so on.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { base: fs::canonicalize(&path).unwrap_or(path) }
    }

    /// Whether this is the machine itself, so that system calls see the same objects as its files.
    #[must_use]
    pub fn is_system(&self) -> bool {
        self.base == Path::new("/")
    }

    /// The real location of `path`. `..` never leads out of the root.
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let mut inside = PathBuf::new();
        for component in path.as_ref().components() {
            match component {
                Component::Normal(name) => inside.push(name),
                Component::ParentDir => {
                    inside.pop();
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        self.base.join(inside)
    }

    /// `path` with every symbolic link followed, as named on the machine.
    #[must_use]
    pub fn resolve(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let found = fs::canonicalize(self.path(path)).ok()?;
        Some(Path::new("/").join(found.strip_prefix(&self.base).ok()?))
    }

    /// The text of a symbolic link, whose target need not exist (`mnt:[4026531841]`).
    #[must_use]
    pub fn link(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        fs::read_link(self.path(path)).ok()
    }

    /// Number of the block device at `path`. A recorded tree has no devices.
    #[must_use]
    pub fn node(&self, path: impl AsRef<Path>) -> Option<(u32, u32)> {
        let seen = rustix::fs::stat(self.path(path)).ok()?;
        let is_block = FileType::from_raw_mode(seen.st_mode) == FileType::BlockDevice;
        is_block.then(|| (major(seen.st_rdev), minor(seen.st_rdev)))
    }

    /// Number of the character device that a recorded tree lists under this name.
    #[must_use]
    pub(super) fn recorded_character(&self, path: &Path) -> Option<(u32, u32)> {
        let has_name = |number: &String| {
            let device = self.resolve(format!("/sys/dev/char/{number}"));
            device.is_some_and(|device| device.file_name() == path.file_name())
        };
        let number = self.names("/sys/dev/char").into_iter().find(has_name)?;
        super::mount::device_number(&number)
    }

    /// Whether there is anything at `path`.
    #[must_use]
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The text of a pseudo file without white space at its ends: at most 64 KiB of it, with
    /// replacement characters where it is not UTF-8.
    #[must_use]
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        self.text_up_to(path, FILE_LIMIT_BYTES)
    }

    /// As `text`, for files that may be longer than 64 KiB.
    #[must_use]
    pub fn text_up_to(&self, path: impl AsRef<Path>, limit_bytes: u64) -> Option<String> {
        let bytes = self.bytes(path, limit_bytes)?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// As `text`, but an empty file is `None`.
    #[must_use]
    pub fn word(&self, path: impl AsRef<Path>) -> Option<String> {
        self.text(path).filter(|text| !text.is_empty())
    }

    /// The number a pseudo file holds, if it holds exactly one that fits.
    #[must_use]
    pub fn number<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The raw content of a file, at most `limit_bytes` of it.
    #[must_use]
    pub fn bytes(&self, path: impl AsRef<Path>, limit_bytes: u64) -> Option<Vec<u8>> {
        self.read(path, limit_bytes).ok()
    }

    /// As `bytes`, but with the error.
    ///
    /// # Errors
    /// The kernel's error of opening or reading.
    pub fn read(&self, path: impl AsRef<Path>, limit_bytes: u64) -> io::Result<Vec<u8>> {
        // Without O_NONBLOCK, opening a FIFO in an odd tree would wait for a writer forever.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(self.path(path))?;
        // Most files of /proc fit, and are then read at once.
        let mut bytes = Vec::with_capacity(4096);
        file.take(limit_bytes).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The names in a directory, sorted; those that are not UTF-8 are left out.
    #[must_use]
    pub fn names(&self, directory: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(directory)) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .take(NAMES_LIMIT)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn parent_components_stay_inside() {
        let root = Root::at("/nowhere");
        assert_eq!(root.path("/../../etc/./passwd"), Path::new("/nowhere/etc/passwd"));
        assert_eq!(root.path("/a/../../b"), Path::new("/nowhere/b"));
    }

    #[test]
    fn a_device_without_end_is_read_to_the_limit() {
        let root = Root::system();
        assert_eq!(root.bytes("/dev/zero", 1000).unwrap().len(), 1000);
        assert_eq!(root.text("/dev/zero").unwrap().len(), 64 << 10);
    }

    #[test]
    fn what_is_no_file_is_none() {
        let root = Root::system();
        assert_eq!(root.text("/proc"), None);
        assert_eq!(root.text("/proc/self/no-such-file"), None);
        assert!(root.names("/proc/self/no-such-directory").is_empty());
    }
}
