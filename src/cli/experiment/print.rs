//! Output of an experiment during and after the run, and the files in its folder.

use serde_json::json;

use super::CommonArgs;
use crate::cli::exit::Exit;
use crate::cli::keep::Keeper;
use crate::cli::output::{Output, OutputFormat, note};
use iosonde_analysis::experiment::{Measure, StageFacts, Standing, Study, TrialFigures};
use iosonde_model::record::experiment::StageRun;
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment::Stage;
use iosonde_report::clean::clean;
use iosonde_report::datasets::{csv, ssv};
use iosonde_report::experiment_story::story;
use iosonde_report::html::html;
use iosonde_report::markdown::markdown;
use iosonde_report::plain::plain;
use iosonde_report::story::{Story, Warning};
use iosonde_report::story_json::story_json;

/// Width of a text report in a file, columns.
const COLUMNS: usize = 150;

/// Prints it.
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

    /// The question and the target.
    pub(super) fn heading(&mut self, study: &Study, target: &str) {
        let experiment = &study.run.experiment;
        self.output.text(&format!(
            "iosonde: {}: {}\n  {}\n\n",
            clean(experiment.heading()),
            clean(&experiment.question),
            clean(target)
        ));
    }

    /// A run has ended.
    pub(super) fn trial(&mut self, stage: &Stage, trial: &TrialFigures) {
        if let Standing::Failed(reason) = &trial.standing {
            let name = &stage.name;
            note(&format!("warning: {name}, run {}: {}", trial.position, clean(reason)));
        }
    }

    /// A stage has ended: prints its answers immediately.
    pub(super) fn stage(&mut self, facts: &StageFacts) {
        self.output.text(&format!("{}\n", clean(facts.stage.heading())));
        if !facts.laid_out.skipped.is_empty() {
            self.output.text(&format!("  skipped: {}\n", clean(&facts.laid_out.skipped)));
        }
        for point in &facts.points {
            let analysed = |measure: Measure| {
                let spread = point.spread(measure, Direction::Total);
                spread.map_or("n/a".to_owned(), |spread| measure.formatted(spread.mean))
            };
            let mark = match &point.standing {
                Standing::Good => String::new(),
                Standing::LowConfidence(why) => format!("  low confidence: {}", clean(why)),
                Standing::Failed(why) => format!("  not used: {}", clean(why)),
            };
            self.output.text(&format!(
                "  {:32} {:>9} IOPS  {:>10}  mean {:>9}  p99 {:>9}{mark}\n",
                clean(&point.name()),
                analysed(Measure::Iops),
                analysed(Measure::Bandwidth),
                analysed(Measure::Mean),
                analysed(Measure::Quantile(0.99)),
            ));
        }
        for (_, answer) in &facts.answers {
            for sentence in &answer.sentences {
                self.output.text(&format!("  - {}\n", clean(sentence)));
            }
        }
        self.output.text("\n");
    }

    /// Writes the report to stdout and into the folder.
    pub(super) fn conclude(
        mut self,
        (study, altered): (&Study, &[String]),
        complete: bool,
        exit: Exit,
        mut keeper: Keeper,
    ) -> Exit {
        let mut exit = exit.or_graver(end_of(study));
        let mut analysed = story(study, keeper.command(), complete, exit.code());
        if !altered.is_empty() {
            analysed.warnings.insert(0, Warning::altered(altered));
        }
        if let Err(error) = keep(&analysed, &mut keeper, self.png) {
            note(&format!("error: the report cannot be rendered: {error}"));
            exit = exit.or_graver(Exit::Environment);
            analysed.source.exit_code = exit.code();
        }
        for sentence in &analysed.answer {
            self.output.text(&format!("{}\n", clean(sentence)));
        }
        for warning in &analysed.warnings {
            let strength = match warning.strength.as_str() {
                "" => String::new(),
                word => format!(" [{word}]"),
            };
            self.output.text(&format!("warning: {}{strength}\n", clean(&warning.words)));
        }
        if !complete {
            self.output.text("partial: not everything was run\n");
        }
        if self.format == OutputFormat::Json {
            self.output.value(&json!(story_json(&analysed)));
        }
        let exit = self.output.end(exit);
        let verdict = analysed.answer.first().cloned().unwrap_or_default();
        if let Some(path) = keeper.finish(complete, exit.code(), &verdict) {
            let path = clean(&path.display().to_string());
            note(&format!("results stored in {path}: open report.html"));
            if !complete {
                note(&format!("to run what is missing: iosonde experiment resume {path}"));
            }
        }
        exit
    }
}

/// The exit code from the runs: failed consistency checks, errors.
pub(crate) fn end_of(study: &Study) -> Exit {
    let trials: Vec<&TrialFigures> = study.stages.iter().flat_map(|facts| &facts.trials).collect();
    let mut exit = Exit::Done;
    for trial in &trials {
        if let Standing::Failed(reason) = &trial.standing {
            let invalid = reason.starts_with("consistency checks");
            exit = exit.or_graver(if invalid { Exit::Invalid } else { Exit::Environment });
        }
    }
    for facts in &study.stages {
        if facts.laid_out.ended_early.starts_with(StageRun::UNPREPARED) {
            exit = exit.or_graver(Exit::Environment);
        }
        let judged = facts.steadiness.as_ref().filter(|_| facts.laid_out.skipped.is_empty());
        if judged.is_some_and(|steadiness| !steadiness.is_steady) {
            exit = exit.or_graver(Exit::Missed);
        }
    }
    let missed = |name: &str| study.conclusions.iter().any(|(_, a)| a.found.get(name) > Some(&0.0));
    if missed("missed") {
        exit = exit.or_graver(Exit::Missed);
    }
    if trials.is_empty() { exit.or_graver(Exit::Inconclusive) } else { exit }
}

/// The report as text and data: files by name, as stored.
pub(crate) fn documents(story: &Story) -> Vec<(String, String)> {
    let mut all = vec![
        ("report.txt".to_owned(), plain(story, COLUMNS)),
        ("report.md".to_owned(), markdown(story)),
        ("report.json".to_owned(), story_json(story).to_string()),
    ];
    for data in &story.data {
        all.push((format!("tables/{}.csv", data.name), csv(data)));
        all.push((format!("tables/{}.ssv", data.name), ssv(data)));
    }
    all
}

/// Writes the report in every format.
fn keep(
    story: &Story,
    keeper: &mut Keeper,
    png: bool,
) -> Result<(), iosonde_report::chart::ChartError> {
    for (name, text) in documents(story) {
        keeper.keep_text(&name, &text);
    }
    for picture in story.pictures() {
        let svg = picture.figure.svg()?;
        keeper.keep_text(&format!("figures/{}.svg", picture.name), &svg);
        if png {
            let image = iosonde_report::chart::png(&svg, 2.0)?;
            keeper.keep_bytes(&format!("figures/{}.png", picture.name), &image);
        }
    }
    keeper.keep_text("report.html", &html(story)?);
    Ok(())
}
