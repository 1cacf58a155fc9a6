//! Latencies over time: a histogram per interval, in fixed memory.

use iosonde_model::record::run::HistogramSeries;
use iosonde_stats::Histogram;
use iosonde_stats::histogram::Exact;

/// Histogram intervals kept before neighbours are merged.
pub(super) const MAX_HISTOGRAMS: usize = 512;
/// Occupied buckets kept over all histogram intervals of a direction (1 MB) before merging. The
/// widest distributions occupy 1,500, and the interval of a percentile needs 20 histograms.
pub(super) const MAX_ENTRIES: usize = 65_536;

/// Latencies of one kind, in total and over time.
#[derive(Debug)]
pub(super) struct Timed {
    /// Latencies of the current interval.
    pub(super) current: Histogram,
    /// Latencies of the finished intervals.
    pub(super) total: Histogram,
    pub(super) series: SparseSeries,
}

impl Timed {
    pub(super) fn new(used: bool) -> Timed {
        Timed {
            current: Histogram::new(),
            total: Histogram::new(),
            series: SparseSeries::new(if used { MAX_ENTRIES } else { 0 }),
        }
    }

    pub(super) fn finish_interval(&mut self) {
        self.series.push(&self.current);
        self.total.merge(&self.current);
        self.current.clear();
    }
}

/// Sparse histograms one after another, in fixed memory.
#[derive(Debug)]
pub(super) struct SparseSeries {
    pub(super) entries: Vec<(u32, u64)>,
    /// Where each interval ends in `entries`.
    pub(super) ends: Vec<u32>,
    /// Number of values in each interval, and the figures that its buckets do not contain.
    pub(super) exact: Vec<(u64, Exact)>,
    spare: Vec<(u32, u64)>,
}

impl SparseSeries {
    pub(super) fn new(capacity: usize) -> SparseSeries {
        // Three intervals more than the limit always fit (one that fills it, one until there is a
        // pair, one more for the end), so a push never reallocates.
        let entries =
            if capacity == 0 { 0 } else { capacity + 3 * iosonde_stats::histogram::BUCKETS };
        let intervals = if capacity == 0 { 0 } else { MAX_HISTOGRAMS + 3 };
        SparseSeries {
            entries: Vec::with_capacity(entries),
            ends: Vec::with_capacity(intervals),
            exact: Vec::with_capacity(intervals),
            spare: Vec::with_capacity(entries),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.ends.len() >= MAX_HISTOGRAMS || self.entries.len() >= MAX_ENTRIES
    }

    pub(super) fn push(&mut self, histogram: &Histogram) {
        if histogram.count() > 0 {
            self.entries.extend(histogram.occupied());
        }
        self.ends.push(self.entries.len() as u32);
        self.exact.push((histogram.count(), histogram.exact()));
    }

    /// The interval that was pushed last.
    pub(super) fn last(&self) -> &[(u32, u64)] {
        let [.., before, end] = self.ends[..] else {
            return &self.entries[..self.ends.first().map_or(0, |end| *end as usize)];
        };
        &self.entries[before as usize..end as usize]
    }

    /// Merges neighbours two by two.
    pub(super) fn halve(&mut self) {
        self.spare.clear();
        let mut start = 0;
        let pairs = self.ends.len().div_ceil(2);
        for pair in 0..pairs {
            let middle = self.ends[2 * pair] as usize;
            let end = self.ends.get(2 * pair + 1).map_or(middle, |end| *end as usize);
            merge_sorted(&self.entries[start..middle], &self.entries[middle..end], &mut self.spare);
            self.ends[pair] = self.spare.len() as u32;
            self.exact[pair] = merge_exact(self.exact[2 * pair], self.exact.get(2 * pair + 1));
            start = end;
        }
        self.ends.truncate(pairs);
        self.exact.truncate(pairs);
        std::mem::swap(&mut self.entries, &mut self.spare);
    }

    pub(super) fn into_record(self, width_ns: u64) -> HistogramSeries {
        let mut start = 0;
        let mut interval = |end: &u32| {
            let interval = self.entries[start..*end as usize].to_vec();
            start = *end as usize;
            interval
        };
        HistogramSeries {
            width_ns,
            intervals: self.ends.iter().map(&mut interval).collect(),
            exact: self.exact.iter().map(|(_, exact)| *exact).collect(),
        }
    }
}

fn merge_exact(first: (u64, Exact), second: Option<&(u64, Exact)>) -> (u64, Exact) {
    let Some(second) = second else { return first };
    (first.0 + second.0, first.1.merged(first.0, second.1, second.0))
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
