//! `physics`: faster than the link, or than this program can be.

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "physics",
    meaning: "Faster than the link, or than this program can be: nothing real was measured.",
    method: "bandwidth of the link and the cost of a bare system call",
    action: "Find what answers instead of the device: a cache, a null target, unwritten space.",
    subject: "something that is not storage",
    severity: Severity::LowConfidence,
    detect,
};

/// Reports when the bandwidth exceeds its ceiling or the latency is below the tool overhead.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let entry =
        ["bandwidth", "floor"].iter().find_map(|code| case.consistency.broken_code(code))?;
    let words = format!("Physically impossible: {}; storage was not measured.", entry.words());
    Some(DETECTOR.supported(words).with("identity", entry.code).with("residual", entry.residual))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn two_hundred_gigabytes_per_second_are_reported_and_ten_are_not() {
        let load = |iops| Load { block_bytes: 1 << 20, iops, ..Load::default() };
        assert!(ask(detect, &run_of(&[load(200_000.0)]), None).is_some());
        assert_eq!(ask(detect, &run_of(&[load(10_000.0)]), None), None);
    }
}
