//! Who could have answered what was read back, and what is known about flushes?

use serde::Serialize;

use super::VerifyFigures;
use crate::finding::Strength;
use iosonde_model::record::facts::{DeviceFacts, FilesystemClass, TargetFacts};
use iosonde_model::record::verify::VerifyRun;
use iosonde_model::units::count::thousands;

/// Whether a cache could have answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Could {
    /// It could have answered what was read back.
    Answer,
    /// It was out of the way.
    Not,
    /// It is not known.
    Unknown,
}

/// One cache on the way to what is stored.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct CacheWord {
    /// Which.
    pub cache: &'static str,
    /// Whether it could have answered.
    pub could: Could,
    /// How well that is known.
    pub strength: Strength,
    /// The same as a sentence.
    pub words: String,
}

/// The lower rung of the fsync ladder, for this run.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct FlushEvidence {
    /// Flushes acknowledged to the run.
    pub sent: u64,
    /// Flushes that the device counted meanwhile, where it counts.
    pub counted: Option<u64>,
    /// Whether the kernel says that the device has a write-back cache.
    pub write_back: Option<bool>,
    /// The same as a sentence.
    pub words: String,
}

/// Where a block device keeps its data in memory.
const MEMORY_TRANSPORTS: [&str; 4] = ["zram", "ram", "brd", "pmem-legacy"];
/// Devices of which the kernel does not count flushes: they are not queues of requests.
const UNCOUNTED: [&str; 7] = ["dm-", "md", "zram", "ram", "pmem", "nullb", "drbd"];

/// The caches on the way, from the nearest on.
pub(super) fn caches(run: &VerifyRun) -> Vec<CacheWord> {
    let target = &run.target;
    if target.kind == "simulated" || target.kind == "null" {
        return Vec::new();
    }
    let device = target.device.as_ref();
    let mut words = Vec::new();
    words.extend(page_cache(run));
    words.extend(beyond(target));
    words.extend(device.and_then(loop_file));
    words.extend(memory(target));
    if target.class != FilesystemClass::Memory {
        words.push(device_cache(device));
    }
    words.extend(
        device.filter(|device| device.is_virtual == Some(true)).map(|_| CacheWord {
            cache: "host cache",
            could: Could::Answer,
            strength: Strength::ConsistentWith,
            words:
                "virtual disk: the host's cache could have answered; it cannot be told from here"
                    .into(),
        }),
    );
    words
}

fn page_cache(run: &VerifyRun) -> Option<CacheWord> {
    let target = &run.target;
    if target.kind == "vhost-user-blk device" {
        return None;
    }
    let (could, strength, words) = match (target.direct, run.cache_dropped) {
        (true, _) => (
            Could::Not,
            Strength::Proven,
            "page cache out of the way: direct I/O (O_DIRECT) is in effect".to_owned(),
        ),
        (false, true) => (
            Could::Not,
            Strength::Supported,
            "buffered: the page cache was asked to let go of the target before it was read back; \
             reads made while writing it could have answered"
                .to_owned(),
        ),
        (false, false) => (
            Could::Answer,
            Strength::Proven,
            "buffered, and not dropped: the page cache could have answered everything".to_owned(),
        ),
    };
    Some(CacheWord { cache: "page cache", could, strength, words })
}

/// What stands between a file system that is not local and its storage.
fn beyond(target: &TargetFacts) -> Option<CacheWord> {
    let name = target.filesystem.as_deref().unwrap_or("the file system");
    let who = match target.class {
        FilesystemClass::Network => "the server",
        FilesystemClass::HostShare => "the host that shares it",
        FilesystemClass::UserSpace => "the program that serves it",
        FilesystemClass::Stacked => "the file system below it",
        _ => return None,
    };
    Some(CacheWord {
        cache: "server",
        could: Could::Answer,
        strength: Strength::ConsistentWith,
        words: format!("{name}: {who} could have answered from memory"),
    })
}

fn loop_file(device: &DeviceFacts) -> Option<CacheWord> {
    device.name.starts_with("loop").then(|| CacheWord {
        cache: "file behind the loop device",
        could: Could::Answer,
        strength: Strength::ConsistentWith,
        words: "loop device: the page cache of the file behind it could have answered, unless the \
                loop uses direct I/O"
            .into(),
    })
}

fn memory(target: &TargetFacts) -> Option<CacheWord> {
    let transport = target.device.as_ref().and_then(|device| device.transport.as_deref());
    let name = match target.class {
        FilesystemClass::Memory => target.filesystem.as_deref().unwrap_or("a memory file system"),
        _ => transport.filter(|name| MEMORY_TRANSPORTS.contains(name))?,
    };
    Some(CacheWord {
        cache: "memory",
        could: Could::Answer,
        strength: Strength::Proven,
        words: format!("the target is memory ({name}), not storage: nothing here is durable"),
    })
}

fn device_cache(device: Option<&DeviceFacts>) -> CacheWord {
    let (could, strength, words) = match device.and_then(|device| device.write_cache.as_deref()) {
        Some("write back") => (
            Could::Answer,
            Strength::ConsistentWith,
            "volatile device cache (write back): it could have answered what was written last; \
             only a power cut tells what is durable",
        ),
        Some("write through") => (
            Could::Answer,
            Strength::ConsistentWith,
            "device without a volatile write cache, as the kernel says (write through): what its \
             memory could have answered is said to be as durable as what is stored",
        ),
        _ => (Could::Unknown, Strength::ConsistentWith, "the device's own cache is not known"),
    };
    CacheWord { cache: "device cache", could, strength, words: words.into() }
}

/// What the flushes of a run show.
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
    let told = thousands(sent);
    let words = match (counted, write_back) {
        _ if sent == 0 => "F1: no flush was sent".to_owned(),
        (Some(0), Some(true)) => format!(
            "F1: flushes sent: {told}, the device counted none though it has a write-back cache: \
             nobarrier, or a layer drops them"
        ),
        (Some(0), _) => format!(
            "F1: flushes sent: {told}, the device counted none; without a write-back cache the \
             kernel need not send any"
        ),
        (Some(counted), _) => {
            format!("F1: flushes sent: {told}, the device counted {}", thousands(counted))
        }
        (None, _) => {
            format!("F1: flushes sent: {told}; no count of the device's to compare with")
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
        for cache in ["server", "host cache", "memory", "file behind the loop device"] {
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
        for cache in ["host cache", "memory", "file behind the loop device"] {
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
