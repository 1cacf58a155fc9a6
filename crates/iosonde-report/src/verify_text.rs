//! A judged run of the verifier as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::answer::Answer;
use super::clean::clean;
use super::ladder_text::COLUMNS;
use super::report::{Block, Column, Section, Table};
use super::wrap::{Text, wrapped as broken};
use iosonde_analysis::verify::{FailureDetails, OpDetails, VerifyFigures, VerifyJudgement};
use iosonde_model::plan::VerifyPlan;
use iosonde_model::record::VerifyRun;
use iosonde_model::units::count::thousands;
use iosonde_model::units::{bytes, duration};

/// Most groups of failures reported in full; the others are counted.
const IN_FULL: usize = 8;
/// Bytes in a row of a comparison.
const ROW: usize = 16;

/// Three lines that describe the test, printed before it starts.
pub fn verify_heading(plan: &VerifyPlan) -> String {
    let target = plan.plan.target();
    let job = plan.plan.jobs.first();
    let jobs = plan.plan.jobs.len();
    format!(
        "iosonde: {}  (verify {}, {})\n  {}, {} {}, depth {}, blocks of {} in sectors of {}, {} \
         per operation\n  run {}, seed {}\n\n",
        clean(&target.path),
        plan.mode.word(),
        if target.direct { "direct" } else { "buffered" },
        plan.plan.engine.kind.name(),
        jobs,
        if jobs == 1 { "job" } else { "jobs" },
        job.map_or(1, |job| job.iodepth),
        bytes::exact(plan.block_bytes.into()),
        bytes::exact(plan.sector_bytes.into()),
        match (plan.min_blocks, plan.max_blocks) {
            (min, max) if min == max => max.to_string(),
            (min, max) => format!("{min} to {max}"),
        },
        plan.run,
        plan.plan.seed,
    )
}

/// Answer, heading, figures, caches, flushes and failures, for a screen of `screen` columns.
pub fn verify_text(run: &VerifyRun, judged: &VerifyJudgement, screen: usize) -> String {
    let mut out = Text::new(screen, COLUMNS);
    out.push_str(&Answer::of_verify(run, judged).text(out.columns));
    out.push_str(&broken(&verify_heading(&run.plan), out.columns));
    for (name, words) in figures(run, &judged.figures) {
        out.hanging(&format!("  {name:<13}  "), &clean(&words));
    }
    out.push('\n');
    for (name, words) in remarks(judged) {
        out.hanging(&format!("  {name}: "), &clean(&words));
    }
    let all = judged.figures.failed();
    let groups = groups(&judged.failures);
    let mut formatted = 0;
    for group in groups.iter().take(IN_FULL) {
        let numbers = match group.len() as u64 {
            1 => thousands(formatted + 1),
            count => format!("{} to {}", thousands(formatted + 1), thousands(formatted + count)),
        };
        formatted += group.len() as u64;
        let _ = write!(out, "\n  FAILURE {numbers} of {}\n", thousands(all));
        report(&mut out, group);
    }
    rest(&mut out, judged, &groups);
    out.into_string()
}

/// Concerns, notes, caches that may have answered reads, and whether flushes were honoured.
fn remarks(judged: &VerifyJudgement) -> Vec<(&'static str, String)> {
    // Concerns that the words of the verdict do not already contain.
    let beside = judged.doubts.iter().filter(|doubt| !judged.words.contains(doubt.as_str()));
    let caches = judged
        .caches
        .iter()
        .map(|cache| ("cache", format!("{} [{}]", cache.words, cache.strength.word())));
    beside
        .map(|doubt| ("besides", doubt.clone()))
        .chain(judged.notes.iter().map(|note| ("note", note.clone())))
        .chain(caches)
        .chain([("flush", judged.flushes.words.clone())])
        .collect()
}

/// The same as sections of a page: figures, remarks, and the most informative failures.
pub fn verify_sections(run: &VerifyRun, judged: &VerifyJudgement) -> Vec<Section> {
    let rows = figures(run, &judged.figures).into_iter();
    let rows = rows.map(|(name, words)| vec![name.to_owned(), words]);
    let table = Table::of_texts("", Column::all(&["Of", "Figures"], &[]), rows);
    let mut sections = vec![Section::new("figures", "Figures", vec![Block::Table(table)])];
    let groups = groups(&judged.failures);
    if !groups.is_empty() {
        let row = |group: &&[FailureDetails]| {
            let failure = &group[0];
            let found = failure.found.as_ref().map_or("-", |found| found.words.as_str());
            vec![
                thousands(failure.offset),
                thousands(group.len() as u64),
                failure.words.clone(),
                failure.expected.words.clone(),
                found.to_owned(),
            ]
        };
        let caption = format!(
            "{} of {} places; the report below has the operations around them.",
            groups.len().min(IN_FULL),
            groups.len()
        );
        let mut columns = Column::all(&[], &["Offset", "Blocks"]);
        columns.extend(Column::all(&["What", "Expected", "Found"], &[]));
        let table = Table::of_texts(caption, columns, groups.iter().take(IN_FULL).map(row));
        sections.insert(0, Section::new("failures", "Failures", vec![Block::Table(table)]));
    }
    let remarks = remarks(judged).into_iter().map(|(name, words)| format!("{name}: {words}"));
    sections.push(Section::new("remarks", "Remarks", vec![Block::List(remarks.collect())]));
    sections
}

/// Adjacent failures with the same cause as groups, the most informative groups first.
fn groups(failures: &[FailureDetails]) -> Vec<&[FailureDetails]> {
    let writer = |report: &FailureDetails| report.expected.wrote.as_ref().map(|op| op.op);
    let adjoin = |one: &FailureDetails, next: &FailureDetails| {
        one.offset + one.bytes == next.offset
            && (one.class, one.job, one.transient) == (next.class, next.job, next.transient)
            && writer(one) == writer(next)
            && one.damage.is_none()
            && next.damage.is_none()
    };
    let mut groups: Vec<&[FailureDetails]> = failures.chunk_by(adjoin).collect();
    // Missing data is often a consequence of a fault elsewhere, so it is sorted last.
    groups.sort_by_key(|group| {
        matches!(group[0].class.word(), "stale" | "lost" | "old-run" | "garbage")
    });
    groups
}

/// The lines of the table of figures; empty ones are left out.
fn figures(run: &VerifyRun, figures: &VerifyFigures) -> Vec<(&'static str, String)> {
    let count = thousands;
    let mut lines = vec![(
        "blocks",
        format!(
            "{} in the region ({}), {} changed by {}",
            count(figures.region_blocks),
            bytes::rough(figures.region_blocks * figures.block_bytes),
            count(figures.changed_blocks),
            match run.plan.changes() {
                true => format!("{} operations", count(figures.ops)),
                false => "the run that wrote them".into(),
            },
        ),
    )];
    if run.plan.changes() {
        let trimmed = match figures.trimmed_bytes {
            0 => String::new(),
            trimmed => format!("; {} trimmed", bytes::rough(trimmed)),
        };
        let written = format!(
            "{} in {}{}; flushes: {}{trimmed}",
            bytes::rough(figures.written_bytes),
            duration::span(figures.churn_ns),
            at(figures.written_bytes_per_s),
            count(figures.flushes),
        );
        lines.push(("written", written));
    }
    if run.plan.mode.sweeps() {
        let read = format!(
            "{} of {} blocks in {}{}",
            count(figures.swept_blocks),
            count(figures.sweep_blocks),
            duration::span(figures.sweep_ns),
            at(figures.swept_bytes_per_s),
        );
        lines.push(("read back", read));
    }
    let checks = format!(
        "{}; {} of them while the block was being written; {} more of blocks with no expected \
         content",
        count(figures.checked),
        count(figures.uncertain),
        count(figures.unrequired),
    );
    let failed = format!(
        "{} blocks; {} wrong once and right when read again; {} unreadable",
        count(figures.failed()),
        count(figures.transient_blocks),
        count(figures.unreadable_blocks),
    );
    lines.extend([("checks", checks), ("failed", failed)]);
    let latencies = [
        ("reads", figures.read_latency_ns),
        ("writes", figures.write_latency_ns),
        ("flushes", figures.flush_latency_ns),
    ];
    let formatted: Vec<String> = latencies
        .into_iter()
        .filter_map(|(what, latency)| {
            let formatted = |ns: u64| duration::latency(ns as f64);
            let [median, p99, max] = latency?.map(|ns| ns.map_or("n/a".to_owned(), formatted));
            Some(format!("{what} {median} median, {p99} p99, {max} max"))
        })
        .collect();
    if !formatted.is_empty() {
        lines.push(("latency", formatted.join("; ")));
    }
    let errors = figures.errors.iter().map(|(error, times)| format!("{error} x {}", count(*times)));
    let errors = errors.collect::<Vec<_>>().join(", ");
    if !errors.is_empty() {
        lines.push(("errors", errors));
    }
    if let Some(cpu_ns) = figures.cpu_ns_per_gib {
        let calls = count(figures.syscalls);
        let cpu = duration::latency(cpu_ns);
        lines.push(("tool overhead", format!("{cpu} of CPU per GiB moved, {calls} system calls")));
    }
    lines
}

fn at(bytes_per_s: Option<f64>) -> String {
    bytes_per_s.map_or_else(String::new, |rate| format!(", {}", bytes::per_second(rate)))
}

/// Reports a group by its first failure.
fn report(out: &mut Text, group: &[FailureDetails]) {
    let failure = &group[0];
    let mut say = |name: &str, words: &str| {
        out.hanging(&format!("    {name:<9} "), &clean(words));
    };
    let blocks = match group.len() as u64 {
        1 => format!("{}, block {}", bytes::exact(failure.bytes), thousands(failure.block)),
        count => format!(
            "{count} blocks of {}, from block {}",
            bytes::exact(failure.bytes),
            thousands(failure.block)
        ),
    };
    let place = format!("offset {} ({blocks} of job {})", thousands(failure.offset), failure.job);
    say("what", &failure.words);
    say("where", &place);
    say("expected", &failure.expected.words);
    if let Some(found) = &failure.found {
        say("found", &found.words);
    }
    say("since", &failure.since);
    say("again", &failure.reread_words);
    let around = [
        ("before", &failure.before),
        ("writing", &failure.expected.wrote),
        ("after", &failure.after),
    ];
    let around: Vec<String> = around
        .into_iter()
        .filter_map(|(when, op)| Some(format!("{when}: {}", op_words(op.as_ref()?))))
        .collect();
    if !around.is_empty() {
        say("around", &around.join("; "));
    }
    let touches: Vec<String> = failure.touches.iter().map(op_words).collect();
    if !touches.is_empty() {
        say("last ops", &touches.join("; "));
    }
    let sectors: Vec<String> = failure
        .sectors
        .iter()
        .map(|run| match run.count {
            1 => format!("{}: {}", run.first, run.words),
            count => format!("{} to {}: {}", run.first, run.first + count - 1, run.words),
        })
        .collect();
    if !sectors.is_empty() {
        say("sectors", &sectors.join("; "));
    }
    if let Some(damage) = &failure.damage {
        say("bytes", "in hexadecimal, [..] where they differ");
        compare(out, damage.shown_at, &damage.expected, &damage.found);
    }
    // On one line, so that it can be copied.
    let _ = writeln!(out, "    repeat    {}", clean(&failure.reproducer));
}

/// An operation and its place: `17 write of 8 KiB at 4,096 (generation 2)`.
fn op_words(op: &OpDetails) -> String {
    let place = match op.bytes {
        0 => String::new(),
        length => format!(" of {} at {}", bytes::exact(length), thousands(op.offset)),
    };
    let generation =
        op.generation.map_or_else(String::new, |generation| format!(" (generation {generation})"));
    format!("{} {}{place}{generation}", op.op, op.way)
}

/// Writes rows of the expected bytes, each above the bytes found.
fn compare(out: &mut Text, at: u32, expected: &[u8], found: &[u8]) {
    let rows = expected.chunks(ROW).zip(found.chunks(ROW)).enumerate();
    for (row, (right, wrong)) in rows {
        let cells = |bytes: &[u8]| -> String {
            let each = bytes.iter().zip(right.iter().zip(wrong));
            each.map(|(byte, (right, wrong))| match right == wrong {
                true => format!(" {byte:02x} "),
                false => format!("[{byte:02x}]"),
            })
            .collect()
        };
        let at = at as usize + row * ROW;
        let _ = writeln!(out, "      {at:>7} expected {}", cells(right).trim_end());
        let _ = writeln!(out, "      {:>7} found    {}", "", cells(wrong).trim_end());
    }
}

/// Counts, by class, the failures that are not reported in full.
fn rest(out: &mut Text, judged: &VerifyJudgement, groups: &[&[FailureDetails]]) {
    let mut left: BTreeMap<&str, u64> = BTreeMap::new();
    for (class, count) in &judged.figures.failed_blocks {
        left.insert(class.word(), *count);
    }
    for failure in groups.iter().take(IN_FULL).copied().flatten() {
        if let Some(count) = left.get_mut(failure.class.word()) {
            *count = count.saturating_sub(1);
        }
    }
    let formatted: Vec<String> = left
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(class, count)| format!("{} {class}", thousands(*count)))
        .collect();
    if !formatted.is_empty() {
        let words =
            format!("{}; the JSON document holds more of them in full", formatted.join(", "));
        out.push('\n');
        out.hanging("  and further: ", &words);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::golden::assert_golden;
    use iosonde_analysis::verify::judge;
    use iosonde_fixtures::verify::{check_of, damaged, fail_with, soak, stale};

    fn text_of(run: &VerifyRun) -> String {
        verify_text(run, &judge(run, &[]), usize::MAX)
    }

    #[track_caller]
    fn assert_narrow(text: &str) {
        let long = text.lines().find(|line| {
            line.chars().count() > COLUMNS && !line.trim_start().starts_with("repeat")
        });
        assert_eq!(long, None);
    }

    #[test]
    fn a_pass_is_short() {
        let mut run = soak();
        run.jobs[0].read_latency.record(120_000);
        let text = text_of(&run);
        assert_narrow(&text);
        assert!(text.starts_with("Result:      PASS: all 800 checks"), "{text}");
        assert!(!text.contains("FAILURE"), "{text}");
        assert_golden("verify-pass.txt", &text);
    }

    #[test]
    fn failures_are_printed_in_full_and_the_rest_is_counted() {
        let mut run = soak();
        fail_with(&mut run, stale());
        damaged().into_iter().for_each(|failure| fail_with(&mut run, failure));
        let text = text_of(&run);
        assert_narrow(&text);
        assert!(text.contains("[53] 54") && text.contains("[52] 54"), "{text}");
        assert_golden("verify-fail.txt", &text);
        for _ in 0..20 {
            fail_with(&mut run, stale());
        }
        let text = text_of(&run);
        assert_eq!(text.matches("FAILURE").count(), IN_FULL);
        let shown = 1 + damaged().len();
        let further = 21 - (1 + IN_FULL - shown);
        assert!(text.contains(&format!("and further: {further} stale")), "{text}");
    }

    #[test]
    fn an_inconclusive_check_says_why_once() {
        let mut run = check_of(&[]);
        run.jobs[0].swept_blocks = 1;
        let text = text_of(&run);
        assert_narrow(&text);
        assert!(text.starts_with("Result:      INCONCLUSIVE: "), "{text}");
        assert_eq!(text.matches("fewer than").count(), 1, "{text}");
        assert_golden("verify-check.txt", &text);
    }

    #[test]
    fn no_line_is_wider_than_the_screen_but_what_is_copied() {
        let mut run = soak();
        fail_with(&mut run, stale());
        let text = verify_text(&run, &judge(&run, &[]), 60);
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("repeat"));
        for line in lines {
            assert!(crate::wrap::width(line) <= 60, "{line}\n{text}");
        }
    }

    #[test]
    fn what_devices_and_files_say_is_cleaned() {
        let mut run = soak();
        run.plan.plan.targets[0].path = "/data/\u{1b}[2Jfile".into();
        run.target.filesystem = Some("ev\u{7}il".into());
        run.target.class = iosonde_model::record::facts::FilesystemClass::Network;
        run.injected = vec![("a\u{1b}]0;x\u{7}b".into(), 0)];
        fail_with(&mut run, stale());
        let text = text_of(&run);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(text.contains(r"ev\x07il"));
    }
}
