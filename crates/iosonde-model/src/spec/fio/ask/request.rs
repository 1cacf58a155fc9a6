//! The parts of a request for a run.

use super::super::Place;
use crate::spec::engine::Engine;
use crate::spec::{EngineKind, LatencyTarget};

/// The engine and its options, in fio's terms.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EngineRequest {
    /// The engine that carries out the load.
    pub kind: EngineKind,
    /// Whether completions are polled.
    pub hipri: bool,
    /// Whether a kernel thread submits.
    pub sqpoll: bool,
    /// The CPU of that thread.
    pub sqpoll_cpu: Option<u32>,
    /// Whether files are registered; `None` selects the default.
    pub registered_files: Option<bool>,
    /// Whether buffers are registered; `None` selects the default.
    pub fixed_buffers: Option<bool>,
    /// Whether requests carry vectors.
    pub vectored: bool,
}

/// A requested target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TargetRequest {
    pub path: String,
    /// Whether it bypasses the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Whether it is removed after the run if the run created it.
    pub unlinked: bool,
    /// Size that the jobs need, bytes; `None` for the existing size.
    pub bytes: Option<u64>,
    /// Place of the option.
    pub place: Place,
}

/// The kernel's hint on the access pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AccessHint {
    /// No hint.
    None,
    /// Read-ahead is useless (`POSIX_FADV_RANDOM`).
    Random,
    /// Read-ahead may be larger (`POSIX_FADV_SEQUENTIAL`).
    Sequential,
    /// Data is read only once (`POSIX_FADV_NOREUSE`).
    Once,
}

/// A requested latency target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyRequest {
    /// Percentile and limit.
    pub target: LatencyTarget,
    /// Whether the depth is still adjusted while measuring.
    pub holds: bool,
    /// Duration of one depth, ns.
    pub window_ns: u64,
}

/// A requested log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogRequest {
    /// The role whose jobs it records.
    pub role: String,
    /// Averaging interval, ms; `None` for the default.
    pub width_ms: Option<u64>,
    /// Coarseness of a histogram log: 2^this neighbouring bins are merged.
    pub coarseness: u32,
    /// Whether each copy of the job has its own file.
    pub per_job: bool,
    /// Whether to write the largest latency of an interval instead of the mean.
    pub largest: bool,
    /// Whether to write an offset column.
    pub offset: bool,
    /// Whether times count from 1970.
    pub since_1970: bool,
    /// fio's option (`write_bw_log`).
    pub option: &'static str,
    /// Prefix of the file name.
    pub prefix: String,
    /// Place of the option.
    pub place: Place,
}

impl EngineRequest {
    /// The engine of a plan.
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
