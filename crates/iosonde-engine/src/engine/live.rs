//! Live figures of a run: rates and latencies by role.
//!
//! When an interval ends and moves into its series, a job adds its latencies to its own counts, and
//! copies these to its lane at the next look at the clock. Nothing of this is in the hot loop. The
//! supervising thread reads the lanes a few times a second.

use std::sync::atomic::{AtomicU64, Ordering};

use super::steer::Lane;
use iosonde_model::plan::Plan;
use iosonde_stats::histogram;

/// Buckets in an octave: a percentile is known to 9 %.
const PER_OCTAVE: usize = 8;
/// Octaves, from 1 ns to 18 minutes.
const OCTAVES: usize = 40;
/// Buckets of a live latency distribution.
const LIVE_BUCKETS: usize = PER_OCTAVE * OCTAVES;

/// How often the supervising thread reads the lanes, ns.
pub(super) const READ_NS: u64 = 250_000_000;

/// The bucket of a latency.
fn bucket(ns: u64) -> usize {
    let octave = (63 - ns.max(1).leading_zeros()) as usize;
    let within = match octave {
        0..3 => (ns.max(1) as usize - (1 << octave)) << (3 - octave),
        _ => (ns >> (octave - 3)) as usize - PER_OCTAVE,
    };
    (octave * PER_OCTAVE + within).min(LIVE_BUCKETS - 1)
}

/// The middle of a bucket, ns.
fn middle_ns(bucket: usize) -> u64 {
    let (octave, within) = (bucket / PER_OCTAVE, bucket % PER_OCTAVE);
    let width = (1u64 << octave) as f64 / PER_OCTAVE as f64;
    ((1u64 << octave) as f64 + (within as f64 + 0.5) * width) as u64
}

/// Latencies of one job since its window opened, in its own memory.
#[derive(Debug)]
pub(super) struct LiveCounts {
    counts: Box<[u64; LIVE_BUCKETS]>,
    /// Whether they have changed since they were published.
    is_new: bool,
}

impl LiveCounts {
    pub(super) fn new() -> LiveCounts {
        LiveCounts { counts: Box::new([0; LIVE_BUCKETS]), is_new: false }
    }

    /// Adds an interval: pairs of a bucket of the full histogram and a count.
    pub(super) fn add(&mut self, interval: &[(u32, u64)]) {
        for (index, count) in interval {
            self.counts[bucket(histogram::lower_edge(*index as usize))] += count;
        }
        self.is_new |= !interval.is_empty();
    }

    /// Copies the counts to where other threads can read them, if they have changed.
    pub(super) fn publish(&mut self, to: &LiveLatency) {
        if !std::mem::take(&mut self.is_new) {
            return;
        }
        for (own, shared) in self.counts.iter().zip(&*to.0) {
            shared.store(*own, Ordering::Relaxed);
        }
    }
}

/// The same counts, for other threads to read.
#[derive(Debug)]
pub(super) struct LiveLatency(Box<[AtomicU64]>);

impl Default for LiveLatency {
    fn default() -> LiveLatency {
        LiveLatency((0..LIVE_BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

/// What the jobs of one role have done since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoleCounts {
    /// Name of the role.
    pub role: String,
    /// Operations completed, warm-up included.
    pub ops: u64,
    /// Bytes moved, warm-up included.
    pub bytes: u64,
    /// When these were counted, since the start, ns.
    pub counted_ns: u64,
    /// Latencies of the measured window, up to the last full interval.
    latency: Vec<u64>,
}

impl RoleCounts {
    /// Percentiles of the latencies added since earlier counts of the same role; `None` where fewer
    /// than ten are above it.
    pub fn quantiles_since<const N: usize>(
        &self,
        earlier: Option<&RoleCounts>,
        quantiles: [f64; N],
    ) -> [Option<u64>; N] {
        let before = earlier.map_or(&[][..], |earlier| &earlier.latency);
        let counts: Vec<u64> = self
            .latency
            .iter()
            .enumerate()
            .map(|(at, count)| count.saturating_sub(before.get(at).copied().unwrap_or(0)))
            .collect();
        let all: u64 = counts.iter().sum();
        quantiles.map(|q| {
            if (all as f64) * (1.0 - q) < 10.0 {
                return None;
            }
            let rank = (all as f64 * q).ceil() as u64;
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            found.map(middle_ns)
        })
    }

    /// Whether latencies were added since earlier counts.
    pub fn has_new_latencies(&self, earlier: &RoleCounts) -> bool {
        self.latency != earlier.latency
    }
}

/// A job that has published nothing for this long is in a call, has ended or has not begun: its
/// counts have not changed since.
const CURRENT_NS: u64 = 200_000_000;

/// Mean time at which these lanes were updated. Counts of a running job are up to a tenth of a
/// second old; without this, a rate over a quarter of a second would cover two or three tenths.
pub(super) fn counted_ns<'a>(lanes: impl IntoIterator<Item = &'a Lane>, now_ns: u64) -> u64 {
    let age_ns = |lane: &Lane| {
        let age_ns = now_ns.saturating_sub(lane.seen_ns.load(Ordering::Relaxed));
        let is_current = age_ns < CURRENT_NS && !lane.ended.load(Ordering::Relaxed);
        is_current.then_some(age_ns)
    };
    let ages = lanes.into_iter().filter_map(age_ns);
    let (sum_ns, count) = ages.fold((0, 0), |(sum_ns, count), age_ns| (sum_ns + age_ns, count + 1));
    now_ns - sum_ns / count.max(1)
}

/// Reads the lanes of all jobs, by role in the order of the plan.
pub(super) fn by_role(plan: &Plan, lanes: &[Lane], start_ns: u64, now_ns: u64) -> Vec<RoleCounts> {
    let mut roles: Vec<RoleCounts> = Vec::new();
    for (job, lane) in plan.jobs.iter().zip(lanes) {
        let at = roles.iter().position(|known| known.role == job.role).unwrap_or_else(|| {
            let latency = vec![0; LIVE_BUCKETS];
            roles.push(RoleCounts { role: job.role.clone(), latency, ..RoleCounts::default() });
            roles.len() - 1
        });
        let role = &mut roles[at];
        role.ops += lane.ops();
        role.bytes += lane.bytes.load(Ordering::Relaxed);
        let counts = lane.latency.0.iter().map(|count| count.load(Ordering::Relaxed));
        role.latency.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    for role in &mut roles {
        let own = plan.jobs.iter().zip(lanes).filter(|(job, _)| job.role == role.role);
        role.counted_ns = counted_ns(own.map(|(_, lane)| lane), now_ns).saturating_sub(start_ns);
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_ascend_and_hold_their_middle() {
        let mut last = 0;
        for ns in [1, 2, 3, 5, 8, 100, 1_000, 12_345, 1_000_000, 60_000_000_000] {
            let at = bucket(ns);
            assert!(at >= last, "{ns}");
            last = at;
            let error = (middle_ns(at) as f64 / ns as f64 - 1.0).abs();
            assert!(error <= 0.13 || ns < 8, "{ns}: {error}");
        }
        assert_eq!(bucket(u64::MAX), LIVE_BUCKETS - 1);
    }

    #[test]
    fn counts_are_as_old_as_those_of_the_jobs_that_go_on() {
        let seen = |ns: u64| {
            let lane = Lane::default();
            lane.seen_ns.store(ns, Ordering::Relaxed);
            lane
        };
        let second = 1_000_000_000;
        assert_eq!(counted_ns(&[seen(second - 40), seen(second - 60)], second), second - 50);
        assert_eq!(counted_ns(&[seen(second - 40), seen(0)], second), second - 40, "not begun");
        let ended = seen(second - 60);
        ended.ended.store(true, Ordering::Relaxed);
        assert_eq!(counted_ns(&[ended], second), second, "ended");
        assert_eq!(counted_ns(&[seen(second - 2 * CURRENT_NS)], second), second, "in a call");
    }

    #[test]
    fn percentiles_are_of_what_was_added_and_need_enough_above_them() {
        let of = |pairs: &[(u64, u64)]| {
            let mut latency = vec![0; LIVE_BUCKETS];
            pairs.iter().for_each(|(ns, count)| latency[bucket(*ns)] += count);
            RoleCounts { latency, ..RoleCounts::default() }
        };
        let before = of(&[(1_000, 10_000)]);
        let now = of(&[(1_000, 10_000), (100_000, 990), (5_000_000, 30)]);
        let [p50, p99] = now.quantiles_since(Some(&before), [0.5, 0.99]);
        assert!((90_000..110_000).contains(&p50.unwrap_or(0)), "{p50:?}");
        assert!((4_500_000..5_500_000).contains(&p99.unwrap_or(0)), "{p99:?}");
        assert_eq!(of(&[(1_000, 100)]).quantiles_since(None, [0.99]), [None]);
        assert!(now.has_new_latencies(&before) && !now.has_new_latencies(&now));
    }
}
