//! Checks that the jobs that wait for commits match the job that makes them.

use super::{Job, Refusal};
use crate::spec::{Commit, Pace, Think};
use crate::units::count;

/// Most writes of one commit.
const MOST_WRITES: f64 = 1e6;
/// Tolerance for rounding of a share of 100 %, percent.
const ROUNDING: f64 = 1e-3;

/// # Errors
/// If a job waits for commits that no job makes, makes unwanted ones, or cannot take part.
pub(super) fn agree(jobs: &[Job]) -> Result<(), Refusal> {
    for job in jobs {
        let fault = match &job.commit {
            None => None,
            Some(Commit::WaitsFor { role, percent }) => waits(job, role, *percent, jobs),
            Some(Commit::Writes(writes)) => makes(job, *writes, jobs),
        };
        if let Some(what) = fault {
            return Err(Refusal::conflict(&job.role, what));
        }
    }
    Ok(())
}

/// A fault in a job whose syncs wait for commits of this role.
fn waits(job: &Job, role: &str, percent: f64, jobs: &[Job]) -> Option<String> {
    let commits = |other: &Job| matches!(other.commit, Some(Commit::Writes(_)));
    if !(percent > 0.0 && percent <= 100.0) {
        return Some(format!(
            "{percent} % of the syncs wait for commits, expected above 0 and at most 100; give \
             another percent, or no commit"
        ));
    }
    let most = job.phases.iter().map(|phase| phase.commit_percent * percent / 100.0);
    if let Some(most) = most.reduce(f64::max).filter(|most| *most > 100.0 + ROUNDING) {
        return Some(format!(
            "{} % of the syncs of a phase wait for commits, expected at most 100; give a smaller \
             commit-percent",
            count::significant(most)
        ));
    }
    if !job.sync.barrier || job.targets.len() > 1 {
        return Some(
            "commits of another role need a group commit (barrier = true) on one target".into(),
        );
    }
    let makers: Vec<&Job> =
        jobs.iter().filter(|other| other.plays(role) && commits(other)).collect();
    match makers.as_slice() {
        [maker] if maker.span == job.span => None,
        [_] => Some(format!(
            "its syncs wait for commits of `{role}`, which begins or ends at another time; give \
             both the same span, or none"
        )),
        found => Some(format!(
            "its syncs wait for commits of `{role}`, and {} jobs make commits under this name, \
             expected 1: another role with one thread and commit = {{ writes = 2.0 }}",
            found.len()
        )),
    }
}

/// A fault in a job that makes commits with this number of writes.
fn makes(job: &Job, writes: f64, jobs: &[Job]) -> Option<String> {
    let waits = |other: &Job| match &other.commit {
        Some(Commit::WaitsFor { role, .. }) => job.plays(role),
        _ => false,
    };
    if !(1.0..=MOST_WRITES).contains(&writes) {
        return Some(format!(
            "commits of {writes} writes, expected 1 to {MOST_WRITES}; give another number of writes"
        ));
    }
    if job.reads() || !job.writes_data() || job.rewrites {
        return Some("a role that makes commits only writes; give rw = \"write\"".into());
    }
    let has_pace =
        job.pace != Pace::Closed || job.think != Think::default() || !job.phases.is_empty();
    if has_pace || job.flow.is_some() {
        return Some(
            "commits are made when others wait for them; a rate, a pause, phases or a flow have no \
             effect"
                .into(),
        );
    }
    let nobody = format!(
        "nobody waits for its commits; give another role commit = {{ waits-for = {{ role = \
         \"{}\", percent = 100.0 }} }}",
        job.role
    );
    (!jobs.iter().any(waits)).then_some(nobody)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::spec::{Flow, Phase, Sync};

    fn pair() -> [Job; 2] {
        let sync = Sync { every_writes: 1, barrier: true, ..Sync::default() };
        let commit = |commit| Job { commit: Some(commit), read_percent: 0, sync, ..Job::default() };
        let waits = commit(Commit::WaitsFor { role: "journal".into(), percent: 50.0 });
        let makes = commit(Commit::Writes(2.0));
        [waits, Job { role: "journal".into(), ..makes }]
    }

    #[test]
    fn a_role_that_waits_and_one_that_commits_fit_together() {
        assert_eq!(agree(&pair()), Ok(()));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let refused = |change: fn(&mut [Job; 2]), reason: &str| {
            let mut jobs = pair();
            change(&mut jobs);
            let error = agree(&jobs).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        };
        refused(|jobs| jobs[0].sync.barrier = false, "need a group commit");
        refused(|jobs| jobs[0].targets = vec![0, 1], "on one target");
        refused(|jobs| jobs[1].role = "log".into(), "0 jobs make commits under this name");
        refused(|jobs| jobs[1].commit = None, "0 jobs make commits under this name");
        refused(|jobs| jobs[1].span.delay_ns = 7, "begins or ends at another time");
        refused(|jobs| jobs[0].commit = None, "nobody waits for its commits");
        refused(|jobs| jobs[1].read_percent = 20, "only writes");
        refused(|jobs| jobs[1].think.ns = 7, "have no effect");
        refused(
            |jobs| jobs[1].flow = Some(Flow { id: 1, weight: 1, sleep_ns: 0 }),
            "have no effect",
        );
        refused(|jobs| jobs[1].commit = Some(Commit::Writes(0.5)), "commits of 0.5 writes");
        refused(|jobs| jobs[1].commit = Some(Commit::Writes(f64::NAN)), "commits of NaN writes");
        refused(
            |jobs| {
                let phase = |commit_percent| Phase { ns: 1, commit_percent, ..Phase::default() };
                jobs[0].phases = vec![phase(0.0), phase(200.0), phase(210.0)];
            },
            "105 % of the syncs of a phase wait for commits",
        );
        let waits_for = |percent| Commit::WaitsFor { role: "journal".into(), percent };
        for percent in [0.0, -3.0, 100.5, f64::NAN] {
            let mut jobs = pair();
            jobs[0].commit = Some(waits_for(percent));
            assert!(
                agree(&jobs).unwrap_err().to_string().contains("of the syncs wait for commits")
            );
        }
    }
}
