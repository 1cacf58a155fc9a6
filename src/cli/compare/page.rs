//! Renders a comparison as a page.

use crate::cli::exit::Exit;
use iosonde_analysis::comparison::Comparison;
use iosonde_report::chart::ChartError;
use iosonde_report::report::{Report, Source};
use iosonde_report::{Answer, comparison_sections, comparison_text};

/// Columns of text in the page.
const COLUMNS: usize = 110;

/// The comparison as a report.
pub(super) fn report(analysed: &Comparison, exit: Exit) -> Result<Report, ChartError> {
    let report = Report {
        title: "Comparison of two sets of runs".into(),
        question: "Is the difference real?".into(),
        answer: Answer::of_comparison(analysed).sentences(),
        source: Source {
            program: format!("iosonde {}", env!("CARGO_PKG_VERSION")),
            command: std::env::args().collect(),
            started_unix_ns: Some(iosonde_sys::clock::realtime_ns()),
            complete: true,
            exit_code: exit.code(),
        },
        sections: comparison_sections(analysed)?,
        ..Report::default()
    };
    Ok(report.with_text(comparison_text(analysed, COLUMNS)))
}
