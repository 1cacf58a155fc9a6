//! Writes a result as a page to a file of the user: `--page FILE`.

use std::path::Path;

use crate::cli::exit::Exit;
use crate::cli::output::note;
use iosonde_model::record::export;
use iosonde_report::chart::ChartError;
use iosonde_report::html::html;
use iosonde_report::report::Report;

/// Writes the page; of existing files, only an earlier page of iosonde is replaced. A failure is
/// reported, and gives [`Exit::Environment`].
pub(crate) fn write(path: &Path, report: Result<Report, ChartError>) -> Exit {
    let is_page = |start: &str| start.starts_with("<!doctype html>") && start.contains("iosonde");
    let page = report.and_then(|report| html(&report));
    let written = page.map_err(|error| error.to_string()).and_then(|page| {
        export::probe(path, &is_page)
            .and_then(|()| export::write(path, &page))
            .map_err(|error| error.to_string())
    });
    match written {
        Ok(()) => Exit::Done,
        Err(error) => {
            note(&format!("error: --page: `{}`: {error}", path.display()));
            Exit::Environment
        }
    }
}
