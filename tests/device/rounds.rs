//! Preconditioning and campaigns on loop devices: volumes by the kernel's own counters, and a
//! device that fails while others go on.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use iosonde_rig::guard::LoopDevice;
use iosonde_rig::{ScratchDir, skip};

use crate::request::{here, hides_processes, program, served, turn, until};

const MIB: u64 = 1 << 20;

fn iosonde(folder: &Path, words: &str) -> Command {
    let mut command = Command::new(program());
    command.current_dir(folder).args(words.split_whitespace()).stdin(Stdio::null());
    command
}

/// Bytes that the kernel has written to a device.
fn written_bytes(device: &LoopDevice) -> u64 {
    let name = device.path().file_name().unwrap().to_string_lossy().into_owned();
    let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    stat.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
}

/// The consent for a device over an image, in the words of an option and of a campaign file.
fn consents(image: &Path) -> (String, String) {
    let id = image.display();
    let (mut words, mut file) =
        (format!("--destroy-data={id}"), format!("destroy-data = \"{id}\"\n"));
    if hides_processes() {
        words += &format!(" --accept-unseen-processes={id}");
        file += &format!("accept-unseen-processes = [\"{id}\"]\n");
    }
    (words, file)
}

const READS: &str = r#"
name = "reads"
question = "Are reads steady?"
[[stage]]
name = "reads"
order = "given"
repeats = 1
seconds = 0.3
warm-up-percent = 0
set = { rw = "randread", block-size = "4k", iodepth = 4 }
precondition = { passes = 2, order = "random", block-size = "64k" }
rounds = { max = 6, range-percent = 1000, slope-percent = 1000, track = [{}] }
"#;

/// T21: each address exactly twice, whatever else may have been thought of.
#[test]
fn a_device_is_preconditioned_exactly_twice_and_only_with_consent() {
    let _turn = turn();
    let dir = ScratchDir::new().unwrap();
    let image = dir.path().join("image");
    let Some(device) = here(LoopDevice::new(&image, 64 * MIB)) else { return };
    fs::write(dir.path().join("reads.toml"), READS).unwrap();
    let before = written_bytes(&device);
    let line = format!("experiment run reads.toml {} --results results", device.path().display());
    let refused = iosonde(dir.path(), &line).output().unwrap();
    assert_eq!(refused.status.code(), Some(7));
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(said.contains("its preconditioning writes"), "{said}");
    assert_eq!(written_bytes(&device), before, "nothing is written without consent");
    let line = format!("{line} {}", consents(&image).0);
    let ended = iosonde(dir.path(), &line).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(written_bytes(&device) - before, 2 * 64 * MIB);
}

/// A loop device gives discarded blocks back to the file behind it, and they read as zeros.
#[test]
fn a_device_is_purged_by_discard_and_only_with_consent() {
    let _turn = turn();
    let dir = ScratchDir::new().unwrap();
    let image = dir.path().join("image");
    let Some(device) = here(LoopDevice::new(&image, 16 * MIB)) else { return };
    let name = device.path().file_name().unwrap().to_string_lossy().into_owned();
    let most = fs::read_to_string(format!("/sys/block/{name}/queue/discard_max_bytes")).unwrap();
    if most.trim() == "0" {
        return skip("this loop device has no discard");
    }
    let is_all = |byte: u8| fs::read(&image).unwrap().iter().all(|each| *each == byte);
    fs::write(device.path(), vec![0x5a; 16 * MIB as usize]).unwrap();
    let reads = READS.replace("precondition = { passes = 2, order = \"random\", ", "purge = ");
    fs::write(dir.path().join("reads.toml"), reads.replace("block-size = \"64k\" }", "\"any\""))
        .unwrap();
    let line = format!("experiment run reads.toml {} --results results", device.path().display());
    iosonde(dir.path(), &line).output().unwrap();
    assert!(is_all(0x5a), "without consent nothing is changed");
    let line = format!(
        "{line} {} --overwrite-signature=unknown-data --inspect-time 1000",
        consents(&image).0
    );
    let ended = iosonde(dir.path(), &line).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(is_all(0), "discarded");
}

/// One of three devices of different speeds fails midway: it stops alone, and what is missing of it
/// can be completed.
#[test]
fn a_device_that_fails_stops_alone() {
    let _turn = turn();
    let dir = ScratchDir::new().unwrap();
    // Dropped in the opposite order: a device goes before what is behind it.
    let mut mounts = Vec::new();
    let mut devices = Vec::new();
    let mut file = "name = \"three\"\n".to_owned();
    for (name, latency) in [("a", "500us"), ("b", "2ms"), ("c", "8ms")] {
        let words = ["direct_io=on", &format!("read=const:{latency}"), "servers=4"];
        let Some(mount) = served(&words) else { return };
        let image = mount.path().join(name);
        let Some(device) = here(LoopDevice::new(&image, 16 * MIB)) else { return };
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
    let runs = || {
        let parent = dir.path().join("out/devices/b/01-reads");
        let folder = fs::read_dir(parent).ok().and_then(|mut all| all.next()).and_then(Result::ok);
        folder
            .and_then(|folder| fs::read_dir(folder.path().join("trials")).ok())
            .map_or(0, Iterator::count)
    };
    until("run on b", || runs() >= 2);
    // What is behind the device is gone: the kernel answers with EIO.
    File::options().write(true).open(mounts[1].path().join("b")).unwrap().set_len(0).unwrap();
    let status = running.wait().unwrap();
    assert_ne!(status.code(), Some(0));
    let log = events(&dir.path().join("out"));
    let of = |device: &str, action: &str| {
        let start = format!("{action}|{device}|");
        log.lines().filter(|line| line.starts_with(&start)).count()
    };
    assert_eq!((of("a", "finish"), of("c", "finish")), (2, 2), "{log}");
    assert_eq!((of("b", "fail"), of("b", "stop")), (1, 1), "{log}");
    assert_eq!(of("b", "start"), 1, "{log}");
    let report = iosonde(dir.path(), "campaign report out").output().unwrap();
    let said = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(said.contains("second.toml: incomplete"), "{said}");
    assert_eq!(report.status.code(), Some(7), "{said}");
}

fn events(output: &Path) -> String {
    let is_campaign = |path: &PathBuf| path.to_string_lossy().contains("-campaign-");
    let all = fs::read_dir(output).unwrap().map(|entry| entry.unwrap().path());
    let folder = all.into_iter().find(is_campaign).unwrap();
    fs::read_to_string(folder.join("events.log")).unwrap()
}
