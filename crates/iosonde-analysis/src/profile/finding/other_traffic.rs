//! `other_traffic`: other programs used the same device at the same time.

use crate::finding::{Detector, Finding, Severity, Strength};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Class, ThreadRun, Traffic};
use iosonde_model::units::bytes;

use super::super::{Figures, Side};
use super::{Detect, percent};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "other_traffic",
    meaning: "Other programs used the same device at the same time.",
    method: "requests by class",
    action: "Repeat when the device is idle, or move the other program away.",
    detect,
};

/// Smallest share of a device's requests or bytes to report.
const SHARE: f64 = 0.10;
/// Smallest share of the program's requests or bytes that a device has: on another one, such as
/// that of the program's own file, others do not matter to it.
const OWN_SHARE: f64 = 0.10;

/// Reports the device where others had the largest share.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let mut worst: Option<(f64, Finding)> = None;
    for device in &figures.devices {
        if !device.program.as_ref().is_some_and(|side| matters(side, figures)) {
            continue;
        }
        let sum = |pick: fn(&Traffic) -> bool| {
            let own = run.traffic.iter().filter(|t| t.device == device.name && pick(t));
            own.fold((0u64, 0u64), |(n, bytes), t| (n + t.requests, bytes + t.bytes))
        };
        let (all, others) = (sum(|_| true), sum(|t| t.class == Class::Other));
        let by_requests = others.0 as f64 / all.0.max(1) as f64;
        let by_bytes = others.1 as f64 / all.1.max(1) as f64;
        let share = by_requests.max(by_bytes);
        if share < SHARE || worst.as_ref().is_some_and(|(most, _)| *most >= share) {
            continue;
        }
        let words = format!(
            "Other programs made {} of the requests and {} of the bytes ({}) on {}{}: they \
             influence the latencies.",
            percent(by_requests),
            percent(by_bytes),
            bytes::rough(others.1),
            device.name,
            busiest(run, others.1),
        );
        let strength = Strength::Proven;
        let finding = Finding::new(
            "other_traffic",
            "I/O of other programs",
            strength,
            Severity::Warning,
            words,
        );
        let finding = finding
            .with("device", device.name.as_str())
            .with("request_share", by_requests)
            .with("byte_share", by_bytes);
        worst = Some((share, finding));
    }
    worst.map(|(_, finding)| finding)
}

/// Whether the program made a good part of its requests, or moved a good part of its bytes, there.
fn matters(there: &Side, figures: &Figures) -> bool {
    let Some(all) = &figures.program else { return false };
    let share = |part: u64, all: u64| part > 0 && part as f64 >= OWN_SHARE * all as f64;
    share(there.requests(), all.requests()) || share(there.data_bytes(), all.data_bytes())
}

/// The thread that transferred most of the others' bytes, if a single one did. A kernel thread may
/// have acted for the program and is not named; with several disks no thread is named, because
/// bytes per thread are not recorded per disk.
fn busiest(run: &ProfileRun, bytes: u64) -> String {
    let used = run.traffic.iter().filter(|row| row.requests > 0);
    let mut disks: Vec<&str> = used.map(|row| row.device.as_str()).collect();
    disks.sort_unstable();
    disks.dedup();
    if disks.len() > 1 {
        return String::new();
    }
    let moved = |thread: &ThreadRun| thread.read_bytes + thread.write_bytes;
    let others = run.threads.iter().filter(|thread| !thread.of_program && !thread.of_kernel);
    let most = others.max_by_key(|thread| moved(thread));
    match most.filter(|thread| moved(thread) * 2 > bytes) {
        Some(thread) => format!(", most of them `{}`", thread.name),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn others_on_the_same_device_are_reported_and_elsewhere_are_not() {
        let other = Flow { class: Class::Other, requests: 10_000, ..Flow::default() };
        let message = words(detect, &profile_of(&[Flow::default(), other]));
        assert!(
            message.contains("Other programs made 17 % of the requests and 17 % of the bytes"),
            "{message}"
        );
        assert!(message.contains("on vda, most of them `someone else`"), "{message}");
        // A thread's bytes are those on all disks: it may have transferred them on the other one.
        let beside = Flow { device: "sdb", ..Flow::default() };
        let message = words(detect, &profile_of(&[Flow::default(), other, beside]));
        assert!(message.contains("on vda: they influence"), "{message}");
        let elsewhere = Flow { device: "sdb", ..other };
        assert_eq!(ask(detect, &profile_of(&[Flow::default(), elsewhere])), None);
        let few = Flow { requests: 1_000, ..other };
        assert_eq!(ask(detect, &profile_of(&[Flow::default(), few])), None);
        // Where the program only read its own file.
        let start = Flow { device: "sdb", requests: 20, ..Flow::default() };
        let busy = Flow { device: "sdb", ..other };
        assert_eq!(ask(detect, &profile_of(&[Flow::default(), start, busy])), None);
    }
}
