//! An iosonde record named by an option or argument: the file itself, or the folder that contains
//! it.

pub(super) mod fleet;
pub(super) mod runs;

use std::fs;
use std::path::{Path, PathBuf};

use super::exit::{Failure, wrong};
use super::intact::AcceptArgs;
pub(super) use iosonde_model::record::packed::read as bounded;
use iosonde_model::record::profile::PROFILE_SCHEMA;
use iosonde_model::record::run::SCHEMA;
use iosonde_model::record::{JsonRecord, ProfileRun, Run};

/// A record of either type.
pub(super) enum Record {
    /// Of `iosonde profile`.
    Profile(Box<ProfileRun>),
    /// Of `iosonde run`.
    Run(Box<Run>),
}

/// Largest size of a record, bytes.
pub(super) const MAX_BYTES: u64 = 1 << 30;

/// The record at a path, its file, and the accepted alterations.
///
/// # Errors
/// If it cannot be read, was altered, or is not an iosonde record. The message begins with `what`,
/// the purpose of the path.
pub(super) fn record(
    what: &str,
    path: &Path,
    accept: AcceptArgs,
) -> Result<(Record, PathBuf, Vec<String>), Failure> {
    let altered = accept.read(path)?;
    let refuse = |path: &Path, why: String| wrong(format!("{what}: `{}`: {why}", path.display()));
    let path = if path.is_dir() {
        within(path).map_err(|why| refuse(path, why))?
    } else {
        path.to_path_buf()
    };
    let text = bounded(&path, MAX_BYTES).map_err(|why| refuse(&path, why))?;
    let expected =
        "expected a record of `iosonde profile` or `iosonde run`, such as 01-profile.json";
    let json = JsonRecord::of(text)
        .map_err(|error| refuse(&path, format!("not JSON ({error}), {expected}")))?;
    let schema = json.schema();
    let malformed = |error: serde_json::Error| {
        refuse(&path, format!("incomplete record of {schema} ({error}); record it again"))
    };
    let record = match schema {
        PROFILE_SCHEMA => Record::Profile(json.read().map_err(malformed)?),
        SCHEMA => Record::Run(json.read().map_err(malformed)?),
        "" => return Err(refuse(&path, format!("not an iosonde record, {expected}"))),
        _ => {
            let why = json.expect(&[PROFILE_SCHEMA, SCHEMA]).err().unwrap_or_default();
            return Err(refuse(&path, why));
        }
    };
    Ok((record, path, altered))
}

/// The names of the entries of a folder that satisfy `is`, sorted.
pub(super) fn names(folder: &Path, is: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is(name)).collect();
    names.sort();
    Ok(names)
}

/// The one record in a result folder.
fn within(folder: &Path) -> Result<PathBuf, String> {
    let ends = ["-profile.json", "-run.json"];
    let is_record = |name: &str| ends.iter().any(|end| name.ends_with(end));
    match names(folder, |name| is_record(name) && !name.starts_with('.'))?.as_slice() {
        [] => {
            Err("contains no record of a profile or a run, expected a result folder of `iosonde \
                   profile` or `iosonde run`"
                .into())
        }
        [name] => Ok(folder.join(name)),
        several => Err(format!(
            "contains {} records; name one of them: {}",
            several.len(),
            several.join(", ")
        )),
    }
}
