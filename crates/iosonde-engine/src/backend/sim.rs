//! A simulated device in virtual time: the real engine meets known behaviour in milliseconds.
//!
//! A [`Device`] decides for an arriving request when it completes and how. Models compose: the
//! servers are innermost, and each other model of this folder wraps a device. All jobs share one
//! device and are stepped in the order of their clocks, so that requests reach it in the order of
//! time.

pub mod bucket;
pub mod cache;
pub mod errors;
pub mod flash;
pub mod memory;
pub mod model;
pub mod neighbour;
pub mod pace;
pub mod platter;
pub mod servers;
pub mod slow;
pub mod stall;
pub mod watched;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::rc::Rc;

use super::{Queue, QueueFacts, Transfer};
use iosonde_model::plan::{IoKind, Job};

use memory::SharedMemory;

pub use memory::Memory;
pub use model::{Model, ModelError};

/// When a request is finished, and with what result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Served {
    /// Virtual time of completion, ns.
    pub done_ns: u64,
    /// Bytes moved, or a negated errno.
    pub result: i32,
}

/// A simulated device.
pub trait Device {
    /// Takes a request that arrives at `now_ns`; times never decrease from call to call.
    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Served;
}

/// A device that the queues of all jobs share.
pub type SharedDevice = Rc<RefCell<Box<dyn Device>>>;

/// One job's queue to the simulated device, with the job's own virtual clock.
pub struct SimQueue {
    device: SharedDevice,
    now_ns: u64,
    buffer: Vec<u8>,
    block_bytes: usize,
    /// Distance between the buffers of two slots; 0 where all share one.
    stride_bytes: usize,
    /// Data stored; without it, no bytes move.
    store: Option<Store>,
    staged: Vec<(usize, Transfer)>,
    /// Completion time, slot and result of each request in flight, earliest completion first.
    in_flight: BinaryHeap<Reverse<(u64, usize, i32)>>,
    finished: Vec<(usize, i32)>,
}

/// The device's memory, and the request of each slot.
struct Store {
    memory: SharedMemory,
    requested: Vec<Requested>,
}

#[derive(Clone, Copy)]
struct Requested {
    transfer: Transfer,
    /// A sync covers the changes before this mark.
    mark: u64,
}

impl SimQueue {
    /// A queue for this job, with one buffer for all slots, which stores nothing.
    pub fn open(job: &Job, device: SharedDevice) -> SimQueue {
        let depth = job.iodepth as usize;
        SimQueue {
            device,
            now_ns: 0,
            buffer: vec![0; job.block_bytes as usize],
            block_bytes: job.block_bytes as usize,
            stride_bytes: 0,
            store: None,
            staged: Vec::with_capacity(depth),
            in_flight: BinaryHeap::with_capacity(depth),
            finished: Vec::with_capacity(depth),
        }
    }

    /// A queue for this job that moves bytes at completion, between a buffer per slot and this
    /// memory, which represents every target.
    pub fn with_memory(job: &Job, device: SharedDevice, memory: SharedMemory) -> SimQueue {
        let (depth, block_bytes) = (job.iodepth as usize, job.block_bytes as usize);
        let transfer = Transfer { way: IoKind::Sync, target: 0, offset: 0, skip: 0, bytes: 0 };
        let requested = vec![Requested { transfer, mark: 0 }; depth];
        SimQueue {
            buffer: vec![0; depth * block_bytes],
            stride_bytes: block_bytes,
            store: Some(Store { memory, requested }),
            ..SimQueue::open(job, device)
        }
    }

    /// Advances the clock to the earliest completion.
    fn advance(&mut self) {
        if let Some(Reverse((done_ns, slot, result))) = self.in_flight.pop() {
            self.now_ns = self.now_ns.max(done_ns);
            let result = if self.store.is_some() { self.move_bytes(slot, result) } else { result };
            self.finished.push((slot, result));
        }
    }

    /// Applies a request to the memory, up to the device's result; returns the bytes moved.
    fn move_bytes(&mut self, slot: usize, result: i32) -> i32 {
        let start = slot * self.stride_bytes;
        let Some(store) = self.store.as_mut().filter(|_| result >= 0) else { return result };
        let Requested { transfer, mark } = store.requested[slot];
        let from = start + transfer.skip as usize;
        let buffer = &mut self.buffer[from..from + result as usize];
        let mut memory = store.memory.borrow_mut();
        let moved = match transfer.way {
            IoKind::Read => memory.read(transfer.offset, buffer),
            IoKind::Write => memory.write(transfer.offset, buffer),
            IoKind::Trim => memory.zero(transfer.offset, result as usize),
            IoKind::Sync => {
                memory.sync_until(mark);
                0
            }
        };
        moved as i32
    }
}

impl Queue for SimQueue {
    const WAKES_LATE_NS: u64 = 0;
    const IS_VIRTUAL: bool = true;

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        let from = slot * self.stride_bytes;
        &mut self.buffer[from..from + self.block_bytes]
    }

    fn push(&mut self, slot: usize, transfer: Transfer) {
        self.staged.push((slot, transfer));
    }

    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        let mut device = self.device.borrow_mut();
        for (slot, transfer) in self.staged.drain(..) {
            if let Some(store) = &mut self.store {
                store.requested[slot] = Requested { transfer, mark: store.memory.borrow().mark() };
            }
            let served = device.serve(self.now_ns, &transfer);
            self.in_flight.push(Reverse((served.done_ns, slot, served.result)));
        }
        drop(device);
        let limit_ns = self.now_ns.saturating_add(patience_ns);
        for _ in 0..wait_for {
            match self.in_flight.peek() {
                Some(Reverse((done_ns, ..))) if *done_ns <= limit_ns => self.advance(),
                Some(_) => {
                    self.now_ns = limit_ns;
                    break;
                }
                None => break,
            }
        }
        while self.in_flight.peek().is_some_and(|Reverse((done, ..))| *done <= self.now_ns) {
            self.advance();
        }
        Ok(())
    }

    fn pause(&mut self, until_ns: u64) {
        self.now_ns = self.now_ns.max(until_ns);
    }

    fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        for (slot, result) in self.finished.drain(..) {
            done(slot, result);
        }
    }

    fn syscalls(&self) -> u64 {
        0
    }

    fn facts(&self) -> QueueFacts {
        QueueFacts::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const BLOCK: usize = 4096;

    /// A queue of four slots over sixteen blocks.
    fn queue(model: &str, memory: &SharedMemory) -> SimQueue {
        let device = Rc::new(RefCell::new(Model::parse(model).unwrap().build(1)));
        let job = Job { iodepth: 4, block_bytes: BLOCK as u64, ..Job::default() };
        SimQueue::with_memory(&job, device, Rc::clone(memory))
    }

    fn transfer(way: IoKind, block: u64) -> Transfer {
        let bytes = if way == IoKind::Sync { 0 } else { BLOCK as u32 };
        Transfer { way, target: 0, offset: block * BLOCK as u64, skip: 0, bytes }
    }

    /// Waits for `count` requests; returns the completions in order.
    fn all(queue: &mut SimQueue, count: u32) -> Vec<(usize, i32)> {
        queue.enter(count, u64::MAX).unwrap();
        let mut back = Vec::new();
        queue.reap(|slot, result| back.push((slot, result)));
        back
    }

    #[test]
    fn bytes_move_when_a_request_is_completed() {
        let memory = Memory::zeroed(16 * BLOCK).shared();
        let mut queue = queue("servers=4,read=1us,write=10us", &memory);
        queue.buffer(0).fill(1);
        queue.buffer(1).fill(9);
        queue.push(0, transfer(IoKind::Write, 2));
        // Sent at the same time, but completed first: it reads the old content.
        queue.push(1, transfer(IoKind::Read, 2));
        assert_eq!(all(&mut queue, 1), [(1, BLOCK as i32)]);
        assert!(queue.buffer(1).iter().all(|byte| *byte == 0));
        assert!(memory.borrow().bytes().iter().all(|byte| *byte == 0));
        assert_eq!(all(&mut queue, 1), [(0, BLOCK as i32)]);
        queue.push(1, transfer(IoKind::Read, 2));
        assert_eq!(all(&mut queue, 1), [(1, BLOCK as i32)]);
        assert!(queue.buffer(1).iter().all(|byte| *byte == 1));
        assert_eq!(memory.borrow().bytes().iter().filter(|byte| **byte != 0).count(), BLOCK);
        queue.push(3, transfer(IoKind::Trim, 2));
        assert_eq!(all(&mut queue, 1), [(3, BLOCK as i32)]);
        assert!(memory.borrow().bytes().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn an_error_moves_nothing_and_a_short_transfer_a_part() {
        let memory = Memory::zeroed(16 * BLOCK).shared();
        let mut failing = queue("error-every=1,errno=5", &memory);
        failing.buffer(0).fill(1);
        failing.push(0, transfer(IoKind::Write, 0));
        assert_eq!(all(&mut failing, 1), [(0, -5)]);
        assert!(memory.borrow().bytes().iter().all(|byte| *byte == 0));
        let mut short = queue("short-every=1", &memory);
        short.buffer(0).fill(2);
        short.buffer(0)[..512].fill(3);
        short.push(0, Transfer { skip: 512, bytes: 2048, ..transfer(IoKind::Write, 1) });
        assert_eq!(all(&mut short, 1), [(0, 1024)]);
        assert_eq!(memory.borrow().bytes()[BLOCK..BLOCK + 1024], [2; 1024]);
        assert_eq!(memory.borrow().bytes().iter().filter(|byte| **byte != 0).count(), 1024);
    }

    #[test]
    fn a_sync_makes_durable_what_was_completed_before_it() {
        let memory = Memory::volatile(16 * BLOCK).shared();
        let mut queue = queue("servers=4,write=10us", &memory);
        for slot in 0..2 {
            queue.buffer(slot).fill(1);
        }
        queue.push(0, transfer(IoKind::Write, 0));
        all(&mut queue, 1);
        queue.push(1, transfer(IoKind::Write, 1));
        queue.push(2, transfer(IoKind::Sync, 0));
        assert_eq!(all(&mut queue, 2), [(1, BLOCK as i32), (2, 0)]);
        assert_eq!(memory.borrow_mut().power_cut(), 1);
        assert_eq!(memory.borrow().bytes()[..BLOCK], [1; BLOCK]);
        assert!(memory.borrow().bytes()[BLOCK..].iter().all(|byte| *byte == 0));
    }
}
