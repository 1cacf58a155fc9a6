//! Signatures of a device are saved before the first write and restored on request: only on the
//! same device, and subject to the gate.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use iosonde_rig::guard::{LoopDevice, LoopOptions};
use iosonde_rig::{ScratchDir, skip};

use crate::request::{here, hides_processes, program, turn};

const MIB: u64 = 1 << 20;

/// A loop device with an ext4, and its image.
struct Disk {
    device: LoopDevice,
    image: PathBuf,
    dir: ScratchDir,
}

impl Disk {
    fn new() -> Option<Disk> {
        let dir = ScratchDir::new().unwrap();
        let image = dir.path().join("image");
        File::create(&image).unwrap().set_len(64 * MIB).unwrap();
        let output = Command::new("mkfs.ext4")
            .args(["-qF", "-b", "1024"])
            .arg(&image)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .output();
        if !output.is_ok_and(|output| output.status.success()) {
            skip("mkfs.ext4 cannot be run");
            return None;
        }
        let device = here(LoopDevice::over(&image, LoopOptions::default()))?;
        Some(Disk { device, image, dir })
    }

    fn id(&self) -> String {
        format!("--destroy-data={}", self.image.display())
    }

    /// Writes sequentially from the beginning, with every consent.
    fn overwrite(&self, mib: u64) -> PathBuf {
        let results = self.dir.path().join("results");
        let line = format!("run --rw write --bs 64k --number-ios {}", mib * 16);
        let output = iosonde(&line)
            .arg("--path")
            .arg(self.device.path())
            .args([&self.id(), "--overwrite-signature=ext", "--overwrite-signature=unknown-data"])
            .args(self.unseen())
            .arg("--results")
            .arg(&results)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let said = stderr(&output);
        let folder = fs::read_dir(results).unwrap().next().unwrap().unwrap().path();
        let hint = format!("iosonde report {} --restore-signatures", folder.display());
        assert!(said.contains(&hint), "{said}");
        folder
    }

    fn restore(&self, folder: &Path, more: &[&str]) -> Output {
        let mut command = iosonde("report");
        command.arg(folder).arg("--restore-signatures").args(more);
        if !more.is_empty() {
            command.args(self.unseen());
        }
        command.output().unwrap()
    }

    /// The additional consent if some processes cannot be examined.
    fn unseen(&self) -> Option<String> {
        let id = self.image.display();
        hides_processes().then(|| format!("--accept-unseen-processes={id}"))
    }
}

fn iosonde(line: &str) -> Command {
    let mut command = Command::new(program());
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Output of `wipefs` and `blkid` for a device or an image.
fn seen(at: &Path) -> String {
    let say = |program: &str, args: &[&str]| {
        let path = "/usr/sbin:/usr/bin:/sbin:/bin";
        let output = Command::new(program).args(args).arg(at).env("PATH", path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    say("wipefs", &["--no-act", "--parsable"]) + &say("blkid", &["-p", "-o", "export"])
}

#[test]
fn signatures_are_put_back_on_the_same_device_alone() {
    let _turn = turn();
    let Some(disk) = Disk::new() else { return };
    let before = seen(disk.device.path());
    assert!(before.contains("TYPE=ext4"), "{before}");
    let first = fs::read(&disk.image).unwrap();
    let folder = disk.overwrite(64);
    assert!(!seen(disk.device.path()).contains("ext4"), "it was overwritten");
    let after = fs::read(&disk.image).unwrap();
    // The folder's checksums include the saved data.
    let sums = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert!(sums.contains("  undo-1.bin\n") && sums.contains("  undo-1.json\n"), "{sums}");

    // No consent, another device's, and a device in use.
    assert_eq!(disk.restore(&folder, &[]).status.code(), Some(2));
    assert_eq!(disk.restore(&folder, &["--destroy-data=another"]).status.code(), Some(5));
    let id = disk.id();
    let claimed = fs::OpenOptions::new().write(true).open(disk.device.path()).unwrap();
    let refused = disk.restore(&folder, &[&id]);
    assert_eq!(refused.status.code(), Some(5), "{}", stderr(&refused));
    drop(claimed);
    // Altered data.
    let bytes = folder.join("undo-1.bin");
    let saved = fs::read(&bytes).unwrap();
    let mut altered = saved.clone();
    altered[1080] ^= 1;
    fs::write(&bytes, &altered).unwrap();
    let refused = disk.restore(&folder, &[&id]);
    assert_eq!(refused.status.code(), Some(6), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("undo-1.bin: found SHA-256"), "{}", stderr(&refused));
    // `--accept-altered` permits reporting altered data, not writing them to a device.
    let refused = disk.restore(&folder, &[&id, "--accept-altered"]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("SHA-256"), "{}", stderr(&refused));
    fs::write(&bytes, &saved).unwrap();
    assert_eq!(fs::read(&disk.image).unwrap(), after, "nothing was written so far");

    let output = disk.restore(&folder, &[&id]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(seen(disk.device.path()), before);
    let restored = fs::read(&disk.image).unwrap();
    let mib = MIB as usize;
    assert!(restored[..mib] == first[..mib] && first[..mib] != after[..mib], "the first MiB");
    let last = restored.len() - mib..;
    assert!(restored[last.clone()] == first[last.clone()], "the last MiB");
    assert!(first[last.clone()] != after[last], "the last MiB was written");
    // A second restore changes nothing.
    assert_eq!(disk.restore(&folder, &[&id]).status.code(), Some(0));
}

#[test]
fn what_a_killed_run_saved_is_shown_by_the_name_that_was_printed() {
    let _turn = turn();
    let Some(disk) = Disk::new() else { return };
    let results = disk.dir.path().join("results");
    let mut child = iosonde("run --rw write --runtime 60 --eta-interval 0 --path")
        .arg(disk.device.path())
        .args([&disk.id(), "--overwrite-signature=ext", "--overwrite-signature=unknown-data"])
        .args(disk.unseen())
        .arg("--results")
        .arg(&results)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let partial = || Some(fs::read_dir(&results).ok()?.next()?.ok()?.path());
    while !partial().is_some_and(|folder| folder.join("undo-1.json").exists()) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let partial = partial().unwrap();
    for folder in [partial.clone(), partial.with_extension("")] {
        let output = iosonde("report").arg(&folder).output().unwrap();
        let said = stderr(&output);
        assert!(said.contains("to restore them: iosonde report "), "{said}");
        assert!(said.contains("of which there may be no other copy"), "{said}");
        assert!(!said.contains("it may be removed"), "{said}");
    }
    let restored = disk.restore(&partial.with_extension(""), &[&disk.id()]);
    assert_eq!(restored.status.code(), Some(0), "{}", stderr(&restored));
}

#[test]
fn newer_data_is_not_overwritten_by_what_was_there_before() {
    let _turn = turn();
    let Some(disk) = Disk::new() else { return };
    let folder = disk.overwrite(2);
    let file = fs::OpenOptions::new().write(true).open(disk.device.path()).unwrap();
    file.write_all_at(b"Dear diary", 512 << 10).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let before = fs::read(&disk.image).unwrap();
    let id = disk.id();
    let refused = disk.restore(&folder, &[&id]);
    assert_eq!(refused.status.code(), Some(5), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("holds newer data"), "{}", stderr(&refused));
    assert_eq!(fs::read(&disk.image).unwrap(), before);
    let agreed = disk.restore(&folder, &[&id, "--overwrite-signature=unknown-data"]);
    assert_eq!(agreed.status.code(), Some(0), "{}", stderr(&agreed));
}

#[test]
fn another_device_is_never_restored() {
    let _turn = turn();
    let Some(disk) = Disk::new() else { return };
    let folder = disk.overwrite(1);
    let id = disk.id();
    let Disk { device, image, dir } = disk;
    drop(device);
    // The same file and path with another size is not the same device.
    let smaller = File::options().write(true).open(&image).unwrap();
    smaller.set_len(63 * MIB).unwrap();
    let Some(device) = here(LoopDevice::over(&image, LoopOptions::default())) else { return };
    let before = fs::read(&image).unwrap();
    let mut disk = Disk { device, image, dir };
    let refused = disk.restore(&folder, &[&id]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("found no block device"), "{}", stderr(&refused));
    assert_eq!(fs::read(&disk.image).unwrap(), before);
    // Another file of the right size in place of the device that was written.
    let other = disk.dir.path().join("other");
    File::create(&other).unwrap().set_len(64 * MIB).unwrap();
    drop(disk.device);
    let Some(device) = here(LoopDevice::over(&other, LoopOptions::default())) else { return };
    disk.device = device;
    let others = format!("--destroy-data={}", other.display());
    for (consent, exit) in [(&*id, 2), (&*others, 5)] {
        let refused = disk.restore(&folder, &[consent]);
        assert_eq!(refused.status.code(), Some(exit), "{}", stderr(&refused));
    }
    let other = fs::read(&other).unwrap();
    assert!(other.iter().all(|byte| *byte == 0), "another device was written");
}

#[test]
fn what_cannot_be_saved_is_not_overwritten() {
    let _turn = turn();
    let Some(disk) = Disk::new() else { return };
    let before = fs::read(&disk.image).unwrap();
    let blocked = disk.dir.path().join("no-directory");
    fs::write(&blocked, b"").unwrap();
    let output = iosonde("run --rw write --number-ios 5")
        .arg("--path")
        .arg(disk.device.path())
        .args([&disk.id(), "--overwrite-signature=ext", "--overwrite-signature=unknown-data"])
        .args(disk.unseen())
        .arg("--results")
        .arg(&blocked)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot be saved"), "{}", stderr(&output));
    assert_eq!(fs::read(&disk.image).unwrap(), before);
}
