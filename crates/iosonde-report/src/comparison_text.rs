//! A comparison of two sets of runs as text.

use super::answer::Answer;
use super::clean::clean;
use super::report::Column;
use super::wrap::{self, Rule, Text};
use iosonde_analysis::comparison::contrast::{BETTER, FEWEST, FEWEST_ROUNDS, MOST};
use iosonde_analysis::comparison::gate::Outcome;
use iosonde_analysis::comparison::{Cell, Comparison, Gated, Row, Verdict};
use iosonde_model::units::{bytes, count, duration};
use iosonde_stats::effect::magnitude;

/// Most columns of the text.
const COLUMNS: usize = 120;

/// The answer, the tables, the notes on them, and the results of the gates, for a screen of
/// `screen` columns.
pub fn comparison_text(compared: &Comparison, screen: usize) -> String {
    let mut out = Text::new(screen, COLUMNS);
    out.push_str(&Answer::of_comparison(compared).text(out.columns));
    let within = if compared.in_rounds { ", compared within rounds" } else { "" };
    let words = format!("B against A: one value per run, medians over runs{within}");
    out.hanging("", &words);
    for (letter, side) in ["A", "B"].into_iter().zip(&compared.sides) {
        let words = format!("{} ({})", clean(&side.name), runs(side.runs));
        out.hanging(&format!("  {letter}  "), &words);
    }
    for each in &compared.differences {
        let (field, a, b) = (clean(&each.field), clean(&each.a), clean(&each.b));
        out.hanging("  differs: ", &format!("{} {field}: A `{a}`, B `{b}`", each.kind.word()));
    }
    for cell in &compared.cells {
        table(&mut out, cell);
    }
    for line in notes(compared) {
        out.hanging("  ", &line);
    }
    for warning in &compared.warnings {
        out.hanging("  warning: ", &clean(warning));
    }
    for gated in &compared.gates {
        out.hanging("  ", &gate_line(gated));
    }
    out.into_string()
}

pub(crate) fn runs(count: usize) -> String {
    if count == 1 { "1 run".into() } else { format!("{count} runs") }
}

fn table(out: &mut Text, cell: &Cell) {
    out.push('\n');
    out.hanging("  ", &clean(&cell.cell));
    let mut columns = Column::all(&["metric"], &["A", "B"]);
    columns.extend(Column::all(&["B/A [95 %]"], &["p"]));
    columns.push(Column::words("verdict"));
    out.push_str(&wrap::table(&columns, &rows(cell), Rule::None, out.columns));
    for missing in &cell.missing {
        let metric = clean(&missing.metric);
        out.hanging(&format!("  {metric:<11} n/a: "), &clean(&missing.reason));
    }
    for line in within(cell) {
        out.hanging("    ", &line);
    }
}

/// Table cells of each metric: name, A, B, ratio, p, verdict.
pub(crate) fn rows(cell: &Cell) -> Vec<Vec<String>> {
    let row = |row: &Row| {
        let [a, b] = row.contrast.medians.map(|value| figure(&row.metric, value));
        vec![clean(&row.metric), a, b, ratio(row), probability(row), words(row)]
    };
    cell.rows.iter().map(row).collect()
}

/// The intervals within a side that consists of one run.
pub(crate) fn within(cell: &Cell) -> Vec<String> {
    [0, 1].into_iter().filter_map(|side| within_side(cell, side)).collect()
}

fn within_side(cell: &Cell, side: usize) -> Option<String> {
    let compared: Vec<String> = cell.within[side]
        .iter()
        .filter(|(metric, _)| cell.rows.iter().any(|row| row.metric == **metric))
        .map(|(metric, (low, high))| {
            let [low, high] = [low, high].map(|value| figure(metric, *value));
            format!("{} [{low}, {high}]", clean(metric))
        })
        .collect();
    let is_one = cell.rows.iter().any(|row| row.contrast.runs[side] == 1);
    let words = match compared.is_empty() {
        false => compared.join(", "),
        true if is_one => "n/a: run longer".to_owned(),
        true => return None,
    };
    Some(format!("within the one run of {}: {words}", ["A", "B"][side]))
}

/// A value in the unit of its metric.
pub(crate) fn figure(metric: &str, value: f64) -> String {
    match metric.rsplit_once('.').map_or(metric, |(_, last)| last) {
        "iops" => count::significant_or_whole(value),
        "bw" | "durable" => bytes::per_second(value),
        _ => duration::latency(value),
    }
}

fn ratio(row: &Row) -> String {
    match row.contrast.interval {
        Some((low, high)) => format!("{:.3} [{low:.3}, {high:.3}]", row.contrast.ratio),
        None => format!("{:.3}", row.contrast.ratio),
    }
}

fn probability(row: &Row) -> String {
    match row.corrected_p {
        _ if !row.contrast.is_enough() => "-".into(),
        p if p < 0.0001 => "<0.0001".into(),
        p if p < 0.1 => format!("{p:.4}"),
        p => format!("{p:.2}"),
    }
}

/// The verdict of a row in words.
pub fn words(row: &Row) -> String {
    let change = percent(row.contrast.ratio - 1.0);
    let size = magnitude(row.contrast.delta);
    let is_cost = row.metric == "cpu";
    match row.verdict {
        Verdict::Faster if is_cost => format!("cheaper: {change} ({size} effect)"),
        Verdict::Slower if is_cost => format!("costlier: {change} ({size} effect)"),
        Verdict::Faster => format!("faster: {change} ({size} effect)"),
        Verdict::Slower => format!("slower: {change} ({size} effect)"),
        Verdict::BelowTolerance { tolerance } => {
            format!("different, below tolerance: {change} of ±{} %", share(tolerance))
        }
        Verdict::Same { tolerance } => format!("same within ±{} %", share(tolerance)),
        Verdict::Inconclusive { more_to_differ, more_to_be_same, .. } => {
            let about =
                |more: u64, what: &str| format!("about {} {what}", count::of(more, "more run"));
            let differ = more_to_differ.map(|more| about(more, "to show a difference"));
            let same = more_to_be_same.map(|more| about(more, "to show that there is none"));
            let both: Vec<String> = differ.into_iter().chain(same).collect();
            match both.is_empty() {
                true => format!("inconclusive: too noisy, {MOST} runs may not decide"),
                false => format!("inconclusive: {}", both.join(", ")),
            }
        }
        Verdict::TooFew => format!("too few runs to compare ({change})"),
    }
}

/// A number rounded to an integer, without its sign: `14,369`.
fn thousands(number: f64) -> String {
    count::thousands(number.abs().round() as u64)
}

/// A change in percent: `-8.1 %`, `+14,369 %`.
pub(crate) fn percent(change: f64) -> String {
    match 100.0 * change {
        large if large.abs() >= 1_000.0 => {
            format!("{}{} %", if large < 0.0 { "-" } else { "+" }, thousands(large))
        }
        change => format!("{change:+.1} %"),
    }
}

/// A tolerance in percent: `5`, `6.2`.
fn share(tolerance: f64) -> String {
    format!("{}", (1e3 * tolerance).round() / 10.0)
}

/// The runs needed to decide the open metrics.
pub(crate) fn needed(compared: &Comparison) -> Option<String> {
    let rows = || compared.cells.iter().flat_map(|cell| &cell.rows);
    if let Some(few) = rows().find(|row| !row.contrast.is_enough()) {
        let [a, b] = few.contrast.runs;
        let fewest = if compared.in_rounds { FEWEST_ROUNDS } else { FEWEST };
        return Some(format!(
            "Measure at least {fewest} runs of each side, preferably {BETTER} (found {a} and {b}): \
             iosonde compare --run 'iosonde run …' --run 'iosonde run …'"
        ));
    }
    let too_many_questions = rows().find(|row| {
        let is_open = matches!(row.verdict, Verdict::Inconclusive { .. });
        is_open && row.contrast.smallest_p * compared.family as f64 > 0.05
    });
    if let Some(row) = too_many_questions {
        let least = row.contrast.smallest_p;
        return Some(format!(
            "so few runs cannot show a p below {least:.4}, which is {:.3} for {} tests: make more \
             runs, or ask for fewer metrics (--metrics iops,p99)",
            (least * compared.family as f64).min(1.0),
            compared.family
        ));
    }
    further(compared)
}

/// The number of further runs that decides all open figures, and the figures that none can decide.
fn further(compared: &Comparison) -> Option<String> {
    let open = compared.open();
    let (never, decided): (Vec<_>, Vec<_>) = open.iter().partition(|(_, more)| more.is_none());
    let never = match never.as_slice() {
        [] => String::new(),
        all => {
            let names: Vec<String> = all.iter().map(|(name, _)| clean(name)).collect();
            format!("{} may stay open within {} runs", names.join(", "), count::thousands(MOST))
        }
    };
    let Some(more) = decided.iter().filter_map(|(_, more)| *more).max() else {
        let advice = "make longer runs, or give a larger --tolerance";
        return (!never.is_empty()).then(|| format!("{never}: {advice}."));
    };
    let measure = if compared.in_rounds {
        let rounds = compared.sides[0].runs as u64 + more;
        format!("Measure again with --rounds {rounds}")
    } else {
        format!("Measure about {} of each side", count::of(more, "more run"))
    };
    Some(if never.is_empty() { format!("{measure}.") } else { format!("{measure}; {never}.") })
}

/// Notes on tests, intervals and assumptions of the tables.
pub(crate) fn notes(compared: &Comparison) -> Vec<String> {
    let rows = || compared.cells.iter().flat_map(|cell| &cell.rows);
    let mut all = Vec::new();
    if rows().any(|row| row.contrast.is_enough()) {
        let tests = if compared.family == 1 {
            "the 1 test"
        } else {
            &format!("all {} tests", compared.family)
        };
        all.push(format!(
            "p: permutation test, corrected for {tests} (Holm); intervals: bootstrap; seed {}",
            compared.seed
        ));
        all.push(format!("tolerance: ±{} %", share(compared.tolerance)));
    }
    all
}

pub(crate) fn gate_line(gated: &Gated) -> String {
    let outcome = match &gated.outcome {
        Outcome::Passed { change } => format!("passed ({})", percent(*change)),
        Outcome::Failed { change } => format!("FAILED ({})", percent(*change)),
        Outcome::Unknown { reason } => format!("unknown ({})", clean(reason)),
    };
    let text = clean(&gated.gate.text);
    if gated.cell.is_empty() {
        format!("Gate {text}: {outcome}")
    } else {
        format!("Gate {text} in {}: {outcome}", clean(&gated.cell))
    }
}
