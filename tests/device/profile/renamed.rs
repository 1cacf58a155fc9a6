//! Names of files that are renamed while profiled.

use std::process::Command;

use iosonde_model::record::ProfileRun;
use iosonde_rig::skip;

use super::{MIB, disk, has, profile};
use crate::request::turn;

/// Bytes written to files whose path has this suffix.
fn written(run: &ProfileRun, end: &str) -> u64 {
    let files = run.files.iter().filter(|file| file.path.ends_with(end));
    files.map(|file| file.write_bytes).sum()
}

fn has_overlay() -> bool {
    let here = ["-m", "sh", "-c", "grep -qw overlay /proc/filesystems || modprobe overlay"];
    let found = Command::new("unshare").args(here).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        skip("there is no overlayfs, or no `unshare`");
    }
    is_there
}

/// overlayfs copies up into an unnamed file, which is then linked in another directory.
#[test]
fn a_file_that_overlayfs_copies_up_has_its_final_name() {
    let _turn = turn();
    let Some(mount) = (has("dd") && has_overlay()).then(disk).flatten() else { return };
    let script = "mkdir -p low/a up work merged; dd if=/dev/zero of=low/a/file bs=1M count=8; \
                  sync; unshare -m sh -c 'mount -t overlay overlay \
                  -o lowerdir=low,upperdir=up,workdir=work merged; \
                  echo >> merged/a/file; sync -f merged'";
    let Some(run) = profile(mount.device(), mount.path(), script).seen() else { return };
    let copied = written(&run, "/up/a/file");
    assert!(copied >= 8 * MIB, "{copied} bytes: {:?}", run.files);
    assert!(run.files.iter().all(|file| !file.path.contains('#')), "{:?}", run.files);
}

#[test]
fn a_file_that_moves_to_another_directory_has_its_new_name() {
    let _turn = turn();
    let Some(mount) = has("dd").then(disk).flatten() else { return };
    let script = "mkdir one two; dd if=/dev/zero of=one/file bs=1M count=2 oflag=direct; \
                  mv one/file two/other";
    let Some(run) = profile(mount.device(), mount.path(), script).seen() else { return };
    assert_eq!(written(&run, "/two/other"), 2 * MIB, "{:?}", run.files);
}

/// The look-alike: the kernel reuses the inode number of a deleted file.
#[test]
fn a_deleted_file_does_not_get_the_name_of_the_one_that_has_its_number() {
    let _turn = turn();
    let Some(mount) = has("dd").then(disk).flatten() else { return };
    let script = "dd if=/dev/zero of=first bs=1M count=2 oflag=direct; rm first; \
                  dd if=/dev/zero of=second bs=1M count=3 oflag=direct";
    let Some(run) = profile(mount.device(), mount.path(), script).seen() else { return };
    let found = (written(&run, "/first (deleted or moved)"), written(&run, "/second"));
    assert_eq!(found, (2 * MIB, 3 * MIB), "{:?}", run.files);
}
