//! Where the time of a run's own I/O calls went, by the kernel's events.

use serde::{Deserialize, Serialize};

use iosonde_stats::Histogram;

words! {
    /// A part of the way of an I/O call, from the program to the device and back, in this order.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Layer {
        /// From the system call to the submission of the request: the work for those handed over
        /// before it in the same call (io_uring).
        Submission,
        /// From there, or from the call, to the block layer: the file system, and waiting for a
        /// limit.
        BeforeBlock,
        /// From there to the issue to the device: scheduler and queue.
        BlockQueue,
        /// From the issue to the end: the driver and the device.
        Device,
        /// From the end to the posted completion (io_uring).
        Completion,
        /// From there, or from the end, to the return of the call that fetches it; of the
        /// completions fetched together, the one that waited longest.
        Reaping,
    }
}

/// Where the time of the I/O calls went, warm-up included.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LayersRun {
    /// Times spent in each layer, ns; those that this engine does not show are empty.
    pub layers: Vec<(Layer, Histogram)>,
    /// The event at which a request is held to have reached the block layer.
    pub attribution: String,
    /// Requests that were counted, of every device.
    pub requests: u64,
    /// Events that could not be kept, by what was lost, in words.
    pub lost: Vec<(String, u64)>,
}

impl LayersRun {
    /// Times in one layer, if it was seen.
    pub fn of(&self, layer: Layer) -> Option<&Histogram> {
        let found = self.layers.iter().find(|(of, _)| *of == layer);
        found.map(|(_, times)| times).filter(|times| times.count() > 0)
    }
}
