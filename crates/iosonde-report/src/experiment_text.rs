//! An experiment as text: the answer, a table and the results of each stage, and the warnings.

use iosonde_analysis::experiment::{Measure, Point, StageFacts, Standing, Study};
use iosonde_model::spec::Direction;

use super::answer::Answer;
use super::clean::clean;
use super::report::{Column, Report};
use super::wrap::{Rule, Text, table};

/// Most columns of the text.
const COLUMNS: usize = 120;

/// The text for a screen of `screen` columns. `folder` is the folder in which an interrupted
/// experiment can be resumed.
pub fn experiment_text(
    study: &Study,
    report: &Report,
    target: &str,
    folder: Option<&str>,
    screen: usize,
) -> String {
    let experiment = &study.run.experiment;
    let mut out = Text::new(screen, COLUMNS);
    let answer = Answer::of_report(report, folder);
    out.push_str(&answer.text(out.columns));
    let heading = format!("{}: {}", clean(experiment.heading()), clean(&experiment.question));
    out.hanging("iosonde: ", &heading);
    out.hanging("  ", &clean(target));
    for facts in &study.stages {
        out.push('\n');
        stage(&mut out, facts, report);
    }
    let further: Vec<&String> = Answer::further(report)
        .iter()
        .filter(|sentence| !study.stages.iter().any(|facts| says(facts, sentence)))
        .collect();
    if !further.is_empty() {
        out.push('\n');
    }
    further.iter().for_each(|sentence| out.hanging("", &clean(sentence)));
    if !report.warnings.is_empty() {
        out.push('\n');
    }
    for warning in &report.warnings {
        let strength = match warning.strength.as_str() {
            "" => String::new(),
            word => format!(" [{word}]"),
        };
        out.hanging("warning: ", &format!("{}{strength}", clean(&warning.words)));
    }
    if !report.source.complete {
        out.push_str("partial: not everything was run\n");
    }
    out.into_string()
}

fn says(facts: &StageFacts, sentence: &str) -> bool {
    facts.answers.iter().any(|(_, answer)| answer.sentences.iter().any(|known| known == sentence))
}

/// The points of a stage, and results that are not in the answer.
fn stage(out: &mut Text, facts: &StageFacts, report: &Report) {
    out.hanging("", &clean(facts.stage.heading()));
    if !facts.laid_out.skipped.is_empty() {
        out.hanging("  skipped: ", &clean(&facts.laid_out.skipped));
    }
    if !facts.laid_out.ended_early.is_empty() {
        out.hanging("  ended early: ", &clean(&facts.laid_out.ended_early));
    }
    if !facts.points.is_empty() {
        let mut columns = Column::all(&["point"], &["IOPS", "bandwidth", "mean", "p99"]);
        columns.push(Column::words(""));
        let rows: Vec<Vec<String>> = facts.points.iter().map(row).collect();
        let is_marked = rows.iter().any(|row| row.last().is_some_and(|mark| !mark.is_empty()));
        let shown = if is_marked { columns.len() } else { columns.len() - 1 };
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row[..shown].to_vec()).collect();
        out.push_str(&table(&columns[..shown], &rows, Rule::None, out.columns));
        for point in &facts.points {
            if let Standing::LowConfidence(why) | Standing::Failed(why) = &point.standing {
                out.hanging(&format!("    {}: ", clean(&point.name())), &clean(why));
            }
        }
    }
    let first = report.answer.len() - Answer::further(report).len();
    let answered = &report.answer[..first];
    let sentences = facts.answers.iter().flat_map(|(_, answer)| &answer.sentences);
    for sentence in sentences.filter(|sentence| !answered.contains(sentence)) {
        out.hanging("  - ", &clean(sentence));
    }
}

fn row(point: &Point) -> Vec<String> {
    let analysed = |measure: Measure| {
        let spread = point.spread(measure, Direction::Total);
        spread.map_or("n/a".to_owned(), |spread| measure.formatted(spread.mean))
    };
    let mark = match &point.standing {
        Standing::Good => "",
        Standing::LowConfidence(_) => "low confidence",
        Standing::Failed(_) => "not used",
    };
    vec![
        clean(&point.name()),
        analysed(Measure::Iops),
        analysed(Measure::Bandwidth),
        analysed(Measure::Mean),
        analysed(Measure::Quantile(0.99)),
        mark.to_owned(),
    ]
}

/// A point in one line, for progress output.
pub fn point_line(point: &Point) -> String {
    let [name, iops, bandwidth, mean, p99, mark] =
        row(point).try_into().unwrap_or([const { String::new() }; 6]);
    let mark = if mark.is_empty() { mark } else { format!("  {mark}") };
    // A stage's only cell has no name.
    let name = if name.is_empty() { name } else { format!("{name}: ") };
    format!("{name}{iops} IOPS, {bandwidth}, mean {mean}, p99 {p99}{mark}")
}
