//! Figures of an open loop: what was scheduled, what completed, and whether the storage kept up.
//!
//! The rules are those of method 2.12. A loop whose backlog grows measures only how long it ran, so
//! its latencies are withheld.

mod backlog;

use serde::Serialize;

use iosonde_model::plan::{Arrivals, Job, Pace, Rate, Sizes};
use iosonde_model::record::run::Run;
use iosonde_model::units::{count, duration};
use iosonde_stats::stall::Stalls;
use iosonde_stats::{Histogram, dependent};

use crate::series;
pub use backlog::Growth;

/// Number of stalls from which each quarter of a run has time to catch up after one.
const EACH_QUARTER: usize = 4;

/// Share by which the achieved rate may miss the requested rate, whatever the operation count.
pub(crate) const RATE_WITHIN: f64 = 0.01;
/// Standard deviations that random arrivals exceed in one run of 100,000.
const CHANCE: f64 = 4.5;
/// Accepted deviation of the coefficient of variation, whatever the operation count.
const CV_WITHIN: f64 = 0.05;
/// Fewest inter-arrival times per job that show how even its arrivals are.
const FEWEST_GAPS: f64 = 10.0;
/// Share of operations without a free slot, below which the lag is the generator's own.
const OWN_LAG_BELOW: f64 = 0.01;
/// Share of operations without a free slot, at or above which all slots were always in flight.
const ALWAYS: f64 = 0.99;
/// Half-widths of the 95 % interval that a difference beyond chance exceeds.
const BEYOND_CHANCE: f64 = 2.0;
/// Lag at p99, as a share of the median response, at or above which the generator is too slow.
const LAG_SHARE: f64 = 0.10;

/// An open loop's figures, all jobs together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArrivalFigures {
    /// Requested operations per second; `None` with recorded arrivals, phases, or a rate in bytes
    /// for several sizes.
    pub asked_per_s: Option<f64>,
    /// Operations scheduled in the window.
    pub due: u64,
    /// Achieved rate: operations completed per second of the window.
    pub achieved_per_s: f64,
    /// Operations completed in the window.
    #[serde(skip)]
    pub completed: u64,
    /// Operations submitted more than a millisecond after their due time.
    pub late: u64,
    /// Operations that found every slot in flight.
    pub queued: u64,
    /// Operations still waiting at the end of measurement.
    pub dropped: u64,
    /// Coefficient of variation of the inter-arrival times of a job.
    pub gap_cv: Option<f64>,
    /// Growth of the backlog outside stalls, over the part of the window in which it grows, or else
    /// over the whole window.
    pub growth: Option<Growth>,
    /// Rise of the smallest backlog, from the last three quarters of the window to the last
    /// quarter, as time at the due rate, ns: work that slow times left behind. The worst job's.
    #[serde(skip)]
    pub risen_ns: u64,
    /// Whether the figures can be used.
    pub verdict: ArrivalVerdict,
}

impl ArrivalFigures {
    /// The evidence of an overload, as a clause.
    pub fn overload(&self) -> String {
        if let Some(growth) = self.growth.filter(|growth| growth.is_proven) {
            return growth.clause();
        }
        let rate = self.due as f64 / self.completed.max(1) as f64 * self.achieved_per_s;
        if self.risen_ns as f64 / 1e9 * rate > self.dropped as f64 {
            let risen = duration::span(self.risen_ns);
            return format!("between slow times the backlog rose by {risen} of work");
        }
        format!("{} operations were still waiting at the end", count::thousands(self.dropped))
    }
}

/// Whether the figures of an open loop can be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalVerdict {
    /// The storage kept up, and so did the generator.
    Sustained,
    /// The backlog grows: latencies only measure the length of the run.
    Unsustainable,
    /// Operations were submitted late although slots were free: the latencies are the client's.
    ClientBound,
    /// The rate or the variation of the due times differs from the request.
    OffSchedule,
}

/// Figures of the open loops of a run with these stalls; `None` without open loops.
pub fn arrivals(run: &Run, stalls: Option<&Stalls>) -> Option<ArrivalFigures> {
    let open: Vec<usize> =
        (0..run.jobs.len()).filter(|at| run.plan.jobs[*at].is_open_loop()).collect();
    if open.is_empty() || run.measured_ns == 0 {
        return None;
    }
    let seconds = run.measured_ns as f64 / 1e9;
    let jobs = || open.iter().map(|at| &run.jobs[*at]);
    let sum = |of: fn(&iosonde_model::record::run::ArrivalsRun) -> u64| -> u64 {
        jobs().map(|job| of(&job.arrivals)).sum()
    };
    let (due, dropped) = (sum(|counts| counts.due), sum(|counts| counts.dropped));
    let completed: u64 = jobs().map(series::data_ops).sum();
    let requested: Option<f64> = open.iter().map(|at| requested(&run.plan.jobs[*at])).sum();
    let mut figures = ArrivalFigures {
        asked_per_s: requested,
        due,
        achieved_per_s: completed as f64 / seconds,
        completed,
        late: sum(|counts| counts.late),
        queued: sum(|counts| counts.queued),
        dropped,
        gap_cv: gap_cv(run, &open),
        growth: backlog::growth(run, &open, stalls),
        risen_ns: open.iter().map(|at| backlog::risen(&run.jobs[*at].arrivals.backlog_ns)).max()?,
        verdict: ArrivalVerdict::Sustained,
    };
    figures.verdict = verdict(run, &open, &figures, stalls);
    Some(figures)
}

fn verdict(
    run: &Run,
    open: &[usize],
    figures: &ArrivalFigures,
    stalls: Option<&Stalls>,
) -> ArrivalVerdict {
    let due = figures.due.max(1) as f64;
    let within = RATE_WITHIN.max(3.0 / due.sqrt());
    let grows = figures.growth.is_some_and(|growth| growth.is_proven);
    // A stall holds back the operations due in it, which must be worked off before the next one.
    // Its start and its end are known to one interval each.
    let held_ns = stalls.map_or(0, |stalls| stalls.longest_ns + 2 * stalls.width_ns);
    let held = held_ns as f64 / run.measured_ns as f64;
    let remains = figures.dropped as f64 / due > within + held;
    let risen = figures.risen_ns as f64 / run.measured_ns.max(1) as f64;
    let returns = stalls.is_some_and(|stalls| stalls.count >= EACH_QUARTER);
    let rises = risen > within + if returns { 0.0 } else { held };
    let falls_short = stalls.is_none() && open.iter().any(|at| falls_short(run, *at));
    let recurs = || open.iter().all(|at| backlog::recurs(&run.jobs[*at].arrivals.backlog_ns));
    if falls_short || ((grows || remains || rises) && !recurs()) {
        return ArrivalVerdict::Unsustainable;
    }
    let directions = || open.iter().flat_map(|at| series::of_data(&run.jobs[*at]));
    let lag = Histogram::of_all(directions().map(|direction| &direction.lag));
    let response = Histogram::of_all(directions().map(|direction| &direction.response));
    let own_lag = (figures.queued as f64) < OWN_LAG_BELOW * due;
    let median = response.quantile(0.5).unwrap_or(0) as f64;
    if own_lag && lag.quantile(0.99).is_some_and(|lag| lag as f64 > LAG_SHARE * median) {
        return ArrivalVerdict::ClientBound;
    }
    if has_other_rate(run, open, figures) || has_other_scatter(run, open, figures) {
        return ArrivalVerdict::OffSchedule;
    }
    ArrivalVerdict::Sustained
}

/// Whether all slots of a job were always in flight and yet completed fewer operations than
/// requested, beyond chance: the storage can do no more. This detects a small overload whose
/// backlog still looks like a random walk.
fn falls_short(run: &Run, at: usize) -> bool {
    let job = &run.jobs[at];
    let always_full = job.arrivals.queued as f64 >= ALWAYS * job.arrivals.due as f64;
    let Some(asked_per_s) = requested(&run.plan.jobs[at]).filter(|_| always_full) else {
        return false;
    };
    let done = series::batches(series::of_data(job).into_iter(), (0, run.measured_ns));
    let done = done.ok().and_then(|batches| dependent::rate(&batches).ok());
    done.is_some_and(|done| asked_per_s > done.value * (BEYOND_CHANCE * done.half_width).exp())
}

/// Whether operations were due at another rate than requested. Both their number and their
/// inter-arrival times must show it: a run limited by a count continues after its last due time,
/// and a job with few operations has only the inter-arrival times that fit into the window.
fn has_other_rate(run: &Run, open: &[usize], figures: &ArrivalFigures) -> bool {
    let Some(asked_per_s) = figures.asked_per_s else { return false };
    let (mut gaps, mut in_gaps) = (0.0, 0.0);
    for at in open {
        let counts = &run.jobs[*at].arrivals;
        let per_s = requested(&run.plan.jobs[*at]).unwrap_or(0.0);
        gaps += counts.gaps as f64;
        in_gaps += per_s * counts.gap_sum_ns as f64 / 1e9;
    }
    let in_window = asked_per_s * run.measured_ns as f64 / 1e9;
    let scatter = scatter(run, open).max(1.0);
    let differs = |found: f64, expected: f64| {
        // The square root of a Poisson count has a standard deviation of one half.
        let chance = CHANCE * scatter / 2.0;
        (found - expected).abs() > RATE_WITHIN * expected
            && (found.sqrt() - expected.sqrt()).abs() > chance
    };
    differs(gaps, in_gaps) && differs(figures.due as f64, in_window)
}

/// Whether the coefficient of variation of Poisson arrivals differs from 1 beyond chance.
fn has_other_scatter(run: &Run, open: &[usize], figures: &ArrivalFigures) -> bool {
    let poisson = open.iter().any(|at| {
        matches!(run.plan.jobs[*at].pace, Pace::Rate { arrivals: Arrivals::Poisson, .. })
    });
    let due = figures.due as f64;
    if !poisson || due < FEWEST_GAPS * open.len() as f64 {
        return false;
    }
    // The CV of n exponential inter-arrival times has a standard error of 1 / sqrt(n); its
    // logarithm is approximately normal.
    figures.gap_cv.is_some_and(|cv| cv.ln().abs() > CV_WITHIN.max(CHANCE / due.sqrt()))
}

/// Largest coefficient of variation of a table's inter-arrival times: divided by the root of their
/// number, the standard error of their mean. For bursts, the root of the dispersion.
fn scatter(run: &Run, open: &[usize]) -> f64 {
    let of = |at: &usize| match &run.plan.jobs[*at].pace {
        Pace::Rate { arrivals: Arrivals::Drawn(table), .. } => {
            Arrivals::relative_variance(table).sqrt()
        }
        Pace::Rate { arrivals: Arrivals::Bursts(bursts), .. } => bursts.dispersion().sqrt(),
        _ => 0.0,
    };
    open.iter().map(of).fold(0.0, f64::max)
}

/// Operations per second requested by a job's plan.
fn requested(job: &Job) -> Option<f64> {
    let rate = match &job.pace {
        Pace::Each { read: Rate::Ops(read), other: Rate::Ops(other), .. } => read + other,
        Pace::Each { read: Rate::Bytes(read), other: Rate::Bytes(other), .. }
            if job.sizes == Sizes::default() =>
        {
            (read + other) / job.block_bytes as f64
        }
        Pace::Rate { rate: Rate::Ops(per_s), .. } => *per_s,
        Pace::Rate { rate: Rate::Bytes(per_s), .. } if job.sizes == Sizes::default() => {
            per_s / job.block_bytes as f64
        }
        Pace::Rate { .. } | Pace::Each { .. } | Pace::Recorded(_) | Pace::Closed => return None,
    };
    let whole: u64 = job.phases.iter().map(|phase| phase.ns).sum();
    if whole == 0 {
        return Some(rate);
    }
    // Only a run of whole rounds has the mean rate of its phases, so phases are not compared.
    None
}

/// Coefficient of variation of the inter-arrival times, pooled over jobs of equal pace.
fn gap_cv(run: &Run, open: &[usize]) -> Option<f64> {
    let (mut gaps, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for at in open {
        let counts = &run.jobs[*at].arrivals;
        let one_rate = run.plan.jobs[*at].pace == run.plan.jobs[open[0]].pace;
        if !one_rate || !run.plan.jobs[*at].phases.is_empty() {
            return None;
        }
        gaps += counts.gaps as f64;
        sum += counts.gap_sum_ns as f64;
        squares += counts.gap_square_sum;
    }
    let mean = sum / gaps;
    let variance = squares / gaps - mean * mean;
    (gaps >= 2.0 && mean > 0.0).then(|| variance.max(0.0).sqrt() / mean)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::figures::stalled;
    use iosonde_fixtures::{Load, open_run_of};
    use iosonde_model::plan::chance::Chance;
    use iosonde_model::record::run::ArrivalsRun;

    /// Jobs of an open loop with Poisson arrivals, each with this requested rate.
    fn asked(jobs: u32, per_s: f64) -> Run {
        let mut run = open_run_of(&Load { iops: 100.0, ..Load::default() }, |_| 0);
        let rate = Rate::Ops(per_s);
        run.plan.jobs[0].pace = Pace::Rate { rate, arrivals: Arrivals::Poisson };
        run.plan.jobs = vec![run.plan.jobs[0].clone(); jobs as usize];
        run.jobs = vec![run.jobs[0].clone(); jobs as usize];
        run
    }

    /// Draws Poisson arrivals of this rate for each job; returns whether they are off schedule.
    fn is_off(run: &mut Run, per_s: f64, chance: &mut Chance) -> bool {
        for job in &mut run.jobs {
            job.arrivals = ArrivalsRun::default();
            let counts = &mut job.arrivals;
            let mut at_ns = 0.0;
            loop {
                let gap_ns = -(1.0 - chance.unit()).ln() * 1e9 / per_s;
                at_ns += gap_ns;
                if at_ns >= run.measured_ns as f64 {
                    break;
                }
                if counts.due > 0 {
                    counts.gaps += 1;
                    counts.gap_sum_ns += gap_ns as u64;
                    counts.gap_square_sum += gap_ns * gap_ns;
                }
                counts.due += 1;
            }
        }
        arrivals(run, stalled::stalls(run).as_ref()).unwrap().verdict == ArrivalVerdict::OffSchedule
    }

    #[test]
    fn random_arrivals_are_on_schedule_and_another_rate_is_not() {
        let mut chance = Chance::new(3);
        for (jobs, per_s) in [(1, 1.0), (1, 10.0), (1, 300.0), (8, 1.0), (32, 0.3), (32, 2.0)] {
            let mut run = asked(jobs, per_s);
            let off = (0..300).filter(|_| is_off(&mut run, per_s, &mut chance));
            assert_eq!(off.count(), 0, "{jobs} jobs at {per_s}/s");
        }
        for (jobs, per_s, asked_per_s) in [(1, 100.0, 200.0), (8, 400.0, 420.0), (32, 2.0, 4.0)] {
            let mut run = asked(jobs, asked_per_s);
            let off = (0..50).filter(|_| is_off(&mut run, per_s, &mut chance));
            assert_eq!(off.count(), 50, "{jobs} jobs at {per_s}/s");
        }
    }

    #[test]
    fn full_slots_that_do_less_than_requested_are_an_overload() {
        let verdict = |requested: f64, queued: u64| {
            let mut run = open_run_of(&Load { iops: 2_000.0, ..Load::default() }, |_| 0);
            let rate = Rate::Ops(requested);
            run.plan.jobs[0].pace = Pace::Rate { rate, arrivals: Arrivals::Constant };
            run.jobs[0].arrivals.queued = queued;
            arrivals(&run, stalled::stalls(&run).as_ref()).unwrap().verdict
        };
        assert_eq!(verdict(2_100.0, 20_000), ArrivalVerdict::Unsustainable);
        assert_ne!(verdict(2_100.0, 10_000), ArrivalVerdict::Unsustainable, "slots were free");
        assert_eq!(verdict(2_000.0, 20_000), ArrivalVerdict::Sustained, "all that was requested");
    }

    #[test]
    fn a_small_overload_shows_by_its_even_growth() {
        let verdict = |growth_ns: fn(u64) -> u64| {
            let run = open_run_of(&Load { iops: 2_000.0, ..Load::default() }, growth_ns);
            arrivals(&run, stalled::stalls(&run).as_ref()).unwrap().verdict
        };
        // 0.25 % more than is served: 25 ms in 10 s.
        let even = |look: u64| 250_000 * look + 400_000 * (look % 2);
        assert_eq!(verdict(even), ArrivalVerdict::Unsustainable);
        let wandering = |look: u64| 250_000 * look + 10_000_000 * (look / 20 % 2);
        assert_eq!(verdict(wandering), ArrivalVerdict::Sustained);
        let nothing = |look: u64| 40 * look;
        assert_eq!(verdict(nothing), ArrivalVerdict::Sustained, "no operation fell behind");
    }

    #[test]
    fn a_backlog_like_one_that_was_made_up_for_is_no_proof() {
        // Rises for 2 s of 6 s and falls in 3 s of the rest; the window closes at the end of a
        // rise.
        let slow_times = |look: u64| match look % 60 {
            at @ 0..20 => 50_000_000 * at,
            at => 1_000_000_000u64.saturating_sub(33_000_000 * (at - 20)),
        };
        let cut: Vec<u64> = (0..200).map(slow_times).collect();
        assert!(backlog::recurs(&cut));
        // The second rise is larger or longer than the first, which was made up for.
        let larger: Vec<u64> = (0..80).map(|at| slow_times(at) * (1 + 2 * (at / 60))).collect();
        let rise = (0..90).map(|look| look * 11_000_000);
        let longer: Vec<u64> = (0..60).map(slow_times).chain(rise).collect();
        assert!(![&larger, &longer, &vec![5; 9]].into_iter().any(|all| backlog::recurs(all)));
        let mut run = open_run_of(&Load::default(), |_| 0);
        let counts = &mut run.jobs[0].arrivals;
        (counts.backlog_ns, counts.dropped) = (cut.clone(), 3_000);
        counts.due += counts.dropped;
        let of = |run: &Run| arrivals(run, None).unwrap().verdict;
        assert_ne!(of(&run), ArrivalVerdict::Unsustainable);
        run.jobs[0].arrivals.backlog_ns.drain(..180);
        assert_eq!(of(&run), ArrivalVerdict::Unsustainable);
    }

    /// An open loop that is frozen for its last tenth, 5,000/s.
    fn frozen_at_the_end(backlog: fn(u64) -> u64, dropped: u64) -> ArrivalVerdict {
        let shape = |t: f64| if t < 0.9 { 1.0 } else { 0.0 };
        let mut run = open_run_of(&Load { iops: 5_000.0, shape, ..Load::default() }, backlog);
        let counts = &mut run.jobs[0].arrivals;
        counts.dropped = dropped;
        counts.due += dropped;
        arrivals(&run, stalled::stalls(&run).as_ref()).unwrap().verdict
    }

    #[test]
    fn what_a_freeze_holds_back_is_no_growth_and_an_overload_with_a_freeze_is_one() {
        let held = |look: u64| look.saturating_sub(90) * 100_000_000;
        assert_ne!(frozen_at_the_end(held, 4_900), ArrivalVerdict::Unsustainable);
        let overload = |look: u64| look * 10_000_000 + look.saturating_sub(90) * 90_000_000;
        assert_eq!(frozen_at_the_end(overload, 4_900), ArrivalVerdict::Unsustainable);
        assert_eq!(frozen_at_the_end(held, 9_000), ArrivalVerdict::Unsustainable, "too many");
    }
}
