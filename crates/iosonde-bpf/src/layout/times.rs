//! Latencies of files and cgroups.

use super::{COARSE_BUCKETS, Flight};

shared! {
    /// Latencies of reads, and of writes.
    Times {
        /// Their sums, ns.
        sum_ns: [u64; 2],
        /// Histograms, see [`super::coarse_edges`].
        time: [[u32; COARSE_BUCKETS]; 2],
    }
}

impl Times {
    /// Of no request.
    pub const NONE: Times = Times { sum_ns: [0; 2], time: [[0; COARSE_BUCKETS]; 2] };
}

shared! {
    /// What a cgroup did.
    CgroupUse {
        /// Requests that ended.
        requests: u64,
        /// Bytes read.
        read_bytes: u64,
        /// Bytes written.
        write_bytes: u64,
        /// Latencies.
        times: Times,
    }
}

impl CgroupUse {
    /// Of no request.
    pub const NONE: CgroupUse =
        CgroupUse { requests: 0, read_bytes: 0, write_bytes: 0, times: Times::NONE };

    /// Counts a request that must have ended: its latency is not known.
    pub fn add_unseen(&mut self, flight: &Flight) {
        self.requests += 1;
        match flight.op {
            0 => self.read_bytes += u64::from(flight.bytes),
            _ => self.write_bytes += u64::from(flight.bytes),
        }
    }
}
