//! The state of real kinds of devices: purge by NVMe Format, switched write caches, health logs,
//! and a campaign over two drives that survives a power cut.

use std::fs;
use std::process::Command;

use iosonde_rig::guest::Machine;
use iosonde_rig::{ScratchDir, skip};
use serde_json::Value;

use crate::inside::{MIB, boot, image, inside, machine, sh};

const DISK_BYTES: u64 = 4 * MIB;
const RESULTS_BYTES: u64 = 64 * MIB;
/// Enough time to inspect a whole disk on a busy machine.
const PATIENT: &str = "--inspect-time 1000";

/// Reads only, so that the result of a purge is not changed.
const READS: &str = r#"
name = "reads"
question = "What is left?"
[[stage]]
name = "reads"
repeats = 1
seconds = 0.2
set = { rw = "randread", block-size = "4k" }
purge = "PURGE"
write-cache = "off"
"#;

fn nvme(machine: Machine, name: &str, image: &std::path::Path) -> Machine {
    let device = format!("nvme,drive={name},serial=SN{name}");
    machine.drive(name, image, "").options(&["-device", &device])
}

/// The record of the only stage of the last experiment in a directory of the guest.
fn stage(guest: &mut iosonde_rig::guest::Guest, results: &str) -> Value {
    let text = sh(guest, &format!("cat $(ls -d {results}/*-experiment-* | tail -n1)/stage-*.json"));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn nvme_is_formatted_with_consent_alone_and_its_write_cache_comes_back() {
    let dir = ScratchDir::new().unwrap();
    let disk = image(dir.path(), "a", DISK_BYTES);
    fs::write(&disk, vec![0x5a; DISK_BYTES as usize]).unwrap();
    let Some(machine) = machine(&["zstd"]) else { return };
    let machine = nvme(machine.modules(&["nvme"]), "a", &disk);
    let mut guest = boot(&machine, &["/dev/nvme0n1"]);
    let file = |guest: &mut _, method: &str| {
        let text = READS.replace("PURGE", method);
        sh(guest, &format!("cat >/tmp/reads.toml <<'END'\n{text}END"));
    };
    file(&mut guest, "nvme-format");
    let run = format!(
        "experiment run /tmp/reads.toml /dev/nvme0n1 --results /tmp/results {PATIENT} \
         --overwrite-signature=unknown-data"
    );
    let free = "experiment run /tmp/reads.toml /dev/nvme0n1 --results /tmp/results";
    // Without consent nothing is changed, and the stage is skipped.
    inside(&mut guest, free).exits(7, "without consent");
    assert!(fs::read(&disk).unwrap().iter().all(|byte| *byte == 0x5a));
    inside(&mut guest, &format!("{run} --destroy-data=SNb")).exits(5, "consent to another");
    assert!(fs::read(&disk).unwrap().iter().all(|byte| *byte == 0x5a));
    inside(&mut guest, &format!("{run} --destroy-data=SNa")).exits(0, "with consent");
    sh(&mut guest, "sync");
    assert!(fs::read(&disk).unwrap().iter().all(|byte| *byte == 0), "formatted");
    let record = stage(&mut guest, "/tmp/results");
    let purge = &record["prepared"][0]["purge"];
    assert_eq!((&purge["method"], &purge["identity"]), (&"nvme-format".into(), &"SNa".into()));
    assert_eq!((&purge["checked_blocks"], &purge["blank_blocks"]), (&256.into(), &256.into()));
    let cache = &record["write_cache"];
    assert_eq!(cache["way"], "nvme");
    assert_eq!((&cache["before"], &cache["during"]), (&"on".into(), &"off".into()));
    assert_eq!(cache["after"], "on");
    // A partial purge is refused with the reason, and nothing is measured.
    let part = format!("{free} {PATIENT} --destroy-data=SNa --size 2M");
    let answer = inside(&mut guest, &part).exits(1, "a part of the drive");
    assert!(answer.stderr.contains("Format erases all of it"), "{}", answer.stderr);
    // QEMU's drive has no Sanitize command: that is reported, and no other method is used.
    let sanitize = format!("{free} {PATIENT} --destroy-data=SNa --purge nvme-sanitize");
    let answer = inside(&mut guest, &sanitize).exits(1, "sanitize");
    assert!(answer.stderr.contains("has no Sanitize command"), "{}", answer.stderr);
    // Health is read from the drive itself, without smartctl.
    let smart = sh(&mut guest, "zstd -dc /tmp/results/*/trials/*.json.zst");
    for word in ["\"percentage_used\"", "\"data_units_written\"", "\"temperature\""] {
        assert!(smart.contains(word), "{word} was not read");
    }
}

/// A rotational disk gets the experiments for such disks; only that they run is tested.
#[test]
fn the_write_cache_of_a_scsi_disk_is_switched_and_a_disk_that_turns_is_measured() {
    let dir = ScratchDir::new().unwrap();
    let disks = [image(dir.path(), "a", DISK_BYTES), image(dir.path(), "b", 1024 * MIB)];
    let Some(machine) = machine(&[]) else { return };
    let mut machine =
        machine.modules(&["virtio_scsi", "sd_mod"]).options(&["-device", "virtio-scsi-pci,id=s"]);
    for (at, name) in ["a", "b"].into_iter().enumerate() {
        let device =
            format!("scsi-hd,drive={name},serial=SN{name},bus=s.0,scsi-id={at},rotation_rate=7200");
        machine = machine.drive(name, &disks[at], "").options(&["-device", &device]);
    }
    let mut guest = boot(&machine, &["/dev/sda", "/dev/sdb"]);
    let sectors = sh(&mut guest, "cat /sys/block/sda/size").parse::<u64>().unwrap();
    let is_first = sectors * 512 == DISK_BYTES;
    let (small, large) = if is_first { ("sda", "sdb") } else { ("sdb", "sda") };
    let text = READS.replace("PURGE", "zero");
    sh(&mut guest, &format!("cat >/tmp/reads.toml <<'END'\n{text}END"));
    let run = format!(
        "experiment run /tmp/reads.toml /dev/{small} --results /tmp/results --destroy-data=SNa \
         {PATIENT}"
    );
    inside(&mut guest, &run).exits(0, "a SCSI disk");
    let record = stage(&mut guest, "/tmp/results");
    let cache = &record["write_cache"];
    assert_eq!((&cache["way"], &cache["during"]), (&"scsi".into(), &"off".into()));
    assert_eq!(cache["after"], cache["before"]);
    assert_eq!(record["prepared"][0]["purge"]["method"], "zero");
    // The last experiment writes.
    for (name, consent) in
        [("seek-curve", ""), ("zones", ""), ("rotation", "--destroy-data=SNb --inspect-time 1000")]
    {
        let line = format!(
            "experiment run {name} /dev/{large} --seconds 0.1 --repeats 1 --results /tmp/{name} \
             {consent}"
        );
        let answer = inside(&mut guest, &line);
        let ran = guest.run(&format!("ls /tmp/{name}/*/trials/*.json.zst >/dev/null")).unwrap();
        assert_eq!(ran.exit, 0, "{name}: {} {}", answer.json, answer.stderr);
    }
}

const FLEET: &str = r#"
name = "fleet"
[[device]]
name = "a"
path = "/dev/disk/by-id/nvme-a"
serial = "SNa"
destroy-data = "SNa"
inspect-time = "1000s"
[[device]]
name = "b"
path = "/dev/disk/by-id/nvme-b"
serial = "SNb"
destroy-data = "SNb"
inspect-time = "1000s"
[[experiment]]
name = "/mnt/rounds.toml"
"#;

const ROUNDS: &str = r#"
name = "rounds"
question = "Is it steady?"
[[stage]]
name = "writes"
order = "given"
repeats = 1
seconds = 0.4
warm-up-percent = 0
set = { rw = "randwrite", block-size = "4k", iodepth = 4 }
purge = "nvme-format"
precondition = { passes = 1 }
rounds = { max = 8, range-percent = 0.001, track = [{}] }
"#;

#[test]
fn a_campaign_over_two_drives_goes_on_after_a_power_cut() {
    let dir = ScratchDir::new().unwrap();
    let names = ["a", "b", "results"];
    let size = |name: &str| if name == "results" { RESULTS_BYTES } else { DISK_BYTES };
    let images: Vec<_> = names.iter().map(|n| image(dir.path(), n, size(n))).collect();
    if Command::new("mkfs.ext4").arg("-q").arg(&images[2]).status().is_err() {
        return skip("mkfs.ext4 is not installed");
    }
    let Some(machine) = machine(&[]) else { return };
    let machine = machine.modules(&["nvme", "ext4"]);
    let add = |machine, at: &usize| nvme(machine, names[*at], &images[*at]);
    // After the power cut the kernel numbers the drives in another order, as at any start.
    let [first, second] =
        [[0, 1, 2], [2, 1, 0]].map(|order| order.iter().fold(machine.clone(), add));
    let nodes = ["/dev/nvme0n1", "/dev/nvme1n1", "/dev/nvme2n1"];
    // Links by serial number, as udev creates them.
    let prepare = "mkdir -p /mnt /dev/disk/by-id; for n in 0 1 2; do \
        read -r serial _ </sys/block/nvme${n}n1/device/serial; \
        ln -s ../../nvme${n}n1 /dev/disk/by-id/nvme-${serial#SN}; done; \
        mount -t ext4 /dev/disk/by-id/nvme-results /mnt";
    let mut guest = boot(&first, &nodes);
    sh(&mut guest, prepare);
    sh(
        &mut guest,
        &format!(
            "cat >/mnt/rounds.toml <<'END'\n{ROUNDS}END\ncat >/mnt/fleet.toml <<'END'\n{FLEET}END\n\
             sync"
        ),
    );
    let run = sh(
        &mut guest,
        "iosonde campaign run /mnt/fleet.toml --output /mnt/out >/tmp/said 2>&1 & echo $!",
    );
    // Two runs are stored for each drive.
    sh(
        &mut guest,
        &format!(
            "for d in a b; do until [ $(ls /mnt/out/devices/$d/*/*/trials 2>/dev/null | wc -l) \
             -ge 2 ]; do kill -0 {run} || {{ cat /tmp/said; exit 1; }}; sleep 0.1; done; done"
        ),
    );
    guest.cut().unwrap();
    let mut guest = boot(&second, &nodes);
    sh(&mut guest, prepare);
    let status = sh(&mut guest, "iosonde campaign status /mnt/out");
    assert!(status.contains("not running"), "{status}");
    let resumed = guest.run("iosonde campaign resume /mnt/out").unwrap();
    assert_eq!(resumed.exit, 3, "{}{}", resumed.stdout, resumed.stderr);
    let text = sh(&mut guest, "cd /mnt/out/devices; ls */*/*/trials | grep json | sort | uniq -c");
    // Every round exists once for each of the two drives.
    let counts: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(counts.len(), 8, "{text}");
    assert!(counts.iter().all(|line| line.starts_with("2 ")), "{text}");
    let log = sh(&mut guest, "cat /mnt/out/*-campaign-*/events.log");
    assert_eq!(log.lines().filter(|line| line.starts_with("purge|")).count(), 2, "{log}");
    assert!(log.contains("nvme-format (requested), 256 of 256 blocks blank"), "{log}");
}
