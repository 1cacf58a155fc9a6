//! A comparison as a page.

use crate::cli::exit::Exit;
use iosonde_analysis::comparison::Comparison;
use iosonde_report::chart::ChartError;
use iosonde_report::story::{Source, Story};
use iosonde_report::{Answer, TextReport, comparison_sections, comparison_text, text_story};

/// Columns of the text in the page.
const COLUMNS: usize = 110;

/// The comparison as a story.
pub(super) fn story(analysed: &Comparison, exit: Exit) -> Result<Story, ChartError> {
    Ok(text_story(TextReport {
        title: "Comparison of two sets of runs".into(),
        question: "Is the difference real?".into(),
        answer: Answer::of_comparison(analysed),
        source: Source {
            program: format!("iosonde {}", env!("CARGO_PKG_VERSION")),
            command: std::env::args().collect(),
            started_unix_ns: Some(iosonde_sys::clock::realtime_ns()),
            complete: true,
            exit_code: exit.code(),
        },
        sections: comparison_sections(analysed)?,
        text: comparison_text(analysed, COLUMNS),
        environment: Vec::new(),
    }))
}
