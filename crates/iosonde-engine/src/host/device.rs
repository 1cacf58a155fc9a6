//! Block devices as sysfs shows them, and the counters the kernel keeps for each.
//!
//! Sources: the kernel's `Documentation/ABI/stable/sysfs-block` and `Documentation/block/stat.rst`.

use std::path::{Path, PathBuf};

use super::{Mount, Root, link, mount};
use iosonde_model::record::facts::{DeviceCounters, DeviceFacts};

/// A stack of dm, md and partitions deeper than this is not followed.
const STACK_LIMIT: u32 = 8;

/// Model or vendor words of virtual disks, from a hypervisor or a storage service.
const VIRTUAL_WORDS: [&str; 11] = [
    "QEMU",
    "VMware",
    "VBOX",
    "Virtual",
    "Msft",
    "Google",
    "PersistentDisk",
    "nvme_card",
    "Amazon Elastic Block Store",
    "Xen",
    "Alibaba Cloud Elastic Block Storage",
];

/// The facts of the block device with this number; for a partition, of its whole disk.
#[must_use]
pub fn device(root: &Root, major: u32, minor: u32) -> Option<DeviceFacts> {
    device_in_stack(root, major, minor, 0)
}

fn device_in_stack(root: &Root, major: u32, minor: u32, depth: u32) -> Option<DeviceFacts> {
    let own = root.resolve(format!("/sys/dev/block/{major}:{minor}"))?;
    let is_partition = root.exists(own.join("partition"));
    let disk = if is_partition { own.parent()?.to_owned() } else { own.clone() };
    let queue = disk.join("queue");
    let parts = Parts::of(root, &disk);

    let mut facts = DeviceFacts {
        name: file_name(&disk)?,
        partition: if is_partition { file_name(&own) } else { None },
        major_minor: (major, minor),
        model: parts.model(root),
        serial: parts.serial(root),
        firmware: parts.first(root, &["firmware_rev", "rev", "fwrev"]),
        wwid: parts.wwid(root).or_else(|| root.word(disk.join("dm/uuid"))),
        bytes: root.number::<u64>(disk.join("size")).and_then(|sectors| sectors.checked_mul(512)),
        logical_block_bytes: root.number(queue.join("logical_block_size")),
        physical_block_bytes: root.number(queue.join("physical_block_size")),
        scheduler: root.word(queue.join("scheduler")).and_then(|list| active(&list)),
        write_cache: root.word(queue.join("write_cache")),
        rotational: root.number::<u8>(queue.join("rotational")).map(|flag| flag != 0),
        nr_requests: root.number(queue.join("nr_requests")),
        max_sectors_kb: root.number(queue.join("max_sectors_kb")),
        transport: transport(root, &disk),
        alignment_offset: root.number(own.join("alignment_offset")),
        partition_start_bytes: root
            .number::<u64>(own.join("start"))
            .and_then(|sectors| sectors.checked_mul(512)),
        slaves: slaves(root, &disk),
        ..DeviceFacts::default()
    };
    link::describe(root, &disk, &parts.directories, &mut facts);
    facts.is_virtual = is_virtual(&facts);
    describe_from_below(root, &disk, &mut facts, depth);
    Some(facts)
}

/// Directories that may contain the attributes of a disk: its own, its device's, and those of the
/// controllers of an NVMe subsystem.
pub(super) struct Parts {
    pub(super) directories: Vec<PathBuf>,
}

impl Parts {
    pub(super) fn of(root: &Root, disk: &Path) -> Self {
        let mut directories = vec![disk.to_owned()];
        if let Some(device) = root.resolve(disk.join("device")) {
            // With native multipath the device is a subsystem, which has links to its controllers.
            let controllers = root.names(&device).into_iter().filter(|name| {
                name.strip_prefix("nvme").is_some_and(|rest| {
                    !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())
                })
            });
            let controllers: Vec<PathBuf> =
                controllers.filter_map(|name| root.resolve(device.join(name))).collect();
            directories.push(device);
            directories.extend(controllers);
        }
        Self { directories }
    }

    /// The first file with content, in order of the names, then of the directories.
    fn first(&self, root: &Root, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| {
            let word = self.directories.iter().find_map(|dir| root.word(dir.join(name)))?;
            Some(words(&word))
        })
    }

    /// The world-wide identifier.
    pub(super) fn wwid(&self, root: &Root) -> Option<String> {
        self.first(root, &["wwid", "uuid"])
    }

    /// Vendor and model; the vendor of an ATA disk is the useless word `ATA`.
    pub(super) fn model(&self, root: &Root) -> Option<String> {
        let disk = self.directories.first()?;
        let device = disk.join("device");
        let model = root.word(device.join("model")).or_else(|| self.first(root, &["model"]));
        let Some(model) = model else {
            return root.word(device.join("name")).or_else(|| root.word(disk.join("dm/name")));
        };
        let model = words(&model);
        match root.word(device.join("vendor")).map(|vendor| words(&vendor)) {
            // A vendor that is a PCI or virtio number is not part of the model name.
            Some(vendor) if vendor != "ATA" && !vendor.starts_with("0x") => {
                Some(format!("{vendor} {model}"))
            }
            _ => Some(model),
        }
    }

    /// The serial number; SCSI keeps it in a binary page of vital product data (SPC, page 0x80).
    pub(super) fn serial(&self, root: &Root) -> Option<String> {
        self.first(root, &["serial"]).or_else(|| {
            let page = root.bytes(self.directories.first()?.join("device/vpd_pg80"), 260)?;
            let length = usize::from(u16::from_be_bytes([*page.get(2)?, *page.get(3)?]));
            let serial = String::from_utf8_lossy(page.get(4..4 + length)?).trim().to_owned();
            (!serial.is_empty()).then_some(serial)
        })
    }
}

/// Replaces each run of white space and control characters by a space, for safe display.
pub(super) fn words(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

/// The scheduler in brackets, or the only one: `none [mq-deadline] kyber`.
fn active(list: &str) -> Option<String> {
    let inside = list.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let name = inside.map_or_else(
        || Some(list).filter(|list| !list.contains(char::is_whitespace)),
        |(name, _)| Some(name),
    )?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// The transport of a disk, from its name and the buses on its path in `/sys/devices`.
fn transport(root: &Root, disk: &Path) -> Option<String> {
    let name = file_name(disk)?;
    let on_path = |prefix: &str| {
        disk.components().any(|part| {
            part.as_os_str().to_str().and_then(|part| part.strip_prefix(prefix)).is_some_and(
                |rest| {
                    rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') || rest.is_empty()
                },
            )
        })
    };
    if name.starts_with("nvme") {
        let fabric = Parts::of(root, disk)
            .directories
            .iter()
            .find_map(|directory| root.word(directory.join("transport")));
        return Some(match fabric {
            Some(fabric) if fabric != "pcie" => format!("nvme-{fabric}"),
            _ => "nvme".to_owned(),
        });
    }
    let by_name = [
        ("loop", "loop"),
        ("zram", "zram"),
        ("ram", "ram"),
        ("dm-", "dm"),
        ("md", "md"),
        ("nbd", "nbd"),
        ("rbd", "rbd"),
        ("drbd", "drbd"),
        ("nullb", "null_blk"),
        ("ublkb", "ublk"),
        ("bcache", "bcache"),
        ("zd", "zvol"),
        ("pmem", "pmem"),
        ("mmcblk", "mmc"),
        ("xvd", "xen"),
    ];
    let numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let by_name = by_name.iter().find(|(prefix, _)| {
        if *prefix == "xvd" { name.starts_with("xvd") } else { numbered(prefix) }
    });
    let kind = if let Some((_, kind)) = by_name {
        kind
    } else if on_path("virtio") {
        if on_path("host") { "virtio-scsi" } else { "virtio" }
    } else if on_path("vbd") {
        "xen"
    } else if disk.components().any(|p| p.as_os_str().to_string_lossy().starts_with("VMBUS")) {
        "hyperv"
    } else if on_path("usb") {
        "usb"
    } else if on_path("ata") {
        "sata"
    } else if on_path("session") {
        "iscsi"
    } else if on_path("rport") {
        "fc"
    } else if on_path("end_device") {
        "sas"
    } else if on_path("host") {
        "scsi"
    } else {
        return None;
    };
    Some(kind.to_owned())
}

/// What is below a disk: kernel names for dm and md, a path for loop.
fn slaves(root: &Root, disk: &Path) -> Vec<String> {
    let mut below = root.names(disk.join("slaves"));
    below.extend(root.word(disk.join("loop/backing_file")));
    below
}

fn is_virtual(facts: &DeviceFacts) -> Option<bool> {
    let named = |text: &Option<String>| {
        text.as_ref().is_some_and(|text| VIRTUAL_WORDS.iter().any(|word| text.contains(word)))
    };
    if named(&facts.model) {
        return Some(true);
    }
    match facts.transport.as_deref()? {
        "virtio" | "virtio-scsi" | "xen" | "hyperv" | "loop" | "zram" | "ram" | "nbd" | "rbd"
        | "null_blk" | "ublk" => Some(true),
        "nvme" | "sata" | "usb" | "sas" | "mmc" => Some(false),
        _ => None,
    }
}

/// Whether a dm or md device is virtual, and its link, follow from the devices below it.
fn describe_from_below(root: &Root, disk: &Path, facts: &mut DeviceFacts, depth: u32) {
    if depth >= STACK_LIMIT || facts.is_virtual.is_some() {
        return;
    }
    let below: Vec<DeviceFacts> = numbers_below(root, disk)
        .into_iter()
        .filter_map(|(major, minor)| device_in_stack(root, major, minor, depth + 1))
        .collect();
    if below.iter().any(|device| device.is_virtual == Some(true)) {
        facts.is_virtual = Some(true);
    } else if !below.is_empty() && below.iter().all(|device| device.is_virtual == Some(false)) {
        facts.is_virtual = Some(false);
    }
    // The link of the only device below is the ceiling; several links may carry data at once.
    if let [only] = below.as_slice() {
        facts.link.clone_from(&only.link);
        facts.link_max.clone_from(&only.link_max);
        facts.link_bytes_per_s = only.link_bytes_per_s;
    }
}

/// Device numbers of the devices listed in `slaves`.
pub(super) fn numbers_below(root: &Root, disk: &Path) -> Vec<(u32, u32)> {
    let slaves = disk.join("slaves");
    root.names(&slaves)
        .into_iter()
        .filter_map(|name| mount::device_number(&root.text(slaves.join(name).join("dev"))?))
        .collect()
}

/// The device itself, its whole disk, and everything below it: a limit on any of them applies.
pub(super) fn numbers_in_stack(root: &Root, major: u32, minor: u32) -> Vec<(u32, u32)> {
    let mut known = vec![(major, minor)];
    let mut at = 0;
    // The list grows while it is walked; each device is entered once, and sysfs is finite.
    while at < known.len() && known.len() < 256 {
        let (major, minor) = known[at];
        at += 1;
        let Some(own) = root.resolve(format!("/sys/dev/block/{major}:{minor}")) else { continue };
        let mut found = numbers_below(root, &own);
        if root.exists(own.join("partition"))
            && let Some(disk) = own.parent().and_then(|disk| root.text(disk.join("dev")))
        {
            found.extend(mount::device_number(&disk));
        }
        for number in found {
            if !known.contains(&number) {
                known.push(number);
            }
        }
    }
    known
}

/// The block device that holds a mounted file system.
///
/// btrfs, overlay and network mounts have an anonymous number (major 0); for those the mount's
/// source is looked up under `/dev` and in sysfs. `None` where there is no such device.
#[must_use]
pub fn device_of_mount(root: &Root, mount: &Mount) -> Option<(u32, u32)> {
    if mount.device.0 != 0 {
        return Some(mount.device);
    }
    number_of_node(root, Path::new(&mount.source))
}

/// Number of the block device that a path below `/dev` names.
pub fn number_of_node(root: &Root, source: &Path) -> Option<(u32, u32)> {
    // A path outside `/dev` may be on a file server that does not answer.
    let short = source.strip_prefix("/dev").ok()?;
    if let Some(found) = root.node(source) {
        return Some(found);
    }
    let resolved = root.resolve(source);
    let name = resolved.as_deref().and_then(file_name).or_else(|| file_name(source))?;
    let number =
        |name: &str| mount::device_number(&root.text(format!("/sys/class/block/{name}/dev"))?);
    // Sysfs writes `/` in a device name as `!`. A container may lack the node of `/dev/mapper/x`.
    number(&name).or_else(|| number(&short.to_str()?.replace('/', "!"))).or_else(|| {
        root.names("/sys/class/block").into_iter().filter(|name| name.starts_with("dm-")).find_map(
            |name| {
                let label = root.word(format!("/sys/class/block/{name}/dm/name"))?;
                if Path::new("mapper").join(label) == short { number(&name) } else { None }
            },
        )
    })
}

/// The counters of a disk or partition by its kernel name (`nvme0n1`, `sda1`).
#[must_use]
pub fn device_counters(root: &Root, name: &str) -> Option<DeviceCounters> {
    counters(&root.text(format!("/sys/class/block/{name}/stat"))?)
}

/// Eleven fields, fifteen since Linux 4.18 (discards), seventeen since 5.5 (flushes).
pub(super) fn counters(stat: &str) -> Option<DeviceCounters> {
    let fields: Option<Vec<u64>> =
        stat.split_whitespace().take(17).map(|field| field.parse().ok()).collect();
    let fields = fields.filter(|fields| fields.len() >= 11)?;
    let field = |at: usize| fields.get(at).copied().unwrap_or(0);
    Some(DeviceCounters {
        reads: field(0),
        read_merges: field(1),
        read_sectors: field(2),
        read_ms: field(3),
        writes: field(4),
        write_merges: field(5),
        write_sectors: field(6),
        write_ms: field(7),
        in_flight: field(8),
        busy_ms: field(9),
        weighted_ms: field(10),
        discards: field(11),
        flushes: field(15),
        flush_ms: field(16),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn counters_of_every_kernel_age() {
        let old = counters("  1 2 3 4 5 6 7 8 9 10 11\n").unwrap();
        assert_eq!((old.reads, old.write_ms, old.busy_ms, old.weighted_ms), (1, 8, 10, 11));
        assert_eq!((old.discards, old.flushes, old.flush_ms), (0, 0, 0));
        let new = counters("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19").unwrap();
        assert_eq!((new.discards, new.flushes, new.flush_ms), (12, 16, 17));
        for odd in ["", "1 2 3", "1 2 3 4 5 6 7 8 9 10 -11", "a b c d e f g h i j k"] {
            assert_eq!(counters(odd), None, "{odd}");
        }
    }

    #[test]
    fn schedulers() {
        assert_eq!(active("none [mq-deadline] kyber").as_deref(), Some("mq-deadline"));
        assert_eq!(active("none").as_deref(), Some("none"));
        assert_eq!(active("a b"), None);
        assert_eq!(active("a []"), None);
        assert_eq!(active("]["), Some("][".to_owned()));
    }

    #[test]
    fn strings_from_devices_carry_no_control_characters() {
        assert_eq!(words(" Evil\x1b[31m\tdisk \n x "), "Evil [31m disk x");
    }
}
