//! `fits_in_memory`: the same data is read repeatedly, and would fit in memory.

use super::{Detect, Detector, Figures, Finding, Severity, greatest};
use iosonde_model::record::profile::{Class, Op, ProfileRun};
use iosonde_model::units::{bytes, count};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "fits_in_memory",
    meaning: "The same data was read repeatedly, and would fit in memory.",
    method: "distinct blocks read, compared with the memory of the machine",
    action: "Give it cache: buffered I/O, or a larger buffer pool.",
    subject: "repeated reads that would fit in memory",
    severity: Severity::Fact,
    detect,
};

/// Mean reads per block at or above which data is read repeatedly.
const TIMES: f64 = 2.0;
/// Largest size of the data as a share of the memory.
const MEMORY: f64 = 0.5;
/// Largest share of bytes with unknown offset.
const LOST: f64 = 0.05;
/// Fewest bytes to report.
const FROM_BYTES: u64 = 64 << 20;

/// Reports the device with the most bytes read this way.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let memory = run.host.memory_limit_bytes.or(run.host.memory_bytes)?;
    greatest(figures.places.iter().filter_map(|place| {
        let own = || {
            run.traffic.iter().filter(|traffic| {
                traffic.device == place.device
                    && traffic.op == Op::Read
                    && traffic.class == Class::Program
            })
        };
        let read: u64 = own().map(|traffic| traffic.bytes).sum();
        let direct: u64 = own().map(|traffic| traffic.direct_bytes).sum();
        let set = place.read_set_bytes;
        let again = read >= FROM_BYTES && read as f64 >= TIMES * set.max(1) as f64;
        let fits = set > 0 && (set as f64) <= MEMORY * memory as f64;
        let known = place.lost_bytes as f64 <= LOST * read as f64;
        if !(again && fits && known) {
            return None;
        }
        let why = match direct * 2 >= read {
            true => "it bypasses the page cache (O_DIRECT)",
            false => "the page cache did not keep them",
        };
        let words = format!(
            "{} were read from {} of distinct blocks on {}, each {} times on average; they would \
             fit in {} of memory, but {why}.",
            bytes::rough(read),
            bytes::rough(set),
            place.device,
            count::significant(read as f64 / set as f64),
            bytes::rough(memory),
        );
        let finding = DETECTOR.supported(words).with("device", place.device.as_str());
        let finding = finding.with("read_bytes", read).with("read_set_bytes", set);
        Some((read, finding.with("memory_bytes", memory)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of, with_places};
    use iosonde_model::record::profile::Chunk;

    fn run(chunks: u64) -> ProfileRun {
        // 195 MiB are read.
        let mut run = profile_of(&[Flow::default()]);
        let each = Chunk { reads: 1, read_blocks: 256, touched_blocks: 256, ..Chunk::default() };
        with_places(&mut run, chunks, each);
        run
    }

    #[test]
    fn reading_again_is_reported_and_reading_once_or_too_much_is_not() {
        let message = words(detect, &run(20));
        assert!(
            message.contains("195 MiB were read from 20.0 MiB of distinct blocks on vda"),
            "{message}"
        );
        assert!(message.contains("bypasses the page cache"), "{message}");
        assert_eq!(ask(detect, &run(150)), None);
        let mut small = run(20);
        small.host.memory_bytes = Some(32 << 20);
        assert_eq!(ask(detect, &small), None);
        let mut lost = run(20);
        lost.places[0].lost_bytes = 100 << 20;
        assert_eq!(ask(detect, &lost), None);
    }
}
