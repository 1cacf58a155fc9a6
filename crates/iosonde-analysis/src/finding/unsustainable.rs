//! `unsustainable`: operations were due faster than the storage could serve them.

use crate::arrivals::ArrivalVerdict;
use crate::figures::depth_seen;
use iosonde_model::plan::Job;
use iosonde_model::record::JobRun;
use iosonde_model::units::count;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "unsustainable",
    meaning: "Operations were due faster than the storage could serve them.",
    method: "backlog of an open loop, growing to the end",
    action: "Latency has no limit at this rate: lower it (--rate-iops, or --speed of a workload \
             file; in an experiment, use the lower rates), or allow more requests in flight \
             (--iodepth) if all were and the storage does more with them.",
    subject: "a rate beyond what the storage sustains",
    severity: Severity::Limit,
    detect,
};

/// Share of the requested depth that counts as all in flight: a larger depth may sustain more.
const ALL_IN_FLIGHT: f64 = 0.9;

/// Reports when the backlog of an open loop grows.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let open = case.figures.arrivals.as_ref()?;
    if open.verdict != ArrivalVerdict::Unsustainable {
        return None;
    }
    let rate = open.due as f64 * 1e9 / case.run.measured_ns.max(1) as f64;
    let overload = open.overload();
    let done = super::iops(open.achieved_per_s);
    let jobs =
        || case.run.plan.jobs.iter().zip(&case.run.jobs).filter(|(job, _)| job.is_open_loop());
    let is_full = |job: &Job, ran: &JobRun| {
        depth_seen(case.run, ran) >= ALL_IN_FLIGHT * f64::from(job.iodepth)
    };
    let full: Vec<u64> =
        jobs().filter(|(job, ran)| is_full(job, ran)).map(|(job, _)| job.iodepth.into()).collect();
    let loops = jobs().count();
    let (with, subject) = match full.len() {
        0 => (String::new(), DETECTOR.subject.to_owned()),
        some if some < loops => {
            let subject = format!("the requests in flight of {some} of {loops} open loops");
            (format!("; {some} of {loops} open loops had all their requests in flight"), subject)
        }
        _ => {
            let requests = count::of(full.iter().sum(), "request");
            let subject = format!("what {requests} in flight complete, {done}");
            (format!(" with {requests} in flight, all that were allowed"), subject)
        }
    };
    let words = format!(
        "UNSUSTAINABLE at {}: {overload}, and {} were done{with}; the latencies would only reflect \
         the length of the run.",
        super::iops(rate),
        done,
    );
    let finding = DETECTOR.proven(words).about(subject).with("due_per_s", rate);
    Some(finding.with("achieved_per_s", open.achieved_per_s))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, open_run_of};

    #[test]
    fn a_backlog_that_grows_is_reported_and_one_that_stands_is_not() {
        let growing = open_run_of(&Load::default(), |look| look * 9_000_000);
        let finding = ask(detect, &growing, None).unwrap();
        assert!(finding.words.contains("grows by 0.09"), "{}", finding.words);
        let late = open_run_of(&Load::default(), |look| look.saturating_sub(70) * 60_000_000);
        let words = ask(detect, &late, None).unwrap().words;
        assert!(words.contains("from 7.0 s on the backlog grows by 0.600 s of work"), "{words}");
        let standing = open_run_of(&Load::default(), |look| 40_000_000 + look % 3);
        assert_eq!(ask(detect, &standing, None), None);
    }

    #[test]
    fn a_full_depth_is_named_in_place_of_the_storage() {
        let mut run = open_run_of(&Load { depth: 4, ..Load::default() }, |look| look * 9_000_000);
        let of = |run: &_| ask(detect, run, None).unwrap();
        assert_eq!(of(&run).subject, "what 4 requests in flight complete, 5,000 IOPS");
        let words = of(&run).words;
        assert!(words.contains("5,000 IOPS were done with 4 requests in flight, all"), "{words}");
        run.plan.jobs.push(Job { iodepth: 64, ..run.plan.jobs[0].clone() });
        run.jobs.push(run.jobs[0].clone());
        assert_eq!(of(&run).subject, "the requests in flight of 1 of 2 open loops");
        assert!(of(&run).words.contains("; 1 of 2 open loops had all their requests in flight;"));
        run.plan.jobs[0].iodepth = 64;
        assert_eq!(of(&run).subject, "a rate beyond what the storage sustains");
    }
}
