//! Comparison of two sets of runs: records, folders, baselines, and two command lines in turn.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::formats::assert_fits;
use super::program::{Call, Place, listing};

const SCHEMA: &str = include_str!("../../schema/iosonde-comparison-2.schema.json");

/// `runs` runs of a simulated device with a mean service time of `service_us`, stored as `name`.
fn measure(place: &Place, name: &str, runs: u32, service_us: u32, more: &str) {
    for _ in 0..runs {
        let words = format!(
            "run --ioengine sim --path servers=8,read=exp:{service_us}us --rw randread --iodepth 4 \
             --number-ios 20000 --results {name} {more}"
        );
        place.iosonde(&words).end().exits(0);
    }
}

/// The records below a directory of result folders.
fn records(folder: &Path) -> Vec<std::path::PathBuf> {
    listing(folder).iter().map(|each| each.join("01-run.json")).collect()
}

fn verdict<'a>(document: &'a Value, metric: &str) -> &'a str {
    let rows = document["cells"][0]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["metric"] == metric);
    row.unwrap_or_else(|| panic!("{metric} in {document:#}"))["verdict"]["kind"].as_str().unwrap()
}

#[test]
fn a_slower_device_is_slower_and_gates_end_as_they_should() {
    let place = Place::new();
    measure(&place, "a", 6, 90, "");
    measure(&place, "b", 6, 120, "");
    let refused = place.iosonde("compare a b").end().exits(2).silent();
    refused.says("target simulation: A has `").says("--allow target");
    let compare = |words: &str| place.iosonde(&format!("compare a b --allow target {words}"));
    let ended = compare("").end().exits(0);
    let ended = ended.prints("  A  a (6 runs)").prints("slower: -2").prints("(large effect)");
    ended.prints("differs: target simulation").prints("B is worse: ");
    let gates = "--gate iops>-50% --gate p99<+200%";
    compare(gates).end().exits(0).prints("Gate iops>-50% in randread: passed");
    compare("--gate iops>-5%").end().exits(3).prints("Gate iops>-5% in randread: FAILED");
    compare("--gate durable>-5%").end().exits(7).prints("unknown (no run has this metric)");
    let json = compare("--gate iops>-5% --output-format json").end().exits(3).json();
    assert_fits(SCHEMA, &json);
    assert_eq!(verdict(&json, "iops"), "slower");
    assert_eq!(json["gates"][0]["outcome"], "failed");
    // The same records and seed give the same document.
    assert_eq!(compare("--gate iops>-5% --output-format json").end().exits(3).json(), json);
    let json = compare("--metrics iops,p99 --output-format json").end().exits(0).json();
    assert_eq!((json["family"].as_u64(), verdict(&json, "p99")), (Some(2), "slower"));
}

#[test]
fn sides_are_folders_records_and_baselines() {
    let place = Place::new();
    measure(&place, "a", 5, 90, "");
    measure(&place, "b", 5, 90, "");
    let with = |mut call: Call, option: &str, paths: &[std::path::PathBuf]| {
        call = call.arg(option);
        paths.iter().fold(call, |call, path| call.arg(path))
    };
    let call = with(place.iosonde("compare"), "--a", &records(&place.work().join("a")));
    let call = with(call, "--b", &listing(&place.work().join("b")));
    let json = call.arg("--output-format=json").end().exits(0).json();
    assert_eq!(json["sides"][0]["runs"], 5);
    assert_ne!(verdict(&json, "iops"), "too_few");
    let saved = place.iosonde("compare --save-baseline base.json a").end().exits(0);
    saved.says("5 runs stored as a baseline in base.json");
    let from_baseline = "compare base.json b --output-format json";
    let mut again = place.iosonde(from_baseline).end().exits(0).json();
    again["sides"] = json["sides"].clone();
    assert_eq!(again, json, "a baseline holds all that a comparison needs");
    // `--save-baseline` replaces only a baseline.
    place.iosonde("compare --save-baseline base.json b").end().exits(0);
    place.file("other", b"precious");
    place.iosonde("compare --save-baseline other b").end().exits(1).says("contains something else");
    assert_eq!(fs::read(place.work().join("other")).unwrap(), b"precious");
}

#[test]
fn one_run_against_one_is_printed_and_not_judged() {
    let place = Place::new();
    measure(&place, "a", 1, 90, "");
    measure(&place, "b", 1, 200, "");
    let compare = |words: &str| place.iosonde(&format!("compare a b --allow target {words}"));
    let ended = compare("").end().exits(0);
    let ended = ended.prints("at least 5 runs of each side, preferably 10 (found 1 and 1)");
    ended.prints("within the one run of A: ").lacks("slower");
    compare("--gate iops>-5%").end().exits(7).prints("unknown (too few runs to compare)");
}

#[test]
fn what_is_not_alike_is_refused_by_field_and_value() {
    let place = Place::new();
    measure(&place, "a", 1, 90, "");
    measure(&place, "b", 1, 90, "--bs 8k");
    let ended = place.iosonde("compare a b").end().exits(2).silent();
    ended.says("plan jobs.block_bytes: A has `4096`, B has `8192`").says("--allow plan");
    place.iosonde("compare a b --allow engine").end().exits(2);
    place.iosonde("compare a b --allow plan").end().exits(0).prints("differs: plan jobs.block");
    // A record of another program version.
    let record = &records(&place.work().join("a"))[0];
    let mut older: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    older["program"] = json!("0.0.1");
    place.file("older.json", older.to_string().as_bytes());
    let ended = place.iosonde("compare a older.json").end().exits(2);
    ended.says("version program: A has `0.1.0`, B has `0.0.1`").says("--allow version");
}

#[test]
fn both_command_lines_by_turns() {
    let place = Place::new();
    let sim = |us: u32| {
        format!(
            "--run=iosonde run --ioengine sim --path servers=8,read=exp:{us}us --rw randread \
             --iodepth 4 --number-ios 10000"
        )
    };
    let compare = |a: u32, b: u32, words: &str| {
        place.iosonde("compare --results kept").arg(sim(a)).arg(sim(b)).arg(words)
    };
    let ended = compare(90, 90, "--output-format=json").end().exits(0);
    let json = ended.says("round 10 of 10: A ").says("runs of A stored in kept/").json();
    assert_fits(SCHEMA, &json);
    assert_eq!((&json["in_rounds"], &json["sides"][1]["runs"]), (&json!(true), &json!(10)));
    for metric in ["iops", "mean", "p50", "p99"] {
        assert!(!["faster", "slower"].contains(&verdict(&json, metric)), "{json:#}");
    }
    let kept = listing(&place.work().join("kept"));
    assert_eq!(kept.len(), 2);
    let again = place.iosonde("compare").arg(&kept[0]).arg(&kept[1]).end().exits(0);
    again.prints("(10 runs)");
    let ended = compare(90, 60, "--rounds=9").end().exits(0);
    ended.prints("compared within rounds").prints("differs: target simulation");
    let few = compare(90, 60, "--rounds=8").end().exits(2);
    few.says("--rounds: found 8, expected at least 9").says("of 7 metrics");
}

#[test]
fn a_real_file_against_itself_is_not_different() {
    let place = Place::new();
    place.file("disk", &[7; 4 << 20]);
    let run = "--run=run --path disk --rw randread --ioengine psync --runtime 300ms";
    // A wide tolerance: the load of the machine may differ between rounds.
    let call =
        place.iosonde("compare --rounds 7 --tolerance 30% --metrics iops,p50 --output-format json");
    let json = call.arg(run).arg(run).end().exits(0).json();
    for metric in ["iops", "p50"] {
        assert!(!["faster", "slower"].contains(&verdict(&json, metric)), "{json:#}");
    }
}

#[test]
fn bad_command_lines_are_refused() {
    let place = Place::new();
    let refuse = |words: &[&str], message: &str| {
        let call = words.iter().fold(place.iosonde("compare"), |call, word| call.arg(word));
        call.end().exits(2).silent().says(message);
    };
    refuse(&[], "expected two results, A and B or PROFILE and REPLAY, found 0");
    refuse(&["--run", "run --rw read"], "found 1, expected two");
    refuse(&["--run", "check .", "--run", "run"], "expected a command line such as");
    refuse(&["--run", "run --results x", "--run", "run"], "omit --results");
    let wrong = "run --ioengine sim --path servers=1,read=1ms --rw nonsense";
    refuse(&["--run", wrong, "--run", wrong], "nonsense");
    refuse(&["a", "b", "--gate", "iops"], "--gate: found `iops`, expected METRIC>SHARE%");
    refuse(&["a", "b", "--gate", "max<5%"], "use p99.9");
    refuse(&["a", "b", "--metrics", "p98"], "did you mean");
    refuse(&["a", "b", "--tolerance", "5"], "expected 0.1% to 100%");
    refuse(&["--save-baseline", "x", "--gate", "iops>-5%", "a"], "--gate has no effect");
    refuse(&["--rounds", "3", "a", "b"], "--run");
}

#[test]
fn damaged_and_foreign_files_are_refused() {
    let place = Place::new();
    measure(&place, "good", 1, 90, "");
    let record = fs::read(&records(&place.work().join("good"))[0]).unwrap();
    let mut newer: Value = serde_json::from_slice(&record).unwrap();
    newer["schema"] = json!("iosonde.run/7");
    place.file("newer.json", newer.to_string().as_bytes());
    place.file("half.json", &record[..record.len() / 2]);
    place.file("other.json", br#"{"schema": "iosonde.doctor/1"}"#);
    place.file("base9.json", br#"{"schema": "iosonde.baseline/9", "runs": []}"#);
    place.file("base.json", br#"{"schema": "iosonde.baseline/1", "program": "0"}"#);
    for folder in ["empty", "outside", "missing"] {
        fs::create_dir(place.work().join(folder)).unwrap();
    }
    let manifest = |cell: &str| {
        json!({
            "schema": "iosonde.manifest/1", "program": "0", "verb": "run", "command": [],
            "started_unix_ns": 0, "complete": true, "exit_code": 0, "verdict": "",
            "cells": [cell],
        })
    };
    place.file("outside/manifest.json", manifest("../half.json").to_string().as_bytes());
    place.file("missing/manifest.json", manifest("01-run.json").to_string().as_bytes());
    for (path, message) in [
        ("newer.json", "a document of iosonde.run/7, written by version"),
        ("half.json", "not JSON"),
        ("other.json", "found a document of iosonde.doctor/1, expected iosonde.run/1"),
        ("base9.json", "a document of iosonde.baseline/9"),
        ("base.json", "incomplete record of iosonde.baseline/1"),
        ("empty", "contains no record of a run"),
        ("outside", "lists `../half.json`, which is not in the folder"),
        ("missing", "no such file"),
        ("nowhere", "no such file"),
    ] {
        let words = format!("compare good {path} --accept-altered");
        place.iosonde(&words).end().exits(2).silent().says(message);
    }
}

#[test]
fn names_cannot_speak_to_the_terminal_and_the_future_is_a_caution() {
    let place = Place::new();
    measure(&place, "a", 1, 90, "");
    let record = &records(&place.work().join("a"))[0];
    let mut run: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    run["plan"]["title"] = json!("\u{1b}]0;owned\u{7}evil\u{1b}[2J");
    run["target"]["device"] = json!({"name": "x", "model": "\u{1b}[31mred"});
    run["started_unix_ns"] = json!(u64::MAX / 2);
    place.file("evil.json", run.to_string().as_bytes());
    for words in ["compare a evil.json --allow target", "compare a evil.json"] {
        for form in ["normal", "json"] {
            let ended = place.iosonde(&format!("{words} --output-format {form}")).end();
            let all = format!("{}{}", ended.out, ended.err);
            assert!(!all.contains('\u{1b}') && !all.contains("u001b"), "{all}");
        }
    }
    let ended = place.iosonde("compare a evil.json --allow target").end().exits(0);
    ended.prints("\\x1b]0;owned\\x07evil").prints("1 of 1 runs have a start time in the future");
}
