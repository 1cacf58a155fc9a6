//! What the program asked of the kernel by system calls: syncs, opens, reads and writes.

use serde::{Deserialize, Serialize};

use iosonde_stats::Histogram;

words! {
    /// A kind of call that makes data durable. In the order of reports.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SyncKind {
        /// fsync(2).
        Fsync => "fsync",
        /// fdatasync(2).
        Fdatasync => "fdatasync",
        /// sync_file_range(2).
        SyncFileRange => "sync_file_range",
        /// msync(2).
        Msync => "msync",
        /// sync(2).
        Sync => "sync",
        /// syncfs(2).
        Syncfs => "syncfs",
        /// IORING_OP_FSYNC and IORING_OP_SYNC_FILE_RANGE.
        IoUring => "io_uring fsync",
    }
}

/// All calls of one kind by one thread group.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SyncRun {
    pub kind: SyncKind,
    /// Index into [`ProfileRun::groups`].
    pub group: u32,
    /// Calls that returned.
    pub calls: u64,
    /// Of those, with an error.
    pub errors: u64,
    /// From call to return, ns.
    pub latency: Histogram,
    /// Where that time went; `None` in records of earlier versions.
    pub phases: Option<SyncPhases>,
}

/// Time of sync calls by what was in flight meanwhile. Where several were, the last of these
/// counts, so that the three add up to no more than the whole; the rest is waiting for anything
/// else.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SyncPhases {
    /// Writes of the program's data, ns.
    pub data_ns: u64,
    /// Writes of journals and metadata, ns.
    pub journal_ns: u64,
    /// Flushes of the devices' caches, ns.
    pub flush_ns: u64,
}

/// Read calls of the program at the page cache, direct ones apart. Pages of memory-mapped files are
/// not in it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct PageCache {
    /// Size of a page, bytes.
    pub page_bytes: u64,
    /// Pages that read calls looked up, each time anew.
    pub looked_up_pages: u64,
    /// Pages that the reading threads brought in, with those read ahead.
    pub brought_in_pages: u64,
}

/// How files were opened, and flags set later.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct OpenCounts {
    /// Calls of open, openat, openat2 and creat.
    pub opens: u64,
    /// Of those and of fcntl(F_SETFL), with O_DIRECT.
    pub direct: u64,
    /// With O_SYNC.
    pub sync: u64,
    /// With O_DSYNC and not O_SYNC.
    pub dsync: u64,
}

/// Read and write calls of every kind, as the kernel accounts them per process: all files, sockets
/// and pipes together.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CallCounts {
    /// Read calls.
    pub reads: u64,
    /// Write calls.
    pub writes: u64,
    /// Bytes asked by read calls and given.
    pub read_bytes: u64,
    /// Bytes given by write calls.
    pub written_bytes: u64,
    /// Bytes fetched from storage.
    pub storage_read_bytes: u64,
    /// Bytes caused to be written to storage.
    pub storage_write_bytes: u64,
    /// Of those, bytes of pages that were truncated before they were written.
    pub cancelled_bytes: u64,
}
