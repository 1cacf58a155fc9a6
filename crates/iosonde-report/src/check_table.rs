//! The table of `check`: header, one row per finished cell, footer.

use std::collections::BTreeSet;

use iosonde_analysis::cross_check::CrossCheck;
use iosonde_analysis::expectation::Judged;
use iosonde_analysis::figures::{self, Figures, GroupFigures};
use iosonde_analysis::finding::Severity;
use iosonde_analysis::reference::{Place, Placement};
use iosonde_analysis::verdict::{Assessment, Verdict};
use iosonde_model::record::run::{Outcome, Run, by_signal};
use iosonde_model::spec::workload::DURABLE;
use iosonde_model::units::{bytes, count, duration};
use iosonde_stats::dependent::NoInterval;
use iosonde_stats::{Estimate, Quantile, Standing};

use super::answer::Answer;
use super::clean::clean;
use super::cross_check_text::cross_check_text;
use super::pursuit_text::pursuit_note;
use super::report;
use super::run_text;
use super::verdict_text::{expectations_text, verdict_text};
use super::wrap::{Rule, hanging, table, width};

/// A column of the table.
struct Column {
    heading: &'static str,
    width: usize,
    is_text: bool,
    /// On a narrow screen, columns of the highest rank are omitted first; rank 0 always stays.
    rank: u8,
}

const fn column(heading: &'static str, width: usize, rank: u8) -> Column {
    Column { heading, width, is_text: rank == TEXT || width == TITLE, rank }
}

/// Width of the title column.
const TITLE: usize = 12;
/// Rank of the pattern column, which the title implies.
const TEXT: u8 = 5;

const COLUMNS: [Column; 11] = [
    column("Test", TITLE, 0),
    column("Pattern", 19, TEXT),
    column("IO Size", 7, 3),
    column("R/W %", 6, 4),
    column("Thr", 4, 6),
    column("QD", 6, 2),
    column("Bandwidth", 11, 0),
    column("IOPS", 10, 0),
    column("Avg Lat", 8, 1),
    column("P99 Lat", 8, 0),
    column("Durable", 11, 0),
];

/// Mark of a row that has a warning or a named limit.
const WARNING: char = '*';
/// Mark of a row with low-confidence figures or with errors.
const DOUBT: char = '!';

/// The table, as wide as the screen allows.
#[derive(Clone, Copy, Debug)]
pub struct CheckTable {
    /// Width of the screen, columns.
    screen: usize,
    /// Highest rank of the columns shown; `None`: not even those of rank 0 fit.
    rank: Option<u8>,
}

impl CheckTable {
    /// A table for a screen of `screen` columns. Columns are omitted by rank until the others fit.
    /// If those of rank 0 do not fit, each row becomes a block of lines.
    pub fn new(screen: usize) -> CheckTable {
        let width = |rank: &u8| {
            let shown = COLUMNS.iter().filter(|column| column.rank <= *rank);
            1 + shown.map(|column| 1 + column.width).sum::<usize>()
        };
        let rank = (0..=COLUMNS.len() as u8).rev().find(|rank| width(rank) <= screen);
        CheckTable { screen, rank }
    }

    /// Headings and a rule.
    pub fn header(self) -> String {
        if self.rank.is_none() {
            return String::new();
        }
        let line = self.line(&COLUMNS.map(|column| column.heading.to_owned()));
        let rule = "─".repeat(width(line.trim_end()) - 2);
        format!("{line}  {rule}\n")
    }

    /// The row of a finished cell, its sub-rows per role, and notes on unknown figures.
    ///
    /// A row that is INVALID, FAILED or PARTIAL has no figures.
    pub fn row(self, run: &Run, assessment: &Assessment) -> String {
        let figures = &assessment.figures;
        let start = [
            format!("{}{}", clean(&run.plan.title), mark(assessment)),
            clean(&run.plan.pattern),
            size(run.plan.nominal_block_bytes),
        ];
        if let Some(reason) = no_headline(run, assessment) {
            let [title, ..] = start;
            return match self.rank {
                Some(_) => hanging(&format!("  {title:TITLE$} "), &reason, self.screen),
                None => format!("  {title}\n{}", hanging("    ", &reason, self.screen)),
            };
        }
        let durable = match &figures.durable {
            Some(durable) => match durable.bytes_per_s {
                Some(rate) => bytes::per_second(rate),
                None => "FAILED".into(),
            },
            None if figures.all.write.ops > 0 => "n/a".into(),
            None => "-".into(),
        };
        let mut out = self.line(&row(start, &figures.all, figures.inline, durable));
        if figures.roles.len() > 1 {
            for role in &figures.roles {
                let size = role.block_bytes.map_or("mixed".into(), size);
                let start = [format!("  {}", clean(&role.role)), String::new(), size];
                out.push_str(&self.line(&row(start, role, figures.inline, String::new())));
            }
        }
        for note in run.plan.notes.iter().map(|note| clean(note)).chain(notes(figures)) {
            out.push_str(&hanging("      ", &note, self.screen));
        }
        out
    }

    /// Texts under their headings, or one per line if the screen is too narrow. A text too wide for
    /// its column takes the space it needs.
    fn line(self, texts: &[String; COLUMNS.len()]) -> String {
        let shown =
            texts.iter().zip(&COLUMNS).filter(|(_, column)| column.rank <= self.rank.unwrap_or(0));
        if self.rank.is_none() {
            let lines =
                shown.filter(|(text, _)| !text.is_empty()).map(|(text, column)| {
                    match column.width {
                        TITLE => format!("  {text}\n"),
                        _ => format!("    {:10}{text:>12}\n", column.heading),
                    }
                });
            return lines.collect();
        }
        let mut line = String::from(" ");
        for (text, column) in shown {
            let padding = " ".repeat(column.width.saturating_sub(width(text)));
            line.push(' ');
            match column.is_text {
                true => line.extend([text.as_str(), &padding]),
                false => line.extend([padding.as_str(), text]),
            }
        }
        format!("{}\n", line.trim_end())
    }
}

/// Everything that a check prints.
pub struct CheckReport<'a> {
    /// The first lines of the report.
    pub answer: Answer,
    pub rows: &'a [(&'a Run, &'a Assessment)],
    /// The class of storage that the rows are typical of.
    pub placement: &'a Placement,
    /// The verdict over all rows.
    pub verdict: &'a Verdict,
    /// The expectations and whether they were met.
    pub judged: &'a [Judged],
    /// Comparisons with measurements by another program.
    pub cross_checks: &'a [CrossCheck],
    /// Whether all that was planned was measured.
    pub complete: bool,
    /// Titles of the workloads left out because they write.
    pub left_out: &'a [String],
}

impl CheckReport<'_> {
    /// The text for a screen of `screen` columns.
    pub fn text(&self, screen: usize) -> String {
        let table = CheckTable::new(screen);
        let mut out = self.answer.text(screen);
        if let Some((run, _)) = self.rows.first() {
            let size = count::thousands(run.plan.target().bytes >> 20);
            let writes = self.rows.iter().any(|(run, _)| run.plan.writes());
            let what = if run.plan.final_sync || writes { "test file" } else { "read only" };
            let path = clean(&run.plan.target().path);
            let length = run.plan.stop.length_ns().map_or(0, |ns| run.plan.warmup_ns + ns);
            let length = length as f64 / 1e9;
            out.push_str(&format!("iosonde: {path}  ({size} MiB {what}, {length} s per test)\n\n"));
        }
        out.push_str(&table.header());
        for (run, row) in self.rows {
            out.push_str(&table.row(run, row));
            if let Some(pursuit) = &row.pursuit {
                out.push_str(&pursuit_note(pursuit));
            }
        }
        out.push_str(&footer(self.rows));
        if !self.left_out.is_empty() {
            let names: Vec<String> = self.left_out.iter().map(|name| clean(name)).collect();
            let words = format!("{} (--read-only: these write)", names.join(", "));
            out.push_str(&hanging("  Left out: ", &words, screen));
        }
        out.push_str(&placement_text(self.placement, screen));
        out.push_str(&verdict_text(self.verdict));
        out.push_str(&expectations_text(self.judged));
        self.cross_checks.iter().for_each(|check| out.push_str(&cross_check_text(check)));
        if !self.complete {
            out.push_str("  partial: not every workload was measured completely\n");
        }
        out
    }
}

/// The rows compared with the best-fitting class of storage.
fn placement_text(placement: &Placement, screen: usize) -> String {
    let Some((name, source, rows)) = &placement.class else { return String::new() };
    let heading = if placement.fits { "Class" } else { "Nearest class" };
    let mut out = hanging(&format!("  {heading}: "), &format!("{name} ({source})"), screen);
    let mut columns = report::Column::all(&[""], &[""]);
    columns.push(report::Column::words(""));
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let words = match (row.place, row.third()) {
                (Place::Typical, Some(third)) => format!("{third} of"),
                (Place::Typical, None) => "typical of".to_owned(),
                (Place::Slow, _) => "slow for".to_owned(),
                (Place::Fast, _) => "fast for".to_owned(),
            };
            let [low, high] = row.range.map(|value| row.figure(value));
            let low = low.split(' ').next().unwrap_or_default().to_owned();
            vec![
                format!("  {}", clean(&row.title)),
                row.figure(row.measured),
                format!("{words} {low} to {high}"),
            ]
        })
        .collect();
    // The lines of the table without its empty headings.
    let text = table(&columns, &rows, Rule::None, screen);
    out.extend(text.lines().filter(|line| !line.trim().is_empty()).flat_map(|line| [line, "\n"]));
    out
}

/// Total line and the legend of the marks that were used.
fn footer(rows: &[(&Run, &Assessment)]) -> String {
    let sum = |of: fn(&GroupFigures) -> u64| -> u64 {
        rows.iter().map(|(_, assessment)| of(&assessment.figures.all)).sum()
    };
    let reads = sum(|all| all.read.ops);
    let writes = sum(|all| all.write.ops);
    let total = reads + writes;
    let read_percent = match total {
        0 => 0.0,
        total => (reads as f64 * 100.0 / total as f64).round(),
    };
    let mut out = format!("\n  Total I/O: {} ops", count::thousands(total));
    if total > 0 {
        out.push_str(&format!("  ({read_percent:.0}% read, {:.0}% write)", 100.0 - read_percent));
    }
    out.push('\n');
    let marks: Vec<&str> = rows.iter().map(|(_, assessment)| mark(assessment)).collect();
    let legends = [(WARNING, "warning or limit"), (DOUBT, "low confidence or failed")];
    for (sign, meaning) in legends {
        if marks.iter().any(|mark| mark.ends_with(sign)) {
            out.push_str(&format!("  {sign} {meaning}, see the verdict\n"));
        }
    }
    let p99s = rows.iter().filter_map(|row| row.1.figures.all.total.latency.quantile(0.99));
    let reasons = p99s.filter_map(without_interval).map(|reason| reason.to_string());
    let reasons: BTreeSet<String> = reasons.collect();
    for reason in reasons {
        out.push_str(&format!("  ~ no 95 % interval for this p99: {reason}\n"));
    }
    if rows.iter().any(|(run, _)| run.plan.title.ends_with(DURABLE)) {
        out.push_str("  +D each write is durable before it completes\n");
    }
    out
}

/// The reason why a row has no figures; it begins with a word in capitals.
fn no_headline(run: &Run, assessment: &Assessment) -> Option<String> {
    if let Outcome::Failed { error } = &run.outcome {
        return Some(format!("FAILED: {}", clean(error)));
    }
    if let Some(entry) = assessment
        .consistency
        .broken()
        .find(|entry| entry.severity == iosonde_analysis::consistency::Severity::Invalid)
    {
        return Some(format!("INVALID: {}", clean(&entry.words())));
    }
    let ops = assessment.figures.all.total.ops;
    match run.outcome {
        Outcome::Interrupted { signal } => Some(format!(
            "PARTIAL: interrupted {} after {}, {} ops",
            by_signal(signal),
            duration::span(run.measured_ns),
            count::thousands(ops)
        )),
        _ if ops == 0 => Some("FAILED: no operation completed in the measured window".into()),
        _ => None,
    }
}

fn row(
    start: [String; 3],
    group: &GroupFigures,
    inline: bool,
    durable: String,
) -> [String; COLUMNS.len()] {
    let [title, pattern, size] = start;
    let latency = &group.total.latency;
    let depth = match group.has_depth(inline) {
        true => count::significant_or_whole(group.depth_seen),
        false => "inline".into(),
    };
    [
        title,
        pattern,
        size,
        mix(group.read_share),
        group.jobs.to_string(),
        depth,
        bytes::per_second(group.total.bytes_per_s),
        count::significant_or_whole(group.total.iops),
        latency.mean_ns.map_or("n/a".into(), duration::latency),
        latency.quantile(0.99).map_or("n/a".into(), p99),
        durable,
    ]
}

/// `70/30`, as measured.
fn mix(read_share: Option<f64>) -> String {
    let Some(share) = read_share else { return "n/a".into() };
    let read = (share * 100.0).round();
    format!("{read:.0}/{:.0}", 100.0 - read)
}

fn p99(quantile: &Quantile) -> String {
    let value = quantile.value_ns().map(|ns| duration::latency(ns as f64));
    let is_rough = quantile.is_rough() || without_interval(quantile).is_some();
    let mark = if is_rough { "~" } else { "" };
    value.map_or("n/a".into(), |value| format!("{mark}{value}"))
}

/// Why a percentile that has a value has no interval.
fn without_interval(quantile: &Quantile) -> Option<NoInterval> {
    match quantile.estimate {
        Estimate::Value { interval: Err(reason), standing, .. } if standing != Standing::Solid => {
            Some(reason)
        }
        _ => None,
    }
}

/// Notes on figures that the cells of a row cannot show.
fn notes(figures: &Figures) -> Vec<String> {
    let mut notes = Vec::from_iter(run_text::steady_note(figures.steady, "row"));
    let latency = &figures.all.total.latency;
    let n = count::thousands(latency.count);
    let Some(quantile) = latency.quantile(0.99) else { return notes };
    match quantile.estimate {
        Estimate::Value { standing: Standing::Solid, .. } => {}
        Estimate::Value { interval: Ok((low, high)), standing, .. } => {
            let [low, high] = [low, high].map(|ns| duration::latency(ns as f64));
            let rough = if standing == Standing::LowConfidence { ", low confidence" } else { "" };
            notes.push(format!("p99: 95 % interval {low} to {high}, n={n}{rough}"));
        }
        // Marked in its cell, and explained once below the table.
        Estimate::Value { interval: Err(_), .. } => {}
        Estimate::NotEarned { .. } => {
            let max = latency.max_ns.map_or("n/a".into(), |ns| duration::latency(ns as f64));
            let reason = figures::reason(quantile).unwrap_or_default();
            notes.push(format!("p99: n/a ({reason}); max {max}, n={n}"));
        }
    }
    notes
}

/// The mark after a title, by the most severe finding.
fn mark(assessment: &Assessment) -> &'static str {
    let gravest = assessment.findings.iter().map(|finding| finding.severity).max();
    match gravest.unwrap_or(Severity::Fact) {
        Severity::Fact => "",
        Severity::Warning | Severity::Limit => " *",
        Severity::LowConfidence | Severity::Fault => " !",
    }
}

/// A block size: `4K`, `1M`, `512B`.
fn size(bytes: u64) -> String {
    let size = run_text::size(bytes).to_uppercase();
    if size.ends_with(|last: char| last.is_ascii_digit()) { size + "B" } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_golden, assert_screens};
    use crate::wrap::wrapped;
    use iosonde_analysis::reference::place;
    use iosonde_analysis::{assess, verdict};
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::run::SyncResult;
    use iosonde_model::spec::reference::built_in;

    fn titled(title: &str, pattern: &str, mut run: Run) -> Run {
        run.plan.title = title.into();
        run.plan.pattern = pattern.into();
        run
    }

    fn rows() -> Vec<Run> {
        let quiet = Load { noise: 0.0, ..Load::default() };
        let mut backup =
            run_of(&[Load { block_bytes: 512 << 10, read_percent: 0, iops: 3_694.0, ..quiet }]);
        backup.final_sync = Some(SyncResult {
            since_window_ns: 300_000_000,
            sync_ns: 200_000_000,
            bytes_since_start: 20_000_000_000,
            since_start_ns: 13_300_000_000,
            error: None,
        });
        let fast = Load { jobs: 64, iops: 200_000.0, ..quiet };
        let append =
            Load { role: "append", read_percent: 0, block_bytes: 64 << 10, depth: 8, ..quiet };
        let get = Load { role: "get", jobs: 7, block_bytes: 64 << 10, iops: 1_500.0, ..quiet };
        let mut kv = run_of(&[append, get]);
        kv.plan.nominal_read_percent = 80;
        let mut cache = run_of(&[fast]);
        cache.jobs.iter_mut().for_each(|job| job.inline_seen = 100);
        let slow = run_of(&[Load { depth: 1, iops: 20.0, ..quiet }]);
        let medium = run_of(&[Load { depth: 1, iops: 500.0, ..quiet }]);
        let mut invalid = run_of(&[quiet]);
        invalid.jobs[0].read.bytes += 1;
        let mut failed = run_of(&[quiet]);
        failed.outcome = Outcome::Failed { error: "read EIO at offset 4,096".into() };
        let mut partial = run_of(&[quiet]);
        partial.outcome = Outcome::Interrupted { signal: 2 };
        vec![
            titled("Backup", "sequential write", backup),
            titled("Cache", "random read", cache),
            titled("KV-Store", "append+rand read", kv),
            titled("Recovery", "sequential read", slow),
            titled("Database", "random rw mix", medium),
            titled("Logging", "multi-stream write", invalid),
            titled("Training", "seq read+shuffle", failed),
            titled("Lakehouse", "scan+compact+lookup", partial),
        ]
    }

    #[test]
    fn the_table_stands_as_kept() {
        let runs = rows();
        let assessed: Vec<Assessment> = runs.iter().map(|run| assess(run, None)).collect();
        let pairs: Vec<(&Run, &Assessment)> = runs.iter().zip(&assessed).collect();
        let rows = CheckTable::new(usize::MAX);
        let mut table = rows.header();
        for (run, assessment) in &pairs {
            table.push_str(&rows.row(run, assessment));
        }
        table.push_str(&footer(&pairs));
        table.push_str(&verdict_text(&verdict(&assessed)));
        assert_golden("check.txt", &table);
    }

    #[test]
    fn the_answer_stands_first_on_every_screen() {
        let classes = built_in().unwrap();
        let mut good = rows();
        good.truncate(5);
        for (name, runs) in [("check", good), ("check-failed", rows())] {
            let assessed: Vec<Assessment> = runs.iter().map(|run| assess(run, None)).collect();
            let pairs: Vec<(&Run, &Assessment)> = runs.iter().zip(&assessed).collect();
            let verdict = verdict(&assessed);
            let placement = place(&pairs, &classes);
            let complete = assessed.iter().all(|row| row.complete);
            let report = CheckReport {
                answer: Answer::of_runs(&pairs, complete, &verdict, placement.words().as_deref()),
                rows: &pairs,
                placement: &placement,
                verdict: &verdict,
                judged: &[],
                cross_checks: &[],
                complete: true,
                left_out: &["Logging".to_owned(), "Lakehouse".to_owned()],
            };
            // As a terminal shows it: `wrapped` breaks the lines that no renderer has broken.
            assert_screens(name, |screen| wrapped(&report.text(screen), screen));
        }
    }

    #[test]
    fn no_line_is_wider_than_the_screen_and_what_matters_most_stays() {
        let runs = rows();
        for screen in [20, 40, 60, 80, 100, 120, 200] {
            let table = CheckTable::new(screen);
            let rows = runs.iter().map(|run| table.row(run, &assess(run, None)));
            let text = format!("{}{}", table.header(), rows.collect::<String>());
            let widest = text.lines().map(width).max().unwrap();
            // Nothing is cut, and a word or a number is never broken.
            assert!(widest <= screen.max(28), "{screen}: {widest}\n{text}");
            for figure in ["Bandwidth", "IOPS", "P99 Lat", "Durable", "1,504 MB/s", "FAILED:"] {
                assert!(text.contains(figure), "{screen}: {figure}\n{text}");
            }
            assert_eq!(text.contains("sequential write"), screen >= 110, "{text}");
        }
    }

    #[test]
    fn columns_align_with_wide_numbers_and_micro_signs() {
        let runs = rows();
        let full: Vec<String> = runs[..3]
            .iter()
            .flat_map(|run| {
                let text = CheckTable::new(120).row(run, &assess(run, None));
                text.lines().map(str::to_owned).collect::<Vec<_>>()
            })
            .filter(|line| line.contains("MB/s"))
            .collect();
        // The bandwidth column ends at the same place in every row.
        let end = |line: &str| line.find("MB/s").map(|at| line[..at].chars().count());
        assert!(full.len() >= 5);
        assert!(full.iter().all(|line| end(line) == end(&full[0])), "{full:#?}");
        assert!(full.iter().any(|line| line.contains("µs")), "{full:#?}");
    }

    #[test]
    fn rows_without_a_headline_have_no_rate() {
        for run in &rows()[5..] {
            let text = CheckTable::new(120).row(run, &assess(run, None));
            assert!(!text.contains("MB/s"), "{text}");
        }
    }
}
