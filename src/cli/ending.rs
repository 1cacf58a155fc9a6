//! The exit code of a result.

use super::exit::Exit;
use iosonde_analysis::Assessment;
use iosonde_analysis::arrivals::ArrivalVerdict;
use iosonde_analysis::expectation::Judgement;
use iosonde_analysis::precision::{Ended, PrecisionFigures};
use iosonde_analysis::pursuit::{Class, PursuitFigures};
use iosonde_analysis::steady::SteadyFigures;
use iosonde_model::record::Run;
use iosonde_model::record::run::Outcome;

fn unsustainable(row: &Assessment) -> bool {
    let open = row.figures.arrivals.as_ref();
    open.is_some_and(|open| open.verdict == ArrivalVerdict::Unsustainable)
}

fn is_corrupt(run: &Run) -> bool {
    run.jobs.iter().any(|job| job.errors.contains_key("read EILSEQ"))
}

/// The exit code of one run.
pub(crate) fn end_of(run: &Run, row: &Assessment) -> Exit {
    let outcome = match &run.outcome {
        // Whatever ended the run: what was read is not what was written.
        _ if is_corrupt(run) => Exit::Corrupt,
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

/// The exit code of a precision: other ends of the run have their own.
fn end_of_precision(figures: &PrecisionFigures) -> Exit {
    match figures.ended {
        Ended::Reached | Ended::Early => Exit::Done,
        Ended::TimeLimit | Ended::ByteLimit | Ended::Unsustainable => Exit::Inconclusive,
    }
}

/// The exit code of rounds: other ends of the run have their own.
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
pub(crate) fn end_of_expectation(judgement: &Judgement) -> Exit {
    match judgement {
        Judgement::Met { .. } => Exit::Done,
        Judgement::Missed { .. } => Exit::Missed,
        Judgement::Unknown { .. } => Exit::Inconclusive,
    }
}
