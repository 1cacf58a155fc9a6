//! A latency target: `p99<=2ms`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::{UnitError, duration};

/// At least the share `quantile` of the operations must complete within the limit.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct LatencyTarget {
    /// Share of operations that must meet the limit, `0.5..1`.
    pub quantile: f64,
    pub limit_ns: u64,
}

words! {
    /// How a latency target is pursued.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Pursuit {
        /// Find the largest depth that meets it, then measure at that depth.
        Search => "search",
        /// Adjust the depth to meet it, and measure while adjusting.
        Hold => "hold",
    }
}

/// Why a latency target was not understood.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LatencyTargetError {
    /// Not a quantile and a limit.
    #[error("found `{0}`, expected a percentile and a limit, such as p99<=2ms")]
    Form(String),
    /// The percentile is out of range or not a number.
    #[error("found the percentile `{0}`, expected p50 to p99.999")]
    Quantile(String),
    /// The comparison is not an upper limit.
    #[error("found `{0}`: a latency target is an upper limit; write it with <=")]
    Comparison(String),
    /// The limit is not a time above 0.
    #[error("in `{text}`: {source}")]
    Limit { text: String, source: UnitError },
}

impl LatencyTarget {
    /// Reads `pNN<=TIME`; a bare number is in milliseconds.
    ///
    /// # Errors
    /// If it is not a percentile from p50 to p99.999 with an upper limit above 0.
    pub fn parse(text: &str) -> Result<LatencyTarget, LatencyTargetError> {
        let form = || LatencyTargetError::Form(text.into());
        let at = text.find(['<', '>', '=']).ok_or_else(form)?;
        let (metric, rest) = text.split_at(at);
        if !rest.starts_with('<') {
            return Err(LatencyTargetError::Comparison(text.into()));
        }
        let metric = metric.trim();
        let digits = metric.strip_prefix(['p', 'P']).ok_or_else(form)?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let percent = digits.parse::<f64>().ok().filter(|percent| {
            // Beyond this, the test would need more operations than any run has.
            plain && (50.0..=99.999).contains(percent)
        });
        let percent = percent.ok_or_else(|| LatencyTargetError::Quantile(metric.into()))?;
        let limit = rest.trim_start_matches('<').trim_start_matches('=').trim();
        let fail = |source| LatencyTargetError::Limit { text: text.into(), source };
        let limit_ns = duration::parse(limit, 1_000_000).map_err(fail)?;
        if limit_ns == 0 {
            let expected = "a limit above 0";
            return Err(fail(UnitError::Malformed { found: limit.into(), expected }));
        }
        Ok(LatencyTarget { quantile: percent / 100.0, limit_ns })
    }

    /// Share of operations that may be slower than the limit.
    pub fn allowed(&self) -> f64 {
        1.0 - self.quantile
    }

    /// The percentile in words: `p99.9`.
    pub fn percentile(&self) -> String {
        // Rounded to a thousandth of a percent, the finest that `parse` accepts.
        let thousandths = (self.quantile * 1e5).round();
        format!("p{}", thousandths / 1e3)
    }
}

impl fmt::Display for LatencyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <= {}", self.percentile(), duration::latency(self.limit_ns as f64))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn percentile_and_limit_are_understood() {
        let target = LatencyTarget::parse("p99<=2ms").unwrap();
        assert_eq!((target.quantile, target.limit_ns), (0.99, 2_000_000));
        assert_eq!(LatencyTarget::parse(" P99.9 <= 500us").unwrap().percentile(), "p99.9");
        assert_eq!(LatencyTarget::parse("p50<5").unwrap().limit_ns, 5_000_000);
        assert_eq!(target.to_string(), "p99 <= 2.00 ms");
        assert!((LatencyTarget::parse("p99.99<=1s").unwrap().allowed() - 1e-4).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_upper_limit_of_a_percentile_is_refused() {
        let error = |text: &str| LatencyTarget::parse(text).unwrap_err().to_string();
        assert!(error("2ms").contains("such as p99<=2ms"));
        assert!(error("iops<=2").contains("expected a percentile"));
        assert!(error("p99>=2ms").contains("upper limit"));
        assert!(error("p100<=2ms").contains("p50 to p99.999"));
        assert!(error("p1<=2ms").contains("p50 to p99.999"));
        assert!(error("pnan<=2ms").contains("p50 to p99.999"));
        assert!(error("p99<=0").contains("above 0"));
        assert!(error("p99<=2parsecs").contains("parsecs"));
    }
}
