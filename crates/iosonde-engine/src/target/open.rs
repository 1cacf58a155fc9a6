//! Opens a target. Only the `target` module opens one for writing.
//!
//! Reading is the default. A temporary test file has no name: there is nothing to attack or to
//! clean up, and it is gone on exit, interrupt, kill -9 and power loss. Where direct I/O is not
//! available, the target carries the reason.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iosonde_sys::nvme::Namespace;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, fallocate, fcntl_getfl, fcntl_setfl,
    fstat, fstatvfs, ftruncate, major, minor, openat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::contents::Inspection;
pub use super::error::TargetError;

use super::gate::{self, Consent, GateError};
use super::undo::Saved;
use super::{passthrough, truth, written};
use crate::host::Root;
use iosonde_model::record::{TargetFacts, WriteAudit};
use iosonde_model::units::bytes;

/// An open target.
#[derive(Clone, Debug)]
pub struct Held {
    /// The descriptor that all I/O goes through.
    pub file: Arc<OwnedFd>,
    /// The path as given; for an unnamed file, its directory.
    pub path: PathBuf,
    /// Size, bytes; `u64::MAX` for an endless character device.
    pub bytes: u64,
    /// Whether direct I/O is in effect.
    pub direct: bool,
    /// Why direct I/O is not in effect although it was requested.
    pub direct_refused: Option<String>,
    /// The checks before it was opened for writing, and the consents that were needed. If it
    /// represents several targets, those of all of them.
    pub audits: Vec<WriteAudit>,
    /// Destination of `path`, if that is a symbolic link.
    pub leads_to: Option<PathBuf>,
    /// For an NVMe generic device, the namespace that takes commands; `file` is then the block
    /// device of the same namespace.
    pub namespace: Option<Arc<Namespace>>,
    /// The content of this device that must be saved before the first write. If it represents
    /// several targets, that of all of them.
    pub undo: Vec<Arc<Saved>>,
}

/// The intended use of a named target.
#[derive(Clone, Debug, Default)]
pub struct Intent {
    /// Whether it will be written.
    pub write: bool,
    /// `--overwrite-file`: the name whose content may be destroyed.
    pub overwrite_file: Option<String>,
    /// `--destroy-data`: identities of the devices that may be written.
    pub destroy_data: Vec<String>,
    /// `--overwrite-signature`: kinds of signatures that may be destroyed on them.
    pub overwrite_signature: Vec<String>,
    /// `--accept-unseen`: devices and files that may be written though not all was inspected.
    pub accept_unseen: Vec<String>,
    /// How long existing content may be read.
    pub inspection: Inspection,
    /// `--accept-unseen-processes`: devices and files that may be written although not every
    /// process could be examined.
    pub accept_unseen_processes: Vec<String>,
    /// Folder of the results, whose disk is never written.
    pub results: Option<PathBuf>,
    /// Whether it must be an NVMe generic device.
    pub passthrough: bool,
    /// A dry run: a block device is opened for reading, even if the load would write it.
    pub rehearse: bool,
}

impl Intent {
    fn consent(&self) -> Consent<'_> {
        Consent {
            destroy_data: &self.destroy_data,
            overwrite_signature: &self.overwrite_signature,
            accept_unseen: &self.accept_unseen,
            accept_unseen_processes: &self.accept_unseen_processes,
        }
    }
}

/// Whether direct I/O is wanted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direct {
    /// If it is available; else buffered, with the reason kept.
    Preferred,
    /// An error if it is not available.
    Demanded,
    /// Through the page cache.
    Never,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Smallest test file.
const SMALLEST_BYTES: u64 = 256 * MIB;

/// Free space for this user, and size, of the file system of a directory, bytes.
///
/// # Errors
/// If the directory is missing, is no directory, or cannot be opened.
pub fn space(directory: &Path) -> Result<(u64, u64), TargetError> {
    let dir = open_directory(directory)?;
    let facts = fstatvfs(&dir).map_err(|error| system("examine", directory, error))?;
    let unit = facts.f_frsize;
    Ok((facts.f_bavail.saturating_mul(unit), facts.f_blocks.saturating_mul(unit)))
}

/// Facts about a directory, before a file is created in it.
///
/// # Errors
/// If it is missing, is no directory, or cannot be opened.
pub fn describe_directory(root: &Root, directory: &Path) -> Result<TargetFacts, TargetError> {
    let dir = open_directory(directory)?;
    Ok(truth::describe(root, directory, dir.as_fd(), 0))
}

/// Size of a test file: as requested, or a tenth of the free space between 256 MiB and 1 GiB;
/// rounded down to whole MiB.
///
/// # Errors
/// If the requested size is below 256 MiB or does not fit ([`fits`]), or if a tenth of the free
/// space is below 256 MiB.
pub fn test_bytes(
    directory: &Path,
    requested: Option<u64>,
    free_bytes: u64,
    total_bytes: u64,
) -> Result<u64, TargetError> {
    let Some(requested) = requested else {
        let tenth = free_bytes / 10;
        if tenth < SMALLEST_BYTES {
            let free = bytes::rough(free_bytes);
            return Err(TargetError::TooFull { path: directory.into(), free });
        }
        return Ok(tenth.min(GIB) / MIB * MIB);
    };
    if requested < SMALLEST_BYTES {
        return Err(TargetError::TooSmall { found: bytes::exact(requested) });
    }
    fits(directory, requested, free_bytes, total_bytes)?;
    Ok(requested / MIB * MIB)
}

/// Whether a file of this size leaves enough room for others.
///
/// # Errors
/// [`TargetError::Space`] if it leaves less than 5 % of the file system, or less than 1 GiB (on a
/// file system below 4 GiB, a quarter).
pub fn fits(
    directory: &Path,
    wanted_bytes: u64,
    free_bytes: u64,
    total_bytes: u64,
) -> Result<(), TargetError> {
    let reserve_bytes = GIB.min(total_bytes / 4).max(total_bytes / 20);
    if wanted_bytes <= free_bytes.saturating_sub(reserve_bytes) {
        return Ok(());
    }
    Err(TargetError::Space {
        path: directory.into(),
        wanted: bytes::exact(wanted_bytes),
        free: bytes::rough(free_bytes),
        reserve: bytes::rough(reserve_bytes),
    })
}

/// Creates an unnamed file of this size in a directory, with its space reserved.
///
/// # Errors
/// If the directory is missing or not writable, or the space cannot be reserved.
pub fn unnamed(directory: &Path, size_bytes: u64, direct: Direct) -> Result<Held, TargetError> {
    let held = rehearsed(directory, size_bytes, direct)?;
    reserve(&held.file, size_bytes)
        .map_err(|error| system("reserve the space in", directory, error))?;
    Ok(held)
}

/// As [`unnamed`], but without reserving space, for plans that are only printed.
///
/// # Errors
/// If the directory is missing or not writable.
pub fn rehearsed(directory: &Path, size_bytes: u64, direct: Direct) -> Result<Held, TargetError> {
    let dir = open_directory(directory)?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let file = match openat(&dir, ".", flags | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL | Errno::NOSYS) => {
            named_and_unlinked(&dir, flags, mode)
        }
        other => other,
    }
    .map_err(|error| system("create a file in", directory, error))?;
    hold(file, directory, size_bytes, direct)
}

/// For file systems without unnamed files: creates a file with a random name and unlinks it.
fn named_and_unlinked(dir: &OwnedFd, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let mut random = [0u8; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!(".iosonde-{digits}");
    let exclusive = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = openat(dir, name.as_str(), flags | exclusive, mode)?;
    unlinkat(dir, name.as_str(), AtFlags::empty())?;
    Ok(file)
}

/// Reserves space, so that a full disk fails now; where that is not supported, sets the length.
pub(super) fn reserve(file: &OwnedFd, size_bytes: u64) -> Result<(), Errno> {
    // tmpfs returns EINTR as soon as the thread has pending work, such as that of io_uring.
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, size_bytes)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => ftruncate(file, size_bytes),
        other => other,
    }
}

/// Extends a file that is open for writing to this size, with its space reserved.
///
/// # Errors
/// If the space cannot be reserved.
pub fn lengthened(held: &Held, bytes: u64) -> Result<Held, TargetError> {
    reserve(&held.file, bytes)
        .map_err(|error| system("reserve the space of", &held.path, error))?;
    Ok(Held { bytes, ..held.clone() })
}

/// Opens a file or device that exists.
///
/// # Errors
/// If it is missing, of the wrong kind or refused by the system; if it would be written, but is in
/// use or holds data of others without consent.
pub fn existing(path: &Path, intent: &Intent, direct: Direct) -> Result<Held, TargetError> {
    let (file, leads_to) = look(path)?;
    let root = Root::system();
    if intent.passthrough {
        let held = passthrough::open(&root, path, file, intent)?;
        return Ok(Held { leads_to, ..held });
    }
    if let Some(found) = passthrough::generic(&root, &file) {
        return Err(passthrough::only_commands(path, &found));
    }
    let facts = fstat(&file).map_err(|error| system("examine", path, error))?;
    let kind = FileType::from_raw_mode(facts.st_mode);
    let held = match kind {
        FileType::RegularFile => {
            let bytes = u64::try_from(facts.st_size).unwrap_or(0);
            match intent.write {
                true => written::take(path, file, facts.st_nlink > 1, bytes, intent, direct),
                false => hold(reopen(path, &file, false)?, path, bytes, direct),
            }
        }
        FileType::BlockDevice if intent.write && !intent.rehearse => {
            let results = intent.results.as_deref();
            gate::pass(&root, path, intent.consent(), results, direct, Some(intent.inspection))
        }
        FileType::BlockDevice => {
            let bytes = iosonde_sys::inspect::block_device_bytes(file.as_fd())
                .map_err(|error| TargetError::System { what: "size", path: path.into(), error })?;
            hold(reopen(path, &file, false)?, path, bytes, direct)
        }
        FileType::CharacterDevice if is_endless(facts.st_rdev) => {
            hold(reopen(path, &file, intent.write)?, path, u64::MAX, Direct::Never)
        }
        kind => Err(TargetError::WrongKind { path: path.into(), kind: kind_word(kind) }),
    };
    held.map(|held| Held { leads_to, ..held })
}

/// Checks whether writing a block device would be refused, as far as that shows without taking it.
///
/// # Errors
/// The first objection.
pub fn rehearse_writing(path: &Path, intent: &Intent) -> Result<(), TargetError> {
    let (root, results) = (Root::system(), intent.results.as_deref());
    let node = passthrough::block_node(&root, path)?;
    let path = node.as_deref().unwrap_or(path);
    gate::rehearse(&root, path, intent.consent(), results, intent.inspection)
}

/// The error where another program has a lease on the file (fcntl(2)).
fn leased(path: &Path) -> TargetError {
    GateError::InUse { path: path.into(), uses: "another program has a lease on it".into() }.into()
}

/// Opens a path for reading. Returns also its destination if it is a symbolic link.
fn look(path: &Path) -> Result<(OwnedFd, Option<PathBuf>), TargetError> {
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_symlink());
    let leads_to = if is_link { std::fs::canonicalize(path).ok() } else { None };
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    // Open exactly the path that is reported. Links such as `/dev/stdin` may lead to no path.
    flags.set(OFlags::NOFOLLOW, leads_to.is_some());
    let target = leads_to.as_deref().unwrap_or(path);
    let file = openat(CWD, target, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT => TargetError::Missing(path.into()),
        Errno::AGAIN => leased(path),
        error => system("open", path, error),
    })?;
    Ok((file, leads_to))
}

/// Whether it is `/dev/null` or `/dev/zero`, which serve to measure the path to the kernel.
fn is_endless(device: u64) -> bool {
    major(device) == 1 && matches!(minor(device), 3 | 5)
}

pub(super) fn kind_word(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        _ => "file of unknown type",
    }
}

/// Opens the file that was examined again, for writing if needed.
pub(super) fn reopen(path: &Path, examined: &OwnedFd, write: bool) -> Result<OwnedFd, TargetError> {
    use std::os::fd::AsRawFd;
    let flags = if write { OFlags::RDWR } else { OFlags::RDONLY };
    let itself = format!("/proc/self/fd/{}", examined.as_raw_fd());
    let flags = flags | OFlags::CLOEXEC;
    // Without NONBLOCK, a lease of another program would block this call.
    let file = openat(CWD, itself.as_str(), flags | OFlags::NONBLOCK, Mode::empty());
    let file = file.map_err(|error| match error {
        Errno::AGAIN => leased(path),
        error => system(if write { "open for writing" } else { "open" }, path, error),
    })?;
    fcntl_getfl(&file)
        .and_then(|flags| fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK)))
        .map_err(|error| system("open", path, error))?;
    Ok(file)
}

/// Turns on direct I/O and turns off access times, as far as the file system allows.
pub(super) fn hold(
    file: OwnedFd,
    path: &Path,
    size_bytes: u64,
    direct: Direct,
) -> Result<Held, TargetError> {
    // Access times cost 9 % of a small read; only the owner may turn them off.
    let _ = add_flag(&file, OFlags::NOATIME);
    let mut held = Held {
        path: path.into(),
        bytes: size_bytes,
        direct: false,
        direct_refused: None,
        audits: Vec::new(),
        leads_to: None,
        namespace: None,
        undo: Vec::new(),
        file: Arc::new(file),
    };
    if direct == Direct::Never {
        return Ok(held);
    }
    match add_flag(&held.file, OFlags::DIRECT) {
        Ok(()) => held.direct = true,
        Err(error) => {
            let reason = format!("the file system refuses O_DIRECT: {}", io::Error::from(error));
            if direct == Direct::Demanded {
                return Err(TargetError::NoDirect { path: path.into(), reason });
            }
            held.direct_refused = Some(reason);
        }
    }
    Ok(held)
}

fn add_flag(file: &OwnedFd, flag: OFlags) -> Result<(), Errno> {
    fcntl_setfl(file, fcntl_getfl(file)? | flag)
}

fn open_directory(path: &Path) -> Result<OwnedFd, TargetError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT => TargetError::Missing(path.into()),
        Errno::NOTDIR => TargetError::NotADirectory(path.into()),
        error => system("open", path, error),
    })
}

pub(super) fn system(what: &'static str, path: &Path, error: Errno) -> TargetError {
    TargetError::System { what, path: path.into(), error: error.into() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn sizes_follow_the_rule_of_tenths() {
        let here = Path::new("/here");
        let auto = |free| test_bytes(here, None, free, 100 * GIB);
        assert_eq!(auto(80 * GIB).unwrap(), GIB);
        assert_eq!(auto(5 * GIB).unwrap(), 512 * MIB);
        assert_eq!(auto(2_560 * MIB).unwrap(), 256 * MIB);
        assert!(matches!(auto(2_559 * MIB), Err(TargetError::TooFull { .. })));
        let requested = |size, free| test_bytes(here, Some(size), free, 100 * GIB);
        assert_eq!(requested(2 * GIB + 5, 20 * GIB).unwrap(), 2 * GIB);
        assert!(matches!(requested(255 * MIB, 20 * GIB), Err(TargetError::TooSmall { .. })));
        // 5 % of 100 GiB stay free.
        assert!(matches!(requested(16 * GIB, 20 * GIB), Err(TargetError::Space { .. })));
        assert!(requested(15 * GIB, 20 * GIB).is_ok());
    }

    #[test]
    fn an_unnamed_file_has_no_name_and_its_space() {
        let dir = tempfile::tempdir().unwrap();
        let held = unnamed(dir.path(), 8 * MIB, Direct::Preferred).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(fstat(&held.file).unwrap().st_size, 8 << 20);
    }

    #[test]
    fn foreign_content_needs_a_consent_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("photos");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let mut intent = Intent { write: true, ..Intent::default() };
        let refused = existing(&path, &intent, Direct::Preferred).unwrap_err();
        assert!(matches!(refused, TargetError::Foreign { .. }), "{refused}");
        intent.overwrite_file = Some("another".into());
        assert!(existing(&path, &intent, Direct::Preferred).is_err());
        intent.overwrite_file = Some(path.to_string_lossy().into_owned());
        assert!(existing(&path, &intent, Direct::Preferred).is_ok());
        assert!(existing(&path, &Intent::default(), Direct::Preferred).is_ok(), "reading is free");
    }

    #[test]
    fn wrong_kinds_are_named() {
        let missing = existing(Path::new("/no/such"), &Intent::default(), Direct::Never);
        assert!(matches!(missing, Err(TargetError::Missing(_))));
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let missing = existing(&link, &Intent::default(), Direct::Never).unwrap_err().to_string();
        assert!(missing.ends_with("link that leads nowhere (to `nowhere`)"), "{missing}");
        let directory = existing(Path::new("/"), &Intent::default(), Direct::Never);
        assert!(matches!(directory, Err(TargetError::WrongKind { kind: "directory", .. })));
        let file = unnamed(Path::new("/proc/self/exe"), MIB, Direct::Never);
        assert!(matches!(file, Err(TargetError::NotADirectory(_))));
    }
}
