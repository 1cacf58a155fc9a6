//! Random requests at depth: every slot completes once, and the log lists all damage.

use std::rc::Rc;

use iosonde_engine::backend::fault::{Fault, FaultLog, FaultQueue, Injection, When};
use iosonde_engine::backend::psync::PsyncQueue;
use iosonde_engine::backend::sim::Memory;
use iosonde_engine::backend::uring::UringQueue;
use iosonde_engine::backend::{Queue, Transfer};
use iosonde_model::plan::chance::Chance;
use iosonde_model::plan::{Engine, EngineKind, IoKind};
use iosonde_rig::skip_part;
use iosonde_sys::{Clock, ring};

use crate::bench::{BLOCK, BLOCKS, Bench, SECOND_NS, job, sim, site, transfer};

/// A random mix at depth. Every slot completes exactly once, whatever the fault.
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
                0 => IoKind::Sync,
                1 => IoKind::Trim,
                2..=4 => IoKind::Read,
                _ => IoKind::Write,
            };
            let (offset, bytes) = (block * BLOCK as u64, blocks as u32 * BLOCK as u32);
            let bytes = if way == IoKind::Sync { 0 } else { bytes };
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
            if transfer.way == IoKind::Write {
                assert!(*queue.buffer(slot) == written, "the caller's buffer is the caller's");
            }
            // The rest of a short transfer is sent again, as the engine does.
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
        skip_part("io_uring", reason);
    }
    for fault in Fault::ALL {
        let injection = Injection { fault, when: When::Every(3) };
        let log = FaultLog::default();
        let (one, engine) = (job(1, 4 * BLOCK), Engine::of(EngineKind::Psync));
        let queue = PsyncQueue::open(&one, &engine, file(), Clock::monotonic()).unwrap();
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
        let mut reported = vec![0; BLOCKS * BLOCK];
        let mut was_wrong = false;
        let mut chance = Chance::new(seed);
        for serial in 0..700 {
            let blocks = 1 + chance.below(4) as usize;
            let block = chance.below((BLOCKS - blocks + 1) as u64) as usize;
            let way = [
                IoKind::Write,
                IoKind::Write,
                IoKind::Write,
                IoKind::Read,
                IoKind::Trim,
                IoKind::Sync,
            ];
            let way = way[chance.below(6) as usize];
            let bytes = if way == IoKind::Sync { 0 } else { (blocks * BLOCK) as u32 };
            let transfer = Transfer { bytes, ..transfer(way, block) };
            let mut content = Chance::new(serial);
            let buffer = bench.queue.buffer(0);
            buffer.fill_with(|| 1 + content.below(255) as u8);
            let written = buffer.to_vec();
            let moved = bench.execute(transfer).max(0) as usize;
            let place = &mut reported[block * BLOCK..][..moved];
            match way {
                IoKind::Write => place.copy_from_slice(&written[..moved]),
                IoKind::Trim => place.fill(0),
                IoKind::Read | IoKind::Sync => {}
            }
            was_wrong |= reported != memory.borrow().bytes();
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
        let wrong: Vec<usize> =
            (0..reported.len()).filter(|at| reported[*at] != stored[*at]).collect();
        let unnamed = wrong.iter().find(|at| !is_named(**at as u64));
        assert_eq!(unnamed, None, "{injection} on {model}");
        let harmless = fault.way() != IoKind::Write
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
