//! A result that has a text of its own as a report: the answer, its pictures, and the text on
//! demand.

use super::answer::Answer;
use super::report::{Block, Report, Section, Source};

/// What such a report is made of.
#[derive(Clone, Debug)]
pub struct TextResult {
    /// What this is about.
    pub title: String,
    /// What was asked.
    pub question: String,
    pub answer: Answer,
    /// Where the facts come from.
    pub source: Source,
    /// Its findings, tables and figures.
    pub sections: Vec<Section>,
    /// The text as its command prints it.
    pub text: String,
    /// The target and the machine: a name and a value each.
    pub environment: Vec<(String, String)>,
}

/// The report of a result of `verify`, `profile` or `compare`.
pub fn text_report(report: TextResult) -> Report {
    let Answer { result, confidence, next } = report.answer;
    let mut sections = report.sections;
    sections.push(Section::new("report", "Report", vec![Block::Text(report.text)]));
    Report {
        title: report.title,
        source: report.source,
        conformance: None,
        question: report.question,
        answer: vec![result, format!("Confidence: {confidence}."), format!("Next: {next}")],
        warnings: Vec::new(),
        sections,
        method: Vec::new(),
        environment: report.environment,
        data: Vec::new(),
    }
}
