//! A command line that reproduces a failure, with the shortest prefix known to contain it.

use super::replay::{Past, pasts};
use iosonde_model::content::classify::Class;
use iosonde_model::plan::{EngineKind, Job, VerifyMode};
use iosonde_model::record::verify::{Failure, VerifyRun};
use iosonde_model::units::shell::quoted;

/// Options that are not in a plan and are copied as given.
const CONSENTS: [&str; 3] = ["--destroy-data", "--overwrite-file", "--overwrite-signature"];

/// The command line that reproduces a failure on the same target. `words` is the command line of
/// the run.
pub fn reproducer(run: &VerifyRun, failure: &Failure, words: &[String]) -> String {
    let past = pasts(run, &[failure]).pop().unwrap_or_default();
    line(run, failure, &past, words)
}

/// The command line of [`reproducer`], given the history of the failure.
pub(super) fn line(run: &VerifyRun, failure: &Failure, past: &Past, words: &[String]) -> String {
    let args = match run.plan.mode {
        VerifyMode::Check | VerifyMode::PowerCut => check(run, words),
        _ => again(run, failure, past, words),
    };
    let args = args.iter().map(|arg| quoted(arg)).collect::<Vec<_>>();
    format!("iosonde verify {}", args.join(" "))
}

/// Repeats only the reads.
fn check(run: &VerifyRun, words: &[String]) -> Vec<String> {
    let mut args = Args(vec!["check".into()]);
    args.target(run);
    let logs = values(words, "--witness-log");
    for log in &logs {
        args.add("--witness-log", log);
    }
    let path = run.ledger.as_ref().map(|ledger| ledger.path.clone());
    let path = path.or_else(|| values(words, "--ledger").pop());
    if let Some(path) = path.filter(|_| logs.is_empty()) {
        args.add("--ledger", path);
        let durable = run.ledger.as_ref().is_none_or(|ledger| ledger.durable_only);
        args.add("--survived", if durable { "durable" } else { "acknowledged" });
    }
    args.0
}

/// Repeats the writes up to the relevant operation.
fn again(run: &VerifyRun, failure: &Failure, past: &Past, words: &[String]) -> Vec<String> {
    let plan = &run.plan;
    let first = plan.plan.jobs.first();
    let mut args = Args(vec![plan.mode.word().into()]);
    args.target(run);
    args.add("--offset", first.map_or(0, |job| job.region_start));
    args.add("--size", plan.blocks() * u64::from(plan.block_bytes));
    args.add("--bs", plan.block_bytes);
    args.add("--verify-sectors", format!("{}:{}", plan.min_blocks, plan.max_blocks));
    args.add("--numjobs", plan.plan.jobs.len());
    if plan.overlaps() {
        args.0.push("--overlap".into());
    }
    args.add("--iodepth", first.map_or(1, |job| job.iodepth));
    args.add("--seed", plan.plan.seed);
    // Options with a default are given explicitly even if they are off.
    if plan.mode == VerifyMode::Soak {
        args.add("--read-percent", plan.read_percent);
        args.add("--trim-percent", plan.trim_percent);
    }
    if plan.mode == VerifyMode::Soak || plan.flush_every > 0 {
        args.add("--flush-every", plan.flush_every);
    }
    if plan.passes > 0 {
        args.add("--loops", plan.passes);
    }
    if plan.delay_ns > 0 {
        args.add("--verify-delay", time(plan.delay_ns));
    }
    // The prefix ran within this time; the default could be too short.
    if plan.length_ns != u64::MAX {
        args.add("--runtime", time(plan.length_ns));
    }
    if plays_alone(run, failure) {
        args.add("--only-job", failure.owner);
    }
    if let Some(ops) = prefix(run, failure, past) {
        args.add("--ops", ops);
    }
    for (fault, _) in &run.injected {
        args.0.push(format!("--verify-inject-fault={fault}"));
    }
    for option in CONSENTS {
        args.0.extend(values(words, option).iter().map(|value| format!("{option}={value}")));
    }
    // A damaged file may not be recognised as one of ours, so overwriting it needs consent.
    let consents = args.0.iter().any(|arg| arg.starts_with("--overwrite-file="));
    if run.target.kind == "file" && !run.unnamed && !consents {
        args.0.push(format!("--overwrite-file={}", plan.plan.target().path));
    }
    args.0
}

/// Whether no other job is involved.
fn plays_alone(run: &VerifyRun, failure: &Failure) -> bool {
    let label = failure.misfit.label.filter(|_| failure.misfit.class == Class::Misdirected);
    let part = &run.plan.plan.jobs.get(usize::from(failure.owner));
    let is_own = |offset: u64| {
        let within = |job: &&Job| {
            offset.checked_sub(job.region_start).is_some_and(|at| at < job.region_bytes)
        };
        part.as_ref().is_some_and(within)
    };
    run.plan.plan.jobs.len() > 1
        && run.plan.mode != VerifyMode::Pipeline
        && !run.plan.overlaps()
        && label.is_none_or(|label| label.writer == failure.owner)
        && failure.misfit.stray.is_none_or(|stray| is_own(stray.offset))
}

/// Number of operations that includes the required change, the allowed ones and the read; for a
/// misdirected block, its write too.
fn prefix(run: &VerifyRun, failure: &Failure, past: &Past) -> Option<u64> {
    let changes = past.wrote.iter().chain(&past.pending).map(|(op, _)| op.index);
    let read = failure.op.filter(|_| run.plan.mode != VerifyMode::Pipeline);
    let strayed = failure
        .misfit
        .label
        .filter(|_| failure.misfit.class == Class::Misdirected && failure.misfit.run.is_none());
    let strayed = strayed.map(|label| label.sequence);
    let last = changes.chain(read).chain(strayed).max();
    let known = (failure.after_ops > 0).then_some(failure.after_ops);
    last.map(|last| last + 1).or(known)
}

/// A command line under construction.
struct Args(Vec<String>);

impl Args {
    fn add(&mut self, option: &str, value: impl ToString) {
        self.0.extend([option.to_owned(), value.to_string()]);
    }

    fn target(&mut self, run: &VerifyRun) {
        let plan = &run.plan.plan;
        let path = &plan.target().path;
        self.add("--path", path.strip_prefix("sim:").unwrap_or(path));
        self.add("--ioengine", plan.engine.kind.name());
        let none = [EngineKind::IoUringCmd, EngineKind::Sim, EngineKind::VhostUser];
        if !none.contains(&plan.engine.kind) {
            self.add("--direct", u8::from(plan.target().direct));
        }
    }
}

/// All values of an option, given as `--option=value` or `--option value`.
pub(super) fn values(words: &[String], option: &str) -> Vec<String> {
    let next = words.iter().skip(1).map(Some).chain([None]);
    words
        .iter()
        .zip(next)
        .filter_map(|(word, next)| match word.strip_prefix(option)? {
            "" => next.cloned(),
            rest => rest.strip_prefix('=').map(str::to_owned),
        })
        .collect()
}

/// A time in the largest unit that divides it.
fn time(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units.into_iter().find(|(scale, _)| ns.is_multiple_of(*scale));
    let (scale, name) = unit.unwrap_or((1, "ns"));
    format!("{}{name}", ns / scale)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::verify::{check_of, failure, soak, stale};
    use iosonde_model::content::block::Label;
    use iosonde_model::plan::{IoKind, VerifyStream};

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    /// The operation that gives block 2 of job 0 its second generation.
    fn writer() -> u64 {
        let run = soak();
        let mut writes = VerifyStream::new(&run.plan, 0)
            .filter(|op| op.touches(2) && matches!(op.way, IoKind::Write | IoKind::Trim));
        writes.nth(1).unwrap().index
    }

    #[test]
    fn the_command_names_everything_that_the_operations_follow_from() {
        let expected = format!(
            "iosonde verify soak --path /data/file --ioengine io_uring --direct 1 --offset 0 \
             --size 1048576 --bs 4096 --verify-sectors 1:4 --numjobs 2 --iodepth 4 --seed 1 \
             --read-percent 20 --trim-percent 0 --flush-every 249 --runtime 60s --only-job 0 \
             --ops {} --overwrite-file=/data/file",
            writer() + 1
        );
        assert_eq!(reproducer(&soak(), &stale(), &[]), expected);
    }

    #[test]
    fn the_read_that_saw_it_is_part_of_the_prefix() {
        let failure = Failure { op: Some(400), after_ops: 405, ..stale() };
        assert!(reproducer(&soak(), &failure, &[]).contains(" --ops 401 "));
        let unknown = Failure { low: 0, high: 0, ..failure };
        let unknown = Failure { op: None, ..unknown };
        assert!(reproducer(&soak(), &unknown, &[]).contains(" --ops 405 "));
    }

    #[test]
    fn what_went_astray_brings_the_job_that_wrote_it() {
        let mut failure = failure(Class::Misdirected);
        let label =
            |writer| Some(Label { offset: 4096, writer, sequence: 450, ..Label::default() });
        failure.misfit.label = label(1);
        let line = reproducer(&soak(), &failure, &[]);
        assert!(line.contains(" --ops 451 ") && !line.contains("--only-job"), "{line}");
        failure.misfit.label = label(0);
        assert!(reproducer(&soak(), &failure, &[]).contains("--only-job 0 --ops 451"));
    }

    #[test]
    fn consents_are_repeated_and_faults_are_injected_again() {
        let mut run = soak();
        run.injected = vec![("tear=3:nth=5".into(), 1)];
        run.target.kind = "block device".into();
        run.plan.plan.targets[0].path = "/dev/my disk".into();
        let given = "verify soak --destroy-data=S/N:17 --overwrite-signature ext4 --path x";
        let line = reproducer(&run, &stale(), &words(given));
        let end = " --verify-inject-fault=tear=3:nth=5 --destroy-data=S/N:17 \
                   --overwrite-signature=ext4";
        assert!(line.ends_with(end), "{line}");
        assert!(line.contains("--path '/dev/my disk'"));
        run.target.kind = "file".into();
        let line = reproducer(&run, &stale(), &words("--overwrite-file=a"));
        assert_eq!(line.matches("--overwrite-file=").count(), 1, "{line}");
    }

    #[test]
    fn a_check_is_repeated_as_it_is() {
        let run = check_of(&[stale()]);
        let line = reproducer(&run, &stale(), &[]);
        assert_eq!(
            line,
            "iosonde verify check --path /data/file --ioengine io_uring --direct 1 --ledger \
             run.ledger --survived acknowledged"
        );
        let mut cut = soak();
        cut.plan.mode = VerifyMode::PowerCut;
        let line = reproducer(&cut, &stale(), &words("verify powercut --ledger a.ledger"));
        assert!(line.ends_with("--ledger a.ledger --survived durable"), "{line}");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("/dev/nvme0n1"), "/dev/nvme0n1");
        assert_eq!(time(1_500_000_000), "1500ms");
    }
}
