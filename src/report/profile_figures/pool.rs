//! Requests of the program put together: what the record keeps apart by class and thread group.

use std::collections::BTreeMap;

use crate::record::ProfileRun;
use crate::record::profile::{Class, Op, Subject, Traffic};
use crate::report::clean::clean;
use crate::stats::Histogram;
use crate::units::bytes;
use crate::units::count::thousands;

/// Requests of one operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    /// How many.
    pub requests: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// From start to end.
    pub latency: Histogram,
    /// From start to issue.
    pub queued: Histogram,
    /// From issue to end.
    pub device_time: Histogram,
    /// Between neighbouring starts.
    pub gaps: Histogram,
    /// Requests by size.
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

    /// How much it is, in words.
    pub(super) fn amount(&self) -> String {
        let requests = thousands(self.requests);
        let noun = if self.requests == 1 { "request" } else { "requests" };
        match self.bytes {
            0 => format!("{requests} {noun}"),
            moved => format!("{requests} {noun}, {}", bytes::rough(moved)),
        }
    }
}

/// The program's requests by device and operation. Flushes of the device stand with them although
/// several waiting programs may share one.
pub(super) fn by_device(run: &ProfileRun) -> BTreeMap<(String, Op), Pool> {
    let mut pools: BTreeMap<(String, Op), Pool> = BTreeMap::new();
    for traffic in run.traffic.iter().filter(|traffic| belongs(traffic)) {
        pools.entry((traffic.device.clone(), traffic.op)).or_default().add(traffic);
    }
    pools
}

/// The program's requests by operation, all devices together.
pub(super) fn by_op(run: &ProfileRun) -> BTreeMap<Op, Pool> {
    let mut pools: BTreeMap<Op, Pool> = BTreeMap::new();
    for traffic in run.traffic.iter().filter(|traffic| belongs(traffic)) {
        pools.entry(traffic.op).or_default().add(traffic);
    }
    pools
}

fn belongs(traffic: &Traffic) -> bool {
    traffic.requests > 0
        && (traffic.class.is_of_the_program() || traffic.class == Class::DeviceFlush)
}

/// What was watched, short enough for a line under a title.
pub(super) fn subject(run: &ProfileRun) -> String {
    let words = match &run.subject {
        Subject::Command { words, .. } => words.join(" "),
        Subject::Process { pid, words } if words.is_empty() => format!("process {pid}"),
        Subject::Process { words, .. } => words.join(" "),
        Subject::Cgroup { path } => format!("cgroup {path}"),
    };
    let words = clean(&words);
    if words.chars().count() <= 90 {
        return words;
    }
    format!("{}…", words.chars().take(89).collect::<String>())
}

/// A kernel name as part of a file name.
pub(super) fn in_file_name(device: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    device.chars().map(safe).collect()
}
