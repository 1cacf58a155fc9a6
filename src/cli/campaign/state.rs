//! Progress of a campaign, derived only from its folders, so that a campaign killed at any point
//! can be resumed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::events::EVENTS;
use crate::cli::exit::{About, Failure, shown, wrong};
use crate::cli::experiment::study;
use crate::cli::report::{DEVICES, read_manifest};
use iosonde_model::record::experiment::Purged;
use iosonde_model::record::experiment_folder::ExperimentFolder;
use iosonde_model::record::given;
use iosonde_model::spec::campaign::{Campaign, Device, Requested};

/// Largest file that is read, bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Part of a folder's name, and the file that marks it as begun: a power cut may come between
/// creating the two.
const CAMPAIGN: (&str, &str) = ("-campaign-", "campaign.json");
const EXPERIMENT: (&str, &str) = ("-experiment-", "experiment.json");

/// Progress of an experiment on a device.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// Nothing was measured.
    Waiting,
    /// Begun and not complete: folder and number of runs.
    Partial(PathBuf, usize),
    /// Complete: folder, exit code and verdict.
    Done(PathBuf, u8, String),
}

/// An experiment on a device.
#[derive(Clone, Debug)]
pub(super) struct Step<'a> {
    pub device: &'a Device,
    pub requested: &'a Requested,
    /// Folder for its results.
    pub folder: PathBuf,
}

/// Folder for the results of a device.
pub(super) fn folder_of(device: &Device, output: &Path) -> PathBuf {
    output.join(DEVICES).join(&device.name)
}

/// All experiments of a device, in order.
pub(super) fn steps<'a>(
    campaign: &'a Campaign,
    device: &'a Device,
    output: &Path,
) -> Vec<Step<'a>> {
    let own = folder_of(device, output);
    let all = campaign.steps(device);
    all.map(|(number, requested)| {
        let folder = own.join(requested.folder(number));
        Step { device, requested, folder }
    })
    .collect()
}

impl Step<'_> {
    /// Progress of the step.
    ///
    /// # Errors
    /// If its folder cannot be read.
    pub(super) fn state(&self) -> Result<State, Failure> {
        let Some(folder) = newest(&self.folder, EXPERIMENT)? else {
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

    /// Why it is incomplete, as far as the records show; empty otherwise.
    pub(super) fn missing(&self) -> String {
        match self.state() {
            Ok(State::Partial(folder, _)) => {
                study(&folder).map_or_else(|f| f.message, |s| s.missing())
            }
            Ok(State::Waiting | State::Done(..)) => String::new(),
            Err(failure) => failure.message,
        }
    }

    /// Modification time of its folder. Runs do not change it: they are stored in a subfolder.
    pub(super) fn changed(&self) -> Option<SystemTime> {
        let folder = newest(&self.folder, EXPERIMENT).ok().flatten()?;
        fs::metadata(folder).ok()?.modified().ok()
    }

    /// Whether one of its stages purged or preconditioned the device.
    pub(super) fn is_prepared(&self) -> bool {
        let done = self.happened();
        done.iter().any(|(action, _)| ["purge", "precondition"].contains(action))
    }

    /// Events of its stages before their runs, for the log. Unreadable records are left to the
    /// report.
    pub(super) fn happened(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        let name = &self.requested.name;
        let folder = newest(&self.folder, EXPERIMENT).ok().flatten();
        let opened = folder.and_then(|folder| ExperimentFolder::open(&folder).ok());
        let Some(opened) = opened else { return all };
        let stages = opened.run.experiment.stages.iter();
        for begun in stages.filter_map(|stage| opened.stage(&stage.name).ok().flatten()) {
            let of = format!("{name}, stage {}", begun.stage);
            // While the stage runs, the state afterwards is not known.
            if let Some((cache, after)) =
                begun.write_cache.as_ref().and_then(|c| Some((c, c.after?)))
            {
                let (before, during) = (cache.before.word(), cache.during.word());
                let after = after.word();
                let words = format!("{of}: {before}, during the stage {during}, now {after}");
                all.push(("write-cache", words));
            }
            let of_preparations = begun.prepared.iter().filter_map(|each| each.purge.as_ref());
            let purges: Vec<&Purged> = match begun.purges.as_slice() {
                // Older programs stored purges only with the preparation.
                [] => of_preparations.collect(),
                all => all.iter().collect(),
            };
            for purge in purges {
                let (blank, checked) = (purge.blank_blocks, purge.checked_blocks);
                let words = format!(
                    "{of}: {} ({}), {blank} of {checked} blocks blank, ended {}",
                    purge.method,
                    purge.reason,
                    purge.ended_unix_ns / 1_000_000_000,
                );
                all.push(("purge", words));
            }
            for prepared in &begun.prepared {
                if !prepared.decision.is_empty() {
                    all.push(("skip-decision", format!("{of}: {}", prepared.decision)));
                }
                let ended_s = prepared.ended_unix_ns / 1_000_000_000;
                if prepared.passes > 0 {
                    let (passes, written) = (prepared.passes, prepared.written_bytes);
                    let words = format!("{of}: {passes} passes, {written} B, ended {ended_s}");
                    all.push(("precondition", words));
                }
            }
        }
        all
    }
}

/// Campaign folder in the output directory.
///
/// # Errors
/// If there is none.
pub(super) fn folder(output: &Path) -> Result<PathBuf, Failure> {
    newest(output, CAMPAIGN)?.ok_or_else(|| {
        let shown = output.display();
        wrong(format!("`{shown}` holds no campaign: give the output directory of `campaign run`"))
    })
}

/// Whether a directory holds a campaign.
pub(super) fn is_one(output: &Path) -> bool {
    newest(output, CAMPAIGN).is_ok_and(|found| found.is_some())
}

/// Reads the campaign in the output directory, as it was begun.
///
/// # Errors
/// If there is none, or it is damaged.
pub(super) fn read(output: &Path) -> Result<(Campaign, PathBuf), Failure> {
    let folder = folder(output)?;
    let path = folder.join("campaign.json");
    let text = given::bytes(&path, MAX_BYTES).or_wrong(shown(&path))?;
    let campaign = serde_json::from_slice(&text).map_err(|error| {
        wrong(format!("{}: not a campaign of this version ({error})", shown(&path)))
    })?;
    Ok((campaign, folder))
}

/// Lines of the event log so far.
pub(super) fn events(folder: &Path) -> String {
    given::text(&folder.join(EVENTS), MAX_BYTES).unwrap_or_default()
}

/// Last folder of a kind, by name.
fn newest(parent: &Path, (word, file): (&str, &str)) -> Result<Option<PathBuf>, Failure> {
    if !parent.is_dir() {
        return Ok(None);
    }
    let paths: io::Result<Vec<PathBuf>> =
        fs::read_dir(parent).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains(word) && path.join(file).is_file()
    };
    Ok(paths.or_wrong(shown(parent))?.into_iter().filter(is_one).max())
}
