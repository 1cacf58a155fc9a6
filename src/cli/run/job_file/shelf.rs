//! Opens or creates the targets of a job file's groups, and keeps them for later groups.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::{Beside, device};
use crate::cli::exit::{Failure, wrong};
use crate::cli::output::note;
use crate::cli::place::Place;
use iosonde_engine::target::create::{Fresh, created};
use iosonde_engine::target::undo::Saved;
use iosonde_engine::target::{Direct, Held, Intent, TargetError, open};
use iosonde_model::plan::{EngineKind, Target};
use iosonde_model::record::export::directory_of;
use iosonde_model::spec::fio::{Asking, TargetRequest};
use iosonde_model::units::bytes;

/// Open files that a group writes, or that were created because they did not exist. They stay open
/// over all groups, so that one can read what another wrote.
pub(super) struct Shelf {
    /// Largest size that any group needs of each path, bytes.
    needed: BTreeMap<String, Option<u64>>,
    /// Paths that a group writes.
    written: BTreeSet<String>,
    kept: BTreeMap<String, Held>,
    /// Created files, removed unless the run begins, each with the note printed then.
    made: Vec<(Fresh, String)>,
}

impl Shelf {
    pub(super) fn new(askings: &[Asking]) -> Shelf {
        let mut needed: BTreeMap<String, Option<u64>> = BTreeMap::new();
        let named = askings.iter().flat_map(|asking| &asking.targets);
        for target in named {
            let known = needed.entry(target.path.clone()).or_insert(target.bytes);
            *known = known.zip(target.bytes).map(|(a, b)| a.max(b));
        }
        let is_written =
            |path: &&String| askings.iter().any(|asking| asking.writes_to(path.as_str()));
        let written = needed.keys().filter(is_written).cloned().collect();
        Shelf { needed, written, kept: BTreeMap::new(), made: Vec::new() }
    }

    /// Whether a path is opened for writing from the start, because a group writes it or it must be
    /// lengthened: another descriptor of ours would later count as use by others.
    fn is_written(&self, path: &str, readonly: bool) -> bool {
        let needed = self.needed.get(path).copied().flatten().unwrap_or(0);
        let is_short = || Path::new(path).metadata().is_ok_and(|facts| facts.len() < needed);
        self.written.contains(path) || (!readonly && Path::new(path).is_file() && is_short())
    }

    /// Keeps the created files when the run begins.
    pub(super) fn keep(&mut self) {
        for (fresh, said) in self.made.drain(..) {
            fresh.keep();
            note(&said);
        }
    }

    /// Saved content of the devices that are written.
    pub(super) fn undo(&self) -> Vec<Arc<Saved>> {
        self.kept.values().flat_map(|held| held.undo.clone()).collect()
    }
}

/// Open targets of a group.
pub(super) struct Opened {
    pub(super) held: Vec<Held>,
    /// Indices of the created or lengthened targets, which must be laid out.
    pub(super) fresh: Vec<u16>,
    pub(super) targets: Vec<Target>,
}

pub(super) fn opened(
    beside: &Beside<'_>,
    place: &Place,
    asking: &Asking,
    shelf: &mut Shelf,
) -> Result<Opened, Failure> {
    let mut opened = Opened { held: Vec::new(), fresh: Vec::new(), targets: Vec::new() };
    for (index, requested) in (0u16..).zip(&asking.targets) {
        let path = Path::new(&requested.path);
        let direct = if requested.direct { Direct::Demanded } else { Direct::Never };
        let writes = shelf.is_written(&requested.path, beside.line.readonly);
        let held = if let Some(held) = shelf.kept.get(&requested.path) {
            if held.direct != requested.direct && held.namespace.is_none() {
                let what = "jobs that share a file have to agree on direct";
                return Err(wrong(format!("{} filename: {what}", requested.place)));
            }
            held.clone()
        } else {
            let intent = Intent {
                passthrough: asking.engine.kind == EngineKind::IoUringCmd,
                ..device::intent(beside.args, path, writes)
            };
            match open::existing(path, &intent, direct) {
                Ok(held) => {
                    if writes {
                        shelf.kept.insert(requested.path.clone(), held.clone());
                    }
                    held
                }
                Err(TargetError::Missing(_)) => {
                    if let Some(option) = asking.forbids_creation(index) {
                        return Err(wrong(format!(
                            "{} `{}` does not exist, and {option} creates no file",
                            requested.place, requested.path
                        )));
                    }
                    let bytes = shelf.needed.get(&requested.path).copied().flatten();
                    let Some(bytes) = bytes else {
                        return Err(wrong(format!(
                            "{} filename: `{}` does not exist; give a size in bytes to create it",
                            requested.place, requested.path
                        )));
                    };
                    if asking.prepares(index) {
                        opened.fresh.push(index);
                    }
                    let held = made(beside, requested, bytes, direct, &mut shelf.made)
                        .map_err(|error| at(&requested.place, &error))?;
                    shelf.kept.insert(requested.path.clone(), held.clone());
                    held
                }
                Err(error) => return Err(at(&requested.place, &Failure::from(error))),
            }
        };
        let needed = requested.bytes.filter(|needed| *needed > held.bytes);
        let held = match needed {
            None => held,
            Some(needed) => {
                if asking.prepares(index) && !opened.fresh.contains(&index) {
                    opened.fresh.push(index);
                }
                longer(beside, requested, &held, needed, shelf)?
            }
        };
        opened.targets.push(held.target(path, held.bytes, &held.describe(&place.root)));
        opened.held.push(held);
    }
    Ok(opened)
}

/// Lengthens a file that is shorter than its jobs require, as fio does, if it may be written.
fn longer(
    beside: &Beside<'_>,
    requested: &TargetRequest,
    held: &Held,
    needed: u64,
    shelf: &mut Shelf,
) -> Result<Held, Failure> {
    let (place, path) = (&requested.place, Path::new(&requested.path));
    if !path.is_file() || beside.line.readonly {
        return Err(wrong(format!(
            "{place} size and offset reach to {needed} B, but `{}` has {} B",
            requested.path, held.bytes
        )));
    }
    let of_all = shelf.needed.get(&requested.path).copied().flatten();
    let bytes = of_all.unwrap_or(needed).max(needed);
    open::space(directory_of(path))
        .and_then(|(free, total)| open::fits(path, bytes - held.bytes, free, total))
        .map_err(|error| at(place, &Failure::from(error)))?;
    if beside.args.run.dry_run {
        return Ok(Held { bytes, ..held.clone() });
    }
    let held = open::lengthened(held, bytes)?;
    shelf.kept.insert(requested.path.clone(), held.clone());
    note(&format!(
        "note: {place} `{}` is lengthened to {}, as by fio",
        requested.path,
        bytes::exact(bytes)
    ));
    Ok(held)
}

/// Adds the place in the job file to a failure.
pub(super) fn at(place: &iosonde_model::spec::fio::Place, failure: &Failure) -> Failure {
    let mut failure = failure.clone();
    failure.message = format!("{place} {}", failure.message);
    failure
}

/// Creates a missing file exclusively: under its name, which stays, or unnamed if it is to be
/// unlinked after the run.
fn made(
    beside: &Beside<'_>,
    requested: &TargetRequest,
    bytes: u64,
    direct: Direct,
    kept: &mut Vec<(Fresh, String)>,
) -> Result<Held, Failure> {
    let path = Path::new(&requested.path);
    let directory = directory_of(path);
    if beside.line.readonly {
        return Err(wrong(format!("--readonly: `{}` does not exist", requested.path)));
    }
    let (free_bytes, total_bytes) = open::space(directory)?;
    open::fits(directory, bytes, free_bytes, total_bytes)?;
    if beside.args.run.dry_run {
        return Ok(open::rehearsed(directory, bytes, direct)?);
    }
    if requested.unlinked {
        return Ok(open::unnamed(directory, bytes, direct)?);
    }
    let (held, fresh) = created(path, bytes, direct)?;
    let said = format!(
        "note: {} `{}` ({}) is created, and stays; unlink=1 removes it after the run",
        requested.place,
        requested.path,
        bytes::exact(bytes)
    );
    kept.push((fresh, said));
    Ok(held)
}
