//! Reads files named by the user. Opening one never waits, and only files with stored content are
//! accepted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum GivenError {
    /// The file does not exist.
    #[error("no such file")]
    Missing,
    /// The name is not that of a regular file.
    #[error("found {0}, expected a regular file")]
    NotAFile(&'static str),
    /// The kernel generates its content on reading, which may wait for ever.
    #[error(
        "found a file of the kernel ({0}), whose content is stored nowhere; expected a stored \
             file"
    )]
    OfTheKernel(&'static str),
    /// It is longer than the limit.
    #[error("longer than {most} B, which is more than is read")]
    TooLong {
        /// The limit, bytes.
        most: u64,
    },
    #[error("not UTF-8 text: invalid byte at {at}")]
    NoText {
        /// Place of the first such byte.
        at: usize,
    },
    /// A system call failed.
    #[error("cannot be read: {0}")]
    System(#[from] io::Error),
}

/// File systems whose files are interfaces of the kernel (`/usr/include/linux/magic.h`).
const OF_THE_KERNEL: [(u64, &str); 9] = [
    (0x9fa0, "procfs"),
    (0x6265_6572, "sysfs"),
    (0x7472_6163, "tracefs"),
    (0x6462_6720, "debugfs"),
    (0x7363_6673, "securityfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0xcafe_4a11, "bpf"),
    (0x6367_7270, "cgroup2"),
    (0x0027_e0eb, "cgroup"),
];

/// Opens a file; returns it with its length, bytes.
///
/// # Errors
/// If it is not a stored file, or a system call fails.
pub fn open(path: &Path) -> Result<(File, u64), GivenError> {
    // Checked before opening: opening a device may have side effects.
    regular(&fs::metadata(path).map_err(missing)?)?;
    // The name may be that of a pipe by now, which would wait for a writer.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(missing)?;
    let facts = file.metadata()?;
    regular(&facts)?;
    let magic = rustix::fs::fstatfs(&file).map_err(io::Error::from)?.f_type.cast_unsigned();
    match OF_THE_KERNEL.iter().find(|(own, _)| *own == magic) {
        Some((_, name)) => Err(GivenError::OfTheKernel(name)),
        None => Ok((file, facts.len())),
    }
}

fn regular(facts: &fs::Metadata) -> Result<(), GivenError> {
    if facts.is_file() {
        Ok(())
    } else {
        Err(GivenError::NotAFile(super::kind_of(facts.file_type())))
    }
}

fn missing(error: io::Error) -> GivenError {
    match error.kind() {
        io::ErrorKind::NotFound => GivenError::Missing,
        _ => error.into(),
    }
}

/// Reads a file of at most `most` bytes, which may grow while it is read.
///
/// # Errors
/// As [`open`], and if it is longer.
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, GivenError> {
    let (file, length) = open(path)?;
    let too_long = || GivenError::TooLong { most };
    if length > most {
        return Err(too_long());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_long()) } else { Ok(bytes) }
}

/// As [`bytes`], for UTF-8 text.
///
/// # Errors
/// As [`bytes`], and if it is not UTF-8.
pub fn text(path: &Path, most: u64) -> Result<String, GivenError> {
    String::from_utf8(bytes(path, most)?)
        .map_err(|error| GivenError::NoText { at: error.utf8_error().valid_up_to() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_a_stored_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |path: &Path| open(path).unwrap_err().to_string();
        assert!(matches!(open(&dir.path().join("a")), Err(GivenError::Missing)));
        assert_eq!(refused(dir.path()), "found a directory, expected a regular file");
        assert!(refused(Path::new("/dev/zero")).contains("a character device"));
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(refused(&pipe).contains("a pipe"));
        // Files of the kernel: reading one returns at once, reading the other may wait.
        assert!(refused(Path::new("/proc/self/status")).contains("procfs"));
        if let Err(error) = open(Path::new("/proc/kmsg")) {
            assert!(!matches!(error, GivenError::NotAFile(_)), "{error}");
        }
        fs::write(dir.path().join("b"), "abc").unwrap();
        assert_eq!(open(&dir.path().join("b")).unwrap().1, 3);
    }

    #[test]
    fn what_is_too_long_or_no_text_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, b"1234567\xff").unwrap();
        assert_eq!(bytes(&path, 8).unwrap().len(), 8);
        assert!(matches!(bytes(&path, 7), Err(GivenError::TooLong { most: 7 })));
        assert!(matches!(text(&path, 8), Err(GivenError::NoText { at: 7 })));
    }
}
