//! `durable_writes`: synchronous writes (O_SYNC, O_DSYNC).
//!
//! A device with FUA receives it with the write. For a device without FUA, the block layer sends a
//! flush after each write: the program causes flushes without a sync call.

use super::{Detect, Detector, Figures, Finding, Severity, percent};
use iosonde_model::record::profile::{Class, Op, ProfileRun};
use iosonde_model::units::count;

use super::super::traffic::Tally;

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "durable_writes",
    meaning: "Most writes are synchronous (O_SYNC, O_DSYNC).",
    method: "flags of opens and of requests",
    action: "Write several and sync once where the program allows it.",
    subject: "synchronous writes",
    severity: Severity::Warning,
    detect,
};

/// Smallest share of the writes to report.
const SHARE: f64 = 0.5;
/// Smallest share if files were opened with O_SYNC or O_DSYNC: some file systems write their log in
/// the program's threads, once or twice per write.
const SHARE_OPENED: f64 = 0.25;
/// Sync calls per flush at or below which the flushes have another cause.
const SYNCS: f64 = 0.1;
/// Fewest writes to report.
const WRITES: u64 = 30;

/// Reports when most of the program's own writes carry a flush or FUA.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let tally = Tally::of(
        run.traffic
            .iter()
            .filter(|traffic| traffic.class == Class::Program && traffic.op == Op::Write),
    );
    let opens = run.opens.unwrap_or_default();
    let is_opened_so = opens.sync + opens.dsync > 0;
    let causes = flushed(run, figures, is_opened_so);
    let durable = tally.durable.max(causes.min(tally.requests));
    let share = durable as f64 / tally.requests.max(1) as f64;
    let least = if is_opened_so { SHARE_OPENED } else { SHARE };
    if durable < WRITES || share < least {
        return None;
    }
    let how = match (opens.sync, opens.dsync) {
        (0, 0) => String::new(),
        (sync, dsync) => format!(" (files opened with O_SYNC: {sync}, with O_DSYNC: {dsync})"),
    };
    let words = format!(
        "{} of its {} writes, those of the file system for it included, are synchronous (durable \
         on return){how}: each waits for the device's cache.",
        percent(share),
        count::thousands(tally.requests),
    );
    Some(DETECTOR.proven(words).with("durable_share", share).with("writes", tally.requests))
}

/// Flushes that the program caused without a sync call; 0 if calls were not traced. If a file
/// opened with O_SYNC or O_DSYNC grows, the journal's commits carry the flushes.
fn flushed(run: &ProfileRun, figures: &Figures, is_opened_so: bool) -> u64 {
    let Some(syncs) = &figures.syncs else { return 0 };
    let of = |class: Class, op: Op| {
        run.traffic.iter().filter(move |traffic| traffic.class == class && traffic.op == op)
    };
    let own: u64 = of(Class::Program, Op::Flush).map(|traffic| traffic.requests).sum();
    let commits: u64 = of(Class::Journal, Op::Write).map(|traffic| traffic.durable).sum();
    let flushes = own + if is_opened_so { commits } else { 0 };
    if syncs.calls as f64 <= SYNCS * flushes as f64 { flushes } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of, with_syncs};
    use iosonde_model::record::profile::{OpenCounts, SyncKind, Traffic};

    #[test]
    fn flushes_that_nobody_called_for_are_reported_and_those_of_syncs_are_not() {
        let writes = Flow { op: Op::Write, requests: 1_000, ..Flow::default() };
        let flushes = Flow { op: Op::Flush, size_bytes: 0, requests: 990, ..writes };
        let mut run = profile_of(&[writes, flushes]);
        assert!(words(detect, &run).contains("99 % of its 1,000 writes, "));
        with_syncs(&mut run, "app", SyncKind::Fsync, 990, 100_000);
        assert_eq!(ask(detect, &run), None);
    }

    #[test]
    fn writes_that_a_journal_makes_durable_are_reported_where_they_were_opened_so() {
        let writes = Flow { op: Op::Write, requests: 1_000, ..Flow::default() };
        let mut run = profile_of(&[writes]);
        let commits = run.traffic[0].clone();
        run.traffic.push(Traffic { class: Class::Journal, durable: 1_000, ..commits });
        with_syncs(&mut run, "app", SyncKind::Fsync, 0, 0);
        assert_eq!(ask(detect, &run), None);
        run.opens = Some(OpenCounts { opens: 1, dsync: 1, ..OpenCounts::default() });
        assert!(words(detect, &run).contains("100 % of its 1,000 writes, "));
    }

    #[test]
    fn writes_of_a_log_beside_them_do_not_hide_them_and_those_of_others_are_no_evidence() {
        // As many log writes as data writes, and as many flushes.
        let writes = Flow { op: Op::Write, requests: 3_001, ..Flow::default() };
        let flushes = Flow { op: Op::Flush, size_bytes: 0, requests: 1_500, ..writes };
        let mut run = profile_of(&[writes, flushes]);
        assert_eq!(ask(detect, &run), None);
        run.opens = Some(OpenCounts { opens: 1, dsync: 1, ..OpenCounts::default() });
        let message = words(detect, &run);
        assert!(
            message.contains("50 % of its 3,001 writes, those of the file system"),
            "{message}"
        );
        assert!(message.ends_with("each waits for the device's cache."), "{message}");
    }

    #[test]
    fn durable_writes_are_reported_and_a_few_among_many_are_not() {
        let mut run = profile_of(&[Flow { op: Op::Write, requests: 1_000, ..Flow::default() }]);
        assert_eq!(ask(detect, &run), None);
        run.traffic[0].durable = 960;
        run.opens = Some(OpenCounts { opens: 1, dsync: 1, ..OpenCounts::default() });
        let message = words(detect, &run);
        assert!(message.contains("96 % of its 1,000 writes, "), "{message}");
        assert!(message.contains("O_DSYNC: 1"), "{message}");
        run.traffic[0].durable = 100;
        assert_eq!(ask(detect, &run), None);
    }
}
