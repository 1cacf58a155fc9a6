//! `iosonde report`: a result, told again: ours from its records, or that of fio.

mod kept;
mod recheck;
mod restore;
mod retell;
mod study;
mod write;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::exit::{Exit, Failure};
use super::output::{Output, OutputFormat, note};
use super::recorded::bounded;
use iosonde_model::record::experiment_folder::ExperimentFolder;
use iosonde_model::record::import::fio_json::{fio_json, is_fio_json};
use iosonde_model::record::import::fio_log::{fio_log, kind_of};
use iosonde_model::record::import::{ForeignLog, MAX_BYTES};
use iosonde_report::demo;
use iosonde_report::explain::{explain, explain_text};
use iosonde_report::fio_story::{FioResults, fio_story};
use iosonde_report::story::Story;

pub(super) use kept::read_manifest;
use kept::{Kept, kept};
use write::tell;

/// Tells a result again: in words, as a page, as tables for other programs.
///
/// PATH is a result folder of ours or one record in it; or results of fio: JSON, JSON+ and logs
/// (several may be given, and a folder that holds them). Everything is computed anew from the
/// records, so that an old result is judged by this program. Results of fio are checked too: rates,
/// sizes, and the depth by Little's law.
///
/// Examples:
///   iosonde report RESULTS/20261121T100000Z-run-1
///   iosonde report RESULTS/20261121T100000Z-check-1 --output-format html --output report.html
///   iosonde report RESULTS/20261121T100000Z-check-1 --recheck
///   iosonde report qd1.json qd4.json qd16.json --figures pictures --png
///   iosonde report --explain p99.9
///   iosonde report RESULTS/20261121T100000Z-run-1 --restore-signatures --destroy-data=S4EVNX0M
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ReportArgs {
    /// A result folder, a record in it, or JSON and logs of fio
    #[arg(required_unless_present_any = ["explain", "demo"])]
    #[arg(conflicts_with_all = ["explain", "demo"])]
    path: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value = "normal", conflicts_with = "recheck")]
    output_format: Form,
    /// File for the report, or folder for the tables of csv and ssv, in place of stdout
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["explain", "recheck"])]
    output: Option<PathBuf>,
    /// Folder for every picture of the report (SVG)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["explain", "recheck"])]
    figures: Option<PathBuf>,
    /// Each picture as PNG too
    #[arg(long, requires = "figures")]
    png: bool,
    /// Compute every verdict anew, and compare it and the checksums with what is kept
    #[arg(long, conflicts_with_all = ["explain", "demo"])]
    recheck: bool,
    /// What a number means and how it is got (iops, p99, knee, …; `list` for all)
    #[arg(long, value_name = "METRIC")]
    explain: Option<String>,
    /// Put back what stood at both ends and at the signatures of a device before it was written, as
    /// it was saved in the result folder
    #[arg(long, requires = "destroy_data", conflicts_with_all = ["recheck", "explain", "demo"])]
    #[arg(conflicts_with_all = ["output", "figures"])]
    restore_signatures: bool,
    /// The identity of the device to put back; may be repeated
    #[arg(long, value_name = "ID", requires = "restore_signatures")]
    destroy_data: Vec<String>,
    /// Put it back although newer data (`unknown-data`) stands there by now
    #[arg(long, value_name = "KIND", requires = "restore_signatures")]
    overwrite_signature: Vec<String>,
    /// Put it back although not every process could be examined for having the device open
    #[arg(long, value_name = "ID", requires = "restore_signatures")]
    accept_unseen_processes: Vec<String>,
    /// A report with invented numbers, to see what one looks like
    #[arg(long)]
    demo: bool,
}

/// Form of a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Form {
    /// Text for people.
    #[value(alias = "text")]
    Normal,
    /// One JSON document.
    Json,
    /// One page with pictures, which needs no other file.
    Html,
    /// Markdown.
    Markdown,
    /// Tables, comma-separated.
    Csv,
    /// Tables, space-separated, for gnuplot.
    Ssv,
}

/// What the paths are.
enum Given {
    Ours(Box<Kept>),
    Fio(Box<FioResults>),
}

/// Runs the verb.
pub(super) fn report(args: &ReportArgs) -> Result<Exit, Failure> {
    if let Some(word) = &args.explain {
        return tell_meaning(word, args.output_format);
    }
    if args.demo {
        return tell(args, &demo::story(), None);
    }
    if args.restore_signatures {
        return restore::restore(args);
    }
    restore::hint(&args.path);
    if let [path] = args.path.as_slice()
        && ExperimentFolder::is_one(path)
    {
        return study::report(args, path);
    }
    match given(&args.path)? {
        Given::Ours(kept) if args.recheck => recheck::recheck(&kept),
        Given::Ours(kept) => {
            kept.cautions().iter().for_each(|caution| note(&format!("caution: {caution}")));
            retell::retell(args, &kept)
        }
        Given::Fio(_) if args.recheck => {
            let message = "--recheck: found results of fio, expected a result folder of ours: a \
                           report of fio's results always checks their books";
            Err(asked(message.into()))
        }
        Given::Fio(results) => tell(args, &fio_story(&results), None),
    }
}

fn asked(message: String) -> Failure {
    Failure::new(Exit::Asked, message)
}

fn tell_meaning(word: &str, form: Form) -> Result<Exit, Failure> {
    let told = explain(word).map_err(|error| asked(format!("--explain: {error}")))?;
    let format = match form {
        Form::Normal => OutputFormat::Normal,
        Form::Json => OutputFormat::Json,
        _ => {
            let message = "--explain is told as text or JSON: --output-format normal or json";
            return Err(asked(message.into()));
        }
    };
    let mut output = Output::new(format);
    output.text(&explain_text(&told));
    output.value(&json!({ "schema": "iosonde.explain/1", "metrics": told }));
    Ok(output.end(Exit::Done))
}

/// What the paths hold: one result of ours, or any number of fio's.
fn given(paths: &[PathBuf]) -> Result<Given, Failure> {
    let mut results = FioResults::default();
    for path in paths {
        let missing = |error: std::io::Error| asked(format!("`{}`: {error}", path.display()));
        path.metadata().map_err(missing)?;
        let of_fio = fio_in(path, &mut results)?;
        if of_fio {
            continue;
        }
        if let [path] = paths {
            return Ok(Given::Ours(Box::new(kept(path)?)));
        }
        return Err(asked(format!(
            "`{}` is no result of fio: several paths are told together only if all are; a result \
             of ours is told alone, and two are compared by `iosonde compare`",
            path.display()
        )));
    }
    Ok(Given::Fio(Box::new(results)))
}

/// Reads what a path holds of fio's results; whether it held some.
fn fio_in(path: &Path, results: &mut FioResults) -> Result<bool, Failure> {
    if !path.is_dir() {
        return fio_file(path, results);
    }
    if kept::is_folder(path) {
        return Ok(false);
    }
    let failed = |error: std::io::Error| asked(format!("`{}`: {error}", path.display()));
    let mut inside: Vec<PathBuf> = std::fs::read_dir(path)
        .map_err(failed)?
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
    let refuse = |why: String| asked(format!("`{}`: {why}", path.display()));
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let as_text = || -> Result<String, Failure> {
        let bytes = bounded(path, MAX_BYTES).map_err(refuse)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    if let Some((job, kind)) = kind_of(&name) {
        let log: ForeignLog =
            fio_log(&job, kind, &as_text()?).map_err(|error| refuse(error.to_string()))?;
        results.logs.push(log);
        return Ok(true);
    }
    // Records of ours may be larger than what is read of others.
    let small = path.metadata().is_ok_and(|facts| facts.is_file() && facts.len() <= MAX_BYTES);
    if !small {
        return Ok(false);
    }
    let text = as_text()?;
    // Of a record of ours the schema stands in the first lines.
    let may_be = is_fio_json(&text) || !text.contains("\"iosonde.");
    if !may_be {
        return Ok(false);
    }
    let foreign = fio_json(&text).map_err(|error| {
        refuse(format!("neither a record of ours nor a result of fio: {error}"))
    })?;
    results.documents.push((name, foreign));
    Ok(true)
}

/// Pictures of a result whose report has no story: name and SVG.
type Pictures = Vec<(String, String)>;

/// The pictures of a story.
fn pictures(story: &Story) -> Result<Pictures, Failure> {
    let drawn = story.pictures().map(|picture| {
        let svg = picture.figure.svg().map_err(|error| {
            Failure::new(Exit::Environment, format!("picture {}: {error}", picture.name))
        })?;
        Ok((picture.name.clone(), svg))
    });
    drawn.collect()
}
