//! Which caches may have served the reads, and the evidence about flushes.

use serde::Serialize;

use super::VerifyFigures;
use crate::finding::{Strength, is_memory};
use iosonde_model::plan::EngineKind;
use iosonde_model::record::facts::{DeviceFacts, FilesystemClass, TargetFacts};
use iosonde_model::record::verify::VerifyRun;
use iosonde_model::units::count::thousands;

/// Whether a cache may have served the reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Could {
    /// It may have served the reads.
    Answer,
    /// It was bypassed.
    Not,
    Unknown,
}

/// One cache on the path to the storage.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct CacheNote {
    /// Name of the cache.
    pub cache: &'static str,
    /// Whether it may have served the reads.
    pub could: Could,
    /// The strength of the evidence.
    pub strength: Strength,
    /// The note as a sentence.
    pub words: String,
}

/// Test F1 of the fsync ladder, for this run.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct FlushEvidence {
    /// Flushes acknowledged to the run.
    pub sent: u64,
    /// Flushes counted by the device during the run, if it counts them.
    pub counted: Option<u64>,
    /// Whether the kernel reports a write-back cache.
    pub write_back: Option<bool>,
    /// The evidence as a sentence.
    pub words: String,
}

/// Devices without a flush counter in the kernel: they have no request queue.
const UNCOUNTED: [&str; 7] = ["dm-", "md", "zram", "ram", "pmem", "nullb", "drbd"];

/// The caches on the path, nearest first.
pub(super) fn caches(run: &VerifyRun) -> Vec<CacheNote> {
    let target = &run.target;
    if target.kind == "simulated" || target.kind == "null" {
        return Vec::new();
    }
    let device = target.device.as_ref();
    let notes = [
        page_cache(run),
        beyond(target),
        device.and_then(loop_file),
        memory(target),
        (target.class != FilesystemClass::Memory).then(|| device_cache(device)),
        device.and_then(host_cache),
    ];
    notes.into_iter().flatten().collect()
}

/// A cache that may have answered reads.
fn answering(cache: &'static str, strength: Strength, words: impl Into<String>) -> CacheNote {
    CacheNote { cache, could: Could::Answer, strength, words: words.into() }
}

fn host_cache(device: &DeviceFacts) -> Option<CacheNote> {
    let words = "virtual disk: the host's cache may have served the reads; this is not visible \
                 from inside the guest";
    let is_virtual = device.is_virtual == Some(true);
    is_virtual.then(|| answering("host cache", Strength::ConsistentWith, words))
}

fn page_cache(run: &VerifyRun) -> Option<CacheNote> {
    let target = &run.target;
    if target.kind == "vhost-user-blk device" {
        return None;
    }
    let (could, strength, words) = match (target.direct, run.cache_dropped) {
        _ if run.plan.plan.engine.kind == EngineKind::IoUringCmd => {
            (Could::Not, Strength::Proven, "page cache bypassed: NVMe commands do not use it")
        }
        (true, _) => (
            Could::Not,
            Strength::Proven,
            "page cache bypassed: direct I/O (O_DIRECT) is in effect",
        ),
        (false, true) => (
            Could::Not,
            Strength::Supported,
            "buffered: the page cache was asked to drop the target before the read back; it may \
             have served reads made during the writes",
        ),
        (false, false) => (
            Could::Answer,
            Strength::Proven,
            "buffered, and not dropped: the page cache may have served every read",
        ),
    };
    Some(CacheNote { cache: "page cache", could, strength, words: words.into() })
}

/// The server, host or layer behind a non-local file system.
fn beyond(target: &TargetFacts) -> Option<CacheNote> {
    let name = target.filesystem.as_deref().unwrap_or("the file system");
    let who = match target.class {
        FilesystemClass::Network => "the server",
        FilesystemClass::HostShare => "the host that shares it",
        FilesystemClass::UserSpace => "the program that serves it",
        FilesystemClass::Stacked => "the file system below it",
        _ => return None,
    };
    let words = format!("{name}: {who} may have served the reads from memory");
    Some(answering("server", Strength::ConsistentWith, words))
}

fn loop_file(device: &DeviceFacts) -> Option<CacheNote> {
    let words = "loop device: the page cache of the backing file may have served the reads, unless \
                 the loop device uses direct I/O";
    let is_loop = device.name.starts_with("loop");
    is_loop.then(|| answering("backing file of the loop device", Strength::ConsistentWith, words))
}

fn memory(target: &TargetFacts) -> Option<CacheNote> {
    let transport = target.device.as_ref().and_then(|device| device.transport.as_deref());
    let name = match target.class {
        FilesystemClass::Memory => target.filesystem.as_deref().unwrap_or("a memory file system"),
        _ => transport.filter(|name| is_memory(name))?,
    };
    let words = format!("the target is memory ({name}), not storage: nothing here is durable");
    Some(answering("memory", Strength::Proven, words))
}

fn device_cache(device: Option<&DeviceFacts>) -> CacheNote {
    let (could, words) = match device.and_then(|device| device.write_cache.as_deref()) {
        Some("write back") => (
            Could::Answer,
            "volatile device cache (write back): it may have served the most recent writes; only \
             a power cut shows what is durable",
        ),
        Some("write through") => (
            Could::Answer,
            "device without a volatile write cache, as the kernel reports (write through): data \
             in its memory counts as durable",
        ),
        _ => (Could::Unknown, "the device's write cache is not known"),
    };
    CacheNote { could, ..answering("device cache", Strength::ConsistentWith, words) }
}

/// The evidence from the flushes of a run.
pub(super) fn flush_evidence(run: &VerifyRun, figures: &VerifyFigures) -> FlushEvidence {
    let sent = figures.flushes;
    let device = run.target.device.as_ref();
    let write_back =
        device.and_then(|device| device.write_cache.as_deref()).map(|cache| cache == "write back");
    let counts = device.filter(|device| !UNCOUNTED.iter().any(|kind| is_a(&device.name, kind)));
    let counted = counts
        .and(run.device)
        .map(|(before, after)| after.flushes.saturating_sub(before.flushes))
        .filter(|_| sent > 0);
    let formatted = thousands(sent);
    let words = match (counted, write_back) {
        _ if sent == 0 => "F1: no flush was sent".to_owned(),
        (Some(0), Some(true)) => format!(
            "F1: flushes sent: {formatted}, the device counted none although it has a write-back \
             cache: nobarrier is set, or a layer drops them"
        ),
        (Some(0), _) => format!(
            "F1: flushes sent: {formatted}, the device counted none; without a write-back cache \
             the kernel need not send any"
        ),
        (Some(counted), _) => {
            format!("F1: flushes sent: {formatted}, the device counted {}", thousands(counted))
        }
        (None, _) => {
            format!("F1: flushes sent: {formatted}; the device has no counter to compare with")
        }
    };
    FlushEvidence { sent, counted, write_back, words }
}

fn is_a(name: &str, kind: &str) -> bool {
    let rest = name.strip_prefix(kind);
    rest.is_some_and(|rest| kind.ends_with('-') || rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::judge;
    use iosonde_fixtures::verify::{device, soak};
    use iosonde_model::record::facts::DeviceCounters;

    fn could(run: &VerifyRun, cache: &str) -> Option<(Could, Strength)> {
        let all = caches(run);
        all.iter().find(|word| word.cache == cache).map(|word| (word.could, word.strength))
    }

    #[test]
    fn the_page_cache_is_named_by_how_it_was_avoided() {
        let mut run = soak();
        assert_eq!(could(&run, "page cache"), Some((Could::Not, Strength::Proven)));
        run.target.direct = false;
        assert_eq!(could(&run, "page cache"), Some((Could::Answer, Strength::Proven)));
        run.cache_dropped = true;
        assert_eq!(could(&run, "page cache"), Some((Could::Not, Strength::Supported)));
        run.target.kind = "simulated".into();
        assert_eq!(caches(&run), []);
    }

    #[test]
    fn what_lies_behind_is_named_and_what_does_not_is_not() {
        let mut run = soak();
        for cache in ["server", "host cache", "memory", "backing file of the loop device"] {
            assert_eq!(could(&run, cache), None, "{cache}");
        }
        run.target.class = FilesystemClass::Network;
        assert_eq!(could(&run, "server"), Some((Could::Answer, Strength::ConsistentWith)));
        run.target.device = Some(DeviceFacts {
            name: "loop3".into(),
            is_virtual: Some(true),
            transport: Some("zram".into()),
            ..DeviceFacts::default()
        });
        for cache in ["host cache", "memory", "backing file of the loop device"] {
            assert!(could(&run, cache).is_some(), "{cache}");
        }
        assert_eq!(could(&run, "device cache").map(|(could, _)| could), Some(Could::Unknown));
        run.target.device = Some(device("write back"));
        assert_eq!(could(&run, "device cache").map(|(could, _)| could), Some(Could::Answer));
    }

    #[test]
    fn flushes_are_compared_where_the_device_counts_them() {
        let mut run = soak();
        let words = |run: &VerifyRun| judge(run, &[]).flushes.words;
        assert!(words(&run).contains("no count"));
        run.target.device = Some(device("write back"));
        let counters = |writes, flushes| DeviceCounters { writes, flushes, ..Default::default() };
        run.device = Some((counters(10, 5), counters(900, 9)));
        assert_eq!(words(&run), "F1: flushes sent: 4, the device counted 4");
        run.device = Some((counters(10, 5), counters(900, 5)));
        assert!(words(&run).contains("nobarrier"));
        run.target.device = Some(device("write through"));
        assert!(words(&run).contains("need not send"));
        run.target.device = Some(DeviceFacts { name: "dm-0".into(), ..device("write back") });
        assert!(words(&run).contains("no count"));
        assert!(is_a("md127", "md") && !is_a("mdx", "md") && !is_a("ramdisk", "ram"));
    }
}
