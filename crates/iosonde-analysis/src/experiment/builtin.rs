//! The built-in experiments use only names that the rest of the program knows.

#![allow(clippy::unwrap_used, reason = "tests")]

use iosonde_model::plan::design;
use iosonde_model::spec::Experiment;
use iosonde_model::spec::catalogue::{self, EXPERIMENTS};

/// An experiment preceded by the stages of everything it includes.
fn whole(name: &str) -> Experiment {
    let own = catalogue::experiment(name).unwrap();
    let mut stages = Vec::new();
    for included in &own.include {
        for stage in whole(included).stages {
            if !stages.contains(&stage) {
                stages.push(stage);
            }
        }
    }
    stages.extend(own.stages);
    Experiment { stages, ..own }
}

fn all() -> Vec<Experiment> {
    let name = |text: &&str| toml::from_str::<Experiment>(text).unwrap().name;
    EXPERIMENTS.iter().map(|text| whole(&name(text))).collect()
}

#[test]
fn each_can_be_laid_out_with_all_that_it_includes() {
    for experiment in all() {
        design::check(&experiment, None).unwrap();
        assert!(!experiment.stages.is_empty(), "{}", experiment.name);
    }
}

#[test]
fn their_analyses_and_the_axes_of_their_pictures_exist() {
    for experiment in all() {
        assert_eq!(super::unknown(&experiment), Vec::<String>::new(), "{}", experiment.name);
        for stage in &experiment.stages {
            let known = |axis: &str| axis.is_empty() || stage.axes.iter().any(|a| a.name == axis);
            for figure in &stage.figures {
                assert!(known(&figure.x) && known(&figure.series), "{}: {figure:?}", stage.name);
                let measures =
                    figure.metrics.iter().all(|word| super::Measure::parse(word).is_some());
                assert!(measures, "{}: {figure:?}", stage.name);
            }
        }
    }
}

/// Minutes of a quick suite: runs of 0.5 to 2 s (a fifteenth of their length), three at most.
fn quick_minutes(name: &str) -> f64 {
    let found: design::Found =
        ["queue-depth.knee"].iter().map(|name| ((*name).to_owned(), 8.0)).collect();
    let stages = whole(name).stages.into_iter();
    let stages = stages.filter(|stage| !stage.axes.iter().any(|axis| axis.claims));
    let stages =
        stages.filter(|stage| stage.needs != iosonde_model::spec::experiment::Needs::Rotation);
    let seconds = stages.map(|stage| {
        let cells = design::cells(&stage, &found, None).unwrap().len() as f64;
        cells * f64::from(stage.repeats.min(3)) * (stage.seconds / 15.0).clamp(0.5, 2.0)
    });
    seconds.sum::<f64>() / 60.0
}

#[test]
fn the_suites_take_minutes_when_they_are_quick() {
    assert!(quick_minutes("study") < 3.3, "{}", quick_minutes("study"));
    assert!(quick_minutes("micro") < 7.0, "{}", quick_minutes("micro"));
}
