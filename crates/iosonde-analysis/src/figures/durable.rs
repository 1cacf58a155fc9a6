//! The durable write rate of a run.

use serde::Serialize;

use crate::document;
use iosonde_model::record::run::Run;

/// The durable rate: bytes over the time from the first write to the return of the final fsync.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Durable {
    /// Durable bytes per second; `None` if the fsync failed.
    #[serde(serialize_with = "document::whole")]
    pub bytes_per_s: Option<f64>,
    /// Time of the fsync itself, ns.
    pub sync_ns: u64,
    /// Errno name if it failed.
    pub error: Option<String>,
}

pub(super) fn durable(run: &Run) -> Option<Durable> {
    let sync = run.final_sync.as_ref()?;
    let known = sync.error.is_none() && sync.since_start_ns > 0;
    Some(Durable {
        bytes_per_s: known
            .then(|| sync.bytes_since_start as f64 * 1e9 / sync.since_start_ns as f64),
        sync_ns: sync.sync_ns,
        error: sync.error.clone(),
    })
}
