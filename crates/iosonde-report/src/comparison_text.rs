//! Two sets of runs beside each other, as text.

use std::fmt::Write as _;

use super::clean::clean;
use iosonde_analysis::comparison::contrast::{BETTER, FEWEST, FEWEST_ROUNDS, MOST};
use iosonde_analysis::comparison::gate::Outcome;
use iosonde_analysis::comparison::{Cell, Comparison, Gated, Row, Verdict};
use iosonde_model::units::{bytes, count, duration};
use iosonde_stats::effect::magnitude;

/// The tables, what they rest on, and what came of the gates.
pub fn comparison_text(compared: &Comparison) -> String {
    let mut out = String::from("B against A: one value per run, medians over runs");
    out.push_str(if compared.in_rounds { ", compared within rounds\n" } else { "\n" });
    for (letter, side) in ["A", "B"].into_iter().zip(&compared.sides) {
        let _ = writeln!(out, "  {letter}  {} ({})", clean(&side.name), runs(side.runs));
    }
    for each in &compared.differences {
        let (field, a, b) = (clean(&each.field), clean(&each.a), clean(&each.b));
        let _ = writeln!(out, "  differs: {} {field}: A `{a}`, B `{b}`", each.kind.word());
    }
    for cell in &compared.cells {
        table(&mut out, cell);
    }
    for line in notes(compared) {
        let _ = writeln!(out, "  {line}");
    }
    for warning in &compared.warnings {
        let _ = writeln!(out, "  warning: {}", clean(warning));
    }
    for gated in &compared.gates {
        let _ = writeln!(out, "  {}", gate_line(gated));
    }
    out
}

fn runs(count: usize) -> String {
    if count == 1 { "1 run".into() } else { format!("{count} runs") }
}

fn table(out: &mut String, cell: &Cell) {
    let _ = writeln!(out, "\n  {}", clean(&cell.cell));
    let _ = writeln!(
        out,
        "    {:<11} {:>12} {:>12}  {:<22} {:>8}  verdict",
        "metric", "A", "B", "B/A [95 %]", "p"
    );
    for row in &cell.rows {
        let [a, b] = row.contrast.medians.map(|value| figure(&row.metric, value));
        let _ = writeln!(
            out,
            "    {:<11} {a:>12} {b:>12}  {:<22} {:>8}  {}",
            clean(&row.metric),
            ratio(row),
            probability(row),
            words(row)
        );
    }
    for missing in &cell.missing {
        let _ = writeln!(out, "    {:<11} n/a: {}", clean(&missing.metric), clean(&missing.reason));
    }
    for (side, (letter, within)) in ["A", "B"].into_iter().zip(&cell.within).enumerate() {
        let compared: Vec<String> = within
            .iter()
            .filter(|(metric, _)| cell.rows.iter().any(|row| row.metric == **metric))
            .map(|(metric, (low, high))| {
                let [low, high] = [low, high].map(|value| figure(metric, *value));
                format!("{} [{low}, {high}]", clean(metric))
            })
            .collect();
        let is_one = cell.rows.iter().any(|row| row.contrast.runs[side] == 1);
        if !compared.is_empty() {
            let _ = writeln!(out, "    within the one run of {letter}: {}", compared.join(", "));
        } else if is_one {
            let _ = writeln!(out, "    within the one run of {letter}: n/a: run longer");
        }
    }
}

/// A value in the unit of its metric.
fn figure(metric: &str, value: f64) -> String {
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
        Verdict::Slower if is_cost => format!("dearer: {change} ({size} effect)"),
        Verdict::Faster => format!("faster: {change} ({size} effect)"),
        Verdict::Slower => format!("slower: {change} ({size} effect)"),
        Verdict::BelowTolerance { tolerance } => {
            format!("different, below tolerance: {change} of ±{} %", share(tolerance))
        }
        Verdict::Same { tolerance } => format!("same within ±{} %", share(tolerance)),
        Verdict::Inconclusive { more_to_differ, more_to_be_same } => {
            let about = |more: u64, what: &str| {
                let runs = if more == 1 { "run" } else { "runs" };
                format!("about {} more {runs} {what}", count::thousands(more))
            };
            let differ = more_to_differ.map(|more| about(more, "to show a difference"));
            let same = more_to_be_same.map(|more| about(more, "to show that there is none"));
            let both: Vec<String> = differ.into_iter().chain(same).collect();
            match both.is_empty() {
                true => format!("inconclusive: too noisy, {MOST} more runs would not decide"),
                false => format!("inconclusive: {}", both.join(", ")),
            }
        }
        Verdict::TooFew => format!("too few runs to compare ({change})"),
    }
}

/// `-8.1 %`
fn percent(change: f64) -> String {
    format!("{:+.1} %", 100.0 * change)
}

/// `5`, `6.2`
fn share(tolerance: f64) -> String {
    format!("{}", (1e3 * tolerance).round() / 10.0)
}

/// What the tables rest on, and what could be done about missing answers.
fn notes(compared: &Comparison) -> Vec<String> {
    let rows = || compared.cells.iter().flat_map(|cell| &cell.rows);
    let mut all = Vec::new();
    if let Some(few) = rows().find(|row| !row.contrast.is_enough()) {
        let [a, b] = few.contrast.runs;
        let fewest = if compared.in_rounds { FEWEST_ROUNDS } else { FEWEST };
        all.push(format!(
            "too few runs to compare ({a} and {b}; {fewest} each at least, {BETTER} better): \
             `iosonde compare --run 'iosonde run …' --run 'iosonde run …'` makes both in turn"
        ));
    }
    let too_many_questions = rows().find(|row| {
        let is_open = matches!(row.verdict, Verdict::Inconclusive { .. });
        is_open && row.contrast.smallest_p * compared.family as f64 > 0.05
    });
    if let Some(row) = too_many_questions {
        let least = row.contrast.smallest_p;
        all.push(format!(
            "so few runs cannot show a p below {least:.4}, which is {:.3} for {} tests: make more \
             runs, or ask for fewer metrics (--metrics iops,p99)",
            (least * compared.family as f64).min(1.0),
            compared.family
        ));
    }
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
    let slower: Vec<&str> = rows()
        .filter(|row| row.verdict == Verdict::Slower)
        .map(|row| row.metric.as_str())
        .collect();
    if !slower.is_empty() {
        all.push(format!("B is worse in {}", clean(&slower.join(", "))));
    }
    all
}

fn gate_line(gated: &Gated) -> String {
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
