//! A simulated device in virtual time: the true engine runs against a known truth in milliseconds.
//!
//! A [`Device`] answers, for a request that arrives now, when it will be finished and how. Models
//! compose: the servers stand innermost, and each further file of this folder wraps what is inside
//! it. All jobs share one device, and are stepped in the order of their own clocks, so that
//! requests reach it in the order of time.

pub mod bucket;
pub mod cache;
pub mod errors;
pub mod model;
pub mod servers;
pub mod stall;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::rc::Rc;

use super::{Queue, QueueFacts, Transfer};
use crate::plan::Job;

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
    staged: Vec<(usize, Transfer)>,
    /// In flight, earliest completion first; slot and result come along.
    in_flight: BinaryHeap<Reverse<(u64, usize, i32)>>,
    finished: Vec<(usize, i32)>,
}

impl SimQueue {
    /// A queue for this job.
    pub fn open(job: &Job, device: SharedDevice) -> SimQueue {
        let depth = job.iodepth as usize;
        SimQueue {
            device,
            now_ns: 0,
            buffer: vec![0; job.block_bytes as usize],
            staged: Vec::with_capacity(depth),
            in_flight: BinaryHeap::with_capacity(depth),
            finished: Vec::with_capacity(depth),
        }
    }

    /// Moves on to the earliest completion.
    fn advance(&mut self) {
        if let Some(Reverse((done_ns, slot, result))) = self.in_flight.pop() {
            self.now_ns = self.now_ns.max(done_ns);
            self.finished.push((slot, result));
        }
    }
}

impl Queue for SimQueue {
    const WAKES_LATE_NS: u64 = 0;

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn buffer(&mut self, _slot: usize) -> &mut [u8] {
        &mut self.buffer
    }

    fn push(&mut self, slot: usize, transfer: Transfer) {
        self.staged.push((slot, transfer));
    }

    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        let mut device = self.device.borrow_mut();
        for (slot, transfer) in self.staged.drain(..) {
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
