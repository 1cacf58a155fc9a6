//! `depth_not_applied`: the requested queue depth was not reached.

use iosonde_model::plan::EngineKind;
use iosonde_model::units::count;

use crate::consistency::shows_depth;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "depth_not_applied",
    meaning: "The requested queue depth was not reached.",
    method: "time integral of the requests in flight, compared with --iodepth",
    action: "Read the mean queue depth instead of --iodepth; a larger --iodepth changes little.",
    subject: "a queue depth that was not reached",
    severity: Severity::Warning,
    detect,
};

/// Share at or above which nothing is reported: the queue is not full while a burst is submitted.
/// The consistency checks note it nevertheless.
const NEARLY_ALL: f64 = 0.9;
/// Share below which the figures are those of another depth. Above it they are valid for the
/// measured depth, which is shown with them: a fact, not a warning.
const LOST: f64 = 0.5;

/// Reports when the depth identity fails; names the role farthest from its depth.
fn detect(case: &Case<'_>) -> Option<Finding> {
    case.consistency.broken_code("depth")?;
    // If this program is the limit, the queue is empty for lack of requests.
    let is_null = case.run.plan.engine.kind == EngineKind::Null;
    // A load that pauses by request has fewer requests in flight.
    let pauses = case.run.plan.jobs.iter().any(|job| job.think.ns > 0);
    if is_null || pauses || super::client_cpu::detect(case).is_some() {
        return None;
    }
    let reached =
        |role: &&crate::figures::GroupFigures| role.depth_seen / role.depth_asked.max(1) as f64;
    let roles = case.figures.roles.iter().filter(|role| shows_depth(role));
    let worst = roles.min_by(|a, b| reached(a).total_cmp(&reached(b)))?;
    if reached(&worst) >= NEARLY_ALL {
        return None;
    }
    let all = &case.figures.all;
    let place = match case.figures.roles.len() {
        0 | 1 => String::new(),
        _ => format!(" (role {})", worst.role),
    };
    let words = format!(
        "Requested depth {}, mean queue depth {}{place}.",
        worst.depth_asked,
        count::significant(worst.depth_seen)
    );
    let share = all.depth_seen / all.depth_asked.max(1) as f64;
    let of = |severity| DETECTOR.found_at(severity, Strength::Proven, words);
    let finding = match share < LOST {
        true => of(Severity::Warning).moves(1.0 - share),
        false => of(Severity::Fact),
    };
    Some(finding.with("depth_asked", all.depth_asked).with("depth_seen", all.depth_seen))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_depth_of_one_is_reported_and_inline_completion_is_not() {
        let mut run = run_of(&[Load { depth: 1, ..Load::default() }]);
        assert_eq!(ask(detect, &run, None), None);
        run.plan.jobs[0].iodepth = 32;
        let finding = ask(detect, &run, None).unwrap();
        assert!(finding.effect.unwrap() > 0.9, "{finding:?}");
        assert!(finding.words.contains("depth 32, mean queue depth 1.0"));
        run.plan.jobs[0].think.ns = 1_000_000;
        assert_eq!(ask(detect, &run, None), None, "it pauses by request");
        run.plan.jobs[0].think.ns = 0;
        run.jobs[0].inline_seen = run.jobs[0].inline_probed;
        assert_eq!(ask(detect, &run, None), None);
    }

    #[test]
    fn a_queue_that_is_nearly_full_is_left_alone() {
        let mut run = run_of(&[Load { depth: 32, ..Load::default() }]);
        let full_ns = run.jobs[0].in_flight_area_ns;
        for (percent, speaks, is_another) in
            [(92, false, false), (85, true, false), (45, true, true)]
        {
            run.jobs[0].in_flight_area_ns = full_ns / 100 * percent;
            let finding = ask(detect, &run, None);
            assert_eq!(finding.is_some(), speaks, "{percent} %");
            let effect = finding.and_then(|finding| finding.effect);
            assert_eq!(effect.is_some(), is_another, "{percent} %");
        }
    }
}
