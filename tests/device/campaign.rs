//! Campaigns on loop devices: whatever happens to a device stops only the work on it, loses no run,
//! and the work resumes once the device is restored.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use iosonde_rig::guard::{FsKind, ImageMount, LoopDevice, TmpfsMount};
use iosonde_rig::{ScratchDir, default_signals_for_children, skip_part};
use rustix::process::{Pid, Signal, kill_process};

use crate::request::{here, program, served, turn, until};
use crate::rounds::{READS, consents, iosonde};

const MIB: u64 = 1 << 20;

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// Runs a script, which must succeed.
fn sh(script: &str) {
    let ended = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(ended.status.success(), "{script}: {}", said(&ended));
}

fn events(output: &Path) -> String {
    let is_campaign = |path: &PathBuf| path.to_string_lossy().contains("-campaign-");
    let all = fs::read_dir(output).unwrap().map(|entry| entry.unwrap().path());
    let folder = all.into_iter().find(is_campaign).unwrap();
    fs::read_to_string(folder.join("events.log")).unwrap()
}

/// Number of events of a kind for a device.
fn count(log: &str, action: &str, device: &str) -> usize {
    let start = format!("{action}|{device}|");
    log.lines().filter(|line| line.starts_with(&start)).count()
}

/// The stored runs of a device, by path.
fn runs(output: &Path, device: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![output.join("devices").join(device)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.parent().unwrap().ends_with("trials") && !is_hidden(&path) {
                // The folder of an experiment is renamed when the experiment ends.
                let name = path.file_name().unwrap().into();
                all.insert(name, fs::read(&path).unwrap_or_default());
            }
        }
    }
    all
}

/// A file that is still being stored has a temporary, hidden name.
fn is_hidden(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with('.')
}

/// Runs a campaign over three loop devices of different speeds, `b` in the middle. Calls `happens`
/// for `b` once two of its runs are stored. Returns the log.
fn three(happens: impl FnOnce(&Path, &Path)) -> Option<String> {
    let dir = ScratchDir::new().unwrap();
    // Dropped in reverse order: a device before the mount below it.
    let mut mounts = Vec::new();
    let mut devices = Vec::new();
    let mut file = "name = \"three\"\n".to_owned();
    for (name, latency) in [("a", "500us"), ("b", "2ms"), ("c", "8ms")] {
        let words = ["direct_io=on", &format!("read=const:{latency}"), "servers=4"];
        let mount = served(&words)?;
        let image = mount.path().join(name);
        let device = here(LoopDevice::new(&image, 16 * MIB))?;
        mounts.push(mount);
        let (path, consent) = (device.path().display(), consents(&image).1);
        file += &format!("[[device]]\nname = \"{name}\"\npath = \"{path}\"\n{consent}");
        devices.push(device);
    }
    let long = READS.replace("max = 6", "max = 12, window = 12");
    fs::write(dir.path().join("reads.toml"), long).unwrap();
    fs::write(dir.path().join("second.toml"), READS).unwrap();
    file += "[[experiment]]\nname = \"reads.toml\"\n[[experiment]]\nname = \"second.toml\"\n";
    fs::write(dir.path().join("three.toml"), file).unwrap();
    let mut running = iosonde(dir.path(), "campaign run three.toml --output out")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = dir.path().join("out");
    until("run on b", || runs(&output, "b").len() >= 2);
    happens(devices[1].path(), &mounts[1].path().join("b"));
    let status = running.wait().unwrap();
    assert_ne!(status.code(), Some(0));
    let report = iosonde(dir.path(), "campaign report out").output().unwrap();
    let said = said(&report);
    assert!(said.contains("second.toml: incomplete"), "{said}");
    assert_eq!(report.status.code(), Some(7), "{said}");
    let log = events(&output);
    assert_eq!((count(&log, "finish", "a"), count(&log, "finish", "c")), (2, 2), "{log}");
    Some(log)
}

/// The image below one of three devices is truncated midway: the kernel returns EIO.
#[test]
fn a_device_that_fails_stops_alone() {
    let _turn = turn();
    let cut = |_: &Path, image: &Path| File::options().write(true).open(image)?.set_len(0);
    let Some(log) = three(|device, image| cut(device, image).unwrap()) else { return };
    assert_eq!((count(&log, "fail", "b"), count(&log, "stop", "b")), (1, 1), "{log}");
    assert_eq!(count(&log, "start", "b"), 1, "{log}");
}

/// The same on a single device: a failed round gives no verdict. With the device repaired the
/// campaign completes, and repeats only runs that failed.
#[test]
fn what_failed_is_repeated_once_the_device_is_repaired() {
    let _turn = turn();
    let dir = ScratchDir::new().unwrap();
    let image = dir.path().join("image");
    let Some(device) = here(LoopDevice::new(&image, 16 * MIB)) else { return };
    let rounds = READS.replace("max = 6", "max = 12, window = 12");
    for (name, text) in [("rounds.toml", rounds.as_str()), ("depths.toml", DEPTHS)] {
        fs::write(dir.path().join("reads.toml"), text).unwrap();
        let (path, consent) = (device.path().display(), consents(&image).1);
        let file = format!(
            "name = \"one\"\n[[device]]\nname = \"a\"\npath = \"{path}\"\n{consent}\
             [[experiment]]\nname = \"reads.toml\"\n"
        );
        fs::write(dir.path().join("one.toml"), file).unwrap();
        let out = format!("out-{name}");
        let output = dir.path().join(&out);
        let mut running = iosonde(dir.path(), &format!("campaign run one.toml --output {out}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        until("runs", || runs(&output, "a").len() >= 2 || running.try_wait().unwrap().is_some());
        let before = runs(&output, "a");
        File::options().write(true).open(&image).unwrap().set_len(0).unwrap();
        let ended = running.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{}", said(&ended));
        let log = events(&output);
        assert!(log.contains("an I/O error ended run") && log.contains("EIO"), "{log}");
        assert!(!log.contains("steady after"), "{log}");
        File::options().write(true).open(&image).unwrap().set_len(16 * MIB).unwrap();
        let resume = format!("campaign resume {out}");
        let ended = iosonde(dir.path(), &resume).output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{name}: {}", said(&ended));
        let after = runs(&output, "a");
        assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)), "{name}");
        assert_eq!(count(&events(&output), "finish", "a"), 1);
    }
}

/// The kernel lets a process finish with a device that it has open; the next experiment finds none.
#[test]
fn a_device_that_is_detached_stops_alone() {
    let _turn = turn();
    let detach = |device: &Path, _: &Path| sh(&format!("losetup -d {}", device.display()));
    let Some(log) = three(detach) else { return };
    assert_eq!((count(&log, "finish", "b"), count(&log, "stop", "b")), (1, 1), "{log}");
}

/// Reads at eight depths in a fixed order.
const DEPTHS: &str = r#"
name = "depths"
question = "How deep?"
[[stage]]
name = "depths"
repeats = 1
fixed-repeats = true
seconds = 0.2
warm-up-percent = 0
set = { rw = "randread", block-size = "4k" }
[[stage.axis]]
name = "iodepth"
values = [1, 2, 3, 4, 5, 6, 7, 8]
"#;

/// A campaign over a loop device `a` and a file `f`, interrupted in the middle.
struct Interrupted {
    dir: ScratchDir,
    device: LoopDevice,
    image: PathBuf,
}

impl Interrupted {
    fn new() -> Option<Interrupted> {
        let dir = ScratchDir::new().unwrap();
        let image = dir.path().join("image");
        let device = here(LoopDevice::new(&image, 16 * MIB))?;
        File::create(dir.path().join("data")).unwrap().set_len(16 * MIB).unwrap();
        fs::write(dir.path().join("depths.toml"), DEPTHS).unwrap();
        let file = format!(
            "name = \"two\"\n[[device]]\nname = \"a\"\npath = \"{}\"\n{}\
             [[device]]\nname = \"f\"\npath = \"data\"\nbuffered = true\n\
             [[experiment]]\nname = \"depths.toml\"\nrandseed = 5\n",
            device.path().display(),
            consents(&image).1,
        );
        fs::write(dir.path().join("two.toml"), file).unwrap();
        default_signals_for_children();
        let running = iosonde(dir.path(), "campaign run two.toml --output out")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = dir.path().join("out");
        until("runs", || ["a", "f"].iter().all(|device| runs(&output, device).len() >= 2));
        kill_process(Pid::from_child(&running), Signal::INT).unwrap();
        let ended = running.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
        let begun = runs(&output, "a").len();
        assert!((2..8).contains(&begun), "{begun} runs");
        Some(Interrupted { dir, device, image })
    }

    fn output(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn resume(&self) -> Output {
        iosonde(self.dir.path(), "campaign resume out").output().unwrap()
    }

    /// While `change` is in effect, the work on the device stops with this reason, and the file is
    /// completed. Afterwards the device is completed too, and no run is repeated.
    fn stops_alone(&self, change: &str, revert: &str, reason: &str) {
        let script = |text: &str| {
            let [device, image] = [self.device.path(), &self.image].map(Path::display);
            format!("DEVICE={device}; IMAGE={image}; {text}")
        };
        let before = runs(&self.output(), "a");
        sh(&script(change));
        let ended = self.resume();
        let words = said(&ended);
        sh(&script(revert));
        assert!(![Some(0), None].contains(&ended.status.code()), "{change}: {words}");
        let log = events(&self.output());
        assert_eq!(count(&log, "stop", "a"), 1, "{change}: {log}");
        assert!(words.contains(reason), "{change}: `{reason}` is not in {words}");
        assert_eq!(count(&log, "finish", "f"), 1, "{change}: {log}");
        assert!(before == runs(&self.output(), "a"), "{change}: its runs are as they were");
        let ended = self.resume();
        assert_eq!(ended.status.code(), Some(0), "{change}: {}", said(&ended));
        let after = runs(&self.output(), "a");
        assert_eq!(after.len(), 8, "{change}");
        assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)), "{change}");
    }
}

/// A check finds what the gate would refuse, without claiming the device.
#[test]
fn a_check_finds_what_would_be_refused() {
    let _turn = turn();
    let dir = ScratchDir::new().unwrap();
    let image = dir.path().join("image");
    let Some(device) = here(LoopDevice::new(&image, 16 * MIB)) else { return };
    let path = device.path().display();
    fs::write(dir.path().join("depths.toml"), DEPTHS).unwrap();
    let file = format!(
        "name = \"one\"\n[[device]]\nname = \"a\"\npath = \"{path}\"\n{}\
         [[experiment]]\nname = \"depths.toml\"\n",
        consents(&image).1,
    );
    fs::write(dir.path().join("one.toml"), file).unwrap();
    let mount = dir.path().join("mount");
    for (change, code, reason) in [
        ("true".to_owned(), 0, "0 of them would be refused"),
        (format!("mkfs.ext4 -q -F {path}"), 2, "ext4"),
        (format!("mkdir {0}; mount -o ro {path} {0}", mount.display()), 2, "mounted"),
        (format!("umount {}; blkdiscard -z {path}", mount.display()), 0, "0 of them"),
        (format!("blockdev --setro {path}"), 2, "read-only"),
    ] {
        sh(&change);
        let before = fs::read(&image).unwrap();
        let ended = iosonde(dir.path(), "campaign check one.toml").output().unwrap();
        let words = said(&ended);
        assert_eq!(ended.status.code(), Some(code), "{change}: {words}");
        assert!(words.contains(reason), "{change}: `{reason}` is not in {words}");
        assert!(before == fs::read(&image).unwrap(), "{change}: nothing is written");
    }
    sh(&format!("blockdev --setrw {path}"));
}

#[test]
fn a_device_that_was_detached_or_exchanged_stops_alone() {
    let _turn = turn();
    let Some(campaign) = Interrupted::new() else { return };
    campaign.stops_alone("losetup -d $DEVICE", "losetup $DEVICE $IMAGE", "stop: a: ");
    let Some(campaign) = Interrupted::new() else { return };
    campaign.stops_alone(
        "truncate -s 16M $IMAGE.other; losetup -d $DEVICE; losetup $DEVICE $IMAGE.other",
        "losetup -d $DEVICE; losetup $DEVICE $IMAGE",
        "when the campaign began",
    );
}

#[test]
fn a_device_that_has_another_size_stops_alone() {
    let _turn = turn();
    let Some(campaign) = Interrupted::new() else { return };
    campaign.stops_alone(
        "truncate -s 32M $IMAGE; losetup -c $DEVICE",
        "truncate -s 16M $IMAGE; losetup -c $DEVICE",
        "had 16 MiB",
    );
}

#[test]
fn a_device_that_became_read_only_stops_alone() {
    let _turn = turn();
    let Some(campaign) = Interrupted::new() else { return };
    campaign.stops_alone("blockdev --setro $DEVICE", "blockdev --setrw $DEVICE", "read-only");
}

#[test]
fn a_device_that_was_mounted_meanwhile_stops_alone() {
    let _turn = turn();
    let Some(campaign) = Interrupted::new() else { return };
    campaign.stops_alone(
        "cp $IMAGE $IMAGE.before; mkfs.ext4 -q -F $DEVICE; mkdir $IMAGE.mount; \
         mount $DEVICE $IMAGE.mount",
        "umount $IMAGE.mount; dd if=$IMAGE.before of=$DEVICE bs=1M conv=fsync status=none",
        "mounted",
    );
}

/// A path that points to another device later, between two read-only experiments.
#[test]
fn another_device_at_the_same_path_is_not_measured() {
    let _turn = turn();
    let dir = ScratchDir::new().unwrap();
    let image = |name: &str| dir.path().join(name);
    let Some(first) = here(LoopDevice::new(&image("one"), 16 * MIB)) else { return };
    let Some(second) = here(LoopDevice::new(&image("two"), 16 * MIB)) else { return };
    let path = dir.path().join("device");
    std::os::unix::fs::symlink(first.path(), &path).unwrap();
    fs::write(dir.path().join("depths.toml"), DEPTHS).unwrap();
    let file = format!(
        "name = \"one\"\n[[device]]\nname = \"a\"\npath = \"{}\"\n\
         [[experiment]]\nname = \"depths.toml\"\n[[experiment]]\nname = \"depths.toml\"\n",
        path.display()
    );
    fs::write(dir.path().join("one.toml"), file).unwrap();
    let running = iosonde(dir.path(), "campaign run one.toml --output out")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = dir.path().join("out");
    until("run", || !runs(&output, "a").is_empty());
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(second.path(), &path).unwrap();
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(5), "{}", said(&ended));
    let log = events(&output);
    assert!(log.contains("when the campaign began: it is another one"), "{log}");
    assert_eq!((count(&log, "finish", "a"), count(&log, "stop", "a")), (1, 1), "{log}");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(first.path(), &path).unwrap();
    let ended = iosonde(dir.path(), "campaign resume out").output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
}

/// All results are on a file system that becomes full.
#[test]
fn a_full_results_disk_ends_it_and_it_goes_on_with_more_space() {
    let _turn = turn();
    let Some(disk) = here(TmpfsMount::new(160 << 10)) else { return };
    let dir = ScratchDir::new().unwrap();
    File::create(dir.path().join("data")).unwrap().set_len(16 * MIB).unwrap();
    fs::write(dir.path().join("depths.toml"), DEPTHS.replace("0.2", "0.1")).unwrap();
    let file = "name = \"full\"\n[[device]]\nname = \"s\"\nioengine = \"sim\"\n\
                path = \"servers=8,read=exp:1ms,size=64M\"\n\
                [[device]]\nname = \"f\"\npath = \"data\"\nbuffered = true\n\
                [[experiment]]\nname = \"depths.toml\"\nrandseed = 5\n";
    fs::write(dir.path().join("full.toml"), file).unwrap();
    let output = disk.path().join("out");
    let line = format!("campaign run full.toml --output {}", output.display());
    let ended = iosonde(dir.path(), &line).output().unwrap();
    let words = said(&ended);
    assert_eq!(ended.status.code(), Some(1), "{words}");
    assert!(words.contains("No space left on device"), "{words}");
    let before = [runs(&output, "s"), runs(&output, "f")];
    assert!(before[1].len() < 8, "{words}");
    assert!(before.iter().any(|runs| !runs.is_empty()), "{words}");
    sh(&format!("mount -o remount,size=64M {}", disk.path().display()));
    let resume = format!("campaign resume {}", output.display());
    let ended = iosonde(dir.path(), &resume).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    for (name, before) in ["s", "f"].iter().zip(before) {
        let after = runs(&output, name);
        assert_eq!(after.len(), 8, "{name}");
        assert!(before.iter().all(|(run, bytes)| after.get(run) == Some(bytes)), "{name}");
    }
}

/// The file system of a directory fills up: an experiment that needs space there is not run.
#[test]
fn a_directory_that_fills_up_stops_alone() {
    let _turn = turn();
    let Some(mount) = here(ImageMount::new(FsKind::Ext4, 1800 * MIB, "")) else { return };
    let dir = ScratchDir::new().unwrap();
    fs::write(dir.path().join("depths.toml"), DEPTHS).unwrap();
    fs::write(dir.path().join("second.toml"), DEPTHS.replace("0.2", "0.1")).unwrap();
    let file = format!(
        "name = \"full\"\n[[device]]\nname = \"s\"\nioengine = \"sim\"\n\
         path = \"servers=8,read=exp:1ms,size=64M\"\n\
         [[device]]\nname = \"d\"\npath = \"{}\"\nsize = \"256m\"\n\
         [[experiment]]\nname = \"depths.toml\"\n[[experiment]]\nname = \"second.toml\"\n",
        mount.path().display()
    );
    fs::write(dir.path().join("full.toml"), file).unwrap();
    let mut running = iosonde(dir.path(), "campaign run full.toml --output out")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = dir.path().join("out");
    until("run on d, or its end", || {
        !runs(&output, "d").is_empty() || running.try_wait().unwrap().is_some()
    });
    let others = mount.path().join("others");
    sh(&format!("fallocate -l 1200M {}", others.display()));
    let ended = running.wait_with_output().unwrap();
    let words = said(&ended);
    assert_eq!(ended.status.code(), Some(2), "{words}");
    assert!(words.contains("are free in"), "{words}");
    let log = events(&output);
    assert_eq!((count(&log, "finish", "s"), count(&log, "stop", "s")), (2, 0), "{log}");
    assert_eq!((count(&log, "finish", "d"), count(&log, "stop", "d")), (1, 1), "{log}");
    fs::remove_file(&others).unwrap();
    let ended = iosonde(dir.path(), "campaign resume out").output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    assert_eq!(count(&events(&output), "finish", "d"), 2);
}

/// The walk-through of fio-tests, with each of its verbs: the script checks each step.
#[test]
fn the_walk_through_of_fio_tests_is_complete() {
    let _turn = turn();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/walkthrough.sh");
    let ended = Command::new(script).arg(program()).output().unwrap();
    let said = said(&ended);
    for line in said.lines() {
        if let Some(reason) = line.strip_prefix("skipped: ") {
            skip_part("a part of the walk-through", reason);
        }
    }
    assert!(ended.status.success(), "{said}");
}
