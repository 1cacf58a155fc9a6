//! Users and identity of a block device, on machines that a test cannot create.

use std::path::PathBuf;

use iosonde_engine::host::{self, Root};
use iosonde_rig::skip;

use crate::tree::Tree;

/// Builds the text of a tree device by device.
#[derive(Default)]
struct Machine(String);

impl Machine {
    fn line(mut self, line: &str) -> Self {
        self.0.push_str(line);
        self.0.push('\n');
        self
    }

    /// A device at `/sys/devices/PLACE`.
    fn device(self, place: &str, number: &str, facts: &[(&str, &str)]) -> Self {
        let name = place.rsplit('/').next().unwrap();
        let mut machine = self
            .line(&format!("/sys/dev/block/{number} -> ../../devices/{place}"))
            .line(&format!("/sys/class/block/{name} -> ../../devices/{place}"))
            .line(&format!("/sys/devices/{place}/dev = {number}"))
            .line(&format!("/sys/devices/{place}/size = 2097152"));
        for (file, value) in facts {
            machine = machine.line(&format!("/sys/devices/{place}/{file} = {value}"));
        }
        machine
    }

    fn disk(self, name: &str, number: &str, serial: &str) -> Self {
        self.device(&format!("b/{name}"), number, &[("serial", serial)])
    }

    fn partition(self, disk: &str, name: &str, number: &str, start: u64, size: u64) -> Self {
        self.partition_at(&format!("b/{disk}"), name, number, start, size)
    }

    /// A partition of a disk at `/sys/devices/PLACE`.
    fn partition_at(self, disk: &str, name: &str, number: &str, start: u64, size: u64) -> Self {
        let place = format!("{disk}/{name}");
        let order = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        self.line(&format!("/sys/dev/block/{number} -> ../../devices/{place}"))
            .line(&format!("/sys/class/block/{name} -> ../../devices/{place}"))
            .line(&format!("/sys/devices/{place}/dev = {number}"))
            .line(&format!("/sys/devices/{place}/partition = {order}"))
            .line(&format!("/sys/devices/{place}/start = {start}"))
            .line(&format!("/sys/devices/{place}/size = {size}"))
    }

    /// A character device at `/sys/devices/PLACE`.
    fn character(self, place: &str, number: &str) -> Self {
        self.line(&format!("/sys/dev/char/{number} -> ../../devices/{place}"))
            .line(&format!("/sys/devices/{place}/dev = {number}"))
    }

    /// A process that has a node open for writing.
    fn opens(self, pid: u32, name: &str, node: &str) -> Self {
        self.line(&format!("/proc/{pid}/comm = {name}"))
            .line(&format!("/proc/{pid}/fd/5 -> {node}"))
            .line(&format!("/proc/{pid}/fdinfo/5 = flags:\t0100002"))
    }

    /// A dm or md device over others, which are paths below `/sys/devices`.
    fn over(self, name: &str, number: &str, facts: &[(&str, &str)], below: &[&str]) -> Self {
        let mut machine = self.device(&format!("v/{name}"), number, facts);
        for place in below {
            let slave = place.rsplit('/').next().unwrap();
            let up = "../".repeat(place.matches('/').count() + 2);
            machine = machine
                .line(&format!("/sys/devices/v/{name}/slaves/{slave} -> ../../../{place}"))
                .line(&format!("/sys/devices/{place}/holders/{name} -> {up}v/{name}"));
        }
        machine
    }

    fn mounts(self, lines: &[&str]) -> Self {
        let mut machine = self.line("/proc/self/mountinfo <<");
        for line in lines {
            machine = machine.line(line);
        }
        machine.line(">>")
    }

    fn tree(&self) -> Tree {
        Tree::of(&self.0)
    }
}

/// The uses of a device as text.
fn uses(root: &Root, major: u32, minor: u32) -> Vec<String> {
    host::uses(root, major, minor).uses.iter().map(ToString::to_string).collect()
}

fn id(root: &Root, major: u32, minor: u32) -> String {
    host::identity(root, major, minor).unwrap().id
}

#[test]
fn a_disk_is_mounted_through_a_partition_and_its_sibling_is_free() {
    let tree = Machine::default()
        .disk("sdb", "8:16", "S1")
        .partition("sdb", "sdb1", "8:17", 2048, 100_000)
        .partition("sdb", "sdb2", "8:18", 200_000, 100_000)
        .mounts(&["30 1 8:17 / /data rw - ext4 /dev/sdb1 rw"])
        .tree();
    let root = tree.root();
    assert_eq!(uses(&root, 8, 16), ["sdb1 is mounted at /data"]);
    assert_eq!(uses(&root, 8, 17), ["sdb1 is mounted at /data"]);
    assert_eq!(uses(&root, 8, 18), [""; 0]);
    assert_eq!(id(&root, 8, 16), "S1");
    assert_eq!(id(&root, 8, 18), "S1-part2");
}

#[test]
fn a_whole_disk_in_use_takes_its_partitions_and_overlapping_ones_each_other() {
    let tree = Machine::default()
        .disk("sdb", "8:16", "S1")
        .partition("sdb", "sdb1", "8:17", 2048, 100_000)
        .partition("sdb", "sdb5", "8:21", 50_000, 1000)
        .disk("sdc", "8:32", "S2")
        .partition("sdc", "sdc1", "8:33", 2048, 1000)
        .mounts(&[
            "30 1 8:21 / /inner rw - ext4 /dev/sdb5 rw",
            "31 1 8:32 / /whole rw - ext4 /dev/sdc rw",
        ])
        .tree();
    let root = tree.root();
    assert_eq!(uses(&root, 8, 17), ["sdb5 is mounted at /inner"]);
    assert_eq!(uses(&root, 8, 33), ["sdc is mounted at /whole"]);
}

#[test]
fn volumes_hold_what_is_below_and_not_each_other() {
    let lvm = |name| [("dm/name", name), ("dm/uuid", "LVM-abc")];
    let tree = Machine::default()
        .disk("sda", "8:0", "S0")
        .partition("sda", "sda2", "8:2", 2048, 100_000)
        .over("dm-0", "253:0", &lvm("vg-root"), &["b/sda/sda2"])
        .over("dm-1", "253:1", &lvm("vg-spare"), &["b/sda/sda2"])
        .mounts(&["30 1 253:0 / / rw - ext4 /dev/mapper/vg-root rw"])
        .tree();
    let root = tree.root();
    let member = uses(&root, 8, 2);
    assert!(member.contains(&"sda2 is held by dm-0 (LVM volume vg-root)".to_owned()), "{member:?}");
    assert!(member.contains(&"dm-0 is mounted at /".to_owned()), "{member:?}");
    assert_eq!(uses(&root, 8, 0), member, "the disk is used as its partition is");
    // The spare volume is unused, but its disk holds the system.
    assert_eq!(uses(&root, 253, 1), [""; 0]);
    let places = ["/srv/results", "/"].map(PathBuf::from);
    assert_eq!(host::same_disk(&root, 253, 1, &places), Some("/srv/results".into()));
    assert_eq!(host::same_disk(&root, 253, 1, &places[1..]), Some("/".into()));
}

#[test]
fn encrypted_swap_arrays_maps_and_their_like() {
    let crypt = [("dm/name", "cswap"), ("dm/uuid", "CRYPT-LUKS2-abc")];
    let map = [("dm/name", "mpatha"), ("dm/uuid", "mpath-3600")];
    let part = [("dm/name", "mpatha-part1"), ("dm/uuid", "part1-mpath-3600")];
    let tree = Machine::default()
        .disk("nvme0n1", "259:0", "N1")
        .partition("nvme0n1", "nvme0n1p3", "259:3", 2048, 1000)
        .over("dm-0", "253:0", &crypt, &["b/nvme0n1/nvme0n1p3"])
        .line("/proc/swaps <<\nFilename Type Size Used Priority\n/dev/dm-0 partition 1 0 -2\n>>")
        .disk("sdc", "8:32", "S3")
        .disk("sdd", "8:48", "S4")
        .over("md0", "9:0", &[("md/level", "raid1")], &["b/sdc", "b/sdd"])
        .disk("sde", "8:64", "S5")
        .disk("sdf", "8:80", "S5")
        .over("dm-2", "253:2", &map, &["b/sde", "b/sdf"])
        .over("dm-3", "253:3", &part, &["v/dm-2"])
        .disk("sdk", "8:160", "S6")
        .over("bcache0", "252:0", &[], &["b/sdk"])
        .disk("sdl", "8:176", "S7")
        .over("drbd0", "147:0", &[], &["b/sdl"])
        .disk("sdm", "8:192", "S8")
        .line("/sys/devices/b/sdm/bcache/state = 0")
        .mounts(&["30 1 253:3 / /mp rw - xfs /dev/mapper/mpatha-part1 rw"])
        .tree();
    let root = tree.root();
    let said = ["nvme0n1p3 is held by dm-0 (encrypted volume cswap)", "dm-0 is used as swap"];
    assert_eq!(uses(&root, 259, 0), said);
    assert_eq!(uses(&root, 259, 3), said);
    assert_eq!(uses(&root, 253, 0), ["dm-0 is used as swap"]);
    assert_eq!(uses(&root, 8, 32), ["sdc is held by md0 (raid1 array)"]);
    assert_eq!(uses(&root, 9, 0), [""; 0], "the array itself is free");
    let path = uses(&root, 8, 80);
    assert!(path.contains(&"sdf is held by dm-2 (multipath map mpatha)".to_owned()), "{path:?}");
    assert!(path.contains(&"dm-3 is mounted at /mp".to_owned()), "{path:?}");
    assert!(uses(&root, 253, 2).contains(&"dm-3 is mounted at /mp".to_owned()));
    assert_eq!(uses(&root, 8, 160), ["sdk is held by bcache0 (a device above it)"]);
    assert_eq!(uses(&root, 8, 176), ["sdl is held by drbd0 (a device above it)"]);
    assert_eq!(uses(&root, 8, 192), ["sdm is held by bcache (registered cache)"]);
    // Two paths to one disk have the same serial number, so it identifies neither.
    assert_eq!(id(&root, 8, 64), "sde:1073741824");
    assert_eq!(id(&root, 253, 2), "mpath-3600");
}

#[test]
fn file_systems_over_several_devices() {
    let tree = Machine::default()
        .disk("sdg", "8:96", "S1")
        .disk("sdh", "8:112", "S2")
        .disk("sdi", "8:128", "S3")
        .disk("sdj", "8:144", "S4")
        .line("/sys/fs/btrfs/1234-abcd/devices/sdg -> ../../../../devices/b/sdg")
        .line("/sys/fs/btrfs/1234-abcd/devices/sdh -> ../../../../devices/b/sdh")
        .line("/sys/fs/btrfs/features/zstd = 1")
        .mounts(&[
            "30 1 0:40 / /pool rw - btrfs /dev/sdg rw",
            "31 1 0:41 / /cache rw - bcachefs /dev/sdi:/dev/sdj rw",
        ])
        .tree();
    let root = tree.root();
    let member = "sdh belongs to the btrfs file system 1234-abcd, which is in use";
    assert_eq!(uses(&root, 8, 112), [member]);
    assert_eq!(uses(&root, 8, 96)[0], "sdg is mounted at /pool");
    assert_eq!(uses(&root, 8, 144), ["sdj is mounted at /cache"]);
    // The results are on the pool, which spans both disks.
    let results = [PathBuf::from("/pool/results")];
    assert_eq!(host::same_disk(&root, 8, 112, &results), Some("/pool/results".into()));
    assert_eq!(host::same_disk(&root, 8, 144, &results), None);
}

#[test]
fn other_namespaces_and_other_processes() {
    let tree = Machine::default()
        .disk("sdl", "8:176", "S1")
        .disk("sdm", "8:192", "S2")
        .disk("sdn", "8:208", "S3")
        .mounts(&[])
        .line("/proc/self/ns/mnt -> mnt:[1]")
        .line("/proc/42/ns/mnt -> mnt:[1]")
        .line("/proc/42/mountinfo = 30 1 8:208 / /never rw - ext4 /dev/sdn rw")
        .line("/proc/77/ns/mnt -> mnt:[2]")
        .line("/proc/77/mountinfo = 30 1 8:192 / /inside rw - ext4 /dev/sdm rw")
        .line("/proc/4242/comm = qemu-system-x86")
        .line("/proc/4242/fd/9 -> /dev/sdl")
        .line("/proc/4242/fdinfo/9 = flags:\t02100002")
        .line("/proc/4242/fd/10 -> /dev/sdn")
        .line("/proc/4242/fdinfo/10 = flags:\t0100000")
        .tree();
    let root = tree.root();
    let open = "sdl is open for writing in process 4242 (qemu-system-x86)";
    assert_eq!(uses(&root, 8, 176), [open]);
    assert_eq!(uses(&root, 8, 192), ["sdm is mounted at /inside in another mount namespace"]);
    let read = "sdn is open for reading in process 4242 (qemu-system-x86)";
    assert_eq!(uses(&root, 8, 208), [read]);
}

/// `12 (name) S …`: a process with this number of threads.
fn stat(pid: u32, name: &str, flags: u32, threads: u32) -> String {
    let zeros = "0 ".repeat(10);
    format!("/proc/{pid}/stat = {pid} ({name}) S 1 1 1 0 -1 {flags} {zeros}{threads} 0 0")
}

#[test]
fn threads_mappings_and_names_that_only_look_like_it() {
    let tree = Machine::default()
        .disk("sdl", "8:176", "S1")
        .disk("sdm", "8:192", "S2")
        .disk("sdn", "8:208", "S3")
        .device("v/dm-0", "253:176", &[("dm/name", "a")])
        .mounts(&[])
        // A thread with its own file table; its process has a misleading name.
        .line(&stat(50, "a) S 1 (b", 0, 2))
        .line("/proc/50/comm = a) S 1 (b")
        .line("/proc/50/fd/1 -> /dev/null")
        .line("/proc/50/task/50/comm = a")
        .line("/proc/50/task/51/fd/4 -> /dev/sdl")
        .line("/proc/50/task/51/fdinfo/4 = flags:\t0100002")
        // Mapped and then closed, and a library that every process maps.
        .line(&stat(60, "mapper", 0, 1))
        .line("/proc/60/comm = mapper")
        .line("/proc/60/fd/1 -> /dev/null")
        .line("/proc/60/maps <<")
        .line("00400000-00401000 r-xp 00000000 08:01 77 /usr/bin/mapper")
        .line("7f000000-7f001000 rw-s 00000000 00:05 9 /dev/sdm (deleted)")
        .line(">>")
        .line("/proc/60/map_files/7f000000-7f001000 -> /dev/sdm")
        // Open by O_PATH only, a device with the same minor number, a kernel thread.
        .line(&stat(70, "namer", 0, 1))
        .line("/proc/70/comm = namer")
        .line("/proc/70/fd/1 -> /dev/sdn")
        .line("/proc/70/fdinfo/1 = flags:\t012000000")
        .line("/proc/70/fd/2 -> /dev/dm-0")
        .line("/proc/70/fdinfo/2 = flags:\t0100002")
        .line(&stat(80, "kworker", 0x0020_0000, 1))
        .line("/proc/80/fd = closed to everybody")
        .tree();
    let root = tree.root();
    assert_eq!(uses(&root, 8, 176), ["sdl is open for writing in process 50 (a) S 1 (b)"]);
    assert_eq!(uses(&root, 8, 192), ["sdm is mapped by process 60 (mapper)"]);
    assert_eq!(uses(&root, 8, 208), [""; 0]);
    assert_eq!(uses(&root, 253, 176), ["dm-0 is open for writing in process 70 (namer)"]);
    assert!(host::uses(&root, 8, 176).unseen.is_empty());
}

#[test]
fn another_path_to_the_same_disk_is_in_use() {
    let wwid = [("device/wwid", "naa.5000")];
    let machine = || {
        Machine::default()
            .device("a/sda", "8:0", &wwid)
            .partition_at("a/sda", "sda1", "8:1", 2048, 1000)
            .partition_at("a/sda", "sda2", "8:2", 4096, 1000)
            .device("c/sdc", "8:32", &wwid)
            .partition_at("c/sdc", "sdc1", "8:33", 2048, 1000)
            .partition_at("c/sdc", "sdc2", "8:34", 4096, 1000)
    };
    let other = "(another path to this disk: both show the WWID naa.5000)";
    let mounted = machine().mounts(&["30 1 8:1 / /data rw - ext4 /dev/sda1 rw"]).tree();
    let root = mounted.root();
    let said = [format!("sda1 {other} is mounted at /data")];
    assert_eq!(uses(&root, 8, 32), said, "the whole disk");
    assert_eq!(uses(&root, 8, 33), said, "the same partition");
    assert_eq!(uses(&root, 8, 34), [""; 0], "the other partition");
    assert_eq!(uses(&root, 8, 0), ["sda1 is mounted at /data"], "by its own path");
    let places = [PathBuf::from("/data")];
    assert_eq!(host::same_disk(&root, 8, 34, &places), Some("/data".into()));
    // A map over both paths is the disk; a map over the other path holds the disk.
    let map = [("dm/name", "m"), ("dm/uuid", "mpath-5000")];
    let over_both = machine().over("dm-0", "253:0", &map, &["a/sda", "c/sdc"]).mounts(&[]).tree();
    assert_eq!(uses(&over_both.root(), 253, 0), [""; 0]);
    let over_one = machine().over("dm-0", "253:0", &map, &["a/sda"]).mounts(&[]).tree();
    let said = [format!("sda {other} is held by dm-0 (multipath map m)")];
    for number in [32, 33, 34] {
        assert_eq!(uses(&over_one.root(), 8, number), said);
    }
    assert_eq!(uses(&over_one.root(), 253, 0), [""; 0], "the map itself");
}

#[test]
fn equal_serial_numbers_make_one_disk_only_of_equal_ones() {
    let disk = |model: &'static str, size: &'static str| {
        [("device/model", model), ("serial", "0123456789"), ("size", size)]
    };
    let tree = Machine::default()
        .device("a/sda", "8:0", &disk("BRIDGE", "2097152"))
        .device("b/sdb", "8:16", &disk("BRIDGE", "2097152"))
        .device("c/sdc", "8:32", &disk("BRIDGE", "4194304"))
        .device("d/sdd", "8:48", &disk("OTHER", "2097152"))
        .device(
            "e/sde",
            "8:64",
            &[("device/model", "BRIDGE"), ("serial", "0123456789"), ("wwid", "naa.1")],
        )
        .device("f/block/sdf", "8:80", &[("serial", "0123456789"), ("size", "2097152")])
        .line("/sys/devices/f/0:0:0:1/model = BRIDGE")
        .line("/sys/devices/f/block/sdf/device -> ../../0:0:0:1")
        .mounts(&["30 1 8:0 / /data rw - ext4 /dev/sda rw"])
        .tree();
    let root = tree.root();
    let why = "(another path to this disk: both show serial number 0123456789, model and size)";
    assert_eq!(uses(&root, 8, 16), [format!("sda {why} is mounted at /data")]);
    for (minor, what) in [(32, "size"), (48, "model"), (64, "WWID"), (80, "LUN")] {
        assert_eq!(uses(&root, 8, minor), [""; 0], "another {what}");
    }
    assert!(host::same_disk(&root, 8, 32, &["/data".into()]).is_none());
}

#[test]
fn a_generic_device_and_its_block_device_find_each_other() {
    let nvme = "pci/nvme/nvme0";
    let subsystem = "virtual/nvme-subsystem/nvme-subsys1";
    let class = |place: &str| format!("/sys/devices/{place}/subsystem -> /sys/class/nvme-generic");
    let tree = Machine::default()
        .device(&format!("{nvme}/nvme0n1"), "259:0", &[])
        .device(&format!("{nvme}/nvme0n1/nvme0n1p1"), "259:1", &[("partition", "1")])
        .character(&format!("{nvme}/ng0n1"), "242:0")
        .line(&class(&format!("{nvme}/ng0n1")))
        // Not a block device: a key-value namespace.
        .character(&format!("{nvme}/ng0n2"), "242:1")
        .line(&class(&format!("{nvme}/ng0n2")))
        // Native multipath: both belong to the subsystem.
        .device(&format!("{subsystem}/nvme1n1"), "259:7", &[])
        .character(&format!("{subsystem}/ng1n1"), "242:2")
        .line(&class(&format!("{subsystem}/ng1n1")))
        // Another class.
        .character(nvme, "240:0")
        .line(&format!("/sys/devices/{nvme}/subsystem -> /sys/class/nvme"))
        .mounts(&[])
        .tree();
    let root = tree.root();
    let of = |minor| host::nvme_generic(&root, 242, minor);
    let with = |name: &str, block: &str, minor| {
        let block = Some((block.to_owned(), (259, minor)));
        Some(host::NvmeGeneric { name: name.into(), block })
    };
    assert_eq!(of(0), with("ng0n1", "nvme0n1", 0));
    assert_eq!(of(2), with("ng1n1", "nvme1n1", 7));
    assert_eq!(of(1), Some(host::NvmeGeneric { name: "ng0n2".into(), block: None }));
    assert_eq!(of(3), None);
    assert_eq!(host::nvme_generic(&root, 240, 0), None, "a controller");
    assert_eq!(host::generic_of_block(&root, 259, 0).as_deref(), Some("ng0n1"));
    assert_eq!(host::generic_of_block(&root, 259, 1).as_deref(), Some("ng0n1"), "a partition");
    assert_eq!(host::generic_of_block(&root, 8, 0), None);
}

#[test]
fn the_character_devices_of_a_disk() {
    let nvme = "pci/nvme/nvme0";
    let tree = Machine::default()
        .device(&format!("{nvme}/nvme0n1"), "259:0", &[("serial", "N1"), ("nsid", "1")])
        .device(&format!("{nvme}/nvme0n2"), "259:1", &[("serial", "N1"), ("nsid", "2")])
        .line(&format!("/sys/devices/{nvme}/nvme0n1/device -> ../../nvme0"))
        .line(&format!("/sys/devices/{nvme}/nvme0n2/device -> ../../nvme0"))
        .character(nvme, "240:0")
        .character(&format!("{nvme}/ng0n1"), "242:0")
        .character(&format!("{nvme}/ng0n2"), "242:1")
        .device("scsi/block/sda", "8:0", &[("serial", "S1")])
        .line("/sys/devices/scsi/block/sda/device -> ../..")
        .character("scsi/scsi_generic/sg3", "21:3")
        .character("scsi/bsg/0:0:1:0", "248:0")
        .device("tape/sdb", "8:16", &[("serial", "S2")])
        .character("tape/scsi_generic/sg4", "21:4")
        .mounts(&[])
        .opens(10, "ng", "/dev/ng0n2")
        .opens(11, "sg", "/dev/sg3")
        .opens(12, "bsg", "/dev/bsg/0:0:1:0")
        .opens(13, "other", "/dev/null")
        .opens(14, "tape", "/dev/sg4");
    let root = tree.tree();
    assert_eq!(uses(&root.root(), 259, 0), [""; 0]);
    let generic = "nvme0n2 (as ng0n2) is open for writing in process 10 (ng)";
    assert_eq!(uses(&root.root(), 259, 1), [generic]);
    let scsi = [
        "sda (as sg3) is open for writing in process 11 (sg)",
        "sda (as 0:0:1:0) is open for writing in process 12 (bsg)",
    ];
    assert_eq!(uses(&root.root(), 8, 0), scsi);
    assert_eq!(uses(&root.root(), 8, 16), [""; 0]);
    // A controller accepts commands for each of its namespaces.
    let root = tree.opens(15, "passthru", "/dev/nvme0").tree();
    let controller = "nvme0n1 (as nvme0) is open for writing in process 15 (passthru)";
    assert_eq!(uses(&root.root(), 259, 0), [controller]);
    assert_eq!(uses(&root.root(), 8, 0), scsi);
}

#[test]
fn what_the_kernel_serves_to_others() {
    let namespaces = "/sys/kernel/config/nvmet/subsystems/nqn.a/namespaces";
    let served = |machine: Machine, number: u32, path: &str, enable: u32| {
        let machine = machine.line(&format!("{namespaces}/{number}/device_path = {path}"));
        machine.line(&format!("{namespaces}/{number}/enable = {enable}"))
    };
    let machine =
        Machine::default().disk("sdl", "8:176", "S1").disk("sdm", "8:192", "S2").mounts(&[]);
    let machine = served(machine, 1, "/dev/sdl", 1);
    let machine = served(machine, 2, "/dev/sdm", 0);
    let machine = served(machine.line("/images/a = a file"), 3, "/images/a", 1);
    let tree = machine.tree();
    let root = tree.root();
    assert_eq!(uses(&root, 8, 176), ["sdl is served by the NVMe target nqn.a, namespace 1"]);
    assert_eq!(uses(&root, 8, 192), [""; 0]);
    assert!(host::uses(&root, 8, 192).unseen.is_empty());
    let tree = served(machine, 4, "/gone", 1).tree();
    let unseen = host::uses(&tree.root(), 8, 192).unseen.to_string();
    assert_eq!(unseen, "what is served by the NVMe target nqn.a, namespace 4");
}

/// Three disks, and a SCSI target and a USB gadget below `configfs`.
fn other_servers(configfs: &str) -> Machine {
    let core = format!("{configfs}/target/core");
    let status = "Status: ACTIVATED  Max Queue Depth: 128  SectorSize: 512";
    let file = |place: &str, path: &str| {
        let info = format!("{core}/fileio_0/{place}/info <<\n{status}\n");
        info + &format!(
            "        TCM FILEIO ID: 0        File: {path}  Size: 4096  Mode: O_DSYNC\n>>"
        )
    };
    let lun = |gadget: &str, lun: u32, file: &str| {
        format!("{configfs}/usb_gadget/{gadget}/functions/mass_storage.0/lun.{lun}/file = {file}")
    };
    Machine::default()
        .disk("sdl", "8:176", "S1")
        .disk("sdm", "8:192", "S2")
        .disk("sdn", "8:208", "S3")
        .disk("sdo", "8:224", "S4")
        .device("b/loop3", "7:3", &[("loop/backing_file", "/images/c  Size: 1.img")])
        .line("/images/c  Size: 1.img = a file")
        .line(&format!("{core}/alua/lu_gps/default_lu_gp/lu_gp_id = 0"))
        .line(&file("file", "/dev/sdl"))
        .line(&file("image", "/images/c  Size: 1.img"))
        .line(&file("off", "/dev/sdo"))
        .line(&format!("{core}/fileio_0/off/enable = 0"))
        .line(&format!("{core}/fileio_0/file/enable = 1"))
        .line(&format!("{core}/iblock_1/block/info <<\n{status}"))
        .line("        iBlock device: sdm  UDEV PATH: /gone  readonly: 0")
        .line("        Major: 8 Minor: 192  CLAIMED: IBLOCK\n>>")
        .line(&format!("{core}/rd_mcp_2/memory/info = TCM RamDisk ID: 0"))
        .line(&lun("g1", 0, "/dev/sdn"))
        .line(&lun("g1", 1, ""))
}

#[test]
fn what_the_scsi_target_and_usb_gadgets_serve() {
    for (place, mounts) in [
        ("/sys/kernel/config", &[][..]),
        ("/mnt/config", &["40 1 0:30 / /mnt/config rw - configfs none rw"]),
    ] {
        let machine = || {
            let machine = other_servers(place).mounts(mounts);
            machine
                .line("/sys/module/target_core_mod/refcnt = 1")
                .line("/sys/module/usb_f_mass_storage/refcnt = 1")
        };
        let tree = machine().tree();
        let root = tree.root();
        let target = |what: &str| format!("is served by the SCSI target, backstore {what}");
        assert_eq!(uses(&root, 8, 176), [format!("sdl {}", target("file"))]);
        assert_eq!(uses(&root, 8, 192), [format!("sdm {}", target("block"))]);
        assert_eq!(uses(&root, 8, 208), ["sdn is served by the USB gadget g1, lun.0"]);
        assert_eq!(uses(&root, 8, 224), [""; 0]);
        assert_eq!(uses(&root, 7, 3), [format!("the file below loop3 {}", target("image"))]);
        assert!(host::uses(&root, 8, 224).unseen.is_empty());
        let image = std::fs::File::open(root.path("/images/c  Size: 1.img")).unwrap();
        let of_file = host::file_uses(&root, std::os::fd::AsFd::as_fd(&image)).uses;
        let said: Vec<String> = of_file.iter().map(ToString::to_string).collect();
        assert!(said.contains(&format!("it {}", target("image"))), "{said:?}");
        // A file that is deleted, or exists only in another mount namespace.
        let gone = format!("{place}/usb_gadget/g2/functions/mass_storage.x/lun.0/file = /gone");
        let unseen = host::uses(&machine().line(&gone).tree().root(), 8, 224).unseen.to_string();
        assert_eq!(unseen, "what is served by the USB gadget g2, lun.0");
    }
    // Gadgets from before configfs.
    let old = "/sys/devices/platform/dummy_udc.0";
    let machine = Machine::default().disk("sdl", "8:176", "S1").mounts(&[]);
    let tree = machine
        .line("/sys/class/udc/dummy_udc.0/device -> ../../../devices/platform/dummy_udc.0")
        .line(&format!("{old}/gadget.0/lun0/file = /dev/sdl"))
        .tree();
    assert_eq!(
        uses(&tree.root(), 8, 176),
        ["sdl is served by the USB gadget of dummy_udc.0, lun0"]
    );
}

#[test]
fn what_serves_and_does_not_show_what_is_unseen() {
    for (module, what) in [
        ("nvmet", "NVMe target"),
        ("target_core_mod", "SCSI target"),
        ("usb_f_mass_storage", "USB mass-storage gadget"),
    ] {
        let machine = Machine::default().disk("sdl", "8:176", "S1").mounts(&[]);
        let loaded = machine.line(&format!("/sys/module/{module}/refcnt = 1"));
        // Only another part of the kernel is visible in configfs.
        let loaded = loaded.line("/sys/kernel/config/dlm/cluster/cluster_name = a");
        let unseen = host::uses(&loaded.tree().root(), 8, 176).unseen.to_string();
        let said = "of the kernel serves: no configfs is mounted that shows it";
        assert_eq!(unseen, format!("what the {what} {said}"));
    }
}

#[test]
fn what_cannot_be_examined_is_counted_and_named() {
    let machine = || Machine::default().disk("sdl", "8:176", "S1");
    let unseen = |machine: Machine| host::uses(&machine.tree().root(), 8, 176).unseen.to_string();
    assert_eq!(unseen(machine().mounts(&[])), "");
    let closed = machine()
        .mounts(&[])
        .line("/proc/1/comm = systemd")
        .line("/proc/1/fd = closed to everybody")
        .line("/proc/9/fd/1 -> /dev/null");
    let said = "1 process that this user may not examine: 1 (systemd)";
    assert_eq!(unseen(closed), said);
    let container = machine().mounts(&[]).line("/proc/self/ns/pid -> pid:[4026532000]");
    assert_eq!(unseen(container), "processes outside this container (PID namespace)");
    let first = machine().mounts(&[]).line("/proc/self/ns/pid -> pid:[4026531836]");
    assert_eq!(unseen(first), "");
    let hidden = |capabilities: &str| {
        let proc = "25 1 0:21 / /proc rw,relatime - proc proc rw,hidepid=invisible";
        let status = format!("/proc/self/status = CapEff:\t{capabilities}");
        unseen(machine().mounts(&[proc]).line(&status))
    };
    let said = "processes that /proc hides from this user (hidepid)";
    assert_eq!(hidden("0000000000000000"), said);
    assert_eq!(hidden("000001ffffffffff"), "", "who may examine all is shown all");
    let lost =
        machine().mounts(&[]).device("b/loop3", "7:3", &[("loop/backing_file", "/gone (deleted)")]);
    assert_eq!(unseen(lost), "what loop3 lies over");
}

#[test]
fn loop_devices_over_devices_and_over_one_file() {
    let file = [("loop/backing_file", "/images/a b.img")];
    let tree = Machine::default()
        .disk("sdn", "8:208", "S1")
        .device("b/loop0", "7:0", &[("loop/backing_file", "/dev/sdn")])
        .device("b/loop1", "7:1", &file)
        .device("b/loop2", "7:2", &file)
        .device("b/loop3", "7:3", &[("loop/backing_file", "/images/c.img")])
        .line("/images/c.img = blank")
        .line("/images/other/c.img = blank")
        .line("/proc/31/comm = editor")
        .line("/proc/31/fd/3 -> /images/other/c.img")
        .line("/proc/31/fdinfo/3 = flags:\t0100002")
        .mounts(&[
            "30 1 7:0 / /over rw - ext4 /dev/loop0 rw",
            "31 1 7:2 / /image rw - ext4 /dev/loop2 rw",
        ])
        .tree();
    let root = tree.root();
    let over = ["sdn is in use by loop device loop0", "loop0 is mounted at /over"];
    assert_eq!(uses(&root, 8, 208), over);
    let image = ["loop1 is in use by loop device loop2", "loop2 is mounted at /image"];
    assert_eq!(uses(&root, 7, 1), image);
    assert_eq!(uses(&root, 7, 3), [""; 0]);
    assert_eq!(id(&root, 7, 3), "/images/c.img");
    assert_eq!(id(&root, 7, 1), "loop1:1073741824", "two devices over one file");
}

#[test]
fn who_a_device_is() {
    let tree = Machine::default()
        .device("b/nvme0n1", "259:0", &[("serial", "N1"), ("nsid", "1"), ("diskseq", "9")])
        .device("b/nvme0n2", "259:1", &[("serial", "N1"), ("nsid", "2"), ("ro", "1")])
        .disk("sda", "8:0", "0123456789")
        .disk("sdb", "8:16", "0123456789")
        .device("b/sdc", "8:32", &[("wwid", "naa.5000")])
        .device("b/zram1", "252:1", &[])
        .disk("sdd", "8:48", "WD\\x1b[2K  40\\x07")
        .tree();
    let root = tree.root();
    assert_eq!((id(&root, 259, 0), id(&root, 259, 1)), ("N1".into(), "N1_2".into()));
    assert_eq!(
        (id(&root, 8, 0), id(&root, 8, 16)),
        ("sda:1073741824".into(), "sdb:1073741824".into())
    );
    assert_eq!(id(&root, 8, 32), "naa.5000");
    assert_eq!(id(&root, 252, 1), "zram1:1073741824");
    assert_eq!(id(&root, 8, 48), "WD [2K 40");
    let first = host::identity(&root, 259, 0).unwrap();
    assert_eq!((first.sequence, first.read_only, first.bytes), (Some(9), false, 1 << 30));
    assert!(host::identity(&root, 259, 1).unwrap().read_only);
    assert_eq!(host::identity(&root, 1, 1), None);
}

#[test]
fn this_machine_s_own_disk_is_in_use() {
    let root = Root::system();
    let Some(mount) = host::mount_of(&root, "/".as_ref()) else { return };
    let Some((major, minor)) = host::device_of_mount(&root, &mount) else {
        return skip("`/` is on no block device");
    };
    let said = uses(&root, major, minor);
    assert!(said.iter().any(|use_| use_.contains("is mounted at /")), "{said:?}");
    assert_eq!(host::same_disk(&root, major, minor, &["/".into()]), Some("/".into()));
}
