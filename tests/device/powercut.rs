//! Simulated power cuts: a device that drops unflushed data on command, the verifier that was
//! writing to it, and its witness.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use iosonde_model::content::block::Format;
use iosonde_model::content::ledger::Survival;
use iosonde_model::plan::VerifyPlan;
use iosonde_model::plan::verify::STREAM_VERSION;
use iosonde_model::record::witness_log::WitnessLog;
use iosonde_rig::{FuseMount, ScratchDir};

use crate::request::{Answer, Asking, served, turn, until};
use crate::verify::{classes, verify};

const BLOCK: usize = 4096;

/// A device, the file on it that is written, and the witness's log on another device.
struct Scenario {
    mount: FuseMount,
    file: PathBuf,
    log: PathBuf,
    _elsewhere: ScratchDir,
}

impl Scenario {
    fn new(words: &[&str]) -> Option<Scenario> {
        // All reads and writes must reach the server.
        let mount = served(&[words, &["direct_io=on"]].concat())?;
        let elsewhere = ScratchDir::new().unwrap();
        let (file, log) = (mount.path().join("file"), elsewhere.path().join("log"));
        Some(Scenario { mount, file, log, _elsewhere: elsewhere })
    }

    fn witness(&self) -> String {
        let program = iosonde_fixtures::program!();
        format!("'{program}' verify witness --log '{}'", self.log.display())
    }

    fn start(&self, line: &str, witness: &str) -> Asking {
        verify(&format!("powercut {{}} --size 16m {line}"), &self.file)
            .word("--witness")
            .word(witness)
            .start()
    }

    /// Waits until the witness has recorded `count` flushes.
    fn until_flushes(&self, count: usize) {
        let flushes = || {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            log.lines().filter(|line| line.contains(" post ")).count()
        };
        until("flush", || flushes() >= count);
    }

    /// Cuts the power: kills the program and drops the data that are not durable. The witness is on
    /// another machine and only sees the connection end.
    fn cut(&self, running: Asking, seed: u64) {
        let kill = Command::new("kill").args(["-9", &running.id().to_string()]).status();
        assert!(kill.unwrap().success());
        assert_eq!(running.wait().exit, None);
        match seed % 2 {
            0 => self.mount.power_cut(),
            _ => self.mount.power_cut_amid_writeback(seed),
        }
        std::thread::sleep(Duration::from_millis(300));
    }

    fn check(&self) -> Answer {
        verify("check {} --witness-log", &self.file).word(self.log.to_str().unwrap()).answer()
    }

    /// Blocks that must have survived, as offset and lowest generation; and the number of blocks
    /// that were never written and must still be zero.
    fn required(&self) -> (Format, Vec<(u64, u32)>, usize) {
        let log = WitnessLog::read(&self.log, STREAM_VERSION).unwrap();
        let plan: VerifyPlan = log.header.plan().unwrap();
        let (mut required, mut unwritten) = (Vec::new(), 0);
        for (job, seen) in log.jobs.iter().enumerate() {
            let ledger = seen.ledger(&plan, job);
            for block in 0..ledger.blocks() {
                let allowed = ledger.allowed(block, Survival::Durable, plan.trims_make_zeros);
                if allowed.low > 0 && !allowed.zeros {
                    required.push((plan.offset_of(job, block), allowed.low));
                }
                unwritten += usize::from(allowed.high == 0 && plan.begins_as_zeros);
            }
        }
        (Format::new(plan.run, plan.block_bytes, plan.sector_bytes), required, unwritten)
    }
}

fn plant(path: &Path, offset: u64, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

#[test]
fn nothing_that_was_flushed_is_lost_in_a_power_cut() {
    let _turn = turn();
    for seed in 1..=5 {
        let Some(scene) = Scenario::new(&[]) else { return };
        let line = format!("--numjobs 2 --iodepth 8 --randseed {seed}");
        let running = scene.start(&line, &scene.witness());
        scene.until_flushes(40 * seed as usize);
        scene.cut(running, seed);
        let (_, required, unwritten) = scene.required();
        assert!(required.len() > 1_000, "{} blocks had to survive", required.len());
        let answer = scene.check().exits(0);
        let record = answer.record();
        let jobs = record["jobs"].as_array().unwrap();
        let checked: u64 = jobs.iter().map(|job| job["checked"].as_u64().unwrap()).sum();
        let judged = required.len() + unwritten;
        assert_eq!(checked, judged as u64, "each of them was judged");
        assert_eq!(record["ledger"]["durable_only"], true);
        // A second check gives the same result.
        scene.check().exits(0);
    }
}

#[test]
fn what_is_lost_after_a_power_cut_is_named() {
    let _turn = turn();
    let Some(scene) = Scenario::new(&[]) else { return };
    let running = scene.start("--numjobs 2 --iodepth 8 --randseed 3", &scene.witness());
    scene.until_flushes(60);
    let before = fs::read(&scene.file).unwrap();
    scene.until_flushes(200);
    scene.cut(running, 2);
    scene.check().exits(0);
    let after = fs::read(&scene.file).unwrap();
    let (format, required, _) = scene.required();
    let at = |bytes: &[u8], offset: u64| bytes[offset as usize..][..BLOCK].to_vec();
    let older = required.iter().find(|(offset, low)| {
        let found = format.generation_at(&at(&before, *offset), *offset);
        found.is_some_and(|generation| (1..*low).contains(&generation))
    });
    let (stale, first) = (older.unwrap().0, required[0].0);
    let other = required.iter().rev().find(|(offset, _)| *offset != stale).unwrap().0;
    let mut flipped = at(&after, first);
    flipped[1000] ^= 4;
    let mut torn = at(&after, stale);
    torn[..512].copy_from_slice(&at(&before, stale)[..512]);
    for (offset, content, class) in [
        (stale, at(&before, stale), "stale"),
        (stale, torn, "torn"),
        (first, vec![0; BLOCK], "lost"),
        (first, vec![0x5a; BLOCK], "garbage"),
        (first, flipped, "bit-flip"),
        (first, at(&after, other), "misdirected"),
    ] {
        plant(&scene.file, offset, &content);
        let answer = scene.check().exits(4);
        let found: Vec<(String, u64)> = classes(&answer).into_iter().collect();
        assert_eq!(found, [(class.to_owned(), 1)]);
        plant(&scene.file, offset, &at(&after, offset));
    }
    scene.check().exits(0);
}

#[test]
fn a_device_that_lies_about_flushes_is_found_by_a_power_cut() {
    let _turn = turn();
    // The file itself and the first blocks are durable before the device starts to lie.
    let Some(scene) = Scenario::new(&["fault=sync:lie:time=300ms"]) else { return };
    let running = scene.start("--iodepth 8 --randseed 5", &scene.witness());
    scene.until_flushes(20);
    std::thread::sleep(Duration::from_millis(500));
    let honest = fs::read_to_string(&scene.log).unwrap().lines().count();
    scene.until_flushes(honest / 2 + 20);
    scene.cut(running, 2);
    let answer = scene.check().exits(4);
    let found = classes(&answer);
    assert!(found.values().sum::<u64>() > 10, "{found:?}");
    assert!(found.keys().all(|class| ["stale", "lost"].contains(&&**class)), "{found:?}");
}

#[test]
fn a_witness_that_fails_ends_the_run() {
    let _turn = turn();
    for (witness, words) in [
        ("true", "--witness"),
        ("no-such-program-anywhere", "--witness"),
        ("while read line; do echo nonsense; done", "nonsense"),
        ("while read line; do echo ok 7; done", "ok 7"),
        ("while read line; do echo error the disk is full; done", "the disk is full"),
        // Exits in the middle of the run.
        ("n=0; while [ $n -lt 30 ] && read line; do n=$((n+1)); echo ok $n; done", "witness"),
    ] {
        let Some(scene) = Scenario::new(&[]) else { return };
        let answer = scene.start("--runtime 60", witness).wait().exits(1);
        assert!(answer.stderr.contains(words), "{witness}: {}", answer.stderr);
        assert!(answer.took < Duration::from_secs(30), "{witness}: {:?}", answer.took);
    }
}
