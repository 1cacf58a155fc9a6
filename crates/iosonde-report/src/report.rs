//! A report independent of its format: the results of an experiment, a run or imported data, in
//! reading order. Renderers turn it into text for a terminal, a page or tables.
//!
//! Analyses fill it in; renderers need no other data. Strings are unescaped, even those from
//! devices and files: each renderer must escape them for its own format.

use serde::Serialize;

use crate::chart::Figure;
use crate::report_json;
use iosonde_analysis::experiment::Conformance;
use iosonde_analysis::finding::{Finding, Severity};
use iosonde_model::units::duration;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The subject (`Queue depth of /mnt/data`).
    pub title: String,
    pub source: Source,
    /// Its relation to a published procedure; `None` if it follows none.
    pub conformance: Option<Conformance>,
    /// The question to be answered.
    pub question: String,
    /// The answer in sentences, the most important first; empty if there is none.
    pub answer: Vec<String>,
    /// Limits of the trust in the answer, the most severe first.
    pub warnings: Vec<Warning>,
    pub sections: Vec<Section>,
    /// The method of measurement, in sentences.
    pub method: Vec<String>,
    /// The machine and the target, as names and values.
    #[serde(serialize_with = "report_json::environment")]
    pub environment: Vec<(String, String)>,
    /// All numbers as tables for other programs.
    pub data: Vec<DataSet>,
}

/// Origin of the data of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Source {
    /// The measuring program and its version (`iosonde 0.1.0`, `fio-3.33`).
    pub program: String,
    /// The command line, word by word; empty if unknown.
    pub command: Vec<String>,
    /// Start, ns since 1970; `None` if unknown.
    pub started_unix_ns: Option<u64>,
    /// Whether all that was planned was done.
    pub complete: bool,
    /// Exit code of the result.
    pub exit_code: u8,
}

/// A limit of the trust in a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Warning {
    /// Code of the finding (`page_cache`), or empty.
    pub code: String,
    /// The warning in a few words, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// `proven`, `supported`, `consistent with`, or empty.
    pub strength: String,
    /// Whether it makes some numbers unusable.
    pub severe: bool,
    /// The warning in words, with the numbers that triggered it.
    pub words: String,
}

impl Warning {
    /// A warning without a subject.
    pub fn new(code: &str, strength: &str, severe: bool, words: impl Into<String>) -> Warning {
        let (code, strength, words) = (code.into(), strength.into(), words.into());
        Warning { code, subject: String::new(), strength, severe, words }
    }

    /// A warning from a finding, with these words.
    pub fn of_finding(finding: &Finding, words: String) -> Warning {
        let severe = finding.severity >= Severity::LowConfidence;
        let warning = Warning::new(finding.code, finding.strength.word(), severe, words);
        Warning { subject: finding.subject.clone(), ..warning }
    }

    /// A warning that the stored data was altered, with these words.
    pub fn altered(words: &[String]) -> Warning {
        Warning::new("altered", "", true, words.join(" "))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    /// Identifier, unique in the report (`queue-depth`).
    pub name: String,
    pub heading: String,
    pub blocks: Vec<Block>,
}

impl Section {
    pub fn new(name: impl Into<String>, heading: impl Into<String>, blocks: Vec<Block>) -> Section {
        Section { name: name.into(), heading: heading.into(), blocks }
    }
}

/// An element of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph.
    Words(String),
    /// A list of sentences.
    List(Vec<String>),
    /// Text with aligned columns, shown verbatim and folded.
    Text(String),
    Table(Table),
    Picture(Box<Picture>),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Picture {
    /// Stem of its file name, unique in the report (`queue-depth-trade-off`).
    pub name: String,
    /// Description of the picture, also for readers who cannot see it.
    pub caption: String,
    #[serde(skip)]
    pub figure: Figure,
}

/// A table for readers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    pub caption: String,
    pub columns: Vec<Column>,
    /// Rows, each with one cell per column.
    pub rows: Vec<Vec<Entry>>,
}

/// A column of a table for readers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Heading, with the unit if all entries share it (`p99 µs`).
    pub title: String,
    /// Whether it holds numbers, which are right-aligned.
    pub is_number: bool,
}

/// A cell of a table for readers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Entry {
    /// The displayed text.
    pub text: String,
    /// Details for a tooltip or a footnote; empty for none.
    pub more: String,
    pub trust: Trust,
}

/// Trust in a number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Trusted within its interval.
    #[default]
    Good,
    /// Low confidence: marked, and explained by a warning.
    LowConfidence,
    /// Unusable: the run or a consistency check failed.
    Failed,
}

/// A table of numbers for other programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataSet {
    /// Stem of its file name (`trials` in long form, `points` in wide form).
    pub name: String,
    /// Column names, each ending in its unit (`latency_p99_ns`).
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Datum>>,
}

/// A cell of a table for other programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Datum {
    /// Unknown or not applicable.
    Missing,
    /// A count, bytes or ns.
    Integer(u64),
    /// Any other number.
    Number(f64),
    /// A name.
    Text(String),
}

/// The percentiles in tables of runs and jobs, with their headings.
pub(crate) const PERCENTILES: [(f64, &str); 5] =
    [(0.5, "p50"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];
/// Names of their columns in data sets.
pub(crate) const PERCENTILE_COLUMNS: [&str; 5] =
    ["latency_p50_ns", "latency_p95_ns", "latency_p99_ns", "latency_p99_9_ns", "latency_p99_99_ns"];

impl Table {
    /// A table whose entries are only text.
    pub fn of_texts(
        caption: impl Into<String>,
        columns: Vec<Column>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Table {
        let entries = |row: Vec<String>| row.into_iter().map(Entry::of).collect();
        let rows = rows.into_iter().map(entries).collect();
        Table { caption: caption.into(), columns, rows }
    }
}

impl DataSet {
    /// A data set of rows that all have the same column names; `None` without rows.
    pub(crate) fn named(name: &str, rows: Vec<Vec<(&str, Datum)>>) -> Option<DataSet> {
        let columns: Vec<&str> = rows.first()?.iter().map(|(column, _)| *column).collect();
        let values = |row: Vec<(&str, Datum)>| row.into_iter().map(|(_, datum)| datum).collect();
        Some(DataSet::new(name, columns, rows.into_iter().map(values)))
    }

    pub fn new(
        name: &str,
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<Datum>>,
    ) -> DataSet {
        let columns = columns.into_iter().map(Into::into).collect();
        DataSet { name: name.into(), columns, rows: rows.into_iter().collect() }
    }
}

impl Entry {
    pub fn new(text: impl Into<String>, more: impl Into<String>, trust: Trust) -> Entry {
        Entry { text: text.into(), more: more.into(), trust }
    }

    /// An entry without details, of good trust.
    pub fn of(text: impl Into<String>) -> Entry {
        Entry::new(text, "", Trust::Good)
    }

    /// A latency, ns; `n/a` without details if it is unknown.
    pub(crate) fn latency(ns: Option<f64>, more: impl Into<String>, trust: Trust) -> Entry {
        ns.map_or(Entry::of("n/a"), |ns| Entry::new(duration::latency(ns), more, trust))
    }
}

impl Column {
    pub fn words(title: impl Into<String>) -> Column {
        Column { title: title.into(), is_number: false }
    }

    pub fn numbers(title: impl Into<String>) -> Column {
        Column { title: title.into(), is_number: true }
    }

    /// Text columns followed by number columns.
    pub fn all(words: &[&str], numbers: &[&str]) -> Vec<Column> {
        let words = words.iter().map(|title| Column::words(*title));
        words.chain(numbers.iter().map(|title| Column::numbers(*title))).collect()
    }
}

impl From<Option<f64>> for Datum {
    fn from(value: Option<f64>) -> Datum {
        value.filter(|value| value.is_finite()).map_or(Datum::Missing, Datum::Number)
    }
}

impl From<Option<u64>> for Datum {
    fn from(value: Option<u64>) -> Datum {
        value.map_or(Datum::Missing, Datum::Integer)
    }
}

impl From<&str> for Datum {
    fn from(text: &str) -> Datum {
        Datum::Text(text.into())
    }
}

impl Report {
    /// The report with the text form of its result, folded.
    #[must_use]
    pub fn with_text(mut self, text: String) -> Report {
        self.sections.push(Section::new("report", "Report", vec![Block::Text(text)]));
        self
    }

    /// Every picture, in the order of the sections.
    pub fn pictures(&self) -> impl Iterator<Item = &Picture> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.filter_map(|block| match block {
            Block::Picture(picture) => Some(&**picture),
            Block::Words(_) | Block::List(_) | Block::Text(_) | Block::Table(_) => None,
        })
    }
}
