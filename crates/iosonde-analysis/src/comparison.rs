//! Do two sets of runs differ? One answer per metric, with its size, its certainty, and how many
//! more runs a missing answer needs.

pub mod contrast;
pub mod gate;
pub mod identity;
pub mod observation;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use contrast::{Better, Contrast, Verdict};
pub use gate::{Gate, Gated, Outcome};
pub use identity::{Difference, Identity, Kind};
pub use observation::{BASELINE_SCHEMA, Baseline, Observation};

use iosonde_stats::holm::holm;

/// Clocks of two machines may be apart by so much, ns.
const CLOCKS_APART_NS: u64 = 300_000_000_000;
/// At most so many differences are named.
const NAMED: usize = 8;

/// One side: runs under a name.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// Where they come from, in words.
    pub name: String,
    /// The runs, in the order of their rounds where there are any.
    pub runs: Vec<Observation>,
}

/// What is asked of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Differences of less than this share do not matter.
    pub tolerance: f64,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Kinds of facts that may differ.
    pub allow: Vec<Kind>,
    /// Metrics to compare, as kept; empty for the usual ones.
    pub metrics: Vec<String>,
    /// Limits on changes.
    pub gates: Vec<Gate>,
    /// Whether the runs of both sides took turns: the n-th of each make a round.
    pub in_rounds: bool,
    /// The time, ns since 1970.
    pub now_unix_ns: u64,
}

/// Why two sides are not compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Incomparable {
    /// They are of different things.
    #[error("{}", differing(.0))]
    Different(Vec<Difference>),
    /// They have no cell in common.
    #[error("no cell is on both sides: A has {a}; B has {b}")]
    NoCommonCell {
        /// Cells of A.
        a: String,
        /// Cells of B.
        b: String,
    },
    /// A side has no run that counts.
    #[error("no run of {side} can be compared: {why}")]
    NothingLeft {
        /// Name of the side.
        side: String,
        /// What was left out, and why.
        why: String,
    },
}

fn differing(differences: &[Difference]) -> String {
    let named = differences.iter().take(NAMED).map(|each| {
        format!("\n  {} {}: A has `{}`, B has `{}`", each.kind.word(), each.field, each.a, each.b)
    });
    let more = differences.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let mut kinds: Vec<&str> = differences.iter().map(|each| each.kind.word()).collect();
    kinds.dedup();
    format!(
        "A and B are not of the same thing:{}{more}\nmeasure both alike, or say that it is meant: \
         --allow {}",
        named.collect::<String>(),
        kinds.join(",")
    )
}

/// Two sides compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Names and sizes of A and B.
    pub sides: [SideFacts; 2],
    /// Whether runs were compared within rounds.
    pub in_rounds: bool,
    /// Seed of everything that was drawn.
    pub seed: u64,
    /// The asked tolerance, as a share.
    pub tolerance: f64,
    /// Tests that the p values are corrected for.
    pub family: usize,
    /// Each cell that is on both sides.
    pub cells: Vec<Cell>,
    /// What came of the gates.
    pub gates: Vec<Gated>,
    /// Facts in which the sides were allowed to differ.
    pub differences: Vec<Difference>,
    /// What else must be known.
    pub cautions: Vec<String>,
}

/// A side as it is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideFacts {
    /// Its name.
    pub name: String,
    /// Runs that were compared.
    pub runs: usize,
}

/// One cell of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// What was run.
    pub cell: String,
    /// Its metrics.
    pub rows: Vec<Row>,
    /// Metrics that are not compared.
    pub missing: Vec<Missing>,
    /// Of one run on a side: 95 % intervals within it, which decide nothing.
    pub within: [BTreeMap<String, (f64, f64)>; 2],
}

/// A metric that is not compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Missing {
    /// The metric.
    pub metric: String,
    /// Why.
    pub reason: String,
}

/// One metric of one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The metric: `iops`, `read.p99`.
    pub metric: String,
    /// Which way is good.
    pub better: Better,
    /// How the sides differ.
    #[serde(flatten)]
    pub contrast: Contrast,
    /// The p of it, corrected for all tests of the comparison.
    pub corrected_p: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Compares B with A.
///
/// # Errors
/// If they are not of the same thing and that is not allowed, or nothing is left to compare.
pub fn compare(a: &Side, b: &Side, asked: &Asked) -> Result<Comparison, Incomparable> {
    let mut cautions = cautions(a, b, asked);
    let [kept_a, kept_b] = kept(a, b, asked, &mut cautions)?;
    let mut differences = Vec::new();
    let mut cells = Vec::new();
    for (name, of_a, of_b) in paired(&kept_a, &kept_b, &mut cautions)? {
        for different in differing_facts(&of_a, &of_b) {
            if !differences.contains(&different) {
                differences.push(different);
            }
        }
        cells.push(cell(name, &of_a, &of_b, asked));
    }
    let is_told = |each: &Difference| each.kind == Kind::Host || asked.allow.contains(&each.kind);
    let (allowed, refused): (Vec<_>, Vec<_>) = differences.into_iter().partition(is_told);
    if !refused.is_empty() {
        return Err(Incomparable::Different(refused));
    }
    let family = judge(&mut cells, asked);
    if !asked.allow.contains(&Kind::Host) && allowed.iter().any(|each| each.kind == Kind::Host) {
        cautions.push("A and B are from different machines: what differs may be those".into());
    }
    let gates = gated(&cells, asked);
    let facts = |side: &Side, runs: &[&Observation]| SideFacts {
        name: side.name.clone(),
        runs: runs.len(),
    };
    Ok(Comparison {
        sides: [facts(a, &kept_a), facts(b, &kept_b)],
        in_rounds: asked.in_rounds,
        seed: asked.seed,
        tolerance: asked.tolerance,
        family,
        cells,
        gates,
        differences: allowed,
        cautions,
    })
}

/// What is wrong with the runs and does not keep them from being compared.
fn cautions(a: &Side, b: &Side, asked: &Asked) -> Vec<String> {
    let mut all = Vec::new();
    for (name, side) in [("A", a), ("B", b)] {
        let late = asked.now_unix_ns.saturating_add(CLOCKS_APART_NS);
        let from_the_future = side.runs.iter().filter(|run| run.started_unix_ns > late).count();
        if from_the_future > 0 {
            all.push(format!(
                "{name}: {from_the_future} of {} runs began later than now: a clock is or was off",
                side.runs.len()
            ));
        }
        let mut doubts: BTreeMap<&str, usize> = BTreeMap::new();
        for doubt in side.runs.iter().flat_map(|run| &run.doubts) {
            *doubts.entry(doubt).or_default() += 1;
        }
        all.extend(doubts.into_iter().map(|(doubt, count)| {
            format!("{name}: {count} of {} runs are doubtful: {doubt}", side.runs.len())
        }));
    }
    let is_same = |x: &Observation, y: &Observation| {
        x.started_unix_ns == y.started_unix_ns && x.values == y.values && x.cell == y.cell
    };
    if a.runs.iter().any(|x| b.runs.iter().any(|y| is_same(x, y))) {
        all.push(
            "a run is on both sides: what a run has in common with itself shows nothing".into(),
        );
    }
    all
}

/// The runs of both sides that count; in rounds only those whose partner counts too.
fn kept<'a>(
    a: &'a Side,
    b: &'a Side,
    asked: &Asked,
    cautions: &mut Vec<String>,
) -> Result<[Vec<&'a Observation>; 2], Incomparable> {
    let mut why = [Vec::new(), Vec::new()];
    let mut counts = |index: usize, run: &Observation| {
        if let Some(reason) = &run.left_out {
            why[index].push(format!("{} ({reason})", run.cell));
        }
        run.left_out.is_none()
    };
    let mut kept: [Vec<&Observation>; 2] = if asked.in_rounds {
        let pairs = a.runs.iter().zip(&b.runs);
        pairs.filter(|(x, y)| counts(0, x) & counts(1, y)).unzip().into()
    } else {
        let [of_a, of_b] = [(0, a), (1, b)]
            .map(|(index, side)| side.runs.iter().filter(|run| counts(index, run)).collect());
        [of_a, of_b]
    };
    for (side, runs) in ["A", "B"].into_iter().zip(&mut kept) {
        let before = runs.len();
        if !asked.in_rounds {
            let mut seen = BTreeSet::new();
            runs.retain(|run| seen.insert((run.started_unix_ns, &run.cell, bits(run))));
        }
        if runs.len() < before {
            let twice = before - runs.len();
            cautions.push(format!("{side}: {twice} runs were given twice, and are counted once"));
        }
    }
    for (index, (side, left)) in ["A", "B"].into_iter().zip(&why).enumerate() {
        if kept[index].is_empty() {
            let why = left.first().cloned().unwrap_or_else(|| "there is none".into());
            return Err(Incomparable::NothingLeft { side: side.into(), why });
        }
        if let Some(first) = left.first() {
            cautions.push(format!(
                "{side}: {} of {} runs are left out, the first of them {first}",
                left.len(),
                left.len() + kept[index].len()
            ));
        }
    }
    Ok(kept)
}

/// Everything that a run gave, to the last bit.
fn bits(run: &Observation) -> Vec<u64> {
    run.values.values().map(|value| value.to_bits()).collect()
}

type Runs<'a> = Vec<&'a Observation>;

/// Cells that are on both sides. One cell on each side is meant to be compared, whatever its name.
fn paired<'a>(
    a: &[&'a Observation],
    b: &[&'a Observation],
    cautions: &mut Vec<String>,
) -> Result<Vec<(String, Runs<'a>, Runs<'a>)>, Incomparable> {
    let names = |runs: &[&Observation]| -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for run in runs {
            if !names.contains(&run.cell) {
                names.push(run.cell.clone());
            }
        }
        names
    };
    let (of_a, of_b) = (names(a), names(b));
    if let ([one], [other]) = (of_a.as_slice(), of_b.as_slice()) {
        let name = if one == other { one.clone() } else { format!("{one} / {other}") };
        return Ok(vec![(name, a.to_vec(), b.to_vec())]);
    }
    let of = |runs: &[&'a Observation], name: &str| -> Runs<'a> {
        runs.iter().filter(|run| run.cell == name).copied().collect()
    };
    let (common, alone): (Vec<&String>, Vec<&String>) =
        of_a.iter().partition(|name| of_b.contains(name));
    if common.is_empty() {
        return Err(Incomparable::NoCommonCell { a: of_a.join(", "), b: of_b.join(", ") });
    }
    let alone_b: Vec<&String> = of_b.iter().filter(|name| !of_a.contains(name)).collect();
    for (side, alone) in [("A", alone), ("B", alone_b)] {
        cautions.extend(alone.into_iter().map(|name| format!("only {side} has {name}")));
    }
    Ok(common.into_iter().map(|name| (name.clone(), of(a, name), of(b, name))).collect())
}

/// Facts in which any run of one side differs from the first of the other, or from its own first.
fn differing_facts(a: &Runs<'_>, b: &Runs<'_>) -> Vec<Difference> {
    let Some((first, rest)) = a.split_first() else { return Vec::new() };
    let mut all: Vec<Difference> = Vec::new();
    for other in b.iter().chain(rest) {
        for difference in first.identity.differences(&other.identity) {
            let is_known =
                |each: &Difference| each.kind == difference.kind && each.field == difference.field;
            if !all.iter().any(is_known) {
                all.push(difference);
            }
        }
    }
    all
}

fn cell(name: String, a: &Runs<'_>, b: &Runs<'_>, asked: &Asked) -> Cell {
    let mut metrics = asked.metrics.clone();
    if metrics.is_empty() {
        metrics = a[0].metrics();
        metrics.extend(b[0].metrics().into_iter().filter(|each| !a[0].metrics().contains(each)));
        metrics.retain(|metric| !is_repetition(metric, a, b));
    }
    let wanted = asked.gates.iter().filter(|gate| is_about(gate, &name)).map(|gate| &gate.metric);
    for metric in wanted {
        if !metrics.contains(metric) {
            metrics.push(metric.clone());
        }
    }
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for metric in metrics {
        match row(&metric, a, b, asked) {
            Ok(row) => rows.push(row),
            Err(reason) => missing.push(Missing { metric, reason }),
        }
    }
    let within = [a, b].map(|side| match side.as_slice() {
        [only] => only.within.clone(),
        _ => BTreeMap::new(),
    });
    Cell { cell: name, rows, missing, within }
}

/// Whether this is a bandwidth that only repeats the rate: each operation has the same size.
fn is_repetition(metric: &str, a: &Runs<'_>, b: &Runs<'_>) -> bool {
    let Some(front) = metric.strip_suffix("bw") else { return false };
    let rate = format!("{front}iops");
    let mut sizes =
        a.iter().chain(b).filter_map(|run| Some(run.value(metric)? / run.value(&rate)?));
    let Some(first) = sizes.next() else { return false };
    sizes.all(|size| (size / first - 1.0).abs() < 1e-6)
}

fn row(metric: &str, a: &Runs<'_>, b: &Runs<'_>, asked: &Asked) -> Result<Row, String> {
    let values =
        |runs: &Runs<'_>| -> Vec<f64> { runs.iter().filter_map(|run| run.value(metric)).collect() };
    let (of_a, of_b) = (values(a), values(b));
    let (have, all) = (of_a.len() + of_b.len(), a.len() + b.len());
    if have < all {
        return Err(match have {
            0 => "no run has it".into(),
            _ => format!("{} of {all} runs have none: too few operations, or none", all - have),
        });
    }
    let contrast = if asked.in_rounds {
        Contrast::of_rounds(&of_a, &of_b, asked.seed)
    } else {
        Contrast::of_sides(&of_a, &of_b, asked.seed)
    };
    let contrast = contrast.ok_or_else(|| "not a positive number in every run".to_owned())?;
    let p = contrast.p;
    Ok(Row {
        metric: metric.to_owned(),
        better: observation::better(metric),
        contrast,
        corrected_p: p,
        verdict: Verdict::TooFew,
    })
}

/// Corrects all p values of the comparison together, and gives the verdicts.
fn judge(cells: &mut [Cell], asked: &Asked) -> usize {
    let mut rows: Vec<&mut Row> = cells.iter_mut().flat_map(|cell| &mut cell.rows).collect();
    let p: Vec<f64> = rows.iter().map(|row| row.contrast.p).collect();
    let family = p.len();
    for (row, corrected) in rows.iter_mut().zip(holm(&p)) {
        row.corrected_p = corrected;
        row.verdict = row.contrast.verdict(row.better, corrected, asked.tolerance, family);
    }
    family
}

fn is_about(gate: &Gate, cell: &str) -> bool {
    gate.cell.as_deref().is_none_or(|name| name.eq_ignore_ascii_case(cell))
}

fn gated(cells: &[Cell], asked: &Asked) -> Vec<Gated> {
    let mut all = Vec::new();
    for gate in &asked.gates {
        let before = all.len();
        for cell in cells.iter().filter(|cell| is_about(gate, &cell.cell)) {
            let row = cell.rows.iter().find(|row| row.metric == gate.metric);
            let missing = cell.missing.iter().find(|each| each.metric == gate.metric);
            let outcome = match (row, missing) {
                (Some(row), _) => gate.judge(&row.contrast),
                (None, Some(missing)) => Outcome::Unknown { reason: missing.reason.clone() },
                (None, None) => Outcome::Unknown { reason: "it was not compared".into() },
            };
            all.push(Gated { gate: gate.clone(), cell: cell.cell.clone(), outcome });
        }
        if all.len() == before {
            let reason = "no cell on both sides has this name".to_owned();
            let outcome = Outcome::Unknown { reason };
            all.push(Gated { gate: gate.clone(), cell: String::new(), outcome });
        }
    }
    all
}

#[cfg(test)]
mod tests;
