//! What the device really did: the reference for a measurement.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::device::Ticket;
use crate::fault::Op;

const SUB_BITS: u32 = 7;

/// Histogram of times with log-linear buckets, 128 per octave: at most 0.8 % wide.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Histogram {
    /// Lower bound of each bucket in ns, and its count; empty buckets are omitted.
    pub buckets: BTreeMap<u64, u64>,
}

impl Histogram {
    fn add(&mut self, ns: u64) {
        let shift = (64 - ns.leading_zeros()).saturating_sub(SUB_BITS + 1);
        *self.buckets.entry(ns >> shift << shift).or_default() += 1;
    }
}

/// Distribution of one kind of time: a histogram of all, and the first ones exactly.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Distribution {
    /// Number of times recorded.
    pub count: u64,
    /// Their sum in ns.
    pub sum_ns: u64,
    /// The smallest in ns; 0 if there are none.
    pub min_ns: u64,
    /// The largest in ns.
    pub max_ns: u64,
    /// The first times in ns, sorted; the script's `sample` limits their number.
    pub sample_ns: Vec<u64>,
    /// All times.
    pub histogram: Histogram,
}

impl Distribution {
    fn add(&mut self, ns: u64, sample: usize) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        self.sum_ns += ns;
        self.histogram.add(ns);
        if self.sample_ns.len() < sample {
            self.sample_ns.push(ns);
        }
    }

    /// Whether the sample holds all times, so that quantiles are exact.
    pub fn is_exact(&self) -> bool {
        self.sample_ns.len() as u64 == self.count
    }

    /// Mean in ns; `None` if nothing was recorded.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// The nearest-rank quantile `q` (0 to 1) in ns: exact if [`Self::is_exact`], otherwise the
    /// lower bound of its bucket.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count);
        if self.is_exact() {
            return self.sample_ns.get(rank as usize - 1).copied();
        }
        let mut seen = 0;
        self.histogram.buckets.iter().find_map(|(&ns, &count)| {
            seen += count;
            (seen >= rank).then_some(ns)
        })
    }
}

/// The truth about one kind of request.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OpTruth {
    /// Requests answered, including failed ones.
    pub count: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Bytes acknowledged.
    pub bytes: u64,
    /// From the start of service to the answer: the true service time.
    pub service: Distribution,
    /// From arrival to the answer: queueing plus service. The client sees this plus kernel time.
    pub response: Distribution,
}

/// The truth about a whole device since its start or last restart.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Truth {
    pub read: OpTruth,
    pub write: OpTruth,
    pub sync: OpTruth,
    /// Each fault as written, with how often it struck.
    pub faults: Vec<(String, u64)>,
    #[serde(skip)]
    sample: usize,
}

impl Truth {
    /// An empty record that keeps the first `sample` times of each kind exactly.
    pub(crate) fn new(sample: usize) -> Self {
        Self { sample, ..Self::default() }
    }

    /// The truth about one kind of request.
    pub fn of(&self, op: Op) -> &OpTruth {
        match op {
            Op::Read => &self.read,
            Op::Write => &self.write,
            Op::Sync => &self.sync,
        }
    }

    /// Records an answer sent at `done_ns`; `bytes` is `None` for an error.
    pub(crate) fn answered(&mut self, ticket: &Ticket, done_ns: u64, bytes: Option<u64>) {
        let sample = self.sample;
        let op = match ticket.op {
            Op::Read => &mut self.read,
            Op::Write => &mut self.write,
            Op::Sync => &mut self.sync,
        };
        op.count += 1;
        match bytes {
            Some(bytes) => op.bytes += bytes,
            None => op.errors += 1,
        }
        op.service.add(done_ns.saturating_sub(ticket.start_ns), sample);
        op.response.add(done_ns.saturating_sub(ticket.arrived_ns), sample);
    }

    /// A copy with sorted samples and the fault counts filled in.
    pub(crate) fn closed(&self, faults: Vec<(String, u64)>) -> Self {
        let mut truth = Self { faults, ..self.clone() };
        for op in [&mut truth.read, &mut truth.write, &mut truth.sync] {
            op.service.sample_ns.sort_unstable();
            op.response.sample_ns.sort_unstable();
        }
        truth
    }

    /// Writes it as one JSON document, first under a temporary name.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let partial = path.with_extension("partial");
        fs::write(&partial, serde_json::to_vec(self)?)?;
        fs::rename(partial, path)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn distribution(times: impl Iterator<Item = u64>, sample: usize) -> Distribution {
        let mut all = Distribution::default();
        times.for_each(|ns| all.add(ns, sample));
        all.sample_ns.sort_unstable();
        all
    }

    #[test]
    fn quantiles_are_exact_as_long_as_the_sample_is_everything() {
        let all = distribution((1..=1000).rev(), 1000);
        assert!(all.is_exact());
        assert_eq!(all.quantile_ns(0.5), Some(500));
        assert_eq!(all.quantile_ns(0.99), Some(990));
        assert_eq!((all.quantile_ns(0.0), all.quantile_ns(1.0)), (Some(1), Some(1000)));
        assert_eq!((all.min_ns, all.max_ns, all.mean_ns()), (1, 1000, Some(500.5)));
    }

    #[test]
    fn beyond_the_sample_the_histogram_answers_within_its_width() {
        let all = distribution(1..=1_000_000, 10);
        assert!(!all.is_exact());
        assert_eq!(all.histogram.buckets.values().sum::<u64>(), 1_000_000);
        for q in [0.001, 0.5, 0.99, 0.9999] {
            let (found, truth) = (all.quantile_ns(q).unwrap() as f64, q * 1e6);
            assert!((found / truth - 1.0).abs() < 0.008, "{q}: {found} {truth}");
        }
        assert_eq!(Distribution::default().quantile_ns(0.5), None);
    }
}
