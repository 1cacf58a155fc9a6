//! Result folders: one per command, with plain files that stay readable.
//!
//! While a command runs, the folder's name ends in `.partial`. Each file is written under a
//! temporary name, synced and renamed, so that it is whole or absent; its checksum is listed before
//! that. At the end the list is closed and the folder gets its final name. A killed command leaves
//! a `.partial` folder with everything that was finished.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::checksums::{Checksums, LOG, SUMS, checksum, checksum_of, hex, is_unfinished};
use super::given;
use super::packed::packed;

/// Name and version of the manifest's schema.
pub const MANIFEST_SCHEMA: &str = "iosonde.manifest/1";

/// Overview of a folder, to be read first.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Manifest {
    /// [`MANIFEST_SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub program: String,
    /// The verb (`check`, `run`).
    pub verb: String,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// Working directory of the command.
    #[serde(default)]
    pub directory: String,
    /// Start, ns since 1970.
    pub started_unix_ns: u64,
    /// Whether everything that was planned was done.
    pub complete: bool,
    /// Exit code of the command.
    pub exit_code: u8,
    /// Verdict in words, as printed; cached, and computed anew on request.
    pub verdict: String,
    /// Files with one run each, in order.
    pub cells: Vec<String>,
}

/// The folder of a running command.
#[derive(Debug)]
pub struct RunFolder {
    partial: PathBuf,
    finished: PathBuf,
    log: File,
    /// Checksum of the log so far.
    logged: Sha256,
    checksums: Checksums,
    /// The list of checksums while it grows.
    list: File,
}

/// Why an experiment is not resumed.
const LOG_ALTERED: &str = "log.jsonl was altered, and lines that follow would hide that";

impl RunFolder {
    /// Creates a folder under `parent`, named by UTC time, verb, and a few random digits.
    ///
    /// # Errors
    /// If a folder or file cannot be created.
    pub fn create(parent: &Path, verb: &str, unix_ns: u64, salt: u32) -> io::Result<RunFolder> {
        private_dirs(parent)?;
        let name = format!("{}-{verb}-{salt:08x}", utc(unix_ns));
        let partial = parent.join(format!("{name}.partial"));
        fs::DirBuilder::new().mode(0o700).create(&partial)?;
        RunFolder::begin(&partial, parent.join(name)).inspect_err(|_| {
            let _ = fs::remove_dir_all(&partial);
        })
    }

    fn begin(partial: &Path, finished: PathBuf) -> io::Result<RunFolder> {
        let log = create_new(&partial.join(LOG))?;
        lock(&log)?;
        let list = create_new(&partial.join(SUMS))?;
        let (partial, checksums) = (partial.to_path_buf(), Checksums::default());
        let mut folder =
            RunFolder { partial, finished, log, logged: Sha256::new(), checksums, list };
        folder.announce(LOG, checksum(b""))?;
        Ok(folder)
    }

    /// Present path of the folder.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Final path of the folder.
    pub fn finished(&self) -> &Path {
        &self.finished
    }

    /// Stores a value as JSON: under a temporary name, synced, renamed.
    ///
    /// # Errors
    /// If it cannot be written; no partial file stays under the final name.
    pub fn keep<T: Serialize>(&mut self, name: &str, value: &T) -> io::Result<()> {
        let text = serde_json::to_vec(value)?;
        self.keep_bytes(name, &text)
    }

    /// Stores a value as compressed JSON, in the same way; the name ends in `.json.zst`.
    ///
    /// # Errors
    /// As [`keep`](RunFolder::keep).
    pub fn keep_packed<T: Serialize>(&mut self, name: &str, value: &T) -> io::Result<()> {
        let text = serde_json::to_vec(value)?;
        self.keep_bytes(name, &packed(&text)?)
    }

    /// Stores bytes, in the same way. The name may have one folder in front of it.
    ///
    /// # Errors
    /// As [`keep`](RunFolder::keep).
    pub fn keep_bytes(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.announce(name, checksum(bytes))?;
        self.put(name, bytes)
    }

    /// Adds the checksum of a file's next content to the list.
    fn announce(&mut self, name: &str, sum: String) -> io::Result<()> {
        let line = self.checksums.note(name, sum);
        self.list.write_all(line.as_bytes())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (place, own) = match name.split_once('/') {
            Some((folder, own)) => (self.partial.join(folder), own),
            None => (self.partial.clone(), name),
        };
        if !place.is_dir() {
            private_dirs(&place)?;
        }
        // The list is synced first: no file survives a power cut without its checksum.
        self.list.sync_data()?;
        replaced(&place, own, bytes).map(drop)
    }

    /// Reopens an unfinished folder, whatever its name is now, to resume its command. The name ends
    /// in `.partial` again from now on.
    ///
    /// # Errors
    /// If it is in use, its log was altered, or it cannot be renamed or written.
    pub fn reopen(path: &Path) -> io::Result<RunFolder> {
        let path = fs::canonicalize(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let finished = match name.strip_suffix(".partial") {
            Some(plain) => path.with_file_name(plain),
            None => path.clone(),
        };
        let partial = finished.with_file_name(format!(
            "{}.partial",
            finished.file_name().unwrap_or_default().to_string_lossy()
        ));
        let log = OpenOptions::new().append(true).create(true).mode(0o600).open(path.join(LOG))?;
        lock(&log)?;
        if is_unfinished(&path) {
            cut_back(&path, &log)?;
        }
        // An altered file keeps its old checksum, so that it is still detected.
        let (checksums, text) = Checksums::resumed(&path)?;
        let kept = fs::read(path.join(LOG))?;
        // New lines would give an altered log a valid checksum.
        if checksums.compare(LOG, checksum(&kept)).is_err() {
            return Err(io::Error::other(LOG_ALTERED));
        }
        let list = replaced(&path, SUMS, text.as_bytes())?;
        if path != partial {
            fs::rename(&path, &partial)?;
        }
        let logged = Sha256::new_with_prefix(kept);
        Ok(RunFolder { partial, finished, log, logged, checksums, list })
    }

    /// Whether a command is writing to this folder now.
    pub fn is_in_use(folder: &Path) -> bool {
        let log = given::open(&folder.join(LOG));
        log.is_ok_and(|(log, _)| matches!(log.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Renames a file of a resumed folder, so that it is not read any more. A missing file is
    /// removed from the list.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn set_aside(&mut self, name: &str) -> io::Result<()> {
        let aside = format!("{name}.damaged");
        let (from, to) = (self.partial.join(name), self.partial.join(&aside));
        if is_gone(&from) {
            self.checksums.forget(name);
            return Ok(());
        }
        let sum = checksum_of(&from)?;
        self.announce(&aside, sum.clone())?;
        fs::rename(from, to)?;
        self.checksums.rename(name, &aside, sum);
        Ok(())
    }

    /// Removes missing files from the list, except for the log, which is continued. Returns the
    /// names of all missing files.
    pub fn forget_gone(&mut self) -> Vec<String> {
        let names = self.checksums.names();
        let gone = names.filter(|name| is_gone(&self.partial.join(name)));
        let gone: Vec<String> = gone.map(str::to_owned).collect();
        let others = gone.iter().filter(|name| *name != LOG);
        others.for_each(|name| self.checksums.forget(name));
        gone
    }

    /// Adds a line to the event log.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn log<T: Serialize>(&mut self, event: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        self.logged.update(&line);
        self.announce(LOG, hex(self.logged.clone()))?;
        // The list is synced first, as for every file.
        self.list.sync_data()?;
        self.log.write_all(&line)
    }

    /// Writes the manifest, closes the list of checksums, and gives the folder its final name.
    ///
    /// # Errors
    /// If something cannot be written; the folder then keeps its `.partial` name.
    pub fn finish(mut self, manifest: &Manifest) -> io::Result<PathBuf> {
        self.log.sync_all()?;
        self.keep("manifest.json", manifest)?;
        self.put(SUMS, self.checksums.sealed().as_bytes())?;
        fs::rename(&self.partial, &self.finished)?;
        if let Some(parent) = self.finished.parent() {
            sync_dir(parent)?;
        }
        Ok(self.finished)
    }

    /// Removes the folder, since nothing was measured.
    pub fn discard(self) {
        // If this fails, the folder left behind is harmless.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

/// Locks a folder against a second command; the kernel unlocks it when the first one ends.
fn lock(log: &File) -> io::Result<()> {
    log.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other("another command is writing to it"),
        TryLockError::Error(error) => error,
    })
}

/// Truncates the rest of a write that a power cut interrupted from the end of a log.
fn cut_back(folder: &Path, log: &File) -> io::Result<()> {
    let (list, _) = Checksums::read(folder)?;
    let text = fs::read(folder.join(LOG))?;
    match list.whole_lines(LOG, &text) {
        Some(whole) if whole < text.len() => log.set_len(whole as u64),
        _ => Ok(()),
    }
}

/// Replaces a file with a whole and synced one, which is returned open at its end.
fn replaced(place: &Path, name: &str, bytes: &[u8]) -> io::Result<File> {
    let temporary = place.join(format!(".{name}.tmp"));
    // A killed command may have left one in a folder that is resumed.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_new(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&temporary, place.join(name))) {
        // Frees its space, which a full disk needs.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_dir(place)?;
    Ok(file)
}

fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err()
}

/// Creates a file for its owner alone, under an unused name.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn private_dirs(path: &Path) -> io::Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is no folder"));
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// `20261120T104500Z`.
pub fn utc(unix_ns: u64) -> String {
    let ((year, month, day), (hour, minute, second)) = civil(unix_ns);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// `2026-11-20T10:45:00.123456Z` (ISO 8601), to the microsecond.
pub fn timestamp(unix_ns: u64) -> String {
    let ((year, month, day), (hour, minute, second)) = civil(unix_ns);
    let micros = unix_ns % 1_000_000_000 / 1_000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month, day; hour, minute, second of UTC, by the civil-from-days algorithm of the proleptic
/// Gregorian calendar.
fn civil(unix_ns: u64) -> ((i64, i64, i64), (u64, u64, u64)) {
    let seconds = unix_ns / 1_000_000_000;
    let (days, rest) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Days since 0000-03-01, so that a leap day ends its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    ((year, month, day), (rest / 3600, rest % 3600 / 60, rest % 60))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        let day = 86_400_000_000_000;
        assert_eq!(utc(0), "19700101T000000Z");
        assert_eq!(utc(11_016 * day), "20000229T000000Z");
        assert_eq!(utc(11_017 * day), "20000301T000000Z");
        assert_eq!(utc(1_790_000_000_123_456_789), "20260921T141320Z");
    }

    /// A power cut leaves any part of the data appended since the last sync, and zeros for the
    /// rest.
    #[test]
    fn what_a_power_cut_leaves_is_gone_on_with() {
        let parent = tempfile::tempdir().unwrap();
        let mut folder = RunFolder::create(parent.path(), "check", 0, 7).unwrap();
        folder.keep("01.json", &[1, 2, 3]).unwrap();
        folder.log(&"started").unwrap();
        let path = folder.path().to_path_buf();
        let read = |name| fs::read(path.join(name)).unwrap();
        let (list, log) = (read(SUMS), read(LOG));
        folder.announce("02.json", checksum(b"2")).unwrap();
        let announced = read(SUMS);
        drop(folder);
        let resume = |sums: &[u8], log: &[u8], lines: &[u8]| {
            fs::write(path.join(SUMS), sums).unwrap();
            fs::write(path.join(LOG), log).unwrap();
            assert_eq!(super::super::checksums::alterations(&path).unwrap(), []);
            drop(RunFolder::reopen(&path).unwrap());
            assert_eq!(super::super::checksums::alterations(&path).unwrap(), []);
            assert_eq!(read(LOG), lines);
        };
        for end in list.len()..announced.len() {
            let mut zeros = announced[..end].to_vec();
            resume(&zeros, &log, &log);
            zeros.resize(announced.len(), 0);
            resume(&zeros, &log, &log);
        }
        for end in 0..log.len() {
            let mut zeros = log[..end].to_vec();
            resume(&announced, &zeros, b"");
            zeros.resize(log.len(), 0);
            resume(&announced, &zeros, b"");
        }
        // Whole lines that are not in the list are not the rest of a write.
        let mut more = log.clone();
        more.extend(b"\"ended\"\n");
        fs::write(path.join(SUMS), &announced).unwrap();
        fs::write(path.join(LOG), more).unwrap();
        assert_eq!(RunFolder::reopen(&path).unwrap_err().to_string(), LOG_ALTERED);
    }

    #[test]
    fn a_folder_is_partial_until_it_is_finished() {
        let parent = tempfile::tempdir().unwrap();
        let mut folder = RunFolder::create(&parent.path().join("a/b"), "check", 0, 7).unwrap();
        folder.keep("01.json", &[1, 2, 3]).unwrap();
        folder.log(&"started").unwrap();
        assert!(
            folder.path().to_string_lossy().ends_with("19700101T000000Z-check-00000007.partial")
        );
        let manifest = Manifest {
            schema: MANIFEST_SCHEMA.into(),
            program: "0".into(),
            verb: "check".into(),
            command: vec![],
            directory: String::new(),
            started_unix_ns: 0,
            complete: true,
            exit_code: 0,
            verdict: String::new(),
            cells: vec!["01.json".into()],
        };
        let partial = folder.path().to_path_buf();
        let path = folder.finish(&manifest).unwrap();
        assert!(!partial.exists());
        let sums = fs::read_to_string(path.join("SHA256SUMS")).unwrap();
        let names = sums.lines().filter_map(|line| Some(line.split_once("  ")?.1));
        let names: Vec<&str> = names.collect();
        assert_eq!(names, ["01.json", "log.jsonl", "manifest.json"]);
        assert!(sums.starts_with(&checksum(b"[1,2,3]")));
        assert_eq!(super::super::checksums::alterations(&path).unwrap(), []);
    }
}
