//! The first three lines of a report: the result, the confidence in it, the next action.

mod campaign;
mod comparison;
mod experiment;
pub(crate) mod hosts;
mod profile;
mod verify;

use iosonde_analysis::figures::{GroupFigures, LatencyFigures};
use iosonde_analysis::finding::{Severity, Strength};
use iosonde_analysis::pursuit::Class;
use iosonde_analysis::verdict::{Assessment, Confidence, Kind, ReportedFinding, Verdict, verdict};
use iosonde_model::record::run::{Outcome, Run};
use iosonde_model::units::{bytes, count, duration};
use serde::Serialize;

use super::clean::clean;
use super::explain::terms;
use super::steady_text::steady_line;
use super::wrap::{hanging, width};

pub use campaign::CampaignAnswer;

/// The first three lines of a report.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Answer {
    /// The result, compared with a reference if there is one.
    pub result: String,
    /// Confidence in the result, with the reason if it is not high.
    pub confidence: String,
    /// One command or action.
    pub next: String,
}

impl Answer {
    /// The answer of `run` and `check`. `complete`: all that was planned was measured. `earlier`:
    /// the comparison with earlier results of the same target.
    pub fn of_runs(
        rows: &[(&Run, &Assessment)],
        complete: bool,
        verdict: &Verdict,
        earlier: Option<&str>,
    ) -> Answer {
        let measured: Vec<&(&Run, &Assessment)> = rows
            .iter()
            .filter(|(_, row)| row.consistency.valid() && row.figures.all.total.ops > 0)
            .collect();
        let figures = match measured.as_slice() {
            [] => "nothing was measured".to_owned(),
            [(_, row)] => match &row.steady {
                Some(steady) => steady_line(steady),
                None => figures_of_one(row),
            },
            several => figures_of(several),
        };
        let goal = goal(rows).filter(|goal| *goal != verdict.words);
        let figures = goal.map_or_else(|| figures.clone(), |goal| format!("{goal}; {figures}"));
        let earlier = earlier.map(|words| format!("{words}; ")).unwrap_or_default();
        let limit = limit(verdict, Strength::Supported).map(|found| &found.finding.subject);
        let result = match (verdict.kind, limit) {
            (Kind::Failing, _) => format!("{}; {figures}", verdict.words),
            (Kind::LowConfidence, Some(limit)) => {
                format!("limited by {limit}; {earlier}{figures}")
            }
            (Kind::LimitedBy, _) => format!("{}; {earlier}{figures}", verdict.words),
            (kind, _) => {
                let has_missed = rows.iter().any(|(_, row)| row.missed_goal().is_some());
                let health = match kind {
                    // The words for the figures report an unsteady run.
                    Kind::NoFaultSeen if rows.iter().any(|(_, row)| row.is_unsteady()) => {
                        String::new()
                    }
                    Kind::NoFaultSeen if !complete && !has_missed => {
                        "no fault seen in what was measured; ".into()
                    }
                    // The confidence line gives the reason.
                    Kind::NoFaultSeen if verdict.confidence != Confidence::High && !has_missed => {
                        String::new()
                    }
                    Kind::NoFaultSeen => format!("{}; ", verdict.words),
                    _ => String::new(),
                };
                format!("{health}{earlier}{figures}")
            }
        };
        let result = match &verdict.missed {
            Some(missed) if !result.starts_with(missed) => format!("{missed}; {result}"),
            _ => result,
        };
        let confidence = match verdict.kind {
            Kind::Failing => "none: the figures cannot be used as they are".to_owned(),
            _ => match verdict.because.as_str() {
                "" => verdict.confidence.word().to_owned(),
                because => format!("{}: {because}", verdict.confidence.word()),
            },
        };
        Answer { result, confidence, next: next(rows, complete, verdict) }
    }

    /// One line for one row of several.
    pub fn row(run: &Run, row: &Assessment) -> String {
        let words = verdict(std::slice::from_ref(row)).words;
        let figures = match row.consistency.valid() && row.figures.all.total.ops > 0 {
            true => figures_of_one(row),
            false => "no figures".to_owned(),
        };
        format!("{}: {figures} ({words})", clean(&run.plan.title))
    }

    /// The sentences with which a report begins.
    pub fn sentences(&self) -> Vec<String> {
        let confidence = self.confidence.trim_end_matches('.');
        let next = format!("Next: {}", self.next);
        vec![self.result.clone(), format!("Confidence: {confidence}."), next]
    }

    /// Three lines for a screen of `screen` columns, followed by the words that do not fit.
    pub fn text(&self, screen: usize) -> String {
        let (result, confidence, next) = (&self.result, &self.confidence, &self.next);
        lines([("Result", result), ("Confidence", confidence), ("Next", next)], screen)
    }
}

/// One line per entry, followed by the words that do not fit.
fn lines(lines: [(&str, &String); 3], screen: usize) -> String {
    let (mut first, mut rest) = (String::new(), String::new());
    for (name, words) in lines {
        let words = clean(words);
        let (shown, left) = divided(&words, screen.saturating_sub(HEAD));
        first += &format!("{:<HEAD$}{shown}\n", format!("{name}:"));
        if !left.is_empty() {
            rest += &hanging(&format!("  {name} … "), left, screen);
        }
    }
    format!("{first}{rest}\n")
}

/// Columns of the name before the words of each line.
const HEAD: usize = 13;

/// The words that fit into `columns`, and the rest. Divides after a clause that fills at least half
/// the line, else at a space, and never within a command.
fn divided(words: &str, columns: usize) -> (String, &str) {
    if width(words) <= columns {
        return (words.to_owned(), "");
    }
    let command = words.find("iosonde ").filter(|at| *at > 0).unwrap_or(words.len());
    let spaces = || words.match_indices(' ').map(|(at, _)| at).filter(|at| *at < command);
    let fits = |at: &usize| width(&words[..*at]) + 2 <= columns;
    let ends_clause = |at: &usize| {
        let clause = &words[..*at];
        clause.ends_with([';', ':', ',', '.']) && width(clause) * 2 >= columns
    };
    let at = spaces().filter(fits).rfind(ends_clause);
    let at = at.or_else(|| spaces().rfind(fits)).or_else(|| spaces().next());
    at.map_or((words.to_owned(), ""), |at| (format!("{} …", &words[..at]), &words[at + 1..]))
}

/// The first finding of a rate limit whose evidence has at least the strength `least`.
fn limit(verdict: &Verdict, least: Strength) -> Option<&ReportedFinding> {
    verdict.findings.iter().find(|reported| {
        let finding = &reported.finding;
        finding.severity == Severity::Limit && finding.strength >= least
    })
}

/// The most useful action: complete the measurement, else act on the proven limit, else on the most
/// severe finding, else ask the next question.
fn next(rows: &[(&Run, &Assessment)], complete: bool, verdict: &Verdict) -> String {
    let is_interrupted =
        |(run, _): &(&Run, &Assessment)| matches!(run.outcome, Outcome::Interrupted { .. });
    let is_whole = rows.iter().all(|(_, row)| row.complete);
    // All rows are complete but some are missing: the series ended between two runs.
    let ended_between = !complete && is_whole;
    if verdict.kind != Kind::Failing && (rows.iter().any(is_interrupted) || ended_between) {
        return "Repeat it without an interruption".to_owned();
    }
    let is_severe = |severity: Severity| severity > Severity::Warning;
    let severe = || verdict.findings.iter().find(|found| is_severe(found.finding.severity));
    let severe = match verdict.kind {
        Kind::Failing => severe(),
        _ => limit(verdict, Strength::Proven).or_else(severe),
    };
    let action = |reported: &ReportedFinding| {
        let code = reported.finding.code;
        let action = terms::action(&[terms::Kind::Finding], code)?;
        Some(format!("{action} (iosonde report --explain {code})"))
    };
    severe.and_then(action).unwrap_or_else(|| {
        let is_idle = rows.iter().all(|(_, row)| row.figures.all.total.ops == 0);
        if !complete && is_idle {
            return "Measure longer, or at a higher rate: no operation ended in time".to_owned();
        }
        if !complete {
            return "Repeat it without an interruption".to_owned();
        }
        if let Some((_, row)) = rows.iter().find(|(_, row)| row.missed_goal().is_some()) {
            let next = match row.pursuit.as_ref().map(|pursuit| pursuit.class) {
                Some(Class::Infeasible) => "Give a higher --latency-target",
                Some(_) => "Give a higher --latency-target, or more time (--runtime)",
                None => "Measure longer: give a longer --runtime",
            };
            return next.to_owned();
        }
        let lowers = |found: &&ReportedFinding| {
            found.finding.severity == Severity::Warning && found.finding.effect.is_some()
        };
        let warning = verdict.findings.iter().find(lowers);
        if let Some(next) = warning.filter(|_| !verdict.because.is_empty()).and_then(action) {
            return next;
        }
        if verdict.needs_time {
            return "Measure longer (--seconds or --runtime)".to_owned();
        }
        let path = rows.first().map_or(".", |(run, _)| run.plan.target().path.as_str());
        match rows.len() {
            1 => "Repeat it: a comparison needs 5 runs of each".to_owned(),
            _ => format!("Find its limits: iosonde experiment run study {path}"),
        }
    })
}

/// Result of a goal: the first one that was missed, or the depth at which a single run meets its
/// latency target. Unsteady runs are skipped; the words for their figures report them.
fn goal(rows: &[(&Run, &Assessment)]) -> Option<String> {
    let ended = rows.iter().filter(|(_, row)| !row.is_unsteady());
    let missed = ended.clone().find_map(|(_, row)| row.missed_goal());
    let pursuits = ended.filter_map(|(_, row)| row.pursuit.as_ref());
    let mut met = pursuits.filter(|pursuit| pursuit.bound.is_some() && rows.len() == 1);
    missed.or_else(|| {
        let met = met.next()?;
        let how = if met.is_shown() == Some(true) { "" } else { " by the estimate" };
        Some(format!("{} is met at depth {}{how}", met.target, met.depth))
    })
}

fn figures_of_one(row: &Assessment) -> String {
    let all = &row.figures.all;
    let directions = [("read", &all.read), ("write", &all.write), ("trim", &all.trim)];
    let active: Vec<_> = directions.into_iter().filter(|(_, figures)| figures.ops > 0).collect();
    let rates = active.iter().map(|(name, figures)| {
        format!("{} {name} IOPS", count::significant_or_whole(figures.iops))
    });
    let rates = rates.collect::<Vec<_>>().join(" and ");
    let rate = bytes::per_second(all.total.bytes_per_s);
    let without = without_stalls(row);
    format!("{rates}{without}, {rate}{}", median_and_p99(&all.total.latency))
}

/// ` (4,000 IOPS without stalls)`, if a closed loop had stalls; an open loop catches up.
fn without_stalls(row: &Assessment) -> String {
    let is_closed = row.figures.arrivals.is_none();
    let is_found = row.findings.iter().any(|finding| finding.code == "stall");
    match row.figures.stalls.filter(|_| is_closed && is_found) {
        Some(stalls) => {
            format!(" ({} IOPS without stalls)", count::significant_or_whole(stalls.without))
        }
        None => String::new(),
    }
}

/// `; p50 1.20 ms, p99 3.40 ms`, as far as known. A wide interval is given by its ends, as in `p99
/// 300 us to 5.00 ms`.
fn median_and_p99(latency: &LatencyFigures) -> String {
    let words = |ns: u64| duration::latency(ns as f64);
    let known = [(0.5, "p50"), (0.99, "p99")].map(|(quantile, name)| {
        let quantile = latency.quantile(quantile)?;
        match quantile.interval()? {
            Ok((low, high)) if quantile.is_wide() => {
                Some(format!("{name} {} to {}", words(low), words(high)))
            }
            _ => Some(format!("{name} {}", words(quantile.value_ns()?))),
        }
    });
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() { String::new() } else { format!("; {}", known.join(", ")) }
}

/// The extremes of several rows, each with its title.
fn figures_of(rows: &[&(&Run, &Assessment)]) -> String {
    let all = |row: &(&Run, &Assessment)| row.1.figures.all.clone();
    let title = |row: &(&Run, &Assessment)| clean(&row.0.plan.title);
    let most = |figure: fn(&GroupFigures) -> f64| {
        rows.iter().max_by(|a, b| figure(&all(a)).total_cmp(&figure(&all(b))))
    };
    let p99 = |group: &GroupFigures| group.total.latency.at(0.99).map_or(-1.0, |ns| ns as f64);
    let mut parts = Vec::new();
    if let Some(row) = most(|group| group.total.iops) {
        let iops = count::significant_or_whole(all(row).total.iops);
        parts.push(format!("up to {iops} IOPS ({})", title(row)));
    }
    if let Some(row) = most(|group| group.total.bytes_per_s) {
        let rate = bytes::per_second(all(row).total.bytes_per_s);
        parts.push(format!("up to {rate} ({})", title(row)));
    }
    if let Some(row) = most(p99).filter(|row| p99(&all(row)) >= 0.0) {
        let p99 = duration::latency(p99(&all(row)));
        parts.push(format!("p99 up to {p99} ({})", title(row)));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_analysis::assess;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_stats::Histogram;
    use iosonde_stats::chance::Chance;
    use iosonde_stats::dependent::{Batch, Loop};

    fn answer(runs: &[Run], earlier: Option<&str>) -> Answer {
        let assessed: Vec<Assessment> = runs.iter().map(|run| assess(run, None)).collect();
        let pairs: Vec<(&Run, &Assessment)> = runs.iter().zip(&assessed).collect();
        let complete = assessed.iter().all(|row| row.complete);
        Answer::of_runs(&pairs, complete, &verdict(&assessed).if_complete(complete), earlier)
    }

    #[test]
    fn a_percentile_between_two_modes_has_both_ends() {
        let mut chance = Chance::new(4);
        let mut part = || {
            let mut part = Histogram::new();
            (0..1_200).for_each(|_| {
                part.record(if chance.unit() < 0.01 { 5_000_000 } else { 300_000 });
            });
            part
        };
        let parts: Vec<Histogram> = (0..50).map(|_| part()).collect();
        let mut all = Histogram::new();
        parts.iter().for_each(|part| all.merge(part));
        let batch = |part: &Histogram| Batch {
            span_ns: 100_000_000,
            amount: part.count(),
            latency: part.occupied().collect(),
            overflow: 0,
            sum_ns: part.sum(),
        };
        let batches: Vec<Batch> = parts.iter().map(batch).collect();
        let latency = LatencyFigures::over_time(&all, Loop::Closed, Ok(&batches));
        assert_eq!(median_and_p99(&latency), "; p50 301 µs, p99 300 µs to 5.00 ms");
    }

    #[test]
    fn a_healthy_run_has_its_figures_and_high_confidence() {
        let run = run_of(&[Load { noise: 0.0, ..Load::default() }]);
        let found = answer(&[run], None);
        assert!(
            found.result.starts_with("no fault seen; 5,000 read IOPS, 20.5 MB/s; p50 "),
            "{found:?}"
        );
        assert_eq!(found.confidence, "high");
        assert!(found.next.contains("5 runs of each"), "{found:?}");
    }

    #[test]
    fn a_run_with_stalls_has_the_rate_with_and_without() {
        let shape = |t| if (0.5..0.6).contains(&t) { 0.0 } else { 1.0 };
        let found = answer(&[run_of(&[Load { noise: 0.0, shape, ..Load::default() }])], None);
        let rates = "4,500 read IOPS (5,000 IOPS without stalls), 18.4 MB/s; p50 ";
        assert!(found.result.contains(rates), "{found:?}");
    }

    #[test]
    fn a_finding_lowers_confidence_and_says_what_to_do() {
        let mut run = run_of(&[Load::default()]);
        run.target.direct = false;
        let found = answer(&[run], Some("0.5 of the median of 4 earlier checks here"));
        let first = "0.5 of the median of 4 earlier checks here; ";
        assert!(found.result.starts_with(first), "{found:?}");
        assert_eq!(found.confidence, "low: page cache");
        assert!(found.next.ends_with("(iosonde report --explain buffered)"), "{found:?}");
    }

    #[test]
    fn what_ended_between_two_rows_is_not_whole() {
        let runs = [run_of(&[Load { noise: 0.0, ..Load::default() }])];
        let assessed = [assess(&runs[0], None)];
        let rows = [(&runs[0], &assessed[0])];
        let found = Answer::of_runs(&rows, false, &verdict(&assessed).if_complete(false), None);
        assert!(found.result.starts_with("no fault seen in what was measured; "), "{found:?}");
        assert_eq!(found.confidence, "low: not everything was measured completely");
        assert_eq!(found.next, "Repeat it without an interruption");
    }

    #[test]
    fn what_was_interrupted_is_to_be_repeated() {
        let mut run = run_of(&[Load::default()]);
        run.outcome = Outcome::Interrupted { signal: 2 };
        let found = answer(&[run], None);
        assert_eq!(found.confidence, "low: not everything was measured completely");
        assert_eq!(found.next, "Repeat it without an interruption");
        let mut run = run_of(&[Load::default()]);
        run.outcome = Outcome::Interrupted { signal: 2 };
        run.target.direct = false;
        let found = answer(&[run], None);
        assert_eq!(found.confidence, "low: not everything was measured completely");
        assert_eq!(found.next, "Repeat it without an interruption");
    }

    #[test]
    fn what_failed_stands_first_and_nothing_is_wider_than_the_screen() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].read.bytes += 1;
        let found = answer(&[run], None);
        assert!(found.result.starts_with("failed: INVALID"), "{found:?}");
        assert!(found.confidence.starts_with("none"), "{found:?}");
        let text = found.text(60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.starts_with("Result:      failed"), "{text}");
    }

    #[test]
    fn the_answer_takes_three_lines_and_what_is_left_stands_below() {
        let answer = Answer {
            result: "no fault seen; typical of a disk; up to 73,003 IOPS (Cache)".into(),
            confidence: "high".into(),
            next: "Find its limits: iosonde experiment run study /data".into(),
        };
        let expected = "Result:      no fault seen; typical of a disk; …\n\
                        Confidence:  high\n\
                        Next:        Find its limits: …\n  \
                        Result … up to 73,003 IOPS (Cache)\n  \
                        Next … iosonde experiment run study /data\n\n";
        assert_eq!(answer.text(60), expected);
        assert_eq!(answer.text(120).lines().count(), 4);
        assert_eq!(divided("no-space-in-all-this", 10), ("no-space-in-all-this".into(), ""));
    }

    #[test]
    fn several_rows_are_named_by_their_extremes() {
        let slow = run_of(&[Load { iops: 100.0, depth: 1, noise: 0.0, ..Load::default() }]);
        let mut fast = run_of(&[Load { iops: 9_000.0, noise: 0.0, ..Load::default() }]);
        fast.plan.title = "Cache".into();
        let found = answer(&[slow, fast], None);
        assert!(found.result.contains("up to 9,000 IOPS (Cache)"), "{found:?}");
    }
}
