//! The block devices that a flush passes on its way down, and the kernel's counts of flushes.

use std::path::Path;

use super::device::{self, file_name};
use super::{Root, mount};
use iosonde_model::record::ladder::FlushLayer;

/// A stack with more devices than this is not followed further.
const LAYER_LIMIT: usize = 64;
/// Index of the flush count in the fields of `stat` (since Linux 5.5).
const FLUSH_FIELD: usize = 15;

/// The stack below the block device with this number, from its whole disk downwards: members of dm
/// and md, and the disk that holds the file of a loop device.
///
/// `write_cache` of each is the kernel's setting, which an administrator may have changed.
#[must_use]
pub fn flush_layers(root: &Root, major: u32, minor: u32) -> Vec<FlushLayer> {
    let mut waiting = vec![((major, minor), 0)];
    let mut layers: Vec<FlushLayer> = Vec::new();
    let mut at = 0;
    // The list grows while it is walked; each device is entered once.
    while let Some((number, depth)) = waiting.get(at).copied() {
        at += 1;
        let Some(disk) = whole_disk(root, number) else { continue };
        let Some(name) = file_name(&disk) else { continue };
        if layers.iter().any(|layer| layer.name == name) || layers.len() == LAYER_LIMIT {
            continue;
        }
        let (below, below_unseen) = below(root, &disk);
        waiting.extend(below.into_iter().map(|number| (number, depth + 1)));
        let facts = device::device(root, number.0, number.1).unwrap_or_default();
        layers.push(FlushLayer {
            uncounted: uncounted(root, &disk, &name),
            name,
            depth,
            write_cache: facts.write_cache,
            rotational: facts.rotational,
            is_virtual: facts.is_virtual,
            below_unseen,
        });
    }
    layers
}

/// Flushes that a disk has completed since it appeared, whoever sent them.
#[must_use]
pub fn flushes(root: &Root, name: &str) -> Option<u64> {
    let stat = root.text(format!("/sys/class/block/{name}/stat"))?;
    stat.split_whitespace().nth(FLUSH_FIELD)?.parse().ok()
}

/// Whether the kernel has device mapper, which can log writes (dm-log-writes).
#[must_use]
pub fn has_device_mapper(root: &Root) -> bool {
    root.exists("/sys/class/misc/device-mapper") || root.exists("/dev/mapper/control")
}

fn whole_disk(root: &Root, (major, minor): (u32, u32)) -> Option<std::path::PathBuf> {
    let own = root.resolve(format!("/sys/dev/block/{major}:{minor}"))?;
    if root.exists(own.join("partition")) { own.parent().map(Path::to_owned) } else { Some(own) }
}

/// Why the flushes of a disk are not counted, if so. The kernel counts flush requests; a bio-based
/// driver (md, most of dm, zram) has none.
fn uncounted(root: &Root, disk: &Path, name: &str) -> Option<String> {
    if !root.exists(disk.join("mq")) {
        return Some("the kernel does not count the flushes of this kind of device".into());
    }
    let known = flushes(root, name).is_some();
    (!known).then(|| "this kernel does not count flushes (it does since 5.5)".into())
}

/// Numbers of the devices below, or why the device below a loop device is not known.
fn below(root: &Root, disk: &Path) -> (Vec<(u32, u32)>, Option<String>) {
    let Some(file) = root.word(disk.join("loop/backing_file")) else {
        return (device::numbers_below(root, disk), None);
    };
    match device_of_file(root, Path::new(&file)) {
        Some(number) => (vec![number], None),
        None => (Vec::new(), Some(format!("no device is seen below its file `{file}`"))),
    }
}

fn device_of_file(root: &Root, file: &Path) -> Option<(u32, u32)> {
    if let Some(number) = root.node(file) {
        return Some(number);
    }
    let seen = rustix::fs::stat(root.path(file)).ok()?;
    let own = (rustix::fs::major(seen.st_dev), rustix::fs::minor(seen.st_dev));
    if own.0 != 0 {
        return Some(own);
    }
    device::device_of_mount(root, &mount::mount_of(root, file)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;

    use super::*;

    /// A tree with a device mapper volume over a partition of a disk.
    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let block = dir.path().join("sys/devices/virtual/block");
        let stat = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 42 17\n";
        for (name, number, queued) in [("dm-0", "253:0", false), ("sda", "8:0", true)] {
            let disk = block.join(name);
            fs::create_dir_all(disk.join("queue")).unwrap();
            fs::create_dir_all(disk.join("slaves")).unwrap();
            fs::write(disk.join("dev"), format!("{number}\n")).unwrap();
            fs::write(disk.join("stat"), stat).unwrap();
            fs::write(disk.join("queue/write_cache"), "write back\n").unwrap();
            fs::write(disk.join("queue/rotational"), "1\n").unwrap();
            if queued {
                fs::create_dir(disk.join("mq")).unwrap();
            }
            link(dir.path(), number, name, &disk);
        }
        let part = block.join("sda/sda1");
        fs::create_dir_all(&part).unwrap();
        fs::write(part.join("partition"), "1\n").unwrap();
        fs::write(part.join("dev"), "8:1\n").unwrap();
        link(dir.path(), "8:1", "sda1", &part);
        std::os::unix::fs::symlink(&part, block.join("dm-0/slaves/sda1")).unwrap();
        dir
    }

    fn link(root: &Path, number: &str, name: &str, to: &Path) {
        for (place, word) in [("sys/dev/block", number), ("sys/class/block", name)] {
            fs::create_dir_all(root.join(place)).unwrap();
            std::os::unix::fs::symlink(to, root.join(place).join(word)).unwrap();
        }
    }

    #[test]
    fn a_volume_leads_to_the_disk_below_its_partition() {
        let dir = tree();
        let root = Root::at(dir.path());
        let layers = flush_layers(&root, 253, 0);
        let reported =
            |layer: &FlushLayer| (layer.name.clone(), layer.depth, layer.uncounted.is_some());
        let reported: Vec<_> = layers.iter().map(reported).collect();
        assert_eq!(reported, [("dm-0".into(), 0, true), ("sda".into(), 1, false)]);
        assert_eq!(layers[1].rotational, Some(true));
        assert_eq!(layers[1].write_cache.as_deref(), Some("write back"));
        assert_eq!(flushes(&root, "sda"), Some(42));
        assert_eq!(flush_layers(&root, 9, 9), []);
    }

    #[test]
    fn an_old_kernel_counts_no_flushes() {
        let dir = tree();
        let stat = dir.path().join("sys/devices/virtual/block/sda/stat");
        fs::write(stat, "1 2 3 4 5 6 7 8 9 10 11\n").unwrap();
        let root = Root::at(dir.path());
        assert_eq!(flushes(&root, "sda"), None);
        assert!(flush_layers(&root, 8, 0)[0].uncounted.as_ref().unwrap().contains("5.5"));
    }
}
