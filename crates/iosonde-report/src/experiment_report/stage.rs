//! The section of a stage: results, pictures, table.

use crate::experiment_figures;
use crate::report::{Block, Column, Entry, Picture, Section, Table, Trust};
use iosonde_analysis::experiment::{
    Answer, AnswerTable, Measure, Point, Spread, StageFacts, Standing,
};
use iosonde_model::spec::Direction;

/// Measures in the table of a stage, after its levels.
const SHOWN: [Measure; 8] = [
    Measure::Iops,
    Measure::Bandwidth,
    Measure::Mean,
    Measure::Quantile(0.5),
    Measure::Quantile(0.95),
    Measure::Quantile(0.99),
    Measure::Quantile(0.999),
    Measure::Depth,
];

/// The section of a stage. `subject` is for the subtitles of its pictures; sentences in `said` are
/// not repeated.
pub(super) fn section(facts: &StageFacts, subject: &str, said: &[String]) -> Section {
    let stage = &facts.stage;
    let mut blocks = Vec::new();
    if !stage.question.is_empty() {
        blocks.push(Block::Words(stage.question.clone()));
    }
    if !facts.laid_out.skipped.is_empty() {
        blocks.push(Block::Words(format!("Skipped: {}.", facts.laid_out.skipped)));
        return Section::new(&stage.name, stage.heading(), blocks);
    }
    for (_, answer) in &facts.answers {
        let own: Vec<String> =
            answer.sentences.iter().filter(|each| !said.contains(each)).cloned().collect();
        if !own.is_empty() {
            blocks.push(Block::List(own));
        }
    }
    match experiment_figures::pictures_of(facts, subject) {
        Ok(pictures) => blocks.extend(pictures.into_iter().map(drawable)),
        Err(error) => blocks.push(Block::Words(format!("A picture cannot be drawn: {error}."))),
    }
    for (_, answer) in &facts.answers {
        blocks.extend(answer.tables.iter().map(|table| Block::Table(small(table))));
    }
    blocks.push(Block::Table(table(facts)));
    if !facts.laid_out.left_out.is_empty() {
        let left_out = facts.laid_out.left_out.iter().map(|(cell, reason)| {
            let name = facts.points.get(*cell).map(Point::name).unwrap_or_default();
            format!("Left out: {name}: {reason}.")
        });
        blocks.push(Block::List(left_out.collect()));
    }
    Section::new(&stage.name, stage.heading(), blocks)
}

/// A picture, or the reason why it cannot be drawn, so that the report remains usable.
fn drawable(picture: Picture) -> Block {
    match picture.figure.svg() {
        Ok(_) => Block::Picture(Box::new(picture)),
        Err(error) => {
            Block::Words(format!("The picture {} cannot be drawn: {error}.", picture.name))
        }
    }
}

/// A conclusion about the whole experiment.
pub(super) fn conclusion(name: &str, answer: &Answer) -> Section {
    let tables = answer.tables.iter().map(|table| Block::Table(small(table)));
    Section::new(format!("conclusion-{name}"), "Conclusion", tables.collect())
}

fn small(table: &AnswerTable) -> Table {
    let columns = table.columns.iter().map(Column::words).collect();
    Table::of_texts(&table.caption, columns, table.rows.clone())
}

fn table(facts: &StageFacts) -> Table {
    let axes = &facts.stage.axes;
    let known = |measure: &&Measure| facts.points.iter().any(|p| p.mean(**measure).is_some());
    let shown: Vec<&Measure> = SHOWN.iter().filter(known).collect();
    let mut columns: Vec<Column> = axes.iter().map(|axis| Column::words(axis.heading())).collect();
    columns.extend(shown.iter().map(|measure| Column::numbers(measure.title())));
    columns.push(Column::numbers("runs"));
    let has_notes = facts.points.iter().any(|point| point.standing != Standing::Good);
    columns.extend(has_notes.then(|| Column::words("note")));
    let rows = facts.points.iter().map(|point| {
        let trust = trust(&point.standing);
        let level = |axis: &iosonde_model::spec::experiment::Axis| {
            Entry::of(point.level(&axis.name).map_or("", |level| level.label.as_str()))
        };
        let mut row: Vec<Entry> = axes.iter().map(level).collect();
        row.extend(shown.iter().map(|measure| {
            let spread = point.spread(**measure, Direction::Total);
            Entry { trust, ..entry(**measure, spread.as_ref()) }
        }));
        row.push(Entry::of(point.runs.len().to_string()));
        row.extend(has_notes.then(|| Entry::new(note(&point.standing), "", trust)));
        row
    });
    Table {
        caption: format!(
            "{}: mean ± standard deviation over the runs, a percentile being that of each run",
            facts.stage.heading()
        ),
        columns,
        rows: rows.collect(),
    }
}

fn note(standing: &Standing) -> String {
    match standing {
        Standing::Good => String::new(),
        Standing::LowConfidence(why) => format!("low confidence: {why}"),
        Standing::Failed(why) => format!("not used: {why}"),
    }
}

pub(super) fn trust(standing: &Standing) -> Trust {
    match standing {
        Standing::Good => Trust::Good,
        Standing::LowConfidence(_) => Trust::LowConfidence,
        Standing::Failed(_) => Trust::Failed,
    }
}

fn entry(measure: Measure, spread: Option<&Spread>) -> Entry {
    let Some(spread) = spread else { return Entry::of("n/a") };
    let mut text = measure.formatted(spread.mean);
    if let Some(std_dev) = spread.std_dev
        && spread.mean != 0.0
    {
        text += &format!(" ± {:.1} %", std_dev / spread.mean * 100.0);
    }
    let interval = spread.interval.map(|(low, high)| {
        let (low, high) = (measure.formatted(low), measure.formatted(high));
        format!("95 % interval {low} to {high}, n = {}", spread.values.len())
    });
    Entry::new(text, interval.unwrap_or_default(), Trust::Good)
}
