//! Slow periods: at regular intervals the device is slower by a factor.

use super::{Device, Served, Transfer};

/// From `every_ns` on, and each `every_ns` after that, the device's own time runs slower by
/// `factor` for `length_ns`.
pub struct Slow {
    inner: Box<dyn Device>,
    every_ns: u64,
    length_ns: u64,
    factor: u64,
}

impl Slow {
    /// A device that is slow at times; `length_ns` is limited to `every_ns`.
    pub fn new(inner: Box<dyn Device>, every_ns: u64, length_ns: u64, factor: u64) -> Slow {
        let every_ns = every_ns.max(1);
        Slow { inner, every_ns, length_ns: length_ns.min(every_ns), factor: factor.max(1) }
    }

    /// Device time that passes in `length_ns`.
    fn slowed_ns(&self) -> u64 {
        self.length_ns / self.factor
    }

    /// Device time that passes in `every_ns`.
    fn period_ns(&self) -> u64 {
        self.every_ns - self.length_ns + self.slowed_ns()
    }

    fn own_ns(&self, ns: u64) -> u64 {
        let Some(since_ns) = ns.checked_sub(self.every_ns) else { return ns };
        let (periods, rest_ns) = (since_ns / self.every_ns, since_ns % self.every_ns);
        let rest_ns = match rest_ns.checked_sub(self.length_ns) {
            Some(quick_ns) => self.slowed_ns() + quick_ns,
            None => rest_ns / self.factor,
        };
        self.every_ns + periods * self.period_ns() + rest_ns
    }

    fn clock_ns(&self, own_ns: u64) -> u64 {
        let Some(since_ns) = own_ns.checked_sub(self.every_ns) else { return own_ns };
        let period_ns = self.period_ns().max(1);
        let (periods, rest_ns) = (since_ns / period_ns, since_ns % period_ns);
        let rest_ns = match rest_ns.checked_sub(self.slowed_ns()) {
            Some(quick_ns) => self.length_ns + quick_ns,
            None => rest_ns * self.factor,
        };
        self.every_ns + periods * self.every_ns + rest_ns
    }
}

impl Device for Slow {
    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Served {
        let served = self.inner.serve(self.own_ns(now_ns), transfer);
        Served { done_ns: self.clock_ns(served.done_ns).max(now_ns), ..served }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::Model;
    use super::*;

    #[test]
    fn times_of_the_device_and_of_the_clock_map_onto_each_other() {
        let slow = Slow::new(Model::parse("").unwrap().build(1), 1_000, 200, 10);
        let pairs = [(0, 0), (999, 999), (1_000, 1_000), (1_100, 1_010), (1_200, 1_020)];
        for (ns, own_ns) in pairs.into_iter().chain([(1_999, 1_819), (2_100, 1_830)]) {
            assert_eq!(slow.own_ns(ns), own_ns);
            assert_eq!(slow.clock_ns(own_ns), ns);
        }
    }
}
