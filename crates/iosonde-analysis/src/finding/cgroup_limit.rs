//! `cgroup_limit`: the rate is what a cgroup allows.

use iosonde_model::record::facts::{IoLimit, IoLimitKind};
use iosonde_model::units::bytes;
use iosonde_model::units::count::significant_or_whole as per_second;

use crate::arrivals::{ArrivalFigures, ArrivalVerdict};

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "cgroup_limit",
    meaning: "The rate is what a cgroup allows, not what the storage can do.",
    method: "limits of the cgroups of this process, compared with the measured rate",
    action: "Raise or remove the I/O limit of the cgroup, or state it beside the figures.",
    subject: "a cgroup I/O limit",
    severity: Severity::Limit,
    detect,
};

/// A rate within this share of a limit is attributed to that limit.
const WITHIN: f64 = 0.03;
/// The kernel enforces a limit in slices of this length, ns; the operations of one slice may be
/// dispatched together, so a window may contain one slice more or less.
const SLICE_NS: f64 = 100_000_000.0;

/// Reports when a rate is within 3 %, or one slice, of a cgroup limit on that rate.
pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    // If the storage kept up with the requested pace, that pace is the limit.
    let sustained = |open: &ArrivalFigures| open.verdict == ArrivalVerdict::Sustained;
    let is_paced = case.run.plan.jobs.iter().any(|job| job.think.ns > 0);
    if is_paced || case.figures.arrivals.as_ref().is_some_and(sustained) {
        return None;
    }
    let off =
        |limit: &IoLimit| (rate(case, limit.kind) / limit.per_second.max(1) as f64 - 1.0).abs();
    let within = WITHIN.max(SLICE_NS / case.figures.window_ns.max(1) as f64);
    let limits = case.run.target.io_limits.iter().filter(|limit| off(limit) <= within);
    let limit = limits.min_by(|a, b| off(a).total_cmp(&off(b)))?;
    let measured = rate(case, limit.kind);
    let words = format!(
        "Limited by the cgroup ({}) to {}; measured {}.",
        limit.source,
        formatted(limit.kind, limit.per_second as f64),
        formatted(limit.kind, measured)
    );
    let subject =
        format!("the cgroup I/O limit of {}", formatted(limit.kind, limit.per_second as f64));
    let finding = DETECTOR.proven(words).about(subject).with("limit_per_s", limit.per_second);
    Some(finding.with("measured_per_s", measured).with("source", limit.source.as_str()))
}

fn rate(case: &Case<'_>, kind: IoLimitKind) -> f64 {
    let all = &case.figures.all;
    match kind {
        IoLimitKind::ReadBytes => all.read.bytes_per_s,
        IoLimitKind::ReadIops => all.read.iops,
        IoLimitKind::WriteBytes => all.write.bytes_per_s,
        IoLimitKind::WriteIops => all.write.iops,
    }
}

fn formatted(kind: IoLimitKind, rate: f64) -> String {
    match kind {
        IoLimitKind::ReadBytes => format!("{} of reads", bytes::per_second(rate)),
        IoLimitKind::WriteBytes => format!("{} of writes", bytes::per_second(rate)),
        IoLimitKind::ReadIops => format!("{} reads per second", per_second(rate)),
        IoLimitKind::WriteIops => format!("{} writes per second", per_second(rate)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use crate::{consistency, figures};
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_rate_at_the_limit_is_the_limit_and_one_below_is_not() {
        let limit = |kind, per_second| IoLimit { source: "/job/io.max".into(), kind, per_second };
        let mut run = run_of(&[Load::default()]);
        run.target.io_limits = vec![limit(IoLimitKind::ReadIops, 5_000)];
        let finding = ask(detect, &run, None).unwrap();
        assert!(finding.words.contains("5,000 reads per second"), "{}", finding.words);
        run.target.io_limits = vec![
            limit(IoLimitKind::ReadIops, 5_300),
            limit(IoLimitKind::ReadBytes, 500_000_000),
            limit(IoLimitKind::WriteIops, 5_000),
        ];
        assert_eq!(ask(detect, &run, None), None);
    }

    #[test]
    fn one_slice_more_in_a_short_window_is_the_limit_too() {
        let mut run = run_of(&[Load::default()]);
        let kind = IoLimitKind::ReadIops;
        run.target.io_limits = vec![IoLimit { source: "/job".into(), kind, per_second: 4_800 }];
        let mut figures = figures(&run);
        let consistency = consistency(&run, &figures);
        // 5,000 measured, 4 % off; a slice is 5 % of 2 s and 1 % of 10 s.
        assert_eq!(detect(&Case::new(&run, None, &figures, &consistency)), None);
        figures.window_ns = 2_000_000_000;
        assert!(detect(&Case::new(&run, None, &figures, &consistency)).is_some());
    }
}
