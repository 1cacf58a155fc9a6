//! The headline figures of a run: rates, latencies, depth, cost per operation, durable rate.
//!
//! Histograms are merged, percentiles never averaged. Where MSER-5 finds that the planned warm-up
//! was too short, figures of throughput and latency come from the intervals after it; depth and CPU
//! cost cover the whole window, for which only sums are recorded.

mod durable;
mod groups;
mod rate;
pub(crate) mod stalled;
mod tally;

use serde::Serialize;

use iosonde_model::plan::{EngineKind, IoKind, Job};
use iosonde_model::record::run::{DirectionRun, JobRun, Run};
use iosonde_model::units::count;
use iosonde_stats::dependent::{self, Batch, Batches, Loop, NoInterval};
use iosonde_stats::stall::Stalls;
use iosonde_stats::steady::{self, WarmUp};
use iosonde_stats::summary::mean;
use iosonde_stats::{Histogram, Quantile};

use super::arrivals::{ArrivalFigures, ArrivalVerdict};
use super::grouped::grouped;
use super::phases::{PhaseFigures, phases};
use super::priorities::{PriorityFigures, priorities};
use super::targets::{TargetFigures, targets};
use super::{document, series};
pub use durable::Durable;
use durable::durable;
use tally::Tally;

/// The quantiles computed for every latency distribution.
pub const QUANTILES: [f64; 9] = [0.01, 0.05, 0.10, 0.50, 0.90, 0.95, 0.99, 0.999, 0.9999];
/// The percentile of the SNIA PTS latency test.
pub const FIVE_NINES: f64 = 0.99999;
/// Share of probed requests completing within submission above which the depth is only a label.
const INLINE_FROM: f64 = 0.9;
/// The MSER-5 cut is applied only if it changes the mean rate by at least this share: below that it
/// would discard much of a short run and change nothing.
const MATERIAL_CHANGE: f64 = 0.02;
/// Relative difference between the halves at or above which a run is reported as not having reached
/// steady state: steps below 5 % are not reported (method 2.4).
const UNSTEADY_FROM: f64 = 0.10;
/// Standard errors by which the halves must also differ.
const STANDARD_ERRORS: f64 = 3.0;

/// Figures of one run, serialised as in its document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Length of the part of the window that the figures come from, ns.
    pub window_ns: u64,
    /// Whether the planned warm-up was enough.
    pub steady: Steady,
    /// All jobs together.
    #[serde(flatten, serialize_with = "document::beside_summary")]
    pub all: GroupFigures,
    /// Each role, in the order of the plan.
    pub roles: Vec<GroupFigures>,
    /// The phases of all roles that have phases.
    pub phases: Vec<PhaseFigures>,
    /// Stalls: drops far below the usual rate, if they cost 1 % of the window or one lasts half a
    /// second.
    #[serde(skip)]
    pub stalls: Option<Stalls>,
    /// Whether requests complete within submission, so that depth is only a label.
    pub inline: bool,
    /// CPU time of the process per operation, ns.
    pub cpu_ns_per_op: Option<f64>,
    /// User CPU time of the process over its wall time; 1 is one CPU.
    pub cpu_user_share: Option<f64>,
    /// System CPU time of the process over its wall time; 1 is one CPU.
    pub cpu_system_share: Option<f64>,
    /// Voluntary and involuntary context switches of the process per operation.
    #[serde(rename = "context_switches_per_op")]
    pub switches_per_op: Option<f64>,
    /// I/O system calls per operation.
    pub syscalls_per_op: Option<f64>,
    /// I/O errors over the whole run, warm-up included.
    pub errors: u64,
    /// The durable write rate.
    pub durable: Option<Durable>,
    /// Open-loop figures; `None` in a closed loop.
    pub arrivals: Option<ArrivalFigures>,
    /// Figures by target, all jobs together, if jobs use several targets.
    pub targets: Vec<TargetFigures>,
    /// Figures by priority, all jobs together, if requests have priorities.
    pub priorities: Vec<PriorityFigures>,
}

/// Whether the planned warm-up was enough.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Steady {
    /// Nothing beyond the planned warm-up was discarded.
    AsPlanned,
    /// MSER-5 additionally discarded this much from the start of the window.
    Lengthened {
        /// Discarded time, ns.
        ns: u64,
    },
    /// The rate was still changing in the second half: no single mean describes the run.
    NoSteadyPart,
}

/// Figures of a set of jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupFigures {
    /// Role name; empty for all jobs together.
    pub role: String,
    /// Number of jobs.
    pub jobs: u32,
    /// Size of one operation in bytes, if all jobs agree.
    pub block_bytes: Option<u64>,
    pub read: DirectionFigures,
    pub write: DirectionFigures,
    pub trim: DirectionFigures,
    /// Syncs, which move no data and are not in the total.
    pub sync: DirectionFigures,
    /// All data operations.
    pub total: DirectionFigures,
    /// Reads as a share of the data operations, `0..=1`; `None` without operations.
    pub read_share: Option<f64>,
    /// Requested queue depth, summed over jobs.
    pub depth_asked: u64,
    /// Mean queue depth, summed over jobs.
    pub depth_seen: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionFigures {
    /// Operations completed.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations per second.
    pub iops: f64,
    /// Its 95 % interval, or why there is none; `None` without operations.
    #[serde(flatten, serialize_with = "document::rate_interval")]
    pub iops_interval: Option<Result<(f64, f64), NoInterval>>,
    /// Approximate half-width of that interval, as a share of the rate, if the run is too short for
    /// an interval; else `None`.
    #[serde(skip)]
    pub iops_scatter: Option<f64>,
    /// Bytes per second.
    #[serde(serialize_with = "document::whole")]
    pub bytes_per_s: f64,
    /// Latency until after reaping: from the due time in an open loop, else from before submission.
    #[serde(flatten, serialize_with = "document::latency_in_full")]
    pub latency: LatencyFigures,
    /// Open loop: service time, from before submission to after reaping.
    #[serde(rename = "service_ns", serialize_with = "document::percentiles")]
    pub service: Option<LatencyFigures>,
    /// Open loop: lag, from the due time to before submission.
    #[serde(rename = "lag_ns", serialize_with = "document::percentiles")]
    pub lag: Option<LatencyFigures>,
    /// Submission latency, from before submission to the return of the call, if requested.
    #[serde(rename = "slat_ns", serialize_with = "document::percentiles")]
    pub slat: Option<LatencyFigures>,
    /// Completion latency, from the return of that call to after reaping.
    #[serde(rename = "clat_ns", serialize_with = "document::percentiles")]
    pub clat: Option<LatencyFigures>,
}

/// A latency distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyFigures {
    /// Operations whose latency is known.
    pub count: u64,
    pub mean_ns: Option<f64>,
    /// Its 95 % interval, ns, or why there is none.
    pub mean_interval_ns: Result<(f64, f64), NoInterval>,
    /// Approximate half-width of that interval, as a share of the mean, if the run is too short for
    /// an interval; else `None`.
    #[serde(skip)]
    pub mean_scatter: Option<f64>,
    /// Sample standard deviation, ns.
    pub std_dev_ns: Option<f64>,
    /// Smallest, ns.
    pub min_ns: Option<u64>,
    /// Largest, ns: an extreme of the sample, not to be compared between runs of different length.
    pub max_ns: Option<u64>,
    /// Latencies beyond the range of the histogram.
    pub overflow: u64,
    /// [`QUANTILES`], each with its interval or the reason why it is not known.
    pub quantiles: Vec<Quantile>,
    /// [`FIVE_NINES`], for which few runs are long enough: only experiments that use it show it.
    #[serde(skip)]
    pub five_nines: Quantile,
}

impl DirectionFigures {
    /// Half-width of the rate's interval, as a share of the rate, if known.
    pub(crate) fn iops_half_width(&self) -> Option<f64> {
        let (low, high) = self.iops_interval?.ok()?;
        (self.iops > 0.0).then(|| (high - low) / 2.0 / self.iops)
    }
}

impl LatencyFigures {
    /// Half-width of the mean's interval, as a share of the mean, if known.
    pub(crate) fn mean_half_width(&self) -> Option<f64> {
        let (low, high) = self.mean_interval_ns.ok()?;
        self.mean_ns.filter(|mean| *mean > 0.0).map(|mean| (high - low) / 2.0 / mean)
    }

    /// The quantile `q`, one of [`QUANTILES`] or [`FIVE_NINES`].
    pub fn quantile(&self, q: f64) -> Option<&Quantile> {
        self.quantiles
            .iter()
            .chain([&self.five_nines])
            .find(|quantile| (quantile.q - q).abs() < 1e-9)
    }

    /// The value of the quantile `q`, ns, if known.
    pub fn at(&self, q: f64) -> Option<u64> {
        self.quantile(q).and_then(Quantile::value_ns)
    }

    /// A copy without values, which would mislead; the reason is reported elsewhere.
    fn withheld(&self) -> LatencyFigures {
        LatencyFigures { count: self.count, ..LatencyFigures::of(&Histogram::new()) }
    }

    /// The figures, without intervals, of a distribution known only for the whole run.
    pub fn of(histogram: &Histogram) -> LatencyFigures {
        LatencyFigures::over_time(histogram, Loop::Closed, Err(NoInterval::OnlyWhole))
    }

    /// The figures of a distribution with its batches over time, or the reason why it has none.
    pub fn over_time(histogram: &Histogram, of_loop: Loop, batches: Batches<'_>) -> LatencyFigures {
        let mean = batches.and_then(|batches| dependent::mean(batches, of_loop));
        let mean_interval_ns = mean.and_then(|mean| {
            // The mean includes operations in no whole batch, as after a freeze at the end.
            let (low, high) = mean.latency_bounds();
            let holds = histogram.mean().is_some_and(|mean| (low..=high).contains(&mean));
            if holds { Ok((low, high)) } else { Err(NoInterval::RunLonger) }
        });
        let too_few = batches.ok().filter(|_| mean_interval_ns.is_err());
        LatencyFigures {
            count: histogram.count(),
            mean_ns: histogram.mean(),
            mean_interval_ns,
            mean_scatter: too_few.map(dependent::scatter_of_mean),
            std_dev_ns: histogram.std_dev(),
            min_ns: histogram.min(),
            max_ns: histogram.max(),
            overflow: histogram.overflow(),
            quantiles: QUANTILES
                .iter()
                .map(|q| Quantile::over_time(histogram, batches, of_loop, *q))
                .collect(),
            five_nines: Quantile::over_time(histogram, batches, of_loop, FIVE_NINES),
        }
    }
}

/// Why a quantile has no value, as text; `None` if it has one.
pub fn reason(quantile: &Quantile) -> Option<String> {
    let had = count::thousands(quantile.n);
    quantile.needs().map(|needs| format!("needs {} I/Os, had {had}", count::thousands(needs)))
}

/// Computes the figures of a run.
pub fn figures(run: &Run) -> Figures {
    let stalls = stalled::stalls(run);
    let (steady, skip_ns) = steadiness(run, stalls.as_ref());
    let window_ns = run.measured_ns.saturating_sub(skip_ns);
    let cut = Cut { skip_ns, window_ns };
    let everyone: Vec<usize> = (0..run.jobs.len()).collect();
    let arrivals = super::arrivals::arrivals(run, stalls.as_ref());
    let mut all = group(run, "", &everyone, cut);
    let of_role = |(role, jobs): (&str, Vec<usize>)| match jobs == everyone {
        true => GroupFigures { role: role.to_owned(), ..all.clone() },
        false => group(run, role, &jobs, cut),
    };
    let members = roles(run);
    let mut phases = phases(run, &members);
    let mut roles: Vec<GroupFigures> = members.into_iter().map(of_role).collect();
    if arrivals.as_ref().is_some_and(|open| open.verdict == ArrivalVerdict::Unsustainable) {
        withhold(&mut all, &mut roles, &mut phases);
    }
    let ops: u64 = series::directions(run).map(|direction| direction.ops).sum();
    let per_op = |amount: u64| (ops > 0).then(|| amount as f64 / ops as f64);
    let process = &run.process;
    // Another thread reads the counters of the process and may be late at an edge of the window.
    let whole = run.measured_ns as f64 / process.span_ns.max(1) as f64;
    let of_process = |amount: u64| per_op(amount).map(|each| each * whole);
    let share = |ns: u64| (process.span_ns > 0).then(|| ns as f64 / process.span_ns as f64);
    Figures {
        window_ns,
        steady,
        all,
        roles,
        phases,
        stalls,
        inline: is_inline(run),
        cpu_ns_per_op: of_process(process.cpu_user_ns + process.cpu_system_ns),
        cpu_user_share: share(process.cpu_user_ns),
        cpu_system_share: share(process.cpu_system_ns),
        switches_per_op: of_process(process.voluntary_switches + process.involuntary_switches),
        syscalls_per_op: per_op(run.jobs.iter().map(|job| job.syscalls).sum()),
        errors: run.jobs.iter().flat_map(|job| job.errors.values()).sum(),
        durable: durable(run),
        arrivals,
        targets: targets(run),
        priorities: priorities(run),
    }
}

/// Removes the latencies of an open loop whose backlog grows.
fn withhold(all: &mut GroupFigures, roles: &mut [GroupFigures], phases: &mut [PhaseFigures]) {
    for phase in phases {
        phase.total.latency = phase.total.latency.withheld();
    }
    for group in std::iter::once(all).chain(roles) {
        for direction in [&mut group.read, &mut group.write, &mut group.trim, &mut group.total] {
            direction.latency = direction.latency.withheld();
            direction.lag = None;
        }
    }
}

/// The part of the window that figures come from.
#[derive(Clone, Copy)]
struct Cut {
    skip_ns: u64,
    window_ns: u64,
}

impl Cut {
    /// Batches of these directions after the cut.
    fn batches<'a>(
        self,
        directions: impl Iterator<Item = &'a DirectionRun>,
    ) -> Result<Vec<Batch>, NoInterval> {
        series::batches(directions, (self.skip_ns, self.skip_ns + self.window_ns))
    }
}

/// Role names in order of appearance, with the indices of their jobs.
fn roles(run: &Run) -> Vec<(&str, Vec<usize>)> {
    let jobs = run.plan.jobs.iter().enumerate().take(run.jobs.len());
    grouped(jobs.map(|(index, job)| (job.role.as_str(), index)))
}

fn group(run: &Run, role: &str, jobs: &[usize], cut: Cut) -> GroupFigures {
    let chosen = || jobs.iter().filter_map(|index| run.jobs.get(*index));
    let planned = || jobs.iter().filter_map(|index| run.plan.jobs.get(*index));
    // Some jobs may end early: a group's rate is over the time of its longest job.
    let longest_ns = chosen().map(|job| job.measured_ns).max().filter(|ns| *ns > 0);
    let own_ns = longest_ns.map_or(cut.window_ns, |ns| ns.saturating_sub(cut.skip_ns));
    let cut = Cut { window_ns: own_ns.min(cut.window_ns), ..cut };
    let each = IoKind::ALL.map(|way| {
        let of = || chosen().map(move |job| job.directions()[way as usize]);
        (Tally::of(of(), cut), cut.batches(of()))
    });
    let [read, write, trim, sync] =
        each.each_ref().map(|(tally, batches)| tally.figures(cut, batches));
    let total = match (read.ops, write.ops, trim.ops) {
        (_, 0, 0) => read.clone(),
        (0, _, 0) => write.clone(),
        _ => {
            let mut total = Tally::default();
            each[..3].iter().for_each(|(tally, _)| total.merge(tally));
            let data = chosen().flat_map(series::of_data);
            total.figures(cut, &cut.batches(data))
        }
    };
    let first = planned().next().map(|job| job.block_bytes);
    GroupFigures {
        role: role.to_owned(),
        jobs: u32::try_from(jobs.len()).unwrap_or(u32::MAX),
        block_bytes: first.filter(|bytes| planned().all(|job| job.block_bytes == *bytes)),
        read_share: (total.ops > 0).then(|| read.ops as f64 / total.ops as f64),
        read,
        write,
        trim,
        sync,
        total,
        depth_asked: depth_asked(run, planned()),
        depth_seen: chosen().map(|job| depth_seen(run, job)).sum(),
    }
}

/// Requested queue depth over these jobs: as planned, or as set by the controller.
fn depth_asked<'a>(run: &Run, planned: impl Iterator<Item = &'a Job>) -> u64 {
    let planned: u64 = planned.map(|job| u64::from(job.iodepth)).sum();
    let Some(controlled) = &run.controlled else { return planned };
    let spent = controlled.window_depths.values().sum::<u64>().max(1) as f64;
    let depths = controlled.window_depths.iter();
    let mean = depths.map(|(depth, ns)| f64::from(*depth) * *ns as f64).sum::<f64>() / spent;
    (mean * planned as f64 / run.plan.depth().max(1) as f64).round() as u64
}

/// Time-weighted mean number of requests in flight of one job.
pub fn depth_seen(run: &Run, job: &JobRun) -> f64 {
    let window_ns = if job.measured_ns > 0 { job.measured_ns } else { run.measured_ns };
    if window_ns == 0 { 0.0 } else { job.in_flight_area_ns as f64 / window_ns as f64 }
}

/// Decides whether steady state was reached, and how much to skip: whole intervals of the widest
/// series, so that every counter and every histogram loses the same time.
fn steadiness(run: &Run, stalls: Option<&Stalls>) -> (Steady, u64) {
    // A load that is uneven by request is not cut, nor are slat histograms, which are totals over
    // the whole window.
    if !run.plan.jobs.iter().all(|job| job.keeps_depth() && !job.reap.slat) {
        return (Steady::AsPlanned, 0);
    }
    let series = series::whole(run);
    let rates = series.iops();
    match steady::mser5(&rates) {
        WarmUp::EndsAfter(0) | WarmUp::TooShort => (Steady::AsPlanned, 0),
        // With no warm-up requested, every second of the run counts.
        WarmUp::EndsAfter(_) if run.plan.warmup_ns == 0 => (Steady::AsPlanned, 0),
        WarmUp::EndsAfter(count) => {
            let skip_ns = round_up(run, count as u64 * series.width_ns);
            let usable = skip_ns < run.measured_ns && shift(&rates, count) >= MATERIAL_CHANGE;
            if usable {
                (Steady::Lengthened { ns: skip_ns }, skip_ns)
            } else {
                (Steady::AsPlanned, 0)
            }
        }
        WarmUp::NoSteadyPart => {
            let rates = stalled::rates_without(run, &series, stalls);
            let differ = differ(&rates, rates.len() / 2) >= UNSTEADY_FROM
                && steady::halves_apart(&rates) >= STANDARD_ERRORS;
            (if differ { Steady::NoSteadyPart } else { Steady::AsPlanned }, 0)
        }
    }
}

/// Relative difference of the means before and after an index.
fn differ(series: &[f64], at: usize) -> f64 {
    let (before, after) = series.split_at(at.min(series.len()));
    relative(mean(before), mean(after))
}

/// Relative change of the mean if everything before an index is discarded.
fn shift(series: &[f64], at: usize) -> f64 {
    relative(mean(series), mean(&series[at.min(series.len())..]))
}

fn relative(a: f64, b: f64) -> f64 {
    if b > 0.0 { (a / b - 1.0).abs() } else { f64::INFINITY }
}

/// The next time at which an interval of every series begins.
fn round_up(run: &Run, ns: u64) -> u64 {
    let used = series::directions(run).filter(|direction| direction.ops > 0);
    let widths = used.map(|each| each.latencies.width_ns.max(each.counters.width_ns));
    widths.max().filter(|widest| *widest > 0).map_or(ns, |widest| ns.next_multiple_of(widest))
}

/// Whether requests complete within submission.
fn is_inline(run: &Run) -> bool {
    let probed: u64 = run.jobs.iter().map(|job| job.inline_probed).sum();
    let seen: u64 = run.jobs.iter().map(|job| job.inline_seen).sum();
    let kind = run.plan.engine.kind;
    kind == EngineKind::Null
        || kind.is_synchronous()
        || (probed > 0 && seen as f64 / probed as f64 > INLINE_FROM)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_record_that_no_run_can_have_is_refused() {
        let run = run_of(&[Load { jobs: 2, iops: 500.0, ..Load::default() }]);
        let refused = |change: &dyn Fn(&mut Run)| {
            let mut run = run.clone();
            change(&mut run);
            let text = serde_json::to_string(&run).unwrap();
            serde_json::from_str::<Run>(&text).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&|_| ()), None);
        let more_jobs = |run: &mut Run| run.plan.jobs.truncate(1);
        assert!(refused(&more_jobs).unwrap().contains("at most the 1 of the plan"));
        let no_time = |run: &mut Run| run.measured_ns = 0;
        assert!(refused(&no_time).unwrap().contains("measured_ns: found 0 with "));
        let low = |run: &mut Run| {
            let text = serde_json::to_string(&run.jobs[0].read.latency).unwrap();
            let max = format!("\"max_ns\":{}", run.jobs[0].read.latency.max().unwrap());
            let min = format!("\"max_ns\":{}", run.jobs[0].read.latency.min().unwrap());
            run.jobs[0].read.latency = serde_json::from_str(&text.replace(&max, &min)).unwrap();
        };
        assert!(refused(&low).unwrap().contains("latency: found a mean of "));
        let endless = |run: &mut Run| run.measured_ns = u64::MAX;
        assert!(refused(&endless).unwrap().contains("intervals, expected at most"));
    }

    #[test]
    fn a_known_load_gives_its_own_figures() {
        let run = run_of(&[Load { jobs: 2, iops: 5_000.0, ..Load::default() }]);
        let figures = figures(&run);
        assert!((figures.all.total.iops - 10_000.0).abs() < 100.0);
        assert_eq!(figures.all.total.bytes, figures.all.total.ops * 4096);
        assert_eq!(figures.all.depth_asked, 64);
        assert!((figures.all.depth_seen - 64.0).abs() < 1.0, "{}", figures.all.depth_seen);
        // Little: 32 in flight at 5,000 per second take 6.4 ms.
        let mean = figures.all.total.latency.mean_ns.unwrap();
        assert!((mean / 6.4e6 - 1.0).abs() < 0.02, "{mean}");
        assert_eq!(figures.steady, Steady::AsPlanned);
        assert_eq!(figures.all.read_share, Some(1.0));
        assert!(!figures.inline);
    }

    #[test]
    fn reads_and_writes_are_distinguished() {
        // T13: 1 ms reads and 10 ms writes.
        let reads = Load { depth: 1, iops: 1_000.0, role: "read", ..Load::default() };
        let writes =
            Load { depth: 1, iops: 100.0, role: "write", read_percent: 0, ..Load::default() };
        let figures = figures(&run_of(&[reads, writes]));
        let mean = |direction: &DirectionFigures| direction.latency.mean_ns.unwrap() / 1e6;
        assert!((mean(&figures.all.read) - 1.0).abs() < 0.05);
        assert!((mean(&figures.all.write) - 10.0).abs() < 0.5);
        assert_eq!(figures.roles.len(), 2);
        assert_eq!(figures.roles[0].write.ops, 0);
    }

    #[test]
    fn a_slow_start_lengthens_the_warm_up() {
        let load = Load { shape: |t| if t < 0.15 { 0.3 } else { 1.0 }, ..Load::default() };
        let run = run_of(&[load]);
        let figures = figures(&run);
        assert_eq!(figures.steady, Steady::Lengthened { ns: 1_500_000_000 });
        assert_eq!(figures.window_ns, 8_500_000_000);
        assert!((figures.all.total.iops / 5_000.0 - 1.0).abs() < 0.02);
        assert!(
            figures.all.total.latency.max_ns.unwrap() < run.jobs[0].read.latency.max().unwrap()
        );
    }

    #[test]
    fn a_start_that_does_not_matter_costs_nothing() {
        let load =
            Load { shape: |t| if t < 0.05 { 0.9 } else { 1.0 }, noise: 0.0, ..Load::default() };
        assert_eq!(figures(&run_of(&[load])).steady, Steady::AsPlanned);
    }

    #[test]
    fn a_falling_rate_has_no_steady_part_and_noise_has() {
        let falling = Load { shape: |t| 1.0 - 0.7 * t, ..Load::default() };
        assert_eq!(figures(&run_of(&[falling])).steady, Steady::NoSteadyPart);
        for seed in 0..50 {
            let noisy = Load { noise: 0.05, seed, ..Load::default() };
            assert_ne!(figures(&run_of(&[noisy])).steady, Steady::NoSteadyPart, "{seed}");
        }
    }

    #[test]
    fn an_empty_run_has_figures_without_values() {
        let figures = figures(&run_of(&[Load { iops: 0.0, ..Load::default() }]));
        assert_eq!(figures.all.total.ops, 0);
        assert_eq!(figures.all.read_share, None);
        assert_eq!(figures.all.total.latency.quantile(0.99).unwrap().value_ns(), None);
    }
}
