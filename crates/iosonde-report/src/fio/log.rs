//! fio's logs with `log_avg_msec`: a line per interval and direction,
//! `time (ms), value, direction, block size, priority`. With averaging fio has 0 in the last two.

use std::fmt::Write;

use super::moving;
use iosonde_analysis::intervals;
use iosonde_model::record::run::Run;

/// What a log is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// KiB per second.
    Bandwidth,
    /// Operations per second.
    Iops,
    /// Mean latency, ns.
    Latency,
}

impl Kind {
    /// fio's word in a log's file name.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Bandwidth => "bw",
            Kind::Iops => "iops",
            Kind::Latency => "lat",
        }
    }
}

/// fio's numbers of directions.
const NUMBERS: [(&str, u8); 3] = [("read", 0), ("write", 1), ("trim", 2)];

/// One log per job, with the job's number, which begins at 1, and the width it could be given.
/// An interval in which nothing was done has no line, as in fio.
pub fn logs(run: &Run, kind: Kind, width_ns: u64) -> Vec<(usize, String)> {
    (1..)
        .zip(&run.jobs)
        .map(|(number_of_job, job)| {
            let jobs = [job];
            let window_ns = if job.measured_ns > 0 { job.measured_ns } else { run.measured_ns };
            let width_ns = intervals::common_width_ns(&jobs, width_ns);
            let mut lines: Vec<(u64, u8, u64)> = Vec::new();
            for of in moving() {
                let Some((_, number)) = NUMBERS.iter().find(|(word, _)| *word == of.0) else {
                    continue;
                };
                let rows = intervals::rates(&jobs, of, window_ns, width_ns);
                let last = rows.len().saturating_sub(1);
                for (index, row) in rows.iter().enumerate().filter(|(_, row)| row.ops > 0) {
                    let value = match kind {
                        Kind::Bandwidth => Some(row.bytes_per_s() / 1024.0),
                        Kind::Iops => Some(row.iops()),
                        Kind::Latency => {
                            intervals::latency(&jobs, of, width_ns, index, index == last).mean()
                        }
                    };
                    let end_ms = (row.end_ns + 500_000) / 1_000_000;
                    lines.extend(value.map(|value| (end_ms, *number, value.round() as u64)));
                }
            }
            lines.sort_unstable();
            let mut text = String::new();
            for (end_ms, number, value) in lines {
                let _ = writeln!(text, "{end_ms}, {value}, {number}, 0, 0");
            }
            (number_of_job, text)
        })
        .collect()
}

/// Whether a text begins as a log does: numbers between commas.
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
    fn a_stall_has_no_line() {
        let load =
            Load { shape: |t| if (0.2..0.5).contains(&t) { 0.0 } else { 1.0 }, ..Load::default() };
        let log = &logs(&run_of(&[load]), Kind::Iops, 1_000_000_000)[0].1;
        let times: Vec<&str> = log.lines().filter_map(|line| line.split(',').next()).collect();
        assert_eq!(times, ["1000", "2000", "6000", "7000", "8000", "9000", "10000"]);
    }

    #[test]
    fn a_log_is_known_by_its_first_line() {
        assert!(is_log("") && is_log("500, 1, 0, 0, 0x0004\nrest") && is_log("500,1,0,4096\n"));
        assert!(!is_log("a,b,c,d\n") && !is_log("500\n"));
    }
}
