//! The report of an experiment: question, answer, a section for each stage, method, all numbers.

mod data;
mod method;
mod stage;
mod windows;

use std::collections::BTreeMap;

use crate::experiment_figures;
use crate::report::{Report, Section, Source, Warning};
use crate::run_report::environment_of;
use iosonde_analysis::experiment::gate::{self, Ranking};
use iosonde_analysis::experiment::{
    Conformance, Measure, NONE_USABLE, Point, StageFacts, Standing,
};
use iosonde_analysis::experiment::{Study, TrialFigures};
use iosonde_analysis::finding::{Finding, Severity};
use iosonde_model::record::WriteAudit;
use iosonde_model::spec::Direction;
use iosonde_model::units::count;

/// The report of an experiment. `command` is the command line, empty if unknown. Computes nothing;
/// all results are from the analysis.
pub fn experiment_report(
    study: &Study,
    command: &[String],
    complete: bool,
    exit_code: u8,
) -> Report {
    let run = &study.run;
    let experiment = &run.experiment;
    let mut sections: Vec<Section> = Vec::new();
    // The words of a conclusion are the answer of the report.
    let spoken = study.conclusions.iter().filter(|(_, answer)| !answer.tables.is_empty());
    for (name, answer) in spoken {
        sections.push(stage::conclusion(name, answer));
    }
    let conformance = Conformance::of(study);
    let label = conformance.as_ref().map(Conformance::label);
    let subject = experiment_figures::subject(study);
    let subject = [label.unwrap_or_default(), &subject];
    let subject: Vec<&str> = subject.into_iter().filter(|part| !part.is_empty()).collect();
    let subject = subject.join(" · ");
    let answer = answer(study);
    sections.extend(study.stages.iter().map(|facts| stage::section(facts, &subject, &answer)));
    let target = run.target.path.clone();
    let label = label.map_or(String::new(), |label| format!(" ({label})"));
    Report {
        title: format!("{}: {target}{label}", experiment.heading()),
        conformance,
        source: Source {
            program: format!("iosonde {}", run.program),
            command: command.to_vec(),
            started_unix_ns: Some(run.started_unix_ns),
            complete,
            exit_code,
        },
        question: experiment.question.clone(),
        answer,
        warnings: warnings(study),
        sections,
        method: method::method(study),
        environment: environment(study),
        data: [data::points(study), data::trials(study), data::metrics(study)]
            .into_iter()
            .chain(windows::windows(study))
            .collect(),
    }
}

/// The conclusions of the experiment; if there are none, the first sentences of its stages.
fn answer(study: &Study) -> Vec<String> {
    let said = said(study);
    let points = || study.stages.iter().flat_map(|facts| &facts.points);
    let is_empty = points().next().is_some() && !points().any(Point::is_usable);
    match is_empty && !said.iter().any(|sentence| sentence.contains(NONE_USABLE)) {
        true => {
            let why = study.why_not_run().filter(|_| said.is_empty());
            let why = why.map_or(String::new(), |why| format!(": {why}"));
            [format!("{NONE_USABLE}{why}.")].into_iter().chain(said).collect()
        }
        false => said,
    }
}

fn said(study: &Study) -> Vec<String> {
    let whole = study.conclusions.iter().flat_map(|(_, answer)| &answer.sentences);
    let whole: Vec<String> = whole.cloned().collect();
    if !whole.is_empty() {
        return whole;
    }
    let stages = study.stages.iter().flat_map(|facts| &facts.answers);
    let first: Vec<String> =
        stages.flat_map(|(_, answer)| answer.sentences.iter().take(2)).cloned().collect();
    if first.is_empty() { fastest(study).into_iter().collect() } else { first }
}

/// For a single stage without an analysis: the point with the highest rate, if significant.
fn fastest(study: &Study) -> Option<String> {
    let [facts] = study.stages.as_slice() else { return None };
    let usable = |point: &&Point| !matches!(point.standing, Standing::Failed(_));
    let points: Vec<&Point> = facts.points.iter().filter(usable).collect();
    let rate = |point: &Point| Some(point.spread(Measure::Iops, Direction::Total)?.mean);
    let said = |point: &Point| Some(Measure::Iops.formatted(rate(point)?));
    let at = |point: &Point| {
        let levels = facts.stage.axes.iter().zip(&point.levels);
        let settings: Vec<String> =
            levels.map(|(axis, level)| format!("{} {}", axis.heading(), level.label)).collect();
        settings.join(", ")
    };
    match gate::ranking(&points, Measure::Iops)? {
        Ranking::Best(point) if points.len() > 1 => {
            Some(format!("The highest rate is {} IOPS, at {}.", said(point)?, at(point)))
        }
        Ranking::Best(point) => Some(format!("The rate is {} IOPS.", said(point)?)),
        Ranking::Ties { points: ties, more, .. } => Some(format!(
            "Not shown to differ in rate: {}{}.",
            ties.iter().map(|point| at(point)).collect::<Vec<_>>().join("; "),
            gate::advice(more)
        )),
        Ranking::Undecided(why) => Some(format!("The highest rate: {why}.")),
    }
}

/// A finding with the places where it was seen.
struct Seen {
    /// The most severe finding with this code, whose words are shown.
    finding: Finding,
    /// Setting of that finding; empty for a stage with one cell and for a finding of an analysis.
    at: String,
    stages: Vec<String>,
    /// Number of runs of these stages that have it.
    runs: usize,
}

impl Seen {
    /// `at iodepth 4; seen in 26 of 40 runs of queue-depth`.
    fn place(&self, study: &Study) -> String {
        let own = study.stages.iter().filter(|facts| self.stages.contains(&facts.stage.name));
        let all: usize = own.map(|facts| facts.trials.len()).sum();
        let stages = self.stages.join(", ");
        let runs = match (self.runs, all) {
            (0, _) => format!("seen in {stages}"),
            (_, 1) => format!("seen in the run of {stages}"),
            (some, all) => {
                let [some, all] = [some, all].map(|runs| count::thousands(runs as u64));
                format!("seen in {some} of {all} runs of {stages}")
            }
        };
        if self.at.is_empty() { runs } else { format!("at {}; {runs}", self.at) }
    }
}

/// The setting of a run as axis names and levels.
fn setting(facts: &StageFacts, trial: &TrialFigures) -> String {
    let levels = facts.laid_out.cells.get(trial.cell).map_or(&[][..], |cell| &cell.levels);
    let named = levels.iter().map(|level| format!("{} {}", level.axis, level.label));
    named.collect::<Vec<_>>().join(", ")
}

/// The machine and the target, as far as known.
fn environment(study: &Study) -> Vec<(String, String)> {
    let mut all = environment_of(study.target.as_ref(), None);
    if study.target.is_none() {
        all.push(("target".into(), study.run.target.path.clone()));
    }
    let target = study.target.iter();
    all.extend(target.flat_map(|target| &target.write_audits).flat_map(WriteAudit::lines));
    all.extend(environment_of(None, study.host.as_ref()));
    all.push(("seed".into(), study.run.seed.to_string()));
    all
}

/// The findings of all runs and analyses, each once with its places, the most severe first.
fn warnings(study: &Study) -> Vec<Warning> {
    let mut seen: BTreeMap<&str, Seen> = BTreeMap::new();
    let mut add = |finding: &Finding, facts: &StageFacts, trial: Option<&TrialFigures>| {
        let of = |finding: &Finding| (finding.severity, finding.strength);
        let at = || trial.map_or(String::new(), |trial| setting(facts, trial));
        let new = || Seen { finding: finding.clone(), at: at(), stages: Vec::new(), runs: 0 };
        let entry = seen.entry(finding.code).or_insert_with(new);
        if of(finding) > of(&entry.finding) {
            (entry.finding, entry.at) = (finding.clone(), at());
        }
        entry.runs += usize::from(trial.is_some());
        if !entry.stages.contains(&facts.stage.name) {
            entry.stages.push(facts.stage.name.clone());
        }
    };
    for facts in &study.stages {
        for trial in &facts.trials {
            // Use of the page cache is no warning in a run that measures it.
            let through_cache = matches!(trial.cache.as_str(), "cold" | "warm");
            let of_the_cache = ["page_cache", "buffered", "physics"];
            let requested_comparison =
                |f: &&Finding| through_cache && of_the_cache.contains(&f.code);
            let spoken = trial.findings.iter().filter(|f| f.severity >= Severity::Warning);
            let spoken = spoken.filter(|f| !requested_comparison(f));
            let spoken = spoken.filter(|finding| facts.limits_trust(trial, finding));
            spoken.for_each(|finding| add(finding, facts, Some(trial)));
        }
        let own = facts.answers.iter().flat_map(|(_, answer)| &answer.warnings);
        own.for_each(|finding| add(finding, facts, None));
    }
    let mut all: Vec<Seen> = seen.into_values().collect();
    all.sort_by_key(|of| std::cmp::Reverse((of.finding.severity, of.finding.strength)));
    let mut element: Vec<Warning> = Vec::new();
    for of in &all {
        let words = of.finding.words.trim_end_matches('.');
        let words = format!("{words} ({})", of.place(study));
        element.push(Warning::of_finding(&of.finding, words));
    }
    // Conclusions about single runs were reported above.
    let concluded = study.conclusions.iter().flat_map(|(_, answer)| &answer.warnings);
    for finding in concluded {
        if !element.iter().any(|known| known.code == finding.code) {
            element.push(Warning::of_finding(finding, finding.words.clone()));
        }
    }
    element
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_analysis::experiment::testing;
    use iosonde_analysis::finding::Strength;
    use iosonde_fixtures::Load;

    fn sweep(experiment: &str) -> Study {
        let stage = testing::stage(experiment, experiment);
        testing::study(vec![testing::facts(&stage, |_, _| Load::default())], None)
    }

    #[test]
    fn a_finding_is_said_with_the_setting_that_its_words_are_of() {
        let mut study = sweep("queue-depth");
        let facts = &mut study.stages[0];
        let all = facts.trials.len();
        let names: Vec<String> = facts.points.iter().map(Point::name).collect();
        for (at, severity) in [(0, Severity::Warning), (2, Severity::LowConfidence)] {
            let words = format!("Lost at cell {at}.");
            let finding = Finding::new("stall", "", Strength::Supported, severity, words);
            facts.trials.iter_mut().find(|of| of.cell == at).unwrap().findings.push(finding);
        }
        let warnings = warnings(&study);
        let found = warnings.iter().find(|warning| warning.code == "stall").unwrap();
        let place = format!("(at iodepth {}; seen in 2 of {all} runs of queue-depth)", names[2]);
        assert_eq!(found.words, format!("Lost at cell 2 {place}"));
    }

    #[test]
    fn findings_of_runs_on_which_no_figure_rests_are_notes() {
        let stage = testing::stage_of(
            "order = \"given\"\nrepeats = 1\nset = { rw = \"randwrite\" }\n\
             rounds = { max = 9, window = 5, track = [{ metric = \"iops\" }] }\n",
        );
        let seen = |round: usize, severity: Severity| {
            let mut facts = testing::facts(&stage, |_, round| Load {
                iops: if round == 0 { 9_000.0 } else { 5_000.0 },
                ..Load::default()
            });
            let finding =
                Finding::new("stall", "stalls", Strength::Supported, severity, String::new());
            facts.trials[round].findings.push(finding);
            let study = testing::study(vec![facts], None);
            let noted = method::method(&study).join(" ");
            let is_noted = noted.contains("no figure rests on runs with stalls in 1 run.");
            (warnings(&study).iter().any(|warning| warning.code == "stall"), is_noted)
        };
        // Rounds 2 to 6 are the first steady ones.
        assert_eq!(seen(0, Severity::LowConfidence), (false, true));
        assert_eq!(seen(3, Severity::LowConfidence), (true, false));
        assert_eq!(seen(0, Severity::Fault), (true, false), "the storage is failing");
    }

    #[test]
    fn nothing_usable_is_said_whatever_the_experiment() {
        for experiment in ["cpu-cost", "queue-depth", "random"] {
            let mut study = sweep(experiment);
            let is_none = |study: &Study| answer(study).iter().any(|of| of.contains(NONE_USABLE));
            assert!(!is_none(&study), "{experiment}");
            let facts = study.stages.remove(0);
            let failed = |mut trial: TrialFigures| {
                trial.standing = Standing::Failed("broken".into());
                trial
            };
            let trials = facts.trials.into_iter().map(failed).collect();
            study.stages = vec![StageFacts::of(&facts.stage, facts.laid_out, trials, &[])];
            assert!(is_none(&study), "{experiment}");
            let report = experiment_report(&study, &[], true, 0);
            let confidence = crate::answer::Answer::of_report(&report, None).confidence;
            assert!(!confidence.starts_with("high"), "{experiment}: {confidence}");
        }
    }
}
