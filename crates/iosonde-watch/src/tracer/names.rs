//! Names of disks, files and cgroups by their kernel numbers.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use iosonde_bpf::layout::{FILE_NAMED, FILE_OF_DEVICE};
use iosonde_bpf::{FileKey, FileUse, major_minor};
use iosonde_sys::inspect::inode_generation;
use rustix::fs::{Mode, OFlags};

use super::containers::Containers;
use super::threads;
use iosonde_engine::host::{self, Mount, Root};
use iosonde_model::record::profile::FileRun;

/// Largest number of cgroup directories visited.
const CGROUPS: usize = 8192;

/// Kernel names of disks, cached: a removed disk keeps its name.
#[derive(Debug)]
pub(super) struct Disks {
    root: Root,
    names: BTreeMap<(u32, u32), String>,
}

impl Disks {
    pub(super) fn new(root: &Root) -> Disks {
        Disks { root: root.clone(), names: BTreeMap::new() }
    }

    /// The kernel name of the disk with this number, or of the disk of this partition.
    pub(super) fn name(&mut self, number: (u32, u32)) -> String {
        let ask = || {
            let facts = host::device(&self.root, number.0, number.1);
            facts.map_or_else(|| format!("{}:{}", number.0, number.1), |facts| facts.name)
        };
        self.names.entry(number).or_insert_with(ask).clone()
    }
}

/// Current paths of files; the kernel programs record those of the first request.
pub(super) struct Names {
    root: Root,
    mounts: Vec<Mount>,
    /// Entries of searched directories, by inode number.
    listed: BTreeMap<PathBuf, BTreeMap<u64, PathBuf>>,
}

impl Names {
    pub(super) fn new(root: &Root, mounts: Vec<Mount>) -> Names {
        Names { root: root.clone(), mounts, listed: BTreeMap::new() }
    }

    /// The path of a file, as far as it can be resolved.
    pub(super) fn path(&mut self, key: &FileKey, file: &FileUse) -> String {
        let number = major_minor(key.device);
        let node = || {
            let facts = host::device(&self.root, number.0, number.1);
            facts.map_or_else(
                || format!("device {}:{}", number.0, number.1),
                |facts| format!("/dev/{}", facts.partition.unwrap_or(facts.name)),
            )
        };
        if key.kind == FILE_OF_DEVICE {
            let is_mounted = self.mounts.iter().any(|mount| mount.device == number);
            // The page cache of a device holds both the file system's metadata and data accessed
            // through the device node.
            let also = if is_mounted { " and its file system's metadata" } else { "" };
            return format!("{}{also}", node());
        }
        if key.kind != FILE_NAMED {
            return format!("direct I/O on {}, {}", node(), FileRun::UNKNOWN);
        }
        let names = &file.name[..(file.names as usize).min(file.name.len())];
        let names: Vec<String> = names.iter().rev().map(|name| threads::name(name)).collect();
        if names.is_empty() {
            return match self.mounts.iter().find(|mount| mount.device == number) {
                // btrfs keeps the pages of all its trees in one inode.
                Some(mount) if mount.filesystem == "btrfs" && key.inode == 1 => {
                    format!("metadata of the file system on {}", mount.source)
                }
                Some(mount) => format!("inode {} on {}", key.inode, mount.source),
                None => format!("inode {} on {}", key.inode, node()),
            };
        }
        let inside = names.join("/");
        if file.is_whole == 0 {
            return format!("…/{inside}");
        }
        match placed(number, &inside, &self.mounts) {
            Some(path) => self.current(path, key),
            None => format!("/{inside} on {}, which is not mounted here", node()),
        }
    }

    /// Current path of the file with this inode and generation: `path`, or its new name in the same
    /// directory if renamed; otherwise `path`, marked.
    fn current(&mut self, path: PathBuf, key: &FileKey) -> String {
        let words = path.to_string_lossy().into_owned();
        match fs::symlink_metadata(&path) {
            Ok(facts) if facts.ino() == key.inode && is_of(&path, key) => return words,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => return words,
        }
        let Some(folder) = path.parent() else { return words };
        let listed = self.listed.entry(folder.to_owned()).or_insert_with(|| {
            let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
            entries.map(|entry| (entry.ino(), entry.path())).collect()
        });
        listed.get(&key.inode).filter(|now| is_of(now, key)).map_or_else(
            || format!("{words} (deleted or moved)"),
            |now| now.to_string_lossy().into_owned(),
        )
    }
}

/// Whether the file at a path has the generation of the key, because inode numbers are reused. An
/// unknown generation counts as equal.
fn is_of(path: &Path, key: &FileKey) -> bool {
    generation(path).is_none_or(|generation| generation == key.generation)
}

fn generation(path: &Path) -> Option<u32> {
    let has_one = |facts: &fs::Metadata| facts.is_file() || facts.is_dir();
    fs::symlink_metadata(path).ok().filter(has_one)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    inode_generation(file.as_fd()).ok()
}

/// Absolute path of a path inside a file system, through the mount that shows most of it.
fn placed(device: (u32, u32), inside: &str, mounts: &[Mount]) -> Option<PathBuf> {
    let whole = Path::new("/").join(inside);
    let shown = mounts.iter().filter(|mount| mount.device == device).filter_map(|mount| {
        let rest = whole.strip_prefix(&mount.root).ok()?;
        Some((mount.root.as_os_str().len(), mount.point.join(rest)))
    });
    shown.min_by_key(|(length, _)| *length).map(|(_, path)| path)
}

/// Paths of cgroups, with names of containers, by kernel number, which is the inode number of their
/// directory.
pub(super) fn cgroups(root: &Root) -> BTreeMap<u64, String> {
    // With cgroup version 1, block I/O has its own hierarchy.
    let hierarchies = ["/sys/fs/cgroup/blkio", "/sys/fs/cgroup"];
    let Some(top) = hierarchies.into_iter().map(|path| root.path(path)).find(|path| path.is_dir())
    else {
        return BTreeMap::new();
    };
    let containers = Containers::find(root);
    let mut found = BTreeMap::new();
    let mut open: Vec<PathBuf> = vec![top.clone()];
    while let Some(directory) = open.pop() {
        let Ok(facts) = fs::metadata(&directory) else { continue };
        let inside = directory.strip_prefix(&top).unwrap_or(Path::new(""));
        found.insert(facts.ino(), containers.named(format!("/{}", inside.display())));
        if found.len() >= CGROUPS {
            break;
        }
        let entries = fs::read_dir(&directory).into_iter().flatten().filter_map(Result::ok);
        let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        open.extend(entries.filter(is_directory).map(|entry| entry.path()));
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn mount(device: (u32, u32), root: &str, point: &str) -> Mount {
        Mount {
            id: 0,
            device,
            root: root.into(),
            point: point.into(),
            filesystem: String::new(),
            source: String::new(),
            options: Vec::new(),
        }
    }

    #[test]
    fn a_path_is_reported_through_the_mount_that_shows_most_of_its_file_system() {
        let mounts = [
            mount((8, 1), "/etc/hosts", "/bound"),
            mount((8, 1), "/", "/mnt/disk"),
            mount((8, 2), "/", "/"),
        ];
        let placed = |number, inside| placed(number, inside, &mounts);
        assert_eq!(placed((8, 1), "etc/hosts"), Some("/mnt/disk/etc/hosts".into()));
        assert_eq!(placed((8, 2), "a/b"), Some("/a/b".into()));
        assert_eq!(placed((8, 3), "a/b"), None);
    }

    #[test]
    fn a_renamed_file_has_its_new_name_and_a_deleted_one_is_marked() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let words = |name: &str| path(name).to_string_lossy().into_owned();
        fs::write(path("first"), "a").unwrap();
        let of = |name: &str| FileKey {
            inode: fs::metadata(path(name)).unwrap().ino(),
            generation: generation(&path(name)).unwrap_or_default(),
            ..FileKey::default()
        };
        let file = of("first");
        let current =
            |key: FileKey| Names::new(&Root::system(), Vec::new()).current(path("first"), &key);
        assert_eq!(current(file), words("first"));
        fs::rename(path("first"), path("second")).unwrap();
        assert_eq!(current(file), words("second"));
        fs::write(path("first"), "b").unwrap();
        assert_eq!(current(file), words("second"), "another file has its name");
        fs::remove_file(path("second")).unwrap();
        assert_eq!(current(file), format!("{} (deleted or moved)", words("first")));
    }

    #[test]
    fn a_file_that_got_the_number_of_a_deleted_one_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("later");
        fs::write(&path, "a").unwrap();
        // Some file systems have no generations.
        let Some(generation) = generation(&path) else { return };
        let inode = fs::metadata(&path).unwrap().ino();
        let current = |generation, name: &str| {
            let key = FileKey { inode, generation, ..FileKey::default() };
            Names::new(&Root::system(), Vec::new()).current(dir.path().join(name), &key)
        };
        let words = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        assert_eq!(current(generation, "later"), words("later"));
        let former = generation.wrapping_add(1);
        assert_eq!(current(former, "later"), format!("{} (deleted or moved)", words("later")));
        assert_eq!(current(generation, "former"), words("later"), "renamed");
        assert_eq!(current(former, "former"), format!("{} (deleted or moved)", words("former")));
        // The same applies to a directory.
        fs::create_dir(dir.path().join("folder")).unwrap();
        let inode = fs::metadata(dir.path().join("folder")).unwrap().ino();
        let key = FileKey { inode, generation: former, ..FileKey::default() };
        let found = Names::new(&Root::system(), Vec::new()).current(dir.path().join("file"), &key);
        assert_eq!(found, format!("{} (deleted or moved)", words("file")));
    }

    #[test]
    fn metadata_of_btrfs_is_named() {
        let btrfs = Mount {
            filesystem: "btrfs".into(),
            source: "/dev/sdb".into(),
            ..mount((0, 39), "/", "/mnt")
        };
        let path = |inode| {
            let key = FileKey { device: 39, kind: FILE_NAMED, inode, ..FileKey::default() };
            Names::new(&Root::system(), vec![btrfs.clone()]).path(&key, &FileUse::NONE)
        };
        assert_eq!(path(1), "metadata of the file system on /dev/sdb");
        assert_eq!(path(300), "inode 300 on /dev/sdb");
    }

    #[test]
    fn a_file_on_a_mount_that_is_not_seen_is_no_path_of_this_host() {
        let mut file = FileUse { names: 1, is_whole: 1, ..FileUse::NONE };
        file.name[0][..6].copy_from_slice(b"passwd");
        let key = FileKey { device: 0xfff << 20, kind: FILE_NAMED, ..FileKey::default() };
        let found = Names::new(&Root::system(), Vec::new()).path(&key, &file);
        assert_eq!(found, "/passwd on device 4095:0, which is not mounted here");
    }
}
