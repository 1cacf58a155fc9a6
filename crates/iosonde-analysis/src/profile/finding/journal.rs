//! `journal`: the journal's writes are large compared with the program's.

use super::{Detect, Detector, Figures, Finding, Severity, Strength};
use iosonde_model::record::profile::{Class, Op, ProfileRun};
use iosonde_model::units::{bytes, count};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "journal",
    meaning: "Journals and metadata add a quarter of the program's bytes or more.",
    method: "requests of kernel threads for the file system as a whole",
    action: "Batch creates, renames and syncs; preallocate files that grow.",
    subject: "journal writes",
    severity: Severity::Warning,
    detect,
};

/// Smallest journal bytes per program byte to report.
const RATIO: f64 = 0.25;
/// Fewest journal bytes to report.
const FROM_BYTES: u64 = 1 << 20;

/// Reports when the program is the main writer and the journal adds a quarter or more.
fn detect(_run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let program = figures.program.as_ref()?.op(Op::Write).bytes;
    let of = |class: Class| {
        figures.classes.iter().find(|each| each.class == class).map_or(0, |each| each.write_bytes)
    };
    let (journal, others) = (of(Class::Journal), of(Class::Other));
    let ratio = journal as f64 / program.max(1) as f64;
    // The journal is shared: with other writers, the origin of its writes is unknown.
    if journal < FROM_BYTES || ratio < RATIO || others > program {
        return None;
    }
    let syncs = figures.syncs.as_ref().map_or(0, |syncs| syncs.calls);
    let per_sync = match syncs {
        0 => String::new(),
        syncs => format!(", {} per sync", bytes::rough(journal / syncs)),
    };
    let words = format!(
        "For {} written by the program, file system journals and metadata wrote {}: {} extra \
         bytes per byte{per_sync}.",
        bytes::rough(program),
        bytes::rough(journal),
        count::significant(ratio),
    );
    let strength = if others == 0 { Strength::Supported } else { Strength::ConsistentWith };
    let finding = DETECTOR.found(strength, words).with("journal_bytes", journal);
    Some(finding.with("program_bytes", program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn a_busy_journal_is_reported_and_a_small_or_foreign_one_is_not() {
        let own = Flow { op: Op::Write, requests: 10_000, ..Flow::default() };
        let journal = Flow { class: Class::Journal, requests: 5_000, ..own };
        let message = words(detect, &profile_of(&[own, journal]));
        assert!(
            message.contains("For 39.1 MiB written by the program")
                && message.contains(
                    "0.500 extra \
                bytes"
                ),
            "{message}"
        );
        let small = Flow { requests: 1_000, ..journal };
        assert_eq!(ask(detect, &profile_of(&[own, small])), None);
        // Another program writes more: the journal cannot be attributed.
        let other = Flow { class: Class::Other, requests: 20_000, ..own };
        assert_eq!(ask(detect, &profile_of(&[own, journal, other])), None);
    }
}
