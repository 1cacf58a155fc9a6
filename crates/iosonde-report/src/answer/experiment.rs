//! The answer of an experiment, and of any other report document.

use super::Answer;
use crate::explain::terms::{self, Kind};
use crate::report::{Report, Warning};
use iosonde_analysis::experiment::{NONE_USABLE, TOO_FEW, UNDECIDED};

/// The next action of a result without a problem, on a terminal and on the page itself.
const OPEN_PAGE: &str = "Open report.html of the result: every point with its figure.";
const ON_PAGE: &str = "Each point is below, with its figure.";
/// Most sentences of the result.
const SENTENCES: usize = 2;

impl Answer {
    /// The first sentences of the answer, the most severe warning, and the action against it.
    /// `folder` is the folder in which an interrupted experiment can be resumed.
    pub fn of_report(report: &Report, folder: Option<&str>) -> Answer {
        let result = match report.answer.as_slice() {
            [] => "no question was answered; the points are below".to_owned(),
            some => some[..some.len().min(SENTENCES)].join(" "),
        };
        let severe = report.warnings.iter().find(|warning| warning.severe);
        let confidence = match (severe, report.warnings.first()) {
            _ if !report.source.complete => "low: not everything was run".to_owned(),
            (None, _) if report.answer.is_empty() => "none: no question was answered".to_owned(),
            (None, _) if result.contains(NONE_USABLE) => "none: no run can be used".to_owned(),
            (Some(warning), _) => format!("low: {}", reason(warning)),
            (None, Some(warning)) => format!("medium: {}", reason(warning)),
            (None, None) if report.answer.iter().all(|line| line.contains(UNDECIDED)) => {
                format!("medium: {UNDECIDED}")
            }
            (None, None) if result.contains(TOO_FEW) => {
                format!("medium: repeats {TOO_FEW}")
            }
            (None, None) => "high".to_owned(),
        };
        let resume = folder.filter(|_| !report.source.complete);
        let next =
            resume.map(|folder| format!("Run what is missing: iosonde experiment resume {folder}"));
        let of_warning = || {
            let warning = severe.or(report.warnings.first())?;
            let action = terms::action(&[Kind::ExperimentFinding, Kind::Finding], &warning.code)?;
            Some(format!("{action} (iosonde report --explain {})", warning.code))
        };
        let next = next.or_else(of_warning);
        let next = next.unwrap_or_else(|| OPEN_PAGE.to_owned());
        Answer { result, confidence, next }
    }

    /// The whole answer of a report for a page: the result first, then further sentences,
    /// confidence and the next action.
    pub fn lines(report: &Report) -> Vec<String> {
        if report.answer.iter().any(|line| line.starts_with("Confidence: ")) {
            return report.answer.clone();
        }
        let Answer { result, confidence, next } = Answer::of_report(report, None);
        let next = if next == OPEN_PAGE { ON_PAGE.to_owned() } else { next };
        let own = match report.answer.is_empty() {
            true => vec![result],
            false => report.answer.clone(),
        };
        own.into_iter()
            .chain([format!("Confidence: {confidence}"), format!("Next: {next}")])
            .collect()
    }

    /// Sentences of a report that are not in the result.
    pub fn further(report: &Report) -> &[String] {
        report.answer.get(SENTENCES..).unwrap_or_default()
    }
}

/// The subject of a warning in few words; the full sentence follows further down.
fn reason(warning: &Warning) -> &str {
    if warning.subject.is_empty() { &warning.words } else { &warning.subject }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_first_sentences_and_the_gravest_warning_are_the_answer() {
        let mut report = sample::report();
        let found = Answer::of_report(&report, None);
        assert!(found.result.starts_with(&report.answer[0]), "{found:?}");
        assert!(!found.confidence.is_empty() && !found.next.is_empty());
        report.source.complete = false;
        let found = Answer::of_report(&report, Some("/results/x"));
        assert_eq!(found.next, "Run what is missing: iosonde experiment resume /results/x");
        (report.source.complete, report.warnings) = (true, Vec::new());
        assert_eq!(Answer::of_report(&report, None).confidence, "high");
        report.answer[0] = format!("The knee is at iodepth 8 (n = 3, {TOO_FEW}).");
        assert!(Answer::of_report(&report, None).confidence.starts_with("medium: "));
        report.answer.clear();
        assert!(Answer::of_report(&report, None).result.starts_with("no question was answered"));
    }
}
