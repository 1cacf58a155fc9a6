//! Report of an experiment, from its folder.

use std::fs::{self, DirEntry};
use std::path::Path;

use super::kept::clock_warning;
use super::write::deliver_report;
use super::{Form, ReportArgs, recheck};
use crate::cli::campaign::demo::unpack;
use crate::cli::exit::{About, Exit, Failure, wrong};
use crate::cli::experiment::{documents, end_of, study};
use crate::cli::output::note;
use crate::cli::report::kept::{read_manifest, unfinished_words};
use crate::cli::scratch::scratch;
use crate::cli::screen;
use iosonde_analysis::experiment::Study;
use iosonde_model::record::checksums::is_unfinished;
use iosonde_model::units::bytes;
use iosonde_report::clean::clean;
use iosonde_report::experiment_report::experiment_report;
use iosonde_report::experiment_text::experiment_text;
use iosonde_report::report::Report;

/// Experiment of the recorded campaign for `--demo`; its folder holds one result.
const DEMO: &str = "devices/array/02-queue-depth";

/// Renders an experiment again, or checks its folder against its records.
pub(super) fn report(args: &ReportArgs, path: &Path) -> Result<Exit, Failure> {
    let manifest = read_manifest(path)?;
    let study = study(path)?;
    let complete = manifest.as_ref().is_some_and(|manifest| manifest.complete);
    let exit = end_of(&study);
    let command = manifest.as_ref().map_or(&[][..], |manifest| &manifest.command);
    // The exit code is compared separately, so --recheck renders with the stored one.
    let kept = manifest.as_ref().filter(|_| args.recheck).map(|manifest| manifest.exit_code);
    let code = kept.unwrap_or(exit.code());
    let analysed = experiment_report(&study, command, complete, code);
    if args.recheck {
        let Some(manifest) = &manifest else {
            return Err(wrong(format!(
                "--recheck: `{}` has no manifest, expected a finished result folder; `iosonde \
                 experiment resume` finishes it",
                path.display()
            )));
        };
        let words = analysed.answer.first().map_or("", String::as_str);
        return recheck::compared(path, manifest, words, exit, &documents(&analysed));
    }
    if is_unfinished(path) {
        note(&format!("warning: {}", unfinished_words(path, manifest.as_ref())));
    } else if !complete {
        note("warning: partial: not everything planned was run");
    }
    if let Some(words) = clock_warning(study.run.started_unix_ns) {
        note(&format!("warning: {words}"));
    }
    let text = text(&study, &analysed, Some(&clean(&path.display().to_string())));
    let shown = deliver_report(args, &analysed, Some(text))?;
    // The exit code reports a missed steady state to scripts.
    Ok(if exit == Exit::Missed { shown.or_graver(exit) } else { shown })
}

/// Text of an experiment; `folder` is given if an interrupted experiment can be resumed there.
fn text(study: &Study, analysed: &Report, folder: Option<&str>) -> String {
    let target = &study.run.target;
    let size = match target.bytes {
        0 => String::new(),
        bytes => format!(" ({})", bytes::exact(bytes)),
    };
    let target = format!("{}{size}", target.path);
    experiment_text(study, analysed, &target, folder, screen::columns())
}

/// Renders an experiment of the recorded campaign.
pub(super) fn demo(args: &ReportArgs) -> Result<Exit, Failure> {
    let folder = scratch()?;
    let results = unpack(folder.path(), DEMO).and_then(|()| fs::read_dir(&folder)?.collect());
    let results: Vec<DirEntry> = results.or_environment("--demo")?;
    let study = study(&results[0].path())?;
    note("recorded on a simulated device: nothing is measured here");
    if args.output_format == Form::Normal {
        note("its page: iosonde report --demo --output-format html --output report.html");
    }
    let command = ["iosonde", "report", "--demo"].map(str::to_owned);
    let analysed = experiment_report(&study, &command, true, Exit::Done.code());
    deliver_report(args, &analysed, Some(text(&study, &analysed, None)))
}
