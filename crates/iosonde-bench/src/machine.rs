//! The machine, and the CPU use of other processes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::measure::{ask, our_cpu};

fn file(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Facts about the machine that readers of the results need, as (name, value).
pub(crate) fn facts(dir: &Path) -> Vec<(&'static str, String)> {
    let cpuinfo = file("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let dir = dir.to_string_lossy();
    let mount = ask("findmnt", &["-n", "-o", "FSTYPE,OPTIONS", "-T", &dir]).ok();
    let spectre = file("/sys/devices/system/cpu/vulnerabilities/spectre_v2");
    let srso = file("/sys/devices/system/cpu/vulnerabilities/spec_rstack_overflow");
    let clock = file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let governor = file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    [
        ("kernel", file("/proc/sys/kernel/osrelease")),
        ("CPU", field("model name")),
        ("CPUs allowed", Some(cpus.to_string())),
        ("frequency governor", governor),
        ("clock source", clock),
        ("spectre_v2", spectre),
        ("spec_rstack_overflow", srso),
        ("file system", mount),
        ("load average at the end", file("/proc/loadavg")),
    ]
    .into_iter()
    .map(|(name, value)| (name, value.unwrap_or_else(|| "not known".to_owned())))
    .collect()
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The last CPU that this process may use.
pub(crate) fn last_cpu() -> usize {
    let status = file("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let last = list.and_then(|list| list.trim().rsplit([',', '-']).next()?.parse().ok());
    last.unwrap_or(0)
}

/// Ticks per second in `/proc`: USER_HZ, 100 on every architecture that this runs on.
const USER_HZ: f64 = 100.0;

/// CPU time of the machine and of each process, to detect other load.
#[derive(Debug)]
pub(crate) struct Others {
    since: Instant,
    ours: Duration,
    busy_ticks: u64,
    ticks: BTreeMap<u32, u64>,
}

/// CPU use by other processes, in CPUs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Foreign {
    pub(crate) cpus: f64,
    /// Name and CPU use of the busiest process that still runs; processes that ended are not named.
    pub(crate) busiest: Option<(String, f64)>,
}

/// Name, and CPU time in ticks, of a line of `/proc/PID/stat`.
fn stat(line: &str) -> Option<(&str, u64)> {
    let (start, end) = (line.find('(')?, line.rfind(')')?);
    let mut fields = line[end + 1..].split_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((&line[start + 1..end], user + system))
}

/// Ticks in user, nice and system of all CPUs, from the first line of `/proc/stat`.
fn busy_ticks(stat: &str) -> u64 {
    let first = stat.lines().next().unwrap_or("");
    first.split_whitespace().skip(1).take(3).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// CPU time of the machine so far, including interrupts, ns.
pub(crate) fn busy_ns() -> u64 {
    let stat = file("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or("");
    let fields: Vec<u64> = first.split_whitespace().skip(1).flat_map(str::parse).collect();
    // user, nice, system, irq and softirq; fields 3 and 4 are idle and iowait.
    let ticks: u64 = [0, 1, 2, 5, 6].iter().filter_map(|&field| fields.get(field)).sum();
    (ticks as f64 / USER_HZ * 1e9) as u64
}

fn processes() -> BTreeMap<u32, (String, u64)> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read_to_string(entry.path().join("stat")).ok()?;
            let (name, ticks) = stat(&line)?;
            (pid != own).then(|| (pid, (name.to_owned(), ticks)))
        })
        .collect()
}

impl Others {
    /// Starts watching. The bench's own tools must not be running now or at the end.
    pub(crate) fn watch() -> Self {
        Self {
            since: Instant::now(),
            ours: our_cpu(),
            busy_ticks: busy_ticks(&file("/proc/stat").unwrap_or_default()),
            ticks: processes().into_iter().map(|(pid, (_, ticks))| (pid, ticks)).collect(),
        }
    }

    /// CPUs used by kernel workers, which carry out the requests of a loop device.
    pub(crate) fn kernel_workers(&self) -> f64 {
        let used = |(pid, (name, ticks)): (u32, (String, u64))| {
            let before = self.ticks.get(&pid).copied().unwrap_or(0);
            if name.starts_with("kworker") { ticks.saturating_sub(before) } else { 0 }
        };
        let ticks: u64 = processes().into_iter().map(used).sum();
        ticks as f64 / USER_HZ / self.since.elapsed().as_secs_f64()
    }

    /// CPU use by others since then: the total of the machine minus the bench's own.
    pub(crate) fn used(&self) -> Foreign {
        let elapsed = self.since.elapsed().as_secs_f64();
        let busy = busy_ticks(&file("/proc/stat").unwrap_or_default());
        let all = busy.saturating_sub(self.busy_ticks) as f64 / USER_HZ;
        let ours = our_cpu().saturating_sub(self.ours).as_secs_f64();
        let share = |(pid, (name, ticks)): (u32, (String, u64))| {
            let before = self.ticks.get(&pid).copied().unwrap_or(0);
            (name, ticks.saturating_sub(before) as f64 / USER_HZ / elapsed)
        };
        Foreign {
            cpus: (all - ours).max(0.0) / elapsed,
            busiest: processes().into_iter().map(share).max_by(|a, b| a.1.total_cmp(&b.1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let line = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 700 30 0 0 20 0 1 0 5 6 7";
        assert_eq!(stat(line), Some(("a) b (c", 730)));
        assert_eq!(stat(""), None);
        assert_eq!(busy_ticks("cpu  100 20 3 4000 5 6 7 8\ncpu0 1 1 1"), 123);
    }
}
