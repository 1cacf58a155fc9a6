//! Whether the storage kept up with an offered load, as far as the runs of a point show it.

use super::{Point, StageFacts, TrialFigures};
use crate::arrivals::{ArrivalFigures, ArrivalVerdict, RATE_WITHIN};

/// Outcome of the runs of an open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The requested rate was completed, and the backlog did not grow.
    Carried,
    /// The backlog grew in at least one run.
    Grows,
    /// All runs together completed less than requested: operations per second completed.
    Short(f64),
    /// The backlog was still building up, so it is not known whether it would have stopped.
    BuildingUp,
    /// Not valid: the generator was the limit or off its schedule, or a run is not an open loop.
    Late,
}

impl Outcome {
    /// Whether the load was carried; `None` if the runs do not show it.
    pub(super) fn carried(self) -> Option<bool> {
        match self {
            Outcome::Carried => Some(true),
            Outcome::Grows | Outcome::Short(_) => Some(false),
            Outcome::BuildingUp | Outcome::Late => None,
        }
    }
}

/// Whether the storage kept up with every open loop of a point.
pub(super) fn outcome(facts: &StageFacts, point: &Point) -> Outcome {
    let runs: Option<Vec<&ArrivalFigures>> =
        point.runs.iter().map(|figures| figures.arrivals.as_ref()).collect();
    let Some(runs) = runs.filter(|runs| !runs.is_empty()) else { return Outcome::Late };
    let any = |verdict| runs.iter().any(|run| run.verdict == verdict);
    if any(ArrivalVerdict::ClientBound) {
        return Outcome::Late;
    }
    if any(ArrivalVerdict::Unsustainable) {
        return Outcome::Grows;
    }
    if let Some(done) = short(&runs) {
        return Outcome::Short(done);
    }
    if any(ArrivalVerdict::OffSchedule) {
        return Outcome::Late;
    }
    let began_empty =
        |trial: &&TrialFigures| trial.findings.iter().any(|finding| finding.code == "began_empty");
    match facts.of_cell(point.cell).iter().any(began_empty) {
        true => Outcome::BuildingUp,
        false => Outcome::Carried,
    }
}

/// Operations per second completed, if below the requested rate and below the number that came due
/// by more than chance: three standard errors of the number of random arrivals in all runs.
fn short(runs: &[&ArrivalFigures]) -> Option<f64> {
    let n = runs.len() as f64;
    let requested = runs.iter().map(|run| run.asked_per_s).sum::<Option<f64>>()? / n;
    let done = runs.iter().map(|run| run.achieved_per_s).sum::<f64>() / n;
    let due = runs.iter().map(|run| run.due).sum::<u64>().max(1) as f64;
    let completed = runs.iter().map(|run| run.completed).sum::<u64>() as f64;
    let within = RATE_WITHIN.max(3.0 / due.sqrt());
    let is_short = done < requested * (1.0 - RATE_WITHIN) && completed < due * (1.0 - within);
    is_short.then_some(done)
}
