//! Why a target is not opened, or not written.

use std::io;
use std::path::{Path, PathBuf};

use super::contents::{Foreign, Seen};
use super::gate::GateError;
use super::passthrough::PassthroughError;

/// Why a target was not opened.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Nothing there.
    #[error("{}", missing(.0))]
    Missing(PathBuf),
    /// A directory was expected.
    #[error("`{0}` is not a directory; give the directory whose storage is to be measured")]
    NotADirectory(PathBuf),
    /// Neither a file nor a device nor a directory.
    #[error("`{path}` is a {kind}; expected a file, a block device or a directory")]
    WrongKind { path: PathBuf, kind: &'static str },
    /// The system refuses.
    #[error("cannot {what} `{path}`: {error}")]
    System { what: &'static str, path: PathBuf, error: io::Error },
    /// Not enough room, known before the start.
    #[error(
        "{wanted} requested, but only {free} are free in `{path}`, of which {reserve} stay \
         untouched; give a smaller size"
    )]
    Space {
        path: PathBuf,
        /// Size asked for.
        wanted: String,
        free: String,
        /// What is left for others.
        reserve: String,
    },
    /// Too small to mean anything.
    #[error("{found} requested, expected at least 256 MiB")]
    TooSmall {
        /// Size asked for.
        found: String,
    },
    /// Too little free space for a size chosen by the tool.
    #[error(
        "{free} are free in `{path}`; a tenth of it must be at least 256 MiB, so 2.56 GiB are \
         needed. Free some space, or give a size"
    )]
    TooFull { path: PathBuf, free: String },
    /// Content that may be somebody's.
    #[error(
        "`{path}` holds data that this program did not write ({found}); writing would destroy it. \
         If that is meant, repeat with --overwrite-file={name}"
    )]
    Foreign {
        path: PathBuf,
        /// What was found, and where.
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
        /// How much was inspected.
        seen: Seen,
        /// What the consent must name.
        name: String,
    },
    /// A signal ended the inspection.
    #[error("interrupted while `{0}` was inspected for data; nothing was written")]
    Interrupted(PathBuf),
    /// More than one name leads to it, or more than one file has its data.
    #[error(
        "`{path}` {how} and {content}; writing would change more than this file. \
         If that is meant, repeat with --overwrite-file={name}"
    )]
    Shared {
        path: PathBuf,
        /// How it is shared.
        how: &'static str,
        /// What it holds, in words.
        content: String,
        /// What the consent must name.
        name: String,
    },
    /// A device or file in use, a device with data, or one without consent.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// No target of NVMe commands, or only of them.
    #[error(transparent)]
    Passthrough(#[from] PassthroughError),
    /// Direct I/O was demanded and cannot be had.
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
