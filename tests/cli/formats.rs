//! Every output format and every result file of the built binary, compared with fio's own output if
//! fio is installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use iosonde_rig::skip;
use serde_json::Value;

use super::program::{Place, listing};

const NULL: &str = "run --ioengine null --rw randrw --iodepth 4 --runtime 1 --eta-interval 0";
const SIM: &str = "run --ioengine sim --path servers=1,read=1ms --rw randread --runtime 3";

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Whether a program is installed; reports the skip if not.
fn has(program: &str, probe: &str) -> bool {
    let there = Command::new(program).arg(probe).output().is_ok_and(|out| out.status.success());
    if !there {
        skip(format!("{program} is not installed"));
    }
    there
}

/// Asserts that a document matches a published schema and has no field that the schema lacks.
/// Objects without `properties` in the schema are open.
#[track_caller]
pub(super) fn assert_fits(schema: &str, document: &Value) {
    fn close(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                fields.values_mut().for_each(close);
                let closed = fields.contains_key("properties") && fields.contains_key("type");
                if closed && !fields.contains_key("additionalProperties") {
                    fields.insert("additionalProperties".into(), false.into());
                }
            }
            Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }
    let mut schema = parsed(schema);
    jsonschema::meta::validate(&schema).unwrap();
    close(&mut schema);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> = validator
        .iter_errors(document)
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{}\n{document:#}", faults.join("\n"));
}

pub(super) const RESULT: &str = include_str!("../../schema/iosonde-result-2.schema.json");
const SERIES: &str = include_str!("../../schema/iosonde-series-1.schema.json");
const PROGRESS: &str = include_str!("../../schema/iosonde-progress-1.schema.json");

#[test]
fn results_fit_their_schema() {
    let place = Place::new();
    let expect = "--expect read.p99<=1ns --expect iops>=1";
    for (words, exit) in [
        (format!("{SIM} --output-format json {expect}"), 3),
        (format!("{SIM} --number-ios 5 --output-format json").replace("--runtime 3", ""), 0),
        (format!("{NULL} --numjobs 2 --output-format json"), 0),
        ("run --ioengine sim --path servers=1,read=1ms,error-every=100 --rw randread --runtime 1 \
          --output-format json"
            .to_owned(), 1),
        ("run --rw nonsense --output-format json".to_owned(), 2),
        ("check . 1k --output-format json".to_owned(), 2),
    ] {
        let ended = place.iosonde(&words).end();
        assert_eq!(ended.code, Some(exit), "{words}: {ended}");
        assert_fits(RESULT, &ended.json());
    }
    // A whole check, if the directory is acceptable to it.
    let ended =
        place.iosonde("check . 256M --seconds 1 --only database --output-format json").end();
    assert_fits(RESULT, &ended.json());
}

#[test]
fn text_is_another_word_for_normal() {
    let place = Place::new();
    for word in ["normal", "text"] {
        let words = format!("{SIM} --output-format {word}");
        place.iosonde(&words).end().exits(0).prints("  read: IOPS=1,0").prints("  ios: total=");
    }
}

#[test]
fn each_form_is_one_document_on_stdout_even_in_failure() {
    let place = Place::new();
    for form in ["fio-json", "json+"] {
        let ended =
            place.iosonde(&format!("{SIM} --numjobs 2 --output-format {form}")).end().exits(0);
        let document = parsed(&ended.out);
        assert_eq!(document["jobs"].as_array().unwrap().len(), 2);
        assert_eq!(document["iosonde"]["exit_code"], 0);
        let read = &document["jobs"][0]["read"];
        assert_eq!(read["clat_ns"]["bins"].is_object(), form == "json+", "{form}");
        assert_eq!(read["io_bytes"], read["total_ios"].as_u64().unwrap() * 4096);
        // A usage error, in both spellings of the option.
        for words in ["run --rw randread --nonsense --output-format", "run --output_format"] {
            let ended = place.iosonde(words).arg(form).end().exits(2);
            let document = parsed(&ended.out);
            assert_eq!(document["jobs"].as_array().unwrap().len(), 0);
            assert!(document["iosonde"]["error"]["message"].is_string(), "{ended}");
        }
    }
    place.iosonde(&format!("{SIM} --nonsense --output-format=terse")).end().exits(2).silent();
    for form in ["fio-json", "json+", "terse"] {
        let words = format!("{SIM} --dry-run --output-format {form}");
        place.iosonde(&words).end().exits(2).says("--dry-run has no result");
        let words = format!("doctor --output-format {form}");
        place.iosonde(&words).end().exits(2).says("doctor has no result");
    }
}

#[test]
fn a_terse_line_has_as_many_fields_as_that_of_an_installed_fio() {
    if !has("fio", "--version") {
        return;
    }
    let place = Place::new();
    let fio = Command::new("fio")
        .args(["--name=a", "--ioengine=null", "--size=1m", "--rw=randrw", "--runtime=1"])
        .args(["--time_based", "--output-format=terse", "--terse-version=3"])
        .current_dir(place.work())
        .output()
        .unwrap();
    let theirs = String::from_utf8(fio.stdout).unwrap();
    let ours = place.iosonde(&format!("{NULL} --output-format terse")).end().exits(0).out;
    let theirs: Vec<&str> = theirs.trim_end().split(';').collect();
    let ours: Vec<&str> = ours.trim_end().split(';').collect();
    assert_eq!(ours.len(), theirs.len(), "{ours:?}\n{theirs:?}");
    // The same kind of each field: a percentage, a percentile, a name or a number.
    let shape =
        |field: &str| (field.ends_with('%'), field.contains("%="), field.parse::<f64>().is_ok());
    for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(shape(ours), shape(theirs), "field {}: {ours} and {theirs}", index + 1);
    }
    // Fields that are equal in any two runs: version, group, percent of all bandwidth.
    assert_eq!((ours[0], ours[3], ours[4]), (theirs[0], theirs[3], theirs[4]));
}

#[test]
fn fio_json_has_every_key_of_an_installed_fio() {
    fn missing(ours: &Value, theirs: &Value, path: &str, out: &mut Vec<String>) {
        let (Value::Object(ours), Value::Object(theirs)) = (ours, theirs) else { return };
        for (key, value) in theirs {
            let path = format!("{path}/{key}");
            match ours.get(key) {
                _ if ["job options", "percentile", "bins", "global options"].contains(&&**key) => {}
                Some(our) => missing(our, value, &path, out),
                None => out.push(path),
            }
        }
    }
    if !has("fio", "--version") {
        return;
    }
    let place = Place::new();
    let fio = Command::new("fio")
        .args(["--name=a", "--ioengine=null", "--size=1m", "--rw=randrw", "--runtime=1"])
        .args(["--time_based", "--output-format=json+"])
        .current_dir(place.work())
        .output()
        .unwrap();
    let theirs = parsed(&String::from_utf8(fio.stdout).unwrap());
    let ours = parsed(&place.iosonde(&format!("{NULL} --output-format json+")).end().exits(0).out);
    let mut out = Vec::new();
    missing(&ours, &theirs, "", &mut out);
    missing(&ours["jobs"][0], &theirs["jobs"][0], "/jobs", &mut out);
    // The counters of a device are present only if there is a device.
    out.retain(|path| path != "/disk_util");
    assert!(out.is_empty(), "{out:?}");
}

#[test]
fn progress_can_be_json_lines_or_nothing() {
    let place = Place::new();
    let words = NULL.replace("--eta-interval 0", "--eta-interval 0.2");
    let ended = place.iosonde(&format!("{words} --progress json")).end().exits(0);
    let lines: Vec<Value> =
        ended.err.lines().filter(|line| line.starts_with('{')).map(parsed).collect();
    assert!(lines.len() >= 3, "{ended}");
    let mut before = (0, 0);
    for line in &lines {
        assert_fits(PROGRESS, line);
        let now = (line["elapsed_ns"].as_u64().unwrap(), line["ops"].as_u64().unwrap());
        assert!(now.0 > before.0 && now.1 >= before.1, "{ended}");
        before = now;
    }
    let ended = place.iosonde(&format!("{words} --progress none")).end().exits(0);
    assert!(!ended.err.contains(" left") && !ended.err.contains('{'), "{ended}");
    place.iosonde(&format!("{NULL} --progress json")).end().exits(2).says("--eta-interval");
}

#[test]
fn a_series_has_a_row_per_interval_and_direction() {
    let place = Place::new();
    place.iosonde(&format!("{SIM} --series out.csv --log-avg-msec 500")).end().exits(0);
    let text = fs::read_to_string(place.work().join("out.csv")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + 6, "3 s in steps of 500 ms: {text}");
    for row in &rows[1..] {
        let iops: f64 = row[6].parse().unwrap();
        assert!((iops / 1000.0 - 1.0).abs() < 0.01, "one server, 1 ms: {text}");
        assert_eq!(row[8], "1000000", "{text}");
    }
    place.iosonde(&format!("{SIM} --series out.jsonl")).end().exits(0);
    let text = fs::read_to_string(place.work().join("out.jsonl")).unwrap();
    let rows: Vec<Value> = text.lines().map(parsed).collect();
    rows.iter().for_each(|row| assert_fits(SERIES, row));
    assert_eq!(rows.iter().filter(|row| row["direction"] == "read").count(), 3);
    // A file of the same kind is replaced; no temporary file remains.
    place.iosonde(&format!("{SIM} --series out.csv")).end().exits(0);
    assert_eq!(listing(&place.work()).len(), 2);
}

#[test]
fn fio_s_logs_are_named_and_filled_as_fio_does() {
    let place = Place::new();
    let logs = "--write_bw_log=x --write_iops_log x --write-lat-log=x --log_avg_msec=1000";
    place.iosonde(&format!("{SIM} --numjobs 2 {logs}")).end().exits(0);
    let names: Vec<String> = listing(&place.work())
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    let expected =
        ["x_bw.1.log", "x_bw.2.log", "x_iops.1.log", "x_iops.2.log", "x_lat.1.log", "x_lat.2.log"];
    assert_eq!(names, expected);
    let log = fs::read_to_string(place.work().join("x_iops.2.log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3);
    // Two jobs share one server of 1 ms.
    for (index, line) in lines.iter().enumerate() {
        let fields: Vec<u64> = line.split(", ").map(|field| field.parse().unwrap()).collect();
        assert_eq!((fields[0], &fields[2..]), ((index as u64 + 1) * 1000, &[0, 0, 0][..]));
        assert!(fields[1].abs_diff(500) <= 5, "{log}");
    }
    if has("fio2gnuplot", "--help") {
        let plotted = Command::new("fio2gnuplot")
            .args(["-i", "-p", "x_iops.*.log"])
            .current_dir(place.work())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&plotted.stdout).into_owned();
        assert!(plotted.status.success() && printed.contains("2 files"), "{printed}");
    }
}

#[test]
fn a_histogram_log_is_read_by_its_library() {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    let place = Place::new();
    place.iosonde(&format!("{SIM} --hlog out.hlog")).end().exits(0);
    let text = fs::read(place.work().join("out.hlog")).unwrap();
    let lines = IntervalLogIterator::new(&text)
        .filter(|entry| matches!(entry.as_ref().unwrap(), LogEntry::Interval(_)))
        .count();
    assert_eq!(lines, 3);
}

#[test]
fn the_live_file_is_marked_when_the_command_has_ended() {
    let place = Place::new();
    let words = format!("{NULL} --runtime 2 --eta-interval 0.2 --prometheus out.prom");
    let words = words.replacen("--runtime 1 --eta-interval 0 ", "", 1);
    let file = place.work().join("out.prom");
    let running = place.iosonde(&words).start();
    let seen = (0..6000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let text = fs::read_to_string(&file).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'), "half a file: {text}");
        text.contains("iosonde_running{verb=\"run\"} 1\n") && text.contains("iosonde_live_iops")
    });
    assert!(seen, "no live figures");
    running.end().exits(0);
    let text = fs::read_to_string(&file).unwrap();
    for line in ["iosonde_running{verb=\"run\"} 0", "iosonde_complete{verb=\"run\"} 1"] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(listing(&place.work()).len(), 1);
}

#[test]
fn a_check_prints_its_runs_in_the_same_formats() {
    let place = Place::new();
    let words = "check . 256M --seconds 1 --only database,cache --eta-interval 0.3";
    let files = "--series out.csv --hlog out.hlog --prometheus out.prom --progress json";
    let ended = place.iosonde(&format!("{words} {files} --output-format fio-json")).end();
    let document = parsed(&ended.out);
    assert_eq!(document["iosonde"]["exit_code"].as_i64(), ended.code.map(i64::from), "{ended}");
    if document["iosonde"]["error"].is_object() {
        skip(format!("a check refuses this directory: {}", document["iosonde"]["error"]));
        return;
    }
    let names: std::collections::BTreeSet<&str> = document["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|job| job["jobname"].as_str())
        .collect();
    assert!(!names.is_empty(), "{ended}");
    let csv = fs::read_to_string(place.work().join("out.csv")).unwrap();
    assert!(csv.contains("\ndatabase,") || csv.contains("\ncache,"), "{csv}");
    let lines = ended.err.lines().filter(|line| line.starts_with('{')).map(parsed);
    lines.for_each(|line| assert_fits(PROGRESS, &line));
    let text = fs::read_to_string(place.work().join("out.prom")).unwrap();
    assert!(text.contains("iosonde_exit_code{verb=\"check\"}"), "{text}");
    // If the machine stalls, a direction may have no operation entirely within the window.
    let log = fs::read_to_string(place.work().join("out.hlog")).unwrap();
    assert!(["database/read", "cache/read"].iter().any(|tag| log.contains(tag)), "{log}");
    place.iosonde("check --dry-run --output-format terse").end().exits(2).says("--dry-run");
}

#[test]
fn nothing_foreign_is_written_over() {
    let place = Place::new();
    place.file("image.csv", &[7; 8192]);
    place.hole("hole.csv", 8192);
    std::os::unix::fs::symlink(place.work().join("target"), place.work().join("link.csv")).unwrap();
    for (words, reason) in [
        ("--series image.csv", "contains something else"),
        ("--series hole.csv", "contains something else"),
        ("--series link.csv", "a symbolic link"),
        ("--hlog .", "a directory"),
        ("--prometheus /dev/null", "a character device"),
        ("--series missing/out.csv", "No such file"),
        ("--series out.txt", ".jsonl"),
        ("--write-bw-log x", "--log-avg-msec"),
        ("--log-avg-msec 1000", "no effect"),
        ("--series out.csv --log-avg-msec 255", "a multiple of 10 "),
        ("--series out.csv --log-avg-msec 0", "a multiple of 10 "),
        ("--series same.csv --hlog same.csv", "is given twice"),
    ] {
        place.iosonde(&format!("{NULL} {words}")).end().exits(2).says(reason).silent();
    }
    assert_eq!(fs::read(place.work().join("image.csv")).unwrap(), [7; 8192]);
    assert!(!Path::new(&place.work().join("target")).exists());
    assert_eq!(listing(&place.work()).len(), 3);
}

#[test]
fn a_place_that_fails_at_the_end_is_a_failure() {
    let place = Place::new();
    let sub = place.work().join("sub");
    fs::create_dir(&sub).unwrap();
    let words = NULL.replace("--runtime 1 --eta-interval 0", "--runtime 4 --eta-interval 0.1");
    let call = place.iosonde(&format!("{words} --output-format json --series sub/out.csv"));
    let running = call.start().until_stderr("IOPS");
    fs::remove_dir_all(&sub).unwrap();
    let ended = running.end().exits(1).says("sub/out.csv` cannot be written");
    assert_eq!(ended.json()["complete"], true);
}
