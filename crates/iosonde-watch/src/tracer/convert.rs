//! Converts the kernel's counts to the record's types, with lists of bounded length.

use std::collections::BTreeMap;

use iosonde_bpf::layout::{DEPTH_BUCKETS, bucket_edges, bucket_of};
use iosonde_bpf::{CgroupUse, Counts, FileKey, Levels};

use super::files::Done;
use super::times::Sums;

use iosonde_model::record::profile::{
    CallCounts, CgroupRun, Depth, FileRun, OpenCounts, ThreadRun,
};

/// Largest number of files, threads and cgroups listed individually; the others are summed in one
/// entry.
pub(super) const MOST: usize = 1000;

/// Requests that were counted but whose completion was not seen.
pub(super) const LATENCIES: &str = "latencies of requests whose completion was not traced";

/// A file with its counts.
pub(super) fn file(key: &FileKey, file: &Done, path: String, device: String) -> FileRun {
    let [read_latency, write_latency] = file.times.histograms();
    let file = &file.counts;
    FileRun {
        path,
        device,
        inode: key.inode,
        reads: file.reads,
        writes: file.writes,
        read_bytes: file.read(),
        write_bytes: file.written(),
        write_back_bytes: file.write_back_bytes,
        direct_bytes: file.direct(),
        sequential: file.sequential,
        read_latency,
        write_latency,
    }
}

/// A cgroup with its counts.
pub(super) fn cgroup(used: &CgroupUse, path: String) -> CgroupRun {
    let [read_latency, write_latency] = Sums::of(&used.times).histograms();
    CgroupRun {
        path,
        requests: used.requests,
        read_bytes: used.read_bytes,
        write_bytes: used.write_bytes,
        read_latency,
        write_latency,
    }
}

/// The record's depth from each CPU's counts, plus the current level and its duration.
/// `latencies_ns` is the sum over completed requests, without merged ones.
pub(super) fn levels(cpus: &[&Levels], (level, lasts_ns): (u32, u64), latencies_ns: u64) -> Depth {
    let sum = |of: fn(&Levels) -> &[u64; DEPTH_BUCKETS]| {
        let mut sum = [0; DEPTH_BUCKETS];
        cpus.iter()
            .for_each(|cpu| sum.iter_mut().zip(of(cpu)).for_each(|(sum, more)| *sum += more));
        sum
    };
    let mut time = sum(|cpu| &cpu.time_ns);
    time[bucket_of(u64::from(level)).min(DEPTH_BUCKETS - 1)] += lasts_ns;
    let converted = |counts: &[u64]| {
        let occupied = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        occupied.map(|(bucket, count)| (bucket_edges(bucket).0 as u32, *count)).collect()
    };
    Depth {
        time_ns: converted(&time),
        arrivals: converted(&sum(|cpu| &cpu.arrivals)),
        max: cpus.iter().map(|cpu| cpu.max).max().unwrap_or(0) as u32,
        area_ns: latencies_ns + cpus.iter().map(|cpu| cpu.merged_ns).sum::<u64>(),
    }
}

pub(super) fn opens(counts: &Counts) -> OpenCounts {
    OpenCounts {
        opens: counts.opens,
        direct: counts.open_direct,
        sync: counts.open_sync,
        dsync: counts.open_dsync,
    }
}

pub(super) fn calls(counts: &Counts) -> CallCounts {
    CallCounts {
        reads: counts.calls_read,
        writes: counts.calls_write,
        read_bytes: counts.bytes_read,
        written_bytes: counts.bytes_written,
        storage_read_bytes: counts.storage_read,
        storage_write_bytes: counts.storage_written,
        cancelled_bytes: counts.cancelled,
    }
}

pub(super) fn losses(counts: &Counts) -> BTreeMap<String, u64> {
    let each = [
        ("requests: too many were in flight", counts.lost_flights),
        ("requests: too many thread groups and disks", counts.lost_slots),
        ("requests of threads: too many threads", counts.lost_threads),
        ("requests of cgroups: too many cgroups", counts.lost_cgroups),
        ("syncs", counts.lost_syncs),
        ("stacks: too many", counts.lost_stacks),
        (LATENCIES, counts.lost_ends),
    ];
    let converted = each.into_iter().filter(|(_, count)| *count > 0);
    converted.map(|(what, count)| (what.to_owned(), count)).collect()
}

/// The sum of unlisted files; `None` if there are none.
pub(super) fn further_files<'a>(files: impl Iterator<Item = &'a Done>) -> Option<FileRun> {
    let mut rest = Done::none();
    files.for_each(|more| rest.add(more));
    let requests = rest.counts.reads + rest.counts.writes;
    let of_none = FileKey::default();
    (requests > 0).then(|| file(&of_none, &rest, "further files".into(), String::new()))
}

/// The busiest threads, and one entry for the others. It belongs to the program only if all of them
/// do.
pub(super) fn threads(threads: Vec<ThreadRun>) -> Vec<ThreadRun> {
    bounded(threads, |rest, thread| {
        rest.name = "further threads".into();
        rest.tid = None;
        rest.pid = 0;
        rest.of_program &= thread.of_program;
        rest.of_kernel &= thread.of_kernel;
        super::threads::add(rest, &thread);
    })
}

/// The busiest cgroups, and one entry for the others.
pub(super) fn cgroups(cgroups: Vec<CgroupRun>) -> Vec<CgroupRun> {
    bounded(cgroups, |rest, used| {
        rest.path = "further cgroups".into();
        rest.requests += used.requests;
        rest.read_bytes += used.read_bytes;
        rest.write_bytes += used.write_bytes;
        rest.read_latency.merge(&used.read_latency);
        rest.write_latency.merge(&used.write_latency);
    })
}

/// Truncates a list to [`MOST`] entries; the last one sums the rest.
fn bounded<T>(mut list: Vec<T>, add: impl Fn(&mut T, T)) -> Vec<T> {
    if list.len() <= MOST {
        return list;
    }
    let mut rest = list.split_off(MOST - 1).into_iter();
    if let Some(mut sum) = rest.next() {
        rest.for_each(|entry| add(&mut sum, entry));
        list.push(sum);
    }
    list
}

#[cfg(test)]
mod tests {
    use iosonde_bpf::FileUse;

    use super::*;

    #[test]
    fn what_does_not_fit_is_added_up() {
        let cgroup = |number: u64| CgroupRun {
            path: number.to_string(),
            requests: 1,
            read_bytes: 512,
            ..CgroupRun::default()
        };
        let kept = cgroups((0..1500).map(cgroup).collect());
        assert_eq!(kept.len(), MOST);
        let rest = kept.last().cloned().unwrap_or_default();
        assert_eq!(
            (rest.path.as_str(), rest.requests, rest.read_bytes),
            ("further cgroups", 501, 501 * 512)
        );
        assert_eq!(cgroups((0..1000).map(cgroup).collect()).len(), 1000);
        let counts = FileUse { reads: 1, read_bytes: [512, 0], ..FileUse::NONE };
        let file = Done { counts, times: Sums::default() };
        let rest = further_files([&file, &file].into_iter()).unwrap_or_default();
        assert_eq!((rest.path.as_str(), rest.reads, rest.read_bytes), ("further files", 2, 1024));
        assert_eq!(further_files([].into_iter()), None);
    }

    #[test]
    fn the_level_that_lasts_counts_until_the_end() {
        let mut cpu = Levels { max: 3, merged_ns: 7, ..Levels::NONE };
        cpu.time_ns[0] = 50;
        cpu.arrivals[1] = 4;
        let other = Levels { max: 2, ..cpu };
        let converted = levels(&[&cpu, &other], (2, 100), 30);
        assert_eq!(converted.time_ns, [(0, 100), (2, 100)]);
        assert_eq!((converted.arrivals, converted.max), (vec![(1, 8)], 3));
        assert_eq!(converted.area_ns, 44);
        assert_eq!(levels(&[&cpu], (2, 0), 0).time_ns, [(0, 50)]);
    }
}
