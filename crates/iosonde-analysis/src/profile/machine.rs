//! The machine and the program on it: CPU time, waits for I/O, context switches, pressure.

use serde::Serialize;

use crate::document;
use iosonde_model::record::profile::{CallCounts, PageCache, ProfileRun, ProfiledDevice};

use super::spread::Spread;
use super::traffic::{per_second, share};

/// CPU time and waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineFigures {
    /// Share of all CPUs in use per interval (user and system).
    #[serde(rename = "used_share")]
    pub cpu_used: Spread,
    /// Share of all CPUs that idled while a task waited for I/O, per interval.
    #[serde(rename = "iowait_share")]
    pub iowait: Spread,
    /// Mean share of all CPUs over the profile in user mode.
    pub user_share: Option<f64>,
    /// The same in kernel mode.
    pub system_share: Option<f64>,
    /// The same for steal: time that the hypervisor gave to other machines.
    pub steal_share: Option<f64>,
    /// Share of the time in which some task waited for I/O (pressure stall information).
    #[serde(rename = "io_pressure_share")]
    pub io_pressure: Option<f64>,
    /// Context switches of the machine per second.
    pub switches_per_s: Option<f64>,
    /// User CPU time of the program over the time measured; 1 is one CPU.
    #[serde(rename = "program_user_cpus")]
    pub program_user: Option<f64>,
    /// System CPU time of the program over the time measured; 1 is one CPU.
    #[serde(rename = "program_system_cpus")]
    pub program_system: Option<f64>,
    /// Voluntary context switches of the program per second: it waits for something.
    pub program_voluntary_switches_per_s: Option<f64>,
    /// Involuntary context switches per second: another task gets the CPU.
    pub program_involuntary_switches_per_s: Option<f64>,
    /// Time the program's tasks waited for block I/O, ns.
    pub program_io_delay_ns: Option<u64>,
    /// That delay over the time measured; 1 is one task always.
    #[serde(skip)]
    pub program_io_delay: Option<f64>,
    /// Time the program's tasks were ready to run and had no CPU, ns.
    pub program_run_delay_ns: Option<u64>,
    /// That delay over the time measured; 1 is one task always.
    #[serde(skip)]
    pub program_run_delay: Option<f64>,
    /// CPU time of the collector over the profile; 1 is one CPU.
    #[serde(rename = "collector_cpus")]
    pub collector_cpu: Option<f64>,
}

/// The kernel's own counters of a device, requests of all programs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CounterFigures {
    /// Time between the two readings, ns. The second is at the program's end or, in records without
    /// that reading, after settling.
    pub window_ns: u64,
    /// Reads completed.
    pub reads: u64,
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Discards completed.
    pub discards: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Requests merged into others before they were sent.
    pub merges: u64,
    /// Mean latency of reads by the kernel's millisecond counters, ns.
    pub read_mean_ns: Option<f64>,
    /// Mean latency of writes, likewise, ns.
    pub write_mean_ns: Option<f64>,
    /// Share of the time with any request in flight.
    pub busy_share: Option<f64>,
    /// Bytes written after that time, while settling.
    pub later_write_bytes: u64,
    /// Mean number of requests in flight.
    pub depth_mean: Option<f64>,
}

/// Bytes requested by the program's calls, and how many of them reached storage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CallFigures {
    #[serde(flatten)]
    pub counts: CallCounts,
    /// Bytes fetched from storage per second.
    #[serde(serialize_with = "document::whole")]
    pub storage_read_bytes_per_s: f64,
    /// Bytes written to storage per second on its behalf, less truncated pages.
    #[serde(serialize_with = "document::whole")]
    pub storage_write_bytes_per_s: f64,
}

/// Share of the look-ups of read calls that the page cache served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CacheFigures {
    #[serde(flatten)]
    pub counts: PageCache,
    /// Share of the pages looked up that were already in memory; `None` without look-ups.
    pub hit_share: Option<f64>,
}

/// The figures of the machine.
pub(super) fn machine(run: &ProfileRun) -> MachineFigures {
    let ticks: Vec<[u64; 5]> = run.telemetry.iter().filter_map(|look| look.cpu_ticks).collect();
    let steps: Vec<[f64; 5]> =
        ticks.windows(2).filter_map(|pair| shares(pair[0], pair[1])).collect();
    let whole = ticks.first().zip(ticks.last()).and_then(|(first, last)| shares(*first, *last));
    let of_time = |ns: u64| (run.measured_ns > 0).then(|| ns as f64 / run.measured_ns as f64);
    let cpu = run.cpu.as_ref().filter(|cpu| cpu.span_ns > 0);
    let of_span = |ns: u64, span_ns: u64| ns as f64 / span_ns as f64;
    let collector = &run.collector;
    MachineFigures {
        cpu_used: Spread::of(&steps.iter().map(|step| step[0] + step[1]).collect::<Vec<_>>()),
        iowait: Spread::of(&steps.iter().map(|step| step[3]).collect::<Vec<_>>()),
        user_share: whole.map(|[user, ..]| user),
        system_share: whole.map(|[_, system, ..]| system),
        steal_share: whole.map(|[.., steal]| steal),
        io_pressure: pressure(run),
        switches_per_s: run
            .machine_switches
            .map(|(start, end)| per_second(end.saturating_sub(start), watched_ns(run))),
        program_user: cpu.map(|cpu| of_span(cpu.cpu_user_ns, cpu.span_ns)),
        program_system: cpu.map(|cpu| of_span(cpu.cpu_system_ns, cpu.span_ns)),
        program_voluntary_switches_per_s: cpu
            .map(|cpu| per_second(cpu.voluntary_switches, cpu.span_ns)),
        program_involuntary_switches_per_s: cpu
            .map(|cpu| per_second(cpu.involuntary_switches, cpu.span_ns)),
        program_io_delay_ns: run.io_delay_ns,
        program_io_delay: run.io_delay_ns.and_then(of_time),
        program_run_delay_ns: run.run_delay_ns,
        program_run_delay: run.run_delay_ns.and_then(of_time),
        collector_cpu: (collector.span_ns > 0)
            .then(|| of_span(collector.cpu_user_ns + collector.cpu_system_ns, collector.span_ns)),
    }
}

/// Length of the profile with settling, ns: the span of the counters of the machine and its
/// devices.
fn watched_ns(run: &ProfileRun) -> u64 {
    run.collector.span_ns.max(run.measured_ns + run.settle_ns)
}

/// User, system, idle, iowait and steal between two readings, as shares of all CPUs.
pub(crate) fn shares(before: [u64; 5], after: [u64; 5]) -> Option<[f64; 5]> {
    // iowait may decrease, as documented by the kernel.
    let step: [u64; 5] = std::array::from_fn(|kind| after[kind].saturating_sub(before[kind]));
    let all: u64 = step.iter().sum();
    (all > 0).then(|| step.map(|ticks| ticks as f64 / all as f64))
}

fn pressure(run: &ProfileRun) -> Option<f64> {
    let looks = || run.telemetry.iter().filter(|look| look.io_pressure_us.is_some());
    let (first, last) = (looks().next()?, looks().next_back()?);
    let ns = u64::try_from(last.at_ns - first.at_ns).ok().filter(|ns| *ns > 0)?;
    let waited = last.io_pressure_us?.saturating_sub(first.io_pressure_us?);
    Some(waited as f64 * 1e3 / ns as f64)
}

/// Counters of a device while the program ran, or over the whole time watched if a record has no
/// reading at the program's end.
pub(super) fn counters(run: &ProfileRun, device: &ProfiledDevice) -> Option<CounterFigures> {
    let (start, settled) = device.counters?;
    let at_end = device.counters_at_end.filter(|_| run.measured_ns > 0);
    let window_ns = at_end.map_or_else(|| watched_ns(run), |_| run.measured_ns);
    let end = at_end.unwrap_or(settled);
    let sectors = |before: u64, after: u64| after.saturating_sub(before).saturating_mul(512);
    let count = |before: u64, after: u64| after.saturating_sub(before);
    let (reads, writes) = (count(start.reads, end.reads), count(start.writes, end.writes));
    let mean = |requests: u64, before: u64, after: u64| {
        (requests > 0).then(|| count(before, after) as f64 * 1e6 / requests as f64)
    };
    let of_time = |before: u64, after: u64| {
        (window_ns > 0).then(|| count(before, after) as f64 * 1e6 / window_ns as f64)
    };
    Some(CounterFigures {
        window_ns,
        reads,
        read_bytes: sectors(start.read_sectors, end.read_sectors),
        writes,
        write_bytes: sectors(start.write_sectors, end.write_sectors),
        later_write_bytes: sectors(end.write_sectors, settled.write_sectors),
        discards: count(start.discards, end.discards),
        flushes: count(start.flushes, end.flushes),
        merges: count(start.read_merges + start.write_merges, end.read_merges + end.write_merges),
        read_mean_ns: mean(reads, start.read_ms, end.read_ms),
        write_mean_ns: mean(writes, start.write_ms, end.write_ms),
        // The counters are coarse ticks, so the share may exceed 1.
        busy_share: of_time(start.busy_ms, end.busy_ms).map(|share| share.min(1.0)),
        depth_mean: of_time(start.weighted_ms, end.weighted_ms),
    })
}

/// Counts of the calls, and their bytes per second.
pub(super) fn calls(run: &ProfileRun) -> Option<CallFigures> {
    let counts = run.calls?;
    let written = counts.storage_write_bytes.saturating_sub(counts.cancelled_bytes);
    Some(CallFigures {
        counts,
        storage_read_bytes_per_s: per_second(counts.storage_read_bytes, run.measured_ns),
        storage_write_bytes_per_s: per_second(written, run.measured_ns),
    })
}

/// Figures of the page cache. Read-ahead may bring in pages that are never looked up: more misses
/// than look-ups count as no hits.
pub(super) fn page_cache(run: &ProfileRun) -> Option<CacheFigures> {
    let counts = run.page_cache?;
    let hits = counts.looked_up_pages.saturating_sub(counts.brought_in_pages);
    Some(CacheFigures { counts, hit_share: share(hits, counts.looked_up_pages) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::profile::{by_counters, database};
    use iosonde_model::record::facts::DeviceCounters;

    #[test]
    fn the_machine_and_the_program_of_a_known_profile() {
        let machine = machine(&database());
        assert!((machine.cpu_used.at(0.5).unwrap() - 0.3).abs() < 1e-9);
        assert!((machine.iowait.max.unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(machine.cpu_used.count, 10);
        let shares = [machine.user_share, machine.system_share, machine.steal_share];
        assert_eq!(shares, [Some(0.2), Some(0.1), Some(0.0)]);
        assert_eq!((machine.program_user, machine.program_system), (Some(0.1), Some(0.2)));
        assert_eq!(machine.switches_per_s, Some(20_000.0));
        let switches =
            [machine.program_voluntary_switches_per_s, machine.program_involuntary_switches_per_s];
        assert_eq!(switches, [Some(5_000.0), Some(10.0)]);
        assert_eq!((machine.io_pressure, machine.program_io_delay), (Some(0.25), Some(0.5)));
        assert_eq!(machine.collector_cpu, Some(0.002));
    }

    #[test]
    fn what_was_not_reported_is_none() {
        let machine = machine(&ProfileRun::default());
        assert_eq!((machine.cpu_used.count, machine.user_share), (0, None));
        assert_eq!((machine.switches_per_s, machine.program_user), (None, None));
        assert_eq!((machine.program_io_delay, machine.io_pressure), (None, None));
        assert_eq!(calls(&ProfileRun::default()), None);
    }

    #[test]
    fn hits_are_look_ups_of_what_nobody_had_to_bring_in() {
        let share = |looked_up_pages, brought_in_pages| {
            let counts = PageCache { page_bytes: 4096, looked_up_pages, brought_in_pages };
            let run = ProfileRun { page_cache: Some(counts), ..ProfileRun::default() };
            page_cache(&run).unwrap().hit_share
        };
        assert_eq!((share(1000, 250), share(1000, 0)), (Some(0.75), Some(1.0)));
        assert_eq!((share(10, 32), share(0, 0)), (Some(0.0), None));
        assert_eq!(page_cache(&ProfileRun::default()), None);
    }

    #[test]
    fn counters_of_a_device_are_of_all_the_time_watched() {
        let mut run = by_counters();
        run.settle_ns = run.measured_ns;
        let figures = counters(&run, &run.devices[0]).unwrap();
        assert_eq!(figures.window_ns, 20_000_000_000);
        assert_eq!((figures.reads, figures.read_bytes), (50_000, 204_800_000));
        assert_eq!(figures.read_mean_ns, Some(100_000.0));
        assert_eq!((figures.busy_share, figures.depth_mean), (Some(0.25), Some(0.25)));
        let calls = calls(&run).unwrap();
        assert_eq!(calls.storage_read_bytes_per_s, 20_480_000.0);
    }

    #[test]
    fn what_a_device_did_after_the_end_is_apart() {
        let mut run = by_counters();
        run.settle_ns = 2 * run.measured_ns;
        let device = &mut run.devices[0];
        let (start, settled) = device.counters.unwrap();
        assert_eq!(counters(&run, &run.devices[0]).unwrap().later_write_bytes, 0);
        let device = &mut run.devices[0];
        device.counters_at_end = Some(settled);
        device.counters = Some((
            start,
            DeviceCounters { write_sectors: settled.write_sectors + 2048, ..settled },
        ));
        let figures = counters(&run, &run.devices[0]).unwrap();
        assert_eq!((figures.window_ns, figures.reads), (10_000_000_000, 50_000));
        assert_eq!(figures.later_write_bytes, 1 << 20);
    }
}
