//! `buffered_stream`: large sequential I/O through the page cache.

use super::{Detect, Detector, Figures, Finding, Severity, percent};
use iosonde_model::record::profile::{Op, ProfileRun};
use iosonde_model::units::bytes;

use super::super::OpFigures;

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "buffered_stream",
    meaning: "Large sequential I/O went through the page cache.",
    method: "sizes and order of requests, and opens with O_DIRECT",
    action: "Consider O_DIRECT, or posix_fadvise(DONTNEED), for data that is used once.",
    subject: "the page cache",
    severity: Severity::Fact,
    detect,
};

/// Fewest bytes to report.
const FROM_BYTES: u64 = 256 << 20;
/// Mean request size at or above which requests are large, bytes.
const LARGE: f64 = 65_536.0;
/// Smallest sequential share, and smallest share through the cache.
const MOSTLY: f64 = 0.8;

/// Reports the operation with more bytes.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let side = figures.program.as_ref()?;
    let streams = [side.op(Op::Read), side.op(Op::Write)].into_iter().filter(|op| is_stream(op));
    let op = streams.max_by_key(|op| op.bytes)?;
    let buffered = op.bytes.saturating_sub(op.direct_bytes);
    let with = |memory| format!(", with {} of memory", bytes::rough(memory));
    let memory = run.host.memory_bytes.map_or(String::new(), with);
    let words = format!(
        "{} were {} in order through the page cache ({} of them, in requests of {} on \
         average{memory}): each byte is copied an extra time and evicts other pages; O_DIRECT or \
         posix_fadvise would avoid both.",
        bytes::rough(buffered),
        if op.op == Op::Read { "read" } else { "written" },
        percent(buffered as f64 / op.bytes.max(1) as f64),
        bytes::rough(op.sizes.mean.unwrap_or(0.0) as u64),
    );
    let finding = DETECTOR.supported(words).with("buffered_bytes", buffered);
    Some(finding.with("sequential_share", op.sequential_share.unwrap_or(0.0)))
}

fn is_stream(op: &OpFigures) -> bool {
    let buffered = op.bytes.saturating_sub(op.direct_bytes);
    buffered >= FROM_BYTES
        && buffered as f64 >= MOSTLY * op.bytes as f64
        && op.sequential_share.is_some_and(|share| share >= MOSTLY)
        && op.sizes.mean.is_some_and(|mean| mean >= LARGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn a_large_buffered_stream_is_reported_and_its_look_alikes_are_not() {
        let flow = Flow {
            requests: 4_000,
            size_bytes: 128 << 10,
            sequential_milli: 950,
            direct_milli: 0,
            ..Flow::default()
        };
        let message = words(detect, &profile_of(&[flow]));
        assert!(message.contains("500 MiB were read in order through the page cache"), "{message}");
        for other in [
            Flow { direct_milli: 1_000, ..flow },
            Flow { sequential_milli: 100, ..flow },
            Flow { requests: 400, ..flow },
            Flow { requests: 128_000, size_bytes: 4096, ..flow },
        ] {
            assert_eq!(ask(detect, &profile_of(&[other])), None);
        }
    }
}
