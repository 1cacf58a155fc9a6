//! The fsync ladder as text and as a document.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::clean::clean;
use super::wrap::hanging;
use iosonde_analysis::ladder::{Counted, Ladder, Level};
use iosonde_model::plan::ladder::Call;
use iosonde_model::record::LadderRun;
use iosonde_model::record::run::Outcome;
use iosonde_model::units::{bytes, count, duration};

/// Name and version of the document.
pub const FSYNC_SCHEMA: &str = "iosonde.fsync/1";

/// Where text is broken.
pub(super) const COLUMNS: usize = 96;

/// What is no test, though it looks like one.
pub const NO_TEST: [&str; 3] = [
    "kill -9 of a program: the page cache survives it",
    "a reboot without loss of power: the device's cache survives it",
    "the power-off of a virtual machine, where the hypervisor caches",
];

/// What is about to be done, before it is.
pub fn ladder_header(run: &iosonde_model::plan::ladder::LadderPlan) -> String {
    let way = if run.direct {
        "past the page cache (O_DIRECT)"
    } else {
        "through the page cache: an fsync then includes its write-back"
    };
    format!(
        "iosonde: {}  (fsync ladder, {} rounds, {} in use, seed {})\n  writes {} {way}\n\n",
        clean(&run.path),
        run.rounds,
        bytes::exact(run.span_bytes),
        run.seed,
        bytes::rough(run.write_bytes()),
    )
}

/// Levels, rungs, notes.
pub fn ladder_text(run: &LadderRun, evaluated: &Ladder) -> String {
    let mut out = table(run, evaluated);
    for layer in &evaluated.layers {
        let name = clean(&layer.name);
        let cache = clean(layer.write_cache.as_deref().unwrap_or("write cache unknown"));
        let _ = match &layer.counted {
            Counted::Unknown(reason) => writeln!(out, "  {name} ({cache}): {}", clean(reason)),
            _ => writeln!(
                out,
                "  {name} ({cache}): {} flushes during {} fsync calls, {} between calls",
                count::thousands(layer.flushes),
                layer.calls,
                count::thousands(layer.flushes_between),
            ),
        };
    }
    out.push('\n');
    for ladder_test in &evaluated.ladder_tests {
        let strength = ladder_test.strength.map_or("-", |strength| strength.word());
        wrapped(
            &mut out,
            &format!("  {}  {strength:<15}  ", ladder_test.code),
            &clean(&ladder_test.words),
        );
    }
    out.push('\n');
    if let Outcome::Interrupted { .. } = run.outcome {
        out.push_str("  partial: ended before all rounds were done\n");
    }
    if let Some(failure) = &evaluated.failure {
        wrapped(&mut out, "  ERROR: ", &clean(failure));
    }
    for note in &evaluated.notes {
        wrapped(&mut out, "  note: ", &clean(note));
    }
    let no_test = format!("None of these tests durability: {}.", NO_TEST.join("; "));
    wrapped(&mut out, "  ", &no_test);
    out
}

fn table(run: &LadderRun, evaluated: &Ladder) -> String {
    if evaluated.levels.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "  {:<10} {:>9} {:>6} {:>9} {:>9} {:>9}",
        "call", "written", "calls", "min", "median", "max"
    );
    for layer in &run.layers {
        let _ = write!(out, " {:>9}", clean(&layer.name));
    }
    out.push('\n');
    evaluated.levels.iter().for_each(|level| row(&mut out, level));
    if evaluated.layers.iter().any(|layer| !matches!(layer.counted, Counted::Unknown(_))) {
        out.push_str("  (under a device: calls during which its flush count rose)\n");
    }
    if let Some(rate) = evaluated.overwrites_per_s {
        let rate = count::significant_or_whole(rate);
        let _ = writeln!(out, "  one block overwritten and fsynced: {rate} per second (median)");
    }
    out
}

fn row(out: &mut String, level: &Level) {
    let call = match level.call {
        Call::Fsync => "fsync",
        Call::Fdatasync => "fdatasync",
    };
    let time = |ns: f64| duration::latency(ns);
    let _ = write!(
        out,
        "  {call:<10} {:>9} {:>6} {:>9} {:>9} {:>9}",
        if level.dirty_bytes == 0 { "nothing".into() } else { bytes::exact(level.dirty_bytes) },
        level.calls,
        time(level.min_ns as f64),
        time(level.median_ns),
        time(level.max_ns as f64),
    );
    for rose in &level.with_flush {
        let evaluated = rose.map_or("n/a".into(), |rose| format!("{rose}/{}", level.calls));
        let _ = write!(out, " {evaluated:>9}");
    }
    out.push('\n');
}

/// A paragraph whose later lines stand below the first word.
pub(super) fn wrapped(out: &mut String, head: &str, words: &str) {
    out.push_str(&hanging(head, words, COLUMNS));
}

/// The document.
pub fn ladder_json(run: &LadderRun, evaluated: &Ladder, exit_code: u8) -> Value {
    let ladder_tests = evaluated.ladder_tests.iter().map(|ladder_test| {
        let strength = ladder_test.strength.map_or("not available", |strength| strength.word());
        json!({ "code": ladder_test.code, "strength": strength, "words": ladder_test.words })
    });
    json!({
        "schema": FSYNC_SCHEMA,
        "program": concat!("iosonde ", env!("CARGO_PKG_VERSION")),
        "verb": "verify fsync",
        "complete": run.outcome == Outcome::Complete,
        "exit_code": exit_code,
        "outcome": run.outcome,
        "plan": run.plan,
        "target": run.target,
        "rungs": ladder_tests.collect::<Vec<_>>(),
        "layers": evaluated.layers,
        "levels": evaluated.levels,
        "slope_ns_per_byte": evaluated.slope,
        "growth": evaluated.growth,
        "overwrites_per_s": evaluated.overwrites_per_s,
        "notes": evaluated.notes,
        "failure": evaluated.failure,
        "verdict": { "words": evaluated.words() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_analysis::ladder::ladder;
    use iosonde_fixtures::ladder::Model;

    #[test]
    fn rungs_stand_below_each_other_and_lines_are_short() {
        let run = Model::honest().run();
        let text = ladder_text(&run, &ladder(&run));
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        let starts = ["  F1  proven", "  F2  supported", "  F3  -", "  F4  -"];
        for start in starts {
            assert!(text.lines().any(|line| line.starts_with(start)), "{start}: {text}");
        }
        let row = text.lines().find(|line| line.starts_with("  fdatasync     16 MiB"));
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
