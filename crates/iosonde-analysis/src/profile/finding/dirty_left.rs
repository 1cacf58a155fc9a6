//! `dirty_left`: the program's data reached the device after its end, or not at all.

use super::{Detect, Detector, Figures, Finding, Severity, Strength, percent};
use iosonde_model::record::profile::{Class, Op, ProfileRun, Traffic};
use iosonde_model::units::{bytes, duration};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "dirty_left",
    meaning: "Data reached the device after the program's end, or not during the profile.",
    method: "dirty pages that the program left, and their write-back",
    action: "Add a sync where the data must be durable at the end.",
    subject: "late write-back",
    severity: Severity::Warning,
    detect,
};

/// Shortest time after the end to report, ns.
const FROM_NS: u64 = 100_000_000;

/// Fewest unwritten dirty bytes to report, and their smallest share of all dirtied bytes.
const UNWRITTEN_BYTES: u64 = 4 << 20;
const UNWRITTEN_SHARE: f64 = 0.1;

/// Fewest late bytes to report: fewer are metadata and the end of a log, which every program
/// leaves. Their smallest share of all bytes written: less adds little to the run time.
const LATE_BYTES: u64 = 1 << 20;
const LATE_SHARE: f64 = 0.1;

/// Reports when write-back of the program's pages ended well after the program, or had not ended
/// when tracing stopped.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    unwritten(run, figures).or_else(|| late(run))
}

/// Reports dirtied pages that no traced request wrote.
fn unwritten(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let calls = run.calls?;
    let dirtied = calls.storage_write_bytes.saturating_sub(calls.cancelled_bytes);
    let written = figures.program.as_ref()?.op(Op::Write).bytes;
    let left = dirtied.saturating_sub(written);
    // Writes to an untraced device, or while nothing was traced, are not seen.
    let is_hidden = run.devices.iter().any(|device| device.invisible.is_some());
    let little = left < UNWRITTEN_BYTES || (left as f64) < UNWRITTEN_SHARE * dirtied as f64;
    if is_hidden || little {
        return None;
    }
    if let Some(reason) = &run.unwatched {
        let words = format!(
            "{} ({}) of what it wrote reached no traced device before tracing ended: it is still \
             in memory, or went elsewhere ({reason}).",
            bytes::rough(left),
            percent(left as f64 / dirtied as f64),
        );
        let finding = DETECTOR.found_at(Severity::Fact, Strength::ConsistentWith, words);
        let finding = finding.with("dirtied_bytes", dirtied);
        let mut finding = finding.with("written_bytes", written);
        if written == 0 {
            // Nothing shows that the data went to a traced device.
            finding.subject.clear();
        }
        return Some(finding);
    }
    let words = format!(
        "It left {} in memory, {} of what it wrote: no request had written it to a device when \
         tracing ended, {} after its end. A sync would have; --settle waits longer.",
        bytes::rough(left),
        percent(left as f64 / dirtied as f64),
        duration::span(run.settle_ns),
    );
    Some(DETECTOR.supported(words).with("dirtied_bytes", dirtied).with("written_bytes", written))
}

fn late(run: &ProfileRun) -> Option<Finding> {
    let back = || run.traffic.iter().filter(|traffic| traffic.class == Class::WriteBack);
    let last = back().filter_map(|traffic| traffic.active_ns).map(|(_, end)| end).max()?;
    let after_ns = last.checked_sub(run.measured_ns).filter(|ns| *ns >= FROM_NS)?;
    let written: u64 = back().map(|traffic| traffic.bytes).sum();
    let known = late_bytes(run).filter(|(late, _)| *late > 0);
    // Without intervals, all of the write-back is the upper bound of what was late.
    let (late, all) = known.unwrap_or((written, written_bytes(run)));
    if late < LATE_BYTES || (late as f64) < LATE_SHARE * all as f64 {
        return None;
    }
    let how_much = match known {
        Some(_) => format!("{} ({}) of what it wrote", bytes::rough(late), share(late, all)),
        None => format!("part of the {} written back for it", bytes::rough(written)),
    };
    let words = format!(
        "It left dirty pages: {how_much} reached the device only after its end, within {}; its \
         own run time does not include that; with a sync it would.",
        duration::span(after_ns),
    );
    Some(DETECTOR.proven(words).with("after_ns", after_ns).with("write_back_bytes", written))
}

/// Bytes that the program and its write-back wrote.
fn written_bytes(run: &ProfileRun) -> u64 {
    let own = |row: &&Traffic| row.class.is_of_the_program() && row.op == Op::Write;
    run.traffic.iter().filter(own).map(|row| row.bytes).sum()
}

fn share(late: u64, all: u64) -> String {
    percent(late as f64 / all.max(1) as f64)
}

/// Bytes written in the intervals that begin after the end, and in total; `None` without intervals.
fn late_bytes(run: &ProfileRun) -> Option<(u64, u64)> {
    let series = run.series.iter().find(|series| series.op == Op::Write)?;
    let counters = &series.counters;
    let first = run.measured_ns.div_ceil(counters.width_ns.max(1));
    let late = counters.bytes.iter().skip(usize::try_from(first).ok()?).sum();
    Some((late, counters.bytes.iter().sum()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, SECONDS, profile_of};
    use iosonde_model::record::profile::CallCounts;

    #[test]
    fn write_back_after_the_end_is_reported_and_before_it_is_not() {
        let flow =
            Flow { class: Class::WriteBack, op: Op::Write, requests: 1_000, ..Flow::default() };
        let mut run = profile_of(&[Flow { size_bytes: 1 << 20, ..flow }]);
        assert_eq!(ask(detect, &run), None);
        // The program itself took 4 of the 10 seconds.
        run.measured_ns = 4_000_000_000;
        run.settle_ns = SECONDS * 1_000_000_000 - run.measured_ns;
        let message = words(detect, &run);
        assert!(message.contains("600 MiB (60 %) of what it wrote"), "{message}");
        assert!(message.contains("within 6.0 s"), "{message}");
    }

    #[test]
    fn a_little_that_was_late_is_not_reported() {
        let late = |back_bytes: u64, own_requests: u64| {
            let back = Flow { class: Class::WriteBack, op: Op::Write, ..Flow::default() };
            let own = Flow { op: Op::Write, requests: own_requests, ..Flow::default() };
            let back = Flow { requests: 10, size_bytes: back_bytes / 10, ..back };
            let mut run = profile_of(&[own, back]);
            run.measured_ns = 8_000_000_000;
            run.settle_ns = 2_000_000_000;
            run.series.retain(|series| series.counters.bytes[0] == back_bytes / 10);
            // The program's own writes were in time.
            run.series[0].counters.bytes[0] += own_requests * 4096;
            ask(detect, &run)
        };
        assert_eq!(late(40 << 10, 2), None);
        assert_eq!(late(20 << 20, 50_000), None);
        assert!(late(20 << 20, 2).is_some());
    }

    #[test]
    fn pages_that_were_never_written_are_reported_unless_they_went_where_nothing_is_seen() {
        let mut run = profile_of(&[Flow { op: Op::Write, requests: 1_000, ..Flow::default() }]);
        run.calls = Some(CallCounts { storage_write_bytes: 4_096_000, ..CallCounts::default() });
        assert_eq!(ask(detect, &run), None);
        let dirtied = (600 << 20) + 4_096_000;
        run.calls = Some(CallCounts { storage_write_bytes: dirtied, ..CallCounts::default() });
        run.settle_ns = 2_000_000_000;
        let message = words(detect, &run);
        assert!(message.contains("It left 600 MiB in memory, 99 % of what it wrote"), "{message}");
        assert!(message.contains("when tracing ended, 2.0 s after its end"), "{message}");
        let unwatched = Some("only some disks were chosen".into());
        let chosen = words(detect, &ProfileRun { unwatched, ..run.clone() });
        assert!(chosen.contains("went elsewhere (only some disks were chosen)"), "{chosen}");
        // The subject is late write-back if a traced device received some of it.
        let subject = |flows: &[Flow]| {
            let mut other = profile_of(flows);
            (other.calls, other.unwatched) = (run.calls, Some(ProfileRun::SELECTED.into()));
            ask(detect, &other).map(|finding| finding.subject)
        };
        let some = Flow { op: Op::Write, requests: 1_000, ..Flow::default() };
        assert_eq!(subject(&[some]).as_deref(), Some("late write-back"));
        assert_eq!(subject(&[]).as_deref(), Some(""));
        run.devices[0].invisible = Some("no queue".into());
        assert_eq!(ask(detect, &run), None);
    }
}
