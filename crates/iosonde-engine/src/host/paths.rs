//! Other paths to the bytes of a disk: its character devices, and block devices that are the same
//! disk behind another adapter or port.
//!
//! Two different drives may report the same identifier. That alone forbids neither; a use of the
//! other one does.
//!
//! Sources: the kernel's `Documentation/ABI/testing/sysfs-block-device` (`wwid`), sg(4), and
//! `drivers/nvme/host` for the names of NVMe's generic devices.

use std::fmt;
use std::path::Path;

use super::Root;
use super::device::{Parts, file_name};
use super::mount;
use super::stack::Node;
use super::usage::Usage;

/// How a disk identifies itself. Two disks with the same identity are treated as one.
#[derive(Clone, Debug, Eq, PartialEq)]
enum DiskId {
    /// World-wide identifier, unique by the standards.
    Wwid(String),
    /// Identity without a WWID. Cheap USB bridges share serial numbers, so model, size and unit
    /// (NVMe namespace, SCSI LUN) must be equal, too.
    Serial { serial: String, model: Option<String>, sectors: u64, unit: Option<String> },
}

impl DiskId {
    fn of(root: &Root, disk: &Node) -> Option<DiskId> {
        let parts = Parts::of(root, &disk.path);
        if let Some(wwid) = parts.wwid(root) {
            return Some(DiskId::Wwid(wwid));
        }
        let namespace = root.word(disk.path.join("nsid"));
        let unit = namespace.or_else(|| logical_unit(&root.resolve(disk.path.join("device"))?));
        Some(DiskId::Serial {
            serial: parts.serial(root)?,
            model: parts.model(root),
            sectors: root.number(disk.path.join("size"))?,
            unit,
        })
    }
}

/// The last number of a SCSI device, `HOST:CHANNEL:TARGET:LUN`.
fn logical_unit(device: &Path) -> Option<String> {
    let name = file_name(device)?;
    let numbers: Vec<&str> = name.split(':').collect();
    if numbers.len() == 4 { numbers.last().map(ToString::to_string) } else { None }
}

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskId::Wwid(wwid) => write!(f, "the WWID {wwid}"),
            DiskId::Serial { serial, .. } => write!(f, "serial number {serial}, model and size"),
        }
    }
}

/// Another block device that is the same disk as one in the target's stack.
pub(super) struct OtherPath {
    pub(super) node: Node,
    /// If the stack has only a partition of the disk: the partitions of `node` that overlap it.
    pub(super) overlapping: Option<Vec<Node>>,
    /// Kernel names of the disk and its partitions on this path.
    names: Vec<String>,
    id: DiskId,
}

impl OtherPath {
    /// Whether a usage goes through this path.
    pub(super) fn has(&self, usage: &Usage) -> bool {
        let name = usage.device.split(' ').next().unwrap_or_default();
        self.names.iter().any(|own| own == name)
    }
}

impl fmt::Display for OtherPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another path to this disk: both show {}", self.id)
    }
}

/// The disks of this machine that have an identity.
pub(super) struct Disks(Vec<(Node, DiskId)>);

impl Disks {
    pub(super) fn of(root: &Root) -> Disks {
        let nodes = root.names("/sys/class/block").into_iter();
        let disks = nodes
            .filter_map(|name| Node::at(root, format!("/sys/class/block/{name}")))
            .filter(|node| !root.exists(node.path.join("partition")));
        Disks(disks.filter_map(|disk| DiskId::of(root, &disk).map(|id| (disk, id))).collect())
    }

    /// The other block devices that are this whole disk, with the identity that they share.
    fn same(&self, disk: &Node) -> impl Iterator<Item = &(Node, DiskId)> {
        let own = self.0.iter().find(|(node, _)| node == disk).map(|(_, id)| id);
        self.0.iter().filter(move |(node, id)| node != disk && own == Some(id))
    }

    /// Kernel names of the other block devices that are this whole disk.
    pub(super) fn names_of_others(&self, disk: &Node) -> impl Iterator<Item = String> {
        self.same(disk).map(|(node, _)| node.name.clone())
    }

    /// The other paths to the disks of a stack, which is a device and everything below it.
    pub(super) fn other_paths(&self, root: &Root, stack: &[Node]) -> Vec<OtherPath> {
        let mut found = Vec::new();
        for node in stack {
            let disk = node.disk(root);
            if disk.is_none() && stack.iter().any(|part| part.disk(root).as_ref() == Some(node)) {
                // Only a partition of this disk matters.
                continue;
            }
            let is_partition = disk.is_some();
            for (path, id) in self.same(&disk.unwrap_or_else(|| node.clone())) {
                if stack.contains(path) {
                    continue;
                }
                let partitions = path.partitions(root).into_iter().map(|part| part.name);
                found.push(OtherPath {
                    node: path.clone(),
                    overlapping: is_partition.then(|| node.overlapping(root, path)),
                    names: partitions.chain([path.name.clone()]).collect(),
                    id: id.clone(),
                });
            }
        }
        found
    }
}

/// Names and numbers of the character devices that take commands for a disk: `sg` and `bsg` for
/// SCSI, the generic device (`ng0n1`) and the controllers for NVMe.
pub(super) fn characters(root: &Root, disk: &Node) -> Vec<(String, (u32, u32))> {
    let mut places = Vec::new();
    for class in ["scsi_generic", "bsg"] {
        let directory = disk.path.join("device").join(class);
        places.extend(root.names(&directory).into_iter().map(|name| directory.join(name)));
    }
    let generic = disk.name.strip_prefix("nvme").zip(disk.path.parent());
    places.extend(generic.map(|(rest, above)| above.join(format!("ng{rest}"))));
    // The first directory is that of the disk itself; those of its controllers follow.
    places.extend(Parts::of(root, &disk.path).directories.into_iter().skip(1));
    let known = places.into_iter().filter_map(|place| {
        Some((file_name(&place)?, mount::device_number(&root.text(place.join("dev"))?)?))
    });
    known.collect()
}
