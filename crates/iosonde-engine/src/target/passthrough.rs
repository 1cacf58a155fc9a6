//! The target of NVMe commands: a namespace through its generic character device (`/dev/ngXnY`).
//!
//! The block device of the same namespace serves to protect it: that one is opened as for any other
//! load, passes the gate before a write, and is held for the whole run. The generic device is
//! opened after that, since an open one counts as a use of the disk.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iosonde_sys::device_command;
use iosonde_sys::inspect::block_device_bytes;
use iosonde_sys::nvme::Namespace;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, major, minor, openat};

use super::open::{self, Direct, Held, Intent, TargetError, kind_word, system};
use crate::host::{self, NvmeGeneric, Root};

/// Why a path does not suit its engine, or its namespace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PassthroughError {
    /// Not a generic device, for an engine that sends commands.
    #[error(
        "`{path}` is a {kind}; the io_uring_cmd engine sends NVMe commands to the generic device \
         of a namespace: give {instead}"
    )]
    NotGeneric {
        path: PathBuf,
        kind: &'static str,
        /// What to give instead.
        instead: String,
    },
    /// A generic device for an engine that reads and writes.
    #[error(
        "`{path}` is an NVMe generic device, which only takes commands: give --ioengine \
         io_uring_cmd{instead}"
    )]
    OnlyCommands {
        path: PathBuf,
        /// What to give instead.
        instead: String,
    },
    /// No block device of the same namespace.
    #[error(
        "`{0}` has no block device beside it in sysfs, so that its size and who uses it cannot be \
         known; it is not used"
    )]
    NoBlockDevice(PathBuf),
    /// The node of the block device is missing, or is another device's.
    #[error(
        "`{path}` is the namespace of {block}, and `/dev/{block}` is not that device's node; it is \
         not used"
    )]
    NoBlockNode {
        path: PathBuf,
        /// Kernel name of the block device.
        block: String,
    },
    /// The drive or the kernel does not identify the namespace.
    #[error("`{path}` does not identify its namespace: {error}{hint}")]
    Unidentified {
        path: PathBuf,
        error: io::Error,
        /// Likely cause, and how to fix it.
        hint: &'static str,
    },
    /// The namespace has metadata with each block.
    #[error(
        "`{path}` is formatted with {bytes} B of metadata for each block, which commands would \
         have to carry: give `/dev/{block}` and --ioengine io_uring"
    )]
    Metadata {
        path: PathBuf,
        /// How much, bytes.
        bytes: u16,
        /// Kernel name of the block device.
        block: String,
    },
    /// The generic and the block device are not the same namespace.
    #[error("`{path}` is not the namespace of {block} ({what}); it is not used")]
    Differs {
        path: PathBuf,
        /// Kernel name of the block device.
        block: String,
        what: &'static str,
    },
}

/// The NVMe generic device behind an open file; `None` if it is something else.
pub(super) fn generic(root: &Root, file: &OwnedFd) -> Option<NvmeGeneric> {
    let facts = fstat(file).ok()?;
    let is_character = FileType::from_raw_mode(facts.st_mode) == FileType::CharacterDevice;
    let number = (major(facts.st_rdev), minor(facts.st_rdev));
    if is_character { host::nvme_generic(root, number.0, number.1) } else { None }
}

/// The error for a generic device where none is wanted.
pub(super) fn only_commands(path: &Path, found: &NvmeGeneric) -> TargetError {
    let instead = match &found.block {
        Some((block, _)) => format!(", or the block device /dev/{block}"),
        None => String::new(),
    };
    PassthroughError::OnlyCommands { path: path.into(), instead }.into()
}

/// The error for something else where a generic device is wanted.
fn not_generic(root: &Root, path: &Path, file: &OwnedFd) -> TargetError {
    let Ok(facts) = fstat(file) else { return TargetError::Missing(path.into()) };
    let kind = FileType::from_raw_mode(facts.st_mode);
    let number = (major(facts.st_rdev), minor(facts.st_rdev));
    let name = match kind {
        FileType::BlockDevice => host::generic_of_block(root, number.0, number.1),
        _ => None,
    };
    let instead = match name {
        Some(name) => format!("/dev/{name}"),
        None => "/dev/ngXnY (`ls /dev/ng*` shows those that there are)".into(),
    };
    let kind = match kind {
        FileType::RegularFile => "file",
        FileType::BlockDevice => "block device",
        kind => kind_word(kind),
    };
    PassthroughError::NotGeneric { path: path.into(), kind, instead }.into()
}

/// If a path leads to a generic device, the node of its namespace's block device, which the gate
/// examines.
///
/// # Errors
/// If there is no such device, or its node is another device's.
pub fn block_node(root: &Root, path: &Path) -> Result<Option<PathBuf>, TargetError> {
    let Ok(facts) = rustix::fs::stat(path) else { return Ok(None) };
    if FileType::from_raw_mode(facts.st_mode) != FileType::CharacterDevice {
        return Ok(None);
    }
    let found = host::nvme_generic(root, major(facts.st_rdev), minor(facts.st_rdev));
    found.map(|found| node_of(root, path, &found).map(|(node, _)| node)).transpose()
}

/// The node of the block device, and its kernel name.
fn node_of(
    root: &Root,
    path: &Path,
    found: &NvmeGeneric,
) -> Result<(PathBuf, String), TargetError> {
    let Some((block, number)) = found.block.clone() else {
        return Err(PassthroughError::NoBlockDevice(path.into()).into());
    };
    let node = Path::new("/dev").join(&block);
    match root.node(&node) {
        Some(known) if known == number => Ok((node, block)),
        _ => Err(PassthroughError::NoBlockNode { path: path.into(), block }.into()),
    }
}

/// Opens the block device of a namespace, and then its generic device.
///
/// # Errors
/// If it is not a generic device, its namespace cannot be used, or the block device is refused.
pub(super) fn open(
    root: &Root,
    path: &Path,
    looked: OwnedFd,
    intent: &Intent,
) -> Result<Held, TargetError> {
    let Some(found) = generic(root, &looked) else {
        return Err(not_generic(root, path, &looked));
    };
    let number = fstat(&looked).map_err(|error| system("examine", path, error))?.st_rdev;
    drop(looked);
    let (node, block) = node_of(root, path, &found)?;
    let intent = Intent { passthrough: false, ..intent.clone() };
    let held = open::existing(&node, &intent, Direct::Preferred)?;
    let write = intent.write && !intent.rehearse;
    let mode = if write { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = mode | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = openat(CWD, path, flags, Mode::empty()).map_err(|e| system("open", path, e))?;
    let differs =
        |what| PassthroughError::Differs { path: path.into(), block: block.clone(), what };
    if fstat(&file).map_err(|error| system("examine", path, error))?.st_rdev != number {
        return Err(differs("it was exchanged while it was examined").into());
    }
    let namespace = Namespace::of(file).map_err(|error| unidentified(path, error))?;
    let shape = namespace.shape();
    if device_command::namespace(held.file.as_fd()).ok() != Some(shape.number) {
        return Err(differs("another namespace").into());
    }
    if shape.metadata_bytes > 0 {
        let (path, bytes) = (path.into(), shape.metadata_bytes);
        return Err(PassthroughError::Metadata { path, bytes, block }.into());
    }
    if block_device_bytes(held.file.as_fd()).ok() != Some(shape.bytes()) {
        return Err(differs("another size").into());
    }
    Ok(Held {
        path: path.into(),
        direct: true,
        direct_refused: None,
        namespace: Some(Arc::new(namespace)),
        ..held
    })
}

fn unidentified(path: &Path, error: io::Error) -> TargetError {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; before Linux 6.2 that needs CAP_SYS_ADMIN: run as root"
        }
        _ => "",
    };
    PassthroughError::Unidentified { path: path.into(), error, hint }.into()
}
