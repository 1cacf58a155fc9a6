//! Requests in flight.

use super::FilePlace;

shared! {
    /// A request whose end was not seen yet.
    Flight {
        /// Its place is in use.
        key: u64,
        /// Start, ns.
        start_ns: u64,
        /// Issue, ns; 0 if not issued.
        issue_ns: u64,
        /// Cgroup.
        cgroup: u64,
        /// Internal.
        iocb: u64,
        /// Internal.
        file: FilePlace,
        /// Disk.
        disk: u32,
        /// Internal.
        disk_index: u32,
        /// Its slot.
        slot: u32,
        /// Thread.
        tid: u32,
        /// Operation.
        op: u8,
        /// Class.
        class: u8,
        /// Whether it passes the page cache by.
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
        /// Size at issue, bytes.
        bytes: u32,
        /// Of it, done, bytes.
        done_bytes: u32,
        /// Internal.
        cgroup_place: u32,
        /// Internal.
        phase: u8,
        /// Internal.
        flag: u8,
        /// Internal.
        zero: u16,
    }
}

shared! {
    /// Where a request stands, in cache lines of its own.
    FlightPlace {
        /// The request.
        flight: Flight,
        /// Internal.
        spare: [u64; 4],
    }
}
