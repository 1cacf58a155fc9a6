//! Requests that fail with an errno, or complete short.

use super::{Device, Served, Transfer};

/// The fault of a chosen request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// It fails with this errno.
    Errno(i32),
    /// Half of its bytes are moved, rounded up to 512.
    Short,
}

/// Injects a fault into every `every`-th request after the first `after`.
pub struct Faulty {
    inner: Box<dyn Device>,
    fault: Fault,
    every: u64,
    after: u64,
    seen: u64,
}

impl Faulty {
    /// A faulty device; `every` counts from 1.
    pub fn new(inner: Box<dyn Device>, fault: Fault, every: u64, after: u64) -> Faulty {
        Faulty { inner, fault, every: every.max(1), after, seen: 0 }
    }
}

impl Device for Faulty {
    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Served {
        self.seen += 1;
        let served = self.inner.serve(now_ns, transfer);
        if self.seen <= self.after || !(self.seen - self.after).is_multiple_of(self.every) {
            return served;
        }
        let result = match self.fault {
            Fault::Errno(errno) => -errno,
            Fault::Short => (transfer.bytes / 2).next_multiple_of(512).min(transfer.bytes) as i32,
        };
        Served { result, ..served }
    }
}
