//! Answers of comparisons: of two sets of runs, and of a profile with its replay.

use super::Answer;
use crate::comparison_text::{needed, percent};
use iosonde_analysis::comparison::gate::Outcome;
use iosonde_analysis::comparison::{Comparison, Row, Verdict};
use iosonde_analysis::fidelity::Fidelity;

/// Most metrics that one line names.
const NAMED: usize = 3;

impl Answer {
    /// The answer of `compare`.
    pub fn of_comparison(compared: &Comparison) -> Answer {
        let rows: Vec<(&str, &Row)> = compared
            .cells
            .iter()
            .flat_map(|cell| cell.rows.iter().map(|row| (cell.cell.as_str(), row)))
            .collect();
        let several = compared.cells.len() > 1;
        let named = |wanted: fn(&Verdict) -> bool| {
            let all: Vec<String> = rows
                .iter()
                .filter(|(_, row)| wanted(&row.verdict))
                .map(|(cell, row)| {
                    let cell = if several { format!("{cell} ") } else { String::new() };
                    format!("{cell}{} {}", row.metric, percent(row.contrast.ratio - 1.0))
                })
                .collect();
            let more = all.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            (!all.is_empty()).then(|| format!("{}{more}", all[..all.len().min(NAMED)].join(", ")))
        };
        let counted = |wanted: fn(&Verdict) -> bool, word: &str| {
            let count = rows.iter().filter(|(_, row)| wanted(&row.verdict)).count();
            (count > 0).then(|| format!("{word} in {count} of {} figures", rows.len()))
        };
        let slower = named(|verdict| *verdict == Verdict::Slower);
        let faster = named(|verdict| *verdict == Verdict::Faster);
        let open = |verdict: &Verdict| matches!(verdict, Verdict::Inconclusive { .. });
        let same = |verdict: &Verdict| matches!(verdict, Verdict::Same { .. });
        let below = |verdict: &Verdict| matches!(verdict, Verdict::BelowTolerance { .. });
        let is_too_few = rows.iter().any(|(_, row)| row.verdict == Verdict::TooFew);
        let failed =
            compared.gates.iter().find(|gated| matches!(gated.outcome, Outcome::Failed { .. }));
        let parts = [
            failed.map(|gated| format!("gate {} FAILED", gated.gate.text)),
            slower.as_ref().map(|words| format!("B is worse: {words}")),
            faster.as_ref().map(|words| format!("B is better: {words}")),
            counted(below, "different, though not shown to exceed the tolerance,"),
            counted(same, "the same within the tolerance"),
            counted(open, "undecided"),
            is_too_few.then(|| "too few runs to say whether B differs from A".to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let result = match parts.is_empty() {
            true => "no metric could be compared".to_owned(),
            false => parts.join("; "),
        };
        // `sides` counts the runs of all cells; what matters is the fewest runs of a metric.
        let fewest = |side: usize| rows.iter().map(|(_, row)| row.contrast.runs[side]).min();
        let [a, b] = [0, 1].map(|side| fewest(side).unwrap_or(compared.sides[side].runs));
        let confidence = match compared.warnings.first() {
            _ if is_too_few || rows.is_empty() => format!("low: {a} and {b} runs"),
            Some(warning) => format!("medium: {warning}"),
            None if rows.iter().any(|(_, row)| open(&row.verdict)) => {
                "medium: some metrics are too noisy for so few runs".to_owned()
            }
            None => "high".to_owned(),
        };
        let next = match needed(compared) {
            _ if failed.is_some() => {
                "Find the cause before B becomes a baseline: iosonde report of a \
                                      run of B beside one of A"
                    .to_owned()
            }
            Some(more) => more,
            None if slower.is_some() => {
                "See what differs: iosonde report of a run of B beside one of A".to_owned()
            }
            None if rows.iter().any(|(_, row)| below(&row.verdict)) => {
                "Where so small a difference matters, give a smaller --tolerance".to_owned()
            }
            None if compared.sides[1].is_in_doubt => {
                "Measure B again without what lowers its confidence: it is no baseline".to_owned()
            }
            None => "Keep it as the baseline of a CI job: iosonde compare --save-baseline FILE B"
                .to_owned(),
        };
        Answer { result, confidence, next }
    }

    /// The answer of `compare PROFILE REPLAY`.
    pub fn of_fidelity(fidelity: &Fidelity) -> Answer {
        let scored = |dimension: &&iosonde_analysis::fidelity::Dimension| dimension.score.is_some();
        let counted = fidelity.dimensions.iter().filter(scored).count();
        let all = fidelity.dimensions.len();
        let worst = fidelity
            .dimensions
            .iter()
            .filter_map(|dimension| Some((dimension.score?, dimension.code)))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let result = match (&fidelity.failed, fidelity.score, worst) {
            (Some(error), ..) => format!("no score: the replay ended with an error: {error}"),
            (None, Some(score), Some((least, code))) => format!(
                "fidelity {score:.2} of 1, the mean of {counted} dimensions; least alike: {code} \
                 ({least:.2})"
            ),
            _ => "no score: no data in any dimension".to_owned(),
        };
        let confidence = match fidelity.score {
            None => "none: nothing was scored".to_owned(),
            Some(_) if counted < all => {
                format!("medium: {} of {all} dimensions have no data", all - counted)
            }
            Some(_) => "high".to_owned(),
        };
        let next = match worst.filter(|(score, _)| *score < 0.9) {
            _ if fidelity.score.is_none() => {
                "Make the replay again, under iosonde profile.".to_owned()
            }
            Some((_, code)) => {
                format!("Compare the two in `{code}` below; a profile of the replay shows most.")
            }
            None => "Use the emitted model for other storage: iosonde run app.toml --path PATH"
                .to_owned(),
        };
        Answer { result, confidence, next }
    }
}
