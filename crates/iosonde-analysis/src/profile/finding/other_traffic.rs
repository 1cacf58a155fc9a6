//! `other_traffic`: other programs used the same device at the same time.

use super::{Detect, Detector, Figures, Finding, Severity, greatest, percent};
use iosonde_model::record::profile::{Class, ProfileRun, ThreadRun};
use iosonde_model::units::bytes;

use super::super::traffic::{carries, while_it_ran};
use super::super::{DeviceFigures, Side};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "other_traffic",
    meaning: "Other programs used the same device at the same time.",
    method: "requests by class",
    action: "Repeat when the device is idle, or move the other program away.",
    subject: "I/O of other programs",
    severity: Severity::Warning,
    detect,
};

/// Smallest share of a device's bytes, or of its time per request, to report.
const SHARE: f64 = 0.10;
/// Fewest requests of others to report, and their smallest share: a single one may be the
/// profiler's own.
const REQUESTS: u64 = 30;
const REQUEST_SHARE: f64 = 0.01;
/// Smallest share of the program's requests or bytes on a device: on other devices, such as the one
/// with its executable file, others do not affect it.
const OWN_SHARE: f64 = 0.10;
/// Smallest share of the time that the program waits for requests or syncs: others do not slow down
/// a program that hardly waits.
const WAITS: f64 = 0.02;

/// Reports the device where others had the largest share.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    // An unknown share in flight does not rule out the finding.
    let hardly = |share: Option<f64>| share.is_some_and(|share| share < WAITS);
    if hardly(figures.waits.in_flight) && figures.waits.in_syncs.is_none_or(|share| share < WAITS) {
        return None;
    }
    let is_used = |device: &&DeviceFigures| {
        let matters = device.program.as_ref().is_some_and(|side| matters(side, figures));
        matters && !carries(run, &device.name)
    };
    greatest(figures.devices.iter().filter(is_used).filter_map(|device| {
        let rows = || run.traffic.iter().filter(|row| row.device == device.name);
        let all = while_it_ran(run, rows());
        let others = while_it_ran(run, rows().filter(|row| row.class == Class::Other));
        let of = |part: f64, whole: f64| part / whole.max(1.0);
        let by_requests = of(others.requests, all.requests);
        let by_bytes = of(others.bytes, all.bytes);
        let share = by_bytes.max(of(others.time_ns, all.time_ns));
        let is_little = others.requests < REQUESTS as f64 || by_requests < REQUEST_SHARE;
        if is_little || share < SHARE {
            return None;
        }
        let words = format!(
            "While it ran, other programs made {} of the requests and {} of the bytes ({}) on \
             {}{}: they influence the latencies.",
            percent(by_requests),
            percent(by_bytes),
            bytes::rough(others.bytes as u64),
            device.name,
            busiest(run, others.bytes as u64),
        );
        let finding = DETECTOR.proven(words).with("device", device.name.as_str());
        let finding = finding.with("request_share", by_requests).with("byte_share", by_bytes);
        Some((share, finding))
    }))
}

/// Whether the program made at least [`OWN_SHARE`] of its requests, or of its bytes, there.
fn matters(there: &Side, figures: &Figures) -> bool {
    let Some(all) = &figures.program else { return false };
    let share = |part: u64, all: u64| part > 0 && part as f64 >= OWN_SHARE * all as f64;
    share(there.requests(), all.requests()) || share(there.data_bytes(), all.data_bytes())
}

/// The thread that transferred most of the others' bytes, if a single one did. A kernel thread may
/// have acted for the program and is not named; with several disks no thread is named, because
/// bytes per thread are not recorded per disk.
fn busiest(run: &ProfileRun, bytes: u64) -> String {
    let mut disks = run.traffic.iter().filter(|row| row.requests > 0).map(|row| &row.device);
    let first = disks.next();
    if disks.any(|disk| Some(disk) != first) {
        return String::new();
    }
    let moved = |thread: &ThreadRun| thread.read_bytes + thread.write_bytes;
    let others = run.threads.iter().filter(|thread| !thread.of_program && !thread.of_kernel);
    let most = others.max_by_key(|thread| moved(thread));
    let most = most.filter(|thread| moved(thread) * 2 > bytes);
    most.map_or(String::new(), |thread| format!(", most of them `{}`", thread.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn what_others_did_after_the_end_or_a_few_times_is_not_reported() {
        let few = Flow { requests: 3_000, ..Flow::default() };
        let other = Flow { class: Class::Other, requests: 10_000, ..few };
        let mut run = profile_of(&[few, other]);
        assert!(ask(detect, &run).is_some());
        let hardly_any = Flow { requests: 100, ..few };
        assert_eq!(ask(detect, &profile_of(&[hardly_any, other])), None, "it waits for nothing");
        run.measured_ns = 33_000_000;
        run.traffic[1].active_ns = Some((40_000_000, 2_000_000_000));
        assert_eq!(ask(detect, &run), None);
        // Too few to report, however large.
        let asked = Flow { class: Class::Other, requests: 29, size_bytes: 64 << 20, ..few };
        assert_eq!(ask(detect, &profile_of(&[few, asked])), None);
        let asked = Flow { requests: 31, ..asked };
        assert!(ask(detect, &profile_of(&[few, asked])).is_some());
        // Many small requests that take the device hardly any time.
        let large = Flow { size_bytes: 1 << 20, device_ns: 5_000_000, ..few };
        let small = Flow { class: Class::Other, queued_ns: 0, device_ns: 10_000, ..few };
        assert_eq!(ask(detect, &profile_of(&[large, small])), None);
        // A few large requests among many small ones.
        let stream = Flow { class: Class::Other, requests: 1_000, size_bytes: 1 << 20, ..few };
        assert!(ask(detect, &profile_of(&[Flow::default(), stream])).is_some());
    }

    #[test]
    fn others_on_the_same_device_are_reported_and_elsewhere_are_not() {
        let other = Flow { class: Class::Other, requests: 10_000, ..Flow::default() };
        let message = words(detect, &profile_of(&[Flow::default(), other]));
        assert!(
            message.contains(
                "While it ran, other programs made 17 % of the requests and 17 % of the bytes"
            ),
            "{message}"
        );
        assert!(message.contains("on vda, most of them `someone else`"), "{message}");
        // A thread's bytes cover all disks: it may have transferred them on the other one.
        let beside = Flow { device: "sdb", ..Flow::default() };
        let message = words(detect, &profile_of(&[Flow::default(), other, beside]));
        assert!(message.contains("on vda: they influence"), "{message}");
        let elsewhere = Flow { device: "sdb", ..other };
        assert_eq!(ask(detect, &profile_of(&[Flow::default(), elsewhere])), None);
        let few = Flow { requests: 1_000, ..other };
        assert_eq!(ask(detect, &profile_of(&[Flow::default(), few])), None);
        // The disk below a loop device that the program uses.
        let mut stacked = profile_of(&[Flow::default(), other, beside]);
        stacked.devices[1].beneath = vec!["vda".into()];
        assert_eq!(ask(detect, &stacked), None);
        // The program moved much less there than others did below.
        let little = Flow { requests: 1_000, ..beside };
        let mut stacked = profile_of(&[Flow::default(), other, little]);
        stacked.devices[1].beneath = vec!["vda".into()];
        assert!(ask(detect, &stacked).is_some());
        // The program only read its executable file there.
        let start = Flow { device: "sdb", requests: 20, ..Flow::default() };
        let busy = Flow { device: "sdb", ..other };
        assert_eq!(ask(detect, &profile_of(&[Flow::default(), start, busy])), None);
    }
}
