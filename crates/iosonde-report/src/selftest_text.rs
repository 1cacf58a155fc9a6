//! The mutation matrix of the verifier's self-test, as text and as JSON.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::answer::Answer;
use super::json::envelope;
use super::report::Column;
use super::wrap::{Rule, Text, table};
use iosonde_model::record::{Matrix, MatrixRow, Repetition};
use iosonde_model::units::{count, duration};

/// Least screen width for a column with the expected result of each fault.
const WIDE: usize = 104;
/// Most columns of the text.
const COLUMNS: usize = 120;

/// Name and version of the document.
pub const SELFTEST_SCHEMA: &str = "iosonde.selftest/1";
const VERB: &str = "verify selftest";

/// The answer, the matrix, false alarms in simulations without a fault, and commands that repeat
/// failures, for a screen of `screen` columns.
pub fn selftest_text(
    matrix: &Matrix,
    seed: u64,
    elapsed_ns: u64,
    complete: bool,
    screen: usize,
) -> String {
    let mut out = Text::new(screen, COLUMNS);
    out.push_str(&Answer::of_selftest(matrix, seed, complete).text(out.columns));
    let words = format!(
        "verify selftest  ({} visible faults in simulations, seed {seed})",
        count::thousands(matrix.visible())
    );
    out.hanging("iosonde: ", &words);
    out.push('\n');
    let left = ["fault", "expected"];
    // A narrow screen shows only the counts.
    let left = if out.columns < WIDE { &left[..1] } else { &left[..] };
    let columns = Column::all(left, &["injected", "visible", "detected", "named", "alarms"]);
    let rows = matrix.rows.iter().map(|row| {
        let counts = [row.struck, row.visible, row.detected, row.named, row.false_alarms];
        let words = [row.fault.to_owned(), row.expected.to_owned()];
        words.into_iter().take(left.len()).chain(counts.map(count::thousands)).collect()
    });
    out.push_str(&table(&columns, &rows.collect::<Vec<_>>(), Rule::None, out.columns));
    out.push('\n');
    let words = format!(
        "Without a fault: {} that look like one, {}; {} in one, {} checked, {}.",
        count::of(matrix.look_alikes, "simulation"),
        count::of(matrix.alarms, "alarm"),
        count::of(matrix.soak_ops, "operation"),
        count::of(matrix.soak_checked, "block"),
        count::of(matrix.soak_alarms, "alarm"),
    );
    out.hanging("  ", &words);
    verdict(&mut out, matrix, seed, complete);
    out.hanging("  ", &format!("Took {}.", duration::span(elapsed_ns)));
    out.into_string()
}

/// Failures, and how to repeat them.
fn verdict(out: &mut Text, matrix: &Matrix, seed: u64, complete: bool) {
    let mut fail = |what: &str, formatted: String| {
        out.hanging(&format!("  FAIL: {what}: "), &formatted);
    };
    for row in matrix.rows.iter().filter(|row| row.has_failed()) {
        fail(row.fault, formatted(row));
    }
    for row in matrix.rows.iter().filter(|row| complete && row.visible == 0) {
        fail(row.fault, "never visible, so that nothing was tested".into());
    }
    if matrix.alarms > 0 {
        fail("look-alikes", repeat("none", &matrix.alarm_seeds));
    }
    if matrix.soak_alarms > 0 {
        let ops = matrix.soak_ops;
        fail("soak", format!("repeat it with --soak-ops {ops} --seed {seed}"));
    }
}

fn formatted(row: &MatrixRow) -> String {
    let missed = row.visible - row.detected;
    let misnamed = row.detected - row.named;
    format!(
        "{missed} missed, {misnamed} called something else, {}; {}",
        count::of(row.false_alarms, "false alarm"),
        repeat(row.fault, &row.wrong_seeds)
    )
}

fn repeat(word: &str, seeds: &[u64]) -> String {
    let seeds = seeds.iter().map(|seed| format!("--only {word} --seed {seed}"));
    format!("repeat it with {}", seeds.collect::<Vec<_>>().join(" or "))
}

/// One simulation: the actual state of each block, and the verifier's judgement.
pub fn repetition_text(repetition: &Repetition) -> String {
    let Repetition { fault, seed, scene, .. } = repetition;
    let mut out = format!("iosonde: verify selftest --only  (fault {fault}, seed {seed})\n");
    let _ = writeln!(out, "  {scene}\n");
    for block in &repetition.blocks {
        let right = match block.damaged.is_empty() {
            true => "undamaged".into(),
            false => format!("damaged: {}", block.damaged.join(" or ")),
        };
        let found = block.found.map_or("not found".into(), |class| format!("found: {class}"));
        let _ = writeln!(out, "  block at {:>8}  {right:<36}  {found}", block.offset);
    }
    let injected = if repetition.struck { "was injected" } else { "was not injected" };
    let seen = match (repetition.visible, repetition.detected && repetition.named) {
        (false, _) => "and changed nothing that can be read",
        (true, true) => "was detected and named correctly",
        (true, false) => "was missed or called something else",
    };
    let verdict = if repetition.right { "PASS" } else { "FAIL" };
    let _ = match fault.as_str() {
        "none" => {
            let found = count::of(repetition.blocks.len() as u64, "block");
            writeln!(out, "  {verdict}: a look-alike, {found} found")
        }
        _ => writeln!(
            out,
            "  {verdict}: the fault {injected}, {seen}; {}",
            count::of(repetition.false_alarms, "false alarm")
        ),
    };
    out
}

/// A document about the whole test or one simulation.
#[derive(Serialize)]
struct Document<'a> {
    complete: bool,
    clean: bool,
    seed: u64,
    #[serde(flatten)]
    tested: Tested<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tested<'a> {
    All { elapsed_ns: u64, matrix: &'a Matrix },
    One { repetition: &'a Repetition },
}

/// The matrix as JSON.
pub fn selftest_json(
    matrix: &Matrix,
    seed: u64,
    elapsed_ns: u64,
    complete: bool,
    exit_code: u8,
) -> Value {
    let tested = Tested::All { elapsed_ns, matrix };
    let document = Document { complete, clean: complete && matrix.is_clean(), seed, tested };
    envelope(SELFTEST_SCHEMA, VERB, exit_code, document)
}

/// One simulation as JSON.
pub fn repetition_json(repetition: &Repetition, exit_code: u8) -> Value {
    let Repetition { seed, right: clean, .. } = *repetition;
    let document = Document { complete: true, clean, seed, tested: Tested::One { repetition } };
    envelope(SELFTEST_SCHEMA, VERB, exit_code, document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_model::record::RepetitionBlock;

    fn matrix() -> Matrix {
        let row = MatrixRow {
            fault: "drop",
            expected: "stale, lost or old-run",
            struck: 9,
            visible: 5,
            detected: 5,
            named: 5,
            ..MatrixRow::default()
        };
        Matrix { rows: vec![row], look_alikes: 3, soak_ops: 1000, ..Matrix::default() }
    }

    #[test]
    fn a_clean_matrix_passes_and_says_so_once() {
        let text = selftest_text(&matrix(), 1, 2_000_000_000, true, 120);
        assert!(text.contains("PASS") && !text.contains("FAIL"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
        let text = selftest_text(&matrix(), 1, 2_000_000_000, false, 120);
        assert!(text.contains("PARTIAL") && !text.contains("PASS"), "{text}");
        let text = selftest_text(&matrix(), 1, 2_000_000_000, true, 60);
        assert!(text.lines().all(|line| line.len() <= 60), "{text}");
    }

    #[test]
    fn each_failure_names_the_command_that_repeats_it() {
        let mut wrong = matrix();
        wrong.rows[0].named = 4;
        wrong.rows[0].wrong_seeds = vec![77];
        wrong.alarms = 1;
        wrong.alarm_seeds = vec![88];
        wrong.soak_alarms = 2;
        let text = selftest_text(&wrong, 6, 1, true, 120);
        for part in [
            "0 missed, 1 called something else, 0 false alarms; repeat it with",
            "--only drop --seed 77",
            "--only none --seed 88",
            "--soak-ops 1000 --seed 6",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("PASS"));
        let mut never = matrix();
        (never.rows[0].visible, never.rows[0].detected, never.rows[0].named) = (0, 0, 0);
        assert!(selftest_text(&never, 6, 1, true, 120).contains("nothing was tested"));
    }

    #[test]
    fn one_simulation_is_printed_block_by_block() {
        let block = |offset, damaged: &[&'static str], found| RepetitionBlock {
            offset,
            damaged: damaged.to_vec(),
            found,
        };
        let repetition = Repetition {
            fault: "tear:nth=2 in job 0".into(),
            struck: true,
            visible: true,
            blocks: vec![block(0, &["torn"], None), block(512, &[], Some("stale"))],
            false_alarms: 1,
            ..Repetition::default()
        };
        let text = repetition_text(&repetition);
        for part in [
            "damaged: torn",
            "not found",
            "undamaged",
            "found: stale",
            "FAIL: the fault was injected",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
