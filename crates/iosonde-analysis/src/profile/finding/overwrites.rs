//! `overwrites`: the same places are written over and over.

use crate::finding::{Finding, Gravity, Strength};
use iosonde_model::record::ProfileRun;
use iosonde_model::units::{bytes, count};

use super::super::Figures;
use super::percent;

/// Share of overwrites from which it is a habit.
const SHARE: f64 = 0.5;
/// Bytes written below which it does not matter.
const FROM_BYTES: u64 = 16 << 20;

/// Speaks of the device with the most bytes written so.
pub(super) fn detect(_run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let often = figures.places.iter().filter(|place| {
        place.written_bytes >= FROM_BYTES
            && place.overwrite_share.is_some_and(|share| share >= SHARE)
    });
    let place = often.max_by_key(|place| place.written_bytes)?;
    let share = place.overwrite_share?;
    let times = place.written_bytes as f64 / place.write_set_bytes.max(1) as f64;
    let words = format!(
        "{} of the blocks written on {} had been written before: {} went to {} of places, {} times \
         each on average.",
        percent(share),
        place.device,
        bytes::rough(place.written_bytes),
        bytes::rough(place.write_set_bytes),
        count::significant(times),
    );
    let finding = Finding::new("overwrites", "overwriting", Strength::Proven, Gravity::Fact, words);
    Some(
        finding
            .with("device", place.device.as_str())
            .with("overwrite_share", share)
            .with("written_bytes", place.written_bytes as f64)
            .with("write_set_bytes", place.write_set_bytes as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of, with_places};
    use iosonde_model::record::profile::{Chunk, Op};

    #[test]
    fn writing_the_same_again_speaks_and_writing_anew_does_not() {
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
        let told = words(detect, &run(10, chunk(2_560, 2_304)));
        assert!(told.contains("90 % of the blocks written on vda"), "{told}");
        assert!(told.contains("100 MiB went to 10.0 MiB of places, 10.0 times"), "{told}");
        assert_eq!(ask(detect, &run(100, chunk(256, 0))), None);
        assert_eq!(ask(detect, &run(1, chunk(2_560, 2_304))), None);
    }
}
