//! Describes how an experiment was measured, in sentences that apply to it.

use std::collections::BTreeMap;

use iosonde_analysis::experiment::{Conformance, StageFacts, Study};
use iosonde_analysis::finding::Severity;
use iosonde_model::record::store::utc;
use iosonde_model::spec::experiment::{Order, PassOrder, Prefill};
use iosonde_model::units::{bytes, count};

use crate::clean::clean;

/// Analyses with intervals from a bootstrap over the runs.
const BY_BOOTSTRAP: [&str; 3] = ["knee", "size-model", "surface"];
/// Analyses that compare two cells by their ratio.
const BY_RATIO: [&str; 6] = ["baseline", "mix", "random", "size-model", "sizes", "stride"];
/// Analyses with permutation tests.
const BY_PERMUTATION: [&str; 2] = ["cliff", "factors"];

/// The method of the experiment.
pub(super) fn method(study: &Study) -> Vec<String> {
    let run = &study.run;
    let mut said = vec![format!(
        "Begun {}. The unit of replication is the run; the interval of a figure of a cell is the \
         95 % interval of the mean of its runs (as of log-normal values; of the mean latency of \
         an open loop, as of values with a normal reciprocal), and ± is one sample standard \
         deviation.",
        utc(run.started_unix_ns)
    )];
    said.extend(intervals(study));
    let mut drawn = study.stages.iter().filter(|facts| facts.stage.order == Order::Random);
    if let Some(facts) = drawn.next() {
        said.push(format!(
            "Runs were carried out in complete replicates: each runs every cell of its stage once, \
             in an order of its own drawn from seed {}, so that a drift of the device or the \
             machine does not look like an effect.",
            facts.laid_out.order_seed
        ));
    }
    if run.target.is_laid_out {
        said.push(
            "What is used of the target was written whole with incompressible data before \
             anything was read; every write carries data of its own."
                .into(),
        );
    } else if study.target.as_ref().is_some_and(|target| target.kind == "simulated") {
        said.push("The target is simulated: it holds no data, and nothing was laid out.".into());
    }
    if let Some(conformance) = Conformance::of(study) {
        let deviations = conformance.deviations.iter().map(|each| each.replacen(':', ": ", 1));
        let deviations: Vec<String> = deviations.collect();
        said.push(format!(
            "{}. Basis: {}. Deviations: {}.",
            conformance.label(),
            conformance.basis,
            if deviations.is_empty() { "none".into() } else { deviations.join("; ") }
        ));
    }
    let is_written = run.target.is_laid_out;
    study.stages.iter().for_each(|facts| of_stage(facts, is_written, &mut said));
    said
}

/// The origin of the intervals, for the kinds of analyses that were requested.
fn intervals(study: &Study) -> Vec<String> {
    let requested = |those: &[&str]| {
        let executed = study.stages.iter().filter(|facts| !facts.trials.is_empty());
        let mut names = executed.flat_map(|facts| &facts.stage.analysis);
        names.any(|name| those.contains(&name.as_str()))
    };
    let mut said = Vec::new();
    if requested(&BY_BOOTSTRAP) {
        said.push(
            "Intervals of a knee, of N*, of a fall and of a crossover are percentiles of a \
             bootstrap over the runs of each level."
                .into(),
        );
    }
    if requested(&BY_RATIO) {
        said.push("Intervals of the ratio of two cells are Welch's t on logarithms.".into());
    }
    if requested(&BY_PERMUTATION) {
        said.push(
            "Where a p is reported or a change of level is marked, it is by permutation.".into(),
        );
    }
    said
}

fn of_stage(facts: &StageFacts, is_written: bool, said: &mut Vec<String>) {
    let stage = &facts.stage;
    if !facts.laid_out.skipped.is_empty() {
        said.push(format!("{} was skipped: {}.", stage.name, facts.laid_out.skipped));
        return;
    }
    let prefill = match stage.prefill {
        _ if !is_written => "",
        Prefill::Once => "",
        Prefill::Stage => "; the region was written anew before the stage",
        Prefill::Run => "; the region was written anew before each run",
    };
    said.push(format!(
        "{}: {} cells, {}, {} s a run with {} % warm-up{prefill}.",
        stage.name,
        facts.laid_out.cells.len(),
        repeats(facts),
        count::setting(stage.seconds),
        stage.warm_up_percent
    ));
    for purge in facts.laid_out.prepared.iter().filter_map(|each| each.purge.as_ref()) {
        let checked = match purge.checked_blocks {
            0 => String::new(),
            all => format!("; {} of {all} blocks read afterwards were blank", purge.blank_blocks),
        };
        said.push(format!(
            "{} was purged ({}, {}) over {}{checked}.",
            stage.name,
            purge.method,
            clean(&purge.reason),
            bytes::exact(purge.range_bytes),
        ));
    }
    let decisions = facts.laid_out.prepared.iter().map(|each| each.decision.as_str());
    for decision in decisions.filter(|words| !words.is_empty()) {
        said.push(format!("{}: {}.", stage.name, clean(decision)));
    }
    if let Some(cache) = &facts.laid_out.write_cache {
        let after = match cache.after {
            Some(after) => format!("and {} afterwards, each read back", after.word()),
            None => "and is not known afterwards".into(),
        };
        let (before, during) = (cache.before.word(), cache.during.word());
        said.push(format!(
            "{}: the write cache of the device was {before} before, {during} during the stage \
             {after}.",
            stage.name
        ));
    }
    let passes: u32 = facts.laid_out.prepared.iter().map(|each| each.passes).sum();
    if let Some(precondition) = stage.precondition.as_ref().filter(|_| passes > 0) {
        let written: u64 = facts.laid_out.prepared.iter().map(|each| each.written_bytes).sum();
        let size = bytes::exact(precondition.block_size);
        let how = match (precondition.order, precondition.over_provisioning_percent) {
            (PassOrder::SinglePass, spare) => format!(
                "a single pass of random {size} writes over its active range and {} % of spare \
                 flash, after which the share of valid data falls with age as after many random \
                 passes",
                spare.unwrap_or_default()
            ),
            (PassOrder::Sequential, _) => in_passes(passes, "sequential", &size),
            (PassOrder::Random, _) => in_passes(passes, "random", &size),
        };
        said.push(format!(
            "{} was preconditioned by {how}: {written} B in all, counted.",
            stage.name
        ));
    }
    if let Some(rounds) = &stage.rounds {
        said.push(format!(
            "{} ran in rounds, each one pass over all cells in the given order, until every \
             tracked figure was steady over {} consecutive rounds: range at most {} % of the mean, \
             and rise or fall of the fitted line across them at most {} % (SNIA PTS 2.0.2, \
             2.1.24). The figures are those of these rounds alone.",
            stage.name, rounds.window, rounds.range_percent, rounds.slope_percent
        ));
    }
    said.extend(notes(facts));
    if !facts.laid_out.ended_early.is_empty() {
        said.push(format!("{} ended before its time: {}.", stage.name, facts.laid_out.ended_early));
    }
}

/// Findings of runs that affect no figure.
fn notes(facts: &StageFacts) -> Option<String> {
    let mut runs: BTreeMap<&str, u64> = BTreeMap::new();
    for trial in &facts.trials {
        let noted = trial.findings.iter().filter(|finding| {
            finding.severity >= Severity::Warning && !facts.limits_trust(trial, finding)
        });
        noted.for_each(|finding| *runs.entry(&finding.subject).or_default() += 1);
    }
    let each = runs.iter().map(|(what, runs)| format!("{what} in {}", count::of(*runs, "run")));
    let each: Vec<String> = each.collect();
    let note =
        || format!("{}: no figure rests on runs with {}.", facts.stage.name, each.join(", "));
    (!each.is_empty()).then(note)
}

/// Number of runs per cell; cells without runs are not counted.
fn repeats(facts: &StageFacts) -> String {
    let runs = facts.points.iter().map(|point| point.runs.len() + point.failed);
    let runs: Vec<usize> = runs.filter(|runs| *runs > 0).collect();
    match (runs.iter().min(), runs.iter().max()) {
        (Some(1), Some(1)) => "1 run each".into(),
        (Some(least), Some(most)) if least == most => format!("{least} runs each"),
        (Some(least), Some(most)) => format!("{least} to {most} runs each"),
        _ => "none of them carried out".into(),
    }
}

fn in_passes(passes: u32, order: &str, size: &str) -> String {
    format!(
        "{passes} {order} passes of {size} writes over its active range, each address once in each \
         pass"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_analysis::experiment::testing;
    use iosonde_fixtures::Load;

    const DEPTHS: &str = "repeats = 3\n[[stage.axis]]\nname = \"iodepth\"\nvalues = [1, 4]\n";

    #[test]
    fn only_what_was_done_is_said() {
        let stage = testing::stage_of(DEPTHS);
        let facts = testing::facts(&stage, |_, _| Load::default());
        let mut study = testing::study(vec![facts], None);
        let said = method(&study).join(" ");
        assert!(said.contains("2 cells, 3 runs each"), "{said}");
        for untrue in ["written whole", "bootstrap", "permutation"] {
            assert!(!said.contains(untrue), "{said}");
        }
        study.run.target.is_laid_out = true;
        study.stages[0].stage.analysis = vec!["knee".into()];
        study.stages[0].points[1].runs.pop();
        let said = method(&study).join(" ");
        for words in ["2 to 3 runs each", "written whole", "bootstrap"] {
            assert!(said.contains(words), "{said}");
        }
    }
}
