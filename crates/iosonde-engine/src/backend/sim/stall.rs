//! Stalls: at regular intervals the device completes nothing for a while.

use super::{Device, Served, Transfer};

/// Every `every_ns`, no request completes for `length_ns`.
pub struct Stalling {
    inner: Box<dyn Device>,
    every_ns: u64,
    length_ns: u64,
}

impl Stalling {
    /// A stalling device; the first stall begins after `every_ns`.
    pub fn new(inner: Box<dyn Device>, every_ns: u64, length_ns: u64) -> Stalling {
        Stalling { inner, every_ns: every_ns.max(1), length_ns }
    }
}

impl Device for Stalling {
    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Served {
        let served = self.inner.serve(now_ns, transfer);
        let stall_ns = served.done_ns / self.every_ns * self.every_ns;
        let in_stall = stall_ns > 0 && served.done_ns < stall_ns + self.length_ns;
        let done_ns = if in_stall { stall_ns + self.length_ns } else { served.done_ns };
        Served { done_ns, ..served }
    }
}
