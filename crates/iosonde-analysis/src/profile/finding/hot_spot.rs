//! `hot_spot`: most requests go to a small part of the touched range.

use crate::finding::{Detector, Finding, Severity, Strength};
use iosonde_model::record::ProfileRun;
use iosonde_model::units::{bytes, count};

use super::super::Figures;
use super::{Detect, percent};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "hot_spot",
    meaning: "Most requests go to a small part of the range.",
    method: "requests by chunk of 1 MiB",
    action: "Cache the hot part, or put it on faster storage.",
    subject: "hot spots",
    severity: Severity::Fact,
    detect,
};

/// Smallest share of the requests on the hottest fifth to report: the Pareto rule.
const SHARE: f64 = 0.8;
/// Fewest chunks to report.
const CHUNKS: u64 = 20;

/// Reports the most uneven device.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let uneven = figures.places.iter().filter(|place| place.chunks >= CHUNKS);
    let known = uneven.filter_map(|place| Some((place, place.hot_share?)));
    let (place, share) = known.max_by(|a, b| a.1.total_cmp(&b.1))?;
    if share < SHARE {
        return None;
    }
    let hot = bytes::rough(place.chunks * place.chunk_bytes / 5);
    let (writes, sense) = match are_mostly_writes(run, &place.device) {
        // Those that must be durable reach the device, cached or not.
        true => (", mostly writes,", format!("{hot} in all")),
        false => ("", format!("a cache of {hot} would absorb most of them")),
    };
    let words = format!(
        "{} of the requests on {}{writes} go to a fifth of the {} chunks of {} touched: {sense}.",
        percent(share),
        place.device,
        count::thousands(place.chunks),
        bytes::rough(place.chunk_bytes),
    );
    let finding = DETECTOR.found(Strength::Proven, words).with("device", place.device.as_str());
    Some(finding.with("hot_share", share))
}

fn are_mostly_writes(run: &ProfileRun, device: &str) -> bool {
    let places = run.places.iter().filter(|places| places.device == device);
    let chunks = || places.clone().flat_map(|places| &places.chunks);
    let reads: u64 = chunks().map(|chunk| chunk.reads).sum();
    chunks().map(|chunk| chunk.writes).sum::<u64>() > reads
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
        for chunk in &mut run.places[0].chunks {
            chunk.writes = std::mem::take(&mut chunk.reads);
        }
        let message = words(detect, &run);
        assert!(message.contains("on vda, mostly writes, go to a fifth"), "{message}");
        assert!(message.ends_with("touched: 20.0 MiB in all."), "{message}");
    }
}
