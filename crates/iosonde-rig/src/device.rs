//! Model of the device: service times and faults of requests. It has no clock and no thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::fault::{Effect, Op, Progress};
use crate::latency::Rng;
use crate::script::Script;

/// The device's decision about one request. Times are ns of the caller's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Kind of request.
    pub op: Op,
    /// When the request arrived.
    pub arrived_ns: u64,
    /// When a server began to serve it.
    pub start_ns: u64,
    /// When it completes.
    pub due_ns: u64,
    /// The fault that strikes it, if any.
    pub effect: Option<Effect>,
}

/// Servers, random number generators and the state of the faults.
#[derive(Debug)]
pub struct Device {
    script: Script,
    rngs: [Rng; 3],
    free_ns: BinaryHeap<Reverse<u64>>,
    epoch_ns: Option<u64>,
    progress: Vec<Progress>,
}

impl Device {
    /// An idle device whose clock starts with the first read or write.
    pub fn new(script: Script) -> Self {
        let mut seeds = Rng::new(script.seed);
        Self {
            rngs: std::array::from_fn(|_| Rng::new(seeds.next_u64())),
            free_ns: (0..script.servers).map(|_| Reverse(0)).collect(),
            epoch_ns: None,
            progress: vec![Progress::default(); script.faults.len()],
            script,
        }
    }

    /// The script of this device.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// Restarts the clock and the fault counters at the next read or write, so that a test can lay
    /// out its file first.
    pub fn restart(&mut self) {
        self.epoch_ns = None;
        self.progress.fill(Progress::default());
    }

    /// Each fault as written, with how often it struck. A stall of the whole device is not counted.
    pub fn fired(&self) -> Vec<(String, u64)> {
        let texts = self.script.faults.iter().map(|fault| fault.text.clone());
        texts.zip(self.progress.iter().map(|progress| progress.fired)).collect()
    }

    /// Decides when and how a request that arrives at `now_ns` is answered. Calls must be in order
    /// of `now_ns`.
    pub fn admit(&mut self, now_ns: u64, op: Op, offset: u64, length: u64) -> Ticket {
        if self.epoch_ns.is_none() && op != Op::Sync {
            self.epoch_ns = Some(now_ns);
        }
        let epoch_ns = self.epoch_ns.unwrap_or(now_ns);
        let at_ns = now_ns - epoch_ns;
        let effect = self.strike(at_ns, op, offset, length);
        let start_ns = match self.free_ns.pop() {
            Some(Reverse(free_ns)) => free_ns.max(now_ns),
            None => now_ns,
        };
        let extra_ns = match effect {
            Some(Effect::Stall { for_ns }) => for_ns,
            _ => 0,
        };
        let model = self.script.latency[op as usize];
        let served_ns = model.draw(start_ns - epoch_ns, &mut self.rngs[op as usize]) + extra_ns;
        let due_ns = self.thaw(epoch_ns, start_ns, start_ns + served_ns);
        if self.script.servers > 0 {
            self.free_ns.push(Reverse(due_ns));
        }
        Ticket { op, arrived_ns: now_ns, start_ns, due_ns, effect }
    }

    /// The effect of the first fault that strikes. Every fault counts every request.
    fn strike(&mut self, at_ns: u64, op: Op, offset: u64, length: u64) -> Option<Effect> {
        let mut effect = None;
        for (fault, progress) in self.script.faults.iter().zip(&mut self.progress) {
            if fault.freeze().is_none()
                && fault.strikes(progress, at_ns, op, offset, length)
                && effect.is_none()
            {
                effect = Some(fault.effect);
            }
        }
        effect
    }

    /// `due_ns`, delayed by the time for which the whole device is stalled.
    fn thaw(&self, epoch_ns: u64, start_ns: u64, mut due_ns: u64) -> u64 {
        for (at_ns, for_ns) in self.script.faults.iter().filter_map(crate::fault::Fault::freeze) {
            let (from_ns, to_ns) = (epoch_ns + at_ns, epoch_ns + at_ns + for_ns);
            if due_ns > from_ns && start_ns < to_ns {
                due_ns += to_ns - start_ns.max(from_ns);
            }
        }
        due_ns
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn device(words: &[&str]) -> Device {
        Device::new(Script::from_words(words.iter().copied()).unwrap())
    }

    #[test]
    fn servers_overlap_up_to_their_number() {
        let mut two = device(&["read=const:100us", "servers=2"]);
        let due: Vec<u64> = (0..5).map(|_| two.admit(0, Op::Read, 0, 4096).due_ns).collect();
        assert_eq!(due, [100_000, 100_000, 200_000, 200_000, 300_000]);
        let mut any = device(&["read=const:100us"]);
        assert!((0..50).all(|_| any.admit(0, Op::Read, 0, 4096).due_ns == 100_000));
    }

    #[test]
    fn a_waiting_request_is_distinguished_from_a_slow_one() {
        let mut one = device(&["read=const:100us", "servers=1"]);
        one.admit(10, Op::Read, 0, 4096);
        let second = one.admit(20, Op::Read, 0, 4096);
        assert_eq!((second.start_ns, second.due_ns), (100_010, 200_010));
    }

    #[test]
    fn the_whole_device_stands_still_for_its_stall() {
        let words = ["read=const:100us", "fault=any:stall=1ms:time=1ms"];
        let due = |times: &[u64]| {
            let mut device = device(&words);
            device.admit(0, Op::Read, 0, 4096);
            times.iter().map(|&t| device.admit(t, Op::Read, 0, 4096).due_ns).collect::<Vec<_>>()
        };
        // Completed before the stall, overlapping its start, arriving within it, arriving after it.
        assert_eq!(
            due(&[800_000, 950_000, 1_500_000, 2_000_000]),
            [900_000, 2_050_000, 2_100_000, 2_100_000]
        );
    }

    #[test]
    fn the_clock_starts_with_the_first_transfer_and_again_on_restart() {
        let mut device = device(&["read=step:1us/2us@1s", "fault=read:eio:nth=1"]);
        device.admit(5_000_000_000, Op::Sync, 0, 0);
        let first = device.admit(9_000_000_000, Op::Read, 0, 1);
        assert_eq!(first.due_ns - first.start_ns, 1000);
        assert_eq!(first.effect, Some(Effect::Errno(5)));
        let late = device.admit(10_000_000_000, Op::Read, 0, 1);
        assert_eq!((late.due_ns - late.start_ns, late.effect), (2000, None));
        device.restart();
        let again = device.admit(11_000_000_000, Op::Read, 0, 1);
        assert_eq!(again.due_ns - again.start_ns, 1000);
        assert_eq!(device.fired(), [("read:eio:nth=1".to_owned(), 1)]);
    }

    #[test]
    fn a_stalled_request_alone_is_slow() {
        let mut device = device(&["read=const:1us", "fault=read:stall=50ms:every=2"]);
        let spent: Vec<u64> = (0..4).map(|_| device.admit(0, Op::Read, 0, 1).due_ns).collect();
        assert_eq!(spent, [1000, 50_001_000, 1000, 50_001_000]);
    }
}
