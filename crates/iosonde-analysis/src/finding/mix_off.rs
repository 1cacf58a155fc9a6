//! `mix_off`: the achieved share of reads differs from the nominal one.

use iosonde_model::plan::{Job, Pace};

use crate::figures::GroupFigures;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "mix_off",
    meaning: "The achieved share of reads differs from the nominal one.",
    method: "operations counted in the measured window",
    action: "Use one role with --rwmixread where the ratio matters.",
    subject: "a mix that is not enforced",
    severity: Severity::Warning,
    detect,
};

/// Smallest difference to report, as a share of the operations.
const SMALLEST: f64 = 0.01;
/// Standard errors of a binomial share that a difference must exceed: once in 16,000 by chance.
const ERRORS: f64 = 4.0;
/// Fewest operations for a meaningful share.
const FEWEST_OPS: u64 = 100;

/// Reports when a share of reads differs from the requested one by more than random drawing
/// explains. Several roles each have their own mix; how much each role does is not fixed.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let plan = &case.run.plan;
    // Phases may have different mixes.
    if plan.jobs.iter().any(|job| !job.phases.is_empty() || is_free(job)) {
        return None;
    }
    let roles = &case.figures.roles;
    if roles.len() < 2 {
        return off(&case.figures.all, plan.nominal_read_percent);
    }
    roles.iter().find_map(|group| {
        let job = plan.jobs.iter().find(|job| job.role == group.role)?;
        let is_mixed = (1..100).contains(&job.read_percent);
        off(group, job.read_percent).filter(|_| is_mixed)
    })
}

/// Whether a job's rates decide its share of reads, regardless of the mix: each direction has its
/// own rate, or the job has one direction only.
fn is_free(job: &Job) -> bool {
    match job.pace {
        Pace::Closed => false,
        Pace::Each { .. } => true,
        Pace::Rate { .. } | Pace::Recorded(_) => matches!(job.read_percent, 0 | 100),
    }
}

fn off(group: &GroupFigures, nominal_percent: u8) -> Option<Finding> {
    let achieved = group.read_share?;
    let nominal = f64::from(nominal_percent) / 100.0;
    let error = (nominal * (1.0 - nominal) / group.total.ops.max(1) as f64).sqrt();
    let is_off = (achieved - nominal).abs() > SMALLEST.max(ERRORS * error);
    if group.total.ops < FEWEST_OPS || !is_off {
        return None;
    }
    let (achieved, nominal) = (achieved * 100.0, nominal * 100.0);
    let of = match group.role.as_str() {
        "" => String::new(),
        role => format!(" of role {role}"),
    };
    let words = format!(
        "{} of the operations{of} were reads, nominally {nominal:.0} %: the mix is not enforced.",
        super::percent(achieved / 100.0)
    );
    let finding = DETECTOR.proven(words).with("read_percent_achieved", achieved);
    Some(finding.with("read_percent_nominal", nominal))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, open_run_of, run_of};
    use iosonde_model::plan::{Arrivals, Rate};

    #[test]
    fn what_chance_does_not_explain_is_reported() {
        let mut run = run_of(&[Load { read_percent: 70, ..Load::default() }]);
        assert_eq!(ask(detect, &run, None), None);
        run.plan.nominal_read_percent = 72;
        assert!(ask(detect, &run, None).unwrap().words.contains("nominally 72 %"));
    }

    #[test]
    fn roles_that_run_freely_are_no_mix() {
        let of = |role, read_percent| Load { role, read_percent, ..Load::default() };
        let mut run = run_of(&[of("reader", 100), of("writer", 0)]);
        run.plan.nominal_read_percent = 90;
        assert_eq!(ask(detect, &run, None), None);
    }

    #[test]
    fn rates_of_their_own_are_no_mix() {
        let mut run = open_run_of(&Load::default(), |_| 0);
        run.plan.nominal_read_percent = 50;
        assert_eq!(ask(detect, &run, None), None, "the other rate is 0");
        let mut run = open_run_of(&Load { read_percent: 70, ..Load::default() }, |_| 0);
        run.plan.nominal_read_percent = 50;
        run.plan.jobs[0].read_percent = 50;
        assert!(ask(detect, &run, None).is_some(), "one rate for both");
        let (read, other) = (Rate::Ops(3_500.0), Rate::Ops(1_500.0));
        run.plan.jobs[0].pace = Pace::Each { read, other, arrivals: Arrivals::Poisson };
        assert_eq!(ask(detect, &run, None), None);
    }
}
