//! Do two sets of runs differ? One answer per metric, with the size of the difference, its
//! certainty, and how many more runs an undecided metric needs.

pub mod contrast;
pub mod gate;
pub mod identity;
mod kept;
mod missing;
pub mod observation;
pub mod peers;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use contrast::{Better, Contrast, Verdict};
pub use gate::{Gate, Gated, Outcome};
pub use identity::{Difference, Identity, Kind};
pub use observation::{BASELINE_SCHEMA, Baseline, Observation};

use crate::grouped::{distinct, grouped};
use iosonde_stats::holm::holm;

/// Maximum accepted difference between the clocks of two machines, ns.
const CLOCKS_APART_NS: u64 = 300_000_000_000;
/// Maximum number of differences listed in an error.
const NAMED: usize = 8;

/// One side of a comparison: a named set of runs.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// Source of the runs, as text.
    pub name: String,
    /// The runs, in the order of their rounds if there are rounds.
    pub runs: Vec<Observation>,
}

impl Side {
    /// Whether every run of the side has low confidence.
    fn is_in_doubt(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(|run| !run.doubts.is_empty())
    }
}

/// Settings of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Differences below this share do not matter.
    pub tolerance: f64,
    /// Seed of all random draws.
    pub seed: u64,
    /// Kinds of facts that may differ.
    pub allow: Vec<Kind>,
    /// Metrics to compare, by stored name; empty for the default ones.
    pub metrics: Vec<String>,
    pub gates: Vec<Gate>,
    /// Whether the runs of the two sides alternated: the n-th run of each side forms a round.
    pub in_rounds: bool,
    /// Current time, ns since 1970.
    pub now_unix_ns: u64,
}

/// Why two sides are not compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Incomparable {
    /// The sides did not measure the same thing.
    #[error("{}", differing(.0))]
    Different(Vec<Difference>),
    /// The sides have no cell in common.
    #[error("no cell is on both sides: A has {a}; B has {b}")]
    NoCommonCell { a: String, b: String },
    /// A side has no usable run.
    #[error("no run of {side} can be compared: {why}")]
    NothingLeft {
        side: String,
        /// The first run that was left out, and the reason.
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
        "A and B did not measure the same thing:{}{more}\nmeasure both under the same conditions, \
         or accept the difference: --allow {}",
        named.collect::<String>(),
        kinds.join(",")
    )
}

/// Result of the comparison of two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Names and sizes of A and B.
    pub sides: [SideFacts; 2],
    /// Whether runs were compared within rounds.
    pub in_rounds: bool,
    /// Seed of all random draws.
    pub seed: u64,
    /// The requested tolerance, as a share.
    pub tolerance: f64,
    /// Number of tests that the p values are corrected for.
    pub family: usize,
    /// The cells that are on both sides.
    pub cells: Vec<Cell>,
    /// Outcomes of the gates.
    pub gates: Vec<Gated>,
    /// Facts in which the sides were allowed to differ.
    pub differences: Vec<Difference>,
    pub warnings: Vec<String>,
}

impl Comparison {
    /// The inconclusive metrics, each with the number of further runs per side, or rounds, that
    /// would decide it; `None` if too many.
    pub fn open(&self) -> Vec<(String, Option<u64>)> {
        let rows = self.cells.iter().flat_map(|cell| cell.rows.iter().map(move |row| (cell, row)));
        let open = rows.filter_map(|(cell, row)| {
            let Verdict::Inconclusive { more_to_decide, .. } = row.verdict else { return None };
            let name = match self.cells.len() {
                1 => row.metric.clone(),
                _ => format!("{} {}", cell.cell, row.metric),
            };
            Some((name, more_to_decide))
        });
        open.collect()
    }
}

/// Facts of a side for the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideFacts {
    pub name: String,
    /// Runs that were compared.
    pub runs: usize,
    /// Whether every run of the side has low confidence.
    #[serde(skip)]
    pub is_in_doubt: bool,
}

/// One cell of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Name of the cell.
    pub cell: String,
    /// The compared metrics.
    pub rows: Vec<Row>,
    /// Metrics that are not compared.
    pub missing: Vec<Missing>,
    /// For a side with one run: 95 % intervals within that run, which do not affect the verdict.
    pub within: [BTreeMap<String, (f64, f64)>; 2],
}

/// A metric that is not compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Missing {
    pub metric: String,
    /// Why it is not compared.
    pub reason: String,
}

/// One metric of one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The metric: `iops`, `read.p99`.
    pub metric: String,
    /// Which direction is better.
    pub better: Better,
    /// The difference of the sides.
    #[serde(flatten)]
    pub contrast: Contrast,
    /// The p value, corrected for all tests of the comparison.
    pub corrected_p: f64,
    pub verdict: Verdict,
}

/// Compares B with A.
///
/// # Errors
/// If the sides differ in facts that must be equal, or no runs or cells are left to compare.
pub fn compare(a: &Side, b: &Side, requested: &Request) -> Result<Comparison, Incomparable> {
    let mut warnings = warnings(a, b, requested);
    let [kept_a, kept_b] = kept::kept(a, b, requested, &mut warnings)?;
    let mut differences = Vec::new();
    let mut cells = Vec::new();
    for (name, of_a, of_b) in paired(&kept_a, &kept_b, &mut warnings)? {
        differences.extend(differing_facts(&of_a, &of_b));
        cells.push(cell(name, &of_a, &of_b, requested));
    }
    let is_reported =
        |each: &Difference| each.kind == Kind::Host || requested.allow.contains(&each.kind);
    let (allowed, refused): (Vec<_>, Vec<_>) =
        distinct(differences).into_iter().partition(is_reported);
    if !refused.is_empty() {
        return Err(Incomparable::Different(refused));
    }
    let family = judge(&mut cells, requested);
    if !requested.allow.contains(&Kind::Host) && allowed.iter().any(|each| each.kind == Kind::Host)
    {
        warnings.push(
            "A and B are from different machines: a difference may come from the \
            machines"
                .into(),
        );
    }
    let gates = gated(&cells, requested);
    let facts = |side: &Side, runs: &[&Observation]| SideFacts {
        name: side.name.clone(),
        runs: runs.len(),
        is_in_doubt: side.is_in_doubt(),
    };
    Ok(Comparison {
        sides: [facts(a, &kept_a), facts(b, &kept_b)],
        in_rounds: requested.in_rounds,
        seed: requested.seed,
        tolerance: requested.tolerance,
        family,
        cells,
        gates,
        differences: allowed,
        warnings,
    })
}

/// Problems of the runs that do not prevent a comparison.
fn warnings(a: &Side, b: &Side, requested: &Request) -> Vec<String> {
    let mut all = Vec::new();
    for (name, side) in [("A", a), ("B", b)] {
        let late = requested.now_unix_ns.saturating_add(CLOCKS_APART_NS);
        let from_the_future = side.runs.iter().filter(|run| run.started_unix_ns > late).count();
        if from_the_future > 0 {
            all.push(format!(
                "{name}: {from_the_future} of {} runs have a start time in the future: a clock is \
                 or was wrong",
                side.runs.len()
            ));
        }
        let mut doubts: BTreeMap<&str, usize> = BTreeMap::new();
        for doubt in side.runs.iter().flat_map(|run| &run.doubts) {
            *doubts.entry(doubt).or_default() += 1;
        }
        all.extend(doubts.into_iter().map(|(doubt, count)| {
            format!("{name}: {count} of {} runs have low confidence: {doubt}", side.runs.len())
        }));
        if side.is_in_doubt() {
            all.push(format!(
                "every run of {name} has low confidence: the verdicts compare what was measured, \
                 not what the storage does"
            ));
        }
    }
    let [of_a, of_b] = [a, b]
        .map(|side| side.runs.iter().filter_map(Observation::identical).collect::<BTreeSet<_>>());
    // The runs of rounds were just measured, each separately.
    if !requested.in_rounds && !of_a.is_disjoint(&of_b) {
        all.push("the same run is on both sides: comparing a run with itself shows nothing".into());
    }
    all
}

type Runs<'a> = Vec<&'a Observation>;

/// Cells present on both sides. If each side has one cell, the names need not match.
fn paired<'a>(
    a: &[&'a Observation],
    b: &[&'a Observation],
    warnings: &mut Vec<String>,
) -> Result<Vec<(String, Runs<'a>, Runs<'a>)>, Incomparable> {
    let names = |runs: &[&Observation]| distinct(runs.iter().map(|run| run.cell.clone()));
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
        warnings.extend(alone.into_iter().map(|name| format!("only {side} has {name}")));
    }
    Ok(common.into_iter().map(|name| (name.clone(), of(a, name), of(b, name))).collect())
}

/// Facts in which any run of either side differs from the first run of A.
fn differing_facts(a: &Runs<'_>, b: &Runs<'_>) -> Vec<Difference> {
    let Some((first, rest)) = a.split_first() else { return Vec::new() };
    let others = b.iter().chain(rest);
    let all = others.flat_map(|other| first.identity.differences(&other.identity));
    let by_field = grouped(all.map(|each| ((each.kind, each.field.clone()), each)));
    by_field.into_iter().map(|(_, mut differences)| differences.swap_remove(0)).collect()
}

fn cell(name: String, a: &Runs<'_>, b: &Runs<'_>, requested: &Request) -> Cell {
    let mut metrics = requested.metrics.clone();
    if metrics.is_empty() {
        metrics = a[0].metrics();
        metrics.extend(b[0].metrics().into_iter().filter(|each| !a[0].metrics().contains(each)));
        metrics.retain(|metric| !is_repetition(metric, a, b));
    }
    let wanted =
        requested.gates.iter().filter(|gate| is_about(gate, &name)).map(|gate| &gate.metric);
    for metric in wanted {
        if !metrics.contains(metric) {
            metrics.push(metric.clone());
        }
    }
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for metric in metrics {
        match row(&metric, a, b, requested) {
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

/// Whether a bandwidth only repeats the IOPS, because all operations have the same size.
fn is_repetition(metric: &str, a: &Runs<'_>, b: &Runs<'_>) -> bool {
    let Some(front) = metric.strip_suffix("bw") else { return false };
    let rate = format!("{front}iops");
    let mut sizes =
        a.iter().chain(b).filter_map(|run| Some(run.value(metric)? / run.value(&rate)?));
    let Some(first) = sizes.next() else { return false };
    sizes.all(|size| (size / first - 1.0).abs() < 1e-6)
}

fn row(metric: &str, a: &Runs<'_>, b: &Runs<'_>, requested: &Request) -> Result<Row, String> {
    let values =
        |runs: &Runs<'_>| -> Vec<f64> { runs.iter().filter_map(|run| run.value(metric)).collect() };
    let (of_a, of_b) = (values(a), values(b));
    if let Some(why) = missing::why(metric, a, b) {
        return Err(why);
    }
    let contrast = if requested.in_rounds {
        Contrast::of_rounds(&of_a, &of_b, requested.seed)
    } else {
        Contrast::of_sides(&of_a, &of_b, requested.seed)
    };
    let contrast = contrast.ok_or_else(|| "not positive in every run".to_owned())?;
    let p = contrast.p;
    Ok(Row {
        metric: metric.to_owned(),
        better: observation::better(metric),
        contrast,
        corrected_p: p,
        verdict: Verdict::TooFew,
    })
}

/// Corrects all p values together and sets the verdicts. Returns the number of tests.
fn judge(cells: &mut [Cell], requested: &Request) -> usize {
    let mut rows: Vec<&mut Row> = cells.iter_mut().flat_map(|cell| &mut cell.rows).collect();
    let p: Vec<f64> = rows.iter().map(|row| row.contrast.p).collect();
    let family = p.len();
    for (row, corrected) in rows.iter_mut().zip(holm(&p)) {
        row.corrected_p = corrected;
        row.verdict = row.contrast.verdict(row.better, corrected, requested.tolerance, family);
    }
    family
}

fn is_about(gate: &Gate, cell: &str) -> bool {
    gate.cell.as_deref().is_none_or(|name| name.eq_ignore_ascii_case(cell))
}

fn gated(cells: &[Cell], requested: &Request) -> Vec<Gated> {
    let mut all = Vec::new();
    for gate in &requested.gates {
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
