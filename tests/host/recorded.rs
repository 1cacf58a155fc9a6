//! Recorded machines, for hardware that test machines lack.

use std::fs;
use std::path::Path;

use iosonde_engine::host::telemetry::Sampler;
use iosonde_engine::host::{self, Root};
use iosonde_model::record::facts::{IoLimit, IoLimitKind};

use crate::tree::Tree;

#[test]
fn laptop_with_a_link_trained_down() {
    let tree = Tree::named("nvme-x2-laptop");
    let root = tree.root();
    let device = host::device(&root, 259, 2).unwrap();
    assert_eq!(device.name, "nvme0n1");
    assert_eq!(device.partition.as_deref(), Some("nvme0n1p2"));
    assert_eq!(device.model.as_deref(), Some("SAMPLEDISK PRO 1TB"));
    assert_eq!(device.serial.as_deref(), Some("S0000000000001"));
    assert_eq!(device.firmware.as_deref(), Some("5B2QGXA7"));
    assert_eq!(device.wwid.as_deref(), Some("eui.0000000000000001"));
    assert_eq!(device.bytes, Some(1_000_204_886_016));
    assert_eq!(device.transport.as_deref(), Some("nvme"));
    assert_eq!(device.is_virtual, Some(false));
    assert_eq!(device.scheduler.as_deref(), Some("none"));
    assert_eq!(device.write_cache.as_deref(), Some("write back"));
    assert_eq!(device.rotational, Some(false));
    assert_eq!((device.nr_requests, device.max_sectors_kb), (Some(1023), Some(128)));
    assert_eq!(device.partition_start_bytes, Some(1_050_624 * 512));
    // Drive and slot both support x4, at the drive's 8 GT/s.
    assert_eq!(device.link.as_deref(), Some("8.0 GT/s PCIe x2"));
    assert_eq!(device.link_max.as_deref(), Some("8.0 GT/s PCIe x4"));
    assert_eq!(device.link_bytes_per_s, Some(1_773_000_000));
    assert!(device.slaves.is_empty());

    let whole = host::device(&root, 259, 0).unwrap();
    assert_eq!((whole.name.as_str(), whole.partition), ("nvme0n1", None));
    assert_eq!(host::device(&root, 259, 9), None);

    let facts = host::facts(&root);
    assert_eq!(facts.kernel.as_deref(), Some("6.8.0-45-generic"));
    assert_eq!(facts.os.as_deref(), Some("Ubuntu 24.04.1 LTS"));
    assert_eq!(facts.cpu_model.as_deref(), Some("12th Gen Intel(R) Core(TM) i5-1240P"));
    assert_eq!((facts.cpus_online, facts.cpus_allowed), (Some(16), Some(16)));
    assert_eq!((facts.governor.as_deref(), facts.turbo), (Some("powersave"), Some(true)));
    assert_eq!((facts.smt, facts.invariant_tsc), (Some(true), Some(true)));
    assert_eq!(facts.clocksource.as_deref(), Some("tsc"));
    assert_eq!(facts.mitigations.len(), 2);
    assert_eq!(facts.mitigations[0], "meltdown: Not affected");
    assert_eq!(facts.memory_available_bytes, Some(9_876_544 * 1024));
    assert_eq!(facts.memory_limit_bytes, None);
    assert_eq!(facts.memlock_bytes, Some(2_048_172_032));
    assert_eq!((facts.numa_nodes, facts.io_uring_disabled), (Some(1), Some(0)));
    assert!(facts.virtualization.is_empty(), "{:?}", facts.virtualization);
    assert!(host::io_limits(&root, 259, 2).is_empty());
}

#[test]
fn laptop_telemetry() {
    let tree = Tree::named("nvme-x2-laptop");
    let root = tree.root();
    let device = host::device(&root, 259, 2).unwrap();
    let mut sampler = Sampler::new(&root, Some(&device));
    for _ in 0..2 {
        let sample = sampler.sample();
        assert_eq!(sample.device_temperature_mc, Some(41_850));
        assert_eq!(sample.cpu_temperature_mc, Some(67_000));
        assert_eq!(sample.cpu_throttle_count, Some(7));
        assert_eq!(sample.cpu_ticks, Some([1050, 450, 90_000, 300, 0]));
        assert_eq!(sample.io_pressure_us, Some(123_456));
        assert_eq!(sample.cpu_pressure_us, Some(777));
        assert_eq!(sample.memory_pressure_us, Some(0));
        let counters = sample.device.unwrap();
        assert_eq!((counters.reads, counters.writes, counters.flushes), (176_348, 90_123, 4321));
        assert_eq!(Some(counters), host::device_counters(&root, "nvme0n1"));
    }
}

#[test]
fn multipath_drive_keeps_its_identity_and_link() {
    let tree = Tree::named("nvme-multipath");
    let root = tree.root();
    let device = host::device(&root, 259, 1).unwrap();
    assert_eq!(device.transport.as_deref(), Some("nvme"));
    assert_eq!(device.serial.as_deref(), Some("S0000000000002"));
    // The drive supports 32 GT/s, the slot does not: the link is not degraded.
    assert_eq!(device.link.as_deref(), Some("16.0 GT/s PCIe x4"));
    assert_eq!(device.link_max, device.link);
    assert_eq!(device.link_bytes_per_s, Some(7_088_400_000));
    let sample = Sampler::new(&root, Some(&device)).sample();
    // Older kernels attach the sensor to the PCI function.
    assert_eq!(sample.device_temperature_mc, Some(52_000));
    assert_eq!(sample.device.map(|counters| counters.discards), Some(12));
}

#[test]
fn sata_disk() {
    let tree = Tree::named("sata-hdd");
    let root = tree.root();
    let device = host::device(&root, 8, 1).unwrap();
    assert_eq!(device.name, "sda");
    assert_eq!(device.model.as_deref(), Some("SAMPLE ST4000"));
    assert_eq!(device.serial.as_deref(), Some("Z00001"));
    assert_eq!(device.firmware.as_deref(), Some("SC60"));
    assert_eq!(device.transport.as_deref(), Some("sata"));
    assert_eq!(device.link.as_deref(), Some("3.0 Gbps SATA"));
    assert_eq!(device.link_max, None);
    assert_eq!(device.link_bytes_per_s, Some(275_000_000));
    assert_eq!((device.rotational, device.is_virtual), (Some(true), Some(false)));
    assert_eq!(device.logical_block_bytes.zip(device.physical_block_bytes), Some((512, 4096)));
    assert_eq!(device.alignment_offset, Some(3584));
    assert_eq!(device.partition_start_bytes, Some(63 * 512));
    assert_eq!(device.scheduler.as_deref(), Some("deadline"));
    // A SATA disk's sensor is read only once, because the command drains the disk's queue.
    let mut sampler = Sampler::new(&root, Some(&device));
    assert_eq!(sampler.sample().device_temperature_mc, Some(33_000));
    assert_eq!(sampler.sample().device_temperature_mc, None);
}

#[test]
fn guest_with_version_1_limits() {
    let tree = Tree::named("virtio-cgroup-v1");
    let root = tree.root();
    let device = host::device(&root, 254, 1).unwrap();
    assert_eq!((device.name.as_str(), device.partition.as_deref()), ("vda", Some("vda1")));
    assert_eq!(device.transport.as_deref(), Some("virtio"));
    assert_eq!(device.is_virtual, Some(true));
    assert_eq!(device.serial.as_deref(), Some("disk-7"));
    assert_eq!((device.model, device.link, device.link_bytes_per_s), (None, None, None));

    // The parent's 10 IOPS do not apply: version 1 throttles each group separately.
    let limit = |file: &str, kind, per_second| IoLimit {
        source: format!("/cg one/blkio/jobs/one/{file}"),
        kind,
        per_second,
    };
    let limits = host::io_limits(&root, 254, 1);
    assert_eq!(
        limits,
        [
            limit("blkio.throttle.write_bps_device", IoLimitKind::WriteBytes, 104_857_600),
            limit("blkio.throttle.read_iops_device", IoLimitKind::ReadIops, 5000),
        ]
    );

    let facts = host::facts(&root);
    assert_eq!(facts.cpu_list, [0, 2, 3]);
    assert_eq!((facts.cpu_quota_milli, facts.cpus_allowed), (Some(1500), Some(2)));
    assert_eq!(facts.memory_limit_bytes, Some(1 << 30));
    assert_eq!(facts.memory_available_bytes, Some((1 << 30) - 300_000_000));
    assert_eq!(facts.virtualization, ["qemu"]);
    assert_eq!(facts.invariant_tsc, Some(false));
}

#[test]
fn container_with_version_2_limits() {
    let tree = Tree::named("container-cgroup-v2");
    let root = tree.root();
    let facts = host::facts(&root);
    assert_eq!((facts.cpu_quota_milli, facts.cpus_allowed), (Some(2500), Some(3)));
    assert_eq!(facts.memory_limit_bytes, Some(1_610_612_736));
    assert_eq!(facts.memory_available_bytes, Some(1_610_612_736 - (1_073_741_824 - 268_435_456)));
    assert_eq!(facts.virtualization, ["kvm", "docker"]);
    assert_eq!(facts.numa_nodes, Some(2));

    let mount = host::mount_of(&root, Path::new("/data/some/file")).unwrap();
    assert_eq!((mount.source.as_str(), mount.filesystem.as_str()), ("/dev/nvme1n1p1", "xfs"));
    let (major, minor) = host::device_of_mount(&root, &mount).unwrap();
    let device = host::device(&root, major, minor).unwrap();
    assert_eq!((device.name.as_str(), device.is_virtual), ("nvme1n1", Some(true)));
    assert_eq!((device.link, device.link_bytes_per_s), (None, None));
    let overlay = host::mount_of(&root, Path::new("/elsewhere")).unwrap();
    assert_eq!(host::device_of_mount(&root, &overlay), None);

    // Limits on the whole disk apply to a file on a partition: those of this group and its parents.
    let limits = host::io_limits(&root, major, minor);
    let seen: Vec<_> = limits.iter().map(|limit| (limit.kind, limit.per_second)).collect();
    assert_eq!(
        seen,
        [
            (IoLimitKind::ReadBytes, 104_857_600),
            (IoLimitKind::ReadIops, 5000),
            (IoLimitKind::ReadIops, 100_000),
        ]
    );
    assert!(limits[2].source.ends_with("/system.slice/io.max"), "{}", limits[2].source);
}

#[test]
fn stacked_blocks() {
    let tree = Tree::named("stacked-blocks");
    let root = tree.root();
    let mount = host::mount_of(&root, Path::new("/etc/fstab")).unwrap();
    assert_eq!(mount.filesystem, "btrfs");
    assert_eq!(host::device_of_mount(&root, &mount), Some((253, 1)));
    let device = host::device(&root, 253, 1).unwrap();
    assert_eq!(device.transport.as_deref(), Some("dm"));
    assert_eq!(device.model.as_deref(), Some("vg-root"));
    assert_eq!(device.slaves, ["dm-0"]);
    // Two layers down there is one drive: its link is the ceiling, and the disk is not virtual.
    assert_eq!(device.is_virtual, Some(false));
    assert_eq!(device.link_bytes_per_s, Some(7_088_400_000));
    // The limit is set on the drive; the file is on the volume.
    let limits = host::io_limits(&root, 253, 1);
    assert_eq!(limits.len(), 1);
    assert_eq!((limits[0].kind, limits[0].per_second), (IoLimitKind::ReadIops, 300));
    assert!(host::io_limits(&root, 9, 0).is_empty());

    let gone = host::mount_of(&root, Path::new("/home/me")).unwrap();
    assert_eq!(host::device_of_mount(&root, &gone), None);
    let remote = host::mount_of(&root, Path::new("/net/x")).unwrap();
    assert_eq!(host::device_of_mount(&root, &remote), None);

    let raid = host::device(&root, 9, 0).unwrap();
    assert_eq!((raid.transport.as_deref(), raid.is_virtual), (Some("md"), Some(false)));
    assert_eq!(raid.slaves, ["sda", "sdb"]);
    assert_eq!(raid.link_bytes_per_s, None, "two links at once");

    let kind = |major, minor| {
        let device = host::device(&root, major, minor).unwrap();
        (device.transport.unwrap(), device.is_virtual)
    };
    assert_eq!(kind(252, 0), ("zram".to_owned(), Some(true)));
    assert_eq!(kind(7, 3), ("loop".to_owned(), Some(true)));
    assert_eq!(kind(1, 0), ("ram".to_owned(), Some(true)));
    assert_eq!(kind(8, 32), ("usb".to_owned(), Some(false)));
    assert_eq!(host::device(&root, 7, 3).unwrap().slaves, ["/var/lib/images/a b.img"]);
    let stick = host::device(&root, 8, 32).unwrap();
    assert_eq!(stick.model.as_deref(), Some("Sample Stick"));
    assert_eq!(stick.link.as_deref(), Some("5000 Mb/s USB"));
    assert_eq!(stick.link_bytes_per_s, Some(500_000_000));
}

#[test]
fn a_mapper_volume_without_its_node_is_found_by_name() {
    let tree = Tree::of(
        "/sys/class/block/dm-7/dm/name = vg-data\n\
         /sys/class/block/dm-7/dev = 253:7\n\
         /proc/self/mountinfo = 1 0 0:40 / / rw - btrfs /dev/mapper/vg-data rw\n",
    );
    let root = tree.root();
    let mount = host::mount_of(&root, Path::new("/x")).unwrap();
    assert_eq!(host::device_of_mount(&root, &mount), Some((253, 7)));
}

#[test]
fn kinds_of_virtualization() {
    let kinds = |text: &str| host::facts(&Tree::of(text).root()).virtualization;
    let flagged = "/proc/cpuinfo = flags : fpu hypervisor\n";
    let wsl = "/proc/version = Linux version 5.15.153.1-microsoft-standard-WSL2 (root@x)\n";
    assert_eq!(kinds(&format!("{flagged}{wsl}")), ["hypervisor", "wsl2"]);
    let vmware = "/sys/class/dmi/id/sys_vendor = VMware, Inc.\n";
    assert_eq!(kinds(&format!("{flagged}{vmware}")), ["vmware"]);
    // A bare-metal machine in a cloud: the vendor's name, but no hypervisor.
    let metal = "/proc/cpuinfo = flags : fpu\n/sys/class/dmi/id/sys_vendor = Amazon EC2\n";
    assert!(kinds(metal).is_empty());
    assert_eq!(kinds("/proc/self/cgroup = 0::/kubepods/pod1/x\n"), ["kubernetes"]);
    assert_eq!(kinds("/run/systemd/container = lxc\n"), ["lxc"]);
}

#[test]
fn an_empty_tree_knows_nothing() {
    let tree = Tree::of("");
    let root = tree.root();
    assert_eq!(host::facts(&root), Default::default());
    assert_eq!(host::device(&root, 8, 0), None);
    assert_eq!(host::device_counters(&root, "sda"), None);
    assert!(host::io_limits(&root, 8, 0).is_empty());
    assert_eq!(host::mount_of(&root, Path::new("/")), None);
    assert_eq!(Sampler::new(&root, None).sample(), Default::default());
}

/// Calls every query of the module on a tree; each must return.
fn ask_everything(root: &Root) {
    let _ = host::facts(root);
    for path in ["/", "/data/x", "/home", "relative", ""] {
        if let Some(mount) = host::mount_of(root, Path::new(path)) {
            let _ = host::device_of_mount(root, &mount);
        }
    }
    for (major, minor) in [(259, 2), (254, 1), (253, 1), (9, 0), (8, 1), (8, 32), (7, 3)] {
        let device = host::device(root, major, minor);
        let _ = host::io_limits(root, major, minor);
        let mut sampler = Sampler::new(root, device.as_ref());
        let _ = (sampler.sample(), sampler.sample());
    }
    for name in ["sda", "nvme0n1", "../../proc", ""] {
        let _ = host::device_counters(root, name);
    }
}

#[test]
fn no_content_makes_it_panic() {
    let huge = format!("{} ", u64::MAX).repeat(20_000);
    let contents: [&[u8]; 13] = [
        b"",
        b"\n",
        b"\0\0\0\0",
        b"-1\n",
        b"-9223372036854775808 -1\n",
        b"18446744073709551615\n",
        b"99999999999999999999999999 18446744073709551616\n",
        b"\xff\xfe\x80 \xc3\x28 - \xff:\xff\n",
        b": :: = - [ ] ][ -> \\ \\0 \\777 , ,, -,- 0- -0 some total= cpu \n",
        b"0:18446744073709551615 rbps= =max riops=-5 wiops=999999999999999999999\n",
        b"0-4294967295,1-0\n",
        b"1 0 0:0 / / rw - - - -\n0::/../../..\n4:::\n::\nsome total=x\nMemTotal: x\ncpu  x\n",
        huge.as_bytes(),
    ];
    for name in ["nvme-x2-laptop", "sata-hdd", "virtio-cgroup-v1", "container-cgroup-v2"] {
        let tree = Tree::named(name);
        let files = tree.files();
        // Each file in turn with one of the contents, then all files with each content.
        for (at, file) in files.iter().enumerate() {
            let kept = fs::read(file).unwrap();
            fs::write(file, contents[at % contents.len()]).unwrap();
            ask_everything(&tree.root());
            fs::write(file, kept).unwrap();
        }
        for content in contents {
            for file in &files {
                fs::write(file, content).unwrap();
            }
            ask_everything(&tree.root());
        }
    }
    let stacked = Tree::named("stacked-blocks");
    for content in contents {
        for file in stacked.files() {
            fs::write(file, content).unwrap();
        }
        ask_everything(&stacked.root());
    }
}

#[test]
fn devices_that_lie_on_each_other_come_to_an_end() {
    let tree = Tree::of(
        "/sys/dev/block/253:0 -> ../../devices/virtual/block/dm-0\n\
         /sys/dev/block/253:1 -> ../../devices/virtual/block/dm-1\n\
         /sys/devices/virtual/block/dm-0/dev = 253:0\n\
         /sys/devices/virtual/block/dm-1/dev = 253:1\n\
         /sys/devices/virtual/block/dm-0/slaves/dm-1 -> ../../dm-1\n\
         /sys/devices/virtual/block/dm-1/slaves/dm-0 -> ../../dm-0\n",
    );
    assert_eq!(host::device(&tree.root(), 253, 0).unwrap().slaves, ["dm-1"]);
    assert!(host::io_limits(&tree.root(), 253, 0).is_empty());
}
