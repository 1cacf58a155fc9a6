//! The load that a profile or a run recorded.

use super::streams;
use crate::profile::missing;
use crate::replayed::{self, JOURNAL, Jobs};
use crate::{profile_model, series};
use iosonde_model::record::profile::{
    Class, Depth, Ended, Method, Op, Places, ProfileRun, ProfiledDevice, SyncKind, Traffic,
};
use iosonde_model::record::run::{CounterSeries, Outcome, Run, by_signal};
use iosonde_stats::Histogram;

/// A known value, or why it is unknown.
pub type Known<T> = Result<T, String>;

/// An observed load.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The directions that moved data.
    pub ways: Vec<(Op, Moved)>,
    /// `(level, ns)` while at least one request of the program was in flight.
    pub depth: Known<Vec<(u64, u64)>>,
    /// The same for all requests, journal included; unknown if other programs used the devices.
    pub everyone: Known<Vec<(u64, u64)>>,
    /// Device I/O for the program, journal included.
    pub device: Known<DeviceUse>,
    /// Number of calls that make data durable.
    pub syncs: Known<u64>,
    /// Requests over time, all directions together.
    pub course: Known<Course>,
    /// The error it ended with; `None` if it ended normally.
    pub failed: Option<String>,
    pub notes: Vec<String>,
}

/// Requests of one direction.
#[derive(Clone, Debug)]
pub struct Moved {
    pub requests: u64,
    /// `(bytes, requests)`.
    pub sizes: Vec<(u64, u64)>,
    /// Share of the requests that were sequential.
    pub sequential: Known<f64>,
    /// `(ns, count)` of inter-arrival times.
    pub gaps: Known<Vec<(u64, u64)>>,
    /// Blocks accessed.
    pub touched: Known<Touched>,
    /// Latencies, ns.
    pub latency: Histogram,
}

/// Device I/O for a program and its file system's journal.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceUse {
    /// Bytes read, written and discarded.
    pub bytes: Vec<(Op, u64)>,
    /// The part of `bytes` that belongs to the file system's journal and metadata.
    pub journal_bytes: u64,
    /// Flushes of the devices' caches.
    pub flushes: u64,
    /// Time from the first request to the end of the last, ns.
    pub length_ns: f64,
}

impl DeviceUse {
    /// Bytes of a direction per second.
    pub fn rate(&self, op: Op) -> f64 {
        let bytes = self.bytes.iter().find(|(way, _)| *way == op).map_or(0, |(_, bytes)| *bytes);
        bytes as f64 * 1e9 / self.length_ns.max(1.0)
    }

    /// Bytes of all directions.
    pub fn all_bytes(&self) -> u64 {
        self.bytes.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Blocks that were touched, from hot to cold.
#[derive(Clone, Debug)]
pub struct Touched {
    /// Bytes of distinct blocks.
    pub bytes: f64,
    /// Cumulative `(share of the blocks, share of the accesses)`, ascending to `(1, 1)`.
    curve: Vec<(f64, f64)>,
}

impl Touched {
    /// From `(blocks, accesses)` of each chunk; an error if no chunk was accessed.
    pub(super) fn new(block_bytes: u64, chunks: Vec<(f64, f64)>) -> Known<Touched> {
        let mut chunks: Vec<(f64, f64)> =
            chunks.into_iter().filter(|(blocks, hits)| *blocks > 0.0 && *hits > 0.0).collect();
        chunks.sort_by(|a, b| (b.1 / b.0).total_cmp(&(a.1 / a.0)));
        let blocks: f64 = chunks.iter().map(|(blocks, _)| blocks).sum();
        let hits: f64 = chunks.iter().map(|(_, hits)| hits).sum();
        if chunks.is_empty() {
            return Err("offsets were not recorded".into());
        }
        let mut sum = (0.0, 0.0);
        let curve = chunks.iter().map(|(of_blocks, of_hits)| {
            sum = (sum.0 + of_blocks / blocks, sum.1 + of_hits / hits);
            sum
        });
        Ok(Touched { bytes: blocks * block_bytes as f64, curve: curve.collect() })
    }

    /// Share of the accesses that go to the hottest `share` of the blocks.
    pub fn share_of_hottest(&self, share: f64) -> f64 {
        let mut before = (0.0, 0.0);
        for at in &self.curve {
            if at.0 >= share {
                let part = (share - before.0) / (at.0 - before.0).max(f64::MIN_POSITIVE);
                return before.1 + part * (at.1 - before.1);
            }
            before = *at;
        }
        1.0
    }

    /// Largest difference of the two curves.
    pub fn apart(&self, other: &Touched) -> f64 {
        let edges = self.curve.iter().chain(&other.curve).map(|(share, _)| *share);
        edges
            .map(|share| (self.share_of_hottest(share) - other.share_of_hottest(share)).abs())
            .fold(0.0, f64::max)
    }
}

/// Cumulative requests over time.
#[derive(Clone, Debug)]
pub struct Course {
    /// `(ns since the first request, requests so far)`, ascending.
    points: Vec<(f64, f64)>,
}

impl Course {
    /// Adds parallel series. `active` is the time of the first and the last request, ns.
    fn new(series: &[&CounterSeries], active: (u64, u64)) -> Known<Course> {
        let (first, last) = (active.0 as f64, active.1 as f64);
        // `(time, requests at once, change of the rate)`.
        let mut changes: Vec<(f64, f64, f64)> = Vec::new();
        for each in series.iter().filter(|series| series.width_ns > 0) {
            let end = each.ops.iter().rposition(|ops| *ops > 0);
            for (at, ops) in each.ops.iter().enumerate().filter(|(_, ops)| **ops > 0) {
                // The first and the last interval are cut at the first and the last request.
                let (width, ops) = (each.width_ns as f64, *ops as f64);
                let from = at as f64 * width;
                let is_end = Some(at) == end;
                let to = if is_end { last.clamp(from, from + width) } else { from + width };
                let from = from.max(first).min(to) - first;
                let to = to.min(last.max(first)) - first;
                if to > from {
                    changes.push((from, 0.0, ops / (to - from)));
                    changes.push((to, 0.0, -ops / (to - from)));
                } else {
                    changes.push((from, ops, 0.0));
                }
            }
        }
        if changes.is_empty() {
            return Err("no time series was recorded".into());
        }
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut before, mut requests, mut rate) = (0.0, 0.0, 0.0f64);
        let mut points: Vec<(f64, f64)> = vec![(0.0, 0.0)];
        for (at, at_once, change) in changes {
            requests += rate * (at - before) + at_once;
            rate = (rate + change).max(0.0);
            before = at;
            match points.last_mut() {
                Some((last, so_far)) if *last == at && at > 0.0 => *so_far = requests,
                _ => points.push((at, requests)),
            }
        }
        Ok(Course { points })
    }

    /// Total number of requests.
    pub fn total(&self) -> f64 {
        self.points.last().map_or(0.0, |(_, requests)| *requests)
    }

    /// Time from the first request to the last, ns.
    pub fn length_ns(&self) -> f64 {
        self.points.last().map_or(0.0, |(at, _)| *at)
    }

    fn so_far(&self, at: f64) -> f64 {
        let next = self.points.partition_point(|(ns, _)| *ns < at);
        match (next.checked_sub(1).map(|before| self.points[before]), self.points.get(next)) {
            (_, None) => self.total(),
            (None, Some((_, requests))) => *requests,
            (Some(before), Some(after)) => {
                let part = (at - before.0) / (after.0 - before.0).max(f64::MIN_POSITIVE);
                before.1 + part * (after.1 - before.1)
            }
        }
    }

    /// Largest difference of the cumulative sums, as a share of the larger total.
    pub fn apart(&self, other: &Course) -> Option<f64> {
        let most = self.total().max(other.total());
        let edges = self.points.iter().chain(&other.points).map(|(at, _)| *at);
        let largest =
            edges.map(|at| (self.so_far(at) - other.so_far(at)).abs()).fold(0.0, f64::max);
        (most > 0.0).then(|| largest / most)
    }

    fn faster(&self, factor: f64) -> Course {
        let points = self.points.iter().map(|(at, requests)| (at / factor, *requests));
        Course { points: points.collect() }
    }
}

/// The directions that move data.
pub(super) const WAYS: [Op; 3] = [Op::Read, Op::Write, Op::Discard];

impl Observed {
    /// The load of a profile: requests of the program and the write-back of its pages. For a replay
    /// by `iosonde run`, only its jobs count.
    pub fn of_profile(run: &ProfileRun) -> Observed {
        match replayed::jobs(run, None) {
            None => Observed::of_all(run),
            Some(jobs) => Observed::of_jobs(&jobs),
        }
    }

    /// The load of the profile of a replay of `recorded`.
    pub fn of_replay(run: &ProfileRun, recorded: &ProfileRun) -> Observed {
        match replayed::jobs(run, journal_region(recorded)) {
            None => Observed::of_all(run),
            Some(jobs) => Observed::of_jobs(&jobs),
        }
    }

    /// The load of a replay's jobs. Offsets and depth are not recorded per thread group, so they
    /// are known only if requests of other threads were negligible or can be separated.
    fn of_jobs(jobs: &Jobs) -> Observed {
        let mut observed = Observed::of_all(&jobs.run);
        let reason = "the replay's requests cannot be separated from those that inspected the \
            target and prepared the test file: replay onto a block device";
        if !jobs.has_series {
            observed.course = Err(reason.into());
        }
        if jobs.is_unclear || jobs.has_preparation {
            observed.depth = Err(reason.into());
            observed.everyone = Err(reason.into());
        }
        if jobs.has_journal {
            observed.depth = Err("the depth of the replay includes its journal".into());
        }
        for (op, moved) in &mut observed.ways {
            if jobs.blurred.contains(op) {
                moved.touched = Err(reason.into());
            }
        }
        observed
    }

    fn of_all(run: &ProfileRun) -> Observed {
        let ways: Vec<(Op, Moved)> =
            WAYS.into_iter().filter_map(|op| Some((op, moved(run, op)?))).collect();
        let own = run.traffic.iter().filter(|row| row.class.is_of_the_program());
        let active = span(own.filter(|row| WAYS.contains(&row.op)));
        let active = active.unwrap_or((0, run.measured_ns));
        let series = run.series.iter().filter(|series| WAYS.contains(&series.op));
        let series: Vec<&CounterSeries> = series.map(|series| &series.counters).collect();
        Observed {
            ways,
            depth: levels(run, |device| &device.program_depth),
            everyone: everyone(run),
            device: device_use(run),
            syncs: syncs(run),
            course: Course::new(&series, active),
            failed: failed(run),
            notes: Vec::new(),
        }
    }

    /// The load of a run; its operations are regenerated from its plan.
    pub fn of_run(run: &Run) -> Observed {
        let by_way = streams::of_run(run);
        let ways = by_way.into_iter().filter(|(_, moved)| moved.requests > 0).collect();
        let mean = "a run records only the mean of it: profile the replay \
                    (iosonde profile -- iosonde run …)";
        let jobs = || streams::of_program(run).map(|(_, job)| job);
        let syncs = jobs().map(|job| job.sync.ops).sum();
        let series: Vec<&CounterSeries> =
            jobs().flat_map(series::of_data).map(|direction| &direction.counters).collect();
        Observed {
            ways,
            depth: Err(mean.into()),
            everyone: Err(mean.into()),
            device: Err("a run records no requests of the device: profile the replay \
                         (iosonde profile -- iosonde run …)"
                .into()),
            syncs: Ok(syncs),
            course: Course::new(&series, (0, run.measured_ns)),
            failed: match &run.outcome {
                Outcome::Failed { error } => Some(error.clone()),
                Outcome::Interrupted { signal } => {
                    Some(format!("interrupted {}", by_signal(*signal)))
                }
                Outcome::Complete => None,
            },
            notes: vec![
                "the replay is a run, not a profile: its operations count as requests, before the \
                 block layer splits and merges them"
                    .into(),
            ],
        }
    }

    /// The same load, `factor` times as fast.
    #[must_use]
    pub fn faster(&self, factor: f64) -> Observed {
        let mut faster = self.clone();
        if factor == 1.0 {
            return faster;
        }
        for (_, moved) in &mut faster.ways {
            if let Ok(gaps) = &mut moved.gaps {
                gaps.iter_mut().for_each(|(ns, _)| *ns = (*ns as f64 / factor).round() as u64);
            }
        }
        if let Ok(device) = &mut faster.device {
            device.length_ns /= factor;
        }
        faster.course =
            self.course.as_ref().map(|course| course.faster(factor)).map_err(Clone::clone);
        faster
    }
}

/// Exit codes of `iosonde run` after a completed load: an expectation missed, consistency checks
/// failed, inconclusive.
const VERDICTS: [i32; 3] = [3, 6, 7];

/// Largest share of other programs' requests for which the depth of all requests is used.
const OTHERS: f64 = 0.01;

/// Offset and length of the journal in the workload modelled from a recording, bytes.
fn journal_region(recorded: &ProfileRun) -> Option<(u64, u64)> {
    let modelled = profile_model::workload(recorded).ok()?;
    let role = modelled.workload.roles.into_iter().find(|role| role.name == JOURNAL)?;
    role.offset.zip(role.size)
}

/// `(level, ns)` of the levels above 0.
fn levels(run: &ProfileRun, of: fn(&ProfiledDevice) -> &Depth) -> Known<Vec<(u64, u64)>> {
    let times = run.devices.iter().flat_map(|device| &of(device).time_ns);
    let busy = times.filter(|(level, ns)| *level > 0 && *ns > 0);
    let levels: Vec<(u64, u64)> = busy.map(|(level, ns)| (u64::from(*level), *ns)).collect();
    if levels.is_empty() {
        return Err("queue depth over time was not recorded".into());
    }
    Ok(levels)
}

/// Depth of all requests, `(level, ns)`.
fn everyone(run: &ProfileRun) -> Known<Vec<(u64, u64)>> {
    let sum = |wanted: &dyn Fn(Class) -> bool| -> u64 {
        let moves = run.traffic.iter().filter(|row| WAYS.contains(&row.op) && wanted(row.class));
        moves.map(|row| row.requests).sum()
    };
    if sum(&|class| class == Class::Other) as f64 > OTHERS * sum(&|_| true) as f64 {
        return Err("other programs used the devices too".into());
    }
    levels(run, |device| &device.depth)
}

/// Time of the first and the last request of all rows, in ns of the profile.
fn span<'a>(rows: impl Iterator<Item = &'a Traffic>) -> Option<(u64, u64)> {
    let spans = rows.filter_map(|row| row.active_ns);
    spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

fn device_use(run: &ProfileRun) -> Known<DeviceUse> {
    let counts = |row: &&Traffic| {
        WAYS.contains(&row.op)
            && (row.class.is_of_the_program() || row.class == Class::Journal)
            && row.requests > 0
    };
    let rows = || run.traffic.iter().filter(counts);
    let Some((from, to)) = span(rows()).filter(|(from, to)| to > from) else {
        return Err("no requests were counted".into());
    };
    let of = |op: Op| rows().filter(|row| row.op == op).map(|row| row.bytes).sum();
    let journal = rows().filter(|row| row.class == Class::Journal);
    let flushes = run.traffic.iter().filter(|row| row.class == Class::DeviceFlush);
    Ok(DeviceUse {
        bytes: WAYS.into_iter().map(|op| (op, of(op))).filter(|(_, bytes)| *bytes > 0).collect(),
        journal_bytes: journal.map(|row| row.bytes).sum(),
        flushes: flushes.map(|row| row.requests).sum(),
        length_ns: (to - from) as f64,
    })
}

/// One direction of a profile; `None` if it has no requests.
fn moved(run: &ProfileRun, op: Op) -> Option<Moved> {
    let rows = || {
        let all = run.traffic.iter();
        all.filter(move |row| row.class.is_of_the_program() && row.op == op && row.requests > 0)
    };
    let requests: u64 = rows().map(|row| row.requests).sum();
    if requests == 0 {
        return None;
    }
    let gaps = Histogram::of_all(rows().map(|row| &row.gaps));
    let gaps: Vec<(u64, u64)> = gaps.midpoints().collect();
    Some(Moved {
        requests,
        sizes: rows().flat_map(|row| row.sizes.iter().copied()).collect(),
        sequential: Ok(rows().map(|row| row.sequential).sum::<u64>() as f64 / requests as f64),
        gaps: if gaps.is_empty() { Err("too few requests".into()) } else { Ok(gaps) },
        touched: touched(&run.places, op),
        latency: Histogram::of_all(rows().map(|row| &row.latency)),
    })
}

/// The error with which the command ended, if any. For `iosonde run`, a verdict on the measurement
/// is not an error: the load completed.
fn failed(run: &ProfileRun) -> Option<String> {
    match run.ended {
        Ended::Exited { code: 0 } | Ended::TimeUp | Ended::Gone | Ended::Stopped => None,
        Ended::Exited { code } if VERDICTS.contains(&code) && replayed::is_replay(run) => None,
        Ended::Exited { code } => Some(format!("exit code {code}")),
        Ended::Killed { signal } => Some(format!("killed by signal {signal}")),
        Ended::Interrupted { signal } => Some(format!("interrupted {}", by_signal(signal))),
    }
}

/// Calls that make data durable. A count of zero is meaningful only if calls were traced.
fn syncs(run: &ProfileRun) -> Known<u64> {
    let missing = missing(run, "syncs");
    if missing.is_some() || run.source.method != Method::Tracepoints {
        let reason = missing.map_or("only counters", |missing| &missing.reason);
        return Err(format!("syncs were not observed: {reason}"));
    }
    let durable = run.syncs.iter().filter(|sync| sync.kind != SyncKind::SyncFileRange);
    Ok(durable.map(|sync| sync.calls).sum())
}

fn touched(places: &[Places], op: Op) -> Known<Touched> {
    let block_bytes = places.first().map_or(0, |places| places.block_bytes);
    let chunks = places.iter().filter(|each| each.block_bytes == block_bytes).flat_map(|each| {
        each.chunks.iter().map(|chunk| match op {
            Op::Read => (f64::from(chunk.read_blocks), chunk.reads as f64),
            Op::Write => (f64::from(chunk.written_blocks), chunk.writes as f64),
            _ => (0.0, 0.0),
        })
    });
    // One of 2^`chunk_shift` chunks is listed.
    let shift = places.first().map_or(0, |places| places.chunk_shift);
    Touched::new(block_bytes << shift, chunks.collect())
}
