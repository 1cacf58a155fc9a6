//! Output of an experiment during and after the run, and the files in its folder.

use serde_json::json;

use super::CommonArgs;
use crate::cli::exit::Exit;
use crate::cli::keep::Keeper;
use crate::cli::output::{Output, OutputFormat, note};
use crate::cli::screen;
use iosonde_analysis::experiment::{Standing, Study, TrialFigures};
use iosonde_model::record::experiment::StageRun;
use iosonde_model::spec::experiment::Stage;
use iosonde_report::clean::clean;
use iosonde_report::datasets::{csv, ssv};
use iosonde_report::experiment_report::experiment_report;
use iosonde_report::experiment_text;
use iosonde_report::html::html;
use iosonde_report::markdown::markdown;
use iosonde_report::plain::plain;
use iosonde_report::report::{Report, Warning};
use iosonde_report::report_json::report_json;

/// Width of a text report in a file, columns.
const COLUMNS: usize = 150;

/// Prints an experiment's progress and report.
pub(super) struct Printer {
    output: Output,
    format: OutputFormat,
    png: bool,
}

impl Printer {
    pub(super) fn new(args: &CommonArgs) -> Printer {
        let format = args.output_format;
        Printer { output: Output::new(format), format, png: args.png }
    }

    /// Warns of a failed run.
    pub(super) fn trial(&mut self, stage: &Stage, trial: &TrialFigures) {
        if let Standing::Failed(reason) = &trial.standing {
            let name = &stage.name;
            note(&format!("warning: {name}, run {}: {}", trial.position, clean(reason)));
        }
    }

    /// Writes the report to stdout and into the folder.
    pub(super) fn conclude(
        mut self,
        (study, altered, target): (&Study, &[String], &str),
        complete: bool,
        exit: Exit,
        mut keeper: Keeper,
    ) -> Exit {
        let mut exit = exit.or_graver(end_of(study));
        let mut analysed = experiment_report(study, keeper.command(), complete, exit.code());
        if !altered.is_empty() {
            analysed.warnings.insert(0, Warning::altered(altered));
        }
        if let Err(error) = keep(&analysed, &mut keeper, self.png) {
            note(&format!("error: the report cannot be rendered: {error}"));
            exit = exit.or_graver(Exit::Environment);
            analysed.source.exit_code = exit.code();
        }
        if keeper.is_lost() {
            exit = exit.or_graver(Exit::Environment);
        }
        for facts in study.stages.iter().filter(|facts| !facts.laid_out.ended_early.is_empty()) {
            let (name, why) = (&facts.stage.name, clean(&facts.laid_out.ended_early));
            note(&format!("warning: stage {name} ended early: {why}"));
        }
        let folder = keeper.finished().map(|path| clean(&path.display().to_string()));
        let text = experiment_text(study, &analysed, target, folder.as_deref(), screen::columns());
        self.output.text(&text);
        if self.format == OutputFormat::Json {
            self.output.value(&json!(report_json(&analysed)));
        }
        let exit = self.output.end(exit);
        let verdict = match study.why_not_run() {
            Some(why) => {
                keeper.stay();
                format!("nothing can be run: {why}")
            }
            None => analysed.answer.first().cloned().unwrap_or_default(),
        };
        if let Some(path) = keeper.close(complete, exit.code(), &verdict) {
            let path = clean(&path.display().to_string());
            note(&format!("results stored in {path}: open report.html"));
            if !complete {
                note(&format!("to run what is missing: iosonde experiment resume {path}"));
            }
        }
        exit
    }
}

/// One failed run in this many does not make the experiment fail.
const FAILED_OF: usize = 50;

/// Whether I/O errors ended so many runs that these must be repeated.
pub(super) fn has_lost_runs(study: &Study) -> bool {
    let runs = || study.stages.iter().flat_map(|facts| &facts.trials);
    let failed = runs().filter(|trial| trial.has_failed()).count();
    failed * FAILED_OF > runs().count()
}

/// Exit code from the runs: failed consistency checks, errors, missing runs.
pub(crate) fn end_of(study: &Study) -> Exit {
    let trials: Vec<&TrialFigures> = study.stages.iter().flat_map(|facts| &facts.trials).collect();
    let mut exit = Exit::Done;
    let has_failed = |trial: &&&TrialFigures| matches!(trial.standing, Standing::Failed(_));
    let failed = trials.iter().filter(has_failed).count();
    for trial in &trials {
        if let Standing::Failed(reason) = &trial.standing {
            let invalid = reason.starts_with("consistency checks");
            // A rare failed run is reported and not used; the answers rest on the others.
            if !invalid && failed * FAILED_OF <= trials.len() {
                continue;
            }
            exit = exit.or_graver(match trial.has_failed() {
                _ if invalid => Exit::Invalid,
                true => Exit::Environment,
                false => Exit::Inconclusive,
            });
        }
    }
    for facts in &study.stages {
        let ends_with = |reason: &str| facts.laid_out.ended_early.starts_with(reason);
        let ends = [StageRun::UNPREPARED, StageRun::TOO_HOT, StageRun::RUN_FAILED];
        if ends.into_iter().any(ends_with) {
            exit = exit.or_graver(Exit::Environment);
        }
        let judged = facts.steadiness.as_ref().filter(|_| facts.why_not_run().is_none());
        if judged.is_some_and(|steadiness| !steadiness.is_steady && !steadiness.is_cut_off) {
            exit = exit.or_graver(Exit::Missed);
        }
    }
    let missed = |name: &str| study.conclusions.iter().any(|(_, a)| a.found.get(name) > Some(&0.0));
    if missed("missed") {
        exit = exit.or_graver(Exit::Missed);
    }
    let ended_early = study.stages.iter().any(|facts| !facts.laid_out.ended_early.is_empty());
    if trials.is_empty() || ended_early { exit.or_graver(Exit::Inconclusive) } else { exit }
}

/// Report as text and data: files by name, as stored.
pub(crate) fn documents(report: &Report) -> Vec<(String, String)> {
    let mut all = vec![
        ("report.txt".to_owned(), plain(report, COLUMNS)),
        ("report.md".to_owned(), markdown(report)),
        ("report.json".to_owned(), report_json(report).to_string()),
    ];
    for data in &report.data {
        all.push((format!("tables/{}.csv", data.name), csv(data)));
        all.push((format!("tables/{}.ssv", data.name), ssv(data)));
    }
    all
}

/// Stores the report in every format.
fn keep(
    report: &Report,
    keeper: &mut Keeper,
    png: bool,
) -> Result<(), iosonde_report::chart::ChartError> {
    for (name, text) in documents(report) {
        keeper.keep_bytes(&name, &text);
    }
    for picture in report.pictures() {
        let svg = picture.figure.svg()?;
        keeper.keep_bytes(&format!("figures/{}.svg", picture.name), &svg);
        if png {
            let image = iosonde_report::chart::png(&svg, 2.0)?;
            keeper.keep_bytes(&format!("figures/{}.png", picture.name), &image);
        }
    }
    keeper.keep_bytes("report.html", &html(report)?);
    Ok(())
}
