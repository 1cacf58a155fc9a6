//! Stores the results of a command. If they cannot be written, this is reported and has no other
//! effect.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;

use super::config;
use super::exit::{Exit, Failure};
use super::output::note;
use super::watchdog;
use iosonde_engine::target::undo::Saved;
use iosonde_model::record::given;
use iosonde_model::record::store::{MANIFEST_SCHEMA, Manifest, RunFolder, timestamp};
use iosonde_model::record::undo::Undo;
use iosonde_model::units::shell::quoted;

/// Largest manifest that is read, bytes.
const MAX_MANIFEST: u64 = 64 << 20;

/// A run folder. A failed write is reported once.
#[derive(Debug)]
pub(crate) struct Keeper {
    folder: Option<RunFolder>,
    manifest: Manifest,
    /// The option for another directory.
    option: &'static str,
    /// Whether a folder existed and could no longer be written.
    lost: bool,
    /// Whether the folder existed before this command, with earlier results.
    resumed: bool,
    /// Whether the folder has saved content of a device that may be overwritten by now.
    has_undo: bool,
    /// Whether the folder is kept even without a cell.
    stays: bool,
}

impl Keeper {
    /// Opens a folder for this command under `requested`, or under the user's state directory.
    pub(crate) fn open(requested: Option<&Path>, verb: &str, words: &[String]) -> Keeper {
        Keeper::open_for("--results DIR", requested, verb, words)
    }

    /// Like [`Keeper::open`], for a command with another option for the directory.
    pub(crate) fn open_for(
        option: &'static str,
        requested: Option<&Path>,
        verb: &str,
        words: &[String],
    ) -> Keeper {
        let mut keeper = Keeper::of(option, verb, words);
        if let Err(reason) = keeper.create(requested) {
            not_kept(option, &reason);
        }
        keeper.announce();
        keeper
    }

    /// Like [`Keeper::open_for`], but an unwritable directory is a failure.
    ///
    /// # Errors
    /// If the folder cannot be created; the text says why.
    pub(crate) fn insist(
        option: &'static str,
        requested: &Path,
        verb: &str,
        words: &[String],
    ) -> Result<Keeper, String> {
        let mut keeper = Keeper::of(option, verb, words);
        keeper.create(Some(requested))?;
        keeper.announce();
        Ok(keeper)
    }

    /// Saves the original content of devices before their first write. A resumed folder already has
    /// it.
    ///
    /// # Errors
    /// If it cannot be saved: then nothing may be written.
    pub(crate) fn keep_undo(&mut self, saved: &[Arc<Saved>]) -> Result<(), Failure> {
        let is_there = |name: &str| self.path().is_some_and(|path| path.join(name).exists());
        if saved.is_empty() || is_there(&Undo::name(1)) {
            return Ok(());
        }
        for (number, Saved { undo, bytes }) in (1..).zip(saved.iter().map(AsRef::as_ref)) {
            self.keep_bytes(&Undo::bytes_name(number), bytes);
            self.keep(&Undo::name(number), undo);
        }
        let Some(folder) = self.folder.as_ref().map(RunFolder::finished) else {
            let path = &saved[0].undo.path;
            let message = format!(
                "`{path}` holds data, and its first and last MiB and its signatures cannot be \
                 saved before it is written, because the results are not kept; nothing was \
                 written. Give another place by {}",
                self.option
            );
            return Err(Failure::new(Exit::Refused, message));
        };
        self.has_undo = true;
        note(&undo_hint(saved.iter().map(|saved| &saved.undo), folder));
        Ok(())
    }

    /// Copies the device content that runs of other processes saved before writing, from the first
    /// folder below `results` that has any.
    ///
    /// # Errors
    /// If it cannot be read or stored.
    pub(crate) fn adopt_undo(&mut self, results: &Path) -> std::io::Result<()> {
        for folder in std::fs::read_dir(results).into_iter().flatten() {
            let folder = folder?.path();
            for number in 1.. {
                let [name, bytes] = [Undo::name(number), Undo::bytes_name(number)];
                let known = self.path().is_some_and(|path| path.join(&name).exists());
                if known || !folder.join(&name).exists() {
                    break;
                }
                for name in [&bytes, &name] {
                    self.keep_bytes(name, &std::fs::read(folder.join(name))?);
                }
                if self.lost {
                    let message = "the saved content of a device could not be kept";
                    return Err(std::io::Error::other(message));
                }
                self.has_undo = true;
            }
        }
        Ok(())
    }

    /// Resumes an unfinished folder.
    ///
    /// # Errors
    /// If the folder cannot be written; the text says why.
    pub(crate) fn reopen(path: &Path, verb: &str, words: &[String]) -> Result<Keeper, String> {
        let first = given::bytes(&path.join("manifest.json"), MAX_MANIFEST).ok();
        let first = first.and_then(|text| serde_json::from_slice::<Manifest>(&text).ok());
        let mut keeper = Keeper::of("FOLDER", verb, words);
        let folder = RunFolder::reopen(path);
        keeper.hold(folder.map_err(|error| format!("{}: {error}", path.display()))?);
        // The first command and its start time are kept; this one is in the log.
        if let Some(first) = first {
            keeper.manifest = Manifest { cells: Vec::new(), ..first };
        }
        keeper.resumed = true;
        watchdog::has_result();
        Ok(keeper)
    }

    /// A keeper without a folder.
    fn of(option: &'static str, verb: &str, words: &[String]) -> Keeper {
        let directory = std::env::current_dir().map(|path| path.to_string_lossy().into_owned());
        let manifest = Manifest {
            schema: MANIFEST_SCHEMA.into(),
            program: env!("CARGO_PKG_VERSION").into(),
            verb: verb.into(),
            command: words.to_vec(),
            directory: directory.unwrap_or_default(),
            started_unix_ns: iosonde_sys::clock::realtime_ns(),
            ..Manifest::default()
        };
        Keeper {
            folder: None,
            manifest,
            option,
            lost: false,
            resumed: false,
            has_undo: false,
            stays: false,
        }
    }

    /// Creates a folder under `requested`, or under the user's state directory.
    fn create(&mut self, requested: Option<&Path>) -> Result<(), String> {
        let parent = directory(requested).ok_or("no home directory")?;
        let now_ns = self.manifest.started_unix_ns;
        let salt = std::process::id() ^ (now_ns as u32);
        let folder = RunFolder::create(&parent, &self.manifest.verb, now_ns, salt);
        self.hold(folder.map_err(|error| format!("{}: {error}", parent.display()))?);
        Ok(())
    }

    fn hold(&mut self, folder: RunFolder) {
        watchdog::results_in(folder.path());
        self.folder = Some(folder);
    }

    /// The command line in the manifest.
    pub(crate) fn command(&self) -> &[String] {
        &self.manifest.command
    }

    /// Stores one value under this name.
    pub(crate) fn keep<T: Serialize>(&mut self, name: &str, value: &T) {
        self.write(|folder| folder.keep(name, value));
    }

    /// Writes the manifest at the start, because a killed command cannot.
    pub(crate) fn announce(&mut self) {
        let manifest = Manifest { complete: false, ..self.manifest.clone() };
        self.keep("manifest.json", &manifest);
    }

    /// Stores a text, or other bytes, under this name.
    pub(crate) fn keep_bytes(&mut self, name: &str, bytes: impl AsRef<[u8]>) {
        self.write(|folder| folder.keep_bytes(name, bytes.as_ref()));
    }

    /// Renames the record of a damaged cell, so that it is not read.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub(crate) fn set_aside(&mut self, name: &str) -> std::io::Result<()> {
        self.folder.as_mut().map_or(Ok(()), |folder| folder.set_aside(name))
    }

    /// Removes the files that no longer exist from the lists, and returns their names.
    pub(crate) fn forget_gone(&mut self) -> Vec<String> {
        let gone = self.folder.as_mut().map_or(Vec::new(), RunFolder::forget_gone);
        self.manifest.cells.retain(|cell| !gone.contains(cell));
        gone
    }

    /// Adds a cell whose record exists already.
    pub(crate) fn count_cell(&mut self, name: &str) {
        self.manifest.cells.push(name.into());
    }

    /// Keeps the folder even without a cell, where that is the result.
    pub(crate) fn stay(&mut self) {
        self.stays = true;
    }

    /// Whether an opened result folder could no longer be written.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// The current path of the files, if they are stored.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.folder.as_ref().map(RunFolder::path)
    }

    /// The final path of the files, if they are stored.
    pub(crate) fn finished(&self) -> Option<&Path> {
        self.folder.as_ref().map(RunFolder::finished)
    }

    /// Stores the record of a finished cell.
    pub(crate) fn keep_cell<T: Serialize>(&mut self, name: &str, run: &T) {
        let is_kept = self.write(|folder| folder.keep(name, run));
        self.has_cell(name, is_kept);
    }

    /// Stores the record of a finished cell, compressed.
    pub(crate) fn keep_packed_cell<T: Serialize>(&mut self, name: &str, run: &T) {
        let is_kept = self.write(|folder| folder.keep_packed(name, run));
        self.has_cell(name, is_kept);
    }

    fn has_cell(&mut self, name: &str, is_kept: bool) {
        if is_kept {
            self.manifest.cells.push(name.into());
            watchdog::has_result();
        }
    }

    /// Adds a line to the log.
    pub(crate) fn log<T: Serialize>(&mut self, event: &T) {
        self.write(|folder| {
            let mut line = serde_json::to_value(event).unwrap_or_default();
            if let Some(fields) = line.as_object_mut() {
                fields.insert("time".into(), timestamp(iosonde_sys::clock::realtime_ns()).into());
            }
            folder.log(&line)
        });
    }

    /// Whether the folder has nothing worth keeping.
    fn is_empty(&self) -> bool {
        self.manifest.cells.is_empty() && !self.resumed && !self.has_undo && !self.stays
    }

    /// Writes to the folder, if there is one; returns whether it did. After a failure the folder is
    /// given up, and removed if it has nothing worth keeping.
    fn write(&mut self, write: impl FnOnce(&mut RunFolder) -> std::io::Result<()>) -> bool {
        let Some(Err(error)) = self.folder.as_mut().map(write) else {
            return self.folder.is_some();
        };
        self.lost = true;
        let is_empty = self.is_empty();
        if let Some(folder) = self.folder.take() {
            self.not_written(folder.path(), &error, is_empty);
            if is_empty {
                watchdog::results_closed();
                folder.discard();
            }
        }
        false
    }

    /// Reports a failed write, and where earlier results are.
    fn not_written(&self, folder: &Path, error: &std::io::Error, is_empty: bool) {
        let place = folder.parent().unwrap_or(folder).display();
        let left = match is_empty {
            true => String::new(),
            false => format!("; what was written before is in {}", folder.display()),
        };
        not_kept(self.option, &format!("{place}: {error}{left}"));
    }

    /// Closes the folder, and prints its path.
    pub(crate) fn finish(self, complete: bool, exit_code: u8, verdict: &str) {
        if let Some(path) = self.close(complete, exit_code, verdict) {
            note(&format!("results stored in {}", path.display()));
        }
    }

    /// Closes the folder; returns its path. Without a cell there is nothing to store.
    pub(crate) fn close(mut self, complete: bool, exit_code: u8, verdict: &str) -> Option<PathBuf> {
        let is_empty = self.is_empty();
        let ended = json!({ "event": "ended", "exit_code": exit_code, "verdict": verdict });
        self.log(&ended);
        let folder = self.folder.take()?;
        watchdog::results_closed();
        if is_empty {
            folder.discard();
            return None;
        }
        self.manifest.complete = complete;
        self.manifest.exit_code = exit_code;
        self.manifest.verdict = verdict.into();
        let path = folder.path().to_path_buf();
        let finished = folder.finish(&self.manifest);
        finished.map_err(|error| self.not_written(&path, &error, false)).ok()
    }
}

impl Drop for Keeper {
    /// A command that fails before its first cell leaves no folder behind.
    fn drop(&mut self) {
        let is_empty = self.is_empty();
        if let Some(folder) = self.folder.take_if(|_| is_empty) {
            watchdog::results_closed();
            folder.discard();
        }
    }
}

/// Describes how to restore the saved content of devices.
pub(crate) fn undo_hint<'a>(undos: impl Iterator<Item = &'a Undo>, folder: &Path) -> String {
    let (mut paths, mut consents) = (Vec::new(), String::new());
    for undo in undos {
        paths.push(format!("`{}`", undo.path));
        consents.push_str(&format!(" --destroy-data={}", quoted(&undo.id)));
    }
    format!(
        "the first and last MiB and the signatures of {} are saved; to restore them: iosonde \
         report {} --restore-signatures{consents}",
        paths.join(" and "),
        quoted(&folder.to_string_lossy()),
    )
}

fn not_kept(option: &str, reason: &str) {
    note(&format!(
        "warning: the results are not stored: {reason} (use {option} for another \
        directory)"
    ));
}

/// The directory under which the results of a command are stored, if any.
pub(crate) fn directory(requested: Option<&Path>) -> Option<PathBuf> {
    // `$XDG_STATE_HOME/iosonde/runs`, or `~/.local/state/iosonde/runs`.
    requested
        .map(Path::to_path_buf)
        .or_else(|| Some(config::of_user("XDG_STATE_HOME", ".local/state")?.join("iosonde/runs")))
}
