//! Reads the folder of an experiment. Files of excessive length or with damage are refused.

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
    /// The experiment as requested.
    pub run: ExperimentRun,
    /// The machine, if it was recorded.
    pub host: Option<HostFacts>,
}

/// Why a folder cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A system call failed.
    #[error("`{path}`: {error}")]
    System { path: PathBuf, error: io::Error },
    /// Its content is not as expected.
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
    /// If it is not such a folder, is damaged, or was written by a newer program.
    pub fn open(path: &Path) -> Result<ExperimentFolder, FolderError> {
        let run = read(&path.join("experiment.json"), EXPERIMENT_SCHEMA)?;
        let host = path.join("host.json");
        let host = if host.is_file() { Some(facts(&host)?) } else { None };
        Ok(ExperimentFolder { path: path.into(), run, host })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Layout of a stage; `None` if the stage had not begun.
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

    /// Names of the files of a stage's runs, in execution order.
    ///
    /// # Errors
    /// If the folder cannot be listed or has too many runs.
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

    /// Reads one run.
    ///
    /// # Errors
    /// If its file is damaged, copied or renamed.
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

/// Name of a run's file without the suffix of compression, as older programs wrote it.
fn plain(name: &str) -> &str {
    name.strip_suffix(PACKED).unwrap_or(name)
}

/// Whether this can follow the stage in the name of a run's file.
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

/// Reads the description of the machine, which has no schema.
fn facts(path: &Path) -> Result<HostFacts, FolderError> {
    let wrong = |what| malformed(path, what);
    json(path)?.read().map_err(|error| wrong(format!("not a description of a machine ({error})")))
}

/// Reads a JSON file of limited length.
fn json(path: &Path) -> Result<JsonRecord, FolderError> {
    let wrong = |what| malformed(path, what);
    let text = packed::read(path, MAX_BYTES).map_err(wrong)?;
    JsonRecord::of(text).map_err(|error| wrong(format!("not a record ({error})")))
}
