//! A queue of whichever engine, called through a pointer: for a loop that does so much per request
//! that a call does not show, and that would otherwise be compiled once per engine.

use std::io;

use super::{Queue, QueueFacts, Transfer};

/// A queue whose type is known only when it runs.
pub(crate) struct AnyQueue(Box<dyn Calls>);

impl AnyQueue {
    /// Hides the type of this queue.
    pub(crate) fn new(queue: impl Queue + 'static) -> AnyQueue {
        AnyQueue(Box::new(queue))
    }
}

/// [`Queue`], as far as a pointer can have it.
trait Calls {
    fn now_ns(&self) -> u64;
    fn buffer(&mut self, slot: usize) -> &mut [u8];
    fn push(&mut self, slot: usize, transfer: Transfer);
    fn set_priority(&mut self, slot: usize, priority: u16);
    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()>;
    fn pause(&mut self, until_ns: u64);
    fn give_back(&mut self);
    fn syscalls(&self) -> u64;
    fn facts(&self) -> QueueFacts;
    fn reap(&mut self, done: &mut dyn FnMut(usize, i32));
}

impl<Q: Queue> Calls for Q {
    fn now_ns(&self) -> u64 {
        Queue::now_ns(self)
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        Queue::buffer(self, slot)
    }

    fn push(&mut self, slot: usize, transfer: Transfer) {
        Queue::push(self, slot, transfer)
    }

    fn set_priority(&mut self, slot: usize, priority: u16) {
        Queue::set_priority(self, slot, priority)
    }

    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        Queue::enter(self, wait_for, patience_ns)
    }

    fn pause(&mut self, until_ns: u64) {
        Queue::pause(self, until_ns)
    }

    fn give_back(&mut self) {
        Queue::give_back(self)
    }

    fn syscalls(&self) -> u64 {
        Queue::syscalls(self)
    }

    fn facts(&self) -> QueueFacts {
        Queue::facts(self)
    }

    fn reap(&mut self, done: &mut dyn FnMut(usize, i32)) {
        Queue::reap(self, done);
    }
}

impl Queue for AnyQueue {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.0.buffer(slot)
    }

    fn push(&mut self, slot: usize, transfer: Transfer) {
        self.0.push(slot, transfer)
    }

    fn set_priority(&mut self, slot: usize, priority: u16) {
        self.0.set_priority(slot, priority)
    }

    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        self.0.enter(wait_for, patience_ns)
    }

    fn pause(&mut self, until_ns: u64) {
        self.0.pause(until_ns)
    }

    fn give_back(&mut self) {
        self.0.give_back()
    }

    fn syscalls(&self) -> u64 {
        self.0.syscalls()
    }

    fn facts(&self) -> QueueFacts {
        self.0.facts()
    }

    fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        self.0.reap(&mut done);
    }
}
