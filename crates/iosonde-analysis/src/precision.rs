//! Was a figure known well enough when the run ended?

use serde::Serialize;

use super::arrivals::{ArrivalFigures, ArrivalVerdict};
use iosonde_model::plan::{Precision, PrecisionGoal, Stop};
use iosonde_model::record::run::{Outcome, Run};

/// How well the figure was known that decides when a run ends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PrecisionFigures {
    /// What ended the run.
    pub ended: Ended,
    /// What was asked.
    #[serde(flatten)]
    pub asked: Precision,
    /// The figure at the last look: operations or bytes per second, or ns.
    pub value: Option<f64>,
    /// Half the width of its 95 % interval at that look, as a share of it.
    pub half_width: Option<f64>,
    /// Intervals that it rests on.
    pub intervals: u32,
    /// When that look was, ns from the opening of the window.
    pub at_ns: u64,
    /// Length of the window, ns.
    pub measured_ns: u64,
    /// The longest it could have been, ns.
    pub most_ns: u64,
    /// The most that each job could have handed over, bytes.
    pub most_bytes: Option<u64>,
    /// How many looks there were.
    pub looks: u64,
}

/// What ended a run that goes on until a figure is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It was known well enough.
    Reached,
    /// The longest time was over.
    TimeLimit,
    /// The most that may be handed over was.
    ByteLimit,
    /// The backlog of an open loop grows, so that there is nothing to be known.
    Unsustainable,
    /// A signal, or an error.
    Early,
}

/// The figures of a run that goes on until a figure is known.
pub fn precision(run: &Run, arrivals: Option<&ArrivalFigures>) -> Option<PrecisionFigures> {
    let PrecisionGoal::Known { precision: asked, .. } = run.plan.until else { return None };
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
        asked,
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
