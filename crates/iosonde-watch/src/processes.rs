//! Processes from `/proc`: the process tree and the accounting of each process.
//!
//! Sources: proc_pid_stat(5), proc_pid_io(5), proc_pid_status(5), proc_tid_children(5).

use std::collections::BTreeSet;

use iosonde_engine::host::Root;
use iosonde_model::record::profile::CallCounts;

/// Largest number of processes of one sample.
const LIMIT: usize = 1 << 16;

/// The contents of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: u32,
    /// Start, in ticks since boot. With the PID it identifies the process uniquely.
    pub(super) started: u64,
    /// User CPU time, in ticks, including that of reaped children.
    pub(super) user: u64,
    /// System CPU time, likewise.
    pub(super) system: u64,
    pub(super) is_zombie: bool,
}

impl Process {
    /// Kernel threads descend from kthreadd, which has PID 2.
    fn is_of_kernel(&self) -> bool {
        const KTHREADD: u32 = 2;
        self.pid == KTHREADD || self.parent == KTHREADD
    }
}

pub(super) fn process(root: &Root, pid: u32) -> Option<Process> {
    parse_stat(&root.text(format!("/proc/{pid}/stat"))?)
}

/// Parses `pid (name) state ppid …`. The name may contain brackets and spaces.
fn parse_stat(text: &str) -> Option<Process> {
    let (head, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // proc_pid_stat(5) counts from 1, and the state is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Process {
        pid: head.split_once(" (")?.0.parse().ok()?,
        parent: u32::try_from(field(4)?).ok()?,
        started: field(22)?,
        user: field(14)?.saturating_add(field(16)?),
        system: field(15)?.saturating_add(field(17)?),
        is_zombie: fields.first() == Some(&"Z"),
    })
}

/// Ticks that a thread has waited for block I/O (field 42 of its stat).
pub(super) fn block_delay(root: &Root, pid: u32, tid: u32) -> Option<u64> {
    let text = root.text(format!("/proc/{pid}/task/{tid}/stat"))?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(42 - 3)?.parse().ok()
}

/// Time that a thread was runnable without a CPU, ns.
pub(super) fn run_delay(root: &Root, pid: u32, tid: u32) -> Option<u64> {
    let text = root.text(format!("/proc/{pid}/task/{tid}/schedstat"))?;
    text.split_whitespace().nth(1)?.parse().ok()
}

pub(super) fn threads(root: &Root, pid: u32) -> Vec<u32> {
    let names = root.names(format!("/proc/{pid}/task"));
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// Read and write calls of a process, its ended threads and the children it waited for. `None` if
/// this user has no access.
pub(super) fn calls(root: &Root, pid: u32) -> Option<CallCounts> {
    parse_io(&root.text(format!("/proc/{pid}/io"))?)
}

/// Calls of this process, and the length of the text read, which is charged after the read.
pub(super) fn own_calls(root: &Root) -> Option<(CallCounts, u64)> {
    let bytes = root.bytes("/proc/self/io", 4096)?;
    Some((parse_io(&String::from_utf8_lossy(&bytes))?, bytes.len() as u64))
}

fn parse_io(text: &str) -> Option<CallCounts> {
    let field = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
    };
    Some(CallCounts {
        reads: field("syscr")?,
        writes: field("syscw")?,
        read_bytes: field("rchar")?,
        written_bytes: field("wchar")?,
        storage_read_bytes: field("read_bytes")?,
        storage_write_bytes: field("write_bytes")?,
        cancelled_bytes: field("cancelled_write_bytes")?,
    })
}

/// Voluntary and involuntary context switches of the living threads, and the peak of the resident
/// set in bytes.
pub(super) fn switches_and_peak(root: &Root, pid: u32) -> (u64, u64, u64) {
    let mut sums = (0, 0, 0);
    for tid in threads(root, pid) {
        let text = root.text(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        sums.0 += field("voluntary_ctxt_switches:");
        sums.1 += field("nonvoluntary_ctxt_switches:");
        sums.2 = u64::max(sums.2, field("VmHWM:").saturating_mul(1024));
    }
    sums
}

/// Arguments of a process; its name if it has none, as for kernel threads.
pub(super) fn words(root: &Root, pid: u32) -> Vec<String> {
    let bytes = root.bytes(format!("/proc/{pid}/cmdline"), 64 << 10).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let words: Vec<String> = text.trim_end_matches('\0').split('\0').map(str::to_owned).collect();
    if words.iter().any(|word| !word.is_empty()) {
        return words;
    }
    root.word(format!("/proc/{pid}/comm")).into_iter().collect()
}

/// Names of those of these processes that are still running.
pub(super) fn running(root: &Root, pids: impl IntoIterator<Item = u32>) -> Vec<String> {
    let is_running = |pid: &u32| process(root, *pid).is_some_and(|process| !process.is_zombie);
    let name = |pid: u32| root.word(format!("/proc/{pid}/comm")).unwrap_or_else(|| pid.to_string());
    pids.into_iter().filter(is_running).map(name).collect()
}

fn listed(root: &Root) -> impl Iterator<Item = Process> {
    let pids = root.names("/proc").into_iter().filter_map(|name| name.parse().ok());
    pids.take(LIMIT).filter_map(|pid| process(root, pid))
}

/// All processes except kernel threads.
pub(super) fn all(root: &Root) -> BTreeSet<u32> {
    let of_others = listed(root).filter(|process| !process.is_of_kernel());
    of_others.map(|process| process.pid).collect()
}

/// These processes and all their descendants that are still running.
pub(super) fn tree(root: &Root, roots: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    let roots: Vec<u32> = roots.into_iter().collect();
    let provides_children =
        roots.iter().any(|pid| root.exists(format!("/proc/{pid}/task/{pid}/children")));
    if provides_children { by_children(root, roots) } else { by_parents(root, roots) }
}

fn by_children(root: &Root, mut waiting: Vec<u32>) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    while let Some(pid) = waiting.pop() {
        if found.len() >= LIMIT || !root.exists(format!("/proc/{pid}")) || !found.insert(pid) {
            continue;
        }
        for tid in threads(root, pid) {
            let text = root.text(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
            waiting.extend(text.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    found
}

/// Fallback for kernels that do not list children (CONFIG_PROC_CHILDREN): uses the parent of each
/// process.
fn by_parents(root: &Root, roots: Vec<u32>) -> BTreeSet<u32> {
    let all: Vec<Process> = listed(root).collect();
    let mut found: BTreeSet<u32> =
        roots.into_iter().filter(|pid| all.iter().any(|process| process.pid == *pid)).collect();
    loop {
        let before = found.len();
        let children = all.iter().filter(|process| found.contains(&process.parent));
        let children: Vec<u32> = children.map(|process| process.pid).collect();
        found.extend(children);
        if found.len() == before {
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const STAT: &str = "42 (a) b (c) S 7 42 42 0 -1 4227148 245 274 0 0 10 20 300 400 20 0 1 0 \
                        2477866 0 0 18446744073709551615 0 0 0 0 0 0 0 16781312 2 1 0 0 17 1 0 0 \
                        99 0 0 0 0 0 0 0 0 0 768";

    fn recorded(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::at(dir.path());
        (dir, root)
    }

    #[test]
    fn a_name_may_hold_brackets_and_spaces() {
        let seen = parse_stat(STAT).unwrap();
        let (user, system, started) = (310, 420, 2_477_866);
        let whole = Process { pid: 42, parent: 7, started, user, system, is_zombie: false };
        assert_eq!(seen, whole);
        for odd in ["", "42", "42 (a)", "42 (a) S", "x (a) S 1 2 3"] {
            assert_eq!(parse_stat(odd), None, "{odd}");
        }
        let (_dir, root) = recorded(&[("proc/42/task/43/stat", STAT)]);
        assert_eq!(block_delay(&root, 42, 43), Some(99));
        let (_dir, root) = recorded(&[("proc/42/task/43/schedstat", "184317325 838680424 51\n")]);
        assert_eq!(run_delay(&root, 42, 43), Some(838_680_424));
        assert_eq!(run_delay(&root, 42, 44), None);
    }

    #[test]
    fn counts_are_whole_or_none() {
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
                    cancelled_write_bytes: 7\n";
        let counts = parse_io(text).unwrap();
        assert_eq!((counts.read_bytes, counts.written_bytes), (1, 2));
        assert_eq!((counts.reads, counts.writes), (3, 4));
        assert_eq!((counts.storage_read_bytes, counts.storage_write_bytes), (5, 6));
        assert_eq!(counts.cancelled_bytes, 7);
        assert_eq!(parse_io("rchar: 1\nwchar: 2\n"), None);
    }

    #[test]
    fn trees_are_found_either_way() {
        let stat = |pid: u32, parent: u32| {
            STAT.replacen("42", &pid.to_string(), 1).replacen(" S 7 ", &format!(" S {parent} "), 1)
        };
        let parents = [(1, 0), (7, 1), (42, 7), (43, 42), (44, 43), (50, 1)];
        let stats: Vec<(String, String)> = parents
            .iter()
            .map(|(pid, parent)| (format!("proc/{pid}/stat"), stat(*pid, *parent)))
            .collect();
        let files: Vec<(&str, &str)> =
            stats.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (_dir, root) = recorded(&files);
        assert_eq!(tree(&root, [42]), BTreeSet::from([42, 43, 44]));
        assert_eq!(tree(&root, [99]), BTreeSet::new());

        let (_dir, root) = recorded(&[
            ("proc/42/task/42/children", "43 "),
            ("proc/42/task/45/children", "44 "),
            ("proc/43/task/43/children", ""),
            ("proc/44/task/44/children", "42"),
        ]);
        assert_eq!(tree(&root, [42]), BTreeSet::from([42, 43, 44]));
    }

    #[test]
    fn those_that_still_run_are_named() {
        let stat = |pid: u32, state: &str| {
            STAT.replace("42 (a) b (c) S", &format!("{pid} (a) b (c) {state}"))
        };
        let (_dir, root) = recorded(&[
            ("proc/5/stat", &stat(5, "S")),
            ("proc/5/comm", "cat\n"),
            ("proc/6/stat", &stat(6, "Z")),
            ("proc/6/comm", "gone\n"),
            ("proc/8/stat", &stat(8, "D")),
            ("proc/8/comm", "dd\n"),
        ]);
        assert_eq!(running(&root, [5, 6, 7, 8]), ["cat", "dd"]);
    }

    #[test]
    fn a_kernel_thread_has_a_name_and_no_words() {
        let files = [("proc/2/cmdline", ""), ("proc/2/comm", "kthreadd\n")];
        let (_dir, root) = recorded(&files);
        assert_eq!(words(&root, 2), ["kthreadd"]);
        let (_dir, root) = recorded(&[("proc/3/cmdline", "dd\0if=a b\0\0")]);
        assert_eq!(words(&root, 3), ["dd", "if=a b"]);
    }
}
