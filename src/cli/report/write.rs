//! Writes a report to stdout, a file, or a folder of tables, and its charts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Form, Pictures, ReportArgs, pictures};
use crate::cli::color::colored;
use crate::cli::exit::{About, Exit, Failure, environment, shown, wrong};
use crate::cli::output::{has_png, note, to_stdout};
use crate::cli::screen;
use crate::cli::words::unfit;
use iosonde_model::record::export::{self, ExportError};
use iosonde_report::card;
use iosonde_report::clean::clean;
use iosonde_report::datasets::{csv, ssv};
use iosonde_report::html::html;
use iosonde_report::json::json_text;
use iosonde_report::markdown::markdown;
use iosonde_report::plain::plain;
use iosonde_report::report::{DataSet, Report, Warning};
use iosonde_report::report_json::report_json;
use iosonde_report::wrapped;

pub(super) enum Rendered {
    Text(String),
    /// Tables by file name.
    Tables(Vec<(String, String)>),
}

/// Renders a report in the requested format; `instead` replaces the plain text, if given.
pub(super) fn deliver_report(
    args: &ReportArgs,
    report: &Report,
    instead: Option<String>,
) -> Result<Exit, Failure> {
    let report = &with_mark(args, report);
    let rendered = match args.output_format {
        Form::Normal => Rendered::Text(instead.unwrap_or_else(|| plain(report, screen::columns()))),
        Form::Json => Rendered::Text(json_text(&marked(args, report_json(report)))),
        Form::Html => Rendered::Text(html(report).or_environment("a chart cannot be rendered")?),
        Form::Markdown => Rendered::Text(markdown(report)),
        Form::Csv => tables(&report.data, "csv", csv),
        Form::Ssv => tables(&report.data, "ssv", ssv),
        Form::Ndjson | Form::Parquet => {
            return Err(wrong("rows are made from result folders of iosonde alone"));
        }
    };
    if let Some(path) = &args.card {
        write_card(path, report)?;
    }
    deliver(args, &rendered, &pictures(args, report)?)
}

/// Writes the result as one picture, SVG or PNG by file extension.
fn write_card(path: &Path, report: &Report) -> Result<(), Failure> {
    let svg = card(report);
    let bytes = match path.extension().and_then(|end| end.to_str()) {
        Some("svg") => svg.into_bytes(),
        Some("png") => png("card", &svg, 1.0)?,
        _ => {
            let expected = "a name ending in .svg or .png";
            return Err(unfit("--card", &path.to_string_lossy(), expected));
        }
    };
    export::probe(path, &|start| is_ours(start, &bytes))
        .and_then(|()| export::write(path, &bytes))
        .or_wrong(format!("--card: {}", shown(path)))
}

/// Refuses formats that cannot carry the mark of altered files: tables and pictures.
pub(super) fn can_be_marked(args: &ReportArgs) -> Result<(), Failure> {
    let is_table = matches!(args.output_format, Form::Csv | Form::Ssv);
    if args.altered.is_empty() || !(is_table || args.figures.is_some()) {
        return Ok(());
    }
    let message = "--accept-altered: tables and pictures cannot be marked as made from altered \
                   files; use --output-format normal, json, html or markdown, without --figures";
    Err(wrong(message))
}

/// Adds the list of altered files to a document.
pub(super) fn marked(args: &ReportArgs, mut document: Value) -> Value {
    if let (false, Value::Object(fields)) = (args.altered.is_empty(), &mut document) {
        fields.insert("altered".into(), args.altered.clone().into());
    }
    document
}

/// Adds the list of altered files to a report.
fn with_mark(args: &ReportArgs, report: &Report) -> Report {
    let mut report = report.clone();
    if !args.altered.is_empty() {
        report.warnings.insert(0, Warning::altered(&args.altered));
    }
    report
}

fn tables(data: &[DataSet], end: &str, printer: fn(&DataSet) -> String) -> Rendered {
    Rendered::Tables(data.iter().map(|set| (format!("{}.{end}", set.name), printer(set))).collect())
}

/// Writes all outputs. All paths are checked before the first is written.
pub(super) fn deliver(
    args: &ReportArgs,
    rendered: &Rendered,
    drawn: &Pictures,
) -> Result<Exit, Failure> {
    let rendered = match rendered {
        Rendered::Text(text) if args.output_format == Form::Normal && !args.altered.is_empty() => {
            let mark: String = args.altered.iter().map(|line| clean(line) + "\n").collect();
            &Rendered::Text(format!("ALTERED: {mark}\n{text}"))
        }
        rendered => rendered,
    };
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    let mut to_stdout = None;
    match (rendered, &args.output) {
        (Rendered::Text(text), None) => to_stdout = Some(fitted(args, text)),
        (Rendered::Text(text), Some(path)) => files.push((path.clone(), text.clone().into_bytes())),
        (Rendered::Tables(tables), None) => match tables.as_slice() {
            [(_, table)] => to_stdout = Some(table.clone()),
            several => return Err(wrong(too_many(several))),
        },
        (Rendered::Tables(tables), Some(path)) => match tables.as_slice() {
            [(name, table)] if path.extension() == Path::new(name).extension() => {
                files.push((path.clone(), table.clone().into_bytes()));
            }
            all => {
                make_folder("--output", path)?;
                files.extend(
                    all.iter().map(|(name, table)| (path.join(name), table.clone().into_bytes())),
                );
            }
        },
    }
    if let Some(folder) = &args.figures {
        make_folder("--figures", folder)?;
        for (name, svg) in drawn {
            files.push((folder.join(format!("{name}.svg")), svg.clone().into_bytes()));
            if args.png {
                files.push((folder.join(format!("{name}.png")), png(name, svg, 2.0)?));
            }
        }
        if drawn.is_empty() {
            note("warning: --figures: this result has no charts");
        }
    }
    for (path, bytes) in &files {
        let is_ours = |start: &str| is_ours(start, bytes);
        export::probe(path, &is_ours).map_err(|error| unwritable(path, &error))?;
    }
    for (path, bytes) in &files {
        export::write(path, bytes).map_err(|error| unwritable(path, &error))?;
    }
    if let Some(text) = to_stdout {
        return print(&text);
    }
    Ok(Exit::Done)
}

/// Failure for a file that cannot be written.
pub(super) fn unwritable(path: &Path, error: &ExportError) -> Failure {
    let exit = match error {
        ExportError::System(_) => Exit::Environment,
        _ => Exit::Usage,
    };
    Failure::new(exit, format!("{}: {error}", shown(path)))
}

/// Wraps text to the screen; other formats stay unchanged.
fn fitted(args: &ReportArgs, text: &str) -> String {
    match screen::wrap_at() {
        Some(columns) if args.output_format == Form::Normal => wrapped(text, columns),
        _ => text.to_owned(),
    }
}

fn print(text: &str) -> Result<Exit, Failure> {
    match to_stdout(&colored(text, &io::stdout())) {
        // A pipe closed by the reader is not an error.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(environment(format!("stdout cannot be written: {error}")))
        }
        _ => Ok(Exit::Done),
    }
}

fn too_many(tables: &[(String, String)]) -> String {
    let names: Vec<&str> = tables.iter().map(|(name, _)| name.as_str()).collect();
    match names.as_slice() {
        [] => "this result has no table; use --output-format json".into(),
        _ => format!(
            "found {} tables ({}), expected a folder: --output DIR",
            names.len(),
            names.join(", ")
        ),
    }
}

pub(super) fn make_folder(option: &str, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).or_environment(format!("{option}: `{}`", folder.display()))
}

/// Whether an existing file is an earlier report or chart: by format, or by a first line equal to
/// the new one.
fn is_ours(start: &str, now: &[u8]) -> bool {
    let first = start.lines().next().unwrap_or_default();
    let is_page = first.eq_ignore_ascii_case("<!doctype html>") && start.contains("iosonde");
    let has_units = first.contains("_ns") || first.contains("iops");
    let is_table = first.split([',', ' ']).count() > 3 && has_units;
    let is_document = start.starts_with("{\n  \"answer\"") || start.starts_with("{\n  \"cells\"");
    let is_picture = first.starts_with("<svg") || first.starts_with("\u{fffd}PNG");
    let same_title = first.len() > 3 && now.starts_with(first.as_bytes());
    is_page || is_table || is_document || is_picture || same_title
}

fn png(name: &str, svg: &str, scale: f32) -> Result<Vec<u8>, Failure> {
    has_png()?;
    iosonde_report::chart::png(svg, scale).or_environment(format!("chart {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_a_report_is_replaced() {
        let page = "<!doctype html>\n<html><!-- iosonde -->";
        for ours in [page, "run,iops,a_ns,b\n", "# a b c_ns d\n", "{\n  \"cells\": []}", "<svg x>"]
        {
            assert!(is_ours(ours, b""), "{ours}");
        }
        for other in ["# My notes\n", "{\"a\": 1}", "int main()\n", "<!doctype html>\n<p>", "{\n}"]
        {
            assert!(!is_ours(other, b"{\n  \"cells\": []"), "{other}");
        }
        assert!(is_ours("# Results of fio\n", b"# Results of fio\nnow"));
    }
}
