//! `written_for_it`: other threads wrote back what the program had left in the page cache.

use super::{Detect, Detector, Figures, Finding, Severity, percent};
use iosonde_model::record::profile::{Class, Op, ProfileRun, Traffic};
use iosonde_model::units::{bytes, duration};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "written_for_it",
    meaning: "Other threads wrote back what the program left in the page cache.",
    method: "pages dirtied by the program, written by another thread",
    action: "Count these requests as the program's own.",
    subject: "write-back",
    severity: Severity::Fact,
    detect,
};

/// Smallest share of the program's bytes written to report.
const SHARE: f64 = 0.1;
/// Fewest bytes to report.
const FROM_BYTES: u64 = 1 << 20;

/// Reports when write-back is a large part of the program's writes; names the groups that dirtied
/// the pages.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let all = figures.program.as_ref()?.op(Op::Write).bytes;
    let back = |traffic: &&Traffic| traffic.class == Class::WriteBack && traffic.op == Op::Write;
    let written: u64 = run.traffic.iter().filter(back).map(|traffic| traffic.bytes).sum();
    let share = written as f64 / all.max(1) as f64;
    if written < FROM_BYTES || share < SHARE {
        return None;
    }
    let mut whose: Vec<(u64, String)> = super::groups(run)
        .map(|(index, name, _)| {
            let own = run.traffic.iter().filter(|t| t.group == index).filter(back);
            (own.map(|traffic| traffic.bytes).sum(), name)
        })
        .filter(|(bytes, _)| *bytes > 0)
        .collect();
    whose.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let of = |(bytes, name): &(u64, String)| format!("`{name}` {}", bytes::rough(*bytes));
    let message: Vec<String> = whose.iter().take(3).map(of).collect();
    let words = format!(
        "{} of what it wrote ({}) reached the device by write-back in other threads; dirtied by \
         {}. {}",
        percent(share),
        bytes::rough(written),
        message.join(", "),
        waited(run, figures),
    );
    Some(DETECTOR.proven(words).with("write_back_bytes", written).with("write_back_share", share))
}

/// Smallest share of the time blocked on I/O that may be waits for these writes.
const BLOCKED: f64 = 0.05;

/// Whether its threads waited for these writes, as text: in syncs, or at the dirty page limit.
fn waited(run: &ProfileRun, figures: &Figures) -> String {
    let syncs_ns: u128 = run.syncs.iter().map(|sync| sync.latency.sum()).sum();
    if syncs_ns > 0 {
        return format!(
            "Its sync calls, {} in all, may have waited for them.",
            duration::latency(syncs_ns as f64)
        );
    }
    let blocked = figures.machine.program_io_delay;
    if let Some(share) = blocked.filter(|share| *share >= BLOCKED) {
        return format!(
            "Its threads were blocked on I/O for {} of the time, and may have waited for them, as \
             at the limit of dirty pages.",
            percent(share.min(1.0))
        );
    }
    "Its own threads did not wait for these writes, but they delay requests that threads wait for."
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn write_back_is_reported_by_who_dirtied_and_own_writes_are_not() {
        let own = Flow { op: Op::Write, requests: 1_000, ..Flow::default() };
        let back = |group, requests| Flow {
            class: Class::WriteBack,
            group,
            requests,
            size_bytes: 1 << 20,
            ..own
        };
        let message = words(detect, &profile_of(&[own, back("one", 300), back("two", 100)]));
        assert!(
            message.contains("99 % of what it wrote (400 MiB) reached the device by write-back"),
            "{message}"
        );
        assert!(message.contains("dirtied by `one` 300 MiB, `two` 100 MiB"), "{message}");
        assert_eq!(ask(detect, &profile_of(&[Flow { requests: 100_000, ..own }])), None);
        // Pages of another program.
        let other = Flow { class: Class::Other, ..back("one", 300) };
        assert_eq!(ask(detect, &profile_of(&[own, other])), None);
    }
}
