//! Interval series of several jobs on one time axis.

use iosonde_model::plan::{Arrivals, Pace};
use iosonde_model::record::run::{CounterSeries, DirectionRun, HistogramSeries, JobRun, Run};
use iosonde_stats::Histogram;
use iosonde_stats::dependent::{Batch, NoInterval};

/// Operations and bytes per interval, summed over jobs and directions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Width of an interval, ns; 0 if there is no series.
    pub width_ns: u64,
    /// Operations per interval.
    pub ops: Vec<u64>,
    /// Bytes per interval.
    pub bytes: Vec<u64>,
}

impl Series {
    /// Operations per second in each whole interval.
    pub fn iops(&self) -> Vec<f64> {
        self.per_second(&self.ops)
    }

    /// Bytes per second in each whole interval.
    pub fn bytes_per_s(&self) -> Vec<f64> {
        self.per_second(&self.bytes)
    }

    /// This series in intervals of at least this width.
    pub(crate) fn at_least(self, width_ns: u64) -> Series {
        let joined = self.within(width_ns);
        self.joined(joined)
    }

    /// Number of own intervals in a length, rounded up.
    fn within(&self, width_ns: u64) -> usize {
        usize::try_from(width_ns.div_ceil(self.width_ns.max(1))).unwrap_or(1).max(1)
    }

    /// This series with this many intervals merged into one.
    fn joined(self, joined: usize) -> Series {
        if joined == 1 || self.width_ns == 0 {
            return self;
        }
        let sums = |counts: &[u64]| counts.chunks_exact(joined).map(|c| c.iter().sum()).collect();
        Series {
            width_ns: self.width_ns * joined as u64,
            ops: sums(&self.ops),
            bytes: sums(&self.bytes),
        }
    }

    fn per_second(&self, counts: &[u64]) -> Vec<f64> {
        counts.iter().map(|count| *count as f64 * 1e9 / self.width_ns.max(1) as f64).collect()
    }
}

/// Whether the load itself neither changes nor pauses: a rate that changes by request says nothing
/// about the storage.
pub(crate) fn is_even(run: &Run) -> bool {
    let is_uneven = |pace: &Pace| {
        matches!(pace, Pace::Recorded(_) | Pace::Rate { arrivals: Arrivals::Bursts(_), .. })
    };
    let mut jobs = run.plan.jobs.iter();
    jobs.all(|job| job.phases.is_empty() && job.think.ns == 0 && !is_uneven(&job.pace))
}

/// The data operations of a job.
pub(crate) fn of_data(job: &JobRun) -> [&DirectionRun; 3] {
    [&job.read, &job.write, &job.trim]
}

/// Number of data operations of a job.
pub(crate) fn data_ops(job: &JobRun) -> u64 {
    of_data(job).iter().map(|direction| direction.ops).sum()
}

/// All data operations of every job of a run.
pub fn directions(run: &Run) -> impl Iterator<Item = &DirectionRun> {
    run.jobs.iter().flat_map(of_data)
}

/// Latencies of all data operations of a run.
pub(crate) fn latency(run: &Run) -> Histogram {
    Histogram::of_all(directions(run).map(|direction| &direction.latency))
}

/// All operations of every job of a run, syncs included.
pub fn everything(run: &Run) -> impl Iterator<Item = &DirectionRun> {
    run.jobs.iter().flat_map(JobRun::directions)
}

/// Smallest interval width of analyses over time, ns: narrower intervals have too few operations on
/// slow devices.
pub(crate) const STEP_NS: u64 = 100_000_000;
/// Intervals that suffice to search for changes of level, and fewest operations in each.
const SEARCHED: u64 = 40;
const SEARCHED_OPS: u64 = 16;

/// The series of a run in whole intervals of 100 ms or more: the last one is omitted if the window
/// cut it short.
pub fn whole(run: &Run) -> Series {
    finest(run).at_least(STEP_NS)
}

/// The series for the search for changes of level: a short run has [`SEARCHED`] narrower intervals,
/// as long as each has [`SEARCHED_OPS`] operations on average.
pub(crate) fn searched(run: &Run) -> Series {
    let finest = finest(run);
    let (intervals, ops) = (finest.ops.len() as u64, finest.ops.iter().sum::<u64>());
    let by_ops = (SEARCHED_OPS * intervals).div_ceil(ops.max(1));
    let joined = usize::try_from(by_ops.max(intervals / SEARCHED).max(1)).unwrap_or(usize::MAX);
    let joined = joined.min(finest.within(STEP_NS));
    finest.joined(joined)
}

/// The series of a run in the intervals of the record.
pub fn finest(run: &Run) -> Series {
    total(directions(run).map(|direction| &direction.counters), run.measured_ns)
}

/// The series of one direction of a run, chosen by `pick`, whole intervals only.
pub fn of(run: &Run, pick: impl Fn(&JobRun) -> &DirectionRun) -> Series {
    total(run.jobs.iter().map(|job| &pick(job).counters), run.measured_ns).at_least(STEP_NS)
}

/// Operations and latencies of these directions in each whole interval between two times since the
/// window opened. Latencies last until after reaping, in an open loop from the due time.
///
/// # Errors
/// [`NoInterval::OnlyWhole`] if a record does not have them over time.
pub fn batches<'a>(
    directions: impl Iterator<Item = &'a DirectionRun>,
    (from_ns, to_ns): (u64, u64),
) -> Result<Vec<Batch>, NoInterval> {
    let used = over_time(directions);
    let width_ns = shared_width(&used).ok_or(NoInterval::OnlyWhole)?;
    let (first, end) = (from_ns.div_ceil(width_ns), to_ns / width_ns);
    let count = usize::try_from(end.saturating_sub(first)).unwrap_or(0);
    let mut batches = vec![Batch { span_ns: width_ns, ..Batch::default() }; count];
    let slot = |index: usize, narrow_ns: u64| {
        let slot = (index as u64 * narrow_ns / width_ns).checked_sub(first);
        slot.and_then(|slot| usize::try_from(slot).ok()).filter(|slot| *slot < count)
    };
    for (counters, latencies) in used {
        for (index, ops) in counters.ops.iter().enumerate() {
            if let Some(slot) = slot(index, counters.width_ns) {
                batches[slot].amount += ops;
            }
        }
        let intervals = latencies.intervals.iter().zip(&latencies.exact);
        for (index, (latency, exact)) in intervals.enumerate() {
            if let Some(slot) = slot(index, latencies.width_ns) {
                let (overflow, sum_ns) = (exact.overflow, exact.sum_ns);
                let latency = latency.clone();
                batches[slot].add(&Batch { latency, overflow, sum_ns, ..Batch::default() });
            }
        }
    }
    Ok(batches)
}

/// Counters and latency series of the directions with operations. Latencies last until after
/// reaping, in an open loop from the due time.
fn over_time<'a>(
    directions: impl Iterator<Item = &'a DirectionRun>,
) -> Vec<(&'a CounterSeries, &'a HistogramSeries)> {
    let used = directions.filter(|each| each.ops > 0);
    used.map(|each| {
        let open = each.response.count() > 0;
        (&each.counters, if open { &each.responses } else { &each.latencies })
    })
    .collect()
}

/// Width of the widest series, ns; `None` if a series is missing.
fn shared_width(used: &[(&CounterSeries, &HistogramSeries)]) -> Option<u64> {
    let widths = || used.iter().flat_map(|(ops, latency)| [ops.width_ns, latency.width_ns]);
    widths().max().filter(|_| widths().all(|width_ns| width_ns > 0))
}

/// Sums of directions over parts of the window.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// Length of the parts, ns.
    pub(crate) span_ns: u64,
    pub(crate) ops: u64,
    pub(crate) bytes: u64,
    /// Latencies as in [`batches`].
    pub(crate) latency: Histogram,
    /// The parts, as in [`batches`].
    pub(crate) batches: Vec<Batch>,
}

/// Sums over the whole intervals of a window of this length for which `is_inside` is true; it gets
/// the start and the end of an interval, ns since the window opened.
///
/// # Errors
/// [`NoInterval::OnlyWhole`] if a record does not have them over time.
pub(crate) fn sums<'a>(
    directions: impl Iterator<Item = &'a DirectionRun> + Clone,
    length_ns: u64,
    is_inside: impl Fn(u64, u64) -> bool,
) -> Result<Sums, NoInterval> {
    let used = over_time(directions.clone());
    let width_ns = shared_width(&used).ok_or(NoInterval::OnlyWhole)?;
    let count = length_ns / width_ns;
    let is_inside = |slot: u64| slot < count && is_inside(slot * width_ns, (slot + 1) * width_ns);
    let holds = |index: usize, narrow_ns: u64| is_inside(index as u64 * narrow_ns / width_ns);
    let mut sums = Sums::default();
    for (counters, latencies) in used {
        for (index, (ops, bytes)) in counters.ops.iter().zip(&counters.bytes).enumerate() {
            if holds(index, counters.width_ns) {
                sums.ops += ops;
                sums.bytes += bytes;
            }
        }
        let intervals = latencies.intervals.iter().zip(&latencies.exact);
        for (index, (latency, exact)) in intervals.enumerate() {
            if holds(index, latencies.width_ns) {
                sums.latency.merge(&Histogram::from_interval(latency, *exact));
            }
        }
    }
    let all = batches(directions, (0, length_ns))?.into_iter().zip(0..);
    sums.batches = all.filter(|(_, slot)| is_inside(*slot)).map(|(batch, _)| batch).collect();
    sums.span_ns = sums.batches.len() as u64 * width_ns;
    Ok(sums)
}

/// Sums series whose widths may differ. The widest is a multiple of all: a width is the plan's, or
/// that of merged neighbours.
pub(crate) fn total<'a>(series: impl Iterator<Item = &'a CounterSeries>, window_ns: u64) -> Series {
    let series: Vec<&CounterSeries> = series.filter(|each| each.width_ns > 0).collect();
    let width_ns = series.iter().map(|each| each.width_ns).max().unwrap_or(0);
    if width_ns == 0 {
        return Series::default();
    }
    let count = usize::try_from(window_ns / width_ns).unwrap_or(0);
    let mut sum = Series { width_ns, ops: vec![0; count], bytes: vec![0; count] };
    for each in series {
        add(&mut sum.ops, &each.ops, each.width_ns, width_ns);
        add(&mut sum.bytes, &each.bytes, each.width_ns, width_ns);
    }
    sum
}

/// Adds narrow intervals into wide ones.
fn add(wide: &mut [u64], narrow: &[u64], narrow_ns: u64, wide_ns: u64) {
    for (index, value) in narrow.iter().enumerate() {
        let slot = index as u64 * narrow_ns / wide_ns;
        if let Some(slot) = usize::try_from(slot).ok().and_then(|slot| wide.get_mut(slot)) {
            *slot += value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_different_widths_meet_on_the_widest() {
        let fine = CounterSeries { width_ns: 100, ops: vec![1, 2, 3, 4, 9], bytes: vec![0; 5] };
        let coarse = CounterSeries { width_ns: 200, ops: vec![10, 20, 5], bytes: vec![7, 7, 7] };
        let sum = total([&fine, &coarse].into_iter(), 450);
        assert_eq!(sum, Series { width_ns: 200, ops: vec![13, 27], bytes: vec![7, 7] });
        assert_eq!(sum.iops(), [13.0 * 5e6, 27.0 * 5e6]);
    }
}
