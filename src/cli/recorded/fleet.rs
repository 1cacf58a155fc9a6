//! Any number of results found under some paths. An unreadable result is left out and named, and
//! does not affect the others.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::cli::exit::{Exit, Failure, wrong};
use crate::cli::output::note;
use crate::cli::report::{is_folder, is_of_campaign};
use crate::schedule::in_parallel;

/// Largest nesting depth of folders.
const MAX_DEPTH: usize = 8;
/// Results read per thread before the batch is used.
const PER_THREAD: usize = 16;
/// Largest number of left-out results that are named.
const NAMED: usize = 10;

/// The folders of results.
pub(in crate::cli) struct Fleet {
    folders: Vec<PathBuf>,
}

/// A result that could not be read, and why.
pub(in crate::cli) type LeftOut = (PathBuf, Failure);

impl Fleet {
    /// Finds all result folders under the paths, in order of name.
    ///
    /// # Errors
    /// If there is none under one of the paths.
    pub(in crate::cli) fn under(paths: &[PathBuf]) -> Result<Fleet, Failure> {
        let mut folders = Vec::new();
        for path in paths {
            let found = folders.len();
            results_under(path, 0, &mut folders);
            if folders.len() == found {
                return Err(wrong(format!(
                    "`{}`: found no iosonde result, expected a result folder or a directory of \
                     them",
                    path.display()
                )));
            }
        }
        Ok(Fleet { folders })
    }

    /// Number of results.
    pub(in crate::cli) fn len(&self) -> usize {
        self.folders.len()
    }

    /// Reads results with `read` on all processors and passes them to `take` in folder order until
    /// it returns `false`. Returns the results that could not be read.
    ///
    /// # Errors
    /// Those of `take`.
    pub(in crate::cli) fn read<T: Send>(
        &self,
        read: impl Fn(&Path) -> Result<T, Failure> + Sync,
        mut take: impl FnMut(T) -> Result<bool, Failure>,
    ) -> Result<Vec<LeftOut>, Failure> {
        let mut left_out = Vec::new();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        for some in self.folders.chunks(threads * PER_THREAD) {
            for (folder, read) in
                some.iter().zip(in_parallel(some.len(), threads, |index| read(&some[index])))
            {
                match read {
                    Ok(read) => {
                        if !take(read)? {
                            return Ok(left_out);
                        }
                    }
                    Err(failure) => left_out.push((folder.clone(), failure)),
                }
            }
        }
        Ok(left_out)
    }

    /// Names the results left out, and returns the exit code.
    pub(in crate::cli) fn end(&self, left_out: &[LeftOut]) -> Exit {
        if left_out.is_empty() {
            return Exit::Done;
        }
        for (folder, failure) in left_out.iter().take(NAMED) {
            note(&format!("warning: `{}` is left out: {}", folder.display(), failure.message));
        }
        note(&format!("error: {} of {} results are left out", left_out.len(), self.len()));
        Exit::Environment
    }
}

/// Collects the results under a path. A folder within a result belongs to that result.
fn results_under(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if is_of_campaign(path) {
        return;
    }
    if is_folder(path) {
        found.push(path.to_path_buf());
        return;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    // Links are not followed: one may form a loop.
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut inside: Vec<PathBuf> = entries.filter(is_folder).map(|entry| entry.path()).collect();
    inside.sort();
    if depth < MAX_DEPTH {
        inside.iter().for_each(|path| results_under(path, depth + 1, found));
    }
}
