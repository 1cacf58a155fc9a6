//! The guards: each resource exists, works, and is gone afterwards.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use iosonde_rig::guard::{
    FsKind, ImageMount, IoLimits, IoThrottle, LoopDevice, LoopOptions, TmpfsMount, ZramDevice,
};
use iosonde_rig::{ScratchDir, Unavailable, skip};

const MIB: u64 = 1 << 20;

fn have<T>(made: Result<T, Unavailable>) -> Option<T> {
    made.map_err(skip).ok()
}

fn is_mounted(path: &Path) -> bool {
    fs::read_to_string("/proc/self/mounts").unwrap().contains(path.to_str().unwrap())
}

fn sys(number: (u32, u32), file: &str) -> Option<String> {
    let path = format!("/sys/dev/block/{}:{}/{file}", number.0, number.1);
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[test]
fn loop_devices_are_attached_as_asked_and_detached() {
    let dir = ScratchDir::new().unwrap();
    let image = dir.path().join("image");
    let Some(device) = have(LoopDevice::new(&image, 8 * MIB)) else { return };
    let number = device.number();
    assert_eq!(sys(number, "size").unwrap(), (8 * MIB / 512).to_string());
    // Another process may reuse the number once it is free; the backing file tells them apart.
    let backing = |number| sys(number, "loop/backing_file");
    assert_eq!(backing(number).as_deref(), image.to_str());
    drop(device);
    assert_ne!(backing(number).as_deref(), image.to_str());
    let options = LoopOptions { read_only: true, sector_bytes: 4096, ..LoopOptions::default() };
    let Some(device) = have(LoopDevice::over(&image, options)) else { return };
    assert_eq!(sys(device.number(), "queue/logical_block_size").unwrap(), "4096");
    assert_eq!(sys(device.number(), "ro").unwrap(), "1");
}

#[test]
fn file_systems_are_made_mounted_and_taken_away() {
    for (kind, size) in FsKind::ALL.into_iter().zip([16, 320, 128]) {
        let Some(mount) = have(ImageMount::new(kind, size * MIB, "")) else { continue };
        let path = mount.path().to_owned();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let line = mounts.lines().find(|line| line.contains(path.to_str().unwrap())).unwrap();
        assert_eq!(line.split(' ').nth(2), Some(kind.name()));
        fs::write(path.join("a"), b"a").unwrap();
        mount.set_read_only(true).unwrap();
        assert_eq!(fs::write(path.join("b"), b"b").unwrap_err().raw_os_error(), Some(30));
        drop(mount);
        assert!(!is_mounted(&path) && !path.exists(), "{}", kind.name());
    }
}

#[test]
fn a_tmpfs_is_full_at_its_size() {
    let Some(mount) = have(TmpfsMount::new(MIB)) else { return };
    let path = mount.path().to_owned();
    fs::write(path.join("a"), vec![1; MIB as usize / 2]).unwrap();
    assert_eq!(
        fs::write(path.join("b"), vec![1; MIB as usize]).unwrap_err().raw_os_error(),
        Some(28)
    );
    drop(mount);
    assert!(!is_mounted(&path) && !path.exists());
}

#[test]
fn a_zram_device_is_new_and_goes() {
    let Some(device) = have(ZramDevice::new(16 * MIB)) else { return };
    let number = device.number();
    assert_eq!(sys(number, "size").unwrap(), (16 * MIB / 512).to_string());
    drop(device);
    assert_eq!(sys(number, "size"), None);
}

#[test]
fn a_throttled_command_is_held_to_its_rate() {
    let dir = ScratchDir::new().unwrap();
    let Some(device) = have(LoopDevice::new(&dir.path().join("image"), 8 * MIB)) else { return };
    let limits = IoLimits { read_iops: Some(100), ..IoLimits::default() };
    let Some(throttle) = have(IoThrottle::new(device.number(), &limits)) else { return };
    let reads = |command: &mut std::process::Command, count: u32| {
        let from = format!("if={}", device.path().display());
        let count = format!("count={count}");
        let start = std::time::Instant::now();
        let ran = command.args([&from, "of=/dev/null", "bs=4k", &count, "iflag=direct"]).output();
        assert!(ran.unwrap().status.success());
        start.elapsed().as_secs_f64()
    };
    let limited = reads(&mut throttle.command("dd"), 100);
    let free = || reads(&mut std::process::Command::new("dd"), 100);
    let free = (0..5).map(|_| free()).fold(f64::INFINITY, f64::min);
    // A busy machine slows both down, but hardly all five runs outside of the group.
    assert!((0.8..20.0).contains(&limited), "100 reads at 100 a second took {limited} s");
    assert!(free < limited / 2.0, "{free} s outside of the group, {limited} s within");
}
