//! `iosonde report`: renders a stored result, of iosonde or of fio.

mod fleet;
mod hosts;
mod kept;
mod recheck;
mod rerender;
mod restore;
mod study;
mod write;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::exit::{About, Exit, Failure, shown, wrong};
use super::intact::AcceptArgs;
use super::keep;
use super::output::{Output, OutputFormat, note};
use super::recorded::bounded;
use super::results;
use iosonde_model::record::experiment_folder::ExperimentFolder;
use iosonde_model::record::import::MAX_BYTES;
use iosonde_model::record::import::fio_json::{fio_json, is_fio_json};
use iosonde_model::record::import::fio_log::{fio_log, kind_of};
use iosonde_report::explain::{explain, explain_text};
use iosonde_report::fio_report::{FioResults, fio_report};
use iosonde_report::report::Report;

pub(super) use kept::{DEVICES, is_folder, is_of_campaign, read_manifest};
use kept::{Kept, kept};
use write::deliver_report;

/// Render a stored result: as text, as a page, as tables for other programs.
///
/// PATH is an iosonde result folder or one record in it, or fio results: JSON, JSON+ and logs
/// (several, or a folder that contains them). Everything is recomputed from the records, so old
/// results are evaluated by this version. fio results are checked too: rates, sizes, and the depth
/// by Little's law.
///
/// Examples:
///   iosonde report RESULTS/20261121T100000Z-run-1
///   iosonde report RESULTS/20261121T100000Z-check-1 --output-format html --output report.html
///   iosonde report RESULTS/20261121T100000Z-check-1 --recheck
///   iosonde report qd1.json qd4.json qd16.json --figures pictures --png
///   iosonde report                          the results that are kept
///   iosonde report last --output-format html --output report.html
///   iosonde report RESULTS --output-format parquet --output fleet
///   iosonde report --explain p99.9
///   iosonde report RESULTS/20261121T100000Z-run-1 --restore-signatures --destroy-data=S4EVNX0M
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ReportArgs {
    /// A result folder, `last`, `last~2` or the beginning of its name, a record in it, or JSON and
    /// logs of fio; for ndjson and parquet, directories of results too; without it, the results
    /// that are kept
    #[arg(conflicts_with_all = ["explain", "demo"], value_parser = results::parser())]
    path: Vec<PathBuf>,
    /// Format of the report
    #[arg(long, value_enum, default_value = "normal", conflicts_with = "recheck")]
    output_format: Form,
    /// File for the report, or folder for the tables of csv, ssv, ndjson and parquet, instead of
    /// stdout
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["explain", "recheck"])]
    output: Option<PathBuf>,
    /// Folder for the charts of the report (SVG)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["explain", "recheck"])]
    figures: Option<PathBuf>,
    /// Write each chart as PNG too
    #[arg(long, requires = "figures")]
    png: bool,
    /// Write the result as one picture of 1200 x 630 pixels for a ticket: FILE.svg or FILE.png
    #[arg(long, value_name = "FILE", conflicts_with_all = ["explain", "recheck"])]
    card: Option<PathBuf>,
    /// Recompute every verdict, and compare it and the checksums with the stored ones
    #[arg(long, conflicts_with_all = ["explain", "demo"])]
    recheck: bool,
    #[command(flatten)]
    accept: AcceptArgs,
    /// What was altered in what is read, in words
    #[arg(skip)]
    altered: Vec<String>,
    /// Explain a metric, a finding, a check, a verdict, a kind of corruption or an exit code (p99,
    /// page_cache, too_few, torn, 7; `list` for all)
    #[arg(long, value_name = "WORD")]
    explain: Option<String>,
    /// Restore the first and last MiB of a device and its signatures, as saved in the result folder
    /// before it was written
    #[arg(long, requires = "destroy_data", conflicts_with_all = ["recheck", "explain", "demo"])]
    #[arg(conflicts_with_all = ["output", "figures"])]
    restore_signatures: bool,
    /// The identity of the device to restore; may be repeated
    #[arg(long, value_name = "ID", requires = "restore_signatures")]
    destroy_data: Vec<String>,
    /// Restore although the device now holds newer data (`unknown-data`)
    #[arg(long, value_name = "KIND", requires = "restore_signatures")]
    overwrite_signature: Vec<String>,
    /// Restore although some processes could not be checked for having the device open
    #[arg(long, value_name = "ID", requires = "restore_signatures")]
    accept_unseen_processes: Vec<String>,
    /// Print which kept results are older than the newest KEEP, and their size
    #[arg(long, value_name = "KEEP", conflicts_with_all = ["path", "explain", "demo"])]
    prune: Option<usize>,
    /// Remove the results that --prune prints
    #[arg(long, requires = "prune")]
    remove: bool,
    /// Print an example: the report of an experiment that was recorded on a simulated device
    #[arg(long)]
    demo: bool,
}

/// Format of a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Form {
    /// Text for people.
    #[value(alias = "text")]
    Normal,
    /// One JSON document.
    Json,
    /// One self-contained page with charts.
    Html,
    /// Markdown.
    Markdown,
    /// Tables, comma-separated.
    Csv,
    /// Tables, space-separated, for gnuplot.
    Ssv,
    /// Rows of any number of results, as JSON lines.
    Ndjson,
    /// The same as Parquet files, for DuckDB, Polars, Spark and the like.
    Parquet,
}

impl Form {
    /// The format of a result that has only text and JSON; `what` names it in the error.
    fn text_or_json(self, what: &str) -> Result<OutputFormat, Failure> {
        match self {
            Form::Normal => Ok(OutputFormat::Normal),
            Form::Json => Ok(OutputFormat::Json),
            _ => Err(wrong(format!("{what} as text or JSON: --output-format normal or json"))),
        }
    }
}

/// The results at the given paths.
enum Given {
    Ours(Box<Kept>),
    Fio(Box<FioResults>),
}

pub(super) fn report(args: &ReportArgs) -> Result<Exit, Failure> {
    if let Some(word) = &args.explain {
        return explain_metric(word, args.output_format);
    }
    if args.demo {
        return study::demo(args);
    }
    // Checked here: the parser drops a requirement that conflicts with another.
    if args.remove && args.prune.is_none() {
        return Err(wrong("--remove has no effect without --prune"));
    }
    if args.png && args.figures.is_none() {
        return Err(wrong("--png has no effect without --figures"));
    }
    if let Form::Ndjson | Form::Parquet = args.output_format {
        return fleet::report(args);
    }
    if args.path.is_empty() {
        return kept_results(args);
    }
    // --recheck compares the checksums itself.
    let mut args = args.clone();
    for path in args.path.iter().filter(|_| !args.recheck) {
        args.altered.extend(args.accept.read(path)?);
    }
    let args = &args;
    write::can_be_marked(args)?;
    if args.restore_signatures {
        return restore::restore(args);
    }
    restore::hint(&args.path);
    let ended = present(args);
    if args.recheck && ended.is_err() {
        // If a record cannot be read, its alteration is reported first.
        args.path.iter().try_for_each(|path| args.accept.read(path).map(drop))?;
    }
    ended
}

/// Renders the results again, or compares them with their records.
fn present(args: &ReportArgs) -> Result<Exit, Failure> {
    match args.path.as_slice() {
        [path] if ExperimentFolder::is_one(path) => return study::report(args, path),
        [path] if hosts::is_one(path) => return hosts::report(args, path),
        _ => {}
    }
    match given(&args.path)? {
        Given::Ours(kept) if args.recheck => recheck::recheck(&kept),
        Given::Ours(kept) => {
            kept.warnings().iter().for_each(|warning| note(&format!("warning: {warning}")));
            rerender::rerender(args, &kept)
        }
        Given::Fio(_) if args.recheck => {
            let message = "--recheck: found fio results, expected an iosonde result folder: a \
                report of fio results always runs the consistency checks";
            Err(wrong(message))
        }
        Given::Fio(results) => deliver_report(args, &fio_report(&results), None),
    }
}

/// Lists the stored results, or removes old ones.
fn kept_results(args: &ReportArgs) -> Result<Exit, Failure> {
    let is_of_a_result = args.recheck
        || args.restore_signatures
        || args.output.is_some()
        || args.figures.is_some()
        || args.card.is_some()
        || args.accept.is_given()
        || args.output_format != Form::Normal;
    if is_of_a_result {
        return Err(wrong(
            "no result is named, as this option needs: give a folder, or last; without options \
             `iosonde report` lists those kept",
        ));
    }
    let Some(directory) = keep::directory(None) else {
        return Err(wrong("no home directory, so no results are kept"));
    };
    let text = match args.prune {
        Some(newest) => results::prune(&directory, newest, args.remove)?,
        None => results::list(&directory)?,
    };
    let mut output = Output::new(OutputFormat::Normal);
    output.text(&text);
    Ok(output.end(Exit::Done))
}

fn explain_metric(word: &str, form: Form) -> Result<Exit, Failure> {
    let analysed = explain(word).or_wrong("--explain")?;
    let mut output = Output::new(form.text_or_json("--explain is available")?);
    output.text(&explain_text(&analysed));
    output.value(&json!({
        "schema": "iosonde.explain/1",
        "metrics": analysed.metrics,
        "terms": analysed.terms,
    }));
    Ok(output.end(Exit::Done))
}

/// Reads the paths: one iosonde result, or any number of fio results.
fn given(paths: &[PathBuf]) -> Result<Given, Failure> {
    let mut results = FioResults::default();
    for path in paths {
        let missing = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => wrong(format!(
                "`{}` does not exist, and no kept result begins with it; expected a result \
                 folder, a file in it, `last`, or the beginning of a name that `iosonde report` \
                 lists",
                path.display()
            )),
            _ => wrong(format!("`{}`: {error}", path.display())),
        };
        path.metadata().map_err(missing)?;
        let of_fio = fio_in(path, &mut results)?;
        if of_fio {
            continue;
        }
        if let [path] = paths {
            return Ok(Given::Ours(Box::new(kept(path)?)));
        }
        return Err(wrong(format!(
            "`{}` is not a fio result: several paths can be reported together only if all are fio \
             results; use `iosonde compare` for two iosonde results",
            path.display()
        )));
    }
    Ok(Given::Fio(Box::new(results)))
}

/// Reads the fio results of a path; returns whether there were any.
fn fio_in(path: &Path, results: &mut FioResults) -> Result<bool, Failure> {
    if !path.is_dir() {
        return fio_file(path, results);
    }
    if kept::is_folder(path) {
        return Ok(false);
    }
    let mut inside: Vec<PathBuf> = std::fs::read_dir(path)
        .or_wrong(shown(path))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|each| each.extension().is_some_and(|end| end == "json" || end == "log"))
        .filter(|each| each.is_file())
        .collect();
    inside.sort();
    let mut any = false;
    for each in &inside {
        any |= fio_file(each, results)?;
    }
    Ok(any)
}

fn fio_file(path: &Path, results: &mut FioResults) -> Result<bool, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let as_text = || -> Result<String, Failure> {
        let bytes = bounded(path, MAX_BYTES).or_wrong(shown(path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    if let Some((job, kind)) = kind_of(&name) {
        results.logs.push(fio_log(&job, kind, &as_text()?).or_wrong(shown(path))?);
        return Ok(true);
    }
    // iosonde records may be larger than results of other programs.
    let small = path.metadata().is_ok_and(|facts| facts.is_file() && facts.len() <= MAX_BYTES);
    if !small {
        return Ok(false);
    }
    let text = as_text()?;
    // An iosonde record has its schema in the first lines.
    let may_be = is_fio_json(&text) || !text.contains("\"iosonde.");
    if !may_be {
        return Ok(false);
    }
    let about = format!("{}: neither an iosonde record nor a fio result", shown(path));
    let foreign = fio_json(&text).or_wrong(about)?;
    results.documents.push((name, foreign));
    Ok(true)
}

/// Charts of a result without a report document: name and SVG.
type Pictures = Vec<(String, String)>;

/// The charts of a report document, if they are requested.
fn pictures(args: &ReportArgs, report: &Report) -> Result<Pictures, Failure> {
    let requested = report.pictures().filter(|_| args.figures.is_some());
    let drawn = requested.map(|picture| {
        let svg = picture.figure.svg().or_environment(format!("chart {}", picture.name))?;
        Ok((picture.name.clone(), svg))
    });
    drawn.collect()
}
