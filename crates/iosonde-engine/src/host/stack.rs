//! Everything that shares bytes with a block device, and whether any of it is in use.
//!
//! Upwards: partitions, holders (dm, md, bcache), loop devices over it. Downwards: the whole disk
//! of a partition, the members of a dm or md device, the device below a loop device. What only
//! shares a disk or a volume group, but no bytes, is nobody's harm.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use super::device::{self, file_name};
use super::usage::{Usage, Use, Users};
use super::{Root, mount};

/// A stack with more devices than this is not followed further.
const NODE_LIMIT: usize = 4096;

/// A block device as sysfs shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Node {
    number: (u32, u32),
    name: String,
    path: PathBuf,
}

impl Node {
    fn numbered(root: &Root, number: (u32, u32)) -> Option<Node> {
        let path = root.resolve(format!("/sys/dev/block/{}:{}", number.0, number.1))?;
        Some(Node { number, name: file_name(&path)?, path })
    }

    fn at(root: &Root, path: impl AsRef<Path>) -> Option<Node> {
        let path = root.resolve(path)?;
        let number = mount::device_number(&root.text(path.join("dev"))?)?;
        Some(Node { number, name: file_name(&path)?, path })
    }

    fn listed(&self, root: &Root, directory: &str) -> Vec<Node> {
        let directory = self.path.join(directory);
        let named = |name: String| {
            Node::at(root, directory.join(&name))
                .or_else(|| Node::at(root, format!("/sys/class/block/{name}")))
        };
        root.names(&directory).into_iter().filter_map(named).collect()
    }

    fn partitions(&self, root: &Root) -> Vec<Node> {
        let names = root.names(&self.path).into_iter();
        names
            .map(|name| self.path.join(name))
            .filter(|path| root.exists(path.join("partition")))
            .filter_map(|path| Node::at(root, path))
            .collect()
    }

    /// The whole disk of a partition.
    fn disk(&self, root: &Root) -> Option<Node> {
        root.exists(self.path.join("partition")).then(|| Node::at(root, self.path.parent()?))?
    }

    /// First and past-the-last sector of a partition.
    fn sectors(&self, root: &Root) -> Option<(u64, u64)> {
        let start: u64 = root.number(self.path.join("start"))?;
        Some((start, start.saturating_add(root.number(self.path.join("size"))?)))
    }

    /// Partitions of the same disk that overlap this one.
    fn overlapping(&self, root: &Root) -> Vec<Node> {
        let (Some(disk), Some((start, end))) = (self.disk(root), self.sectors(root)) else {
            return Vec::new();
        };
        let overlaps = |other: &Node| {
            let range = other.sectors(root);
            other != self && range.is_some_and(|(from, to)| from < end && start < to)
        };
        disk.partitions(root).into_iter().filter(overlaps).collect()
    }

    fn backing_file(&self, root: &Root) -> Option<PathBuf> {
        root.word(self.path.join("loop/backing_file")).map(PathBuf::from)
    }

    /// What a holder is, in words.
    fn what(&self, root: &Root) -> String {
        if let Some(level) = root.word(self.path.join("md/level")) {
            return format!("{} array", device::words(&level));
        }
        let Some(label) = root.word(self.path.join("dm/name")) else {
            return "a device above it".to_owned();
        };
        let uuid = root.word(self.path.join("dm/uuid")).unwrap_or_default();
        let kind = match uuid.split('-').next().unwrap_or_default() {
            "LVM" => "LVM volume",
            "CRYPT" => "encrypted volume",
            "mpath" => "multipath map",
            "DMRAID" => "RAID set",
            part if part.starts_with("part") => "partition of a map",
            _ => "device-mapper volume",
        };
        format!("{kind} {}", device::words(&label))
    }
}

/// A loop device and what it lies over.
struct Loop {
    node: Node,
    file: PathBuf,
    /// Number of the block device that the file is, if it is one.
    over: Option<(u32, u32)>,
}

fn loops(root: &Root) -> Vec<Loop> {
    let names = root.names("/sys/class/block").into_iter();
    let nodes = names
        .filter(|name| name.starts_with("loop"))
        .filter_map(|name| Node::at(root, format!("/sys/class/block/{name}")));
    let attached = nodes.filter_map(|node| {
        let file = node.backing_file(root)?;
        let over = device::number_of_node(root, &file);
        Some(Loop { node, file, over })
    });
    attached.collect()
}

/// Whether two paths lead to one file; the same file may be reached by several names.
fn is_same_file(root: &Root, one: &Path, other: &Path) -> bool {
    let seen = |path: &Path| {
        let seen = rustix::fs::stat(root.path(path)).ok()?;
        Some((seen.st_dev, seen.st_ino))
    };
    one == other || seen(one).is_some_and(|one| Some(one) == seen(other))
}

/// All that uses the bytes of the block device with this number, through whatever device.
///
/// Uses by mounts of other namespaces and by other processes are found as far as this user may look
/// at them; the kernel's own claim, which an exclusive opening asks for, knows them all.
#[must_use]
pub fn uses(root: &Root, major: u32, minor: u32) -> Vec<Usage> {
    let Some(own) = Node::numbered(root, (major, minor)) else { return Vec::new() };
    let (users, loops) = (Users::of(root), loops(root));
    let mut found = Vec::new();
    let below = downwards(root, &loops, &own, &mut found);
    let mut sharing = own.overlapping(root);
    for node in &below {
        for peer in peers(root, &loops, node) {
            let by = Use::Loop { name: peer.name.clone() };
            found.push(Usage { device: node.name.clone(), by });
            sharing.push(peer);
        }
    }
    sharing.push(own);
    upwards(root, &loops, &mut sharing, &mut found);
    for node in below {
        if !sharing.contains(&node) {
            sharing.push(node);
        }
    }
    for node in &sharing {
        let direct = users.of_device(node.number).into_iter();
        found.extend(direct.map(|by| Usage { device: node.name.clone(), by }));
        if root.exists(node.path.join("bcache")) && root.names(node.path.join("holders")).is_empty()
        {
            let by = Use::Holder { name: "bcache".into(), what: "registered cache".into() };
            found.push(Usage { device: node.name.clone(), by });
        }
    }
    found
}

/// Other loop devices over the file below this loop device.
fn peers(root: &Root, loops: &[Loop], own: &Node) -> Vec<Node> {
    let Some(file) = own.backing_file(root) else { return Vec::new() };
    let others = loops.iter().filter(|other| other.node != *own);
    others.filter(|o| is_same_file(root, &o.file, &file)).map(|o| o.node.clone()).collect()
}

/// Adds what lies over the nodes, and over that.
fn upwards(root: &Root, loops: &[Loop], sharing: &mut Vec<Node>, found: &mut Vec<Usage>) {
    let mut at = 0;
    while let Some(node) = sharing.get(at).cloned() {
        at += 1;
        let mut above = node.partitions(root);
        above.extend(takers(root, loops, &node, found));
        for each in above {
            if !sharing.contains(&each) && sharing.len() < NODE_LIMIT {
                sharing.push(each);
            }
        }
    }
}

/// Holders of a device and loop devices over it; each is told.
fn takers(root: &Root, loops: &[Loop], node: &Node, found: &mut Vec<Usage>) -> Vec<Node> {
    let mut takers = node.listed(root, "holders");
    for holder in &takers {
        let by = Use::Holder { name: holder.name.clone(), what: holder.what(root) };
        found.push(Usage { device: node.name.clone(), by });
    }
    for above in loops.iter().filter(|above| above.over == Some(node.number)) {
        let by = Use::Loop { name: above.node.name.clone() };
        found.push(Usage { device: node.name.clone(), by });
        takers.push(above.node.clone());
    }
    takers
}

/// A device and what lies below it. Who else takes a whole disk takes its partitions, too; who else
/// takes the member of a volume need not take this volume.
fn downwards(root: &Root, loops: &[Loop], own: &Node, found: &mut Vec<Usage>) -> Vec<Node> {
    let mut below = vec![own.clone()];
    let mut at = 0;
    while let Some(node) = below.get(at).cloned() {
        at += 1;
        let mut next = node.listed(root, "slaves");
        if let Some(disk) = node.disk(root) {
            takers(root, loops, &disk, found);
            next.push(disk);
        }
        let over = loops.iter().find(|each| each.node == node).and_then(|each| each.over);
        next.extend(over.and_then(|number| Node::numbered(root, number)));
        for each in next {
            if !below.contains(&each) && below.len() < NODE_LIMIT {
                below.push(each);
            }
        }
    }
    below
}

/// First byte of each partition that the kernel has found on a disk, ascending.
#[must_use]
pub fn partition_starts(root: &Root, major: u32, minor: u32) -> Vec<u64> {
    const SECTOR_BYTES: u64 = 512;
    let Some(disk) = Node::numbered(root, (major, minor)) else { return Vec::new() };
    let sectors = disk.partitions(root).into_iter().filter_map(|each| each.sectors(root));
    let mut starts: Vec<u64> =
        sectors.map(|(start, _)| start.saturating_mul(SECTOR_BYTES)).collect();
    starts.sort_unstable();
    starts
}

/// Kernel name of a loop device that lies over this open file.
#[must_use]
pub fn loop_over(root: &Root, file: BorrowedFd<'_>) -> Option<String> {
    let own = rustix::fs::fstat(file).ok()?;
    let lies_over = |each: &Loop| {
        rustix::fs::stat(root.path(&each.file))
            .is_ok_and(|seen| (seen.st_dev, seen.st_ino) == (own.st_dev, own.st_ino))
    };
    loops(root).into_iter().find(lies_over).map(|each| each.node.name)
}

/// The first of these places that lies on the same disk as the device: `/`, say.
#[must_use]
pub fn same_disk(root: &Root, major: u32, minor: u32, places: &[PathBuf]) -> Option<PathBuf> {
    let own = disks(root, (major, minor));
    let users = Users::of(root);
    let on_it = |place: &&PathBuf| {
        let mount = mount::mount_of(root, place);
        let number = mount.and_then(|mount| device::device_of_mount(root, &mount));
        let numbers = number.map(|number| users.fellows(number)).unwrap_or_default();
        numbers.iter().any(|number| disks(root, *number).iter().any(|disk| own.contains(disk)))
    };
    places.iter().find(on_it).cloned()
}

/// Kernel names of the disks at the bottom of a device's stack.
fn disks(root: &Root, number: (u32, u32)) -> Vec<String> {
    let (mut found, mut below) = (Vec::new(), Vec::from_iter(Node::numbered(root, number)));
    let mut at = 0;
    while let Some(node) = below.get(at).cloned() {
        at += 1;
        let mut next = node.listed(root, "slaves");
        next.extend(node.disk(root));
        let file = node.backing_file(root);
        let over = file.and_then(|file| device::number_of_node(root, &file));
        next.extend(over.and_then(|number| Node::numbered(root, number)));
        if next.is_empty() {
            found.push(node.name);
        }
        for each in next {
            if !below.contains(&each) && below.len() < NODE_LIMIT {
                below.push(each);
            }
        }
    }
    found
}
