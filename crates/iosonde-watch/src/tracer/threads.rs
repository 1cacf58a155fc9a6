//! Threads: those in the kernel's table, and those removed from it after they ended.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use iosonde_bpf::{Collector, Thread};

use iosonde_model::record::profile::{PageCache, ThreadRun};

/// Largest number of ended threads kept individually; others are summed by name.
const KEPT: usize = 2000;
/// Largest number of such names; threads with other names are counted as [`NAMELESS`].
const NAMES: usize = 1000;
const NAMELESS: &str = "other threads";

/// Threads that are no longer in the kernel's table.
#[derive(Debug, Default)]
pub(super) struct Ended {
    kept: Vec<ThreadRun>,
    by_name: BTreeMap<(String, bool), ThreadRun>,
    /// Threads of the program by group.
    groups: BTreeMap<u16, u32>,
    /// Sum over all ended threads.
    page_cache: PageCache,
}

/// Every thread with traffic, busiest first, and totals over all threads.
#[derive(Debug)]
pub(super) struct Threads {
    pub(super) runs: Vec<ThreadRun>,
    /// Number of threads per group.
    pub(super) groups: BTreeMap<u16, u32>,
    pub(super) page_cache: PageCache,
}

impl Ended {
    /// Removes ended threads from the kernel's table.
    pub(super) fn harvest(&mut self, collector: &mut Collector) -> Result<(), String> {
        for thread in collector.threads()?.into_iter().filter(|thread| thread.ended_ns > 0) {
            if let Some(thread) = collector.take_thread(thread.tid)? {
                self.add(&thread);
            }
        }
        Ok(())
    }

    fn add(&mut self, thread: &Thread) {
        self.page_cache.looked_up_pages += thread.looked_up;
        self.page_cache.brought_in_pages += thread.brought_in;
        if !has_traffic(thread) {
            return;
        }
        if thread.of_program == 1 {
            *self.groups.entry(thread.group).or_default() += 1;
        }
        let one = converted(thread);
        if self.kept.len() < KEPT {
            return self.kept.push(one);
        }
        let mut key = (one.name.clone(), one.of_program);
        if self.by_name.len() >= NAMES && !self.by_name.contains_key(&key) {
            key.0 = NAMELESS.into();
        }
        let one = ThreadRun { name: key.0.clone(), ..one };
        match self.by_name.entry(key) {
            Entry::Vacant(place) => drop(place.insert(ThreadRun { tid: None, pid: 0, ..one })),
            Entry::Occupied(mut rest) => add(rest.get_mut(), &one),
        }
    }

    /// Every thread with traffic so far, unordered.
    pub(super) fn so_far(&self, collector: &Collector) -> Result<Vec<ThreadRun>, String> {
        let running = collector.threads()?;
        let running = running.iter().filter(|thread| has_traffic(thread)).map(converted);
        let ended = self.kept.iter().chain(self.by_name.values()).cloned();
        Ok(running.chain(ended).collect())
    }

    pub(super) fn finish(mut self, collector: &Collector) -> Threads {
        for thread in collector.threads().unwrap_or_default() {
            self.add(&thread);
        }
        let mut threads = self.kept;
        threads.extend(self.by_name.into_values());
        threads.sort_by_key(|thread| {
            let bytes = thread.read_bytes + thread.write_bytes;
            (std::cmp::Reverse((thread.of_program, bytes, thread.syncs)), thread.tid)
        });
        Threads { runs: threads, groups: self.groups, page_cache: self.page_cache }
    }
}

fn has_traffic(thread: &Thread) -> bool {
    thread.reads + thread.writes + thread.others + thread.syncs > 0
}

fn converted(thread: &Thread) -> ThreadRun {
    ThreadRun {
        name: name(&thread.comm),
        tid: Some(thread.tid),
        pid: thread.tgid,
        of_program: thread.of_program == 1,
        of_kernel: thread.of_kernel == 1,
        reads: thread.reads,
        writes: thread.writes,
        others: thread.others,
        read_bytes: thread.read_bytes,
        write_bytes: thread.write_bytes,
        sequential: thread.sequential,
        syncs: thread.syncs,
        sync_ns: thread.sync_ns,
    }
}

/// Adds the counts of `one` to `sum`.
pub(super) fn add(sum: &mut ThreadRun, one: &ThreadRun) {
    sum.reads += one.reads;
    sum.writes += one.writes;
    sum.others += one.others;
    sum.read_bytes += one.read_bytes;
    sum.write_bytes += one.write_bytes;
    sum.sequential += one.sequential;
    sum.syncs += one.syncs;
    sum.sync_ns += one.sync_ns;
}

/// A name of a thread or file as the kernel stores it: up to the first zero.
pub(super) fn name(bytes: &[u8]) -> String {
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, writes: u64) -> Thread {
        Thread {
            tid,
            tgid: tid,
            generation: 0,
            group: 1,
            of_program: 1,
            of_kernel: 0,
            comm: *b"two words\0\0\0\0\0\0\0",
            reads: 0,
            writes,
            others: 0,
            read_bytes: 0,
            write_bytes: writes * 512,
            sequential: 0,
            syncs: 0,
            sync_ns: 0,
            sync_since_ns: 0,
            sync_phase_ns: [0; 3],
            ended_ns: 1,
            streams: [0; 12],
            last_sector: 0,
            last_distance: 0,
            next_new: 0,
            next_kept: 0,
            inode: 0,
            file: iosonde_bpf::FileKey::default(),
            file_place: iosonde_bpf::FilePlace::default(),
            call_ns: 0,
            posted_ns: 0,
            wait_since_ns: 0,
            disk: 0,
            disk_index: 0,
            slot_key: iosonde_bpf::SlotKey { disk: 0, op: 0, class: 0, group: 0 },
            slot: 0,
            cgroup_place: 0,
            cgroup: 0,
            looked_up: 0,
            brought_in: 0,
            read: [0; 3],
            added: [0; 4],
        }
    }

    #[test]
    fn many_threads_stay_bounded_and_lose_nothing() {
        let mut ended = Ended::default();
        (0..3000).for_each(|tid| ended.add(&thread(tid, 2)));
        ended.add(&Thread { looked_up: 70, brought_in: 7, ..thread(5000, 0) });
        assert_eq!((ended.kept.len(), ended.by_name.len()), (KEPT, 1));
        let rest = &ended.by_name[&("two words".to_owned(), true)];
        assert_eq!((rest.tid, rest.writes, rest.write_bytes), (None, 2000, 1_024_000));
        assert_eq!(ended.groups[&1], 3000);
        // A thread whose reads are all served from the page cache makes no request.
        let PageCache { looked_up_pages, brought_in_pages, .. } = ended.page_cache;
        assert_eq!((looked_up_pages, brought_in_pages), (70, 7));
    }

    #[test]
    fn many_names_stay_bounded_too() {
        let mut ended = Ended::default();
        for tid in 0..5000 {
            let mut comm = [0; 16];
            comm[..4].copy_from_slice(format!("{tid:04}").as_bytes());
            ended.add(&Thread { comm, ..thread(tid, 1) });
        }
        assert_eq!((ended.kept.len(), ended.by_name.len()), (KEPT, NAMES + 1));
        let rest = &ended.by_name[&(NAMELESS.to_owned(), true)];
        assert_eq!((rest.name.as_str(), rest.writes), (NAMELESS, 2000));
    }
}
