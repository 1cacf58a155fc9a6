//! A power switch: the machine is killed while the program writes, its disk loses unflushed data,
//! and the machine starts again.
//!
//! QEMU's image is on a FUSE device of this process that holds unsynced data in memory. A flush of
//! the guest is a sync of the image, after which the data are durable. If QEMU is configured to
//! drop flushes, the guest's disk lies.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use iosonde_rig::guest::{Guest, Machine};
use iosonde_rig::{FuseMount, ScratchDir, Script};

use crate::inside::{MIB, boot, here, inside, machine, pass_on, sh, witness};

const DISK_BYTES: u64 = 4 * MIB;
const NODE: &str = "/dev/nvme0n1";

fn nvme(machine: Machine, image: &Path, cache: &str) -> Machine {
    let device = ["-device", "nvme,drive=disk,serial=SN"];
    machine.modules(&["nvme", "ext4"]).drive("disk", image, cache).options(&device)
}

/// Waits until the witness has recorded `count` flushes. The guest's time limit or the end of the
/// run ends the wait.
fn until_flushes(guest: &mut Guest, run: &str, log: &Path, count: usize) {
    let flushes = || {
        let text = fs::read_to_string(log).unwrap_or_default();
        text.lines().filter(|line| line.contains(" post ")).count()
    };
    while flushes() < count {
        sh(guest, &format!("kill -0 {run} || {{ cat /tmp/said; exit 1; }}; sleep 0.1"));
    }
}

/// Starts `verify powercut` on `target` in a guest, cuts its power, and keeps the witness's log.
fn cut(mut guest: Guest, target: &str, log: &Path, mount: &FuseMount, seed: u64) {
    let mut witness = witness(&mut guest, log);
    pass_on(&mut guest, ":");
    let line = format!(
        "iosonde verify powercut {target} --witness 'sh /tmp/witness' --numjobs 2 --iodepth 8 \
         --inspect-time 1000 --randseed {seed} >/tmp/said 2>&1 & echo $!"
    );
    let run = sh(&mut guest, &line);
    until_flushes(&mut guest, &run, log, 30);
    guest.cut().unwrap();
    mount.power_cut_amid_writeback(seed);
    witness.wait().unwrap();
}

/// Runs `verify check` in a guest with the witness's log.
fn check(guest: &mut Guest, target: &str, log: &Path, code: i32, what: &str) -> u64 {
    let text = fs::read_to_string(log).unwrap();
    sh(guest, &format!("cat >/tmp/heard <<'END'\n{text}END"));
    let line = format!("verify check {target} --witness-log /tmp/heard");
    let answer = inside(guest, &line).exits(code, what);
    let failed = answer.json["cells"][0]["failed_blocks"].as_u64();
    failed.unwrap_or_default()
}

/// A disk of zeros on a device that loses unsynced data; the zeros themselves are durable.
fn forgetful() -> Option<(FuseMount, PathBuf)> {
    let mount = here(FuseMount::new(Script::from_words(["direct_io=on"]).unwrap()))?;
    let image = mount.path().join("image");
    let file = fs::File::create(&image).unwrap();
    io::copy(&mut io::Read::take(io::repeat(0), DISK_BYTES), &mut &file).unwrap();
    file.sync_all().unwrap();
    Some((mount, image))
}

#[test]
fn a_power_cut_is_survived_by_a_disk_that_honours_flushes_and_by_no_other() {
    let logs = ScratchDir::new().unwrap();
    for (cache, code) in [("cache=writeback", 0), ("cache=unsafe", 4)] {
        let Some((mount, image)) = forgetful() else { return };
        let Some(machine) = machine(&[]) else { return };
        let machine = nvme(machine, &image, cache).port("witness");
        let log = logs.path().join(cache);
        let target = format!("{NODE} --destroy-data=SN");
        cut(boot(&machine, &[NODE]), &target, &log, &mount, 3);
        let mut guest = boot(&machine, &[NODE]);
        check(&mut guest, NODE, &log, code, cache);
    }
}
