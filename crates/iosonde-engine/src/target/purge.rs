//! Purges a target that was opened for writing, so that a test begins as if nothing had ever been
//! written to it.
//!
//! The target has passed the gate, and for a device the consent names it. The purge is verified:
//! blocks all over the range are read afterwards and must be blank, or, after a cryptographic
//! erase, must have changed.

mod nvme;
mod tool;

use std::os::fd::AsFd;

use iosonde_sys::device_command;
use rustix::fs::{FallocateFlags, fallocate, fsync};
use rustix::io::{Errno, pread};

use super::Held;
use super::held::drop_cache;
use crate::host::Root;
use iosonde_model::record::experiment::Purged;
use iosonde_model::spec::experiment::Purge;
use iosonde_model::units::bytes;

/// Blocks that are read to check a purge.
const CHECKED: u64 = 256;
const BLOCK: usize = 4096;
/// Most bytes that one call discards or zeroes, so that a signal is handled between calls.
const PIECE_BYTES: u64 = 4 << 30;

/// The method for this target, and why it was chosen.
struct Chosen {
    method: Purge,
    reason: String,
}

/// Purges the first `range_bytes` of a target. `now` gives ns since 1970.
///
/// # Errors
/// In words: the target has no such method, the device refused, or it is not blank afterwards.
pub fn purge(
    held: &Held,
    root: &Root,
    range_bytes: u64,
    requested: Purge,
    now: impl Fn() -> u64,
) -> Result<Purged, String> {
    let facts = held.device(root);
    let is_device = iosonde_sys::inspect::is_block_device(held.file.as_fd());
    if is_device && held.identity().is_none() {
        return Err("it was not opened with a consent that names the device".into());
    }
    let chosen = choose(held, root, is_device, range_bytes, requested)?;
    let started_unix_ns = now();
    let word = chosen.method.word();
    let before = match chosen.method {
        Purge::NvmeCrypto => sampled(held, range_bytes)?,
        _ => Vec::new(),
    };
    let tool = carry_out(held, root, range_bytes, chosen.method)
        .map_err(|error| format!("{word}: {error}"))?;
    let after = sampled(held, range_bytes)?;
    let checked_blocks = after.len() as u32;
    let blank_blocks = after.iter().filter(|block| is_blank(block)).count() as u32;
    let kept = kept(&before, &after);
    if kept > 0 {
        return Err(format!(
            "{word}: {kept} of {checked_blocks} blocks that were read afterwards still hold what \
             they held before; use another method (nvme-format)"
        ));
    }
    if blank_blocks < checked_blocks && chosen.method != Purge::NvmeCrypto {
        return Err(format!(
            "{word}: {} of {checked_blocks} blocks that were read afterwards still hold data: the \
             device keeps data that it was asked to discard; use another method (zero)",
            checked_blocks - blank_blocks
        ));
    }
    Ok(Purged {
        method: chosen.method.word().into(),
        reason: chosen.reason,
        tool,
        identity: held.identity().unwrap_or_default().into(),
        firmware: facts.and_then(|facts| facts.firmware).unwrap_or_default(),
        range_bytes,
        checked_blocks,
        blank_blocks,
        started_unix_ns,
        ended_unix_ns: now(),
    })
}

/// Checks that a target supports a method, without doing anything.
///
/// # Errors
/// In words: why it does not.
pub fn is_possible(
    held: &Held,
    root: &Root,
    range_bytes: u64,
    requested: Purge,
) -> Result<(), String> {
    let is_device = iosonde_sys::inspect::is_block_device(held.file.as_fd());
    choose(held, root, is_device, range_bytes, requested).map(drop)
}

/// Number of blocks read all over the first `range_bytes` of a target, and how many are blank.
///
/// # Errors
/// In words: it cannot be read.
pub fn blank_blocks(held: &Held, range_bytes: u64) -> Result<(u32, u32), String> {
    let sampled = sampled(held, range_bytes)?;
    let blank = sampled.iter().filter(|block| is_blank(block)).count();
    Ok((sampled.len() as u32, blank as u32))
}

/// The method to use: the one requested, if the target has it.
fn choose(
    held: &Held,
    root: &Root,
    is_device: bool,
    range_bytes: u64,
    requested: Purge,
) -> Result<Chosen, String> {
    let asked = |method: Purge| Ok(Chosen { method, reason: "requested".into() });
    let for_device = "it is a method for block devices, and the target is a file: use recreate";
    match requested {
        Purge::None => Err("no purge was requested".into()),
        Purge::Any if !is_device => {
            Ok(Chosen { method: Purge::Recreate, reason: "the target is a file".into() })
        }
        Purge::Recreate if !is_device => asked(Purge::Recreate),
        Purge::Recreate => Err("recreate: the target is a block device: use discard".into()),
        _ if !is_device => Err(format!("{}: {for_device}", requested.word())),
        Purge::NvmeFormat | Purge::NvmeCrypto => {
            nvme::formats(held, range_bytes, requested).and_then(|()| asked(requested))
        }
        Purge::NvmeSanitize => nvme::sanitizes(held, range_bytes).and_then(|_| asked(requested)),
        Purge::AtaErase | Purge::ScsiSanitize | Purge::ScsiFormat => {
            tool::erases(held, root, range_bytes, requested).and_then(|_| asked(requested))
        }
        Purge::Discard | Purge::Zero => asked(requested),
        Purge::Any => Ok(match nvme::formats(held, range_bytes, Purge::NvmeFormat) {
            Ok(()) => Chosen {
                method: Purge::NvmeFormat,
                reason: "the drive has NVMe Format, and all of it is used".into(),
            },
            Err(why) => Chosen { method: Purge::Discard, reason: format!("no NVMe Format: {why}") },
        }),
    }
}

/// An error if the range is only a part of the drive, all of which `command` erases.
fn of_a_part(held: &Held, range_bytes: u64, command: &str) -> Result<(), String> {
    if range_bytes + (1 << 20) <= held.bytes {
        let (used, all) = (bytes::rough(range_bytes), bytes::rough(held.bytes));
        return Err(format!("only {used} of {all} are used, and {command} erases all of it"));
    }
    Ok(())
}

/// Runs the method. Returns the commands of the outside program, if one was used.
fn carry_out(held: &Held, root: &Root, range_bytes: u64, method: Purge) -> Result<String, String> {
    let device = held.file.as_fd();
    let said = |error: std::io::Error| error.to_string();
    let pieces = (0..range_bytes.div_ceil(PIECE_BYTES))
        .map(|piece| piece * PIECE_BYTES)
        .map(|start| (start, PIECE_BYTES.min(range_bytes - start)));
    match method {
        Purge::NvmeFormat | Purge::NvmeCrypto => {
            nvme::format(held, method)?;
            same_size(held)?;
        }
        Purge::NvmeSanitize => nvme::sanitize(held, range_bytes)?,
        Purge::AtaErase | Purge::ScsiSanitize | Purge::ScsiFormat => {
            let said = tool::erases(held, root, range_bytes, method)?.run()?;
            same_size(held)?;
            flushed(held)?;
            return Ok(said);
        }
        Purge::Discard => {
            for (start, length) in pieces {
                device_command::discard(device, start, length).map_err(said)?;
            }
        }
        Purge::Zero => {
            for (start, length) in pieces {
                device_command::zero(device, start, length).map_err(said)?;
            }
        }
        Purge::Recreate => recreate(held, range_bytes).map_err(|error| error.to_string())?,
        Purge::Any | Purge::None => return Err("it is no method by itself".into()),
    }
    flushed(held).map(|()| String::new())
}

/// Writes back the target's dirty pages and drops its pages from the page cache.
fn flushed(held: &Held) -> Result<(), String> {
    match fsync(&held.file) {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error.to_string()),
    }
    drop_cache(&held.file);
    Ok(())
}

/// Checks the size, since a format may change the block size.
fn same_size(held: &Held) -> Result<(), String> {
    let size = iosonde_sys::inspect::block_device_bytes(held.file.as_fd())
        .map_err(|error| error.to_string())?;
    if size != held.bytes {
        return Err(format!("its size changed from {} B to {size} B", held.bytes));
    }
    Ok(())
}

/// Frees the blocks of a file in its file system, and reserves blocks again.
fn recreate(held: &Held, range_bytes: u64) -> Result<(), Errno> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fallocate(&held.file, flags, 0, range_bytes) {
        Ok(()) => {}
        Err(Errno::OPNOTSUPP | Errno::NOSYS) if range_bytes == held.bytes => {
            rustix::fs::ftruncate(&held.file, 0)?;
            rustix::fs::ftruncate(&held.file, range_bytes)?;
        }
        Err(error) => return Err(error),
    }
    match fallocate(&held.file, FallocateFlags::KEEP_SIZE, 0, range_bytes) {
        // A file system without reservation allocates blocks when they are written.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => other,
    }
}

/// Blocks all over the range, including both ends. A partial read yields a shorter block.
fn sampled(held: &Held, range_bytes: u64) -> Result<Vec<Vec<u8>>, String> {
    let mut space = vec![0_u8; 2 * BLOCK];
    let from = space.as_ptr().align_offset(BLOCK);
    let block = &mut space[from..from + BLOCK];
    let blocks = range_bytes / BLOCK as u64;
    let count = CHECKED.min(blocks);
    let mut sampled = Vec::new();
    for each in 0..count {
        let last = blocks - 1;
        let place = if count > 1 { last / (count - 1) * each } else { 0 };
        let place = if each + 1 == count { last } else { place };
        let read = pread(&held.file, &mut *block, place * BLOCK as u64)
            .map_err(|error| format!("it cannot be read: {error}"))?;
        sampled.push(block[..read].to_vec());
    }
    Ok(sampled)
}

fn is_blank(block: &[u8]) -> bool {
    let first = block.first().copied().unwrap_or(1);
    block.len() == BLOCK && [0, 0xff].contains(&first) && block.iter().all(|byte| *byte == first)
}

/// Number of blocks that are unchanged, without those that were blank before.
fn kept(before: &[Vec<u8>], after: &[Vec<u8>]) -> usize {
    before.iter().zip(after).filter(|(was, is)| was == is && !is_blank(was)).count()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::target::open::{Direct, Intent, existing};

    fn file(bytes: &[u8]) -> (tempfile::TempDir, Held) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, bytes).unwrap();
        let name = path.to_string_lossy().into_owned();
        let intent = Intent { write: true, overwrite_file: Some(name), ..Intent::default() };
        let held = existing(&path, &intent, Direct::Never).unwrap();
        (dir, held)
    }

    #[test]
    fn a_file_is_blank_afterwards_within_the_range_and_untouched_behind_it() {
        let (dir, held) = file(&[7; 1 << 20]);
        let purged = purge(&held, &Root::system(), 512 << 10, Purge::Any, || 5).unwrap();
        assert_eq!((purged.method.as_str(), purged.range_bytes), ("recreate", 512 << 10));
        assert_eq!((purged.checked_blocks, purged.blank_blocks), (128, 128));
        let content = std::fs::read(dir.path().join("t")).unwrap();
        assert!(content[..512 << 10].iter().all(|byte| *byte == 0));
        assert!(content[512 << 10..].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_method_that_the_target_lacks_is_refused_and_changes_nothing() {
        let (dir, held) = file(&[7; 1 << 20]);
        let of_devices = Purge::ALL.into_iter().filter(|method| {
            method.is_of_the_drive() || [Purge::Discard, Purge::Zero].contains(method)
        });
        for method in of_devices {
            let why = purge(&held, &Root::system(), 1 << 20, method, || 5).unwrap_err();
            assert!(why.contains("use recreate"), "{why}");
        }
        assert!(std::fs::read(dir.path().join("t")).unwrap().iter().all(|byte| *byte == 7));
    }

    #[test]
    fn what_is_not_blank_is_counted() {
        let mut content = vec![0; 64 * BLOCK];
        content[63 * BLOCK + 5] = 1;
        let (_dir, held) = file(&content);
        let sampled = sampled(&held, 64 * BLOCK as u64).unwrap();
        let blank: Vec<bool> = sampled.iter().map(|block| is_blank(block)).collect();
        assert_eq!((blank.len(), blank.iter().position(|blank| !blank)), (64, Some(63)));
    }

    #[test]
    fn a_changed_key_changes_what_is_read() {
        let blocks = |bytes: [u8; 3]| bytes.map(|byte| [vec![byte; BLOCK - 1], vec![1]].concat());
        let (before, others) = (blocks([0, 5, 9]), blocks([3, 5, 8]));
        assert_eq!(kept(&before, &others), 1);
        assert_eq!(kept(&before, &before), 3);
        // A block that was blank before is no evidence.
        assert_eq!(kept(&[vec![0; BLOCK]], &[vec![0; BLOCK]]), 0);
        assert_eq!(kept(&[], &others), 0);
    }
}
