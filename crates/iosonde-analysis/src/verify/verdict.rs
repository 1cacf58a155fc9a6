//! Pass, fail, or inconclusive, and why.

use super::figures::is_of_newer_run;
use super::{FlushEvidence, VerifyFigures};
use iosonde_model::content::classify::Class;
use iosonde_model::plan::VerifyMode;
use iosonde_model::record::run::{Outcome, by_signal};
use iosonde_model::record::store::utc;
use iosonde_model::record::verify::{Failure, VerifyRun};
use iosonde_model::units::bytes;
use iosonde_model::units::count::thousands;

/// The verdict of a verifier run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VerifyVerdict {
    /// Everything that was read back has the expected content.
    Pass,
    /// No read back was planned: a later check verifies the writes.
    Written,
    /// At least one block has unexpected content.
    Fail,
    /// No failure was found, but there are doubts.
    Inconclusive {
        /// The doubts, each a sentence.
        reasons: Vec<String>,
    },
}

impl VerifyVerdict {
    /// Name of the verdict.
    pub fn word(&self) -> &'static str {
        match self {
            VerifyVerdict::Pass => "pass",
            VerifyVerdict::Written => "written",
            VerifyVerdict::Fail => "fail",
            VerifyVerdict::Inconclusive { .. } => "inconclusive",
        }
    }
}

/// Failures take precedence over doubts: a failure counts however little was checked.
pub(super) fn verdict(
    run: &VerifyRun,
    figures: &VerifyFigures,
    doubts: &[String],
) -> VerifyVerdict {
    if figures.failed() > 0 {
        return VerifyVerdict::Fail;
    }
    if !doubts.is_empty() {
        return VerifyVerdict::Inconclusive { reasons: doubts.to_vec() };
    }
    match run.plan.mode.sweeps() || figures.checked > 0 {
        true => VerifyVerdict::Pass,
        false => VerifyVerdict::Written,
    }
}

/// All reasons why a run is inconclusive.
pub(super) fn doubts(
    run: &VerifyRun,
    figures: &VerifyFigures,
    flushes: &FlushEvidence,
) -> Vec<String> {
    let doubts = [
        ended(run),
        newer(run, figures),
        nothing_written(run, figures),
        too_little_read(run, figures),
        nothing_checked(run, figures),
        unreadable(figures),
        errors(figures),
        flush(run, flushes),
    ];
    let mut doubts: Vec<String> = doubts.into_iter().flatten().collect();
    if let Some(ledger) = &run.ledger {
        doubts.extend(ledger.notes.iter().map(|note| format!("the ledger: {note}")));
    }
    let idle = run.injected.iter().filter(|(_, struck)| *struck == 0);
    doubts.extend(idle.map(|(fault, _)| {
        format!("the requested fault `{fault}` was injected 0 times: there was nothing to find")
    }));
    doubts
}

fn ended(run: &VerifyRun) -> Option<String> {
    match &run.outcome {
        Outcome::Complete => None,
        Outcome::Failed { error } => Some(format!("the run did not end as planned: {error}")),
        Outcome::Interrupted { signal } => {
            let ops: u64 = run.jobs.iter().map(|job| job.ops).sum();
            Some(format!(
                "the run was interrupted {} after {} operations",
                by_signal(*signal),
                thousands(ops)
            ))
        }
    }
}

/// Blocks of a later run; they are not damage.
fn newer(run: &VerifyRun, figures: &VerifyFigures) -> Option<String> {
    let ledger = run.ledger.as_ref().filter(|_| figures.newer_blocks > 0)?;
    let seen = run.jobs.iter().flat_map(|job| &job.failures);
    let newer = seen.filter(|failure| is_of_newer_run(run, failure));
    let first = newer.min_by_key(|failure| failure.misfit.label.map(|label| label.time_ns))?;
    let other = first.misfit.run.map_or_else(|| "another run".into(), |run| format!("run {run}"));
    let time_ns = first.misfit.label.map_or(0, |label| label.time_ns);
    Some(format!(
        "the ledger belongs to run {}, started at {}, but {other} was written here later, from {} \
         on: {} blocks belong to a later run and cannot be checked with this ledger",
        run.plan.run,
        utc(ledger.created_unix_ns),
        utc(time_ns),
        thousands(figures.newer_blocks),
    ))
}

fn nothing_written(run: &VerifyRun, figures: &VerifyFigures) -> Option<String> {
    let changed = figures.written_bytes + figures.trimmed_bytes;
    (run.plan.changes() && changed == 0).then(|| {
        format!("nothing was written: 0 bytes were acknowledged of {} operations", figures.ops)
    })
}

fn too_little_read(run: &VerifyRun, figures: &VerifyFigures) -> Option<String> {
    let VerifyFigures { swept_blocks, sweep_blocks, .. } = *figures;
    (run.plan.mode.sweeps() && swept_blocks < sweep_blocks).then(|| {
        format!(
            "{} of {} blocks were read back ({}), fewer than planned",
            thousands(swept_blocks),
            thousands(sweep_blocks),
            percent(swept_blocks, sweep_blocks),
        )
    })
}

fn nothing_checked(run: &VerifyRun, figures: &VerifyFigures) -> Option<String> {
    (run.plan.mode.sweeps() && figures.checked == 0).then(|| match figures.unrequired {
        0 => "nothing was checked: 0 blocks were read and checked".into(),
        read => format!(
            "nothing was checked: {} blocks were read, and the ledger requires nothing of any of \
             them",
            thousands(read)
        ),
    })
}

fn unreadable(figures: &VerifyFigures) -> Option<String> {
    (figures.unreadable_blocks > 0).then(|| {
        format!(
            "{} blocks ({}) could not be read: the storage reported the failure; whether they \
             contain the written data is not known",
            thousands(figures.unreadable_blocks),
            bytes::rough(figures.unreadable_blocks * figures.block_bytes),
        )
    })
}

fn errors(figures: &VerifyFigures) -> Option<String> {
    (figures.error_count() > 0).then(|| {
        let each = figures.errors.iter().map(|(error, count)| format!("{error} x {count}"));
        let each = each.collect::<Vec<_>>().join(", ");
        let first = figures.first_error.as_ref().map_or_else(String::new, |(offset, length, _)| {
            format!("; the first at offset {offset}, {length} bytes")
        });
        format!("{} requests failed ({each}{first})", thousands(figures.error_count()))
    })
}

/// No flush reached a device that needs flushes.
fn flush(run: &VerifyRun, flushes: &FlushEvidence) -> Option<String> {
    use VerifyMode::{Flush, PowerCut, Soak, Write};
    let relies = matches!(run.plan.mode, Flush | Soak | Write | PowerCut);
    if !relies || flushes.write_back != Some(true) {
        return None;
    }
    match (flushes.sent, flushes.counted) {
        (0, _) => Some(
            "no flush was acknowledged, and the device has a write-back cache: nothing was made \
             durable"
                .into(),
        ),
        (sent, Some(0)) => Some(format!(
            "no flush reached the device: {} were sent, the device counted 0, and its cache is \
             write-back",
            thousands(sent)
        )),
        _ => None,
    }
}

/// Facts that change no verdict.
pub(super) fn notes(run: &VerifyRun, figures: &VerifyFigures) -> Vec<String> {
    let mut notes = Vec::new();
    let tail_bytes = run.plan.tail_bytes();
    if tail_bytes > 0 {
        notes.push(format!(
            "the last {} of the target are no whole block of {}, and are not verified",
            bytes::exact(tail_bytes),
            bytes::exact(run.plan.block_bytes.into())
        ));
    }
    let failures = || super::reported(run);
    let phantoms = figures.failed_blocks.get(&Class::Phantom).copied().unwrap_or(0);
    if phantoms > 0 {
        notes.push(format!(
            "{} blocks contain a generation that was never written: the verifier or its ledger is \
             wrong, or the data was forged",
            thousands(phantoms)
        ));
    }
    let live = |failure: &&Failure| {
        let label = failure.misfit.label.filter(|_| failure.misfit.class == Class::OldRun);
        run.started_unix_ns > 0
            && run.ledger.is_none()
            && label.is_some_and(|label| label.time_ns > run.started_unix_ns)
    };
    let live = failures().filter(live).count() as u64;
    if live > 0 {
        notes.push(format!(
            "{} blocks of another run were written after this run began: another verifier may be \
             writing here at the same time",
            thousands(live)
        ));
    }
    for (fault, struck) in run.injected.iter().filter(|(_, struck)| *struck > 0) {
        let found = if figures.failed() + figures.error_count() > 0 {
            ""
        } else {
            ", and nothing was found: the effect was overwritten, or is allowed"
        };
        let found = if run.plan.mode.sweeps() { found } else { "; a check must find it" };
        notes.push(format!(
            "injected fault: `{fault}`, {}{found}",
            if *struck == 1 { "once".into() } else { format!("{} times", thousands(*struck)) }
        ));
    }
    if let Some(ledger) = &run.ledger {
        let required = match ledger.durable_only {
            true => "what a flush made durable (power was lost, or may have been lost)",
            false => "everything that was acknowledged",
        };
        notes.push(format!("the ledger requires {required}"));
    }
    notes
}

/// The verdict as a sentence.
pub(super) fn words(run: &VerifyRun, verdict: &VerifyVerdict, figures: &VerifyFigures) -> String {
    match verdict {
        VerifyVerdict::Pass => format!(
            "all {} checks found the expected data{}",
            thousands(figures.checked),
            match run.plan.mode.sweeps() {
                true => format!(
                    "; {} of {} blocks were read back at the end",
                    thousands(figures.swept_blocks),
                    thousands(figures.sweep_blocks)
                ),
                false => String::new(),
            }
        ),
        VerifyVerdict::Written => format!(
            "{} in {} blocks were written and nothing was read back: run `iosonde verify check`",
            bytes::rough(figures.written_bytes),
            thousands(figures.changed_blocks)
        ),
        VerifyVerdict::Fail => {
            let each = figures.failed_blocks.iter();
            let each = each.map(|(class, count)| format!("{} {}", thousands(*count), class.word()));
            let transient = match (figures.transient_blocks, figures.failed()) {
                (0, _) => String::new(),
                (transient, all) if transient == all => {
                    "; the stored blocks are right, the reads were wrong".into()
                }
                (transient, _) => format!(
                    "; {} of these are stored right, only the read was wrong",
                    thousands(transient)
                ),
            };
            format!(
                "{}: {}{transient}",
                match figures.failed() {
                    1 => "1 block does not contain the expected data".into(),
                    failed =>
                        format!("{} blocks do not contain the expected data", thousands(failed)),
                },
                each.collect::<Vec<_>>().join(", ")
            )
        }
        VerifyVerdict::Inconclusive { reasons } => {
            let checked = thousands(figures.checked);
            format!("{checked} checks found nothing wrong, but {}", reasons.join("; and "))
        }
    }
}

/// A share that is printed as 100 % only if it is exactly that.
fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", (1000.0 * part as f64 / whole.max(1) as f64).floor() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::judge;
    use iosonde_fixtures::verify::{check_of, device, fail_with, failure, soak, stale};
    use iosonde_model::content::block::Label;
    use iosonde_model::plan::RunId;
    use iosonde_model::record::facts::DeviceCounters;
    use iosonde_model::record::verify::Reread;

    fn verdict_of(run: &VerifyRun) -> VerifyVerdict {
        judge(run, &[]).verdict
    }

    /// The only reason why a run is inconclusive.
    #[track_caller]
    fn doubt(run: &VerifyRun) -> String {
        match verdict_of(run) {
            VerifyVerdict::Inconclusive { reasons } if reasons.len() == 1 => reasons.concat(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_run_that_read_back_everything_passes() {
        let judged = judge(&soak(), &[]);
        assert_eq!(judged.verdict, VerifyVerdict::Pass);
        assert_eq!(judged.doubts, Vec::<String>::new());
        assert!(judged.words.contains("256 of 256 blocks"), "{}", judged.words);
        assert_eq!(verdict_of(&check_of(&[])), VerifyVerdict::Pass);
    }

    #[test]
    fn one_failed_block_fails_transient_ones_too_and_doubts_do_not_save_it() {
        let mut run = soak();
        fail_with(&mut run, stale());
        assert_eq!(verdict_of(&run), VerifyVerdict::Fail);
        run.jobs[0].failures[0].reread = Reread::Right;
        let judged = judge(&run, &[]);
        assert_eq!((judged.verdict, judged.figures.transient_blocks), (VerifyVerdict::Fail, 1));
        assert!(judged.words.contains("the reads were wrong"), "{}", judged.words);
        run.outcome = Outcome::Interrupted { signal: 2 };
        let judged = judge(&run, &[]);
        assert_eq!(judged.verdict, VerifyVerdict::Fail);
        assert!(judged.doubts[0].contains("by SIGINT"));
        let mut run = soak();
        fail_with(&mut run, failure(Class::Phantom));
        let judged = judge(&run, &[]);
        assert_eq!(judged.verdict, VerifyVerdict::Fail);
        assert!(judged.notes[0].contains("the verifier or its ledger is wrong"));
    }

    #[test]
    fn nothing_checked_is_inconclusive() {
        let mut run = soak();
        run.jobs.iter_mut().for_each(|job| (job.checked, job.unrequired) = (0, 128));
        assert!(doubt(&run).contains("256 blocks were read, and the ledger requires nothing"));
        run.jobs[0].checked = 1;
        assert_eq!(verdict_of(&run), VerifyVerdict::Pass);
    }

    #[test]
    fn less_read_back_than_planned_is_inconclusive() {
        let mut run = soak();
        run.jobs[1].swept_blocks -= 1;
        assert!(doubt(&run).contains("255 of 256 blocks were read back (99.6 %)"));
        // A run without a planned read back.
        run.plan.mode = VerifyMode::Write;
        run.jobs.iter_mut().for_each(|job| (job.checked, job.swept_blocks) = (0, 0));
        let judged = judge(&run, &[]);
        assert_eq!(judged.verdict, VerifyVerdict::Written);
        assert!(judged.words.contains("verify check"));
        // A run stopped before it determined what to read.
        let mut run = soak();
        run.jobs.iter_mut().for_each(|job| (job.sweep_blocks, job.swept_blocks) = (0, 0));
        assert!(doubt(&run).contains("0 of 256"));
    }

    #[test]
    fn nothing_written_is_inconclusive_and_a_check_writes_nothing() {
        let mut run = soak();
        run.jobs.iter_mut().for_each(|job| job.written_bytes = 0);
        assert!(doubt(&run).contains("nothing was written"));
        run.jobs[0].trimmed_bytes = 4096;
        assert_eq!(verdict_of(&run), VerifyVerdict::Pass);
    }

    #[test]
    fn errors_and_unreadable_blocks_are_inconclusive() {
        let mut run = soak();
        run.jobs[0].unreadable_blocks = 3;
        assert!(doubt(&run).contains("3 blocks (12.0 KiB) could not be read"), "{}", doubt(&run));
        let mut run = soak();
        run.jobs[1].errors.insert("write EIO".into(), 2);
        run.jobs[1].first_error = Some((8192, 4096, "EIO".into()));
        let expected = "2 requests failed (write EIO x 2; the first at offset 8192, 4096 bytes)";
        assert_eq!(doubt(&run), expected);
        assert_eq!(judge(&run, &[]).figures.errors["write EIO"], 2);
    }

    #[test]
    fn no_flush_at_a_write_back_cache_is_inconclusive_where_flushes_matter() {
        let mut run = soak();
        run.target.device = Some(device("write back"));
        let count = |flushes| DeviceCounters { writes: 9, flushes, ..Default::default() };
        run.device = Some((DeviceCounters::default(), count(4)));
        assert_eq!(verdict_of(&run), VerifyVerdict::Pass);
        run.device = Some((count(4), count(4)));
        assert!(doubt(&run).contains("4 were sent, the device counted 0"));
        run.target.device = Some(device("write through"));
        assert_eq!(verdict_of(&run), VerifyVerdict::Pass);
        run.target.device = Some(device("write back"));
        run.plan.mode = VerifyMode::Pipeline;
        assert_eq!(verdict_of(&run), VerifyVerdict::Pass);
        run.plan.mode = VerifyMode::Soak;
        run.device = None;
        assert_eq!(verdict_of(&run), VerifyVerdict::Pass, "nothing is known against it");
        run.jobs.iter_mut().for_each(|job| job.flushes = 0);
        assert!(doubt(&run).contains("no flush was acknowledged"));
    }

    #[test]
    fn a_run_that_did_not_end_as_planned_is_inconclusive() {
        let mut run = soak();
        run.outcome = Outcome::Failed { error: "flush: EIO".into() };
        assert!(doubt(&run).contains("flush: EIO"));
        run.outcome = Outcome::Interrupted { signal: 15 };
        assert!(doubt(&run).contains("by SIGTERM after 1,000 operations"), "{}", doubt(&run));
    }

    #[test]
    fn notes_of_the_ledger_are_inconclusive() {
        let mut run = check_of(&[]);
        let ledger = run.ledger.as_mut().expect("a check has a ledger");
        ledger.notes = vec!["job 0: the note before its last is damaged".into()];
        assert_eq!(doubt(&run), "the ledger: job 0: the note before its last is damaged");
    }

    #[test]
    fn a_fault_that_was_never_injected_is_inconclusive() {
        let mut run = soak();
        run.injected = vec![("drop:nth=9".into(), 0)];
        assert!(doubt(&run).contains("injected 0 times"));
        run.injected[0].1 = 1;
        let judged = judge(&run, &[]);
        assert_eq!(judged.verdict, VerifyVerdict::Pass);
        assert!(judged.notes[0].contains("nothing was found"));
    }

    fn of_run(time_ns: u64) -> Failure {
        let mut failure = failure(Class::OldRun);
        failure.misfit.run = Some(RunId(0xb));
        failure.misfit.label =
            Some(Label { offset: 8192, generation: 1, time_ns, ..Label::default() });
        failure
    }

    #[test]
    fn blocks_of_a_later_run_are_no_failures_and_those_of_an_earlier_one_are() {
        let created = check_of(&[]).ledger.map_or(0, |ledger| ledger.created_unix_ns);
        let run = check_of(&[of_run(created + 5_000_000_000)]);
        let message = doubt(&run);
        assert!(
            message.contains("but run 0000000000000000000000000000000b was written"),
            "{message}"
        );
        assert!(message.contains("1 blocks belong to a later run"), "{message}");
        let judged = judge(&run, &[]);
        assert_eq!((judged.figures.failed(), judged.failures.len()), (0, 0));
        assert_eq!(verdict_of(&check_of(&[of_run(created - 1)])), VerifyVerdict::Fail);
        // Both at once: stale data remains a failure.
        let both = judge(&check_of(&[of_run(created + 1), of_run(created - 1)]), &[]);
        assert_eq!((both.figures.failed(), both.figures.newer_blocks), (1, 1));
        // More failures than are recorded in detail.
        let mut many = check_of(&[of_run(created + 1)]);
        many.jobs[0].failed_blocks.insert(Class::OldRun, 1000);
        assert_eq!(judge(&many, &[]).figures.newer_blocks, 1000);
        // Without a ledger, a block of another run is a failure: old data instead of new.
        let mut live = soak();
        fail_with(&mut live, of_run(u64::MAX));
        let judged = judge(&live, &[]);
        assert_eq!(judged.verdict, VerifyVerdict::Fail);
        assert!(judged.notes[0].contains("at the same time"), "{:?}", judged.notes);
    }
}
