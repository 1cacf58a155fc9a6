//! `hot_spot`: most requests go to a small part of the touched range.

use super::{Detect, Detector, Figures, Finding, Severity, percent};
use iosonde_model::record::profile::{Op, ProfileRun, Traffic};
use iosonde_model::units::{bytes, count};

use super::super::PlaceFigures;

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "hot_spot",
    meaning: "Most requests go to a small part of the range.",
    method: "requests by chunk of 1 MiB",
    action: "Put the hot part on faster storage; where it is mostly read, cache it.",
    subject: "hot spots",
    severity: Severity::Fact,
    detect,
};

/// Smallest share of the requests on the hottest fifth to report: the Pareto rule.
const SHARE: f64 = 0.8;
/// Fewest chunks to report.
const CHUNKS: u64 = 20;
/// Fewest reads per block, on average, for which a cache would help.
const TIMES: u64 = 2;

/// Reports the most uneven device.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let uneven = figures.places.iter().filter(|place| place.chunks >= CHUNKS);
    let known = uneven.filter_map(|place| Some((place, place.hot_share?)));
    let (place, share) = known.max_by(|a, b| a.1.total_cmp(&b.1))?;
    if share < SHARE {
        return None;
    }
    let hot = bytes::rough(place.chunks * place.chunk_bytes / 5);
    let sense = match is_mostly_read_again(run, place) {
        true => format!("a cache of {hot} would absorb most of them"),
        false => format!("{hot} in all"),
    };
    let words = format!(
        "{} of the requests on {} go to a fifth of the {} chunks of {} touched: {sense}.",
        percent(share),
        place.device,
        count::thousands(place.chunks),
        bytes::rough(place.chunk_bytes),
    );
    Some(DETECTOR.proven(words).with("device", place.device.as_str()).with("hot_share", share))
}

/// Whether most requests read data that was read before: a cache absorbs neither the first read of
/// a block nor a write that must be durable.
fn is_mostly_read_again(run: &ProfileRun, place: &PlaceFigures) -> bool {
    let is_own = |each: &&Traffic| each.device == place.device && each.class.is_of_the_program();
    let own = run.traffic.iter().filter(is_own);
    let of = |op: Op| own.clone().filter(move |each| each.op == op);
    let requests = |op| of(op).map(|each| each.requests).sum::<u64>();
    let read_bytes: u64 = of(Op::Read).map(|each| each.bytes).sum();
    requests(Op::Read) > requests(Op::Write) && read_bytes > TIMES * place.read_set_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of, with_places};
    use iosonde_model::record::profile::Chunk;

    #[test]
    fn few_hot_chunks_are_reported_and_even_ones_are_not() {
        let mut run = profile_of(&[Flow::default()]);
        with_places(&mut run, 100, Chunk { reads: 1, touched_blocks: 1, ..Chunk::default() });
        assert_eq!(ask(detect, &run), None);
        for chunk in run.places[0].chunks.iter_mut().step_by(5) {
            chunk.reads = 36;
        }
        let message = words(detect, &run);
        assert!(
            message.contains("89 % of the requests on vda go to a fifth of the 100"),
            "{message}"
        );
        assert!(message.contains("a cache of 20.0 MiB would absorb most"), "{message}");
        // Each block is read once, and there are writes.
        for chunk in &mut run.places[0].chunks {
            chunk.read_blocks = 256;
        }
        let message = words(detect, &run);
        assert!(message.ends_with("touched: 20.0 MiB in all."), "{message}");
        let writes = Flow { op: Op::Write, ..Flow::default() };
        run.traffic = profile_of(&[writes]).traffic;
        for chunk in &mut run.places[0].chunks {
            chunk.read_blocks = 1;
        }
        let message = words(detect, &run);
        assert!(message.ends_with("touched: 20.0 MiB in all."), "{message}");
    }
}
