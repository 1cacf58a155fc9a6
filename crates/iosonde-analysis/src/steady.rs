//! Whether a run that continues until its rate is steady (`--steady`) became steady, and its
//! figures in the rounds of the window. The rule is that of stages in rounds.

use serde::Serialize;

use super::arrivals::{ArrivalFigures, ArrivalVerdict};
use super::experiment::rounds::Tracked;
use super::experiment::{Answer, Measure, Steadiness};
use super::intervals;
use iosonde_model::plan::PrecisionGoal;
use iosonde_model::record::run::{Outcome, Run};
use iosonde_model::spec::experiment::Rounds;
use iosonde_stats::{Histogram, Quantile};

/// The rounds of a run, and their verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SteadyFigures {
    /// The verdict as text.
    pub verdict: String,
    /// Whether a signal or an error ended the run before there was a verdict.
    pub ended_early: bool,
    /// Length of a round, ns.
    pub round_ns: u64,
    pub limits: Rounds,
    /// The rounds.
    #[serde(flatten)]
    pub steadiness: Steadiness,
    /// Figures of the window; `None` without one.
    pub in_window: Option<InWindow>,
    /// Each figure against its limits, in sentences.
    pub sentences: Vec<String>,
}

/// Figures of the rounds of the window alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InWindow {
    /// Operations per second, as counted at the ends of the rounds.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Median latency of all data operations, ns; `None` if too few of them completed, or if the
    /// backlog of an open loop grows.
    pub p50_ns: Option<u64>,
    /// The 99th percentile, ns, likewise.
    pub p99_ns: Option<u64>,
}

impl SteadyFigures {
    /// Operations in the rounds of the window; 0 without one.
    pub fn window_ops(&self) -> f64 {
        let seconds = f64::from(self.steadiness.window_rounds) * self.round_ns as f64 / 1e9;
        self.in_window.as_ref().map_or(0.0, |window| window.iops * seconds)
    }
}

/// Judges the rounds of a run; `None` if it does not continue until it is steady.
pub fn steady(run: &Run, arrivals: Option<&ArrivalFigures>) -> Option<SteadyFigures> {
    let PrecisionGoal::Steady { round_ns, max, window, range_percent, slope_percent } =
        run.plan.until
    else {
        return None;
    };
    let record = run.precision.as_ref()?;
    let limits =
        Rounds { max, window, range_percent, slope_percent, ..Rounds::of_the_specification() };
    let values: Vec<Option<f64>> = record.looks.iter().map(|look| look.value).collect();
    let rounds = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let rate = Tracked {
        cell: 0,
        name: run.plan.title.clone(),
        measure: Measure::Iops,
        values,
        window: None,
        is_steady: false,
    };
    let steadiness = Steadiness::judged(&limits, rounds, 0, vec![rate]);
    let mut answer = Answer::default();
    steadiness.say_all_tracked(&mut answer, &limits);
    let mut in_window = in_window(run, &steadiness, round_ns);
    if arrivals.is_some_and(|open| open.verdict == ArrivalVerdict::Unsustainable) {
        in_window = in_window.map(|window| InWindow { p50_ns: None, p99_ns: None, ..window });
    }
    Some(SteadyFigures {
        verdict: steadiness.verdict(),
        ended_early: run.outcome != Outcome::Complete && !steadiness.is_steady,
        round_ns,
        in_window,
        limits,
        steadiness,
        sentences: answer.sentences,
    })
}

/// Figures from the counters and histograms of the intervals in the window.
fn in_window(run: &Run, steadiness: &Steadiness, round_ns: u64) -> Option<InWindow> {
    let iops = steadiness.tracked.first()?.window?.mean;
    let from_ns = u64::from(steadiness.window_start?) * round_ns;
    let to_ns = from_ns + u64::from(steadiness.window_rounds) * round_ns;
    let jobs = intervals::all_jobs(run);
    let [of_data @ .., _] = &intervals::DIRECTIONS;
    let (mut latency, mut ops, mut bytes) = (Histogram::new(), 0, 0);
    let width_ns = intervals::common_width_ns(&jobs, 1);
    for (each, own) in intervals::over_time(&jobs, of_data, run.measured_ns, width_ns) {
        if each.start_ns >= from_ns && each.end_ns <= to_ns {
            latency.merge(&own);
            ops += each.ops;
            bytes += each.bytes;
        }
    }
    let quantile = |q| Quantile::of(&latency, q).value_ns();
    let mean_bytes = if ops > 0 { bytes as f64 / ops as f64 } else { 0.0 };
    let (p50_ns, p99_ns) = (quantile(0.5), quantile(0.99));
    Some(InWindow { iops, bytes_per_s: iops * mean_bytes, p50_ns, p99_ns })
}
