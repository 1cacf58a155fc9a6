//! `queue_time`: requests spend more time before the device than in it.

use super::{Detect, Detector, Figures, Finding, Severity, greatest, percent, plural};
use iosonde_model::record::profile::{ProfileRun, ProfiledDevice};
use iosonde_model::units::{count, duration};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "queue_time",
    meaning: "Requests spend more time before the device than in it.",
    method: "time from arrival to issue, compared with the time in the device",
    action: "Send fewer at once, or look for a limit (cgroup, scheduler, device queue).",
    subject: "queueing in the block layer",
    severity: Severity::Limit,
    detect,
};

/// Share of the latency before the device at or above which it dominates.
const SHARE: f64 = 0.5;
/// Mean queue depth while busy at or above which the queue is deep.
const DEEP: f64 = 4.0;
/// Fewest requests to report.
const REQUESTS: u64 = 100;

/// Reports the operation and device with the largest share.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    if figures.consistency.broken_code("program_depth").is_some() {
        return None;
    }
    let devices = figures.devices.iter().zip(&run.devices);
    let kinds = devices.flat_map(|(device, facts)| {
        let ops = device.program.iter().flat_map(|side| &side.ops);
        ops.map(move |op| (device, facts, op))
    });
    greatest(kinds.filter_map(|(device, facts, op)| {
        let depth = device.program_depth.as_ref().and_then(|depth| depth.by_time.mean);
        let depth = depth.filter(|depth| *depth >= DEEP)?;
        // Only requests with both parts known.
        let seen = op.requests >= REQUESTS && op.queued.count == op.latency.count;
        let share = op.queued.sum_ns as f64 / op.latency.sum_ns.max(1) as f64;
        let (queued, whole) = (op.queued.mean_ns?, op.latency.mean_ns?);
        if !seen || share < SHARE {
            return None;
        }
        let words = format!(
            "{} of the latency of {} on {} is spent before they reach the device ({} of {} on \
             average, mean queue depth {}): {}.",
            percent(share),
            plural(op.op),
            device.name,
            duration::latency(queued),
            duration::latency(whole),
            count::significant(depth),
            cause(facts),
        );
        let finding = DETECTOR.supported(words);
        let finding = finding.with("device", device.name.as_str()).with("queued_share", share);
        Some((share, finding.with("mean_queued_ns", queued).with("depth", depth)))
    }))
}

fn cause(device: &ProfiledDevice) -> String {
    let scheduler = device.facts.scheduler.as_deref().filter(|name| *name != "none");
    let scheduler = scheduler.map_or(String::new(), |name| format!(" (scheduler {name})"));
    format!("the block layer{scheduler}, the device's queue or a limit holds them back")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn waiting_before_the_device_is_reported_and_a_slow_device_is_not() {
        let flow = Flow { queued_ns: 1_500_000, device_ns: 500_000, ..Flow::default() };
        let mut run = profile_of(&[flow]);
        run.devices[0].facts.scheduler = Some("bfq".into());
        let message = words(detect, &run);
        assert!(
            message.contains("75 % of the latency of reads on vda is spent before"),
            "{message}"
        );
        assert!(
            message.contains("1.50 ms of 2.00 ms on average, mean queue depth 10.0"),
            "{message}"
        );
        assert!(message.contains("scheduler bfq"), "{message}");
        let slow = Flow { queued_ns: 500_000, device_ns: 1_500_000, ..Flow::default() };
        assert_eq!(ask(detect, &profile_of(&[slow])), None);
        let mut off = run.clone();
        off.devices[0].program_depth.area_ns *= 2;
        assert_eq!(ask(detect, &off), None);
        // A shallow queue: two at a time.
        let shallow = Flow { requests: 5_000, ..flow };
        assert_eq!(ask(detect, &profile_of(&[shallow])), None);
    }
}
