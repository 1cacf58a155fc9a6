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
fn detect(_run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let uneven = figures.places.iter().filter(|place| place.chunks >= CHUNKS);
    let known = uneven.filter_map(|place| Some((place, place.hot_share?)));
    let (place, share) = known.max_by(|a, b| a.1.total_cmp(&b.1))?;
    if share < SHARE {
        return None;
    }
    let words = format!(
        "{} of the requests on {} go to a fifth of the {} chunks of {} touched: a cache of {} \
         would absorb most of them.",
        percent(share),
        place.device,
        count::thousands(place.chunks),
        bytes::rough(place.chunk_bytes),
        bytes::rough(place.chunks * place.chunk_bytes / 5),
    );
    let finding = DETECTOR.found(Strength::Proven, words).with("device", place.device.as_str());
    Some(finding.with("hot_share", share))
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
    }
}
