//! `report --explain` explains every word that an output can contain: the words of the schemas, the
//! codes in the source, the exit codes of `docs/scripts.md`, the words of stored screens.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use iosonde_report::explain::explain;
use serde_json::Value;

/// Fields whose values come from the user or the kernel: directions, verbs, calls.
const NOT_OURS: [&str; 9] =
    ["direction", "op", "way", "verb", "call", "subject", "better", "known_by", "differences"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, kind: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, kind, found);
        } else if path.extension().is_some_and(|extension| extension == kind) {
            found.push(path);
        }
    }
}

/// The words listed in `value`, the part of a schema under `key`.
fn listed(value: &Value, key: &str, found: &mut BTreeSet<String>) {
    if NOT_OURS.contains(&key) {
        return;
    }
    match value {
        Value::Object(fields) => {
            let words = fields.get("enum").and_then(Value::as_array).into_iter().flatten();
            found.extend(words.filter_map(Value::as_str).map(str::to_owned));
            fields.iter().for_each(|(key, value)| listed(value, key, found));
        }
        Value::Array(all) => all.iter().for_each(|value| listed(value, key, found)),
        _ => {}
    }
}

/// Fails if a word is not explained, or if one of the `samples` is not among the words.
#[track_caller]
fn assert_explained(words: &BTreeSet<String>, samples: &[&str]) {
    let absent = samples.iter().find(|sample| !words.contains(**sample));
    assert_eq!(absent, None, "{words:?}");
    let unknown: Vec<&String> = words.iter().filter(|word| explain(word).is_err()).collect();
    assert_eq!(unknown, Vec::<&String>::new(), "words that `report --explain` does not know");
}

#[test]
fn every_word_that_a_schema_lists_is_explained() {
    let mut schemas = Vec::new();
    files(&root().join("schema"), "json", &mut schemas);
    let mut words = BTreeSet::new();
    for path in &schemas {
        let schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        listed(&schema, "", &mut words);
    }
    let samples = ["limited_by", "proven", "fault", "high", "F1", "too_few", "torn", "skew"];
    assert_explained(&words, &samples);
}

#[test]
fn every_code_in_the_source_is_explained() {
    let mut sources = Vec::new();
    for folder in ["crates/iosonde-analysis/src", "crates/iosonde-report/src"] {
        files(&root().join(folder), "rs", &mut sources);
    }
    let calls = [".mind(", "Detector {\n    code:", "Identity::new(", " entry(", " warn("];
    let mut codes = BTreeSet::new();
    for path in &sources {
        let source = fs::read_to_string(path).unwrap();
        for call in calls {
            let arguments = source.split(call).skip(1).map(str::trim_start);
            let here = arguments.filter_map(|rest| rest.strip_prefix('"')?.split('"').next());
            codes.extend(here.map(str::to_owned));
        }
    }
    assert_explained(&codes, &["slc_exhausted", "little", "cgroup_limit", "parts", "slow_host"]);
}

#[test]
fn every_exit_code_is_explained() {
    let page = fs::read_to_string(root().join("docs/scripts.md")).unwrap();
    let cells = page.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let codes: BTreeSet<String> = cells
        .flat_map(|cell| cell.split([',', ' ', '`']))
        .filter(|word| !word.is_empty() && word.chars().all(|each| each.is_ascii_digit()))
        .map(str::to_owned)
        .collect();
    assert_explained(&codes, &["0", "3", "4", "7", "125", "130"]);
}

#[test]
fn every_mark_and_every_heading_of_a_kept_screen_is_explained() {
    let text =
        |name: &str| fs::read_to_string(root().join("tests/fixtures/screens").join(name)).unwrap();
    let mut words = BTreeSet::new();
    // Headings are separated by two or more spaces; the first column holds names.
    let heads = |text: &str, first: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(first)).unwrap();
        line.trim().split("  ").map(|head| head.trim().to_owned()).skip(1).collect()
    };
    words.extend(heads(&text("kept-check-200.txt"), "Test  "));
    let selftest = text("selftest-120.txt");
    words.extend(heads(&selftest, "fault  "));
    let rows = selftest.lines().skip_while(|line| !line.trim_start().starts_with("fault  "));
    let rows = rows.skip(1).take_while(|line| !line.trim().is_empty());
    words.extend(rows.filter_map(|row| row.split_whitespace().next().map(str::to_owned)));
    words.extend(["*", "!", "~", "n/a", "+D"].map(str::to_owned));
    words.retain(|word| !word.is_empty() && word != "expected");
    assert_explained(&words, &["QD", "R/W %", "injected", "drop", "~"]);
}

#[test]
fn every_confidence_of_a_kept_screen_is_explained() {
    let mut screens = Vec::new();
    files(&root().join("tests/fixtures/screens"), "txt", &mut screens);
    let mut words = BTreeSet::new();
    for path in &screens {
        let screen = fs::read_to_string(path).unwrap();
        // A campaign states completeness instead.
        if screen.lines().any(|line| line.starts_with("Complete:")) {
            continue;
        }
        let line = screen.lines().find_map(|line| line.strip_prefix("Confidence:")).unwrap();
        words.extend(line.split([':', ' ']).find(|word| !word.is_empty()).map(str::to_owned));
    }
    assert_explained(&words, &["high"]);
}
