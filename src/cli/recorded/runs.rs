//! Runs named by an argument: a record, a result folder with many, a directory of such folders, or
//! a baseline. Each is read, evaluated and dropped, so that only one record is in memory at a time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{MAX_BYTES, bounded};
use crate::cli::exit::{Failure, wrong};
use crate::cli::intact::AcceptArgs;
use crate::cli::report::is_of_campaign;
use iosonde_analysis::comparison::{BASELINE_SCHEMA, Baseline, Observation};
use iosonde_model::plan::design::Level;
use iosonde_model::record::checksums::is_unfinished;
use iosonde_model::record::experiment::{TRIAL_SCHEMA, TrialRun};
use iosonde_model::record::hosts::{HOSTS, HostsRun};
use iosonde_model::record::profile::PROFILE_SCHEMA;
use iosonde_model::record::run::{Run, SCHEMA};
use iosonde_model::record::store::{MANIFEST_SCHEMA, Manifest};
use iosonde_model::record::{HostFacts, JsonRecord};

/// Largest number of records per argument.
const MAX_RUNS: usize = 20_000;
/// Largest total size, bytes.
const MAX_TOTAL: u64 = 8 << 30;
/// Largest manifest or host description, bytes.
const MAX_FACTS: u64 = 16 << 20;
/// Largest nesting depth of folders.
const MAX_DEPTH: usize = 4;

/// Kind of content at a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::cli) enum Meaning {
    /// The result of `iosonde profile`, or unknown.
    Profile,
    /// Runs in any form.
    Runs,
}

/// Kind of content at a path. An unreadable path is reported by its reader.
pub(in crate::cli) fn meaning(path: &Path) -> Meaning {
    if path.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let is_profile = names.any(|name| name.ends_with("-profile.json"));
        return if is_profile { Meaning::Profile } else { Meaning::Runs };
    }
    let json = bounded(path, MAX_BYTES).ok().and_then(|text| JsonRecord::of(text).ok());
    let schema = json.as_ref().map(JsonRecord::schema).unwrap_or_default();
    let of_runs = ["iosonde.run/", "iosonde.trial/", "iosonde.baseline/"];
    if of_runs.iter().any(|front| schema.starts_with(front)) {
        Meaning::Runs
    } else {
        Meaning::Profile
    }
}

/// Every run at a path, and the accepted alterations there, in words.
///
/// # Errors
/// If a file cannot be read, was altered or is not an iosonde record, or there is no record. The
/// message begins with `what`.
pub(in crate::cli) fn observations(
    what: &str,
    path: &Path,
    accept: AcceptArgs,
) -> Result<(Vec<Observation>, Vec<String>), Failure> {
    let mut found = Vec::new();
    let altered = visit(what, path, accept, &mut |read| match read {
        Read::Run { run, cell, host, .. } => found.push(Observation::of(&run, &cell, host)),
        Read::Baseline(baseline) => found.extend(baseline.runs),
    })?;
    Ok((found, altered))
}

/// Content of a record.
pub(in crate::cli) enum Read<'a> {
    Run {
        /// Name of the machine, if known.
        machine: Option<String>,
        run: Box<Run>,
        /// Cell of an experiment; empty for other runs.
        cell: String,
        /// The machine, if the folder describes it.
        host: Option<&'a HostFacts>,
    },
    Baseline(Baseline),
}

/// Reads every record at a path one by one, and returns the accepted alterations, in words.
///
/// # Errors
/// As [`observations`].
pub(in crate::cli) fn visit(
    what: &str,
    path: &Path,
    accept: AcceptArgs,
    with: &mut dyn FnMut(Read<'_>),
) -> Result<Vec<String>, Failure> {
    let mut reader = Reader { what, accept, altered: Vec::new(), with, count: 0, bytes: 0 };
    if path.is_dir() {
        reader.folder(path, 0)?;
    } else {
        reader.altered = accept.read(path)?;
        let machines = path.parent().map(Machines::of).unwrap_or_default();
        reader.file(path, &machines)?;
    }
    if reader.count == 0 {
        let why = "contains no record of a run, expected a result folder of `iosonde run`, or a \
                   directory of such folders";
        return Err(reader.refuse(path, why));
    }
    Ok(reader.altered)
}

struct Reader<'a> {
    what: &'a str,
    accept: AcceptArgs,
    /// Accepted alterations, in words.
    altered: Vec<String>,
    with: &'a mut dyn FnMut(Read<'_>),
    /// Records so far.
    count: usize,
    bytes: u64,
}

impl Reader<'_> {
    fn refuse(&self, path: &Path, why: impl std::fmt::Display) -> Failure {
        wrong(format!("{}: `{}`: {why}", self.what, path.display()))
    }

    /// Reads a result folder, or a directory of such folders.
    fn folder(&mut self, folder: &Path, depth: usize) -> Result<(), Failure> {
        if is_of_campaign(folder) {
            return Ok(());
        }
        let altered = self.accept.read(folder)?;
        self.altered.extend(altered);
        let machines = Machines::of(folder);
        if folder.join("manifest.json").exists() && !is_unfinished(folder) {
            let cells = self.cells(folder)?;
            for cell in cells {
                self.file(&folder.join(cell), &machines)?;
            }
            return Ok(());
        }
        let entries = fs::read_dir(folder).map_err(|error| self.refuse(folder, error))?;
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok())
            .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
            .map(|entry| entry.path())
            .take(MAX_RUNS)
            .collect();
        paths.sort();
        for path in paths {
            // An unfinished folder has no checksums and may be truncated.
            let is_partial = path.extension().is_some_and(|extension| extension == "partial");
            if path.is_dir() && !is_partial && depth < MAX_DEPTH {
                self.folder(&path, depth + 1)?;
            } else if path.to_string_lossy().ends_with("-run.json") {
                self.file(&path, &machines)?;
            }
        }
        Ok(())
    }

    /// Files of a folder with one run each, as the manifest lists them.
    fn cells(&self, folder: &Path) -> Result<Vec<String>, Failure> {
        let path = folder.join("manifest.json");
        let text = bounded(&path, MAX_FACTS).map_err(|why| self.refuse(&path, why))?;
        let json = JsonRecord::of(text)
            .map_err(|error| self.refuse(&path, format!("not JSON ({error})")))?;
        json.expect(&[MANIFEST_SCHEMA]).map_err(|why| self.refuse(&path, why))?;
        let manifest: Manifest = json
            .read()
            .map_err(|error| self.refuse(&path, format!("incomplete manifest ({error})")))?;
        let is_inside = |name: &String| {
            let mut parts = Path::new(name).components();
            !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
        };
        match manifest.cells.iter().find(|name| !is_inside(name)) {
            Some(name) => {
                Err(self.refuse(&path, format!("lists `{name}`, which is not in the folder")))
            }
            None => Ok(manifest.cells),
        }
    }

    /// Reads a record or a baseline.
    fn file(&mut self, path: &Path, machines: &Machines) -> Result<(), Failure> {
        let text = bounded(path, MAX_BYTES).map_err(|why| self.refuse(path, why))?;
        self.bytes += text.len() as u64;
        if self.count >= MAX_RUNS || self.bytes > MAX_TOTAL {
            let why = format!("more than the limit of {MAX_RUNS} records or {MAX_TOTAL} B");
            return Err(self.refuse(path, why));
        }
        let expected = "expected a record of `iosonde run`, such as 01-run.json, or a baseline";
        let json = JsonRecord::of(text)
            .map_err(|error| self.refuse(path, format!("not JSON ({error}), {expected}")))?;
        let schema = json.schema();
        let malformed = |error: serde_json::Error| {
            self.refuse(path, format!("incomplete record of {schema} ({error}); record it again"))
        };
        let (host, machine) = (machines.facts.as_ref(), machines.name_of(path));
        let read = match schema {
            SCHEMA => Read::Run {
                machine,
                run: json.read().map_err(malformed)?,
                cell: String::new(),
                host,
            },
            TRIAL_SCHEMA => {
                let trial: TrialRun = json.read().map_err(malformed)?;
                Read::Run { machine, cell: cell_of(&trial), run: Box::new(trial.run), host }
            }
            BASELINE_SCHEMA => Read::Baseline(json.read().map_err(malformed)?),
            PROFILE_SCHEMA => {
                let why = "a profile, but runs are compared with runs; to score a replay, give the \
                    folder of the profile itself (…-profile-…) first";
                return Err(self.refuse(path, why));
            }
            _ => {
                let known = [SCHEMA, TRIAL_SCHEMA, BASELINE_SCHEMA];
                let why = json.expect(&known).err().unwrap_or_default();
                return Err(self.refuse(path, why));
            }
        };
        self.count += match &read {
            Read::Run { .. } => 1,
            Read::Baseline(baseline) => baseline.runs.len(),
        };
        (self.with)(read);
        Ok(())
    }
}

/// Unique name of a trial's cell. It includes the stage, since stages may have equal axes.
fn cell_of(trial: &TrialRun) -> String {
    let level = |level: &Level| format!("{}={}", level.axis, level.label);
    let parts = std::iter::once(trial.stage.clone()).chain(trial.levels.iter().map(level));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Machines on which the records of a folder were made.
#[derive(Default)]
struct Machines {
    /// The machine, if the folder describes it.
    facts: Option<HostFacts>,
    /// Host of each record in a result of several hosts.
    hosts: BTreeMap<String, String>,
}

impl Machines {
    fn of(folder: &Path) -> Machines {
        let facts = described(&folder.join("host.json"));
        let record: Option<HostsRun> = described(&folder.join(HOSTS));
        let hosts = record.into_iter().flat_map(|record| record.hosts).flat_map(|host| {
            host.cells.into_iter().map(move |cell| (cell.file, host.name.clone()))
        });
        Machines { facts, hosts: hosts.collect() }
    }

    fn name_of(&self, path: &Path) -> Option<String> {
        let file = path.file_name()?.to_string_lossy();
        let named = self.hosts.get(file.as_ref()).cloned();
        named.or_else(|| self.facts.as_ref()?.hostname.clone())
    }
}

fn described<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&bounded(path, MAX_FACTS).ok()?).ok()
}
