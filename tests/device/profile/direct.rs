//! The file of a direct request, if no system call is behind the request or a part of it.

use std::path::Path;

use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::FileRun;
use iosonde_rig::guard::{FsKind, ImageMount};
use iosonde_rig::skip;

use super::{MEMORY, MIB, bare, disk, has, profile, settle};
use crate::request::{here, turn};

/// Bytes of direct reads and writes of the matching entries, and of all.
fn direct(run: &ProfileRun, is_meant: impl Fn(&FileRun) -> bool) -> (u64, u64) {
    let sum = |files: Vec<&FileRun>| files.iter().map(|file| file.direct_bytes).sum();
    let meant = run.files.iter().filter(|file| is_meant(file));
    (sum(meant.collect()), sum(run.files.iter().collect()))
}

/// A request above the device's limit is split. A small one of a thread that waits for it has no
/// system call from which to take the file.
#[test]
fn direct_requests_on_a_device_are_for_the_device() {
    let _turn = turn();
    let Some((device, dir)) = has("fio").then(|| bare(64)).flatten() else { return };
    let path = device.path().to_str().unwrap().to_owned();
    for engine in ["psync", "libaio", "io_uring"] {
        for (size, way) in [("4k", "randread"), ("4m", "write"), ("4m", "read"), ("16k", "write")] {
            let script = format!(
                "fio --name=a --filename={path} --direct=1 --ioengine={engine} --iodepth=4 \
                 --bs={size} --rw={way} --size=32m --io_size=8m"
            );
            let Some(run) = profile(&device, dir.path(), &script).seen() else { return };
            let (of_device, all) = direct(&run, |file| file.path == path);
            let reported = format!("{engine}, {way} of {size}: {of_device} of {all}");
            assert!(of_device == all && all == 8 * MIB, "{reported}: {:?}", run.files);
        }
    }
}

/// The look-alike: requests of a file system on a device are not attributed to the device.
#[test]
fn direct_requests_of_a_file_system_are_not_for_its_device() {
    let _turn = turn();
    let Some(mount) = has("dd").then(disk).flatten() else { return };
    let path = mount.device().path().to_str().unwrap();
    let script = format!(
        "dd if=/dev/zero of=file bs=4M count=4 oflag=direct; \
         dd if=file of=/dev/null bs=4M iflag=direct; dd if=file of=/dev/null bs=4k iflag=direct; \
         dd if={path} of=/dev/null bs=4k count=256 iflag=direct"
    );
    let Some(run) = profile(mount.device(), mount.path(), &script).seen() else { return };
    let (of_file, all) = direct(&run, |file| file.path.ends_with("/file"));
    let (of_device, _) = direct(&run, |file| file.path.starts_with(path));
    let expected = (3 * 16 * MIB, MIB);
    assert_eq!((of_file, of_device), expected, "of {all}: {:?}", run.files);
    assert_eq!(all, of_file + of_device, "{:?}", run.files);
}

#[test]
fn direct_reads_of_btrfs_that_are_split_are_for_the_file() {
    let _turn = turn();
    if Path::new("/sys/kernel/btf/btrfs").exists() {
        skip("btrfs is a module, whose types are not read");
        return;
    }
    let mount = ImageMount::below(Path::new(MEMORY), FsKind::Btrfs, 512 * MIB, "");
    let Some(mount) = has("dd").then(|| here(mount)).flatten() else { return };
    std::fs::write(mount.path().join("file"), vec![1; 64 << 20]).unwrap();
    settle(&mount);
    let script = "for size in 4k 1M 8M; do dd if=file of=/dev/null bs=$size iflag=direct; done";
    let Some(run) = profile(mount.device(), mount.path(), script).seen() else { return };
    let (of_file, all) = direct(&run, |file| file.path.ends_with("/file"));
    assert_eq!(of_file, all, "{:?}", run.files);
    // A direct read may be completed through the page cache.
    assert!(of_file > 2 * 64 * MIB, "{of_file}: {:?}", run.files);
}
