//! Rounds until a steady state, preconditioning, and the built-in experiments that use them: the
//! verdict recomputed by another program, volumes counted by the kernel, interruption.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::program::{Place, json_of, listing};

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

fn only(place: &Place) -> PathBuf {
    let kept = place.kept();
    assert_eq!(kept.len(), 1, "{kept:?}");
    kept[0].clone()
}

fn trials(folder: &Path) -> usize {
    listing(&folder.join("trials")).len()
}

/// The rule of SNIA PTS 2.0.2 in awk on the table of runs: for each window of five rounds the
/// range, and the rise of the least-squares line, of a column of one cell.
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

/// The first window, from 0, that is steady for both tracked figures according to awk.
fn by_awk(folder: &Path, range: f64) -> Option<u64> {
    let (writes, reads) = (
        windows_by_awk(folder, "0 %", "iops_per_s", range),
        windows_by_awk(folder, "100 %", "latency_mean_ns", range),
    );
    assert_eq!(writes.len(), reads.len());
    assert!(!writes.is_empty(), "awk saw no window");
    let both = |(a, b): (&bool, &bool)| *a && *b;
    writes.iter().zip(&reads).position(both).map(|start| start as u64)
}

/// The first steady window of one figure of one cell.
fn by_awk_of(folder: &Path, cell: &str, column: &str, range: f64) -> Option<u64> {
    let windows = windows_by_awk(folder, cell, column, range);
    windows.iter().position(|is_steady| *is_steady).map(|start| start as u64)
}

/// Whether each window is steady.
fn windows_by_awk(folder: &Path, cell: &str, column: &str, range: f64) -> Vec<bool> {
    let table = folder.join("tables/trials.csv");
    let ended = Command::new("awk")
        .args(["-v", &format!("cell={cell}"), "-v", &format!("column={column}")])
        .args(["-v", &format!("range={range}"), AWK])
        .arg(&table)
        .output()
        .unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    text.lines().map(|line| line.ends_with(" steady")).collect()
}

/// Number of runs in each row of `points.csv`.
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
    // Exactly five rounds of three cells.
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
    ended.prints("not steady after 8 rounds").prints("do not describe a");
    let folder = only(&place);
    assert_eq!(trials(&folder), 24);
    assert_eq!(runs_of_points(&folder), ["5", "5", "5"], "the last five rounds");
    assert_eq!(by_awk(&folder, 0.000_01), None);
    assert_eq!(json_of(&folder.join("manifest.json"))["complete"], true);
    // T7: recomputed from the record, the verdict is the same.
    place.iosonde("report --recheck").arg(&folder).end().exits(0);
    place.iosonde("report").arg(&folder).end().exits(3).prints("not steady after 8 rounds");
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
    // A named file keeps its state: it is neither preconditioned nor written again.
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
    // The region itself is within the limit, its two passes are not.
    let limited = "experiment run rounds.toml . --size 256M --max-written 300M";
    place.iosonde(limited).end().exits(2).says("--max-written: found 300 MiB");
    assert!(place.kept().is_empty());
    // Foreign content: the stage is skipped, and the file is not changed.
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

/// A scaled experiment is labelled as such in every output.
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
    for expected in ["purge:simulated", "cell_time:0.2 s instead of 60 s", "cells:9 of 56"] {
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

/// A simulated drive with a translation layer is fast when new. Random writes slow it down until
/// garbage collection keeps up. The state persists across runs until a purge.
#[test]
fn a_simulated_drive_saturates_and_is_as_new_after_a_purge() {
    let place = Place::new();
    let drive = "servers=32,read=20us,write=5us,size=64M,flash=8,flash-block=256k,program=20us";
    let file = |purge: &str| {
        format!(
            "name = \"w\"\nquestion = \"How slow?\"\n[[stage]]\nname = \"a\"\norder = \"given\"\n\
             repeats = 1\nseconds = 0.25\nwarm-up-percent = 0\n{purge}\
             set = {{ rw = \"randwrite\", block-size = \"4k\", iodepth = 8 }}\n\
             rounds = {{ max = 40, track = [{{}}] }}\n"
        )
    };
    let rates = |folder: &Path| -> Vec<f64> {
        let text = fs::read_to_string(folder.join("tables/trials.csv")).unwrap();
        let mut lines = text.lines();
        let at = lines.next().unwrap().split(',').position(|name| name == "iops_per_s").unwrap();
        lines.map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect()
    };
    place.file("w.toml", file("purge = \"any\"\n").as_bytes());
    let words = format!("experiment run w.toml {drive} --ioengine sim --seed 3");
    place.iosonde(&words).end().exits(0).prints("steady in rounds");
    let folder = only(&place);
    let rates = rates(&folder);
    assert!(rates.len() > 5, "the first window is not steady: {rates:?}");
    assert!(rates[0] > 2.0 * rates[rates.len() - 1], "{rates:?}");
    assert_eq!(by_awk_of(&folder, "", "iops_per_s", 0.20), Some(rates.len() as u64 - 5));
    let stage = json_of(&folder.join("stage-a.json"));
    assert_eq!(stage["prepared"][0]["purge"]["method"], "simulated");
}

/// The rounds verify a single pass. With the drive's own spare flash they are steady from the
/// first; without a pass, or with less spare flash, they are not.
#[test]
fn a_single_pass_brings_a_simulated_drive_to_its_steady_state() {
    let place = Place::new();
    let drive = "servers=32,read=20us,write=5us,size=64M,flash=12,flash-block=256k,program=20us";
    let file = |precondition: &str| {
        format!(
            "name = \"w\"\nquestion = \"How slow?\"\n[[stage]]\nname = \"a\"\norder = \"given\"\n\
             repeats = 1\nseconds = 0.25\nwarm-up-percent = 0\npurge = \"any\"\n{precondition}\n\
             set = {{ rw = \"randwrite\", block-size = \"4k\", iodepth = 8 }}\n\
             rounds = {{ max = 40, track = [{{}}] }}\n"
        )
    };
    let single = |spare: u32| {
        format!(
            "precondition = {{ passes = 1, order = \"single-pass\", block-size = \"4k\", \
             iodepth = 8, over-provisioning-percent = {spare} }}"
        )
    };
    let run = |precondition: &str| {
        place.file("w.toml", file(precondition).as_bytes());
        let words = format!("experiment run w.toml {drive} --ioengine sim --seed 3");
        place.iosonde(&words).end().exits(0)
    };
    run(&single(12)).prints("steady in rounds 1 to 5");
    let folder = only(&place);
    let prepared = json_of(&folder.join("stage-a.json"))["prepared"][0].clone();
    assert_eq!(prepared["written_bytes"], (64 << 20) / 4096 * 112 / 100 * 4096u64);
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("a single pass of random 4 KiB writes over its active range and 12 %"));
    run("").prints("steady in rounds 8 to 12");
    run(&single(6)).prints("steady in rounds 2 to 6");
}

#[test]
fn a_file_is_purged_by_giving_its_blocks_back_and_only_with_consent() {
    let place = Place::new();
    let text = "name = \"r\"\nquestion = \"What is left?\"\n[[stage]]\nname = \"a\"\n\
                repeats = 1\nseconds = 0.1\npurge = \"any\"\nset = { rw = \"randread\" }\n";
    place.file("r.toml", text.as_bytes());
    let content = vec![7u8; 16 << 20];
    place.file("photos", &content);
    let run = "experiment run r.toml photos --buffered";
    let refused = place.iosonde(run).end().exits(7);
    refused.prints("it changes the target before its runs, and the target is only read");
    assert!(fs::read(place.work().join("photos")).unwrap() == content);
    let ended = place.iosonde(&format!("{run} --overwrite-file=photos --purge zero")).end();
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    ended.prints("zero: it is a method for block devices");
    assert!(fs::read(place.work().join("photos")).unwrap() == content);
    place.iosonde(&format!("{run} --overwrite-file=photos")).end().exits(0);
    assert!(fs::read(place.work().join("photos")).unwrap().iter().all(|byte| *byte == 0));
    // Names do not order results of the same second.
    let stages = place.kept().into_iter().map(|folder| folder.join("stage-a.json"));
    let mut purges = stages
        .filter(|stage| stage.exists())
        .map(|stage| json_of(&stage)["prepared"][0]["purge"].clone());
    let purge = purges.find(|purge| !purge.is_null()).unwrap();
    assert_eq!((&purge["method"], &purge["blank_blocks"]), (&"recreate".into(), &256.into()));
    let cache = format!("{run} --overwrite-file=photos --write-cache off");
    place
        .iosonde(&cache)
        .end()
        .exits(7)
        .prints("write-cache = off: the target is not a block device");
}

/// Batches of the seed's tests, proven by the arguments of the system call.
#[test]
fn batches_are_submitted_and_completed_as_requested() {
    let place = Place::new();
    if Command::new("strace").arg("-V").output().is_err() {
        return iosonde_rig::skip("strace is not installed");
    }
    place.hole("data", 64 << 20);
    let run = |min: u32| {
        let trace = place.work().join(format!("trace-{min}"));
        let file = place.work().join("one.toml");
        let text = format!(
            "name = \"one\"\nquestion = \"?\"\n[[stage]]\nname = \"a\"\nrepeats = 1\n\
             seconds = 0.3\nwarm-up-percent = 0\nset = {{ rw = \"randread\", iodepth = 64, \
             batch-submit = 64, batch-complete-min = {min}, batch-complete-max = 4096 }}\n"
        );
        fs::write(&file, text).unwrap();
        let ended = Command::new("strace")
            .args(["-f", "-e", "trace=io_uring_enter", "-o"])
            .arg(&trace)
            .arg(iosonde_fixtures::program!().path())
            .args(["experiment", "run", "one.toml", "data", "--eta-interval", "0"])
            .current_dir(place.work())
            .env("HOME", place.home())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let text = fs::read_to_string(&trace).unwrap_or_default();
        // `io_uring_enter(5, 64, 1, IORING_ENTER_GETEVENTS, …`: to submit, to wait for.
        let calls: Vec<(u32, u32)> = text
            .lines()
            .filter_map(|line| line.split("io_uring_enter(").nth(1))
            .filter_map(|call| {
                let mut parts = call.split(", ");
                let (_, submit, wait) = (parts.next()?, parts.next()?, parts.next()?);
                Some((submit.parse().ok()?, wait.parse().ok()?))
            })
            .collect();
        (calls, said)
    };
    let (calls, said) = run(64);
    if calls.is_empty() {
        return iosonde_rig::skip(format!("io_uring was not traced here: {said}"));
    }
    // Calls before the load have other batches.
    let load: Vec<_> = calls.iter().skip_while(|(submit, _)| *submit != 64).collect();
    let full = load.iter().filter(|(submit, _)| *submit == 64).count();
    assert!(full * 10 > load.len() * 8, "most hand over the whole batch: {calls:?}");
    assert!(calls.iter().any(|(_, wait)| *wait == 64), "{calls:?}");
    let (calls, _) = run(1);
    assert!(calls.iter().any(|(submit, _)| *submit == 64), "{calls:?}");
    assert!(calls.iter().all(|(_, wait)| *wait <= 1 || *wait == 64), "{calls:?}");
}
