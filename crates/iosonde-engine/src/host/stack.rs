//! Everything that shares bytes with a block device, and whether any of it is in use.
//!
//! Upwards: partitions, holders (dm, md, bcache), loop devices over it. Downwards: the whole disk
//! of a partition, the members of a dm or md device, the device below a loop device. A device that
//! shares only a disk or a volume group, but no bytes, is not counted.

use std::path::{Path, PathBuf};

use super::device::{self, file_name};
use super::loops::{Loop, loops};
use super::openers::Thing;
use super::paths::{Disks, characters};
use super::usage::{InUse, Members, Usage, Use, Users};
use super::{Root, mount};

/// A stack with more devices than this is not followed further.
const NODE_LIMIT: usize = 4096;

/// A block device as sysfs shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Node {
    pub(super) number: (u32, u32),
    pub(super) name: String,
    pub(super) path: PathBuf,
}

impl Node {
    fn numbered(root: &Root, number: (u32, u32)) -> Option<Node> {
        let path = root.resolve(format!("/sys/dev/block/{}:{}", number.0, number.1))?;
        Some(Node { number, name: file_name(&path)?, path })
    }

    pub(super) fn at(root: &Root, path: impl AsRef<Path>) -> Option<Node> {
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

    pub(super) fn partitions(&self, root: &Root) -> Vec<Node> {
        let names = root.names(&self.path).into_iter();
        names
            .map(|name| self.path.join(name))
            .filter(|path| root.exists(path.join("partition")))
            .filter_map(|path| Node::at(root, path))
            .collect()
    }

    /// The whole disk of a partition.
    pub(super) fn disk(&self, root: &Root) -> Option<Node> {
        root.exists(self.path.join("partition")).then(|| Node::at(root, self.path.parent()?))?
    }

    /// First and past-the-last sector of a partition.
    fn sectors(&self, root: &Root) -> Option<(u64, u64)> {
        let start: u64 = root.number(self.path.join("start"))?;
        Some((start, start.saturating_add(root.number(self.path.join("size"))?)))
    }

    /// The partitions of `disk` (this partition's, or another path to it) that overlap this one.
    pub(super) fn overlapping(&self, root: &Root, disk: &Node) -> Vec<Node> {
        let Some((start, end)) = self.sectors(root) else { return Vec::new() };
        let overlaps = |other: &Node| {
            let range = other.sectors(root);
            other != self && range.is_some_and(|(from, to)| from < end && start < to)
        };
        disk.partitions(root).into_iter().filter(overlaps).collect()
    }

    /// A description of this holder.
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

/// All uses of the bytes of the block device with this number, through any device.
///
/// Mounts of other namespaces and other processes are found as far as this user may examine them.
/// An exclusive open (`O_EXCL`) fails on any claim in the kernel, except on another path to the
/// same disk.
#[must_use]
pub fn uses(root: &Root, major: u32, minor: u32) -> InUse {
    let Some(own) = Node::numbered(root, (major, minor)) else { return InUse::default() };
    let loops = loops(root);
    let mut found = Vec::new();
    let mut below = downwards(root, &loops, &own, &mut found);
    let mut sharing = own.disk(root).map(|disk| own.overlapping(root, &disk)).unwrap_or_default();
    for node in &below {
        for peer in peers(&loops, node) {
            let by = Use::Loop { name: peer.name.clone() };
            found.push(Usage { device: node.name.clone(), by });
            sharing.push(peer);
        }
    }
    let others = Disks::of(root).other_paths(root, &below);
    for path in &others {
        match &path.overlapping {
            None => sharing.push(path.node.clone()),
            Some(partitions) => {
                takers(root, &loops, &path.node, &mut found);
                sharing.extend(partitions.iter().cloned());
                below.push(path.node.clone());
            }
        }
    }
    sharing.push(own);
    upwards(root, &loops, &mut sharing, &mut found);
    for node in below {
        if !sharing.contains(&node) {
            sharing.push(node);
        }
    }
    let files = loops.iter().filter_map(|each| each.file).map(Thing::File);
    let characters: Vec<_> = sharing.iter().map(|node| characters(root, node)).collect();
    let numbers = characters.iter().flatten().map(|(_, number)| Thing::Character(*number));
    let users = Users::of(root, &files.chain(numbers).collect::<Vec<_>>());
    for (node, characters) in sharing.iter().zip(&characters) {
        let direct = users.of_device(node.number).into_iter();
        found.extend(direct.map(|by| Usage { device: node.name.clone(), by }));
        for (name, number) in characters {
            let device = format!("{} (as {name})", node.name);
            let open = users.of_thing(Thing::Character(*number));
            found.extend(open.map(|by| Usage { device: device.clone(), by }));
        }
        let file = loops.iter().find(|each| each.node == *node).and_then(|each| each.file);
        let over = file.into_iter().flat_map(|file| users.of_thing(Thing::File(file)));
        let device = format!("the file below {}", node.name);
        found.extend(over.map(|by| Usage { device: device.clone(), by }));
        if root.exists(node.path.join("bcache")) && root.names(node.path.join("holders")).is_empty()
        {
            let by = Use::Holder { name: "bcache".into(), what: "registered cache".into() };
            found.push(Usage { device: node.name.clone(), by });
        }
    }
    for usage in &mut found {
        if let Some(path) = others.iter().find(|path| path.has(usage)) {
            usage.device.push_str(&format!(" ({path})"));
        }
    }
    let mut unseen = users.unseen();
    unseen.others.extend(loops.iter().filter_map(Loop::unknown));
    let ours = loops.iter().filter(|each| sharing.contains(&each.node));
    unseen.others.extend(ours.filter_map(|each| each.stacked(root)));
    InUse { uses: found, unseen, processes: users.openers.processes, is_open_here: false }
}

/// Other loop devices over the file below this loop device.
fn peers(loops: &[Loop], own: &Node) -> Vec<Node> {
    let Some(own) = loops.iter().find(|each| each.node == *own) else { return Vec::new() };
    let others = loops.iter().filter(|other| other.node != own.node);
    others.filter(|other| other.is_over_same(own)).map(|other| other.node.clone()).collect()
}

/// Adds all devices above the nodes.
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

/// Holders of a device and loop devices over it; each is added to `found`.
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

/// A device and everything below it. A holder of a whole disk also uses its partitions, so it is
/// added to `found`; another holder of a volume's member need not use this volume.
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

/// The first of these paths that is on the same disk as the device, such as `/`.
#[must_use]
pub fn same_disk(root: &Root, major: u32, minor: u32, places: &[PathBuf]) -> Option<PathBuf> {
    let loops = loops(root);
    let paths = Disks::of(root);
    let own = disks(root, &loops, &paths, (major, minor));
    let members = Members::of(root);
    let on_it = |place: &&PathBuf| {
        let mount = mount::mount_of(root, place);
        let number = mount.and_then(|mount| device::device_of_mount(root, &mount));
        let numbers = number.map(|number| members.fellows(number)).unwrap_or_default();
        let on_own =
            |number| disks(root, &loops, &paths, number).iter().any(|disk| own.contains(disk));
        numbers.into_iter().any(on_own)
    };
    places.iter().find(on_it).cloned()
}

/// Kernel names of the disks at the bottom of a device's stack, on every path to them.
fn disks(root: &Root, loops: &[Loop], paths: &Disks, number: (u32, u32)) -> Vec<String> {
    let (mut found, mut below) = (Vec::new(), Vec::from_iter(Node::numbered(root, number)));
    let mut at = 0;
    while let Some(node) = below.get(at).cloned() {
        at += 1;
        let mut next = node.listed(root, "slaves");
        next.extend(node.disk(root));
        let over = loops.iter().find(|each| each.node == node).and_then(|each| each.over);
        next.extend(over.and_then(|number| Node::numbered(root, number)));
        if next.is_empty() {
            found.extend(paths.names_of_others(&node));
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
