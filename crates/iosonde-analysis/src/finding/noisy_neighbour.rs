//! `noisy_neighbour`: another program used the device.

use crate::consistency;
use iosonde_model::record::facts::Neighbour;
use iosonde_model::units::bytes;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "noisy_neighbour",
    meaning: "Other programs used the device during the run.",
    method: "counters of the device, less our own requests",
    action: "Repeat when the device is idle; `pidstat -d 1` shows who uses it.",
    subject: "other I/O on the device",
    severity: Severity::Warning,
    detect,
};

/// Smallest ratio of others' bytes to ours to report.
const SHARE: f64 = 0.02;
/// Bytes of others below which they count as file system metadata.
const LEAST_BYTES: u64 = 1 << 20;

/// Reports when the device transferred 2 % more bytes than we did, not counting requests that cross
/// the edges.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let work = consistency::device_work(case.run)?;
    let (read, written, crossing) = consistency::our_bytes(case.run);
    // Buffered I/O reads ahead, and writes back later.
    if !case.run.target.direct || !case.is_real() || case.pooled() {
        return None;
    }
    let (device_read, device_written) = consistency::moved_bytes(&work);
    let others = (device_read + device_written).saturating_sub(read + written + crossing);
    let share = others as f64 / (read + written).max(1) as f64;
    if others < LEAST_BYTES || share <= SHARE {
        return None;
    }
    let words = format!(
        "The device transferred {} more than this run did ({}): something else was using it{}.",
        bytes::rough(others),
        super::percent(share),
        who(case)
    );
    let finding = DETECTOR.supported(words);
    // The loss is at most the device's work for others.
    let finding = finding.moves(share / (1.0 + share));
    Some(finding.with("other_bytes", others).with("share_of_ours", share))
}

/// The process with the most I/O during the run; the kernel does not report the device.
fn who(case: &Case<'_>) -> String {
    let io = |one: &Neighbour| one.read_bytes.saturating_add(one.written_bytes);
    match case.run.neighbours.iter().max_by_key(|one| io(one)).filter(|one| io(one) > 0) {
        Some(most) => format!(
            ". On all devices, most was done by {} ({} read, {} written)",
            super::process(most),
            bytes::rough(most.read_bytes),
            bytes::rough(most.written_bytes)
        ),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceCounters;

    #[test]
    fn a_tenth_more_is_reported_and_the_journal_is_not() {
        let mut run = run_of(&[Load::default()]);
        let ours = run.jobs[0].read.bytes / 512;
        let device = |read_sectors| {
            let end = DeviceCounters { read_sectors, ..DeviceCounters::default() };
            Some((DeviceCounters::default(), end))
        };
        run.device = device(ours + ours / 100);
        assert_eq!(ask(detect, &run, None), None);
        run.device = device(ours + ours / 10);
        assert!(ask(detect, &run, None).unwrap().words.ends_with("something else was using it."));
        let named = |pid, written_bytes| Neighbour {
            pid,
            program: "dd".into(),
            cgroup: Some("/backup".into()),
            written_bytes,
            ..Neighbour::default()
        };
        run.neighbours = vec![named(7, 0), named(8, 5 << 20)];
        let words = ask(detect, &run, None).unwrap().words;
        assert!(words.contains("by dd (process 8, cgroup /backup) ("), "{words}");
        run.target.direct = false;
        assert_eq!(ask(detect, &run, None), None);
    }
}
