//! Requests per interval, in bounded memory: beyond the limit, neighbouring intervals are merged
//! and the width doubles.

use std::collections::BTreeMap;

use super::tally::Increase;
use iosonde_model::record::profile::{Op, TrafficSeries};
use iosonde_model::record::run::{CounterSeries, HistogramSeries};

/// Largest number of intervals.
const MOST: usize = 600;

/// Subject of a series.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Counted {
    /// An operation of the program, with its latencies.
    Op(Op),
    /// The slot at this place.
    Slot(u32),
}

#[derive(Debug)]
pub(super) struct Series {
    width_ns: u64,
    zero_ns: u64,
    /// Time of the last reading, and the middle between it and the one before, ns.
    looked_ns: u64,
    middle_ns: u64,
    lists: BTreeMap<Counted, Vec<Increase>>,
}

/// The series of the record.
#[derive(Debug, Default)]
pub(super) struct OverTime {
    /// Operations of the program that occurred; all series have equal length.
    pub(super) ops: Vec<TrafficSeries>,
    /// Slots by their places, of the same length.
    pub(super) slots: BTreeMap<u32, CounterSeries>,
}

impl Series {
    /// Intervals of this width from `zero_ns` on.
    pub(super) fn new(zero_ns: u64, width_ns: u64) -> Series {
        let lists = BTreeMap::new();
        Series { width_ns, zero_ns, looked_ns: zero_ns, middle_ns: zero_ns, lists }
    }

    /// Starts a reading. Its counts are assigned to the interval that contains the middle between
    /// it and the previous reading, because a reading is often slightly late, seldom early.
    pub(super) fn look(&mut self, now_ns: u64) {
        self.middle_ns = self.looked_ns + now_ns.saturating_sub(self.looked_ns) / 2;
        self.looked_ns = now_ns;
    }

    /// Adds a slot's counts of this reading.
    pub(super) fn add_slot(&mut self, place: u32, increase: &Increase) {
        let Increase { requests, bytes, .. } = *increase;
        self.add(Counted::Slot(place), &Increase { requests, bytes, ..Increase::default() });
    }

    /// Adds a program operation's counts of this reading.
    pub(super) fn add_op(&mut self, op: Op, increase: &Increase) {
        self.add(Counted::Op(op), increase);
    }

    fn add(&mut self, counted: Counted, increase: &Increase) {
        let since = self.middle_ns.saturating_sub(self.zero_ns);
        while since / self.width_ns >= MOST as u64 {
            self.double();
        }
        let at = (since / self.width_ns) as usize;
        let intervals = self.lists.entry(counted).or_default();
        if intervals.len() <= at {
            intervals.resize_with(at + 1, Increase::default);
        }
        intervals[at].merge(increase);
    }

    fn double(&mut self) {
        self.width_ns *= 2;
        for intervals in self.lists.values_mut() {
            let pairs = intervals.chunks(2).map(|pair| {
                let mut merged = pair[0].clone();
                pair.get(1).into_iter().for_each(|second| merged.merge(second));
                merged
            });
            *intervals = pairs.collect();
        }
    }

    /// The record's series.
    pub(super) fn finish(mut self, end_ns: u64) -> OverTime {
        let since = end_ns.saturating_sub(self.zero_ns).saturating_sub(1);
        while since / self.width_ns >= MOST as u64 {
            self.double();
        }
        let length = (since / self.width_ns) as usize + 1;
        let width_ns = self.width_ns;
        let mut over_time = OverTime::default();
        for (counted, mut intervals) in self.lists {
            intervals.resize_with(length.max(intervals.len()), Increase::default);
            let each = || intervals.iter();
            let counters = CounterSeries {
                width_ns,
                ops: each().map(|interval| interval.requests).collect(),
                bytes: each().map(|interval| interval.bytes).collect(),
            };
            match counted {
                Counted::Slot(place) => {
                    over_time.slots.insert(place, counters);
                }
                Counted::Op(op) => {
                    let latencies = HistogramSeries {
                        width_ns,
                        intervals: each().map(|one| one.latency.occupied().collect()).collect(),
                        exact: each().map(|one| one.latency.exact()).collect(),
                    };
                    over_time.ops.push(TrafficSeries { op, counters, latencies });
                }
            }
        }
        over_time
    }
}

#[cfg(test)]
mod tests {
    use iosonde_stats::Histogram;

    use super::*;

    fn one(requests: u64) -> Increase {
        let mut latency = Histogram::new();
        latency.record_many(1000, requests);
        Increase { requests, bytes: requests * 512, latency }
    }

    #[test]
    fn looks_fall_into_their_intervals_and_gaps_are_empty() {
        let mut series = Series::new(100, 10);
        // Each reading is slightly late.
        for (now, reads, writes) in [(111, 1, 0), (122, 0, 0), (131, 0, 0), (143, 2, 3)] {
            series.look(now);
            for (op, requests) in [(Op::Read, reads), (Op::Write, writes)] {
                series.add_op(op, &one(requests));
            }
            series.add_slot(7, &one(writes));
        }
        let OverTime { ops, slots } = series.finish(150);
        assert_eq!(ops[0].counters.ops, [1, 0, 0, 2, 0]);
        assert_eq!(ops[1].counters.ops, [0, 0, 0, 3, 0]);
        assert_eq!(ops[0].latencies.intervals.len(), 5);
        assert_eq!(slots[&7].ops, [0, 0, 0, 3, 0]);
        assert_eq!(slots[&7].bytes[3], 1536);
    }

    #[test]
    fn a_long_run_stays_bounded_and_loses_nothing() {
        let mut series = Series::new(0, 1);
        for now in 1..=10_000 {
            series.look(now);
            series.add_op(Op::Write, &one(1));
            series.add_slot(3, &one(2));
        }
        let OverTime { ops, slots } = series.finish(10_000);
        assert_eq!(slots[&3].ops.len(), ops[0].counters.ops.len());
        assert_eq!(slots[&3].ops.iter().sum::<u64>(), 20_000);
        let counters = &ops[0].counters;
        assert!(counters.ops.len() <= MOST);
        assert_eq!(counters.ops.iter().sum::<u64>(), 10_000);
        assert_eq!(counters.width_ns, 32);
        assert_eq!(counters.ops[0], 32);
    }
}
