//! Figures of each of several targets.

use serde::Serialize;

use super::document;
use super::figures::LatencyFigures;
use iosonde_model::record::run::Run;
use iosonde_stats::Histogram;

/// Figures of one of several targets, syncs not counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TargetFigures {
    /// Path as in the plan.
    pub path: String,
    /// Operations per second of the window.
    pub iops: f64,
    /// Bytes per second of the window.
    #[serde(serialize_with = "document::whole")]
    pub bytes_per_s: f64,
    /// Latency from before submission to after reaping, all directions together.
    #[serde(rename = "latency_ns", serialize_with = "document::percentiles")]
    pub latency: LatencyFigures,
}

/// Sums over the jobs of each target.
pub(super) fn targets(run: &Run) -> Vec<TargetFigures> {
    let per_s = |count: u64| count as f64 * 1e9 / run.measured_ns.max(1) as f64;
    let used = run.jobs.iter().any(|job| !job.targets.is_empty());
    let all = run.plan.targets.iter().enumerate().filter(|_| used);
    all.map(|(at, target)| {
        let shares = run.jobs.iter().flat_map(|job| &job.targets);
        let (mut ops, mut bytes, mut latency) = (0, 0, Histogram::new());
        for share in shares.filter(|share| usize::from(share.target) == at) {
            ops += share.ops;
            bytes += share.bytes;
            latency.merge(&share.latency);
        }
        TargetFigures {
            path: target.path.clone(),
            iops: per_s(ops),
            bytes_per_s: per_s(bytes),
            latency: LatencyFigures::of(&latency),
        }
    })
    .collect()
}
