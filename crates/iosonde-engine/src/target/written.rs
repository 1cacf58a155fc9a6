//! Takes an existing regular file for writing.
//!
//! In this order: no other process has it open; it holds no foreign data, or consent names it; it
//! is opened for writing through the descriptor that was examined, and locked; still no other
//! process has it open.

use std::os::fd::OwnedFd;
use std::path::Path;

use iosonde_model::record::WriteAudit;
use rustix::fs::fstat;

use super::contents::{Contents, Seen};
use super::gate::{self, GateError};
use super::in_use::{self, ACCEPT_UNSEEN, FileUse};
use super::open::{Direct, Held, Intent, TargetError, hold, reopen, system};
use super::{inspection, safety};
use crate::host::Root;
use iosonde_model::units::shell::quoted;

/// Takes a named file for writing, if no other process has it open before and after the opening.
pub(super) fn take(
    path: &Path,
    examined: OwnedFd,
    linked: bool,
    size_bytes: u64,
    intent: &Intent,
    direct: Direct,
) -> Result<Held, TargetError> {
    let root = Root::system();
    let then = state(path, &examined)?;
    let before = FileUse::of(&root, &examined);
    before.refuse(path, intent)?;
    let mut content = consent(path, &examined, linked, size_bytes, intent)?;
    let file = reopen(path, &examined, true)?;
    // The lease counts every descriptor, including this one.
    drop(examined);
    gate::lock(path, &file)?;
    let after = FileUse::of(&root, &file);
    after.refuse(path, intent)?;
    let now = state(path, &file)?;
    let unchanged = if now == then {
        "as before"
    } else if now.size_bytes == then.size_bytes && in_use::is_served_in_user_space(&file) {
        // No other process is known to have it open now.
        content = consent(path, &file, linked, size_bytes, intent)?;
        "other times, as its server states them; inspected again"
    } else {
        let what = "it was written, or got another size or name";
        return Err(GateError::Changed { path: path.into(), what }.into());
    };
    let mut audit = WriteAudit { path: path.to_string_lossy().into(), ..WriteAudit::default() };
    before.note(&mut audit, "before opening");
    let name = path.to_string_lossy();
    audit.note("content", content.words());
    audit.note("advisory lock (flock)", "taken");
    after.note(&mut audit, "after opening");
    audit.note("size and times of change after opening", unchanged);
    in_use::note_unseen(&mut audit, after.unseen());
    let overwrite = intent.overwrite_file.iter().filter(|given| **given == *name);
    audit.consents.extend(overwrite.map(|name| format!("--overwrite-file={name}")));
    if matches!(content, Content::Blank(seen) if seen.unseen_bytes() > 0) {
        audit.consents.push(format!("--accept-unseen={name}"));
    }
    if !after.unseen().is_empty() {
        audit.consents.push(format!("{ACCEPT_UNSEEN}={name}"));
    }
    Ok(Held { audits: vec![audit], ..hold(file, path, size_bytes, direct)? })
}

/// The known content of a file that may be written.
#[derive(Clone, Copy, Debug)]
enum Content {
    /// Consent names the file.
    NotExamined,
    /// No foreign data was found in the inspected part.
    Blank(Seen),
}

impl Content {
    fn words(self) -> String {
        match self {
            Content::NotExamined => "not examined: --overwrite-file names the file".into(),
            Content::Blank(seen) => {
                format!("hole, zero or written by this program; {seen}")
            }
        }
    }
}

/// A named file may be written if consent names it, or if it shares no data with another file and
/// consists of holes, zeros and blocks of this program.
fn consent(
    path: &Path,
    file: &OwnedFd,
    linked: bool,
    size_bytes: u64,
    intent: &Intent,
) -> Result<Content, TargetError> {
    let name = path.to_string_lossy().into_owned();
    if intent.overwrite_file.as_deref() == Some(name.as_str()) {
        return Ok(Content::NotExamined);
    }
    let is_accepted = intent.accept_unseen.contains(&name);
    let name = quoted(&name);
    let contents = inspection::of_file(path, file, size_bytes, intent.inspection)?;
    let unseen_bytes = contents.unseen_bytes();
    let Contents { foreign, seen, .. } = contents;
    let how = match linked {
        true => Some("has more than one name (hard links)"),
        false if safety::has_shared_extents(file, size_bytes) => {
            Some("shares data with another file (reflink or snapshot)")
        }
        false => None,
    };
    if let Some(how) = how {
        let content = match foreign {
            Some(found) => format!("contains other data ({found})"),
            None => format!("contains no other data ({seen})"),
        };
        return Err(TargetError::Shared { path: path.into(), how, content, name });
    }
    match foreign {
        Some(found) => Err(TargetError::Foreign { path: path.into(), found, name }),
        None if unseen_bytes > 0 && !is_accepted => {
            Err(TargetError::Uninspected { path: path.into(), seen, name })
        }
        None => Ok(Content::Blank(seen)),
    }
}

/// Attributes that show whether the file was changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct State {
    size_bytes: i64,
    /// Times of the last write and of the last change, s and ns.
    times: [i128; 4],
}

fn state(path: &Path, file: &OwnedFd) -> Result<State, TargetError> {
    let seen = fstat(file).map_err(|error| system("examine", path, error))?;
    Ok(State {
        size_bytes: seen.st_size,
        times: [
            seen.st_mtime.into(),
            seen.st_mtime_nsec.into(),
            seen.st_ctime.into(),
            seen.st_ctime_nsec.into(),
        ],
    })
}
