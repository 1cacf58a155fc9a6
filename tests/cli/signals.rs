//! Signals in every phase: finished results are printed and stored, and no file is left.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use iosonde_rig::skip;
use rustix::process::Signal;
use serde_json::Value;

use super::program::{Call, Ended, Place, Running, listing};

/// Long enough that no phase ends by itself.
const LONG: &str = "check . 256M --seconds 60 --threads 1 --eta-interval 0.1";
const SHORT: &str = "check . 256M --seconds 1 --threads 1 --eta-interval 0.1";

/// Free bytes on the file system of a directory.
fn free_bytes(directory: &Path) -> u64 {
    let facts = rustix::fs::statvfs(directory).unwrap();
    facts.f_bfree * facts.f_frsize
}

fn interrupted(running: Running) -> Ended {
    running.signal(Signal::INT).end().exits(130)
}

fn manifest(place: &Place) -> Value {
    let kept = place.kept();
    assert_eq!(kept.len(), 1, "{kept:?}");
    serde_json::from_slice(&fs::read(kept[0].join("manifest.json")).unwrap()).unwrap()
}

#[test]
fn interrupt_while_laying_out() {
    for json in [false, true] {
        let place = Place::new();
        let words = LONG.replace("256M", "2G");
        let mut call = place.iosonde(&words);
        if json {
            call = call.arg("--output-format=json");
        }
        let ended = interrupted(call.start().until_stderr("preparing 2 GiB"));
        let ended = ended.says("interrupted while preparing");
        if json {
            let document = ended.json();
            assert_eq!(document["error"]["kind"], "interrupted");
        }
        assert!(place.kept().is_empty() && listing(&place.work()).is_empty());
    }
}

#[test]
fn without_a_verb_it_checks_the_current_directory_and_says_so() {
    let place = Place::new();
    let ended = interrupted(place.iosonde("").start().until_stderr("[1/8] "));
    ended.says("no verb given: iosonde check . (iosonde check --dry-run shows what it would write");
    assert!(listing(&place.work()).is_empty());
}

#[test]
fn interrupt_during_warm_up() {
    let place = Place::new();
    let call = place.iosonde(LONG).arg("--output-format=json");
    let ended = interrupted(call.start().until_stderr("[1/8] "));
    let document = ended.json();
    assert_eq!(document["complete"], false);
    assert_eq!(document["cells"].as_array().map(Vec::len), Some(0));
    assert!(place.kept().is_empty(), "nothing was measured: {:?}", place.kept());
    assert!(listing(&place.work()).is_empty());
}

#[test]
fn interrupt_while_measuring() {
    let place = Place::new();
    place.hole("data", 64 << 20);
    let words = "run --path data --rw randrw --runtime 60 --eta-interval 0.1";
    for format in ["normal", "json"] {
        let call = place.iosonde(words).arg(format!("--output-format={format}"));
        let ended =
            interrupted(call.start().until_stderr("IOPS").pause(Duration::from_millis(300)));
        if format == "json" {
            let document = ended.json();
            assert_eq!(document["complete"], false);
            assert_eq!(document["cells"][0]["status"], "partial");
            assert!(document["summary"]["total"]["ops"].as_u64().unwrap() > 0);
        } else {
            ended.prints("IOPS=");
        }
    }
    let kept = place.kept();
    assert_eq!(kept.len(), 2);
    for folder in kept {
        let text = fs::read_to_string(folder.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&manifest["complete"], &manifest["exit_code"]), (&false.into(), &130.into()));
    }
}

#[test]
fn interrupt_in_workload_4_keeps_the_rows_before_it() {
    let place = Place::new();
    // One second each: the fourth progress title belongs to workload 4.
    let ended = interrupted(place.iosonde(SHORT).start().until_stderr("[4/8] "));
    for row in ["Backup", "Recovery", "Database", "partial", "Verdict: "] {
        assert!(ended.out.contains(row), "no {row}: {ended}");
    }
    let ended = ended.lacks("Logging").lacks("Training");
    let manifest = manifest(&place);
    let cells = manifest["cells"].as_array().unwrap();
    assert!(cells.len() == 3 || cells.len() == 4, "{cells:?}, {ended}");
    assert_eq!(cells[2], "03-database.json");
    assert_eq!((&manifest["complete"], &manifest["exit_code"]), (&false.into(), &130.into()));
    assert!(place.kept()[0].join("SHA256SUMS").exists());
    assert!(listing(&place.work()).is_empty());
}

#[test]
fn interrupt_between_two_workloads() {
    let place = Place::new();
    let call = place.iosonde(SHORT).arg("--only=cache,database");
    // The first row is printed when its workload has ended.
    let ended = interrupted(call.start().until_stderr("iosonde: Database: "));
    ended.prints("partial");
    let manifest = manifest(&place);
    assert_eq!(manifest["cells"][0], "01-database.json");
    assert_eq!(manifest["complete"], false);
}

#[test]
fn terminated() {
    let place = Place::new();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let call = place.iosonde(LONG).arg("--output-format=json");
        let ended = call.start().until_stderr("[1/8] ").signal(signal).end().exits(code);
        ended.json();
        assert!(listing(&place.work()).is_empty());
    }
}

#[test]
fn a_second_interrupt_leaves_at_once() {
    // The device takes a minute per request: one interrupt alone would wait for it.
    let words = ["read=const:60s", "write=none"];
    let script = iosonde_rig::Script::from_words(words).unwrap();
    let mount = match iosonde_rig::FuseMount::new(script) {
        Ok(mount) => mount,
        Err(reason) => return skip(reason),
    };
    let place = Place::new();
    let data = mount.path().join("data");
    fs::File::create(&data).unwrap().set_len(1 << 20).unwrap();
    let call = place.iosonde("run --rw randread --runtime 60 --eta-interval 0.1 --path").arg(data);
    let running = call.start().until_stderr("left").signal(Signal::INT);
    let started = Instant::now();
    running.pause(Duration::from_millis(300)).signal(Signal::INT).end().exits(130);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

/// Kills a check in its second workload. Returns the free bytes before and afterwards.
fn kill(place: &Place, directory: &Path, call: Call) -> (u64, u64) {
    rustix::fs::sync();
    let before = free_bytes(directory);
    let running = call.start().until_stderr("[2/2] ");
    let during = free_bytes(directory);
    assert!(during + (200 << 20) < before, "the test file takes its room: {before}, {during}");
    let ended = running.signal(Signal::KILL).end();
    assert_eq!(ended.signal, Some(9));
    assert!(listing(&place.work()).is_empty());
    // The kernel frees the space when the last request has completed.
    let patience = Instant::now() + Duration::from_secs(20);
    while free_bytes(directory) + (16 << 20) < before && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(50));
    }
    (before, free_bytes(directory))
}

#[test]
fn killed_leaves_no_file_and_keeps_what_was_finished() {
    use iosonde_rig::guard::{FsKind, ImageMount};
    let place = Place::new();
    // A separate file system, so that other files do not change its free space.
    let mount = match ImageMount::new(FsKind::Ext4, 2 << 30, "") {
        Ok(mount) => mount,
        Err(reason) => return skip(reason),
    };
    let words = "check --only cache,database --seconds 1 --threads 1 --eta-interval 0.1";
    let call = place.iosonde(words).arg(mount.path()).arg("256M");
    let (before, after) = kill(&place, mount.path(), call);
    assert!(after + (16 << 20) >= before, "{before} free before, {after} after");
    assert_eq!(listing(mount.path()), [mount.path().join("lost+found")]);
    let kept = place.kept();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].extension().and_then(|end| end.to_str()), Some("partial"));
    let cell: Value =
        serde_json::from_slice(&fs::read(kept[0].join("01-database.json")).unwrap()).unwrap();
    assert_eq!(cell["schema"], "iosonde.run/1");
}
