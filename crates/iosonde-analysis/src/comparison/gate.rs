//! A limit on a change, for use in CI: `iops>-5%`, `Database.p99<+10%`.

use serde::Serialize;

use super::contrast::Contrast;
use iosonde_model::spec::precision::{UnknownMetric, subject};
use iosonde_model::spec::{Direction, Metric};

/// A gate, as parsed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// The gate as typed.
    pub text: String,
    /// The cell it applies to; `None` for all.
    pub cell: Option<String>,
    /// The metric: `read.p99`.
    pub metric: String,
    /// Whether the change must stay above the limit rather than below.
    pub above: bool,
    /// The limit of the change from A to B, as a share: -0.05 for -5 %.
    pub limit: f64,
}

/// Why a gate could not be parsed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum GateError {
    /// The text does not have the form metric, comparison, share.
    #[error(
        "found `{0}`, expected METRIC>SHARE% or METRIC<SHARE% for the change from A to B, such as \
         'iops>-5%' or 'p99<+10%'"
    )]
    Form(String),
    /// The metric is unknown.
    #[error(transparent)]
    Metric(#[from] UnknownMetric),
    /// Maxima are not compared.
    #[error("found max: the maximum grows with the length of a run and is not compared; use p99.9")]
    Maximum,
    /// The share is out of range.
    #[error("found the change `{0}`, expected above -100 % and at most 10000 %")]
    Limit(String),
}

/// The outcome of a gate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gated {
    pub gate: Gate,
    /// The cell; empty if no cell has the gate's name.
    pub cell: String,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Whether a change meets a limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// The whole 90 % interval meets the limit: the change meets it with 95 % confidence.
    Passed {
        /// The change, as a share.
        change: f64,
    },
    /// The whole 95 % interval misses the limit.
    Failed {
        /// The change, as a share.
        change: f64,
    },
    /// Neither is established.
    Unknown {
        /// Why it is unknown.
        reason: String,
    },
}

impl Gate {
    /// Reads `[CELL.][DIRECTION.]METRIC OP SHARE%`.
    ///
    /// # Errors
    /// If the text does not have this form; the error states what is accepted.
    pub fn parse(text: &str) -> Result<Gate, GateError> {
        let form = || GateError::Form(text.to_owned());
        let at = text.find(['<', '>']).ok_or_else(form)?;
        let (front, rest) = text.split_at(at);
        let above = rest.starts_with('>');
        let rest = rest[1..].trim_start_matches('=').trim();
        let share = rest.strip_suffix('%').ok_or_else(form)?.trim();
        let wrong = || GateError::Limit(share.to_owned());
        let limit = share.parse::<f64>().map_err(|_| form())? / 100.0;
        if !(limit > -1.0 && limit <= 100.0) {
            return Err(wrong());
        }
        let (cell, metric) = metric(front.trim())?;
        Ok(Gate { text: text.trim().to_owned(), cell, metric, above, limit })
    }

    /// Evaluates the gate for a change.
    pub fn judge(&self, contrast: &Contrast) -> Outcome {
        let (Some(interval), Some(interval_90)) = (contrast.interval, contrast.interval_90) else {
            return Outcome::Unknown { reason: "too few runs to compare".into() };
        };
        let change = contrast.ratio - 1.0;
        let keeps = |ratio: f64| (ratio - 1.0 > self.limit) == self.above;
        if keeps(interval_90.0) && keeps(interval_90.1) {
            Outcome::Passed { change }
        } else if !keeps(interval.0) && !keeps(interval.1) {
            Outcome::Failed { change }
        } else {
            let reason = "the limit lies within the interval of the change; more runs narrow it";
            Outcome::Unknown { reason: reason.into() }
        }
    }
}

/// Parses `[CELL.][DIRECTION.]METRIC` into the cell and the metric's stored name.
///
/// # Errors
/// If the metric is unknown or not compared.
pub fn metric(text: &str) -> Result<(Option<String>, String), GateError> {
    let cell = |front: &str| Some(front.to_owned()).filter(|front| !front.is_empty());
    if let Some(front) = text.strip_suffix("cpu").filter(|f| f.is_empty() || f.ends_with('.')) {
        return Ok((cell(front.trim_end_matches('.')), "cpu".into()));
    }
    let (front, direction, metric) = subject(text)?;
    if metric == Metric::Max {
        return Err(GateError::Maximum);
    }
    let front_of_metric = match direction {
        Direction::Total => "",
        Direction::Read => "read.",
        Direction::Write => "write.",
    };
    // `avg` and `lat` are aliases of `mean`, the stored name.
    let word = if metric == Metric::Mean { "mean" } else { metric.word() };
    Ok((cell(&front), format!("{front_of_metric}{word}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn gates_are_read_as_written() {
        let gate = Gate::parse("iops>-5%").unwrap();
        assert_eq!((gate.metric.as_str(), gate.above, gate.limit), ("iops", true, -0.05));
        let gate = Gate::parse(" Database.read.p99.9 <= +10 % ").unwrap();
        assert_eq!((gate.cell.as_deref(), gate.metric.as_str()), (Some("Database"), "read.p99.9"));
        assert!(!gate.above && (gate.limit - 0.1).abs() < 1e-12);
        assert_eq!(Gate::parse("avg<10%").unwrap().metric, "mean");
        assert_eq!(Gate::parse("cpu<10%").unwrap().metric, "cpu");
    }

    #[test]
    fn nonsense_is_refused() {
        for (text, words) in [
            ("iops", "METRIC>SHARE%"),
            ("iops>-5", "METRIC>SHARE%"),
            ("iops>x%", "METRIC>SHARE%"),
            ("iops>-100%", "above -100 %"),
            ("iops>NaN%", "above -100 %"),
            ("p98<5%", "did you mean"),
            ("max<5%", "use p99.9"),
            ("", "METRIC>SHARE%"),
        ] {
            let error = Gate::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn three_outcomes_by_where_the_interval_lies() {
        let side = |level: f64| -> Vec<f64> {
            (0..10).map(|i| level * (1.0 + 0.001 * f64::from(i % 5))).collect()
        };
        let gate = Gate::parse("iops>-5%").unwrap();
        let judge =
            |level: f64| gate.judge(&Contrast::of_sides(&side(100.0), &side(level), 1).unwrap());
        assert!(matches!(judge(100.0), Outcome::Passed { .. }));
        assert!(matches!(judge(97.0), Outcome::Passed { .. }));
        assert!(matches!(judge(95.0), Outcome::Unknown { .. }));
        assert!(matches!(judge(90.0), Outcome::Failed { .. }));
        let few = Contrast::of_sides(&side(100.0)[..4], &side(50.0)[..4], 1).unwrap();
        assert!(matches!(gate.judge(&few), Outcome::Unknown { .. }));
    }
}
