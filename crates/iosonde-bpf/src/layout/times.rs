//! Latencies of files and cgroups.

use super::{COARSE_BUCKETS, Flight};

shared! {
    /// Latencies of reads, and of writes.
    Times {
        /// Internal.
        since_ns: u64,
        /// Sums, ns.
        sum_ns: [u64; 2],
        /// Histograms, see [`super::coarse_edges`].
        time: [[u32; COARSE_BUCKETS]; 2],
    }
}

impl Times {
    /// No requests.
    pub const NONE: Times = Times { since_ns: 0, sum_ns: [0; 2], time: [[0; COARSE_BUCKETS]; 2] };
}

shared! {
    /// Counts of a cgroup, on one CPU or on all.
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
    /// No requests.
    pub const NONE: CgroupUse =
        CgroupUse { requests: 0, read_bytes: 0, write_bytes: 0, times: Times::NONE };

    /// Adds the counts of another CPU.
    #[must_use]
    pub fn and(mut self, other: &CgroupUse) -> CgroupUse {
        self.requests += other.requests;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        for (sum, more) in self.times.sum_ns.iter_mut().zip(other.times.sum_ns) {
            *sum += more;
        }
        let buckets = self.times.time.as_flattened_mut().iter_mut();
        for (count, more) in buckets.zip(other.times.time.as_flattened()) {
            *count += more;
        }
        self
    }

    /// Counts a request that must have ended, without a latency.
    pub fn add_unseen(&mut self, flight: &Flight) {
        self.requests += 1;
        match flight.op {
            0 => self.read_bytes += u64::from(flight.bytes),
            _ => self.write_bytes += u64::from(flight.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cgroup_did_on_each_cpu_is_added() {
        let mut cpu = CgroupUse { requests: 2, read_bytes: 512, ..CgroupUse::NONE };
        cpu.times.sum_ns[0] = 2000;
        cpu.times.time[1][7] = 2;
        let other = CgroupUse { requests: 1, write_bytes: 4096, ..cpu };
        let sum = CgroupUse::NONE.and(&cpu).and(&other);
        assert_eq!((sum.requests, sum.read_bytes, sum.write_bytes), (3, 1024, 4096));
        assert_eq!((sum.times.sum_ns, sum.times.time[1][7]), ([4000, 0], 4));
    }
}
