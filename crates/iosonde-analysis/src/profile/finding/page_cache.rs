//! `page_cache`: most reads were served from memory.

use crate::finding::{Finding, Severity, Strength};
use iosonde_model::record::ProfileRun;
use iosonde_model::units::bytes;

use super::super::Figures;
use super::percent;

/// Fewest bytes read to report.
const FROM_BYTES: u64 = 64 << 20;
/// Bytes fetched from storage at or above which the program certainly reads files: these counters
/// include devices such as /dev/zero, pipes and sockets.
const FETCHED_BYTES: u64 = 1 << 20;
/// Share fetched from storage at or below which memory served most reads.
const FETCHED: f64 = 0.1;

/// Reports when read calls returned ten times the bytes that storage did.
pub(super) fn detect(run: &ProfileRun, _figures: &Figures) -> Option<Finding> {
    let calls = run.calls?;
    let fetched = calls.storage_read_bytes as f64 / calls.read_bytes.max(1) as f64;
    let reads_files = calls.storage_read_bytes >= FETCHED_BYTES;
    if calls.read_bytes < FROM_BYTES || fetched > FETCHED || !reads_files {
        return None;
    }
    let words = format!(
        "Read calls returned {}, of which {} came from storage ({}): the rest came from the page \
         cache, or from pipes and sockets, which these counters include.",
        bytes::rough(calls.read_bytes),
        bytes::rough(calls.storage_read_bytes),
        percent(fetched),
    );
    let finding = Finding::new(
        "page_cache",
        "the page cache",
        Strength::ConsistentWith,
        Severity::Fact,
        words,
    );
    Some(
        finding
            .with("read_bytes", calls.read_bytes as f64)
            .with("storage_read_bytes", calls.storage_read_bytes as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};
    use iosonde_model::record::profile::CallCounts;

    #[test]
    fn reads_from_memory_are_reported_and_reads_from_storage_are_not() {
        let run = |storage_read_bytes| {
            let read_bytes = 1 << 30;
            let calls = CallCounts { read_bytes, storage_read_bytes, ..CallCounts::default() };
            ProfileRun { calls: Some(calls), ..profile_of(&[Flow::default()]) }
        };
        let message = words(detect, &run(10 << 20));
        assert!(
            message.contains("Read calls returned 1.00 GiB, of which 10.0 MiB came from storage"),
            "{message}"
        );
        assert_eq!(ask(detect, &run(1 << 30)), None);
        // All of the bytes may be zeros from /dev/zero.
        assert_eq!(ask(detect, &run(24 << 10)), None);
        assert_eq!(ask(detect, &ProfileRun { calls: None, ..run(0) }), None);
    }
}
