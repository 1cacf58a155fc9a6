//! The interval series as an HdrHistogram log, for the tools of HdrHistogram: one compressed
//! histogram of ns per interval and direction, tagged with the direction.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::clean::clean;
use iosonde_analysis::intervals::{self, DIRECTIONS};
use iosonde_model::record::run::Run;
use iosonde_stats::Histogram;

/// First line of the log.
pub const OPENING: &str = "#[Histogram log format version 1.3]";

/// Significant digits of the log's histograms: finer than our own buckets, so nothing is lost.
const DIGITS: u8 = 3;
/// Unit of the maximum in a line: ms, as written by other programs.
const NS_PER_MS: f64 = 1e6;

/// The log of some runs.
///
/// # Errors
/// The library's message if it cannot encode a histogram.
pub fn hlog(runs: &[&Run], width_ns: u64) -> Result<String, String> {
    let started_ns = runs.first().map_or(0, |run| run.started_unix_ns);
    let started = SystemTime::UNIX_EPOCH + Duration::from_nanos(started_ns);
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(OPENING.trim_start_matches('#'))
        .add_comment(concat!("[Logged with iosonde ", env!("CARGO_PKG_VERSION"), "]"))
        .add_comment("[Values in ns]")
        .with_start_time(started)
        .with_base_time(started)
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(&mut text, &mut serializer)
        .map_err(|error| error.to_string())?;
    for run in runs {
        let since_ns = run.started_unix_ns.saturating_sub(started_ns);
        for (start_ns, length_ns, word, latency) in lines(run, width_ns) {
            let tag =
                if runs.len() > 1 { format!("{}/{word}", run.plan.name) } else { word.into() };
            // A comma would end the tag, and a line break the line.
            let tag = clean(&tag).replace([',', ' ', '\n', '\r'], "_");
            log.write_histogram(
                &converted(&latency).map_err(|error| error.to_string())?,
                Duration::from_nanos(since_ns + start_ns),
                Duration::from_nanos(length_ns),
                Tag::new(&tag),
            )
            .map_err(|error| error.to_string())?;
        }
    }
    String::from_utf8(text).map_err(|error| error.to_string())
}

/// Start, length, direction and latencies in the order of time; intervals without operations are
/// left out.
fn lines(run: &Run, width_ns: u64) -> Vec<(u64, u64, &'static str, Histogram)> {
    let jobs = intervals::all_jobs(run);
    let width_ns = intervals::common_width_ns(&jobs, width_ns);
    let mut lines = Vec::new();
    for of in DIRECTIONS {
        for (row, latency) in intervals::over_time(&jobs, &[of], run.measured_ns, width_ns) {
            if latency.count() > 0 {
                lines.push((row.start_ns, row.end_ns - row.start_ns, of.0, latency));
            }
        }
    }
    lines.sort_by_key(|line| line.0);
    lines
}

/// The same counts, each bucket at its midpoint. The maximum is exact, since tools show it; values
/// beyond our buckets are counted there too.
fn converted(
    latency: &Histogram,
) -> Result<hdrhistogram::Histogram<u64>, hdrhistogram::CreationError> {
    let max_ns = latency.max().unwrap_or(0);
    let mut pairs: Vec<(u64, u64)> = latency.midpoints().collect();
    if latency.overflow() > 0 {
        pairs.push((max_ns, latency.overflow()));
    } else if let Some(largest) = pairs.last_mut() {
        largest.1 -= 1;
        pairs.push((max_ns, 1));
    }
    let mut out = hdrhistogram::Histogram::new_with_bounds(1, max_ns.max(2), DIGITS)?;
    pairs.into_iter().for_each(|(value_ns, times)| out.saturating_record_n(value_ns, times));
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use iosonde_fixtures::{Load, run_of};

    /// Tag, start (ns), length (ns) and histogram of each line, read by the library.
    fn read(text: &str) -> Vec<(String, u128, u128, hdrhistogram::Histogram<u64>)> {
        use base64::Engine as _;
        IntervalLogIterator::new(text.as_bytes())
            .filter_map(|entry| match entry.unwrap() {
                LogEntry::Interval(line) => {
                    let raw = base64::engine::general_purpose::STANDARD
                        .decode(line.encoded_histogram())
                        .unwrap();
                    let histogram = Deserializer::new().deserialize(&mut &raw[..]).unwrap();
                    let tag = line.tag().unwrap().as_str().to_owned();
                    let (start, length) = (line.start_timestamp(), line.duration());
                    Some((tag, start.as_nanos(), length.as_nanos(), histogram))
                }
                _ => None,
            })
            .collect()
    }

    #[test]
    fn what_is_read_back_is_what_was_measured() {
        let loads = [Load { read_percent: 70, noise: 0.02, ..Load::default() }];
        let run = run_of(&loads);
        let text = hlog(&[&run], 1_000_000_000).unwrap();
        assert!(text.starts_with(OPENING), "{text}");
        assert!(text.contains("#[StartTime: 1700000000.000 "), "{text}");
        let lines = read(&text);
        assert_eq!(lines.len(), 20);
        assert_eq!((lines[2].1, lines[2].2), (1_000_000_000, 1_000_000_000));
        for (word, direction) in [("read", &run.jobs[0].read), ("write", &run.jobs[0].write)] {
            let mut sum = hdrhistogram::Histogram::<u64>::new(3).unwrap();
            lines.iter().filter(|line| line.0 == word).for_each(|line| sum.add(&line.3).unwrap());
            assert_eq!(sum.len(), direction.latency.count(), "{word}");
            assert!(sum.max().abs_diff(direction.latency.max().unwrap()) <= sum.max() / 1000);
            for q in [0.01, 0.5, 0.9, 0.99, 0.999] {
                let (ours, theirs) =
                    (direction.latency.quantile(q).unwrap(), sum.value_at_quantile(q));
                assert!(ours.abs_diff(theirs) <= ours / 200, "{word} {q}: {ours} and {theirs} ns");
            }
        }
    }

    #[test]
    fn the_longest_latencies_and_hostile_names_survive() {
        let mut run = run_of(&[Load { iops: 2.0, noise: 0.0, ..Load::default() }]);
        let mut latency = Histogram::new();
        [0, 5, 1 << 41].iter().for_each(|ns| latency.record(*ns));
        let there = converted(&latency).unwrap();
        assert_eq!(there.len(), 3);
        assert!(there.max() >= 1 << 41);
        run.plan.name = "a,b\nc d\u{1b}[31m".into();
        let text = hlog(&[&run, &run], 10_000_000_000).unwrap();
        assert!(read(&text).iter().all(|line| line.0 == "a_bc_d/read"), "{text}");
    }
}
