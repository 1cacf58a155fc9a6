//! Servers with a service time: a request waits for the first free one.

use super::{Device, Served, Transfer};
use iosonde_model::plan::IoKind;
use iosonde_model::plan::chance::Chance;

/// A distribution of service times, ns.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// Always the same.
    Constant(u64),
    /// Exponential with this mean.
    Exponential(u64),
    /// The first with this probability, else the second.
    Bimodal(f64, u64, u64),
}

impl Latency {
    fn draw(&self, chance: &mut Chance) -> u64 {
        match *self {
            Latency::Constant(ns) => ns,
            Latency::Exponential(mean_ns) => {
                (-(1.0 - chance.unit()).ln() * mean_ns as f64).round() as u64
            }
            Latency::Bimodal(share, fast_ns, slow_ns) => {
                if chance.unit() < share {
                    fast_ns
                } else {
                    slow_ns
                }
            }
        }
    }
}

/// Parallel servers with one queue, first come first served.
#[derive(Debug)]
pub struct Servers {
    /// When each server is free again, ns.
    free_ns: Vec<u64>,
    read: Latency,
    write: Latency,
    chance: Chance,
}

impl Servers {
    /// `count` servers (at least one) with a service time per direction.
    pub fn new(count: u32, read: Latency, write: Latency, seed: u64) -> Servers {
        Servers { free_ns: vec![0; count.max(1) as usize], read, write, chance: Chance::new(seed) }
    }
}

impl Device for Servers {
    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Served {
        let latency = match transfer.way {
            IoKind::Read => &self.read,
            IoKind::Write | IoKind::Trim | IoKind::Sync => &self.write,
        };
        let service_ns = latency.draw(&mut self.chance);
        let mut done_ns = now_ns + service_ns;
        if let Some(free_ns) = self.free_ns.iter_mut().min() {
            done_ns = now_ns.max(*free_ns) + service_ns;
            *free_ns = done_ns;
        }
        Served { done_ns, result: transfer.bytes as i32 }
    }
}
