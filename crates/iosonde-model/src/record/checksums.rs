//! Checksums of a result folder: one per file, stored in the folder and compared on every reading.
//!
//! `SHA256SUMS` is readable by `sha256sum -c`. Comments in it hold the checksum of all lines above,
//! so that the list is protected too; a finished list ends with such a comment. While a command
//! runs, each stored file first adds a line and a comment, so that the folder of a killed command
//! can be checked too. A file that was written several times has several lines, and matches one of
//! them.

mod torn;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest as _, Sha256};

use super::given::{self, GivenError};

/// Name of the list.
pub const SUMS: &str = "SHA256SUMS";
/// Name of the event log, to which lines are appended.
pub(super) const LOG: &str = "log.jsonl";
/// Prefix of the checksum of the list itself.
const SEAL: &str = "# SHA-256 of the lines above: ";
/// Longest list that is read, bytes; no folder has so many files.
const MAX_BYTES: u64 = 64 << 20;
/// Most threads that read files at once.
const MAX_THREADS: usize = 8;

/// SHA-256 in lower-case hexadecimal.
pub type Checksum = String;

/// The checksum of these bytes.
pub fn checksum(bytes: &[u8]) -> Checksum {
    hex(Sha256::new_with_prefix(bytes))
}

/// The checksum of the data added so far.
pub(super) fn hex(state: Sha256) -> Checksum {
    state.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file that differs from the list.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Altered {
    /// Its name within the folder.
    pub name: String,
    pub change: Change,
}

/// How a file differs from the list.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Change {
    /// Its content differs.
    Content {
        /// Checksum of the present content.
        found: Checksum,
        /// Checksum in the list.
        expected: Checksum,
    },
    /// It is gone.
    Missing,
    /// It is not in the list.
    Unlisted,
    /// It cannot be read, for this reason.
    Unreadable(String),
    /// This line of the list is malformed.
    Line(usize),
    /// The list does not end with its own checksum.
    Open,
}

impl fmt::Display for Altered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.change {
            Change::Content { found, expected } => {
                write!(f, "{name}: found SHA-256 {found}, expected {expected}")
            }
            Change::Missing => write!(f, "{name}: found no such file, expected one by {SUMS}"),
            Change::Unlisted => write!(f, "{name}: found a file that {SUMS} does not list"),
            Change::Unreadable(why) => write!(f, "{name}: {why}"),
            Change::Open => {
                write!(f, "{name}: found no last line `{SEAL}CHECKSUM`, expected one")
            }
            Change::Line(number) => {
                write!(f, "{name}: line {number}: expected `CHECKSUM  NAME` of a file here")
            }
        }
    }
}

/// The checksum list of a folder.
#[derive(Clone, Debug, Default)]
pub struct Checksums {
    /// Valid checksums of each file, the latest last. A command can be killed between a line and
    /// the write of the file that it announces.
    files: BTreeMap<String, Vec<Checksum>>,
    /// The file of the last line.
    last: Option<String>,
    /// Checksum of all lines so far.
    state: Sha256,
}

impl Checksums {
    /// Notes the next content of a file; returns the lines for the list.
    pub(super) fn note(&mut self, name: &str, sum: Checksum) -> String {
        let line = format!("{sum}  {name}\n");
        self.take(name, sum);
        self.state.update(&line);
        let seal = format!("{SEAL}{}\n", hex(self.state.clone()));
        self.state.update(&seal);
        line + &seal
    }

    fn take(&mut self, name: &str, sum: Checksum) {
        let sums = self.files.entry(name.into()).or_default();
        sums.retain(|each| *each != sum);
        sums.push(sum);
        self.last = Some(name.into());
    }

    /// Renames a file in the list, and drops its earlier checksums.
    pub(super) fn rename(&mut self, from: &str, to: &str, sum: Checksum) {
        self.files.remove(from);
        self.files.insert(to.into(), vec![sum]);
    }

    /// The names of all files.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Removes a file from the list.
    pub(super) fn forget(&mut self, name: &str) {
        self.files.remove(name);
    }

    /// The finished list: each file once, and the checksum of all lines.
    pub(super) fn sealed(&self) -> String {
        let latest = |sums: &Vec<Checksum>| sums.last().cloned().unwrap_or_default();
        let lines: String =
            self.files.iter().map(|(name, sums)| format!("{}  {name}\n", latest(sums))).collect();
        let seal = checksum(lines.as_bytes());
        format!("{lines}{SEAL}{seal}\n")
    }

    /// The list of a folder that is resumed, and its text, without a file that a killed command
    /// announced but did not write. An altered file keeps its old checksum.
    ///
    /// # Errors
    /// If the list or a file cannot be read.
    pub(super) fn resumed(folder: &Path) -> io::Result<(Checksums, String)> {
        let (mut list, _) = Checksums::read(folder)?;
        let is_gone = |name: &String| folder.join(name).symlink_metadata().is_err();
        if let Some(gone) = list.last.take().filter(is_gone) {
            list.files.remove(&gone);
        }
        for (name, sums) in list.files.iter_mut().filter(|(_, sums)| sums.len() > 1) {
            let found = checksum_of(&folder.join(name))?;
            match sums.contains(&found) {
                true => *sums = vec![found],
                false => drop(sums.drain(..sums.len() - 1)),
            }
        }
        let text = list.sealed();
        let mut state = Sha256::new();
        state.update(&text);
        Ok((Checksums { state, ..list }, text))
    }

    /// Reads the list of a folder and returns the faults of the list itself. Without a list, every
    /// file is unlisted.
    ///
    /// # Errors
    /// If the list exists but cannot be read.
    pub fn read(folder: &Path) -> io::Result<(Checksums, Vec<Altered>)> {
        let path = folder.join(SUMS);
        if path.symlink_metadata().is_err() {
            return Ok((Checksums::default(), vec![altered(SUMS, Change::Missing)]));
        }
        let mut text = Vec::new();
        file(&path)?.take(MAX_BYTES).read_to_end(&mut text)?;
        Ok(Checksums::parse(&text, is_unfinished(folder)))
    }

    fn parse(text: &[u8], is_unfinished: bool) -> (Checksums, Vec<Altered>) {
        let mut list = Checksums::default();
        let mut wrong = Vec::new();
        let text = if is_unfinished { torn::before_zeros(text) } else { text };
        // Lists of the first version had no checksum of themselves.
        let (mut is_closed, mut has_seal) = (false, false);
        for (number, line) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            let words = str::from_utf8(line).ok();
            let whole = words.and_then(|words| words.strip_suffix('\n'));
            is_closed = false;
            match (whole.and_then(|whole| whole.strip_prefix(SEAL)), whole.and_then(entry)) {
                (Some(expected), _) => {
                    (is_closed, has_seal) = (true, true);
                    let found = hex(list.state.clone());
                    if expected != found && wrong.is_empty() {
                        let expected = expected.to_owned();
                        wrong.push(altered(SUMS, Change::Content { found, expected }));
                    }
                }
                (None, Some((sum, name))) => list.take(name, sum.into()),
                (None, None) if is_unfinished && words.is_some_and(torn::is_beginning) => {}
                (None, None) => wrong.push(altered(SUMS, Change::Line(number))),
            }
            list.state.update(line);
        }
        if has_seal && !is_closed && !is_unfinished && wrong.is_empty() {
            wrong.push(altered(SUMS, Change::Open));
        }
        (list, wrong)
    }

    /// Length of the lines of a growing log that match the list, bytes. `None` if anything but the
    /// rest of an interrupted write follows them.
    pub(super) fn whole_lines(&self, name: &str, text: &[u8]) -> Option<usize> {
        let sums = self.files.get(name)?;
        let text = torn::before_zeros(text);
        let (mut state, mut end, mut whole) = (Sha256::new(), 0, None);
        for line in [&[][..]].into_iter().chain(text.split_inclusive(|byte| *byte == b'\n')) {
            state.update(line);
            end += line.len();
            if sums.contains(&hex(state.clone())) {
                whole = Some(end);
            }
        }
        whole.filter(|end| !text[*end..].contains(&b'\n'))
    }

    /// Compares the checksum of a file with the list.
    ///
    /// # Errors
    /// How it differs.
    pub fn compare(&self, name: &str, found: Checksum) -> Result<(), Altered> {
        let Some(sums) = self.files.get(name) else { return Err(altered(name, Change::Unlisted)) };
        if sums.contains(&found) {
            return Ok(());
        }
        let expected = sums.last().cloned().unwrap_or_default();
        Err(altered(name, Change::Content { found, expected }))
    }
}

/// All files of a folder that differ from the list, by name.
///
/// # Errors
/// If the folder or its list cannot be read.
pub fn alterations(folder: &Path) -> io::Result<Vec<Altered>> {
    let (list, mut wrong) = Checksums::read(folder)?;
    let inside = names_in(folder)?;
    let there: BTreeSet<&str> = inside.iter().map(String::as_str).collect();
    // The last file may have been announced but not written yet.
    let may_miss = list.last.as_ref().filter(|_| is_unfinished(folder));
    let gone = list.files.keys().filter(|name| !there.contains(name.as_str()));
    let gone = gone.filter(|name| Some(*name) != may_miss);
    wrong.extend(gone.map(|name| altered(name, Change::Missing)));
    wrong.extend(compared(folder, &list, &inside));
    wrong.sort();
    Ok(wrong)
}

/// Compares files in several threads: a large experiment has thousands.
fn compared(folder: &Path, list: &Checksums, names: &[String]) -> Vec<Altered> {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(names.len()) {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = match checksum_of(&folder.join(name)) {
                        Ok(found) => list.compare(name, found).or_else(|altered| {
                            if is_cut(folder, list, name) { Ok(()) } else { Err(altered) }
                        }),
                        Err(error) => Err(altered(name, Change::Unreadable(error.to_string()))),
                    };
                    if let (Err(each), Ok(mut wrong)) = (result, wrong.lock()) {
                        wrong.push(each);
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap_or_default()
}

/// Whether a log is unaltered except for its end, which was lost in a power cut.
fn is_cut(folder: &Path, list: &Checksums, name: &str) -> bool {
    let text = || fs::read(folder.join(name)).ok();
    name == LOG
        && is_unfinished(folder)
        && text().is_some_and(|text| list.whole_lines(name, &text).is_some())
}

/// The checksum of a whole file.
///
/// # Errors
/// If it is not a file, or cannot be read.
pub fn checksum_of(path: &Path) -> io::Result<Checksum> {
    let mut state = Sha256::new();
    io::copy(&mut file(path)?, &mut state)?;
    Ok(hex(state))
}

fn file(path: &Path) -> io::Result<File> {
    match given::open(path) {
        Ok((file, _)) => Ok(file),
        Err(GivenError::System(error)) => Err(error),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}

/// Whether a folder has the name of an unfinished one.
pub fn is_unfinished(folder: &Path) -> bool {
    let ends = |path: &Path| path.extension().is_some_and(|end| end == "partial");
    ends(folder) || folder.canonicalize().is_ok_and(|folder| ends(&folder))
}

/// All files in a folder and in its subfolders, by name, without the list itself and without the
/// temporary files of a killed command.
///
/// # Errors
/// If a folder cannot be listed.
pub fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let own = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = own(&entry);
        if name.starts_with('.') || name == SUMS {
            continue;
        }
        if !entry.file_type()?.is_dir() {
            names.push(name);
            continue;
        }
        for inner in fs::read_dir(entry.path())? {
            let inner = own(&inner?);
            if !inner.starts_with('.') {
                names.push(format!("{name}/{inner}"));
            }
        }
    }
    names.sort();
    Ok(names)
}

fn altered(name: &str, change: Change) -> Altered {
    Altered { name: name.into(), change }
}

fn is_checksum(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A line of the list: the checksum and the name of its file.
fn entry(line: &str) -> Option<(&str, &str)> {
    line.split_once("  ").filter(|(sum, name)| is_checksum(sum) && is_inside(name))
}

/// A file of the folder, or of a folder in it.
fn is_inside(name: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains('\0');
    let has_two_lines = name.contains(SEAL);
    name != SUMS && !has_two_lines && name.split('/').count() <= 2 && name.split('/').all(is_plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn list() -> Checksums {
        let mut list = Checksums::default();
        for (name, text) in [("01-run.json", "one"), ("manifest.json", "two"), ("trials/a", "")] {
            list.note(name, checksum(text.as_bytes()));
        }
        list
    }

    /// A folder with these files and this list.
    fn folder(name: &str, sums: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(name);
        fs::create_dir_all(folder.join("trials")).unwrap();
        for (name, text) in [("01-run.json", "one"), ("manifest.json", "two"), ("trials/a", "")] {
            fs::write(folder.join(name), text).unwrap();
        }
        fs::write(folder.join(SUMS), sums).unwrap();
        (dir, folder)
    }

    #[test]
    fn a_folder_as_it_was_kept_has_no_alterations() {
        let (_dir, folder) = folder("a", &list().sealed());
        fs::write(folder.join(".x.tmp"), "left behind").unwrap();
        assert_eq!(alterations(&folder).unwrap(), []);
    }

    #[test]
    fn every_flipped_bit_is_reported_by_the_name_of_its_file() {
        let sums = list().sealed();
        let (_dir, folder) = folder("a", &sums);
        for name in ["01-run.json", "manifest.json"] {
            let text = fs::read(folder.join(name)).unwrap();
            for bit in 0..text.len() * 8 {
                let mut flipped = text.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                fs::write(folder.join(name), flipped).unwrap();
                let found = alterations(&folder).unwrap();
                assert_eq!(found.len(), 1, "{found:?}");
                assert_eq!(found[0].name, name);
                assert!(matches!(&found[0].change, Change::Content { found, expected }
                    if found != expected && is_checksum(found)));
            }
            fs::write(folder.join(name), text).unwrap();
        }
        for bit in 0..sums.len() * 8 {
            let mut flipped = sums.clone().into_bytes();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(folder.join(SUMS), &flipped).unwrap();
            let found = alterations(&folder).unwrap();
            assert!(found.iter().any(|each| each.name == SUMS), "bit {bit}: {found:?}");
        }
    }

    #[test]
    fn what_is_missing_or_more_is_named() {
        let (_dir, folder) = folder("a", &list().sealed());
        fs::remove_file(folder.join("trials/a")).unwrap();
        fs::write(folder.join("trials/b"), "").unwrap();
        let found = alterations(&folder).unwrap();
        let expected =
            [altered("trials/a", Change::Missing), altered("trials/b", Change::Unlisted)];
        assert_eq!(found, expected);
        fs::remove_file(folder.join(SUMS)).unwrap();
        let found = alterations(&folder).unwrap();
        assert_eq!(found[1], altered("SHA256SUMS", Change::Missing));
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn a_command_that_was_killed_may_have_announced_what_it_did_not_write() {
        let mut list = Checksums::default();
        let mut sums = String::new();
        for (name, text) in [("01-run.json", "one"), ("manifest.json", "two"), ("trials/a", "")] {
            sums.push_str(&list.note(name, checksum(text.as_bytes())));
        }
        let before = sums.clone();
        // The command was about to replace one file and to write another.
        sums.push_str(&list.note("manifest.json", checksum(b"three")));
        let (_dir, folder) = folder("a.partial", &sums);
        assert_eq!(alterations(&folder).unwrap(), []);
        sums.push_str(&list.note("trials/b", checksum(b"b")));
        fs::write(folder.join(SUMS), &sums).unwrap();
        assert_eq!(alterations(&folder).unwrap(), []);
        fs::write(folder.join(SUMS), format!("{sums}0123")).unwrap();
        assert_eq!(alterations(&folder).unwrap(), [], "a torn line");
        fs::write(folder.join("01-run.json"), "two").unwrap();
        assert_eq!(alterations(&folder).unwrap()[0].name, "01-run.json");
        fs::write(folder.join("01-run.json"), "one").unwrap();
        // Resuming forgets what was only announced, and nothing else.
        fs::write(folder.join(SUMS), &sums).unwrap();
        let (resumed, text) = Checksums::resumed(&folder).unwrap();
        assert_eq!((resumed.files.len(), &text), (3, &resumed.sealed()));
        fs::write(folder.join(SUMS), &text).unwrap();
        assert_eq!(alterations(&folder).unwrap(), []);
        for bit in 0..before.len() * 8 {
            let mut flipped = before.clone().into_bytes();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(folder.join(SUMS), &flipped).unwrap();
            assert_ne!(alterations(&folder).unwrap(), [], "bit {bit}");
        }
    }

    #[test]
    fn a_finished_folder_has_a_closed_list() {
        let sums = list().sealed();
        let lines = &sums[..sums.find('#').unwrap()];
        let (_dir, folder) = folder("a", &format!("{sums}{lines}"));
        assert_eq!(alterations(&folder).unwrap(), [altered(SUMS, Change::Open)]);
        // The first version had no checksum of the list; listed files are compared nevertheless.
        fs::write(folder.join(SUMS), lines).unwrap();
        assert_eq!(alterations(&folder).unwrap(), []);
        fs::write(folder.join("01-run.json"), "two").unwrap();
        assert_eq!(alterations(&folder).unwrap()[0].name, "01-run.json");
    }
}
