//! Storage to measure: a test file, or with --read-only existing data.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{CheckArgs, Request, length_ns};
use crate::cli::exit::{About, Exit, Failure, shown, wrong};
use iosonde_engine::host::Root;
use iosonde_engine::target::{Direct, Held, Intent, open};
use iosonde_model::plan::Plan;
use iosonde_model::record::export::directory_of;
use iosonde_model::record::facts::{DeviceFacts, FilesystemClass};
use iosonde_model::units::{bytes, duration};

/// Smallest size to read, bytes: less fits into hidden caches.
const SMALLEST_READ_BYTES: u64 = 256 << 20;

/// Opens an unnamed test file, if the directory is on storage with enough room; with --read-only,
/// opens existing data.
pub(super) fn open(args: &CheckArgs, requested: &Request) -> Result<Held, Failure> {
    if args.read_only {
        return readable(&args.path, args);
    }
    let (free_bytes, total_bytes) = open::space(&args.path)?;
    gate(args, &args.path)?;
    let size_bytes = open::test_bytes(&args.path, requested.size_bytes, free_bytes, total_bytes)?;
    let make = if args.dry_run { open::rehearsed } else { open::unnamed };
    Ok(make(&args.path, size_bytes, Direct::Preferred)?)
}

/// Refuses a file system that is not local storage, unless the user names it.
fn gate(args: &CheckArgs, directory: &Path) -> Result<(), Failure> {
    let facts = open::describe_directory(&Root::system(), directory)?;
    let name = facts.filesystem.clone().unwrap_or_else(|| "unknown".into());
    let reason = match facts.class {
        FilesystemClass::Local | FilesystemClass::UserSpace | FilesystemClass::Unknown => {
            return Ok(());
        }
        FilesystemClass::Memory => "it is in memory, so this would measure RAM",
        FilesystemClass::Network => "it is reached over a network",
        FilesystemClass::Stacked => {
            "it is stacked on another file system, which serves its requests"
        }
        FilesystemClass::HostShare => "it is shared from another system",
        FilesystemClass::Virtual => "it cannot contain files",
    };
    let named = args.allow_fs.as_deref().is_some_and(|allowed| allowed.eq_ignore_ascii_case(&name));
    let possible = facts.class != FilesystemClass::Virtual;
    if named && possible {
        return Ok(());
    }
    let path = directory.display();
    let message = format!("`{path}` is on {name}, which is not local storage: {reason}");
    let mut fix = String::from("give a directory on the storage to measure");
    if possible {
        fix.push_str(&format!(", or repeat with --allow-fs={name}"));
    }
    Err(Failure::new(Exit::Refused, message).hinting(fix))
}

/// Opens the file or block device to read; of a directory, its largest file.
fn readable(path: &Path, args: &CheckArgs) -> Result<Held, Failure> {
    let found = path.metadata().or_wrong(shown(path))?;
    let (target, found) = match found.is_dir() {
        true => largest(path)?.ok_or_else(|| too_small(path, "no such file"))?,
        false => (path.to_path_buf(), found),
    };
    if found.is_file() {
        gate(args, directory_of(&target))?;
        let stored_bytes = stored_bytes(&found);
        if stored_bytes < SMALLEST_READ_BYTES {
            return Err(too_small(&target, &bytes::exact(stored_bytes)));
        }
    } else if !found.file_type().is_block_device() {
        return Err(wrong(format!(
            "--read-only: `{}` is neither a file nor a block device nor a directory",
            path.display()
        )));
    }
    let held = open::existing(&target, &Intent::default(), Direct::Preferred)?;
    match held.bytes < SMALLEST_READ_BYTES {
        true => Err(too_small(&target, &bytes::exact(held.bytes))),
        false => Ok(held),
    }
}

fn too_small(path: &Path, found: &str) -> Failure {
    let about = format!("--read-only: {}", shown(path));
    wrong(format!("{about}: found {found}, expected a file with at least 256 MiB of stored data"))
        .hinting("give such a file, or the block device, as PATH")
}

/// Stored bytes of a file; reads of a hole do not reach the device.
fn stored_bytes(found: &Metadata) -> u64 {
    found.len().min(found.blocks() * 512)
}

/// Readable file with the most stored data in a directory.
fn largest(directory: &Path) -> Result<Option<(PathBuf, Metadata)>, Failure> {
    let entries = fs::read_dir(directory).or_wrong(shown(directory))?;
    // Links are not followed: one may lead to another disk.
    let files = entries.flatten().filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    let files = files.filter(|(path, found)| found.is_file() && fs::File::open(path).is_ok());
    Ok(files
        .filter(|(_, found)| stored_bytes(found) >= SMALLEST_READ_BYTES)
        .max_by_key(|(_, found)| stored_bytes(found)))
}

/// Whether a directory is on the root file system, whose disk is in use.
pub(super) fn holds_the_system(directory: &Path) -> bool {
    let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
    device(directory).is_some_and(|own| device(Path::new("/")) == Some(own))
}

/// Message on what a check writes, and on the options that avoid it.
pub(super) fn cost(
    layout: &Plan,
    cells: &[Plan],
    device: Option<&DeviceFacts>,
    path: &Path,
) -> String {
    let name = device.map_or("the disk of this system", |device| device.name.as_str());
    let used = if holds_the_system(path) { ", which the system uses" } else { "" };
    let writing: Vec<u64> = cells.iter().filter(|plan| plan.writes()).map(length_ns).collect();
    let burst = match device.and_then(|device| device.is_virtual) {
        Some(true) => "; it uses up the burst credits of a volume that has them",
        _ => "",
    };
    let span = duration::span(writing.iter().sum());
    let workloads = match writing.len() {
        0 => String::new(),
        1 => format!(", then 1 workload that writes, for {span}"),
        count => format!(", then {count} workloads that write, for {span} in all"),
    };
    format!(
        "this writes to {name}{used}: a test file of {}{workloads}{burst}; --dry-run prints the \
         plan, --read-only writes nothing",
        bytes::exact(layout.target().bytes),
    )
}
