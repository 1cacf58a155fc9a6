//! fio's output formats, as parsed by users' scripts: JSON (with and without bins), terse, logs.
//!
//! There is one entry per job over the whole measured window, as in fio, which has no extended
//! warm-up. A value that only fio counts is 0 (list in `docs/formats.md`). A percentile without
//! enough samples is omitted, since fio has no notation for it.

pub mod iolog;
pub mod json;
pub mod log;
pub mod settled;
mod shown;
pub mod terse;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::json::{Document, WrittenJob, WrittenOptions};
use crate::run_text::{rw, size};
use iosonde_analysis::Assessment;
use iosonde_analysis::arrivals::ArrivalVerdict;
use iosonde_analysis::intervals::{self, DIRECTIONS, Direction};
use iosonde_analysis::priorities;
use iosonde_model::plan::{Job, Stop};
use iosonde_model::record::run::{DirectionRun, JobRun, Run};
use iosonde_stats::Histogram;
use shown::Shown;

/// Version string, in the field of fio's version.
pub const VERSION: &str = concat!("iosonde-", env!("CARGO_PKG_VERSION"));

/// Interval of fio's own bandwidth and IOPS samples, ns.
const SAMPLE_NS: u64 = 500_000_000;

/// The errno that fio reports if an operation exceeds `max_latency`.
const ETIMEDOUT: i32 = 110;

/// Upper edges of fio's latency classes, in ns, us or ms.
const CLASSES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// fio's bin for a value: 64 bins per octave, named by their midpoints. Two of our buckets fit
/// exactly into one bin, so the conversion is exact.
fn bin(value_ns: u64) -> u64 {
    const EXACT: u64 = 128;
    if value_ns < EXACT {
        return value_ns;
    }
    let shift = value_ns.ilog2() - 6;
    (value_ns >> shift << shift) + (1 << (shift - 1))
}

/// Counts by fio's bins, in ascending order.
fn bins(latency: &Histogram) -> BTreeMap<u64, u64> {
    let mut bins = BTreeMap::new();
    for (value_ns, times) in latency.midpoints() {
        *bins.entry(bin(value_ns)).or_default() += times;
    }
    if latency.overflow() > 0 {
        *bins.entry(bin(latency.max().unwrap_or(0))).or_default() += latency.overflow();
    }
    bins
}

/// Percentages of all latencies in fio's classes: below 1 us, below 1 ms, and from 1 ms to beyond 2
/// s.
struct Classes {
    ns: [f64; 10],
    us: [f64; 10],
    ms: [f64; 12],
}

impl Classes {
    fn of<'a>(histograms: impl Iterator<Item = &'a Histogram> + Clone) -> Classes {
        let total: u64 = histograms.clone().map(Histogram::count).sum();
        let mut classes = Classes { ns: [0.0; 10], us: [0.0; 10], ms: [0.0; 12] };
        let below = |value: u64| CLASSES.iter().position(|edge| value < *edge);
        let mut add = |value_ns: u64, times: u64| {
            let count = times as f64;
            let (us, ms) = (value_ns / 1_000, value_ns / 1_000_000);
            if let Some(class) = below(value_ns) {
                classes.ns[class] += count;
            } else if let Some(class) = below(us) {
                classes.us[class] += count;
            } else if let Some(class) = below(ms) {
                classes.ms[class] += count;
            } else {
                classes.ms[if ms < 2_000 { 10 } else { 11 }] += count;
            }
        };
        for histogram in histograms {
            histogram.midpoints().for_each(|(value_ns, times)| add(value_ns, times));
            add(histogram.max().unwrap_or(0), histogram.overflow());
        }
        let shares = classes.ns.iter_mut().chain(&mut classes.us).chain(&mut classes.ms);
        shares.for_each(|count| *count *= 100.0 / total.max(1) as f64);
        classes
    }
}

/// Directions that transfer data, and trims; fio counts syncs separately.
fn moving() -> impl Iterator<Item = Direction> + Clone {
    DIRECTIONS.into_iter().filter(|(word, _)| *word != "sync")
}

/// Completion latency. If submission was not timed separately, the latency from before submission,
/// as in fio's synchronous engines.
fn clat(direction: &DirectionRun) -> &Histogram {
    if direction.clat.count() > 0 { &direction.clat } else { &direction.latency }
}

/// One job, with the data for all formats.
struct JobReport<'a> {
    run: &'a Run,
    plan: &'a Job,
    job: Cow<'a, JobRun>,
    /// The jobs that are reported as one.
    parts: &'a [JobRun],
    index: usize,
    /// Name of its section, or of its role.
    name: String,
    /// The job as written in a job file, and the percentiles to show.
    written: Option<&'a WrittenJob>,
    shown: Shown,
    /// Whether to omit latencies from the due time, since they only depend on the length of the
    /// run.
    withheld: bool,
}

/// A run and its assessment.
type Judged<'a> = (&'a Run, &'a Assessment);

/// A run whose consistency checks passed, with the number of its first group.
pub struct Numbered<'a> {
    first_group: usize,
    run: Judged<'a>,
    /// The run that verified the data of this one. fio counts its reads as those of the jobs.
    verification: Option<Judged<'a>>,
    written: Option<&'a WrittenOptions>,
}

/// The runs whose consistency checks passed, each with the number of its first group.
pub fn numbered<'a>(document: &Document<'a>) -> Vec<Numbered<'a>> {
    let (mut first_group, mut numbered) = (0, Vec::<Numbered<'a>>::new());
    for &(run, facts) in document.cells {
        let is_valid = facts.consistency.valid();
        let rereads = !run.plan.jobs.is_empty() && run.plan.jobs.iter().all(|job| job.rereads);
        let verifies =
            |written: &Run| rereads && run.plan.name == format!("{}-verify", written.plan.name);
        let written = numbered.last_mut().filter(|written| verifies(written.run.0));
        if let Some(written) = written.filter(|_| is_valid) {
            written.verification = Some((run, facts));
            continue;
        }
        if is_valid {
            let (run, written) = ((run, facts), document.written);
            numbered.push(Numbered { first_group, run, verification: None, written });
        }
        let groups = run.plan.jobs.iter().map(|job| job.span.group as usize + 1);
        first_group += groups.max().unwrap_or(1);
    }
    numbered
}

impl<'a> Numbered<'a> {
    /// Every job, or one for jobs reported together, with the same of the verification, if any.
    fn reports(&self) -> Vec<Reported<'a>> {
        let written = Written { run: &self.run.0.plan.name, all: self.written };
        let of = |(run, facts): Judged<'a>| job_report(run, facts, written);
        let mut rereads: Vec<JobReport<'a>> =
            self.verification.map(of).into_iter().flatten().collect();
        let with = |job: JobReport<'a>| {
            let its = rereads.iter().position(|reread| reread.plan.role == job.plan.role);
            let reread = its.map(|at| job.with_reads_of(rereads.remove(at)));
            Reported { job, reread }
        };
        of(self.run).into_iter().map(with).collect()
    }
}

/// A job, with the same job of the verification, if any.
struct Reported<'a> {
    job: JobReport<'a>,
    reread: Option<JobReport<'a>>,
}

impl<'a> Reported<'a> {
    /// The report that contains a direction: reads are with those of the verification.
    fn of(&self, direction: Direction) -> &JobReport<'a> {
        self.reread.as_ref().filter(|_| direction.0 == "read").unwrap_or(&self.job)
    }
}

#[derive(Clone, Copy)]
struct Written<'a> {
    run: &'a str,
    all: Option<&'a WrittenOptions>,
}

impl<'a> Written<'a> {
    fn job(self, plan: &Job) -> Option<&'a WrittenJob> {
        self.all?.jobs.get(&(self.run.to_owned(), plan.role.clone()))
    }

    /// Whether a job is reported together with the one before it. As in fio, its own options must
    /// request that, and both must have the same group.
    fn are_one(self, before: &Job, plan: &Job) -> bool {
        before.span.group == plan.span.group && self.job(plan).is_some_and(|job| job.grouped)
    }
}

/// Every job of a run; jobs reported together are one.
fn job_report<'a>(run: &'a Run, facts: &Assessment, written: Written<'a>) -> Vec<JobReport<'a>> {
    let open = facts.figures.arrivals.as_ref();
    let withheld = open.is_some_and(|open| open.verdict == ArrivalVerdict::Unsustainable);
    let report = |index: usize, plan: &'a Job, job, parts: &'a [JobRun]| {
        let name = written.job(plan).map_or_else(|| name_of(run, plan), |job| job.name.clone());
        // For jobs reported together, fio uses the options of the last one.
        let last = written.job(run.plan.jobs.get(index + parts.len() - 1).unwrap_or(plan));
        let shown = Shown::of(written.all, last.map(|job| &job.options));
        JobReport { run, plan, job, parts, index, withheld, name, written: last, shown }
    };
    let mut reports: Vec<JobReport<'a>> = Vec::new();
    let plans: Vec<&'a Job> = run.plan.jobs.iter().take(run.jobs.len()).collect();
    let mut from = 0;
    for group in plans.chunk_by(|before, plan| written.are_one(before, plan)) {
        let parts = &run.jobs[from..from + group.len()];
        let job = match parts {
            [one] => Cow::Borrowed(one),
            several => Cow::Owned(together(&several.iter().collect::<Vec<_>>())),
        };
        reports.push(report(from, group[0], job, parts));
        from += group.len();
    }
    reports
}

/// Name of a job that was not written in a job file: that of the run, or of its role if there are
/// several. Copies of a job with their own files (`name.1`, ...) count as one role.
fn name_of(run: &Run, plan: &Job) -> String {
    let name = &run.plan.name;
    let is_one = run.plan.jobs.iter().all(|job| job.role == plan.role);
    let are_copies = run.plan.jobs.iter().all(|job| job.plays(name));
    if is_one || are_copies { name.clone() } else { plan.role.clone() }
}

/// Combines jobs like fio's `group_reporting`: counts and histograms are summed, processor time and
/// depth are means per job.
fn together(jobs: &[&JobRun]) -> JobRun {
    let mut all = JobRun::default();
    for job in jobs {
        let ways = [&job.read, &job.write, &job.trim, &job.sync];
        let sums = [&mut all.read, &mut all.write, &mut all.trim, &mut all.sync];
        for (sum, way) in sums.into_iter().zip(ways) {
            sum.ops += way.ops;
            sum.bytes += way.bytes;
            sum.latency.merge(&way.latency);
            sum.slat.merge(&way.slat);
            sum.clat.merge(&way.clat);
            sum.response.merge(&way.response);
            priorities::merge(&mut sum.priorities, &way.priorities);
        }
        all.batches.add(&job.batches);
        all.in_flight_area_ns += job.in_flight_area_ns / jobs.len() as u64;
        all.cpu_user_ns += job.cpu_user_ns / jobs.len() as u64;
        all.cpu_system_ns += job.cpu_system_ns / jobs.len() as u64;
        all.measured_ns = all.measured_ns.max(job.measured_ns);
        all.first_error = all.first_error.or_else(|| job.first_error.clone());
    }
    all
}

impl<'a> JobReport<'a> {
    /// The reads of this job, if any, and of its verification, over both windows, as in fio.
    fn with_reads_of(&self, verification: JobReport<'a>) -> JobReport<'a> {
        if self.job.read.ops == 0 {
            return verification;
        }
        let mut job = together(&[&self.job, &verification.job]);
        job.measured_ns = self.window_ns() + verification.window_ns();
        let (run, parts) = (self.run, self.parts);
        JobReport { job: Cow::Owned(job), run, parts, ..verification }
    }

    fn window_ns(&self) -> u64 {
        if self.job.measured_ns > 0 { self.job.measured_ns } else { self.run.measured_ns }
    }

    /// Length of the window, or 0 if the direction did nothing, as in fio.
    fn runtime_ms(&self, direction: &DirectionRun) -> u64 {
        if direction.ops > 0 { (self.window_ns() + 500_000) / 1_000_000 } else { 0 }
    }

    /// CPU time of the job's thread, percent of the window: user, system.
    fn cpu_percent(&self) -> (f64, f64) {
        let percent = |ns: u64| ns as f64 * 100.0 / self.window_ns().max(1) as f64;
        (percent(self.job.cpu_user_ns), percent(self.job.cpu_system_ns))
    }

    /// Context switches of the process. They are reported with its first job only, so that the sum
    /// over the jobs is right.
    fn switches(&self) -> u64 {
        let process = &self.run.process;
        let all = process.voluntary_switches + process.involuntary_switches;
        if self.index == 0 { all } else { 0 }
    }

    /// Percentages of requests by the number in flight, in fio's classes `1, 2, 4, … >=64`. If they
    /// were not counted, all are in the class of the mean.
    fn depth_shares(&self) -> [f64; 7] {
        shares(&self.job.batches.depths).unwrap_or_else(|| whole(Some(self.depth_class())))
    }

    /// Percentages of submissions by their size, in fio's classes `0, 4, 8, … >=64`.
    fn submit_shares(&self) -> [f64; 7] {
        shares(&self.job.batches.submitted).unwrap_or_else(|| whole(self.batch_class()))
    }

    /// The same for the number of requests per completion.
    fn complete_shares(&self) -> [f64; 7] {
        shares(&self.job.batches.completed).unwrap_or_else(|| whole(self.batch_class()))
    }

    /// Class of the mean number in flight among fio's `1, 2, 4, … >=64`.
    fn depth_class(&self) -> usize {
        let seen = self.job.in_flight_area_ns as f64 / self.window_ns().max(1) as f64;
        (seen.max(1.0).round() as u64).ilog2().min(6) as usize
    }

    /// Class of the mean number of requests per system call among fio's `0, 4, 8, … >=64`; `None`
    /// without system calls.
    fn batch_class(&self) -> Option<usize> {
        let ops: u64 = moving().map(|(_, of)| of(&self.job).ops).sum();
        let calls: u64 = self.parts.iter().map(|job| job.syscalls).sum();
        if ops == 0 || calls == 0 {
            return None;
        }
        let mean = (ops as f64 / calls as f64).max(1.0).min(f64::from(self.plan.batch.max(1)));
        let most = [4.0, 8.0, 16.0, 32.0, 64.0];
        Some(1 + most.iter().position(|most| mean <= *most).unwrap_or(most.len()))
    }

    /// Percentages of completion latencies in fio's classes.
    fn classes(&self) -> Classes {
        Classes::of(moving().map(|(_, of)| clat(of(&self.job))))
    }

    /// The errno of the first error, or `ETIMEDOUT` if an operation exceeded its limit; else 0.
    fn errno(&self) -> i32 {
        let most_ns = self.plan.span.most_latency_ns;
        let took_ns = moving().filter_map(|(_, of)| of(&self.job).latency.max()).max();
        match &self.job.first_error {
            Some((_, _, name)) => errno(name),
            None if most_ns > 0 && took_ns > Some(most_ns) => ETIMEDOUT,
            None => 0,
        }
    }

    /// Half-second samples of one direction, without its verification: KiB/s, and IOPS.
    fn samples(&self, of: Direction) -> (Samples, Samples) {
        let jobs: Vec<&JobRun> = self.parts.iter().collect();
        let width_ns = intervals::counter_width_ns(&jobs, SAMPLE_NS);
        let own_ns = self.parts.iter().map(|job| job.measured_ns).max().unwrap_or(0);
        let window_ns = if own_ns > 0 { own_ns } else { self.run.measured_ns };
        let rows = intervals::rates(&jobs, &[of], window_ns, width_ns);
        if (of.1)(&self.job).ops == 0 {
            return Default::default();
        }
        let bw: Vec<f64> = rows.iter().map(|row| row.bytes_per_s() / 1024.0).collect();
        let iops: Vec<f64> = rows.iter().map(intervals::Interval::iops).collect();
        (Samples::of(&bw), Samples::of(&iops))
    }

    /// Mean bandwidth of the job as a percentage of that of all jobs.
    fn share_percent(&self, of: Direction) -> f64 {
        let all: u64 = self.run.jobs.iter().map(|job| (of.1)(job).bytes).sum();
        let mine: u64 = self.parts.iter().map(|job| (of.1)(job).bytes).sum();
        if all == 0 { 0.0 } else { mine as f64 * 100.0 / all as f64 }
    }

    /// Paths of all targets, in fio's notation.
    fn paths(&self) -> String {
        let paths = self.run.plan.targets.iter().map(|target| target.path.replace(':', "\\:"));
        paths.collect::<Vec<_>>().join(":")
    }

    /// Total latency. In an open loop it begins at the due time; `None` if the rate is
    /// unsustainable.
    fn lat<'b>(&self, direction: &'b DirectionRun) -> Option<&'b Histogram> {
        match direction.response.count() {
            0 => Some(&direction.latency),
            _ => (!self.withheld).then_some(&direction.response),
        }
    }

    /// The options of the job in fio's notation, as in the `job options` of fio's output.
    fn options(&self) -> Vec<(&'static str, String)> {
        let plan = &self.run.plan;
        let like = plan.jobs.iter().filter(|job| job.role == self.plan.role).count();
        let mut options = vec![
            ("name", self.name.clone()),
            ("filename", self.paths()),
            ("ioengine", plan.engine_of(self.plan).kind.name().to_owned()),
            ("rw", rw(self.plan)),
            ("bs", size(self.plan.block_bytes)),
            ("iodepth", self.plan.iodepth.to_string()),
            ("numjobs", like.to_string()),
            ("offset", size(self.plan.region_start)),
            ("size", size(self.plan.region_bytes)),
        ];
        if plan.engine.kind.is_real() {
            options.push(("direct", u8::from(self.run.target.direct).to_string()));
        }
        match plan.stop_of(self.plan) {
            Stop::AfterNs(ns) => options.push(("runtime", seconds(ns))),
            Stop::AfterBytes(length) => options.push(("io_size", size(length))),
            Stop::AfterOps(ops) => options.push(("number_ios", ops.to_string())),
            Stop::AfterNsOrBytes(ns, length) => {
                options.extend([("runtime", seconds(ns)), ("io_size", size(length))]);
            }
            Stop::AfterOnePass | Stop::EachJob => {}
        }
        if plan.warmup_ns > 0 {
            options.push(("ramp_time", seconds(plan.warmup_ns)));
        }
        if !matches!(self.plan.read_percent, 0 | 100) {
            options.push(("rwmixread", self.plan.read_percent.to_string()));
        }
        options
    }
}

/// Percentages of counts; `None` if all are 0.
fn shares(counts: &[u64; 7]) -> Option<[f64; 7]> {
    let sum: u64 = counts.iter().sum();
    (sum > 0).then(|| counts.map(|count| count as f64 * 100.0 / sum as f64))
}

/// 100 % in one class.
fn whole(class: Option<usize>) -> [f64; 7] {
    std::array::from_fn(|at| if class == Some(at) { 100.0 } else { 0.0 })
}

/// Seconds with as many digits as needed.
fn seconds(ns: u64) -> String {
    format!("{}", ns as f64 / 1e9)
}

/// Minimum, maximum, mean and standard deviation of a series.
#[derive(Default)]
struct Samples {
    min: f64,
    max: f64,
    mean: f64,
    dev: f64,
    count: usize,
}

impl Samples {
    fn of(values: &[f64]) -> Samples {
        let count = values.len();
        if count == 0 {
            return Samples::default();
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Samples {
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(0.0, f64::max),
            mean,
            dev: if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 },
            count,
        }
    }
}

/// Linux's number of an errno name; EIO for other names.
fn errno(name: &str) -> i32 {
    const NUMBERS: [(&str, i32); 17] = [
        ("EPERM", 1),
        ("ENOENT", 2),
        ("EINTR", 4),
        ("ENXIO", 6),
        ("EBADF", 9),
        ("EAGAIN", 11),
        ("ENOMEM", 12),
        ("EACCES", 13),
        ("EBUSY", 16),
        ("ENODEV", 19),
        ("EINVAL", 22),
        ("ENOSPC", 28),
        ("EROFS", 30),
        ("ENODATA", 61),
        ("EILSEQ", 84),
        ("ETIMEDOUT", 110),
        ("EREMOTEIO", 121),
    ];
    NUMBERS.iter().find(|(known, _)| *known == name).map_or(5, |(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_those_of_fio() {
        // From a recorded json+ document, where each bin is named by its midpoint.
        for middle in [652, 2544, 8640, 8896, 11_200, 28_032, 80_384, 158_720, 272_384] {
            assert_eq!(bin(middle), middle);
        }
        assert_eq!((bin(0), bin(127), bin(128), bin(129), bin(130)), (0, 127, 129, 129, 131));
        assert_eq!((bin(8_576), bin(8_703), bin(8_704)), (8_640, 8_640, 8_768));
    }

    #[test]
    fn every_latency_is_in_one_bin_and_one_class() {
        let mut histogram = Histogram::new();
        let values = [1, 3, 900, 1_100, 1_900, 900_000, 1_100_000, 1_900_000_000, 1 << 41];
        values.iter().for_each(|value| histogram.record(*value));
        assert_eq!(bins(&histogram).values().sum::<u64>(), values.len() as u64);
        let classes = Classes::of([&histogram].into_iter());
        let ninth = |share: f64| (share * 9.0 / 100.0).round() as u32;
        // fio's class 2 holds 0 and 1.
        assert_eq!([classes.ns[0], classes.ns[1], classes.ns[9]].map(ninth), [1, 1, 1]);
        assert_eq!([classes.us[0], classes.us[9]].map(ninth), [2, 1]);
        assert_eq!([classes.ms[0], classes.ms[10], classes.ms[11]].map(ninth), [1, 1, 1]);
    }

    #[test]
    fn an_error_has_its_number() {
        assert_eq!((errno("EIO"), errno("ENOSPC"), errno("EWHATEVER")), (5, 28, 5));
    }
}
