//! The first three lines of a command on many hosts.

use iosonde_analysis::hosts::HostsFigures;
use iosonde_analysis::verdict::{Kind, verdict};
use iosonde_model::record::hosts::{HostEnd, HostRun, HostsRun};
use iosonde_model::units::{bytes, count};

use super::{Answer, median_and_p99};
use crate::hosts_report::HostsResult;

/// Commands whose results are not combined over the hosts.
const MEASURES_NOTHING: [&str; 2] = ["doctor", "verify"];

/// The first three lines.
pub fn hosts_answer(report: HostsResult<'_>) -> Answer {
    if MEASURES_NOTHING.contains(&report.record.verb.as_str()) {
        return answer_of_ends(report.record);
    }
    let hosts = report.record.hosts.len();
    let partial = if report.is_complete() { "" } else { "PARTIAL: " };
    let loads: Vec<String> = report.loads.iter().map(|load| figures_of(load, hosts)).collect();
    let slow: Vec<String> = report.loads.iter().flat_map(slow_words).collect();
    let mut result = match loads.as_slice() {
        [] => format!("{partial}nothing was measured on {}", many(hosts)),
        [one] => format!("{partial}{one}"),
        several => {
            let least = report.rows().min_by(|a, b| a.1.iops.total_cmp(&b.1.iops));
            let least = least.map_or(String::new(), |(load, host)| {
                format!(
                    "; least {} IOPS on {} ({})",
                    count::significant_or_whole(host.iops),
                    host.name,
                    load.title
                )
            });
            let loads = match report.record.verb.as_str() {
                "experiment" => {
                    format!("{} cells in {} runs", report.cells.len(), several.len())
                }
                _ => format!("{} loads", several.len()),
            };
            format!("{partial}{loads} on {}{least}", many(hosts))
        }
    };
    if !slow.is_empty() {
        result.push_str(&format!("; {}", slow.join("; ")));
    }
    Answer { result, confidence: confidence(report), next: next(report) }
}

/// How the hosts ended, the most severe first.
fn answer_of_ends(record: &HostsRun) -> Answer {
    let word = |end: &HostEnd| match (record.verb.as_str(), end) {
        ("verify", HostEnd::Exited { code: 0 }) => "PASS".to_owned(),
        ("verify", HostEnd::Exited { code: 4 }) => "FAIL".to_owned(),
        (_, HostEnd::Exited { code: 0 }) => "done".to_owned(),
        (_, HostEnd::Exited { code }) => format!("exit code {code}"),
        (_, HostEnd::Lost { .. }) => "lost".to_owned(),
        (_, HostEnd::Unknown) => "unknown".to_owned(),
    };
    let mut ends: Vec<(bool, String, Vec<&str>)> = Vec::new();
    for host in &record.hosts {
        let (is_good, word) = (host.end == HostEnd::Exited { code: 0 }, word(&host.end));
        match ends.iter_mut().find(|(_, same, _)| *same == word) {
            Some((.., names)) => names.push(&host.name),
            None => ends.push((is_good, word, vec![&host.name])),
        }
    }
    ends.sort_by_key(|(is_good, ..)| *is_good);
    let named = |(is_good, word, names): &(bool, String, Vec<&str>)| match is_good {
        true => format!("{word} on {} of {}", names.len(), many(record.hosts.len())),
        false => format!("{word} on {}", names.join(", ")),
    };
    let all: Vec<String> = ends.iter().map(named).collect();
    // A verdict against the storage is a result too.
    let has_result =
        |end: &HostEnd| end.is_done() || matches!(end, HostEnd::Exited { code: 4 | 6 });
    let is_whole = record.hosts.iter().all(|host| has_result(&host.end));
    let bad = record.hosts.iter().find(|host| host.end != HostEnd::Exited { code: 0 });
    Answer {
        result: format!("{}{}", if is_whole { "" } else { "PARTIAL: " }, all.join("; ")),
        confidence: match is_whole {
            true => "as each host says of its own result".into(),
            false => "low: not every host did everything".into(),
        },
        next: match bad {
            Some(host) => format!("Read what {} says: {}", host.name, end_words(host)),
            None => "Read what each host says".into(),
        },
    }
}

/// The number of hosts with its noun.
pub(crate) fn many(hosts: usize) -> String {
    if hosts == 1 { "1 host".into() } else { format!("{hosts} hosts") }
}

fn figures_of(load: &HostsFigures, hosts: usize) -> String {
    let rates = load.common.map_or("no time in which all ran".to_owned(), |common| {
        format!(
            "{} IOPS, {}",
            count::significant_or_whole(common.iops),
            bytes::per_second(common.bytes_per_s)
        )
    });
    let on = if load.hosts.len() == hosts {
        format!("on {}", many(hosts))
    } else {
        format!("on {} of {}", load.hosts.len(), many(hosts))
    };
    format!("{rates} {on}{}", median_and_p99(&load.latency))
}

/// Each slow host, in words.
pub(crate) fn slow_words(load: &HostsFigures) -> Vec<String> {
    let words = load.slow.iter().map(|slow| {
        let known = match slow.interval {
            Some((low, high)) => {
                format!("95 % {} to {}", count::significant(low * 100.0), count::percent(high))
            }
            None => "no 95 % interval; below 80 % in every interval of 100 ms or more".into(),
        };
        format!(
            "{} is slow: {} of the median of the others ({known})",
            slow.name,
            count::percent(slow.share),
        )
    });
    words.collect()
}

fn confidence(report: HostsResult<'_>) -> String {
    let invalid: Vec<&str> = report
        .rows()
        .filter(|(_, host)| !host.row.consistency.valid())
        .map(|(_, host)| host.name.as_str())
        .collect();
    if report.loads.is_empty() {
        return "none: nothing was measured".into();
    }
    if !invalid.is_empty() {
        return format!("none: consistency checks failed on {}", invalid.join(", "));
    }
    let mut why = Vec::new();
    if !report.is_complete() {
        why.push("not every host did everything".to_owned());
    }
    if report.loads.iter().any(|load| load.common.is_none_or(|common| common.is_skewed)) {
        why.push("the hosts did not run at the same time".to_owned());
    }
    if report.loads.iter().any(|load| load.server.is_some_and(|server| server.is_cached)) {
        why.push("most reads did not reach the server's disks".to_owned());
    }
    // A reason shared by several hosts is listed once.
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (_, host) in report.rows() {
        let own = verdict(std::slice::from_ref(&host.row));
        if own.kind < Kind::LowConfidence {
            continue;
        }
        let words = own.words.trim_start_matches("low confidence: ").to_owned();
        match reasons.iter_mut().find(|(reason, _)| *reason == words) {
            Some((_, names)) if !names.contains(&host.name.as_str()) => names.push(&host.name),
            Some(_) => {}
            None => reasons.push((words, vec![&host.name])),
        }
    }
    why.extend(reasons.iter().map(|(reason, names)| {
        match names.len() == report.record.hosts.len() {
            true => reason.clone(),
            false => format!("{reason} on {}", names.join(", ")),
        }
    }));
    match why.as_slice() {
        [] => "high".into(),
        [a, b, c, rest @ ..] if !rest.is_empty() => {
            format!("low: {a}; {b}; {c}; and {} more", rest.len())
        }
        all => format!("low: {}", all.join("; ")),
    }
}

fn next(report: HostsResult<'_>) -> String {
    if let Some(host) = report.record.hosts.iter().find(|host| !host.end.is_done()) {
        return format!("See why {} did not end as it should: {}", host.name, end_words(host));
    }
    let slow = report.loads.iter().flat_map(|load| &load.slow).next();
    match slow {
        Some(slow) => {
            format!("Look at {} alone: iosonde doctor and iosonde check there", slow.name)
        }
        None => "Repeat it to see how far runs differ".into(),
    }
}

/// How a host ended.
pub(crate) fn end_words(host: &HostRun) -> String {
    match &host.end {
        HostEnd::Exited { code: 0 } => "done".into(),
        HostEnd::Exited { code } => {
            let error = host.said.iter().rev().find(|line| line.contains("error:"));
            let why = error.map(|line| format!(", {}", line.trim())).unwrap_or_default();
            format!("exit code {code}{why}")
        }
        HostEnd::Lost { why } => format!("lost: {why}"),
        HostEnd::Unknown => "unknown".into(),
    }
}
