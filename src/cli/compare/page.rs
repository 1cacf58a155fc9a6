//! A comparison as a page.

use std::path::Path;

use crate::cli::exit::Exit;
use crate::cli::output::note;
use iosonde_analysis::comparison::Comparison;
use iosonde_model::record::export;
use iosonde_report::html::html;
use iosonde_report::story::Source;
use iosonde_report::{Answer, TextReport, comparison_text, text_story};

/// Columns of the text in the page.
const COLUMNS: usize = 110;

/// Writes it; `false` if that cannot be done, which is reported.
pub(super) fn write(path: &Path, analysed: &Comparison, exit: Exit) -> bool {
    let [a, b] = [&analysed.sides[0].name, &analysed.sides[1].name];
    let story = text_story(TextReport {
        title: format!("{b} against {a}"),
        question: "Is the difference real?".into(),
        answer: Answer::of_comparison(analysed),
        source: Source {
            program: format!("iosonde {}", env!("CARGO_PKG_VERSION")),
            command: std::env::args().collect(),
            started_unix_ns: Some(iosonde_sys::clock::realtime_ns()),
            complete: true,
            exit_code: exit.code(),
        },
        pictures: Vec::new(),
        text: comparison_text(analysed, COLUMNS),
    });
    let is_page = |start: &str| start.starts_with("<!doctype html>") && start.contains("iosonde");
    let written = html(&story).map_err(|error| error.to_string()).and_then(|page| {
        export::probe(path, &is_page)
            .and_then(|()| export::write(path, &page))
            .map_err(|error| error.to_string())
    });
    if let Err(error) = &written {
        note(&format!("error: --page: `{}`: {error}", path.display()));
    }
    written.is_ok()
}
