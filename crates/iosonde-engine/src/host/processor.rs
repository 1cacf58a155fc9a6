//! Processor: model, the CPUs that this process may use, and what makes their speed vary.

use super::{Root, cgroup};
use iosonde_model::record::HostFacts;
use iosonde_model::units::list;

/// Limit on the numbers in a CPU or node list; the kernel's own limit is 8192 CPUs.
const LIST_LIMIT: u32 = 1 << 16;

const CPU: &str = "/sys/devices/system/cpu";

/// Fills the processor facts.
pub(super) fn describe(root: &Root, facts: &mut HostFacts) {
    let cpuinfo = root.text("/proc/cpuinfo").unwrap_or_default();
    facts.cpu_model = cpu_model(root, &cpuinfo);
    facts.invariant_tsc = flags(&cpuinfo)
        .map(|flags| flags.contains(&"constant_tsc") && flags.contains(&"nonstop_tsc"));
    facts.cpus_online = root.text(format!("{CPU}/online")).and_then(|list| count(&list));
    describe_allowed(root, facts);
    facts.governor = root.word(format!("{CPU}/cpu0/cpufreq/scaling_governor"));
    facts.turbo = turbo(root);
    facts.smt = flag(root, &format!("{CPU}/smt/active"));
    let vulnerabilities = format!("{CPU}/vulnerabilities");
    facts.mitigations = root
        .names(&vulnerabilities)
        .into_iter()
        .filter_map(|name| {
            let state = root.word(format!("{vulnerabilities}/{name}"))?;
            Some(format!("{name}: {state}"))
        })
        .collect();
    facts.numa_nodes = root.text("/sys/devices/system/node/online").and_then(|list| count(&list));
}

impl Root {
    /// The CPUs of a NUMA node; `None` if the system has no such node.
    pub fn cpus_of_node(&self, node: u32) -> Option<Vec<u32>> {
        numbers(&self.text(format!("/sys/devices/system/node/node{node}/cpulist"))?)
    }
}

/// Flags of the first processor; `None` on architectures without the line.
pub(super) fn flags(cpuinfo: &str) -> Option<Vec<&str>> {
    Some(cpuinfo_field(cpuinfo, "flags")?.split_whitespace().collect())
}

fn cpuinfo_field<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

fn cpu_model(root: &Root, cpuinfo: &str) -> Option<String> {
    if let Some(model) = cpuinfo_field(cpuinfo, "model name").filter(|model| !model.is_empty()) {
        return Some(model.to_owned());
    }
    // Arm has no model name in cpuinfo; its device tree names the board.
    let board = root.text("/proc/device-tree/model")?;
    Some(board.trim_end_matches('\0').to_owned()).filter(|board| !board.is_empty())
}

/// Affinity, quota, and the number of CPUs that both allow.
fn describe_allowed(root: &Root, facts: &mut HostFacts) {
    // The kernel keeps the affinity mask within the cpuset, so the one list holds both.
    let status = root.text("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    facts.cpu_list = allowed.and_then(numbers).unwrap_or_default();
    facts.cpu_quota_milli = cgroup::hierarchies(root, "cpu")
        .iter()
        .flat_map(|hierarchy| &hierarchy.levels)
        .filter_map(|level| {
            let max = root.text(level.join("cpu.max"));
            max.as_deref().and_then(quota_milli).or_else(|| {
                let quota = root.text(level.join("cpu.cfs_quota_us"))?;
                let period = root.text(level.join("cpu.cfs_period_us"))?;
                quota_milli(&format!("{quota} {period}"))
            })
        })
        .min();
    let in_mask = u32::try_from(facts.cpu_list.len()).ok().filter(|&n| n > 0);
    let in_quota = facts
        .cpu_quota_milli
        .map(|milli| u32::try_from(milli.div_ceil(1000)).unwrap_or(u32::MAX).max(1));
    facts.cpus_allowed = in_mask.or(facts.cpus_online).into_iter().chain(in_quota).min();
}

/// `quota period` in microseconds, as thousandths of a CPU rounded up. `max` and -1 are no quota.
fn quota_milli(text: &str) -> Option<u64> {
    let mut fields = text.split_whitespace();
    let quota: u64 = fields.next()?.parse().ok()?;
    let period: u64 = fields.next().map_or(Some(100_000), |period| period.parse().ok())?;
    (period > 0).then(|| quota.saturating_mul(1000).div_ceil(period))
}

fn turbo(root: &Root) -> Option<bool> {
    flag(root, &format!("{CPU}/intel_pstate/no_turbo"))
        .map(|disabled| !disabled)
        .or_else(|| flag(root, &format!("{CPU}/cpufreq/boost")))
        .or_else(|| flag(root, &format!("{CPU}/cpu0/cpufreq/boost")))
}

fn flag(root: &Root, path: &str) -> Option<bool> {
    match root.text(path)?.as_str() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn count(list: &str) -> Option<u32> {
    u32::try_from(numbers(list)?.len()).ok().filter(|&n| n > 0)
}

/// The numbers of a kernel list, which may be empty.
fn numbers(text: &str) -> Option<Vec<u32>> {
    if text.trim().is_empty() { Some(Vec::new()) } else { list::numbers(text, LIST_LIMIT) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(numbers("0-2,5\n").unwrap(), [0, 1, 2, 5]);
        assert_eq!(numbers("3,1,3").unwrap(), [1, 3]);
        assert!(numbers("").unwrap().is_empty());
        assert_eq!(numbers(&"0-65535,".repeat(3)), None, "more than any machine has");
        for odd in ["x", "3-1", "-1", "0-4294967295", "0-99999999999", "1;2", "0-70000"] {
            assert_eq!(numbers(odd), None, "{odd}");
        }
    }

    #[test]
    fn quotas_round_up() {
        assert_eq!(quota_milli("max 100000"), None);
        assert_eq!(quota_milli("-1 100000"), None);
        assert_eq!(quota_milli("150000 100000"), Some(1500));
        assert_eq!(quota_milli("1 3000"), Some(1));
        assert_eq!(quota_milli("50000"), Some(500));
        assert_eq!(quota_milli("5 0"), None);
        assert_eq!(quota_milli("18446744073709551615 1"), Some(u64::MAX));
        assert_eq!(quota_milli(""), None);
    }

    #[test]
    fn a_tsc_is_invariant_with_both_flags() {
        let has = |text: &str| flags(text).map(|f| f.contains(&"nonstop_tsc"));
        assert_eq!(has("flags\t\t: fpu constant_tsc nonstop_tsc\n"), Some(true));
        assert_eq!(has("flags\t\t: fpu nonstop_tsc_not\n"), Some(false));
        assert_eq!(has("Features : fp asimd\n"), None);
    }
}
