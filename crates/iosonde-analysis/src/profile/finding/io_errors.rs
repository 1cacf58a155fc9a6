//! `io_errors`: reads, writes or flushes of the program ended with an error.

use super::{Detect, Detector, Figures, Finding, Severity, plural};
use iosonde_model::record::profile::{Op, ProfileRun, Traffic};
use iosonde_model::units::count;

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "io_errors",
    meaning: "Reads, writes or flushes of the program ended with an error.",
    method: "result of each request at the block layer",
    action: "Read the kernel log (dmesg) and the drive's health (smartctl -a).",
    subject: "I/O errors",
    severity: Severity::Fault,
    detect,
};

/// Whether every device supports the operation. Discards, write-zeroes and commands fail on a
/// device without them, and the program or the kernel then avoids them.
fn is_always_supported(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write | Op::Flush)
}

/// Reports all errors of reads, writes and flushes, naming the operation and device with most.
fn detect(run: &ProfileRun, _figures: &Figures) -> Option<Finding> {
    let is_own = |row: &&Traffic| row.class.is_of_the_program() && is_always_supported(row.op);
    let own = || run.traffic.iter().filter(is_own);
    let all: u64 = own().map(|traffic| traffic.errors).sum();
    let most: &Traffic = own().max_by_key(|traffic| traffic.errors)?;
    if all == 0 {
        return None;
    }
    let words = format!(
        "{} of its requests ended with an error, most of them {} on {}.",
        count::thousands(all),
        plural(most.op),
        most.device
    );
    Some(DETECTOR.proven(words).with("errors", all).with("device", most.device.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};
    use iosonde_model::record::profile::Class;

    #[test]
    fn one_error_is_reported_and_none_is_not() {
        let mut run = profile_of(&[Flow::default()]);
        assert_eq!(ask(detect, &run), None);
        // Errors of another program.
        let mut other = run.clone();
        other.traffic[0].class = Class::Other;
        other.traffic[0].errors = 1;
        assert_eq!(ask(detect, &other), None);
        run.traffic[0].errors = 1;
        // Errors of a device without discards.
        let mut discards = run.clone();
        discards.traffic[0].op = Op::Discard;
        assert_eq!(ask(detect, &discards), None);
        assert!(
            words(detect, &run).contains("1 of its requests ended with an error, most of them r")
        );
    }
}
