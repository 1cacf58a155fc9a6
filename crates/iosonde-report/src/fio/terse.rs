//! fio's terse output, versions 3 and 5: one line per job, fields separated by semicolons.
//! Latencies in microseconds, bandwidth in KiB per second. Version 5 adds trims and samples.

use std::fmt::Write;

use super::{JobReport, Numbered, Reported, VERSION, clat, moving};
use crate::clean::clean;
use iosonde_analysis::intervals::Direction;
use iosonde_model::record::run::Run;
use iosonde_stats::Histogram;

/// Percentile fields of a direction, including unused ones.
const PERCENTILE_FIELDS: usize = 20;
/// Directions; version 3 has the first two.
const FIO_DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

/// Version of the format.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Version {
    /// Reads and writes.
    Three,
    /// Trims too, and numbers of samples.
    Five,
}

/// The lines of a run; jobs reported together share one.
pub fn terse(numbered: &Numbered<'_>, version: Version) -> String {
    let reports = numbered.reports();
    reports.iter().map(|reported| line(reported, version, numbered.first_group)).collect()
}

fn line(reported: &Reported<'_>, version: Version, first_group: usize) -> String {
    let job_report = &reported.job;
    let group = first_group + job_report.plan.span.group as usize;
    // A semicolon in a name would shift all following fields.
    let name = clean(&job_report.name).replace(';', "_");
    let (number, directions) = match version {
        Version::Three => (3, &FIO_DIRECTIONS[..2]),
        Version::Five => (5, &FIO_DIRECTIONS[..]),
    };
    let mut out = format!("{number};{VERSION};{name};{group};{}", job_report.errno());
    for of in moving().filter(|(word, _)| directions.contains(word)) {
        direction(&mut out, reported.of(of), of, version);
    }
    let (user, system) = job_report.cpu_percent();
    let _ = write!(out, ";{user:.6}%;{system:.6}%;{};0;0", job_report.switches());
    for share in job_report.depth_shares() {
        let _ = write!(out, ";{share:.1}%");
    }
    let classes = job_report.classes();
    for (at, share) in classes.us.iter().chain(&classes.ms).enumerate() {
        // The first microsecond class includes all latencies below, as in fio.
        let below: f64 = if at == 0 { classes.ns.iter().sum() } else { 0.0 };
        let _ = write!(out, ";{:.2}%", share + below);
    }
    disk(&mut out, job_report.run);
    out.push('\n');
    out
}

fn direction(out: &mut String, job_report: &JobReport<'_>, of: Direction, version: Version) {
    let facts = (of.1)(&job_report.job);
    let per_second = |count: u64| match facts.ops {
        0 => 0,
        _ => (count as f64 * 1e9 / job_report.window_ns().max(1) as f64) as u64,
    };
    let kib_per_s = per_second(facts.bytes) >> 10;
    let runtime_ms = job_report.runtime_ms(facts);
    let iops = per_second(facts.ops);
    let _ = write!(out, ";{};{kib_per_s};{iops};{runtime_ms}", facts.bytes >> 10);
    moments(out, &facts.slat);
    moments(out, clat(facts));
    let earned = job_report.shown.earned(clat(facts));
    for field in 0..PERCENTILE_FIELDS {
        match earned.get(field) {
            Some((percent, ns)) => {
                let _ = write!(out, ";{percent:.6}%={}", ns / 1_000);
            }
            None => out.push_str(";0%=0"),
        }
    }
    match job_report.lat(facts) {
        Some(latency) => moments(out, latency),
        None => moments(out, &Histogram::new()),
    }
    let (bw, rate) = job_report.samples(of);
    let share = job_report.share_percent(of);
    let _ = write!(
        out,
        ";{};{};{share:.6}%;{:.6};{:.6}",
        bw.min as u64, bw.max as u64, bw.mean, bw.dev
    );
    if version == Version::Five {
        let _ = write!(
            out,
            ";{};{};{};{:.6};{:.6};{}",
            bw.count, rate.min as u64, rate.max as u64, rate.mean, rate.dev, rate.count
        );
    }
}

/// Minimum, maximum, mean and standard deviation in microseconds.
fn moments(out: &mut String, latency: &Histogram) {
    let _ = write!(
        out,
        ";{};{};{:.6};{:.6}",
        latency.min().unwrap_or(0) / 1_000,
        latency.max().unwrap_or(0) / 1_000,
        latency.mean().unwrap_or(0.0) / 1e3,
        latency.std_dev().unwrap_or(0.0) / 1e3
    );
}

/// Nine fields of the device's counters, if known.
fn disk(out: &mut String, run: &Run) {
    let (Some((before, after)), Some(device)) = (&run.device, &run.target.device) else { return };
    let busy_ms = after.busy_ms.saturating_sub(before.busy_ms);
    let _ = write!(
        out,
        ";{};{};{};{};{};{};{};{};{:.2}%",
        clean(&device.name).replace(';', "_"),
        after.reads.saturating_sub(before.reads),
        after.writes.saturating_sub(before.writes),
        after.read_merges.saturating_sub(before.read_merges),
        after.write_merges.saturating_sub(before.write_merges),
        after.read_ms.saturating_sub(before.read_ms),
        after.write_ms.saturating_sub(before.write_ms),
        after.weighted_ms.saturating_sub(before.weighted_ms),
        (busy_ms as f64 * 1e8 / run.measured_ns.max(1) as f64).min(100.0)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_analysis::Assessment;
    use iosonde_analysis::assess;
    use iosonde_fixtures::{Load, run_of};

    /// Names of the fields without those of a disk, in fio's words.
    const FIELDS: &str = include_str!("../../../../tests/fixtures/fio/terse-3.fields");

    fn field(line: &str, name: &str) -> String {
        let at = FIELDS.lines().position(|field| field == name);
        let value = at.and_then(|at| line.trim_end().split(';').nth(at));
        value.unwrap_or_default().to_owned()
    }

    /// The lines of a run; `first_group` is the number of its first group.
    fn of(run: &Run, facts: &Assessment, version: Version, first_group: usize) -> String {
        let numbered =
            Numbered { first_group, run: (run, facts), verification: None, written: None };
        terse(&numbered, version)
    }

    #[test]
    fn each_field_stands_where_fio_has_it() {
        // T20: 5,000 operations of 4 KiB per second, 32 in flight, are 6.4 ms each.
        let mut run = run_of(&[Load { noise: 0.0, ..Load::default() }]);
        run.plan.name = "a;b".into();
        let line = of(&run, &assess(&run, None), Version::Three, 0);
        assert_eq!(line.trim_end().split(';').count(), FIELDS.lines().count());
        assert_eq!(
            (field(&line, "terse_version_3"), field(&line, "jobname")),
            ("3".into(), "a_b".into())
        );
        assert_eq!(field(&line, "read_kb"), (50_000 * 4).to_string());
        assert_eq!(field(&line, "read_bandwidth_kb"), "20000");
        assert_eq!(field(&line, "read_iops"), "5000");
        assert_eq!(field(&line, "read_runtime_ms"), "10000");
        let mean_us: f64 = field(&line, "read_clat_mean_us").parse().unwrap_or_default();
        assert!((mean_us / 6_400.0 - 1.0).abs() < 0.01, "{line}");
        assert_eq!(field(&line, "read_clat_mean_us"), field(&line, "read_lat_mean_us"));
        assert_eq!(field(&line, "read_bw_agg_pct"), "100.000000%");
        assert_eq!(field(&line, "read_clat_pct18"), "0%=0", "fio has 17");
        assert!(field(&line, "read_clat_pct01").starts_with("1.000000%="));
        assert_eq!(field(&line, "write_iops"), "0");
        assert_eq!(field(&line, "iodepth_32"), "100.0%");
        assert_eq!(field(&line, "cpu_user"), "0.250000%");
        let share = |name: &str| -> f64 {
            field(&line, name).trim_end_matches('%').parse().unwrap_or_default()
        };
        assert!((share("lat_4ms") + share("lat_10ms") - 100.0).abs() < 0.02, "{line}");
        assert_eq!(field(&line, "lat_over_2000ms"), "0.00%");
    }

    #[test]
    fn version_five_has_trims_and_samples() {
        let run = run_of(&[Load { noise: 0.0, ..Load::default() }]);
        let facts = assess(&run, None);
        let three = of(&run, &facts, Version::Three, 0);
        let five = of(&run, &facts, Version::Five, 2);
        let fields = |line: &str| line.trim_end().split(';').count();
        // 41 fields of a third direction, and 6 more for each of three directions.
        assert_eq!(fields(&five), fields(&three) + 41 + 18);
        assert!(five.starts_with("5;") && five.split(';').nth(3) == Some("2"), "{five}");
    }

    #[test]
    fn the_line_stands_as_kept() {
        let run = run_of(&[Load { read_percent: 50, jobs: 2, noise: 0.0, ..Load::default() }]);
        let text = of(&run, &assess(&run, None), Version::Three, 0).replace(VERSION, "…");
        crate::golden::assert_golden("run.terse", &text);
    }
}
