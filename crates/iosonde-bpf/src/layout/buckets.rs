//! The buckets of histograms.

/// Smallest and largest number of units in a bucket.
///
/// Each number below 64 has its own bucket; above, each octave has 32.
pub fn bucket_edges(bucket: usize) -> (u64, u64) {
    edges(bucket, 5)
}

/// The bucket of a number of units.
pub fn bucket_of(units: u64) -> usize {
    if units < 64 {
        return units as usize;
    }
    let top = units.ilog2() as usize;
    64 + (top - 6) * 32 + (units >> (top - 5) & 31) as usize
}

/// [`bucket_edges`] for the buckets of files and cgroups: each number below 16 has its own; above,
/// each octave has 8.
pub fn coarse_edges(bucket: usize) -> (u64, u64) {
    edges(bucket, 3)
}

/// Edges if an octave has `1 << parts` buckets; numbers below `2 << parts` have one each.
fn edges(bucket: usize, parts: u32) -> (u64, u64) {
    let in_octave = 1usize << parts;
    if bucket < 2 * in_octave {
        return (bucket as u64, bucket as u64);
    }
    let (octave, part) =
        ((bucket - 2 * in_octave) / in_octave, (bucket - 2 * in_octave) % in_octave);
    let width = 2u64 << octave;
    let low = (in_octave + part) as u64 * width;
    (low, low + width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{COARSE_BUCKETS, COARSE_SHIFT, TIME_BUCKETS};

    #[test]
    fn buckets_adjoin_and_are_narrow() {
        let mut next = 0;
        for bucket in 0..TIME_BUCKETS {
            let (low, high) = bucket_edges(bucket);
            assert_eq!(low, next, "bucket {bucket}");
            assert!(high - low <= low / 32, "bucket {bucket}: {low} to {high}");
            assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket));
            next = high + 1;
        }
        assert_eq!(next, 1 << 31);
    }

    #[test]
    fn coarse_buckets_adjoin_and_reach_to_seventeen_seconds() {
        let mut next = 0;
        for bucket in 0..COARSE_BUCKETS {
            let (low, high) = coarse_edges(bucket);
            assert_eq!(low, next, "bucket {bucket}");
            assert!(high - low <= low / 8, "bucket {bucket}: {low} to {high}");
            next = high + 1;
        }
        assert_eq!(next << COARSE_SHIFT, 1 << 34);
    }
}
