//! System calls of the program: syncs, opens, reads and writes.

use serde::{Deserialize, Serialize};

use iosonde_stats::Histogram;

words! {
    /// A kind of call that makes data durable, in the order of reports.
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
    /// Calls that returned an error.
    pub errors: u64,
    /// Duration of the calls, ns.
    pub latency: Histogram,
    /// Breakdown of that time; `None` in records of earlier versions.
    pub phases: Option<SyncPhases>,
}

/// Time of sync calls by the requests in flight. If there are several kinds, the last of these
/// counts, so that the sum of the three does not exceed the whole. The rest is other waiting.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SyncPhases {
    /// Writes of the program's data, ns.
    pub data_ns: u64,
    /// Writes of journals and metadata, ns.
    pub journal_ns: u64,
    /// Flushes of the devices' caches, ns.
    pub flush_ns: u64,
}

/// Page cache use of the program's read calls, without direct ones. Pages of memory-mapped files
/// are not included.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct PageCache {
    /// Size of a page, bytes.
    pub page_bytes: u64,
    /// Pages looked up by read calls, repeated look-ups included.
    pub looked_up_pages: u64,
    /// Pages added to the cache by the reading threads, read-ahead included.
    pub brought_in_pages: u64,
}

/// How files were opened, and flags that were set later.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct OpenCounts {
    /// Calls of open, openat, openat2 and creat.
    pub opens: u64,
    /// Calls of these and of fcntl(F_SETFL) with O_DIRECT.
    pub direct: u64,
    /// With O_SYNC.
    pub sync: u64,
    /// With O_DSYNC but not O_SYNC.
    pub dsync: u64,
}

/// Read and write calls of every kind, as accounted by the kernel per process: files, sockets and
/// pipes together.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CallCounts {
    /// Read calls.
    pub reads: u64,
    /// Write calls.
    pub writes: u64,
    /// Bytes returned by read calls.
    pub read_bytes: u64,
    /// Bytes passed to write calls.
    pub written_bytes: u64,
    /// Bytes fetched from storage.
    pub storage_read_bytes: u64,
    /// Bytes caused to be written to storage.
    pub storage_write_bytes: u64,
    /// Of those, bytes of pages that were truncated before they were written.
    pub cancelled_bytes: u64,
}
