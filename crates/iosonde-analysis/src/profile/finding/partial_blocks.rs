//! `partial_blocks`: writes that are not multiples of the device's physical block size.

use super::{Detect, Detector, Figures, Finding, Severity, percent};
use iosonde_model::record::profile::{Op, ProfileRun};
use iosonde_model::units::{bytes, count};

use super::super::traffic::Tally;

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "partial_blocks",
    meaning: "Writes are not multiples of the device's physical block size.",
    method: "sizes and offsets, compared with the physical block size",
    action: "Write whole physical blocks.",
    subject: "partial-block writes",
    severity: Severity::Warning,
    detect,
};

/// Smallest share of such writes to report.
const SHARE: f64 = 0.05;
/// Fewest such writes to report.
const WRITES: u64 = 100;

/// Reports the first device with many of them.
fn detect(run: &ProfileRun, _figures: &Figures) -> Option<Finding> {
    run.devices.iter().find_map(|device| {
        let block = u64::from(device.facts.physical_block_bytes?);
        let name = &device.facts.name;
        let own = run.traffic.iter().filter(|traffic| {
            traffic.device == *name && traffic.op == Op::Write && traffic.class.is_of_the_program()
        });
        let sizes = Tally::of(own).sizes;
        let all: u64 = sizes.values().sum();
        // Sizes above 32 KiB are buckets and do not show remainders.
        let odd = sizes.iter().filter(|(bytes, _)| **bytes < 32 << 10 && **bytes % block != 0);
        let partial: u64 = odd.clone().map(|(_, requests)| requests).sum();
        let (commonest, _) = odd.max_by_key(|(_, requests)| **requests)?;
        let share = partial as f64 / all.max(1) as f64;
        if partial < WRITES || share < SHARE {
            return None;
        }
        let words = format!(
            "{} of the writes on {name} ({}) are not multiples of its physical block size of {}, \
             most often {}: each costs the device a read-modify-write.",
            percent(share),
            count::thousands(partial),
            bytes::exact(block),
            bytes::exact(*commonest),
        );
        let finding = DETECTOR.suspected(words).with("device", name.as_str());
        Some(finding.with("partial_share", share).with("physical_block_bytes", block))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn partial_blocks_are_reported_and_whole_ones_are_not() {
        let run = |op, size_bytes, block| {
            let mut run = profile_of(&[Flow { op, size_bytes, ..Flow::default() }]);
            run.devices[0].facts.physical_block_bytes = block;
            run
        };
        let message = words(detect, &run(Op::Write, 512, Some(4096)));
        assert!(message.contains("100 % of the writes on vda (50,000)"), "{message}");
        assert!(message.contains("block size of 4 KiB, most often 512 B"), "{message}");
        assert_eq!(ask(detect, &run(Op::Write, 8192, Some(4096))), None);
        assert_eq!(ask(detect, &run(Op::Write, 512, Some(512))), None);
        assert_eq!(ask(detect, &run(Op::Write, 512, None)), None);
        assert_eq!(ask(detect, &run(Op::Read, 512, Some(4096))), None);
    }
}
