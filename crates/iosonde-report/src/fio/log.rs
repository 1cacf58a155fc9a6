//! fio's logs with `log_avg_msec`: one line per interval and direction, `time (ms), value,
//! direction, block size, priority`. The last two are 0, as in fio when it averages.

use std::fmt::Write;

use super::moving;
use iosonde_analysis::intervals::{self, Direction, Interval};
use iosonde_model::record::run::{JobRun, Run};
use iosonde_stats::Histogram;

iosonde_model::words! {
    /// Content of a log, with fio's word for it in file names.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub enum Kind {
        /// KiB per second.
        Bandwidth => "bw",
        /// Operations per second.
        Iops => "iops",
        /// Mean latency, ns.
        Latency => "lat",
        /// Mean latency of submission, ns.
        Submission => "slat",
        /// Mean latency of completion, ns.
        Completion => "clat",
    }
}

/// Format of the lines of a log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Style {
    /// The largest latency of an interval instead of the mean (`log_max_value`). Rates have only
    /// one value per interval.
    pub largest: bool,
    /// A column for the offset (`log_offset`); it is 0, since a line covers many operations.
    pub offset: bool,
    /// Times since 1970 instead of since the start (`log_unix_epoch`).
    pub since_1970: bool,
}

impl Style {
    /// Offset of the times of a run, ms.
    pub fn origin_ms(self, run: &Run) -> u64 {
        if self.since_1970 { run.started_unix_ns / 1_000_000 } else { 0 }
    }
}

/// One log per job with the number of the job, from 1. An interval without operations has no line,
/// as in fio.
pub fn logs(run: &Run, kind: Kind, width_ns: u64) -> Vec<(usize, String)> {
    let each = (1..).zip(&run.jobs);
    let style = (Style::default(), 0);
    each.map(|(number, job)| (number, log(&[job], kind, width_ns, None, style))).collect()
}

/// The log of some jobs together, for one direction or all; times begin at `origin_ms`.
pub fn log(
    jobs: &[&JobRun],
    kind: Kind,
    width_ns: u64,
    only: Option<&str>,
    (style, origin_ms): (Style, u64),
) -> String {
    let is_shown = |of: &Direction| only.is_none_or(|only| only == of.0);
    let value = |of: Direction, row: &Interval, latency: &Histogram| {
        let value = match kind {
            Kind::Bandwidth => Some(row.bytes_per_s() / 1024.0),
            Kind::Iops => Some(row.iops()),
            Kind::Submission => {
                let slat = submission(jobs, of);
                // If submission was not timed separately, it is part of completion, as in fio's
                // synchronous engines.
                if slat.count() > 0 { one_of(&slat, style) } else { Some(0.0) }
            }
            Kind::Latency | Kind::Completion => one_of(latency, style),
        };
        value.filter(|_| row.ops > 0 && is_shown(&of)).map(|value| value.round() as u64)
    };
    let lines = cells(jobs, width_ns, origin_ms, value);
    let mut text = String::new();
    for (end_ms, number, value) in lines {
        let offset = if style.offset { ", 0" } else { "" };
        let _ = writeln!(text, "{end_ms}, {value}, {number}, 0{offset}, 0");
    }
    text
}

/// The cells of all intervals and directions, sorted. Each is preceded by the end of its interval
/// (ms) and the number of its direction.
fn cells<T: Ord>(
    jobs: &[&JobRun],
    width_ns: u64,
    origin_ms: u64,
    cell: impl Fn(Direction, &Interval, &Histogram) -> Option<T>,
) -> Vec<(u64, u8, T)> {
    let window_ns = jobs.iter().map(|job| job.measured_ns).max().unwrap_or(0);
    let width_ns = intervals::common_width_ns(jobs, width_ns);
    let mut lines = Vec::new();
    // The order equals that of fio's direction numbers.
    for (number, of) in (0..).zip(moving()) {
        for (row, latency) in intervals::over_time(jobs, &[of], window_ns, width_ns) {
            let end_ms = origin_ms + (row.end_ns + 500_000) / 1_000_000;
            lines.extend(cell(of, &row, &latency).map(|cell| (end_ms, number, cell)));
        }
    }
    lines.sort_unstable();
    lines
}

/// The value of an interval with many latencies, ns.
fn one_of(latency: &Histogram, style: Style) -> Option<f64> {
    if style.largest { latency.max().map(|ns| ns as f64) } else { latency.mean() }
}

/// Submission latencies of some jobs over the whole run; they are not recorded by interval.
fn submission(jobs: &[&JobRun], of: Direction) -> Histogram {
    let mut all = Histogram::new();
    jobs.iter().for_each(|job| all.merge(&(of.1)(job).slat));
    all
}

/// fio's latency bins: groups, and bins per group.
const GROUPS: usize = 29;
const PER_GROUP: usize = 64;

/// fio's histogram log of some jobs: time (ms), direction, block size, and the counts in fio's
/// bins, `2^coarseness` of them combined. Times begin at `origin_ms`.
pub fn histograms(
    jobs: &[&JobRun],
    width_ns: u64,
    block_bytes: u64,
    coarseness: u32,
    origin_ms: u64,
) -> String {
    let counts = |_, _: &Interval, latency: &Histogram| {
        let mut bins = vec![0u64; GROUPS * PER_GROUP];
        for (value_ns, times) in latency.midpoints() {
            bins[index_of(value_ns)] += times;
        }
        bins[GROUPS * PER_GROUP - 1] += latency.overflow();
        let counts = bins.chunks(1 << coarseness).map(|some| some.iter().sum::<u64>());
        let counts: Vec<String> = counts.map(|count| count.to_string()).collect();
        (latency.count() > 0).then(|| format!("{block_bytes}, {}", counts.join(", ")))
    };
    let mut text = String::new();
    for (end_ms, number, rest) in cells(jobs, width_ns, origin_ms, counts) {
        let _ = writeln!(text, "{end_ms}, {number}, {rest}");
    }
    text
}

/// Index of the bin of a latency.
fn index_of(value_ns: u64) -> usize {
    const BITS: u32 = 6;
    let highest = value_ns.checked_ilog2().unwrap_or(0);
    if highest <= BITS {
        return value_ns as usize;
    }
    let shift = highest - BITS;
    let base = (shift as usize + 1) << BITS;
    let within = (value_ns >> shift) as usize & (PER_GROUP - 1);
    (base + within).min(GROUPS * PER_GROUP - 1)
}

/// Whether the first line of a text is that of a log: numbers separated by commas.
pub fn is_log(text: &str) -> bool {
    text.lines().next().is_none_or(|line| {
        line.split(',').count() >= 4
            && line.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | ' ' | 'x'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn values_have_the_units_of_fio() {
        // T20: 5,000 operations of 4 KiB per second, half of them reads, 32 in flight.
        let run = run_of(&[Load { noise: 0.0, jobs: 2, read_percent: 50, ..Load::default() }]);
        let of = |kind| logs(&run, kind, 5_000_000_000);
        let bandwidth = of(Kind::Bandwidth);
        assert_eq!(bandwidth.iter().map(|(job, _)| *job).collect::<Vec<_>>(), [1, 2]);
        let expected = "5000, 10000, 0, 0, 0\n5000, 10000, 1, 0, 0\n\
                        10000, 10000, 0, 0, 0\n10000, 10000, 1, 0, 0\n";
        assert_eq!(bandwidth[0].1, expected, "KiB per second");
        assert_eq!(of(Kind::Iops)[1].1, expected.replace(", 10000, ", ", 2500, "));
        let value = of(Kind::Latency)[0].1.split(", ").nth(1).unwrap_or_default().parse::<f64>();
        assert!((value.unwrap_or_default() / 6.4e6 - 1.0).abs() < 0.01, "ns");
    }

    #[test]
    fn a_log_has_the_largest_latency_an_offset_and_times_since_1970_where_they_are_requested() {
        let run = run_of(&[Load::default()]);
        let jobs: Vec<&JobRun> = run.jobs.iter().collect();
        let fields = |style: Style| -> Vec<u64> {
            let style = (style, style.origin_ms(&run));
            let text = log(&jobs, Kind::Latency, 5_000_000_000, None, style);
            let first = text.lines().next().unwrap_or_default();
            first.split(", ").filter_map(|field| field.parse().ok()).collect()
        };
        let usual = fields(Style::default());
        assert_eq!((usual.len(), usual[0]), (5, 5000));
        let largest = fields(Style { largest: true, ..Style::default() });
        assert!(largest[1] > usual[1] + usual[1] / 100, "{largest:?} {usual:?}");
        let with_offset = fields(Style { offset: true, ..Style::default() });
        assert_eq!(with_offset, [usual[0], usual[1], 0, 0, 0, 0]);
        let since_1970 = fields(Style { since_1970: true, ..Style::default() });
        assert_eq!(since_1970[0], 5000 + run.started_unix_ns / 1_000_000);
    }

    #[test]
    fn a_stall_has_no_line() {
        let load =
            Load { shape: |t| if (0.2..0.5).contains(&t) { 0.0 } else { 1.0 }, ..Load::default() };
        let log = &logs(&run_of(&[load]), Kind::Iops, 1_000_000_000)[0].1;
        let times: Vec<&str> = log.lines().filter_map(|line| line.split(',').next()).collect();
        assert_eq!(times, ["1000", "2000", "6000", "7000", "8000", "9000", "10000"]);
    }

    #[test]
    fn histograms_have_the_bins_of_fio() {
        // Results of fio's `plat_val_to_idx`.
        let known = [(0, 0), (127, 127), (128, 128), (255, 191), (256, 192), (4096, 448)];
        for (value, index) in known {
            assert_eq!(index_of(value), index, "{value}");
        }
        let run = run_of(&[Load { noise: 0.0, ..Load::default() }]);
        let jobs: Vec<&JobRun> = run.jobs.iter().collect();
        for (coarseness, fields) in [(0, 1856), (6, 29)] {
            let text = histograms(&jobs, 5_000_000_000, 4096, coarseness, 0);
            let first: Vec<&str> = text.lines().next().unwrap_or_default().split(", ").collect();
            assert_eq!((first[0], first[1], first[2]), ("5000", "0", "4096"));
            assert_eq!(first.len(), 3 + fields);
            let sum: u64 = first[3..].iter().filter_map(|bin| bin.parse::<u64>().ok()).sum();
            assert_eq!(sum, 25_000);
        }
        assert!(is_log(&histograms(&jobs, 5_000_000_000, 4096, 6, 0)));
    }

    #[test]
    fn a_log_is_known_by_its_first_line() {
        assert!(is_log("") && is_log("500, 1, 0, 0, 0x0004\nrest") && is_log("500,1,0,4096\n"));
        assert!(!is_log("a,b,c,d\n") && !is_log("500\n"));
    }
}
