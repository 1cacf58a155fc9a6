//! Data on storage after a write (T22): no duplicate block, nothing compressible.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use iosonde_rig::guard::{FsKind, ImageMount};
use iosonde_rig::{ScratchDir, default_signals_for_children, skip};
use rustix::process::{Pid, Signal, kill_process};
use zstd::zstd_safe::CParameter;

const MIB: u64 = 1 << 20;

/// Share of 4 KiB blocks that equal an earlier one.
fn duplicates(bytes: &[u8]) -> f64 {
    let blocks = bytes.len() / 4096;
    let distinct: BTreeSet<&[u8]> = bytes.chunks_exact(4096).collect();
    (blocks - distinct.len()) as f64 / blocks as f64
}

/// Compressed size over size, with a window that covers all of it.
fn ratio(bytes: &[u8]) -> f64 {
    let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
    compressor.set_parameter(CParameter::EnableLongDistanceMatching(true)).unwrap();
    compressor.set_parameter(CParameter::WindowLog(27)).unwrap();
    compressor.compress(bytes).unwrap().len() as f64 / bytes.len() as f64
}

#[track_caller]
fn assert_incompressible(bytes: &[u8], what: &str) {
    assert_eq!(duplicates(bytes), 0.0, "{what}: blocks occur twice");
    let ratio = ratio(bytes);
    assert!(ratio > 0.99, "{what}: compresses to {ratio:.4}");
}

fn iosonde(dir: &ScratchDir, words: &str) -> Command {
    default_signals_for_children();
    let mut command = Command::new(iosonde_fixtures::program!().path());
    command.args(words.split_whitespace()).current_dir(dir.path());
    command.env("HOME", dir.path()).env_remove("XDG_STATE_HOME").stdin(Stdio::null());
    command
}

/// Runs a write load on a hole of this size, and returns the stored data.
fn stored(words: &str, bytes: u64) -> Vec<u8> {
    let dir = ScratchDir::new().unwrap();
    let path = dir.path().join("data");
    File::create(&path).unwrap().set_len(bytes).unwrap();
    let output = iosonde(&dir, &format!("run --path data {words}")).output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    fs::read(path).unwrap()
}

#[test]
fn the_check_can_fail() {
    let zeros = vec![0; 4 << 20];
    assert!(duplicates(&zeros) > 0.99 && ratio(&zeros) < 0.001);
    // The same random megabyte four times: only the long window and block comparison detect it.
    let mut chance = iosonde_model::plan::chance::Chance::new(1);
    let one: Vec<u8> = (0..131_072).flat_map(|_| chance.bits().to_le_bytes()).collect();
    assert_incompressible(&one, "random bytes");
    let four = one.repeat(4);
    assert!((duplicates(&four) - 0.75).abs() < 0.01);
    assert!(ratio(&four) < 0.3, "{}", ratio(&four));
}

#[test]
fn every_engine_block_size_and_order() {
    for engine in ["--ioengine psync", "--ioengine io_uring --iodepth 32"] {
        for (bs, bytes, passes) in [("4k", 8 * MIB, 4096), ("512k", 32 * MIB, 128)] {
            for rw in ["write", "randwrite"] {
                // Two passes: the second one overwrites all data of the first.
                let words = format!("--rw {rw} --bs {bs} {engine} --number-ios {passes}");
                assert_incompressible(&stored(&words, bytes), &words);
            }
        }
    }
}

#[test]
fn several_jobs_and_drawn_offsets() {
    // Offsets drawn with repetition leave holes, so only written blocks are examined.
    let words =
        "--rw randrw --rwmixread 30 --numjobs 3 --iodepth 8 --norandommap --number-ios 3000";
    let bytes = stored(words, 8 * MIB);
    let written: Vec<u8> = bytes
        .chunks_exact(4096)
        .filter(|block| block.iter().any(|byte| *byte != 0))
        .flatten()
        .copied()
        .collect();
    assert!(written.len() as u64 > 5 * MIB, "{}", written.len());
    assert_incompressible(&written, words);
}

#[test]
fn two_runs_store_different_bytes() {
    let words = "--rw write --bs 64k --iodepth 4 --number-ios 64";
    let both = [stored(words, 4 * MIB), stored(words, 4 * MIB)].concat();
    assert_incompressible(&both, "two runs");
}

#[test]
fn on_the_device_below_a_file_system() {
    let mount = match ImageMount::new(FsKind::Ext4, 64 * MIB, "") {
        Ok(mount) => mount,
        Err(reason) => return skip(reason),
    };
    let dir = ScratchDir::new().unwrap();
    let path = mount.path().join("data");
    File::create(&path).unwrap().set_len(8 * MIB).unwrap();
    let words = "run --rw randwrite --iodepth 32 --number-ios 4096 --path";
    assert!(iosonde(&dir, words).arg(&path).output().unwrap().status.success());
    let image = fs::read(mount.device().path()).unwrap();
    // A small ext4 has blocks of 1 KiB, so our blocks may begin at any of them.
    let ours: Vec<u8> = (0..image.len() - 4096)
        .step_by(1024)
        .map(|at| &image[at..at + 4096])
        .filter(|block| block.starts_with(&iosonde_model::content::MAGIC))
        .flatten()
        .copied()
        .collect();
    assert_eq!(ours.len() as u64, 8 * MIB);
    assert_incompressible(&ours, "device");
}

#[test]
fn the_layout_of_a_test_file() {
    let dir = ScratchDir::new().unwrap();
    let words = "run --path . --size 64m --rw randread --runtime 60 --eta-interval 0.1";
    let mut child =
        iosonde(&dir, words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // The layout is complete when reading begins. The file has no name, but a descriptor.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("randread:")), "no reading began");
    let bytes = open_file_of(worker_of(child.id()), dir.path());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let bytes = bytes.unwrap();
    assert_eq!(bytes.len() as u64, 64 * MIB);
    assert_incompressible(&bytes, "layout");
}

/// The worker process of a supervisor.
fn worker_of(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().next().and_then(|child| child.parse().ok()).unwrap_or(pid)
}

/// Content of the only unnamed file below a directory that a process has open.
fn open_file_of(pid: u32, directory: &Path) -> Option<Vec<u8>> {
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()? {
        let link = entry.ok()?.path();
        // Other descriptors may close meanwhile.
        let Ok(name) = fs::read_link(&link) else { continue };
        if name.starts_with(directory) && name.to_string_lossy().ends_with("(deleted)") {
            let mut bytes = Vec::new();
            File::open(link).ok()?.read_to_end(&mut bytes).ok()?;
            return Some(bytes);
        }
    }
    None
}
