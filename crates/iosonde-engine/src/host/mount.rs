//! Finds the mount that holds a path, in `/proc/self/mountinfo` (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::Root;

/// A node with many containers has thousands of mounts; 8 MiB holds some 50,000.
const MOUNTINFO_LIMIT_BYTES: u64 = 8 << 20;

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mount {
    /// Mount identifier, as statx reports it (STATX_MNT_ID).
    pub id: u64,
    /// Device number of the super block; major 0 is an anonymous one.
    pub device: (u32, u32),
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// File system type with its subtype (`ext4`, `fuse.sshfs`).
    pub filesystem: String,
    /// What is mounted (`/dev/vda1`, `server:/export`), as the file system names it.
    pub source: String,
    /// Options of the mount, then those of the super block, each once.
    pub options: Vec<String>,
}

/// The mount that holds `path`.
///
/// The kernel's answer (statx mount id) has priority; then the longest mount point that is a
/// prefix of the canonical path and has the device number of the file; then the longest prefix,
/// since btrfs subvolumes and overlays show other device numbers than their mounts.
#[must_use]
pub fn mount_of(root: &Root, path: &Path) -> Option<Mount> {
    let canonical = canonical(root, path);
    let (id, device) = if root.is_system() { identity(path) } else { (None, None) };
    let mounts = all(root);
    choose(&mounts, &canonical, id, device).cloned()
}

/// The mount that holds a path, by the name alone. The path is not accessed, so this works even
/// where the file system does not answer. A symbolic link in the path may mislead it.
#[must_use]
pub fn mount_by_name(root: &Root, path: &Path) -> Option<Mount> {
    let path = std::path::absolute(path).ok()?;
    let holds = |mount: &Mount| path.starts_with(&mount.point);
    let mounts = all(root).into_iter().filter(holds);
    // Of several mounts on one point, the last covers the others.
    mounts.max_by_key(|mount| mount.point.as_os_str().len())
}

/// The path without symbolic links, as far down as it exists.
fn canonical(root: &Root, path: &Path) -> PathBuf {
    let path = if root.is_system() { std::path::absolute(path).ok() } else { None }
        .unwrap_or_else(|| path.to_owned());
    path.ancestors()
        .find_map(|above| {
            let rest = path.strip_prefix(above).ok()?;
            Some(root.resolve(above)?.join(rest))
        })
        .unwrap_or_else(|| path.clone())
}

/// The mount with the identifier that statx reported.
#[must_use]
pub fn mount_with_id(root: &Root, id: u64) -> Option<Mount> {
    all(root).into_iter().find(|mount| mount.id == id)
}

/// The mount through which a file was opened, where the kernel says so.
#[must_use]
pub fn mount_of_file(root: &Root, file: BorrowedFd<'_>) -> Option<Mount> {
    let seen = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    let is_known = StatxFlags::from_bits_retain(seen.stx_mask).contains(StatxFlags::MNT_ID);
    if is_known { mount_with_id(root, seen.stx_mnt_id) } else { None }
}

/// Every mount this process sees, in the kernel's order. Lines that cannot be read are left out.
pub fn all(root: &Root) -> Vec<Mount> {
    let text = root.text_up_to("/proc/self/mountinfo", MOUNTINFO_LIMIT_BYTES).unwrap_or_default();
    text.lines().filter_map(parse).collect()
}

/// Every mount of every mount namespace that a visible process lives in; those of this process
/// first. `false` marks a mount of another namespace.
pub(super) fn everywhere(root: &Root) -> Vec<(Mount, bool)> {
    let mut found: Vec<(Mount, bool)> = all(root).into_iter().map(|mount| (mount, true)).collect();
    let mut seen: Vec<PathBuf> = root.link("/proc/self/ns/mnt").into_iter().collect();
    for process in root.names("/proc") {
        if !process.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let Some(namespace) = root.link(format!("/proc/{process}/ns/mnt")) else { continue };
        if seen.contains(&namespace) {
            continue;
        }
        seen.push(namespace);
        let path = format!("/proc/{process}/mountinfo");
        let text = root.text_up_to(path, MOUNTINFO_LIMIT_BYTES).unwrap_or_default();
        found.extend(text.lines().filter_map(parse).map(|mount| (mount, false)));
    }
    found
}

/// Mount id and device number of a path, as far as the kernel shows them.
fn identity(path: &Path) -> (Option<u64>, Option<(u32, u32)>) {
    let wanted = StatxFlags::MNT_ID | StatxFlags::BASIC_STATS;
    let Ok(seen) = statx(CWD, path, AtFlags::empty(), wanted) else { return (None, None) };
    let reported = StatxFlags::from_bits_retain(seen.stx_mask).contains(StatxFlags::MNT_ID);
    (reported.then_some(seen.stx_mnt_id), Some((seen.stx_dev_major, seen.stx_dev_minor)))
}

fn choose<'a>(
    mounts: &'a [Mount],
    path: &Path,
    id: Option<u64>,
    device: Option<(u32, u32)>,
) -> Option<&'a Mount> {
    if let Some(found) = mounts.iter().find(|mount| Some(mount.id) == id) {
        return Some(found);
    }
    // `max_by_key` takes the last of equals: a later mount hides an earlier one at the same place.
    let longest = |same_device: bool| {
        mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.point))
            .filter(|mount| !same_device || Some(mount.device) == device)
            .max_by_key(|mount| mount.point.components().count())
    };
    longest(true).or_else(|| longest(false))
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse(line: &str) -> Option<Mount> {
    let (mount, super_block) = line.split_once(" - ")?;
    let mut fields = mount.split(' ');
    let id = fields.next()?.parse().ok()?;
    let _parent = fields.next()?;
    let device = device_number(fields.next()?)?;
    let root = PathBuf::from(unescape(fields.next()?));
    let point = PathBuf::from(unescape(fields.next()?));
    let mount_options = fields.next()?;

    let mut fields = super_block.split(' ');
    let filesystem = fields.next()?.to_owned();
    let source = unescape(fields.next().unwrap_or_default()).to_string_lossy().into_owned();
    let super_options = fields.next().unwrap_or_default();

    let mut options: Vec<String> = Vec::new();
    for option in mount_options.split(',').chain(super_options.split(',')) {
        let option = unescape(option).to_string_lossy().into_owned();
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount { id, device, root, point, filesystem, source, options })
}

/// `259:3` as major and minor number.
pub(super) fn device_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The kernel writes space, tab, newline and backslash as `\ooo`; anything else stays as it is.
pub(super) fn unescape(field: &str) -> OsString {
    let bytes = field.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes
            .get(at + 1..at + 4)
            .filter(|digits| bytes[at] == b'\\' && digits.iter().all(|d| matches!(d, b'0'..=b'7')))
            .map(|digits| digits.iter().fold(0_u32, |n, digit| n * 8 + u32::from(digit - b'0')))
            .and_then(|value| u8::try_from(value).ok());
        match octal {
            Some(byte) => {
                decoded.push(byte);
                at += 4;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    OsString::from_vec(decoded)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn mount(line: &str) -> Mount {
        parse(line).unwrap()
    }

    #[test]
    fn a_line_with_escapes_and_optional_fields() {
        let mount = mount(
            "36 35 98:0 /sub /mnt/my\\040disk\\134x rw,noatime master:1 shared:2 - \
             ext4 /dev/a\\011b rw,noatime,quota",
        );
        assert_eq!(mount.point, Path::new("/mnt/my disk\\x"));
        assert_eq!(mount.device, (98, 0));
        assert_eq!(mount.source, "/dev/a\tb");
        assert_eq!(mount.options, ["rw", "noatime", "quota"]);
    }

    #[test]
    fn odd_lines_are_left_out() {
        for line in ["", " - ", "x 1 0:1 / / rw - a b c", "1 1 0 / / rw - a b", "1 2 3:4 - a"] {
            assert_eq!(parse(line), None, "{line}");
        }
        // A trailing backslash, a short and a too large escape are kept unchanged.
        assert_eq!(unescape(r"a\"), r"a\");
        assert_eq!(unescape(r"\04"), r"\04");
        assert_eq!(unescape(r"\777\08x"), r"\777\08x");
    }

    #[test]
    fn identifier_then_device_then_longest_prefix() {
        let mounts = [
            mount("1 0 8:1 / / rw - ext4 /dev/sda1 rw"),
            mount("2 1 8:2 / /a/b rw - ext4 /dev/sda2 rw"),
            mount("3 1 8:3 / /a rw - ext4 /dev/sda3 rw"),
            mount("4 1 8:4 / /a rw - ext4 /dev/sda4 rw"),
        ];
        let at = |path, id, device| choose(&mounts, Path::new(path), id, device).unwrap().id;
        assert_eq!(at("/a/b/x", Some(1), None), 1);
        // /a was mounted over /a/b: the device number says so, the prefix would not.
        assert_eq!(at("/a/b/x", None, Some((8, 3))), 3);
        assert_eq!(at("/a/b/x", None, Some((0, 77))), 2);
        assert_eq!(at("/a/bc", None, None), 4);
        assert_eq!(at("/ab", None, None), 1);
    }
}
