//! The folder of an experiment, read again: bounded, and whole or refused with its reason.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::experiment::{
    EXPERIMENT_SCHEMA, ExperimentRun, STAGE_SCHEMA, StageRun, TRIAL_SCHEMA, TrialRun,
};
use super::packed::{self, PACKED};
use super::{HostFacts, JsonRecord};

/// A folder that holds an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentFolder {
    path: PathBuf,
    /// As it was asked.
    pub run: ExperimentRun,
    /// The machine, where it was written down.
    pub host: Option<HostFacts>,
}

/// Why a folder is not read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system says no.
    #[error("`{path}`: {error}")]
    System { path: PathBuf, error: io::Error },
    /// It is not what it should be.
    #[error("`{path}`: {what}")]
    Malformed {
        path: PathBuf,
        /// What was found, and what was expected.
        what: String,
    },
}

/// Largest file that is read, bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Most runs of one experiment that are read.
const MAX_TRIALS: usize = 200_000;

impl ExperimentFolder {
    /// Whether a folder holds an experiment.
    pub fn is_one(path: &Path) -> bool {
        path.join("experiment.json").is_file()
    }

    /// Opens the folder of an experiment, finished or not.
    ///
    /// # Errors
    /// If it is none, is damaged, or was written by a newer program.
    pub fn open(path: &Path) -> Result<ExperimentFolder, FolderError> {
        let run = read(&path.join("experiment.json"), EXPERIMENT_SCHEMA)?;
        let host = path.join("host.json");
        let host = if host.is_file() { Some(facts(&host)?) } else { None };
        Ok(ExperimentFolder { path: path.into(), run, host })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A stage as it was laid out; `None` if it had not begun.
    ///
    /// # Errors
    /// If its file is damaged.
    pub fn stage(&self, name: &str) -> Result<Option<StageRun>, FolderError> {
        let path = self.path.join(StageRun::file_name(name));
        if !path.is_file() {
            return Ok(None);
        }
        read(&path, STAGE_SCHEMA).map(Some)
    }

    /// Names of the files of a stage's runs, in the order in which they were carried out.
    ///
    /// # Errors
    /// If the folder cannot be listed, or holds more than anybody made.
    pub fn trials(&self, stage: &str) -> Result<Vec<String>, FolderError> {
        let folder = self.path.join("trials");
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let said = |error| FolderError::System { path: folder.clone(), error };
        let prefix = format!("{stage}-");
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(said)? {
            let name = entry.map_err(said)?.file_name().to_string_lossy().into_owned();
            let of_stage = name.strip_prefix(&prefix).is_some_and(is_place);
            if of_stage {
                names.push(name);
            }
            if names.len() > MAX_TRIALS {
                return Err(malformed(
                    &folder,
                    format!("more than the limit of {MAX_TRIALS} runs"),
                ));
            }
        }
        names.sort();
        Ok(names)
    }

    /// One run.
    ///
    /// # Errors
    /// If its file is damaged.
    pub fn trial(&self, name: &str) -> Result<TrialRun, FolderError> {
        let path = self.path.join("trials").join(name);
        let trial: TrialRun = read(&path, TRIAL_SCHEMA)?;
        let own = TrialRun::file_name(&trial.stage, trial.position, trial.cell, trial.repeat);
        if plain(&own) != plain(name) {
            let what = format!("it contains data of {own}: it was copied or renamed");
            return Err(malformed(&path, what));
        }
        Ok(trial)
    }
}

/// The name of a run's file as older programs wrote it, which did not compress it.
fn plain(name: &str) -> &str {
    name.strip_suffix(PACKED).unwrap_or(name)
}

/// Whether this is what stands behind the stage in the name of a run's file.
fn is_place(rest: &str) -> bool {
    let digits = rest.split('-').next().unwrap_or_default();
    plain(rest).ends_with(".json")
        && digits.len() == 5
        && digits.bytes().all(|b| b.is_ascii_digit())
}

fn malformed(path: &Path, what: String) -> FolderError {
    FolderError::Malformed { path: path.into(), what }
}

fn read<T: DeserializeOwned>(path: &Path, schema: &str) -> Result<T, FolderError> {
    let wrong = |what| malformed(path, what);
    let record = json(path)?;
    record.expect(&[schema]).map_err(wrong)?;
    record.read().map_err(|error| wrong(format!("incomplete record of {schema} ({error})")))
}

/// A description of the machine, which has no schema.
fn facts(path: &Path) -> Result<HostFacts, FolderError> {
    let wrong = |what| malformed(path, what);
    json(path)?.read().map_err(|error| wrong(format!("not a description of a machine ({error})")))
}

/// A JSON file of bounded length.
fn json(path: &Path) -> Result<JsonRecord, FolderError> {
    let wrong = |what| malformed(path, what);
    let text = packed::read(path, MAX_BYTES).map_err(wrong)?;
    JsonRecord::of(text).map_err(|error| wrong(format!("not a record ({error})")))
}
