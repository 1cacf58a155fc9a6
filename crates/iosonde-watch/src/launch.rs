//! The profiled command: held until tracing is set up, then released.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use iosonde_sys::HeldCommand;
use iosonde_sys::held::{Reaped, RunningCommand};
use rustix::io::Errno;

use super::{WatchError, processes};
use iosonde_engine::host::Root;
use iosonde_model::record::profile::CallCounts;

/// Forks the child that will become the command. It has a PID, but has not started.
pub(super) fn hold(words: &[OsString]) -> Result<HeldCommand, WatchError> {
    let c_words: Result<Vec<CString>, _> =
        words.iter().map(|word| CString::new(word.as_bytes())).collect();
    let c_words = c_words.map_err(|error| WatchError::System {
        what: "pass an argument of the command",
        error: io::Error::new(io::ErrorKind::InvalidInput, error),
    })?;
    HeldCommand::fork(&c_words).map_err(WatchError::system("start a process"))
}

/// Checks that the command exists and may be executed.
pub(super) fn find(words: &[OsString]) -> Result<(), WatchError> {
    let Some(first) = words.first() else { return Ok(()) };
    if first.is_empty() {
        return Err(WatchError::NotFound {
            command: "the command is empty".into(),
            reason: "name a program after --",
        });
    }
    let command = first.to_string_lossy().into_owned();
    let (places, reason): (Vec<PathBuf>, _) = if first.as_bytes().contains(&b'/') {
        (vec![first.into()], "no such file")
    } else {
        // Default search path of execvp.
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        let places = std::env::split_paths(&path).map(|folder| folder.join(first)).collect();
        (places, "command not found in PATH")
    };
    let is_executable = |path: &PathBuf| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if places.iter().any(is_executable) {
        Ok(())
    } else if places.iter().any(|path| path.exists()) {
        Err(WatchError::NotExecutable { command, error: Errno::ACCESS.into() })
    } else {
        Err(WatchError::NotFound { command, reason })
    }
}

pub(super) fn release(
    root: &Root,
    held: HeldCommand,
    words: &[OsString],
) -> Result<RunningCommand, WatchError> {
    held.release().map_err(|error| {
        let first = words.first().cloned().unwrap_or_default();
        let command = first.to_string_lossy().into_owned();
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => {
                let names_a_file = first.as_bytes().contains(&b'/');
                let is_there = names_a_file
                    && root.is_system()
                    && std::fs::exists(&first).is_ok_and(|there| there);
                let reason = match (names_a_file, is_there) {
                    (_, true) => "its interpreter was not found",
                    (true, false) => "no such file",
                    (false, false) => "command not found in PATH",
                };
                WatchError::NotFound { command, reason }
            }
            _ => WatchError::NotExecutable { command, error },
        }
    })
}

/// Reaps the ended command. Returns the calls made by it and by the children it waited for; the
/// kernel charges this process with them from now on. `/proc` shows the calls of an ended process
/// only to a user with access to processes of others.
pub(super) fn reap(
    root: &Root,
    running: RunningCommand,
) -> Result<(Reaped, Option<CallCounts>), WatchError> {
    let own = || processes::own_calls(root);
    let (first, before) = (own(), own());
    let reaped = running.reap().map_err(WatchError::system("wait for the command"))?;
    let (Some((first, _)), Some((before, length)), Some((after, _))) = (first, before, own())
    else {
        return Ok((reaped, None));
    };
    // Reading `/proc/self/io` is itself charged, after it has been read.
    let calls = CallCounts {
        reads: (after.reads - before.reads).saturating_sub(before.reads - first.reads),
        writes: after.writes - before.writes,
        read_bytes: (after.read_bytes - before.read_bytes).saturating_sub(length),
        written_bytes: after.written_bytes - before.written_bytes,
        storage_read_bytes: after.storage_read_bytes - before.storage_read_bytes,
        storage_write_bytes: after.storage_write_bytes - before.storage_write_bytes,
        cancelled_bytes: after.cancelled_bytes - before.cancelled_bytes,
    };
    Ok((reaped, Some(calls)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn run(words: &[&str]) -> Result<(Reaped, Option<CallCounts>), WatchError> {
        let root = Root::system();
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        reap(&root, release(&root, hold(&words)?, &words)?)
    }

    #[test]
    fn a_command_completes_with_the_calls_of_its_children() {
        let script = "dd if=/dev/zero of=/dev/null bs=1000 count=500 2>/dev/null; exit 4";
        let (reaped, calls) = run(&["sh", "-c", script]).unwrap();
        assert_eq!(reaped.end, Ok(4));
        let Some(calls) = calls else {
            assert!(processes::own_calls(&Root::system()).is_none());
            return;
        };
        // 500,000 bytes plus the reads of a shell, the loader and other tests of this process.
        assert!(calls.written_bytes >= 500_000 && calls.writes >= 500, "{calls:?}");
        assert!(calls.read_bytes >= 500_000 && calls.reads >= 500, "{calls:?}");
    }

    #[test]
    fn why_it_cannot_run_is_distinguished() {
        let said = |words: &[&str]| {
            let words_of: Vec<OsString> = words.iter().map(OsString::from).collect();
            let said = run(words).unwrap_err().to_string();
            assert_eq!(find(&words_of).unwrap_err().to_string(), said);
            said
        };
        assert_eq!(said(&["/no/such/file"]), "/no/such/file: no such file");
        assert_eq!(said(&["no-such-cmd"]), "no-such-cmd: command not found in PATH");
        assert!(said(&["/proc"]).starts_with("/proc cannot be executed: Permission denied"));
        assert!(matches!(run(&["a\0b"]), Err(WatchError::System { .. })));
        let empty = find(&[OsString::new()]).unwrap_err().to_string();
        assert_eq!(empty, "the command is empty: name a program after --");
    }
}
