//! Which file direct I/O is for.

use std::path::Path;

use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::FileRun;
use iosonde_rig::guard::{FsKind, ImageMount};
use iosonde_rig::skip;

use super::{MEMORY, MIB, has, profile, settle};
use crate::request::{here, turn};

/// Bytes of direct reads and writes of the entries that are meant, and of all.
fn direct(run: &ProfileRun, is_meant: impl Fn(&FileRun) -> bool) -> (u64, u64) {
    let sum = |files: Vec<&FileRun>| files.iter().map(|file| file.direct_bytes).sum();
    let meant = run.files.iter().filter(|file| is_meant(file));
    (sum(meant.collect()), sum(run.files.iter().collect()))
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
    // A direct read may be finished through the page cache.
    assert!(of_file > 2 * 64 * MIB, "{of_file}: {:?}", run.files);
}
