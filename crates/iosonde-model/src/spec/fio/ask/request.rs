//! The parts of what a run is asked for.

use super::super::Place;
use crate::spec::engine::Engine;
use crate::spec::{EngineKind, LatencyTarget};

/// How I/O leaves the process, in fio's words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EngineRequest {
    /// The engine that carries out the load.
    pub kind: EngineKind,
    /// Completions are polled for.
    pub hipri: bool,
    /// A kernel thread submits.
    pub sqpoll: bool,
    /// The CPU of that thread.
    pub sqpoll_cpu: Option<u32>,
    /// Whether files are registered; `None` leaves it open.
    pub registered_files: Option<bool>,
    /// Whether buffers are registered; `None` leaves it open.
    pub fixed_buffers: Option<bool>,
    /// Whether requests carry vectors.
    pub vectored: bool,
}

/// A target as asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TargetRequest {
    pub path: String,
    /// Whether the page cache is passed by.
    pub direct: bool,
    /// Whether it is removed after the run, where it is made for it.
    pub unlinked: bool,
    /// Bytes that the jobs need; `None`: what is there.
    pub bytes: Option<u64>,
    /// Where it was asked for.
    pub place: Place,
}

/// The hint about the order of accesses that the kernel gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AccessHint {
    /// Nothing.
    None,
    /// Read-ahead is of no use.
    Random,
    /// Read-ahead may be larger.
    Sequential,
    /// What is read is not read again.
    Once,
}

/// A latency target as asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyRequest {
    /// Percentile and limit.
    pub target: LatencyTarget,
    /// Whether the depth goes on being steered while measuring.
    pub holds: bool,
    /// Time for one depth, ns.
    pub window_ns: u64,
}

/// A log as asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogRequest {
    /// The role whose jobs it is about.
    pub role: String,
    /// Time over which values are averaged, ms; `None` for what is usual.
    pub width_ms: Option<u64>,
    /// Of a log of histograms: one of 2^this neighbouring bins is written.
    pub coarseness: u32,
    /// Whether each copy of the job has a file of its own.
    pub per_job: bool,
    /// Whether the largest latency of an interval is written instead of the mean.
    pub largest: bool,
    /// Whether a line has a column for an offset.
    pub offset: bool,
    /// Whether times are since 1970.
    pub since_1970: bool,
    /// fio's option (`write_bw_log`).
    pub option: &'static str,
    /// Beginning of the file name.
    pub prefix: String,
    /// Where it was asked for.
    pub place: Place,
}

impl EngineRequest {
    /// The engine as a plan has it.
    pub fn engine(&self) -> Engine {
        Engine {
            sqpoll: self.sqpoll,
            sqpoll_cpu: self.sqpoll_cpu.filter(|_| self.sqpoll),
            iopoll: self.hipri,
            registered_files: self.registered_files.unwrap_or(true),
            fixed_buffers: self.fixed_buffers.unwrap_or(!self.vectored),
            vectored: self.vectored,
            ..Engine::of(self.kind)
        }
    }
}
