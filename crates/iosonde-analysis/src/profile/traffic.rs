//! Requests: rates, sizes, order and latencies, by operation, for the program and for all programs.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::document;
use iosonde_model::record::profile::{Class, Flag, Op, ProfileRun, ProfiledDevice, Traffic};
use iosonde_stats::Histogram;

use super::spread::{Latency, Spread};

/// The requests of some classes on some devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Time span of the rates, ns: the time measured, or until the end of the last request if that
    /// is later (write-back of pages that the program left).
    pub window_ns: u64,
    /// One entry per [`Op::ALL`], in that order.
    #[serde(flatten, serialize_with = "by_op")]
    pub ops: Vec<OpFigures>,
    /// Reads as a share of reads and writes, by requests; `None` without any.
    pub read_share: Option<f64>,
    /// Bytes read as a share of bytes read and written; `None` without any.
    pub read_byte_share: Option<f64>,
    /// Sequential fraction of reads and writes: requests that began where a recent stream ended.
    pub sequential_share: Option<f64>,
    /// Share of the bytes read and written that bypassed the page cache.
    pub direct_share: Option<f64>,
}

/// The requests of one operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpFigures {
    #[serde(skip)]
    pub op: Op,
    /// Requests completed.
    pub requests: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Requests per second of the window.
    pub requests_per_s: f64,
    /// Bytes per second of the window.
    #[serde(serialize_with = "document::whole")]
    pub bytes_per_s: f64,
    /// Bytes that bypassed the page cache.
    pub direct_bytes: u64,
    /// Synchronous requests (durable on return).
    pub durable: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Share of the requests that began where a recent stream ended.
    pub sequential_share: Option<f64>,
    /// Share of the requests, off any stream, with the stride of their thread's previous request.
    pub strided_share: Option<f64>,
    /// Sizes, bytes.
    #[serde(rename = "size_bytes")]
    pub sizes: Spread,
    /// Latency from start to end.
    #[serde(rename = "latency_ns")]
    pub latency: Latency,
    /// Part of the latency until issue to the device.
    #[serde(rename = "queued_ns")]
    pub queued: Latency,
    /// Part of the latency from issue to completion.
    #[serde(rename = "device_time_ns")]
    pub device_time: Latency,
}

/// The requests of one class, all operations together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassFigures {
    pub class: Class,
    pub requests: u64,
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Share of the bytes that all classes read and wrote.
    pub byte_share: Option<f64>,
    /// Latency from start to end.
    #[serde(rename = "latency_ns")]
    pub latency: Latency,
}

fn by_op<S: Serializer>(ops: &[OpFigures], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(ops.iter().map(|figures| (figures.op, figures)))
}

impl Side {
    /// The figures of one operation.
    pub fn op(&self, op: Op) -> &OpFigures {
        let at = Op::ALL.iter().position(|each| *each == op).unwrap_or(0);
        &self.ops[at]
    }

    /// Requests of every operation.
    pub fn requests(&self) -> u64 {
        self.ops.iter().map(|op| op.requests).sum()
    }

    /// Bytes read and written.
    pub fn data_bytes(&self) -> u64 {
        self.op(Op::Read).bytes + self.op(Op::Write).bytes
    }
}

/// The time measured, or until the end of the last of these requests if that is later, ns.
fn window_ns(run: &ProfileRun, rows: &[&Traffic]) -> u64 {
    let last_ns = rows.iter().filter_map(|row| row.active_ns).map(|(_, end)| end).max();
    run.measured_ns.max(last_ns.unwrap_or(0))
}

/// The same for the program's requests: the span of its rates and of its depth.
pub(super) fn program_window_ns(run: &ProfileRun) -> u64 {
    let own = run.traffic.iter().filter(|row| row.class.is_of_the_program());
    window_ns(run, &own.collect::<Vec<_>>())
}

/// Figures of the requests that `pick` selects.
pub(super) fn side(run: &ProfileRun, pick: impl Fn(&Traffic) -> bool) -> Side {
    let chosen: Vec<&Traffic> = run.traffic.iter().filter(|traffic| pick(traffic)).collect();
    let window_ns = window_ns(run, &chosen);
    let tallies: Vec<Tally> = Op::ALL
        .iter()
        .map(|op| Tally::of(chosen.iter().copied().filter(|traffic| traffic.op == *op)))
        .collect();
    let (read, write, ops) = (&tallies[0], &tallies[1], Op::ALL.iter().zip(&tallies));
    let data = read.requests + write.requests;
    let bytes = read.bytes + write.bytes;
    Side {
        window_ns,
        read_share: share(read.requests, data),
        read_byte_share: share(read.bytes, bytes),
        sequential_share: share(read.sequential + write.sequential, data),
        direct_share: share(read.direct_bytes + write.direct_bytes, bytes),
        ops: ops.map(|(op, tally)| tally.figures(*op, window_ns)).collect(),
    }
}

/// Whether the program made a request to a disk.
pub(super) fn uses(run: &ProfileRun, device: &str) -> bool {
    let own = |row: &Traffic| row.class.is_of_the_program() && row.requests > 0;
    run.traffic.iter().any(|row| row.device == device && own(row))
}

/// Whether the requests of others on a disk may be the program's: it moved at least half as many
/// bytes on devices above the disk, whose requests kernel threads carry out below.
pub(super) fn carries(run: &ProfileRun, disk: &str) -> bool {
    let is_above = |device: &&ProfiledDevice| device.beneath.iter().any(|name| name == disk);
    let moved = |device: &str, is_counted: fn(Class) -> bool| -> u64 {
        let rows = run.traffic.iter().filter(|row| row.device == device && is_counted(row.class));
        rows.map(|row| row.bytes).sum()
    };
    let above = run.devices.iter().filter(is_above);
    let own: u64 = above.map(|device| moved(&device.facts.name, Class::is_of_the_program)).sum();
    own > 0 && own * 2 >= moved(disk, |class| class == Class::Other)
}

/// Requests, their bytes and the sum of their latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Work {
    pub(super) requests: f64,
    pub(super) bytes: f64,
    pub(super) time_ns: f64,
}

/// Work of these rows before the program's end.
pub(super) fn while_it_ran<'a>(run: &ProfileRun, rows: impl Iterator<Item = &'a Traffic>) -> Work {
    rows.fold(Work::default(), |sum, row| {
        let (requests, bytes) = shares_while_it_ran(run, row);
        Work {
            requests: sum.requests + row.requests as f64 * requests,
            bytes: sum.bytes + row.bytes as f64 * bytes,
            time_ns: sum.time_ns + row.latency.sum() as f64 * requests,
        }
    })
}

/// Shares of a row's requests and bytes that ended before the program did, spread evenly within an
/// interval or, in records without intervals, from the first request to the last.
fn shares_while_it_ran(run: &ProfileRun, row: &Traffic) -> (f64, f64) {
    let Some((first_ns, last_ns)) = row.active_ns else { return (0.0, 0.0) };
    let before = |start_ns: u64, end_ns: u64| {
        let (start_ns, end_ns) = (start_ns.max(first_ns), end_ns.min(last_ns.max(first_ns)));
        let part_ns = run.measured_ns.saturating_sub(start_ns) as f64;
        (part_ns / end_ns.saturating_sub(start_ns).max(1) as f64).min(1.0)
    };
    let all = before(first_ns, last_ns.max(first_ns));
    if all == 0.0 || all == 1.0 {
        return (all, all);
    }
    let width_ns = row.counters.width_ns;
    let of = |counts: &[u64]| {
        let each = (0u64..).zip(counts);
        let early =
            each.map(|(at, count)| *count as f64 * before(at * width_ns, (at + 1) * width_ns));
        let sum: u64 = counts.iter().sum();
        if sum == 0 { all } else { early.sum::<f64>() / sum as f64 }
    };
    (of(&row.counters.ops), of(&row.counters.bytes))
}

/// Each class with requests.
pub(super) fn classes(run: &ProfileRun) -> Vec<ClassFigures> {
    let moved = |traffic: &&Traffic| matches!(traffic.op, Op::Read | Op::Write);
    let all: u64 = run.traffic.iter().filter(moved).map(|traffic| traffic.bytes).sum();
    let figures = |class: &Class| {
        let chosen = || run.traffic.iter().filter(move |traffic| traffic.class == *class);
        let bytes = |op: Op| chosen().filter(|t| t.op == op).map(|t| t.bytes).sum::<u64>();
        let tally = Tally::of(chosen());
        let (read_bytes, write_bytes) = (bytes(Op::Read), bytes(Op::Write));
        ClassFigures {
            class: *class,
            requests: tally.requests,
            read_bytes,
            write_bytes,
            byte_share: share(read_bytes + write_bytes, all),
            latency: Latency::of(&tally.latency),
        }
    };
    Class::ALL.iter().map(figures).filter(|class| class.requests > 0).collect()
}

/// Reads or writes with one flag.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlagFigures {
    /// Reads or writes.
    pub op: Op,
    pub flag: Flag,
    /// Requests whose end was seen.
    pub requests: u64,
    pub bytes: u64,
    /// Latency from attribution to the end.
    #[serde(rename = "latency_ns")]
    pub latency: Latency,
}

/// Reads, then writes, each by descending number of requests.
pub(super) fn flags(run: &ProfileRun) -> Vec<FlagFigures> {
    let mut flags: Vec<FlagFigures> = run
        .flags
        .iter()
        .map(|flag| FlagFigures {
            op: flag.op,
            flag: flag.flag,
            requests: flag.latency.count(),
            bytes: flag.bytes,
            latency: Latency::of(&flag.latency),
        })
        .collect();
    flags.sort_by_key(|each| (each.op, std::cmp::Reverse(each.requests), each.flag));
    flags
}

/// A part over the whole; `None` if the whole is 0.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Amount per second; 0 if the time is 0.
pub(super) fn per_second(amount: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { amount as f64 * 1e9 / ns as f64 }
}

/// Sums of several kinds of traffic.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    direct_bytes: u64,
    pub(super) durable: u64,
    errors: u64,
    pub(super) sequential: u64,
    pub(super) strided: u64,
    pub(super) latency: Histogram,
    pub(super) queued: Histogram,
    pub(super) device_time: Histogram,
    pub(super) sizes: BTreeMap<u64, u64>,
}

impl Tally {
    pub(super) fn of<'a>(traffic: impl Iterator<Item = &'a Traffic>) -> Tally {
        let mut tally = Tally::default();
        for each in traffic {
            tally.requests += each.requests;
            tally.bytes += each.bytes;
            tally.direct_bytes += each.direct_bytes;
            tally.durable += each.durable;
            tally.errors += each.errors;
            tally.sequential += each.sequential;
            tally.strided += each.strided;
            tally.latency.merge(&each.latency);
            tally.queued.merge(&each.queued);
            tally.device_time.merge(&each.device_time);
            for (bytes, requests) in &each.sizes {
                *tally.sizes.entry(*bytes).or_default() += requests;
            }
        }
        tally
    }

    fn figures(&self, op: Op, window_ns: u64) -> OpFigures {
        let sizes: Vec<(f64, u64)> =
            self.sizes.iter().map(|(bytes, requests)| (*bytes as f64, *requests)).collect();
        let whole = self.latency.max();
        OpFigures {
            op,
            requests: self.requests,
            bytes: self.bytes,
            requests_per_s: per_second(self.requests, window_ns),
            bytes_per_s: per_second(self.bytes, window_ns),
            direct_bytes: self.direct_bytes,
            durable: self.durable,
            errors: self.errors,
            sequential_share: share(self.sequential, self.requests),
            strided_share: share(self.strided, self.requests),
            sizes: Spread::weighted(&sizes, self.sizes.values().sum()),
            latency: Latency::of(&self.latency),
            queued: part(&self.queued, whole),
            device_time: part(&self.device_time, whole),
        }
    }
}

/// Figures of a part of a latency. The maximum of a bucket is limited to that of the whole.
fn part(histogram: &Histogram, whole: Option<u64>) -> Latency {
    let latency = Latency::of(histogram);
    let max_ns = latency.max_ns.map(|max| whole.map_or(max, |whole| max.min(whole)));
    Latency { max_ns, ..latency }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::profile::{Flow, profile_of};
    use iosonde_model::record::run::CounterSeries;

    #[test]
    fn reads_writes_discards_and_flushes_are_apart() {
        let read = Flow { requests: 30_000, sequential_milli: 500, ..Flow::default() };
        let write =
            Flow { op: Op::Write, requests: 10_000, direct_milli: 250, strided_milli: 100, ..read };
        let write = Flow { sequential_milli: 900, size_bytes: 12_288, ..write };
        let discard = Flow { op: Op::Discard, requests: 10, size_bytes: 1 << 20, ..read };
        let flush = Flow { op: Op::Flush, requests: 500, size_bytes: 0, ..read };
        let run = profile_of(&[read, write, discard, flush]);
        let side = side(&run, |_| true);
        assert_eq!(side.op(Op::Read).requests_per_s, 3_000.0);
        assert_eq!(side.op(Op::Write).bytes_per_s, 12_288_000.0);
        assert_eq!(side.op(Op::Discard).requests, 10);
        assert_eq!(side.op(Op::Flush).requests_per_s, 50.0);
        // Neither discards nor flushes are part of the ratio.
        assert_eq!((side.read_share, side.read_byte_share), (Some(0.75), Some(0.5)));
        assert_eq!(side.sequential_share, Some(0.6));
        assert_eq!(side.direct_share, Some(0.625));
        assert_eq!(side.op(Op::Write).sequential_share, Some(0.9));
        assert_eq!(side.op(Op::Write).strided_share, Some(0.1));
        assert_eq!(side.op(Op::Read).sizes.at(0.5), Some(4096.0));
        assert_eq!(side.op(Op::Read).latency.max_ns, Some(100_000));
        assert_eq!(side.op(Op::Read).queued.mean_ns, Some(10_000.0));
        assert_eq!(side.op(Op::Read).device_time.mean_ns, Some(90_000.0));
    }

    #[test]
    fn write_back_belongs_to_the_program_and_its_time_counts() {
        let own = Flow { op: Op::Write, requests: 1_000, ..Flow::default() };
        let back = Flow { class: Class::WriteBack, requests: 3_000, ..own };
        let other = Flow { class: Class::Other, requests: 4_000, ..own };
        let mut run = profile_of(&[own, back, other]);
        let program = side(&run, |traffic| traffic.class.is_of_the_program());
        assert_eq!(program.op(Op::Write).requests, 4_000);
        let classes = classes(&run);
        let shares: Vec<Option<f64>> = classes.iter().map(|class| class.byte_share).collect();
        assert_eq!(shares, [Some(0.125), Some(0.375), Some(0.5)]);
        // The program ended after half the time, and its pages were written until the end.
        run.measured_ns /= 2;
        let program = side(&run, |traffic| traffic.class.is_of_the_program());
        assert_eq!(program.window_ns, 10_000_000_000);
        assert_eq!(program.op(Op::Write).requests_per_s, 400.0);
    }

    #[test]
    fn of_a_row_that_goes_on_after_the_end_what_came_before_it_is_known_by_its_intervals() {
        let mut run = profile_of(&[Flow { requests: 10_000, ..Flow::default() }]);
        let before = |run: &ProfileRun| while_it_ran(run, run.traffic.iter()).requests;
        assert_eq!(before(&run), 10_000.0);
        run.measured_ns = 4_000_000_000;
        assert_eq!(before(&run), 4_000.0, "an earlier record");
        // Nearly all requests ended in the first of two intervals.
        let bytes = vec![4096; 2];
        run.traffic[0].counters =
            CounterSeries { width_ns: 5_000_000_000, ops: vec![9_990, 10], bytes };
        assert_eq!(before(&run), 7_992.0);
        let bytes = while_it_ran(&run, run.traffic.iter()).bytes;
        assert_eq!(bytes, run.traffic[0].bytes as f64 * 0.4);
        run.traffic[0].active_ns = Some((5_000_000_000, 10_000_000_000));
        assert_eq!(before(&run), 0.0);
    }

    #[test]
    fn nothing_has_no_shares() {
        let side = side(&ProfileRun::default(), |_| true);
        assert_eq!((side.read_share, side.sequential_share, side.direct_share), (None, None, None));
        assert_eq!((side.op(Op::Read).sizes.max, side.op(Op::Read).latency.max_ns), (None, None));
        assert_eq!(side.op(Op::Read).requests_per_s, 0.0);
    }
}
