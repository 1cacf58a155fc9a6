//! Stored results of a command, and their location.

use std::fs;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::program::{Place, json_of, listing};

const SIM: &str = "run --ioengine sim --path read=1ms --rw randread --runtime 1";

/// Checks that the checksums list all files of the folder and are correct.
fn verify(folder: &Path) -> Vec<String> {
    let sums = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let mut named = Vec::new();
    for line in sums.lines().filter(|line| !line.starts_with('#')) {
        let (sum, name) = line.split_once("  ").unwrap();
        let digest = Sha256::digest(fs::read(folder.join(name)).unwrap());
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(sum, hex, "{name}");
        named.push(name.to_string());
    }
    let mut there: Vec<String> = listing(folder)
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .filter(|name| name != "SHA256SUMS")
        .collect();
    there.sort();
    assert_eq!(named, there);
    named
}

#[test]
fn a_check_is_compared_with_earlier_ones_of_the_same_storage() {
    let place = Place::new();
    let words = "check . 256M --seconds 0.5 --only cache --threads 1";
    let check = |words: &str| place.iosonde(words).env("COLUMNS", "400").end();
    let first = check(words).exits(0).lacks("earlier check");
    assert!(first.out.starts_with("Result:      "), "{first}");
    check(words).exits(0).prints("an earlier check here");
    // Checks of low confidence count only if there are no others.
    check(words).exits(0).prints(" earlier check");
    // Checks of another length are not compared.
    let other = words.replace("0.5", "0.6");
    check(&other).exits(0).lacks("earlier check");
    // A slow result is reported: earlier checks are made a thousand times faster.
    for folder in place.kept() {
        let path = folder.join("summary.json");
        let mut summary = json_of(&path);
        let iops = summary["rows"][0]["iops"].as_f64().unwrap();
        summary["rows"][0]["iops"] = (iops * 1000.0).into();
        fs::write(&path, summary.to_string()).unwrap();
    }
    check(words).prints("times slower than ").prints(" earlier check");
}

#[test]
fn a_check_is_one_folder_with_its_cells() {
    let place = Place::new();
    let words = "check . 256M --seconds 0.5 --only database,cache --threads 1";
    let ended = place.iosonde(words).end().exits(0).says("results stored in ");
    ended.prints("Database").prints("Cache").prints("Verdict: ").lacks("partial");
    let kept = place.kept();
    assert_eq!(kept.len(), 1);
    let names = verify(&kept[0]);
    let expected = [
        "01-database.json",
        "02-cache.json",
        "host.json",
        "log.jsonl",
        "manifest.json",
        "summary.json",
    ];
    assert_eq!(names, expected);
    let manifest = json_of(&kept[0].join("manifest.json"));
    assert_eq!(manifest["schema"], "iosonde.manifest/1");
    assert_eq!(manifest["cells"], serde_json::json!(expected[..2]));
    assert_eq!((&manifest["complete"], &manifest["exit_code"]), (&true.into(), &0.into()));
    assert_eq!(manifest["command"][3], "256M");
    let run = json_of(&kept[0].join("01-database.json"));
    assert_eq!(run["schema"], "iosonde.run/1");
    for key in ["plan", "outcome", "measured_ns", "backend", "target", "jobs", "process"] {
        assert!(!run[key].is_null(), "{key}");
    }
    let log = fs::read_to_string(kept[0].join("log.jsonl")).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 5, "{log}");
    assert_eq!((&events[4]["event"], &events[4]["exit_code"]), (&"ended".into(), &0.into()));
    assert_eq!(events[0]["time"].as_str().map(str::len), Some("2026-11-20T10:45:00.123456Z".len()));
    assert!(listing(&place.work()).is_empty(), "the test file had no name");
}

#[test]
fn results_go_to_the_named_folder() {
    let place = Place::new();
    place.iosonde(SIM).arg("--results=here").end().exits(0);
    assert!(place.kept().is_empty());
    verify(&listing(&place.work().join("here"))[0]);
    let state = place.home().join("state");
    place.iosonde(SIM).env("XDG_STATE_HOME", &state).end().exits(0);
    assert!(place.kept().is_empty());
    verify(&listing(&state.join("iosonde/runs"))[0]);
}

#[test]
fn results_that_cannot_be_kept_are_said_and_change_nothing() {
    let place = Place::new();
    let said = "the results are not stored";
    place.iosonde(SIM).without_env("HOME").end().exits(0).says(said).prints("IOPS");
    place.iosonde(SIM).env("HOME", "").end().exits(0).says(said);
    place.file("file", b"");
    let missed = place.iosonde(SIM).arg("--results=file/below").arg("--expect=p99<=1us");
    missed.end().exits(3).says(said).prints("IOPS");
    let ended = place.iosonde(SIM).arg("--results=/proc/below").arg("--output-format=json").end();
    assert_eq!(ended.exits(0).says(said).json()["complete"], true);
    if let Some(call) = place.as_nobody(SIM) {
        call.arg("--results=/").end().exits(0).says(said);
    }
}

#[test]
fn a_command_that_measures_nothing_keeps_nothing() {
    let place = Place::new();
    place.iosonde("check missing").end().exits(2);
    place.iosonde("run --path . --rw read").end().exits(2);
    assert!(listing(&place.home()).is_empty());
}

#[test]
fn the_same_seed_gives_the_same_simulation() {
    let place = Place::new();
    let words = "run --ioengine sim --path read=exp:1ms --rw randread --iodepth 4 --runtime 1";
    let summary = |seed: &str| {
        let ended = place.iosonde(words).arg("--output-format=json").arg(seed).end().exits(0);
        ended.json()["summary"]["read"].clone()
    };
    assert_eq!(summary("--randseed=7"), summary("--randseed=7"));
    assert_ne!(summary("--randseed=7"), summary("--randseed=8"));
}

#[test]
fn a_check_on_eight_threads_needs_little_memory() {
    let place = Place::new();
    place.iosonde("check . 256M --seconds 2 --threads 8 --only lakehouse").end().exits(0);
    let run = json_of(&place.kept()[0].join("01-lakehouse.json"));
    let used = run["process"]["max_rss_bytes"].as_u64().unwrap();
    let buffers = run["backend"]["buffer_bytes"].as_u64().unwrap();
    assert_eq!(run["jobs"].as_array().unwrap().len(), 8);
    assert!(used < buffers + (64 << 20), "{used} B, of which {buffers} B are buffers");
}

#[test]
fn a_run_is_compared_with_earlier_ones_of_the_same_load() {
    let place = Place::new();
    place.hole("data", 16 << 20);
    let words = "run --path data --rw randread --ioengine psync --direct 0 --runtime 0.3 \
                 --eta-interval 0";
    // Another statement may precede it: a fast page cache shows the client as the limit.
    let run = |words: &str| place.iosonde(words).env("COLUMNS", "200").end().exits(0).out;
    assert!(!run(words).contains("earlier"));
    assert!(
        run(words).contains(" an earlier run here (of low confidence, or within a cgroup limit); ")
    );
    let another = words.replace("--runtime 0.3", "--runtime 0.3 --bs 8k");
    assert!(!run(&another).contains("earlier"));
    assert!(run(words).contains(" the median of 2 earlier runs here"));
}
