//! The decorator that does wrong: exactly what it says, to exactly whom it says.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;

use iosonde::backend::fault::{Fault, FaultLog, FaultQueue, Injected, Injection, Site, When};
use iosonde::backend::psync::PsyncQueue;
use iosonde::backend::sim::memory::SharedMemory;
use iosonde::backend::sim::{Memory, Model, SimQueue};
use iosonde::backend::uring::UringQueue;
use iosonde::backend::{Queue, Transfer};
use iosonde::plan::chance::Chance;
use iosonde::plan::{Engine, EngineKind, Job, Way};
use iosonde_sys::{Clock, ring};

const BLOCK: usize = 4096;
const SECTOR: usize = 512;
/// Blocks of the target; the scenarios write the first [`WRITTEN`].
const BLOCKS: usize = 32;
const WRITTEN: usize = 8;
/// The block that is struck.
const STRUCK: usize = 2;
const SECOND_NS: u64 = 1_000_000_000;

fn job(depth: u32, block_bytes: usize) -> Job {
    Job {
        block_bytes: block_bytes as u64,
        read_percent: 50,
        region_bytes: (BLOCKS * BLOCK) as u64,
        iodepth: depth,
        ..Job::default()
    }
}

fn site(seed: u64) -> Site {
    Site {
        region_start: 0,
        region_bytes: (BLOCKS * BLOCK) as u64,
        block_bytes: BLOCK as u64,
        sector_bytes: SECTOR as u64,
        seed,
        forge: |block| block.reverse(),
    }
}

fn sim(model: &str, job: &Job, memory: &SharedMemory) -> SimQueue {
    let device = Rc::new(RefCell::new(Model::parse(model).unwrap().build(1)));
    SimQueue::with_memory(job, device, Rc::clone(memory))
}

/// What a block holds in this generation: no zero, and no two blocks alike.
fn content(block: usize, generation: usize) -> Vec<u8> {
    let mut chance = Chance::new((generation * BLOCKS + block) as u64);
    (0..BLOCK).map(|_| 1 + chance.below(255) as u8).collect()
}

/// Storage as it should be, changed step by step.
struct Expected(Vec<u8>);

impl Expected {
    fn new() -> Expected {
        Expected(vec![0; BLOCKS * BLOCK])
    }

    fn put(&mut self, block: usize, bytes: &[u8]) -> &mut Expected {
        self.0[block * BLOCK..][..bytes.len()].copy_from_slice(bytes);
        self
    }

    fn put_all(&mut self, generation: usize) -> &mut Expected {
        for block in 0..WRITTEN {
            self.put(block, &content(block, generation));
        }
        self
    }
}

/// A faulty queue, one request at a time.
struct Bench<Q: Queue> {
    queue: FaultQueue<Q>,
    log: FaultLog,
    stored: Box<dyn Fn() -> Vec<u8>>,
}

impl<Q: Queue> Bench<Q> {
    fn new(inner: Q, fault: &str, stored: Box<dyn Fn() -> Vec<u8>>) -> Bench<Q> {
        let log = FaultLog::default();
        let queue = FaultQueue::new(inner, fault.parse().unwrap(), site(11), log.clone());
        Bench { queue, log, stored }
    }

    fn carry_out(&mut self, transfer: Transfer) -> i32 {
        self.queue.push(0, transfer);
        let mut back = Vec::new();
        for _ in 0..1000 {
            self.queue.enter(1, SECOND_NS).unwrap();
            self.queue.reap(|slot, result| back.push((slot, result)));
            if !back.is_empty() {
                break;
            }
        }
        assert_eq!(back.len(), 1);
        assert_eq!(back[0].0, 0);
        back[0].1
    }

    fn sync(&mut self) -> i32 {
        self.carry_out(Transfer { way: Way::Sync, target: 0, offset: 0, skip: 0, bytes: 0 })
    }

    fn write(&mut self, block: usize, generation: usize) -> i32 {
        let written = content(block, generation);
        self.queue.buffer(0)[..BLOCK].copy_from_slice(&written);
        let result = self.carry_out(transfer(Way::Write, block));
        assert!(self.queue.buffer(0)[..BLOCK] == written, "the caller's buffer is the caller's");
        result
    }

    /// Writes every block; all must be told as done.
    fn write_all(&mut self, generation: usize) {
        for block in 0..WRITTEN {
            assert_eq!(self.write(block, generation), BLOCK as i32);
        }
    }

    fn read(&mut self, block: usize) -> (i32, Vec<u8>) {
        self.queue.buffer(0).fill(0xee);
        let result = self.carry_out(transfer(Way::Read, block));
        (result, self.queue.buffer(0)[..BLOCK].to_vec())
    }

    fn injected(&self) -> Vec<Injected> {
        self.log.entries()
    }

    fn assert_stored(&self, expected: &Expected) {
        let stored = (self.stored)();
        let wrong = (0..BLOCKS * BLOCK / SECTOR)
            .filter(|at| stored[at * SECTOR..][..SECTOR] != expected.0[at * SECTOR..][..SECTOR]);
        assert_eq!(wrong.collect::<Vec<_>>(), [0; 0], "{}: sectors", self.queue.injection());
    }
}

fn transfer(way: Way, block: usize) -> Transfer {
    Transfer { way, target: 0, offset: (block * BLOCK) as u64, skip: 0, bytes: BLOCK as u32 }
}

/// What is asked of every queue.
trait Scenario {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>);
}

fn over_sim(scenario: &impl Scenario) {
    scenario.play(|fault| {
        let memory = Memory::zeroed(BLOCKS * BLOCK).shared();
        let queue = sim("servers=4,read=10us,write=20us", &job(4, BLOCK), &memory);
        Bench::new(queue, fault, Box::new(move || memory.borrow().bytes().to_vec()))
    });
}

fn over_files(scenario: &impl Scenario) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("target");
    let fresh = || {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len((BLOCKS * BLOCK) as u64).unwrap();
        vec![file.into()]
    };
    let stored = || {
        let path = path.clone();
        Box::new(move || std::fs::read(&path).unwrap())
    };
    scenario.play(|fault| {
        let queue = PsyncQueue::open(&job(1, BLOCK), fresh(), Clock::monotonic()).unwrap();
        Bench::new(queue, fault, stored())
    });
    if let Err(reason) = ring::probe() {
        eprintln!("skipped: faults over io_uring: {reason}");
        return;
    }
    scenario.play(|fault| {
        let engine = Engine::of(EngineKind::IoUring);
        let queue = UringQueue::open(&job(4, BLOCK), &engine, fresh(), Clock::monotonic()).unwrap();
        Bench::new(queue, fault, stored())
    });
}

fn over_all(scenario: &impl Scenario) {
    over_sim(scenario);
    over_files(scenario);
}

/// Writes acknowledged and not done, or done in part.
struct Missing;

impl Scenario for Missing {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>) {
        let start = (STRUCK * BLOCK) as u64;
        let mut bench = open("drop:nth=3");
        bench.write_all(1);
        bench.assert_stored(Expected::new().put_all(1).put(STRUCK, &[0; BLOCK]));
        let harm =
            Injected { kind: Fault::Drop, offset: start, bytes: BLOCK as u64, elsewhere: None };
        assert_eq!(bench.injected(), [harm]);

        for (fault, sectors) in [("tear=1", 1), ("tear=3", 3), ("tear=7", 7), ("tear", 0)] {
            let mut bench = open(&format!("{fault}:nth=3"));
            bench.write_all(1);
            let [Injected { kind: Fault::Tear(Some(told)), offset, bytes, elsewhere: None }] =
                bench.injected()[..]
            else {
                panic!("{:?}", bench.injected())
            };
            assert!(sectors == 0 && (1..8).contains(&told) || sectors == told);
            let done = told as usize * SECTOR;
            assert_eq!((offset, bytes), (start + done as u64, (BLOCK - done) as u64));
            let mut torn = content(STRUCK, 1);
            torn[done..].fill(0);
            bench.assert_stored(Expected::new().put_all(1).put(STRUCK, &torn));
        }

        for (fault, result, done) in
            [("write-eio", -5, 0), ("enospc", -28, 0), ("short", 2048, 2048)]
        {
            let mut bench = open(&format!("{fault}:every=3"));
            let results: Vec<i32> = (0..5).map(|block| bench.write(block, 1)).collect();
            let whole = BLOCK as i32;
            assert_eq!(results, [whole, whole, result, whole, whole]);
            let mut expected = Expected::new();
            for block in [0, 1, 3, 4] {
                expected.put(block, &content(block, 1));
            }
            expected.put(STRUCK, &content(STRUCK, 1)[..done]);
            bench.assert_stored(&expected);
            let Injected { offset, bytes, .. } = bench.injected()[0];
            assert_eq!((offset, bytes), (start + done as u64, (BLOCK - done) as u64));
        }
    }
}

/// Writes that arrive as other bytes.
struct Changed;

impl Scenario for Changed {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>) {
        let kinds = ["flip", "flip=2", "flip=8", "byte", "zero", "corrupt", "phantom"].into_iter();
        for fault in kinds {
            let mut bench = open(&format!("{fault}:nth=3"));
            bench.write_all(1);
            let [harm] = bench.injected()[..] else { panic!("{:?}", bench.injected()) };
            let from = harm.offset as usize - STRUCK * BLOCK;
            let range = from..from + harm.bytes as usize;
            assert_eq!(harm.elsewhere, None);
            let stored = (bench.stored)();
            let found = stored[STRUCK * BLOCK..][range.clone()].to_vec();
            let mut block = content(STRUCK, 1);
            let xor = block[range.clone()].iter().zip(&found).map(|(a, b)| a ^ b);
            let bits: u32 = xor.map(u8::count_ones).sum();
            match harm.kind {
                Fault::Flip(expected) => assert_eq!(bits, u32::from(expected)),
                Fault::Byte => assert!(range.len() == 1 && bits > 0),
                Fault::Zero => assert!(range.len() == SECTOR && found == [0; SECTOR]),
                Fault::Corrupt => assert!((32..=256).contains(&range.len()) && bits > 8),
                Fault::Phantom => {
                    block.reverse();
                    assert!(range.len() == BLOCK && found == block);
                }
                kind => panic!("{kind}"),
            }
            block[range].copy_from_slice(&found);
            bench.assert_stored(Expected::new().put_all(1).put(STRUCK, &block));
        }
    }
}

/// Writes that go to other places.
struct Displaced;

impl Scenario for Displaced {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>) {
        for (fault, also_right) in [("misdirect", false), ("duplicate", true)] {
            let mut bench = open(&format!("{fault}:nth=3"));
            bench.write_all(1);
            let [Injected { offset, bytes, elsewhere: Some(elsewhere), .. }] = bench.injected()[..]
            else {
                panic!("{:?}", bench.injected())
            };
            assert_eq!((offset, bytes), ((STRUCK * BLOCK) as u64, BLOCK as u64));
            let other = elsewhere as usize / BLOCK;
            assert!(elsewhere.is_multiple_of(BLOCK as u64) && other != STRUCK && other < BLOCKS);
            let mut expected = Expected::new();
            for block in 0..WRITTEN {
                if block != STRUCK || also_right {
                    expected.put(block, &content(block, 1));
                }
                if block == STRUCK {
                    expected.put(other, &content(block, 1));
                }
            }
            bench.assert_stored(&expected);
        }

        let mut bench = open("swap:nth=3");
        bench.write_all(1);
        let (one, other) = (STRUCK, STRUCK + 1);
        let mut expected = Expected::new();
        expected.put_all(1).put(one, &content(other, 1)).put(other, &content(one, 1));
        bench.assert_stored(&expected);
        let places: Vec<_> =
            bench.injected().iter().map(|harm| (harm.offset, harm.elsewhere)).collect();
        let [one, other] = [one, other].map(|block| (block * BLOCK) as u64);
        assert_eq!(places, [(other, Some(one)), (one, Some(other))]);
    }
}

/// Writes that come too late, or again.
struct Belated;

impl Scenario for Belated {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>) {
        let mut bench = open("stale:nth=3");
        bench.write_all(1);
        bench.assert_stored(Expected::new().put_all(1));
        assert_eq!(bench.log.count(), 0, "nothing is wrong yet");
        bench.write_all(2);
        bench.assert_stored(Expected::new().put_all(2).put(STRUCK, &content(STRUCK, 1)));
        assert_eq!(bench.log.count(), 1);
        bench.write_all(3);
        bench.assert_stored(Expected::new().put_all(3));
        assert_eq!(bench.log.count(), 1);

        let mut bench = open("stale:all");
        for generation in 1..5 {
            bench.write_all(generation);
            bench.assert_stored(Expected::new().put_all(generation.max(2) - 1));
        }

        let mut bench = open("delay:nth=3");
        bench.write_all(1);
        assert_eq!(bench.read(5), (BLOCK as i32, content(5, 1)));
        assert_eq!(bench.sync(), 0);
        // Neither a request before the sync nor the sync itself brings it.
        bench.assert_stored(Expected::new().put_all(1).put(STRUCK, &[0; BLOCK]));
        for _ in 0..2 {
            assert_eq!(bench.read(5), (BLOCK as i32, content(5, 1)));
            assert_eq!(bench.read(STRUCK), (BLOCK as i32, vec![0; BLOCK]));
        }
        bench.assert_stored(Expected::new().put_all(1));
        assert_eq!(bench.read(STRUCK), (BLOCK as i32, content(STRUCK, 1)));
        assert_eq!(bench.log.count(), 1);

        let mut bench = open("delay:nth=3");
        bench.write_all(1);
        assert_eq!(bench.sync(), 0);
        bench.write_all(2);
        bench.assert_stored(Expected::new().put_all(2).put(STRUCK, &content(STRUCK, 1)));

        let mut bench = open("delay:nth=3");
        bench.write_all(1);
        assert_eq!(bench.sync(), 0);
        for _ in 0..1023 {
            assert_eq!(bench.read(5), (BLOCK as i32, content(5, 1)));
        }
        bench.assert_stored(Expected::new().put_all(1).put(STRUCK, &[0; BLOCK]));
        bench.read(5);
        bench.assert_stored(Expected::new().put_all(1));

        let mut bench = open("reorder:nth=3");
        bench.write_all(1);
        bench.assert_stored(Expected::new().put_all(1).put(STRUCK, &[0; BLOCK]));
        bench.write_all(2);
        bench.assert_stored(Expected::new().put_all(2));
        assert_eq!(bench.sync(), 0);
        bench.assert_stored(Expected::new().put_all(2));
        bench.write_all(3);
        bench.assert_stored(Expected::new().put_all(3).put(STRUCK, &content(STRUCK, 1)));
        bench.write_all(4);
        bench.assert_stored(Expected::new().put_all(4));
        assert_eq!(bench.log.count(), 1);
    }
}

/// Reads that get other bytes than are stored.
struct Misread;

impl Scenario for Misread {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>) {
        for fault in ["read-misdirect", "read-flip", "read-eio"] {
            let mut bench = open(&format!("{fault}:nth=3"));
            bench.write_all(1);
            let first: Vec<_> = (0..WRITTEN).map(|block| bench.read(block)).collect();
            for (block, first) in first.iter().enumerate() {
                let good = (BLOCK as i32, content(block, 1));
                assert_eq!(*first == good, block != STRUCK, "{fault}: {block}");
                assert_eq!(bench.read(block), good);
            }
            bench.assert_stored(Expected::new().put_all(1));
            let [harm] = bench.injected()[..] else { panic!("{:?}", bench.injected()) };
            let (result, read) = &first[STRUCK];
            if harm.kind == Fault::ReadEio {
                assert_eq!(*result, -5);
            } else if let Some(elsewhere) = harm.elsewhere {
                assert_eq!(*read, (bench.stored)()[elsewhere as usize..][..BLOCK]);
            } else {
                let content = content(STRUCK, 1);
                let wrong: Vec<usize> = (0..BLOCK).filter(|at| read[*at] != content[*at]).collect();
                assert_eq!(wrong, [harm.offset as usize - STRUCK * BLOCK]);
                assert_eq!((read[wrong[0]] ^ content[wrong[0]]).count_ones(), 1);
            }
        }
    }
}

/// Nothing is struck that was not to be.
struct Spared;

impl Scenario for Spared {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>) {
        for fault in Fault::ALL {
            let injection = Injection { fault, when: When::Nth(1000) };
            let mut bench = open(&injection.to_string());
            let named = format!("fault injected: {injection}");
            assert!(bench.queue.facts().features.contains(&named));
            for generation in 1..4 {
                bench.write_all(generation);
                assert_eq!(bench.sync(), 0);
                for block in 0..WRITTEN {
                    assert_eq!(bench.read(block), (BLOCK as i32, content(block, generation)));
                }
            }
            bench.assert_stored(Expected::new().put_all(3));
            assert_eq!((bench.log.count(), bench.injected()), (0, Vec::new()));
        }
    }
}

#[test]
fn a_write_that_is_missing_is_missing_alone() {
    over_all(&Missing);
}

#[test]
fn a_write_that_is_changed_is_changed_as_told() {
    over_all(&Changed);
}

#[test]
fn a_write_that_is_displaced_stands_where_the_log_says() {
    over_all(&Displaced);
}

#[test]
fn a_write_that_is_late_wins_when_it_comes() {
    over_all(&Belated);
}

#[test]
fn a_read_that_is_wrong_is_right_the_next_time() {
    over_all(&Misread);
}

#[test]
fn who_is_not_struck_notices_nothing() {
    over_all(&Spared);
}

#[test]
fn a_sync_that_fails_or_lies_makes_nothing_durable() {
    for (fault, result) in [("sync-eio:nth=2", -5), ("sync-lie:nth=2", 0)] {
        let memory = Memory::volatile(BLOCKS * BLOCK).shared();
        let queue = sim("write=20us", &job(1, BLOCK), &memory);
        let stored = Rc::clone(&memory);
        let mut bench =
            Bench::new(queue, fault, Box::new(move || stored.borrow().bytes().to_vec()));
        bench.write_all(1);
        assert_eq!(bench.sync(), 0);
        bench.write_all(2);
        assert_eq!(bench.sync(), result);
        memory.borrow_mut().power_cut();
        bench.assert_stored(Expected::new().put_all(1));
        assert_eq!(bench.log.count(), 1);
        bench.write_all(3);
        assert_eq!(bench.sync(), 0);
        memory.borrow_mut().power_cut();
        bench.assert_stored(Expected::new().put_all(3));
    }
}

#[test]
fn a_sync_that_was_sent_before_the_acknowledgement_releases_nothing() {
    let memory = Memory::zeroed(BLOCKS * BLOCK).shared();
    let queue = sim("servers=4,read=10us,write=20us", &job(4, BLOCK), &memory);
    let stored = Rc::clone(&memory);
    let mut bench =
        Bench::new(queue, "delay:nth=1", Box::new(move || stored.borrow().bytes().to_vec()));
    // The sync goes out together with the write: it owes nothing to it.
    let sync = Transfer { way: Way::Sync, target: 0, offset: 0, skip: 0, bytes: 0 };
    bench.queue.push(1, sync);
    assert_eq!(bench.write(0, 1), BLOCK as i32);
    let mut back = Vec::new();
    bench.queue.enter(1, SECOND_NS).unwrap();
    bench.queue.reap(|slot, result| back.push((slot, result)));
    assert_eq!(back, [(1, 0)]);
    for _ in 0..3 {
        bench.read(0);
    }
    bench.assert_stored(&Expected::new());
    bench.sync();
    for _ in 0..2 {
        bench.read(0);
    }
    bench.assert_stored(Expected::new().put(0, &content(0, 1)));
}

#[test]
fn several_faults_are_several_decorators() {
    let memory = Memory::zeroed(BLOCKS * BLOCK).shared();
    let queue = sim("write=20us", &job(1, BLOCK), &memory);
    let inner = FaultLog::default();
    let queue = FaultQueue::new(queue, "drop:nth=3".parse().unwrap(), site(1), inner.clone());
    let stored = Rc::clone(&memory);
    let mut bench =
        Bench::new(queue, "delay:nth=1", Box::new(move || stored.borrow().bytes().to_vec()));
    bench.write_all(1);
    bench.sync();
    bench.read(0);
    bench.read(0);
    // The inner queue never saw the first write until after the sync.
    bench.assert_stored(Expected::new().put_all(1).put(3, &[0; BLOCK]));
    assert_eq!((inner.count(), bench.log.count()), (1, 1));
}

/// A random mix at depth. Every slot comes back exactly once, whatever is done to it.
fn mix<Q: Queue>(queue: &mut FaultQueue<Q>, depth: usize, ops: u64, seed: u64) {
    let mut chance = Chance::new(seed);
    let mut free: Vec<usize> = (0..depth).collect();
    let mut out: Vec<Option<(Transfer, Vec<u8>)>> = vec![None; depth];
    let (mut pushed, mut back, mut last_ns) = (0, 0, queue.now_ns());
    let mut rounds = 0;
    while back < ops {
        rounds += 1;
        assert!(rounds < 100 * ops + 1000, "{back} of {pushed} came back");
        for _ in 0..chance.below(depth as u64 + 1) {
            if pushed == ops {
                break;
            }
            let Some(slot) = free.pop() else { break };
            let blocks = 1 + chance.below(4);
            let block = chance.below(BLOCKS as u64 - blocks + 1);
            let way = match chance.below(10) {
                0 => Way::Sync,
                1 => Way::Trim,
                2..=4 => Way::Read,
                _ => Way::Write,
            };
            let (offset, bytes) = (block * BLOCK as u64, blocks as u32 * BLOCK as u32);
            let bytes = if way == Way::Sync { 0 } else { bytes };
            queue.buffer(slot).fill(1 + chance.below(255) as u8);
            let transfer = Transfer { way, target: 0, offset, skip: 0, bytes };
            out[slot] = Some((transfer, queue.buffer(slot).to_vec()));
            queue.push(slot, transfer);
            pushed += 1;
        }
        let in_flight = pushed - back;
        let wait_for = chance.below(in_flight + 1) as u32;
        let patience_ns = [0, 1_000, 15_000, SECOND_NS][chance.below(4) as usize];
        queue.enter(wait_for, patience_ns).unwrap();
        let mut finished = Vec::new();
        queue.reap(|slot, result| finished.push((slot, result)));
        if patience_ns == SECOND_NS {
            assert!(finished.len() >= wait_for as usize, "{} of {wait_for}", finished.len());
        }
        let now_ns = queue.now_ns();
        assert!(now_ns >= last_ns, "the clock goes back");
        last_ns = now_ns;
        for (slot, result) in finished {
            let (transfer, written) = out[slot].take().expect("came back unasked");
            if transfer.way == Way::Write {
                assert!(*queue.buffer(slot) == written, "the caller's buffer is the caller's");
            }
            // What fell short is sent again from there on, as the engine does.
            if result > 0 && (result as u32) < transfer.bytes {
                let rest = Transfer {
                    offset: transfer.offset + result as u64,
                    skip: transfer.skip + result as u32,
                    bytes: transfer.bytes - result as u32,
                    ..transfer
                };
                out[slot] = Some((rest, written));
                queue.push(slot, rest);
                continue;
            }
            let is_known = result == transfer.bytes as i32 || [-5, -28, -11].contains(&result);
            assert!(is_known, "{result} for {transfer:?}");
            free.push(slot);
            back += 1;
        }
    }
    queue.enter(0, 0).unwrap();
    queue.reap(|slot, _| panic!("slot {slot} came back unasked"));
    assert_eq!(free.len(), depth);
}

#[test]
fn every_slot_comes_back_once_whatever_is_done_to_it() {
    let models = [
        "servers=4,read=10us,write=20us",
        "servers=8,read=exp:10us,write=exp:20us",
        "servers=2,read=exp:10us,write=exp:20us,error-every=7,errno=11,short-every=5",
    ];
    let mut struck = [0; Fault::ALL.len()];
    for (index, fault) in Fault::ALL.into_iter().enumerate() {
        for depth in 1..=8 {
            for (seed, when) in
                [When::Drawn, When::Every(3), When::All, When::After(20)].into_iter().enumerate()
            {
                let memory = Memory::zeroed(BLOCKS * BLOCK).shared();
                let seed = (seed + depth) as u64;
                let model = models[seed as usize % models.len()];
                let queue = sim(model, &job(depth as u32, 4 * BLOCK), &memory);
                let log = FaultLog::default();
                let injection = Injection { fault, when };
                let mut queue = FaultQueue::new(queue, injection, site(seed), log.clone());
                mix(&mut queue, depth, 200, seed);
                struck[index] += log.count();
            }
        }
    }
    let silent: Vec<Fault> = Fault::ALL
        .into_iter()
        .zip(struck)
        .filter_map(|(fault, struck)| (struck == 0).then_some(fault))
        .collect();
    assert_eq!(silent, [], "these were never done");
}

#[test]
fn every_slot_of_real_queues_comes_back_once() {
    let file = || {
        let file = tempfile::tempfile().unwrap();
        file.set_len((BLOCKS * BLOCK) as u64).unwrap();
        vec![file.into()]
    };
    let uring = ring::probe();
    if let Err(reason) = &uring {
        eprintln!("skipped: a faulty mix over io_uring: {reason}");
    }
    for fault in Fault::ALL {
        let injection = Injection { fault, when: When::Every(3) };
        let log = FaultLog::default();
        let queue = PsyncQueue::open(&job(1, 4 * BLOCK), file(), Clock::monotonic()).unwrap();
        let mut queue = FaultQueue::new(queue, injection, site(5), log.clone());
        mix(&mut queue, 1, 200, 5);
        if uring.is_ok() {
            let job = job(8, 4 * BLOCK);
            let engine = Engine::of(EngineKind::IoUring);
            let queue = UringQueue::open(&job, &engine, file(), Clock::monotonic()).unwrap();
            let mut queue = FaultQueue::new(queue, injection, site(6), log.clone());
            mix(&mut queue, 8, 200, 6);
        }
        assert!(log.count() > 0, "{fault} was never done");
    }
}

#[test]
fn no_byte_is_wrong_that_the_log_does_not_name() {
    let (whole, in_part) = ("write=20us", "write=20us,short-every=3");
    for (fault, model, seed) in
        Fault::ALL.into_iter().flat_map(|fault| [(fault, whole, 1), (fault, in_part, 2)])
    {
        let memory = Memory::zeroed(BLOCKS * BLOCK).shared();
        let stored = Rc::clone(&memory);
        let injection = Injection { fault, when: When::Every(7) };
        let queue = sim(model, &job(1, 4 * BLOCK), &memory);
        let stored = Box::new(move || stored.borrow().bytes().to_vec());
        let mut bench = Bench::new(queue, &injection.to_string(), stored);
        let mut told = vec![0; BLOCKS * BLOCK];
        let mut was_wrong = false;
        let mut chance = Chance::new(seed);
        for serial in 0..700 {
            let blocks = 1 + chance.below(4) as usize;
            let block = chance.below((BLOCKS - blocks + 1) as u64) as usize;
            let way = [Way::Write, Way::Write, Way::Write, Way::Read, Way::Trim, Way::Sync];
            let way = way[chance.below(6) as usize];
            let bytes = if way == Way::Sync { 0 } else { (blocks * BLOCK) as u32 };
            let transfer = Transfer { bytes, ..transfer(way, block) };
            let mut content = Chance::new(serial);
            let buffer = bench.queue.buffer(0);
            buffer.fill_with(|| 1 + content.below(255) as u8);
            let written = buffer.to_vec();
            let moved = bench.carry_out(transfer).max(0) as usize;
            let place = &mut told[block * BLOCK..][..moved];
            match way {
                Way::Write => place.copy_from_slice(&written[..moved]),
                Way::Trim => place.fill(0),
                Way::Read | Way::Sync => {}
            }
            was_wrong |= told != memory.borrow().bytes();
        }
        let entries = bench.injected();
        assert_eq!(bench.log.count(), entries.len() as u64);
        let is_named = |at: u64| {
            entries.iter().any(|harm| {
                let starts = [Some(harm.offset), harm.elsewhere];
                starts.iter().flatten().any(|start| (*start..start + harm.bytes).contains(&at))
            })
        };
        let stored = (bench.stored)();
        let wrong: Vec<usize> = (0..told.len()).filter(|at| told[*at] != stored[*at]).collect();
        let unnamed = wrong.iter().find(|at| !is_named(**at as u64));
        assert_eq!(unnamed, None, "{injection} on {model}");
        let harmless = fault.way() != Way::Write
            || matches!(fault, Fault::WriteEio | Fault::Enospc | Fault::Short);
        assert_eq!(was_wrong, !harmless, "{injection} on {model}");
    }
}

#[test]
fn the_same_seed_does_the_same_wrong() {
    for fault in Fault::ALL {
        let run = || {
            let memory = Memory::zeroed(BLOCKS * BLOCK).shared();
            let queue = sim("servers=4,read=exp:10us,write=exp:20us", &job(4, 4 * BLOCK), &memory);
            let log = FaultLog::default();
            let injection = Injection { fault, when: When::Every(5) };
            let mut queue = FaultQueue::new(queue, injection, site(9), log.clone());
            mix(&mut queue, 4, 500, 9);
            (log.entries(), memory.borrow().bytes().to_vec())
        };
        assert!(run() == run(), "{fault}");
    }
}

#[test]
fn the_log_is_bounded_and_counts_all() {
    let memory = Memory::zeroed(BLOCKS * BLOCK).shared();
    let log = FaultLog::default();
    let queue = sim("write=20us", &job(1, BLOCK), &memory);
    let queue = FaultQueue::new(queue, "drop:all".parse().unwrap(), site(1), log.clone());
    let mut bench = Bench { queue, log, stored: Box::new(Vec::new) };
    for _ in 0..200 {
        bench.write_all(1);
    }
    assert_eq!((bench.log.count(), bench.injected().len()), (1600, 1024));
}
