//! Latencies and rates over time.

use super::pool::subject;
use super::{Drawn, word};
use crate::chart::{Band, ChartError, Curve, Figure, Panel, Style, style, unbroken};
use crate::latency_map::{self, Column};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::TrafficSeries;
use iosonde_model::record::run::{CounterSeries, HistogramSeries};
use iosonde_model::units::count::thousands;
use iosonde_model::units::duration::latency;
use iosonde_stats::Histogram;
use iosonde_stats::quantile::Quantile;

/// Title of the time axis.
const SINCE: &str = "time since the start";
/// Most columns of a latency curve.
const COLUMNS: usize = 100;

/// Every latency over time, of the program and of the write-back of its pages.
pub(super) fn latency_map(run: &ProfileRun) -> Result<Option<Drawn>, ChartError> {
    let column = |width_ns: u64, (at, pairs): (u64, &Vec<(u32, u64)>)| Column {
        start_ns: at * width_ns,
        end_ns: (at + 1) * width_ns,
        latencies: Histogram::from_buckets(pairs).midpoints().collect(),
    };
    let maps = run.series.iter().map(|series| {
        let HistogramSeries { width_ns, intervals, .. } = &series.latencies;
        let columns = (0..).zip(intervals).map(|interval| column(*width_ns, interval));
        (word(series.op).0, columns.collect())
    });
    match latency_map::figure("Latency over time", subject(run), SINCE, maps) {
        Err(ChartError::Empty) => Ok(None),
        drawn => {
            let mut figure = drawn?;
            figure.notes.insert(0, "Requests of the program and write-back of its pages.".into());
            Ok(Some(("latency-over-time".into(), figure)))
        }
    }
}

/// Requests and bytes per second, by operation.
pub(super) fn rates(run: &ProfileRun) -> Result<Option<Drawn>, ChartError> {
    let end = run.measured_ns + run.settle_ns;
    let busy = |series: &&TrafficSeries| series.counters.ops.iter().any(|ops| *ops > 0);
    let series: Vec<&TrafficSeries> = run.series.iter().filter(busy).collect();
    if series.is_empty() {
        return Ok(None);
    }
    let per_second = |values: fn(&CounterSeries) -> &[u64], one: f64, unit: &str| -> Vec<Curve> {
        series
            .iter()
            .map(|series| {
                let (op, number) = word(series.op);
                let points = rated(values(&series.counters), series.counters.width_ns, end, one);
                let total: u64 = values(&series.counters).iter().sum();
                let hover =
                    format!("{op}: {} {unit} in all", thousands((total as f64 / one) as u64));
                Curve { hover, ..Curve::new(op, style(number), vec![points]) }
            })
            .filter(|curve| curve.parts[0].iter().any(|(_, rate)| *rate > 0.0))
            .collect()
    };
    let iops = per_second(|counters| &counters.ops, 1.0, "requests");
    let bandwidth = per_second(|counters| &counters.bytes, 1e6, "MB");
    let panel = |title, unit, curves| Panel::over_time(title, SINCE, unit, curves, 190.0);
    let mut panels = vec![panel("Requests", "requests per second", iops)?];
    if !bandwidth.is_empty() {
        panels.push(panel("Bandwidth", "MB/s", bandwidth)?);
    }
    let note = format!(
        "Requests of the program and write-back of its pages, per {}.",
        latency(series[0].counters.width_ns as f64)
    );
    let figure = Figure::stacked("Requests and bandwidth over time", subject(run), panels);
    Ok(Some(("rates-over-time".into(), Figure { notes: vec![note], ..figure })))
}

/// Steps of a rate per second. The last interval counts with its true length. If that is less than
/// half of the width, it is merged with the one before.
fn rated(counts: &[u64], width_ns: u64, end_ns: u64, one: f64) -> Vec<(f64, f64)> {
    let mut intervals: Vec<(u64, u64, u64)> = Vec::new();
    for (index, count) in (0u64..).zip(counts) {
        let start = index * width_ns;
        let full = start + width_ns;
        let end = if start < end_ns { full.min(end_ns) } else { full };
        match intervals.last_mut() {
            Some(last) if (end - start) * 2 < width_ns => (last.1, last.2) = (end, last.2 + count),
            _ => intervals.push((start, end, *count)),
        }
    }
    let rate = |(start, end, count): &(u64, u64, u64)| {
        *count as f64 / one * 1e9 / (end - start).max(1) as f64
    };
    let mut points: Vec<(f64, f64)> =
        intervals.iter().map(|interval| (interval.0 as f64, rate(interval))).collect();
    if let Some(last) = intervals.last() {
        points.push((last.1 as f64, rate(last)));
    }
    points
}

/// Median, interquartile band and 99th percentile of the latency over time.
pub(super) fn percentiles(series: &HistogramSeries, look: Style) -> (Vec<Band>, Vec<Curve>) {
    let merged = series.intervals.len().div_ceil(COLUMNS).max(1);
    let width = series.width_ns as f64 * merged as f64;
    let columns: Vec<Histogram> = series
        .intervals
        .chunks(merged)
        .map(|intervals| {
            let mut sum = Histogram::new();
            intervals.iter().for_each(|pairs| sum.add_buckets(pairs));
            sum
        })
        .collect();
    let value = |column: &Histogram, q: f64| Quantile::of(column, q).value_ns().map(|v| v as f64);
    let curve = |q: f64, name: &str, look: Style| {
        Curve::new(name, look, steps(&columns, width, |column| value(column, q)))
    };
    let middle = |column: &Histogram| Some((value(column, 0.25)?, value(column, 0.75)?));
    let parts = steps(&columns, width, middle)
        .into_iter()
        .map(|part| part.into_iter().map(|(x, (low, high))| (x, low, high)).collect())
        .collect();
    let band = Band { name: "p25 to p75".into(), style: look, parts, hover: "p25 to p75".into() };
    let curves = vec![curve(0.5, "p50", look), curve(0.99, "p99", style(1))];
    (vec![band], curves.into_iter().filter(|curve| !curve.parts.is_empty()).collect())
}

/// Steps over columns of equal width; a column without a value interrupts them.
fn steps<T: Copy>(
    columns: &[Histogram],
    width: f64,
    value: impl Fn(&Histogram) -> Option<T>,
) -> Vec<Vec<(f64, T)>> {
    let edge = |index: usize| index as f64 * width;
    let columns = columns.iter().enumerate();
    unbroken(columns.map(|(index, column)| (edge(index), edge(index + 1), value(column))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_interval_counts_as_long_as_it_lasted() {
        assert_eq!(
            rated(&[100, 50], 1_000_000_000, 1_500_000_000, 1.0),
            [(0.0, 100.0), (1e9, 100.0), (1.5e9, 100.0)]
        );
        // 0.1 s is too short for a separate rate.
        assert_eq!(
            rated(&[100, 10], 1_000_000_000, 1_100_000_000, 1.0),
            [(0.0, 100.0), (1.1e9, 100.0)]
        );
    }

    #[test]
    fn a_column_without_a_value_breaks_the_curve() {
        let mut full = Histogram::new();
        full.record_many(5, 100);
        let columns = [full.clone(), full.clone(), Histogram::new(), full];
        let parts = steps(&columns, 10.0, |column| column.max());
        assert_eq!(parts, [vec![(0.0, 5), (10.0, 5), (20.0, 5)], vec![(30.0, 5), (40.0, 5)]]);
    }
}
