//! One verdict over the rows of a check.

use serde::Serialize;

use iosonde_model::record::HostFacts;
use iosonde_model::record::run::{Outcome, Run};
use iosonde_model::units::count::percent;

use super::arrivals::ArrivalVerdict;
use super::consistency::{self, Consistency};
use super::expectation::Judged;
use super::figures::{self, Figures};
use super::finding::{self, Finding, Severity, Strength};
use super::grouped::{distinct, grouped};
use super::precision::{self, Ended, PrecisionFigures};
use super::pursuit::{self, Class, PursuitFigures};
use super::steady::{self, SteadyFigures};

/// Largest number of findings printed below a table.
const SHOWN: usize = 3;
/// Twenty batches of 100 ms: a shorter run has no interval of its rate.
const SHORTEST_NS: u64 = 2_000_000_000;
/// Operations below which a figure is unknown: a figure from 30 independent ones has a standard
/// error of 18 %.
pub(crate) const FEWEST_OPS: u64 = 30;
/// Number of independent operations that gives a rate to 10 %.
const STEADY_OPS: f64 = 400.0;

/// Findings of runs with several levels, none of which a single mean describes.
const LEVELS: [&str; 3] = ["level_change", "level_drop", "no_steady_part"];

/// A run with everything derived from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assessment {
    /// Title of the row.
    pub title: String,
    /// Whether the run ended as planned and completed operations in its window.
    #[serde(skip)]
    pub complete: bool,
    pub figures: Figures,
    /// Outcome of the latency target, if there is one.
    #[serde(rename = "latency_target", skip_serializing_if = "Option::is_none")]
    pub pursuit: Option<PursuitFigures>,
    /// Precision of the figure that ends the run, if there is one.
    #[serde(rename = "until", skip_serializing_if = "Option::is_none")]
    pub precision: Option<PrecisionFigures>,
    /// The rounds of a run that continues until it is steady.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyFigures>,
    /// The consistency checks.
    pub consistency: Consistency,
    /// The findings, most severe and strongest first.
    pub findings: Vec<Finding>,
}

/// Derives figures, consistency checks and findings of one run.
pub fn assess(run: &Run, host: Option<&HostFacts>) -> Assessment {
    let figures = figures::figures(run);
    let consistency = consistency::consistency(run, &figures);
    let steady = steady::steady(run, figures.arrivals.as_ref());
    let mut findings = finding::findings(run, host, &figures, &consistency);
    if steady.as_ref().is_some_and(|steady| steady.steadiness.is_steady) {
        // The figures are those of rounds that were judged to be on one level.
        let of_levels = findings.iter_mut().filter(|found| LEVELS.contains(&found.code));
        of_levels.for_each(|finding| finding.severity = Severity::Fact);
    }
    Assessment {
        title: run.plan.title.clone(),
        complete: run.outcome == Outcome::Complete && figures.all.total.ops > 0,
        pursuit: pursuit::pursuit(run),
        precision: precision::precision(run, figures.arrivals.as_ref()),
        steady,
        figures,
        consistency,
        findings,
    }
}

impl Assessment {
    /// The goal that the run missed, which decides its exit code: a latency target, a precision, or
    /// a steady state.
    pub fn missed_goal(&self) -> Option<String> {
        let target = self.pursuit.as_ref().and_then(|pursuit| {
            let outcome = match pursuit.class {
                Class::MetAndBinding | Class::MetNotBinding => return None,
                Class::Infeasible => "was missed with one request in flight",
                Class::Unstable => "was met only at times",
                Class::Undecided => "is undecided",
            };
            Some(format!("the latency target {} {outcome}", pursuit.target))
        });
        let precision = self.precision.as_ref().and_then(|precision| {
            let is_missed = !matches!(precision.ended, Ended::Reached | Ended::Early);
            is_missed.then(|| format!("{} was not reached", precision.requested))
        });
        target.or(precision).or_else(|| self.is_unsteady().then(|| "not steady".to_owned()))
    }

    /// Whether the run was to become steady and did not.
    pub fn is_unsteady(&self) -> bool {
        self.steady.as_ref().is_some_and(|steady| !steady.steadiness.is_steady)
    }
}

/// The verdict over all rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The kind of verdict.
    pub kind: Kind,
    /// As text: `no fault seen`, or the goal that was missed, or `medium confidence: …`;
    /// `limited by …`, `low confidence: …`, `failed: …`.
    pub words: String,
    /// How far the figures can be trusted.
    pub confidence: Confidence,
    /// Reason why confidence is not high; empty for high confidence.
    pub because: String,
    /// Whether a longer run would give higher confidence.
    #[serde(skip)]
    pub needs_time: bool,
    /// The findings behind it, most severe and strongest first; at most three.
    pub findings: Vec<ReportedFinding>,
    /// The missed expectations, as the text with which `words` begins.
    #[serde(skip)]
    pub missed: Option<String>,
}

impl Verdict {
    /// Lowers the confidence if not everything was measured completely.
    #[must_use]
    pub fn if_complete(self, complete: bool) -> Verdict {
        if complete || self.kind == Kind::Failing {
            return self;
        }
        let because = "not everything was measured completely".to_owned();
        Verdict { confidence: Confidence::Low, because, ..self }
    }

    /// Adds the missed expectations, which decide the exit code. Their text replaces "no fault
    /// seen" and precedes any other text.
    #[must_use]
    pub fn judged(self, judged: &[Judged]) -> Verdict {
        let mut each: Vec<String> = judged.iter().filter_map(Judged::missed).collect();
        each.dedup();
        if each.is_empty() {
            return self;
        }
        let missed = format!("expected {}", each.join(", and "));
        let words = match self.kind {
            Kind::NoFaultSeen => missed.clone(),
            _ => format!("{missed}; {}", self.words),
        };
        Verdict { words, missed: Some(missed), ..self }
    }
}

iosonde_model::words! {
    /// How far figures can be trusted, by how much the findings may have moved them.
    #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Confidence {
        /// Moved by no more than their intervals.
        High => "high",
        /// Moved by more, but less than a tenth; or a greater effect is only suspected.
        Medium => "medium",
        /// Moved by a tenth or more, or by an unknown amount.
        Low => "low",
    }
}

/// The four verdicts, best first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// No finding concerns the storage or the numbers.
    NoFaultSeen,
    /// The numbers are right, and something named limits them.
    LimitedBy,
    /// The numbers have low confidence.
    LowConfidence,
    /// Requests failed, or the measurement is inconsistent.
    Failing,
}

/// A finding, reported once for all rows in which it appears.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportedFinding {
    /// The most severe instance, then the strongest, then the one with the greatest effect.
    #[serde(flatten)]
    pub finding: Finding,
    /// Title of the row of this instance, which its words describe.
    pub row: String,
    /// Titles of the rows, in their order.
    pub rows: Vec<String>,
}

/// Evaluates the rows together.
pub fn verdict(rows: &[Assessment]) -> Verdict {
    let invalid: Vec<&str> =
        rows.iter().filter(|row| !row.consistency.valid()).map(|row| row.title.as_str()).collect();
    let nothing = rows.iter().all(|row| row.figures.all.total.ops == 0);
    let reported = gather(rows);
    let gravest = reported.first().map_or(Severity::Fact, |reported| reported.finding.severity);
    let kind = match gravest {
        _ if !invalid.is_empty() => Kind::Failing,
        Severity::Fault => Kind::Failing,
        _ if nothing => Kind::LowConfidence,
        Severity::LowConfidence => Kind::LowConfidence,
        Severity::Limit => Kind::LimitedBy,
        Severity::Warning | Severity::Fact => Kind::NoFaultSeen,
    };
    let lacking: Vec<_> = rows.iter().filter_map(without_interval).collect();
    let (confidence, because) = match (confidence(kind, &reported), lacking.first()) {
        ((found, _), Some((least, why))) if lacking.len() == rows.len() && found < *least => {
            (*least, why.clone())
        }
        (found, _) => found,
    };
    let needs_time = lacking.first().is_some_and(|(_, why)| *why == because);
    let subjects = subjects(&reported, gravest);
    let missed =
        rows.iter().find_map(Assessment::missed_goal).filter(|_| kind == Kind::NoFaultSeen);
    let words = match kind {
        Kind::NoFaultSeen if missed.is_some() => missed.unwrap_or_default(),
        // If something has moved the figures, "no fault seen" is only half of the result.
        Kind::NoFaultSeen if confidence != Confidence::High => {
            format!("{} confidence: {because}", confidence.word())
        }
        Kind::NoFaultSeen if rows.iter().any(|row| !row.complete) => {
            "no fault seen in what was measured".to_owned()
        }
        Kind::NoFaultSeen => "no fault seen".to_owned(),
        Kind::LimitedBy => format!("limited by {subjects}"),
        Kind::LowConfidence if nothing => "low confidence: nothing was measured".to_owned(),
        Kind::LowConfidence => format!("low confidence: {subjects}"),
        Kind::Failing if !invalid.is_empty() => {
            format!("failed: INVALID, consistency checks failed: {}", invalid.join(", "))
        }
        Kind::Failing => format!("failed: {subjects}"),
    };
    Verdict {
        kind,
        words,
        confidence,
        because,
        needs_time,
        findings: reported.into_iter().take(SHOWN).collect(),
        missed: None,
    }
}

/// Reason why a row's headline figure is not well known, and the highest confidence for the row.
/// The figure is the rate, or the mean latency of an open loop whose rate was sustained. Without an
/// interval, as in `check --quick`, its scatter decides. A run that was to become precise is judged
/// by that; one that was to become steady, by the operations of its rounds.
fn without_interval(row: &Assessment) -> Option<(Confidence, String)> {
    let total = &row.figures.all.total;
    if (1..FEWEST_OPS).contains(&total.ops) {
        return Some((Confidence::Low, format!("fewer than {FEWEST_OPS} operations")));
    }
    if let Some(steady) = &row.steady {
        let why = "too few operations in the steady rounds to know their rate to 10 %";
        return (steady.window_ops() < STEADY_OPS).then(|| (Confidence::Medium, why.into()));
    }
    if row.precision.is_some() {
        return None;
    }
    let is_short = row.figures.window_ns < SHORTEST_NS;
    let verdict = row.figures.arrivals.as_ref().map(|open| open.verdict);
    // If the backlog grows, no mean is known: the rate shows what the storage can do.
    let of_rate = matches!(verdict, None | Some(ArrivalVerdict::Unsustainable));
    let (known, scatter, of) = if of_rate {
        (total.iops_half_width(), total.iops_scatter, "rate")
    } else {
        (total.latency.mean_half_width(), total.latency.mean_scatter, "mean latency")
    };
    let is_wide = |share: &f64| *share >= finding::LOW_FROM;
    let why = match (known, scatter) {
        _ if is_short => format!("too short for an interval of the {of}"),
        (Some(share), _) if is_wide(&share) => {
            format!("the {of} is known to {} only", percent(share))
        }
        (None, Some(share)) if is_wide(&share) => {
            format!("too short to know the {of} to {}", percent(finding::LOW_FROM))
        }
        (None, None) if !of_rate => format!("the {of} is not known over time"),
        _ => return None,
    };
    Some((Confidence::Medium, why))
}

fn confidence(kind: Kind, reported: &[ReportedFinding]) -> (Confidence, String) {
    let of = |severity: Severity, moves: bool| -> Vec<ReportedFinding> {
        let own = reported.iter().filter(|each| each.finding.severity == severity);
        own.filter(|each| !moves || each.finding.effect.is_some()).cloned().collect()
    };
    let (low, medium) = (of(Severity::LowConfidence, false), of(Severity::Warning, true));
    match kind {
        Kind::Failing => (Confidence::Low, "the figures cannot be used as they are".into()),
        Kind::LowConfidence if low.is_empty() => (Confidence::Low, "nothing was measured".into()),
        Kind::LowConfidence => (Confidence::Low, subjects(&low, Severity::LowConfidence)),
        _ if medium.is_empty() => (Confidence::High, String::new()),
        _ => (Confidence::Medium, subjects(&medium, Severity::Warning)),
    }
}

/// The distinct subjects of the findings of one severity.
fn subjects(reported: &[ReportedFinding], severity: Severity) -> String {
    let own = reported.iter().map(|each| &each.finding).filter(|each| each.severity == severity);
    let subjects = own.take(SHOWN).map(|finding| match finding.strength {
        Strength::ConsistentWith => format!("{} (suspected)", finding.subject),
        _ => finding.subject.clone(),
    });
    distinct(subjects).join("; ")
}

/// Findings of all rows from warnings up, one per code: the most severe first, then the strongest,
/// then those of most rows.
fn gather(rows: &[Assessment]) -> Vec<ReportedFinding> {
    let found = rows.iter().flat_map(|row| row.findings.iter().map(move |each| (each, &row.title)));
    let severe = found.filter(|(finding, _)| finding.severity > Severity::Fact);
    let by_code = grouped(severe.map(|(finding, row)| (finding.code, (finding, row))));
    let reported = by_code.into_iter().filter_map(|(_, found)| {
        let rows = found.iter().map(|(_, row)| (*row).clone()).collect();
        let gravest = found.into_iter().reduce(|most, next| match next.0.outranks(most.0) {
            true => next,
            false => most,
        });
        let (finding, row) = gravest?;
        Some(ReportedFinding { finding: finding.clone(), row: row.clone(), rows })
    });
    let mut all: Vec<ReportedFinding> = reported.collect();
    all.sort_by_key(|reported| {
        std::cmp::Reverse((
            reported.finding.severity,
            reported.finding.strength,
            reported.rows.len(),
        ))
    });
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::expectation::{Expectation, judge_all};
    use iosonde_fixtures::{Load, open_run_of, run_of};
    use iosonde_model::record::facts::{IoLimit, IoLimitKind};
    use iosonde_stats::dependent::NoInterval;

    fn row(title: &str, spoil: impl Fn(&mut Run)) -> Assessment {
        let mut run = run_of(&[Load::default()]);
        run.plan.title = title.into();
        spoil(&mut run);
        assess(&run, None)
    }

    #[test]
    fn healthy_rows_have_no_fault() {
        let verdict = verdict(&[row("Cache", |_| {}), row("Database", |_| {})]);
        assert_eq!((verdict.kind, verdict.words.as_str()), (Kind::NoFaultSeen, "no fault seen"));
        assert!(verdict.findings.is_empty());
    }

    #[test]
    fn a_window_in_which_nothing_completed_shows_no_health() {
        let stalled = |run: &mut Run| {
            for job in &mut run.jobs {
                (job.read, job.write) = Default::default();
            }
        };
        let alone = verdict(&[row("Cache", stalled)]);
        assert_eq!((alone.kind, alone.words.as_str()), (Kind::LowConfidence, NOTHING));
        let beside = verdict(&[row("Cache", stalled), row("Database", |_| {})]);
        assert_eq!(beside.words, "no fault seen in what was measured");
        assert_eq!(verdict(&[]).words, NOTHING);
    }

    #[test]
    fn a_headline_figure_without_an_interval_has_medium_confidence() {
        let of = |row: Assessment| {
            let verdict = verdict(&[row]);
            (verdict.confidence, verdict.because)
        };
        let mut closed = row("Cache", |_| {});
        closed.figures.all.total.iops_interval = Some(Err(NoInterval::RunLonger));
        closed.figures.all.total.iops_scatter = Some(0.09);
        assert_eq!(of(closed.clone()), (Confidence::High, String::new()));
        closed.figures.all.total.iops_scatter = Some(f64::INFINITY);
        let words = "too short to know the rate to 10.0 %";
        assert_eq!(of(closed.clone()), (Confidence::Medium, words.to_owned()));
        closed.figures.window_ns = SHORTEST_NS - 1;
        let words = "too short for an interval of the rate";
        assert_eq!(of(closed), (Confidence::Medium, words.to_owned()));
        let mut few = row("Cache", |_| {});
        few.figures.all.total.ops = FEWEST_OPS - 1;
        assert_eq!(of(few), (Confidence::Low, "fewer than 30 operations".to_owned()));
        let mut wide = row("Cache", |_| {});
        let iops = wide.figures.all.total.iops;
        wide.figures.all.total.iops_interval = Some(Ok((0.4 * iops, 1.6 * iops)));
        assert_eq!(of(wide), (Confidence::Medium, "the rate is known to 60.0 % only".to_owned()));
        let mut open = assess(&open_run_of(&Load::default(), |_| 0), None);
        open.figures.all.total.iops_interval = Some(Err(NoInterval::RunLonger));
        assert_eq!(of(open.clone()).0, Confidence::High, "the rate was requested");
        let mut wide = open.clone();
        let mean_ns = wide.figures.all.total.latency.mean_ns.unwrap();
        let interval = (0.8 * mean_ns, 1.6 * mean_ns);
        wide.figures.all.total.latency.mean_interval_ns = Ok(interval);
        let words = "the mean latency is known to 40.0 % only";
        assert_eq!(of(wide), (Confidence::Medium, words.to_owned()));
        let latency = &mut open.figures.all.total.latency;
        // The median may be known nevertheless.
        latency.mean_interval_ns = Err(NoInterval::RunLonger);
        latency.mean_scatter = Some(0.4);
        let words = "too short to know the mean latency to 10.0 %";
        assert_eq!(of(open), (Confidence::Medium, words.to_owned()));
    }

    const NOTHING: &str = "low confidence: nothing was measured";

    #[test]
    fn a_warning_is_reported_and_does_not_change_the_verdict() {
        let verdict = verdict(&[row("Cache", |run| run.plan.nominal_read_percent = 80)]);
        assert_eq!(verdict.kind, Kind::NoFaultSeen);
        assert_eq!(verdict.findings[0].finding.code, "mix_off");
    }

    #[test]
    fn a_limit_in_two_rows_is_reported_once() {
        let limit = |run: &mut Run| {
            let kind = IoLimitKind::ReadIops;
            let limit = IoLimit { source: "/job/io.max".into(), kind, per_second: 5_000 };
            run.target.io_limits = vec![limit];
        };
        let verdict = verdict(&[row("Cache", limit), row("Training", limit)]);
        assert_eq!(verdict.words, "limited by the cgroup I/O limit of 5,000 reads per second");
        assert_eq!(verdict.findings.len(), 1);
        assert_eq!(verdict.findings[0].rows, ["Cache", "Training"]);
    }

    #[test]
    fn a_finding_of_several_rows_has_the_figures_of_the_worst_and_names_it() {
        let deeper = |depth| move |run: &mut Run| run.plan.jobs[0].iodepth = depth;
        let rows = [row("Cache", deeper(80)), row("Training", deeper(320))];
        let reported = &verdict(&rows).findings[0];
        assert!(reported.finding.words.starts_with("Requested depth 320,"), "{reported:?}");
        assert_eq!((reported.row.as_str(), reported.rows.len()), ("Training", 2));
    }

    #[test]
    fn what_was_missed_takes_the_place_of_health() {
        let judged = |text: &str| {
            let (run, row) = (run_of(&[Load::default()]), row("Cache", |_| {}));
            judge_all(&[Expectation::parse(text, &[]).unwrap()], &[(&run, &row)])
        };
        let rows = [row("Cache", |_| {})];
        let words = |text: &str| verdict(&rows).judged(&judged(text)).words;
        assert_eq!(words("iops>=1M"), "expected iops>=1M, which was missed");
        assert_eq!(words("iops>=1"), "no fault seen");
        let near = format!("iops>={}", rows[0].figures.all.total.iops as u64 + 1);
        let expected =
            format!("expected {near}, which was missed by less than the interval of the figure");
        assert_eq!(words(&near), expected);
        let slow = verdict(&[row("Cache", |run| run.target.direct = false)]);
        let words = slow.judged(&judged("iops>=1M")).words;
        assert_eq!(words, "expected iops>=1M, which was missed; low confidence: page cache");
    }

    #[test]
    fn the_most_severe_comes_first_and_three_at_most() {
        let bad = |run: &mut Run| {
            run.target.direct = false;
            run.target.unwritten_bytes = Some(1 << 30);
            run.plan.nominal_read_percent = 50;
            run.jobs[0].errors.insert("read EIO".into(), 1);
        };
        let verdict = verdict(&[row("Cache", bad)]);
        assert_eq!(verdict.words, "failed: I/O errors");
        assert_eq!(verdict.findings.len(), 3);
        assert_eq!(verdict.findings[0].finding.code, "errors");
    }

    #[test]
    fn weak_evidence_is_worded_as_suspicion() {
        let verdict = verdict(&[row("Cache", |run| run.target.cached_samples = Some((60, 64)))]);
        assert_eq!(verdict.words, "low confidence: reads served from memory (suspected)");
    }

    #[test]
    fn an_invalid_row_comes_before_everything() {
        let verdict = verdict(&[row("Cache", |run| run.jobs[0].read.bytes += 1)]);
        assert_eq!(verdict.words, "failed: INVALID, consistency checks failed: Cache");
        assert!(verdict.findings.is_empty());
    }

    #[test]
    fn nothing_measured_is_not_health() {
        assert_eq!(verdict(&[]).kind, Kind::LowConfidence);
    }
}
