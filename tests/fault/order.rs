//! Which writes a sync must make durable, and several faults at once.

use std::rc::Rc;

use iosonde_engine::backend::fault::{FaultLog, FaultQueue};
use iosonde_engine::backend::sim::Memory;
use iosonde_engine::backend::{Queue, Transfer};
use iosonde_model::plan::IoKind;

use crate::bench::{BLOCK, BLOCKS, Bench, Expected, SECOND_NS, content, job, sim, site};

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
    // The sync is sent together with the write, so it need not make the write durable.
    let sync = Transfer { way: IoKind::Sync, target: 0, offset: 0, skip: 0, bytes: 0 };
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
    // The delayed write reached the inner queue only after the sync.
    bench.assert_stored(Expected::new().put_all(1).put(3, &[0; BLOCK]));
    assert_eq!((inner.count(), bench.log.count()), (1, 1));
}
