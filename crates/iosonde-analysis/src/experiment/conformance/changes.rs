//! Differences between an experiment and the built-in one of the same procedure, key by key.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use iosonde_model::spec::experiment::Stage;
use iosonde_model::spec::{Experiment, catalogue};

/// Prefix of a changed steady-state criterion: the measurement then is not that of the procedure.
pub(super) const CRITERION: &str = "criterion";

/// Keys that change no run, or whose effect is reported from the results.
const LEFT_OUT: [&str; 7] =
    ["title", "question", "analysis", "figure", "needs", "purge", "seconds"];
/// Keys that a procedure leaves open unless the built-in experiment sets them.
const OPEN: [&str; 2] = ["write-cache", "energised-for"];
/// Keys of the steady-state criteria.
const CRITERIA: [&str; 4] =
    ["rounds.window", "rounds.range-percent", "rounds.slope-percent", "rounds.track"];

/// The built-in experiment of the same procedure: the one of the same name, else the most similar.
pub(super) fn built_in(experiment: &Experiment) -> Option<Experiment> {
    let basis = &experiment.procedure.as_ref()?.basis;
    let is_same =
        |each: &Experiment| each.procedure.as_ref().is_some_and(|known| known.basis == *basis);
    let all = catalogue::experiments().ok()?.into_iter().filter(is_same);
    all.min_by_key(|each| (each.name != experiment.name, changes(experiment, each).len()))
}

/// The differences, each as `what:how`.
pub(super) fn changes(experiment: &Experiment, built_in: &Experiment) -> Vec<String> {
    let mut all = Vec::new();
    for expected in &built_in.stages {
        match experiment.stage(&expected.name) {
            None => all.push(format!("stage:{} is missing", expected.name)),
            Some(found) => of_stage(found, expected, &mut all),
        }
    }
    for found in experiment.stages.iter().filter(|each| built_in.stage(&each.name).is_none()) {
        all.push(format!("stage:{} is not part of the procedure", found.name));
    }
    all
}

fn of_stage(found: &Stage, expected: &Stage, all: &mut Vec<String>) {
    let (now, before) = (keys(found), keys(expected));
    let names: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    for name in names.into_iter().filter(|name| now.get(*name) != before.get(*name)) {
        if OPEN.contains(&name.as_str()) && !before.contains_key(name) {
            continue;
        }
        let is_criterion = CRITERIA.iter().any(|criterion| name == criterion);
        let what = if is_criterion { CRITERION } else { "changed" };
        let value = |of: &BTreeMap<String, String>| of.get(name).map_or("none", |v| v).to_owned();
        let (now, before) = (value(&now), value(&before));
        all.push(format!("{what}:{}, {name}: {now} instead of {before}", found.name));
    }
}

/// The keys of a stage, as dotted paths, with their values.
fn keys(stage: &Stage) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    if let Ok(Value::Object(table)) = serde_json::to_value(stage) {
        for (key, value) in &table {
            if !LEFT_OUT.contains(&key.as_str()) {
                flatten(key, value, &mut all);
            }
        }
    }
    all
}

fn flatten(path: &str, value: &Value, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Null => {}
        Value::Object(table) => {
            for (key, value) in table {
                flatten(&format!("{path}.{key}"), value, all);
            }
        }
        // Elements with names, such as axes, are listed by name.
        Value::Array(list) if list.iter().any(|each| each.get("name").is_some()) => {
            for (place, each) in list.iter().enumerate() {
                let name = each["name"].as_str().map_or(place.to_string(), str::to_owned);
                flatten(&format!("{path}.{name}"), each, all);
            }
        }
        value => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            all.insert(path.into(), text);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn changed(old: &str, new: &str) -> Vec<String> {
        let text = catalogue::EXPERIMENTS.iter();
        let text = text.into_iter().find(|text| text.contains("name = \"pts-iops-core\"")).unwrap();
        assert!(text.contains(old), "{old}");
        let own: Experiment = toml::from_str(&text.replacen(old, new, 1)).unwrap();
        changes(&own, &built_in(&own).unwrap())
    }

    #[test]
    fn each_changed_key_is_named_with_both_values() {
        assert_eq!(changed("seconds = 2.0", "seconds = 1.0"), Vec::<String>::new());
        assert_eq!(
            changed("passes = 2", "passes = 1"),
            ["changed:pts-iops, precondition.passes: 1 instead of 2"]
        );
        assert_eq!(
            changed("iodepth = 32, numjobs", "iodepth = 1, numjobs"),
            ["changed:pts-iops, set.iodepth: 1 instead of 32"]
        );
        assert_eq!(
            changed("window = 5", "window = 3"),
            ["criterion:pts-iops, rounds.window: 3 instead of 5"]
        );
        assert_eq!(
            changed("max = 25", "max = 6\nslope-percent = 50"),
            [
                "changed:pts-iops, rounds.max: 6 instead of 25",
                "criterion:pts-iops, rounds.slope-percent: 50.0 instead of 10.0",
            ]
        );
        assert!(changed("values = [100, 65, 0]", "values = [100, 0]")[0].contains("read-percent"));
        // A user's file is compared with the most similar built-in experiment of its procedure.
        assert_eq!(changed("name = \"pts-iops-core\"", "name = \"mine\""), Vec::<String>::new());
        let two = changed("name = \"pts-iops\"", "name = \"other\"");
        assert_eq!(two, ["stage:pts-iops is missing", "stage:other is not part of the procedure"]);
    }
}
