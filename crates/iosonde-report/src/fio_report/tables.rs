//! Tables of fio jobs, for readers and for programs.

use crate::report::{Column, DataSet, Datum, Entry, PERCENTILE_COLUMNS, PERCENTILES, Table, Trust};
use iosonde_analysis::foreign::in_flight;
use iosonde_model::plan::IoKind;
use iosonde_model::record::import::{ForeignDirection, ForeignLatency, ForeignLog, LogKind};
use iosonde_model::units::{count, duration};
use iosonde_stats::Histogram;
use iosonde_stats::quantile::{EARNED_FROM, Quantile};

use super::Row;

/// A percentile of a latency, if there are enough samples.
pub(super) fn earned(latency: &ForeignLatency, per_cent: f64) -> Option<u64> {
    let beyond = latency.count as f64 * (1.0 - per_cent / 100.0).min(per_cent / 100.0);
    let of_bins = || latency.histogram()?.quantile(per_cent / 100.0);
    let formatted = latency.percentile(per_cent).or_else(of_bins);
    formatted.filter(|_| beyond + 1e-9 >= EARNED_FROM)
}

/// One row per direction of each job, and rows for all jobs together.
pub(super) fn jobs(rows: &[Row<'_>]) -> Table {
    let words = ["job", "direction"];
    let mut columns = Column::all(&words, &["IOPS", "MB/s", "in flight", "mean"]);
    columns.extend(PERCENTILES.map(|(_, name)| Column::numbers(name)));
    columns.push(Column::numbers("max"));
    let mut lines = Vec::new();
    for row in rows {
        for direction in &row.job.directions {
            lines.push(line(row, direction));
        }
    }
    lines.extend(together(rows));
    let caption = "What fio printed, one row for each job and direction. The mean is of the whole \
                   latency, percentiles and the maximum are of what fio has them of.";
    Table { caption: caption.into(), columns, rows: lines }
}

fn line(row: &Row<'_>, direction: &ForeignDirection) -> Vec<Entry> {
    let trust = match (row.is_severe, row.concerns.is_empty()) {
        (true, _) => Trust::Failed,
        (false, false) => Trust::LowConfidence,
        (false, true) => Trust::Good,
    };
    let more = row.concerns.join(", ");
    let number = |text: String| Entry::new(text, &more, trust);
    let mut entries = vec![Entry::of(&row.name), Entry::of(direction.way.word())];
    let moves = direction.way != IoKind::Sync;
    let rate = |value: f64| if moves { count::significant_or_whole(value) } else { "-".into() };
    entries.push(number(rate(direction.iops)));
    entries.push(number(rate(direction.bytes_per_s / 1e6)));
    let depth = in_flight(row.foreign, row.job).filter(|_| moves);
    entries.push(match depth {
        Some(depth) => {
            let more = depth.requested.map_or(String::new(), |asked| format!("asked {asked}"));
            let is_in_doubt = row.concerns.contains(&"depth_not_applied");
            let trust = if is_in_doubt { trust } else { Trust::Good };
            Entry::new(count::significant(depth.seen), more, trust)
        }
        None => Entry::of("n/a"),
    });
    entries.push(direction.whole().map_or(Entry::of("n/a"), |(name, latency)| {
        Entry::latency(Some(latency.mean_ns), format!("of {name}"), trust)
    }));
    let spread = direction.spread();
    for per_cent in PERCENTILES.map(|(q, _)| q * 100.0) {
        entries.push(match spread.map(|(name, latency)| (name, earned(latency, per_cent))) {
            Some((name, Some(ns))) => Entry::latency(Some(ns as f64), format!("of {name}"), trust),
            Some((_, None)) => {
                let needs = format!("needs {} samples", count::thousands(needs(per_cent)));
                Entry::new("n/a", needs, Trust::Good)
            }
            None => Entry::of("n/a"),
        });
    }
    let max = spread.or(direction.whole()).map(|(_, latency)| latency.max_ns);
    entries.push(Entry::latency(max.map(|ns| ns as f64), more, trust));
    entries
}

fn needs(per_cent: f64) -> u64 {
    (EARNED_FROM / (1.0 - per_cent / 100.0).min(per_cent / 100.0) - 1e-6).ceil() as u64
}

/// Directions with the results of all jobs that are not sums of others.
fn ways<'a>(rows: &'a [Row<'_>]) -> Vec<(IoKind, Vec<&'a ForeignDirection>)> {
    let jobs = || rows.iter().filter(|row| !row.job.is_sum);
    let of = |way| jobs().filter_map(move |row| row.job.direction(way)).collect();
    [IoKind::Read, IoKind::Write, IoKind::Trim].map(|way| (way, of(way))).to_vec()
}

/// Merged latencies of all jobs by direction, if every job has bins of the same kind of latency.
pub(super) fn merged(rows: &[Row<'_>]) -> Vec<(IoKind, Histogram)> {
    let mut all = Vec::new();
    for (way, directions) in ways(rows).into_iter().filter(|(_, each)| each.len() > 1) {
        let spread = |each: &&ForeignDirection| {
            let (kind, latency) = each.spread()?;
            Some((kind, latency.histogram()?))
        };
        let spreads: Option<Vec<(&str, Histogram)>> = directions.iter().map(spread).collect();
        let Some(spreads) = spreads else { continue };
        if spreads.iter().all(|(kind, _)| *kind == spreads[0].0) {
            let mut sum = Histogram::new();
            spreads.iter().for_each(|(_, histogram)| sum.merge(histogram));
            all.push((way, sum));
        }
    }
    all
}

/// Whether the row for all jobs shows bounds instead of percentiles.
pub(super) fn has_bounds(rows: &[Row<'_>]) -> bool {
    together(rows).iter().flatten().any(|entry| entry.text.starts_with('≤'))
}

/// All jobs of one document together: sums of rates, and percentiles from merged bins or bounds.
fn together(rows: &[Row<'_>]) -> Vec<Vec<Entry>> {
    let one_document = rows.iter().all(|row| std::ptr::eq(row.foreign, rows[0].foreign));
    if !one_document {
        // Jobs in different files did not run at the same time.
        return Vec::new();
    }
    let merged = merged(rows);
    let mut lines = Vec::new();
    for (way, directions) in ways(rows).into_iter().filter(|(_, each)| each.len() > 1) {
        let sum = |of: fn(&ForeignDirection) -> f64| directions.iter().map(|d| of(d)).sum::<f64>();
        let mut line = vec![Entry::of("all jobs"), Entry::of(way.word())];
        line.push(Entry::of(count::significant_or_whole(sum(|each| each.iops))));
        line.push(Entry::of(count::significant_or_whole(sum(|each| each.bytes_per_s) / 1e6)));
        line.push(Entry::of("-"));
        // The mean over all jobs follows from their means, weighted by operations.
        let samples =
            directions.iter().filter_map(|each| Some((each.ops, each.whole()?.1.mean_ns)));
        let (ops, time) = samples
            .fold((0.0, 0.0), |(ops, time), (n, mean)| (ops + n as f64, time + n as f64 * mean));
        line.push(Entry::latency((ops > 0.0).then_some(time / ops), "", Trust::Good));
        let histogram = merged.iter().find(|(of, _)| *of == way).map(|(_, histogram)| histogram);
        for per_cent in PERCENTILES.map(|(q, _)| q * 100.0) {
            line.push(match histogram {
                Some(histogram) => of_bins(histogram, per_cent),
                None => bound(&directions, per_cent),
            });
        }
        let max = directions.iter().filter_map(|each| Some(each.spread()?.1.max_ns)).max();
        line.push(Entry::latency(max.map(|ns| ns as f64), "", Trust::Good));
        lines.push(line);
    }
    lines
}

fn of_bins(histogram: &Histogram, per_cent: f64) -> Entry {
    let ns = Quantile::of(histogram, per_cent / 100.0).value_ns();
    Entry::latency(ns.map(|ns| ns as f64), "from the jobs' bins, merged", Trust::Good)
}

/// A bound from the lowest and highest percentile of the jobs: nothing more can be derived.
fn bound(directions: &[&ForeignDirection], per_cent: f64) -> Entry {
    let formatted = directions.iter().map(|each| earned(each.spread()?.1, per_cent));
    let formatted: Option<Vec<u64>> = formatted.collect();
    let ends = formatted.and_then(|all| Some((*all.iter().min()?, *all.iter().max()?)));
    ends.map_or(Entry::of("n/a"), |ends| {
        let (low, high) = (duration::latency(ends.0 as f64), duration::latency(ends.1 as f64));
        let more = format!("a bound, not a percentile: from {low} on");
        Entry::new(format!("≤ {high}"), more, Trust::LowConfidence)
    })
}

/// The jobs as a data set.
pub(super) fn data(rows: &[Row<'_>]) -> Option<DataSet> {
    let mut lines = Vec::new();
    for row in rows {
        for direction in &row.job.directions {
            let option = |name| row.job.option(&[name]).and_then(|text| text.parse::<u64>().ok());
            let whole = direction.whole().map(|(_, latency)| latency);
            let spread = direction.spread().map(|(_, latency)| latency);
            let depth = in_flight(row.foreign, row.job).map(|depth| depth.seen);
            let mut line = vec![
                ("job", Datum::from(row.name.as_str())),
                ("host", row.job.host.as_deref().map_or(Datum::Missing, Datum::from)),
                ("direction", Datum::from(direction.way.word())),
                ("iodepth", Datum::from(option("iodepth"))),
                ("numjobs", Datum::from(option("numjobs"))),
                ("iops", Datum::from(Some(direction.iops))),
                ("bandwidth_bytes_per_s", Datum::from(Some(direction.bytes_per_s))),
                ("operations_count", Datum::Integer(direction.ops)),
                ("moved_bytes", Datum::Integer(direction.bytes)),
                ("runtime_ns", Datum::Integer(direction.runtime_ns)),
                ("in_flight_count", Datum::from(depth)),
                ("latency_mean_ns", Datum::from(whole.map(|latency| latency.mean_ns))),
                ("latency_min_ns", Datum::from(whole.map(|latency| latency.min_ns))),
                ("latency_max_ns", Datum::from(whole.map(|latency| latency.max_ns))),
            ];
            let percentile = |per_cent| spread.and_then(|latency| earned(latency, per_cent));
            let percentiles = PERCENTILES.map(|(q, _)| Datum::from(percentile(q * 100.0)));
            line.extend(PERCENTILE_COLUMNS.into_iter().zip(percentiles));
            lines.push(line);
        }
    }
    DataSet::named("jobs", lines)
}

/// Most rows of a log in the data set; the log file has the rest.
const MAX_ROWS: usize = 100_000;

/// The values of logs as a data set in the long form.
pub(super) fn log_data(logs: &[ForeignLog]) -> Option<DataSet> {
    let mut rows = Vec::new();
    for log in logs {
        let (metric, scale) = match log.kind {
            LogKind::Bandwidth => ("bandwidth_bytes_per_s", 1024),
            LogKind::Iops => ("iops", 1),
            LogKind::Slat => ("slat_ns", 1),
            LogKind::Clat => ("clat_ns", 1),
            LogKind::Lat => ("lat_ns", 1),
            LogKind::Histograms => continue,
        };
        rows.extend(log.points.iter().take(MAX_ROWS.saturating_sub(rows.len())).map(|point| {
            vec![
                ("job", Datum::from(log.name.as_str())),
                ("metric", Datum::from(metric)),
                ("direction", Datum::from(point.way.word())),
                ("time_ns", Datum::Integer(point.at_ns)),
                ("value", Datum::Integer(point.value.saturating_mul(scale))),
            ]
        }));
    }
    DataSet::named("logs", rows)
}
