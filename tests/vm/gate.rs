//! Verdicts of the gate on disks in use, on NVMe, SCSI, md and device mapper.
//!
//! After every refusal all disks of the guest are compared byte by byte, as the host sees them:
//! nothing may have changed on any of them.

use std::fs;
use std::path::PathBuf;

use iosonde_rig::ScratchDir;
use iosonde_rig::guest::{Guest, Machine};

use crate::inside::{Answer, MIB, boot, image, inside, machine, sh};

const DISK_BYTES: u64 = 4 * MIB;
/// A short load. The inspection time suffices for a whole disk on any machine.
const LOAD: &str = "--rw randwrite --number-ios 20 --inspect-time 1000";

/// A guest and the images of its disks.
struct World {
    guest: Guest,
    images: Vec<PathBuf>,
    _dir: ScratchDir,
}

/// A disk of the guest: its node, and the serial number that consent must name.
#[derive(Clone, Copy)]
struct Disk<'a> {
    node: &'a str,
    id: &'a str,
}

impl World {
    /// A machine with disks of these names and size, attached by `attach`.
    fn new(
        names: &[&str],
        bytes: u64,
        modules: &[&str],
        nodes: &[&str],
        attach: impl Fn(Machine) -> Machine,
    ) -> Option<World> {
        let dir = ScratchDir::new().unwrap();
        let images: Vec<_> = names.iter().map(|n| image(dir.path(), n, bytes)).collect();
        let machine = machine(&[])?.modules(modules);
        let with = |machine: Machine, at: usize| machine.drive(names[at], &images[at], "");
        let guest = boot(&attach((0..names.len()).fold(machine, with)), nodes);
        Some(World { guest, images, _dir: dir })
    }

    fn sh(&mut self, script: &str) -> String {
        sh(&mut self.guest, script)
    }

    /// Contents of all disks.
    fn contents(&mut self) -> Vec<Vec<u8>> {
        self.sh("sync");
        self.images.iter().map(|image| fs::read(image).unwrap()).collect()
    }

    fn write(&mut self, node: &str, options: &str) -> Answer {
        inside(&mut self.guest, &format!("run --path {node} {LOAD} {options}"))
    }

    /// Expects a refusal for this reason, without a change on any disk.
    #[track_caller]
    fn refused(&mut self, node: &str, options: &str, reason: &str) -> Answer {
        let before = self.contents();
        let answer = self.write(node, options).exits(5, &format!("{node} {options}"));
        assert!(answer.message().contains(reason), "{node} {options}: {}", answer.message());
        assert!(self.contents() == before, "{node} {options}: refused, and written");
        answer
    }

    /// Expects a refusal that no consent overrides, and that offers no option.
    #[track_caller]
    fn never(&mut self, disk: Disk<'_>, reason: &str) {
        let agreed = format!("--destroy-data={}", disk.id);
        self.refused(disk.node, "", reason);
        let answer = self.refused(disk.node, &agreed, reason);
        let message = answer.message();
        assert!(!message.contains("repeat with"), "an option is offered: {message}");
    }

    /// Expects a refusal for a signature, which other consents do not override.
    #[track_caller]
    fn holds(&mut self, disk: Disk<'_>, signature: &str) {
        let found = format!(" {signature} (");
        let agreed = format!("--destroy-data={}", disk.id);
        self.refused(disk.node, "", &found);
        self.refused(disk.node, &agreed, &found);
        let other = format!("{agreed} --overwrite-signature=zfs");
        self.refused(disk.node, &other, &found);
    }

    /// Expects that consent by identity is required and sufficient.
    #[track_caller]
    fn writable(&mut self, disk: Disk<'_>) {
        self.refused(disk.node, "", &format!("repeat with --destroy-data={}", disk.id));
        let before = self.contents();
        let options = format!("--destroy-data={}", disk.id);
        self.write(disk.node, &options).exits(0, disk.node);
        assert!(self.contents() != before, "{} was not written", disk.node);
        self.clear(disk.node);
    }

    /// Zeros a whole device.
    fn clear(&mut self, node: &str) {
        self.sh(&format!(
            "dd if=/dev/zero of={node} bs=64k count=$(($(blockdev --getsize64 {node}) / 65536)) \
             conv=fsync 2>/dev/null; sync; echo 3 >/proc/sys/vm/drop_caches"
        ));
    }

    /// Runs a script in the background of the guest while `check` runs; see [`READY`].
    fn during(&mut self, script: &str, check: impl Fn(&mut World)) {
        self.during_by("sh", script, check);
    }

    /// As [`Self::during`], in a new mount namespace.
    fn during_elsewhere(&mut self, script: &str, check: impl Fn(&mut World)) {
        self.during_by("unshare -m sh", script, check);
    }

    fn during_by(&mut self, shell: &str, script: &str, check: impl Fn(&mut World)) {
        let pid = self.sh(&format!(
            "rm -f /tmp/open\ncat >/tmp/during <<'END'\n{script}\nEND\n\
             {shell} -e /tmp/during >/tmp/said 2>&1 & pid=$!\n\
             until [ -e /tmp/open ]; do kill -0 $pid || {{ cat /tmp/said; exit 1; }}; sleep 0.1; \
             done; echo $pid"
        ));
        check(self);
        self.sh(&format!("kill {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.1; done"));
    }

    /// Node of the SCSI disk at this adapter and target.
    fn scsi(&mut self, adapter: u32, target: u32) -> String {
        let name = self.sh(&format!(
            "for disk in /sys/block/sd*; do \
                 case $(readlink -f $disk) in \
                     */host{adapter}/target*:0:{target}/*) echo ${{disk##*/}};; \
                 esac; \
             done"
        ));
        assert!(name.starts_with("sd"), "no disk {adapter}:{target}: `{name}`");
        format!("/dev/{name}")
    }
}

/// Signals that the preparation is complete, and waits to be killed.
const READY: &str = "touch /tmp/open; exec sleep 100000";

/// Holds a node open for writing until it is killed.
fn holding(node: &str) -> String {
    format!("exec 5<>{node}; {READY}")
}

/// Two NVMe disks, and a controller with two namespaces.
fn nvme(machine: Machine) -> Machine {
    machine.options(&[
        "-device",
        "nvme,drive=alpha,serial=SN-ALPHA",
        "-device",
        "nvme,drive=beta,serial=SN-BETA",
        "-device",
        "nvme-subsys,id=subsystem,nqn=subsystem",
        "-device",
        "nvme,id=gamma,serial=SN-GAMMA,subsys=subsystem",
        "-device",
        "nvme-ns,drive=one,nsid=1,bus=gamma",
        "-device",
        "nvme-ns,drive=two,nsid=2,bus=gamma",
    ])
}

#[test]
fn the_serial_number_of_an_nvme_disk_decides_and_not_its_name() {
    let names = ["alpha", "beta", "one", "two"];
    let nodes = ["/dev/nvme0n1", "/dev/nvme1n1", "/dev/nvme2n1", "/dev/nvme2n2"];
    let Some(mut world) = World::new(&names, MIB, &["nvme"], &nodes, nvme) else { return };
    let serial = |world: &mut World, node: u32| {
        world.sh(&format!("cat /sys/block/nvme{node}n1/device/serial"))
    };
    assert_eq!(serial(&mut world, 0), "SN-ALPHA");
    for (node, id) in [
        ("/dev/nvme0n1", "SN-ALPHA"),
        ("/dev/nvme1n1", "SN-BETA"),
        ("/dev/nvme2n1", "SN-GAMMA"),
        ("/dev/nvme2n2", "SN-GAMMA_2"),
    ] {
        world.writable(Disk { node, id });
    }
    // Another disk's serial, part of its own, its own in lower case, its name.
    for wrong in ["SN-BETA", "SN-ALPH", "sn-alpha", "nvme0n1", "/dev/nvme0n1"] {
        let options = format!("--destroy-data={wrong}");
        let said = format!("names {wrong}, which it is not");
        let answer = world.refused("/dev/nvme0n1", &options, &said);
        let offer = "repeat with --destroy-data=SN-ALPHA";
        assert!(answer.message().ends_with(offer), "{}", answer.message());
    }
    // A link as udev creates it.
    world.sh("mkdir -p /dev/disk/by-id; ln -s ../../nvme0n1 /dev/disk/by-id/nvme-QEMU_SN-ALPHA");
    let link = "/dev/disk/by-id/nvme-QEMU_SN-ALPHA";
    world.refused(link, "--destroy-data=nvme-QEMU_SN-ALPHA", "repeat with --destroy-data=SN-ALPHA");
    world.writable(Disk { node: link, id: "SN-ALPHA" });
    // The other interfaces of the same disks are not accepted as targets.
    for node in ["/dev/nvme0", "/dev/ng0n1"] {
        let before = world.contents();
        world.write(node, "--destroy-data=SN-ALPHA").exits(2, node);
        assert!(world.contents() == before, "{node} was written");
    }
    // Rebinds the driver in the other order, as may happen at a restart.
    world.sh("cd /sys/bus/pci/drivers/nvme; \
         alpha=$(basename $(readlink /sys/class/nvme/nvme0/device)); \
         beta=$(basename $(readlink /sys/class/nvme/nvme1/device)); \
         echo $alpha >unbind; echo $beta >unbind; echo $beta >bind; echo $alpha >bind; \
         until [ -e /dev/nvme0n1 ] && [ -e /dev/nvme1n1 ]; do sleep 0.1; done");
    assert_eq!(serial(&mut world, 0), "SN-BETA");
    let said = world.refused("/dev/nvme0n1", "--destroy-data=SN-ALPHA", "which it is not");
    assert!(said.message().contains("SN-BETA"), "{}", said.message());
    // The link still points to the same name, which is another disk now.
    world.refused(link, "--destroy-data=SN-ALPHA", "which it is not");
    world.writable(Disk { node: "/dev/nvme1n1", id: "SN-ALPHA" });
    world.writable(Disk { node: "/dev/nvme0n1", id: "SN-BETA" });
}

/// Four SCSI disks, another one attached to two adapters, and an NVMe disk.
fn scsi(machine: Machine) -> Machine {
    let machine = machine.options(&["-device", "virtio-scsi-pci,id=first"]);
    let machine = machine.options(&["-device", "virtio-scsi-pci,id=second"]);
    let both = "serial=TWO-PATHS,wwn=0x5000c50015ea71aa,share-rw=on";
    let plain = (1..=4).fold(machine, |machine, disk| {
        let words =
            format!("scsi-hd,bus=first.0,scsi-id={disk},drive=disk{disk},serial=DISK-{disk}");
        machine.options(&["-device", &words])
    });
    let path =
        |bus: &str, drive: &str| format!("scsi-hd,bus={bus}.0,scsi-id=9,drive={drive},{both}");
    plain
        .options(&["-device", &path("first", "shared")])
        .options(&["-device", &path("second", "again")])
        .options(&["-device", "nvme,drive=flash,serial=SN-FLASH"])
}

const SERVERS: [&str; 5] =
    ["nvmet", "target_core_mod", "target_core_file", "libcomposite", "usb_f_mass_storage"];
const MAPPER: [&str; 4] = ["dm-mod", "dm-crypt", "dm-multipath", "dm-round-robin"];

fn scsi_world(programs: &[&str], modules: &[&str]) -> Option<World> {
    let dir = ScratchDir::new().unwrap();
    let names = ["disk1", "disk2", "disk3", "disk4", "shared", "flash"];
    let images: Vec<_> = names.iter().map(|name| image(dir.path(), name, DISK_BYTES)).collect();
    let modules = [&["virtio_scsi", "sd_mod", "sg", "ext4"], modules].concat();
    let machine = machine(programs)?.modules(&modules);
    // Two drives share one image, which QEMU would lock.
    let unlocked = "file.locking=off";
    let machine = names.iter().zip(&images).fold(machine, |machine, (name, image)| {
        machine.drive(name, image, if *name == "shared" { unlocked } else { "" })
    });
    let machine = machine.drive("again", &images[4], unlocked);
    let nodes = ["/dev/sda", "/dev/sdb", "/dev/sdc", "/dev/sdd", "/dev/sde", "/dev/sdf"];
    Some(World { guest: boot(&scsi(machine), &nodes), images, _dir: dir })
}

#[test]
fn what_md_and_device_mapper_have_is_not_written() {
    let modules = [&MAPPER[..], &["raid1", "xts"]].concat();
    let Some(mut world) = scsi_world(&["dmsetup", "mdadm"], &modules) else { return };
    let (one, two) = (world.scsi(0, 1), world.scsi(0, 2));
    let first = Disk { node: &one, id: "DISK-1" };
    let second = Disk { node: &two, id: "DISK-2" };
    world.writable(first);

    // md: both members of a running array, the array itself, and the superblocks left behind.
    for metadata in ["1.2", "1.0", "0.90"] {
        world.sh(&format!(
            "mdadm --create /dev/md0 --run --level=1 --raid-devices=2 --assume-clean \
             --metadata={metadata} {one} {two}; \
             until grep -qx clean /sys/block/md0/md/array_state; do sleep 0.1; done"
        ));
        if metadata == "1.2" {
            world.never(first, "is held by md0 (raid1 array)");
            world.never(second, "is held by md0 (raid1 array)");
            let bytes = world.sh("blockdev --getsize64 /dev/md0");
            world.writable(Disk { node: "/dev/md0", id: &format!("md0:{bytes}") });
        }
        world.sh("mdadm --stop /dev/md0");
        if metadata == "1.2" {
            world.holds(first, "md");
        }
        world.refused(first.node, "--destroy-data=DISK-1", " md (");
        world.refused(second.node, "--destroy-data=DISK-2", " md (");
        world.sh(&format!("mdadm --zero-superblock {one} {two}"));
        world.clear(&one);
        world.clear(&two);
    }

    // Device mapper: the disk below a volume is in use, the volume is a disk of its own.
    let sectors = DISK_BYTES / 512;
    let key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    for (uuid, table, what) in [
        ("linear", format!("0 4096 linear {one} 1024"), "device-mapper volume top"),
        ("LVM-abcdef", format!("0 4096 linear {one} 1024"), "LVM volume top"),
        (
            "CRYPT-PLAIN-top",
            format!("0 {sectors} crypt aes-xts-plain64 {key} 0 {one} 0"),
            "encrypted volume top",
        ),
    ] {
        world.sh(&format!("dmsetup create top --uuid {uuid} --table '{table}'"));
        world.never(first, &format!("is held by dm-0 ({what})"));
        if uuid == "CRYPT-PLAIN-top" {
            // Zeros on the disk look like random data through the cipher.
            world.refused("/dev/dm-0", "--destroy-data=CRYPT-PLAIN-top", "unknown-data");
            world.clear("/dev/dm-0");
        }
        world.writable(Disk { node: "/dev/dm-0", id: uuid });
        world.sh("dmsetup remove top");
        world.clear(&one);
    }
    // A table that is loaded but not yet active also holds its disk.
    world.sh(&format!(
        "dmsetup create top --notable; dmsetup load top --table '0 4096 linear {one} 0'"
    ));
    world.never(first, "is held by dm-0");
    world.sh("dmsetup remove top");
}

#[test]
fn what_multipath_and_swap_have_is_not_written() {
    let Some(mut world) = scsi_world(&["dmsetup"], &MAPPER) else { return };
    let one = world.scsi(0, 1);
    let first = Disk { node: &one, id: "DISK-1" };
    let sectors = DISK_BYTES / 512;

    // Multipath: each path is in use, the map is the disk.
    let (path, other) = (world.scsi(0, 9), world.scsi(1, 9));
    let table = format!("0 {sectors} multipath 0 0 1 1 round-robin 0 2 1 {path} 100 {other} 100");
    world.sh(&format!("dmsetup create map --uuid mpath-35000c50015ea71aa --table '{table}'"));
    for node in [&path, &other] {
        let id = format!("{}:{DISK_BYTES}", &node[5..]);
        world.never(Disk { node, id: &id }, "is held by dm-0 (multipath map map)");
    }
    world.writable(Disk { node: "/dev/dm-0", id: "mpath-35000c50015ea71aa" });
    world.sh("dmsetup remove map");

    // Swap: in use while on, and protected by its signature before and afterwards.
    world.sh(&format!("mkswap {one}"));
    world.holds(first, "swap");
    world.sh(&format!("swapon {one}"));
    world.never(first, "is used as swap");
    world.sh(&format!("swapoff {one}"));
    world.clear(&one);
}

#[test]
fn what_others_have_open_is_not_written_whatever_name_they_used() {
    let Some(mut world) = scsi_world(&["dmsetup"], &MAPPER) else { return };
    let (one, two) = (world.scsi(0, 1), world.scsi(0, 2));
    let first = Disk { node: &one, id: "DISK-1" };
    let second = Disk { node: &two, id: "DISK-2" };
    world.writable(first);
    world.during(&holding(&one), |world| world.never(first, "is open for writing in process"));
    // A file system mounted only in another mount namespace.
    world.sh(&format!("mke2fs {two} >/dev/null; mkdir -p /tmp/elsewhere"));
    // Read-only, because a writable file system may write on its own.
    world.during_elsewhere(&format!("mount -o ro {two} /tmp/elsewhere; {READY}"), |world| {
        world.never(second, "in another mount namespace");
    });
    world.holds(second, "ext");
    // No longer mounted anywhere, but in use by an open file.
    world.sh(&format!(
        "cd /; mount {two} /tmp/elsewhere; touch /tmp/elsewhere/file; umount /tmp/elsewhere; \
         mount -o ro {two} /tmp/elsewhere"
    ));
    world.during(&format!("exec 5</tmp/elsewhere/file; {READY}"), |world| {
        world.sh("umount -l /tmp/elsewhere");
        let agreed = "--destroy-data=DISK-2 --overwrite-signature=ext \
                      --overwrite-signature=unknown-data";
        world.refused(second.node, agreed, "is claimed by the kernel or another program");
    });
    world.clear(&two);
}

/// Device number of a node, for `mknod`.
fn number(node: &str) -> String {
    format!("$(tr : ' ' </sys/class/block/{}/dev)", &node[5..])
}

#[test]
fn what_is_in_use_by_another_path_or_node_is_not_written() {
    let modules = [&MAPPER[..], &["nvme"], &SERVERS].concat();
    let Some(mut world) = scsi_world(&["dmsetup"], &modules) else { return };
    let (one, flash) = (world.scsi(0, 1), "/dev/nvme0n1");
    let first = Disk { node: &one, id: "DISK-1" };
    world.sh("until [ -b /dev/nvme0n1 ] && [ -c /dev/ng0n1 ]; do sleep 0.1; done");
    let open = |what: &str| format!("{what} is open for writing in process");
    // Other nodes: deleted, in another mount namespace, or in place of a regular file.
    let name = &one[5..];
    let node = number(&one);
    for script in [
        format!("mknod /tmp/own b {node}; exec 5<>/tmp/own; rm /tmp/own; {READY}"),
        format!(
            "mkdir -p /tmp/inside; mount -t tmpfs none /tmp/inside; \
             mknod /tmp/inside/disk b {node}; \
             exec 5<>/tmp/inside/disk; {READY}"
        ),
        format!("touch /tmp/plain; mount --bind {one} /tmp/plain; exec 5<>/tmp/plain; {READY}"),
    ] {
        world.during_elsewhere(&script, |world| world.never(first, &open(name)));
    }
    // Character devices that accept commands for the same disk.
    let listed = |class: &str| format!("ls /sys/class/block/{name}/device/{class}");
    let (generic, bsg) = (world.sh(&listed("scsi_generic")), world.sh(&listed("bsg")));
    for (node, as_what, disk) in [
        (format!("/dev/{generic}"), format!("{name} (as {generic})"), first),
        (format!("/dev/bsg/{bsg}"), format!("{name} (as {bsg})"), first),
        ("/dev/ng0n1".into(), "nvme0n1 (as ng0n1)".into(), Disk { node: flash, id: "SN-FLASH" }),
        ("/dev/nvme0".into(), "nvme0n1 (as nvme0)".into(), Disk { node: flash, id: "SN-FLASH" }),
    ] {
        world.during(&holding(&node), |world| world.never(disk, &open(&as_what)));
    }
    // Exported by the kernel, which claims no device; the last time through a deleted node.
    let export = "/sys/kernel/config/nvmet/subsystems/export";
    world.refused(first.node, "--destroy-data=DISK-1", "no configfs is mounted that shows it");
    world.sh(&format!(
        "mount -t configfs none /sys/kernel/config; mkdir {export} {export}/namespaces/1"
    ));
    world.sh(&format!("mknod /tmp/own b {node}"));
    let served = format!("{name} is served by the NVMe target export, namespace 1");
    for path in [&*one, "/tmp/own"] {
        let enabled = format!("{export}/namespaces/1/enable");
        world.sh(&format!("echo -n {path} >{export}/namespaces/1/device_path; echo 1 >{enabled}"));
        world.never(first, &served);
        if path == "/tmp/own" {
            world.sh("rm /tmp/own");
            let unknown = "what is served by the NVMe target export, namespace 1";
            world.refused(first.node, "--destroy-data=DISK-1", unknown);
        }
        world.sh(&format!("echo 0 >{enabled}"));
    }
    // By the SCSI target, whose configfs is then mounted elsewhere, and by a USB gadget.
    world.sh("umount /sys/kernel/config; mkdir -p /tmp/config; mount -t configfs c /tmp/config");
    let store = "/tmp/config/target/core/fileio_0/store";
    world.sh(&format!(
        "mkdir -p {store}; echo fd_dev_name={one},fd_dev_size={DISK_BYTES} >{store}/control; \
         echo 1 >{store}/enable"
    ));
    world.never(first, &format!("{name} is served by the SCSI target, backstore store"));
    world.sh(&format!("rmdir {store}"));
    let gadget = "/tmp/config/usb_gadget/g1";
    world.sh(&format!(
        "mkdir {gadget} {gadget}/functions/mass_storage.0; \
         echo {one} >{gadget}/functions/mass_storage.0/lun.0/file"
    ));
    world.never(first, &format!("{name} is served by the USB gadget g1, lun.0"));
    world.sh(&format!("echo >{gadget}/functions/mass_storage.0/lun.0/file"));
    world.writable(first);
}

#[test]
fn what_another_path_to_the_same_disk_has_is_not_written() {
    let Some(mut world) = scsi_world(&["dmsetup"], &MAPPER) else { return };
    let (path, node) = (world.scsi(0, 9), world.scsi(1, 9));
    let id = format!("{}:{DISK_BYTES}", &node[5..]);
    let other = Disk { node: &node, id: &id };
    let by_path = |how: &str| {
        let why = "another path to this disk: both show the WWID naa.5000c50015ea71aa";
        format!("{} ({why}) is {how}", &path[5..])
    };
    world.writable(other);
    world.during(&holding(&path), |world| {
        world.never(other, &by_path("open for writing in process"));
    });
    world.sh(&format!("dmsetup create top --table '0 4096 linear {path} 0'"));
    world.never(other, &by_path("held by dm-0"));
    world.sh("dmsetup remove top");
    // Read-only, because a writable file system may write on its own.
    world.sh(&format!("mke2fs {path} >/dev/null; mkdir -p /tmp/here"));
    world.sh(&format!("mount -o ro {path} /tmp/here"));
    world.never(other, &by_path("mounted at /tmp/here"));
    world.sh("umount /tmp/here");
    world.clear(&path);
    world.sh(&format!("mkswap {path}; swapon {path}"));
    world.never(other, &by_path("used as swap"));
    world.sh(&format!("swapoff {path}"));
    world.clear(&path);
    world.writable(other);
}
