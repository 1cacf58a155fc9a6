//! Counts of one job while it runs. Every buffer is allocated before the clock starts.

use super::live::{LiveCounts, LiveLatency};
use super::priorities::of_way;
use super::requests::{Slot, Times};
use super::timed::{SparseSeries, Timed};
use super::until::Sums;
use super::window::Window;
use iosonde_model::plan::{Direction as Request, IoKind, Job, Plan};
use iosonde_model::record::JobRun;
use iosonde_model::record::run::{
    CounterSeries, DirectionRun, HistogramSeries, PriorityRun, TargetRun,
};
use iosonde_stats::Histogram;

/// Counter intervals kept before neighbours are merged: 80 s at 10 ms, 800 s at 100 ms.
const MAX_COUNTERS: usize = 8192;

/// Counts of one job, by direction.
#[derive(Debug)]
pub(super) struct Tally {
    window: Window,
    /// Indexed by [`IoKind`].
    directions: [Direction; IoKind::ALL.len()],
    /// In the order of the job's list, where it has several targets.
    targets: Vec<TargetRun>,
    width_ns: u64,
    histogram_width_ns: u64,
    /// Histogram width at the beginning, ns.
    first_histogram_width_ns: u64,
    /// Histogram intervals finished so far.
    histogram_index: u64,
    /// Counter interval of the current batch; `None` outside the window.
    counter_index: Option<usize>,
    /// When `counter_index` changes, ns.
    next_edge_ns: u64,
    /// The latest operations, while they are alike.
    alike: Alike,
    /// Latencies of finished intervals, for live display.
    live: LiveCounts,
    /// Operations and bytes since the start, warm-up and drain included.
    pub(super) all_ops: [u64; IoKind::ALL.len()],
    pub(super) all_bytes: [u64; IoKind::ALL.len()],
}

/// Operations of one direction that were submitted and reaped together. Where requests complete
/// inside submission, a whole batch is alike and is counted at once.
#[derive(Clone, Copy, Debug)]
struct Alike {
    way: IoKind,
    submitted_ns: u64,
    ops: u64,
    bytes: u64,
}

impl Tally {
    pub(super) fn new(plan: &Plan, job: &Job) -> Tally {
        let width_ns = plan.interval_ns;
        let histogram_width_ns = width_ns * u64::from(plan.intervals_per_histogram);
        Tally {
            window: Window { open_ns: 0, close_ns: u64::MAX },
            directions: [
                Direction::new(job.reads(), IoKind::Read, job),
                Direction::new(job.writes_data(), IoKind::Write, job),
                Direction::new(job.discards(), IoKind::Trim, job),
                Direction::new(job.syncs(), IoKind::Sync, job),
            ],
            targets: targets(job),
            width_ns,
            histogram_width_ns,
            first_histogram_width_ns: histogram_width_ns,
            histogram_index: 0,
            counter_index: None,
            next_edge_ns: 0,
            alike: Alike { way: IoKind::Read, submitted_ns: 0, ops: 0, bytes: 0 },
            live: LiveCounts::new(),
            all_ops: [0; IoKind::ALL.len()],
            all_bytes: [0; IoKind::ALL.len()],
        }
    }

    /// Fixes the window, before anything is counted.
    pub(super) fn set_window(&mut self, window: Window) {
        self.window = window;
        self.next_edge_ns = 0;
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
            let factor = self.merge_factor();
            self.directions.iter_mut().for_each(|each| merge(&mut each.counters, factor));
            self.width_ns *= factor as u64;
        }
        let index = since_open_ns / self.width_ns;
        self.counter_index = Some(index as usize);
        let interval_end_ns = open_ns + (index + 1) * self.width_ns;
        self.next_edge_ns = interval_end_ns.min(close_ns.saturating_add(1));
    }

    /// Number of neighbours to merge, so that a width divides that of a histogram or is a multiple.
    fn merge_factor(&self) -> usize {
        let whole_ns = self.first_histogram_width_ns;
        let is_part = |factor: &usize| whole_ns.is_multiple_of(self.width_ns * *factor as u64);
        (2..=10).find(is_part).unwrap_or(2)
    }

    /// Counts one operation submitted at `submitted_ns` and reaped at the announced time. The
    /// counts include it after the next [`Tally::settle`].
    #[inline(always)]
    pub(super) fn complete(&mut self, way: IoKind, bytes: u32, submitted_ns: u64, now_ns: u64) {
        if self.alike.submitted_ns != submitted_ns || self.alike.way != way {
            self.settle(now_ns);
            self.alike = Alike { way, submitted_ns, ops: 0, bytes: 0 };
        }
        self.alike.ops += 1;
        self.alike.bytes += u64::from(bytes);
    }

    /// Operations and bytes of one way since the window opened.
    pub(super) fn counted(&self, way: IoKind) -> (u64, u64) {
        let counters = self.directions[way as usize].counters.iter();
        counters.fold((0, 0), |(ops, bytes), each| (ops + each.ops, bytes + each.bytes))
    }

    /// The longest latency so far, ns.
    pub(super) fn slowest_ns(&self) -> u64 {
        let of = |each: &Direction| {
            each.latency.current.max().unwrap_or(0).max(each.latency.total.max().unwrap_or(0))
        };
        self.directions.iter().map(of).max().unwrap_or(0)
    }

    /// Whether the latency of an operation submitted then and reaped now is counted.
    #[inline(always)]
    pub(super) fn knows(&self, submitted_ns: u64) -> bool {
        self.counter_index.is_some() && submitted_ns >= self.window.open_ns
    }

    /// Adds the completed operations of `alike` to the counts.
    #[inline(always)]
    pub(super) fn settle(&mut self, now_ns: u64) {
        if self.alike.ops > 0 {
            self.book(now_ns);
        }
    }

    #[inline(never)]
    fn book(&mut self, now_ns: u64) {
        let Alike { way, submitted_ns, ops, bytes } = self.alike;
        (self.alike.ops, self.alike.bytes) = (0, 0);
        self.all_ops[way as usize] += ops;
        self.all_bytes[way as usize] += bytes;
        let Some(index) = self.counter_index else {
            self.complete_outside(way, ops, submitted_ns, now_ns);
            return;
        };
        let direction = &mut self.directions[way as usize];
        if let Some(counter) = direction.counters.get_mut(index) {
            counter.ops += ops;
            counter.bytes += bytes;
        }
        if submitted_ns < self.window.open_ns {
            direction.carried_in += ops;
            direction.crossing_ns += ops * (now_ns - self.window.open_ns);
        } else {
            direction.latency.current.record_many(now_ns.saturating_sub(submitted_ns), ops);
        }
    }

    /// Records what only some jobs need of an operation.
    #[inline]
    pub(super) fn complete_more(&mut self, request: &Slot, times: Times, now_ns: u64) {
        let latency_ns = now_ns - request.submitted_ns;
        let direction = &mut self.directions[request.op.way as usize];
        if let Some(open) = &mut direction.open {
            open.response.current.record(now_ns - times.due_ns.min(now_ns));
            open.lag.record(request.submitted_ns - times.due_ns.min(request.submitted_ns));
        }
        if let Some(apart) = &mut direction.apart {
            // A request that completed inside submission has no completion latency.
            let slat_ns = times.handed_ns.saturating_sub(request.submitted_ns).min(latency_ns);
            apart.slat.record(slat_ns);
            apart.clat.record(latency_ns - slat_ns);
        }
        let of_its = |run: &&mut PriorityRun| run.priority == times.priority;
        if let Some(run) = direction.priorities.iter_mut().find(of_its) {
            run.latency.record(latency_ns);
        }
        let index = self.targets.iter().position(|run| run.target == request.op.target);
        if let Some(target) = index.map(|index| &mut self.targets[index]) {
            target.ops += u64::from(request.op.way != IoKind::Sync);
            target.bytes += u64::from(request.op.bytes);
            target.latency.record(latency_ns);
        }
    }

    /// Mean latency in the current histogram interval, ns; 0 before the first completion.
    pub(super) fn mean_latency_ns(&self) -> u64 {
        let sum: u128 =
            self.directions.iter().map(|direction| direction.latency.current.sum()).sum();
        let count: u64 =
            self.directions.iter().map(|direction| direction.latency.current.count()).sum();
        (sum / u128::from(count.max(1))) as u64
    }

    /// Counts an operation in flight since `submitted_ns` that will not complete.
    pub(super) fn give_up(&mut self, way: IoKind, submitted_ns: u64, now_ns: u64) {
        self.complete_outside(way, 1, submitted_ns, now_ns);
    }

    /// Counts the part inside the window of operations that complete outside of it.
    #[cold]
    fn complete_outside(&mut self, way: IoKind, ops: u64, submitted_ns: u64, now_ns: u64) {
        let Window { open_ns, close_ns } = self.window;
        let inside_ns = now_ns.min(close_ns).saturating_sub(submitted_ns.max(open_ns));
        self.directions[way as usize].crossing_ns += ops * inside_ns;
    }

    /// Moves the finished histogram interval into the series, and empty ones up to now.
    fn finish_histograms(&mut self, since_open_ns: u64) {
        while since_open_ns >= (self.histogram_index + 1) * self.histogram_width_ns {
            self.directions.iter_mut().for_each(Direction::finish_interval);
            let [data @ .., _syncs] = &self.directions;
            for direction in data.iter().filter(|direction| direction.used) {
                self.live.add(direction.latency.series.last());
            }
            self.histogram_index += 1;
            // Neighbours without a common bucket need more than one round. Only pairs are merged: a
            // single interval at the end would count as a double one.
            while self.histogram_index.is_multiple_of(2)
                && self.directions.iter().any(Direction::is_full)
            {
                self.directions.iter_mut().for_each(Direction::halve);
                self.histogram_width_ns *= 2;
                self.histogram_index /= 2;
            }
        }
    }

    /// Publishes latencies for live display.
    pub(super) fn publish(&mut self, to: &LiveLatency) {
        self.live.publish(to);
    }

    /// Closes the window now, unless it has closed before.
    pub(super) fn close(&mut self, now_ns: u64) {
        self.window.close_ns = self.window.close_ns.min(now_ns.max(self.window.open_ns));
        // Completions while draining are not counted any more.
        self.next_edge_ns = self.next_edge_ns.min(self.window.close_ns.saturating_add(1));
    }

    /// Sums up the counts since the window opened, of one direction or of all that move data.
    pub(super) fn sum_up(&self, direction: Request, counts_bytes: bool, sums: &mut Sums) {
        let ways: &[IoKind] = match direction {
            Request::Total => &[IoKind::Read, IoKind::Write, IoKind::Trim],
            Request::Read => &[IoKind::Read],
            Request::Write => &[IoKind::Write],
        };
        (sums.amount, sums.bytes) = (0, 0);
        sums.latency.clear();
        let all = ways.iter().map(|way| &self.directions[*way as usize]);
        for direction in all.filter(|direction| direction.used) {
            let of = |counter: &Counter| if counts_bytes { counter.bytes } else { counter.ops };
            sums.amount += direction.counters.iter().map(of).sum::<u64>();
            sums.bytes += direction.counters.iter().map(|counter| counter.bytes).sum::<u64>();
            let open = direction.open.as_ref();
            let latency = open.map_or(&direction.latency, |open| &open.response);
            sums.latency.merge(&latency.total);
            sums.latency.merge(&latency.current);
        }
    }

    pub(super) fn window(&self) -> Window {
        self.window
    }

    /// Puts all directions into the record of the job.
    pub(super) fn into_record(mut self, job: &mut JobRun) {
        self.directions.iter_mut().for_each(Direction::finish_interval);
        let last = self.counter_index_at_close();
        for direction in &mut self.directions {
            // Completions at the very close belong to the interval that ends there.
            if let Some([last, beyond]) = direction.counters.get_mut(last..last + 2) {
                last.ops += std::mem::take(&mut beyond.ops);
                last.bytes += std::mem::take(&mut beyond.bytes);
            }
        }
        let intervals = last + 1;
        let record = |direction: Direction| {
            direction.into_record(self.width_ns, self.histogram_width_ns, intervals)
        };
        let [read, write, trim, sync] = self.directions;
        (job.read, job.write) = (record(read), record(write));
        (job.trim, job.sync) = (record(trim), record(sync));
        job.targets = self.targets;
    }

    /// The counter interval in which the window ends.
    fn counter_index_at_close(&self) -> usize {
        let length_ns = self.window.close_ns.saturating_sub(self.window.open_ns);
        (length_ns.saturating_sub(1) / self.width_ns) as usize
    }
}

/// Empty counts for each of a job's targets, where it has several.
fn targets(job: &Job) -> Vec<TargetRun> {
    if job.targets.len() < 2 {
        return Vec::new();
    }
    let empty = |target: &u16| TargetRun { target: *target, ..TargetRun::default() };
    job.targets.iter().map(empty).collect()
}

#[derive(Debug)]
struct Direction {
    /// Whether the job has this direction; if not, nothing is allocated.
    used: bool,
    carried_in: u64,
    crossing_ns: u64,
    counters: Box<[Counter]>,
    latency: Timed,
    open: Option<Box<OpenLatency>>,
    apart: Option<Box<ApartLatency>>,
    priorities: Vec<PriorityRun>,
}

/// Latencies that only an open loop has.
#[derive(Debug)]
struct OpenLatency {
    response: Timed,
    lag: Histogram,
}

/// Latencies that are known where submission and wait are separate calls.
#[derive(Debug, Default)]
struct ApartLatency {
    slat: Histogram,
    clat: Histogram,
}

impl Direction {
    fn new(used: bool, way: IoKind, job: &Job) -> Direction {
        let empty = |priority| PriorityRun { priority, ..PriorityRun::default() };
        Direction {
            used,
            carried_in: 0,
            crossing_ns: 0,
            counters: vec![Counter::default(); if used { MAX_COUNTERS } else { 0 }].into(),
            latency: Timed::new(used),
            open: (used && job.is_open_loop()).then(|| {
                Box::new(OpenLatency { response: Timed::new(true), lag: Histogram::new() })
            }),
            apart: (used && job.reap.slat).then(Box::default),
            priorities: of_way(job, way).into_iter().map(empty).collect(),
        }
    }

    fn finish_interval(&mut self) {
        if !self.used {
            return;
        }
        self.timed().for_each(Timed::finish_interval);
    }

    fn is_full(&self) -> bool {
        let response = self.open.as_ref().map(|open| &open.response.series);
        self.latency.series.is_full() || response.is_some_and(SparseSeries::is_full)
    }

    /// Merges neighbouring histograms two by two.
    fn halve(&mut self) {
        self.timed().for_each(|timed| timed.series.halve());
    }

    fn timed(&mut self) -> impl Iterator<Item = &mut Timed> {
        std::iter::once(&mut self.latency).chain(self.open.as_mut().map(|open| &mut open.response))
    }

    fn into_record(self, width_ns: u64, histogram_width_ns: u64, used: usize) -> DirectionRun {
        let counters = &self.counters[..used.min(self.counters.len())];
        let ops: Vec<u64> = self.counters.iter().map(|counter| counter.ops).collect();
        let bytes: Vec<u64> = self.counters.iter().map(|counter| counter.bytes).collect();
        let (response, responses, lag) = match self.open {
            Some(open) => {
                let Timed { total, series, .. } = open.response;
                (total, series.into_record(histogram_width_ns), open.lag)
            }
            None => (Histogram::new(), HistogramSeries::default(), Histogram::new()),
        };
        let ApartLatency { slat, clat } = self.apart.map(|apart| *apart).unwrap_or_default();
        DirectionRun {
            ops: ops.iter().sum(),
            bytes: bytes.iter().sum(),
            carried_in: self.carried_in,
            crossing_ns: self.crossing_ns,
            latency: self.latency.total,
            counters: CounterSeries {
                width_ns,
                ops: counters.iter().map(|counter| counter.ops).collect(),
                bytes: counters.iter().map(|counter| counter.bytes).collect(),
            },
            latencies: self.latency.series.into_record(histogram_width_ns),
            responses,
            slat,
            clat,
            response,
            lag,
            priorities: self.priorities,
        }
    }
}

/// Operations and bytes of one interval.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Counter {
    ops: u64,
    bytes: u64,
}

/// Merges groups of `factor` neighbours.
fn merge(counters: &mut [Counter], factor: usize) {
    let merged = counters.len().div_ceil(factor);
    for index in 0..merged {
        let end = ((index + 1) * factor).min(counters.len());
        let sum = counters[index * factor..end].iter().fold(Counter::default(), |sum, each| {
            Counter { ops: sum.ops + each.ops, bytes: sum.bytes + each.bytes }
        });
        counters[index] = sum;
    }
    counters[merged..].fill(Counter::default());
}

#[cfg(test)]
mod tests {
    use super::super::timed::MAX_ENTRIES;
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
        let kept: u64 =
            series.into_record(1).intervals.iter().flatten().map(|(_, count)| count).sum();
        assert_eq!(kept, total);
    }

    #[test]
    fn counters_are_merged_exactly() {
        for (factor, expected) in [(2, [3, 7, 0, 0]), (3, [6, 4, 0, 0]), (5, [10, 0, 0, 0])] {
            let mut counters: Vec<Counter> =
                (1..=4).map(|ops| Counter { ops, bytes: 10 * ops }).collect();
            merge(&mut counters, factor);
            let ops: Vec<u64> = counters.iter().map(|counter| counter.ops).collect();
            assert_eq!(ops, expected);
            assert!(counters.iter().all(|counter| counter.bytes == 10 * counter.ops));
        }
    }
}
