//! Counts of one slot over the whole run. The kernel's per-CPU histograms wrap, so each reading
//! adds the difference to the previous one.

use iosonde_bpf::layout::{
    SIZE_BUCKETS, SIZE_SHIFT, TIME_SHIFT, WITHIN_BURST_NS, bucket_edges, bucket_of,
};
use iosonde_bpf::{FlagUse, Flight, Slot, SlotKey};

use iosonde_model::record::profile::{SyncPhases, Traffic};
use iosonde_stats::Histogram;
use iosonde_stats::histogram::Exact;

// The record states the bound used by the kernel programs.
const _: () = assert!(Traffic::WITHIN_BURST_NS == WITHIN_BURST_NS);

/// Counts of buckets, summed over CPUs and readings.
#[derive(Clone, Debug, Default)]
struct Buckets(Vec<u64>);

impl Buckets {
    /// Adds the counts since the previous reading.
    fn add(&mut self, now: &[u32], before: Option<&[u32]>) {
        self.0.resize(now.len(), 0);
        for (bucket, (sum, now)) in self.0.iter_mut().zip(now).enumerate() {
            *sum += u64::from(now.wrapping_sub(before.map_or(0, |before| before[bucket])));
        }
    }

    fn add_sums(&mut self, more: &[u64]) {
        self.0.resize(self.0.len().max(more.len()), 0);
        self.0.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }

    fn occupied(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + Clone + '_ {
        self.0.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// Edges of the first and the last bucket that is not empty, ns.
    fn edges(&self) -> Option<(u64, u64)> {
        let (first, last) = self.occupied().next().zip(self.occupied().next_back())?;
        Some((edges(first.0).0, edges(last.0).1))
    }

    /// A histogram of times, ns, with exact figures.
    fn times(&self, sum_ns: u64, extremes: Option<(u64, u64)>) -> Histogram {
        histogram(self.occupied(), edges, sum_ns, extremes)
    }
}

/// Remainder of some slots after parts are subtracted.
#[derive(Debug, Default)]
pub(super) struct Rest {
    times: Buckets,
    bytes: u64,
    sum_ns: u64,
}

impl Rest {
    pub(super) fn of<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Rest {
        let mut rest = Rest::default();
        for tally in tallies {
            rest.times.add_sums(&tally.total.0);
            rest.bytes += tally.sum(|slot| slot.bytes);
            rest.sum_ns += tally.latencies_ns();
        }
        rest
    }

    /// Subtracts the per-CPU counts of a flag, and returns its bytes and latencies.
    pub(super) fn take(&mut self, cpus: &[FlagUse]) -> (u64, Histogram) {
        let mut part = Rest::default();
        for cpu in cpus {
            part.times.add_sums(&cpu.time);
            part.bytes += cpu.bytes;
            part.sum_ns += cpu.total_ns;
        }
        for (left, taken) in self.times.0.iter_mut().zip(&part.times.0) {
            *left = left.saturating_sub(*taken);
        }
        self.bytes = self.bytes.saturating_sub(part.bytes);
        self.sum_ns = self.sum_ns.saturating_sub(part.sum_ns);
        part.left()
    }

    /// Bytes and latencies.
    pub(super) fn left(&self) -> (u64, Histogram) {
        (self.bytes, self.times.times(self.sum_ns, None))
    }
}

/// A histogram of times, ns, from the counts of each CPU.
pub(super) fn times<'a>(cpus: impl Iterator<Item = &'a [u32]>, sum_ns: u64) -> Histogram {
    let mut all = Buckets::default();
    cpus.for_each(|cpu| all.add(cpu, None));
    all.times(sum_ns, None)
}

/// A histogram of `(bucket, count)` of times, each at the midpoint of its bucket, ns.
pub(super) fn histogram(
    buckets: impl DoubleEndedIterator<Item = (usize, u64)> + Clone,
    edges: impl Fn(usize) -> (u64, u64),
    sum_ns: u64,
    extremes: Option<(u64, u64)>,
) -> Histogram {
    let Some((first, last)) = buckets.clone().next().zip(buckets.clone().next_back()) else {
        return Histogram::new();
    };
    let (min_ns, max_ns) = extremes.unwrap_or((edges(first.0).0, edges(last.0).1));
    let mut coarse = Histogram::unallocated();
    for (bucket, count) in buckets {
        let (low, high) = edges(bucket);
        coarse.record_many((low + (high - low) / 2).clamp(min_ns, max_ns), count);
    }
    let pairs: Vec<(u32, u64)> = coarse.occupied().collect();
    let exact = Exact { min_ns, max_ns, sum_ns: u128::from(sum_ns), overflow: coarse.overflow() };
    Histogram::from_interval(&pairs, exact)
}

/// Smallest and largest time of a bucket, ns.
fn edges(bucket: usize) -> (u64, u64) {
    let (low, high) = bucket_edges(bucket);
    (low << TIME_SHIFT, ((high + 1) << TIME_SHIFT) - 1)
}

/// The counts of one interval.
#[derive(Clone, Debug, Default)]
pub struct Increase {
    pub requests: u64,
    pub bytes: u64,
    /// Latencies, ns.
    pub latency: Histogram,
}

impl Increase {
    pub(super) fn merge(&mut self, other: &Increase) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
    }
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) key: SlotKey,
    before: Vec<Slot>,
    total: Buckets,
    queued: Buckets,
    device: Buckets,
    gap: Buckets,
    bursts: Buckets,
    size: Buckets,
    /// Requests without a traced completion.
    unseen: Unseen,
}

#[derive(Clone, Copy, Debug, Default)]
struct Unseen {
    requests: u64,
    bytes: u64,
    direct_bytes: u64,
    durable: u64,
}

impl Tally {
    pub(super) fn new(key: SlotKey) -> Tally {
        Tally { key, ..Tally::default() }
    }

    /// Adds a reading of every CPU, and returns the counts since the previous one.
    pub(super) fn look(&mut self, now: Vec<Slot>) -> Increase {
        let mut fresh = Buckets::default();
        let mut increase = Increase::default();
        let mut sum_ns = 0;
        for (cpu, slot) in now.iter().enumerate() {
            let before = self.before.get(cpu);
            fresh.add(&slot.total, before.map(|slot| &slot.total[..]));
            self.queued.add(&slot.queued, before.map(|slot| &slot.queued[..]));
            self.device.add(&slot.device, before.map(|slot| &slot.device[..]));
            self.bursts.add(&slot.bursts, before.map(|slot| &slot.bursts[..]));
            self.gap.add(&slot.gap, before.map(|slot| &slot.gap[..]));
            self.size.add(&slot.size, before.map(|slot| &slot.size[..]));
            increase.requests += slot.requests - before.map_or(0, |slot| slot.requests);
            increase.bytes += slot.bytes - before.map_or(0, |slot| slot.bytes);
            sum_ns += slot.total_ns - before.map_or(0, |slot| slot.total_ns);
        }
        self.total.add_sums(&fresh.0);
        increase.latency = fresh.times(sum_ns, None);
        self.before = now;
        increase
    }

    /// Counts a request that must have ended, without a latency.
    pub(super) fn add_unseen(&mut self, flight: &Flight) {
        let bytes = u64::from(flight.bytes);
        self.unseen.requests += 1;
        self.unseen.bytes += bytes;
        self.unseen.direct_bytes += bytes * u64::from(flight.is_direct);
        self.unseen.durable += u64::from(flight.is_durable);
        let bucket = bucket_of(bytes >> SIZE_SHIFT).min(SIZE_BUCKETS - 1);
        self.size.0.resize(SIZE_BUCKETS, 0);
        self.size.0[bucket] += 1;
    }

    fn sum(&self, of: impl Fn(&Slot) -> u64) -> u64 {
        self.before.iter().map(of).sum()
    }

    /// Sum of the latencies, ns.
    pub(super) fn latencies_ns(&self) -> u64 {
        self.sum(|slot| slot.total_ns)
    }

    /// Calls that returned.
    pub(super) fn calls(&self) -> u64 {
        self.sum(|slot| slot.requests) + self.unseen.requests
    }

    /// Calls that returned an error.
    pub(super) fn errors(&self) -> u64 {
        self.sum(|slot| slot.errors)
    }

    /// Latencies, ns.
    pub(super) fn latency(&self) -> Histogram {
        let busy = || self.before.iter().filter(|slot| slot.total_max_ns > 0);
        let min = busy().map(|slot| slot.total_min_ns).min();
        let max = busy().map(|slot| slot.total_max_ns).max();
        self.total.times(self.sum(|slot| slot.total_ns), min.zip(max))
    }

    /// Time of syncs in each phase, ns.
    pub(super) fn phases(&self) -> SyncPhases {
        let sum = |at: usize| self.sum(|slot| slot.phase_ns[at]);
        SyncPhases { data_ns: sum(0), journal_ns: sum(1), flush_ns: sum(2) }
    }

    /// The record's traffic; times count from `zero_ns`.
    pub(super) fn traffic(&self, zero_ns: u64) -> Traffic {
        let first = self.before.iter().map(|slot| slot.first_ns).filter(|ns| *ns > 0).min();
        let last = self.before.iter().map(|slot| slot.last_ns).max().filter(|ns| *ns > 0);
        let since = |ns: u64| ns.saturating_sub(zero_ns);
        let sizes = self.size.occupied();
        let latency = self.latency();
        // A part cannot exceed the longest total.
        let part = |buckets: &Buckets, sum_ns| {
            let (low, high) = buckets.edges()?;
            let longest = latency.max().unwrap_or(high);
            Some(buckets.times(sum_ns, Some((low.min(longest), high.min(longest)))))
        };
        let queued = part(&self.queued, self.sum(|slot| slot.queued_ns)).unwrap_or_default();
        let device_time = part(&self.device, self.sum(|slot| slot.device_ns)).unwrap_or_default();
        Traffic {
            requests: self.calls(),
            bytes: self.sum(|slot| slot.bytes) + self.unseen.bytes,
            direct_bytes: self.sum(|slot| slot.direct_bytes) + self.unseen.direct_bytes,
            durable: self.sum(|slot| slot.durable) + self.unseen.durable,
            errors: self.errors(),
            latency,
            queued,
            device_time,
            sizes: sizes
                .map(|(bucket, count)| (bucket_edges(bucket).0 << SIZE_SHIFT, count))
                .collect(),
            sequential: self.sum(|slot| slot.sequential),
            strided: self.sum(|slot| slot.strided),
            gaps: self.gap.times(self.sum(|slot| slot.gap_ns), None),
            gap_square_sum: self.sum(|slot| slot.gap_us_squared) as f64 * 1e6,
            bursts: self.bursts.0.clone(),
            active_ns: first.zip(last).map(|(first, last)| (since(first), since(last))),
            ..Traffic::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use iosonde_bpf::layout::{BURST_BUCKETS, SIZE_BUCKETS, TIME_BUCKETS};

    use super::*;

    fn slot(count: u32) -> Slot {
        let mut slot = Slot {
            requests: u64::from(count),
            bytes: u64::from(count) * 4096,
            direct_bytes: 0,
            durable: 0,
            errors: 0,
            sequential: 0,
            strided: 0,
            total_ns: u64::from(count) * 1000,
            queued_ns: 0,
            device_ns: 0,
            total_min_ns: 1000,
            total_max_ns: 1000,
            gaps: 0,
            gap_ns: 0,
            gap_us_squared: 0,
            bursts: [0; BURST_BUCKETS],
            first_ns: 500,
            last_ns: 9000,
            phase_ns: [u64::from(count) * 200, u64::from(count) * 300, u64::from(count) * 400],
            total: [0; TIME_BUCKETS],
            queued: [0; TIME_BUCKETS],
            device: [0; TIME_BUCKETS],
            gap: [0; TIME_BUCKETS],
            size: [0; SIZE_BUCKETS],
        };
        slot.total[1000 >> TIME_SHIFT] = count;
        slot.size[8] = count;
        slot
    }

    fn tally() -> Tally {
        Tally::new(SlotKey { disk: 0, op: 0, class: 0, group: 0 })
    }

    #[test]
    fn looks_add_up_over_cpus_and_a_counter_that_wraps() {
        let mut tally = tally();
        let mut near_the_end = slot(10);
        near_the_end.total[1000 >> TIME_SHIFT] = u32::MAX;
        assert_eq!(tally.look(vec![slot(3), near_the_end]).requests, 13);
        let mut wrapped = slot(12);
        wrapped.total[1000 >> TIME_SHIFT] = 1;
        let more = tally.look(vec![slot(4), wrapped]);
        assert_eq!((more.requests, more.bytes, more.latency.count()), (3, 3 * 4096, 3));
        assert_eq!(tally.latency().count(), 3 + u64::from(u32::MAX) + 3);
    }

    #[test]
    fn what_has_a_flag_is_taken_out_and_the_rest_has_none() {
        let mut tally = tally();
        tally.look(vec![slot(3), slot(4)]);
        let mut rest = Rest::of([&tally].into_iter());
        let mut time = [0; TIME_BUCKETS];
        time[1000 >> TIME_SHIFT] = 5;
        let (bytes, latency) = rest.take(&[FlagUse { bytes: 20_480, total_ns: 5_000, time }]);
        assert_eq!((bytes, latency.count(), latency.sum()), (20_480, 5, 5_000));
        let (bytes, latency) = rest.left();
        assert_eq!((bytes, latency.count(), latency.sum()), (8_192, 2, 2_000));
    }

    #[test]
    fn sums_and_extremes_are_exact_and_sizes_are_lower_edges() {
        let mut tally = tally();
        tally.look(vec![slot(5)]);
        let traffic = tally.traffic(400);
        assert_eq!((traffic.requests, traffic.bytes), (5, 20480));
        assert_eq!((traffic.latency.sum(), traffic.latency.max()), (5000, Some(1000)));
        assert_eq!(traffic.latency.quantile(0.5), Some(1000));
        assert_eq!(traffic.sizes, [(4096, 5)]);
        assert_eq!(traffic.active_ns, Some((100, 8600)));
        let phases = SyncPhases { data_ns: 1000, journal_ns: 1500, flush_ns: 2000 };
        assert_eq!(tally.phases(), phases);
    }
}
