//! What uses block devices on this machine now: mounts, swap, file systems over several devices,
//! loop devices, processes.
//!
//! Sources: proc_pid_mountinfo(5), proc_swaps(5), proc_pid_fdinfo(5), the kernel's
//! `Documentation/ABI/testing/sysfs-fs-btrfs`.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{Mount, Root, device, mount};

/// Processes and descriptors looked at, so that an odd machine does not hold up the answer.
const DESCRIPTOR_LIMIT: usize = 1 << 18;

/// A use of a device's bytes that writing to it would harm.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Usage {
    /// Kernel name of the device through which the bytes are used.
    pub device: String,
    /// How.
    pub by: Use,
}

/// How a device is used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Use {
    /// Mounted.
    Mounted {
        /// Where.
        point: PathBuf,
        /// Whether this process sees that mount, and not only another mount namespace.
        here: bool,
    },
    /// Swap space.
    Swap,
    /// A part of a mounted file system that spans several devices.
    Member {
        /// File system type.
        filesystem: &'static str,
        /// Its UUID.
        id: String,
    },
    /// Taken by a device above it.
    Holder {
        /// Kernel name of that device.
        name: String,
        /// What it is, in words.
        what: String,
    },
    /// Reached through a loop device, too.
    Loop {
        /// Kernel name of the loop device.
        name: String,
    },
    /// Open for writing.
    Open {
        /// Process id.
        pid: u32,
        /// Its name.
        program: String,
    },
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = &self.device;
        match &self.by {
            Use::Mounted { point, here: true } => {
                write!(f, "{device} is mounted at {}", point.display())
            }
            Use::Mounted { point, here: false } => {
                write!(f, "{device} is mounted at {} in another mount namespace", point.display())
            }
            Use::Swap => write!(f, "{device} is used as swap"),
            Use::Member { filesystem, id } => {
                write!(f, "{device} belongs to the {filesystem} file system {id}, which is in use")
            }
            Use::Holder { name, what } => write!(f, "{device} is held by {name} ({what})"),
            Use::Loop { name } => write!(f, "{device} is in use by loop device {name}"),
            Use::Open { pid, program } => {
                write!(f, "{device} is open for writing in process {pid} ({program})")
            }
        }
    }
}

/// The users of all devices, read once.
#[derive(Debug)]
pub(super) struct Users {
    mounts: Vec<((u32, u32), Mount, bool)>,
    swaps: Vec<(u32, u32)>,
    members: Vec<((u32, u32), &'static str, String)>,
    open: Vec<((u32, u32), u32, String)>,
}

impl Users {
    pub(super) fn of(root: &Root) -> Self {
        let mut mounts = Vec::new();
        for (mount, here) in mount::everywhere(root) {
            for number in numbers(root, &mount) {
                mounts.push((number, mount.clone(), here));
            }
        }
        Self { mounts, swaps: swaps(root), members: members(root), open: open(root) }
    }

    /// The uses of exactly this device.
    pub(super) fn of_device(&self, number: (u32, u32)) -> Vec<Use> {
        let mut found = Vec::new();
        for (_, mount, here) in self.mounts.iter().filter(|(at, ..)| *at == number) {
            found.push(Use::Mounted { point: mount.point.clone(), here: *here });
        }
        if self.swaps.contains(&number) {
            found.push(Use::Swap);
        }
        for (_, filesystem, id) in self.members.iter().filter(|(at, ..)| *at == number) {
            found.push(Use::Member { filesystem, id: id.clone() });
        }
        for (_, pid, program) in self.open.iter().filter(|(at, ..)| *at == number) {
            found.push(Use::Open { pid: *pid, program: program.clone() });
        }
        found
    }

    /// Devices of the file system that is mounted from this one, itself included.
    pub(super) fn fellows(&self, number: (u32, u32)) -> Vec<(u32, u32)> {
        let mine = self.members.iter().find(|(at, ..)| *at == number).map(|(_, _, id)| id);
        let fellows = self.members.iter().filter(|(_, _, id)| Some(id) == mine);
        std::iter::once(number).chain(fellows.map(|(at, ..)| *at)).collect()
    }
}

/// Devices of a mount. bcachefs names all of them: `/dev/sda:/dev/sdb`.
fn numbers(root: &Root, mount: &Mount) -> Vec<(u32, u32)> {
    if mount.device.0 != 0 {
        return vec![mount.device];
    }
    let sources = mount.source.split(':');
    sources.filter_map(|source| device::number_of_node(root, Path::new(source))).collect()
}

fn swaps(root: &Root) -> Vec<(u32, u32)> {
    let table = root.text("/proc/swaps").unwrap_or_default();
    let paths = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    paths
        .filter_map(|path| device::number_of_node(root, Path::new(&mount::unescape(path))))
        .collect()
}

/// Devices of the btrfs and bcachefs file systems that are mounted: their mounts name one or none.
fn members(root: &Root) -> Vec<((u32, u32), &'static str, String)> {
    let mut found = Vec::new();
    for id in root.names("/sys/fs/btrfs") {
        let devices = Path::new("/sys/fs/btrfs").join(&id).join("devices");
        for name in root.names(&devices) {
            let dev = root.text(devices.join(&name).join("dev"));
            let number = dev.and_then(|text| mount::device_number(&text));
            found.extend(number.map(|number| (number, "btrfs", id.clone())));
        }
    }
    for id in root.names("/sys/fs/bcachefs") {
        let directory = Path::new("/sys/fs/bcachefs").join(&id);
        for name in root.names(&directory).iter().filter(|name| name.starts_with("dev-")) {
            let dev = root.text(directory.join(name).join("block/dev"));
            let number = dev.and_then(|text| mount::device_number(&text));
            found.extend(number.map(|number| (number, "bcachefs", id.clone())));
        }
    }
    found
}

/// Block devices that other processes have open for writing, as far as this user may see.
///
/// A virtual machine or a copying program does not claim its disk, so that the kernel would let us
/// write to it as well.
fn open(root: &Root) -> Vec<((u32, u32), u32, String)> {
    let own = root.link("/proc/self");
    let mut found = Vec::new();
    let mut left = DESCRIPTOR_LIMIT;
    for process in root.names("/proc") {
        let Ok(pid) = process.parse::<u32>() else { continue };
        if own.as_deref() == Some(Path::new(&process)) {
            continue;
        }
        let directory = Path::new("/proc").join(&process);
        for descriptor in root.names(directory.join("fd")) {
            left = left.saturating_sub(1);
            if left == 0 {
                return found;
            }
            let Some(path) = root.link(directory.join("fd").join(&descriptor)) else { continue };
            if !may_be_a_disk(&path) || !is_for_writing(root, &directory, &descriptor) {
                continue;
            }
            if let Some(number) = device::number_of_node(root, &path) {
                let program = root.word(directory.join("comm")).unwrap_or_default();
                found.push((number, pid, device::words(&program)));
            }
        }
    }
    found
}

/// Spares the look-up for what every process has open.
fn may_be_a_disk(path: &Path) -> bool {
    let other = ["null", "zero", "random", "urandom", "tty", "pts", "shm", "kvm", "fuse"];
    path.strip_prefix("/dev").is_ok_and(|short| !other.iter().any(|name| short.starts_with(name)))
}

/// `flags: 0100002`, octal, of proc_pid_fdinfo(5).
fn is_for_writing(root: &Root, process: &Path, descriptor: &str) -> bool {
    let info = root.text(process.join("fdinfo").join(descriptor)).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|f| f & 3 != 0)
}
