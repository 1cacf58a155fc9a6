//! One run: the plan, and everything that was observed while it was carried out.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::controlled::ControlledRun;
use super::facts::{DeviceCounters, Neighbour, TargetFacts, TelemetrySample};
use super::layers::LayersRun;
use super::precision::PrecisionRun;
use crate::plan::Plan;
use iosonde_stats::Histogram;
use iosonde_stats::histogram::Exact;

/// Name and version of the record schema; the version grows with every incompatible change.
pub const SCHEMA: &str = "iosonde.run/1";

/// Everything observed in one run. Raw: no field is computed from another one.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program that wrote it.
    pub program: String,
    pub plan: Plan,
    /// Wall-clock start of the measured window, nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// How the run ended.
    pub outcome: Outcome,
    /// Length of the measured window, ns, by its own clock; without drain and report.
    pub measured_ns: u64,
    /// The same window by CLOCK_BOOTTIME, which includes suspended time, ns.
    pub measured_boottime_ns: u64,
    pub backend: BackendFacts,
    /// Facts about the target, as observed.
    pub target: TargetFacts,
    /// One entry per job of the plan, in its order.
    pub jobs: Vec<JobRun>,
    /// CPU use of the whole process over the measured window.
    pub process: ProcessUse,
    /// Wake-up delay of a thread that sleeps 25 ms, ns: stalls of the host, not of the target.
    pub hiccups: Histogram,
    /// Device counters at the edges of the measured window.
    pub device: Option<(DeviceCounters, DeviceCounters)>,
    /// Machine telemetry, once a second.
    pub telemetry: Vec<TelemetrySample>,
    /// The other processes with the most I/O, and those with the most CPU time.
    #[serde(default)]
    pub neighbours: Vec<Neighbour>,
    /// The timed fsync that ends a writing run.
    pub final_sync: Option<SyncResult>,
    /// Control of the depth for the latency target, if there is one.
    pub controlled: Option<ControlledRun>,
    /// Precision of the figure that decides when the run ends, if there is one.
    pub precision: Option<PrecisionRun>,
    /// Time of the I/O calls by layer, if requested.
    pub layers: Option<LayersRun>,
}

/// Most intervals of a series over the measured window.
const MOST_INTERVALS: u64 = 1 << 22;

/// Whether the mean of recorded values is between minimum and maximum, apart from rounding.
fn has_mean_inside(values: &Histogram) -> bool {
    let (Some(mean), Some(min), Some(max)) = (values.mean(), values.min(), values.max()) else {
        return true;
    };
    (min as f64 * (1.0 - 1e-9)..=max as f64 * (1.0 + 1e-9)).contains(&mean)
}

impl Run {
    /// A contradiction that makes a record useless; no run of this program has one.
    fn fault(&self) -> Option<String> {
        let (jobs, planned) = (self.jobs.len(), self.plan.jobs.len());
        if jobs > planned {
            return Some(format!("jobs: found {jobs}, expected at most the {planned} of the plan"));
        }
        let directions = || self.jobs.iter().flat_map(JobRun::directions);
        if self.measured_ns == 0 && directions().any(|direction| direction.ops > 0) {
            return Some("measured_ns: found 0 with operations in it".into());
        }
        let latencies = || directions().flat_map(|each| [&each.latency, &each.response]);
        if let Some(bad) = latencies().find(|latency| !has_mean_inside(latency)) {
            return Some(format!(
                "latency: found a mean of {:?} ns, expected one between min_ns {:?} and \
                 max_ns {:?}",
                bad.mean(),
                bad.min(),
                bad.max()
            ));
        }
        let widths = directions().map(|direction| direction.counters.width_ns);
        let intervals = self.measured_ns / widths.filter(|ns| *ns > 0).min()?;
        (intervals > MOST_INTERVALS).then(|| {
            format!("measured_ns: found {intervals} intervals, expected at most {MOST_INTERVALS}")
        })
    }
}

impl Serialize for Run {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Run::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let run = Run::deserialize(from)?;
        run.fault().map_or(Ok(run), |fault| Err(serde::de::Error::custom(fault)))
    }
}

/// How a run ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "ended")]
pub enum Outcome {
    /// As planned.
    Complete,
    /// By an I/O error, under [`crate::plan::OnError::Stop`]; or because requests never completed.
    Failed {
        /// What happened, in words, with the errno's name.
        error: String,
    },
    /// By the user or the system, after this signal.
    Interrupted {
        /// Signal number.
        signal: i32,
    },
}

/// Cause of an interruption as part of a sentence: `by SIGTERM`. The key `q` of the live view is
/// recorded as SIGINT, which Ctrl-C sends.
pub fn by_signal(signal: i32) -> String {
    match signal {
        1 => "by SIGHUP".into(),
        2 => "by SIGINT (Ctrl-C or q)".into(),
        15 => "by SIGTERM".into(),
        other => format!("by signal {other}"),
    }
}

/// Facts about the backend, as determined at start.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct BackendFacts {
    /// Backend name.
    pub engine: String,
    /// Features in effect (`single_issuer`, `registered_buffers`, …).
    pub features: Vec<String>,
    /// Features requested or tried but not in effect, with reasons.
    pub missing: Vec<String>,
    /// Clock used for latencies (`tsc`, `clock_monotonic`, `virtual`).
    pub clock: String,
    /// Cost of reading that clock, picoseconds.
    pub clock_cost_ps: u64,
    /// Difference between that clock and CLOCK_MONOTONIC_RAW over the run, parts per billion.
    pub clock_drift_ppb: i64,
    /// Tool overhead: time per operation of this engine with a backend that does nothing, at this
    /// depth, generating and comparing data included, ps.
    #[serde(alias = "harness_floor_ps")]
    pub tool_overhead_ps: u64,
    /// The part of the tool overhead for generating and comparing data, ps. Older records do not
    /// have it, and their overhead includes generating only.
    #[serde(default)]
    pub tool_overhead_data_ps: u64,
    /// Memory page size used for buffers, bytes.
    pub buffer_page_bytes: u64,
    /// I/O buffers in total, bytes.
    pub buffer_bytes: u64,
}

/// Observations of one job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct JobRun {
    pub read: DirectionRun,
    pub write: DirectionRun,
    pub trim: DirectionRun,
    /// Syncs: calls that make written data durable.
    pub sync: DirectionRun,
    /// Due operations of an open loop and their results; all zero in a closed loop.
    pub arrivals: ArrivalsRun,
    /// Operations, bytes and latency on each of the job's targets, where there are several.
    pub targets: Vec<TargetRun>,
    /// Time integral of requests in flight over the measured window, request-nanoseconds.
    pub in_flight_area_ns: u64,
    /// Requests in flight when the window opened.
    pub in_flight_start: u32,
    /// Requests in flight when it closed.
    pub in_flight_end: u32,
    /// Largest number in flight over the whole run, warm-up and drain included.
    pub in_flight_max: u32,
    /// System calls made for I/O in the window.
    pub syscalls: u64,
    /// Numbers of requests submitted and reaped at once, if counting was requested.
    #[serde(skip_serializing_if = "Batches::is_empty")]
    pub batches: Batches,
    /// Submission times, µs from the start of the run, in the order of the plan and of the syncs
    /// among its operations; only the first ones, if recording was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handed_over_us: Vec<u64>,
    /// Requests checked for completion inside submission.
    pub inline_probed: u64,
    /// Of those, how many completed inside submission.
    pub inline_seen: u64,
    /// Requests refused with EAGAIN or EBUSY and sent again.
    pub retries: u64,
    /// Short transfers that were continued.
    pub short_transfers: u64,
    /// Errors by errno name over the whole run, warm-up included: `read EIO` -> count.
    pub errors: BTreeMap<String, u64>,
    /// Offset, length and errno name of the first error.
    pub first_error: Option<(u64, u64, String)>,
    /// Requests that never completed.
    pub abandoned: u32,
    /// User CPU time of the job's thread in the window, ns.
    pub cpu_user_ns: u64,
    /// System CPU time of the job's thread in the window, ns.
    pub cpu_system_ns: u64,
    /// CPU at the start and the end of the window.
    pub cpus: Option<(u32, u32)>,
    /// Length of the window as this job saw it, ns.
    pub measured_ns: u64,
    /// Smallest offset and largest offset plus length that were touched over the whole run, bytes.
    pub touched: Option<(u64, u64)>,
}

impl JobRun {
    /// All directions, in the order of [`crate::plan::IoKind::ALL`].
    pub fn directions(&self) -> [&DirectionRun; 4] {
        [&self.read, &self.write, &self.trim, &self.sync]
    }
}

/// Counts in fio's classes, powers of two.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Batches {
    /// Requests by the number in flight when they were submitted, themselves included: 1, 2 to 3, 4
    /// to 7, … 64 and more.
    pub depths: [u64; 7],
    /// Submissions by their number of requests: none, 1 to 4, 5 to 8, … 33 to 64, more.
    pub submitted: [u64; 7],
    /// The same for requests that were reaped at once.
    pub completed: [u64; 7],
}

impl Batches {
    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        *self == Batches::default()
    }

    /// The class of a batch.
    pub fn class_of(requests: usize) -> usize {
        match requests {
            0 => 0,
            1..=4 => 1,
            65.. => 6,
            _ => (requests - 1).ilog2() as usize,
        }
    }

    /// Adds the counts of another job.
    pub fn add(&mut self, other: &Batches) {
        let theirs = [&other.depths, &other.submitted, &other.completed];
        let ours = [&mut self.depths, &mut self.submitted, &mut self.completed];
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            ours.iter_mut().zip(theirs).for_each(|(ours, theirs)| *ours += theirs);
        }
    }
}

/// Observations of one job in one direction.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct DirectionRun {
    /// Operations completed in the window.
    pub ops: u64,
    /// Bytes moved by them.
    pub bytes: u64,
    /// Of those operations, the number submitted before the window opened: they count as
    /// throughput, but their latency is not recorded. `latency.count() + carried_in == ops`.
    pub carried_in: u64,
    /// Total time in flight within the window of requests without a recorded latency, ns: those
    /// carried in, and those that completed after its end.
    pub crossing_ns: u64,
    /// Latency in ns, from before submission to after reaping.
    pub latency: Histogram,
    /// Submission latency, ns: duration of the submitting call. Only if the plan requires separate
    /// calls for submitting and waiting.
    pub slat: Histogram,
    /// Completion latency, ns: the latency without the submission latency.
    pub clat: Histogram,
    /// Open loop: from the due time to after reaping, ns.
    pub response: Histogram,
    /// Open loop: from the due time to before submission, ns.
    pub lag: Histogram,
    /// Counters per interval.
    pub counters: CounterSeries,
    /// Latency histograms per interval; intervals are no shorter than those of the counters.
    pub latencies: HistogramSeries,
    /// Open loop: histograms of the response per interval.
    pub responses: HistogramSeries,
    /// Latency by request priority, if some requests have their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub priorities: Vec<PriorityRun>,
}

/// The requests of one priority.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct PriorityRun {
    /// Class and level as in ioprio_set(2), the class from bit 13 on; 0 for requests with the
    /// priority of their thread.
    pub priority: u16,
    /// Latency, ns.
    pub latency: Histogram,
}

/// Counts of an open loop in a job, over the measured window.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ArrivalsRun {
    /// Operations that were due.
    pub due: u64,
    /// Of those, operations submitted more than a millisecond after their due time.
    pub late: u64,
    /// Operations that waited because the maximum number of requests was in flight.
    pub queued: u64,
    /// Operations that were due but not submitted when the window closed.
    pub dropped: u64,
    /// Number of intervals between neighbouring due times.
    pub gaps: u64,
    /// Their sum, ns.
    pub gap_sum_ns: u64,
    /// The sum of their squares, ns².
    pub gap_square_sum: f64,
    /// Backlog, sampled once per interval, as time at the requested rate, ns: the wait of the
    /// oldest waiting operation, and a mean gap for each operation in flight.
    pub backlog_ns: Vec<u64>,
    /// Width of those intervals, ns.
    pub backlog_width_ns: u64,
}

/// Observations of one job on one of several targets.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct TargetRun {
    /// Index into the plan's list of targets.
    pub target: u16,
    /// Operations completed in the window, syncs not counted.
    pub ops: u64,
    /// Bytes moved by them.
    pub bytes: u64,
    /// Latency, ns, all directions together.
    pub latency: Histogram,
}

/// Operations and bytes per interval of equal width.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CounterSeries {
    /// Width of one interval, ns. Doubled when neighbours had to be merged.
    pub width_ns: u64,
    /// Operations completed in each.
    pub ops: Vec<u64>,
    /// Bytes moved in each.
    pub bytes: Vec<u64>,
}

impl CounterSeries {
    /// Whether there is no interval.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Adds the counts of the same time, in intervals of the same width.
    pub fn add(&mut self, other: &CounterSeries) {
        let is_alike = self.width_ns == other.width_ns;
        debug_assert!(is_alike || self.is_empty() || other.is_empty());
        self.width_ns = self.width_ns.max(other.width_ns);
        for (sums, more) in [(&mut self.ops, &other.ops), (&mut self.bytes, &other.bytes)] {
            sums.resize(sums.len().max(more.len()), 0);
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
}

/// Sparse latency histograms per interval of equal width.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct HistogramSeries {
    /// Width of one interval, ns. Doubled when neighbours had to be merged.
    pub width_ns: u64,
    /// For each interval, `(bucket, count)` pairs in ascending bucket order.
    pub intervals: Vec<Vec<(u32, u64)>>,
    /// For each interval, the exact values that buckets do not have.
    pub exact: Vec<Exact>,
}

/// CPU use of the process between two samples.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ProcessUse {
    /// Time between the two samples, ns.
    pub span_ns: u64,
    /// User CPU time, ns.
    pub cpu_user_ns: u64,
    /// System CPU time, ns.
    pub cpu_system_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Largest resident set so far, bytes.
    pub max_rss_bytes: u64,
}

/// One timed fsync.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SyncResult {
    /// Time from the end of the measured window to the fsync's return, ns: drain included.
    pub since_window_ns: u64,
    /// Time of the fsync itself, ns.
    pub sync_ns: u64,
    /// Bytes written by the run up to the fsync, warm-up included.
    pub bytes_since_start: u64,
    /// Time from the first write to the fsync's return, ns.
    pub since_start_ns: u64,
    /// Errno name if it failed.
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_overhead_of_an_older_record_is_read_by_its_former_name() {
        let facts = BackendFacts { tool_overhead_ps: 30_000, ..BackendFacts::default() };
        let mut value = serde_json::to_value(&facts).unwrap();
        let fields = value.as_object_mut().unwrap();
        let overhead = fields.remove("tool_overhead_ps").unwrap();
        fields.remove("tool_overhead_data_ps");
        fields.insert("harness_floor_ps".into(), overhead);
        assert_eq!(serde_json::from_value::<BackendFacts>(value).unwrap(), facts);
    }
}
