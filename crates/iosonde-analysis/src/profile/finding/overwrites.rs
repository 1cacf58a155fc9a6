//! `overwrites`: the same blocks are written repeatedly.

use super::{Detect, Detector, Figures, Finding, Severity, percent};
use iosonde_model::record::ProfileRun;
use iosonde_model::units::{bytes, count};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "overwrites",
    meaning: "The same blocks are written repeatedly.",
    method: "distinct blocks written, compared with blocks written",
    action: "Collect changes in memory before writing them.",
    subject: "overwriting",
    severity: Severity::Fact,
    detect,
};

/// Smallest share of overwrites to report.
const SHARE: f64 = 0.5;
/// Fewest bytes written to report.
const FROM_BYTES: u64 = 16 << 20;
/// Fewest distinct blocks sampled: with fewer, the total number is a guess.
const BLOCKS: u64 = 32;

/// Reports the device with the most bytes written this way.
fn detect(_run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let often = figures.places.iter().filter(|place| {
        place.written_bytes >= FROM_BYTES
            && place.write_set_bytes >= BLOCKS * place.one_block_in * place.block_bytes
            && place.overwrite_share.is_some_and(|share| share >= SHARE)
    });
    let place = often.max_by_key(|place| place.written_bytes)?;
    let share = place.overwrite_share?;
    let times = place.written_bytes as f64 / place.write_set_bytes.max(1) as f64;
    let words = format!(
        "{} of the blocks written on {} were overwrites: {} were written to {} of distinct \
         blocks, {} times each on average.",
        percent(share),
        place.device,
        bytes::rough(place.written_bytes),
        bytes::rough(place.write_set_bytes),
        count::significant(times),
    );
    let finding = DETECTOR.proven(words).with("device", place.device.as_str());
    let finding = finding.with("overwrite_share", share);
    let (written, set) = (place.written_bytes as f64, place.write_set_bytes as f64);
    Some(finding.with("written_bytes", written).with("write_set_bytes", set))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of, with_places};
    use iosonde_model::record::profile::{Chunk, Op};

    #[test]
    fn writing_the_same_again_is_reported_and_rewriting_is_not() {
        let chunk = |block_writes, overwrites| Chunk {
            writes: block_writes,
            written_blocks: 256,
            touched_blocks: 256,
            block_writes,
            overwrites,
            ..Chunk::default()
        };
        let run = |chunks, each| {
            let mut run = profile_of(&[Flow { op: Op::Write, ..Flow::default() }]);
            with_places(&mut run, chunks, each);
            run
        };
        let message = words(detect, &run(10, chunk(2_560, 2_304)));
        assert!(message.contains("90 % of the blocks written on vda"), "{message}");
        assert!(
            message.contains("100 MiB were written to 10.0 MiB of distinct blocks, 10.0 times"),
            "{message}"
        );
        assert_eq!(ask(detect, &run(100, chunk(256, 0))), None);
        assert_eq!(ask(detect, &run(1, chunk(2_560, 2_304))), None);
    }
}
