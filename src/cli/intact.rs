//! Compares stored results with their checksums, before any of them is read.

use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{About, Exit, Failure, shown};
use super::output::note;
use iosonde_engine::engine::waits::Wait;
use iosonde_model::record::RunFolder;
use iosonde_model::record::checksums::{Altered, SUMS, alterations, is_unfinished};

/// Maximum number of alterations listed; the rest are only counted.
const LISTED: usize = 10;

/// Whether results are read that are not as they were kept.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct AcceptArgs {
    /// Accept results of which files were altered since they were stored: the output is marked; a
    /// command that resumes repeats the runs
    #[arg(long)]
    accept_altered: bool,
}

impl AcceptArgs {
    /// Refuses altered results, where nobody would see the mark.
    pub(crate) const NEVER: AcceptArgs = AcceptArgs { accept_altered: false };

    /// Whether altered results are accepted.
    pub(crate) fn is_given(self) -> bool {
        self.accept_altered
    }

    /// Compares a result folder, or one file in it, with its stored checksums. Returns the accepted
    /// alterations, in words. A path outside result folders has no checksum.
    ///
    /// # Errors
    /// If something was altered and that is not accepted.
    pub(crate) fn read(self, path: &Path) -> Result<Vec<String>, Failure> {
        // A folder that a command is still writing is not checked: its checksums are incomplete.
        self.read_unless(path, RunFolder::is_in_use)
    }

    /// Like [`read`](AcceptArgs::read), before a command resumes the folder. It is checked even if
    /// it seems in use, as it may for a moment after a kill. Opening it detects a real user.
    ///
    /// # Errors
    /// As [`read`](AcceptArgs::read).
    pub(crate) fn read_to_resume(self, path: &Path) -> Result<Vec<String>, Failure> {
        self.read_unless(path, |_| false)
    }

    fn read_unless(
        self,
        path: &Path,
        is_exempt: impl Fn(&Path) -> bool,
    ) -> Result<Vec<String>, Failure> {
        let _reading = Wait::begin("reading", path.to_string_lossy());
        let Some((folder, file)) = folder_of(path) else { return Ok(Vec::new()) };
        if is_exempt(&folder) {
            return Ok(Vec::new());
        }
        let mut altered = alterations(&folder).or_environment(shown(&folder))?;
        if let Some(file) = &file {
            // The files that are read with it.
            let read = [file.as_str(), "manifest.json", "host.json", SUMS];
            altered.retain(|each| read.contains(&each.name.as_str()));
        }
        if altered.is_empty() {
            return Ok(Vec::new());
        }
        let words = words(&folder, &altered);
        if !self.accept_altered {
            let hint = "take the folder from a copy, or repeat with --accept-altered: what is \
                        read then is marked as altered";
            return Err(Failure::new(Exit::Invalid, words.join("\n")).hinting(hint));
        }
        note(&format!("warning: {}", words.join("\n")));
        Ok(words)
    }
}

/// Which files were altered, and how.
fn words(folder: &Path, altered: &[Altered]) -> Vec<String> {
    let path = folder.display();
    let first = match altered.len() {
        1 => format!("`{path}`: 1 file was altered since it was kept:"),
        count => format!("`{path}`: {count} files were altered since they were kept:"),
    };
    let listed = altered.iter().take(LISTED).map(|each| format!("  {each}"));
    let more = altered.len().saturating_sub(LISTED);
    let more = (more > 0).then(|| format!("  and {more} more"));
    std::iter::once(first).chain(listed).chain(more).collect()
}

/// The result folder of a path, and the file in it if the path names one.
fn folder_of(path: &Path) -> Option<(PathBuf, Option<String>)> {
    if path.is_dir() {
        return is_result(path).then(|| (path.to_path_buf(), None));
    }
    let path = path.canonicalize().ok()?;
    let mut above = path.ancestors().skip(1).take(2);
    let folder = above.find(|folder| is_result(folder))?;
    let name = path.strip_prefix(folder).ok()?.to_string_lossy().into_owned();
    Some((folder.to_path_buf(), Some(name)))
}

/// Whether a folder was created for results, even if parts of it are missing.
fn is_result(folder: &Path) -> bool {
    let is_named = is_unfinished(folder) && folder.join("log.jsonl").exists();
    is_named || [SUMS, "manifest.json"].iter().any(|name| folder.join(name).exists())
}
