//! Memory: total, available, and the limits of the cgroup and of `mlock`.

use std::path::Path;

use super::{Root, cgroup};
use iosonde_model::record::HostFacts;

/// A version 1 limit from here on means "none": the kernel shows LONG_MAX in whole pages.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// Fills the memory facts.
pub(super) fn describe(root: &Root, facts: &mut HostFacts) {
    let meminfo = root.text("/proc/meminfo").unwrap_or_default();
    facts.memory_bytes = kib_field(&meminfo, "MemTotal:");
    facts.memory_available_bytes = kib_field(&meminfo, "MemAvailable:");
    for hierarchy in cgroup::hierarchies(root, "memory") {
        for level in &hierarchy.levels {
            let (limit, left) = cgroup_room(root, level, hierarchy.unified);
            facts.memory_limit_bytes = smaller(facts.memory_limit_bytes, limit);
            facts.memory_available_bytes = smaller(facts.memory_available_bytes, left);
        }
    }
    facts.memlock_bytes = memlock(&root.text("/proc/self/limits").unwrap_or_default());
}

/// `Key:   123 kB` in bytes.
fn kib_field(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Limit of one cgroup, and the memory left below it. Inactive page cache can be reclaimed, so it
/// counts as free (as in the "working set" of container tools).
fn cgroup_room(root: &Root, level: &Path, unified: bool) -> (Option<u64>, Option<u64>) {
    let bytes = |file: &str| root.number::<u64>(level.join(file));
    let (limit, usage, cache) = if unified {
        // Above memory.high a process is stalled, so it limits a measurement as memory.max does.
        let limit = smaller(bytes("memory.max"), bytes("memory.high"));
        (limit, bytes("memory.current"), "inactive_file")
    } else {
        let limit = bytes("memory.limit_in_bytes").filter(|&limit| limit < NO_LIMIT_BYTES);
        (limit, bytes("memory.usage_in_bytes"), "total_inactive_file")
    };
    let left = limit.zip(usage).map(|(limit, usage)| {
        let stat = root.text(level.join("memory.stat")).unwrap_or_default();
        let reclaimable = stat
            .lines()
            .find_map(|line| line.strip_prefix(cache)?.trim().parse::<u64>().ok())
            .unwrap_or(0);
        limit.saturating_sub(usage.saturating_sub(reclaimable))
    });
    (limit, left)
}

/// `Max locked memory  8388608  8388608  bytes`: the soft limit.
fn memlock(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The smaller of the known values.
fn smaller(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_do_not_fit_are_unknown() {
        assert_eq!(kib_field("MemTotal:  8 kB\n", "MemTotal:"), Some(8192));
        assert_eq!(kib_field("MemTotal: 18446744073709551615 kB", "MemTotal:"), None);
        assert_eq!(kib_field("MemTotal: -5 kB", "MemTotal:"), None);
        assert_eq!(kib_field("MemTotal:", "MemTotal:"), None);
    }

    #[test]
    fn memlock_soft_limit() {
        assert_eq!(memlock("Max locked memory   8388608   unlimited   bytes"), Some(8_388_608));
        assert_eq!(memlock("Max locked memory   unlimited unlimited   bytes"), Some(u64::MAX));
        assert_eq!(memlock("Max locked memory   much"), None);
    }
}
