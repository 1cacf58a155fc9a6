//! The end of a measuring command: its exit code, its output and its stored result.

use super::exit::Exit;
use super::keep::Keeper;
use super::output::Output;
use super::outputs::Outputs;
use super::progress::Progress;
use iosonde_analysis::arrivals::ArrivalVerdict;
use iosonde_analysis::cross_check::CrossCheck;
use iosonde_analysis::expectation::{self, Expectation, Judged, judge_all};
use iosonde_analysis::precision::{Ended, PrecisionFigures};
use iosonde_analysis::pursuit::{Class, PursuitFigures};
use iosonde_analysis::steady::SteadyFigures;
use iosonde_analysis::verdict::{Assessment, Verdict, verdict};
use iosonde_model::record::run::Outcome;
use iosonde_model::record::{HostFacts, Run};
use iosonde_report::Answer;
use iosonde_report::json::{Document, WrittenOptions};

/// Runs with their assessments.
pub(crate) type Cells<'a> = [(&'a Run, &'a Assessment)];

/// Verdict, judged expectations and exit code of runs.
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    pub(crate) judged: Vec<Judged>,
    /// Whether no run is missing and each is complete.
    pub(crate) complete: bool,
    pub(crate) exit: Exit,
}

impl Judgement {
    /// Judges the runs; `all` means that none is missing.
    pub(crate) fn of(
        rows: &[Assessment],
        cells: &Cells<'_>,
        expectations: &[Expectation],
        all: bool,
    ) -> Judgement {
        let complete = all && rows.iter().all(|row| row.complete);
        let judged = judge_all(expectations, cells);
        let of_runs = cells.iter().map(|(run, row)| end_of(run, row));
        let exit = of_runs.chain(judged.iter().map(end_of_expectation));
        let exit = exit.fold(Exit::Done, Exit::or_graver);
        let verdict = verdict(rows).judged(&judged).if_complete(complete);
        Judgement { verdict, judged, complete, exit }
    }
}

/// Runs that have ended and are stored, with the facts of their command.
pub(crate) struct Ending<'a> {
    pub(crate) verb: &'static str,
    pub(crate) host: &'a HostFacts,
    pub(crate) rows: &'a [Assessment],
    pub(crate) cells: &'a Cells<'a>,
    pub(crate) cross_checks: &'a [CrossCheck],
    pub(crate) written: Option<&'a WrittenOptions>,
    pub(crate) expectations: &'a [Expectation],
    /// What the runs are compared with, in words.
    pub(crate) beside: Option<String>,
    /// Whether no run is missing.
    pub(crate) all: bool,
    /// Exit code apart from the runs; the more severe one counts.
    pub(crate) exit: Exit,
}

impl Ending<'_> {
    /// Judges and prints the runs, completes the stored result, and returns the exit code. `text`
    /// gets the answer, the judgement, and whether all runs are complete.
    pub(crate) fn conclude(
        &self,
        (mut output, outputs, mut progress): (Output, Outputs, Progress),
        keeper: Keeper,
        text: impl FnOnce(Answer, &Judgement, bool) -> String,
    ) -> Exit {
        let Ending { verb, host, rows, cells, cross_checks, written, .. } = *self;
        let judgement = Judgement::of(rows, cells, self.expectations, self.all);
        let mut exit = self.exit.or_graver(judgement.exit);
        let verdict = &judgement.verdict;
        let complete = judgement.complete;
        let answer = Answer::of_runs(cells, complete, verdict, self.beside.as_deref());
        output.text(&text(answer, &judgement, complete));
        let mut document = Document {
            verb,
            complete,
            exit_code: exit.code(),
            cells,
            verdict: Some(verdict),
            expectations: &judgement.judged,
            cross_checks,
            host: Some(host),
            target: cells.first().map(|(run, _)| &run.target),
            written,
            ..Document::default()
        };
        if !(outputs.write(&document) & progress.end(&document)) {
            exit = exit.or_graver(Exit::Environment);
            document.exit_code = exit.code();
        }
        output.document(&document);
        let exit = output.end(exit);
        keeper.finish(complete, exit.code(), &verdict.words);
        exit
    }
}

fn unsustainable(row: &Assessment) -> bool {
    let open = row.figures.arrivals.as_ref();
    open.is_some_and(|open| open.verdict == ArrivalVerdict::Unsustainable)
}

/// The exit code of one run.
fn end_of(run: &Run, row: &Assessment) -> Exit {
    let outcome = match &run.outcome {
        // Whatever ended the run: data read differs from data written.
        _ if run.jobs.iter().any(|job| job.errors.contains_key("read EILSEQ")) => Exit::Corrupt,
        Outcome::Failed { .. } => Exit::Environment,
        Outcome::Interrupted { signal } => Exit::Signal(*signal),
        Outcome::Complete if run.jobs.iter().any(|job| !job.errors.is_empty()) => Exit::Environment,
        Outcome::Complete if row.figures.all.total.ops == 0 => Exit::Inconclusive,
        // A rate is a declared expectation.
        Outcome::Complete if unsustainable(row) => Exit::Missed,
        Outcome::Complete => Exit::Done,
    };
    let outcome = outcome.or_graver(row.pursuit.as_ref().map_or(Exit::Done, end_of_pursuit));
    let outcome = outcome.or_graver(row.precision.as_ref().map_or(Exit::Done, end_of_precision));
    let outcome = outcome.or_graver(row.steady.as_ref().map_or(Exit::Done, end_of_rounds));
    if row.consistency.valid() { outcome } else { outcome.or_graver(Exit::Invalid) }
}

/// The exit code of a precision target; other reasons for the end have their own.
fn end_of_precision(figures: &PrecisionFigures) -> Exit {
    match figures.ended {
        Ended::Reached | Ended::Early => Exit::Done,
        Ended::TimeLimit | Ended::ByteLimit | Ended::Unsustainable => Exit::Inconclusive,
    }
}

/// The exit code of rounds; other reasons for the end have their own.
fn end_of_rounds(figures: &SteadyFigures) -> Exit {
    if figures.steadiness.is_steady || figures.ended_early { Exit::Done } else { Exit::Missed }
}

/// The exit code of a latency target.
fn end_of_pursuit(figures: &PursuitFigures) -> Exit {
    match figures.class {
        Class::MetAndBinding | Class::MetNotBinding => Exit::Done,
        Class::Infeasible | Class::Unstable => Exit::Missed,
        Class::Undecided => Exit::Inconclusive,
    }
}

/// The exit code of one expectation.
fn end_of_expectation(judged: &Judged) -> Exit {
    match judged.judgement {
        expectation::Judgement::Met { .. } => Exit::Done,
        expectation::Judgement::Missed { .. } => Exit::Missed,
        expectation::Judgement::Unknown { .. } => Exit::Inconclusive,
    }
}
