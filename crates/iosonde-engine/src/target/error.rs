//! Why a target is not opened, or not written.

use std::io;
use std::path::{Path, PathBuf};

use super::contents::{Foreign, Seen};
use super::gate::GateError;
use super::passthrough::PassthroughError;

/// Why a target was not opened.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("{}", missing(.0))]
    Missing(PathBuf),
    /// A directory was expected.
    #[error("`{0}` is not a directory; give the directory whose storage is to be measured")]
    NotADirectory(PathBuf),
    /// Neither a file nor a device nor a directory.
    #[error("`{path}` is a {kind}; expected a file, a block device or a directory")]
    WrongKind { path: PathBuf, kind: &'static str },
    /// A system call failed.
    #[error("cannot {what} `{path}`: {error}")]
    System { what: &'static str, path: PathBuf, error: io::Error },
    /// Too little free space for the requested size.
    #[error(
        "{wanted} requested, but only {free} are free in `{path}`, of which {reserve} stay \
         untouched; give a smaller size"
    )]
    Space {
        path: PathBuf,
        wanted: String,
        free: String,
        /// Space that must stay free.
        reserve: String,
    },
    /// The requested size is too small.
    #[error("{found} requested, expected at least 256 MiB")]
    TooSmall {
        /// Requested size.
        found: String,
    },
    /// Too little free space for a size chosen by the tool.
    #[error(
        "{free} are free in `{path}`; a tenth of it must be at least 256 MiB, so 2.56 GiB are \
         needed. Free some space, or give a size"
    )]
    TooFull { path: PathBuf, free: String },
    /// Data that this program did not write.
    #[error(
        "`{path}` holds data that this program did not write ({found}); writing would destroy it. \
         If that is meant, repeat with --overwrite-file={name}"
    )]
    Foreign {
        path: PathBuf,
        found: Foreign,
        /// What the consent must name.
        name: String,
    },
    /// Not all of it could be inspected in time.
    #[error(
        "`{path}` may hold data: {seen}; nothing was found in the inspected part. If the rest may \
         be lost, repeat with --accept-unseen={name}; --inspect-time gives more time to read"
    )]
    Uninspected {
        path: PathBuf,
        seen: Seen,
        /// What the consent must name.
        name: String,
    },
    /// A signal ended the inspection.
    #[error("interrupted while `{0}` was inspected for data; nothing was written")]
    Interrupted(PathBuf),
    /// The file has several names (hard links), or shares data with another file.
    #[error(
        "`{path}` {how} and {content}; writing would change more than this file. \
         If that is meant, repeat with --overwrite-file={name}"
    )]
    Shared {
        path: PathBuf,
        /// How it is shared.
        how: &'static str,
        /// A description of its content.
        content: String,
        /// What the consent must name.
        name: String,
    },
    /// A device or file in use, a device with data, or one without consent.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The engine sends NVMe commands and the target takes none, or the reverse.
    #[error(transparent)]
    Passthrough(#[from] PassthroughError),
    /// Direct I/O was demanded and is not available.
    #[error(
        "`{path}` does not support direct I/O ({reason}); repeat with --direct 0 for buffered I/O"
    )]
    NoDirect { path: PathBuf, reason: String },
}

fn missing(path: &Path) -> String {
    match std::fs::read_link(path) {
        Ok(to) => format!(
            "`{}` is a symbolic link that leads nowhere (to `{}`)",
            path.display(),
            to.display()
        ),
        Err(_) => format!("`{}` does not exist", path.display()),
    }
}
