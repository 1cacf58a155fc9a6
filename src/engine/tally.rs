//! What one job counts while it runs. Every buffer is allocated before the clock starts.

use crate::plan::{Job, Plan, Way};
use crate::record::run::{CounterSeries, DirectionRun, HistogramSeries};
use crate::stats::Histogram;

/// Counter intervals kept before neighbours are merged: 200 s at 100 ms.
const MAX_COUNTERS: usize = 2048;
/// Histogram intervals kept before neighbours are merged.
const MAX_HISTOGRAMS: usize = 512;
/// Occupied buckets kept over all histogram intervals of a direction (256 KB) before merging.
const MAX_ENTRIES: usize = 32_768;

/// The measured window, ns on the run's clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Window {
    /// Where it opens: the end of the warm-up.
    pub open_ns: u64,
    /// Where it closes; `u64::MAX` while that is not known.
    pub close_ns: u64,
}

impl Window {
    /// How much of `from..to` lies inside.
    #[inline(always)]
    pub(super) fn overlap_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        to_ns.min(self.close_ns).saturating_sub(from_ns.max(self.open_ns))
    }
}

/// Both directions of one job.
#[derive(Debug)]
pub(super) struct Tally {
    window: Window,
    read: Direction,
    write: Direction,
    width_ns: u64,
    histogram_width_ns: u64,
    /// Histogram intervals finished so far.
    histogram_index: u64,
    /// Counter interval of the batch at hand; `None` outside the window.
    counter_index: Option<usize>,
    /// When that changes, ns.
    next_edge_ns: u64,
    /// Operations and bytes since the start, warm-up and drain included.
    pub(super) all_ops: u64,
    pub(super) all_bytes_written: u64,
}

impl Tally {
    pub(super) fn new(plan: &Plan, job: &Job) -> Tally {
        let width_ns = plan.interval_ns;
        Tally {
            window: Window { open_ns: 0, close_ns: u64::MAX },
            read: Direction::new(job.read_percent > 0),
            write: Direction::new(job.read_percent < 100),
            width_ns,
            histogram_width_ns: width_ns * u64::from(plan.intervals_per_histogram),
            histogram_index: 0,
            counter_index: None,
            next_edge_ns: 0,
            all_ops: 0,
            all_bytes_written: 0,
        }
    }

    /// Fixes the window, before anything is counted.
    pub(super) fn set_window(&mut self, window: Window) {
        self.window = window;
    }

    /// Announces that the completions that follow were reaped at `now_ns`.
    #[inline(always)]
    pub(super) fn at(&mut self, now_ns: u64) {
        // Between two edges nothing changes, so that the usual case costs one comparison.
        if now_ns >= self.next_edge_ns {
            self.cross(now_ns);
        }
    }

    /// Finds the interval that holds `now_ns`, and the edge at which the next one begins.
    #[cold]
    fn cross(&mut self, now_ns: u64) {
        let Window { open_ns, close_ns } = self.window;
        if now_ns < open_ns {
            self.next_edge_ns = open_ns;
            return;
        }
        if now_ns > close_ns {
            self.counter_index = None;
            self.next_edge_ns = u64::MAX;
            return;
        }
        let since_open_ns = now_ns - open_ns;
        self.finish_histograms(since_open_ns);
        while since_open_ns / self.width_ns >= MAX_COUNTERS as u64 {
            self.read.counters.halve();
            self.write.counters.halve();
            self.width_ns *= 2;
        }
        let index = since_open_ns / self.width_ns;
        self.counter_index = Some(index as usize);
        let interval_end_ns = open_ns + (index + 1) * self.width_ns;
        self.next_edge_ns = interval_end_ns.min(close_ns.saturating_add(1));
    }

    /// Counts one operation submitted at `submitted_ns` and reaped at the announced time.
    #[inline(always)]
    pub(super) fn complete(&mut self, way: Way, bytes: u32, submitted_ns: u64, now_ns: u64) {
        self.all_ops += 1;
        if way == Way::Write {
            self.all_bytes_written += u64::from(bytes);
        }
        let Some(index) = self.counter_index else { return };
        let direction = match way {
            Way::Read => &mut self.read,
            Way::Write => &mut self.write,
        };
        direction.ops += 1;
        direction.bytes += u64::from(bytes);
        direction.counters.add(index, u64::from(bytes));
        if submitted_ns < self.window.open_ns {
            direction.carried_in += 1;
        } else {
            direction.current.record(now_ns.saturating_sub(submitted_ns));
        }
    }

    /// Moves the finished histogram interval into the series, and empty ones up to now.
    fn finish_histograms(&mut self, since_open_ns: u64) {
        while since_open_ns >= (self.histogram_index + 1) * self.histogram_width_ns {
            self.read.finish_interval();
            self.write.finish_interval();
            self.histogram_index += 1;
            if self.read.series.is_full() || self.write.series.is_full() {
                self.read.series.halve();
                self.write.series.halve();
                self.histogram_width_ns *= 2;
                self.histogram_index = self.histogram_index.div_ceil(2);
            }
        }
    }

    /// Closes the window, at the latest here.
    pub(super) fn close(&mut self, now_ns: u64) {
        self.window.close_ns = self.window.close_ns.min(now_ns.max(self.window.open_ns));
    }

    pub(super) fn window(&self) -> Window {
        self.window
    }

    /// The record of both directions.
    pub(super) fn into_record(mut self) -> (DirectionRun, DirectionRun) {
        self.read.finish_interval();
        self.write.finish_interval();
        let (counters, histograms) = (self.width_ns, self.histogram_width_ns);
        (self.read.into_record(counters, histograms), self.write.into_record(counters, histograms))
    }
}

#[derive(Debug)]
struct Direction {
    /// Whether the job goes this way at all; if not, nothing is allocated.
    used: bool,
    ops: u64,
    bytes: u64,
    carried_in: u64,
    current: Histogram,
    total: Histogram,
    counters: Counters,
    series: SparseSeries,
}

impl Direction {
    fn new(used: bool) -> Direction {
        Direction {
            used,
            ops: 0,
            bytes: 0,
            carried_in: 0,
            current: Histogram::new(),
            total: Histogram::new(),
            counters: Counters::new(if used { MAX_COUNTERS } else { 0 }),
            series: SparseSeries::new(if used { MAX_ENTRIES } else { 0 }),
        }
    }

    fn finish_interval(&mut self) {
        if !self.used {
            return;
        }
        self.series.push(&self.current);
        self.total.merge(&self.current);
        self.current.clear();
    }

    fn into_record(self, width_ns: u64, histogram_width_ns: u64) -> DirectionRun {
        let used = self.counters.used;
        DirectionRun {
            ops: self.ops,
            bytes: self.bytes,
            carried_in: self.carried_in,
            latency: self.total,
            counters: CounterSeries {
                width_ns,
                ops: self.counters.ops[..used].to_vec(),
                bytes: self.counters.bytes[..used].to_vec(),
            },
            latencies: HistogramSeries {
                width_ns: histogram_width_ns,
                intervals: self.series.into_intervals(),
            },
        }
    }
}

/// Operations and bytes per interval.
#[derive(Debug)]
struct Counters {
    ops: Box<[u64]>,
    bytes: Box<[u64]>,
    /// Intervals begun.
    used: usize,
}

impl Counters {
    fn new(capacity: usize) -> Counters {
        Counters { ops: vec![0; capacity].into(), bytes: vec![0; capacity].into(), used: 0 }
    }

    #[inline(always)]
    fn add(&mut self, index: usize, bytes: u64) {
        if let (Some(ops), Some(sum)) = (self.ops.get_mut(index), self.bytes.get_mut(index)) {
            *ops += 1;
            *sum += bytes;
            self.used = self.used.max(index + 1);
        }
    }

    /// Merges neighbours two by two.
    fn halve(&mut self) {
        for series in [&mut self.ops, &mut self.bytes] {
            for index in 0..series.len() / 2 {
                series[index] = series[2 * index] + series[2 * index + 1];
            }
            let half = series.len() / 2;
            series[half..].fill(0);
        }
        self.used = self.used.div_ceil(2);
    }
}

/// Sparse histograms one after another, in fixed memory.
#[derive(Debug)]
struct SparseSeries {
    entries: Vec<(u32, u64)>,
    /// Where each interval ends in `entries`.
    ends: Vec<u32>,
    spare: Vec<(u32, u64)>,
}

impl SparseSeries {
    fn new(capacity: usize) -> SparseSeries {
        // One interval more than the limit always fits, so a push never reallocates.
        let entries = if capacity == 0 { 0 } else { capacity + crate::stats::histogram::BUCKETS };
        SparseSeries {
            entries: Vec::with_capacity(entries),
            ends: Vec::with_capacity(if capacity == 0 { 0 } else { MAX_HISTOGRAMS + 2 }),
            spare: Vec::with_capacity(entries),
        }
    }

    fn is_full(&self) -> bool {
        self.ends.len() >= MAX_HISTOGRAMS || self.entries.len() >= MAX_ENTRIES
    }

    fn push(&mut self, histogram: &Histogram) {
        if histogram.count() > 0 {
            self.entries.extend(histogram.occupied());
        }
        self.ends.push(self.entries.len() as u32);
    }

    /// Merges neighbours two by two.
    fn halve(&mut self) {
        self.spare.clear();
        let mut start = 0;
        let pairs = self.ends.len().div_ceil(2);
        for pair in 0..pairs {
            let middle = self.ends[2 * pair] as usize;
            let end = self.ends.get(2 * pair + 1).map_or(middle, |end| *end as usize);
            merge_sorted(&self.entries[start..middle], &self.entries[middle..end], &mut self.spare);
            self.ends[pair] = self.spare.len() as u32;
            start = end;
        }
        self.ends.truncate(pairs);
        std::mem::swap(&mut self.entries, &mut self.spare);
    }

    fn into_intervals(self) -> Vec<Vec<(u32, u64)>> {
        let mut start = 0;
        self.ends
            .iter()
            .map(|end| {
                let interval = self.entries[start..*end as usize].to_vec();
                start = *end as usize;
                interval
            })
            .collect()
    }
}

/// Adds two ascending sparse histograms into `out`.
fn merge_sorted(a: &[(u32, u64)], b: &[(u32, u64)], out: &mut Vec<(u32, u64)>) {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if x.0 == y.0 => {
                let sum = (x.0, x.1 + y.1);
                a.next();
                b.next();
                sum
            }
            (Some(x), Some(y)) if x.0 > y.0 => {
                let entry = **y;
                b.next();
                entry
            }
            (Some(x), _) => {
                let entry = **x;
                a.next();
                entry
            }
            (None, Some(y)) => {
                let entry = **y;
                b.next();
                entry
            }
            (None, None) => return,
        };
        out.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_neighbours_keeps_every_count_in_bounded_memory() {
        let mut series = SparseSeries::new(MAX_ENTRIES);
        let mut total = 0;
        let mut halvings = 0;
        let capacity = series.entries.capacity();
        for interval in 0..5000u64 {
            let mut histogram = Histogram::new();
            for value in 0..100 {
                histogram.record(1000 + interval * 7 + value * 131);
            }
            total += 100;
            series.push(&histogram);
            while series.is_full() {
                series.halve();
                halvings += 1;
            }
        }
        assert!(halvings > 0);
        assert_eq!(series.entries.capacity(), capacity, "nothing was reallocated");
        let kept: u64 = series.into_intervals().iter().flatten().map(|(_, count)| count).sum();
        assert_eq!(kept, total);
    }

    #[test]
    fn counters_halve_exactly() {
        let mut counters = Counters::new(4);
        for index in 0..4 {
            for _ in 0..=index {
                counters.add(index, 10);
            }
        }
        counters.halve();
        assert_eq!(&counters.ops[..], [3, 7, 0, 0]);
        assert_eq!(&counters.bytes[..], [30, 70, 0, 0]);
        assert_eq!(counters.used, 2);
    }

    #[test]
    fn overlap_is_clipped_to_the_window() {
        let window = Window { open_ns: 10, close_ns: 20 };
        assert_eq!(window.overlap_ns(0, 30), 10);
        assert_eq!(window.overlap_ns(12, 15), 3);
        assert_eq!(window.overlap_ns(0, 5), 0);
        assert_eq!(window.overlap_ns(25, 30), 0);
    }
}
