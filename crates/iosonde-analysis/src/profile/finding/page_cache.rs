//! `page_cache`: most reads were served from memory.

use super::{Detect, Detector, Figures, Finding, Severity, percent};
use iosonde_model::record::profile::{Op, PageCache, ProfileRun};
use iosonde_model::units::{bytes, count};

use super::super::CacheFigures;

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "page_cache",
    meaning: "Most reads of the program were served from memory.",
    method: "pages that read calls looked up and those that were brought in; else bytes read by \
             calls and fetched from storage",
    action: "Read the rates of calls and of requests apart; drop the caches first to see the \
             storage.",
    subject: "",
    severity: Severity::Fact,
    detect,
};

/// Fewest bytes read to report.
const FROM_BYTES: u64 = 64 << 20;
/// Bytes fetched from storage at or above which the program certainly reads files: these counters
/// include devices such as /dev/zero, pipes and sockets.
const FETCHED_BYTES: u64 = 1 << 20;
/// Share fetched from storage at or below which memory served most reads.
const FETCHED: f64 = 0.1;

/// Reports when 90 % of the pages that reads looked up were in memory or, if pages were not
/// counted, when read calls returned ten times the bytes that storage did.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    match figures.page_cache {
        Some(cache) => looked_up(cache, otherwise(run, figures, cache)),
        None => returned(run),
    }
}

/// Bytes read from storage through the page cache without a read call: page faults of mapped files,
/// and metadata.
fn otherwise(run: &ProfileRun, figures: &Figures, cache: CacheFigures) -> u64 {
    let by_requests = figures.program.as_ref().map(|side| {
        let reads = side.op(Op::Read);
        reads.bytes.saturating_sub(reads.direct_bytes)
    });
    let fetched = by_requests.or(run.calls.map(|calls| calls.storage_read_bytes)).unwrap_or(0);
    fetched.saturating_sub(cache.counts.brought_in_pages * cache.counts.page_bytes)
}

fn looked_up(cache: CacheFigures, otherwise: u64) -> Option<Finding> {
    let PageCache { page_bytes, looked_up_pages, brought_in_pages } = cache.counts;
    let share = cache.hit_share.filter(|share| 1.0 - share <= FETCHED)?;
    if looked_up_pages * page_bytes < FROM_BYTES {
        return None;
    }
    let brought_in = brought_in_pages * page_bytes;
    let words = format!(
        "Read calls looked up {} pages in the page cache, and {} were there: {} had to be read{}.",
        count::thousands(looked_up_pages),
        percent(share),
        bytes::rough(brought_in),
        match otherwise >= FETCHED_BYTES && otherwise > brought_in {
            true => format!(
                "; another {} came from storage without read calls (page faults of mapped files)",
                bytes::rough(otherwise)
            ),
            false => String::new(),
        },
    );
    let finding = DETECTOR.proven(words).with("looked_up_pages", looked_up_pages);
    Some(finding.with("brought_in_pages", brought_in_pages))
}

fn returned(run: &ProfileRun) -> Option<Finding> {
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
    // This is no bottleneck, so the first line of a report does not name it.
    let finding = DETECTOR.suspected(words).with("read_bytes", calls.read_bytes);
    Some(finding.with("storage_read_bytes", calls.storage_read_bytes))
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
            ProfileRun { calls: Some(calls), page_cache: None, ..profile_of(&[Flow::default()]) }
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

    #[test]
    fn pages_that_were_there_are_reported_and_few_or_missing_ones_are_not() {
        let run = |looked_up_pages, brought_in_pages| {
            let counts = PageCache { page_bytes: 4096, looked_up_pages, brought_in_pages };
            ProfileRun { page_cache: Some(counts), ..profile_of(&[Flow::default()]) }
        };
        let message = words(detect, &run(100_000, 1_000));
        assert!(
            message.contains("looked up 100,000 pages in the page cache, and 99 % were there"),
            "{message}"
        );
        assert!(message.ends_with("had to be read."), "{message}");
        let mapped = Flow { size_bytes: 1 << 20, requests: 64, direct_milli: 0, ..Flow::default() };
        let page_cache = run(100_000, 1_000).page_cache;
        let message = words(detect, &ProfileRun { page_cache, ..profile_of(&[mapped]) });
        assert!(message.contains("another 60.1 MiB came from storage without read"), "{message}");
        assert_eq!(ask(detect, &run(100_000, 20_000)), None);
        assert_eq!(ask(detect, &run(1_000, 0)), None);
    }
}
