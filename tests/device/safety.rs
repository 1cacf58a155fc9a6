//! A block device is written only after the whole gate; a refusal states the reason.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use iosonde_rig::guard::{FsKind, ImageMount, LoopDevice, LoopOptions, TmpfsMount, ZramDevice};
use iosonde_rig::{ScratchDir, skip};
use rustix::fs::{FlockOperation, flock};

use crate::request::{Answer, ask, here, turn};

const MIB: u64 = 1 << 20;

/// A loop device over an image in a new directory.
struct Disk {
    device: LoopDevice,
    image: PathBuf,
    _dir: ScratchDir,
}

impl Disk {
    fn blank(mib: u64) -> Option<Disk> {
        Disk::made(mib, LoopOptions::default(), |_| ())
    }

    /// `prepare` receives the image before the device is made.
    fn made(mib: u64, options: LoopOptions, prepare: impl Fn(&File)) -> Option<Disk> {
        let dir = ScratchDir::new().unwrap();
        let image = dir.path().join("image");
        let file = File::create(&image).unwrap();
        file.set_len(mib * MIB).unwrap();
        prepare(&file);
        let device = here(LoopDevice::over(&image, options))?;
        Some(Disk { device, image, _dir: dir })
    }

    fn path(&self) -> &Path {
        self.device.path()
    }

    fn consent(&self) -> String {
        format!("--destroy-data={}", self.image.display())
    }

    /// Content of the image, which is small.
    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.image).unwrap()
    }
}

fn write_to(path: &Path, more: &str) -> Answer {
    let line = format!("run --path {{}} --rw randwrite --number-ios 50 {more}");
    ask(&line, path).answer()
}

/// Expects a refusal and returns its message.
fn refusal(path: &Path, more: &str) -> String {
    let answer = write_to(path, more).exits(5);
    assert_eq!(answer.at("/error/kind"), "refused");
    answer.at("/error/message").as_str().unwrap().to_owned()
}

/// Expects a refusal for this reason that no option overrides, even with the right consent.
fn never(path: &Path, consent: &str, reason: &str) {
    denied(path, "", reason);
    denied(path, consent, reason);
}

/// Expects a refusal for this reason in spite of consent.
fn denied(path: &Path, consent: &str, reason: &str) {
    let said = refusal(path, consent);
    assert!(said.contains(reason), "{said}");
    assert!(!said.contains("--destroy-data"), "an option is offered: {said}");
}

/// Runs a program that prepares something; `Err` with the reason if it fails.
fn tool(program: &str, args: &[&str]) -> Result<(), iosonde_rig::Unavailable> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let reason = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(iosonde_rig::Unavailable(format!("{program}: {reason}")))
}

#[test]
fn a_blank_device_needs_its_own_name() {
    let _turn = turn();
    let Some(disk) = Disk::blank(16) else { return };
    let before = disk.bytes();
    let image = disk.image.display().to_string();
    let name = disk.path().display().to_string();
    for wrong in [&name, "*", "yes", &image[1..], &format!("{image}x"), "loop0"] {
        for more in [String::new(), format!("--destroy-data={wrong}")] {
            let said = refusal(disk.path(), &more);
            assert!(said.contains(&format!("repeat with {}", disk.consent())), "{said}");
        }
    }
    for rw in ["write", "randrw", "trim", "randtrim"] {
        let line = format!("run --path {{}} --rw {rw} --number-ios 5");
        ask(&line, disk.path()).answer().exits(5);
    }
    assert_eq!(disk.bytes(), before, "not a byte is written");
    write_to(disk.path(), &disk.consent()).exits(0);
    let after = disk.bytes();
    assert_ne!(after, before);
    // Data written by iosonde are not unknown data, but consent must still name the device.
    refusal(disk.path(), "");
    write_to(disk.path(), &disk.consent()).exits(0);
}

#[test]
fn reading_asks_for_nothing_and_changes_nothing() {
    let _turn = turn();
    let fill = |file: &File| file.write_all_at(&[7; 1 << 20], 4 * MIB).unwrap();
    let Some(disk) = Disk::made(16, LoopOptions::default(), fill) else { return };
    let before = disk.bytes();
    for rw in ["read", "randread", "randrw --rwmixread 100"] {
        let line = format!("run --path {{}} --rw {rw} --number-ios 50");
        ask(&line, disk.path()).answer().exits(0);
    }
    assert_eq!(disk.bytes(), before);
    let line = format!("run --path {{}} --rw randread --number-ios 5 {}", disk.consent());
    ask(&line, disk.path()).answer().exits(2);
}

#[test]
fn foreign_bytes_are_named_with_their_place() {
    let _turn = turn();
    for offset in [0, 5 * MIB + 17, 16 * MIB - 1] {
        // A whole MiB or more in the middle, because only samples are inspected there.
        let length = if offset > MIB && offset < 15 * MIB { 4 * MIB } else { 1 };
        let fill = |file: &File| file.write_all_at(&vec![7; length as usize], offset).unwrap();
        let Some(disk) = Disk::made(16, LoopOptions::default(), fill) else { return };
        let before = disk.bytes();
        let said = refusal(disk.path(), &disk.consent());
        assert!(said.contains("unknown-data (neither zero nor written by this program"), "{said}");
        assert!(said.contains("--overwrite-signature=unknown-data"), "{said}");
        refusal(disk.path(), &format!("{} --overwrite-signature=ext", disk.consent()));
        refusal(disk.path(), "--overwrite-signature=unknown-data");
        assert_eq!(disk.bytes(), before);
        let agreed = format!("{} --overwrite-signature=unknown-data", disk.consent());
        write_to(disk.path(), &agreed).exits(0);
    }
}

#[test]
fn consents_that_nothing_needs_are_errors() {
    let _turn = turn();
    let Some(disk) = Disk::blank(16) else { return };
    let before = disk.bytes();
    for more in [
        "--overwrite-signature=ext",
        "--overwrite-signature=everything",
        "--destroy-data=another",
        "--overwrite-file=image",
    ] {
        let answer = write_to(disk.path(), &format!("{} {more}", disk.consent())).exits(2);
        let said = answer.at("/error/message").as_str().unwrap();
        assert!(said.contains(more.split('=').next().unwrap()), "{said}");
    }
    assert_eq!(disk.bytes(), before);
}

#[test]
fn unmounted_file_systems_are_named() {
    let _turn = turn();
    for (kind, word) in FsKind::ALL.into_iter().zip(["ext", "xfs", "btrfs"]) {
        let Some(disk) = Disk::blank(if kind == FsKind::Xfs { 320 } else { 128 }) else { return };
        let flag = if kind == FsKind::Ext4 { "-F" } else { "-f" };
        let path = disk.path().to_str().unwrap();
        if here(tool(&format!("mkfs.{}", kind.name()), &["-q", flag, path])).is_none() {
            continue;
        }
        let said = refusal(disk.path(), &disk.consent());
        assert!(said.contains(&format!(" {word} (")), "{said}");
        let options = said.rsplit("repeat with ").next().unwrap().to_owned();
        assert!(options.contains(&format!("--overwrite-signature={word}")), "{said}");
        write_to(disk.path(), &options).exits(0);
    }
}

#[test]
fn partition_tables_volumes_and_swap_are_named() {
    let _turn = turn();
    // Signatures made by installed tools; `target::signature` tests the published bytes.
    let tools: [(&str, &str, &[&str]); 5] = [
        ("gpt", "sgdisk", &["--clear", "{}"]),
        ("swap", "mkswap", &["{}"]),
        ("luks", "cryptsetup", &["luksFormat", "-q", "--pbkdf=pbkdf2", "{}", "/etc/hostname"]),
        ("lvm", "pvcreate", &["-q", "-y", "--devices", "{}", "{}"]),
        ("vfat", "mkfs.vfat", &["-F", "32", "{}"]),
    ];
    for (word, program, args) in tools {
        let Some(disk) = Disk::blank(64) else { return };
        let path = disk.path().to_str().unwrap();
        let args: Vec<String> = args.iter().map(|arg| arg.replace("{}", path)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        if here(tool(program, &args)).is_none() {
            continue;
        }
        let said = refusal(disk.path(), &disk.consent());
        assert!(said.contains(&format!("--overwrite-signature={word}")), "{program}: {said}");
    }
}

#[test]
fn a_mounted_device_is_beyond_consent() {
    let _turn = turn();
    let Some(mount) = here(ImageMount::new(FsKind::Ext4, 32 * MIB, "")) else { return };
    let image = mount.path().with_file_name("image");
    let consent = format!("--destroy-data={} --overwrite-signature=ext", image.display());
    never(mount.device().path(), &consent, "is mounted at");
    // The image below it is not free either, nor is a second device over the image.
    let said = refusal(&image, &format!("--overwrite-file={}", image.display()));
    assert!(said.contains("in use by loop device"), "{said}");
    let Some(second) = here(LoopDevice::over(&image, LoopOptions::default())) else { return };
    never(second.path(), &consent, "is mounted at");
}

/// A process in another mount namespace, killed on drop.
struct Elsewhere(Child);

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_mount_of_another_namespace_counts() {
    let _turn = turn();
    let Some(disk) = Disk::blank(32) else { return };
    let path = disk.path().to_str().unwrap();
    if here(tool("mkfs.ext4", &["-q", "-F", path])).is_none() {
        return;
    }
    let dir = ScratchDir::new().unwrap();
    let ready = dir.path().join("ready");
    let place = dir.path().join("place");
    fs::create_dir(&place).unwrap();
    let script = r#"mount "$0" "$1" && : > "$2" && exec sleep 60"#;
    let child = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script, path])
        .args([&place, &ready])
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = child else { return skip("unshare cannot be run") };
    let mut elsewhere = Elsewhere(child);
    while !ready.exists() {
        if elsewhere.0.try_wait().unwrap().is_some() {
            return skip("no mount namespace of one's own here");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    never(disk.path(), &disk.consent(), "in another mount namespace");
}

/// Swap that is turned off on drop.
struct Swap(PathBuf);

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = tool("swapoff", &[self.0.to_str().unwrap()]);
    }
}

#[test]
fn swap_is_beyond_consent() {
    let _turn = turn();
    let Some(zram) = here(ZramDevice::new(64 * MIB)) else { return };
    let path = zram.path().to_str().unwrap().to_owned();
    let made = tool("mkswap", &[&path]).and_then(|()| tool("swapon", &[&path]));
    if here(made).is_none() {
        return;
    }
    let swap = Swap(zram.path().into());
    let name = zram.path().file_name().unwrap().to_str().unwrap();
    let consent = format!("--destroy-data={name}:{} --overwrite-signature=swap", 64 * MIB);
    never(zram.path(), &consent, "is used as swap");
    drop(swap);
    let said = refusal(zram.path(), &format!("--destroy-data={name}:{}", 64 * MIB));
    assert!(said.contains("--overwrite-signature=swap"), "{said}");
}

#[test]
fn a_disk_is_used_through_its_partition_but_a_sibling_is_free() {
    let _turn = turn();
    let options = LoopOptions { partitions: true, ..LoopOptions::default() };
    let Some(disk) = Disk::made(64, options, |_| ()) else { return };
    let sectors = 16 * MIB / 512;
    let Some(first) = here(disk.device.add_partition(1, 2048, sectors)) else { return };
    let second = disk.device.add_partition(2, 2048 + sectors, sectors).unwrap();
    if here(tool("mkfs.ext4", &["-q", "-F", first.to_str().unwrap()])).is_none() {
        return;
    }
    let dir = ScratchDir::new().unwrap();
    let point = dir.path().to_str().unwrap();
    // Read-only, because a file system mounted for writing may write its superblock at any time.
    here(tool("mount", &["-o", "ro", first.to_str().unwrap(), point])).unwrap();
    let unmounted = Unmount(dir.path().into());
    never(disk.path(), &disk.consent(), "p1 is mounted at");
    never(&first, &format!("{}-part1", disk.consent()), "is mounted at");
    // Consent for the disk does not cover the partition.
    let said = refusal(&second, &disk.consent());
    assert!(said.contains(&format!("{}-part2", disk.consent())), "{said}");
    let before = fs::read(&first).unwrap();
    write_to(&second, &format!("{}-part2", disk.consent())).exits(0);
    assert!(fs::read(&first).unwrap() == before, "the sibling is untouched");
    drop(unmounted);
}

/// A mount that is undone on drop.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = tool("umount", &[self.0.to_str().unwrap()]);
    }
}

#[test]
fn what_a_loop_device_lies_over_is_in_use() {
    let _turn = turn();
    let Some(disk) = Disk::blank(16) else { return };
    let Some(above) = here(LoopDevice::over(disk.path(), LoopOptions::default())) else { return };
    never(disk.path(), &disk.consent(), "is in use by loop device");
    drop(above);
    let Some(beside) = here(LoopDevice::over(&disk.image, LoopOptions::default())) else { return };
    never(disk.path(), &disk.consent(), "is in use by loop device");
    drop(beside);
    write_to(disk.path(), &disk.consent()).exits(0);
}

#[test]
fn who_has_it_first_keeps_it() {
    let _turn = turn();
    let Some(disk) = Disk::blank(16) else { return };
    // Open for writing without a claim: visible in /proc only.
    let open = OpenOptions::new().write(true).open(disk.path()).unwrap();
    never(disk.path(), &disk.consent(), "is open for writing in process");
    drop(open);
    // A second run of iosonde.
    let line = format!("run --path {{}} --rw randwrite --runtime 4 {}", disk.consent());
    let first = ask(&line, disk.path()).start_measuring();
    never(disk.path(), &disk.consent(), "is in use and is not written");
    first.wait().exits(0);
}

#[test]
fn a_read_only_device_says_so() {
    let _turn = turn();
    let options = LoopOptions { read_only: true, ..LoopOptions::default() };
    let Some(disk) = Disk::made(16, options, |_| ()) else { return };
    never(disk.path(), &disk.consent(), "read-only");
}

#[test]
fn a_link_is_followed_and_reported() {
    let _turn = turn();
    let Some(disk) = Disk::blank(16) else { return };
    let dir = ScratchDir::new().unwrap();
    let link = dir.path().join("by-id");
    symlink(disk.path(), &link).unwrap();
    let said = refusal(&link, "");
    assert!(said.contains(&disk.consent()), "the device's name, not the link's: {said}");
    let answer = write_to(&link, &disk.consent()).exits(0);
    let reported = format!("leads to `{}`", disk.path().display());
    assert!(answer.stderr.contains(&reported), "{}", answer.stderr);
}

#[test]
fn a_dry_run_prints_the_device_and_writes_nothing() {
    let _turn = turn();
    let fill = |file: &File| file.write_all_at(b"EFI PART", 512).unwrap();
    let Some(disk) = Disk::made(16, LoopOptions::default(), fill) else { return };
    let before = disk.bytes();
    let dry = |more: &str| write_to(disk.path(), &format!("--dry-run {more}"));
    let reported = dry("");
    assert_eq!(reported.exit, Some(5), "{}", reported.stderr);
    assert_eq!(reported.at("/devices/0/id").as_str(), disk.image.to_str());
    assert_eq!(reported.at("/devices/0/bytes"), 16 * MIB);
    assert_eq!(reported.at("/devices/0/write_bytes_at_most"), 50 * 4096);
    assert_eq!(reported.at("/devices/0/findings/0/kind"), "gpt");
    assert_eq!(reported.at("/devices/0/findings/0/offset"), 512);
    assert!(reported.at("/plan/jobs/0").is_object());
    let agreed = reported.at("/devices/0/consent").as_str().unwrap().to_owned();
    assert!(agreed.contains("--overwrite-signature=gpt"), "{agreed}");
    let reported = dry(&agreed);
    assert_eq!(reported.exit, Some(0), "{}", reported.stderr);
    assert!(reported.at("/devices/0/refused").is_null());
    assert_eq!(disk.bytes(), before);
}

#[test]
fn files_that_are_more_than_one_file() {
    let _turn = turn();
    let dir = ScratchDir::new().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    File::create(&one).unwrap().set_len(MIB).unwrap();
    fs::hard_link(&one, &two).unwrap();
    let said = refusal(&one, "");
    assert!(said.contains("more than one name"), "{said}");
    write_to(&one, &format!("--overwrite-file={}", one.display())).exits(0);
    fs::remove_file(&two).unwrap();
    write_to(&one, "").exits(0);

    let Some(mount) = here(ImageMount::new(FsKind::Xfs, 320 * MIB, "")) else { return };
    let (one, two) = (mount.path().join("one"), mount.path().join("two"));
    fs::write(&one, vec![0; MIB as usize]).unwrap();
    let paths = [one.to_str().unwrap(), two.to_str().unwrap()];
    if here(tool("cp", &["--reflink=always", paths[0], paths[1]])).is_none() {
        return;
    }
    let said = refusal(&one, "");
    assert!(said.contains("shares data with another file"), "{said}");
    write_to(&one, &format!("--overwrite-file={}", one.display())).exits(0);
}

#[test]
fn a_file_is_written_by_one_run_at_a_time() {
    let _turn = turn();
    let dir = ScratchDir::new().unwrap();
    let path = dir.path().join("file");
    let file = File::create(&path).unwrap();
    file.set_len(MIB).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let said = refusal(&path, "");
    assert!(said.contains("is open for writing in process"), "{said}");
    ask("run --path {} --rw randread --number-ios 5", &path).answer().exits(0);
    drop(file);
    write_to(&path, "").exits(0);
}

/// A mount that is undone on drop.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// On overlayfs a file has another inode than in the layer with its data. Processes that have it
/// open there cannot be detected, nor users of the file below a loop device.
#[test]
fn on_an_overlay_who_uses_the_layers_cannot_be_seen() {
    let Some(base) = here(TmpfsMount::new(64 * MIB)) else { return };
    let place = |name: &str| base.path().join(name);
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(place(name)).unwrap();
    }
    for name in ["upper/image", "upper/disk"] {
        File::create(place(name)).unwrap().set_len(4 * MIB).unwrap();
    }
    let options =
        format!("lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work", base.path().display());
    let mut mount = Command::new("mount");
    mount.args(["-t", "overlay", "overlay", "-o", &options]).arg(place("merged"));
    if !mount.status().is_ok_and(|status| status.success()) {
        return skip("this kernel mounts no overlay");
    }
    let _mounted = Mounted(place("merged"));
    let held = OpenOptions::new().write(true).open(place("upper/image")).unwrap();
    let said = refusal(&place("merged/image"), "");
    assert!(said.contains("layers below this overlay"), "{said}");
    drop(held);
    assert_eq!(fs::read(place("upper/image")).unwrap(), vec![0; 4 << 20]);
    let disk = place("merged/disk");
    let Some(device) = here(LoopDevice::over(&disk, LoopOptions::default())) else { return };
    let said = refusal(device.path(), "");
    let consent = format!("--accept-unseen-processes={}", disk.display());
    assert!(said.contains(&consent), "{said}");
    let agreed = format!("--destroy-data={0} --accept-unseen-processes={0}", disk.display());
    write_to(device.path(), &agreed).exits(0);
}
