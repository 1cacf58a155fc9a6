//! `device_tail`: a few requests take far longer in the device than the others.

use super::{Detect, Detector, Figures, Finding, Severity, greatest, plural};
use iosonde_model::record::profile::{Class, Op, ProfileRun};
use iosonde_model::units::{count, duration};

use super::super::traffic::Tally;
use super::super::{Latency, Spread};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "device_tail",
    meaning: "A few requests take far longer in the device than the others.",
    method: "time in the device of requests of similar size",
    action: "Look for stalls of the device: background work, other traffic, its health.",
    subject: "device stalls",
    severity: Severity::Warning,
    detect,
};

/// Multiple of the median at or above which a rare latency is a stall.
const TIMES: f64 = 20.0;
/// Share of all CPUs in use at or above which latencies say nothing about the device.
const FULL: f64 = 0.9;
/// Smallest latency to report, ns.
const FROM_NS: u64 = 1_000_000;
/// Multiple of the median size at or below which requests are similar.
const ALIKE: f64 = 4.0;

/// Reports the operation and device with the longest tail.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    // If no CPU is free, a completion waits until it is seen.
    let machine = &figures.machine;
    let used = [machine.user_share, machine.system_share, machine.steal_share];
    if used.into_iter().flatten().sum::<f64>() >= FULL {
        return None;
    }
    let names = figures.devices.iter().map(|device| &device.name);
    let kinds = names.flat_map(|device| [(device, Op::Read), (device, Op::Write)]);
    greatest(kinds.filter_map(|(device, op)| {
        let tally = Tally::of(run.traffic.iter().filter(|traffic| {
            traffic.device == *device && traffic.op == op && traffic.class == Class::Program
        }));
        // Large requests among small ones naturally take longer.
        alike(&tally).then(|| tail(device, op, &Latency::of(&tally.device_time)))?
    }))
}

fn alike(tally: &Tally) -> bool {
    let sizes: Vec<(f64, u64)> =
        tally.sizes.iter().map(|(bytes, requests)| (*bytes as f64, *requests)).collect();
    let spread = Spread::weighted(&sizes, tally.requests);
    spread.at(0.5).zip(spread.max).is_some_and(|(median, max)| max <= ALIKE * median)
}

fn tail(device: &str, op: Op, latency: &Latency) -> Option<(f64, Finding)> {
    let median = latency.at(0.5)?;
    let (q, rare) = [0.999, 0.99].into_iter().find_map(|q| Some((q, latency.at(q)?)))?;
    let times = rare as f64 / median.max(1) as f64;
    if times < TIMES || rare < FROM_NS {
        return None;
    }
    let one_in = (1.0 / (1.0 - q)).round() as u64;
    let words = format!(
        "One in {} {} took {device} {} or longer, {} times the median of {}: the device stalls \
         (requests of similar size; the slowest took {}).",
        count::thousands(one_in),
        plural(op),
        duration::latency(rare as f64),
        count::significant(times),
        duration::latency(median as f64),
        duration::latency(latency.max_ns.unwrap_or(rare) as f64),
    );
    let finding = DETECTOR.supported(words).with("device", device).with("quantile", q);
    Some((times, finding.with("median_ns", median).with("rare_ns", rare)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn stalls_are_reported_and_larger_requests_are_not() {
        let usual = Flow::default();
        let stalls = Flow { requests: 500, device_ns: 30_000_000, ..usual };
        let message = words(detect, &profile_of(&[usual, stalls]));
        assert!(message.contains("One in 1,000 reads took vda 29.9 ms or longer"), "{message}");
        assert!(message.contains("332 times the median of 90.1 µs"), "{message}");
        let large = Flow { size_bytes: 4 << 20, ..stalls };
        assert_eq!(ask(detect, &profile_of(&[usual, large])), None);
        // The tail of the queue time in the block layer is not the device's.
        let queued = Flow { device_ns: usual.device_ns, queued_ns: 30_000_000, ..stalls };
        assert_eq!(ask(detect, &profile_of(&[usual, queued])), None);
    }
}
