//! Rounds until a steady state, preconditioning, and the built-in experiments that use them: the
//! verdict computed again by another program, volumes counted by the kernel, interruption.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::program::{Place, listing};

const SIM: &str = "servers=8,read=exp:1ms,write=exp:2ms,size=64M";

const ROUNDS: &str = r#"
name = "rounds"
question = "Is it steady?"
[[stage]]
name = "mix"
order = "given"
repeats = 1
seconds = 0.3
warm-up-percent = 0
set = { rw = "randrw", block-size = "4k", iodepth = 4 }
precondition = { passes = 2, order = "random", block-size = "64k" }
[stage.rounds]
max = 8
range-percent = RANGE
track = [
    { cell = { read-percent = 0 } },
    { metric = "mean", cell = { read-percent = 100 } },
]
[[stage.axis]]
name = "read-percent"
values = [100, 50, 0]
"#;

fn file(place: &Place, range: &str) {
    place.file("rounds.toml", ROUNDS.replace("RANGE", range).as_bytes());
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn only(place: &Place) -> PathBuf {
    let kept = place.kept();
    assert_eq!(kept.len(), 1, "{kept:?}");
    kept[0].clone()
}

fn trials(folder: &Path) -> usize {
    listing(&folder.join("trials")).len()
}

/// The rule of SNIA PTS 2.0.2 in awk, over the table of runs: for each window of five rounds the
/// range and the rise of the least-squares line, for a column of one cell.
const AWK: &str = r#"
BEGIN { FS = "," }
NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
$at["cell_name"] == cell { y[$at["repeat_count"] + 0] = $at[column] + 0; n++ }
END {
    for (s = 0; s + 5 <= n; s++) {
        lo = hi = y[s]; sum = sx = sxy = sxx = 0
        for (i = 0; i < 5; i++) {
            v = y[s + i]; sum += v; sx += i; sxy += i * v; sxx += i * i
            if (v < lo) lo = v
            if (v > hi) hi = v
        }
        mean = sum / 5
        slope = (5 * sxy - sx * sum) / (5 * sxx - sx * sx)
        if (slope < 0) slope = -slope
        ok = (hi - lo <= range * mean) && (slope * 4 <= 0.10 * mean)
        printf "%d %s\n", s, ok ? "steady" : "not"
    }
}
"#;

/// The first window, counted from 0, that awk finds steady for both tracked figures.
fn by_awk(folder: &Path, range: f64) -> Option<u64> {
    let table = folder.join("tables/trials.csv");
    let of = |cell: &str, column: &str| -> Vec<bool> {
        let ended = Command::new("awk")
            .args(["-v", &format!("cell={cell}"), "-v", &format!("column={column}")])
            .args(["-v", &format!("range={range}"), AWK])
            .arg(&table)
            .output()
            .unwrap();
        let text = String::from_utf8(ended.stdout).unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        text.lines().map(|line| line.ends_with(" steady")).collect()
    };
    let (writes, reads) = (of("0 %", "iops_per_s"), of("100 %", "latency_mean_ns"));
    assert_eq!(writes.len(), reads.len());
    assert!(!writes.is_empty(), "awk saw no window");
    let both = |(a, b): (&bool, &bool)| *a && *b;
    writes.iter().zip(&reads).position(both).map(|start| start as u64)
}

/// The row of `points.csv` has so many runs.
fn runs_of_points(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("tables/points.csv")).unwrap();
    let at = text.lines().next().unwrap().split(',').position(|name| name == "runs_count").unwrap();
    text.lines().skip(1).map(|line| line.split(',').nth(at).unwrap().to_owned()).collect()
}

#[test]
fn rounds_end_with_the_first_steady_window_and_it_alone_gives_the_figures() {
    let place = Place::new();
    file(&place, "20");
    let words = format!("experiment run rounds.toml {SIM} --ioengine sim --seed 7");
    let ended = place.iosonde(&words).end().exits(0);
    ended.prints("Steady state: steady in rounds 1 to 5").prints("drift per round");
    let folder = only(&place);
    // Five rounds of three cells, and no more.
    assert_eq!(trials(&folder), 15);
    assert_eq!(runs_of_points(&folder), ["5", "5", "5"]);
    assert_eq!(by_awk(&folder, 0.20), Some(0));
    let stage = json_of(&folder.join("stage-mix.json"));
    let prepared = stage["prepared"].as_array().unwrap();
    assert_eq!(prepared.len(), 1);
    assert_eq!(prepared[0]["passes"], 2);
    assert_eq!(prepared[0]["range_bytes"], 64 << 20);
    assert_eq!(prepared[0]["written_bytes"], 2u64 * (64 << 20));
    for name in ["mix-convergence.svg", "mix-window.svg"] {
        assert!(folder.join("figures").join(name).is_file(), "{name}");
    }
    let report = fs::read_to_string(folder.join("report.txt")).unwrap();
    assert!(report.contains("Convergence: the tracked figures"), "{report}");
    place.iosonde("report --recheck").arg(&folder).end().exits(0);
}

#[test]
fn what_is_not_steady_ends_with_3_and_says_so_and_the_record_says_the_same() {
    let place = Place::new();
    file(&place, "0.001");
    let words = format!("experiment run rounds.toml {SIM} --ioengine sim --seed 7");
    let ended = place.iosonde(&words).end().exits(3);
    ended.prints("not steady after 8 rounds").prints("do not describe a steady state");
    let folder = only(&place);
    assert_eq!(trials(&folder), 24);
    assert_eq!(runs_of_points(&folder), ["5", "5", "5"], "the last five rounds");
    assert_eq!(by_awk(&folder, 0.000_01), None);
    assert_eq!(json_of(&folder.join("manifest.json"))["complete"], true);
    // T7: computed again from the record, it is the same.
    place.iosonde("report --recheck").arg(&folder).end().exits(0);
    place.iosonde("report").arg(&folder).end().exits(0).prints("not steady after 8 rounds");
}

#[test]
fn rounds_are_gone_on_with_where_they_stopped() {
    let place = Place::new();
    file(&place, "0.001");
    place.hole("disk", 64 << 20);
    let words = "experiment run rounds.toml disk --eta-interval 100ms --buffered";
    let so_far = || place.kept().first().map_or(0, |folder| trials(folder));
    let running = place.iosonde(words).start();
    let running = running.until("seven runs", || so_far() >= 7);
    running.signal(Signal::KILL).end();
    let folder = only(&place);
    let before = trials(&folder);
    assert!((7..24).contains(&before), "{before}");
    let prepared = json_of(&folder.join("stage-mix.json"))["prepared"].clone();
    let resume = format!("experiment resume {} --eta-interval 0", folder.display());
    let resumed = place.iosonde(&resume).end().exits(3);
    resumed.prints("not steady after 8 rounds").lacks("partial");
    let folder = only(&place);
    assert_eq!(trials(&folder), 24, "every cell once in each round");
    // A file of a name keeps its state: it is not preconditioned again, nor written anew.
    assert_eq!(json_of(&folder.join("stage-mix.json"))["prepared"], prepared);
    assert_eq!(by_awk(&folder, 0.000_01), None);
}

#[test]
fn a_test_file_that_is_made_again_is_preconditioned_again() {
    let place = Place::new();
    file(&place, "0.001");
    let words = "experiment run rounds.toml . --size 256M --eta-interval 100ms";
    let so_far = || place.kept().first().map_or(0, |folder| trials(folder));
    let running = place.iosonde(words).start();
    let running = running.until("seven runs", || so_far() >= 7);
    running.signal(Signal::INT).end().exits(130);
    let folder = only(&place);
    let before = trials(&folder) as u64;
    let resume = format!("experiment resume {} --eta-interval 0", folder.display());
    let resumed = place.iosonde(&resume).end().exits(3);
    resumed.prints("The target lost its state");
    let stage = json_of(&only(&place).join("stage-mix.json"));
    let prepared = stage["prepared"].as_array().unwrap();
    assert_eq!(prepared.len(), 2);
    assert_eq!(prepared[1]["first_round"], before.div_ceil(3));
}

#[test]
fn preconditioning_counts_in_the_volume_and_needs_what_a_write_needs() {
    let place = Place::new();
    file(&place, "20");
    let dry = "experiment run rounds.toml . --size 256M --dry-run";
    let dry_run = place.iosonde(dry).end().exits(0);
    let dry_run = dry_run.prints("preconditioning writes 512 MiB").prints("5 to 8 rounds");
    dry_run.prints("written  0 B to prepare the test file; 512 MiB by preconditioning");
    // The region itself fits below the limit, its two passes do not.
    let limited = "experiment run rounds.toml . --size 256M --max-written 300M";
    place.iosonde(limited).end().exits(2).says("--max-written: found 300 MiB");
    assert!(place.kept().is_empty());
    // Foreign content: the stage is skipped, and the file stays as it is.
    let content = vec![7u8; 64 << 20];
    place.file("photos", &content);
    let ended = place.iosonde("experiment run rounds.toml photos --buffered").end().exits(7);
    ended.prints("skipped: its preconditioning writes, and the target is only read");
    assert!(fs::read(place.work().join("photos")).unwrap() == content);
}

#[test]
fn rounds_that_make_no_sense_are_refused_before_anything_is_touched() {
    let place = Place::new();
    file(&place, "20");
    let run = "experiment run rounds.toml . --size 256M";
    place.iosonde(&format!("{run} --repeats 3")).end().exits(2).says("give --rounds");
    place.iosonde("experiment run queue-depth . --rounds 9").end().exits(2).says("no effect");
    for (old, new, says) in [
        ("metric = \"mean\"", "metric = \"men\"", "did you mean `mean`"),
        ("order = \"given\"\n", "", "order = \"given\""),
        ("read-percent = 0 }", "read-percent = 1 }", "no cell has read-percent = 1"),
        ("max = 8", "max = 4", "rounds.max: found 4, expected 5"),
        ("max = 8", "most = 8", "unknown field `most`"),
    ] {
        place.file("rounds.toml", ROUNDS.replace("RANGE", "20").replace(old, new).as_bytes());
        place.iosonde(run).end().exits(2).says(says);
    }
    assert!(place.kept().is_empty());
}

/// Scaled, and labelled as such wherever it is shown.
#[test]
fn a_pts_style_experiment_claims_nothing() {
    let place = Place::new();
    let words = format!(
        "experiment run pts-iops-core {SIM} --ioengine sim --seed 1 --seconds 0.2 \
         --output-format json"
    );
    let ended = place.iosonde(&words).end();
    assert!([Some(0), Some(3)].contains(&ended.code), "{}", ended.err);
    let value: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(value["conformance"]["claim"], "none");
    let basis = value["conformance"]["basis"].as_str().unwrap();
    assert!(basis.starts_with("SNIA SSS PTS 2.0.2"), "{basis}");
    let deviations: Vec<&str> = value["conformance"]["deviations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| each.as_str().unwrap())
        .collect();
    for expected in ["purge:none", "cell_time:0.2 s instead of 60 s", "cells:9 of 56"] {
        assert!(deviations.contains(&expected), "{deviations:?}");
    }
    let label = "scaled: not a SNIA PTS result";
    assert!(value["title"].as_str().unwrap().contains(label));
    let folder = only(&place);
    for picture in listing(&folder.join("figures")) {
        let svg = fs::read_to_string(&picture).unwrap();
        assert!(svg.contains(label), "{}", picture.display());
    }
    assert!(fs::read_to_string(folder.join("report.html")).unwrap().contains(label));
}
