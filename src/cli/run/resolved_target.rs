//! Opens or creates the targets of a run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::Args;

use super::request::Request;
use super::words::Extent;
use super::{RunArgs, device, vhost};
use crate::cli::consent::ConsentArgs;
use crate::cli::exit::{About, Failure, wrong};
use crate::cli::place::{self, Place, medium, print_link};
use iosonde_engine::backend::sim::Model;
use iosonde_engine::engine::Medium;
use iosonde_engine::target::{Held, Intent, TargetError, open};
use iosonde_model::plan::{EngineKind, Target};
use iosonde_model::spec::WorksOn;

#[derive(Args, Debug)]
#[command(next_help_heading = "Target")]
pub(super) struct TargetArgs {
    /// File, block device or directory (several are used in turn); the socket of a vhost-user-blk
    /// server; for the simulated engine, the device spec
    #[arg(long, value_name = "PATH")]
    path: Vec<PathBuf>,
    /// As in fio: several are separated by `:`, and `\:` is a colon
    #[arg(long, value_name = "PATH:PATH…", conflicts_with = "path")]
    filename: Option<OsString>,
    /// Length of the region of a job, or percent of the target [default: the rest of the target
    /// after --offset]
    #[arg(long, visible_alias = "filesize", value_name = "SIZE|%")]
    pub(super) size: Option<String>,
    /// First byte of the region, or percent of the target [default: 0]
    #[arg(long, value_name = "SIZE|%")]
    pub(super) offset: Option<String>,
    /// Use only this part of the region, of so many equal parts, such as 2/4
    #[arg(long, value_name = "PART/PARTS")]
    pub(super) share: Option<String>,
    #[command(flatten)]
    pub(super) consent: ConsentArgs,
}

/// Open targets of a run.
pub(super) struct ResolvedTarget {
    pub(super) medium: Medium,
    /// First target, which represents all in the record.
    pub(super) held: Option<Held>,
    /// All targets; empty if the target is not a file.
    pub(super) all: Vec<Held>,
    pub(super) targets: Vec<Target>,
    /// First byte of the region.
    pub(super) offset_bytes: u64,
    /// Whether a target has data to make durable at the end.
    pub(super) durable: bool,
    /// Indices of the files created for this run, which must be laid out.
    pub(super) fresh: Vec<u16>,
    /// Reasons why direct I/O is not in effect, one per such target.
    pub(super) warnings: Vec<String>,
}

/// Default size of the null engine's target.
const NULL_BYTES: u64 = 1 << 30;
/// Largest number of targets of a run.
const MAX_TARGETS: usize = 1024;

impl TargetArgs {
    /// The targets in order of use.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.filename.as_deref().map_or_else(|| self.path.clone(), split)
    }

    /// First target as given: a path, or the spec of a simulated device.
    pub(super) fn words(&self) -> String {
        let first = self.filename.as_deref().or(self.path.first().map(|path| path.as_os_str()));
        first.map(OsStr::to_string_lossy).unwrap_or_default().into_owned()
    }
}

/// Splits at colons that no backslash precedes.
fn split(list: &OsStr) -> Vec<PathBuf> {
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    let mut bytes = list.as_bytes().iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if bytes.next_if_eq(&&b':').is_some() => part.push(b':'),
            b':' => parts.push(std::mem::take(&mut part)),
            byte => part.push(*byte),
        }
    }
    parts.push(part);
    parts.into_iter().map(|part| OsString::from_vec(part).into()).collect()
}

/// Opens or creates the targets.
pub(super) fn resolve_target(
    args: &RunArgs,
    requested: &Request,
    place: &Place,
) -> Result<ResolvedTarget, Failure> {
    let plain = |path, bytes| Target { path, bytes, direct: false, align_bytes: 1 };
    match requested.engine.kind.works_on() {
        WorksOn::Nothing => {
            if let Some(path) = args.target.paths().iter().find(|path| path.as_os_str() != "null") {
                return Err(wrong(format!(
                    "--path={} has no effect: the null engine uses no target",
                    path.display()
                )));
            }
            let region = requested.region(match requested.size {
                Some(Extent::Bytes(_)) => u64::MAX,
                _ => requested.offset_bytes().saturating_add(NULL_BYTES),
            })?;
            let region = requested.share_of(region.0, region.1)?;
            Ok(ResolvedTarget::of(Medium::Null(None), plain("null".into(), region.1), region.0))
        }
        WorksOn::Simulation => {
            if let Some(second) = args.target.path.get(1) {
                let message =
                    format!("--path={} has no effect: one device is simulated", second.display());
                return Err(wrong(message));
            }
            let words = args.target.words();
            let model = Model::parse(&words).or_wrong("--path")?;
            let region = within(requested, model.bytes, "the simulated device")?;
            let target = plain(format!("sim:{words}"), region.1);
            Ok(ResolvedTarget::of(Medium::Sim(model), target, region.0))
        }
        WorksOn::Server => vhost::resolve_target(&args.target, requested),
        WorksOn::Files | WorksOn::Namespaces => resolve_real(args, requested, place),
    }
}

impl ResolvedTarget {
    /// Target that is not a file.
    pub(super) fn of(medium: Medium, target: Target, offset_bytes: u64) -> ResolvedTarget {
        ResolvedTarget {
            medium,
            held: None,
            all: Vec::new(),
            targets: vec![target],
            offset_bytes,
            durable: false,
            fresh: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

fn resolve_real(
    args: &RunArgs,
    requested: &Request,
    place: &Place,
) -> Result<ResolvedTarget, Failure> {
    let paths = args.target.paths();
    if paths.is_empty() || paths.len() > MAX_TARGETS {
        let message = match paths.len() {
            0 => "--path is missing: give a file, a block device or a directory".into(),
            many => format!("--path: found {many} targets, expected at most {MAX_TARGETS}"),
        };
        return Err(wrong(message));
    }
    let commands = requested.engine.kind == EngineKind::IoUringCmd;
    let mut all = Vec::new();
    let mut fresh = Vec::new();
    for (index, path) in (0..).zip(&paths) {
        if path.is_dir() && !commands {
            fresh.push(index);
            all.push(made(path, requested, args.run.dry_run)?);
        } else {
            let intent = Intent {
                passthrough: commands,
                ..device::intent(args, path, requested.changes_target(index))
            };
            let held = open::existing(path, &intent, requested.direct).map_err(with_size_hint)?;
            print_link(&held);
            all.push(held);
        }
    }
    args.target.consent.were_needed(&all, args.run.dry_run)?;
    // All targets share one region: the smallest target decides.
    let smallest = all.iter().min_by_key(|held| held.bytes).unwrap_or(&all[0]);
    let what = format!("`{}`", smallest.path.display());
    let (offset_bytes, end_bytes) = within(requested, smallest.bytes, &what)?;
    let target =
        |(held, path): (&Held, &PathBuf)| held.target(path, end_bytes, &held.describe(&place.root));
    let warnings = all.iter().filter_map(|held| held.direct_refused.clone());
    Ok(ResolvedTarget {
        targets: all.iter().zip(&paths).map(target).collect(),
        medium: medium(&all),
        offset_bytes,
        durable: all.iter().any(|held| held.bytes != u64::MAX),
        fresh,
        warnings: warnings.collect(),
        held: Held::first_for_all(&all),
        all,
    })
}

/// Creates an unnamed file in a directory.
fn made(directory: &Path, requested: &Request, dry_run: bool) -> Result<Held, Failure> {
    let needed_bytes = requested.needed_bytes().filter(|_| requested.size.is_none());
    if needed_bytes.is_none() && !matches!(requested.size, Some(Extent::Bytes(_))) {
        return Err(wrong(format!(
            "`{}` is a directory: give --size in bytes to create an unnamed file of that size in \
             it",
            directory.display()
        )));
    }
    let wanted_bytes = match needed_bytes {
        Some(needed_bytes) => requested.offset_bytes().saturating_add(needed_bytes),
        None => requested.region(u64::MAX)?.1,
    };
    let (free_bytes, total_bytes) = open::space(directory)?;
    open::fits(directory, wanted_bytes, free_bytes, total_bytes)?;
    let make = if dry_run { open::rehearsed } else { open::unnamed };
    Ok(make(directory, wanted_bytes, requested.direct)?)
}

fn with_size_hint(error: TargetError) -> Failure {
    let hint = "give a directory and --size to measure with an unnamed file";
    match error {
        TargetError::Missing(_) => Failure::from(error).hinting(hint),
        error => error.into(),
    }
}

/// First byte and end of the region; it must lie within the target.
pub(super) fn within(
    requested: &Request,
    available: u64,
    what: &str,
) -> Result<(u64, u64), Failure> {
    if available == 0 {
        return Err(wrong(format!(
            "{what} is empty; give a directory and --size to measure with an unnamed file"
        )));
    }
    if available == u64::MAX && !matches!(requested.size, Some(Extent::Bytes(_))) {
        return Err(wrong(format!("{what} has no size: give --size")));
    }
    let (offset_bytes, end_bytes) = requested.region(available)?;
    place::contains(available, offset_bytes, end_bytes, what)?;
    requested.share_of(offset_bytes, end_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colons_divide_unless_a_backslash_precedes() {
        let parts = |list: &str| split(OsStr::new(list));
        assert_eq!(parts("a:b"), [PathBuf::from("a"), PathBuf::from("b")]);
        assert_eq!(parts(r"pci-0\:1:b\c"), [PathBuf::from("pci-0:1"), PathBuf::from(r"b\c")]);
    }
}
