//! `latency_bound_reads`: threads that wait for small random reads one at a time.

use super::{Detector, Figures, Finding, Severity};
use iosonde_model::record::profile::{Op, ProfileRun, ProfiledDevice, Traffic};
use iosonde_model::units::{bytes, count, duration};

use super::super::depth::busy_ns;
use super::super::traffic::Tally;
use super::{Detect, commonest, greatest, named, own, percent, share_up_to};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "latency_bound_reads",
    meaning: "A thread waits for small random reads one at a time.",
    method: "depth, sizes and the time that the thread spent waiting",
    action: "Issue reads in parallel: more threads, io_uring, or read-ahead.",
    subject: "latency of single reads",
    severity: Severity::Limit,
    detect,
};

/// Largest size of a small read.
const SMALL_BYTES: u64 = 64 << 10;
/// Share of small reads at or above which the reads count as small.
const MOSTLY: f64 = 0.8;
/// Sequential share at or below which the reads count as random.
const RANDOM: f64 = 0.2;
/// Range of reads in flight per thread, by Little's law, that means mostly one at a time.
const IN_FLIGHT: (f64, f64) = (0.5, 1.1);
/// Fewest reads to report.
const READS: u64 = 100;

/// Reports the group that waits the largest share of its time.
fn detect(run: &ProfileRun, _figures: &Figures) -> Option<Finding> {
    greatest(super::groups(run).filter_map(|(index, name, threads)| {
        let reads = own(run, index, Op::Read);
        let had_ns = run.measured_ns.max(1) as f64 * f64::from(threads);
        let in_flight = reads.latency.sum() as f64 / had_ns;
        let random = (reads.sequential as f64) <= RANDOM * reads.requests as f64;
        let small = share_up_to(&reads.sizes, SMALL_BYTES) >= MOSTLY;
        let alone = (IN_FLIGHT.0..=IN_FLIGHT.1).contains(&in_flight)
            && while_busy(run, index, &reads) <= IN_FLIGHT.1 * f64::from(threads);
        if reads.requests < READS || !(random && small && alone) {
            return None;
        }
        let (size, _) = commonest(&reads.sizes)?;
        let mean_ns = reads.latency.mean()?;
        let words = format!(
            "{} waits for random {} reads one at a time, for {} of its time: at {} per read a \
             thread cannot exceed {} reads/s; more requests in flight or a faster device can.",
            named(&name, threads),
            bytes::rough(size),
            percent(in_flight.min(1.0)),
            duration::latency(mean_ns),
            count::significant_or_whole(1e9 / mean_ns),
        );
        let finding = DETECTOR.supported(words).with("group", name.as_str());
        let finding = finding.with("reads", reads.requests).with("mean_latency_ns", mean_ns);
        Some((in_flight, finding.with("in_flight_per_thread", in_flight)))
    }))
}

/// Mean number of a group's reads in flight, over the time with any request of the program in
/// flight: at most one per thread if each thread waits for its reads.
fn while_busy(run: &ProfileRun, group: u32, reads: &Tally) -> f64 {
    let is_used = |device: &&ProfiledDevice| {
        let on_it = |row: &Traffic| row.device == device.facts.name && row.op == Op::Read;
        run.traffic.iter().any(|row| row.group == group && on_it(row))
    };
    let used = run.devices.iter().filter(is_used);
    let busy_ns: u64 = used.map(|device| busy_ns(&device.program_depth)).sum();
    if busy_ns == 0 { 0.0 } else { reads.latency.sum() as f64 / busy_ns as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn one_at_a_time_is_reported_and_many_or_sequential_ones_are_not() {
        let flow = Flow { requests: 90_000, ..Flow::default() };
        let message = words(detect, &profile_of(&[flow]));
        assert!(
            message.contains("`app` waits for random 4.00 KiB reads one at a time"),
            "{message}"
        );
        assert!(message.contains("90 % of its time: at 100 µs per read"), "{message}");
        for other in [
            Flow { requests: 900_000, ..flow },
            Flow { requests: 9_000, ..flow },
            Flow { sequential_milli: 900, ..flow },
            Flow { size_bytes: 1 << 20, ..flow },
            Flow { op: Op::Write, ..flow },
            Flow { threads: 8, ..flow },
        ] {
            assert_eq!(ask(detect, &profile_of(&[other])), None);
        }
        // Several at once, then a pause: the mean over the whole time is the same.
        let mut several = profile_of(&[flow]);
        several.devices[0].program_depth.time_ns = vec![(0, 7_000_000_000), (3, 3_000_000_000)];
        assert_eq!(ask(detect, &several), None);
    }
}
