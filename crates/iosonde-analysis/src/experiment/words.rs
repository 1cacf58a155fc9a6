//! Functions for all analyses: building answers, formatting figures with their variation, and
//! ratios of two cells.

use super::{Answer, AnswerTable, Measure, Point, Spread, StageFacts};
use crate::finding::{Finding, Severity, Strength};
use iosonde_model::units::{bytes, count};
use iosonde_stats::bootstrap::{Interval, Method, log_t_p, log_t_ratio, log_t_ratio_among};
use iosonde_stats::knee::Level;

impl Answer {
    /// Adds a sentence.
    pub(super) fn say(&mut self, sentence: impl Into<String>) {
        self.sentences.push(sentence.into());
    }

    /// Adds a figure.
    pub(super) fn find(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.found.insert(name.into(), value);
        }
    }

    /// Adds a figure with the ends of its interval.
    pub(super) fn find_spread(&mut self, name: &str, spread: &Spread) {
        self.find(name, spread.mean);
        if let Some((low, high)) = spread.interval {
            self.find(&format!("{name}_low"), low);
            self.find(&format!("{name}_high"), high);
        }
    }

    /// Adds a figure with the ends of its interval, or of its range.
    pub(super) fn find_between(&mut self, name: &str, value: f64, interval: Option<Interval>) {
        self.find(name, value);
        if let Some(Interval { low, high, method, .. }) = interval {
            let [least, most] =
                if method == Method::Range { ["min", "max"] } else { ["low", "high"] };
            self.find(&format!("{name}_{least}"), low);
            self.find(&format!("{name}_{most}"), high);
        }
    }

    /// Adds a warning.
    pub(super) fn mind(
        &mut self,
        code: &'static str,
        subject: &str,
        strength: Strength,
        severity: Severity,
        words: String,
    ) {
        self.warnings.push(Finding::new(code, subject, strength, severity, words));
    }

    pub(super) fn table(&mut self, caption: &str, columns: &[&str], rows: Vec<Vec<String>>) {
        self.tables.push(AnswerTable {
            caption: caption.into(),
            columns: columns.iter().map(|column| (*column).into()).collect(),
            rows,
        });
    }
}

impl Spread {
    /// `158 µs ± 3.20 µs`: mean and standard deviation; only the mean for one run.
    pub(super) fn formatted(&self, measure: Measure) -> String {
        let mean = measure.formatted(self.mean);
        match self.std_dev {
            // A deviation below a millionth is a rounding error.
            Some(deviation) if deviation <= self.mean.abs() * 1e-6 => format!("{mean} ± 0"),
            Some(deviation) => format!("{mean} ± {}", measure.formatted(deviation)),
            None => mean,
        }
    }

    /// `1,230 MB/s (95 % 1,190 MB/s to 1,270 MB/s, n = 5)`.
    pub(super) fn with_interval(&self, measure: Measure) -> String {
        let (mean, n) = (measure.formatted(self.mean), self.values.len());
        match self.interval {
            Some((low, high)) => format!(
                "{mean} (95 % {} to {}, n = {n})",
                measure.formatted(low),
                measure.formatted(high)
            ),
            None => format!("{mean} (n = {n})"),
        }
    }

    /// `mean ± sd of 3`, or `one run`.
    pub(super) fn basis(&self) -> String {
        match self.values.len() {
            1 => "one run".into(),
            n => format!("mean ± sd of {n}"),
        }
    }
}

impl Point {
    /// A measure of all data operations as text; `n/a` if unknown.
    pub(super) fn formatted(&self, measure: Measure) -> String {
        self.figure(measure).map_or("n/a".into(), |spread| spread.formatted(measure))
    }

    /// The same, with the interval of the mean.
    pub(super) fn with_interval(&self, measure: Measure) -> String {
        self.figure(measure).map_or("n/a".into(), |spread| spread.with_interval(measure))
    }
}

/// The ratio of one cell to another, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    pub(super) times: f64,
    pub(super) interval: Option<Interval>,
    /// p value of the difference.
    pub(super) p: f64,
}

impl Times {
    /// `None` unless both are known.
    pub(super) fn of(one: &Point, other: &Point, measure: Measure) -> Option<Times> {
        let values = |point: &Point| point.per_run(measure);
        Times::of_values(&values(one), &values(other))
    }

    pub(super) fn of_values(one: &[f64], other: &[f64]) -> Option<Times> {
        let (a, b) = (Spread::of(one.to_vec())?, Spread::of(other.to_vec())?);
        let times = (b.mean > 0.0).then(|| a.mean / b.mean)?;
        Some(Times { times, interval: log_t_ratio(one, other), p: log_t_p(one, other) })
    }

    /// The ratio with an interval corrected for its selection among several comparisons.
    pub(super) fn among(self, one: &[f64], other: &[f64], comparisons: usize) -> Times {
        Times { interval: log_t_ratio_among(one, other, comparisons), ..self }
    }

    /// Whether the interval shows that the cells differ.
    pub(super) fn differ(&self) -> bool {
        self.interval.is_some_and(|interval| !interval.holds(1.0))
    }

    /// `1.92 times (95 % 1.85 to 1.99)`.
    pub(super) fn formatted(&self) -> String {
        self.formatted_as("95 %")
    }

    /// The same with a description of the interval: `95 % over all 7 sizes together`.
    pub(super) fn formatted_as(&self, what: &str) -> String {
        let times = count::significant(self.times);
        match self.interval {
            Some(Interval { low, high, .. }) => {
                let [low, high] = [low, high].map(count::significant);
                format!("{times} times ({what} {low} to {high})")
            }
            None => format!("{times} times"),
        }
    }
}

/// Text in place of an interval if there are too few repeats.
pub const TOO_FEW: &str = "too few for an interval";

/// Beginning of the answer of an analysis without usable runs.
pub const NONE_USABLE: &str = "No run can be used";

/// Text in sentences without a conclusion.
pub const UNDECIDED: &str = "not decidable yet";

/// ` (95 % 7.50 to 8.30, n = 5)`, or the range if there are too few runs for an interval.
pub(super) fn interval(
    interval: Option<Interval>,
    runs: usize,
    formatted: impl Fn(f64) -> String,
) -> String {
    match interval {
        Some(Interval { low, high, method: Method::Range, .. }) => {
            format!(" ({} to {} over {runs} repeats, {TOO_FEW})", formatted(low), formatted(high))
        }
        Some(Interval { low, high, .. }) => {
            format!(" (95 % {} to {}, n = {runs})", formatted(low), formatted(high))
        }
        None => format!(" (n = {runs}, {TOO_FEW})"),
    }
}

/// A point with `n` requests in flight as a level of the knee search; `None` if it has no rate.
pub(super) fn level(point: &Point, n: f64) -> Option<Level> {
    let rates = point.per_run(Measure::Iops);
    let latencies = point.per_run(Measure::Mean).iter().map(|ns| ns / 1e9).collect();
    (!rates.is_empty()).then_some(Level { n, rates, latencies })
}

/// `22.3 KiB`.
pub(super) fn size(value: f64) -> String {
    bytes::rough(value.max(0.0).round() as u64)
}

/// Converts a heading to a part of a figure's name: `4 KiB random read` as `4-kib-random-read`.
pub fn slug(text: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' }
    };
    let joined: String = text.chars().map(plain).collect();
    let parts = joined.split('-').filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

/// Name of a setting; the heading of the stage if the stage has no axes.
pub(super) fn setting(facts: &StageFacts, point: &Point) -> String {
    if point.levels.is_empty() { facts.stage.heading().into() } else { point.name() }
}

/// The usable points along an axis by line, ascending, with the name of the line, or the stage's
/// heading if there is only one line.
pub(super) fn lines<'a>(facts: &'a StageFacts, axis: &str) -> Vec<(String, Vec<&'a Point>)> {
    let lines = facts.lines(axis).into_iter().map(|(name, points)| {
        let mut usable: Vec<&Point> =
            points.into_iter().filter(|point| point.is_usable()).collect();
        // Levels without a number stay in the order of the file.
        let at = |point: &Point| point.at(axis).unwrap_or(f64::INFINITY);
        usable.sort_by(|a, b| at(a).total_cmp(&at(b)));
        (if name.is_empty() { facts.stage.heading().into() } else { name }, usable)
    });
    lines.filter(|(_, points)| !points.is_empty()).collect()
}

/// Smallest number of runs of any point: the n of statements about all points.
pub(super) fn runs(points: &[&Point]) -> usize {
    points.iter().map(|point| point.runs.len()).min().unwrap_or(0)
}

/// The name of a figure of a line: without suffix if there is only one line.
pub(super) fn of_line(name: &str, line: &str, lines: usize) -> String {
    if lines == 1 { name.into() } else { format!("{name}-{}", slug(line)) }
}

/// An answer that only says why there is no result.
pub(super) fn nothing(what: &str) -> Answer {
    Answer { sentences: vec![what.into()], ..Answer::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn figures_are_reported_with_their_scatter() {
        let spread = Spread::of(vec![158_000.0, 162_000.0, 160_000.0]).unwrap();
        assert_eq!(spread.formatted(Measure::Mean), "160 µs ± 2.00 µs");
        assert_eq!(spread.basis(), "mean ± sd of 3");
        let one = Spread::of(vec![158_000.0]).unwrap();
        assert_eq!(
            (one.formatted(Measure::Mean).as_str(), one.basis().as_str()),
            ("158 µs", "one run")
        );
        assert_eq!(slug("4 KiB random read"), "4-kib-random-read");
    }

    #[test]
    fn a_ratio_differs_only_where_its_interval_shows_it() {
        let far = Times::of_values(&[200.0, 202.0, 198.0], &[100.0, 101.0, 99.0]).unwrap();
        assert!(far.differ() && (far.times - 2.0).abs() < 0.01);
        let near = Times::of_values(&[104.0, 99.0, 101.0], &[100.0, 103.0, 98.0]).unwrap();
        assert!(!near.differ());
        let single = Times::of_values(&[200.0], &[100.0]).unwrap();
        assert!(!single.differ(), "one run shows no difference");
    }
}
