//! Time series of a profile: rates per interval, and latencies over time as a grid.

use serde::Serialize;

use crate::series;
use iosonde_model::record::profile::{Op, ProfileRun, TrafficSeries};
use iosonde_model::record::run::HistogramSeries;
use iosonde_stats::histogram::lower_edge;

use super::spread::Spread;

/// Largest number of columns of the grid.
const COLUMNS: usize = 64;
/// Largest number of rows of the grid.
const ROWS: usize = 12;

/// Rates of the program per interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CourseFigures {
    /// Width of an interval, ns.
    #[serde(rename = "interval_ns")]
    pub width_ns: u64,
    /// Whole intervals.
    pub intervals: u64,
    /// Intervals without a completed request.
    #[serde(rename = "idle_intervals")]
    pub idle: u64,
    /// Requests per second, all operations.
    pub requests_per_s: Spread,
    /// Bytes per second, all operations.
    pub bytes_per_s: Spread,
    pub reads_per_s: Spread,
    pub read_bytes_per_s: Spread,
    pub writes_per_s: Spread,
    pub write_bytes_per_s: Spread,
    /// Latencies of all operations over time; `None` below two columns.
    #[serde(rename = "latencies")]
    pub heat: Option<Heat>,
}

/// Number of requests by time and latency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Heat {
    /// Time per column, ns.
    pub column_ns: u64,
    /// Lower edges of the rows, ns, ascending.
    #[serde(rename = "row_from_ns")]
    pub row_edges_ns: Vec<u64>,
    /// Requests by column and row.
    #[serde(rename = "requests")]
    pub counts: Vec<Vec<u64>>,
}

/// The time series of a profile; `None` if no interval was recorded.
pub(super) fn course(run: &ProfileRun) -> Option<CourseFigures> {
    let window_ns = run.measured_ns + run.settle_ns;
    let of = |ops: &[Op]| {
        let chosen = run.series.iter().filter(|series| ops.contains(&series.op));
        series::total(chosen.map(|series| &series.counters), window_ns)
    };
    let all = of(&Op::ALL);
    if all.width_ns == 0 || all.ops.is_empty() {
        return None;
    }
    let rates = |ops: &[Op]| {
        let series = of(ops);
        (Spread::of(&series.iops()), Spread::of(&series.bytes_per_s()))
    };
    let (requests_per_s, bytes_per_s) = rates(&Op::ALL);
    let (reads_per_s, read_bytes_per_s) = rates(&[Op::Read]);
    let (writes_per_s, write_bytes_per_s) = rates(&[Op::Write]);
    Some(CourseFigures {
        width_ns: all.width_ns,
        intervals: all.ops.len() as u64,
        idle: all.ops.iter().filter(|count| **count == 0).count() as u64,
        requests_per_s,
        bytes_per_s,
        reads_per_s,
        read_bytes_per_s,
        writes_per_s,
        write_bytes_per_s,
        heat: heat(&run.series),
    })
}

/// Latencies by time and by powers of two of the latency, at most [`COLUMNS`] by [`ROWS`].
fn heat(series: &[TrafficSeries]) -> Option<Heat> {
    let kept = series.iter().map(|series| &series.latencies);
    let kept: Vec<&HistogramSeries> =
        kept.filter(|series| series.width_ns > 0 && !series.intervals.is_empty()).collect();
    let width_ns = kept.iter().map(|series| series.width_ns).max()?;
    let end_ns = kept.iter().map(|each| each.intervals.len() as u64 * each.width_ns).max()?;
    let intervals = end_ns.div_ceil(width_ns);
    let merged = intervals.div_ceil(COLUMNS as u64).max(1);
    let column_ns = width_ns * merged;
    let columns = usize::try_from(end_ns.div_ceil(column_ns)).ok()?;
    // Count per column and octave of latency.
    let mut octaves = vec![[0u64; 64]; columns];
    for each in &kept {
        for (index, interval) in each.intervals.iter().enumerate() {
            let column = usize::try_from(index as u64 * each.width_ns / column_ns).ok()?;
            for (bucket, count) in interval {
                let octave = lower_edge(*bucket as usize).max(1).ilog2() as usize;
                octaves[column][octave.min(63)] += count;
            }
        }
    }
    let used = |octave: &usize| octaves.iter().any(|column| column[*octave] > 0);
    let first = (0..64).find(used)?;
    let last = (0..64).rfind(used)?;
    let each = (last - first + 1).div_ceil(ROWS);
    let rows = (last - first + 1).div_ceil(each);
    let counts = octaves
        .iter()
        .map(|column| {
            let row = |row: usize| {
                let from = first + row * each;
                column[from..(from + each).min(64)].iter().sum()
            };
            (0..rows).map(row).collect()
        })
        .collect();
    let row_edges_ns = (0..rows).map(|row| 1u64 << (first + row * each)).collect();
    (columns >= 2).then_some(Heat { column_ns, row_edges_ns, counts })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_model::record::run::CounterSeries;
    use iosonde_stats::Histogram;

    fn interval(latencies: &[u64]) -> Vec<(u32, u64)> {
        let mut histogram = Histogram::new();
        latencies.iter().for_each(|ns| histogram.record(*ns));
        histogram.occupied().collect()
    }

    fn run(intervals: Vec<Vec<(u32, u64)>>) -> ProfileRun {
        let count = intervals.len() as u64;
        ProfileRun {
            measured_ns: count * 1_000_000_000,
            series: vec![TrafficSeries {
                op: Op::Read,
                counters: CounterSeries {
                    width_ns: 1_000_000_000,
                    ops: intervals.iter().map(|each| each.iter().map(|(_, n)| n).sum()).collect(),
                    bytes: intervals.iter().map(|_| 4096).collect(),
                },
                latencies: HistogramSeries { width_ns: 1_000_000_000, intervals, exact: vec![] },
            }],
            ..ProfileRun::default()
        }
    }

    #[test]
    fn a_grid_holds_each_request_once() {
        let run = run(vec![interval(&[1_100, 1_200]), vec![], interval(&[1_100, 9_000])]);
        let course = course(&run).unwrap();
        assert_eq!((course.intervals, course.idle), (3, 1));
        assert_eq!(course.requests_per_s.max, Some(2.0));
        assert_eq!(course.writes_per_s.max, None);
        let heat = course.heat.unwrap();
        assert_eq!(heat.column_ns, 1_000_000_000);
        assert_eq!(heat.row_edges_ns, [1024, 2048, 4096, 8192]);
        assert_eq!(heat.counts, [vec![2, 0, 0, 0], vec![0; 4], vec![1, 0, 0, 1]]);
    }

    #[test]
    fn a_long_run_and_wide_latencies_stay_bounded() {
        let each = || interval(&[1, 300, 70_000, 5_000_000, 900_000_000_000]);
        let heat = course(&run((0..1_000).map(|_| each()).collect())).unwrap().heat.unwrap();
        assert!(heat.counts.len() <= COLUMNS && heat.row_edges_ns.len() <= ROWS);
        let all: u64 = heat.counts.iter().flatten().sum();
        assert_eq!(all, 5_000);
        assert_eq!(course(&ProfileRun::default()), None);
    }
}
