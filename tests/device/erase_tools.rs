//! Purges by the tools of ATA and SCSI drives. Scripts replace the tools, because no such drive is
//! present. They log their calls, print the tools' output, and clear a loop device.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use iosonde_rig::ScratchDir;
use iosonde_rig::guard::LoopDevice;
use serde_json::Value;

use crate::request::{here, hides_processes, program, turn};

const BYTES: u64 = 16 << 20;

const READS: &str = r#"
name = "reads"
question = "What is left?"
[[stage]]
name = "reads"
repeats = 1
seconds = 0.2
set = { rw = "randread", block-size = "4k" }
"#;

/// The end of the output of `hdparm -I` for a drive that supports erasing.
const SECURITY: &str = "Security: \n\tMaster password revision code = 65534\n\t\tsupported\n\
    \tnot\tenabled\n\tnot\tlocked\n\tnot\tfrozen\n\tnot\texpired: security count\n\
    \t\tsupported: enhanced erase\n";

/// Writes a script that replaces a tool. Calls that match the shell pattern `erases` clear the
/// device, which is the last word.
fn stand_in(tools: &Path, name: &str, erases: &str) {
    let script = format!(
        "#!/bin/sh\n# Stands in for {name}.\ncd {tools} && echo \"{name} $*\" >>calls\n\
         for device; do :; done\ncase \"$*\" in\n*-I*) cat security ;;\n{erases})\n\
         if [ -e fails ]; then cat fails >&2; exit 5; fi\n[ -e idle ] || \
         dd if=/dev/zero of=\"$device\" bs=1M count=16 conv=notrunc,fsync 2>/dev/null\n\
         echo \"{name}: erased\" ;;\nesac\n",
        tools = tools.display(),
    );
    let path = tools.join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A loop device full of data, and the scripts.
struct Drive {
    dir: ScratchDir,
    device: LoopDevice,
}

impl Drive {
    fn new() -> Option<Drive> {
        let dir = ScratchDir::new().unwrap();
        let device = here(LoopDevice::new(&dir.path().join("image"), BYTES))?;
        let tools = dir.path().join("tools");
        fs::create_dir(&tools).unwrap();
        fs::write(tools.join("security"), SECURITY).unwrap();
        stand_in(&tools, "hdparm", "*--security-erase*");
        stand_in(&tools, "sg_sanitize", "*--block*");
        stand_in(&tools, "sg_format", "*--format*");
        fs::write(dir.path().join("reads.toml"), READS).unwrap();
        let drive = Drive { dir, device };
        drive.fill();
        Some(drive)
    }

    fn fill(&self) {
        fs::write(self.device.path(), vec![0x5a; BYTES as usize]).unwrap();
    }

    fn tool(&self, name: &str) -> PathBuf {
        self.dir.path().join("tools").join(name)
    }

    fn is_all(&self, byte: u8) -> bool {
        fs::read(self.device.path()).unwrap().iter().all(|each| *each == byte)
    }

    /// The calls so far; clears the log.
    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.tool("calls")).unwrap_or_default();
        let _ = fs::remove_file(self.tool("calls"));
        let device = self.device.path().display().to_string();
        text.lines().map(|line| line.replace(&device, "DEVICE")).collect()
    }

    fn purge(&self, method: &str, more: &str) -> Output {
        let image = self.dir.path().join("image").display().to_string();
        let mut words = format!(
            "experiment run reads.toml {} --results results --purge {method} \
             --overwrite-signature=unknown-data --inspect-time 1000 {more}",
            self.device.path().display(),
        );
        if hides_processes() {
            words += &format!(" --accept-unseen-processes={image}");
        }
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new(program())
            .current_dir(self.dir.path())
            .args(words.replace("CONSENT", &format!("--destroy-data={image}")).split_whitespace())
            .env("PATH", format!("{}:{path}", self.tool("").display()))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// The record of the purge of the last experiment.
    fn record(&self) -> Value {
        // Names do not order two results of the same second.
        let all = fs::read_dir(self.dir.path().join("results")).unwrap();
        let made = |entry: &fs::DirEntry| entry.metadata().unwrap().modified().unwrap();
        let last = all.map(Result::unwrap).max_by_key(made).unwrap();
        let text = fs::read_to_string(last.path().join("stage-reads.json")).unwrap();
        let stage: Value = serde_json::from_str(&text).unwrap();
        stage["prepared"][0]["purge"].clone()
    }
}

fn said(output: &Output) -> String {
    let parts = [&output.stdout, &output.stderr];
    parts.map(|part| String::from_utf8_lossy(part).into_owned()).concat()
}

#[test]
fn a_drive_is_erased_by_its_tool_with_consent_alone() {
    let _turn = turn();
    let Some(drive) = Drive::new() else { return };
    let calls: [(&str, &[&str]); 3] = [
        (
            "ata-erase",
            &[
                "hdparm -I DEVICE",
                "hdparm -I DEVICE",
                "hdparm --user-master u --security-set-pass iosonde DEVICE",
                "hdparm --user-master u --security-erase iosonde DEVICE",
            ],
        ),
        ("scsi-sanitize", &["sg_sanitize --block --quick --wait DEVICE"]),
        ("scsi-format", &["sg_format --format --quick --wait DEVICE"]),
    ];
    for (method, expected) in calls {
        drive.fill();
        let refused = drive.purge(method, "");
        assert_eq!(refused.status.code(), Some(5), "{}", said(&refused));
        assert!(drive.is_all(0x5a) && drive.calls().is_empty(), "{method} without consent");
        let part = drive.purge(method, "CONSENT --size 8M");
        assert!(said(&part).contains("erases all of it"), "{}", said(&part));
        assert!(drive.is_all(0x5a) && drive.calls().is_empty(), "{method} of a part");
        let ended = drive.purge(method, "CONSENT");
        assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
        assert!(drive.is_all(0), "{method}");
        assert_eq!(drive.calls(), expected);
        let record = drive.record();
        assert_eq!((&record["method"], &record["reason"]), (&method.into(), &"requested".into()));
        assert_eq!(record["blank_blocks"], 256);
        let tool = record["tool"].as_str().unwrap();
        assert!(tool.contains(" /dev/loop") && tool.ends_with(": erased"), "{tool}");
        assert!(record["identity"].as_str().unwrap().ends_with("image"), "{record}");
    }
}

#[test]
fn a_tool_that_fails_or_lies_ends_the_stage_and_says_why() {
    let _turn = turn();
    let Some(drive) = Drive::new() else { return };
    fs::write(drive.tool("fails"), "SG_IO: bad data\nInvalid opcode\n").unwrap();
    let ended = drive.purge("scsi-sanitize", "CONSENT");
    assert_eq!(ended.status.code(), Some(1), "{}", said(&ended));
    assert!(said(&ended).contains("ended with exit code 5: Invalid opcode"), "{}", said(&ended));
    drive.calls();
    // The password that the tool set is removed again.
    let ended = drive.purge("ata-erase", "CONSENT");
    assert!(said(&ended).contains("its password was removed again"), "{}", said(&ended));
    let last = "hdparm --user-master u --security-disable iosonde DEVICE";
    assert_eq!(drive.calls().last().map(String::as_str), Some(last));
    fs::remove_file(drive.tool("fails")).unwrap();
    // The tool reports success without erasing: only what is read afterwards counts.
    fs::write(drive.tool("idle"), "").unwrap();
    let ended = drive.purge("scsi-format", "CONSENT");
    assert_eq!(ended.status.code(), Some(1), "{}", said(&ended));
    assert!(said(&ended).contains("256 of 256 blocks"), "{}", said(&ended));
    fs::remove_file(drive.tool("idle")).unwrap();
    drive.calls();
    // A frozen drive is not changed.
    fs::write(drive.tool("security"), SECURITY.replace("not\tfrozen", "\tfrozen")).unwrap();
    let ended = drive.purge("ata-erase", "CONSENT");
    assert_eq!(ended.status.code(), Some(1), "{}", said(&ended));
    assert!(said(&ended).contains("its security is frozen"), "{}", said(&ended));
    assert_eq!(drive.calls(), ["hdparm -I DEVICE"]);
    // A drive of another kind is refused, and no other method is tried.
    let ended = drive.purge("nvme-sanitize", "CONSENT");
    assert!(said(&ended).contains("the target is not an NVMe namespace"), "{}", said(&ended));
    assert!(drive.is_all(0x5a) && drive.calls().is_empty());
}
