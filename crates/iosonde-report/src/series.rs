//! The interval series: one row per interval and direction, as CSV or as JSON lines.

use std::fmt::Write;

use serde::Serialize;
use serde_json::json;

use super::datasets::csv_cell;
use super::json::json_line;
use iosonde_analysis::figures::LatencyFigures;
use iosonde_analysis::intervals::{self, DIRECTIONS, Interval};
use iosonde_model::record::run::Run;

/// Name and version of a row; the version grows with every incompatible change.
pub const SCHEMA: &str = "iosonde.series/1";

/// The first line of a CSV series.
pub const CSV_HEADER: &str = "workload,direction,start_ns,end_ns,ops,bytes,iops,bytes_per_s,\
                              mean_ns,p50_ns,p90_ns,p99_ns,p99.9_ns,max_ns,backlog_ns";

/// Start of every line of a JSON series.
pub const JSON_OPENING: &str = "{\"schema\":\"iosonde.series/";

/// One interval of one direction of a run. A percentile without enough samples in the interval is
/// `None`.
#[derive(Serialize)]
pub(crate) struct Row<'a> {
    pub(crate) workload: &'a str,
    pub(crate) direction: &'static str,
    #[serde(flatten)]
    pub(crate) interval: Interval,
    iops: f64,
    bytes_per_s: u64,
    mean_ns: Option<u64>,
    pub(crate) p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    #[serde(rename = "p99.9_ns")]
    p999_ns: Option<u64>,
    pub(crate) max_ns: Option<u64>,
    /// Open loop only: the longest wait of a due operation.
    backlog_ns: Option<u64>,
}

/// Rows in the order of time. A direction without operations has none.
pub(crate) fn rows(run: &Run, width_ns: u64) -> Vec<Row<'_>> {
    let jobs = intervals::all_jobs(run);
    let width_ns = intervals::common_width_ns(&jobs, width_ns);
    let mut rows = Vec::new();
    for of in DIRECTIONS.into_iter().filter(|(_, of)| jobs.iter().any(|job| of(job).ops > 0)) {
        for (interval, latency) in intervals::over_time(&jobs, &[of], run.measured_ns, width_ns) {
            let latency = LatencyFigures::of(&latency);
            rows.push(Row {
                workload: &run.plan.name,
                direction: of.0,
                interval,
                iops: interval.iops(),
                bytes_per_s: interval.bytes_per_s().round() as u64,
                mean_ns: latency.mean_ns.map(|mean_ns| mean_ns.round() as u64),
                p50_ns: latency.at(0.5),
                p90_ns: latency.at(0.9),
                p99_ns: latency.at(0.99),
                p999_ns: latency.at(0.999),
                max_ns: latency.max_ns,
                backlog_ns: intervals::backlog_ns(&jobs, &interval),
            });
        }
    }
    rows.sort_by_key(|row| row.interval.start_ns);
    rows
}

/// The series of some runs as CSV. A percentile without enough samples is an empty cell.
pub fn csv(runs: &[&Run], width_ns: u64) -> String {
    let mut out = format!("{CSV_HEADER}\n");
    for row in runs.iter().flat_map(|run| rows(run, width_ns)) {
        let Interval { start_ns, end_ns, ops, bytes } = row.interval;
        let _ = write!(
            out,
            "{},{},{start_ns},{end_ns},{ops},{bytes},{:.3},{}",
            csv_cell(row.workload),
            row.direction,
            row.iops,
            row.bytes_per_s,
        );
        let Row { mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, backlog_ns, .. } = row;
        for ns in [mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, backlog_ns] {
            out.push(',');
            if let Some(ns) = ns {
                let _ = write!(out, "{ns}");
            }
        }
        out.push('\n');
    }
    out
}

/// The series of some runs as JSON lines. A percentile without enough samples is `null`.
pub fn json_lines(runs: &[&Run], width_ns: u64) -> String {
    let all = runs.iter().flat_map(|run| rows(run, width_ns));
    all.map(|row| json_line(SCHEMA, &json!(row))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::golden::assert_golden;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn the_series_stands_as_kept() {
        let loads = [Load { read_percent: 70, iops: 800.0, noise: 0.02, ..Load::default() }];
        let run = run_of(&loads);
        let csv = csv(&[&run], 4_000_000_000);
        assert_golden("series.csv", &csv);
        assert_golden("series.jsonl", &json_lines(&[&run], 4_000_000_000));
        // Two directions over 10 s in intervals of 4 s; the last 2 s are an interval too.
        assert_eq!(csv.lines().count(), 1 + 3 * 2);
        let columns = CSV_HEADER.split(',').count();
        assert!(csv.lines().all(|line| line.split(',').count() == columns));
    }

    #[test]
    fn a_percentile_is_earned_in_each_interval() {
        // 5,000 operations per second suffice for p99 and p99.9, 40 only for the median.
        let of = |iops| {
            let run = run_of(&[Load { iops, noise: 0.0, ..Load::default() }]);
            let text = csv(&[&run], 1_000_000_000);
            text.lines()
                .nth(1)
                .unwrap_or_default()
                .split(',')
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let (many, few) = (of(5_000.0), of(40.0));
        assert!(many[9..13].iter().all(|cell| !cell.is_empty()), "{many:?}");
        assert_eq!(
            few[9..13].iter().map(|cell| cell.is_empty()).collect::<Vec<_>>(),
            [false, false, true, true]
        );
        assert!(!few[8].is_empty() && !few[13].is_empty(), "mean and maximum need no more");
    }

    #[test]
    fn units_are_in_the_names() {
        // T20: 5,000 operations of 4 KiB per second, 32 in flight, are 6.4 ms each.
        let run = run_of(&[Load { noise: 0.0, ..Load::default() }]);
        let text = json_lines(&[&run], 1_000_000_000);
        let row: Value =
            serde_json::from_str(text.lines().next().unwrap_or("")).unwrap_or_default();
        assert_eq!(row["bytes_per_s"], 5_000 * 4096);
        assert_eq!(row["iops"], 5_000.0);
        assert_eq!(row["end_ns"], 1_000_000_000);
        assert!((row["mean_ns"].as_f64().unwrap_or(0.0) / 6.4e6 - 1.0).abs() < 0.01, "{row}");
        assert_eq!(row["schema"], SCHEMA);
    }

    #[test]
    fn names_cannot_break_out_of_their_cell() {
        let mut run = run_of(&[Load { iops: 100.0, ..Load::default() }]);
        run.plan.name = "=cmd|' /C calc'!A0,\u{1b}[31m\"x\"".into();
        let text = csv(&[&run], 10_000_000_000);
        let line = text.lines().nth(1).unwrap_or_default();
        assert!(line.starts_with("\"'=cmd|' /C calc'!A0,\\x1b[31m\"\"x\"\"\",read,"), "{line}");
        assert!(!json_lines(&[&run], 1).contains('\u{1b}'));
    }
}
