//! fio's logs: a line per request, or per interval with `log_avg_msec`; and its logs of histograms.
//!
//! A line is `time (ms), value, direction, block size, …`; further fields depend on version and
//! options and are not used. Only the name of the file shows the kind of value.

use super::{ForeignLog, ImportError, LogKind, LogPoint, MAX_BYTES, MAX_LINE_BYTES};
use crate::plan::IoKind;
use iosonde_stats::Histogram;

/// Bins of fio's histogram: 29 groups of 64. Bins of the first two groups are 1 ns wide.
const BINS: usize = 29 << GROUP_BITS;
const GROUP_BITS: u32 = 6;
/// Most samples of one line, so that those of all lines can be added.
const MAX_SAMPLES: u64 = 1 << 40;
/// Times from here on, ms, count from 1970 (`log_unix_epoch`), not from the start.
const EPOCH_FROM_MS: u64 = 100_000_000_000;

/// Name of the job and kind of the values, from the name of a log (`db_clat.1.log`).
pub fn kind_of(file_name: &str) -> Option<(String, LogKind)> {
    let stem = file_name.strip_suffix(".log")?;
    // The number of the job, unless `per_job_logs=0`.
    let (stem, number) = match stem.rsplit_once('.') {
        Some((stem, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => (stem, number),
        _ => (stem, ""),
    };
    let kinds = [
        ("_clat_hist", LogKind::Histograms),
        ("_bw", LogKind::Bandwidth),
        ("_iops", LogKind::Iops),
        ("_slat", LogKind::Slat),
        ("_clat", LogKind::Clat),
        ("_lat", LogKind::Lat),
    ];
    let (name, kind) =
        kinds.iter().find_map(|(end, kind)| Some((stem.strip_suffix(end)?, *kind)))?;
    let dot = if number.is_empty() || number == "1" { String::new() } else { format!(" {number}") };
    Some((format!("{name}{dot}"), kind))
}

/// Reads a log.
///
/// # Errors
/// If it is too long, or has a malformed line.
pub fn fio_log(name: &str, kind: LogKind, text: &str) -> Result<ForeignLog, ImportError> {
    ImportError::unless_short(format_args!("the file"), text, MAX_BYTES)?;
    let mut log = ForeignLog {
        name: name.into(),
        kind,
        points: Vec::new(),
        histograms: Vec::new(),
        notes: Vec::new(),
    };
    for (number, line) in (1..).zip(text.lines()) {
        ImportError::unless_short(format_args!("line {number}"), line, MAX_LINE_BYTES)?;
        if line.trim().is_empty() {
            continue;
        }
        let line = Line { number, line };
        if kind == LogKind::Histograms {
            log.histograms.push(line.histogram()?);
        } else {
            log.points.push(line.point()?);
        }
    }
    if log.points.is_empty() && log.histograms.is_empty() {
        return Err(ImportError::unexpected("the log", "no line", "at least one"));
    }
    from_the_start(&mut log);
    Ok(log)
}

/// Converts times since 1970 to times since the first one.
fn from_the_start(log: &mut ForeignLog) {
    let times = log.points.iter().map(|point| point.at_ns);
    let first = times.chain(log.histograms.iter().map(|each| each.0)).min().unwrap_or(0);
    if first >= EPOCH_FROM_MS.saturating_mul(1_000_000) {
        log.points.iter_mut().for_each(|point| point.at_ns -= first);
        log.histograms.iter_mut().for_each(|each| each.0 -= first);
        log.notes.push("times count from 1970; shown since the first one".into());
    }
    // Logs of several directions, and those of single requests, are not entirely in order.
    log.points.sort_by_key(|point| point.at_ns);
    log.histograms.sort_by_key(|each| each.0);
}

struct Line<'a> {
    number: u32,
    line: &'a str,
}

impl Line<'_> {
    fn unexpected(&self, found: &str, expected: &str) -> ImportError {
        let found: String = found.trim().chars().take(60).collect();
        let found = format!("`{found}`");
        ImportError::unexpected(format!("line {}", self.number), found, expected)
    }

    fn count(&self, field: &str, expected: &str) -> Result<u64, ImportError> {
        field.trim().parse().map_err(|_| self.unexpected(field, expected))
    }

    fn time(&self, field: &str) -> Result<u64, ImportError> {
        let ns = self.count(field, "a time in ms")?.checked_mul(1_000_000);
        ns.ok_or_else(|| self.unexpected(field, "a time of less than 584 years"))
    }

    fn way(&self, field: &str) -> Result<IoKind, ImportError> {
        match field.trim() {
            "0" => Ok(IoKind::Read),
            "1" => Ok(IoKind::Write),
            "2" => Ok(IoKind::Trim),
            // With `log_window_value=both`, this field is a second value.
            _ => {
                Err(self
                    .unexpected(field, "a direction, 0, 1 or 2, as in a log of one value per line"))
            }
        }
    }

    fn point(&self) -> Result<LogPoint, ImportError> {
        let mut fields = self.line.split(',');
        let (Some(time), Some(value), Some(way), Some(_)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(self.unexpected(self.line, "`time, value, direction, block size`"));
        };
        Ok(LogPoint {
            at_ns: self.time(time)?,
            value: self.count(value, "a value of at least 0")?,
            way: self.way(way)?,
        })
    }

    fn histogram(&self) -> Result<(u64, IoKind, Histogram), ImportError> {
        let mut fields = self.line.trim_end().trim_end_matches(',').split(',');
        let (Some(time), Some(way), Some(_)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(self.unexpected(self.line, "`time, direction, block size, counts`"));
        };
        let (time, way) = (self.time(time)?, self.way(way)?);
        let mut histogram = Histogram::new();
        let mut bins = 0;
        let mut sum = 0u64;
        for (index, field) in fields.enumerate() {
            let count = self.count(field, "a count")?;
            let fits = sum.checked_add(count).filter(|sum| *sum <= MAX_SAMPLES);
            sum = fits.ok_or_else(|| self.unexpected(field, "counts of at most 2^40 in all"))?;
            if count > 0 && index < BINS {
                histogram.record_many(middle(index), count);
            }
            bins += 1;
        }
        if bins != BINS {
            let found = format!("{bins} counts");
            let expected = "1856, as fio writes with log_hist_coarseness=0";
            return Err(self.unexpected(&found, expected));
        }
        Ok((time, way, histogram))
    }
}

/// Middle of a bin, ns: 64 bins per octave, each of a whole number of ns.
fn middle(index: usize) -> u64 {
    let (group, place) = ((index >> GROUP_BITS) as u32, (index & ((1 << GROUP_BITS) - 1)) as u64);
    if group < 2 {
        return index as u64;
    }
    let shift = group - 1;
    let low = (1u64 << (shift + GROUP_BITS)) + (place << shift);
    low + (1u64 << shift) / 2
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::mutations::mutations;
    use super::*;

    const BANDWIDTH: &str =
        include_str!("../../../../../tests/fixtures/fio-results/logged_bw.1.log");
    const CLAT: &str = include_str!("../../../../../tests/fixtures/fio-results/logged_clat.1.log");
    const HISTOGRAMS: &str =
        include_str!("../../../../../tests/fixtures/fio-results/logged_clat_hist.1.log");

    #[test]
    fn the_name_says_what_the_values_are() {
        for (name, expected) in [
            ("db_bw.1.log", Some(("db", LogKind::Bandwidth))),
            ("db_iops.log", Some(("db", LogKind::Iops))),
            ("a_b_clat.12.log", Some(("a_b 12", LogKind::Clat))),
            ("a.b_slat.1.log", Some(("a.b", LogKind::Slat))),
            ("db_lat.2.log", Some(("db 2", LogKind::Lat))),
            ("db_clat_hist.1.log", Some(("db", LogKind::Histograms))),
            ("fio.log", None),
            ("db_bw.1.txt", None),
        ] {
            let found = kind_of(name);
            let found = found.as_ref().map(|(name, kind)| (name.as_str(), *kind));
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn lines_are_points_in_the_order_of_time() {
        let log = fio_log("logged", LogKind::Bandwidth, BANDWIDTH).unwrap();
        assert_eq!(log.points.len(), BANDWIDTH.lines().count());
        let first = LogPoint { at_ns: 250_000_000, way: IoKind::Read, value: 37_632 };
        assert_eq!(log.points[0], first);
        assert!(log.points.is_sorted_by_key(|point| point.at_ns));
        let log = fio_log("logged", LogKind::Lat, "1795303735862, 5, 1, 4096, 0, 3\n").unwrap();
        assert_eq!((log.points[0].at_ns, log.notes.len()), (0, 1));
    }

    #[test]
    fn histograms_hold_what_the_mean_latencies_say() {
        let log = fio_log("logged", LogKind::Histograms, HISTOGRAMS).unwrap();
        let means = fio_log("logged", LogKind::Clat, CLAT).unwrap();
        let mut all = Histogram::new();
        log.histograms.iter().for_each(|(_, _, histogram)| all.merge(histogram));
        let values = means.points.iter().map(|point| point.value as f64);
        let mean = values.sum::<f64>() / means.points.len() as f64;
        // Each mean is of about as many requests.
        assert!((all.mean().unwrap() / mean - 1.0).abs() < 0.1, "{:?} {mean}", all.mean());
    }

    #[test]
    fn bins_are_where_fio_has_them() {
        assert_eq!([0, 63, 64, 127].map(middle), [0, 63, 64, 127]);
        assert_eq!([128, 129, 191, 192].map(middle), [129, 131, 255, 258]);
        assert!(middle(BINS - 1) > 1 << 33);
    }

    #[test]
    fn what_is_no_log_is_refused_with_its_line() {
        let refused = |kind, text: &str| fio_log("x", kind, text).unwrap_err().to_string();
        for (text, expected) in [
            ("", "the log: found no line"),
            ("1, 2, 0, 4096\n1, -2, 0, 4096\n", "line 2: found `-2`, expected a value"),
            ("1, 2\n", "line 1: found `1, 2`"),
            ("1, nan, 0, 0\n", "line 1: found `nan`"),
            ("99999999999999999, 2, 0, 0\n", "a time of less than 584 years"),
            ("1, 2, 345, 0, 4096\n", "a direction, 0, 1 or 2"),
            (&"1".repeat(70_000), "line 1: found 70000 B"),
        ] {
            let error = refused(LogKind::Iops, text);
            assert!(error.contains(expected), "{error}");
        }
        let error = refused(LogKind::Histograms, "1, 0, 4096, 1, 2, 3\n");
        assert!(error.contains("found `3 counts`, expected 1856"), "{error}");
    }

    #[test]
    fn whatever_is_done_to_a_log_it_is_read_or_refused() {
        for (kind, text) in [(LogKind::Clat, CLAT), (LogKind::Histograms, HISTOGRAMS)] {
            for mutated in mutations(text, 7, 200) {
                if let Err(error) = fio_log("x", kind, &mutated) {
                    assert!(error.to_string().contains("expected"), "{error}");
                }
            }
        }
    }
}
