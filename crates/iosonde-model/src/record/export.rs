//! Files of results outside the run's folder, under names given by the user.
//!
//! A file is written under a temporary name in the same directory and renamed, so that readers find
//! it whole and no existing file is written into. An existing file is replaced only if it is of the
//! same kind: a typing error must not destroy a disk image.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::kind_of;

/// Bytes at the beginning of a file that show its kind.
const GLANCE: usize = 4096;

/// Why a file of results cannot have this name.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The name is not that of a regular file.
    #[error("found {found}, expected a regular file or a name that is free")]
    NotAFile { found: &'static str },
    /// The existing file is of another kind.
    #[error(
        "the file exists and contains something else; choose another name, or remove it \
        yourself"
    )]
    Foreign,
    /// The name is that of a directory, or empty.
    #[error("expected the name of a file")]
    NoName,
    /// A system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The directory of a file with this name.
pub fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Checks, before anything is measured, whether a file can be written under this name. `is_ours`
/// judges an existing file by its beginning; an empty one may be replaced in any case.
///
/// # Errors
/// If [`write`] would fail or destroy something.
pub fn probe(path: &Path, is_ours: &dyn Fn(&str) -> bool) -> Result<(), ExportError> {
    match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_file() => {
            let mut start = Vec::with_capacity(GLANCE);
            File::open(path)?.take(GLANCE as u64).read_to_end(&mut start)?;
            if !start.is_empty() && !is_ours(&String::from_utf8_lossy(&start)) {
                return Err(ExportError::Foreign);
            }
        }
        Ok(facts) => return Err(ExportError::NotAFile { found: kind_of(facts.file_type()) }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    // Only creating a file shows that the directory permits it.
    let temporary = temporary(path)?;
    create_new(&temporary)?;
    fs::remove_file(&temporary)?;
    Ok(())
}

/// Whether a name is that of a character device, or of a process's pipe such as `/dev/stderr`:
/// results are written into it directly. Other pipes may have no reader and do not count.
pub fn is_stream(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_it = |kind: fs::FileType| {
        kind.is_char_device()
            || kind.is_fifo() && ["/dev", "/proc"].iter().any(|at| path.starts_with(at))
    };
    fs::metadata(path).is_ok_and(|facts| is_it(facts.file_type()))
}

/// Writes into a device or a pipe.
///
/// # Errors
/// If it cannot be opened or written.
pub fn write_stream(path: &Path, text: &str) -> Result<(), ExportError> {
    Ok(OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())?)
}

/// Writes a whole file under this name, and syncs it.
///
/// # Errors
/// If it cannot be written; an existing file is then unchanged.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), ExportError> {
    put(path, content.as_ref(), true)
}

/// The same without a sync, which would disturb a running measurement.
///
/// # Errors
/// As [`write`].
pub fn publish(path: &Path, text: &str) -> Result<(), ExportError> {
    put(path, text.as_bytes(), false)
}

/// A file that is written in pieces and gets its name once it is whole.
#[derive(Debug)]
pub struct Pending {
    temporary: PathBuf,
    path: PathBuf,
}

impl Pending {
    /// Begins a file, if [`probe`] permits it. Dropping this value removes the file unless it was
    /// [kept](Pending::keep).
    ///
    /// # Errors
    /// As [`probe`].
    pub fn begin(
        path: &Path,
        is_ours: &dyn Fn(&str) -> bool,
    ) -> Result<(Pending, File), ExportError> {
        probe(path, is_ours)?;
        let temporary = temporary(path)?;
        let file = create_new(&temporary)?;
        Ok((Pending { temporary, path: path.to_path_buf() }, file))
    }

    /// Gives the file its name. The caller has synced its content before.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn keep(self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.path)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // A file that was kept has another name by now.
        let _ = fs::remove_file(&self.temporary);
    }
}

fn put(path: &Path, bytes: &[u8], lasting: bool) -> Result<(), ExportError> {
    let temporary = temporary(path)?;
    let written = create_new(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        if lasting { file.sync_all() } else { Ok(()) }
    });
    let renamed = written.and_then(|()| fs::rename(&temporary, path));
    if renamed.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    Ok(renamed?)
}

/// Permissions follow the user's umask: another program collects the file.
fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// A hidden name in the same directory that no other process uses.
fn temporary(path: &Path) -> Result<PathBuf, ExportError> {
    let name = path.file_name().ok_or(ExportError::NoName)?.to_string_lossy();
    Ok(path.with_file_name(format!(".{name}.{}.tmp", std::process::id())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_unfinished_file_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        fs::write(&path, "ours 1").unwrap();
        let ours = |start: &str| start.starts_with("ours");
        let (pending, mut file) = Pending::begin(&path, &ours).unwrap();
        file.write_all(b"ours 2").unwrap();
        drop(pending);
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours 1");
        let (pending, mut file) = Pending::begin(&path, &ours).unwrap();
        file.write_all(b"ours 3").unwrap();
        pending.keep().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours 3");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::write(&path, "a letter").unwrap();
        assert!(matches!(Pending::begin(&path, &ours), Err(ExportError::Foreign)));
    }

    #[test]
    fn only_its_own_kind_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.csv");
        let ours = |text: &str| text.starts_with("a,b");
        probe(&path, &ours).unwrap();
        assert!(!path.exists());
        for text in ["a,b\n1,2\n", "a,b\n3,4\n"] {
            probe(&path, &ours).unwrap();
            write(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::write(&path, "").unwrap();
        probe(&path, &ours).unwrap();
        fs::write(&path, [0; 5000]).unwrap();
        assert!(matches!(probe(&path, &ours), Err(ExportError::Foreign)));
        assert_eq!(fs::read(&path).unwrap().len(), 5000);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn nothing_but_a_file_is_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let any = |_: &str| true;
        let found = |path: &Path| match probe(path, &any) {
            Err(ExportError::NotAFile { found }) => found,
            other => panic!("{other:?}"),
        };
        assert_eq!(found(dir.path()), "a directory");
        assert_eq!(found(Path::new("/dev/null")), "a character device");
        let link = dir.path().join("link");
        symlink(dir.path().join("elsewhere"), &link).unwrap();
        assert_eq!(found(&link), "a symbolic link");
        // Without a probe too, the link itself is replaced, not its target.
        fs::write(dir.path().join("elsewhere"), "precious").unwrap();
        publish(&link, "x").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("elsewhere")).unwrap(), "precious");
        assert!(probe(&dir.path().join("missing/out"), &any).is_err());
        assert!(matches!(probe(Path::new(".."), &any), Err(ExportError::NotAFile { .. })));
    }
}
