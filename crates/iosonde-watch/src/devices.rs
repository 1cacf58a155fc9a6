//! The disks that are traced, their facts, and the kernel's counters of each.

use std::collections::BTreeMap;
use std::path::Path;

use iosonde_engine::host::{self, Root};
use iosonde_model::record::facts::{DeviceCounters, DeviceFacts};
use iosonde_model::record::profile::ProfiledDevice;

/// A whole disk.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Disk {
    /// Major and minor number.
    pub(super) number: (u32, u32),
    pub(super) facts: DeviceFacts,
}

pub(super) fn disk(root: &Root, name: &str) -> Option<Disk> {
    let text = root.text(format!("/sys/block/{name}/dev"))?;
    let (major, minor) = text.split_once(':')?;
    let number = (major.parse().ok()?, minor.parse().ok()?);
    Some(Disk { number, facts: host::device(root, number.0, number.1)? })
}

/// The whole disk of this device or partition.
fn disk_of(root: &Root, number: (u32, u32)) -> Option<Disk> {
    disk(root, &host::device(root, number.0, number.1)?.name)
}

/// The disk that a user named: `vda`, `/dev/vda1`, `/dev/disk/by-id/…`. For a partition, its whole
/// disk.
pub(super) fn requested(root: &Root, requested: &str) -> Option<Disk> {
    disk_of(root, host::number_of_node(root, &Path::new("/dev").join(requested))?)
}

/// Adds a disk, and the disks below a volume or an array, whose requests are traced too.
pub(super) fn with_those_beneath(root: &Root, disk: Disk, disks: &mut Vec<Disk>) {
    if disks.contains(&disk) {
        return;
    }
    let beneath = disk.facts.slaves.clone();
    disks.push(disk);
    let names = beneath.iter().filter(|slave| !slave.starts_with('/'));
    for disk in names.filter_map(|slave| requested(root, slave)) {
        with_those_beneath(root, disk, disks);
    }
}

/// Names of all disks below one, at any depth.
fn beneath(root: &Root, facts: &DeviceFacts) -> Vec<String> {
    let mut found: Vec<Disk> = Vec::new();
    let mut names = facts.slaves.clone();
    while let Some(name) = names.pop() {
        let of_file = || name.starts_with('/').then(|| of_folder(root, Path::new(&name)))?;
        match requested(root, &name).or_else(of_file) {
            Some(disk) if !found.contains(&disk) => {
                names.extend(disk.facts.slaves.iter().cloned());
                found.push(disk);
            }
            _ => {}
        }
    }
    found.into_iter().map(|disk| disk.facts.name).collect()
}

/// The disk under the file system of this directory, if any.
pub(super) fn of_folder(root: &Root, folder: &Path) -> Option<Disk> {
    let mount = host::mount_of(root, folder)?;
    disk_of(root, host::device_of_mount(root, &mount)?)
}

/// Every disk of nonzero size, by name.
pub(super) fn known(root: &Root) -> Vec<String> {
    let has_size =
        |name: &String| root.number::<u64>(format!("/sys/block/{name}/size")).unwrap_or(0) > 0;
    root.names("/sys/block").into_iter().filter(has_size).collect()
}

/// Reason why requests of this disk cannot be traced, if any.
pub(super) fn invisible(root: &Root, disk: &DeviceFacts) -> Option<String> {
    let name = &disk.name;
    if root.exists(format!("/sys/block/{name}/mq")) || !root.exists(format!("/sys/block/{name}")) {
        return None;
    }
    let kind = disk.transport.as_ref();
    let what = kind.map_or(name.clone(), |kind| format!("{name} ({kind})"));
    let beneath: Vec<&str> =
        disk.slaves.iter().map(String::as_str).filter(|slave| !slave.starts_with('/')).collect();
    let instead = match beneath.as_slice() {
        [] => "only its counters are available".to_owned(),
        disks => format!("its requests appear on the underlying disks: {}", disks.join(", ")),
    };
    Some(format!("{what} has no request queue, so no tracepoint shows its requests; {instead}"))
}

/// The kernel's counters of disks, by name.
pub(super) type Counters = BTreeMap<String, DeviceCounters>;

/// Counters of every disk.
pub(super) fn counters(root: &Root) -> Counters {
    let of = |name: String| Some((name.clone(), host::device_counters(root, &name)?));
    root.names("/sys/block").into_iter().filter_map(of).collect()
}

/// The disks of a profile: the selected ones, or else each with I/O, `home` first; if none had I/O,
/// only `home`.
pub(super) fn profiled(
    root: &Root,
    chosen: &[Disk],
    home: Option<&Disk>,
    (before, after): (&Counters, &Counters),
) -> Vec<ProfiledDevice> {
    let mut disks: Vec<Disk> = chosen.to_vec();
    if disks.is_empty() {
        let busy = after.iter().filter(|(name, now)| before.get(*name) != Some(now));
        let busy = busy.filter_map(|(name, _)| disk(root, name));
        disks.extend(busy);
        disks.sort_by_key(|disk| home.is_none_or(|home| home.facts.name != disk.facts.name));
    }
    if disks.is_empty() {
        disks.extend(home.cloned());
    }
    let profiled = |disk: Disk| ProfiledDevice {
        beneath: beneath(root, &disk.facts),
        invisible: invisible(root, &disk.facts),
        // The counters of a new disk started at zero.
        counters: after
            .get(&disk.facts.name)
            .map(|now| (before.get(&disk.facts.name).copied().unwrap_or_default(), *now)),
        facts: disk.facts,
        ..ProfiledDevice::default()
    };
    disks.into_iter().map(profiled).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const STAT: &str = "1 0 8 1 2 0 16 1 0 2 2 0 0 0 0 0 0";

    /// A disk with a partition and a queue, a RAM disk without queue, and a volume over the disk.
    fn machine() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let sys = dir.path().join("sys");
        for folder in ["block", "class/block", "dev/block"] {
            fs::create_dir_all(sys.join(folder)).unwrap();
        }
        for (name, dev) in [("sda", "8:0"), ("zram0", "252:0"), ("dm-0", "253:0"), ("loop0", "7:0")]
        {
            let place = sys.join("devices").join(name);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("dev"), dev).unwrap();
            fs::write(place.join("size"), if name == "loop0" { "0" } else { "2048" }).unwrap();
            fs::write(place.join("stat"), STAT).unwrap();
            for link in [format!("block/{name}"), format!("class/block/{name}")] {
                symlink(format!("{}/devices/{name}", sys.display()), sys.join(link)).unwrap();
            }
            let link = sys.join("dev/block").join(dev);
            symlink(format!("{}/devices/{name}", sys.display()), link).unwrap();
        }
        fs::create_dir_all(sys.join("devices/sda/mq")).unwrap();
        fs::create_dir_all(sys.join("devices/dm-0/slaves/sda")).unwrap();
        let partition = sys.join("devices/sda/sda1");
        fs::create_dir_all(&partition).unwrap();
        fs::write(partition.join("dev"), "8:1").unwrap();
        fs::write(partition.join("partition"), "1").unwrap();
        for link in ["class/block/sda1", "dev/block/8:1"] {
            symlink(&partition, sys.join(link)).unwrap();
        }
        let root = Root::at(dir.path());
        (dir, root)
    }

    #[test]
    fn a_partition_is_on_its_disk() {
        let (_dir, root) = machine();
        for name in ["sda", "/dev/sda", "sda1", "/dev/sda1"] {
            let disk = requested(&root, name).unwrap();
            assert_eq!((disk.facts.name.as_str(), disk.number), ("sda", (8, 0)), "{name}");
        }
        assert_eq!(requested(&root, "sdz"), None);
        assert_eq!(known(&root), ["dm-0", "sda", "zram0"]);
        let mut disks = Vec::new();
        for name in ["dm-0", "sda1"] {
            with_those_beneath(&root, requested(&root, name).unwrap(), &mut disks);
        }
        let names: Vec<&str> = disks.iter().map(|disk| disk.facts.name.as_str()).collect();
        assert_eq!(names, ["dm-0", "sda"]);
    }

    #[test]
    fn what_has_no_queue_is_reported_with_what_lies_beneath() {
        let (_dir, root) = machine();
        let why = |name: &str| invisible(&root, &disk(&root, name).unwrap().facts);
        assert_eq!(why("sda"), None);
        assert!(why("zram0").unwrap().starts_with("zram0 (zram) has no request queue"));
        assert!(why("dm-0").unwrap().ends_with("the underlying disks: sda"));
    }

    #[test]
    fn busy_disks_are_shown_and_home_if_none_is() {
        let (_dir, root) = machine();
        let home = disk(&root, "sda").unwrap();
        let before = counters(&root);
        let names = |chosen: &[Disk], after: &Counters| -> Vec<String> {
            let found = profiled(&root, chosen, Some(&home), (&before, after));
            found.into_iter().map(|device| device.facts.name).collect()
        };
        assert_eq!(names(&[], &before), ["sda"]);
        let mut after = before.clone();
        for name in ["sda", "dm-0"] {
            after.get_mut(name).unwrap().writes += 1;
        }
        assert_eq!(names(&[], &after), ["sda", "dm-0"]);
        assert_eq!(names(&[disk(&root, "zram0").unwrap()], &after), ["zram0"]);
        let zram = profiled(
            &root,
            &[],
            None,
            (&before, &{
                let mut after = before.clone();
                after.get_mut("zram0").unwrap().reads += 3;
                after
            }),
        );
        let (start, end) = zram[0].counters.unwrap();
        assert_eq!(end.reads - start.reads, 3);
        let came = profiled(&root, &[], None, (&BTreeMap::new(), &before));
        assert!(came.iter().all(|disk| disk.counters.unwrap().0 == DeviceCounters::default()));
        assert!(zram[0].invisible.is_some());
    }
}
