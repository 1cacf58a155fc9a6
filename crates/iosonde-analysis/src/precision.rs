//! Whether the requested precision was reached when the run ended.

use serde::Serialize;

use super::arrivals::{ArrivalFigures, ArrivalVerdict};
use iosonde_model::plan::{Precision, PrecisionGoal, Stop};
use iosonde_model::record::run::{Outcome, Run};

/// The precision of the figure that ends a run (`--until`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PrecisionFigures {
    /// What ended the run.
    pub ended: Ended,
    /// The requested precision.
    #[serde(flatten)]
    #[serde(rename = "asked")]
    pub requested: Precision,
    /// The figure at the last check: operations or bytes per second, or ns.
    pub value: Option<f64>,
    /// Half-width of its 95 % interval at that check, as a share of the figure.
    pub half_width: Option<f64>,
    /// Number of intervals on which the figure is based.
    pub intervals: u32,
    /// Time of that check, ns since the start of measurement.
    pub at_ns: u64,
    /// Length of the window, ns.
    pub measured_ns: u64,
    /// Longest allowed window, ns.
    pub most_ns: u64,
    /// Largest number of bytes that each job could have submitted.
    pub most_bytes: Option<u64>,
    /// Number of checks.
    pub looks: u64,
}

/// What ended a run that continues until a figure is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The precision was reached.
    Reached,
    /// The time limit was reached.
    TimeLimit,
    /// The byte limit was reached.
    ByteLimit,
    /// The backlog of an open loop grows, so there is no stable figure.
    Unsustainable,
    /// A signal, or an error.
    Early,
}

/// The precision of a run that continues until a figure is known; `None` for other runs.
pub fn precision(run: &Run, arrivals: Option<&ArrivalFigures>) -> Option<PrecisionFigures> {
    let PrecisionGoal::Known { precision: requested, .. } = run.plan.until else { return None };
    let record = run.precision.as_ref()?;
    let last = record.looks.last();
    let (most_ns, most_bytes) = match run.plan.stop {
        Stop::AfterNsOrBytes(ns, bytes) => (ns, Some(bytes)),
        stop => (stop.length_ns().unwrap_or(0), None),
    };
    let grows = arrivals.is_some_and(|open| open.verdict == ArrivalVerdict::Unsustainable);
    let ended = match run.outcome {
        _ if grows => Ended::Unsustainable,
        Outcome::Failed { .. } | Outcome::Interrupted { .. } => Ended::Early,
        Outcome::Complete if record.reached => Ended::Reached,
        Outcome::Complete if most_bytes.is_some() && run.measured_ns < most_ns => Ended::ByteLimit,
        Outcome::Complete => Ended::TimeLimit,
    };
    Some(PrecisionFigures {
        ended,
        requested,
        value: last.and_then(|look| look.value),
        half_width: last.and_then(|look| look.half_width),
        intervals: last.map_or(0, |look| look.intervals),
        at_ns: last.map_or(0, |look| look.at_ns),
        measured_ns: run.measured_ns,
        most_ns,
        most_bytes,
        looks: record.looks.len() as u64 + record.unlisted,
    })
}
