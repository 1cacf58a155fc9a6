//! An iosonde result folder: the manifest, the machine, and the records.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::exit::{About, Exit, Failure, shown, wrong};
use crate::cli::recorded::{MAX_BYTES, bounded, names};
use iosonde_model::record::checksums::is_unfinished;
use iosonde_model::record::experiment::{TRIAL_SCHEMA, TrialRun};
use iosonde_model::record::experiment_folder::ExperimentFolder;
use iosonde_model::record::ladder::LADDER_SCHEMA;
use iosonde_model::record::profile::PROFILE_SCHEMA;
use iosonde_model::record::run::SCHEMA;
use iosonde_model::record::store::{MANIFEST_SCHEMA, RunFolder, utc};
use iosonde_model::record::undo::Undo;
use iosonde_model::record::verify::VERIFY_SCHEMA;
use iosonde_model::record::{
    HostFacts, JsonRecord, LadderRun, Manifest, ProfileRun, Run, VerifyRun,
};

/// Folder of the devices in a campaign's output directory.
pub(in crate::cli) const DEVICES: &str = "devices";

/// Largest number of records in a folder.
const MAX_RECORDS: usize = 10_000;
/// Accepted difference of the clocks of two machines, ns.
const CLOCK_SLACK_NS: u64 = 300_000_000_000;

/// Warning for a start time (ns since 1970) that lies in the future.
pub(super) fn clock_warning(started_unix_ns: u64) -> Option<String> {
    let now_ns = iosonde_sys::clock::realtime_ns();
    let started = utc(started_unix_ns);
    (started_unix_ns > now_ns + CLOCK_SLACK_NS).then(|| {
        format!(
            "the start time of the result is {started}, which is in the future: a clock is wrong"
        )
    })
}

pub(super) struct Kept {
    /// The folder, or the file of a single record.
    pub path: PathBuf,
    /// The manifest; absent for a single record and for an unfinished folder.
    pub manifest: Option<Manifest>,
    /// Description of the machine.
    pub host: Option<HostFacts>,
    /// Measurements.
    pub records: Records,
}

/// Records, all of one type.
pub(super) enum Records {
    /// Results of `run` and `check`, each with its file name.
    Runs(Vec<(String, Run)>),
    /// Result of `verify`.
    Verify(Box<VerifyRun>),
    /// Result of `verify fsync`.
    Ladder(Box<LadderRun>),
    /// Result of `profile`.
    Profile(Box<ProfileRun>),
}

impl Kept {
    /// Warnings about the folder itself.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        match &self.manifest {
            _ if self.path.is_dir() && is_unfinished(&self.path) => {
                warnings.push(unfinished_words(&self.path, self.manifest.as_ref()));
            }
            None if self.path.is_dir() => {
                warnings.push("the folder has no manifest: what is there is reported".into());
            }
            Some(manifest) if !manifest.complete => warnings
                .push("partial: the command ended before everything planned was done".into()),
            _ => {}
        }
        warnings.extend(self.started_unix_ns().and_then(clock_warning));
        warnings
    }

    /// Start time of the measurement, ns since 1970.
    pub(super) fn started_unix_ns(&self) -> Option<u64> {
        let of_manifest = self.manifest.as_ref().map(|manifest| manifest.started_unix_ns);
        of_manifest.or(match &self.records {
            Records::Runs(runs) => runs.first().map(|(_, run)| run.started_unix_ns),
            _ => None,
        })
    }

    /// Arguments of the command line.
    pub(super) fn command(&self) -> &[String] {
        self.manifest.as_ref().map_or(&[], |manifest| &manifest.command)
    }
}

/// Whether a folder is an iosonde result, finished or not.
pub(in crate::cli) fn is_folder(path: &Path) -> bool {
    path.join("manifest.json").exists() || path.join("log.jsonl").exists()
}

/// Whether a folder holds the log of a campaign; its results are in other folders beside it.
pub(in crate::cli) fn is_of_campaign(path: &Path) -> bool {
    let manifest = read_manifest(path).ok().flatten();
    manifest.is_some_and(|manifest| manifest.verb == "campaign")
}

/// Reads a result folder or one record.
pub(super) fn kept(path: &Path) -> Result<Kept, Failure> {
    let refuse = |why: String| wrong(format!("`{}`: {why}", path.display()));
    if !path.is_dir() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let records = records(vec![(name, path.to_path_buf())])?;
        return Ok(Kept { path: path.to_path_buf(), manifest: None, host: None, records });
    }
    if path.join(DEVICES).is_dir() {
        let shown = format!("iosonde campaign report {}", path.display());
        return Err(refuse(format!(
            "found a campaign, which has its own report: {shown}; with --page FILE as a page"
        )));
    }
    if !is_folder(path) {
        let why = "found neither manifest.json nor fio results, expected an iosonde result folder \
            or JSON and logs of fio";
        return Err(refuse(why.into()));
    }
    let manifest = read_manifest(path)?;
    let names = match &manifest {
        Some(manifest) if !is_unfinished(path) => manifest.cells.clone(),
        _ => unfinished(path).map_err(refuse)?,
    };
    if names.is_empty() && is_unfinished(path) {
        let words = unfinished_words(path, manifest.as_ref());
        return Err(Failure::new(Exit::Inconclusive, format!("`{}`: {words}", path.display())));
    }
    if let Some(manifest) = &manifest {
        match manifest.verb.as_str() {
            "run" | "check" | "verify" | "verify-fsync" | "profile" => {}
            verb => {
                return Err(refuse(format!(
                    "found a result of `{verb}`, expected one of run, check, verify or profile"
                )));
            }
        }
    }
    if names.is_empty() || names.len() > MAX_RECORDS {
        let found = names.len();
        return Err(refuse(format!("found {found} records, expected 1 to {MAX_RECORDS}")));
    }
    // A manifest is untrusted text: it must not refer outside its folder.
    if let Some(name) = names.iter().find(|name| !is_plain(name)) {
        return Err(refuse(format!(
            "manifest.json: found the record `{name}`, expected the name of a file in the folder"
        )));
    }
    let files = names.into_iter().map(|name| (name.clone(), path.join(name))).collect();
    let host = match path.join("host.json") {
        host if host.exists() => Some(described(&host)?),
        _ => None,
    };
    Ok(Kept { path: path.to_path_buf(), manifest, host, records: records(files)? })
}

/// Whether a name stays within its folder.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}

pub(in crate::cli) fn read_manifest(folder: &Path) -> Result<Option<Manifest>, Failure> {
    let path = folder.join("manifest.json");
    if !path.exists() {
        return Ok(None);
    }
    json(&path, "a manifest", &[MANIFEST_SCHEMA])?
        .read()
        .map(Some)
        .map_err(|error| wrong(format!("`{}`: incomplete manifest ({error})", path.display())))
}

/// State of an unfinished folder: what it holds, and what the user can do with it.
pub(super) fn unfinished_words(folder: &Path, manifest: Option<&Manifest>) -> String {
    let verb = manifest.map_or("iosonde".into(), |manifest| format!("iosonde {}", manifest.verb));
    let is_running = RunFolder::is_in_use(folder);
    let has_ended = match is_running {
        true => format!("unfinished: the command (`{verb}`) is still running"),
        false => format!("unfinished: the command (`{verb}`) was killed before its end"),
    };
    let (count, kind) = match ExperimentFolder::is_one(folder) {
        true => (fs::read_dir(folder.join("trials")).map_or(0, Iterator::count), "run"),
        false => (unfinished(folder).map_or(0, |names| names.len()), "result"),
    };
    let path = folder.display();
    let has_undo = folder.join(Undo::name(1)).exists();
    let holds = match count {
        0 if has_undo => format!(
            "it holds no finished {kind}, but what was saved of the device before it was written, \
             of which there may be no other copy"
        ),
        0 => format!("it holds no finished {kind}, and nothing that could be shown"),
        1 => format!("it holds 1 finished {kind}, which `iosonde report {path}` shows"),
        count => format!("it holds {count} finished {kind}s, which `iosonde report {path}` shows"),
    };
    let next = match ExperimentFolder::is_one(folder) {
        _ if is_running => String::new(),
        true => format!("; `iosonde experiment resume {path}` goes on with it"),
        false if has_undo => "; keep it until that is restored, or is not needed any more".into(),
        false if count == 0 => "; it may be removed".into(),
        false => String::new(),
    };
    format!("{has_ended}; {holds}{next}")
}

/// Records in a folder whose manifest does not list them.
fn unfinished(folder: &Path) -> Result<Vec<String>, String> {
    names(folder, |name| {
        name.ends_with(".json")
            && !name.ends_with(".fio.json")
            && name.split_once('-').is_some_and(|(number, _)| {
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            })
    })
}

/// Reads a description of the machine.
fn described(host: &Path) -> Result<HostFacts, Failure> {
    let text = bounded(host, MAX_BYTES).or_wrong(shown(host))?;
    serde_json::from_slice(&text).map_err(|error| {
        wrong(format!("{}: not a description of the machine ({error})", shown(host)))
    })
}

/// Reads a document of one of these schemas.
pub(super) fn json(path: &Path, what: &str, known: &[&str]) -> Result<JsonRecord, Failure> {
    let text = bounded(path, MAX_BYTES).or_wrong(shown(path))?;
    let json = JsonRecord::of(text)
        .map_err(|error| wrong(format!("{}: not {what} ({error})", shown(path))))?;
    json.expect(known).or_wrong(shown(path))?;
    Ok(json)
}

fn records(files: Vec<(String, PathBuf)>) -> Result<Records, Failure> {
    let known = [SCHEMA, TRIAL_SCHEMA, VERIFY_SCHEMA, LADDER_SCHEMA, PROFILE_SCHEMA];
    let mut runs: Vec<(String, Run)> = Vec::new();
    let several = files.len() > 1;
    for (name, path) in files {
        let json = json(&path, "an iosonde record", &known)?;
        let schema = json.schema();
        let malformed = |error: serde_json::Error| {
            wrong(format!("`{}`: incomplete record of {schema} ({error})", path.display()))
        };
        let alone = match schema {
            SCHEMA => {
                runs.push((name, json.read().map_err(malformed)?));
                continue;
            }
            TRIAL_SCHEMA => {
                let trial: TrialRun = json.read().map_err(malformed)?;
                runs.push((name, trial.run));
                continue;
            }
            VERIFY_SCHEMA => Records::Verify(json.read().map_err(malformed)?),
            LADDER_SCHEMA => Records::Ladder(json.read().map_err(malformed)?),
            _ => Records::Profile(json.read().map_err(malformed)?),
        };
        if several {
            let why = format!("found a record of {schema} among others, expected only one");
            return Err(wrong(format!("`{}`: {why}", path.display())));
        }
        return Ok(alone);
    }
    Ok(Records::Runs(runs))
}
