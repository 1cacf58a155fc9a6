//! Activity since the last reading, for a live view.

use std::collections::BTreeMap;

use iosonde_bpf::{CgroupUse, FileKey, FileUse};
use iosonde_engine::host::mounts;
use iosonde_model::record::profile::{Op, ThreadRun};

use super::Tracer;
use super::names::{self, Names};
use super::tally::Increase;

/// Rows of each table: more than a screen shows.
const ROWS: usize = 200;

/// Activity of one interval.
#[derive(Debug, Default)]
pub struct Recent {
    /// Length, ns.
    pub span_ns: u64,
    /// The program's requests by operation, in the order of [`Op::ALL`].
    pub ops: [Increase; 5],
    /// Processes by ID, most bytes first; 0 sums ended ones if there are too many.
    pub processes: Vec<Row<u32>>,
    /// Files, in the same order.
    pub files: Vec<Row<FileKey>>,
    /// Cgroups by the kernel's number, in the same order.
    pub cgroups: Vec<Row<u64>>,
}

/// One process, file or cgroup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Row<K> {
    /// Number of the process or cgroup, or key of the file.
    pub key: K,
    /// Name or path.
    pub name: String,
    pub done: Done,
}

/// Counts of an interval, or totals so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Done {
    pub requests: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Calls of fsync, fdatasync and others.
    pub syncs: u64,
}

impl Done {
    /// Read and written, bytes.
    pub fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }

    /// Counts since `before`, at least 0: totals may shrink while an entry leaves a table.
    fn since(&self, before: Option<&Done>) -> Done {
        let before = before.copied().unwrap_or_default();
        Done {
            requests: self.requests.saturating_sub(before.requests),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
            syncs: self.syncs.saturating_sub(before.syncs),
        }
    }

    fn add(&mut self, more: &Done) {
        self.requests += more.requests;
        self.read_bytes += more.read_bytes;
        self.write_bytes += more.write_bytes;
        self.syncs += more.syncs;
    }
}

/// The totals at the last reading, and the increases of the series since.
#[derive(Debug, Default)]
pub(super) struct Before {
    at_ns: u64,
    ops: [Increase; 5],
    processes: BTreeMap<u32, Done>,
    files: BTreeMap<FileKey, Done>,
    cgroups: BTreeMap<u64, Done>,
}

impl Before {
    pub(super) fn at(now_ns: u64) -> Before {
        Before { at_ns: now_ns, ..Before::default() }
    }

    pub(super) fn add(&mut self, op: Op, increase: &Increase) {
        self.ops[op as usize].merge(increase);
    }
}

impl Tracer {
    /// Starts collecting for [`Tracer::recent`].
    pub fn keep_recent(&mut self, now_ns: u64) {
        self.recent = Some(Before::at(now_ns));
    }

    /// Activity since the last call, or since [`Tracer::keep_recent`], of all processes or only of
    /// the program's. Files and cgroups are always of all processes.
    ///
    /// # Errors
    /// As text, if the kernel's tables cannot be read.
    pub fn recent(&mut self, now_ns: u64, of_program: bool) -> Result<Recent, String> {
        let before = self.recent.replace(Before::at(now_ns)).unwrap_or_default();
        let mut threads = self.ended.so_far(&self.collector)?;
        threads.retain(|thread| thread.of_program || !of_program);
        let files = self.files.so_far(&self.collector)?;
        let now = Before {
            at_ns: now_ns,
            processes: sums(threads.iter().map(|thread| (thread.pid, done_by_thread(thread)))),
            files: sums(files.iter().map(|(key, file)| (*key, done_to_file(file)))),
            cgroups: sums(
                self.collector.cgroups()?.iter().map(|(id, _, used)| (*id, done_in(used))),
            ),
            ..Before::default()
        };
        let mut names = Names::new(&self.root, mounts(&self.root));
        let paths = names::cgroups(&self.root);
        let recent = Recent {
            span_ns: now_ns.saturating_sub(before.at_ns),
            ops: before.ops,
            processes: rows(&now.processes, &before.processes, |pid| {
                let comm = self.root.text(format!("/proc/{pid}/comm"));
                let thread = || threads.iter().find(|thread| thread.pid == *pid);
                comm.map(|name| name.trim_end().to_owned())
                    .or_else(|| thread().map(|thread| thread.name.clone()))
                    .unwrap_or_default()
            }),
            files: rows(&now.files, &before.files, |key| names.path(key, &files[key])),
            cgroups: rows(&now.cgroups, &before.cgroups, |id| {
                paths.get(id).cloned().unwrap_or_else(|| format!("cgroup number {id}"))
            }),
        };
        self.recent = Some(now);
        Ok(recent)
    }
}

fn done_by_thread(thread: &ThreadRun) -> Done {
    Done {
        requests: thread.reads + thread.writes + thread.others,
        read_bytes: thread.read_bytes,
        write_bytes: thread.write_bytes,
        syncs: thread.syncs,
    }
}

fn done_to_file(file: &FileUse) -> Done {
    Done {
        requests: file.reads + file.writes,
        read_bytes: file.read(),
        write_bytes: file.written(),
        syncs: 0,
    }
}

fn done_in(cgroup: &CgroupUse) -> Done {
    Done {
        requests: cgroup.requests,
        read_bytes: cgroup.read_bytes,
        write_bytes: cgroup.write_bytes,
        syncs: 0,
    }
}

fn sums<K: Ord>(each: impl Iterator<Item = (K, Done)>) -> BTreeMap<K, Done> {
    let mut sums: BTreeMap<K, Done> = BTreeMap::new();
    each.for_each(|(key, done)| sums.entry(key).or_default().add(&done));
    sums
}

/// Increases since `before`, most bytes first. Only the rows shown are named.
fn rows<K: Ord + Copy>(
    now: &BTreeMap<K, Done>,
    before: &BTreeMap<K, Done>,
    mut name: impl FnMut(&K) -> String,
) -> Vec<Row<K>> {
    let since = now.iter().map(|(key, done)| (*key, done.since(before.get(key))));
    let mut busy: Vec<(K, Done)> = since.filter(|(_, done)| *done != Done::default()).collect();
    busy.sort_by_key(|(_, done)| std::cmp::Reverse((done.bytes(), done.requests, done.syncs)));
    busy.truncate(ROWS);
    busy.into_iter().map(|(key, done)| Row { name: name(&key), key, done }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(requests: u64) -> Done {
        Done { requests, write_bytes: requests * 512, ..Done::default() }
    }

    #[test]
    fn rows_hold_what_happened_since_before_and_the_busiest_come_first() {
        let before = BTreeMap::from([(1, done(5)), (2, done(7)), (3, done(9))]);
        // The second did nothing; the third has left a table and returns with less.
        let now = BTreeMap::from([(1, done(6)), (2, done(7)), (3, done(2)), (4, done(3))]);
        let rows = rows(&now, &before, |key| format!("number {key}"));
        let seen: Vec<(&str, u64)> =
            rows.iter().map(|row| (row.name.as_str(), row.done.requests)).collect();
        assert_eq!(seen, [("number 4", 3), ("number 1", 1)]);
    }

    #[test]
    fn threads_of_a_process_are_one_row() {
        let all = sums([(7, done(1)), (8, done(2)), (7, done(4))].into_iter());
        assert_eq!(all, BTreeMap::from([(7, done(5)), (8, done(2))]));
    }
}
