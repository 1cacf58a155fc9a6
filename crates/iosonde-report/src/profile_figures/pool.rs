//! Merges the program's requests, which the record separates by class and thread group.

use std::collections::BTreeMap;

use super::word;
use crate::clean::clean;
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Class, Op, Subject, Traffic};
use iosonde_model::units::{bytes, count};
use iosonde_stats::Histogram;

/// Requests of one flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    pub requests: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Time from start to end.
    pub latency: Histogram,
    /// Time from start to issue.
    pub queued: Histogram,
    /// Time from issue to end.
    pub device_time: Histogram,
    /// Time between the starts of consecutive requests.
    pub gaps: Histogram,
    /// Numbers of requests by size, bytes.
    pub sizes: BTreeMap<u64, u64>,
}

impl Pool {
    fn add(&mut self, traffic: &Traffic) {
        self.requests += traffic.requests;
        self.bytes += traffic.bytes;
        self.latency.merge(&traffic.latency);
        self.queued.merge(&traffic.queued);
        self.device_time.merge(&traffic.device_time);
        self.gaps.merge(&traffic.gaps);
        for (size, requests) in &traffic.sizes {
            *self.sizes.entry(*size).or_default() += requests;
        }
    }

    /// Number of requests and bytes, in words.
    pub(super) fn amount(&self) -> String {
        let requests = count::of(self.requests, "request");
        match self.bytes {
            0 => requests,
            moved => format!("{requests}, {}", bytes::rough(moved)),
        }
    }
}

/// Requests drawn as one series: an operation of the program, or the flushes that the block layer
/// sends to the device. One such flush may serve several flushes requested by programs.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Flow {
    Request(Op),
    DeviceFlush,
}

impl Flow {
    /// The flow of a class of requests; `None` if the program did not cause them.
    fn of(traffic: &Traffic) -> Option<Flow> {
        match traffic.class {
            _ if traffic.requests == 0 => None,
            Class::DeviceFlush => Some(Flow::DeviceFlush),
            class => class.is_of_the_program().then_some(Flow::Request(traffic.op)),
        }
    }

    /// Its word, and its style number in every picture.
    pub(super) fn word(self) -> (&'static str, usize) {
        match self {
            Flow::Request(op) => word(op),
            Flow::DeviceFlush => ("device flush", 5),
        }
    }
}

/// The program's requests by device and flow.
pub(super) fn by_device(run: &ProfileRun) -> BTreeMap<(&str, Flow), Pool> {
    let mut pools: BTreeMap<(&str, Flow), Pool> = BTreeMap::new();
    for traffic in &run.traffic {
        if let Some(flow) = Flow::of(traffic) {
            pools.entry((traffic.device.as_str(), flow)).or_default().add(traffic);
        }
    }
    pools
}

/// The program's requests by flow, over all devices.
pub(super) fn by_flow(run: &ProfileRun) -> BTreeMap<Flow, Pool> {
    let mut pools: BTreeMap<Flow, Pool> = BTreeMap::new();
    for traffic in &run.traffic {
        if let Some(flow) = Flow::of(traffic) {
            pools.entry(flow).or_default().add(traffic);
        }
    }
    pools
}

/// The profiled subject, short enough for a subtitle.
pub(super) fn subject(run: &ProfileRun) -> String {
    let words = match &run.subject {
        Subject::Command { words, .. } => words.join(" "),
        Subject::Process { pid, words } if words.is_empty() => format!("process {pid}"),
        Subject::Process { words, .. } => words.join(" "),
        Subject::Cgroup { path } => format!("cgroup {path}"),
        Subject::Machine => "the whole machine".into(),
    };
    let words = clean(&words);
    if words.chars().count() <= 90 {
        return words;
    }
    format!("{}…", words.chars().take(89).collect::<String>())
}

/// A name as part of a file name.
pub(super) fn in_file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    name.chars().map(safe).collect()
}
