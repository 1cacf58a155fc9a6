//! The command that is watched: held until everything watches, then let go.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use iosonde_sys::HeldCommand;
use iosonde_sys::held::RunningCommand;
use rustix::io::Errno;

use super::WatchError;
use crate::host::Root;

/// The child that will be the command. It has its number, and has not begun.
pub(super) fn hold(words: &[OsString]) -> Result<HeldCommand, WatchError> {
    let c_words: Result<Vec<CString>, _> =
        words.iter().map(|word| CString::new(word.as_bytes())).collect();
    let c_words = c_words.map_err(|error| WatchError::System {
        what: "pass on a word of the command",
        error: io::Error::new(io::ErrorKind::InvalidInput, error),
    })?;
    HeldCommand::fork(&c_words).map_err(WatchError::system("start a process"))
}

/// Lets it begin.
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
                    (_, true) => "the interpreter that it names is not found",
                    (true, false) => "there is no such file",
                    (false, false) => "command not found in PATH",
                };
                WatchError::NotFound { command, reason }
            }
            _ => WatchError::NotExecutable { command, error },
        }
    })
}
