//! Sectors of 512 bytes and of 4 KiB, and the largest request.

use std::fs;
use std::path::Path;

use iosonde_rig::guard::{LoopDevice, LoopOptions};
use iosonde_rig::{ScratchDir, skip};

use crate::request::{ask, here, lay_out, turn};

/// A loop device with sectors of that size, and the directory of its image.
fn sectors(bytes: u32) -> Option<(LoopDevice, ScratchDir)> {
    let dir = ScratchDir::below(Path::new("/dev/shm")).unwrap();
    let image = dir.path().join("image");
    lay_out(&image, 32);
    let options = LoopOptions { sector_bytes: bytes, ..LoopOptions::default() };
    Some((here(LoopDevice::over(&image, options))?, dir))
}

fn line(bs: &str) -> String {
    format!("run --path {{}} --rw randread --iodepth 4 --runtime 0.5 --bs {bs}")
}

#[test]
fn half_a_sector_is_refused_with_the_mend() {
    let _turn = turn();
    let Some((device, _dir)) = sectors(4096) else { return };
    for bs in ["512", "1k", "6k"] {
        let refused = ask(&line(bs), device.path()).answer().exits(2);
        let message = refused.at("/error/message").as_str().unwrap();
        assert!(message.contains("4"), "{message}");
    }
    let answer = ask(&line("4k"), device.path()).answer().exits(0);
    assert_eq!(answer.target("device/logical_block_bytes"), 4096);
    assert_eq!(ask(&format!("{} --offset 512", line("4k")), device.path()).answer().exit, Some(2));
}

#[test]
fn small_sectors_take_small_blocks() {
    let _turn = turn();
    let Some((device, _dir)) = sectors(512) else { return };
    let answer = ask(&line("512"), device.path()).answer().exits(0);
    assert_eq!(answer.target("device/logical_block_bytes"), 512);
    assert_eq!(ask(&line("256"), device.path()).answer().exit, Some(2));
}

#[test]
fn operations_that_are_split_are_named() {
    let _turn = turn();
    let Some((device, _dir)) = sectors(512) else { return };
    let name = device.path().file_name().unwrap().to_str().unwrap();
    let largest = format!("/sys/block/{name}/queue/max_sectors_kb");
    if let Err(error) = fs::write(&largest, "64") {
        return skip(format!("{largest}: {error}"));
    }
    let answer = ask(&line("256k"), device.path()).answer().exits(0);
    answer.finds("split_requests", "proven");
    let words = answer.finding("split_requests").unwrap()["words"].as_str().unwrap();
    assert!(words.contains("256 KiB is split into 4 requests of at most 64 KiB"), "{words}");
    ask(&line("64k"), device.path()).answer().exits(0).finds_no("split_requests");
}
