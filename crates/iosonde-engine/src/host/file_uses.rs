//! Uses of a regular file: loop devices over it, swap, servers in the kernel, processes, locks.

use std::os::fd::BorrowedFd;

use iosonde_sys::sharing;
use rustix::fs::{fstat, major, minor};

use super::loops::{Loop, loops};
use super::openers::{FileId, Openers, Thing};
use super::served::Served;
use super::usage::{InUse, Usage, Use, swap_paths};
use super::{Root, mount};

/// Most that is read of `/proc/locks`, bytes; enough for a busy file server.
const LOCKS_LIMIT_BYTES: u64 = 16 << 20;

/// All uses of this open file, except by descriptors of this process.
#[must_use]
pub fn file_uses(root: &Root, file: BorrowedFd<'_>) -> InUse {
    let Ok(seen) = fstat(file) else { return InUse::default() };
    let own = FileId { device: seen.st_dev, inode: seen.st_ino };
    let openers = Openers::of(root, &[Thing::File(own)]);
    let mut uses = Vec::new();
    let loops = loops(root);
    for each in loops.iter().filter(|each| each.file == Some(own)) {
        uses.push(of_it(Use::Loop { name: each.node.name.clone() }));
    }
    let is_it = |path| {
        let seen = rustix::fs::stat(root.path(path));
        seen.is_ok_and(|seen| own == FileId { device: seen.st_dev, inode: seen.st_ino })
    };
    if swap_paths(root).into_iter().any(is_it) {
        uses.push(of_it(Use::Swap));
    }
    let served = Served::of(root);
    uses.extend(served.of_thing(Thing::File(own)).map(of_it));
    let has_it = openers.found.iter().filter(|opener| opener.thing == Thing::File(own));
    // One of them is `file` itself.
    let is_open_here = has_it.clone().filter(|opener| opener.is_own).count() > 1;
    uses.extend(has_it.filter(|opener| !opener.is_own).map(|opener| {
        let (pid, program) = (opener.pid, opener.program.clone());
        of_it(Use::Open { pid, program, access: opener.access })
    }));
    uses.extend(locks(root, file, &uses));
    let mut unseen = openers.unseen;
    unseen.others.extend(served.unknown);
    unseen.others.extend(loops.iter().filter_map(Loop::unknown));
    InUse { uses, unseen, processes: openers.processes, is_open_here }
}

fn of_it(by: Use) -> Usage {
    Usage { device: "it".into(), by }
}

/// POSIX and open-file-description locks, leases and delegations on an open file or node, by other
/// processes than the openers in `known`. Locks of `flock` are found by taking one, not here.
#[must_use]
pub fn locks(root: &Root, file: BorrowedFd<'_>, known: &[Usage]) -> Vec<Usage> {
    let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
    let openers: Vec<u32> = known
        .iter()
        .filter_map(|usage| match usage.by {
            Use::Open { pid, .. } => Some(pid),
            _ => None,
        })
        .collect();
    let mut found: Vec<(String, Option<u32>)> = listed(root, file);
    // The list may not show the lock of a process in another PID namespace.
    if let Ok(Some(pid)) = sharing::record_lock(file) {
        let pid = u32::try_from(pid).ok().filter(|pid| *pid > 0);
        if found.is_empty() {
            found.push(("record lock".into(), pid));
        }
    }
    found.retain(|(_, pid)| match pid {
        Some(pid) => *pid != own && !openers.contains(pid),
        None => openers.is_empty(),
    });
    found.dedup();
    found.into_iter().map(|(kind, pid)| of_it(Use::Locked { kind, pid })).collect()
}

/// `1: POSIX  ADVISORY  WRITE 24673 fe:00:5439700 0 EOF` of proc_locks(5): the device number of the
/// super block in hexadecimal, then the inode.
fn listed(root: &Root, file: BorrowedFd<'_>) -> Vec<(String, Option<u32>)> {
    let Ok(seen) = fstat(file) else { return Vec::new() };
    let mut devices = vec![(major(seen.st_dev), minor(seen.st_dev))];
    // A btrfs subvolume has another device number than its super block.
    devices.extend(mount::mount_of_file(root, file).map(|mount| mount.device));
    let text = root.text_up_to("/proc/locks", LOCKS_LIMIT_BYTES).unwrap_or_default();
    let lock = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let kind = fields.next().filter(|kind| !matches!(*kind, "->" | "FLOCK"))?;
        let pid = fields.nth(2)?.parse::<i64>().ok()?;
        let mut place = fields.next()?.split(':');
        let mut hex = || u32::from_str_radix(place.next()?, 16).ok();
        let device = (hex()?, hex()?);
        let inode: u64 = place.next()?.parse().ok()?;
        let is_it = inode == seen.st_ino && devices.contains(&device);
        is_it.then(|| (kind.to_owned(), u32::try_from(pid).ok().filter(|pid| *pid > 0)))
    };
    text.lines().filter_map(lock).collect()
}
