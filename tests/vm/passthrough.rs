//! NVMe passthrough commands (`io_uring_cmd`): they move the right bytes to the right place, and a
//! generic device is guarded like the block device of the same namespace.

use std::fs;
use std::path::PathBuf;

use iosonde_rig::ScratchDir;
use iosonde_rig::guest::Guest;

use crate::inside::{Answer, MIB, boot, image, inside, machine, sh};

const BYTES: u64 = 8 * MIB;
const NG: &str = "/dev/ng0n1";
const BLOCK: &str = "/dev/nvme0n1";
const OTHER: &str = "/dev/ng1n1";
const AGREED: &str = "--destroy-data=SN-ALPHA --inspect-time 1000";

/// A guest with NVMe namespaces: one with blocks of 512 B, and two with blocks of 4 KiB on another
/// controller.
struct World {
    guest: Guest,
    first: PathBuf,
    third: PathBuf,
    _dir: ScratchDir,
}

impl World {
    fn new() -> Option<World> {
        let dir = ScratchDir::new().unwrap();
        let first = image(dir.path(), "alpha", BYTES);
        let second = image(dir.path(), "beta", BYTES);
        let third = image(dir.path(), "gamma", BYTES);
        let large = "bus=other,logical_block_size=4096,physical_block_size=4096";
        let machine = machine(&[])?
            .modules(&["nvme", "ext4"])
            .drive("alpha", &first, "discard=unmap")
            .drive("beta", &second, "")
            .drive("gamma", &third, "")
            .options(&["-device", "nvme,drive=alpha,serial=SN-ALPHA"])
            .options(&["-device", "nvme,id=other,serial=SN-BETA"])
            .options(&["-device", &format!("nvme-ns,drive=beta,nsid=1,{large}")])
            .options(&["-device", &format!("nvme-ns,drive=gamma,nsid=2,{large}")]);
        let mut guest = boot(&machine, &[BLOCK, "/dev/nvme1n1"]);
        sh(
            &mut guest,
            &format!(
                "until [ -c {NG} ] && [ -c {OTHER} ] && [ -c /dev/ng1n2 ]; do sleep 0.1; done"
            ),
        );
        Some(World { guest, first, third, _dir: dir })
    }

    fn run(&mut self, options: &str) -> Answer {
        inside(&mut self.guest, &format!("run --ioengine io_uring_cmd {options}"))
    }

    fn sh(&mut self, script: &str) -> String {
        sh(&mut self.guest, script)
    }

    /// Content of the first disk, as the host sees it.
    fn contents(&mut self) -> Vec<u8> {
        self.sh("sync");
        fs::read(&self.first).unwrap()
    }

    /// Expects a refusal for this reason, and that nothing was written.
    #[track_caller]
    fn refused(&mut self, options: &str, exit: i32, reason: &str) -> Answer {
        let before = self.contents();
        let answer = self.run(options).exits(exit, options);
        assert!(answer.message().contains(reason), "{options}: {}", answer.message());
        assert!(self.contents() == before, "{options}: refused, and written");
        answer
    }
}

/// Operations of one direction in a finished run.
fn ops(answer: &Answer, way: &str) -> u64 {
    let ops = &answer.json["summary"][way]["ops"];
    ops.as_u64().unwrap_or_else(|| panic!("no {way} ops: {}", answer.json["summary"]))
}

#[test]
fn commands_move_the_right_bytes_to_the_right_place() {
    let Some(mut world) = World::new() else { return };
    // Each block of 4 KiB contains its own number, written through the block device.
    world.sh(&format!(
        "i=0; while [ $i -lt 2048 ]; do printf '%04096d' $i; i=$((i + 1)); done >/tmp/numbered; \
         dd if=/tmp/numbered of={BLOCK} bs=64k conv=fsync 2>/dev/null"
    ));
    let numbered = world.contents();
    for (options, count) in [
        ("--rw randread --bs 4k --iodepth 8 --number-ios 500", 500),
        ("--rw read --bs 512 --number-ios 100", 100),
        ("--rw read --bs 64k --number-ios 20 --fixedbufs 0", 20),
        ("--rw read --bs 64k --number-ios 20 --nonvectored 0", 20),
        ("--rw randread --bs 4k --number-ios 50 --sqpoll", 50),
        ("--rw randread --bs 4k --number-ios 50 --registerfiles 0", 50),
    ] {
        let answer = world.run(&format!("--path {NG} {options}")).exits(0, options);
        assert_eq!(ops(&answer, "read"), count, "{options}");
        let cell = &answer.json["cells"][0];
        assert_eq!(cell["backend"]["engine"], "io_uring_cmd");
        assert_eq!(cell["plan"]["targets"][0]["path"], NG);
        assert_eq!(cell["plan"]["targets"][0]["direct"], true);
        let missing = cell["backend"]["missing"].to_string();
        assert!(!missing.contains("registered"), "{options}: {missing}");
        // The block layer does not count the commands; no check takes that for a cache.
        let checks = cell["consistency"].as_array().unwrap();
        assert!(checks.iter().all(|check| check["code"] != "device"), "{checks:?}");
    }
    assert!(world.contents() == numbered, "reads wrote");

    // Writes zeros to a part by commands; the rest is unchanged.
    let part =
        "--offset 1m --size 2m --bs 16k --rw write --zero-buffers --iodepth 4 --number-ios 128";
    let data = "--overwrite-signature=unknown-data";
    let answer = world.run(&format!("--path {NG} {part} {AGREED} {data}")).exits(0, "zeros");
    assert_eq!(ops(&answer, "write"), 128);
    let written = world.contents();
    let (begin, end) = (MIB as usize, 3 * MIB as usize);
    assert!(written[begin..end].iter().all(|byte| *byte == 0), "the part is zero");
    assert!(written[..begin] == numbered[..begin] && written[end..] == numbered[end..]);
    // The block device returns the same data, whatever its page cache held before.
    let left = format!("dd if={BLOCK} bs=1M skip=1 count=2 2>/dev/null | tr -d '\\0' | wc -c");
    assert_eq!(world.sh(&left), "0");

    // A job file of fio with syncs and FUA writes.
    world.sh(&format!(
        "printf '%s\n' '[global]' ioengine=io_uring_cmd cmd_type=nvme filename={NG} thread=1 \
         iodepth=4 bs=4k '[a]' rw=write offset=4m size=1m buffer_pattern=0xa5 fsync=32 \
         stonewall '[b]' rw=randwrite offset=5m size=64k sync=dsync buffer_pattern=0x5a \
         '[c]' stonewall rw=read size=8m fixedbufs=1 registerfiles=1 >/tmp/job.fio"
    ));
    let answer = inside(&mut world.guest, &format!("run /tmp/job.fio {AGREED} {data}"));
    let answer = answer.exits(0, "job file");
    // The output has fio's format.
    let done = |job: usize, way: &str| answer.json["jobs"][job][way]["total_ios"].as_u64();
    assert_eq!((done(0, "write"), done(1, "write")), (Some(256), Some(16)), "{}", answer.json);
    assert_eq!(done(2, "read"), Some(2048), "{}", answer.json);
    let written = world.contents();
    let part = |from: u64, bytes: u64| &written[from as usize..(from + bytes) as usize];
    assert!(part(4 * MIB, MIB).iter().all(|byte| *byte == 0xa5), "[a]");
    assert!(part(5 * MIB, 65536).iter().all(|byte| *byte == 0x5a), "[b]");
    assert!(written[(5 * MIB + 65536) as usize..] == numbered[(5 * MIB + 65536) as usize..]);

    let trims = "--rw trim --offset 4m --size 1m --bs 64k --iodepth 2 --number-ios 16";
    let answer = world.run(&format!("--path {NG} {trims} {AGREED} {data}")).exits(0, "trim");
    assert_eq!(ops(&answer, "trim"), 16);
    let written = world.contents();
    assert!(written[4 * MIB as usize..5 * MIB as usize].iter().all(|byte| *byte == 0), "trimmed");
    assert_eq!(written[5 * MIB as usize], 0x5a);

    // The second namespace of a controller, with blocks of 4 KiB.
    let second =
        "--path /dev/ng1n2 --rw write --bs 32k --size 4m --number-ios 128 --destroy-data=SN-BETA_2";
    world.run(&format!("{second} --inspect-time 1000")).exits(0, "second namespace");
    world.sh("sync");
    let third = fs::read(&world.third).unwrap();
    let has_data = |block: &[u8]| block.iter().any(|byte| *byte != 0);
    assert!(third[..4 * MIB as usize].chunks(4096).all(has_data), "all of the part is written");
    assert!(!has_data(&third[4 * MIB as usize..]), "nothing behind it is written");
    let again = world.sh("dd if=/dev/nvme1n1 bs=1M 2>/dev/null | tr -d '\\0' | wc -c");
    assert_eq!(again, "0", "nor the first namespace");

    // Polled queues, after the driver is reloaded with some.
    world.sh(&format!(
        "rmmod nvme; insmod /lib/nvme.ko poll_queues=1; \
         until [ -c {NG} ] && [ -b {BLOCK} ] && [ -c {OTHER} ]; do sleep 0.1; done"
    ));
    let polled = format!("--path {NG} --rw randread --bs 4k --iodepth 4 --number-ios 100 --hipri");
    let answer = world.run(&polled).exits(0, "polled");
    let features = answer.json["cells"][0]["backend"]["features"].to_string();
    assert!(features.contains("\"iopoll\""), "{features}");
}

#[test]
fn a_generic_device_is_guarded_as_its_block_device() {
    let Some(mut world) = World::new() else { return };
    let load = "--rw randwrite --bs 4k --number-ios 20 --inspect-time 1000";
    let write = |target: &str, consent: &str| format!("--path {target} {load} {consent}");
    let mine = "--destroy-data=SN-ALPHA";

    // Consent: missing, for another disk, for this disk.
    world.refused(&write(NG, ""), 5, "repeat with --destroy-data=SN-ALPHA");
    world.refused(&write(NG, "--destroy-data=SN-BETA"), 5, "which it is not");
    let dry = world.run(&format!("{} --dry-run", write(NG, ""))).exits(5, "dry run");
    assert_eq!(dry.json["devices"][0]["node"], BLOCK);
    assert_eq!(dry.json["devices"][0]["id"], "SN-ALPHA");
    let before = world.contents();
    world.run(&format!("{} --dry-run", write(NG, mine))).exits(0, "dry run with consent");
    assert!(world.contents() == before, "a dry run wrote");
    world.run(&write(NG, mine)).exits(0, "consent");
    assert!(world.contents() != before, "nothing was written");

    // Another engine, another target.
    let ours = |words: &str| format!("run {words} --rw read --number-ios 1");
    let wrong = inside(&mut world.guest, &ours(&format!("--path {NG} --ioengine io_uring")));
    let wrong = wrong.exits(2, "another engine");
    assert!(wrong.message().contains("give --ioengine io_uring_cmd"), "{}", wrong.message());
    assert!(wrong.message().contains("or the block device /dev/nvme0n1"), "{}", wrong.message());
    for (target, said) in [
        (BLOCK, "is a block device"),
        (BLOCK, "give /dev/ng0n1"),
        ("/dev/null", "is a character device"),
        ("/dev/nvme0", "is a character device"),
        ("/tmp", "is a directory"),
    ] {
        world.refused(&format!("--path {target} --rw read --number-ios 1"), 2, said);
    }
    for (option, said) in [
        ("--direct 1", "--direct has no effect"),
        ("--hipri", "no polled queues"),
        ("--bs 256", "512"),
        ("--bs 4m", "smaller --bs"),
    ] {
        let options = format!("--path {NG} --rw read --number-ios 1 {option}");
        let answer = world.run(&options);
        assert!(
            answer.exit != 0 && answer.message().contains(said),
            "{option}: {}",
            answer.message()
        );
    }

    // Blocks of 4 KiB: smaller requests are refused.
    world.run(&format!("--path {OTHER} --rw randread --bs 4k --number-ios 20")).exits(0, "4k");
    world.refused(&format!("--path {OTHER} --rw read --bs 512 --number-ios 1"), 2, "4096");

    // Two runs at once: the writer holds the block device exclusively.
    let long = "--rw randwrite --bs 4k --runtime 120 --inspect-time 1000";
    world.sh(&format!(
        "iosonde run --ioengine io_uring_cmd --path {NG} {long} {mine} >/tmp/long 2>&1 & \
         echo $! >/tmp/long.pid; \
         until ls -l /proc/[0-9]*/fd 2>/dev/null | grep ng0n1 >/dev/null; do \
            kill -0 $(cat /tmp/long.pid) || {{ cat /tmp/long; exit 1; }}; sleep 0.1; done"
    ));
    for (engine, target) in [("io_uring_cmd", NG), ("io_uring", BLOCK)] {
        let line = format!("run --ioengine {engine} {}", write(target, mine));
        let second = inside(&mut world.guest, &line).exits(5, "two at once");
        assert!(
            second.message().contains("is open for writing in process"),
            "{}",
            second.message()
        );
    }
    world.sh("kill $(cat /tmp/long.pid); while kill -0 $(cat /tmp/long.pid) 2>/dev/null; do \
              sleep 0.1; done");

    // A file system, mounted and unmounted.
    world.sh(&format!(
        "dd if=/dev/zero of={BLOCK} bs=1M count=8 conv=fsync 2>/dev/null; mke2fs {BLOCK} \
         >/dev/null; mkdir -p /tmp/disk"
    ));
    world.refused(&write(NG, mine), 5, " ext (");
    world.sh(&format!("mount -o ro {BLOCK} /tmp/disk"));
    let all = format!("{mine} --overwrite-signature=ext --overwrite-signature=unknown-data");
    let said = world.refused(&write(NG, &all), 5, "is mounted");
    assert!(!said.message().contains("repeat with"), "{}", said.message());
    world.run(&format!("--path {NG} --rw randread --number-ios 20")).exits(0, "reads are free");
    world.sh("umount /tmp/disk");
    // Device mapper or swap on it is refused by the same gate.
    world.sh(&format!("mkswap {BLOCK} >/dev/null; swapon {BLOCK}"));
    world.refused(&write(NG, &format!("{mine} --overwrite-signature=swap")), 5, "used as swap");
    world.sh(&format!("swapoff {BLOCK}"));
}

#[test]
fn a_failure_is_counted_as_on_the_block_device() {
    let dir = ScratchDir::new().unwrap();
    let bad = image(dir.path(), "bad", BYTES);
    let drive = format!(
        "if=none,id=bad,format=raw,file.driver=blkdebug,file.image.driver=file,\
         file.image.filename={},file.inject-error.0.event=read_aio,file.inject-error.0.errno=5,\
         file.inject-error.0.sector=8192",
        bad.display()
    );
    let Some(machine) = machine(&[]) else { return };
    let machine = machine.modules(&["nvme"]).options(&[
        "-drive",
        &drive,
        "-device",
        "nvme,drive=bad,serial=SN-BAD",
    ]);
    let mut guest = boot(&machine, &[BLOCK]);
    sh(&mut guest, &format!("until [ -c {NG} ]; do sleep 0.1; done"));
    let read = "--rw read --bs 4k --size 8m --number-ios 2048";
    for target in [format!("io_uring --path {BLOCK}"), format!("io_uring_cmd --path {NG}")] {
        let answer = inside(&mut guest, &format!("run --ioengine {target} {read}"));
        let errors = &answer.json["cells"][0]["errors"];
        assert!(errors.to_string().contains("ENODATA"), "{target}: {errors}");
        assert_eq!(ops(&answer, "read"), 1024, "{target}");
    }
}

#[test]
fn the_verifier_proves_a_namespace_by_commands() {
    let Some(mut world) = World::new() else { return };
    let common = "--ioengine io_uring_cmd --iodepth 4";
    for target in [NG, OTHER] {
        let id = if target == NG { "SN-ALPHA" } else { "SN-BETA" };
        let options = format!("--path {target} {common} --destroy-data={id} --inspect-time 1000");
        let answer = inside(&mut world.guest, &format!("verify soak {options} --ops 500"));
        answer.exits(0, target);
    }
    // Data written by commands are read through the block device, and the other way round.
    let ledger = "--ledger /tmp/ledger";
    let write = format!("verify write --path {NG} {common} {AGREED} --ops 500 {ledger}");
    inside(&mut world.guest, &write).exits(0, "write");
    for (engine, target) in [("io_uring", BLOCK), ("io_uring_cmd", NG)] {
        let check = format!("verify check --path {target} --ioengine {engine} {ledger}");
        inside(&mut world.guest, &check).exits(0, &check);
    }
}
