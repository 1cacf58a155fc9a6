//! Converts the kernel's counts to the record's types, with lists of bounded length.

use std::collections::BTreeMap;

use iosonde_bpf::layout::bucket_edges;
use iosonde_bpf::{Counts, FileKey, FileUse};

use iosonde_model::record::profile::{
    CallCounts, CgroupRun, Depth, FileRun, OpenCounts, ThreadRun,
};

/// Largest number of files, threads and cgroups listed individually; the others are summed in one
/// entry.
const MOST: usize = 1000;

/// Requests that were counted but whose completion was not seen.
pub(super) const LATENCIES: &str = "latencies of requests whose completion was not traced";

/// A file with its counts.
pub(super) fn file(key: &FileKey, file: &FileUse, path: String, device: String) -> FileRun {
    FileRun {
        path,
        device,
        inode: key.inode,
        reads: file.reads,
        writes: file.writes,
        read_bytes: file.read_bytes,
        write_bytes: file.write_bytes,
        write_back_bytes: file.write_back_bytes,
        direct_bytes: file.direct_bytes,
        sequential: file.sequential,
    }
}

/// The record's depth; the level that lasts until now counts until now.
pub(super) fn levels(depth: &iosonde_bpf::Depth, now_ns: u64) -> Depth {
    let level = |bucket: usize| bucket_edges(bucket).0 as u32;
    let mut time = depth.time_ns;
    if depth.since_ns > 0 {
        let current = (0..time.len()).rfind(|bucket| level(*bucket) as i64 <= depth.level.max(0));
        time[current.unwrap_or(0)] += now_ns.saturating_sub(depth.since_ns);
    }
    let converted = |counts: &[u64]| {
        let occupied = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        occupied.map(|(bucket, count)| (level(bucket), *count)).collect()
    };
    Depth {
        time_ns: converted(&time),
        arrivals: converted(&depth.arrivals),
        max: depth.max as u32,
        area_ns: depth.area_ns,
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
        ("requests of files: too many files", counts.lost_files),
        ("requests of cgroups: too many cgroups", counts.lost_cgroups),
        ("syncs", counts.lost_syncs),
        (LATENCIES, counts.lost_ends),
    ];
    let converted = each.into_iter().filter(|(_, count)| *count > 0);
    converted.map(|(what, count)| (what.to_owned(), count)).collect()
}

/// The busiest files, and one entry for the others.
pub(super) fn files(files: Vec<FileRun>) -> Vec<FileRun> {
    bounded(files, |rest, file| {
        *rest = FileRun {
            path: "further files".into(),
            device: String::new(),
            inode: 0,
            reads: rest.reads + file.reads,
            writes: rest.writes + file.writes,
            read_bytes: rest.read_bytes + file.read_bytes,
            write_bytes: rest.write_bytes + file.write_bytes,
            write_back_bytes: rest.write_back_bytes + file.write_back_bytes,
            direct_bytes: rest.direct_bytes + file.direct_bytes,
            sequential: rest.sequential + file.sequential,
        };
    })
}

/// The busiest threads, and one entry for the others, which belongs to the program only if all of
/// them do.
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
    })
}

/// The first entries of a list; the rest is added to the last one.
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
    use super::*;

    #[test]
    fn what_does_not_fit_is_added_up() {
        let file = |number: u64| FileRun {
            path: number.to_string(),
            reads: 1,
            read_bytes: 512,
            ..FileRun::default()
        };
        let kept = files((0..1500).map(file).collect());
        assert_eq!(kept.len(), MOST);
        let rest = kept.last().cloned().unwrap_or_default();
        assert_eq!(
            (rest.path.as_str(), rest.reads, rest.read_bytes),
            ("further files", 501, 501 * 512)
        );
        assert_eq!(files((0..1000).map(file).collect()).len(), 1000);
    }

    #[test]
    fn the_level_that_lasts_counts_until_the_end() {
        let mut depth = iosonde_bpf::Depth {
            level: 2,
            since_ns: 900,
            area_ns: 7,
            max: 3,
            time_ns: [0; iosonde_bpf::layout::DEPTH_BUCKETS],
            arrivals: [0; iosonde_bpf::layout::DEPTH_BUCKETS],
        };
        depth.time_ns[0] = 50;
        depth.arrivals[1] = 4;
        let converted = levels(&depth, 1000);
        assert_eq!(converted.time_ns, [(0, 50), (2, 100)]);
        assert_eq!(converted.arrivals, [(1, 4)]);
        depth.since_ns = 0;
        assert_eq!(levels(&depth, 1000).time_ns, [(0, 50)]);
    }
}
