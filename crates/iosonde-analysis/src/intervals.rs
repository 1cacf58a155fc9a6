//! The measured window in equal intervals, with the operations of one direction in each.
//!
//! Series of several jobs may have different widths: a width is the plan's, doubled some number of
//! times. Intervals are as wide as requested, rounded up to a multiple of the widest series, so
//! that whole intervals are summed and no percentile is averaged.

use serde::Serialize;

use iosonde_model::record::run::{DirectionRun, JobRun, Run};
use iosonde_stats::Histogram;

/// Name of a direction, and its accessor in a job.
pub type Direction = (&'static str, fn(&JobRun) -> &DirectionRun);

/// Every direction that is recorded separately, in the order of reports.
pub const DIRECTIONS: [Direction; 4] = [
    ("read", |job| &job.read),
    ("write", |job| &job.write),
    ("trim", |job| &job.trim),
    ("sync", |job| &job.sync),
];

/// One interval of the window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Start, ns since the window opened.
    pub start_ns: u64,
    /// End, ns since the window opened.
    pub end_ns: u64,
    /// Operations completed in it.
    pub ops: u64,
    /// Bytes moved by them.
    pub bytes: u64,
}

impl Interval {
    /// Operations per second.
    pub fn iops(&self) -> f64 {
        self.per_second(self.ops)
    }

    /// Bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.per_second(self.bytes)
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / (self.end_ns - self.start_ns).max(1) as f64
    }
}

/// Width of intervals that suits every counter and histogram series of these jobs: at least
/// `asked_ns`, and a multiple of each series' width; 0 if there is no series.
pub fn common_width_ns(jobs: &[&JobRun], asked_ns: u64) -> u64 {
    let widths = of_all(jobs).flat_map(|each| [each.counters.width_ns, each.latencies.width_ns]);
    multiple(widths.max().unwrap_or(0), asked_ns)
}

/// The same for the counters alone, which have narrower intervals.
pub fn counter_width_ns(jobs: &[&JobRun], asked_ns: u64) -> u64 {
    multiple(of_all(jobs).map(|each| each.counters.width_ns).max().unwrap_or(0), asked_ns)
}

fn multiple(widest_ns: u64, asked_ns: u64) -> u64 {
    if widest_ns == 0 { 0 } else { asked_ns.max(1).next_multiple_of(widest_ns) }
}

/// Directions with operations.
fn of_all<'a>(jobs: &'a [&'a JobRun]) -> impl Iterator<Item = &'a DirectionRun> {
    each(jobs, &DIRECTIONS).filter(|each| each.ops > 0)
}

/// All jobs of a run.
pub fn all_jobs(run: &Run) -> Vec<&JobRun> {
    run.jobs.iter().collect()
}

/// Edges of the intervals of a window. A remainder of less than half a width is added to the last
/// interval: a rate over a very short interval means nothing.
fn edges(window_ns: u64, width_ns: u64) -> Vec<Interval> {
    if window_ns == 0 || width_ns == 0 {
        return Vec::new();
    }
    let count = ((window_ns + width_ns / 2) / width_ns).max(1);
    let edge = |index: u64| if index == count { window_ns } else { index * width_ns };
    (0..count)
        .map(|index| Interval { start_ns: edge(index), end_ns: edge(index + 1), ops: 0, bytes: 0 })
        .collect()
}

/// Operations and bytes of these directions of these jobs per interval of `width_ns`.
pub fn rates(jobs: &[&JobRun], of: &[Direction], window_ns: u64, width_ns: u64) -> Vec<Interval> {
    let mut intervals = edges(window_ns, width_ns);
    let Some(last) = intervals.len().checked_sub(1) else { return intervals };
    for counters in each(jobs, of).map(|direction| &direction.counters) {
        for (index, (ops, bytes)) in counters.ops.iter().zip(&counters.bytes).enumerate() {
            let slot = slot(index, counters.width_ns, width_ns).min(last);
            intervals[slot].ops += ops;
            intervals[slot].bytes += bytes;
        }
    }
    intervals
}

/// The same with the latencies of each interval.
pub fn over_time<'a>(
    jobs: &'a [&'a JobRun],
    of: &'a [Direction],
    window_ns: u64,
    width_ns: u64,
) -> impl Iterator<Item = (Interval, Histogram)> + 'a {
    let intervals = rates(jobs, of, window_ns, width_ns);
    let last = intervals.len().saturating_sub(1);
    let latency = move |at: usize| {
        let mut sum = Histogram::new();
        for series in each(jobs, of).map(|direction| &direction.latencies) {
            let first =
                |at: usize| (at as u64 * width_ns).div_ceil(series.width_ns.max(1)) as usize;
            // The last one includes the remainder.
            let end = if at == last { usize::MAX } else { first(at + 1) };
            let own = series.intervals.iter().zip(&series.exact).take(end).skip(first(at));
            own.for_each(|(pairs, exact)| sum.merge(&Histogram::from_interval(pairs, *exact)));
        }
        sum
    };
    intervals.into_iter().enumerate().map(move |(at, interval)| (interval, latency(at)))
}

fn each<'a>(jobs: &'a [&'a JobRun], of: &'a [Direction]) -> impl Iterator<Item = &'a DirectionRun> {
    of.iter().flat_map(|(_, of)| jobs.iter().map(|job| of(job)))
}

/// Open loop: longest wait of a due operation in an interval, ns; `None` in a closed loop.
pub fn backlog_ns(jobs: &[&JobRun], interval: &Interval) -> Option<u64> {
    let inside = |job: &JobRun| {
        let width_ns = job.arrivals.backlog_width_ns;
        let waits = job.arrivals.backlog_ns.iter().zip(0u64..);
        waits
            .filter(|(_, at)| (interval.start_ns..interval.end_ns).contains(&(at * width_ns)))
            .map(|(wait_ns, _)| *wait_ns)
            .max()
    };
    jobs.iter().filter_map(|job| inside(job)).max()
}

/// The wide interval in which a narrow one lies.
fn slot(index: usize, narrow_ns: u64, wide_ns: u64) -> usize {
    usize::try_from(index as u64 * narrow_ns / wide_ns.max(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::{Load, run_of};

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn nothing_is_lost_whatever_the_width() {
        let run = run_of(&[Load { jobs: 2, read_percent: 70, ..Load::default() }]);
        let jobs = all_jobs(&run);
        for asked_ns in [1, SECOND, 3 * SECOND, 4 * SECOND, 60 * SECOND] {
            let width_ns = common_width_ns(&jobs, asked_ns);
            assert_eq!(width_ns % (SECOND / 10), 0);
            for direction in DIRECTIONS {
                let rows = rates(&jobs, &[direction], run.measured_ns, width_ns);
                let sum = |of: fn(&DirectionRun) -> u64| -> u64 {
                    run.jobs.iter().map(|job| of(direction.1(job))).sum()
                };
                assert_eq!(rows.iter().map(|row| row.ops).sum::<u64>(), sum(|each| each.ops));
                assert_eq!(rows.iter().map(|row| row.bytes).sum::<u64>(), sum(|each| each.bytes));
                let last = rows.len() - 1;
                let counted: u64 = over_time(&jobs, &[direction], run.measured_ns, width_ns)
                    .map(|(_, latency)| latency.count())
                    .sum();
                assert_eq!(counted, sum(|each| each.latency.count()));
                assert_eq!(rows[0].start_ns, 0);
                assert_eq!(rows[last].end_ns, run.measured_ns);
                assert!(rows.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
            }
        }
    }

    #[test]
    fn rates_are_over_the_true_length_of_an_interval() {
        let run = run_of(&[Load { noise: 0.0, iops: 5_000.0, ..Load::default() }]);
        let jobs = all_jobs(&run);
        // 10 s in intervals of 4 s: the rest of 2 s is half a width and becomes an interval.
        let rows = rates(&jobs, &DIRECTIONS[..1], run.measured_ns, 4 * SECOND);
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[2].end_ns - rows[2].start_ns, 2 * SECOND);
        for row in &rows {
            assert_eq!(row.iops(), 5_000.0);
            assert_eq!(row.bytes_per_s(), 5_000.0 * 4096.0);
        }
        // 10 s in intervals of 7 s: the rest of 3 s is less than half.
        let rows = rates(&jobs, &DIRECTIONS[..1], run.measured_ns, 7 * SECOND);
        assert_eq!((rows.len(), rows[0].iops()), (1, 5_000.0));
    }

    #[test]
    fn a_backlog_is_reported_where_it_was_worst() {
        let mut run = run_of(&[Load { jobs: 2, ..Load::default() }]);
        run.jobs[1].arrivals.backlog_width_ns = SECOND / 10;
        run.jobs[1].arrivals.backlog_ns = vec![0, 5, 0, 0, 0, 0, 0, 0, 0, 7, 9];
        let rows = rates(&all_jobs(&run), &DIRECTIONS[..1], run.measured_ns, SECOND);
        let of = |job: usize, row: usize| backlog_ns(&[&run.jobs[job]], &rows[row]);
        assert_eq!([of(1, 0), of(1, 1), of(1, 2), of(0, 0)], [Some(7), Some(9), None, None]);
    }

    #[test]
    fn without_a_series_there_are_no_intervals() {
        let run = run_of(&[Load { iops: 0.0, ..Load::default() }]);
        let jobs = all_jobs(&run);
        assert_eq!(common_width_ns(&jobs, SECOND), 0);
        assert!(rates(&jobs, &DIRECTIONS[..1], run.measured_ns, 0).is_empty());
    }
}
