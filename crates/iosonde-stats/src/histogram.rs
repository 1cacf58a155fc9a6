//! A log-linear histogram of nanoseconds: 2^7 buckets per octave, 1 ns to 2^40 ns.
//!
//! Each value below 2^8 has its own bucket. Above that the top bit selects the octave and the next
//! seven bits the bucket, so a bucket is at most 2^-7 of its lower edge wide and its midpoint is
//! off by at most 2^-8 = 0.39 %. Merging adds counts; percentiles are never averaged.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::quantile::at_rank;

/// Bits that choose a bucket within an octave.
const SUB_BITS: u32 = 7;
/// Buckets per octave.
const SUB_BUCKETS: u64 = 1 << SUB_BITS;
/// Values from 2^40 ns (18 minutes) on are counted as overflow.
const MAX_BITS: u32 = 40;
/// Number of buckets: `(40 - 7 + 1) * 128`.
pub const BUCKETS: usize = ((MAX_BITS - SUB_BITS + 1) as usize) << SUB_BITS;
/// Largest relative error of a bucket's midpoint.
pub const RELATIVE_ERROR: f64 = 1.0 / (2 * SUB_BUCKETS) as f64;

/// Counts per bucket, with exact count, sum, sum of squares, minimum and maximum.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Missing buckets at the end are 0.
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    sum_of_squares: f64,
    min: u64,
    max: u64,
    overflow: u64,
}

/// The figures that the buckets of a histogram do not contain.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Exact {
    /// Smallest value, ns; 0 if there is none.
    pub min_ns: u64,
    /// Largest value, ns.
    pub max_ns: u64,
    /// Sum, ns.
    pub sum_ns: u128,
    /// Values of 2^40 ns or more, which no bucket holds.
    pub overflow: u64,
}

impl Exact {
    /// The figures of two merged histograms with these counts.
    pub fn merged(self, count: u64, other: Exact, other_count: u64) -> Exact {
        match (count, other_count) {
            (_, 0) => self,
            (0, _) => other,
            _ => Exact {
                min_ns: self.min_ns.min(other.min_ns),
                max_ns: self.max_ns.max(other.max_ns),
                sum_ns: self.sum_ns + other.sum_ns,
                overflow: self.overflow + other.overflow,
            },
        }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::unallocated()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let facts = |of: &Self| (of.count, of.sum, of.min, of.max, of.overflow);
        facts(self) == facts(other)
            && self.sum_of_squares == other.sum_of_squares
            && self.occupied().eq(other.occupied())
    }
}

impl Histogram {
    /// An empty histogram with memory for every bucket (35 KB): counting allocates nothing.
    pub fn new() -> Self {
        Histogram { counts: vec![0; BUCKETS], ..Histogram::unallocated() }
    }

    /// An empty histogram that allocates only up to the highest bucket used.
    pub fn unallocated() -> Self {
        Histogram {
            counts: Vec::new(),
            count: 0,
            sum: 0,
            sum_of_squares: 0.0,
            min: u64::MAX,
            max: 0,
            overflow: 0,
        }
    }

    /// Counts one value in ns.
    #[inline(always)]
    pub fn record(&mut self, value_ns: u64) {
        match self.counts.get_mut(bucket(value_ns)) {
            Some(count) => *count += 1,
            None => self.count_beyond(bucket(value_ns), 1),
        }
        self.count += 1;
        self.sum += u128::from(value_ns);
        let value = value_ns as f64;
        self.sum_of_squares += value * value;
        self.min = self.min.min(value_ns);
        self.max = self.max.max(value_ns);
    }

    /// Counts `times` equal values in ns.
    pub fn record_many(&mut self, value_ns: u64, times: u64) {
        match self.counts.get_mut(bucket(value_ns)) {
            Some(count) => *count += times,
            None => self.count_beyond(bucket(value_ns), times),
        }
        self.count += times;
        self.sum += u128::from(value_ns) * u128::from(times);
        let value = value_ns as f64;
        self.sum_of_squares += value * value * times as f64;
        self.min = self.min.min(value_ns);
        self.max = self.max.max(value_ns);
    }

    /// Counts values in a bucket that is not allocated yet, or as overflow.
    #[cold]
    fn count_beyond(&mut self, index: usize, times: u64) {
        if index >= BUCKETS {
            self.overflow += times;
        } else {
            self.counts.resize(index + 1, 0);
            self.counts[index] += times;
        }
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        let first = other.first();
        for (mine, theirs) in self.counts[first..].iter_mut().zip(&other.counts[first..]) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.overflow += other.overflow;
    }

    /// Merges several histograms.
    pub fn of_all<'a>(all: impl IntoIterator<Item = &'a Histogram>) -> Histogram {
        let mut sum = Histogram::unallocated();
        all.into_iter().for_each(|each| sum.merge(each));
        sum
    }

    /// Counts `(bucket, count)` pairs, each value at its bucket's midpoint.
    pub fn add_buckets(&mut self, pairs: &[(u32, u64)]) {
        for &(index, count) in pairs {
            let index = index as usize;
            if index < BUCKETS && count > 0 {
                let middle = lower_edge(index) + (upper_edge(index) - lower_edge(index)) / 2;
                self.record_many(middle, count);
            }
        }
    }

    /// Counts since `earlier`, an earlier state of this histogram: `(bucket, count)`, ascending.
    pub fn since(&self, earlier: &Histogram) -> Vec<(u32, u64)> {
        let then = |index: u32| earlier.counts.get(index as usize).copied().unwrap_or(0);
        let since = self.occupied().map(|(index, now)| (index, now - then(index)));
        since.filter(|(_, count)| *count > 0).collect()
    }

    /// Removes all values, keeping the memory.
    pub fn clear(&mut self) {
        let mut counts = std::mem::take(&mut self.counts);
        counts.fill(0);
        *self = Histogram { counts, ..Histogram::unallocated() };
    }

    /// Values counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Values counted that were 2^40 ns or more.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// Exact sum, ns.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Exact mean, ns; `None` if empty.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Sample standard deviation, ns; `None` below two values.
    pub fn std_dev(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let n = self.count as f64;
        let mean = self.sum as f64 / n;
        Some(((self.sum_of_squares - n * mean * mean) / (n - 1.0)).max(0.0).sqrt())
    }

    /// Exact smallest value, ns.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Exact largest value, ns.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Range `[low, high]` in ns that holds the value of this rank, `1..=count()`, within minimum
    /// and maximum; `None` if there is no such rank.
    ///
    /// The values of a bucket are taken to be evenly spread, so that the range is the part of one
    /// value. If the bucket has significantly more than twice the values of its neighbours, they
    /// may all be equal, and the range is the bucket.
    pub fn rank(&self, rank: u64) -> Option<(u64, u64)> {
        self.part(rank).map(|(_, range)| range)
    }

    /// [`rank`](Histogram::rank) for an end of an interval. For evenly spread values it is the
    /// middle of the part, because the outer edge would make every interval too wide.
    pub fn place(&self, rank: u64) -> Option<(u64, u64)> {
        let (is_even, (low, high)) = self.part(rank)?;
        let middle = low + (high - low) / 2;
        Some(if is_even { (middle, middle) } else { (low, high) })
    }

    /// Whether the bucket of this rank is evenly spread, and the range of the value, ns.
    fn part(&self, rank: u64) -> Option<(bool, (u64, u64))> {
        if rank == 0 || rank > self.count {
            return None;
        }
        let within = |(low, high): (u64, u64)| {
            (low.clamp(self.min, self.max), high.clamp(self.min, self.max))
        };
        let mut before = 0;
        for (index, count) in self.counts.iter().enumerate() {
            if before + count >= rank {
                let (low, high) = (lower_edge(index), upper_edge(index));
                if !self.is_evenly_spread(index) {
                    return Some((false, within((low, high))));
                }
                let width = (high - low + 1) as f64;
                let edge = |values: u64| (width * values as f64 / *count as f64) as u64;
                let nth = rank - before;
                let part = (low + edge(nth - 1), (low + edge(nth)).min(high));
                return Some((true, within(part)));
            }
            before += count;
        }
        // Of overflow only the bound and the maximum are known.
        Some((false, ((1 << MAX_BITS).max(self.min), self.max)))
    }

    /// Whether a bucket has at most twice the mean of the four buckets on its emptier side, plus
    /// three standard deviations of a Poisson count.
    fn is_evenly_spread(&self, index: usize) -> bool {
        const REACH: usize = 4;
        let mean = |beside: &[u64]| beside.iter().sum::<u64>() as f64 / REACH as f64;
        let below = mean(&self.counts[index.saturating_sub(REACH)..index]);
        let above = mean(&self.counts[index + 1..self.counts.len().min(index + 1 + REACH)]);
        let twice = 2.0 * below.min(above);
        self.counts[index] as f64 <= twice + 3.0 * (twice + 1.0).sqrt()
    }

    /// The bucket that holds the value of this rank; `None` if no bucket does.
    pub fn bucket_of_rank(&self, rank: u64) -> Option<u32> {
        at_rank((0u32..).zip(self.counts.iter().copied()), rank)
    }

    /// The `q` quantile in ns: the middle of its [range](Histogram::quantile_range).
    pub fn quantile(&self, q: f64) -> Option<u64> {
        self.quantile_range(q).map(|(low, high)| low + (high - low) / 2)
    }

    /// The [range](Histogram::rank) of the nearest rank to quantile `q`; `None` if there are no
    /// values or `q` is outside `0..=1`.
    pub fn quantile_range(&self, q: f64) -> Option<(u64, u64)> {
        if !(0.0..=1.0).contains(&q) || self.count == 0 {
            return None;
        }
        self.rank(((q * self.count as f64).ceil() as u64).clamp(1, self.count))
    }

    /// Occupied buckets as `(bucket, count)`, ascending.
    pub fn occupied(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let first = self.first();
        let counts = self.counts[first..].iter().copied();
        (first as u32..).zip(counts).filter(|(_, count)| *count > 0)
    }

    /// The lowest occupied bucket, or the number of buckets if all are empty. Skips the empty low
    /// buckets, often thousands.
    fn first(&self) -> usize {
        self.counts.iter().position(|count| *count > 0).unwrap_or(self.counts.len())
    }

    /// Middle of each occupied bucket, never outside minimum and maximum, and its count; ascending.
    pub fn midpoints(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.occupied().map(|(index, count)| {
            let (low, high) = (lower_edge(index as usize), upper_edge(index as usize));
            ((low + (high - low) / 2).clamp(self.min, self.max), count)
        })
    }

    /// Number of values in buckets wholly above `limit_ns`, overflow included.
    pub fn count_above(&self, limit_ns: u64) -> u64 {
        let above = self.counts.iter().skip(bucket(limit_ns).saturating_add(1));
        above.sum::<u64>() + self.overflow
    }

    /// The figures that the buckets do not contain.
    pub fn exact(&self) -> Exact {
        Exact {
            min_ns: self.min().unwrap_or(0),
            max_ns: self.max,
            sum_ns: self.sum,
            overflow: self.overflow,
        }
    }

    /// A histogram of `(bucket, count)` pairs with its exact figures; only the sum of squares is
    /// approximate.
    pub fn from_interval(pairs: &[(u32, u64)], exact: Exact) -> Histogram {
        let mut histogram = Histogram::from_buckets(pairs);
        histogram.count += exact.overflow;
        histogram.overflow = exact.overflow;
        if histogram.count > 0 {
            histogram.min = exact.min_ns;
            histogram.max = exact.max_ns;
            histogram.sum = exact.sum_ns;
            let over = exact.max_ns as f64;
            histogram.sum_of_squares += over * over * exact.overflow as f64;
        }
        histogram
    }

    /// A histogram of `(bucket, count)` pairs. Each value counts as its bucket's midpoint, so sum
    /// and extremes are approximate. For interval series, which keep buckets only.
    pub fn from_buckets(pairs: &[(u32, u64)]) -> Histogram {
        let mut histogram = Histogram::unallocated();
        histogram.add_buckets(pairs);
        histogram
    }
}

/// The bucket of a value; `BUCKETS` or more means overflow.
#[inline(always)]
fn bucket(value_ns: u64) -> usize {
    // With bit 7 always set, the same formula covers the first two octaves.
    let top = 63 - (value_ns | SUB_BUCKETS).leading_zeros();
    let shift = top - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value_ns >> shift) as usize
}

/// Smallest value of a bucket, ns.
pub fn lower_edge(index: usize) -> u64 {
    let octave = (index as u64) >> SUB_BITS;
    if octave < 2 {
        return index as u64;
    }
    let shift = octave - 1;
    (((index as u64) & (SUB_BUCKETS - 1)) | SUB_BUCKETS) << shift
}

/// Largest value of a bucket, ns.
pub fn upper_edge(index: usize) -> u64 {
    lower_edge(index + 1) - 1
}

/// Stored form: sparse buckets and the exact figures.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    count: u64,
    sum_ns: u128,
    sum_of_squares: f64,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
    overflow: u64,
    buckets: Vec<(u32, u64)>,
}

impl Stored {
    fn ends(&self) -> (u64, u64) {
        (self.min_ns.unwrap_or(u64::MAX), self.max_ns.unwrap_or(0))
    }

    /// Contradictions in the stored form: minimum above maximum, a bucket that does not exist, or a
    /// count that is not the sum of the buckets and overflow. The mean may lie outside minimum and
    /// maximum: kernel counts of a profile have an exact sum, but edges of buckets as ends.
    fn fault(&self) -> Option<String> {
        let (min, max) = self.ends();
        if let Some((index, _)) = self.buckets.iter().find(|(index, _)| *index as usize >= BUCKETS)
        {
            let expected = format!("expected one below {BUCKETS}");
            return Some(format!("buckets: found bucket {index}, {expected}"));
        }
        let held: u128 = self.buckets.iter().map(|(_, count)| u128::from(*count)).sum();
        let held = held + u128::from(self.overflow);
        if u128::from(self.count) != held {
            return Some(format!(
                "count: found {}, expected {held}, which is what the buckets and the overflow hold",
                self.count
            ));
        }
        (self.count > 0 && min > max).then(|| {
            let found = format!("min_ns {:?} and max_ns {:?}", self.min_ns, self.max_ns);
            format!("{found} of {} values, expected two that ascend", self.count)
        })
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Stored {
            count: self.count,
            sum_ns: self.sum,
            sum_of_squares: self.sum_of_squares,
            min_ns: self.min(),
            max_ns: self.max(),
            overflow: self.overflow,
            buckets: self.occupied().collect(),
        }
        .serialize(to)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(from)?;
        if let Some(fault) = stored.fault() {
            return Err(serde::de::Error::custom(fault));
        }
        let mut histogram = Histogram::unallocated();
        let ends = stored.ends();
        for (index, count) in stored.buckets {
            let index = index as usize;
            if histogram.counts.len() <= index {
                histogram.counts.resize(index + 1, 0);
            }
            histogram.counts[index] = histogram.counts[index].saturating_add(count);
        }
        histogram.count = stored.count;
        histogram.sum = stored.sum_ns;
        histogram.sum_of_squares = stored.sum_of_squares;
        (histogram.min, histogram.max) = ends;
        histogram.overflow = stored.overflow;
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn buckets_are_contiguous_and_cover_every_value() {
        assert_eq!(lower_edge(0), 0);
        for index in 0..BUCKETS {
            assert_eq!(bucket(lower_edge(index)), index);
            assert_eq!(bucket(upper_edge(index)), index);
            assert_eq!(upper_edge(index) + 1, lower_edge(index + 1));
        }
        assert_eq!(upper_edge(BUCKETS - 1), (1 << MAX_BITS) - 1);
        assert!(bucket(1 << MAX_BITS) >= BUCKETS);
        assert!(bucket(u64::MAX) >= BUCKETS);
    }

    #[test]
    fn memory_is_taken_as_far_as_it_is_used_and_changes_no_figure() {
        let values = [3, 900, 70_000, 1 << 41, 12];
        let (mut full, mut small) = (Histogram::new(), Histogram::unallocated());
        for value in values {
            full.record(value);
            small.record(value);
        }
        assert_eq!(small.counts.len(), bucket(70_000) + 1);
        assert_eq!(full, small);
        for rank in 0..=6 {
            assert_eq!(full.rank(rank), small.rank(rank));
        }
        assert_eq!(full.count_above(1_000), small.count_above(1_000));
        assert_eq!(full.count_above(1 << 39), small.count_above(1 << 39));
        let stored = serde_json::to_string(&full).unwrap();
        let back: Histogram = serde_json::from_str(&stored).unwrap();
        assert_eq!((back.counts.len(), &back), (bucket(70_000) + 1, &full));
        let mut merged = Histogram::unallocated();
        merged.merge(&full);
        merged.merge(&small);
        small.merge(&full);
        assert_eq!(merged, small);
        assert!(small.since(&full).iter().map(|(_, count)| count).sum::<u64>() == 4);
        assert_eq!(full.since(&Histogram::unallocated()).len(), 4);
    }

    #[test]
    fn quantiles_are_within_the_stated_error_from_100_ns_to_100_s() {
        // T12: known values over nine decades.
        let mut histogram = Histogram::new();
        let values: Vec<u64> = (0..=9_000)
            .map(|i| 100.0 * 10f64.powf(f64::from(i) / 1000.0))
            .map(|v| v as u64)
            .collect();
        for value in &values {
            histogram.record(*value);
        }
        for q in [0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let truth = values[rank - 1] as f64;
            let got = histogram.quantile(q).unwrap() as f64;
            assert!((got - truth).abs() <= truth * RELATIVE_ERROR + 1.0, "{q}: {got} vs {truth}");
        }
        assert_eq!(histogram.overflow(), 0);
        assert!(histogram.quantile(0.9999).unwrap() <= histogram.max().unwrap());
    }

    #[test]
    fn values_among_as_many_neighbours_have_a_part_of_their_bucket_each() {
        // Up to 2.1 ms buckets are 8,192 ns wide, then 16,384: 64 or 128 values each.
        let mut even = Histogram::new();
        let values: Vec<u64> = (0..20_000).map(|at| 1_200_000 + at * 128).collect();
        values.iter().for_each(|value| even.record(*value));
        for rank in [3_000, 7_777, 10_000, 15_001] {
            let (low, high) = even.rank(rank).unwrap();
            let truth = values[rank as usize - 1];
            assert!(low <= truth + 128 && truth <= high + 128, "{rank}: {low} {truth} {high}");
            assert!(high - low <= 2 * 128, "{rank}: {low} {high}");
        }
        // With few values in the neighbours, they may all be equal.
        let mut same = even.clone();
        same.record_many(values[10_000], 1_000);
        let (low, high) = same.rank(10_500).unwrap();
        assert!(low <= values[10_000] && values[10_000] <= high && high - low == 16_383);
        // The end of an interval is one point among evenly spread values, and the bucket where they
        // may be equal. A few values in a thin tail do not show that; many without neighbours do.
        assert!(even.place(10_000).is_some_and(|(low, high)| low == high));
        assert_eq!(same.place(10_500), same.rank(10_500));
        for (count, is_place) in [(2, true), (20, false)] {
            let mut tail = even.clone();
            tail.record_many(9_000_000, count);
            tail.record(20_000_000);
            let (low, high) = tail.place(20_001).unwrap();
            assert_eq!(low == high, is_place, "{count}: {low} {high}");
            assert!(low <= 9_000_000 + 40_000 && 9_000_000 - 40_000 <= high, "{low} {high}");
        }
        // The first bucket has no values below it.
        assert_eq!(even.rank(1).map(|(low, _)| low), Some(1_200_000));
    }

    #[test]
    fn exact_figures_stay_exact() {
        let mut histogram = Histogram::new();
        for value in [3, 1_000_003, 70_000_000_000] {
            histogram.record(value);
        }
        assert_eq!(histogram.min(), Some(3));
        assert_eq!(histogram.max(), Some(70_000_000_000));
        assert_eq!(histogram.sum(), 70_001_000_006);
        assert_eq!(histogram.mean(), Some(70_001_000_006.0 / 3.0));
        assert_eq!(histogram.count(), 3);
    }

    #[test]
    fn overflow_is_counted_and_still_ranked() {
        let mut histogram = Histogram::new();
        histogram.record(10);
        histogram.record(1 << 41);
        assert_eq!(histogram.overflow(), 1);
        assert_eq!(histogram.quantile(1.0), Some((1 << 40) + (1 << 40) / 2));
        assert!(histogram.quantile(1.0) <= histogram.max());
        assert_eq!(histogram.count_above(100), 1);
    }

    #[test]
    fn merging_equals_recording_together() {
        let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for i in 0..1000u64 {
            let value = i * i * 37;
            if i % 3 == 0 {
                a.record(value)
            } else {
                b.record(value)
            }
            both.record(value);
        }
        a.merge(&b);
        assert_eq!(a.counts, both.counts);
        assert_eq!((a.count, a.sum, a.min, a.max), (both.count, both.sum, both.min, both.max));
    }

    #[test]
    fn an_empty_histogram_has_no_figures() {
        let histogram = Histogram::new();
        assert_eq!(histogram.quantile(0.5), None);
        assert_eq!(histogram.mean(), None);
        assert_eq!(histogram.min(), None);
        assert_eq!(histogram.rank(1), None);
    }

    #[test]
    fn an_interval_keeps_its_exact_figures() {
        let mut histogram = Histogram::new();
        for value in [1_000_003, 70_000_001, 1 << 41] {
            histogram.record(value);
        }
        let pairs: Vec<(u32, u64)> = histogram.occupied().collect();
        let back = Histogram::from_interval(&pairs, histogram.exact());
        assert_eq!((back.min(), back.max()), (histogram.min(), histogram.max()));
        assert_eq!((back.mean(), back.overflow()), (histogram.mean(), 1));
        assert_eq!(back.count(), 3);
        assert_eq!(Histogram::from_interval(&[], Exact::default()).min(), None);
    }

    #[test]
    fn it_survives_being_stored() {
        let mut histogram = Histogram::new();
        for i in 0..500u64 {
            histogram.record(i * 12_345);
        }
        let text = serde_json::to_string(&histogram).unwrap();
        let back: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(back, histogram);
    }

    #[test]
    fn what_no_values_can_have_is_refused() {
        let mut histogram = Histogram::new();
        histogram.record(100);
        histogram.record(300);
        let text = serde_json::to_string(&histogram).unwrap();
        for (right, wrong, reason) in [
            ("\"min_ns\":100", "\"min_ns\":301", "expected two that ascend"),
            ("\"count\":2", "\"count\":3", "count: found 3, expected 2, which is what the"),
            ("[100,1]", "[100,2]", "count: found 2, expected 3, which is what the"),
            ("\"overflow\":0", "\"overflow\":1", "count: found 2, expected 3, which is what"),
            ("[100,1]", "[99999,1]", "found bucket 99999, expected one below 4352"),
        ] {
            assert!(text.contains(right), "{right} in {text}");
            let error = serde_json::from_str::<Histogram>(&text.replace(right, wrong)).unwrap_err();
            assert!(error.to_string().contains(reason), "{wrong}: {error}");
        }
    }
}
