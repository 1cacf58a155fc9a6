//! `fsync_suspicious`: the final fsync was faster than a flush of what was written.

use iosonde_model::units::{bytes, duration};

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "fsync_suspicious",
    meaning: "The final fsync was faster than a flush of what was written can be.",
    method: "its duration, compared with the bytes written since the last sync",
    action: "Test whether flushes reach the device: iosonde verify fsync PATH.",
    subject: "flush",
    severity: Severity::Warning,
    detect,
};

/// Bytes written, at or above which a flush must take time.
const WRITTEN: u64 = 64 << 20;
/// Shortest time in which a volatile cache can be flushed to flash or disk, ns.
const SUSPICIOUS_NS: u64 = 100_000;

/// Reports when a write-back cache was flushed in under 100 µs after 64 MiB of writes.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let sync = case.run.final_sync.as_ref().filter(|sync| sync.error.is_none())?;
    let cache = case.run.target.device.as_ref()?.write_cache.as_deref()?;
    let quick = sync.sync_ns < SUSPICIOUS_NS && sync.bytes_since_start >= WRITTEN;
    if !quick || cache != "write back" || !case.is_real() {
        return None;
    }
    let words = format!(
        "fsync returned in {} after {} of writes: the cache is protected against power loss, or \
         flushes are ignored; this measurement cannot distinguish the two.",
        duration::latency(sync.sync_ns as f64),
        bytes::rough(sync.bytes_since_start)
    );
    let finding = DETECTOR.suspected(words).with("sync_ns", sync.sync_ns);
    Some(finding.with("written_bytes", sync.bytes_since_start))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::Strength;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceFacts;
    use iosonde_model::record::run::SyncResult;

    #[test]
    fn a_flush_in_no_time_is_reported_and_one_without_a_cache_is_not() {
        let mut run = run_of(&[Load { read_percent: 0, ..Load::default() }]);
        run.final_sync = Some(SyncResult {
            since_window_ns: 1_000_000,
            sync_ns: 18_000,
            bytes_since_start: 200 << 20,
            since_start_ns: 10_000_000_000,
            error: None,
        });
        assert_eq!(ask(detect, &run, None), None);
        let cache =
            |kind: &str| DeviceFacts { write_cache: Some(kind.into()), ..DeviceFacts::default() };
        run.target.device = Some(cache("write through"));
        assert_eq!(ask(detect, &run, None), None);
        run.target.device = Some(cache("write back"));
        assert_eq!(ask(detect, &run, None).unwrap().strength, Strength::ConsistentWith);
        run.final_sync.as_mut().unwrap().sync_ns = 2_000_000;
        assert_eq!(ask(detect, &run, None), None);
    }
}
