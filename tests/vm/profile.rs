//! Profiles on an older kernel: requests are attributed later, some tracepoints are missing, and
//! stacks contain the device's own driver.

use std::path::Path;
use std::process::Command;

use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{FileSystemWork, SyncKind};
use iosonde_model::record::stacks::{StackKind, StackRun};
use iosonde_rig::guest::Guest;
use iosonde_rig::{ScratchDir, skip};

use crate::inside::{MIB, boot, boot_with_nvme, image, machine, sh};

/// The record of the profile in `/tmp/out` of the guest.
fn record(guest: &mut Guest) -> ProfileRun {
    let ran = guest.run("cat /tmp/out/*-profile-*/01-profile.json").unwrap();
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Makes a file system with this tool; false if it is not installed.
fn is_made(tool: &str, disk: &Path) -> bool {
    let Ok(made) = Command::new(tool).arg("-q").arg(disk).status() else {
        skip(format!("{tool} is not installed"));
        return false;
    };
    assert!(made.success(), "{tool}: {made}");
    true
}

#[test]
fn stacks_are_taken_and_a_missing_tracepoint_is_named() {
    let dir = ScratchDir::new().unwrap();
    let Some(mut guest) = boot_with_nvme(dir.path()) else { return };
    let script = "dd if=/dev/zero of=/dev/nvme0n1 bs=64k count=64 oflag=direct; sleep 1";
    sh(&mut guest, &format!("iosonde profile --stacks -o /tmp/out -- sh -c '{script}'"));
    let run = record(&mut guest);
    let of = |kind: StackKind, thread: &str| -> Vec<&StackRun> {
        let all = run.stacks.iter();
        all.filter(|stack| stack.kind == kind && stack.thread == thread).collect()
    };
    let requests = of(StackKind::Request, "dd");
    let amount: u64 = requests.iter().map(|stack| stack.amount).sum();
    assert_eq!(amount, 4 * MIB, "{requests:?}");
    for stack in requests {
        assert!(stack.kernel.iter().any(|name| name.contains("submit_bio")), "{stack:?}");
    }
    let naps = of(StackKind::Wait, "sleep");
    let naps = naps.iter().filter(|s| s.kernel.iter().any(|name| name.contains("nanosleep")));
    let slept_ns: u64 = naps.map(|stack| stack.amount).sum();
    assert!(slept_ns >= 1_000_000_000, "{:?}", run.stacks);
    // Debian's 6.1 has no tracepoint for page cache look-ups: none are reported.
    let asked = "grep -q btf_trace_mm_filemap_get_pages /sys/kernel/btf/vmlinux";
    let has_tracepoint = guest.run(asked).unwrap().exit == 0;
    let missing = run.source.missing.iter().find(|missing| missing.what == "page cache");
    assert_eq!((run.page_cache.is_some(), missing.is_some()), (has_tracepoint, !has_tracepoint));
    if let Some(missing) = missing {
        assert!(missing.reason.contains("mm_filemap_get_pages"), "{missing:?}");
    }
}

#[test]
fn syncs_by_io_uring_are_counted() {
    let dir = ScratchDir::new().unwrap();
    let Some(mut guest) = boot_with_nvme(dir.path()) else { return };
    let load = "iosonde run --path /dev/nvme0n1 --destroy-data=SN --ioengine io_uring \
                --rw randwrite --bs 4k --iodepth 4 --number-ios 64 --fsync 4 --output-format json";
    sh(&mut guest, &format!("iosonde profile -o /tmp/out -- {load} > /tmp/run.json"));
    let run = record(&mut guest);
    let of_uring = run.syncs.iter().filter(|sync| sync.kind == SyncKind::IoUring);
    let calls: u64 = of_uring.map(|sync| sync.calls).sum();
    assert_eq!(calls, 64 / 4, "{:?}", run.source.missing);
}

#[test]
fn commits_of_a_file_system_that_is_a_module_are_counted() {
    let dir = ScratchDir::new().unwrap();
    let disk = image(dir.path(), "disk", 64 * MIB);
    if !is_made("mkfs.ext4", &disk) {
        return;
    }
    let Some(machine) = machine(&[]) else { return };
    let machine = machine.modules(&["nvme", "ext4"]).drive("disk", &disk, "");
    let machine = machine.options(&["-device", "nvme,drive=disk,serial=SN"]);
    let mut guest = boot(&machine, &["/dev/nvme0n1"]);
    sh(&mut guest, "mkdir -p /mnt && mount -t ext4 /dev/nvme0n1 /mnt && sync");
    let transactions = |guest: &mut Guest| -> u64 {
        let info = sh(guest, "cat /proc/fs/jbd2/nvme0n1-8/info");
        info.split_whitespace().next().unwrap().parse().unwrap()
    };
    let before = transactions(&mut guest);
    let write = "dd if=/dev/zero of=/mnt/file bs=4k count=1 conv=notrunc,fsync seek=$i";
    let script = format!("for i in 1 2 3 4 5 6 7 8; do {write}; done");
    sh(&mut guest, &format!("iosonde profile -o /tmp/out -- sh -c '{script}'"));
    let all = transactions(&mut guest) - before;
    let run = record(&mut guest);
    let commits = run.file_systems.iter().find(|run| run.work == FileSystemWork::Commit).unwrap();
    assert!((8..=all).contains(&commits.times), "{all} {commits:?} {:?}", run.source.missing);
    assert!(commits.amount >= commits.times, "{commits:?}");
}

#[test]
fn log_forces_of_xfs_are_counted_as_the_file_system_does() {
    let dir = ScratchDir::new().unwrap();
    let disk = image(dir.path(), "disk", 320 * MIB);
    if !is_made("mkfs.xfs", &disk) {
        return;
    }
    let Some(machine) = machine(&[]) else { return };
    let machine = machine.modules(&["nvme", "xfs"]).drive("disk", &disk, "");
    let machine = machine.options(&["-device", "nvme,drive=disk,serial=SN"]);
    let mut guest = boot(&machine, &["/dev/nvme0n1"]);
    sh(&mut guest, "mkdir -p /mnt && mount -t xfs /dev/nvme0n1 /mnt && sync");
    // Fields of the line `log`: writes, blocks, missing buffers, forces, forces that slept.
    let forces = |guest: &mut Guest| -> u64 {
        let log = sh(guest, "grep '^log ' /proc/fs/xfs/stat");
        log.split_whitespace().nth(4).unwrap().parse().unwrap()
    };
    let before = forces(&mut guest);
    let write = "dd if=/dev/zero of=/mnt/file bs=4k count=1 conv=notrunc,fsync seek=$i";
    let script = format!("for i in 1 2 3 4 5 6 7 8; do {write}; done");
    sh(&mut guest, &format!("iosonde profile -o /tmp/out -- sh -c '{script}'"));
    let all = forces(&mut guest) - before;
    let run = record(&mut guest);
    let of = |work| run.file_systems.iter().find(|run| run.work == work).map_or(0, |run| run.times);
    let own = of(FileSystemWork::LogForceOfProgram);
    let others = of(FileSystemWork::LogForceOfOthers);
    assert!(own >= 8 && own + others <= all, "{own} {others} {all}: {:?}", run.source.missing);
}

#[test]
fn direct_io_on_volumes_of_the_device_mapper_is_of_its_file() {
    let dir = ScratchDir::new().unwrap();
    let disk = image(dir.path(), "disk", 64 * MIB);
    if !is_made("mkfs.ext4", &disk) {
        return;
    }
    let Some(machine) = machine(&["dmsetup"]) else { return };
    let machine = machine.modules(&["nvme", "ext4", "dm-mod"]).drive("disk", &disk, "");
    let machine = machine.options(&["-device", "nvme,drive=disk,serial=SN"]);
    let mut guest = boot(&machine, &["/dev/nvme0n1"]);
    let sectors = 64 * MIB / 512;
    // One volume on another; the disk splits requests above its limit.
    sh(&mut guest, &format!("dmsetup create low --table '0 {sectors} linear /dev/nvme0n1 0'"));
    sh(&mut guest, &format!("dmsetup create high --table '0 {sectors} linear /dev/dm-0 0'"));
    sh(&mut guest, "mkdir -p /mnt && mount -t ext4 /dev/dm-1 /mnt && sync");
    let write = "dd if=/dev/zero of=/mnt/file bs=4M count=4 oflag=direct";
    sh(&mut guest, &format!("iosonde profile -o /tmp/out -- {write}"));
    let run = record(&mut guest);
    let written = |path: &str| {
        let files = run.files.iter().filter(|file| file.path == path);
        files.map(|file| file.write_bytes).sum::<u64>()
    };
    assert_eq!(written("/mnt/file"), 16 * MIB, "{:?}", run.files);
    // The volumes are complete, because their disk is traced.
    let report = sh(&mut guest, "cat /tmp/out/report.txt");
    assert!(!report.contains("not_visible"), "{report}");
}
