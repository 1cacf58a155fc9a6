//! `verify write` is killed at a random moment, and `verify check` judges the file: required blocks
//! are present, and planted damage is always found.
//!
//! `IOSONDE_KILLS` sets the number of kills.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use iosonde_model::content::block::Format;
use iosonde_model::content::ledger::Survival;
use iosonde_model::plan::VerifyPlan;
use iosonde_model::plan::verify::STREAM_VERSION;
use iosonde_model::record::ledger_file::{LedgerFile, Reader};
use rustix::process::Signal;

use super::program::{Ended, Place};
use super::verify::classes;

const BLOCK: usize = 4096;
/// The kill comes within this time after the ledger was created.
const WITHIN_MS: u64 = 400;
/// Every so many kills a block is damaged by the test.
const PLANT_EVERY: u64 = 5;

/// A pseudo-random sequence, the same in every test run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        // Knuth's multiplier; the upper bits have the better quality.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound
    }
}

fn plant(path: &Path, offset: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
    file.sync_all().unwrap();
}

fn block_at(path: &Path, offset: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    File::open(path).unwrap().read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

/// Blocks that must hold the last acknowledged data, with nothing in flight.
fn settled(ledger: &Path) -> (Format, Vec<(u64, u32)>) {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let reader = Reader { stream_version: STREAM_VERSION, boot_id: Some(boot_id.trim()) };
    let file = LedgerFile::read(ledger, &reader).unwrap();
    let plan: VerifyPlan = file.header.plan().unwrap();
    let mut settled = Vec::new();
    let format = Format::new(plan.run, plan.block_bytes, plan.sector_bytes);
    if plan.overlaps() {
        let outcomes = file.outcomes(&plan, Survival::Acknowledged);
        for block in 0..plan.blocks() {
            let mut generations = Vec::new();
            let allowed = outcomes.allowed(block, &mut generations);
            if allowed.low > 0 && allowed.low == allowed.high {
                settled.push((plan.offset_of(0, block), allowed.low));
            }
        }
        return (format, settled);
    }
    for (job, progress) in file.jobs.iter().enumerate() {
        let ledger = progress.ledger(&plan, job);
        for block in 0..ledger.blocks() {
            let allowed = ledger.allowed(block, Survival::Acknowledged, plan.trims_make_zeros);
            if allowed.low > 0 && allowed.low == allowed.high && !allowed.zeros {
                settled.push((plan.offset_of(job, block), allowed.low));
            }
        }
    }
    (format, settled)
}

/// Kills a run during its work, once its ledger exists. Returns a copy of the target from before.
fn kill(place: &Place, data: &Path, ledger: &Path, seed: u64, dice: &mut Dice) -> Vec<u8> {
    let overlaps = seed % 5 == 2;
    let jobs = 1 + seed % 3 + u64::from(overlaps);
    let words = format!(
        "verify write data --size 16m --numjobs {jobs} --iodepth 8 {} --randseed {seed} --runtime \
         60 --eta-interval 0 --ledger",
        match (overlaps, seed % 4) {
            (true, _) => "--overlap",
            (false, 0) => "--trim-percent 5",
            (false, _) => "--trim-percent 0",
        }
    );
    let running = place.iosonde(&words).arg(ledger).start();
    let started = Instant::now();
    while fs::metadata(ledger).map_or(0, |facts| facts.len()) == 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "no ledger: {}", running.end());
        std::thread::sleep(Duration::from_millis(1));
    }
    let pause = Duration::from_millis(dice.below(WITHIN_MS));
    let running = running.pause(pause / 2);
    let before = fs::read(data).unwrap_or_default();
    let ended = running.pause(pause / 2).signal(Signal::KILL).end();
    assert_eq!(ended.signal, Some(9), "{ended}");
    before
}

fn check(place: &Place, ledger: &Path) -> Ended {
    place.iosonde("verify check data --eta-interval 0 --ledger").arg(ledger).end()
}

/// New content of a damaged block, and its class.
fn damage(kind: u64, now: &[u8], older: Option<Vec<u8>>) -> (Vec<u8>, &'static str) {
    match (kind % 4, older) {
        (0, Some(older)) => (older, "stale"),
        (0 | 1, _) => (vec![0; BLOCK], "lost"),
        (2, _) => (vec![0xa5; BLOCK], "garbage"),
        _ => {
            let mut bytes = now.to_vec();
            bytes[2100] ^= 0x10;
            (bytes, "bit-flip")
        }
    }
}

#[test]
fn a_killed_write_raises_no_alarm_and_hides_no_damage() {
    let kills = std::env::var("IOSONDE_KILLS").map_or(8, |count| count.parse().unwrap());
    let place = Place::new();
    let data = place.work().join("data");
    let mut dice = Dice(kills);
    let (mut judged, mut planted) = (0, 0);
    for round in 1..=kills {
        let ledger = place.work().join(format!("ledger.{round}"));
        let before = kill(&place, &data, &ledger, round, &mut dice);
        let ended = check(&place, &ledger);
        let (format, settled) = settled(&ledger);
        // Before the first acknowledgement nothing can be judged.
        assert!(ended.code == Some(0) || ended.code == Some(7) && settled.is_empty(), "{ended}");
        if settled.is_empty() {
            continue;
        }
        judged += 1;
        if round % PLANT_EVERY != 0 {
            continue;
        }
        let generation_before = |offset: u64| {
            let bytes = before.get(offset as usize..offset as usize + BLOCK)?;
            format.generation_at(bytes, offset)
        };
        let older = settled.iter().find(|(offset, low)| {
            generation_before(*offset).is_some_and(|generation| generation < *low)
        });
        let kind = round / PLANT_EVERY;
        let victim = &settled[dice.below(settled.len() as u64) as usize];
        let victim = if kind.is_multiple_of(4) { older.unwrap_or(victim).0 } else { victim.0 };
        let older = older.filter(|(offset, _)| *offset == victim);
        let older = older.map(|_| before[victim as usize..victim as usize + BLOCK].to_vec());
        let now = block_at(&data, victim);
        let (bytes, class) = damage(kind, &now, older);
        plant(&data, victim, &bytes);
        let ended = check(&place, &ledger).exits(4);
        assert_eq!(classes(&place), [(class.to_owned(), 1)], "round {round}: {ended}");
        plant(&data, victim, &now);
        check(&place, &ledger).exits(0);
        planted += 1;
    }
    eprintln!("{kills} kills, {judged} judged, {planted} times damaged on purpose");
    assert!(judged * 2 > kills, "most kills came amid the work");
}
