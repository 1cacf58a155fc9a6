//! An experiment as a story: question, answer, a section for each stage, method, and every number.

mod data;
mod environment;
mod method;
mod stage;
mod windows;

use std::collections::BTreeMap;

use crate::experiment_figures;
use crate::story::{Section, Source, Story, Warning};
use iosonde_analysis::experiment::gate::{self, Ranking};
use iosonde_analysis::experiment::{Answer, Conformance, Measure, Point, Standing, Study};
use iosonde_analysis::finding::{Finding, Severity};
use iosonde_model::spec::Direction;
use iosonde_model::units::count;

/// Tells an experiment; `command` is the command line, empty where it is unknown. Computes nothing:
/// what it says was found by the analysis.
pub fn story(study: &Study, command: &[String], complete: bool, exit_code: u8) -> Story {
    let run = &study.run;
    let experiment = &run.experiment;
    let mut sections: Vec<Section> = Vec::new();
    // What it says is the answer of the story.
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
    Story {
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
        environment: environment::environment(study),
        data: [data::points(study), data::trials(study), data::metrics(study)]
            .into_iter()
            .chain(windows::windows(study))
            .collect(),
    }
}

/// What the experiment as a whole concludes; of one that does not, what its stages say first.
fn answer(study: &Study) -> Vec<String> {
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

/// Of a single stage without an analysis: the point with the highest rate, if it is shown to be.
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

/// The findings of all runs and analyses, each once with where it was seen, gravest first.
fn warnings(study: &Study) -> Vec<Warning> {
    let mut seen: BTreeMap<&str, (Finding, Vec<String>, usize)> = BTreeMap::new();
    let mut add = |finding: &'_ Finding, place: &str| {
        let entry = seen.entry(finding.code).or_insert_with(|| (finding.clone(), Vec::new(), 0));
        let graver = (finding.severity, finding.strength) > (entry.0.severity, entry.0.strength);
        if graver {
            entry.0 = finding.clone();
        }
        entry.2 += 1;
        if !entry.1.iter().any(|known| known == place) {
            entry.1.push(place.to_owned());
        }
    };
    let answers = |answer: &Answer| answer.warnings.clone();
    for facts in &study.stages {
        for trial in &facts.trials {
            // A cache that was to answer is no warning.
            let through_cache = matches!(trial.cache.as_str(), "cold" | "warm");
            let requested_comparison = |f: &&Finding| through_cache && is_of_the_cache(f);
            let spoken = trial.findings.iter().filter(|f| f.severity >= Severity::Warning);
            spoken.filter(|f| !requested_comparison(f)).for_each(|f| add(f, &facts.stage.name));
        }
        let own = facts.answers.iter().flat_map(|(_, answer)| answers(answer));
        own.for_each(|finding| add(&finding, &facts.stage.name));
    }
    let mut all: Vec<(Finding, Vec<String>, usize)> = seen.into_values().collect();
    all.sort_by_key(|(finding, ..)| std::cmp::Reverse((finding.severity, finding.strength)));
    let mut element: Vec<Warning> = Vec::new();
    for (finding, places, times) in &all {
        let (words, places) = (finding.words.trim_end_matches('.'), places.join(", "));
        let times = match times {
            1 => "once".to_owned(),
            several => format!("{} times", count::thousands(*several as u64)),
        };
        let words = format!("{words} (seen {times}, in {places})");
        element.push(Warning::of_finding(finding, words));
    }
    // What the whole concludes about single runs was reported above.
    let concluded = study.conclusions.iter().flat_map(|(_, answer)| &answer.warnings);
    for finding in concluded {
        if !element.iter().any(|known| known.code == finding.code) {
            element.push(Warning::of_finding(finding, finding.words.clone()));
        }
    }
    element
}

fn is_of_the_cache(finding: &Finding) -> bool {
    ["page_cache", "buffered", "physics"].contains(&finding.code)
}
