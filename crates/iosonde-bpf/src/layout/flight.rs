//! Requests in flight.

use super::FilePlace;

shared! {
    /// A request whose completion was not seen yet.
    Flight {
        /// Nonzero if the entry is in use.
        key: u64,
        /// Start, ns.
        start_ns: u64,
        /// Issue, ns; 0 if not issued.
        issue_ns: u64,
        /// Internal.
        file: FilePlace,
        /// Disk.
        disk: u32,
        /// Thread.
        tid: u32,
        /// Size at issue, bytes.
        bytes: u32,
        /// Bytes completed so far.
        done_bytes: u32,
        /// Place of its cgroup's counts; 0 if the table was full.
        cgroup_place: u16,
        /// Internal.
        disk_index: u8,
        /// Place of its slot.
        slot: u8,
        /// Operation.
        op: u8,
        /// Class.
        class: u8,
        /// Whether it bypasses the page cache.
        is_direct: u8,
        /// FUA or flush.
        is_durable: u8,
        /// Whether it was counted at issue.
        is_counted: u8,
        /// Whether a part of it failed.
        has_error: u8,
        /// Internal.
        has_file: u8,
        /// 1 if it was sequential, 2 if strided.
        kind: u8,
        /// Internal.
        phase: u8,
        /// Internal.
        flag: u8,
        /// Internal.
        zero: u16,
    }
}
