//! One verdict in words over the rows of a check.

use serde::Serialize;

use iosonde_model::record::HostFacts;
use iosonde_model::record::run::{Outcome, Run};

use super::books::{self, Books};
use super::figures::{self, Figures};
use super::finding::{self, Finding, Gravity, Strength};
use super::precision::{self, PrecisionFigures};
use super::pursuit::{self, PursuitFigures};

/// At most so many findings stand under a table.
const SHOWN: usize = 3;

/// A run with everything that is derived from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assessment {
    /// Title of the row.
    pub title: String,
    /// Whether the run ended as planned, and anything was completed in its window.
    pub complete: bool,
    /// The figures.
    pub figures: Figures,
    /// What came of the latency target, where there is one.
    pub pursuit: Option<PursuitFigures>,
    /// How well the figure was known that decides when the run ends, where there is one.
    pub precision: Option<PrecisionFigures>,
    /// The books.
    pub books: Books,
    /// The findings, gravest and strongest first.
    pub findings: Vec<Finding>,
}

/// Derives figures, books and findings of one run.
pub fn assess(run: &Run, host: Option<&HostFacts>) -> Assessment {
    let figures = figures::figures(run);
    let books = books::books(run, &figures);
    let findings = finding::findings(run, host, &figures, &books);
    Assessment {
        title: run.plan.title.clone(),
        complete: run.outcome == Outcome::Complete && figures.all.total.ops > 0,
        pursuit: pursuit::pursuit(run),
        precision: precision::precision(run, figures.arrivals.as_ref()),
        figures,
        books,
        findings,
    }
}

/// The verdict over all rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Which of the four.
    pub kind: Kind,
    /// In words: `no fault seen`, `limited by …`, `doubtful: …`, `failing: …`.
    pub words: String,
    /// What it rests on, gravest and strongest first; at most three.
    pub findings: Vec<Told>,
}

/// The four verdicts, best first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing speaks against the storage or the numbers.
    NoFaultSeen,
    /// The numbers are right, and something named limits them.
    LimitedBy,
    /// The numbers do not mean what they seem to.
    Doubtful,
    /// Requests fail, or the measurement contradicts itself.
    Failing,
}

/// A finding, told once for all rows in which it appears.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// The strongest instance.
    #[serde(flatten)]
    pub finding: Finding,
    /// Titles of the rows, in their order.
    pub rows: Vec<String>,
}

/// Judges the rows together.
pub fn verdict(rows: &[Assessment]) -> Verdict {
    let invalid: Vec<&str> =
        rows.iter().filter(|row| !row.books.valid()).map(|row| row.title.as_str()).collect();
    let nothing = rows.iter().all(|row| row.figures.all.total.ops == 0);
    let told = gather(rows);
    let gravest = told.first().map_or(Gravity::Fact, |told| told.finding.gravity);
    let kind = match gravest {
        _ if !invalid.is_empty() => Kind::Failing,
        Gravity::Fault => Kind::Failing,
        _ if nothing => Kind::Doubtful,
        Gravity::Doubt => Kind::Doubtful,
        Gravity::Limit => Kind::LimitedBy,
        Gravity::Caution | Gravity::Fact => Kind::NoFaultSeen,
    };
    let subjects = subjects(&told, gravest);
    let words = match kind {
        Kind::NoFaultSeen if rows.iter().any(|row| !row.complete) => {
            "no fault seen in what was measured".to_owned()
        }
        Kind::NoFaultSeen => "no fault seen".to_owned(),
        Kind::LimitedBy => format!("limited by {subjects}"),
        Kind::Doubtful if nothing => "doubtful: nothing was measured".to_owned(),
        Kind::Doubtful => format!("doubtful: {subjects}"),
        Kind::Failing if !invalid.is_empty() => {
            format!("failing: INVALID, the books of {} do not balance", invalid.join(", "))
        }
        Kind::Failing => format!("failing: {subjects}"),
    };
    Verdict { kind, words, findings: told.into_iter().take(SHOWN).collect() }
}

/// The subjects of all findings of one gravity, each once.
fn subjects(told: &[Told], gravity: Gravity) -> String {
    let mut subjects: Vec<String> = Vec::new();
    for told in told.iter().filter(|told| told.finding.gravity == gravity).take(SHOWN) {
        let suspected = told.finding.strength == Strength::ConsistentWith;
        let suffix = if suspected { " (suspected)" } else { "" };
        let subject = format!("{}{suffix}", told.finding.subject);
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    subjects.join("; ")
}

/// Findings of all rows from cautions up, one per code, gravest, then strongest, then widest first.
fn gather(rows: &[Assessment]) -> Vec<Told> {
    let mut all: Vec<Told> = Vec::new();
    for row in rows {
        for finding in row.findings.iter().filter(|finding| finding.gravity > Gravity::Fact) {
            let rank = |finding: &Finding| (finding.gravity, finding.strength);
            match all.iter_mut().find(|told| told.finding.code == finding.code) {
                Some(told) => {
                    told.rows.push(row.title.clone());
                    if rank(finding) > rank(&told.finding) {
                        told.finding = finding.clone();
                    }
                }
                None => {
                    all.push(Told { finding: finding.clone(), rows: vec![row.title.clone()] });
                }
            }
        }
    }
    all.sort_by_key(|told| {
        std::cmp::Reverse((told.finding.gravity, told.finding.strength, told.rows.len()))
    });
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::{IoLimit, IoLimitKind};

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
        assert_eq!((alone.kind, alone.words.as_str()), (Kind::Doubtful, NOTHING));
        let beside = verdict(&[row("Cache", stalled), row("Database", |_| {})]);
        assert_eq!(beside.words, "no fault seen in what was measured");
        assert_eq!(verdict(&[]).words, NOTHING);
    }

    const NOTHING: &str = "doubtful: nothing was measured";

    #[test]
    fn a_caution_is_told_and_does_not_change_the_verdict() {
        let verdict = verdict(&[row("Cache", |run| run.plan.nominal_read_percent = 80)]);
        assert_eq!(verdict.kind, Kind::NoFaultSeen);
        assert_eq!(verdict.findings[0].finding.code, "mix_off");
    }

    #[test]
    fn a_limit_in_two_rows_is_told_once() {
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
    fn the_gravest_comes_first_and_three_at_most() {
        let bad = |run: &mut Run| {
            run.target.direct = false;
            run.target.unwritten_bytes = Some(1 << 30);
            run.plan.nominal_read_percent = 50;
            run.jobs[0].errors.insert("read EIO".into(), 1);
        };
        let verdict = verdict(&[row("Cache", bad)]);
        assert_eq!(verdict.words, "failing: I/O errors");
        assert_eq!(verdict.findings.len(), 3);
        assert_eq!(verdict.findings[0].finding.code, "errors");
    }

    #[test]
    fn weak_evidence_is_worded_as_suspicion() {
        let verdict = verdict(&[row("Cache", |run| run.target.cached_samples = Some((60, 64)))]);
        assert_eq!(verdict.words, "doubtful: reads answered from memory (suspected)");
    }

    #[test]
    fn an_invalid_row_comes_before_everything() {
        let verdict = verdict(&[row("Cache", |run| run.jobs[0].read.bytes += 1)]);
        assert_eq!(verdict.words, "failing: INVALID, the books of Cache do not balance");
        assert!(verdict.findings.is_empty());
    }

    #[test]
    fn nothing_measured_is_not_health() {
        assert_eq!(verdict(&[]).kind, Kind::Doubtful);
    }
}
