//! Where the time of a run's own I/O calls was spent, according to kernel events.

use serde::{Deserialize, Serialize};

use iosonde_stats::Histogram;

words! {
    /// A stage of an I/O call between program and device, in order.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Layer {
        /// From the system call to the submission of the request: work on the requests before it in
        /// the same call (io_uring).
        Submission,
        /// From the submission, or else the call, to the block layer: file system, and waiting for
        /// a limit.
        BeforeBlock,
        /// From the block layer to the issue to the device: scheduler and queue.
        BlockQueue,
        /// From the issue to the end of the request: driver and device.
        Device,
        /// From the end of the request to the posted completion (io_uring).
        Completion,
        /// From the completion, or else the end, to the return of the call that reaps it; for
        /// completions reaped together, the longest wait counts.
        Reaping,
    }
}

/// Time of the I/O calls by layer, warm-up included.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LayersRun {
    /// Times in each layer, ns; empty for layers that this engine does not expose.
    pub layers: Vec<(Layer, Histogram)>,
    /// The event that counts as the request's arrival at the block layer.
    pub attribution: String,
    /// Requests counted, on all devices.
    pub requests: u64,
    /// Events lost, by what was lost, in words.
    pub lost: Vec<(String, u64)>,
}

impl LayersRun {
    /// Times in one layer, if it was seen.
    pub fn of(&self, layer: Layer) -> Option<&Histogram> {
        let found = self.layers.iter().find(|(of, _)| *of == layer);
        found.map(|(_, times)| times).filter(|times| times.count() > 0)
    }
}
