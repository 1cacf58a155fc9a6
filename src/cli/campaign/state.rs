//! How far a campaign is, read from its folders: they alone are the truth, so that a campaign that
//! was killed at any point can be gone on with.

use std::fs;
use std::path::{Path, PathBuf};

use super::events::EVENTS;
use super::file::{Campaign, Device, Requested};
use super::wrong;
use crate::cli::exit::Failure;
use crate::cli::report::read_manifest;
use iosonde_model::record::given;

/// Largest file of a campaign that is read, bytes.
const MAX_BYTES: u64 = 64 << 20;

/// How far one experiment on one device is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// Nothing was measured.
    Waiting,
    /// Begun and not complete: its folder, and the runs in it.
    Partial(PathBuf, usize),
    /// Complete: its folder, exit code and verdict.
    Done(PathBuf, u8, String),
}

/// An experiment on a device.
#[derive(Clone, Debug)]
pub(super) struct Step<'a> {
    pub device: &'a Device,
    pub requested: &'a Requested,
    /// Folder of its results.
    pub folder: PathBuf,
}

/// Every experiment of a device, in order.
pub(super) fn steps<'a>(
    campaign: &'a Campaign,
    device: &'a Device,
    output: &Path,
) -> Vec<Step<'a>> {
    let own = device.folder(output);
    let all = campaign.steps(device);
    all.map(|(number, requested)| {
        let folder = own.join(requested.folder(number));
        Step { device, requested, folder }
    })
    .collect()
}

impl Step<'_> {
    /// How far it is.
    ///
    /// # Errors
    /// If its folder cannot be read.
    pub(super) fn state(&self) -> Result<State, Failure> {
        let Some(folder) = newest(&self.folder, "-experiment-")? else {
            return Ok(State::Waiting);
        };
        let trials = fs::read_dir(folder.join("trials")).map_or(0, Iterator::count);
        let is_partial = folder.to_string_lossy().ends_with(".partial");
        let manifest = if is_partial { None } else { read_manifest(&folder)? };
        Ok(match manifest {
            Some(manifest) if manifest.complete => {
                State::Done(folder, manifest.exit_code, manifest.verdict)
            }
            _ => State::Partial(folder, trials),
        })
    }
}

/// The folder of the campaign itself in its output directory.
///
/// # Errors
/// If there is none.
pub(super) fn folder(output: &Path) -> Result<PathBuf, Failure> {
    newest(output, "-campaign-")?.ok_or_else(|| {
        let shown = output.display();
        wrong(format!("`{shown}` holds no campaign: give the output directory of `campaign run`"))
    })
}

/// Whether a directory holds a campaign.
pub(super) fn is_one(output: &Path) -> bool {
    newest(output, "-campaign-").is_ok_and(|found| found.is_some())
}

/// The campaign in its output directory, as it was begun.
///
/// # Errors
/// If there is none, or it is damaged.
pub(super) fn read(output: &Path) -> Result<(Campaign, PathBuf), Failure> {
    let folder = folder(output)?;
    let path = folder.join("campaign.json");
    let said = |what: String| wrong(format!("`{}`: {what}", path.display()));
    let text = given::bytes(&path, MAX_BYTES).map_err(|error| said(error.to_string()))?;
    let campaign = serde_json::from_slice(&text)
        .map_err(|error| said(format!("not a campaign of this version ({error})")))?;
    Ok((campaign, folder))
}

/// The lines of its event log so far.
pub(super) fn events(folder: &Path) -> String {
    given::text(&folder.join(EVENTS), MAX_BYTES).unwrap_or_default()
}

/// The last folder by name that holds this word.
fn newest(parent: &Path, word: &str) -> Result<Option<PathBuf>, Failure> {
    if !parent.is_dir() {
        return Ok(None);
    }
    let said = |error| wrong(format!("`{}`: {error}", parent.display()));
    let mut found: Option<PathBuf> = None;
    for entry in fs::read_dir(parent).map_err(said)? {
        let path = entry.map_err(said)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains(word) && path.is_dir() && found.as_ref().is_none_or(|old| *old < path) {
            found = Some(path);
        }
    }
    Ok(found)
}
