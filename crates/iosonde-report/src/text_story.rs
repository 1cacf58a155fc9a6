//! A result that has a text of its own as a story: the answer, its pictures, and the text on
//! demand.

use super::answer::Answer;
use super::story::{Block, Picture, Section, Source, Story};

/// What such a story is made of.
#[derive(Clone, Debug)]
pub struct TextReport {
    /// What this is about.
    pub title: String,
    /// What was asked.
    pub question: String,
    /// The answer.
    pub answer: Answer,
    /// Where the facts come from.
    pub source: Source,
    /// Its figures.
    pub pictures: Vec<Picture>,
    /// The text as its command prints it.
    pub text: String,
}

/// The story of a result of `verify`, `profile` or `compare`.
pub fn text_story(report: TextReport) -> Story {
    let Answer { result, confidence, next } = report.answer;
    let pictures = report.pictures.into_iter().map(|picture| Block::Picture(Box::new(picture)));
    let mut sections = Vec::new();
    let pictures: Vec<Block> = pictures.collect();
    let section = |name: &str, heading: &str, blocks| Section {
        name: name.into(),
        heading: heading.into(),
        blocks,
    };
    if !pictures.is_empty() {
        sections.push(section("figures", "Figures", pictures));
    }
    sections.push(section("report", "Report", vec![Block::Text(report.text)]));
    Story {
        title: report.title,
        source: report.source,
        conformance: None,
        question: report.question,
        answer: vec![result, format!("Confidence: {confidence}."), format!("Next: {next}")],
        warnings: Vec::new(),
        sections,
        method: Vec::new(),
        environment: Vec::new(),
        data: Vec::new(),
    }
}
