//! Pictures of fio jobs: bars of latencies, sweeps over an option, distributions, logs.

use std::collections::BTreeMap;

use crate::chart::{
    Axis, Bar, BarSeries, Bars, ChartError, Curve, Edge, Figure, Kind, Line, Marks, Panel, Plot,
    Point, Quantity, style,
};
use crate::profile_figures::distribution::{Times, body_and_tail};
use crate::report::Picture;
use crate::wording::capital;
use iosonde_model::plan::IoKind;
use iosonde_model::record::import::{ForeignDirection, ForeignLog, LogKind};
use iosonde_model::units::{count, duration};
use iosonde_stats::Histogram;

use super::Row;
use super::tables::earned;

/// Most jobs or curves in one picture; more cannot be distinguished.
const MOST: usize = 7;
/// Options that can be the x axis of a sweep, if the results differ in just one of them.
const SWEPT: [&str; 3] = ["iodepth", "numjobs", "bs"];
/// Number of columns into which the values of a log are combined.
const COLUMNS: u64 = 400;

const WAYS: [IoKind; 3] = [IoKind::Read, IoKind::Write, IoKind::Trim];

fn percentile(each: &ForeignDirection, per_cent: f64) -> Option<f64> {
    Some(earned(each.spread()?.1, per_cent)? as f64)
}

fn picture(name: &str, figure: Result<Figure, ChartError>, caption: &str) -> Option<Picture> {
    // Without values there is nothing to draw, which is not an error.
    let figure = figure.ok()?;
    Some(Picture { name: name.into(), caption: caption.into(), figure })
}

/// Mean, p95 and p99 of each job as bars.
pub(super) fn bars(rows: &[Row<'_>]) -> Vec<Picture> {
    let drawn = WAYS.into_iter().filter_map(|way| {
        let figure = bars_of(rows, way);
        let caption = format!("Mean, p95 and p99 of the {} latency of each job.", way.word());
        picture(&format!("latency-{}", way.word()), figure.transpose()?, &caption)
    });
    drawn.collect()
}

fn bars_of(rows: &[Row<'_>], way: IoKind) -> Result<Option<Figure>, ChartError> {
    let jobs = || rows.iter().filter(|row| !row.job.is_sum);
    let jobs: Vec<_> = jobs().filter_map(|row| Some((row, row.job.direction(way)?))).collect();
    if jobs.is_empty() || jobs.len() > 2 * MOST {
        return Ok(None);
    }
    type Value = fn(&ForeignDirection) -> Option<f64>;
    let shown: [(&str, Value); 3] = [
        ("mean", |each| Some(each.whole()?.1.mean_ns)),
        ("p95", |each| percentile(each, 95.0)),
        ("p99", |each| percentile(each, 99.0)),
    ];
    let series = shown.iter().enumerate().map(|(number, (name, value))| BarSeries {
        name: (*name).into(),
        style: style(number),
        values: jobs
            .iter()
            .map(|(row, each)| {
                let ns = value(each)?;
                let hover = format!("{}: {name} {}", row.name, duration::latency(ns));
                Some(Bar { value: row.measured(ns), ..Bar::new(0.0, hover) })
            })
            .collect(),
    });
    let bars = Bars { series: series.collect(), labelled: jobs.len() <= 4, stacked: false };
    let x = Axis::names("job", jobs.iter().map(|(row, _)| row.name.clone()).collect());
    let y = Axis::from_zero("latency", Quantity::Latency, bars.values())?;
    let panel = Panel::new("", x, y, Marks::Bars(bars), 240.0);
    let title = format!("{} latency", capital(way.word()));
    let subtitle = "mean of the whole latency; percentiles of what fio has them of";
    Ok(Some(Figure::stacked(title, subtitle, vec![panel])))
}

/// Throughput and latency over the only option in which the results differ.
pub(super) fn sweep(rows: &[Row<'_>]) -> Option<(&'static str, Vec<Picture>)> {
    let rows: Vec<&Row<'_>> = rows.iter().filter(|row| !row.job.is_sum).collect();
    let value = |row: &Row<'_>, option: &str| {
        let text = row.job.option(&[option])?;
        let number = if option == "bs" {
            iosonde_model::units::bytes::parse(text).ok()
        } else {
            text.parse().ok()
        };
        number.filter(|number: &u64| *number > 0)
    };
    let levels = |option: &str| -> Vec<u64> {
        let all: Option<Vec<u64>> = rows
            .iter()
            .map(|row| match row.job.options.contains_key(option) {
                true => value(row, option),
                // fio's default of the option.
                false => Some(if option == "bs" { 4096 } else { 1 }),
            })
            .collect();
        all.unwrap_or_default()
    };
    let differing = SWEPT.into_iter().filter(|option| {
        let mut levels = levels(option);
        levels.sort_unstable();
        levels.dedup();
        levels.len() > 1
    });
    let differing: Vec<&'static str> = differing.collect();
    let [option] = differing.as_slice() else { return None };
    let option = *option;
    let at: Vec<(u64, &Row<'_>)> = levels(option).into_iter().zip(rows).collect();
    let pictures: Vec<Picture> = WAYS
        .into_iter()
        .filter_map(|way| {
            let figure = sweep_of(&at, option, way).transpose()?;
            let caption = format!("IOPS and latency of {}s over {option}.", way.word());
            picture(&format!("{option}-{}", way.word()), figure, &caption)
        })
        .collect();
    (!pictures.is_empty()).then_some((option, pictures))
}

fn sweep_of(
    at: &[(u64, &Row<'_>)],
    option: &str,
    way: IoKind,
) -> Result<Option<Figure>, ChartError> {
    let mut points: Vec<(u64, &Row<'_>, &ForeignDirection)> =
        at.iter().filter_map(|(x, row)| Some((*x, *row, row.job.direction(way)?))).collect();
    points.sort_by_key(|(x, ..)| *x);
    // Two results with the same level are jobs of one run or repeats; a line must not join them.
    if points.len() < 2 || points.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Ok(None);
    }
    let line = |name: &str, number, value: &dyn Fn(&ForeignDirection) -> Option<(f64, String)>| {
        let points = points.iter().filter_map(|(x, row, direction)| {
            let (value, words) = value(direction)?;
            let hover = format!("{option} {x}: {name} {words}");
            let y = row.measured(value);
            Some(Point { y, ..Point::new(*x as f64, value).hover(hover) })
        });
        Line::new(name, style(number), points.collect())
    };
    let iops =
        vec![line("IOPS", 0, &|each| Some((each.iops, count::significant_or_whole(each.iops))))];
    let latency = |ns: f64| Some((ns, duration::latency(ns)));
    let latencies = vec![
        line("mean", 1, &|each| latency(each.whole()?.1.mean_ns)),
        line("p99", 2, &|each| latency(percentile(each, 99.0)?)),
        line("p99.9", 3, &|each| latency(percentile(each, 99.9)?)),
    ];
    let latencies: Vec<Line> = latencies.into_iter().filter(|l| !l.points.is_empty()).collect();
    let xs = || points.iter().map(|(x, ..)| *x as f64);
    let quantity = if option == "bs" { Quantity::Bytes } else { Quantity::Count };
    let panel = |title: &str, of: Quantity, kind: Kind, lines: Vec<Line>| {
        let plot = Plot { lines, ..Plot::default() };
        let zero = (kind == Kind::Linear).then_some(0.0);
        let values = plot.ys(Edge::Left).into_iter().filter(|v| kind == Kind::Linear || *v > 0.0);
        let x = Axis::fit(option, quantity, Kind::Log2, xs())?;
        let y = Axis::fit("", of, kind, values.chain(zero))?;
        Ok::<Panel, ChartError>(Panel::new(title, x, y, Marks::Plot(plot), 240.0))
    };
    let mut panels = vec![panel("Operations per second", Quantity::Count, Kind::Linear, iops)?];
    if !latencies.is_empty() {
        panels.push(panel("Latency (logarithmic)", Quantity::Latency, Kind::Log10, latencies)?);
    }
    let title = format!("{} throughput and latency over {option}", capital(way.word()));
    let subtitle = "as fio printed them; one run each, so without intervals";
    Ok(Some(Figure::side_by_side(title, subtitle, panels)))
}

/// Distribution and tail of every job with bins.
pub(super) fn distributions(rows: &[Row<'_>]) -> Vec<Picture> {
    let drawn = WAYS.into_iter().filter_map(|way| {
        let with_bins = rows.iter().filter(|row| !row.job.is_sum).filter_map(|row| {
            let (kind, latency) = row.job.direction(way)?.spread()?;
            Some((row, kind, latency.histogram()?))
        });
        let all: Vec<(&Row<'_>, &str, Histogram)> = with_bins.take(MOST).collect();
        if all.is_empty() {
            return None;
        }
        let times: Vec<Times<'_>> = (0..)
            .zip(&all)
            .map(|(number, (row, kind, histogram))| Times {
                name: format!("{} {kind}", row.name),
                style: style(number),
                histogram,
            })
            .collect();
        let title = format!("{} latency", capital(way.word()));
        let figure = body_and_tail(title, "from fio's bins", &times);
        let caption = format!("How the {} latencies are distributed, and their tail.", way.word());
        picture(&format!("distribution-{}", way.word()), figure, &caption)
    });
    drawn.collect()
}

/// One picture for each kind of log, with all jobs and directions.
pub(super) fn over_time(logs: &[ForeignLog]) -> Vec<Picture> {
    let mut kinds: BTreeMap<LogKind, Vec<&ForeignLog>> = BTreeMap::new();
    for log in logs {
        kinds.entry(log.kind).or_default().push(log);
    }
    let drawn = kinds.into_iter().filter_map(|(kind, logs)| {
        let (name, title, unit, quantity, scale) = match kind {
            LogKind::Bandwidth => ("bandwidth", "Bandwidth", "MB/s", Quantity::Count, 1024e-6),
            LogKind::Iops => ("iops", "Operations per second", "IOPS", Quantity::Count, 1.0),
            LogKind::Slat => ("slat", "Submission latency", "slat", Quantity::Latency, 1.0),
            LogKind::Clat => ("clat", "Completion latency", "clat", Quantity::Latency, 1.0),
            LogKind::Lat => ("lat", "Latency", "lat", Quantity::Latency, 1.0),
            LogKind::Histograms => {
                ("clat-p99", "p99 of completion latency", "p99", Quantity::Latency, 1.0)
            }
        };
        let mut curves = Vec::new();
        for log in logs {
            for way in WAYS {
                let points = if kind == LogKind::Histograms {
                    tails(log, way)
                } else {
                    course(log, way, scale)
                };
                if points.len() > 1 && curves.len() < MOST {
                    let name = format!("{} {}", log.name, way.word());
                    let hover = format!("{name}: {title}");
                    let style = style(curves.len());
                    curves.push(Curve { hover, ..Curve::new(name, style, vec![points]) });
                }
            }
        }
        let caption = format!("{title} over time, from fio's logs.");
        picture(&format!("time-{name}"), figure(title, unit, quantity, curves), &caption)
    });
    drawn.collect()
}

fn figure(
    title: &str,
    unit: &str,
    quantity: Quantity,
    curves: Vec<Curve>,
) -> Result<Figure, ChartError> {
    let plot = Plot { curves, ..Plot::default() };
    let xs = plot.xs().into_iter().chain([0.0]);
    let x = Axis::fit("time since the start", Quantity::Time, Kind::Time, xs)?;
    let y = Axis::from_zero(unit, quantity, plot.ys(Edge::Left))?;
    let panel = Panel::new("", x, y, Marks::Plot(plot), 240.0);
    let subtitle = "from fio's logs; the mean of the values that fall together";
    Ok(Figure::stacked(format!("{title} over time"), subtitle, vec![panel]))
}

/// The values of one direction as steps. Each applies from the time before it to its own; values in
/// one column are averaged with equal weights.
fn course(log: &ForeignLog, way: IoKind, scale: f64) -> Vec<(f64, f64)> {
    let points: Vec<_> = log.points.iter().filter(|point| point.way == way).collect();
    let end = points.last().map_or(0, |point| point.at_ns);
    let width = (end / COLUMNS).max(1);
    let mut columns: BTreeMap<u64, (f64, f64, u64)> = BTreeMap::new();
    for point in points {
        let column = columns.entry(point.at_ns / width).or_default();
        column.0 += point.value as f64 * scale;
        column.1 += 1.0;
        column.2 = point.at_ns;
    }
    let means = columns.into_values().map(|(sum, count, at)| (at, sum / count)).collect::<Vec<_>>();
    as_steps(&means)
}

/// The p99 of each interval with enough samples.
fn tails(log: &ForeignLog, way: IoKind) -> Vec<(f64, f64)> {
    let of_way = log.histograms.iter().filter(|(_, of, _)| *of == way);
    let values = of_way.filter_map(|(at, _, histogram)| {
        let p99 = iosonde_stats::Quantile::of(histogram, 0.99).value_ns()?;
        Some((*at, p99 as f64))
    });
    as_steps(&values.collect::<Vec<_>>())
}

/// Values as steps; each applies to the interval that ends at its time.
fn as_steps(values: &[(u64, f64)]) -> Vec<(f64, f64)> {
    let starts = std::iter::once(0).chain(values.iter().map(|(at, _)| *at));
    let mut steps: Vec<(f64, f64)> =
        starts.zip(values).map(|(start, (_, value))| (start as f64, *value)).collect();
    steps.extend(values.last().map(|(at, value)| (*at as f64, *value)));
    steps.dedup_by_key(|(at, _)| *at as u64);
    steps
}
