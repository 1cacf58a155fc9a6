//! A neighbour: another user's requests to the same device.

use super::{Device, Served, Transfer};
use iosonde_model::plan::IoKind;
use iosonde_stats::chance::Chance;

/// Size of a neighbour's request, bytes.
const BYTES: u32 = 4096;

/// Adds a neighbour's reads with Poisson arrivals.
pub struct Neighbour {
    inner: Box<dyn Device>,
    mean_gap_ns: f64,
    next_ns: f64,
    chance: Chance,
}

impl Neighbour {
    /// This many requests per second, at least one.
    pub fn new(inner: Box<dyn Device>, per_s: u64, seed: u64) -> Neighbour {
        let chance = Chance::of_part(seed, 2);
        let mut neighbour =
            Neighbour { inner, mean_gap_ns: 1e9 / per_s.max(1) as f64, next_ns: 0.0, chance };
        neighbour.draw();
        neighbour
    }

    fn draw(&mut self) {
        self.next_ns -= (1.0 - self.chance.unit()).ln() * self.mean_gap_ns;
    }
}

impl Device for Neighbour {
    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Served {
        while self.next_ns <= now_ns as f64 {
            let theirs =
                Transfer { way: IoKind::Read, target: 0, offset: 0, skip: 0, bytes: BYTES };
            self.inner.serve(self.next_ns as u64, &theirs);
            self.draw();
        }
        self.inner.serve(now_ns, transfer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::Model;
    use super::*;

    /// Requests that a closed loop of depth 1 completes in ten seconds.
    fn done(device: &str) -> u64 {
        let mut device = Model::parse(device).unwrap().build(3);
        let read = Transfer { way: IoKind::Read, target: 0, offset: 0, skip: 0, bytes: 512 };
        let (mut now_ns, mut done) = (0, 0);
        while now_ns < 10_000_000_000 {
            now_ns = device.serve(now_ns, &read).done_ns;
            done += 1;
        }
        done
    }

    #[test]
    fn a_neighbour_takes_its_part() {
        assert_eq!(done("read=1ms"), 10_000);
        let shared = done("read=1ms,neighbour=500");
        assert!((4_500..5_500).contains(&shared), "{shared}");
    }
}
