//! One report, rendered by many: what an experiment, a run or a foreign result has to say, in an
//! order that a reader follows, before it is known whether a terminal, a browser or a spreadsheet
//! shows it.
//!
//! Whoever analyses fills one of these in; whoever renders it needs to know nothing else. All
//! strings are as they came, from devices and files too: each renderer makes them safe for its own
//! medium.

use serde::Serialize;

use crate::chart::Figure;
use crate::report_json;
use iosonde_analysis::experiment::Conformance;
use iosonde_analysis::finding::{Finding, Severity};
use iosonde_model::units::duration;

/// A whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// What this is about (`Queue depth of /mnt/data`).
    pub title: String,
    /// Where the facts come from.
    pub source: Source,
    /// How it relates to a published procedure; `None` where it follows none.
    pub conformance: Option<Conformance>,
    /// What was asked.
    pub question: String,
    /// The answer in sentences, the most important first; empty where there is none.
    pub answer: Vec<String>,
    /// What limits the trust in the answer, the gravest first.
    pub warnings: Vec<Warning>,
    /// The parts, in order.
    pub sections: Vec<Section>,
    /// How it was measured, in sentences.
    pub method: Vec<String>,
    /// The machine and the target: a name and a value each.
    #[serde(serialize_with = "report_json::environment")]
    pub environment: Vec<(String, String)>,
    /// Everything as tables of numbers, for other programs.
    pub data: Vec<DataSet>,
}

/// Where the facts of a report come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Source {
    /// The program that measured, and its version (`iosonde 0.1.0`, `fio-3.33`).
    pub program: String,
    /// The command line, word by word; empty if unknown.
    pub command: Vec<String>,
    /// Start, ns since 1970; `None` if unknown.
    pub started_unix_ns: Option<u64>,
    /// Whether everything that was planned was done.
    pub complete: bool,
    /// Exit code that the result asks for.
    pub exit_code: u8,
}

/// Something that limits trust.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Warning {
    /// Code of the finding (`page_cache`), or empty.
    pub code: String,
    /// The same in a few words, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// `proven`, `supported`, `consistent with`, or empty.
    pub strength: String,
    /// Whether it forbids the use of a number.
    pub severe: bool,
    /// In words, with the numbers that triggered it.
    pub words: String,
}

impl Warning {
    /// One without a subject.
    pub fn new(code: &str, strength: &str, severe: bool, words: impl Into<String>) -> Warning {
        let (code, strength, words) = (code.into(), strength.into(), words.into());
        Warning { code, subject: String::new(), strength, severe, words }
    }

    /// What a finding says, in these words.
    pub fn of_finding(finding: &Finding, words: String) -> Warning {
        let severe = finding.severity >= Severity::LowConfidence;
        let warning = Warning::new(finding.code, finding.strength.word(), severe, words);
        Warning { subject: finding.subject.clone(), ..warning }
    }

    /// What the report was made from is not as it was kept, in these words.
    pub fn altered(words: &[String]) -> Warning {
        Warning::new("altered", "", true, words.join(" "))
    }
}

/// A part of a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    /// Identifier, unique within the report (`queue-depth`).
    pub name: String,
    pub heading: String,
    /// What it holds, in order.
    pub blocks: Vec<Block>,
}

impl Section {
    /// A part with this identifier.
    pub fn new(name: impl Into<String>, heading: impl Into<String>, blocks: Vec<Block>) -> Section {
        Section { name: name.into(), heading: heading.into(), blocks }
    }
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph.
    Words(String),
    /// A list of sentences.
    List(Vec<String>),
    /// A text whose columns stand below each other: shown as it is, on demand.
    Text(String),
    Table(Table),
    Picture(Box<Picture>),
}

/// A picture with its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Picture {
    /// Stem of its file, unique within the report (`queue-depth-trade-off`).
    pub name: String,
    /// What it shows, for who cannot see it.
    pub caption: String,
    /// The drawing.
    #[serde(skip)]
    pub figure: Figure,
}

/// A table for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What it holds.
    pub caption: String,
    pub columns: Vec<Column>,
    /// Its rows; each has as many cells as there are columns.
    pub rows: Vec<Vec<Entry>>,
}

/// A column of a table for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Heading, with the unit where all entries share one (`p99 µs`).
    pub title: String,
    /// Whether it holds numbers, which are aligned at their end.
    pub is_number: bool,
}

/// An entry of a table for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Entry {
    /// As it is shown.
    pub text: String,
    /// More of it, for the pointer or a footnote; empty for none.
    pub more: String,
    /// How far it can be trusted.
    pub trust: Trust,
}

/// How far a number can be trusted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// As far as its interval says.
    #[default]
    Good,
    /// Low confidence: shown with a mark, see the warning.
    LowConfidence,
    /// Not to be used: it failed, or a consistency check failed.
    Failed,
}

/// A table of numbers for other programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataSet {
    /// Stem of its file (`trials` in long form, `points` in wide form).
    pub name: String,
    /// Names of its columns, each with its unit at the end (`latency_p99_ns`).
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Datum>>,
}

/// A cell of a table for other programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Datum {
    /// Not known, or not applicable.
    Missing,
    /// A count, bytes or ns.
    Integer(u64),
    /// Any other number.
    Number(f64),
    /// A name.
    Text(String),
}

/// The percentiles that tables of runs and of jobs have, with their headings.
pub(crate) const PERCENTILES: [(f64, &str); 5] =
    [(0.5, "p50"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];
/// The names of their columns in data sets.
pub(crate) const PERCENTILE_COLUMNS: [&str; 5] =
    ["latency_p50_ns", "latency_p95_ns", "latency_p99_ns", "latency_p99_9_ns", "latency_p99_99_ns"];

impl Table {
    /// A table of texts alone.
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
    /// One whose rows have the names of their columns, all the same; `None` without a row.
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

    /// An entry that is nothing but its text.
    pub fn of(text: impl Into<String>) -> Entry {
        Entry::new(text, "", Trust::Good)
    }

    /// A latency, ns; `n/a`, of which there is no more to say, where it is not known.
    pub(crate) fn latency(ns: Option<f64>, more: impl Into<String>, trust: Trust) -> Entry {
        ns.map_or(Entry::of("n/a"), |ns| Entry::new(duration::latency(ns), more, trust))
    }
}

impl Column {
    /// A column of words.
    pub fn words(title: impl Into<String>) -> Column {
        Column { title: title.into(), is_number: false }
    }

    /// A column of numbers.
    pub fn numbers(title: impl Into<String>) -> Column {
        Column { title: title.into(), is_number: true }
    }

    /// Columns of words, and behind them columns of numbers.
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
    /// The report of a result that has a text of its own, with that text on demand.
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
