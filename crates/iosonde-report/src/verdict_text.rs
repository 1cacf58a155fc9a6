//! Verdict, findings and expectations in words.

use iosonde_analysis::expectation::{Expectation, Judged, Judgement};
use iosonde_analysis::verdict::{ReportedFinding, Verdict};

use super::clean::clean;

/// `Verdict: …` followed by up to three findings, one line each.
pub(crate) fn verdict_text(verdict: &Verdict) -> String {
    let mut out = format!("  Verdict: {}\n", clean(&verdict.words));
    for reported in &verdict.findings {
        let (row, others) = place(reported);
        let line = format!(
            "    - {row}{} [{}: {}]\n      {others}\n",
            clean(&reported.finding.words),
            reported.finding.code,
            reported.finding.strength.word(),
        );
        out.push_str(&line);
    }
    out
}

/// The prefix of a finding's words, and the line below it. The prefix names the row whose figures
/// the words contain, if there are several rows.
fn place(reported: &ReportedFinding) -> (String, String) {
    let row = clean(&reported.row);
    let others: Vec<String> = reported
        .rows
        .iter()
        .filter(|each| **each != reported.row)
        .map(|each| clean(each))
        .collect();
    match others.is_empty() {
        true => (String::new(), format!("in: {row}")),
        false => (format!("{row}: "), format!("also in: {}", others.join(", "))),
    }
}

/// One line per expectation and run; empty without expectations.
pub(crate) fn expectations_text(judged: &[Judged]) -> String {
    let mut out = String::new();
    for each in judged {
        let figure = |measured, interval| figure(&each.expectation, measured, interval);
        let outcome = match &each.judgement {
            Judgement::Met { measured, interval } => {
                format!("met ({})", figure(*measured, *interval))
            }
            Judgement::Missed { measured, interval } => {
                format!("MISSED ({})", figure(*measured, *interval))
            }
            Judgement::Unknown { reason } => format!("unknown ({reason})"),
        };
        let line = format!(
            "  Expected {} in {}: {}\n",
            clean(&each.expectation.text),
            clean(&each.title),
            clean(&outcome)
        );
        out.push_str(&line);
    }
    out
}

/// The figure. If its interval includes the limit, another run may give another result, so the
/// interval is shown too.
fn figure(expectation: &Expectation, measured: f64, interval: Option<(f64, f64)>) -> String {
    let formatted = |figure| expectation.formatted(figure);
    match interval.filter(|_| expectation.is_within(interval)) {
        None => formatted(measured),
        Some((low, high)) => format!(
            "{}, 95 % interval {} to {}, which includes the limit",
            formatted(measured),
            formatted(low),
            formatted(high)
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_analysis::expectation::judge_all;
    use iosonde_analysis::{Expectation, assess, verdict};
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_finding_names_its_strength_and_its_rows() {
        let mut run = run_of(&[Load::default()]);
        run.target.direct = false;
        run.target.direct_refused = Some("EINVAL\u{1b}[2J".into());
        let text = verdict_text(&verdict(&[assess(&run, None)]));
        let expected = "  Verdict: low confidence: page cache\n    - Buffered: direct I/O was \
                        rejected (EINVAL\\x1b[2J); the page cache is part of the measurement. \
                        [buffered: proven]\n      in: Database\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_row_whose_figures_a_finding_has_stands_before_it() {
        let row = |title: &str, depth| {
            let mut run = run_of(&[Load::default()]);
            run.plan.title = title.into();
            run.plan.jobs[0].iodepth = depth;
            assess(&run, None)
        };
        let text = verdict_text(&verdict(&[row("Cache", 80), row("Training", 320)]));
        assert!(
            text.contains("    - Training: Requested depth 320, mean queue depth 32"),
            "{text}"
        );
        assert!(text.ends_with("      also in: Cache\n"), "{text}");
    }

    #[test]
    fn expectations_are_printed_with_the_figure() {
        let run = run_of(&[Load::default()]);
        let parse = |text| Expectation::parse(text, &["Database"]).unwrap();
        let all = ["p99<=20ms", "iops>=1M", "write.p99<1s", "iops>=5007"].map(parse);
        let text = expectations_text(&judge_all(&all, &[(&run, &assess(&run, None))]));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("  Expected p99<=20ms in Database: met (9."), "{text}");
        assert!(lines[1].ends_with("MISSED (5,006 IOPS)"), "{text}");
        assert!(lines[2].contains("unknown (needs 370 I/Os, had 0)"), "{text}");
        assert!(lines[3].contains("MISSED (5,006 IOPS, 95 % interval "), "{text}");
        assert!(lines[3].ends_with(", which includes the limit)"), "{text}");
    }
}
