//! Results of other programs as their files state them: nothing computed, nothing judged.
//!
//! All input is limited in size, every number is finite and not negative, and percentiles ascend. A
//! file that violates this is refused, with the place of the violation.

pub mod fio_json;
pub mod fio_log;
#[cfg(test)]
mod mutations;

use std::collections::BTreeMap;
use std::fmt;

use crate::plan::IoKind;
use iosonde_stats::Histogram;

/// Longest file that is read, bytes.
pub const MAX_BYTES: u64 = 64 << 20;
/// Deepest nesting of a document.
pub const MAX_DEPTH: usize = 64;
/// Longest line of a log, bytes.
pub const MAX_LINE_BYTES: u64 = 64 << 10;

/// Why a file is refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ImportError {
    /// It is longer, deeper or wider than the limit.
    #[error("{place}: found {found}, which is more than is read; expected at most {most}")]
    TooLarge {
        place: String,
        /// What was found there.
        found: String,
        /// The limit.
        most: String,
    },
    /// Its content is not as expected.
    #[error("{place}: found {found}, expected {expected}")]
    Unexpected {
        /// Where: a path through the document, or a line of the log.
        place: String,
        /// What was found there.
        found: String,
        /// What was expected there.
        expected: String,
    },
}

impl ImportError {
    /// Refuses a text of more than `most` bytes.
    fn unless_short(place: fmt::Arguments<'_>, text: &str, most: u64) -> Result<(), ImportError> {
        if text.len() as u64 <= most {
            return Ok(());
        }
        let (found, most) = (format!("{} B", text.len()), format!("{most} B"));
        Err(ImportError::TooLarge { place: place.to_string(), found, most })
    }

    pub(crate) fn unexpected(
        place: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> ImportError {
        let (place, found, expected) = (place.into(), found.into(), expected.into());
        ImportError::Unexpected { place, found, expected }
    }
}

/// A document of another program's results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Foreign {
    /// The program and its version, as it reports them (`fio-3.33`).
    pub program: String,
    /// When the document was written, ns since 1970.
    pub written_unix_ns: Option<u64>,
    /// Its jobs or groups of jobs, in order.
    pub jobs: Vec<ForeignJob>,
    /// Block devices and the share of time in which they were busy, per cent.
    pub devices: Vec<(String, f64)>,
    /// Remarks on the document from reading it.
    pub notes: Vec<String>,
}

/// A job, or a group of jobs that were reported as one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForeignJob {
    pub name: String,
    /// The host that ran it, where a client reports servers.
    pub host: Option<String>,
    /// Number of its group.
    pub group: u64,
    /// Whether this is the sum of all other entries.
    pub is_sum: bool,
    /// Options of all jobs and its own ones, as they were written.
    pub options: BTreeMap<String, String>,
    /// Its error number; 0 for none.
    pub error: u64,
    /// Run time, ns.
    pub runtime_ns: u64,
    /// CPU time in user space and in the kernel, per cent of its run time.
    pub cpu_percent: Option<(f64, f64)>,
    /// Share of submissions at each number of requests in flight, per cent.
    pub depth_levels: Vec<(String, f64)>,
    /// Directions with at least one operation.
    pub directions: Vec<ForeignDirection>,
}

/// Results of one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignDirection {
    pub way: IoKind,
    /// Operations.
    pub ops: u64,
    pub bytes: u64,
    /// Operations per second, as printed.
    pub iops: f64,
    /// Bytes per second, as printed.
    pub bytes_per_s: f64,
    /// Run time of this direction, ns.
    pub runtime_ns: u64,
    /// Operations that transferred less than requested.
    pub short_ops: u64,
    /// Operations that were dropped.
    pub dropped_ops: u64,
    /// Submission latency.
    pub slat: Option<ForeignLatency>,
    /// Completion latency: from the end of submission.
    pub clat: Option<ForeignLatency>,
    /// Total latency.
    pub lat: Option<ForeignLatency>,
}

/// A distribution of latencies, as far as it is reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForeignLatency {
    /// Samples.
    pub count: u64,
    /// Smallest, ns.
    pub min_ns: u64,
    /// Largest, ns.
    pub max_ns: u64,
    pub mean_ns: f64,
    /// Standard deviation, ns.
    pub std_dev_ns: f64,
    /// Percentiles in ascending order: per cent and ns.
    pub percentiles: Vec<(f64, u64)>,
    /// The histogram behind them, if the document has it: midpoint in ns and count.
    pub bins: Vec<(u64, u64)>,
}

impl ForeignLatency {
    /// The percentile `per_cent`, if it is reported.
    pub fn percentile(&self, per_cent: f64) -> Option<u64> {
        let formatted = self.percentiles.iter().find(|(each, _)| (each - per_cent).abs() < 1e-6);
        formatted.map(|(_, ns)| *ns)
    }

    /// The histogram, if the document has its bins.
    pub fn histogram(&self) -> Option<Histogram> {
        if self.bins.is_empty() {
            return None;
        }
        let mut histogram = Histogram::new();
        self.bins.iter().for_each(|(ns, count)| histogram.record_many(*ns, *count));
        Some(histogram)
    }
}

impl ForeignDirection {
    /// The latency from before submission if there is one, else from after it, with its name.
    /// Percentiles often belong to the other one: see [`ForeignDirection::spread`].
    pub fn whole(&self) -> Option<(&'static str, &ForeignLatency)> {
        let lat = self.lat.as_ref().map(|lat| ("lat", lat));
        lat.or_else(|| self.clat.as_ref().map(|clat| ("clat", clat)))
    }

    /// The latency whose percentiles are reported, with its name.
    pub fn spread(&self) -> Option<(&'static str, &ForeignLatency)> {
        let all = [("lat", &self.lat), ("clat", &self.clat), ("slat", &self.slat)];
        let mut formatted =
            all.into_iter().filter_map(|(name, latency)| Some((name, latency.as_ref()?)));
        formatted.find(|(_, latency)| !latency.percentiles.is_empty() || !latency.bins.is_empty())
    }
}

impl ForeignJob {
    /// An option as it was written, by any of its names.
    pub fn option(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.options.get(*name)).map(String::as_str)
    }

    /// Results of one direction, if it had any operations.
    pub fn direction(&self, way: IoKind) -> Option<&ForeignDirection> {
        self.directions.iter().find(|direction| direction.way == way)
    }
}

/// A log: a value per request, or per interval.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignLog {
    /// Name of the job, from the name of the file.
    pub name: String,
    pub kind: LogKind,
    /// Points in ascending order of time.
    pub points: Vec<LogPoint>,
    /// Only in a log of histograms, per interval: end of the interval, direction, latencies.
    pub histograms: Vec<(u64, IoKind, Histogram)>,
    /// Remarks on the log from reading it.
    pub notes: Vec<String>,
}

/// Kind of the values of a log.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum LogKind {
    /// KiB per second.
    Bandwidth,
    /// Operations per second.
    Iops,
    /// Submission latency, ns.
    Slat,
    /// Completion latency, ns.
    Clat,
    /// Whole latency, ns.
    Lat,
    /// Histograms of completion latency.
    Histograms,
}

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogPoint {
    /// Time since the start, ns.
    pub at_ns: u64,
    pub way: IoKind,
    /// The value, in the unit of the log.
    pub value: u64,
}
