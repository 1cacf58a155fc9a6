//! The report of one command on many hosts: totals, a row per host, slow hosts, missing hosts.

use iosonde_analysis::figures::{DirectionFigures, LatencyFigures};
use iosonde_analysis::hosts::{Common, HostFigures, HostsCell, HostsFigures, ServerShare};
use iosonde_model::record::Manifest;
use iosonde_model::record::hosts::HostsRun;
use iosonde_model::units::{bytes, count, duration};
use serde_json::{Value, json};

use super::answer::hosts::{end_words, many, slow_words};
use super::report::{
    Block, Column, DataSet, Datum, Entry, Report, Section, Source, Table, Trust, Warning,
};
use super::{Answer, hosts_answer};

/// Name and version of the JSON document.
pub const HOSTS_RESULT_SCHEMA: &str = "iosonde.hosts-result/1";

/// Data for a report of many hosts.
#[derive(Clone, Copy, Debug)]
pub struct HostsResult<'a> {
    pub record: &'a HostsRun,
    /// Figures of each load, in order.
    pub loads: &'a [HostsFigures],
    /// The same with the repeats of a load combined.
    pub cells: &'a [HostsCell],
    /// The manifest of the command, if known.
    pub manifest: Option<&'a Manifest>,
    pub exit_code: u8,
}

impl HostsResult<'_> {
    /// Whether every host completed every load.
    pub(crate) fn is_complete(&self) -> bool {
        let all_there = self.loads.iter().all(|load| load.hosts.len() == self.record.hosts.len());
        all_there && self.record.hosts.iter().all(|host| host.end.is_done())
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (&HostsFigures, &HostFigures)> {
        self.loads.iter().flat_map(|load| load.hosts.iter().map(move |host| (load, host)))
    }
}

pub fn hosts_report(result: HostsResult<'_>) -> Report {
    let record = result.record;
    let answer = hosts_answer(result);
    let mut sections = Vec::new();
    if result.loads.len() > 1 {
        let blocks = vec![Block::Table(table_of_cells(result.cells))];
        sections.push(Section::new("loads", "All loads", blocks));
    }
    let loads = result.loads.iter().enumerate();
    sections.extend(loads.map(|(at, load)| load_section(at, load, heading(result, at))));
    sections.push(Section::new("hosts", "Hosts", vec![Block::Table(table_of_hosts(record))]));
    let started = result.rows().map(|(_, host)| host.name.as_str()).next();
    Report {
        title: format!("{} on {}", record.verb, many(record.hosts.len())),
        source: Source {
            program: format!("iosonde {}", record.program),
            command: result.manifest.map_or(Vec::new(), |manifest| manifest.command.clone()),
            started_unix_ns: result.manifest.map(|manifest| manifest.started_unix_ns),
            complete: result.is_complete(),
            exit_code: result.exit_code,
        },
        conformance: None,
        question: "What do these hosts do together?".into(),
        answer: Answer { result: format!("{}.", answer.result), ..answer }.sentences(),
        warnings: warnings(result),
        sections,
        method: started.map_or(Vec::new(), |_| method()),
        environment: vec![("Launcher".into(), record.launch.clone())],
        data: vec![data(result)],
    }
}

fn method() -> Vec<String> {
    vec![
        "Every host opened its targets before any host wrote. Each run began at one moment of \
         the coordinator's clock; clocks were compared by round trips, and the offset of the \
         shortest is used."
            .into(),
        "Rates are counted over the time in which all hosts ran, in whole intervals. The total \
         is their sum."
            .into(),
        "Percentiles come from one histogram: those of all hosts, merged, over each host's whole \
         window."
            .into(),
        "A host is called slow if the 95 % interval of its rate is wholly below 80 % of the \
         median of the others. Fairness is Jain's index: 1 if all rates are equal, 1/n if one \
         host does everything."
            .into(),
    ]
}

fn warnings(result: HostsResult<'_>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: &str, severe: bool, words: String| {
        warnings.push(Warning::new(code, "proven", severe, words));
    };
    for host in result.record.hosts.iter().filter(|host| !host.end.is_done()) {
        warn("lost_host", true, format!("{}: {}.", host.name, end_words(host)));
    }
    for load in result.loads {
        let title = &load.title;
        match load.common {
            None => warn("no_common_time", true, format!("{title}: no time in which all ran.")),
            Some(common) if common.is_skewed => warn(
                "start_skew",
                false,
                format!(
                    "{title}: the last host began {} after the first.",
                    duration::latency(common.skew_ns as f64)
                ),
            ),
            Some(_) => {}
        }
        for words in slow_words(load) {
            warn("slow_host", false, format!("{title}: {words}."));
        }
        for server in load.server.iter().filter(|server| server.is_cached) {
            warn("server_cache", false, format!("{title}: {}", server_words(server)));
        }
        for host in load.hosts.iter().filter(|host| !host.row.consistency.valid()) {
            let words = format!("{title}: consistency checks failed on {}.", host.name);
            warn("invalid_host", true, words);
        }
    }
    warnings
}

/// Heading of a load; in an experiment, with the stage of the cell and the number of the run.
fn heading(result: HostsResult<'_>, at: usize) -> String {
    let load = &result.loads[at];
    if result.record.verb != "experiment" {
        return load.title.clone();
    }
    let is_same = |other: &&HostsFigures| other.name == load.name && other.title == load.title;
    let number = result.loads[..=at].iter().filter(is_same).count();
    format!("{}: {}, run {number}", load.name, load.title)
}

/// One row per load, over all hosts and all runs of the load.
fn table_of_cells(cells: &[HostsCell]) -> Table {
    let rows = cells.iter().map(|cell| {
        let rate = |spread: &Option<iosonde_analysis::experiment::Spread>, per: f64| {
            let mean = spread.as_ref().map(|spread| spread.mean / per);
            Entry::of(mean.map_or("n/a".into(), count::significant_or_whole))
        };
        let interval = cell.iops.as_ref().and_then(|spread| spread.interval);
        let interval = interval.map_or("n/a".into(), |(low, high)| {
            [low, high].map(count::significant_or_whole).join(" to ")
        });
        let quantile =
            |q: f64| Entry::latency(cell.latency.at(q).map(|ns| ns as f64), "", Trust::Good);
        let least = cell.least.as_ref().map_or("n/a".into(), |(name, iops)| {
            format!("{name} {}", count::significant_or_whole(*iops))
        });
        vec![
            Entry::of(&cell.title),
            Entry::of(cell.runs.to_string()),
            rate(&cell.iops, 1.0),
            Entry::of(interval),
            rate(&cell.bytes_per_s, 1e6),
            quantile(0.5),
            quantile(0.99),
            Entry::of(least),
        ]
    });
    Table {
        caption: "All hosts together: the mean of the runs with its 95 % interval, percentiles of \
                  all operations, and the host with the least IOPS."
            .into(),
        columns: std::iter::once(Column::words("Load"))
            .chain(["Runs", "IOPS", "95 %", "MB/s", "p50", "p99"].map(Column::numbers))
            .chain([Column::words("Least")])
            .collect(),
        rows: rows.collect(),
    }
}

fn load_section(at: usize, load: &HostsFigures, heading: String) -> Section {
    let mut blocks = vec![Block::Table(table_of_load(load))];
    let mut words = Vec::new();
    if let Some(common) = &load.common {
        words.push(together(common));
    }
    if let Some(fairness) = load.fairness {
        words.push(format!("Fairness (Jain) {}.", count::significant(fairness)));
    }
    words.extend(load.server.as_ref().map(server_words));
    blocks.push(Block::List(words));
    Section::new(format!("load-{}", at + 1), heading, blocks)
}

fn together(common: &Common) -> String {
    format!(
        "All ran together for {}. The last began {} after the first (known to {}) and the last \
         ended {} after the first.",
        duration::latency(common.span_ns as f64),
        duration::latency(common.skew_ns as f64),
        duration::latency(common.skew_error_ns as f64),
        duration::latency(common.end_skew_ns as f64),
    )
}

/// Bytes of the disks of a shared server compared with those of the hosts.
fn server_words(server: &ServerShare) -> String {
    let beside = |verb: &str, of_server: u64, of_hosts: u64| {
        if of_hosts == 0 {
            return format!("{verb} {}", bytes::rough(of_server));
        }
        let share = count::percent(of_server as f64 / of_hosts as f64);
        let [of_server, of_hosts] = [of_server, of_hosts].map(bytes::rough);
        format!("{verb} {of_server} while the hosts {verb} {of_hosts} ({share})")
    };
    let read = beside("read", server.server_read_bytes, server.hosts_read_bytes);
    let written = beside("wrote", server.server_written_bytes, server.hosts_written_bytes);
    format!("The server's disks {read}, and {written}.")
}

fn table_of_load(load: &HostsFigures) -> Table {
    let total = load
        .common
        .map(|common| row("all", (common.iops, common.bytes_per_s), &load.latency, Trust::Good));
    let hosts = load.hosts.iter().map(|host| {
        let is_whole = host.row.consistency.valid() && host.row.complete;
        let trust = if is_whole { Trust::Good } else { Trust::Failed };
        row(&host.name, (host.iops, host.bytes_per_s), &total_of(host).latency, trust)
    });
    Table {
        caption: String::new(),
        columns: Column::all(&["Host"], &["IOPS", "MB/s", "mean", "p50", "p99", "p99.9"]),
        rows: total.into_iter().chain(hosts).collect(),
    }
}

fn row(name: &str, (iops, rate): (f64, f64), latency: &LatencyFigures, trust: Trust) -> Vec<Entry> {
    let time = |ns: Option<f64>| Entry::latency(ns, "", Trust::Good);
    let quantile = |q: f64| time(latency.at(q).map(|ns| ns as f64));
    let number = |value: f64| Entry::new(count::significant_or_whole(value), "", trust);
    vec![
        Entry::of(name),
        number(iops),
        number(rate / 1e6),
        time(latency.mean_ns),
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
    ]
}

fn table_of_hosts(record: &HostsRun) -> Table {
    let rows = record.hosts.iter().map(|host| {
        let clock = |of: fn(&iosonde_model::record::hosts::HostClock) -> u64| {
            host.clock.as_ref().map_or("n/a".into(), |clock| duration::latency(of(clock) as f64))
        };
        let targets: Vec<&str> = host.targets.iter().map(|target| target.path.as_str()).collect();
        vec![
            host.name.clone(),
            host.node.clone(),
            host.kernel.clone(),
            targets.join(", "),
            clock(|clock| clock.round_trip_ns),
            end_words(host),
        ]
    });
    let mut columns = Column::all(&["Host", "Node", "Kernel", "Target"], &["Round trip"]);
    columns.push(Column::words("End"));
    Table::of_texts("", columns, rows)
}

/// The value of a column for one load and one host.
type OfHost = fn(&HostsFigures, &HostFigures) -> Datum;

/// The columns of the data, with their values.
const COLUMNS: [(&str, OfHost); 12] = [
    ("load", |load, _| load.title.as_str().into()),
    ("host", |_, host| host.name.as_str().into()),
    ("iops", |_, host| Some(host.iops).into()),
    ("bytes_per_s", |_, host| Some(host.bytes_per_s).into()),
    ("ops", |_, host| Some(total_of(host).ops).into()),
    ("bytes", |_, host| Some(total_of(host).bytes).into()),
    ("latency_mean_ns", |_, host| total_of(host).latency.mean_ns.into()),
    ("latency_p50_ns", |_, host| total_of(host).latency.at(0.5).into()),
    ("latency_p99_ns", |_, host| total_of(host).latency.at(0.99).into()),
    ("latency_p999_ns", |_, host| total_of(host).latency.at(0.999).into()),
    ("opened_after_ns", |_, host| host.opened_after_ns.into()),
    ("closed_after_ns", |_, host| host.closed_after_ns.into()),
];

fn total_of(host: &HostFigures) -> &DirectionFigures {
    &host.row.figures.all.total
}

fn data(result: HostsResult<'_>) -> DataSet {
    let row = |(load, host)| COLUMNS.iter().map(|(_, value)| value(load, host)).collect();
    DataSet::new("hosts", COLUMNS.map(|(name, _)| name), result.rows().map(row))
}

pub fn hosts_json(result: HostsResult<'_>) -> Value {
    json!({
        "schema": HOSTS_RESULT_SCHEMA,
        "program": format!("iosonde {}", result.record.program),
        "verb": result.record.verb,
        "complete": result.is_complete(),
        "exit_code": result.exit_code,
        "answer": hosts_answer(result),
        "loads": result.loads,
        "cells": result.cells,
        "hosts": result.record.hosts,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{html, plain};
    use iosonde_analysis::hosts::{HostMeasured, hosts};
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::Run;
    use iosonde_model::record::hosts::{
        HOSTS_SCHEMA, HostClock, HostEnd, HostRun, ServerCell, ServerCounters,
    };

    fn record(ends: &[HostEnd]) -> HostsRun {
        let host = |(index, end): (usize, &HostEnd)| HostRun {
            name: format!("node{}", index + 1),
            clock: Some(HostClock { offset_ns: -5, round_trip_ns: 80_000 }),
            end: end.clone(),
            ..HostRun::default()
        };
        HostsRun {
            schema: HOSTS_SCHEMA.into(),
            program: "0.1.0".into(),
            verb: "run".into(),
            launch: "ssh {host} {command}".into(),
            hosts: ends.iter().enumerate().map(host).collect(),
            server: None,
        }
    }

    fn loads(runs: &[Run]) -> Vec<HostsFigures> {
        let names = ["node1", "node2", "node3"];
        let measured: Vec<HostMeasured<'_>> = runs
            .iter()
            .zip(names)
            .map(|(run, name)| HostMeasured {
                name,
                opened_ns: Some(1_000),
                round_trip_ns: 80_000,
                run,
            })
            .collect();
        vec![hosts(&measured, None).unwrap()]
    }

    const DONE: HostEnd = HostEnd::Exited { code: 0 };

    #[test]
    fn a_slow_host_and_a_lost_one_stand_in_the_first_lines_and_in_the_page() {
        let fast = || run_of(&[Load { noise: 0.0, ..Load::default() }]);
        let slow = run_of(&[Load { iops: 1_000.0, noise: 0.0, ..Load::default() }]);
        let loads = loads(&[fast(), slow]);
        let lost = HostEnd::Lost { why: "the connection ended".into() };
        let record = record(&[DONE, DONE, lost]);
        let result = HostsResult {
            record: &record,
            loads: &loads,
            cells: &[],
            manifest: None,
            exit_code: 1,
        };
        let answer = hosts_answer(result);
        assert!(answer.result.starts_with("PARTIAL: 6,000 IOPS, 24.6 MB/s on 2 of 3 hosts"));
        assert!(answer.result.contains("node2 is slow: 20.0 % of the median of the others"));
        assert_eq!(answer.confidence, "low: not every host did everything");
        assert!(
            answer.next.ends_with("node3 did not end as it should: lost: the connection ended")
        );
        let page = html(&hosts_report(result)).unwrap();
        for words in ["node2 is slow", "node3: lost: the connection ended", "PARTIAL"] {
            assert!(page.contains(words), "{words}");
        }
    }

    #[test]
    fn hosts_that_agree_have_high_confidence_and_fit_a_narrow_screen() {
        let fast = || run_of(&[Load { noise: 0.0, ..Load::default() }]);
        let loads = loads(&[fast(), fast(), fast()]);
        let record = record(&[DONE, DONE, DONE]);
        let result = HostsResult {
            record: &record,
            loads: &loads,
            cells: &[],
            manifest: None,
            exit_code: 0,
        };
        assert_eq!(hosts_answer(result).confidence, "high");
        let text = plain(&hosts_report(result), 60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("Fairness (Jain) 1.00"), "{text}");
        assert_eq!(hosts_json(result)["complete"], true);
    }

    #[test]
    fn reads_from_a_servers_cache_are_a_warning_and_reads_from_its_disks_are_none() {
        let run = run_of(&[Load { noise: 0.0, ..Load::default() }]);
        let bytes: u64 = run.jobs.iter().map(|job| job.read.bytes).sum();
        let measured =
            [HostMeasured { name: "node1", opened_ns: Some(0), round_trip_ns: 0, run: &run }];
        let record = record(&[DONE]);
        for (read_bytes, is_cached) in [(bytes, false), (bytes / 10, true)] {
            let before = ServerCounters { read_bytes: 100, written_bytes: 100 };
            let after = ServerCounters { read_bytes: 100 + read_bytes, written_bytes: 4_196 };
            let server = ServerCell { cell: 0, before, after };
            let loads = [hosts(&measured, Some(&server)).unwrap()];
            let result = HostsResult {
                record: &record,
                loads: &loads,
                cells: &[],
                manifest: None,
                exit_code: 0,
            };
            let confidence = hosts_answer(result).confidence;
            assert_eq!(confidence.contains("did not reach the server's disks"), is_cached);
            let result = hosts_report(result);
            let warned = result.warnings.iter().any(|warning| warning.code == "server_cache");
            assert_eq!(warned, is_cached);
            let text = plain(&result, 200);
            let percent = if is_cached { "(10.0 %)" } else { "(100 %)" };
            assert!(text.contains(percent) && text.contains("and wrote 4.00 KiB."), "{text}");
        }
    }

    #[test]
    fn a_command_that_measures_no_load_says_how_the_hosts_ended() {
        let of = |verb: &str, codes: &[u8]| {
            let ends: Vec<HostEnd> =
                codes.iter().map(|code| HostEnd::Exited { code: *code }).collect();
            let record = HostsRun { verb: verb.into(), ..record(&ends) };
            let result = HostsResult {
                record: &record,
                loads: &[],
                cells: &[],
                manifest: None,
                exit_code: 0,
            };
            hosts_answer(result)
        };
        assert_eq!(of("verify", &[0, 0]).result, "PASS on 2 of 2 hosts");
        let failed = of("verify", &[0, 4, 0]);
        assert_eq!(failed.result, "FAIL on node2; PASS on 2 of 3 hosts");
        assert!(failed.next.contains("node2"));
        assert_eq!(
            of("doctor", &[0, 1]).result,
            "PARTIAL: exit code 1 on node2; done on 1 of 2 hosts"
        );
    }

    #[test]
    fn without_a_run_there_is_no_figure() {
        let record = record(&[HostEnd::Exited { code: 5 }]);
        let result =
            HostsResult { record: &record, loads: &[], cells: &[], manifest: None, exit_code: 5 };
        let answer = hosts_answer(result);
        assert_eq!(answer.result, "PARTIAL: nothing was measured on 1 host");
        assert!(answer.confidence.starts_with("none"));
    }
}
