//! A figure, its operations and its required precision: `p99+-3%`.
//!
//! Expectations (`METRIC OP VALUE`) use the same names of figures.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::count;

/// Operations that a figure includes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Reads and writes.
    Total,
    Read,
    Write,
}

/// A figure.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Operations per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Durable bytes per second.
    Durable,
    /// Mean latency.
    Mean,
    /// Largest latency.
    Max,
    /// A quantile of the latency, `0..1`.
    Quantile(f64),
}

/// Every accepted metric word; of synonyms, the first is printed.
const METRICS: [(&str, Metric); 13] = [
    ("iops", Metric::Iops),
    ("bw", Metric::Bandwidth),
    ("durable", Metric::Durable),
    ("mean", Metric::Mean),
    ("avg", Metric::Mean),
    ("lat", Metric::Mean),
    ("max", Metric::Max),
    ("p50", Metric::Quantile(0.50)),
    ("p90", Metric::Quantile(0.90)),
    ("p95", Metric::Quantile(0.95)),
    ("p99", Metric::Quantile(0.99)),
    ("p99.9", Metric::Quantile(0.999)),
    ("p99.99", Metric::Quantile(0.9999)),
];

/// The metric is unknown.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "found the metric `{found}`, expected iops, bw, durable, avg, max, p50, p90, p95, p99, \
     p99.9 or p99.99, with read. or write. before it if wanted{hint}"
)]
pub struct UnknownMetric {
    pub found: String,
    /// `; did you mean …?`, or nothing.
    pub hint: String,
}

impl Metric {
    /// The word as typed and printed.
    pub fn word(self) -> &'static str {
        METRICS.iter().find(|(_, metric)| *metric == self).map_or("percentile", |(word, _)| word)
    }

    fn find(word: &str) -> Result<Metric, UnknownMetric> {
        let found = METRICS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        found.map(|(_, metric)| *metric).ok_or_else(|| UnknownMetric {
            found: word.to_owned(),
            hint: count::nearest(word, METRICS.iter().map(|(name, _)| *name))
                .map_or(String::new(), |near| format!("; did you mean {near}?")),
        })
    }
}

/// Parses `[WORKLOAD.][DIRECTION.]METRIC`; returns the prefix before the direction unchanged.
///
/// # Errors
/// If the metric is unknown.
pub fn subject(text: &str) -> Result<(String, Direction, Metric), UnknownMetric> {
    let is_digits = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let mut words: Vec<&str> = text.split('.').map(str::trim).collect();
    // The word `p99.9` contains a point.
    let metric = match words.as_slice() {
        [.., whole, digits] if is_digits(digits) => {
            let joined = format!("{whole}.{digits}");
            words.truncate(words.len() - 2);
            joined
        }
        _ => words.pop().unwrap_or_default().to_owned(),
    };
    let metric = Metric::find(&metric)?;
    let direction = match words.last().map(|word| word.to_ascii_lowercase()).as_deref() {
        Some("read") => Some(Direction::Read),
        Some("write") => Some(Direction::Write),
        Some("total") => Some(Direction::Total),
        _ => None,
    };
    if direction.is_some() {
        words.pop();
    }
    Ok((words.join("."), direction.unwrap_or(Direction::Total), metric))
}

/// The required precision of a figure.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Precision {
    pub direction: Direction,
    pub metric: Metric,
    /// Half-width of its 95 % confidence interval, as a share of the figure.
    pub width: f64,
}

/// Permitted widths of a rate or a mean.
const WIDTHS: std::ops::RangeInclusive<f64> = 0.001..=0.5;
/// Smallest width of a percentile: a histogram bucket is 0.78 % wide.
const NARROWEST_PERCENTILE: f64 = 0.01;

/// Why a precision was not understood.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PrecisionError {
    /// The text is not a metric and a width.
    #[error("found `{0}`, expected METRIC+-WIDTH%, such as p99+-3% or read.iops+-2%")]
    Form(String),
    /// The metric is unknown.
    #[error(transparent)]
    Metric(#[from] UnknownMetric),
    /// The word before the metric is not a direction.
    #[error("found `{0}` before the metric, expected read., write. or nothing")]
    Direction(String),
    /// The metric has no confidence interval.
    #[error("`{0}` is a single value without an interval; expected a rate, a mean or a percentile")]
    Single(String),
    /// The width is out of range.
    #[error(
        "found the width `{0}`, expected 0.1 % to 50 %; for a percentile at least 1 %, \
         because latencies are counted in buckets of 0.78 %"
    )]
    Width(String),
}

impl Precision {
    /// Parses `METRIC+-WIDTH%`; ± is accepted too.
    ///
    /// # Errors
    /// If the text is not a metric with a confidence interval and a valid width in percent.
    pub fn parse(text: &str) -> Result<Precision, PrecisionError> {
        let form = || PrecisionError::Form(text.to_owned());
        let (what, width) =
            text.split_once("+-").or_else(|| text.split_once('±')).ok_or_else(form)?;
        let (rest, direction, metric) = subject(what.trim())?;
        if !rest.is_empty() {
            return Err(PrecisionError::Direction(rest));
        }
        if matches!(metric, Metric::Max | Metric::Durable) {
            return Err(PrecisionError::Single(metric.word().into()));
        }
        let width = width.trim();
        let percent = width.strip_suffix('%').ok_or_else(form)?.trim();
        let wrong = || PrecisionError::Width(width.to_owned());
        let share = percent.parse::<f64>().map_err(|_| wrong())? / 100.0;
        let too_narrow = matches!(metric, Metric::Quantile(_)) && share < NARROWEST_PERCENTILE;
        if !WIDTHS.contains(&share) || too_narrow {
            return Err(wrong());
        }
        Ok(Precision { direction, metric, width: share })
    }

    /// The figure in words: `read p99`.
    pub fn subject(&self) -> String {
        let front = match self.direction {
            Direction::Total => "",
            Direction::Read => "read ",
            Direction::Write => "write ",
        };
        format!("{front}{}", self.metric.word())
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = (1e6 * self.width).round() / 1e4;
        write!(f, "{} ±{percent} %", self.subject())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_figure_and_its_width_are_understood() {
        let parse = |text: &str| Precision::parse(text).unwrap();
        let p99 =
            Precision { direction: Direction::Total, metric: Metric::Quantile(0.99), width: 0.03 };
        assert_eq!(parse("p99+-3%"), p99);
        assert_eq!(parse(" P99 ± 3 % "), p99);
        let tail = parse("read.p99.9+-2.5%");
        assert_eq!((tail.direction, tail.metric), (Direction::Read, Metric::Quantile(0.999)));
        assert_eq!(tail.to_string(), "read p99.9 ±2.5 %");
        assert_eq!(parse("lat+-1%").metric, Metric::Mean);
        assert_eq!(parse("write.bw+-0.5%").to_string(), "write bw ±0.5 %");
    }

    #[test]
    fn nonsense_is_refused() {
        for (text, words) in [
            ("p99", "METRIC+-WIDTH%"),
            ("p99+-3", "METRIC+-WIDTH%"),
            ("p98+-3%", "did you mean"),
            ("db.p99+-3%", "found `db` before the metric"),
            ("max+-3%", "a single value"),
            ("durable+-3%", "a single value"),
            ("iops+-0%", "0.1 % to 50 %"),
            ("iops+-nan%", "0.1 % to 50 %"),
            ("iops+--3%", "0.1 % to 50 %"),
            ("iops+-60%", "0.1 % to 50 %"),
            ("p99+-0.5%", "at least 1 %"),
        ] {
            let error = Precision::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
