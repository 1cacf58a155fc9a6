//! Files that the user names: opened without waiting for anybody, and only if they are files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum GivenError {
    /// There is none.
    #[error("no such file; expected the file that was named when the run was started")]
    Missing,
    /// Something else has the name.
    #[error("found no regular file, but something else of this name")]
    NotAFile,
    /// The system's answer.
    #[error("cannot be read: {0}")]
    System(#[from] io::Error),
}

/// The open file and its length, bytes.
pub(super) fn open(path: &Path) -> Result<(File, u64), GivenError> {
    // Opening a pipe would wait for somebody who writes into it.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => GivenError::Missing,
        _ => error.into(),
    })?;
    let facts = file.metadata()?;
    if facts.is_file() { Ok((file, facts.len())) } else { Err(GivenError::NotAFile) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_a_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(open(&dir.path().join("a")), Err(GivenError::Missing)));
        assert!(matches!(open(dir.path()), Err(GivenError::NotAFile)));
        assert!(matches!(open(Path::new("/dev/zero")), Err(GivenError::NotAFile)));
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(matches!(open(&pipe), Err(GivenError::NotAFile)));
        std::fs::write(dir.path().join("b"), "abc").unwrap();
        assert_eq!(open(&dir.path().join("b")).unwrap().1, 3);
    }
}
