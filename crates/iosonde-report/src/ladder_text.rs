//! The fsync ladder as text and as JSON.

use serde::Serialize;
use serde_json::{Value, json};

use super::answer::Answer;
use super::clean::clean;
use super::json::envelope;
use super::report::{Block, Column, Section, Table};
use super::wrap::{self, Rule, Text, wrapped};
use iosonde_analysis::ladder::{Counted, Ladder, Level};
use iosonde_model::plan::ladder::{Call, LadderPlan};
use iosonde_model::record::run::Outcome;
use iosonde_model::record::{LadderRun, TargetFacts};
use iosonde_model::units::{bytes, count, duration};

/// Name and version of the document.
pub const FSYNC_SCHEMA: &str = "iosonde.fsync/1";

/// Most columns of the text.
pub(super) const COLUMNS: usize = 96;

/// Procedures that are often mistaken for a test of durability.
pub const NO_TEST: [&str; 3] = [
    "kill -9 of a program: the page cache survives it",
    "a reboot without loss of power: the device's cache survives it",
    "the power-off of a virtual machine, where the hypervisor caches",
];

/// Description of the test, printed before it starts.
pub fn ladder_header(run: &LadderPlan) -> String {
    let way = if run.direct {
        "bypassing the page cache (O_DIRECT)"
    } else {
        "through the page cache: an fsync then includes its write-back"
    };
    format!(
        "iosonde: {}  (fsync tests, {} rounds, {} in use, seed {})\n  writes {} {way}\n\n",
        clean(&run.path),
        run.rounds,
        bytes::exact(run.span_bytes),
        run.seed,
        bytes::rough(run.write_bytes()),
    )
}

/// Answer, heading, levels, rungs and notes, for a screen of `screen` columns.
pub fn ladder_text(run: &LadderRun, evaluated: &Ladder, screen: usize) -> String {
    let mut out = Text::new(screen, COLUMNS);
    out.push_str(&Answer::of_ladder(run, evaluated).text(out.columns));
    out.push_str(&wrapped(&ladder_header(&run.plan), out.columns));
    table(&mut out, run, evaluated);
    for layer in &evaluated.layers {
        let name = clean(&layer.name);
        let cache = clean(layer.write_cache.as_deref().unwrap_or("write cache unknown"));
        let words = match &layer.counted {
            Counted::Unknown(reason) => clean(reason),
            _ => format!(
                "{} flushes during {} fsync calls, {} between calls",
                count::thousands(layer.flushes),
                layer.calls,
                count::thousands(layer.flushes_between),
            ),
        };
        out.hanging("  ", &format!("{name} ({cache}): {words}"));
    }
    out.push('\n');
    for ladder_test in &evaluated.ladder_tests {
        let strength = ladder_test.strength.map_or("-", |strength| strength.word());
        out.hanging(
            &format!("  {}  {strength:<15}  ", ladder_test.code),
            &clean(&ladder_test.words),
        );
    }
    out.push('\n');
    if let Outcome::Interrupted { .. } = run.outcome {
        out.push_str("  partial: ended before all rounds were done\n");
    }
    if let Some(failure) = &evaluated.failure {
        out.hanging("  ERROR: ", &clean(failure));
    }
    for note in &evaluated.notes {
        out.hanging("  note: ", &clean(note));
    }
    let no_test = format!("None of these tests durability: {}.", NO_TEST.join("; "));
    out.hanging("  ", &no_test);
    out.into_string()
}

fn table(out: &mut Text, run: &LadderRun, evaluated: &Ladder) {
    if evaluated.levels.is_empty() {
        return;
    }
    let rows: Vec<Vec<String>> = evaluated.levels.iter().map(row).collect();
    out.push_str(&wrap::table(&columns(run), &rows, Rule::None, out.columns));
    if evaluated.layers.iter().any(|layer| !matches!(layer.counted, Counted::Unknown(_))) {
        out.hanging("  ", "(under a device: calls during which its flush count rose)");
    }
    if let Some(rate) = evaluated.overwrites_per_s {
        let rate = count::significant_or_whole(rate);
        out.hanging(
            "  ",
            &format!("one block overwritten and fsynced: {rate} per second (median)"),
        );
    }
}

/// Columns: `call`, the figures of its latency, and one for each layer.
fn columns(run: &LadderRun) -> Vec<Column> {
    let own = Column::all(&["call"], &["written", "calls", "min", "median", "max"]);
    let layers = run.layers.iter().map(|layer| Column::numbers(clean(&layer.name)));
    own.into_iter().chain(layers).collect()
}

/// The same as sections of a page: the result of each test, and the calls.
pub fn ladder_sections(run: &LadderRun, evaluated: &Ladder) -> Vec<Section> {
    let section = |name: &str, heading: &str, columns: Vec<Column>, rows: Vec<Vec<String>>| {
        Section::new(name, heading, vec![Block::Table(Table::of_texts("", columns, rows))])
    };
    let tests = evaluated.ladder_tests.iter().map(|test| {
        let strength = test.strength.map_or("-", |strength| strength.word());
        vec![test.code.to_owned(), strength.to_owned(), test.words.clone()]
    });
    let heads = Column::all(&["Test", "Strength", "What it shows"], &[]);
    let mut sections = vec![section("tests", "Tests", heads, tests.collect())];
    if !evaluated.levels.is_empty() {
        let rows = evaluated.levels.iter().map(row).collect();
        sections.push(section("calls", "Calls", columns(run), rows));
    }
    sections
}

fn row(level: &Level) -> Vec<String> {
    let call = match level.call {
        Call::Fsync => "fsync",
        Call::Fdatasync => "fdatasync",
    };
    let written =
        if level.dirty_bytes == 0 { "nothing".into() } else { bytes::exact(level.dirty_bytes) };
    let times = [level.min_ns as f64, level.median_ns, level.max_ns as f64];
    let counted = level
        .with_flush
        .iter()
        .map(|rose| rose.map_or("n/a".into(), |rose| format!("{rose}/{}", level.calls)));
    [call.to_owned(), written, level.calls.to_string()]
        .into_iter()
        .chain(times.map(duration::latency))
        .chain(counted)
        .collect()
}

pub fn ladder_json(run: &LadderRun, evaluated: &Ladder, exit_code: u8) -> Value {
    #[derive(Serialize)]
    struct Document<'a> {
        complete: bool,
        outcome: &'a Outcome,
        plan: &'a LadderPlan,
        target: &'a TargetFacts,
        #[serde(flatten)]
        evaluated: &'a Ladder,
        verdict: Value,
    }
    let document = Document {
        complete: run.outcome == Outcome::Complete,
        outcome: &run.outcome,
        plan: &run.plan,
        target: &run.target,
        evaluated,
        verdict: json!({ "words": evaluated.words() }),
    };
    envelope(FSYNC_SCHEMA, "verify fsync", exit_code, document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_analysis::ladder::ladder;
    use iosonde_fixtures::ladder::Model;

    #[test]
    fn rungs_stand_below_each_other_and_lines_are_short() {
        let run = Model::honest().run();
        let text = ladder_text(&run, &ladder(&run), usize::MAX);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        let starts = ["  F1  proven", "  F2  supported", "  F3  -", "  F4  -"];
        for start in starts {
            assert!(text.lines().any(|line| line.starts_with(start)), "{start}: {text}");
        }
        let row = text.lines().find(|line| line.starts_with("  fdatasync   16 MiB"));
        assert!(row.is_some_and(|row| row.ends_with("20/20")), "{text}");
        assert!(text.contains("None of these tests durability: kill -9"));
    }

    #[test]
    fn the_document_says_what_is_not_available() {
        let mut run = Model::honest().run();
        run.outcome = Outcome::Interrupted { signal: 2 };
        let value = ladder_json(&run, &ladder(&run), 130);
        assert_eq!(value["rungs"][2]["strength"], "not available");
        assert_eq!(value["rungs"][0]["strength"], "proven");
        assert_eq!(value["complete"], false);
        assert_eq!(value["layers"][0]["counted"]["is"], "reached");
    }
}
