//! `fits_in_memory`: the same data is read again and again, and would fit in memory.

use crate::finding::{Finding, Gravity, Strength};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Class, Op};
use iosonde_model::units::{bytes, count};

use super::super::Figures;

/// Times that each place is read on average from which it is read again.
const TIMES: f64 = 2.0;
/// Share of the memory that the data may be.
const MEMORY: f64 = 0.5;
/// Share of the bytes whose place is not known up to which the rest tells enough.
const LOST: f64 = 0.05;
/// Bytes below which it does not matter.
const FROM_BYTES: u64 = 64 << 20;

/// Speaks of the device with the most bytes read so.
pub(super) fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let memory = run.host.memory_limit_bytes.or(run.host.memory_bytes)?;
    let mut most: Option<(u64, Finding)> = None;
    for place in &figures.places {
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
        if !(again && fits && known) || most.as_ref().is_some_and(|(bytes, _)| *bytes >= read) {
            continue;
        }
        let why = match direct * 2 >= read {
            true => "it bypasses the page cache (O_DIRECT)",
            false => "the page cache did not keep them",
        };
        let words = format!(
            "{} were read from {} of places on {}, each {} times on average; they would fit in a \
             memory of {}, but {why}.",
            bytes::rough(read),
            bytes::rough(set),
            place.device,
            count::significant(read as f64 / set as f64),
            bytes::rough(memory),
        );
        let finding = Finding::new(
            "fits_in_memory",
            "reading again what would fit in memory",
            Strength::Supported,
            Gravity::Fact,
            words,
        );
        let finding = finding
            .with("device", place.device.as_str())
            .with("read_bytes", read as f64)
            .with("read_set_bytes", set as f64)
            .with("memory_bytes", memory as f64);
        most = Some((read, finding));
    }
    most.map(|(_, finding)| finding)
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
    fn reading_again_speaks_and_reading_once_or_too_much_does_not() {
        let told = words(detect, &run(20));
        assert!(told.contains("195 MiB were read from 20.0 MiB of places on vda"), "{told}");
        assert!(told.contains("bypasses the page cache"), "{told}");
        assert_eq!(ask(detect, &run(150)), None);
        let mut small = run(20);
        small.host.memory_bytes = Some(32 << 20);
        assert_eq!(ask(detect, &small), None);
        let mut lost = run(20);
        lost.places[0].lost_bytes = 100 << 20;
        assert_eq!(ask(detect, &lost), None);
    }
}
