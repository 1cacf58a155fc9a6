//! Crash states: what a disk may hold after a power cut at any moment, from the log of every write.
//!
//! The program writes through device mapper's `log-writes` in a guest; its witness is a process on
//! the host. A line of the run is recorded by the witness, then marked in the log, then answered.
//! So a mark follows all writes that its line claims, and precedes everything that the run did
//! after the answer. For a cut at any position of the log, the witness has the lines whose marks
//! precede that position, and no cut contradicts it.
//!
//! After a cut a correct disk holds all writes before the last flush, and any of the later ones
//! that its cache had written. A lying disk has lost some of the former.

use std::collections::HashSet;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use iosonde_rig::write_log::{self, Entry};
use iosonde_rig::{Rng, ScratchDir};

use crate::inside::{MIB, boot, image, inside, machine, outside, pass_on, sh, witness};

const DISK_BYTES: u64 = MIB / 2;
const JOBS: u64 = 2;
const SECTOR: usize = 512;

/// Marks a line that the witness recorded: its number, its first word, and its job.
const MARK: &str = r#"set -- $line; [ $1 = hello ] && set -- hello 0
    dmsetup message log 0 mark $number:$1:$2 || exit 1"#;

/// A run and its log of writes.
struct Scenario {
    log: Vec<Entry>,
    /// The lines that the witness recorded, in order.
    heard: Vec<String>,
}

/// A mark: the number of the line from 1, its first word, and its job.
struct Mark<'a> {
    line: usize,
    what: &'a str,
    job: u64,
}

fn mark(entry: &Entry) -> Option<Mark<'_>> {
    let Entry::Mark(text) = entry else { return None };
    let mut parts = text.split(':');
    let line = parts.next()?.parse().ok()?;
    Some(Mark { line, what: parts.next()?, job: parts.next().unwrap_or("0").parse().unwrap_or(0) })
}

impl Scenario {
    /// Runs `verify powercut` to its end in a guest.
    fn record() -> Option<Scenario> {
        let dir = ScratchDir::new().unwrap();
        let disk = image(dir.path(), "written", DISK_BYTES);
        let log = image(dir.path(), "write-log", 16 * MIB);
        let machine = machine(&["dmsetup"])?
            .modules(&["virtio_blk", "dm-log-writes"])
            .drive("disk", &disk, "")
            .drive("log", &log, "")
            .options(&["-device", "virtio-blk-pci,drive=disk,serial=disk"])
            .options(&["-device", "virtio-blk-pci,drive=log,serial=log"])
            .port("witness");
        let mut guest = boot(&machine, &["/dev/vda", "/dev/vdb"]);
        let heard = dir.path().join("heard");
        let mut witness = witness(&mut guest, &heard);
        pass_on(&mut guest, MARK);
        let sectors = DISK_BYTES / SECTOR as u64;
        let table = format!("0 {sectors} log-writes /dev/vda /dev/vdb");
        sh(&mut guest, &format!("dmsetup create log --uuid crash --table '{table}'"));
        let line = format!(
            "verify powercut /dev/dm-0 --destroy-data=crash --witness 'sh /tmp/witness' \
             --numjobs {JOBS} --iodepth 4 --flush-every 8 --ops 48 --verify-sectors 1:4 \
             --inspect-time 1000 --randseed 11"
        );
        inside(&mut guest, &line).exits(0, "the run itself");
        sh(&mut guest, "dmsetup remove log; sync");
        guest.cut().unwrap();
        assert!(witness.wait().unwrap().success());
        let text = fs::read_to_string(&heard).unwrap();
        let heard = text.lines().map(|line| format!("{line}\n")).collect();
        Some(Scenario { log: write_log::read(&log).unwrap(), heard })
    }

    /// The job whose region contains a write.
    fn job(&self, entry: &Entry) -> Option<u64> {
        entry.range().map(|(start, _)| start / (DISK_BYTES / JOBS))
    }

    /// Position after the last flush before `cut`: a disk must keep the writes before it.
    fn durable(&self, cut: usize) -> usize {
        let flush = self.log[..cut].iter().rposition(|entry| *entry == Entry::Flush);
        flush.map_or(0, |at| at + 1)
    }

    /// Positions of the writes that the witness knows at `cut` to be flushed: those of a job before
    /// the last `post` of that job.
    fn witnessed(&self, cut: usize) -> Vec<usize> {
        let posted = |job: u64| {
            let is_post = |entry: &Entry| {
                mark(entry).is_some_and(|mark| mark.what == "post" && mark.job == job)
            };
            self.log[..cut].iter().rposition(is_post).unwrap_or(0)
        };
        let posted: Vec<usize> = (0..JOBS).map(posted).collect();
        let known =
            |at: &usize| self.job(&self.log[*at]).is_some_and(|job| *at < posted[job as usize]);
        (0..cut).filter(known).collect()
    }

    /// Runs `verify check` on a state, with the witness's lines up to that position of the log.
    fn judge(&self, state: &State, place: &Path) {
        let heard = self.log[..state.cut].iter().rev().find_map(mark).map_or(0, |mark| mark.line);
        let (image, log) = (place.join("disk"), place.join("log"));
        fs::write(&image, &state.disk).unwrap();
        fs::write(&log, self.heard[..heard].concat()).unwrap();
        let line = format!("verify check {} --witness-log {}", image.display(), log.display());
        outside(&line, &place.join("kept")).exits(state.code, &state.what);
        fs::remove_dir_all(place.join("kept")).unwrap();
    }

    /// Judges all states, one at a time per CPU.
    fn judge_all(&self, states: &[State]) {
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
                scope.spawn(|| {
                    let place = ScratchDir::new().unwrap();
                    while let Some(state) = states.get(next.fetch_add(1, Ordering::Relaxed)) {
                        self.judge(state, place.path());
                    }
                });
            }
        });
    }

    /// The disk after these writes of the log.
    fn disk(&self, writes: impl IntoIterator<Item = usize>) -> Vec<u8> {
        let mut disk = vec![0; DISK_BYTES as usize];
        writes.into_iter().for_each(|at| self.log[at].apply(&mut disk));
        disk
    }

    /// First position after the witness recorded a line; before it nothing can be judged.
    fn first(&self) -> usize {
        1 + self.log.iter().position(|entry| mark(entry).is_some()).unwrap()
    }
}

/// Content of a disk after a cut, and the expected verdict.
struct State {
    /// Position in the log.
    cut: usize,
    disk: Vec<u8>,
    /// Expected exit code.
    code: i32,
    what: String,
}

/// The exit code if all flushed writes are present.
const PASSED: i32 = 0;
/// The exit code if a flushed write is missing.
const FAILED: i32 = 4;
/// The exit code before the first recorded flush: nothing is required, so it is not a pass.
const NOTHING_REQUIRED: i32 = 7;

impl Scenario {
    /// Possible states of a correct disk after a cut there: all writes of the log so far; sometimes
    /// also a subset of those since the last flush, and one of them in part.
    fn truthful(&self, cut: usize, chance: &mut Rng) -> Vec<State> {
        let is_post = |entry| mark(entry).is_some_and(|mark| mark.what == "post");
        let has_posted = self.log[..cut].iter().any(is_post);
        let code = if has_posted { PASSED } else { NOTHING_REQUIRED };
        let what = format!("the log up to {cut}");
        let mut states = vec![State { cut, disk: self.disk(0..cut), code, what }];
        let is_write = self.log[cut - 1].range().is_some();
        if is_write && cut.is_multiple_of(3) {
            let durable = self.durable(cut);
            let some = (durable..cut).filter(|_| chance.next_u64() & 1 == 0);
            let mut disk = self.disk((0..durable).chain(some));
            if let Entry::Write { offset, data, .. } = &self.log[cut - 1] {
                let sectors = chance.next_u64() as usize % (data.len() / SECTOR);
                disk[*offset as usize..][..sectors * SECTOR]
                    .copy_from_slice(&data[..sectors * SECTOR]);
            }
            states.push(State { cut, disk, code, what: format!("an emptied cache at {cut}") });
        }
        states
    }

    /// States of a disk that ignored a flush recorded by the witness.
    fn lying(&self, cut: usize, chance: &mut Rng) -> Vec<State> {
        let witnessed = self.witnessed(cut);
        if mark(&self.log[cut - 1]).is_none_or(|mark| mark.what != "post") || witnessed.is_empty() {
            return Vec::new();
        }
        // One of the flushed writes is missing, and no later write covers it.
        let covered = |at: usize| {
            let (start, end) = self.log[at].range().unwrap();
            let mut later = self.log[at + 1..cut].iter().filter_map(Entry::range);
            later.any(|(from, to)| from < end && start < to)
        };
        let bare: Vec<usize> = witnessed.iter().copied().filter(|at| !covered(*at)).collect();
        let missing = bare[chance.next_u64() as usize % bare.len()];
        let without = self.disk((0..cut).filter(|at| *at != missing));
        // Only its last sector is missing.
        let mut in_part = self.disk(0..cut);
        let end = self.log[missing].range().unwrap().1 as usize;
        in_part[end - SECTOR..end].copy_from_slice(&without[end - SECTOR..end]);
        // The last of the flushed writes are missing.
        let dropped: HashSet<usize> = witnessed.iter().rev().take(8).copied().collect();
        let shortened = self.disk((0..cut).filter(|at| !dropped.contains(at)));
        let state = |disk, what| State { cut, disk, code: FAILED, what };
        vec![
            state(without, format!("write {missing} is lost at {cut}")),
            state(in_part, format!("the end of write {missing} is lost at {cut}")),
            state(shortened, format!("the last flushed writes are lost at {cut}")),
        ]
    }
}

#[test]
fn every_crash_state_is_judged_by_what_the_witness_heard() {
    let Some(scene) = Scenario::record() else { return };
    let count = |wanted: fn(&Entry) -> bool| scene.log.iter().filter(|e| wanted(e)).count();
    let writes = count(|entry| matches!(entry, Entry::Write { .. }));
    let flushes = count(|entry| *entry == Entry::Flush);
    assert!(writes >= 80 && flushes >= 10, "{writes} writes, {flushes} flushes");
    let mut chance = Rng::new(5);
    // A flush changes neither the disk nor the witness's lines.
    let cuts = (scene.first()..=scene.log.len()).filter(|cut| scene.log[cut - 1] != Entry::Flush);
    let mut states = Vec::new();
    for cut in cuts.clone() {
        states.extend(scene.truthful(cut, &mut chance));
        states.extend(scene.lying(cut, &mut chance));
    }
    // Nothing was ever made durable.
    let (cut, what) = (scene.log.len(), "an empty disk".into());
    states.push(State { cut, disk: scene.disk(0..0), code: FAILED, what });
    let judged = |code| states.iter().filter(|state| state.code == code).count();
    let (passed, early, failed) = (judged(PASSED), judged(NOTHING_REQUIRED), judged(FAILED));
    assert!(passed >= 80 && failed >= 30, "{passed} to pass, {failed} to fail");
    scene.judge_all(&states);
    eprintln!(
        "{writes} writes, {flushes} flushes, {} places for a cut; of a truthful disk {passed} \
         states passed, and {early} before the first flush was heard of were left open; \
         {failed} of {failed} \
         states of a lying disk failed",
        cuts.count()
    );
}
