//! Loop devices and their backing files, as identified by the kernel. The path in sysfs may have
//! been renamed or unlinked, or belong to another mount namespace.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use iosonde_model::record::facts::FilesystemClass;
use iosonde_sys::sharing;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, major, minor, openat, stat, statfs};

use super::openers::FileId;
use super::stack::Node;
use super::{Root, device, filesystem_class, mount};

/// A loop device that is attached to a file or device.
pub(super) struct Loop {
    pub(super) node: Node,
    /// Path of the backing file in sysfs.
    path: PathBuf,
    /// Its backing file, or the node of a device.
    pub(super) file: Option<FileId>,
    /// Number of its backing device, if it is one.
    pub(super) over: Option<(u32, u32)>,
}

impl Loop {
    /// Whether both have the same backing file.
    pub(super) fn is_over_same(&self, other: &Loop) -> bool {
        self.path == other.path || self.file.is_some() && self.file == other.file
    }

    /// A description if the backing file is unknown.
    pub(super) fn unknown(&self) -> Option<String> {
        let is_known = self.file.is_some() || self.over.is_some();
        (!is_known).then(|| format!("what {} lies over", self.node.name))
    }

    /// A description if the backing file may be used through another inode, because its file system
    /// is stacked or unknown.
    pub(super) fn stacked(&self, root: &Root) -> Option<String> {
        let file = self.file.filter(|_| self.over.is_none() && root.is_system())?;
        let Some((name, class)) = self.filesystem(root, file) else {
            return Some(format!("on which file system the file below {} is", self.node.name));
        };
        let who =
            || format!("whoever uses the file below {} in a layer of its {name}", self.node.name);
        (class == FilesystemClass::Stacked).then(who)
    }

    /// Name and class of the file system of the backing file.
    fn filesystem(&self, root: &Root, file: FileId) -> Option<(String, FilesystemClass)> {
        let path = root.path(&self.path);
        if stat(&path).is_ok_and(|seen| FileId { device: seen.st_dev, inode: seen.st_ino } == file)
        {
            return Some(filesystem_class("", u64::try_from(statfs(&path).ok()?.f_type).ok()?));
        }
        // The path leads to another file, as after a rename; use the device number.
        let number = (major(file.device), minor(file.device));
        let mount = mount::all(root).into_iter().find(|mount| mount.device == number)?;
        Some(filesystem_class(&mount.filesystem, 0))
    }
}

/// All attached loop devices.
pub(super) fn loops(root: &Root) -> Vec<Loop> {
    let names = root.names("/sys/class/block").into_iter();
    let nodes = names
        .filter(|name| name.starts_with("loop"))
        .filter_map(|name| Node::at(root, format!("/sys/class/block/{name}")));
    let attached = nodes.filter_map(|node| {
        let path = root.word(node.path.join("loop/backing_file")).map(PathBuf::from)?;
        let (file, over) = below(root, &node, &path);
        Some(Loop { node, path, file, over })
    });
    attached.collect()
}

/// The backing file of a loop device, and its number if it is a block device.
fn below(root: &Root, node: &Node, path: &Path) -> (Option<FileId>, Option<(u32, u32)>) {
    if let Some(backing) = known_to_the_kernel(root, node) {
        let file = FileId { device: backing.device, inode: backing.inode };
        let number = backing.is_device;
        return (Some(file), (number != 0).then(|| (major(number), minor(number))));
    }
    // Without permission to open the loop device, use the path.
    let seen = rustix::fs::stat(root.path(path)).ok();
    let file = seen.map(|seen| FileId { device: seen.st_dev, inode: seen.st_ino });
    (file, device::number_of_node(root, path))
}

fn known_to_the_kernel(root: &Root, node: &Node) -> Option<sharing::LoopBacking> {
    if !root.is_system() {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = Path::new("/dev").join(&node.name);
    let file = openat(CWD, path, flags, Mode::empty()).ok()?;
    let seen = fstat(&file).ok()?;
    let is_it = FileType::from_raw_mode(seen.st_mode) == FileType::BlockDevice
        && (major(seen.st_rdev), minor(seen.st_rdev)) == node.number;
    if is_it { sharing::loop_backing(file.as_fd()).ok() } else { None }
}
