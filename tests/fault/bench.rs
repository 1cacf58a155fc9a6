//! A queue with faults, driven one request at a time, and the expected content of its storage.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;

use iosonde_engine::backend::fault::{FaultLog, FaultQueue, Injected, Site};
use iosonde_engine::backend::psync::PsyncQueue;
use iosonde_engine::backend::sim::memory::SharedMemory;
use iosonde_engine::backend::sim::{Memory, Model, SimQueue};
use iosonde_engine::backend::uring::UringQueue;
use iosonde_engine::backend::{Queue, Transfer};
use iosonde_model::plan::chance::Chance;
use iosonde_model::plan::{Engine, EngineKind, IoKind, Job};
use iosonde_rig::skip_part;
use iosonde_sys::{Clock, ring};

pub(crate) const BLOCK: usize = 4096;
pub(crate) const SECTOR: usize = 512;
/// Blocks of the target; the scenarios write the first [`WRITTEN`].
pub(crate) const BLOCKS: usize = 32;
pub(crate) const WRITTEN: usize = 8;
/// The block that the fault strikes.
pub(crate) const STRUCK: usize = 2;
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

pub(crate) fn job(depth: u32, block_bytes: usize) -> Job {
    Job {
        block_bytes: block_bytes as u64,
        read_percent: 50,
        region_bytes: (BLOCKS * BLOCK) as u64,
        iodepth: depth,
        ..Job::default()
    }
}

pub(crate) fn site(seed: u64) -> Site {
    Site {
        region_start: 0,
        region_bytes: (BLOCKS * BLOCK) as u64,
        block_bytes: BLOCK as u64,
        sector_bytes: SECTOR as u64,
        seed,
        forge: |block| block.reverse(),
    }
}

pub(crate) fn sim(model: &str, job: &Job, memory: &SharedMemory) -> SimQueue {
    let device = Rc::new(RefCell::new(Model::parse(model).unwrap().build(1)));
    SimQueue::with_memory(job, device, Rc::clone(memory))
}

/// Content of a block in this generation: no zero bytes, and no two blocks alike.
pub(crate) fn content(block: usize, generation: usize) -> Vec<u8> {
    let mut chance = Chance::new((generation * BLOCKS + block) as u64);
    (0..BLOCK).map(|_| 1 + chance.below(255) as u8).collect()
}

/// The expected content of the storage, changed step by step.
pub(crate) struct Expected(pub(crate) Vec<u8>);

impl Expected {
    pub(crate) fn new() -> Expected {
        Expected(vec![0; BLOCKS * BLOCK])
    }

    pub(crate) fn put(&mut self, block: usize, bytes: &[u8]) -> &mut Expected {
        self.0[block * BLOCK..][..bytes.len()].copy_from_slice(bytes);
        self
    }

    pub(crate) fn put_all(&mut self, generation: usize) -> &mut Expected {
        for block in 0..WRITTEN {
            self.put(block, &content(block, generation));
        }
        self
    }
}

/// A queue with faults, driven one request at a time.
pub(crate) struct Bench<Q: Queue> {
    pub(crate) queue: FaultQueue<Q>,
    pub(crate) log: FaultLog,
    pub(crate) stored: Box<dyn Fn() -> Vec<u8>>,
}

impl<Q: Queue> Bench<Q> {
    pub(crate) fn new(inner: Q, fault: &str, stored: Box<dyn Fn() -> Vec<u8>>) -> Bench<Q> {
        let log = FaultLog::default();
        let queue = FaultQueue::new(inner, fault.parse().unwrap(), site(11), log.clone());
        Bench { queue, log, stored }
    }

    pub(crate) fn execute(&mut self, transfer: Transfer) -> i32 {
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

    pub(crate) fn sync(&mut self) -> i32 {
        self.execute(Transfer { way: IoKind::Sync, target: 0, offset: 0, skip: 0, bytes: 0 })
    }

    pub(crate) fn write(&mut self, block: usize, generation: usize) -> i32 {
        let written = content(block, generation);
        self.queue.buffer(0)[..BLOCK].copy_from_slice(&written);
        let result = self.execute(transfer(IoKind::Write, block));
        assert!(self.queue.buffer(0)[..BLOCK] == written, "the caller's buffer is the caller's");
        result
    }

    /// Writes every block; each write must be reported as complete.
    pub(crate) fn write_all(&mut self, generation: usize) {
        for block in 0..WRITTEN {
            assert_eq!(self.write(block, generation), BLOCK as i32);
        }
    }

    pub(crate) fn read(&mut self, block: usize) -> (i32, Vec<u8>) {
        self.queue.buffer(0).fill(0xee);
        let result = self.execute(transfer(IoKind::Read, block));
        (result, self.queue.buffer(0)[..BLOCK].to_vec())
    }

    pub(crate) fn injected(&self) -> Vec<Injected> {
        self.log.entries()
    }

    pub(crate) fn assert_stored(&self, expected: &Expected) {
        let stored = (self.stored)();
        let wrong = (0..BLOCKS * BLOCK / SECTOR)
            .filter(|at| stored[at * SECTOR..][..SECTOR] != expected.0[at * SECTOR..][..SECTOR]);
        assert_eq!(wrong.collect::<Vec<_>>(), [0; 0], "{}: sectors", self.queue.injection());
    }
}

pub(crate) fn transfer(way: IoKind, block: usize) -> Transfer {
    Transfer { way, target: 0, offset: (block * BLOCK) as u64, skip: 0, bytes: BLOCK as u32 }
}

/// A test that runs over every queue.
pub(crate) trait Scenario {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>);
}

pub(crate) fn over_sim(scenario: &impl Scenario) {
    scenario.play(|fault| {
        let memory = Memory::zeroed(BLOCKS * BLOCK).shared();
        let queue = sim("servers=4,read=10us,write=20us", &job(4, BLOCK), &memory);
        Bench::new(queue, fault, Box::new(move || memory.borrow().bytes().to_vec()))
    });
}

pub(crate) fn over_files(scenario: &impl Scenario) {
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
        let engine = Engine::of(EngineKind::Psync);
        let queue = PsyncQueue::open(&job(1, BLOCK), &engine, fresh(), Clock::monotonic()).unwrap();
        Bench::new(queue, fault, stored())
    });
    if let Err(reason) = ring::probe() {
        skip_part("io_uring", reason);
        return;
    }
    scenario.play(|fault| {
        let engine = Engine::of(EngineKind::IoUring);
        let queue = UringQueue::open(&job(4, BLOCK), &engine, fresh(), Clock::monotonic()).unwrap();
        Bench::new(queue, fault, stored())
    });
}

pub(crate) fn over_all(scenario: &impl Scenario) {
    over_sim(scenario);
    over_files(scenario);
}
