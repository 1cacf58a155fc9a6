//! Current uses of block devices on this machine: mounts, swap, file systems over several devices,
//! loop devices, processes.
//!
//! Sources: proc_pid_mountinfo(5), proc_swaps(5), the kernel's
//! `Documentation/ABI/testing/sysfs-fs-btrfs`.

use std::fmt;
use std::path::{Path, PathBuf};

use super::openers::{Access, Opener, Openers, Thing, Unseen};
use super::served::Served;
use super::{Mount, Root, device, mount};

/// The uses of a target's bytes, and what could not be examined.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct InUse {
    pub uses: Vec<Usage>,
    /// What could not be examined and may hide more uses.
    pub unseen: Unseen,
    /// Processes whose descriptors and mappings were examined.
    pub processes: u32,
    /// Whether this process has a second descriptor on the target. A lease then fails, so it cannot
    /// show whether another process has the target open.
    pub is_open_here: bool,
}

/// A use of a target's bytes that writing to it would harm.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Usage {
    /// Kernel name of the device through which the bytes are used; `it` for a file.
    pub device: String,
    pub by: Use,
}

/// How a device is used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Use {
    Mounted {
        point: PathBuf,
        /// Whether the mount is in this process's mount namespace.
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
    /// Held by a device above it.
    Holder {
        /// Kernel name of that device.
        name: String,
        /// A description of that device.
        what: String,
    },
    /// Used by a loop device.
    Loop {
        /// Kernel name of the loop device.
        name: String,
    },
    /// Served to other machines by the kernel, which does not claim it.
    Served {
        /// A description of the server.
        what: String,
    },
    /// Open in a process, or mapped by it.
    Open { pid: u32, program: String, access: Access },
    /// Locked or leased.
    Locked {
        /// As proc_locks(5) names it: `POSIX`, `OFDLCK`, `LEASE`, `DELEG`.
        kind: String,
        /// Process id, where the kernel shows one.
        pid: Option<u32>,
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
            Use::Served { what } => write!(f, "{device} is served by {what}"),
            Use::Open { pid, program, access } => {
                let how = match access {
                    Access::Write => "open for writing in",
                    Access::Read => "open for reading in",
                    Access::Map => "mapped by",
                };
                write!(f, "{device} is {how} process {pid} ({program})")
            }
            Use::Locked { kind, pid: Some(pid) } => {
                write!(f, "{device} is locked ({kind}) by process {pid}")
            }
            Use::Locked { kind, pid: None } => write!(f, "{device} is locked ({kind})"),
        }
    }
}

/// The users of all devices and of some files, read once.
#[derive(Debug)]
pub(super) struct Users {
    mounts: Vec<((u32, u32), Mount, bool)>,
    swaps: Vec<(u32, u32)>,
    members: Members,
    served: Served,
    pub(super) openers: Openers,
}

impl Users {
    /// Finds the uses of all block devices, and the processes that have these things open.
    pub(super) fn of(root: &Root, things: &[Thing]) -> Self {
        let mut mounts = Vec::new();
        for (mount, here) in mount::everywhere(root) {
            for number in numbers(root, &mount) {
                mounts.push((number, mount.clone(), here));
            }
        }
        let (swaps, openers) = (swaps(root), Openers::of(root, things));
        Self { mounts, swaps, members: Members::of(root), served: Served::of(root), openers }
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
        for (_, filesystem, id) in self.members.0.iter().filter(|(at, ..)| *at == number) {
            found.push(Use::Member { filesystem, id: id.clone() });
        }
        found.extend(self.of_thing(Thing::Device(number)));
        found
    }

    /// What could not be examined.
    pub(super) fn unseen(&self) -> Unseen {
        let mut unseen = self.openers.unseen.clone();
        unseen.others.extend(self.served.unknown.iter().cloned());
        unseen
    }

    /// The exports of exactly this thing, and the other processes that have it open.
    pub(super) fn of_thing(&self, thing: Thing) -> impl Iterator<Item = Use> {
        let has_it = move |opener: &&Opener| opener.thing == thing && !opener.is_own;
        let open = self.openers.found.iter().filter(has_it).map(|opener| Use::Open {
            pid: opener.pid,
            program: opener.program.clone(),
            access: opener.access,
        });
        self.served.of_thing(thing).chain(open)
    }
}

/// The devices of mounted file systems that may span several devices.
#[derive(Debug)]
pub(super) struct Members(Vec<((u32, u32), &'static str, String)>);

impl Members {
    pub(super) fn of(root: &Root) -> Self {
        Self(members(root))
    }

    /// Devices of the file system that is mounted from this one, itself included.
    pub(super) fn fellows(&self, number: (u32, u32)) -> Vec<(u32, u32)> {
        let mine = self.0.iter().find(|(at, ..)| *at == number).map(|(_, _, id)| id);
        let fellows = self.0.iter().filter(|(_, _, id)| Some(id) == mine);
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
    let paths = swap_paths(root);
    paths.iter().filter_map(|path| device::number_of_node(root, path)).collect()
}

/// Devices and files in use as swap.
pub(super) fn swap_paths(root: &Root) -> Vec<PathBuf> {
    let table = root.text("/proc/swaps").unwrap_or_default();
    let paths = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    paths.map(|path| PathBuf::from(mount::unescape(path))).collect()
}

/// Devices of the mounted btrfs and bcachefs file systems, whose mounts need not name them all.
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
