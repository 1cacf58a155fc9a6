//! A queue of any engine behind a pointer, for a loop with so much work per request that an
//! indirect call does not matter, and that would otherwise be compiled once per engine.

use std::io;

use super::{Queue, QueueFacts, Transfer};

/// A queue whose type is known only at run time.
pub(crate) struct AnyQueue(Box<dyn Calls>);

impl AnyQueue {
    /// Hides the type of this queue.
    pub(crate) fn new(queue: impl Queue + 'static) -> AnyQueue {
        AnyQueue(Box::new(queue))
    }
}

/// [`Queue`] as a dyn-compatible trait.
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

macro_rules! own {
    ($queue:ident Queue $call:ident($($value:expr),*)) => { Queue::$call($queue, $($value),*) };
}

impl<Q: Queue> Calls for Q {
    forward!(own Queue: now_ns buffer push set_priority enter pause give_back syscalls facts);

    fn reap(&mut self, done: &mut dyn FnMut(usize, i32)) {
        Queue::reap(self, done);
    }
}

impl Queue for AnyQueue {
    forward!(field 0: now_ns buffer push set_priority enter pause give_back syscalls facts);

    fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        self.0.reap(&mut done);
    }
}
