//! Threads, files and cgroups with their rates.

use serde::Serialize;

use iosonde_model::record::profile::{CgroupRun, FileRun, ProfileRun, ThreadRun};

use super::spread::Latency;
use super::traffic::{per_second, share};

#[derive(Clone, Debug, PartialEq)]
pub struct ThreadFigures {
    /// Counts of the thread.
    pub thread: ThreadRun,
    pub requests_per_s: f64,
    /// Share of its reads and writes that were sequential.
    pub sequential_share: Option<f64>,
    /// Time in sync calls over the time measured.
    pub sync_share: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FileFigures {
    /// Counts of the file.
    pub file: FileRun,
    /// Share of its requests that were sequential.
    pub sequential_share: Option<f64>,
    /// Share of the bytes written that write-back wrote.
    pub write_back_share: Option<f64>,
    /// Latency of its reads.
    pub read_ns: Latency,
    /// Latency of its writes.
    pub write_ns: Latency,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CgroupFigures {
    /// Counts of the cgroup.
    pub cgroup: CgroupRun,
    /// Latency of its reads.
    pub read_ns: Latency,
    /// Latency of its writes.
    pub write_ns: Latency,
}

/// Number of threads that did I/O.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct ThreadCounts {
    pub of_program: u32,
    pub of_kernel: u32,
    /// Threads of other programs.
    pub others: u32,
    /// Whether there were more threads than can be listed.
    pub at_least: bool,
}

/// Every thread, in the order of the record.
pub(super) fn threads(run: &ProfileRun) -> Vec<ThreadFigures> {
    let figures = |thread: &ThreadRun| {
        // The program ended; the others were profiled until the end of settling.
        let settle_ns = if thread.of_program { 0 } else { run.settle_ns };
        ThreadFigures {
            requests_per_s: per_second(thread.reads + thread.writes, run.measured_ns + settle_ns),
            sequential_share: share(thread.sequential, thread.reads + thread.writes),
            sync_share: share(thread.sync_ns, run.measured_ns),
            thread: thread.clone(),
        }
    };
    run.threads.iter().map(figures).collect()
}

/// Counts the threads with requests.
pub(super) fn counts(run: &ProfileRun) -> ThreadCounts {
    let mut counts = ThreadCounts::default();
    for thread in &run.threads {
        if thread.reads + thread.writes + thread.others == 0 {
            continue;
        }
        let slot = match (thread.of_program, thread.of_kernel) {
            (true, _) => &mut counts.of_program,
            (false, true) => &mut counts.of_kernel,
            (false, false) => &mut counts.others,
        };
        *slot += 1;
        counts.at_least |= thread.tid.is_none();
    }
    counts
}

/// Every file, in the order of the record.
pub(super) fn files(run: &ProfileRun) -> Vec<FileFigures> {
    let figures = |file: &FileRun| FileFigures {
        sequential_share: share(file.sequential, file.reads + file.writes),
        write_back_share: share(file.write_back_bytes, file.write_bytes),
        read_ns: Latency::of(&file.read_latency),
        write_ns: Latency::of(&file.write_latency),
        file: file.clone(),
    };
    run.files.iter().map(figures).collect()
}

/// Every cgroup, in the order of the record.
pub(super) fn cgroups(run: &ProfileRun) -> Vec<CgroupFigures> {
    let figures = |cgroup: &CgroupRun| CgroupFigures {
        read_ns: Latency::of(&cgroup.read_latency),
        write_ns: Latency::of(&cgroup.write_latency),
        cgroup: cgroup.clone(),
    };
    run.cgroups.iter().map(figures).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::profile::database;

    #[test]
    fn threads_and_files_of_a_known_profile() {
        let mut run = database();
        let threads = threads(&run);
        assert_eq!(threads[0].thread.name, "log writer");
        assert_eq!(threads[0].requests_per_s, 2_000.0);
        assert_eq!(threads[0].sequential_share, Some(0.99));
        assert_eq!(threads[0].sync_share, Some(0.91));
        let expected = ThreadCounts { of_program: 2, of_kernel: 2, others: 1, at_least: false };
        assert_eq!(counts(&run), expected);
        run.threads[0].tid = None;
        assert!(counts(&run).at_least);
        let shares: Vec<Option<f64>> =
            files(&run).iter().map(|file| file.write_back_share).collect();
        assert_eq!(shares, [Some(0.0), None, Some(1.0)]);
    }
}
