//! One load on many hosts: totals over the time in which all of them ran, one latency distribution,
//! and the slow hosts.

use serde::Serialize;

use iosonde_model::record::hosts::ServerCell;
use iosonde_model::record::run::{CounterSeries, Run};
use iosonde_stats::ratio::median;
use iosonde_stats::summary::mean;

use super::experiment::Spread;
use super::figures::{LatencyFigures, figures};
use super::grouped::grouped;
use super::series;
use super::verdict::{Assessment, assess};

/// A host is slow if its rate is certainly below this share of the median of the others.
const SLOW_BELOW: f64 = 0.8;
/// Fewest intervals of 100 ms or more, all below it, that prove this without a 95 % interval.
const FEWEST_INTERVALS: usize = 10;
/// A difference between the starts above this share of the window is a warning.
const SKEWED_FROM: f64 = 0.02;
/// The result is mostly that of a cache if the server's disks read less than this share.
const CACHED_BELOW: f64 = 0.5;

/// One host's run of a load.
#[derive(Clone, Copy, Debug)]
pub struct HostMeasured<'a> {
    /// Name of the host, as given.
    pub name: &'a str,
    /// Opening of its window on the clock of the coordinator, ns; `None` if unknown.
    pub opened_ns: Option<u64>,
    /// Round-trip time to the host, ns: the opening is known to half of it.
    pub round_trip_ns: u64,
    /// Record of its run.
    pub run: &'a Run,
}

/// One load on all hosts.
#[derive(Clone, Debug, Serialize)]
pub struct HostsFigures {
    /// Name of the load; for a cell, its stage.
    pub name: String,
    pub title: String,
    /// The hosts, in their order.
    pub hosts: Vec<HostFigures>,
    /// The time in which all hosts ran; `None` if there is none, or an opening is unknown.
    pub common: Option<Common>,
    /// Latency of all operations of all hosts: their histograms merged.
    pub latency: LatencyFigures,
    /// Jain's index of fairness of the rates, `1/n..=1`; `None` for one host or without rates.
    /// R. Jain, D. Chiu, W. Hawe: A quantitative measure of fairness, DEC-TR-301, 1984.
    pub fairness: Option<f64>,
    /// Hosts that were slower than the others.
    pub slow: Vec<SlowHost>,
    /// Transfers of a shared server's disks during the run, if its counters were read.
    pub server: Option<ServerShare>,
}

/// Bytes that the hosts transferred in their windows, and that the disks of their shared server
/// transferred meanwhile, warm-up included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServerShare {
    pub hosts_read_bytes: u64,
    /// Bytes that the server's disks read.
    pub server_read_bytes: u64,
    pub hosts_written_bytes: u64,
    /// Bytes that the server's disks wrote.
    pub server_written_bytes: u64,
    /// Whether the server's disks read less than half of what the hosts read: the result is mostly
    /// that of a cache.
    pub is_cached: bool,
}

impl ServerShare {
    /// `None` if the server's counters decreased.
    fn of(measured: &[HostMeasured<'_>], server: &ServerCell) -> Option<ServerShare> {
        let jobs = || measured.iter().flat_map(|host| &host.run.jobs);
        let hosts_read_bytes = jobs().map(|job| job.read.bytes).sum();
        let ServerCell { before, after, .. } = server;
        let server_read_bytes = after.read_bytes.checked_sub(before.read_bytes)?;
        Some(ServerShare {
            hosts_read_bytes,
            server_read_bytes,
            hosts_written_bytes: jobs().map(|job| job.write.bytes).sum(),
            server_written_bytes: after.written_bytes.checked_sub(before.written_bytes)?,
            is_cached: (server_read_bytes as f64) < CACHED_BELOW * hosts_read_bytes as f64,
        })
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct HostFigures {
    /// Name of the host, as given.
    pub name: String,
    /// Assessment of its run.
    #[serde(skip)]
    pub row: Assessment,
    /// Operations per second while all hosts ran; over its own window if they never did.
    pub iops: f64,
    /// Bytes per second, likewise.
    pub bytes_per_s: f64,
    /// Opening of its window after the first host's, ns.
    pub opened_after_ns: Option<u64>,
    /// End of its window after the first host's opening, ns.
    pub closed_after_ns: Option<u64>,
}

/// A load with all its runs: the repeats of a cell, or one.
#[derive(Clone, Debug, Serialize)]
pub struct HostsCell {
    /// Name of the load; for a cell, its stage.
    pub name: String,
    pub title: String,
    /// Operations per second of all hosts, in each run with a time in which all ran.
    pub iops: Option<Spread>,
    /// Bytes per second, likewise.
    pub bytes_per_s: Option<Spread>,
    /// Latency of all operations of all hosts in all runs: their histograms merged.
    pub latency: LatencyFigures,
    /// The host with the lowest mean rate, and that rate.
    pub least: Option<(String, f64)>,
    /// Number of runs of the load, with or without a time in which all hosts ran.
    pub runs: usize,
}

/// The time in which all hosts ran, and their total rates in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Common {
    /// Length of that time, ns.
    pub span_ns: u64,
    /// Time from the first opening to the last, ns.
    pub skew_ns: u64,
    /// Error of the skew, ns: half the longest round trip.
    pub skew_error_ns: u64,
    /// Time from the first end to the last, ns.
    pub end_skew_ns: u64,
    /// Operations per second of all hosts.
    pub iops: f64,
    /// Bytes per second of all hosts.
    pub bytes_per_s: f64,
    /// Whether the skew is more than 2 % of the longest window.
    pub is_skewed: bool,
}

/// A host that was slower than the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowHost {
    pub name: String,
    /// Its rate as a share of the median of the others.
    pub share: f64,
    /// 95 % interval of that share, from the interval of its own rate. `None` if that rate has
    /// none; then every interval of 100 ms or more was below the limit.
    pub interval: Option<(f64, f64)>,
}

/// Combines the hosts' runs of one load, and the counters of a server that they share. `None`
/// without a run.
pub fn hosts(measured: &[HostMeasured<'_>], server: Option<&ServerCell>) -> Option<HostsFigures> {
    let first = measured.first()?;
    let latency = figures(&merged(measured)?).all.total.latency;
    let window = window(measured);
    let hosts: Vec<HostFigures> =
        measured.iter().map(|host| figures_of(host, measured, window)).collect();
    let rates: Vec<f64> = hosts.iter().map(|host| host.iops).collect();
    let common = window.map(|(from_ns, to_ns)| common(measured, &hosts, to_ns - from_ns));
    Some(HostsFigures {
        name: first.run.plan.name.clone(),
        title: first.run.plan.title.clone(),
        common,
        latency,
        fairness: fairness(&rates),
        slow: slow(measured, &hosts),
        server: server.and_then(|server| ServerShare::of(measured, server)),
        hosts,
    })
}

/// A run of a load on all hosts, and its figures.
pub type Measured<'a> = (Vec<HostMeasured<'a>>, HostsFigures);

/// Combines the runs of each load, in the order of their first runs.
pub fn cells(loads: &[Measured<'_>]) -> Vec<HostsCell> {
    let cells = grouped(loads.iter().map(|load| ((&load.1.name, &load.1.title), load)));
    cells.iter().filter_map(|(_, runs)| cell(&runs[0].1, runs)).collect()
}

fn cell(of: &HostsFigures, runs: &[&Measured<'_>]) -> Option<HostsCell> {
    let all: Vec<HostMeasured<'_>> = runs.iter().flat_map(|run| run.0.iter().copied()).collect();
    let spread = |value: fn(&Common) -> f64| {
        Spread::of(runs.iter().filter_map(|run| run.1.common.as_ref().map(value)).collect())
    };
    let rates =
        grouped(runs.iter().flat_map(|run| &run.1.hosts).map(|host| (&host.name, host.iops)));
    let means = rates.iter().map(|(name, rates)| ((*name).clone(), mean(rates)));
    Some(HostsCell {
        name: of.name.clone(),
        title: of.title.clone(),
        iops: spread(|common| common.iops),
        bytes_per_s: spread(|common| common.bytes_per_s),
        latency: figures(&merged(&all)?).all.total.latency,
        least: means.min_by(|a, b| a.1.total_cmp(&b.1)),
        runs: runs.len(),
    })
}

/// One run with the jobs of all hosts.
fn merged(measured: &[HostMeasured<'_>]) -> Option<Run> {
    let mut all = measured.first()?.run.clone();
    for host in &measured[1..] {
        all.plan.jobs.extend(host.run.plan.jobs.iter().cloned());
        all.jobs.extend(host.run.jobs.iter().cloned());
        all.measured_ns = all.measured_ns.max(host.run.measured_ns);
    }
    Some(all)
}

/// Start and end of the time in which all hosts ran, on the coordinator's clock, ns.
fn window(measured: &[HostMeasured<'_>]) -> Option<(u64, u64)> {
    let opened: Option<Vec<u64>> = measured.iter().map(|host| host.opened_ns).collect();
    let from_ns = opened?.into_iter().max()?;
    let closed = measured.iter().map(|host| Some(host.opened_ns? + host.run.measured_ns));
    let to_ns = closed.min()??;
    (to_ns > from_ns).then_some((from_ns, to_ns))
}

fn figures_of(
    host: &HostMeasured<'_>,
    all: &[HostMeasured<'_>],
    window: Option<(u64, u64)>,
) -> HostFigures {
    let row = assess(host.run, None);
    let own = &row.figures.all.total;
    let (mut iops, mut bytes_per_s) = (own.iops, own.bytes_per_s);
    if let (Some((from_ns, to_ns)), Some(opened_ns)) = (window, host.opened_ns) {
        let within = (from_ns - opened_ns, to_ns - opened_ns);
        let rates = rates(host.run, within);
        (iops, bytes_per_s) = rates.unwrap_or((iops, bytes_per_s));
    }
    let first_ns = all.iter().filter_map(|host| host.opened_ns).min();
    let opened_after_ns = host.opened_ns.zip(first_ns).map(|(opened, first)| opened - first);
    HostFigures {
        name: host.name.to_owned(),
        iops,
        bytes_per_s,
        opened_after_ns,
        closed_after_ns: opened_after_ns.map(|after_ns| after_ns + host.run.measured_ns),
        row,
    }
}

/// Operations and bytes per second between two times since the window opened, from the whole
/// intervals between them; `None` if there is no such interval.
fn rates(run: &Run, (from_ns, to_ns): (u64, u64)) -> Option<(f64, f64)> {
    let (mut iops, mut bytes_per_s) = (0.0, 0.0);
    for direction in series::directions(run).filter(|direction| direction.ops > 0) {
        let CounterSeries { width_ns, ops, bytes } = &direction.counters;
        if *width_ns == 0 {
            return None;
        }
        let (first, end) = (from_ns.div_ceil(*width_ns), to_ns / width_ns);
        let seconds =
            end.checked_sub(first).filter(|count| *count > 0)? as f64 * (*width_ns as f64 / 1e9);
        let sum = |counts: &[u64]| {
            let within = counts.iter().skip(first as usize).take((end - first) as usize);
            within.sum::<u64>() as f64 / seconds
        };
        iops += sum(ops);
        bytes_per_s += sum(bytes);
    }
    Some((iops, bytes_per_s))
}

fn common(measured: &[HostMeasured<'_>], hosts: &[HostFigures], span_ns: u64) -> Common {
    let spread = |times: &dyn Fn(&HostFigures) -> Option<u64>| {
        let times: Vec<u64> = hosts.iter().filter_map(times).collect();
        times.iter().max().unwrap_or(&0) - times.iter().min().unwrap_or(&0)
    };
    let skew_ns = spread(&|host| host.opened_after_ns);
    let longest_ns = measured.iter().map(|host| host.run.measured_ns).max().unwrap_or(0);
    Common {
        span_ns,
        skew_ns,
        skew_error_ns: measured.iter().map(|host| host.round_trip_ns / 2).max().unwrap_or(0),
        end_skew_ns: spread(&|host| host.closed_after_ns),
        iops: hosts.iter().map(|host| host.iops).sum(),
        bytes_per_s: hosts.iter().map(|host| host.bytes_per_s).sum(),
        is_skewed: skew_ns as f64 > SKEWED_FROM * longest_ns as f64,
    }
}

fn fairness(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (rates.len() > 1 && squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// Hosts certainly below the others' median: with their whole 95 % interval or, if there is none,
/// in each interval of the run.
fn slow(measured: &[HostMeasured<'_>], hosts: &[HostFigures]) -> Vec<SlowHost> {
    let is_slow = |(index, host): (usize, &HostFigures)| {
        let others = hosts.iter().enumerate().filter(|(other, _)| *other != index);
        let others: Vec<f64> = others.map(|(_, host)| host.iops).collect();
        let usual = median(&others).filter(|usual| *usual > 0.0)?;
        let own = &host.row.figures.all.total;
        let scale = if own.iops > 0.0 { host.iops / own.iops } else { 1.0 };
        let of_usual = |iops: f64| iops * scale / usual;
        let interval = own.iops_interval.and_then(Result::ok);
        let interval = interval.map(|(low, high)| (of_usual(low), of_usual(high)));
        let most = match interval {
            Some((_, high)) => high,
            None => {
                let rates = series::whole(measured.get(index)?.run).iops();
                let most = rates.iter().copied().map(of_usual).reduce(f64::max)?;
                (rates.len() >= FEWEST_INTERVALS).then_some(most)?
            }
        };
        let share = host.iops / usual;
        (most < SLOW_BELOW).then(|| SlowHost { name: host.name.clone(), share, interval })
    };
    hosts.iter().enumerate().filter_map(is_slow).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::hosts::ServerCounters;

    fn measured<'a>(runs: &'a [Run], opened_ns: &[u64]) -> Vec<HostMeasured<'a>> {
        let names = ["a", "b", "c", "d"];
        let hosts = runs.iter().zip(opened_ns).zip(names);
        hosts
            .map(|((run, opened_ns), name)| HostMeasured {
                name,
                opened_ns: Some(*opened_ns),
                round_trip_ns: 200_000,
                run,
            })
            .collect()
    }

    fn load(iops: f64) -> Run {
        run_of(&[Load { iops, ..Load::default() }])
    }

    #[test]
    fn totals_are_over_the_time_in_which_all_ran() {
        let mut runs = [load(1_000.0), load(3_000.0)];
        // The second host is idle before the first begins, and busy after it ends.
        let width_ns = runs[1].jobs[0].read.counters.width_ns;
        let second = (1_000_000_000 / width_ns) as usize;
        runs[1].jobs[0].read.counters.ops[..second].fill(0);
        let both = hosts(&measured(&runs, &[5_000_000_000, 4_000_000_000]), None).unwrap();
        let common = both.common.unwrap();
        assert_eq!((common.skew_ns, common.end_skew_ns), (1_000_000_000, 1_000_000_000));
        assert_eq!(common.skew_error_ns, 100_000);
        assert!(common.is_skewed);
        assert!((common.iops / 4_000.0 - 1.0).abs() < 0.03, "{common:?}");
        assert_eq!(both.hosts[1].opened_after_ns, Some(0));
        let whole = both.hosts[1].row.figures.all.total.iops;
        assert!((both.hosts[1].iops / whole - 1.0).abs() < 0.2);
    }

    #[test]
    fn percentiles_are_those_of_all_operations_together() {
        let runs = [load(1_000.0), load(9_000.0)];
        let both = hosts(&measured(&runs, &[0, 0]), None).unwrap();
        let mut merged = runs[0].jobs[0].read.latency.clone();
        for job in runs[0].jobs.iter().skip(1).chain(&runs[1].jobs) {
            merged.merge(&job.read.latency);
        }
        assert_eq!(both.latency.count, merged.count());
        for quantile in both.latency.quantiles {
            assert_eq!(
                quantile.value_ns(),
                LatencyFigures::of(&merged).quantile(quantile.q).unwrap().value_ns()
            );
        }
    }

    #[test]
    fn a_host_whose_rate_has_no_interval_is_slow_if_it_is_at_every_time() {
        let rising = |iops| run_of(&[Load { iops, shape: |t| 0.5 + t, ..Load::default() }]);
        let slow = |iops: f64| {
            let runs = [load(5_000.0), rising(iops), load(5_000.0), load(5_000.0)];
            hosts(&measured(&runs, &[0; 4]), None).unwrap().slow
        };
        let [found] = &slow(500.0)[..] else { panic!() };
        assert_eq!((found.name.as_str(), found.interval), ("b", None));
        assert!((found.share - 0.1).abs() < 0.01, "{found:?}");
        assert_eq!(slow(3_000.0), [], "90 % of the others at its end");
    }

    #[test]
    fn a_run_of_a_few_intervals_calls_nobody_slow() {
        let slow = |measured_ns: u64| {
            let runs = [5_000.0, 500.0, 5_000.0, 5_000.0].map(|iops| {
                let mut run = load(iops);
                run.measured_ns = measured_ns;
                run.jobs[0].read.ops = (iops * measured_ns as f64 / 1e9) as u64;
                run
            });
            hosts(&measured(&runs, &[0; 4]), None).unwrap().slow.len()
        };
        assert_eq!((slow(500_000_000), slow(1_500_000_000)), (0, 1));
    }

    #[test]
    fn the_slow_host_is_named_and_equal_hosts_are_not() {
        let slow = [load(5_000.0), load(1_000.0), load(5_000.0), load(5_000.0)];
        let four = hosts(&measured(&slow, &[0; 4]), None).unwrap();
        let [found] = four.slow.as_slice() else { panic!("{:?}", four.slow) };
        assert_eq!(found.name, "b");
        let (low, high) = found.interval.unwrap();
        assert!(low <= 0.2 && 0.2 <= high, "{found:?}");
        assert!((four.fairness.unwrap() - 256.0 / (4.0 * 76.0)).abs() < 0.02);
        let equal = [load(5_000.0), load(5_000.0), load(4_900.0), load(5_000.0)];
        let four = hosts(&measured(&equal, &[0; 4]), None).unwrap();
        assert_eq!(four.slow, []);
        assert!(four.fairness.unwrap() > 0.999);
        assert!(!four.common.unwrap().is_skewed);
    }

    #[test]
    fn the_repeats_of_a_cell_are_merged_and_other_cells_are_not() {
        let [fast, slow, other] = [load(9_000.0), load(1_000.0), load(500.0)];
        let runs = [fast.clone(), slow.clone()];
        let others = [Run { plan: other.plan.clone(), ..other.clone() }];
        let mut others = others;
        others[0].plan.title = "other".into();
        let all: Vec<_> = [&runs[..], &runs[..], &others[..]]
            .into_iter()
            .map(|runs| measured(runs, &[0, 0]))
            .map(|measured| (measured.clone(), hosts(&measured, None).unwrap()))
            .collect();
        let cells = cells(&all);
        assert_eq!(cells.iter().map(|cell| cell.runs).collect::<Vec<_>>(), [2, 1]);
        let mut merged = iosonde_stats::Histogram::new();
        for job in [&fast, &slow, &fast, &slow].iter().flat_map(|run| &run.jobs) {
            merged.merge(&job.read.latency);
        }
        assert_eq!(cells[0].latency.count, merged.count());
        assert_eq!(
            cells[0].latency.quantile(0.99).unwrap().value_ns(),
            LatencyFigures::of(&merged).quantile(0.99).unwrap().value_ns()
        );
        assert_eq!(cells[0].iops.as_ref().unwrap().values.len(), 2);
        assert_eq!(cells[0].least.as_ref().unwrap().0, "b");
    }

    #[test]
    fn a_server_that_reads_less_than_the_hosts_has_a_cache() {
        let runs = [load(1_000.0), load(1_000.0)];
        let bytes: u64 = runs.iter().flat_map(|run| &run.jobs).map(|job| job.read.bytes).sum();
        let share = |read_bytes: u64| {
            let before = ServerCounters { read_bytes: 7, written_bytes: 9 };
            let after = ServerCounters { read_bytes: 7 + read_bytes, written_bytes: 9 };
            let server = ServerCell { cell: 0, before, after };
            hosts(&measured(&runs, &[0, 0]), Some(&server)).unwrap().server.unwrap()
        };
        assert_eq!((share(bytes).hosts_read_bytes, share(bytes).server_read_bytes), (bytes, bytes));
        assert!(!share(bytes).is_cached && !share(2 * bytes).is_cached);
        assert!(share(bytes / 3).is_cached && share(0).is_cached);
        let went_back = ServerCell {
            cell: 0,
            before: ServerCounters { read_bytes: 7, written_bytes: 9 },
            after: ServerCounters::default(),
        };
        assert_eq!(hosts(&measured(&runs, &[0, 0]), Some(&went_back)).unwrap().server, None);
    }

    #[test]
    fn without_a_common_time_there_is_no_total() {
        let runs = [load(1_000.0), load(1_000.0)];
        let apart = hosts(&measured(&runs, &[0, 3_600_000_000_000]), None).unwrap();
        assert_eq!(apart.common, None);
        assert_eq!(hosts(&[], None).map(|_| ()), None);
        let alone = hosts(&measured(&runs[..1], &[7]), None).unwrap();
        assert_eq!((alone.fairness, alone.common.unwrap().skew_ns), (None, 0));
    }
}
