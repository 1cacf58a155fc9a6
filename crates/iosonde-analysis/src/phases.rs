//! Figures of each phase of a role whose load changes as planned.

use serde::Serialize;

use super::figures::DirectionFigures;
use super::series::{self, Sums};
use iosonde_model::plan::LatencyGoal;
use iosonde_model::record::run::{DirectionRun, Run};
use iosonde_model::spec::Phase;
use iosonde_stats::dependent::Loop;

/// Figures of a role in one of its phases, all data operations together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseFigures {
    /// Name of the role.
    pub role: String,
    /// Place among the phases of the role, from 1.
    pub number: usize,
    /// The phase as planned.
    pub phase: Phase,
    /// Time of the role in this phase, ns, in whole intervals of the record. Intervals with a
    /// change of phase are excluded; 0 if none is left.
    pub window_ns: u64,
    /// Figures of that time.
    pub total: DirectionFigures,
}

/// The phases of every role that has phases. None with a latency target: no record has the time at
/// which its window opens.
pub(super) fn phases(run: &Run, roles: &[(&str, Vec<usize>)]) -> Vec<PhaseFigures> {
    if run.plan.latency != LatencyGoal::None {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (role, jobs) in roles {
        let Some(job) = jobs.first().and_then(|job| run.plan.jobs.get(*job)) else { continue };
        let warmup_ns = run.plan.warmup_of(job);
        let runs = jobs.iter().filter_map(|job| run.jobs.get(*job));
        let directions = runs.flat_map(series::of_data);
        for (index, phase) in job.phases.iter().enumerate() {
            let (window_ns, total) =
                within(directions.clone(), length_ns(run, jobs), |from, to| {
                    is_in_phase(&job.phases, index, warmup_ns.saturating_add(from), to - from)
                });
            let (role, phase) = ((*role).to_owned(), *phase);
            found.push(PhaseFigures { role, number: index + 1, phase, window_ns, total });
        }
    }
    found
}

/// Measured time of these jobs, ns.
fn length_ns(run: &Run, jobs: &[usize]) -> u64 {
    let own = jobs.iter().filter_map(|job| run.jobs.get(*job)).map(|job| job.measured_ns);
    own.filter(|ns| *ns > 0).max().unwrap_or(run.measured_ns).min(run.measured_ns)
}

/// Whether the interval of this start and length, ns since a job began, lies within this phase.
fn is_in_phase(phases: &[Phase], index: usize, from_ns: u64, length_ns: u64) -> bool {
    let sum = |phases: &[Phase]| phases.iter().fold(0, |sum: u64, of| sum.saturating_add(of.ns));
    let place_ns = from_ns % sum(phases).max(1);
    let begin_ns = sum(&phases[..index]);
    let end_ns = begin_ns.saturating_add(phases[index].ns);
    begin_ns <= place_ns && place_ns.saturating_add(length_ns) <= end_ns
}

/// The time inside, and the figures of that time.
fn within<'a>(
    directions: impl Iterator<Item = &'a DirectionRun> + Clone,
    length_ns: u64,
    is_inside: impl Fn(u64, u64) -> bool,
) -> (u64, DirectionFigures) {
    let of_loop = Loop::from(directions.clone().any(|direction| direction.response.count() > 0));
    let sums = series::sums(directions, length_ns, is_inside);
    let batches = sums.as_ref().map(|sums| sums.batches.as_slice()).map_err(|reason| *reason);
    let none = Sums::default();
    let sums = sums.as_ref().unwrap_or(&none);
    let (done, latency) = ((sums.ops, sums.bytes), (&sums.latency, of_loop));
    (sums.span_ns, DirectionFigures::of_window(done, sums.span_ns, latency, batches))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::figures;
    use iosonde_fixtures::{Load, run_of};

    const SECOND: u64 = 1_000_000_000;

    fn phase(ns: u64) -> Phase {
        Phase { ns, rate_percent: 100.0, ..Phase::default() }
    }

    /// Ten seconds, with 5,000 operations per second in every second one.
    fn every_second_second(phases: &[u64], warmup_ns: u64) -> Run {
        let shape = |t: f64| if ((t * 10.0) as u64).is_multiple_of(2) { 0.0 } else { 1.0 };
        let mut run = run_of(&[Load { shape, noise: 0.0, ..Load::default() }]);
        run.plan.warmup_ns = warmup_ns;
        run.plan.jobs[0].phases = phases.iter().copied().map(phase).collect();
        run
    }

    fn rates(run: &Run) -> Vec<f64> {
        figures(run).phases.iter().map(|of| of.total.iops.round()).collect()
    }

    #[test]
    fn each_phase_has_the_rate_of_its_own_time() {
        let run = every_second_second(&[SECOND, SECOND], 0);
        assert_eq!(rates(&run), [0.0, 5_000.0]);
        let figures = figures(&run);
        assert_eq!(
            figures.phases.iter().map(|of| of.window_ns).collect::<Vec<_>>(),
            [5 * SECOND, 5 * SECOND]
        );
        let busy = &figures.phases[1].total;
        assert_eq!((busy.ops, busy.bytes), (25_000, 25_000 * 4096));
        assert_eq!(busy.latency.count, 25_000);
        assert_eq!(figures.phases[0].total.latency.mean_ns, None);
    }

    #[test]
    fn phases_begin_with_the_job_and_not_with_the_window() {
        let run = every_second_second(&[SECOND, SECOND], 3 * SECOND);
        assert_eq!(rates(&run), [5_000.0, 0.0]);
    }

    #[test]
    fn intervals_that_contain_a_change_of_phase_are_left_out() {
        let run = every_second_second(&[SECOND - 50_000_000, SECOND + 50_000_000], SECOND);
        let phases = figures(&run).phases;
        // In each of 5 rounds, one interval of 100 ms contains the change.
        let left_out = 10 * SECOND - phases.iter().map(|of| of.window_ns).sum::<u64>();
        assert_eq!(left_out, 500_000_000);
        assert_eq!(rates(&run), [5_000.0, 0.0]);
    }

    #[test]
    fn a_phase_shorter_than_the_intervals_has_no_figures() {
        let run = every_second_second(&[50_000_000, 2 * SECOND - 50_000_000], 0);
        let phases = figures(&run).phases;
        assert_eq!((phases[0].window_ns, phases[0].total.ops), (0, 0));
        assert!(phases[1].window_ns > 9 * SECOND);
    }

    #[test]
    fn phases_of_a_nanosecond_take_no_time_and_endless_ones_have_the_whole_run() {
        let run = every_second_second(&[1, 1], 0);
        assert_eq!(figures(&run).phases.iter().map(|of| of.window_ns).sum::<u64>(), 0);
        let run = every_second_second(&[u64::MAX, u64::MAX], SECOND);
        let windows: Vec<u64> = figures(&run).phases.iter().map(|of| of.window_ns).collect();
        assert_eq!(windows, [10 * SECOND, 0], "in the first for ever");
    }

    #[test]
    fn roles_without_phases_have_none() {
        assert!(figures(&run_of(&[Load::default()])).phases.is_empty());
    }
}
