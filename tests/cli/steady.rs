//! A single run until steady state (`run --steady`): a program in another language recomputes its
//! verdict from the record.

use std::fs;
use std::path::Path;
use std::process::Command;

use iosonde_rig::skip;
use rustix::process::Signal;

use super::formats::{RESULT, assert_fits};
use super::program::Place;

/// A drive that is fast when new; random writes slow it down until garbage collection keeps up.
const DRIVE: &str = "servers=32,read=20us,write=5us,size=64M,flash=8,flash-block=256k,program=20us";

/// The first steady window of a folder, computed in Python; `None` without Python or a program that
/// unpacks records.
fn by_python(words: &[&str], folder: &Path) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/steady_state.py");
    let Ok(ended) = Command::new("python3").arg(script).arg(folder).args(words).output() else {
        skip("python3 cannot be started: the verdicts are not computed by another program");
        return None;
    };
    if Command::new("zstd").arg("--version").output().is_err() {
        skip("zstd is not installed: the verdicts are not computed by another program");
        return None;
    }
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Some(String::from_utf8(ended.stdout).unwrap().trim().into())
}

fn run(options: &str) -> String {
    format!(
        "run --ioengine sim --path {DRIVE} --rw randwrite --iodepth 8 --randseed 3 {options} \
         --output-format json"
    )
}

#[test]
fn a_run_ends_with_its_first_steady_window() {
    let place = Place::new();
    let json = place.iosonde(&run("--steady=100ms")).end().exits(0).json();
    assert_fits(RESULT, &json);
    let steady = &json["cells"][0]["steady"];
    assert_eq!(steady["is_steady"], true);
    let start = steady["window_start"].as_u64().unwrap();
    assert!(start > 0, "the drive is new, and its first window not steady: {steady}");
    assert_eq!(steady["rounds"].as_u64().unwrap(), start + 5, "it ends with that window");
    assert_eq!(steady["verdict"], format!("steady in rounds {} to {}", start + 1, start + 5));
    // The window's figures are below those of the whole run, which was faster at first.
    let whole = json["cells"][0]["figures"]["all"]["total"]["iops"].as_f64();
    let inside = steady["in_window"]["iops"].as_f64().unwrap();
    assert!(whole.is_none_or(|whole| inside < whole), "{inside} {whole:?}");
    let folder = place.kept().pop().unwrap();
    if let Some(found) = by_python(&[], &folder) {
        assert_eq!(found, start.to_string());
    }
    let words = format!("steady in rounds {} to {}, of 100 ms each", start + 1, start + 5);
    place.iosonde("report").arg(&folder).end().exits(0).prints(&words);
    place.iosonde("report --recheck").arg(&folder).end().exits(0);
}

#[test]
fn a_run_that_is_not_steady_ends_with_3() {
    let place = Place::new();
    let words = run("--steady=100ms --runtime 600ms");
    let json = place.iosonde(&words).end().exits(3).json();
    assert_eq!(json["cells"][0]["steady"]["verdict"], "not steady after 6 rounds");
    let folder = place.kept().pop().unwrap();
    if let Some(found) = by_python(&[], &folder) {
        assert_eq!(found, "none");
    }
    let again = place.iosonde("report").arg(&folder).end().exits(0);
    assert!(again.out.starts_with("Result:      not steady after 6 rounds; "), "{}", again.out);
    again.prints("not steady after 6 rounds, of 100 ms each").prints("in the last 5 rounds");
}

#[test]
fn rounds_on_a_file_end_with_an_interrupt_too() {
    let place = Place::new();
    place.hole("data", 16 << 20);
    let words = "run --path data --rw randread --bs 4k --direct 0 --steady=20 --eta-interval 100ms";
    let running = place.iosonde(words).start().until_stderr("IOPS");
    let ended = running.signal(Signal::INT).end().exits(130);
    ended.prints("the run ended early");
}

#[test]
fn what_contradicts_rounds_is_refused() {
    let place = Place::new();
    let base = "run --ioengine sim --path servers=4 --rw randread";
    for (options, says) in [
        ("--steady=1s --runtime 3", "a window has 5 rounds of 1"),
        ("--steady=10ms", "at least 100 ms"),
        ("--steady=1s --number-ios 9", "cannot be used with"),
        ("--steady=1s --until p99+-3%", "cannot be used with"),
        ("--steady=x", "--steady"),
        ("--steady=1s --phase for=1s --phase for=1s,rate=0", "no round is like another"),
    ] {
        place.iosonde(&format!("{base} {options}")).end().exits(2).says(says);
    }
    let plan = place.iosonde(&format!("{base} --steady --dry-run")).end().exits(0);
    plan.prints("rounds of 60.0 s, 25 at most");
}

/// Verdicts of an experiment's rounds, computed from raw counts.
#[test]
fn python_agrees_on_the_rounds_of_an_experiment() {
    let place = Place::new();
    let file = "name = \"w\"\nquestion = \"How slow?\"\n[[stage]]\nname = \"a\"\n\
         order = \"given\"\nrepeats = 1\nseconds = 0.1\nwarm-up-percent = 0\n\
         set = { rw = \"randwrite\", block-size = \"4k\", iodepth = 8 }\n\
         rounds = { max = 12, track = [{}] }\n";
    place.file("w.toml", file.as_bytes());
    for seed in [3, 4] {
        let words = format!("experiment run w.toml {DRIVE} --ioengine sim --seed {seed}");
        let ended = place.iosonde(&words).end();
        let folder = place.kept().pop().unwrap();
        let Some(found) = by_python(&["a", "0"], &folder) else { return };
        match found.parse::<u32>() {
            Ok(start) => {
                let verdict = format!("steady in rounds {} to {}", start + 1, start + 5);
                ended.exits(0).prints(&format!("Steady state: {verdict}"));
            }
            Err(_) => drop(ended.exits(3).prints("Steady state: not steady after 12 rounds")),
        }
    }
}

/// Range and slope of every window of every tracked figure, and the measurement window, computed in
/// Python from raw counts: reports must agree.
#[test]
fn python_agrees_on_every_window_of_the_built_in_tests() {
    let place = Place::new();
    let mut compared = 0;
    for (name, more) in [
        ("pts-iops-core", ""),
        ("pts-throughput", ""),
        ("pts-latency", "--stages pts-latency"),
        ("pts-write-saturation", "--stages pts-write-saturation"),
        ("provision-random", ""),
    ] {
        let words = format!(
            "experiment run {name} {DRIVE} --ioengine sim --seed 5 --seconds 0.1 --rounds 8 {more}"
        );
        let ended = place.iosonde(&words).end();
        assert!([Some(0), Some(3)].contains(&ended.code), "{name}: {}", ended.err);
        let folder = place.kept().pop().unwrap();
        let report = folder.join("report.json");
        let words = ["--windows", report.to_str().unwrap()];
        let Some(found) = by_python(&words, &folder) else { return };
        let windows: u32 = found.parse().unwrap();
        assert!(windows > 0, "{name}: no window was compared");
        compared += windows;
        // An altered report is detected.
        let altered = place.work().join("altered.json");
        let text = fs::read_to_string(&report).unwrap();
        fs::write(&altered, text.replace("\"measurement\"", "\"steady\"")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/steady_state.py");
        let mut python = Command::new("python3");
        let python = python.arg(script).arg(&folder).arg("--windows").arg(&altered);
        if text.contains("\"measurement\"") {
            assert_eq!(python.output().unwrap().status.code(), Some(1), "{name}");
        }
    }
    assert!(compared >= 15, "{compared} windows");
}
