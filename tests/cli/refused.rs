//! Targets with data at risk, or that are not storage: exit code 5, and no byte changes.

use std::fs;
use std::path::Path;

use iosonde_rig::guard::{LoopDevice, LoopOptions, TmpfsMount};
use iosonde_rig::skip;
use sha2::{Digest, Sha256};

use super::program::{Place, listing};

fn digest(path: &Path) -> Vec<u8> {
    Sha256::digest(fs::read(path).unwrap()).to_vec()
}

#[test]
fn a_foreign_file_is_not_written_without_its_name() {
    let place = Place::new();
    // Zeros, and one foreign byte in the last block.
    let mut content = vec![0; 1 << 20];
    content[(1 << 20) - 7] = 1;
    let path = place.file("photos", &content);
    let before = digest(&path);
    for wrong in
        ["", " --overwrite-file=photo", " --overwrite-file=./photos", " --overwrite-file=1"]
    {
        for rw in ["write", "randwrite", "randrw"] {
            let words = format!("run --path photos --rw {rw} --runtime 0.1{wrong}");
            let ended = place.iosonde(&words).arg("--output-format=json").end().exits(5);
            let ended = ended.says("--overwrite-file=photos");
            assert_eq!(ended.json()["error"]["kind"], "refused");
            assert_eq!(digest(&path), before, "{words}");
        }
    }
    place.iosonde("run --path photos --rw randread --runtime 0.1").end().exits(0);
    assert_eq!(digest(&path), before, "reading needs no consent");
    let consent = "run --path photos --rw write --runtime 0.1 --overwrite-file=photos";
    place.iosonde(consent).end().exits(0);
    assert_ne!(digest(&path), before);
}

#[test]
fn holes_zeros_and_our_own_data_may_be_written() {
    let place = Place::new();
    place.hole("hole", 1 << 20);
    place.file("zeros", &[0; 1 << 20]);
    for name in ["hole", "zeros", "hole", "zeros"] {
        let words = format!("run --path {name} --rw randwrite --runtime 0.1");
        place.iosonde(&words).end().exits(0);
    }
}

#[test]
fn a_block_device_is_not_written() {
    let place = Place::new();
    let image = place.file("image", &[7; 8 << 20]);
    let device = match LoopDevice::over(&image, LoopOptions::default()) {
        Ok(device) => device,
        Err(reason) => return skip(reason),
    };
    let before = digest(&image);
    for more in ["", " --overwrite-file=/dev/loop0"] {
        let words = format!("run --rw randwrite --runtime 0.1{more} --path");
        let call = place.iosonde(&words).arg(device.path()).arg("--output-format=json");
        let ended = call.end().exits(5).says("unknown-data").says("--destroy-data=");
        assert_eq!(ended.json()["error"]["kind"], "refused");
    }
    place.iosonde("run --rw randread --runtime 0.1 --path").arg(device.path()).end().exits(0);
    drop(device);
    assert_eq!(digest(&image), before);
}

#[test]
fn what_is_neither_file_nor_device_nor_directory() {
    let place = Place::new();
    let fifo = place.work().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip("no mkfifo(1)");
    }
    for rw in ["read", "write"] {
        let words = format!("run --path pipe --rw {rw} --runtime 0.1");
        place.iosonde(&words).end().exits(2).says("is a pipe");
    }
}

#[test]
fn memory_is_no_storage_unless_named() {
    let place = Place::new();
    let memory = match TmpfsMount::new(3 << 30) {
        Ok(memory) => memory,
        Err(reason) => return skip(reason),
    };
    for more in ["", " --allow-fs=ramfs"] {
        let words = format!("check --only cache --output-format json{more}");
        let ended = place.iosonde(&words).arg(memory.path()).end().exits(5);
        let document = ended.says("--allow-fs=tmpfs").json();
        assert_eq!(document["error"]["kind"], "refused");
        assert_eq!(document["complete"], false);
    }
    let words = "check --only cache --seconds 0.5 --allow-fs=tmpfs";
    let call = place.iosonde(words).arg(memory.path()).arg("256M");
    let ended = call.arg("--output-format=json").end().exits(0);
    let document = ended.json();
    assert_eq!(document["target"]["filesystem"], "tmpfs");
    assert_eq!(document["target"]["class"], "memory");
    let findings = document["cells"][0]["findings"].to_string();
    assert!(findings.contains("tmpfs") || findings.contains("memory"), "{findings}");
    assert_ne!(document["verdict"]["kind"], "no_fault_seen", "{}", document["verdict"]);
    assert!(listing(memory.path()).is_empty());
}
