//! `client_lag`: operations of an open loop were submitted late although slots were free.

use crate::arrivals::ArrivalVerdict;
use crate::series;
use iosonde_model::units::duration;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "client_lag",
    meaning: "Operations were submitted late although slots were free.",
    method: "due times of an open loop, compared with submission times",
    action: "Repeat on an idle machine, or at a lower rate per job.",
    subject: "the client's own delay",
    severity: Severity::LowConfidence,
    detect,
};

/// Reports when the generator's own lag is a large part of the response time.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let open = case.figures.arrivals.as_ref().filter(|_| case.is_real())?;
    if open.verdict != ArrivalVerdict::ClientBound {
        return None;
    }
    let total = &case.figures.all.total;
    let lag_ns = total.lag.as_ref()?.at(0.99)?;
    let words = format!(
        "Operations were submitted up to {} late (p99) although slots were free: the latencies \
         include the client's own delay; give it more CPUs, or a lower rate per job.",
        duration::latency(lag_ns as f64)
    );
    Some(DETECTOR.proven(words).moves_latency(lag_share(case)).with("lag_p99_ns", lag_ns))
}

/// Share of the client's delay in the response times of open loops.
fn lag_share(case: &Case<'_>) -> f64 {
    let mut sums = (0.0, 0.0);
    for direction in series::directions(case.run) {
        sums.0 += direction.lag.sum() as f64;
        sums.1 += direction.response.sum() as f64;
    }
    sums.0 / f64::max(sums.1, 1.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, open_run_of};
    use iosonde_model::plan::{Engine, EngineKind};

    #[test]
    fn a_late_generator_is_reported_and_one_that_waits_for_slots_is_not() {
        let mut late = open_run_of(&Load::default(), |_| 0);
        let count = late.jobs[0].read.lag.count();
        late.jobs[0].read.lag.record_many(5_000_000, count);
        let effect = ask(detect, &late, None).unwrap().effect.unwrap();
        let sum = |of: &iosonde_stats::Histogram| of.sum() as f64;
        let (lag, response) = (&late.jobs[0].read.lag, &late.jobs[0].read.response);
        assert!((effect - sum(lag) / sum(response)).abs() < 1e-9, "{effect}");
        late.jobs[0].arrivals.queued = late.jobs[0].arrivals.due;
        assert_eq!(ask(detect, &late, None), None);
        assert_eq!(ask(detect, &open_run_of(&Load::default(), |_| 0), None), None);
        late.jobs[0].arrivals.queued = 0;
        late.plan.engine = Engine::of(EngineKind::Sim);
        assert_eq!(ask(detect, &late, None), None, "virtual time has no client");
    }
}
