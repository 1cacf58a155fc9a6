//! Which axes matter, and which of them interact?

use super::words::{nothing, slug};
use super::{Answer, Measure, StageFacts, gate};
use crate::grouped::distinct;
use iosonde_model::plan::chance::mix;
use iosonde_model::spec::experiment::Axis;
use iosonde_model::units::count;
use iosonde_stats::factors::{Dependent, NoShares, Term, Trial, factors};
use iosonde_stats::holm::holm;

/// Maximum p value, corrected for all axes and pairs, of an effect that is reported.
const SHOWN: f64 = 0.05;

/// Decomposes the variance of the CPU cost if the stage analyses it, else of the bandwidth.
pub(super) fn analyse(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let measure = match facts.stage.analysis.iter().any(|name| name == "cpu-cost") {
        true => Measure::CpuPerOp,
        false => Measure::Bandwidth,
    };
    let usable = facts.usable();
    let labels = (0..facts.stage.axes.len()).map(|axis| {
        let levels = usable.iter().filter_map(|point| point.levels.get(axis));
        distinct(levels.map(|level| level.label.as_str()))
    });
    let labels: Vec<Vec<&str>> = labels.collect();
    let mut trials = Vec::new();
    for point in &usable {
        let levels = labels.iter().zip(&point.levels);
        let levels =
            levels.filter_map(|(known, level)| known.iter().position(|l| *l == level.label));
        let levels: Vec<usize> = levels.collect();
        let values = point.per_run(measure).into_iter();
        trials.extend(values.map(|value| Trial { levels: levels.clone(), value }));
    }
    let counts: Vec<usize> = labels.iter().map(Vec::len).collect();
    let shares = match factors(&counts, &trials, mix(facts.laid_out.order_seed)) {
        Ok(shares) => shares,
        Err(reason) => return nothing(&refused(reason)),
    };
    if let Some(why) = gate::withheld(&usable) {
        return nothing(&format!("Which axes matter is {why}."));
    }
    let mut answer = Answer::default();
    let axes = &facts.stage.axes;
    let corrected = holm(&shares.terms.iter().map(|term| term.p).collect::<Vec<f64>>());
    for (term, p) in shares.terms.iter().zip(corrected) {
        if p > SHOWN || term.share < 0.01 {
            continue;
        }
        let name = name(axes, &term.factors);
        answer.find(&format!("share-{}", slug(&name)), term.share);
        answer.find(&format!("omega-squared-{}", slug(&name)), term.omega_squared);
        // A single factor is misleading if its effect depends on another.
        let depends = |pair: &Dependent| term.factors.iter().all(|at| pair.factors.contains(at));
        if term.factors.len() > 1 || !shares.dependent.iter().any(depends) {
            answer.say(formatted(&name, &Term { p, ..term.clone() }, measure));
        }
    }
    for pair in &shares.dependent {
        let [one, two] = pair.factors.map(|at| heading(axes, at));
        answer.say(format!(
            "The effect of {one} depends on {two}: interpret them together, not separately."
        ));
        together(&mut answer, [one, two], pair, &labels, measure);
    }
    answer.find("share-of-error", shares.error);
    answer.say(format!(
        "Repeats of the same level account for {} of the variation; n = {}.",
        count::percent(shares.error),
        trials.len()
    ));
    answer.details = serde_json::to_value(shares).unwrap_or_default();
    answer
}

/// Adds a table of the means of two axes that interact.
fn together(
    answer: &mut Answer,
    [one, two]: [&str; 2],
    pair: &Dependent,
    labels: &[Vec<&str>],
    measure: Measure,
) {
    let [Some(first), Some(second)] = pair.factors.map(|at| labels.get(at)) else { return };
    let columns: Vec<&str> = std::iter::once(one).chain(second.iter().copied()).collect();
    let row = |(label, means): (&&str, &Vec<f64>)| {
        let means = means.iter().map(|mean| measure.formatted(*mean));
        std::iter::once((*label).to_owned()).chain(means).collect()
    };
    let rows = first.iter().zip(&pair.means).map(row).collect();
    let caption = format!("{} (geometric means) of {one} by {two}", measure.title());
    answer.table(&caption, &columns, rows);
}

fn heading(axes: &[Axis], at: usize) -> &str {
    axes.get(at).map_or("", |axis| axis.heading())
}

fn name(axes: &[Axis], of: &[usize]) -> String {
    let names: Vec<&str> = of.iter().map(|at| heading(axes, *at)).collect();
    names.join(" with ")
}

fn formatted(name: &str, term: &Term, measure: Measure) -> String {
    let range = term.range.zip(term.range_interval).map_or(String::new(), |(range, ends)| {
        let [range, low, high] = [range, ends.0, ends.1].map(count::significant);
        format!(
            "; the level with most of it has {range} times (95 % {low} to {high}) that with the \
             least"
        )
    });
    format!(
        "{name} explains {} of the variation of the {} (omega squared; p = {}, by Holm){range}.",
        count::percent(term.omega_squared.max(0.0)),
        measure.title(),
        count::significant(term.p)
    )
}

fn refused(reason: NoShares) -> String {
    let why = match reason {
        NoShares::TooFewLevels => "an axis has fewer than two levels",
        NoShares::MissingCells => "some combinations were not measured",
        NoShares::UnequalRepeats => "some combinations were measured more often than others",
        NoShares::NoRepeats => "nothing was measured twice, so the measurement error is not known",
        NoShares::NotPositive => "a figure is not positive",
        NoShares::NoVariation => "all figures are the same",
    };
    format!("How much each axis matters is not reported: {why}.")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{facts, noise, stage_of};
    use iosonde_fixtures::Load;

    const TWO: &str = "repeats = 4\nanalysis = [\"factors\"]\n[[stage.axis]]\nname = \"iodepth\"\n\
                       values = [1, 4]\n[[stage.axis]]\nname = \"numjobs\"\nvalues = [1, 2]\n";

    #[test]
    fn the_axis_that_matters_is_named_and_the_other_is_not() {
        let mut noise = noise(6, 0.01);
        let stage = stage_of(TWO);
        let facts = facts(&stage, |cell, _| Load {
            iops: noise() * if cell.index >= 2 { 4_000.0 } else { 1_000.0 },
            ..Load::default()
        });
        assert!(facts.found("share-iodepth").unwrap() > 0.95);
        assert_eq!(facts.found("share-jobs"), None);
        assert!(facts.answers[0].1.sentences[0].contains("omega squared"));
    }

    #[test]
    fn where_axes_matter_only_together_neither_is_reported_alone() {
        let mut noise = noise(8, 0.01);
        let facts = facts(&stage_of(TWO), |cell, _| Load {
            iops: noise() * if matches!(cell.index, 0 | 3) { 4_000.0 } else { 1_000.0 },
            ..Load::default()
        });
        let answer = &facts.answers[0].1;
        let said = answer.sentences.join("\n");
        assert!(said.contains("The effect of iodepth depends on jobs"), "{said}");
        assert!(!said.contains("iodepth explains"), "{said}");
        assert_eq!(answer.tables[0].rows.len(), 2);
    }
}
