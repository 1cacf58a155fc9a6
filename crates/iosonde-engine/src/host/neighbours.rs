//! Other processes that did I/O or used CPU time: the accounting of all processes at two times.
//!
//! Sources: proc_pid_stat(5), proc_pid_io(5), cgroups(7). The kernel adds the I/O of a process that
//! has ended to the process that waited for it. The part from before the first of the two times is
//! subtracted there.

use std::collections::BTreeMap;

use super::Root;
use iosonde_model::record::facts::Neighbour;

/// Number of processes named for the most I/O, and as many for the most CPU time.
const NAMED: usize = 3;
/// I/O and CPU time below which a process is not reported.
const LEAST_BYTES: u64 = 1 << 20;
const LEAST_CPU_NS: u64 = 50_000_000;
/// Limit on the ancestors followed: parent ids that changed during the read may form a loop.
const MAX_GENERATIONS: usize = 64;

/// The accounting of all processes but this one.
#[derive(Debug)]
pub struct Census {
    /// By process id and start time, which together identify a process.
    processes: BTreeMap<(u32, u64), Account>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Process id of its parent.
    parent: u32,
    cpu_ns: u64,
    read_bytes: u64,
    written_bytes: u64,
}

impl Account {
    fn since(self, before: Account) -> Account {
        Account {
            parent: self.parent,
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }

    fn io_bytes(self) -> u64 {
        self.read_bytes.saturating_add(self.written_bytes)
    }
}

impl Census {
    /// Reads all accounts. An ordinary user sees only the CPU time of other users' processes.
    #[must_use]
    pub fn take(root: &Root) -> Census {
        let own = std::process::id();
        let pids = root.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        let accounts = pids.filter(|pid| *pid != own || !root.is_system());
        Census { processes: accounts.filter_map(|pid| account(root, pid)).collect() }
    }

    /// The processes that did most since an earlier census.
    #[must_use]
    pub fn since(&self, before: &Census, root: &Root) -> Vec<Neighbour> {
        let inherited = self.inherited(before);
        let done: Vec<(u32, Account)> = self
            .processes
            .iter()
            .map(|(key, now)| {
                let mut from = before.processes.get(key).copied().unwrap_or_default();
                let ended = inherited.get(&key.0).copied().unwrap_or_default();
                from.read_bytes = from.read_bytes.saturating_add(ended.read_bytes);
                from.written_bytes = from.written_bytes.saturating_add(ended.written_bytes);
                (key.0, now.since(from))
            })
            .collect();
        let mut chosen = most(&done, LEAST_BYTES, Account::io_bytes);
        for busy in most(&done, LEAST_CPU_NS, |account| account.cpu_ns) {
            if !chosen.iter().any(|(pid, _)| *pid == busy.0) {
                chosen.push(busy);
            }
        }
        chosen.into_iter().map(|(pid, account)| neighbour(root, pid, account)).collect()
    }

    /// I/O before an earlier time of processes that have ended since, by nearest living ancestor.
    fn inherited(&self, before: &Census) -> BTreeMap<u32, Account> {
        let is_left = |pid: u32| self.processes.range((pid, 0)..=(pid, u64::MAX)).next().is_some();
        let parent = |pid: u32| {
            let mut of_pid = before.processes.range((pid, 0)..=(pid, u64::MAX));
            of_pid.next().map(|(_, account)| account.parent)
        };
        let mut inherited: BTreeMap<u32, Account> = BTreeMap::new();
        let ended = before.processes.iter().filter(|(key, _)| !self.processes.contains_key(key));
        for (_, account) in ended {
            let mut heir = account.parent;
            for _ in 0..MAX_GENERATIONS {
                match parent(heir).filter(|_| !is_left(heir)) {
                    Some(next) => heir = next,
                    None => break,
                }
            }
            let sum = inherited.entry(heir).or_default();
            sum.read_bytes = sum.read_bytes.saturating_add(account.read_bytes);
            sum.written_bytes = sum.written_bytes.saturating_add(account.written_bytes);
        }
        inherited
    }
}

/// The processes with the largest values of a figure, if they are at least `least`.
fn most(all: &[(u32, Account)], least: u64, of: fn(Account) -> u64) -> Vec<(u32, Account)> {
    let mut chosen: Vec<(u32, Account)> =
        all.iter().filter(|(_, account)| of(*account) >= least).copied().collect();
    chosen.sort_by_key(|(pid, account)| (std::cmp::Reverse(of(*account)), *pid));
    chosen.truncate(NAMED);
    chosen
}

fn account(root: &Root, pid: u32) -> Option<((u32, u64), Account)> {
    let stat = root.text(format!("/proc/{pid}/stat"))?;
    // The name may contain brackets and spaces. Fields are numbered from 1; the state is 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = field(14)?.saturating_add(field(15)?);
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let io = root.text(format!("/proc/{pid}/io")).unwrap_or_default();
    let bytes = |name: &str| {
        let mut lines = io.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    let account = Account {
        parent: field(4).and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0),
        cpu_ns: ticks.saturating_mul(tick_ns),
        read_bytes: bytes("read_bytes"),
        written_bytes: bytes("write_bytes"),
    };
    Some(((pid, field(22)?), account))
}

fn neighbour(root: &Root, pid: u32, account: Account) -> Neighbour {
    Neighbour {
        pid,
        program: root.word(format!("/proc/{pid}/comm")).unwrap_or_default(),
        cgroup: cgroup(&root.text(format!("/proc/{pid}/cgroup")).unwrap_or_default()),
        read_bytes: account.read_bytes,
        written_bytes: account.written_bytes,
        cpu_ns: account.cpu_ns,
    }
}

/// The path in the unified hierarchy, else in that of the block controller; never the root.
fn cgroup(text: &str) -> Option<String> {
    let path = |wanted: fn(&str) -> bool| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        lines.find(|(controllers, path)| wanted(controllers) && *path != "/")
    };
    let found = path(str::is_empty)
        .or_else(|| path(|controllers| controllers.split(',').any(|name| name == "blkio")));
    found.map(|(_, path)| path.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// A process with this start time, CPU time in ticks, and number of bytes written.
    fn process(root: &std::path::Path, pid: u32, started: u64, ticks: u64, written: u64) {
        let directory = root.join(format!("proc/{pid}"));
        std::fs::create_dir_all(&directory).unwrap();
        let zeros = "0 ".repeat(9);
        let rest = format!("1 {zeros}{ticks} 0 0 0 0 0 1 0 {started} 0");
        let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
        write("stat", format!("{pid} (a) b) S {rest}\n"));
        write("io", format!("rchar: 1\nread_bytes: 4096\nwrite_bytes: {written}\n"));
        write("comm", format!("program-{pid}\n"));
        write("cgroup", "4:memory:/x\n3:blkio,cpu:/disk\n0::/\n".into());
    }

    #[test]
    fn who_did_most_between_two_times_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        process(directory.path(), 10, 1, 100, 1 << 30);
        process(directory.path(), 11, 1, 100, 0);
        let before = Census::take(&root);
        assert!(Census::take(&root).since(&before, &root).is_empty(), "nothing was done");
        process(directory.path(), 10, 1, 100, (1 << 30) + (5 << 20));
        process(directory.path(), 11, 1, 150, 0);
        process(directory.path(), 12, 9, 0, 7 << 20);
        let found = Census::take(&root).since(&before, &root);
        let said: Vec<(u32, u64)> = found.iter().map(|one| (one.pid, one.written_bytes)).collect();
        assert_eq!(said, [(12, 7 << 20), (10, 5 << 20), (11, 0)]);
        assert_eq!(
            (found[2].program.as_str(), found[2].cgroup.as_deref()),
            ("program-11", Some("/disk"))
        );
        assert!(found[2].cpu_ns >= 400_000_000, "{}", found[2].cpu_ns);
    }

    #[test]
    fn what_an_ended_child_had_done_before_is_not_that_of_its_parent() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        // Process 1 is the parent of all.
        process(directory.path(), 1, 1, 0, 0);
        process(directory.path(), 10, 2, 0, 3 << 30);
        let before = Census::take(&root);
        std::fs::remove_dir_all(directory.path().join("proc/10")).unwrap();
        process(directory.path(), 1, 1, 0, (3 << 30) + 4096);
        assert!(Census::take(&root).since(&before, &root).is_empty());
        // What it did after the first time counts for its parent.
        process(directory.path(), 1, 1, 0, (3 << 30) + (5 << 20));
        assert_eq!(Census::take(&root).since(&before, &root)[0].written_bytes, 5 << 20);
    }

    #[test]
    fn a_process_id_that_was_given_again_is_another_process() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        process(directory.path(), 10, 1, 0, 1 << 30);
        let before = Census::take(&root);
        process(directory.path(), 10, 2, 0, 3 << 20);
        assert_eq!(Census::take(&root).since(&before, &root)[0].written_bytes, 3 << 20);
    }

    #[test]
    fn the_unified_hierarchy_comes_first() {
        assert_eq!(cgroup("3:blkio:/old\n0::/user.slice/a\n").as_deref(), Some("/user.slice/a"));
        assert_eq!(cgroup("3:blkio:/\n0::/\n"), None);
    }
}
