//! Qualification of devices besides rounds: profiles applied to devices in turn, and preparation
//! that is skipped if measurements show its effect.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use super::program::Place;

const PASSES: &str = r#"
name = "passes"
question = "Is it prepared?"
[[stage]]
name = "a"
repeats = 1
seconds = 0.2
set = { rw = "randread", block-size = "4k" }
precondition = { passes = 2, order = "random", block-size = "64k" }
"#;

fn place() -> Place {
    let place = Place::new();
    place.file("passes.toml", PASSES.as_bytes());
    let precondition = "precondition = { passes = 2, order = \"random\", block-size = \"64k\" }";
    let purge = PASSES.replace(precondition, "purge = \"any\"");
    place.file("purge.toml", purge.as_bytes());
    place.hole("data", 16 << 20);
    place
}

/// Runs an experiment on the file. Returns its new folder.
fn run(place: &Place, name: &str, before: Option<&Path>) -> PathBuf {
    let known = place.kept();
    let mut call = place.iosonde(&format!("experiment run {name}.toml data --buffered"));
    if let Some(folder) = before {
        call = call.arg("--prepared-by").arg(folder);
    }
    call.end().exits(0);
    place.kept().into_iter().find(|folder| !known.contains(folder)).unwrap()
}

/// Its preparation: passes, method of the purge, and the decision.
fn prepared(folder: &Path) -> (u64, Value, String) {
    let text = fs::read_to_string(folder.join("stage-a.json")).unwrap();
    let stage: Value = serde_json::from_str(&text).unwrap();
    let prepared = &stage["prepared"][0];
    let decision = prepared["decision"].as_str().unwrap_or_default().to_owned();
    (prepared["passes"].as_u64().unwrap(), prepared["purge"]["method"].clone(), decision)
}

/// T6: an earlier purge or preconditioning is not trusted without measurements.
#[test]
fn preparation_is_left_out_only_where_measurements_agree() {
    let place = place();
    let first = run(&place, "passes", None);
    assert_eq!(prepared(&first), (2, Value::Null, String::new()));
    // All blocks hold data. Whether the write rate is steady depends on this machine.
    let second = run(&place, "passes", Some(&first));
    let (passes, _, decision) = prepared(&second);
    match passes {
        0 => assert!(decision.starts_with("preconditioning is skipped: all 256 blocks")),
        _ => assert!(decision.contains("the rate of writes is not steady"), "{decision}"),
    }
    let report = fs::read_to_string(second.join("report.txt")).unwrap();
    assert!(report.contains("is skipped"), "the report has the decision: {report}");
    // After a purge earlier records of passes are invalid, wherever they are.
    let purged = run(&place, "purge", None);
    assert_eq!(prepared(&purged).1, "recreate");
    let (passes, _, decision) = prepared(&run(&place, "passes", Some(&purged)));
    assert_eq!(passes, 2);
    assert!(decision.contains("since it was last purged"), "{decision}");
    run(&place, "purge", None);
    let (passes, _, decision) = prepared(&run(&place, "passes", Some(&first)));
    assert_eq!(passes, 2);
    assert!(decision.contains("256 of 256 blocks that were read are blank"), "{decision}");
    // A purge is skipped if samples are blank and the records contain no writes.
    let purged = run(&place, "purge", None);
    let (_, method, decision) = prepared(&run(&place, "purge", Some(&purged)));
    assert_eq!(method, Value::Null);
    assert!(decision.starts_with("the purge is skipped: all 256 blocks"), "{decision}");
    run(&place, "passes", None);
    let (_, method, decision) = prepared(&run(&place, "purge", Some(&purged)));
    assert_eq!(method, "recreate");
    assert!(decision.contains("256 of 256 blocks hold data"), "{decision}");
}

#[test]
fn a_folder_that_prepared_nothing_is_refused() {
    let place = place();
    place.file("plain.toml", PASSES.split("precondition").next().unwrap().as_bytes());
    let plain = run(&place, "plain", None);
    let words = "experiment run passes.toml data --buffered --prepared-by";
    let refused = place.iosonde(words).arg(&plain).end().exits(2);
    refused.says("neither purged nor preconditioned");
    let words = "experiment run plain.toml data --buffered --prepared-by";
    place.iosonde(words).arg(&plain).end().exits(2).says("no effect");
}

#[test]
fn a_campaign_leaves_out_what_the_experiment_before_prepared() {
    let place = place();
    let experiment = "[[experiment]]\nname = \"purge.toml\"\nskip-if-prepared = true\n";
    let device = "[[device]]\nname = \"f\"\npath = \"data\"\nbuffered = true\n";
    let file = format!("name = \"c\"\n{device}{experiment}{experiment}");
    place.file("c.toml", file.as_bytes());
    place.iosonde("campaign run c.toml --output out").end().exits(0);
    let out = fs::read_dir(place.work().join("out")).unwrap();
    let mut folders = out.map(|entry| entry.unwrap().path());
    let folder = folders.find(|path| path.to_string_lossy().contains("-campaign-")).unwrap();
    let log = fs::read_to_string(folder.join("events.log")).unwrap();
    let decisions: Vec<&str> = log.lines().filter(|l| l.starts_with("skip-decision|f|")).collect();
    assert_eq!(decisions.len(), 2, "{log}");
    assert!(decisions[0].contains("no experiment just before it prepared the device"), "{log}");
    assert!(decisions[1].contains("the purge is skipped: all 256 blocks"), "{log}");
    assert_eq!(log.lines().filter(|line| line.starts_with("purge|f|")).count(), 1, "{log}");
}

/// A purge is logged once, while the experiment still runs. A campaign that was killed before it
/// logged an experiment's end logs it on resumption.
#[test]
fn a_kill_loses_no_line_of_the_log() {
    let place = place();
    let text = fs::read_to_string(place.work().join("purge.toml")).unwrap();
    place.file("purge.toml", text.replace("seconds = 0.2", "seconds = 3").as_bytes());
    let device = "[[device]]\nname = \"f\"\npath = \"data\"\nbuffered = true\n";
    let experiment = "[[experiment]]\nname = \"purge.toml\"\n";
    place.file("c.toml", format!("name = \"c\"\n{device}{experiment}").as_bytes());
    let output = place.work().join("out");
    let log = || {
        let mut folders = fs::read_dir(&output).into_iter().flatten().flatten().map(|e| e.path());
        let folder = folders.find(|path| path.to_string_lossy().contains("-campaign-"));
        folder.and_then(|path| fs::read_to_string(path.join("events.log")).ok()).unwrap_or_default()
    };
    let is_done = || {
        let all = fs::read_dir(output.join("devices/f/01-purge")).into_iter().flatten().flatten();
        let mut names = all.map(|entry| entry.path());
        names.any(|path| !path.to_string_lossy().ends_with(".partial"))
    };
    let running = place.iosonde("campaign run c.toml --output out").start();
    let running = running.until("purge in the log", || log().contains("purge|f|"));
    assert!(!is_done(), "it stands there before the experiment has ended");
    // The experiment ends, unnoticed by the campaign.
    let running = running.signal_worker(Signal::STOP).until("end of the experiment", is_done);
    running.signal(Signal::KILL).end();
    assert!(!log().contains("finish|f|"), "{}", log());
    place.iosonde("campaign resume out").end().exits(0);
    let log = log();
    for action in ["purge", "finish"] {
        let start = format!("{action}|f|");
        assert_eq!(log.lines().filter(|line| line.starts_with(&start)).count(), 1, "{log}");
    }
}

#[test]
fn devices_have_profiles_in_turn_and_the_plan_shows_them() {
    let place = place();
    let device = |name: &str| {
        let path = "servers=4,size=64M";
        format!("[[device]]\nname = \"{name}\"\npath = \"{path}\"\nioengine = \"sim\"\n")
    };
    let file = format!("name = \"c\"\n{}{}{}", device("a"), device("b"), device("c"));
    place.file("c.toml", file.as_bytes());
    let plan = place.iosonde("campaign plan c.toml --preset provision-mixed").end().exits(0);
    let profiles = "profiles: a provision-sequential, b provision-random, c provision-sequential";
    plan.prints(profiles);
    let json = "campaign plan c.toml --preset provision-mixed --output-format json";
    let json: Value = serde_json::from_str(&place.iosonde(json).end().exits(0).out).unwrap();
    assert_eq!(json["profiles"]["b"], "provision-random");
    let steps: Vec<(&str, &str)> = json["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| (each["device"].as_str().unwrap(), each["experiment"].as_str().unwrap()))
        .collect();
    let (sequential, random) = ("provision-sequential", "provision-random");
    assert_eq!(steps, [("a", sequential), ("b", random), ("c", sequential)]);
    // The same, configured in the file.
    place.iosonde("campaign configure c.toml --preset provision-mixed").end().exits(0);
    place.iosonde("campaign plan c.toml").end().exits(0).prints(profiles);
    let one = "campaign plan c.toml --set round-robin=[\"x\"]";
    place.iosonde(one).end().exits(2).says("no experiment has the profile `x`");
}
