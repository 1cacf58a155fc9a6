//! Latencies of reads and of writes of one file or cgroup.

use std::collections::BTreeMap;

use iosonde_bpf::Times;
use iosonde_bpf::layout::{COARSE_SHIFT, coarse_edges};
use iosonde_stats::Histogram;

/// Latencies of reads and of writes. Most buckets are empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums([Sum; 2]);

#[derive(Clone, Debug, Default)]
struct Sum {
    ns: u64,
    buckets: BTreeMap<usize, u64>,
}

impl Sums {
    pub(super) fn of(times: &Times) -> Sums {
        Sums([0, 1].map(|op: usize| {
            let occupied = times.time[op].iter().enumerate().filter(|(_, count)| **count > 0);
            let buckets = occupied.map(|(bucket, count)| (bucket, u64::from(*count))).collect();
            Sum { ns: times.sum_ns[op], buckets }
        }))
    }

    pub(super) fn add(&mut self, more: &Sums) {
        for (sum, more) in self.0.iter_mut().zip(&more.0) {
            sum.ns += more.ns;
            for (bucket, count) in &more.buckets {
                *sum.buckets.entry(*bucket).or_default() += count;
            }
        }
    }

    /// Histograms of reads and of writes, each request at the midpoint of its bucket.
    pub(super) fn histograms(&self) -> [Histogram; 2] {
        [0, 1].map(|op: usize| {
            let Sum { ns, buckets } = &self.0[op];
            let edges = |bucket| {
                let (low, high) = coarse_edges(bucket);
                (low << COARSE_SHIFT, ((high + 1) << COARSE_SHIFT) - 1)
            };
            let pairs = buckets.iter().map(|(bucket, count)| (*bucket, *count));
            super::tally::histogram(pairs, edges, *ns, None)
        })
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.0.iter().flat_map(|sum| sum.buckets.values()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_within_a_sixteenth_and_the_mean_exact() {
        let mut times = Times::NONE;
        // 100 µs are 97 units of 1,024 ns: the bucket of 96 to 103.
        let bucket = (0..).find(|bucket| coarse_edges(*bucket).1 >= 97).unwrap_or(0);
        assert_eq!(coarse_edges(bucket), (96, 103));
        (times.time[0][bucket], times.sum_ns[0]) = (500, 500 * 100_000);
        let mut sums = Sums::of(&times);
        sums.add(&Sums::of(&times));
        let [read, written] = sums.histograms();
        assert_eq!((read.count(), read.mean(), written.count()), (1000, Some(100_000.0), 0));
        let median = read.quantile(0.5).unwrap_or(0);
        assert!(median.abs_diff(100_000) <= 100_000 / 16, "{median}");
    }
}
