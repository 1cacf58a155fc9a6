//! Devices and files that the kernel itself exports to other machines, without a process and
//! without claiming them: NVMe targets (nvmet), SCSI targets (LIO), USB mass-storage gadgets.
//!
//! Sources: the kernel's `drivers/nvme/target/configfs.c`, `drivers/target/target_core_file.c`
//! and `target_core_iblock.c`, `Documentation/ABI/testing/configfs-usb-gadget-mass-storage`,
//! `Documentation/usb/mass-storage.rst`.

use std::path::{Path, PathBuf};

use rustix::fs::{FileType, stat};

use super::openers::{FileId, Thing};
use super::usage::Use;
use super::{Root, device, mount};

/// Where configfs is mounted on almost all machines.
const USUAL_PLACE: &str = "/sys/kernel/config";
/// Backstores for which the kernel opens no device or file: memory, and a process in user space,
/// which is found by its descriptors.
const NOT_OF_THE_KERNEL: [&str; 2] = ["rd_mcp_", "user_"];

/// A kernel server: module, configfs directory, and the function that lists its exports.
struct Server {
    module: &'static str,
    directory: &'static str,
    what: &'static str,
    list: fn(&mut Served, &Root, &Path),
}

const SERVERS: [Server; 3] = [
    Server {
        module: "nvmet",
        directory: "nvmet",
        what: "NVMe target",
        list: Served::add_namespaces,
    },
    Server {
        module: "target_core_mod",
        directory: "target",
        what: "SCSI target",
        list: Served::add_backstores,
    },
    Server {
        module: "usb_f_mass_storage",
        directory: "usb_gadget",
        what: "USB mass-storage gadget",
        list: Served::add_gadgets,
    },
];

/// Devices and files that the kernel exports.
#[derive(Debug, Default)]
pub(super) struct Served {
    things: Vec<(Thing, String)>,
    /// Descriptions of exports whose device or file is unknown.
    pub(super) unknown: Vec<String>,
}

impl Served {
    pub(super) fn of(root: &Root) -> Served {
        let places = places(root);
        let mut served = Served::default();
        for Server { module, directory, what, list } in SERVERS {
            let mut directories = places.iter().map(|place| place.join(directory));
            match directories.find(|directory| root.exists(directory)) {
                Some(directory) => list(&mut served, root, &directory),
                // A loaded module has made its directory, so configfs is not visible here.
                None if root.exists(Path::new("/sys/module").join(module)) => {
                    served.unknown.push(format!(
                        "what the {what} of the kernel serves: no configfs is mounted that \
                         shows it"
                    ));
                }
                None => {}
            }
        }
        served.add_old_gadgets(root);
        served
    }

    /// The exports of exactly this device or file.
    pub(super) fn of_thing(&self, thing: Thing) -> impl Iterator<Item = Use> {
        let is_it = move |(at, _): &&(Thing, String)| *at == thing;
        self.things.iter().filter(is_it).map(|(_, what)| Use::Served { what: what.clone() })
    }

    fn add_namespaces(&mut self, root: &Root, directory: &Path) {
        let subsystems = directory.join("subsystems");
        for subsystem in root.names(&subsystems) {
            let namespaces = subsystems.join(&subsystem).join("namespaces");
            for number in root.names(&namespaces) {
                let namespace = namespaces.join(&number);
                if is_off(root, &namespace) {
                    continue;
                }
                let name = device::words(&subsystem);
                let path = root.word(namespace.join("device_path"));
                self.add(root, path, format!("the NVMe target {name}, namespace {number}"));
            }
        }
    }

    fn add_backstores(&mut self, root: &Root, directory: &Path) {
        let core = directory.join("core");
        for adapter in root.names(&core) {
            if NOT_OF_THE_KERNEL.iter().any(|kind| adapter.starts_with(kind)) {
                continue;
            }
            for name in root.names(core.join(&adapter)) {
                let store = core.join(&adapter).join(&name);
                // The directory also contains attributes and ALUA groups.
                if !root.exists(store.join("info")) || is_off(root, &store) {
                    continue;
                }
                let what = format!("the SCSI target, backstore {}", device::words(&name));
                let info = root.text(store.join("info")).unwrap_or_default();
                match number_of_block(&info) {
                    Some(number) => self.things.push((Thing::Device(number), what)),
                    None => {
                        let path = path_of_file(&info).map(str::to_owned);
                        let path = path.or_else(|| root.word(store.join("udev_path")));
                        self.add(root, path, what);
                    }
                }
            }
        }
    }

    fn add_gadgets(&mut self, root: &Root, directory: &Path) {
        for gadget in root.names(directory) {
            let functions = directory.join(&gadget).join("functions");
            let names = root.names(&functions).into_iter();
            for function in names.filter(|name| name.starts_with("mass_storage.")) {
                let what = format!("the USB gadget {}", device::words(&gadget));
                self.add_units(root, &functions.join(function), &what);
            }
        }
    }

    /// Gadgets of the legacy module `g_mass_storage` show their units in sysfs, not in configfs.
    fn add_old_gadgets(&mut self, root: &Root) {
        let controllers = Path::new("/sys/class/udc");
        for controller in root.names(controllers) {
            let device = controllers.join(&controller).join("device");
            let names = root.names(&device).into_iter();
            for gadget in names.filter(|name| name.starts_with("gadget")) {
                let what = format!("the USB gadget of {}", device::words(&controller));
                self.add_units(root, &device.join(gadget), &what);
            }
        }
    }

    /// The logical units of a gadget; one without a medium has an empty file name.
    fn add_units(&mut self, root: &Root, directory: &Path, what: &str) {
        let names = root.names(directory).into_iter();
        for unit in names.filter(|name| name.starts_with("lun")) {
            let file = directory.join(&unit).join("file");
            let path = root.text(&file);
            if path.as_deref() == Some("") || path.is_none() && !root.exists(&file) {
                continue;
            }
            self.add(root, path, format!("{what}, {unit}"));
        }
    }

    fn add(&mut self, root: &Root, path: Option<String>, what: String) {
        match path.and_then(|path| thing(root, Path::new(&path))) {
            Some(thing) => self.things.push((thing, what)),
            None => self.unknown.push(format!("what is served by {what}")),
        }
    }
}

/// Where configfs is mounted, the usual place first.
fn places(root: &Root) -> Vec<PathBuf> {
    let mounts = mount::all(root).into_iter().filter(|mount| mount.filesystem == "configfs");
    std::iter::once(USUAL_PLACE.into()).chain(mounts.map(|mount| mount.point)).collect()
}

/// Whether the export is configured but disabled.
fn is_off(root: &Root, directory: &Path) -> bool {
    root.number::<u8>(directory.join("enable")) == Some(0)
}

/// The block device or the file at a path.
fn thing(root: &Root, path: &Path) -> Option<Thing> {
    if !path.is_absolute() {
        return None;
    }
    if let Some(number) = device::number_of_node(root, path).or_else(|| root.node(path)) {
        return Some(Thing::Device(number));
    }
    let seen = stat(root.path(path)).ok()?;
    let is_file = FileType::from_raw_mode(seen.st_mode) == FileType::RegularFile;
    is_file.then_some(Thing::File(FileId { device: seen.st_dev, inode: seen.st_ino }))
}

/// `TCM FILEIO ID: 0        File: PATH  Size: 16777216  Mode: O_DSYNC Async: 0`
fn path_of_file(info: &str) -> Option<&str> {
    let (_, rest) = info.split_once(" File: ")?;
    rest.rsplit_once("  Size: ").map(|(path, _)| path)
}

/// `Major: 259 Minor: 0  CLAIMED: IBLOCK`; 0 and 0 without a device.
fn number_of_block(info: &str) -> Option<(u32, u32)> {
    let (_, rest) = info.split_once(" Major: ")?;
    let (major, rest) = rest.split_once(" Minor: ")?;
    let minor = rest.split_whitespace().next()?;
    Some((major.parse().ok()?, minor.parse().ok()?)).filter(|number| *number != (0, 0))
}
