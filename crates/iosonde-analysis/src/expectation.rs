//! Declared expectations: `METRIC OP VALUE`, with a workload as prefix if there are several.
//!
//! `Database.p99<=2ms`, `iops>=10k`, `read.bw>=1GB/s`, `KV-Store.write.max<1s`.

use std::fmt;

use serde::Serialize;

use iosonde_model::record::run::Run;
use iosonde_model::spec::precision::{UnknownMetric, subject};
pub use iosonde_model::spec::{Direction, Metric};
use iosonde_model::units::{UnitError, bytes, count, duration};

use super::figures::{self, Figures};
use super::verdict::Assessment;

/// One expectation, as parsed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expectation {
    /// As typed.
    pub text: String,
    /// The workload it applies to, by name or title; `None` for all.
    pub workload: Option<String>,
    /// Reads, writes, or both.
    pub direction: Direction,
    /// Figure to which the limit applies.
    pub metric: Metric,
    /// Side of the limit on which the expectation is met.
    pub comparison: Comparison,
    /// The limit: operations per second, bytes per second, or ns.
    pub limit: f64,
}

/// Side of the limit on which an expectation is met.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Comparison {
    /// `<=`
    #[serde(rename = "<=")]
    AtMost,
    /// `>=`
    #[serde(rename = ">=")]
    AtLeast,
    /// `<`
    #[serde(rename = "<")]
    Below,
    /// `>`
    #[serde(rename = ">")]
    Above,
}

/// Longest first, so that `<=` is not read as `<`.
const COMPARISONS: [(&str, Comparison); 4] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Below),
    (">", Comparison::Above),
];

/// Why an expectation could not be parsed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ExpectationError {
    /// The text has no comparison.
    #[error("found `{text}`, expected METRIC OP VALUE with one of <= >= < >, such as p99<=2ms")]
    Comparison { text: String },
    /// The metric is unknown.
    #[error(transparent)]
    Metric(#[from] UnknownMetric),
    /// The workload is unknown.
    #[error("found the workload `{found}`, expected one of {known}{hint}")]
    Workload {
        found: String,
        known: String,
        /// `; did you mean …?`, or nothing.
        hint: String,
    },
    /// A workload is named where there is only one.
    #[error("found the workload `{found}`, but a run has only one: leave out `{found}.`")]
    Prefix { found: String },
    /// The value is not a quantity of the metric's kind.
    #[error("in `{text}`: {source}")]
    Value { text: String, source: UnitError },
    /// A durable rate exists only for writes.
    #[error(
        "found `{text}`: only writes have a durable rate; use durable without the prefix \
        read."
    )]
    DurableRead { text: String },
}

/// Whether an expectation was met.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Judgement {
    /// The expectation holds.
    Met {
        /// The figure.
        measured: f64,
        /// Its 95 % interval within the run, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        interval: Option<(f64, f64)>,
    },
    /// The expectation does not hold.
    Missed {
        /// The figure. It alone decides, so that equal results have equal exit codes.
        measured: f64,
        /// Its 95 % interval within the run, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        interval: Option<(f64, f64)>,
    },
    /// The figure is unknown.
    Unknown {
        /// Why it is unknown.
        reason: String,
    },
}

impl Expectation {
    /// Parses one expectation. `workloads` are the names and titles accepted as prefix; a single
    /// run passes none and accepts no prefix.
    ///
    /// # Errors
    /// If the comparison, the metric, the workload or the value is invalid; the error lists what is
    /// accepted and suggests the nearest name.
    pub fn parse(text: &str, workloads: &[&str]) -> Result<Expectation, ExpectationError> {
        let text = text.trim();
        let (front, comparison, value) = split(text)?;
        let (word, direction, metric) = subject(front)?;
        if metric == Metric::Durable && direction == Direction::Read {
            return Err(ExpectationError::DurableRead { text: text.to_owned() });
        }
        let workload = if word.is_empty() { None } else { Some(find_workload(&word, workloads)?) };
        let limit = limit(metric, value)
            .map_err(|source| ExpectationError::Value { text: text.to_owned(), source })?;
        let text = text.to_owned();
        Ok(Expectation { text, workload, direction, metric, comparison, limit })
    }

    /// Whether it applies to this run.
    pub fn applies_to(&self, run: &Run) -> bool {
        self.workload.as_deref().is_none_or(|workload| {
            workload.eq_ignore_ascii_case(&run.plan.name)
                || workload.eq_ignore_ascii_case(&run.plan.title)
        })
    }

    /// Evaluates it on the figures of a run whose consistency checks passed.
    pub fn judge(&self, figures: &Figures) -> Judgement {
        let interval = self.interval(figures);
        match self.measured(figures) {
            Ok(measured) if self.holds(measured) => Judgement::Met { measured, interval },
            Ok(measured) => Judgement::Missed { measured, interval },
            Err(reason) => Judgement::Unknown { reason },
        }
    }

    /// Whether an interval includes the limit, so that the true figure may be on either side of it.
    pub fn is_within(&self, interval: Option<(f64, f64)>) -> bool {
        interval.is_some_and(|(low, high)| low <= self.limit && self.limit <= high)
    }

    fn holds(&self, measured: f64) -> bool {
        match self.comparison {
            Comparison::AtMost => measured <= self.limit,
            Comparison::AtLeast => measured >= self.limit,
            Comparison::Below => measured < self.limit,
            Comparison::Above => measured > self.limit,
        }
    }

    /// The figure, or why there is none.
    fn measured(&self, figures: &Figures) -> Result<f64, String> {
        let direction = figures.all.of(self.direction);
        let latency = &direction.latency;
        let none = || "no operation of this kind has a latency".to_owned();
        match self.metric {
            Metric::Iops => Ok(direction.iops),
            Metric::Bandwidth => Ok(direction.bytes_per_s),
            Metric::Durable => figures
                .durable
                .as_ref()
                .and_then(|durable| durable.bytes_per_s)
                .ok_or_else(|| "no durable rate was measured".to_owned()),
            Metric::Mean => latency.mean_ns.ok_or_else(none),
            Metric::Max => latency.max_ns.map(|ns| ns as f64).ok_or_else(none),
            Metric::Quantile(q) => {
                let quantile = latency.quantile(q).ok_or_else(none)?;
                let reason = || figures::reason(quantile).unwrap_or_default();
                quantile.value_ns().map(|ns| ns as f64).ok_or_else(reason)
            }
        }
    }

    /// The 95 % interval of the figure within the run.
    fn interval(&self, figures: &Figures) -> Option<(f64, f64)> {
        let direction = figures.all.of(self.direction);
        let latency = &direction.latency;
        match self.metric {
            Metric::Iops => direction.iops_interval?.ok(),
            Metric::Mean => latency.mean_interval_ns.ok(),
            Metric::Quantile(q) => {
                let (low, high) = latency.quantile(q)?.interval()?.ok()?;
                Some((low as f64, high as f64))
            }
            Metric::Bandwidth | Metric::Durable | Metric::Max => None,
        }
    }

    /// A figure of this metric in its unit, for people.
    pub fn formatted(&self, figure: f64) -> String {
        match self.metric {
            Metric::Iops => format!("{} IOPS", count::significant_or_whole(figure)),
            Metric::Bandwidth | Metric::Durable => bytes::per_second(figure),
            Metric::Mean | Metric::Max | Metric::Quantile(_) => duration::latency(figure),
        }
    }
}

/// An expectation with its outcome in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    pub expectation: Expectation,
    /// Title of the run.
    pub title: String,
    /// Its outcome.
    pub judgement: Judgement,
}

impl Judged {
    /// `iops>=3990, which was missed`, if it was, and whether by less than the interval.
    pub fn missed(&self) -> Option<String> {
        let Judgement::Missed { interval, .. } = self.judgement else { return None };
        let by = match self.expectation.is_within(interval) {
            true => " by less than the interval of the figure",
            false => "",
        };
        Some(format!("{}, which was missed{by}", self.expectation))
    }
}

/// Evaluates every expectation on every assessed run to which it applies. A run whose consistency
/// checks failed, or that did not complete, can neither meet nor miss one; the outcome of an
/// expectation without a run is unknown.
pub fn judge_all(expectations: &[Expectation], rows: &[(&Run, &Assessment)]) -> Vec<Judged> {
    let mut all = Vec::new();
    for expectation in expectations {
        let before = all.len();
        for (run, assessment) in rows.iter().filter(|(run, _)| expectation.applies_to(run)) {
            let judgement = if !assessment.consistency.valid() {
                Judgement::Unknown { reason: "the result is INVALID".into() }
            } else if !assessment.complete {
                Judgement::Unknown { reason: "the run did not complete".into() }
            } else {
                expectation.judge(&assessment.figures)
            };
            let title = run.plan.title.clone();
            all.push(Judged { expectation: expectation.clone(), title, judgement });
        }
        if all.len() == before {
            let title = expectation.workload.clone().unwrap_or_default();
            let judgement = Judgement::Unknown { reason: "it was not measured".into() };
            all.push(Judged { expectation: expectation.clone(), title, judgement });
        }
    }
    all
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn split(text: &str) -> Result<(&str, Comparison, &str), ExpectationError> {
    let missing = || ExpectationError::Comparison { text: text.to_owned() };
    let at = text.find(['<', '>']).ok_or_else(missing)?;
    let (subject, rest) = text.split_at(at);
    COMPARISONS
        .iter()
        .find_map(|(sign, comparison)| {
            rest.strip_prefix(sign).map(|value| (subject.trim(), *comparison, value.trim()))
        })
        .ok_or_else(missing)
}

fn find_workload(word: &str, known: &[&str]) -> Result<String, ExpectationError> {
    if known.is_empty() {
        return Err(ExpectationError::Prefix { found: word.to_owned() });
    }
    let found = known.iter().find(|name| name.eq_ignore_ascii_case(word));
    found.map(|name| (*name).to_owned()).ok_or_else(|| ExpectationError::Workload {
        found: word.to_owned(),
        known: known.join(", "),
        hint: hint(word, known),
    })
}

fn hint(word: &str, known: &[&str]) -> String {
    count::nearest(word, known.iter().copied())
        .map_or(String::new(), |near| format!("; did you mean {near}?"))
}

/// Parses a limit in the unit of its metric: `10k` operations (decimal), `1GB/s`, `2ms`.
fn limit(metric: Metric, value: &str) -> Result<f64, UnitError> {
    match metric {
        Metric::Iops => operations(value),
        Metric::Bandwidth | Metric::Durable => {
            let rate = value.strip_suffix("/s").unwrap_or(value);
            bytes::parse(rate).map(|bytes| bytes as f64)
        }
        // A bare number is in milliseconds, as for `check -l`.
        Metric::Mean | Metric::Max | Metric::Quantile(_) => {
            duration::parse(value, 1_000_000).map(|ns| ns as f64)
        }
    }
}

/// `10k` is 10,000 operations: counts are decimal.
fn operations(value: &str) -> Result<f64, UnitError> {
    let expected = "a number of operations per second such as 5000, 10k or 1.5M";
    let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match value[number.len()..].to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        unit => {
            return Err(UnitError::Unit { found: value.into(), unit: unit.into(), expected });
        }
    };
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match number.parse::<f64>() {
        Ok(count) if plain => Ok(count * scale),
        _ if value.is_empty() => Err(UnitError::Empty { expected }),
        _ => Err(UnitError::Malformed { found: value.into(), expected }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::figures;
    use iosonde_fixtures::{Load, run_of};

    const ROWS: [&str; 3] = ["Database", "KV-Store", "Cache"];

    fn parse(text: &str) -> Expectation {
        Expectation::parse(text, &ROWS).unwrap()
    }

    #[test]
    fn every_part_is_understood() {
        let full = parse(" Database.read.p99.9 <= 2ms ");
        assert_eq!(full.workload.as_deref(), Some("Database"));
        assert_eq!((full.direction, full.metric), (Direction::Read, Metric::Quantile(0.999)));
        assert_eq!((full.comparison, full.limit), (Comparison::AtMost, 2e6));
        assert_eq!(parse("kv-store.p99<500us").workload.as_deref(), Some("KV-Store"));
        assert_eq!(parse("p99<5").limit, 5e6);
        assert_eq!(parse("iops>=10k").limit, 10_000.0);
        assert_eq!(parse("read.bw>=1GB/s").limit, 1e9);
        assert_eq!(parse("bw>1GiB").limit, 1_073_741_824.0);
        assert_eq!(parse("Database.durable>=100MB/s").metric, Metric::Durable);
    }

    #[test]
    fn nonsense_is_refused_with_a_suggestion() {
        let error = |text: &str| Expectation::parse(text, &ROWS).unwrap_err().to_string();
        assert!(error("p99=2ms").contains("one of <= >= < >"));
        assert!(error("p98<2ms").contains("did you mean p9"));
        assert!(error("Databse.p99<2ms").contains("did you mean Database?"));
        assert!(error("iops>=lots").contains("operations per second"));
        assert!(error("p99<nan").contains("a time such as"));
        assert!(error("p99<").contains("expected a time"));
        assert!(error("iops>").contains("found nothing"));
        assert!(error("read.durable>1M").contains("only writes"));
        assert!(error("<2ms").contains("the metric ``"));
        let single = Expectation::parse("Cache.p99<2ms", &[]).unwrap_err().to_string();
        assert!(single.ends_with("a run has only one: leave out `Cache.`"), "{single}");
    }

    #[test]
    fn a_judgement_is_met_missed_or_unknown() {
        let run = run_of(&[Load::default()]);
        let figures = figures(&run);
        assert!(matches!(parse("iops>=4900").judge(&figures), Judgement::Met { .. }));
        assert!(matches!(parse("iops>=5.2k").judge(&figures), Judgement::Missed { .. }));
        assert!(matches!(parse("p99<=20ms").judge(&figures), Judgement::Met { .. }));
        assert!(matches!(parse("write.p99<=20ms").judge(&figures), Judgement::Unknown { .. }));
        assert!(matches!(parse("durable>1M").judge(&figures), Judgement::Unknown { .. }));
        assert_eq!(parse("iops>=4900").formatted(5_001.0), "5,001 IOPS");
        let assessment = crate::assess(&run, None);
        let judged = judge_all(&[parse("iops>1"), parse("Cache.iops>1")], &[(&run, &assessment)]);
        assert!(matches!(judged[0].judgement, Judgement::Met { .. }));
        assert!(matches!(judged[1].judgement, Judgement::Unknown { .. }));
        assert!(parse("database.iops>1").applies_to(&run));
        assert!(!parse("Cache.iops>1").applies_to(&run));
    }
}
