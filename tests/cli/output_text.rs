//! Output streams: stdout has only the result.

use iosonde_rig::skip;

use super::program::Place;

const SIM: &str = "run --ioengine sim --path servers=1,read=1ms --rw randread --runtime 1";

#[test]
fn help_and_version_go_to_stdout() {
    let place = Place::new();
    for words in ["-?", "--help", "check -?", "run -?", "doctor -?", "check --help"] {
        let ended = place.iosonde(words).end().exits(0).prints("Usage: iosonde");
        assert_eq!(ended.err, "", "{words}");
    }
    let version = format!("iosonde {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(place.iosonde("--version").end().exits(0).out, version);
    assert!(place.kept().is_empty());
}

#[test]
fn hyphen_and_underscore_are_the_same() {
    let place = Place::new();
    for words in ["--ramp_time=0 --output_format json", "--ramp-time=0 --output-format json"] {
        let document = place.iosonde(&format!("{SIM} {words}")).end().exits(0).json();
        assert_eq!(document["verb"], "run");
    }
    place.iosonde(&format!("{SIM} --eta_interval 0")).end().exits(0);
}

#[test]
fn the_next_step_is_against_the_warning_that_lowers_the_confidence() {
    let place = Place::new();
    let run = |device: &str| {
        let words = format!("run --ioengine sim --path {device} --rw randread --iodepth 8");
        place.iosonde(&format!("{words} --runtime 6 --eta-interval 0")).end().exits(0).out
    };
    let slowed = run("servers=8,read=exp:300us,slow-every=1100ms,slow-for=100ms,slow-by=5");
    assert!(slowed.contains("\nConfidence:  medium: stalls\n"), "{slowed}");
    assert!(slowed.contains("\nNext:        Look for what happened"), "{slowed}");
    assert!(slowed.contains("(iosonde report --explain stall)"), "{slowed}");
    let even = run("servers=8,read=exp:300us");
    assert!(even.contains("\nNext:        Repeat it"), "{even}");
}

#[test]
fn a_known_rate_is_reported_for_every_progress_interval() {
    // T1: progress reports do not affect the measurement.
    let place = Place::new();
    for interval in ["0", "0.1", "1", "2", "7"] {
        let words = format!("{SIM} --output-format json --eta-interval {interval}");
        let document = place.iosonde(&words).end().exits(0).json();
        let iops = document["summary"]["read"]["iops"].as_f64().unwrap();
        assert!((iops / 1000.0 - 1.0).abs() < 0.01, "every {interval} s: {iops}");
    }
}

#[test]
fn the_measured_window_is_the_one_asked_for_on_real_time() {
    // T1 on real clocks: progress reports do not lengthen the window.
    let place = Place::new();
    for interval in ["0", "0.1", "1", "7"] {
        let words = format!(
            "run --ioengine null --rw randread --runtime 0.5 --output-format json \
             --eta-interval {interval}"
        );
        let document = place.iosonde(&words).end().exits(0).json();
        let measured_ns = document["cells"][0]["figures"]["window_ns"].as_u64().unwrap();
        assert!(measured_ns.abs_diff(500_000_000) < 5_000_000, "every {interval} s: {measured_ns}");
    }
}

#[test]
fn counted_operations_are_all_counted() {
    let place = Place::new();
    for (engine, jobs) in [("null", 1), ("null", 4), ("sim", 2)] {
        let words = format!(
            "run --ioengine {engine} --numjobs {jobs} --rw randread --number-ios 100 \
             --output-format json"
        );
        let document = place.iosonde(&words).end().exits(0).json();
        assert_eq!(document["summary"]["read"]["ops"], 100 * jobs, "{engine}");
    }
}

#[test]
fn progress_goes_to_stderr_in_plain_lines() {
    let place = Place::new();
    let words = "run --ioengine null --rw randread --runtime 1";
    let ended = place.iosonde(&format!("{words} --eta-interval 0.1")).end().exits(0);
    assert!(ended.err.matches(" left\n").count() >= 3, "{ended}");
    assert!(!ended.err.contains('\x1b') && !ended.err.contains('\r'), "{:?}", ended.err);
    ended.lacks(" left\n");
    let ended = place.iosonde(&format!("{words} --eta-interval 0")).end().exits(0);
    assert!(!ended.err.contains(" left"), "{ended}");
}

#[test]
fn expectations_decide_the_exit_code() {
    let place = Place::new();
    for (rule, code, judged) in [
        ("iops>=990", 0, "met"),
        ("p99<=2ms", 0, "met"),
        ("p99<=500us", 3, "missed"),
        ("p99.99<=2ms", 7, "unknown"),
    ] {
        let words = format!("{SIM} --output-format json");
        let ended = place.iosonde(&words).arg("--expect").arg(rule).end().exits(code);
        let document = ended.json();
        let text = document["expectations"].to_string();
        assert!(text.contains(judged), "{rule}: {text}");
    }
    // A missed expectation outweighs an unknown one.
    let both = place.iosonde(SIM).arg("--expect=p99<=1us").arg("--expect=p99.99<=2ms");
    both.end().exits(3);
}

#[test]
fn the_document_has_its_keys() {
    let place = Place::new();
    let document = place.iosonde(&format!("{SIM} --output-format json")).end().exits(0).json();
    let keys: Vec<&String> = document.as_object().unwrap().keys().collect();
    let expected = [
        "cells",
        "complete",
        "exit_code",
        "expectations",
        "host",
        "program",
        "schema",
        "summary",
        "target",
        "verb",
        "verdict",
    ];
    assert_eq!(keys, expected);
    assert_eq!(document["schema"], "iosonde.result/2");
    assert_eq!(document["complete"], true);
    let cell = document["cells"][0].as_object().unwrap();
    for key in
        ["backend", "consistency", "errors", "figures", "findings", "plan", "status", "summary"]
    {
        assert!(cell.contains_key(key), "{key}");
    }
    assert_eq!(document["cells"][0]["backend"]["engine"], "sim");
}

#[test]
fn a_dry_run_makes_nothing() {
    let place = Place::new();
    let words = "run --path . --size 64m --rw randwrite --dry-run";
    place.iosonde(words).end().exits(0).prints("plan ").prints("writes");
    let ended = place.iosonde(&format!("{words} --output-format json")).end().exits(0);
    let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["plan"]["jobs"][0]["block_bytes"], 4096);
    let check = place.iosonde("check . 256M --only cache --dry-run").end().exits(0);
    check.prints("Layout").prints("Cache");
    assert!(super::program::listing(&place.work()).is_empty());
    assert!(place.kept().is_empty());
}

#[test]
fn a_reader_that_leaves_early_changes_nothing() {
    let place = Place::new();
    // The reading end is closed before the first byte is written.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = place.iosonde(SIM).stdout_to(writer.into()).into_command();
    let output = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(!err.contains("panicked"), "{err}");
    assert_eq!(place.kept().len(), 1, "kept all the same");
    assert!(super::program::listing(&place.work()).is_empty());
}

#[test]
fn a_full_stdout_is_said_and_is_a_failure() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        return skip("no /dev/full");
    };
    let place = Place::new();
    let mut command = place.iosonde(SIM).stdout_to(full.into()).into_command();
    let output = command.stderr(std::process::Stdio::piped()).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("stdout cannot be written"), "{err}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn on_a_terminal_the_progress_is_one_changing_line() {
    let place = Place::new();
    let command = format!(
        "{} run --ioengine null --rw randread --runtime 1 --eta-interval 1",
        iosonde_fixtures::program!()
    );
    let script = std::process::Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("HOME", place.home())
        .current_dir(place.work())
        .stdin(std::process::Stdio::null())
        .output();
    let Ok(output) = script else { return skip("no script(1)") };
    let all = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{all}");
    assert!(all.contains("\r\x1b[2K"), "{all:?}");
}

#[test]
fn doctor_says_what_can_be_measured_here() {
    let place = Place::new();
    place.iosonde("doctor").end().exits(0).prints("io_uring");
    let ended = place.iosonde("doctor --output-format json").end().exits(0);
    let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert!(document.is_object());
    assert!(super::program::listing(&place.work()).is_empty());
}
