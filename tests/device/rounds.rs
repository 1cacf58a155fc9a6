//! Preconditioning and purge on loop devices: volumes compared with the kernel's counters.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use iosonde_rig::guard::LoopDevice;
use iosonde_rig::{ScratchDir, skip};

use crate::request::{here, hides_processes, program, turn};

const MIB: u64 = 1 << 20;

pub(crate) fn iosonde(folder: &Path, words: &str) -> Command {
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
pub(crate) fn consents(image: &Path) -> (String, String) {
    let id = image.display();
    let (mut words, mut file) =
        (format!("--destroy-data={id}"), format!("destroy-data = \"{id}\"\n"));
    if hides_processes() {
        words += &format!(" --accept-unseen-processes={id}");
        file += &format!("accept-unseen-processes = [\"{id}\"]\n");
    }
    (words, file)
}

pub(crate) const READS: &str = r#"
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

/// T21: each address is written exactly twice.
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

/// A loop device punches discarded blocks out of its backing file, and they read as zeros.
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
