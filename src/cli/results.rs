//! Stored results: listed, found by short names, removed if there are too many.

use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};

use super::config;
use super::exit::{About, Failure, shown};
use super::keep::{self, Keeper};
use super::screen;
use iosonde_analysis::history;
use iosonde_model::record::store::{MANIFEST_SCHEMA, Manifest, timestamp};
use iosonde_model::record::summary::{SUMMARY, Summary};
use iosonde_model::record::undo::Undo;
use iosonde_model::record::{checksums, given};
use iosonde_model::units::{bytes, count};
use iosonde_report::clean::clean;
use iosonde_report::report::Column;
use iosonde_report::{Rule, table};

/// Largest manifest that is read, bytes.
const MAX_MANIFEST: u64 = 1 << 20;

/// Maximum number of earlier checks or runs to compare with.
const MAX_EARLIER: usize = 100;

/// A stored result.
#[derive(Debug)]
pub(crate) struct KeptResult {
    pub(crate) path: PathBuf,
    name: String,
    pub(crate) manifest: Manifest,
}

impl KeptResult {
    fn at(path: PathBuf) -> Option<KeptResult> {
        let name = path.file_name()?.to_str()?.to_owned();
        // A link may lead to a folder that is not ours.
        if !path.symlink_metadata().ok()?.is_dir() {
            return None;
        }
        let text = given::bytes(&path.join("manifest.json"), MAX_MANIFEST).ok()?;
        let manifest: Manifest = serde_json::from_slice(&text).ok()?;
        (manifest.schema == MANIFEST_SCHEMA).then_some(KeptResult { path, name, manifest })
    }

    fn bytes(&self) -> u64 {
        let files = fs::read_dir(&self.path).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }

    /// A row of the list: short name, start, command, directory, verdict.
    fn row(&self, back: usize) -> Vec<String> {
        let outcome = match self.manifest.complete {
            _ if self.manifest.verdict.is_empty() => "not finished",
            true => &self.manifest.verdict,
            false => "partial",
        };
        let name = if back == 0 { "last".to_owned() } else { format!("last~{back}") };
        let began = timestamp(self.manifest.started_unix_ns);
        let minute = began.get(..16).unwrap_or(&began).replace('T', " ");
        let words = self.manifest.command.iter().skip(1).map(|word| clean(word));
        let directory = clean(&self.manifest.directory);
        vec![name, minute, words.collect::<Vec<_>>().join(" "), directory, clean(outcome)]
    }
}

/// Columns of the list of results, all left-aligned.
const COLUMNS: [&str; 5] = ["Name", "Began (UTC)", "Command", "In", "Verdict"];

/// All stored results, the oldest first.
pub(crate) fn all(directory: &Path) -> Vec<KeptResult> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut results: Vec<KeptResult> =
        entries.filter_map(|entry| KeptResult::at(entry.path())).collect();
    results.sort_by(|a, b| {
        (a.manifest.started_unix_ns, &a.name).cmp(&(b.manifest.started_unix_ns, &b.name))
    });
    results
}

/// Stores the rates of a check or run with its records, and describes how they compare with those
/// of earlier ones in the same directory.
pub(crate) fn against_earlier(keeper: &mut Keeper, verb: &str, now: &Summary) -> Option<String> {
    let earlier =
        keeper.path().and_then(Path::parent).map(|directory| earlier(directory, verb, u64::MAX));
    keeper.keep(SUMMARY, now);
    history::against_earlier(now, &earlier.unwrap_or_default(), verb)
}

/// Compares a stored check or run with earlier ones in its directory. `None` if it was compared
/// with a reference instead.
pub(crate) fn kept_against_earlier(folder: &Path) -> Option<String> {
    let kept = KeptResult::at(fs::canonicalize(folder).ok()?)?;
    let Manifest { verb, command, started_unix_ns, .. } = &kept.manifest;
    if command.iter().any(|word| word.starts_with("--reference")) {
        return None;
    }
    let earlier = earlier(kept.path.parent()?, verb, *started_unix_ns);
    history::against_earlier(&summary(&kept)?, &earlier, verb)
}

/// Summaries of finished checks or runs in a directory that began before `until_ns` (since 1970),
/// newest first.
fn earlier(directory: &Path, verb: &str, until_ns: u64) -> Vec<Summary> {
    let is_like = |result: &KeptResult| {
        result.manifest.verb == verb
            && result.manifest.started_unix_ns < until_ns
            && !checksums::is_unfinished(&result.path)
    };
    let like = all(directory).into_iter().filter(is_like).rev().take(MAX_EARLIER);
    like.filter_map(|result| summary(&result)).collect()
}

fn summary(result: &KeptResult) -> Option<Summary> {
    let text = given::bytes(&result.path.join(SUMMARY), MAX_MANIFEST).ok()?;
    serde_json::from_slice(&text).ok()
}

/// A parser for arguments that name a result.
pub(crate) fn parser() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|word| named(Path::new(&word)))
}

/// The folder that remains if the command of this folder was killed: NAME.partial.
fn partial(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    folder.with_file_name(name)
}

/// The folder that a word names: an existing path, or the .partial folder of a killed command;
/// `last`, `last~2`, or the beginning of the name of a stored result.
///
/// # Errors
/// If several results match, or there are too few for `last~N`.
fn named(word: &Path) -> Result<PathBuf, String> {
    let partial = partial(word);
    if !word.exists() && partial.exists() {
        return Ok(partial);
    }
    let asked = word.to_str().unwrap_or_default();
    let is_path = word.exists() || asked.is_empty() || asked.contains('/');
    let Some(directory) = keep::directory(None).filter(|_| !is_path) else {
        return Ok(word.to_path_buf());
    };
    let results = all(&directory);
    if let Some(back) = asked.strip_prefix("last") {
        let back = match back.strip_prefix('~') {
            None if back.is_empty() => Some(0),
            None => None,
            Some(number) => number.parse::<usize>().ok(),
        };
        let found = back.map(|back| results.len().checked_sub(back + 1));
        return match found {
            Some(Some(at)) => Ok(results[at].path.clone()),
            Some(None) => {
                let kept = counted(results.len());
                let at = directory.display();
                Err(format!("only {kept} in {at}, which `iosonde report` lists"))
            }
            None => Err("found neither a path nor `last` or `last~NUMBER`".into()),
        };
    }
    let mut matching = results.iter().filter(|result| result.name.starts_with(asked));
    match (matching.next(), matching.next()) {
        (Some(one), None) => Ok(one.path.clone()),
        (Some(one), Some(other)) => {
            Err(format!("{} and {} begin with it; give more of the name", one.name, other.name))
        }
        (None, _) => Ok(word.to_path_buf()),
    }
}

/// The list of stored results, as text.
///
/// # Errors
/// If the configuration file, which has the limit, is invalid.
pub(crate) fn list(directory: &Path) -> Result<String, Failure> {
    let results = all(directory);
    let rows: Vec<Vec<String>> =
        results.iter().rev().enumerate().map(|(back, result)| result.row(back)).rev().collect();
    let mut out = listed(&rows);
    let size: u64 = results.iter().map(KeptResult::bytes).sum();
    let most = config::keep_at_most()?;
    out.push_str(&format!(
        "{}, {} of at most {} (keep-at-most in config.toml), in {}\n",
        counted(results.len()),
        bytes::rough(size),
        bytes::rough(most),
        clean(&directory.to_string_lossy())
    ));
    if size > most {
        let mut kept_bytes = 0;
        let newest = results.iter().rev().take_while(|result| {
            kept_bytes += result.bytes();
            kept_bytes <= most
        });
        out.push_str(&format!(
            "this exceeds the limit: iosonde report --prune {} prints what it would remove\n",
            newest.count().max(1)
        ));
    }
    if let Some(newest) = results.last() {
        let name = clean(&newest.name);
        out.push_str(&format!("iosonde report last, or iosonde report {name}, shows the newest\n"));
    }
    Ok(out)
}

/// The table of these rows; empty without rows.
fn listed(rows: &[Vec<String>]) -> String {
    match rows {
        [] => String::new(),
        rows => {
            let columns = Column::all(&COLUMNS, &[]);
            table(&columns, rows, Rule::None, screen::wrap_at().unwrap_or(usize::MAX)) + "\n"
        }
    }
}

fn counted(results: usize) -> String {
    match results {
        1 => "1 result".to_owned(),
        several => format!("{} results", count::thousands(several as u64)),
    }
}

/// Removes (or lists) all but the newest results; unfinished ones and saved device content stay.
///
/// # Errors
/// If one cannot be removed.
pub(crate) fn prune(directory: &Path, keep: usize, remove: bool) -> Result<String, Failure> {
    let results = all(directory);
    let old = results.len().saturating_sub(keep);
    let (mut out, mut freed) = (String::new(), 0);
    let mut rows = Vec::new();
    for (at, result) in results[..old].iter().enumerate() {
        let reason = match () {
            () if checksums::is_unfinished(&result.path) => Some("not finished"),
            () if result.path.join(Undo::name(1)).exists() => Some("holds saved device content"),
            () => None,
        };
        if let Some(reason) = reason {
            out.push_str(&format!("  left alone, {reason}: {}\n", clean(&result.name)));
            continue;
        }
        freed += result.bytes();
        if remove {
            let about = format!("{} cannot be removed", shown(&result.path));
            fs::remove_dir_all(&result.path).or_environment(about)?;
        }
        rows.push(result.row(results.len() - 1 - at));
    }
    out.push_str(&listed(&rows));
    let size = bytes::rough(freed);
    let count = counted(rows.len());
    out.push_str(&match remove {
        true => format!("removed {count}, {size}\n"),
        false => format!("would remove {count}, {size}; add --remove to do it\n"),
    });
    Ok(out)
}
